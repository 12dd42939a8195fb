/* A callback of the log may use what the event is about: events come without locks. Each case is a process of
 * its own, with a time limit. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/alloc/alloc.h"
#include "core/device_memory.h"
#include "tests/support/check.h"

enum { LIMIT_SECONDS = 10 };

typedef struct use {
    const char *variable, *value; /* in the environment */
    const char *words;            /* of the event */
    void (*call)(void);           /* makes the event, and what the callback does then */
} use;

static const char *words;
static void (*call)(void);
static int heard, others;

static void listen(tern_log_level_t level, tern_site_t site, const char *text, void *user)
{
    (void)level, (void)site, (void)user;
    if (strstr(text, words) != NULL)
        heard++;
    else
        others++;
    call();
}

/* Is the event heard once, by a callback that does the same call again? */
static bool goes_well(use u)
{
    int status = 0;
    const pid_t id = fork();
    if (id == 0) {
        (void)alarm(LIMIT_SECONDS);
        (void)setenv(u.variable, u.value, 1);
        words = u.words;
        call = u.call;
        tern_log_set_callback(listen, NULL);
        call();
        call();
        if (heard != 1 || others != 0 || tern_failed())
            print_error("heard %d times, others %d times: %s\n", heard, others, tern_error_text());
        _exit(heard == 1 && others == 0 && !tern_failed() ? 0 : 1);
    }
    const bool ended = id > 0 && waitpid(id, &status, 0) == id;
    if (ended && WIFSIGNALED(status))
        print_error("ended by signal %d (%d: it hung)\n", WTERMSIG(status), SIGALRM);
    return ended && status == 0;
}

#define assert_goes_well(...) assert_true(goes_well((use){ __VA_ARGS__ }))

/* ---- tests ------------------------------------------------------------------------------------- */

static void make_tensor(void)
{
    TERN_SCOPE;
    (void)tern_ones(TERN_SHAPE(1000));
}

static void test_memory_of_the_cpu(void **state)
{
    (void)state;
    assert_goes_well("TERN_CPU_CACHE", "much", "TERN_CPU_CACHE: 'much' is not on, off",
                     make_tensor);
    assert_goes_well("TERN_ALLOC_CONF", "x:1", "TERN_ALLOC_CONF: unknown key 'x'", make_tensor);
    assert_goes_well("PYTORCH_ALLOC_CONF", "x:1", "PYTORCH_ALLOC_CONF: unknown key 'x'",
                     make_tensor);
}

static void test_words_that_mean_nothing(void **state)
{
    (void)state;
    assert_goes_well("TERN_CPU_ISA", "avx", "TERN_CPU_ISA: 'avx' is none of base, avx2, avx512",
                     make_tensor);
    assert_goes_well("TERN_CPU_TUNING", "zen",
                     "TERN_CPU_TUNING: 'zen' is none of zen5, zen4, intel, avx2: it has no",
                     make_tensor);
    assert_goes_well("TERN_CPU_ISA", "base\r\xff", "TERN_CPU_ISA: 'base\\r\\xff' is none of",
                     make_tensor);
    assert_goes_well("TERN_ALLOC_CONF", "x\n:1", "TERN_ALLOC_CONF: unknown key 'x\\n'",
                     make_tensor);
    assert_goes_well("TERN_CPU_CACHE", "off\r", "TERN_CPU_CACHE: 'off\\r' is not on", make_tensor);
    assert_goes_well("TERN_CPU_BLAS", "no", "TERN_CPU_BLAS: 'no' is none of on, off", make_tensor);
    assert_goes_well("TERN_CPU_HALF", "fp32", "'fp32' is none of f32, native, library: it has no",
                     make_tensor);
    assert_goes_well("TERN_OOM", "CPU", "TERN_OOM: 'CPU' is none of error, cpu: error holds",
                     make_tensor);
    assert_goes_well("TERN_CUDA_SYNC", "yes", "TERN_CUDA_SYNC: 'yes' is none of 0, 1: it has no",
                     make_tensor);
    assert_goes_well("TERN_NO_CACHE", "off", "'off' is none of 0, 1: 1 holds", make_tensor);
}

static void read_pinned(void)
{
    (void)tern_host_memory_stat("num_host_alloc");
}

static void test_page_locked_memory(void **state)
{
    (void)state;
    assert_goes_well("TERN_ALLOC_CONF", "x:1", "TERN_ALLOC_CONF: unknown key 'x'", read_pinned);
}

static void ask_for_cuda(void)
{
    (void)tern_dev_count(TERN_KIND_CUDA);
    tern_set_device_policy(TERN_PREFER);
}

static void test_the_policy(void **state)
{
    (void)state;
    assert_goes_well("TERN_DEVICE_POLICY", "require\r", "TERN_DEVICE_POLICY=require\\r is none of",
                     ask_for_cuda);
    assert_goes_well("TERN_DEVICE_POLICY", "soft", "TERN_DEVICE_POLICY=soft is none of",
                     ask_for_cuda);
}

static void make_tensor_there(void)
{
    TERN_SCOPE;
    char path[1024];
    const char *plugins = getenv("TERN_TEST_PLUGINS");
    (void)snprintf(path, sizeof path, "%s/tern_null_backend.so", plugins != NULL ? plugins : ".");
    if (tern_dev_count(TERN_KIND_EXT) == 0)
        (void)tern_plugin_load(path);
    (void)tern_empty(TERN_SHAPE(1000), .device = TERN_EXT(0));
}

static void use_device(void)
{
    make_tensor_there();
    core_alloc *a = core_device_allocator_of(TERN_EXT(0));
    if (a == NULL || core_alloc_settings_of(a).max_split_bytes != 40 << 20)
        print_error("the other settings do not hold\n"), _exit(1);
}

/* A device without virtual memory, and one that does not say its size. */
static void test_memory_of_a_device(void **state)
{
    (void)state;
    assert_goes_well("TERN_ALLOC_CONF", "expandable_segments:True,max_split_size_mb:40",
                     "expandable_segments has no effect: backend null", use_device);
    assert_goes_well("TERN_ALLOC_CONF", "per_process_memory_fraction:0.5,max_split_size_mb:40",
                     "per_process_memory_fraction has no effect: backend null", use_device);
}

static void make_both(void)
{
    make_tensor();
    make_tensor_there();
}

/* Nobody needs memory of the CPU for that; where both are used it is heard once. */
static void test_words_that_mean_nothing_to_a_device(void **state)
{
    (void)state;
    static const char *const event = "TERN_OOM: 'CPU' is none of error, cpu: error holds";
    assert_goes_well("TERN_OOM", "CPU", event, make_tensor_there);
    assert_goes_well("TERN_OOM", "CPU", event, make_both);
    assert_goes_well("TERN_CUDA_SYNC", "yes", "'yes' is none of 0, 1: it has no",
                     make_tensor_there);
    assert_goes_well("TERN_NO_CACHE", "off", "'off' is none of 0, 1: 1 holds", make_tensor_there);
}

static void clear(tern_log_level_t level, tern_site_t site, const char *text, void *user)
{
    (void)site, (void)text, (void)user;
    if (level == TERN_LOG_ERROR) {
        heard++;
        tern_error_clear();
    }
}

/* The call goes on behind the event, and has to end in the error. */
static void test_an_error_outlives_a_callback_that_clears_it(void **state)
{
    (void)state;
    heard = 0;
    tern_log_set_callback(clear, NULL);
    tern_backward(NULL);
    assert_error(TERN_ERR_ARGUMENT, "backward: the root is NULL\n");
    tern_set_requires_grad(NULL, true);
    assert_non_null(tern_error_site());
    assert_error(TERN_ERR_ARGUMENT, "set_requires_grad: the tensor is NULL\n");
    tern_log_set_callback(NULL, NULL);
    assert_int_equal(heard, 2);
}

int main(void)
{
    static const char *const unset[] = {
        "TERN_DEVICE_POLICY",      "TERN_SIM_DEVICES", "TERN_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
        "PYTORCH_CUDA_ALLOC_CONF", "TERN_CPU_CACHE",   "TERN_LOG",        "TERN_CPU_ISA",
        "TERN_CPU_BLAS",           "TERN_CPU_HALF",    "TERN_OOM",        "TERN_NO_CACHE",
        "TERN_CPU_TUNING"
    };
    for (size_t i = 0; i < sizeof unset / sizeof *unset; i++)
        (void)unsetenv(unset[i]);
    (void)setenv("CUDA_VISIBLE_DEVICES", "", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_of_the_cpu),
        cmocka_unit_test(test_words_that_mean_nothing),
        cmocka_unit_test(test_page_locked_memory),
        cmocka_unit_test(test_the_policy),
        cmocka_unit_test(test_memory_of_a_device),
        cmocka_unit_test(test_words_that_mean_nothing_to_a_device),
        cmocka_unit_test(test_an_error_outlives_a_callback_that_clears_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
