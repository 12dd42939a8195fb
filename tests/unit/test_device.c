/* Device values and strings: rows D001-D018, D027 and the fallback policies. */
#include <stdlib.h>

#include "core/device_memory.h"
#include "core/thread.h"
#include "tests/support/check.h"

static void test_good_strings_parse_and_print_back(void **state) /* D001, D002, D010 */
{
    (void)state;
    static const char *const good[] = { "cpu", "cpu:0", "cuda", "cuda:0", "cuda:15", "cuda:511" };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        tern_dev_t dev;
        char name[TERN_DEV_NAME_BYTES];
        assert_int_equal(tern_dev_parse(good[i], &dev), TERN_OK);
        assert_string_equal(tern_dev_name(dev, name), good[i]);
    }
}

static void test_bad_strings_are_quoted(void **state) /* D003 */
{
    (void)state;
    static const char *const bad[] = { "cuda:",   ":0",      "cuda:-1", "cuda:01",
                                       "cuda:00", "cuda:1a", "cuda 0",  " cuda",
                                       "cuda0",   "cuda::0", "cuda:0 " };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tern_dev_t dev;
        char quoted[64] = "'";
        strcat(strcat(quoted, bad[i]), "'");
        assert_int_equal(tern_dev_parse(bad[i], &dev), TERN_ERR_DEVICE);
        assert_int_equal(dev.kind, TERN_KIND_NONE);
        assert_non_null(strstr(tern_error_text(), quoted));
        assert_error(TERN_ERR_DEVICE, "invalid device string");
    }
}

static void test_empty_string_has_its_own_message(void **state) /* D004 */
{
    (void)state;
    tern_dev_t dev;
    assert_int_equal(tern_dev_parse("", &dev), TERN_ERR_DEVICE);
    assert_error(TERN_ERR_DEVICE, "must not be empty");
    assert_int_equal(tern_dev_parse(NULL, &dev), TERN_ERR_ARGUMENT);
    assert_error(TERN_ERR_ARGUMENT, "the text is NULL");
}

static void test_index_too_large_to_parse(void **state) /* D005, D008 */
{
    (void)state;
    tern_dev_t dev;
    assert_int_equal(tern_dev_parse("cuda:99999999999", &dev), TERN_ERR_DEVICE);
    assert_error(TERN_ERR_DEVICE, "'99999999999' in device string 'cuda:99999999999'");
    assert_int_equal(tern_dev_parse("cuda:512", &dev), TERN_ERR_DEVICE);
    assert_error(TERN_ERR_DEVICE, "'512' in device string 'cuda:512'");
    TERN_SCOPE;
    assert_int_equal(tern_dev_parse("cpu:3", &dev), TERN_OK); /* the CPU's index means nothing */
    assert_true(tern_dev_equal(tern_device(tern_zeros(TERN_SHAPE(1), .device = dev)), TERN_CPU));
}

static void test_unknown_type_lists_the_known(void **state) /* D006 */
{
    (void)state;
    tern_dev_t dev;
    assert_int_equal(tern_dev_parse("CUDA", &dev), TERN_ERR_DEVICE);
    assert_error(TERN_ERR_DEVICE, "expected one of cpu, cuda");
    /* grammar is checked first */
    assert_int_equal(tern_dev_parse("CUDA:", &dev), TERN_ERR_DEVICE);
    assert_error(TERN_ERR_DEVICE, "invalid device string");
}

static void test_equality_is_kind_and_index(void **state) /* D009 */
{
    (void)state;
    tern_dev_t any, zero;
    assert_int_equal(tern_dev_parse("cuda", &any), TERN_OK);
    assert_int_equal(tern_dev_parse("cuda:0", &zero), TERN_OK);
    assert_int_equal(any.index, -1);
    assert_false(tern_dev_equal(any, zero));
    assert_true(tern_dev_equal(zero, TERN_CUDA(0)));
    assert_false(tern_dev_equal(TERN_CPU, TERN_DEV_(TERN_KIND_CPU, 0)));
}

static void test_making_a_value_touches_no_hardware(void **state) /* D013 */
{
    (void)state;
    const tern_dev_t dev = TERN_CUDA(99);
    assert_int_equal(dev.index, 99);
    assert_false(tern_dev_available(dev));
    assert_no_error();
}

static void test_counts_never_fail(void **state) /* D027, D032 */
{
    (void)state;
    assert_int_equal(tern_dev_count(TERN_KIND_CPU), 1);
    assert_int_equal(tern_dev_count(TERN_KIND_CUDA), 0);
    assert_int_equal(tern_dev_count(77), 0);
    assert_true(tern_dev_available(TERN_CPU));
    assert_true(tern_dev_available(TERN_DEV_(TERN_KIND_CPU, 3))); /* tensors are made there, too */
    assert_no_error();
}

static void test_the_cpu_has_no_index(void **state) /* D014 */
{
    (void)state;
    TERN_SCOPE;
    const tern_dev_t cpu0 = TERN_DEV_(TERN_KIND_CPU, 0);
    tern_tensor *t = tern_zeros(TERN_SHAPE(2), .device = cpu0);
    assert_true(tern_dev_equal(tern_device(t), TERN_CPU));
    assert_true(tern_dev_equal(tern_default_device(), TERN_CPU));
    assert_int_equal(tern_set_default_device(cpu0), TERN_OK);
    assert_true(tern_dev_equal(tern_default_device(), TERN_CPU));
}

static void test_setting_a_device_needs_an_index(void **state) /* D018 */
{
    (void)state;
    assert_int_equal(tern_dev_set(TERN_CUDA(-1)), TERN_ERR_DEVICE);
    assert_error(TERN_ERR_DEVICE, "explicit device index");
    assert_int_equal(tern_dev_set(TERN_CPU), TERN_OK); /* what a request may resolve to */
    assert_int_equal(tern_dev_set(TERN_DEV_(9, 0)), TERN_ERR_DEVICE);
    assert_error(TERN_ERR_DEVICE, "9 is no device kind");
    assert_int_equal(tern_dev_set(TERN_EXT(0)), TERN_ERR_DEVICE);
    assert_error(TERN_ERR_DEVICE, "no device ext:0: 0 are visible");
}

static void test_without_cuda_a_request_falls_back_with_a_reason(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *t = tern_zeros(TERN_SHAPE(2), .device = TERN_CUDA(0));
    assert_no_error();
    assert_int_equal(tern_device(t).kind, TERN_KIND_CPU);
    tern_fallback_t why;
    assert_true(tern_dev_fallback(&why));
    assert_non_null(strstr("no-gpu plugin-missing built-without no-driver-library", why.code));
    assert_true(strlen(why.text) > 0 && strlen(why.next_step) > 0);
    assert_ptr_equal(tern_cuda(t), t);
}

static void test_required_cuda_is_an_error(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_set_device_policy(TERN_REQUIRE);
    assert_null(tern_zeros(TERN_SHAPE(2), .device = TERN_CUDA(0)));
    assert_error(TERN_ERR_DEVICE, "there is none");
    assert_int_equal(tern_dev_set(TERN_CUDA(0)), TERN_ERR_DEVICE);
    assert_error(TERN_ERR_DEVICE, "tern_dev_set: a CUDA device is required");
    (void)tern_dev_auto();
    assert_error(TERN_ERR_DEVICE, "required");
    tern_set_device_policy(TERN_CPU_ONLY);
    assert_int_equal(tern_dev_auto().kind, TERN_KIND_CPU);
    tern_fallback_t why;
    assert_true(tern_dev_fallback(&why));
    assert_string_equal(why.code, "disabled-by-policy");
    tern_set_device_policy(TERN_PREFER);
}

static void test_default_dtype_takes_floats_only(void **state)
{
    (void)state;
    assert_int_equal(tern_set_default_dtype(TERN_I64), TERN_ERR_DTYPE);
    assert_error(TERN_ERR_DTYPE, "i64");
    assert_int_equal(tern_set_default_dtype(TERN_F64), TERN_OK);
    TERN_SCOPE;
    assert_int_equal(tern_dtype(tern_ones(TERN_SHAPE(1))), TERN_F64);
    assert_int_equal(tern_set_default_dtype(TERN_F32), TERN_OK);
}

static void test_an_allocator_that_cannot_be_made_is_said_as_it_is(void **state)
{
    (void)state;
    tern_oom_info_t info;
    core_oom_note_code(TERN_ERR_OOM, "no host memory for the device's allocator");
    assert_int_equal(core_oom_error(core_self(), "train.c:1", TERN_CPU, 8), TERN_ERR_OOM);
    assert_string_equal(tern_error_text(),
                        "train.c:1: no host memory for the device's allocator\n");
    assert_false(tern_oom_info(&info)); /* of memory that was not asked for yet */
    tern_error_clear();
}

int main(void)
{
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("TERN_DEVICE_POLICY");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_strings_parse_and_print_back),
        cmocka_unit_test(test_bad_strings_are_quoted),
        cmocka_unit_test(test_empty_string_has_its_own_message),
        cmocka_unit_test(test_index_too_large_to_parse),
        cmocka_unit_test(test_unknown_type_lists_the_known),
        cmocka_unit_test(test_equality_is_kind_and_index),
        cmocka_unit_test(test_making_a_value_touches_no_hardware),
        cmocka_unit_test(test_counts_never_fail),
        cmocka_unit_test(test_an_allocator_that_cannot_be_made_is_said_as_it_is),
        cmocka_unit_test(test_the_cpu_has_no_index),
        cmocka_unit_test(test_setting_a_device_needs_an_index),
        cmocka_unit_test(test_without_cuda_a_request_falls_back_with_a_reason),
        cmocka_unit_test(test_required_cuda_is_an_error),
        cmocka_unit_test(test_default_dtype_takes_floats_only),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)tern_finish();
    return failed;
}
