/* The cache of casts and a program that empties it while memory runs out. */
#include "core/tensor.h"
#include "tests/support/check.h"

enum { ROWS = 8192, COLUMNS = 1024 };

static int calls;

static bool empty_the_cache(const tern_oom_info_t *info, void *user)
{
    (void)user;
    calls++;
    tern_autocast_clear_cache();
    return tern_set_memory_fraction(info->device, 1) == TERN_OK;
}

static double largest(tern_tensor *t)
{
    return tern_item(tern_amax(t));
}

/* A weight that was cast is changed: the cast of what it is now does not fit at first. */
static void test_the_cache_is_emptied_for_a_cast(void **state)
{
    (void)state;
    const tern_dev_t dev = tern_default_device();
#ifdef CORE_POOL_BYPASS
    if (dev.kind == TERN_KIND_CPU) {
        print_message("skipped: a sanitizer has all memory\n");
        skip();
    }
#endif
    TERN_SCOPE;
    tern_tensor *w = tern_ones(TERN_SHAPE(ROWS, COLUMNS), .requires_grad = true);
    tern_tensor *x = tern_ones(TERN_SHAPE(1, COLUMNS));
    TERN_NO_GRAD;
    TERN_AUTOCAST(dev, TERN_BF16);
    assert_close(largest(tern_linear(x, w, NULL)), COLUMNS, 0);
    tern_mul_(w, 2);
    tern_empty_cache(dev);
    tern_set_memory_fraction(dev, 0);
    for (int i = 0; i < 16 && !tern_failed(); i++) /* what may lie unused */
        (void)tern_empty(TERN_SHAPE(ROWS, COLUMNS), .dtype = TERN_BF16);
    assert_error(TERN_ERR_OOM, "out of memory");
    tern_set_oom_callback(empty_the_cache, NULL);
    tern_tensor *y = tern_linear(x, w, NULL);
    tern_set_oom_callback(NULL, NULL);
    assert_no_error();
    assert_int_equal(calls, 1);
    assert_close(largest(y), 2 * COLUMNS, 0);
    tern_tensor *other = tern_full(77, TERN_SHAPE(ROWS, COLUMNS)); /* is not the weight's memory */
    assert_true(tern_data_ptr(other) != tern_data_ptr(w));
    assert_close(largest(w), 2, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_the_cache_is_emptied_for_a_cast) };
    const int failed = check_run(tests, NULL, NULL);
    return tern_finish() != 0 || failed;
}
