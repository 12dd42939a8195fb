/* Matrix products on simulated devices, and the settings of precision and repetition that they heed. */
#include <stdlib.h>

#include "tests/support/check.h"

static int clear(void **state)
{
    (void)state;
    tern_error_clear();
    return 0;
}

/* ---- repeating --------------------------------------------------------------------------------- */

static tern_tensor *gather_loss(void)
{
    tern_tensor *x = tern_ones(TERN_SHAPE(4), .device = TERN_CUDA(0), .requires_grad = true);
    return tern_sum(
        tern_gather(x, 0, tern_zeros(TERN_SHAPE(3), .dtype = TERN_I64, .device = TERN_CUDA(0))));
}

static void test_ops_that_do_not_repeat_are_refused(void **state) /* R022 */
{
    (void)state;
    TERN_SCOPE;
    tern_use_deterministic_algorithms(true);
    tern_backward(gather_loss());
    assert_error(TERN_ERR_UNSUPPORTED, "gather_grad does not have a deterministic implementation");
    tern_use_deterministic_algorithms(true, .warn_only = true);
    tern_backward(gather_loss());
    assert_no_error();
    tern_use_deterministic_algorithms(false);
    tern_backward(gather_loss());
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_ops_that_do_not_repeat_are_refused, clear),
    };
    (void)setenv("TERN_SIM_DEVICES", "2", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
