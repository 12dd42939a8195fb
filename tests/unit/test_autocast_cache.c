/* The cache of casts and a program that empties it while memory runs out. */
#include "tests/support/check.h"

static int calls;

static bool empty_the_cache(const tern_oom_info_t *info, void *user)
{
    (void)info;
    (void)user;
    calls++;
    tern_autocast_clear_cache();
    tern_set_memory_fraction(TERN_CPU, 1);
    return true;
}

/* A weight that was cast is changed: the cast of what it is now does not fit at first. */
static void test_the_cache_is_emptied_for_a_cast(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *w = tern_ones(TERN_SHAPE(4096, 2048), .requires_grad = true);
    tern_tensor *x = tern_ones(TERN_SHAPE(4, 2048));
    TERN_NO_GRAD;
    TERN_AUTOCAST(TERN_CPU, TERN_BF16);
    assert_close(tern_item(tern_amax(tern_linear(x, w, NULL))), 2048, 0);
    tern_mul_(w, 2);
    tern_empty_cache(TERN_CPU);
    tern_set_memory_fraction(TERN_CPU, 0);
    for (int i = 0; i < 16 && !tern_failed(); i++) /* what may lie unused */
        (void)tern_empty(TERN_SHAPE(4096, 2048), .dtype = TERN_BF16);
    if (!tern_failed()) { /* a build for sanitizers asks the system each time */
        tern_set_memory_fraction(TERN_CPU, 1);
        print_message("not run: there is no limit here\n");
        return;
    }
    tern_error_clear();
    tern_set_oom_callback(empty_the_cache, NULL);
    tern_tensor *y = tern_linear(x, w, NULL);
    tern_set_memory_fraction(TERN_CPU, 1);
    tern_set_oom_callback(NULL, NULL);
    assert_no_error();
    assert_true(calls > 0);
    assert_close(tern_item(tern_amax(y)), 4096, 0);
    tern_tensor *other = tern_full(77, TERN_SHAPE(4096, 2048)); /* is not the weight's memory */
    assert_true(tern_data(other) != tern_data(w));
    assert_close(tern_item(tern_amax(w)), 2, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_the_cache_is_emptied_for_a_cast) };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 || failed;
}
