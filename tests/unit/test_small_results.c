/* Small results, which are made and ended at once when their places lie on the thread's lists: what may
 * be asked of memory meets them, too (for history see test_cpu_memory.c). */
#include <pthread.h>

#include "core/pool.h"
#include "tern/debug.h"
#include "tests/support/check.h"

/* Leaves places of small tensors on the calling thread's lists. */
static void fill_lists(void)
{
    TERN_SCOPE;
    for (int i = 0; i < 3; i++)
        (void)tern_neg(tern_zeros(TERN_SHAPE(2, 5)));
}

static void test_failures_meet_them(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_zeros(TERN_SHAPE(2, 5));
    fill_lists();
    for (int k = 1; k <= 2; k++) { /* the tensor, its data */
        const int64_t live = tern_live_tensors();
        tern_debug_fail_allocation(k);
        tern_tensor *y = tern_neg(x);
        tern_debug_fail_allocation(0);
        assert_null(y);
        assert_int_equal(tern_error_code(), TERN_ERR_OOM);
        tern_error_clear();
        assert_int_equal(tern_live_tensors(), live);
    }
}

#ifndef CORE_POOL_BYPASS /* without lists an address may come again anywhere */
static void *end_and_make(void *user)
{
    TERN_SCOPE;
    tern_tensor *x = tern_zeros(TERN_SHAPE(2, 5));
    fill_lists();
    tern_release(user);
    for (int i = 0; i < 4; i++)
        assert_ptr_not_equal(tern_neg(x), user);
    return NULL;
}

static void test_they_go_home(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *t = tern_neg(tern_zeros(TERN_SHAPE(2, 5)));
    (void)tern_retain(t);
    tern_drop(t);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, end_and_make, t), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failures_meet_them),
#ifndef CORE_POOL_BYPASS
        cmocka_unit_test(test_they_go_home),
#endif
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
