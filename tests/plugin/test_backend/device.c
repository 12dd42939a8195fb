/* Arena, queue and tables of the tests' device. See device.h. */
#include "device.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* What is handed out, by address; kept on the host, because the arena cannot be touched. */
typedef struct range {
    struct range *next;
    char *data;
    int64_t bytes;
} range;

typedef struct device {
    char *arena;
    range *ranges;
    work *first, **last;
    int64_t queued, done, used; /* works so far, bytes handed out */
} device;

static device devices[DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool open_device(device *d)
{
    if (d->arena != NULL)
        return true;
    void *arena =
        mmap(NULL, ARENA_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED)
        return false;
    d->arena = arena;
    d->last = &d->first;
    return true;
}

static int64_t rounded(int64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* The lowest gap that fits. */
static void *device_alloc(void *context, int index, int64_t bytes, void *stream)
{
    (void)context, (void)stream;
    device *d = &devices[index];
    const int64_t size = rounded(bytes);
    range *made = malloc(sizeof *made);
    void *data = NULL;
    pthread_mutex_lock(&lock);
    if (made != NULL && open_device(d)) {
        char *end = d->arena; /* of the range before the gap */
        range **at = &d->ranges;
        for (; *at != NULL && (*at)->data - end < size; at = &(*at)->next)
            end = (*at)->data + (*at)->bytes;
        if (*at != NULL || d->arena + ARENA_BYTES - end >= size) {
            *made = (range){ *at, end, size };
            *at = made;
            data = end;
            made = NULL;
            d->used += size;
        }
    }
    pthread_mutex_unlock(&lock);
    free(made);
    return data;
}

/* The queue is in order, so memory may be given out again at once: later work runs later. */
static void device_free(void *context, int index, void *data, int64_t bytes, void *stream)
{
    (void)context, (void)bytes, (void)stream;
    pthread_mutex_lock(&lock);
    range **at = &devices[index].ranges;
    while ((*at)->data != data)
        at = &(*at)->next;
    range *gone = *at;
    *at = gone->next;
    devices[index].used -= gone->bytes;
    pthread_mutex_unlock(&lock);
    free(gone);
}

/* ---- queue -------------------------------------------------------------------------------------- */

static void push(int index, work *w)
{
    pthread_mutex_lock(&lock);
    device *d = &devices[index];
    (void)open_device(d);
    w->next = NULL;
    *d->last = w;
    d->last = &w->next;
    d->queued++;
    pthread_mutex_unlock(&lock);
}

/* Runs all that waits, with the arena open. Called with the lock. */
static void drain(device *d)
{
    if (d->arena == NULL || d->first == NULL)
        return;
    (void)mprotect(d->arena, ARENA_BYTES, PROT_READ | PROT_WRITE);
    for (work *w = d->first, *next; w != NULL; w = next) {
        next = w->next;
        if (w->body != NULL)
            w->body(w);
        else
            memcpy(w->dst, w->staging, (size_t)w->bytes);
        free(w->staging);
        free(w);
    }
    d->first = NULL;
    d->last = &d->first;
    d->done = d->queued;
    (void)mprotect(d->arena, ARENA_BYTES, PROT_NONE);
}

static tern_status_t device_synchronize(void *context, int index)
{
    (void)context;
    pthread_mutex_lock(&lock);
    drain(&devices[index]);
    pthread_mutex_unlock(&lock);
    return TERN_OK;
}

static double host_number(const tern_view *v)
{
    return v->dev.kind == TERN_KIND_CPU ? view_get(v, 0) : 0;
}

/* One dtype is missing here, so that tests see how the library says so. */
static bool is_missing(const tern_view *v)
{
    return v != NULL && v->dtype == TERN_I16;
}

tern_status_t enqueue(const tern_call *call, void (*body)(work *w), size_t attr_bytes)
{
    for (int i = 0; i < call->n_in; i++)
        if (is_missing(call->in[i]))
            return TERN_ERR_UNSUPPORTED;
    for (int i = 0; i < call->n_out; i++)
        if (is_missing(call->out[i]))
            return TERN_ERR_UNSUPPORTED;
    work *w = calloc(1, sizeof *w);
    if (w == NULL)
        return call->host->fail(TERN_ERR_OOM, "no host memory for the queue");
    w->body = body;
    w->n_in = call->n_in;
    w->n_out = call->n_out;
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i] != NULL) {
            w->has_in[i] = true;
            w->in[i] = *call->in[i];
            w->host_value[i] = host_number(call->in[i]);
        }
    for (int i = 0; i < call->n_out; i++)
        w->out[i] = *call->out[i];
    if (attr_bytes > 0)
        memcpy(w->attr, call->attr, attr_bytes);
    push(call->dev.index, w);
    return TERN_OK;
}

/* ---- events: how much had been queued when they were recorded -------------------------------------- */

static tern_status_t event_create(void *context, int index, void **out_event)
{
    (void)context, (void)index;
    *out_event = calloc(1, sizeof(int64_t));
    return *out_event != NULL ? TERN_OK : TERN_ERR_OOM;
}

static tern_status_t event_record(void *context, int index, void *event, void *stream)
{
    (void)context, (void)stream;
    pthread_mutex_lock(&lock);
    *(int64_t *)event = devices[index].queued;
    pthread_mutex_unlock(&lock);
    return TERN_OK;
}

static tern_status_t event_query(void *context, int index, void *event, bool *out_done)
{
    (void)context;
    pthread_mutex_lock(&lock);
    *out_done = *(int64_t *)event <= devices[index].done;
    pthread_mutex_unlock(&lock);
    return TERN_OK;
}

static tern_status_t event_synchronize(void *context, int index, void *event)
{
    (void)event;
    return device_synchronize(context, index);
}

static tern_status_t event_destroy(void *context, int index, void *event)
{
    (void)context, (void)index;
    free(event);
    return TERN_OK;
}

/* ---- copies -------------------------------------------------------------------------------------- */

static tern_status_t from_host(void *context, int index, void *dst, const void *src, int64_t bytes,
                               void *stream)
{
    (void)context, (void)stream;
    work *w = calloc(1, sizeof *w);
    void *staging = malloc((size_t)bytes);
    if (w == NULL || staging == NULL) {
        free(w);
        free(staging);
        return TERN_ERR_OOM;
    }
    memcpy(staging, src, (size_t)bytes);
    w->staging = staging;
    w->dst = dst;
    w->bytes = bytes;
    push(index, w);
    return TERN_OK;
}

static tern_status_t to_host(void *context, int index, void *dst, const void *src, int64_t bytes,
                             void *stream)
{
    (void)context, (void)stream;
    device *d = &devices[index];
    pthread_mutex_lock(&lock);
    drain(d);
    (void)mprotect(d->arena, ARENA_BYTES, PROT_READ);
    memcpy(dst, src, (size_t)bytes);
    (void)mprotect(d->arena, ARENA_BYTES, PROT_NONE);
    pthread_mutex_unlock(&lock);
    return TERN_OK;
}

/* ---- tables -------------------------------------------------------------------------------------- */

static tern_status_t device_info(void *context, int index, int64_t *out_free, int64_t *out_total)
{
    (void)context;
    pthread_mutex_lock(&lock);
    *out_total = ARENA_BYTES;
    *out_free = ARENA_BYTES - devices[index].used;
    pthread_mutex_unlock(&lock);
    return TERN_OK;
}

static const tern_host *library;

static void *host_alloc(void *context, int64_t bytes)
{
    (void)context;
    if (bytes > ARENA_BYTES) {
        (void)library->fail(TERN_ERR_BACKEND, "the tests' device pins no more than it has");
        return NULL;
    }
    return aligned_alloc(64, (size_t)((bytes + 63) / 64 * 64));
}
static void host_free(void *context, void *data, int64_t bytes)
{
    (void)context, (void)bytes;
    free(data);
}

static const tern_backend_memory memory = { .size = sizeof memory,
                                            .alloc = device_alloc,
                                            .free = device_free,
                                            .info = device_info,
                                            .host_alloc = host_alloc,
                                            .host_free = host_free };
static const tern_backend_event event = { .size = sizeof event,
                                          .create = event_create,
                                          .record = event_record,
                                          .query = event_query,
                                          .synchronize = event_synchronize,
                                          .destroy = event_destroy };
static const tern_backend_copy copy = { .size = sizeof copy,
                                        .from_host = from_host,
                                        .to_host = to_host };
static const tern_backend_stream stream = { .size = sizeof stream,
                                            .synchronize = device_synchronize };
static tern_backend backend;

TERN_API const tern_backend *tern_backend_get(const tern_host *host, uint32_t version,
                                              const char **out_why);
const tern_backend *tern_backend_get(const tern_host *host, uint32_t version, const char **out_why)
{
    library = host;
    if (version != TERN_PLUGIN_VERSION) {
        *out_why = "the tests' backend speaks another version of the plugin interface";
        return NULL;
    }
    backend = (tern_backend){ .size = sizeof backend,
                              .version = TERN_PLUGIN_VERSION,
                              .name = "test",
                              .kind = TERN_KIND_EXT,
                              .device_count = DEVICES,
                              .memory = &memory,
                              .copy = &copy,
                              .stream = &stream,
                              .event = &event,
                              .kernels = test_kernels,
                              .kernel_count = test_kernel_count };
    return &backend;
}
