/* A child of a fork, whatever other threads were doing: every lock of core/lock.h is free in it. Each case
 * is a process of its own, in which nobody has used the library, with a time limit; what it was at when it
 * failed or hung is in memory that it shares with the test. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/lock.h"
#include "tests/support/check.h"
#include "tests/support/sanitizer.h"

enum { LIMIT_SECONDS = 20 };

static const int64_t mib = 1 << 20;

/* ---- processes -------------------------------------------------------------------------------- */

/* Of the innermost process, in memory of all; texts of this program lie in the same place in each. */
static _Atomic(const char *) *at;

/* Runs it in a child; did it end well, and in time? */
static bool goes_well(void (*body)(uintptr_t which), uintptr_t which)
{
    int status = 0;
    const pid_t id = fork();
    if (id == 0) {
        (void)alarm(LIMIT_SECONDS);
        body(which);
        _exit(0);
    }
    return id > 0 && waitpid(id, &status, 0) == id && status == 0;
}

#define assert_goes_well(body, which)                                                           \
    do {                                                                                        \
        atomic_store(at, "the start");                                                          \
        if (!goes_well(body, which))                                                            \
            fail_msg("%s failed, or took more than %d s, at: %s", #body, LIMIT_SECONDS, *(at)); \
    } while (0)

static void require(bool good, const char *what)
{
    if (good)
        return;
    atomic_store(at, what);
    _exit(1);
}

/* ---- calls that take the locks ---------------------------------------------------------------- */

static void take_memory(void)
{
    TERN_SCOPE;
    (void)tern_empty(TERN_SHAPE(40 * mib), .dtype = TERN_U8);
    (void)tern_empty(TERN_SHAPE(700), .dtype = TERN_U8);
    tern_empty_cache(TERN_CPU);
}

static void read_statistics(void)
{
    (void)tern_memory(TERN_CPU);
    (void)tern_memory_stat(TERN_CPU, "allocated_bytes.all.current");
    (void)tern_memory_stat_key(0);
    tern_memory_reset_accumulated(TERN_CPU);
    tern_memory_reset_peak(TERN_CPU);
}

static void set_precision(void)
{
    tern_set_fp32_precision(TERN_FP32_CUDNN, TERN_FP32_TF32);
    (void)tern_fp32_precision(TERN_FP32_CUDNN_CONV);
}

static void hear(tern_log_level_t level, tern_site_t site, const char *text, void *user)
{
    (void)level, (void)site, (void)text, (void)user;
}

static void write_log(void)
{
    tern_log_set_callback(hear, NULL);
    tern_log_write(TERN_LOG_ERROR, NULL, "to a file and a callback");
    tern_log_set_callback(NULL, NULL);
}

static void ask_for_cuda(void)
{
    (void)tern_dev_count(TERN_KIND_CUDA);
    (void)tern_dev_fallback(NULL);
}

static void use_streams(void)
{
    char handle; /* of a stream that was never made */
    (void)tern_stream_priority((tern_stream_t){ TERN_CUDA(0), &handle });
    tern_event_release(tern_event_create());
    tern_clear_workspaces(TERN_CUDA(-1));
}

static void read_pinned(void)
{
    (void)tern_host_memory_stat("allocated_bytes.current");
}

static void read_json(void)
{
    static const char file[] = "\2\0\0\0\0\0\0\0{}";
    tern_safetensors_close(tern_safetensors_open_memory_at(TERN_HERE, file, sizeof file - 1, "{}"));
}

static const struct {
    const char *name;
    void (*call)(void);
} calls[] = { { "memory", take_memory },        { "statistics", read_statistics },
              { "precision", set_precision },   { "the log", write_log },
              { "CUDA", ask_for_cuda },         { "streams and events", use_streams },
              { "pinned memory", read_pinned }, { "JSON", read_json } };

static void call_all(void)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        calls[i].call();
}

/* In the innermost process. */
static void call_each(uintptr_t which)
{
    (void)which;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        atomic_store(at, calls[i].name);
        calls[i].call();
        require(!tern_failed(), calls[i].name);
    }
    require(tern_memory_stat_key(122) != NULL && tern_memory_stat_key(123) == NULL,
            "the names of statistics");
}

/* ---- any moment ------------------------------------------------------------------------------- */

/* Threads last until they are told: one that has ended and was not joined is a leak of the child's. */
static void wait_for(atomic_bool *flag)
{
    while (!atomic_load(flag))
        (void)usleep(100);
}

static void *first_call(void *user)
{
    call_all();
    wait_for(user);
    return NULL;
}

static void *call_until(void *user)
{
    while (!atomic_load((atomic_bool *)user))
        call_all();
    return NULL;
}

static void fork_beside_first_calls(uintptr_t microseconds)
{
    atomic_bool ended = false;
    pthread_t other;
    require(pthread_create(&other, NULL, first_call, &ended) == 0, "a thread");
    (void)usleep((useconds_t)microseconds);
    const bool good = goes_well(call_each, 0);
    atomic_store(&ended, true);
    (void)pthread_join(other, NULL);
    if (!good)
        _exit(1);
}

static void test_a_child_of_a_thread_at_its_first_calls_goes_on(void **state)
{
    (void)state;
    NEED_MALLOC_THAT_FORKS();
    for (uintptr_t i = 0; i < 40; i++)
        assert_goes_well(fork_beside_first_calls, i * 25);
}

static void fork_while_busy(uintptr_t times)
{
    atomic_bool ended = false;
    pthread_t other;
    require(pthread_create(&other, NULL, call_until, &ended) == 0, "a thread");
    for (uintptr_t i = 0; i < times; i++)
        if (!goes_well(call_each, 0))
            _exit(1);
    atomic_store(&ended, true);
    (void)pthread_join(other, NULL);
}

static void test_a_child_of_a_busy_process_goes_on(void **state)
{
    (void)state;
    NEED_MALLOC_THAT_FORKS();
    assert_goes_well(fork_while_busy, 20);
}

/* ---- with each lock taken --------------------------------------------------------------------- */

static const char *const lock_names[] = {
    [CORE_LOCK_CUDA] = "CORE_LOCK_CUDA",
    [CORE_LOCK_PLUGIN] = "CORE_LOCK_PLUGIN",
    [CORE_LOCK_LIBRARIES] = "CORE_LOCK_LIBRARIES",
    [CORE_LOCK_STREAMS] = "CORE_LOCK_STREAMS",
    [CORE_LOCK_ALLOCATORS] = "CORE_LOCK_ALLOCATORS",
    [CORE_LOCK_THREADS] = "CORE_LOCK_THREADS",
    [CORE_LOCK_TENSORS] = "CORE_LOCK_TENSORS",
    [CORE_LOCK_TOTALS] = "CORE_LOCK_TOTALS",
    [CORE_LOCK_NUMERICS] = "CORE_LOCK_NUMERICS",
    [CORE_LOCK_SETTINGS] = "CORE_LOCK_SETTINGS",
    [CORE_LOCK_WORKSPACES] = "CORE_LOCK_WORKSPACES",
    [CORE_LOCK_PINNED] = "CORE_LOCK_PINNED",
    [CORE_LOCK_EVENTS] = "CORE_LOCK_EVENTS",
    [CORE_LOCK_JSON] = "CORE_LOCK_JSON",
    [CORE_LOCK_LOG] = "CORE_LOCK_LOG",
};
_Static_assert(sizeof lock_names / sizeof *lock_names == CORE_LOCKS, "a name each");

typedef struct holder {
    core_lock lock;
    atomic_bool has_it, may_end;
} holder;

/* A fork waits for who has a short lock, so that one ends by itself. */
static void *hold(void *user)
{
    holder *h = user;
    core_lock_take(h->lock);
    atomic_store(&h->has_it, true);
    if (h->lock < CORE_LOCKS_LONG)
        wait_for(&h->may_end);
    else
        (void)usleep(20000);
    core_lock_end(h->lock);
    wait_for(&h->may_end);
    return NULL;
}

static void take_and_go_on(uintptr_t lock)
{
    core_lock_take((core_lock)lock);
    core_lock_end((core_lock)lock);
    call_each(0);
}

static void fork_while_taken(uintptr_t lock)
{
    holder h = { .lock = (core_lock)lock };
    pthread_t other;
    atomic_store(at, lock_names[lock]);
    require(pthread_create(&other, NULL, hold, &h) == 0, "a thread");
    wait_for(&h.has_it);
    const bool good = goes_well(take_and_go_on, lock);
    atomic_store(&h.may_end, true);
    (void)pthread_join(other, NULL);
    if (!good)
        _exit(1);
}

static void test_each_lock_is_free_in_a_child(void **state)
{
    (void)state;
    for (uintptr_t lock = 0; lock < CORE_LOCKS; lock++)
        assert_goes_well(fork_while_taken, lock);
}

static void *take(void *user)
{
    holder *h = user;
    core_lock_take(h->lock);
    atomic_store(&h->has_it, true);
    core_lock_end(h->lock);
    return NULL;
}

/* The owner of a long lock may fork itself, as the search for CUDA does: it goes on owning it. */
static void fork_with_a_long_one(uintptr_t lock)
{
    atomic_store(at, lock_names[lock]);
    core_lock_take((core_lock)lock);
    const pid_t id = fork();
    holder h = { .lock = (core_lock)lock };
    pthread_t other;
    require(core_lock_mine((core_lock)lock), "its owner");
    require(pthread_create(&other, NULL, take, &h) == 0, "a thread");
    (void)usleep(5000);
    require(!atomic_load(&h.has_it), "another owner");
    core_lock_end((core_lock)lock);
    require(pthread_join(other, NULL) == 0 && h.has_it, "the next owner");
    require(!core_lock_mine((core_lock)lock), "its end");
    int status = 0;
    require(id == 0 || (waitpid(id, &status, 0) == id && status == 0), "the child");
}

static void test_an_owner_may_fork(void **state)
{
    (void)state;
    for (uintptr_t lock = 0; lock < CORE_LOCKS_LONG; lock++)
        assert_goes_well(fork_with_a_long_one, lock);
}

/* ---- teams of threads ------------------------------------------------------------------------- */

/* Large enough for two threads, of own kernels and of the libraries where there are some. */
static tern_tensor *of_numbers(void)
{
    return tern_add(tern_rand(TERN_SHAPE(1 << 20)), 1.0);
}

static tern_tensor *of_products(void)
{
    tern_tensor *a = tern_rand(TERN_SHAPE(300, 300), TERN_F64);
    return tern_matmul(a, a);
}

static tern_tensor *of_images(void)
{
    tern_tensor *x = tern_rand(TERN_SHAPE(8, 32, 28, 28));
    return tern_conv2d(x, tern_rand(TERN_SHAPE(32, 32, 3, 3)), NULL, .padding = { 1 });
}

static const struct {
    const char *name;
    tern_tensor *(*make)(void);
} large[] = { { "numbers", of_numbers }, { "products", of_products }, { "images", of_images } };

static double total_of(size_t i)
{
    TERN_SCOPE;
    tern_seed(1);
    return tern_item(tern_sum(large[i].make()));
}

static double parents[sizeof large / sizeof *large];

/* In a child, and then in a child of it. */
static void compute_as_the_parent(uintptr_t generations)
{
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        atomic_store(at, large[i].name);
        require(total_of(i) == parents[i], large[i].name);
    }
    require(!tern_failed(), "an error");
    require(generations == 0 || goes_well(compute_as_the_parent, generations - 1), "a grandchild");
}

static void fork_behind_a_team(uintptr_t which)
{
    (void)which;
    tern_set_num_threads(2);
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        parents[i] = total_of(i);
    const bool good = goes_well(compute_as_the_parent, 1);
    require(good, *(at));
    compute_as_the_parent(0);
}

static void test_a_child_has_a_team_of_its_own(void **state)
{
    (void)state;
    assert_goes_well(fork_behind_a_team, 0);
}

int main(void)
{
    at = mmap(NULL, sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    (void)setenv("TERN_LOG_FILE", "/dev/null", 1);
    (void)setenv("CUDA_VISIBLE_DEVICES", "", 1);
    (void)unsetenv("TERN_DEVICE_POLICY");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_child_of_a_thread_at_its_first_calls_goes_on),
        cmocka_unit_test(test_a_child_of_a_busy_process_goes_on),
        cmocka_unit_test(test_each_lock_is_free_in_a_child),
        cmocka_unit_test(test_an_owner_may_fork),
        cmocka_unit_test(test_a_child_has_a_team_of_its_own),
    };
    return at == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
