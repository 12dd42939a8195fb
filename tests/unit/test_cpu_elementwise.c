/* Elementwise kernels against scalar functions in double precision: every op, dtype, instruction
 * set, over layouts, sizes around vector lengths, in place. */
#include <math.h>

#include "backend_cpu/cpu.h"
#include "tests/support/check.h"
#include "tests/support/elementwise.h"
#include "tests/support/karray_layout.h"

/* ---- sizes, layouts, operands ---------------------------------------------------------------- */

static void check_sizes(const op_case *op, tern_dtype_t dtype)
{
    static const int64_t sizes[] = { 0, 1, 2, 3, 15, 16, 17, 31, 33, 64, 127, 513, 1100 };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        setting s = make_setting(op, dtype, 1, &sizes[i]);
        kernel_each_isa(check_setting, &s);
        free_setting(&s);
    }
}

static void test_sizes_around_vectors(void **state)
{
    (void)state;
    elementwise_each(check_sizes);
}

static void check_layouts(const op_case *op, tern_dtype_t dtype)
{
    const int64_t dims[3] = { 3, 21, 19 };
    for (int layout = 0; layout < KARRAY_LAYOUTS * KARRAY_LAYOUTS; layout++) {
        setting s = make_setting(op, dtype, 3, dims);
        karray_relayout(&s.in[0], (karray_layout)(layout % KARRAY_LAYOUTS));
        karray_relayout(&s.out, (karray_layout)(layout / KARRAY_LAYOUTS));
        karray_relayout(&s.in[1], (karray_layout)(layout % 3));
        kernel_each_isa(check_setting, &s);
        free_setting(&s);
    }
}

static void test_layouts(void **state)
{
    (void)state;
    elementwise_each(check_layouts);
}

/* Rows of few elements are passed on, or gathered with what lies between them left out. */
static void check_cut(const op_case *op, tern_dtype_t dtype)
{
    static const int64_t rows[] = { 2, 5, 16, 70 };
    for (int which = 0; which < 4 * 4; which++) {
        const int64_t dims[3] = { 3, 7, rows[which / 4] };
        setting s = make_setting(op, dtype, 3, dims);
        if (which % 4 != 1)
            karray_cut(&s.in[0]);
        if (which % 4 == 1)
            karray_cut(&s.out);
        if (which % 4 >= 2)
            karray_cut(&s.in[1]);
        if (which % 4 == 3)
            karray_repeat(&s.in[1], 1);
        kernel_each_isa(check_setting, &s);
        free_setting(&s);
    }
}

static void test_rows_cut_out_of_wider_ones(void **state)
{
    (void)state;
    elementwise_each(check_cut);
}

static void check_repeated(const op_case *op, tern_dtype_t dtype)
{
    const int64_t dims[3] = { 4, 5, 37 };
    for (int which = 0; which < 9; which++) {
        setting s = make_setting(op, dtype, 3, dims);
        karray_repeat(&s.in[0], which % 3);
        karray_repeat(&s.in[1], which / 3);
        kernel_each_isa(check_setting, &s);
        free_setting(&s);
    }
}

static void test_operands_with_stride_zero(void **state)
{
    (void)state;
    elementwise_each(check_repeated);
}

static void check_number(const op_case *op, tern_dtype_t dtype)
{
    const int64_t n = 700;
    if (op->inputs < 2)
        return;
    setting s = make_setting(op, dtype, 1, &n);
    karray_free(&s.in[1]);
    s.in[1] = setting_input(op, dtype, 0, NULL, 2);
    kernel_each_isa(check_setting, &s);
    free_setting(&s);
}

static void test_a_number_as_second_operand(void **state)
{
    (void)state;
    elementwise_each(check_number);
}

/* ---- large: threads, streams ----------------------------------------------------------------- */

static void test_large_sums_use_threads_and_streams(void **state)
{
    (void)state;
    const int64_t n = (5 << 20) + 3;
    setting s = make_setting(elementwise_case("add"), TERN_F32, 1, &n);
    s.threads = 2;
    kernel_each_isa(check_setting, &s);
    free_setting(&s);
}

/* Read from half of the largest cache that is counted on: the results go past it. */
static void check_large_differences(void *context)
{
    (void)context;
    const int64_t n = (4 << 20) + 37, one = 1;
    karray x = karray_random(TERN_F32, 1, &n, -3, 3, 1), y = karray_filled(TERN_F32, 1, &n, 7);
    karray number = karray_filled(TERN_F32, 1, &one, 1.5);
    for (int side = 0; side < 2; side++) {
        const kernel_run run = { .kernel = cpu_sub,
                                 .in = { side ? &number : &x, side ? &x : &number },
                                 .n_in = 2,
                                 .out = { &y },
                                 .n_out = 1 };
        assert_int_equal(kernel_call(&run), TERN_OK);
        const float *from = x.view.data, *to = y.view.data;
        for (int64_t i = 0; i < n; i++)
            assert_true(to[i] == (side ? 1.5f - from[i] : from[i] - 1.5f));
    }
    karray_free(&x);
    karray_free(&y);
    karray_free(&number);
}

static void test_large_differences_with_a_number(void **state)
{
    (void)state;
    kernel_each_isa(check_large_differences, NULL);
}

/* Elements `from` to `to` of an array with one dimension. */
static karray part_of(const karray *a, int64_t from, int64_t to)
{
    karray part = *a;
    part.view.data = (float *)a->view.data + from;
    part.view.numel = part.view.shape[0] = to - from;
    return part;
}

static void call_unary(const op_case *op, const karray *x, const karray *y)
{
    const kernel_run run = {
        .kernel = op->kernel, .in = { x }, .n_in = 1, .out = { y }, .n_out = 1
    };
    assert_int_equal(kernel_call(&run), TERN_OK);
}

/* Results past the caches are those of a few at a time, wherever they begin and end, and nothing after them changes. */
static void check_large_parts(void *context)
{
    const op_case *op = context;
    const int64_t large = 4 << 20, all = large + 64;
    karray x = karray_random(TERN_F32, 1, &all, -4, 4, 1), y = karray_filled(TERN_F32, 1, &all, 7);
    karray want = karray_filled(TERN_F32, 1, &all, 7);
    karray_set(&x, 100, 1000);
    karray_set(&x, 5021, -95);
    karray_set(&x, large - 3, -INFINITY);
    const karray from = part_of(&x, 5, large + 34), to = part_of(&y, 3, large + 32);
    call_unary(op, &from, &to);
    for (int64_t i = 0; i < large + 29; i += 1000) {
        const int64_t end = i + 1000 < large + 29 ? i + 1000 : large + 29;
        const karray few = part_of(&from, i, end), few_to = part_of(&want, 3 + i, 3 + end);
        call_unary(op, &few, &few_to);
    }
    assert_memory_equal(y.view.data, want.view.data, (size_t)all * sizeof(float));
    karray_free(&x);
    karray_free(&y);
    karray_free(&want);
}

static void test_large_results_of_curves(void **state)
{
    (void)state;
    /* the loops of the others are made in the same way */
    static const char *const names[] = { "exp", "tan" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        kernel_each_isa(check_large_parts, (void *)elementwise_case(names[i]));
}

/* Bits must not depend on position or number of threads. */
static void test_a_value_gives_the_same_bits_everywhere(void **state)
{
    (void)state;
    const int64_t n = 40003;
    karray x = karray_filled(TERN_F32, 1, &n, 0.7310585786), y = x;
    y = karray_filled(TERN_F32, 1, &n, 0);
    for (int c = 0; c < ELEMENTWISE_CASES; c++) {
        const op_case *op = &elementwise_cases[c];
        if (op->compares || !(op->dtypes >> TERN_F32 & 1))
            continue;
        for (int threads = 1; threads < 4; threads++) {
            const kernel_run run = { .kernel = op->kernel,
                                     .threads = threads,
                                     .in = { &x, &x },
                                     .n_in = op->inputs,
                                     .out = { &y },
                                     .n_out = 1 };
            assert_int_equal(kernel_call(&run), TERN_OK);
            for (int64_t i = 1; i < n; i++)
                assert_memory_equal((float *)y.view.data + i, y.view.data, sizeof(float));
        }
    }
    karray_free(&x);
    karray_free(&y);
}

/* ---- in place -------------------------------------------------------------------------------- */

static void check_in_place(const op_case *op, tern_dtype_t dtype)
{
    const int64_t dims[2] = { 9, 61 };
    for (int layout = 0; layout < KARRAY_LAYOUTS && !op->compares; layout++) {
        setting s = make_setting(op, dtype, 2, dims);
        karray_relayout(&s.in[0], (karray_layout)layout);
        const kernel_run run = { .kernel = op->kernel,
                                 .in = { &s.in[0], &s.in[1] },
                                 .n_in = op->inputs,
                                 .out = { &s.in[0] },
                                 .n_out = 1 };
        assert_int_equal(kernel_call(&run), TERN_OK);
        for (int64_t i = 0; i < s.in[0].view.numel; i++)
            kernel_expect(op->name, i, karray_at_place(&s.in[0], i), want_at(&s, i),
                          tern_dtype_is_float(dtype) ? kernel_tolerance(dtype, op->tolerance + 1e-9)
                                                     : 0);
        free_setting(&s);
    }
}

static void test_in_place(void **state)
{
    (void)state;
    elementwise_each(check_in_place);
}

/* x -= x[k], where the row or element that is read is overwritten on the way. */
static void test_an_operand_inside_the_output(void **state)
{
    (void)state;
    const int64_t dims[2] = { 40, 50 };
    for (int number = 0; number < 2; number++) {
        karray x = karray_random(TERN_F32, 2, dims, -1, 1, 3);
        karray part = x;
        part.view.data = (float *)x.view.data + 7 * 50;
        part.view.flags = number ? TERN_VIEW_CONTIGUOUS | TERN_VIEW_DENSE : 0;
        part.view.stride[0] = 0;
        part.view.numel = number ? 1 : part.view.numel;
        part.view.ndim = number ? 0 : 2;
        const kernel_run run = {
            .kernel = cpu_sub, .in = { &x, &part }, .n_in = 2, .out = { &x }, .n_out = 1
        };
        assert_int_equal(kernel_call(&run), TERN_OK);
        for (int64_t i = 0; i < x.view.numel; i++)
            kernel_expect("sub", i, karray_at(&x, i),
                          x.values[i] - x.values[7 * 50 + (number ? 0 : i % 50)], 1e-6);
        karray_free(&x);
    }
}

/* out is in moved by one element. */
static void test_operands_that_overlap_partly(void **state)
{
    (void)state;
    const int64_t n = 300, longer = n + 1;
    for (int forward = 0; forward < 2; forward++) {
        karray x = karray_random(TERN_F32, 1, &longer, -1, 1, 3);
        karray in = x, out = x;
        in.view.shape[0] = out.view.shape[0] = in.view.numel = out.view.numel = n;
        in.view.data = (float *)x.view.data + !forward;
        out.view.data = (float *)x.view.data + forward;
        const kernel_run run = {
            .kernel = cpu_neg, .in = { &in }, .n_in = 1, .out = { &out }, .n_out = 1
        };
        assert_int_equal(kernel_call(&run), TERN_OK);
        for (int64_t i = 0; i < n; i++)
            kernel_expect("neg", i, karray_at(&out, i), -x.values[i + !forward], 0);
        karray_free(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_around_vectors),
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_rows_cut_out_of_wider_ones),
        cmocka_unit_test(test_operands_with_stride_zero),
        cmocka_unit_test(test_a_number_as_second_operand),
        cmocka_unit_test(test_large_sums_use_threads_and_streams),
        cmocka_unit_test(test_large_differences_with_a_number),
        cmocka_unit_test(test_large_results_of_curves),
        cmocka_unit_test(test_a_value_gives_the_same_bits_everywhere),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_an_operand_inside_the_output),
        cmocka_unit_test(test_operands_that_overlap_partly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
