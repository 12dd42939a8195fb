/* Libraries of the simulated machine: which there are, and how their work gets into streams. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend_cuda/sim/dnn.h"

static const sim_function no_functions[] = { { NULL, NULL } };
static const struct {
    const char *file;
    const sim_function *functions;
} libraries[] = {
    { "libcublas.so.13", sim_cublas_functions },
    { "libcublasLt.so.13", sim_cublaslt_functions },
    { "libcudnn.so.9", sim_dnn_functions },
    { "libcudnn_graph.so.9", no_functions }, /* parts, which the one before opens */
    { "libcudnn_ops.so.9", no_functions },
    { "libcudnn_cnn.so.9", no_functions },
    { "libnvidia-ml.so.1", sim_nvml_functions },
    { NULL, NULL },
};
static char absent[128];

/* ---- opening --------------------------------------------------------------------------------- */

void sim_library_hide(const char *names)
{
    (void)snprintf(absent, sizeof absent, "%s", names);
}

/* Is "libcudnn.so.9" in "cublas,cudnn"? A function, too. */
static bool is_hidden(const char *file)
{
    const char *name = strncmp(file, "lib", 3) == 0 ? file + 3 : file;
    const size_t length = strcspn(name, ".");
    for (const char *at = absent; *at != '\0'; at += strcspn(at, ",")) {
        at += *at == ',';
        if (strcspn(at, ",") == length && strncmp(at, name, length) == 0)
            return true;
    }
    return false;
}

static _Thread_local char loader_error[96];

void *sim_dlopen(const char *file, int mode)
{
    (void)mode;
    sim_settings_load();
    for (size_t i = 0; libraries[i].file != NULL; i++)
        if (strcmp(libraries[i].file, file) == 0 && !is_hidden(file)) {
            const sim_function *functions = libraries[i].functions;
            void *library = NULL;
            memcpy(&library, &functions, sizeof library);
            return library;
        }
    (void)snprintf(loader_error, sizeof loader_error, "%s: absent from the simulated machine",
                   file);
    return NULL;
}

void *sim_dlsym(void *library, const char *name)
{
    void *address = NULL;
    for (const sim_function *f = library; f->name != NULL && !is_hidden(name); f++)
        if (strcmp(f->name, name) == 0)
            memcpy(&address, &f->function, sizeof address);
    return address;
}

int sim_dlclose(void *library)
{
    (void)library;
    return 0;
}

/* They lie in no folder. */
int sim_dlinfo(void *library, int request, void *answer)
{
    (void)library, (void)request, (void)answer;
    return -1;
}

char *sim_dlerror(void)
{
    return loader_error;
}

/* ---- work ------------------------------------------------------------------------------------ */

typedef struct work {
    void (*run)(void *arguments);
    double bytes;  /* that it touches, for the clock */
    char why[256]; /* a fault when it runs, or "" */
    _Alignas(16) char arguments[];
} work;

static void run_work(sim_op *op)
{
    work *w = op->snapshot;
    char call[128];
    sim_device *d = &sim_devices[op->stream->device];
    (void)snprintf(call, sizeof call, "launch:%s", op->what);
    d->lost = sim_fault(call);
    if (d->lost != cudaSuccess) {
        sim_report(d->lost, "injected into %s", op->what);
    } else if (w->why[0] != '\0') {
        d->lost = cudaErrorIllegalAddress;
        sim_report(d->lost, "%s", w->why);
    } else {
        w->run(w->arguments);
    }
}

static void drop_work(sim_op *op)
{
    free(op->snapshot);
    op->snapshot = NULL;
}

sim_op *sim_work_new(cudaStream_t stream, const char *what, void (*run)(void *arguments),
                     size_t bytes, void **out_arguments)
{
    struct CUstream_st *s = sim_stream_of(stream);
    work *w = s != NULL ? calloc(1, sizeof *w + bytes) : NULL;
    sim_op *op = w != NULL ? sim_op_new(s, what) : NULL;
    if (op == NULL) {
        free(w);
        return NULL;
    }
    w->run = run;
    op->snapshot = w;
    op->run = run_work;
    op->drop = drop_work;
    *out_arguments = w->arguments;
    return op;
}

/* A fault that shows when the work runs, as on a GPU; the first one counts. */
static void refuse(sim_op *op, const char *name, const void *view, size_t bytes, const char *where)
{
    work *w = op->snapshot;
    if (w->why[0] == '\0')
        (void)snprintf(w->why, sizeof w->why, "%s of %s, %zu bytes at %p, lies in %s", name,
                       op->what, bytes, view, where);
}

static bool reachable(const sim_op *op, int device)
{
    const int own = op->stream->device;
    return device < 0 || device == own || sim_devices[own].peers[device];
}

bool sim_work_use(sim_op *op, const char *name, const void *view, size_t bytes, bool writes,
                  void **out_alias)
{
    int device = -1;
    char text[256];
    *out_alias = NULL;
    if (bytes == 0)
        return true;
    if (!sim_memory_is_ours(view, &device)) {
        refuse(op, name, view, bytes, "the host's memory");
        return true;
    }
    sim_allocation *x = sim_memory_find(view);
    const int64_t from = x != NULL ? (const char *)view - x->view : 0;
    if (x == NULL || !sim_memory_holds(x, from, (int64_t)bytes) || !reachable(op, device)) {
        (void)snprintf(text, sizeof text, "no allocation");
        if (x != NULL)
            sim_memory_describe(x, text, sizeof text);
        refuse(op, name, view, bytes, text);
        return true;
    }
    *out_alias = sim_memory_alias(view);
    ((work *)op->snapshot)->bytes += (double)bytes;
    return sim_order_access(op, x, view, writes);
}

void sim_work_cancel(sim_op *op)
{
    drop_work(op);
    sim_op_release(op);
}

void sim_work_submit(sim_op *op)
{
    const work *w = op->snapshot;
    sim_clock_place(op, SIM_ENGINE_COMPUTE,
                    sim_config.clock->launch_latency + w->bytes / sim_config.clock->device_bytes);
    sim_counters.launches++;
    sim_op_submit(op);
}
