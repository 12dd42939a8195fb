/* What a steady training step asks for: no memory and no lock, with one thread and with two. This
 * program stands between everything in the process and the C library: the functions below count calls
 * while `counting` is on, and may refuse one. OpenBLAS and oneDNN take buffers of their own for some
 * products: their calls are told apart, and must soon be served from what the process has already.
 * Sanitizers have the same place as this file; there its tests are skipped. */
#include "tests/support/sanitizer.h"
#include "tests/support/check.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "io/safetensors.h"
#include "tests/support/files.h"

static atomic_bool counting;
static atomic_long memory_calls, lock_calls; /* the library's own */
static atomic_long foreign_calls, foreign_mappings;
static atomic_long refuse_in; /* the memory call, counted from now, that gets nothing; 0: none */

#if !HAS_SANITIZER

enum { INTERPOSED = 1 };
#define CALLER __builtin_return_address(0)

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

/* Does the address lie in libtern (which is linked into this program) or in its bridge? */
static bool is_ours(void *address)
{
    Dl_info here, there;
    if (dladdr((void *)&counting, &here) == 0 || dladdr(address, &there) == 0)
        return true;
    return here.dli_fbase == there.dli_fbase || strstr(there.dli_fname, "libtern") != NULL;
}

static void count(atomic_long *calls, void *caller)
{
    if (atomic_load(&counting))
        atomic_fetch_add(is_ours(caller) ? calls : &foreign_calls, 1);
}

static bool refused(void *caller)
{
    count(&memory_calls, caller);
    if (atomic_load(&refuse_in) == 0 || atomic_fetch_sub(&refuse_in, 1) != 1)
        return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t bytes)
{
    return refused(CALLER) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return refused(CALLER) ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *block, size_t bytes)
{
    return refused(CALLER) ? NULL : __libc_realloc(block, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return refused(CALLER) ? NULL : __libc_memalign(alignment, bytes);
}

void *memalign(size_t alignment, size_t bytes)
{
    return refused(CALLER) ? NULL : __libc_memalign(alignment, bytes);
}

int posix_memalign(void **out_block, size_t alignment, size_t bytes)
{
    *out_block = refused(CALLER) ? NULL : __libc_memalign(alignment, bytes);
    return *out_block != NULL ? 0 : ENOMEM;
}

void *mmap(void *place, size_t bytes, int protection, int flags, int file, off_t offset)
{
    if (atomic_load(&counting) && !is_ours(CALLER))
        atomic_fetch_add(&foreign_mappings, 1);
    if (refused(CALLER))
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, place, bytes, protection, flags, file, offset);
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static _Atomic(int (*)(pthread_mutex_t *)) real;
    int (*lock)(pthread_mutex_t *) = atomic_load(&real);
    if (lock == NULL) {
        *(void **)&lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
        atomic_store(&real, lock);
    }
    count(&lock_calls, CALLER);
    return lock(mutex);
}

#else
enum { INTERPOSED = 0 };
#endif

static void need_interposed(void)
{
    if (!INTERPOSED) {
        print_message("skipped: a sanitizer stands where this program would count calls\n");
        skip();
    }
}

/* ---- models ------------------------------------------------------------------------------------ */

typedef struct trainee {
    tern_module *net;
    tern_optimizer *opt;
    tern_tensor *x, *y;
} trainee;

static trainee make_mlp(void)
{
    trainee t;
    t.net =
        tern_sequential(tern_linear_layer(784, 128), tern_relu_layer(), tern_linear_layer(128, 10));
    t.opt = tern_sgd(tern_parameters(t.net), 0.01);
    t.x = tern_retain(tern_randn(TERN_SHAPE(64, 784)));
    t.y = tern_retain(tern_argmax(tern_randn(TERN_SHAPE(64, 10)), 1));
    return t;
}

static trainee make_lenet(void)
{
    trainee t;
    t.net = tern_sequential(
        tern_conv2d_layer(1, 6, 5, .padding = 2), tern_relu_layer(), tern_max_pool2d_layer(2),
        tern_conv2d_layer(6, 16, 5), tern_relu_layer(), tern_max_pool2d_layer(2),
        tern_flatten_layer(), tern_linear_layer(400, 120), tern_relu_layer(),
        tern_linear_layer(120, 84), tern_relu_layer(), tern_linear_layer(84, 10));
    t.opt = tern_adam(tern_parameters(t.net), 1e-3);
    t.x = tern_retain(tern_randn(TERN_SHAPE(64, 1, 28, 28)));
    t.y = tern_retain(tern_argmax(tern_randn(TERN_SHAPE(64, 10)), 1));
    return t;
}

static void train(const trainee *t, int steps)
{
    for (int i = 0; i < steps; i++) {
        TERN_SCOPE;
        tern_tensor *loss = tern_cross_entropy(tern_forward(t->net, t->x), t->y);
        tern_backward(loss);
        tern_step(t->opt);
        tern_zero_grad(t->opt);
    }
    assert_no_error();
}

static void end(trainee *t)
{
    tern_optimizer_free(t->opt);
    tern_module_free(t->net);
    tern_release(t->x);
    tern_release(t->y);
}

/* ---- counting ---------------------------------------------------------------------------------- */

static void start_counting(void)
{
    atomic_store(&memory_calls, 0);
    atomic_store(&lock_calls, 0);
    atomic_store(&foreign_calls, 0);
    atomic_store(&foreign_mappings, 0);
    atomic_store(&counting, true);
}

/* Bytes that the C library has from the system. */
static size_t heap_bytes(void)
{
    const struct mallinfo2 info = mallinfo2();
    return info.arena + info.hblkhd;
}

/* 20 steps, in which the library itself asks for nothing. Did other libraries have more from the system? */
static bool grows_in_steps(const trainee *t, const char *name, int threads)
{
    const int64_t system = tern_memory(TERN_CPU).system_alloc_count;
    const size_t heap = heap_bytes();
    start_counting();
    train(t, 20);
    atomic_store(&counting, false);
    const bool grows = heap_bytes() != heap || atomic_load(&foreign_mappings) != 0;
    const long memory = atomic_load(&memory_calls), locks = atomic_load(&lock_calls);
    if (memory != 0 || locks != 0)
        fail_msg("20 steps of %s, %d threads: %ld allocations, %ld locks", name, threads, memory,
                 locks);
    assert_int_equal(tern_memory(TERN_CPU).system_alloc_count, system);
    return grows;
}

/* How many buffers of other libraries are alive at once depends on how two threads meet (OpenBLAS
 * maps its second one when two of its products first overlap): they may take some rounds to have
 * them all. */
static void expect_quiet(trainee t, const char *name, int threads)
{
    enum { ROUNDS = 20 };
    tern_set_num_threads(threads);
    train(&t, 5);
    int round = 0;
    while (grows_in_steps(&t, name, threads) && round < ROUNDS)
        round++;
    print_message("%s, %d threads: %ld allocations and locks inside other libraries\n", name,
                  threads, atomic_load(&foreign_calls));
    end(&t);
    assert_true(round < ROUNDS);
}

static void test_a_steady_step_asks_the_system_for_nothing(void **state)
{
    (void)state;
    need_interposed();
    for (int threads = 1; threads <= 2; threads++) {
        expect_quiet(make_mlp(), "an MLP", threads);
        expect_quiet(make_lenet(), "LeNet-5", threads);
    }
    tern_set_num_threads(1);
}

typedef struct loner {
    trainee model;
    pthread_barrier_t *steady; /* trained, and nobody counts; counted; trained; not counted */
} loner;

static void *train_alone(void *argument)
{
    const loner *l = argument;
    train(&l->model, 5);
    (void)pthread_barrier_wait(l->steady);
    (void)pthread_barrier_wait(l->steady);
    train(&l->model, 20);
    (void)pthread_barrier_wait(l->steady);
    (void)pthread_barrier_wait(l->steady);
    return NULL;
}

/* A model per thread: neither waits for the other anywhere. */
static void test_independent_threads_share_no_lock(void **state)
{
    (void)state;
    need_interposed();
    enum { LONERS = 2 };
    tern_set_num_threads(1);
    pthread_barrier_t steady;
    assert_int_equal(pthread_barrier_init(&steady, NULL, LONERS + 1), 0);
    loner loners[LONERS] = { { make_mlp(), &steady }, { make_lenet(), &steady } };
    pthread_t threads[LONERS];
    for (int i = 0; i < LONERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, train_alone, &loners[i]), 0);
    (void)pthread_barrier_wait(&steady);
    start_counting();
    (void)pthread_barrier_wait(&steady);
    (void)pthread_barrier_wait(&steady);
    atomic_store(&counting, false);
    (void)pthread_barrier_wait(&steady);
    for (int i = 0; i < LONERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        end(&loners[i].model);
    }
    (void)pthread_barrier_destroy(&steady);
    assert_int_equal(atomic_load(&lock_calls), 0);
    assert_int_equal(atomic_load(&memory_calls), 0);
}

/* The counters see what they should: a first step does take memory, a loader does take locks. */
static void test_the_counters_count(void **state)
{
    (void)state;
    need_interposed();
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    trainee t = make_mlp();
    start_counting();
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    tern_tensor *large = tern_empty(TERN_SHAPE(1 << 20));
    atomic_store(&counting, false);
    assert_non_null(large);
    assert_true(atomic_load(&memory_calls) > 0);
    assert_true(atomic_load(&lock_calls) > 0);
    end(&t);
}

/* ---- without memory ------------------------------------------------------------------------------ */

/* Whatever allocation fails while a header is read: the file is never said to be bad. */
static void test_a_header_without_memory_is_no_bad_file(void **state)
{
    (void)state;
    need_interposed();
    tern_state *out = tern_state_create();
    tern_state_set_number(out, "first", 1);
    tern_state_set_number(out, "second", 2);
    tern_state_set_text(out, "key", "text");
    tern_state_save(out, file_path("header"));
    tern_state_free(out);
    assert_no_error();
    long k = 1;
    for (;; k++) {
        const char *path = file_path("header");
        atomic_store(&refuse_in, k);
        tern_safetensors *file = tern_safetensors_open(path);
        const bool reached = atomic_exchange(&refuse_in, 0) <= 0;
        if (!reached) {
            assert_no_error();
            tern_safetensors_close(file);
            break;
        }
        if (file != NULL || tern_error_code() != TERN_ERR_OOM)
            fail_msg("allocation %ld: %s %s", k, tern_status_name(tern_error_code()),
                     tern_error_text());
        tern_error_clear();
    }
    print_message("%ld allocations in opening a file\n", k - 1);
    assert_true(k > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_counters_count),
        cmocka_unit_test(test_a_steady_step_asks_the_system_for_nothing),
        cmocka_unit_test(test_independent_threads_share_no_lock),
        cmocka_unit_test(test_a_header_without_memory_is_no_bad_file),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
