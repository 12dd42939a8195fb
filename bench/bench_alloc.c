/* The caching allocator beside malloc, jemalloc and tcmalloc (opened when they are installed) and the raw
 * call under it: pairs of malloc and free, two threads, requests of real training steps; then what the
 * CPU's own cache does for a step. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/arguments.h"
#include "common/bench.h"
#include "common/recorded.h"
#include "core/alloc/alloc.h"
#include "tern/tern.h"

/* ---- what is compared ---------------------------------------------------------------------------- */

typedef struct subject {
    const char *name;
    void *(*take)(struct subject *s, int64_t bytes);
    void (*give)(struct subject *s, void *memory, int64_t bytes);
    core_alloc *allocator;
    void *stream;
    void *(*malloc)(size_t bytes);
    void (*free)(void *memory);
} subject;

static tern_status_t raw_alloc(void *context, int64_t bytes, void *stream, void **out_data)
{
    (void)context, (void)stream;
    void *data =
        mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *out_data = data;
    return data != MAP_FAILED ? TERN_OK : TERN_ERR_OOM;
}
static tern_status_t raw_free(void *context, void *data, int64_t bytes, void *stream)
{
    (void)context, (void)stream;
    return munmap(data, (size_t)bytes) == 0 ? TERN_OK : TERN_ERR_BACKEND;
}

static void *tern_take(subject *s, int64_t bytes)
{
    return core_alloc_malloc(s->allocator, s->stream, bytes, TERN_HERE, NULL);
}
static void tern_give(subject *s, void *memory, int64_t bytes)
{
    (void)bytes;
    (void)core_alloc_free(s->allocator, memory);
}

static void *other_take(subject *s, int64_t bytes)
{
    return s->malloc((size_t)bytes);
}
static void other_give(subject *s, void *memory, int64_t bytes)
{
    (void)bytes;
    s->free(memory);
}

static void *raw_take(subject *s, int64_t bytes)
{
    (void)s;
    void *data = NULL;
    (void)raw_alloc(NULL, bytes, NULL, &data);
    return data;
}
static void raw_give(subject *s, void *memory, int64_t bytes)
{
    (void)s;
    (void)raw_free(NULL, memory, bytes, NULL);
}

enum { MOST_SUBJECTS = 5 };
static subject subjects[MOST_SUBJECTS];
static int subject_count;

static void add_library(const char *name, const char *file)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return;
    subject *s = &subjects[subject_count];
    *s = (subject){ .name = name, .take = other_take, .give = other_give };
    *(void **)&s->malloc = dlsym(library, "malloc");
    *(void **)&s->free = dlsym(library, "free");
    subject_count += s->malloc != NULL && s->free != NULL;
}

static void add_subjects(void)
{
    const core_alloc_raw raw = { .alloc = raw_alloc, .free = raw_free };
    subjects[subject_count++] = (subject){
        .name = "tern", .take = tern_take, .give = tern_give, .allocator = core_alloc_new(&raw)
    };
    subjects[subject_count++] = (subject){
        .name = "malloc", .take = other_take, .give = other_give, .malloc = malloc, .free = free
    };
    add_library("jemalloc", "libjemalloc.so.2");
    add_library("tcmalloc", "libtcmalloc_minimal.so.4");
    subjects[subject_count++] = (subject){ .name = "mmap", .take = raw_take, .give = raw_give };
}

/* ---- pairs ---------------------------------------------------------------------------------------- */

typedef struct pair_work {
    subject *s;
    int64_t bytes;
} pair_work;

static void pairs(void *user, int64_t repeats)
{
    const pair_work *w = user;
    for (int64_t i = 0; i < repeats; i++) {
        void *volatile memory = w->s->take(w->s, w->bytes);
        w->s->give(w->s, memory, w->bytes);
    }
}

static void bench_pairs(const char *work, int64_t bytes)
{
    for (int i = 0; i < subject_count; i++) {
        pair_work w = { &subjects[i], bytes };
        bench_print(work, subjects[i].name, bench_run(pairs, &w, 0.02, 11));
    }
}

/* Processor time of one thread, so that a machine that is busy elsewhere does not count. */
static double thread_seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum { THREAD_PAIRS = 2000000 };
typedef struct thread_work {
    subject s;
    double seconds; /* out: per pair */
} thread_work;

static void *run_thread(void *user)
{
    thread_work *w = user;
    pair_work p = { &w->s, 1024 };
    pairs(&p, 1000);
    const double start = thread_seconds();
    pairs(&p, THREAD_PAIRS);
    w->seconds = (thread_seconds() - start) / THREAD_PAIRS;
    return NULL;
}

/* The mean time of a pair when `threads` run at once, each on a stream of its own. */
static double threads_pair(const subject *s, int threads)
{
    thread_work work[2];
    pthread_t ids[2];
    double sum = 0;
    for (int i = 0; i < threads; i++) {
        work[i] = (thread_work){ .s = *s };
        work[i].s.stream = (void *)(intptr_t)(16 * (i + 1));
        if (pthread_create(&ids[i], NULL, run_thread, &work[i]) != 0)
            exit(1);
    }
    for (int i = 0; i < threads; i++) {
        (void)pthread_join(ids[i], NULL);
        sum += work[i].seconds;
    }
    return sum / threads;
}

static void bench_threads(void)
{
    for (int i = 0; i < subject_count - 1; i++) {
        const double one = threads_pair(&subjects[i], 1), two = threads_pair(&subjects[i], 2);
        bench_print("pair, thread of 1", subjects[i].name, (bench_result){ one, one, one });
        bench_print("pair, thread of 2", subjects[i].name, (bench_result){ two, two, two });
    }
}

/* ---- recorded steps ---------------------------------------------------------------------------------- */

typedef struct replay_work {
    subject *s;
    const recorded_request *requests;
    int64_t count;
} replay_work;

static void replay(void *user, int64_t repeats)
{
    const replay_work *w = user;
    void *slot[RECORDED_SLOTS];
    int64_t bytes[RECORDED_SLOTS];
    for (int64_t r = 0; r < repeats; r++)
        for (int64_t i = 0; i < w->count; i++) {
            const recorded_request *request = &w->requests[i];
            const int32_t at = request->slot;
            if (request->bytes == 0) {
                w->s->give(w->s, slot[at], bytes[at]);
                continue;
            }
            slot[at] = w->s->take(w->s, request->bytes);
            bytes[at] = request->bytes;
        }
}

static void bench_replay(const char *work, const recorded_request *requests, int64_t count)
{
    for (int i = 0; i < subject_count; i++) {
        replay_work w = { &subjects[i], requests, count };
        bench_print(work, subjects[i].name, bench_run(replay, &w, 0.02, 11));
    }
}

/* ---- the CPU's cache ------------------------------------------------------------------------------------ */

typedef struct step_work {
    tern_module *net;
    tern_optimizer *opt;
    tern_tensor *x, *y;
} step_work;

static void train(void *user, int64_t repeats)
{
    const step_work *w = user;
    for (int64_t i = 0; i < repeats; i++) {
        TERN_SCOPE;
        tern_backward(tern_cross_entropy(tern_forward(w->net, w->x), w->y));
        tern_step(w->opt);
        tern_zero_grad(w->opt);
    }
}

static void add_large(void *user, int64_t repeats)
{
    tern_tensor *a = user;
    for (int64_t i = 0; i < repeats; i++) {
        TERN_SCOPE;
        (void)tern_add(a, a);
    }
}

static void run_steps(const char *variant)
{
    TERN_SCOPE;
    step_work w = { .net = tern_sequential(tern_conv2d_layer(1, 32, 3, .padding = 1),
                                           tern_relu_layer(), tern_max_pool2d_layer(2),
                                           tern_conv2d_layer(32, 64, 3, .padding = 1),
                                           tern_relu_layer(), tern_max_pool2d_layer(2),
                                           tern_flatten_layer(), tern_linear_layer(3136, 128),
                                           tern_relu_layer(), tern_linear_layer(128, 10)) };
    w.opt = tern_adam(tern_parameters(w.net), .lr = 1e-3);
    w.x = tern_randn(TERN_SHAPE(64, 1, 28, 28));
    w.y = tern_argmax(tern_randn(TERN_SHAPE(64, 10)), 1);
    bench_print("cnn step", variant, bench_run(train, &w, 0.05, 11));
    tern_optimizer_free(w.opt);
    tern_module_free(w.net);
    tern_tensor *a = tern_ones(TERN_SHAPE(16 << 20)); /* 64 MiB */
    bench_print("a + b of 64 MiB", variant, bench_run(add_large, a, 0.05, 11));
}

/* In a process of its own: the setting is read once. */
static void steps_with(const char *setting, const char *variant)
{
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        if (setting != NULL)
            (void)setenv("TERN_CPU_CACHE", setting, 1);
        run_steps(variant);
        fflush(stdout);
        _exit(0);
    }
    if (child > 0)
        (void)waitpid(child, NULL, 0);
}

/* jemalloc's thread-local data fits only where room was left for it at the start. */
static void leave_room(char **argv)
{
    if (getenv("GLIBC_TUNABLES") == NULL) {
        (void)setenv("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=65536", 1);
        (void)execv("/proc/self/exe", argv);
    }
}

int main(int argc, char **argv)
{
    leave_room(argv);
    (void)bench_begin(argc, argv, "", NULL);
    steps_with("off", "malloc");
    steps_with("on", "tern");
    add_subjects();
    bench_pairs("pair of 1 KiB", 1024);
    bench_pairs("pair of 64 KiB", 64 << 10);
    bench_pairs("pair of 3 MiB", 3 << 20);
    bench_threads();
    bench_replay("mlp step's requests", recorded_mlp, recorded_mlp_count);
    bench_replay("cnn step's requests", recorded_cnn, recorded_cnn_count);
    core_alloc_delete(subjects[0].allocator);
    return bench_end();
}
