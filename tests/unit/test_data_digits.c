/* Drawn digits: what is drawn, and the dataset of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "data/digits.h"
#include "tern/tern.h"
#include "tests/support/between.h"

enum { PIXELS = DIGIT_SIDE * DIGIT_SIDE };

static void test_digits_repeat_and_differ_by_seed(void **state)
{
    (void)state;
    uint8_t a[PIXELS], b[PIXELS], c[PIXELS];
    const int digit = data_digit_draw(1, 5, a);
    assert_int_equal(data_digit_draw(1, 5, b), digit);
    assert_memory_equal(a, b, sizeof a);
    data_digit_draw(2, 5, c);
    assert_memory_not_equal(a, c, sizeof a);
    data_digit_draw(1, 6, c);
    assert_memory_not_equal(a, c, sizeof a);
}

/* Whatever compiler, flags and processor: labels and pixels as they were first drawn, by FNV-1a. */
static void test_digits_are_the_same_everywhere(void **state)
{
    (void)state;
    uint64_t hash = UINT64_C(1469598103934665603);
    for (uint64_t i = 0; i < 200; i++) {
        uint8_t drawn[PIXELS + 1];
        drawn[0] = (uint8_t)data_digit_draw(7, i, drawn + 1);
        for (int k = 0; k <= PIXELS; k++)
            hash = (hash ^ drawn[k]) * UINT64_C(1099511628211);
    }
    assert_true(hash == UINT64_C(0xa054c97f70df820e));
}

static void test_digits_are_all_drawn_with_ink_inside(void **state)
{
    (void)state;
    int seen[10] = { 0 };
    for (uint64_t i = 0; i < 500; i++) {
        uint8_t pixels[PIXELS];
        seen[data_digit_draw(3, i, pixels)]++;
        int ink = 0;
        for (int p = 0; p < PIXELS; p++)
            ink += pixels[p] > 100;
        assert_between(ink, 15, 350);
    }
    for (int digit = 0; digit < 10; digit++)
        assert_between(seen[digit], 20, 90);
}

static void test_digits_are_a_dataset_like_mnist(void **state)
{
    (void)state;
    tern_dataset *dataset = tern_digits(20, 1);
    assert_int_equal(tern_dataset_count(dataset), 20);
    assert_int_equal(tern_dataset_shape(dataset).dims[2], 28);
    tern_dataset_free(dataset);
    assert_null(tern_digits(0, 1));
    assert_int_equal(tern_error_code(), TERN_ERR_ARGUMENT);
    assert_non_null(strstr(tern_error_text(), "count is 0"));
    tern_error_clear();
    assert_null(tern_digits(INT64_MAX, 1));
    assert_int_equal(tern_error_code(), TERN_ERR_SHAPE);
    assert_non_null(strstr(tern_error_text(), "digits: a tensor cannot have the shape"));
    tern_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digits_repeat_and_differ_by_seed),
        cmocka_unit_test(test_digits_are_the_same_everywhere),
        cmocka_unit_test(test_digits_are_all_drawn_with_ink_inside),
        cmocka_unit_test(test_digits_are_a_dataset_like_mnist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
