/* Matrix products on simulated devices, beside the CPU's: through cuBLAS, and without it (TERN_SIM_ABSENT is
 * set for some of the runs of this program); the settings of precision and repetition that they heed.
 * Rows M095, R022, R025, R027, R030-R032. */
#include <math.h>
#include <stdlib.h>

#include "tests/support/check.h"
#include "tests/support/simulator.h"

static const tern_dev_t device = { TERN_KIND_CUDA, 0 };

static bool with_cublas(void)
{
    const char *absent = getenv("TERN_SIM_ABSENT");
    return absent == NULL || strncmp(absent, "cublas,", 7) != 0;
}

static int clear(void **state)
{
    (void)state;
    tern_error_clear();
    tern_cuda_matmul_set_allow_tf32(false);
    (void)tern_cuda_matmul_set_allow_fp16_reduced_precision_reduction(true);
    (void)tern_cuda_matmul_set_allow_bf16_reduced_precision_reduction(true);
    tern_cuda_matmul_set_allow_fp16_accumulation(false);
    tern_use_deterministic_algorithms(false);
    return 0;
}

/* ---- beside the CPU ---------------------------------------------------------------------------- */

static const struct {
    tern_dtype_t dtype;
    double tolerance; /* of values near 1: units of the dtype's last place */
} kinds[] = { { TERN_F32, 2e-6 },  { TERN_F64, 1e-13 }, { TERN_F16, 4e-3 },
              { TERN_BF16, 3e-2 }, { TERN_I64, 0 },     { TERN_I8, 0 } };

static tern_tensor *operand(tern_dtype_t dtype, tern_shape_t shape)
{
    tern_tensor *x = tern_rand(shape);
    return tern_cast(tern_dtype_is_float(dtype) ? x : tern_mul(x, 5), dtype);
}

static void compare(tern_tensor *there, tern_tensor *here, double tolerance)
{
    assert_no_error();
    tern_tensor *off =
        tern_abs(tern_sub(tern_cast(tern_cpu(there), TERN_F64), tern_cast(here, TERN_F64)));
    tern_tensor *size = tern_add(tern_abs(tern_cast(here, TERN_F64)), 1);
    if (tern_numel(here) > 0)
        assert_close(tern_item(tern_amax(tern_div(off, size))), 0, tolerance);
    assert_no_error();
}

static void both(tern_tensor *a, tern_tensor *b, double tolerance)
{
    compare(tern_matmul(tern_to(a, device), tern_to(b, device)), tern_matmul(a, b), tolerance);
}

static void test_products_of_every_layout(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        TERN_SCOPE;
        const tern_dtype_t t = kinds[i].dtype;
        const double tolerance = kinds[i].tolerance;
        tern_tensor *a = operand(t, TERN_SHAPE(5, 7)), *b = operand(t, TERN_SHAPE(7, 3));
        both(a, b, tolerance);
        both(tern_transpose(b, 0, 1), tern_transpose(a, 0, 1), tolerance);
        both(operand(t, TERN_SHAPE(1, 7)), b, tolerance);
        both(a, operand(t, TERN_SHAPE(7, 1)), tolerance);
        both(operand(t, TERN_SHAPE(5, 1)), operand(t, TERN_SHAPE(1, 3)), tolerance);
        both(a, operand(t, TERN_SHAPE(7)), tolerance);
        both(operand(t, TERN_SHAPE(4, 5, 7)), operand(t, TERN_SHAPE(4, 7, 3)), tolerance);
        both(operand(t, TERN_SHAPE(4, 5, 7)), b, tolerance);
        both(a, operand(t, TERN_SHAPE(4, 7, 3)), tolerance);
        both(tern_transpose(operand(t, TERN_SHAPE(4, 7, 5)), 1, 2), operand(t, TERN_SHAPE(1, 7, 3)),
             tolerance);
        both(operand(t, TERN_SHAPE(5, 0)), operand(t, TERN_SHAPE(0, 3)), tolerance);
        both(operand(t, TERN_SHAPE(0, 7)), b, tolerance);
    }
}

/* Views that lie on the device already, so that no copy makes them dense. */
static void test_products_of_strided_views(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        TERN_SCOPE;
        const tern_dtype_t t = kinds[i].dtype;
        tern_tensor *a = operand(t, TERN_SHAPE(9, 14)), *b = operand(t, TERN_SHAPE(7, 6));
        tern_tensor *x = tern_to(a, device), *y = tern_to(b, device);
#define EVERY_OTHER(v) tern_slice(v, 1, 0, 14, 2)
        compare(tern_matmul(EVERY_OTHER(x), y), tern_matmul(EVERY_OTHER(a), b), kinds[i].tolerance);
#define INNER(v) tern_slice(tern_slice(v, 1, 3, 10, 1), 0, 1, 6, 1)
        compare(tern_matmul(INNER(x), y), tern_matmul(INNER(a), b), kinds[i].tolerance);
#define SPREAD(v) tern_expand(tern_slice(v, 0, 2, 3, 1), TERN_SHAPE(5, 14))
        compare(tern_matmul(SPREAD(x), tern_transpose(x, 0, 1)),
                tern_matmul(SPREAD(a), tern_transpose(a, 0, 1)), kinds[i].tolerance);
    }
}

static void test_linear_with_and_without_bias(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        TERN_SCOPE;
        const tern_dtype_t t = kinds[i].dtype;
        tern_tensor *x = operand(t, TERN_SHAPE(6, 8)), *w = operand(t, TERN_SHAPE(5, 8));
        tern_tensor *biases = operand(t, TERN_SHAPE(12));
        tern_tensor *dx = tern_to(x, device), *dw = tern_to(w, device),
                    *db = tern_to(biases, device);
        for (int64_t from = 0; from < 3; from++) { /* 2: an alignment that the epilogue refuses */
#define PART(v) (from == 0 ? NULL : tern_slice(v, 0, from == 1 ? 0 : 1, from == 1 ? 5 : 6, 1))
            compare(tern_linear(dx, dw, PART(db)), tern_linear(x, w, PART(biases)),
                    kinds[i].tolerance);
        }
        tern_tensor *step = tern_slice(biases, 0, 0, 10, 2), *dstep = tern_slice(db, 0, 0, 10, 2);
        compare(tern_linear(dx, dw, dstep), tern_linear(x, w, step), kinds[i].tolerance);
    }
}

static void test_gradients_are_the_cpus(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_rand(TERN_SHAPE(6, 8)), *w = tern_rand(TERN_SHAPE(5, 8));
    tern_tensor *b = tern_rand(TERN_SHAPE(5)), *grads[2][3];
    for (int i = 0; i < 2; i++) {
        tern_tensor *leaves[3] = { x, w, b };
        for (int j = 0; j < 3; j++)
            leaves[j] = tern_set_requires_grad(
                tern_to(leaves[j], i == 0 ? TERN_CPU : device, .copy = true), true);
        tern_tensor *y = tern_linear(leaves[0], leaves[1], leaves[2]);
        tern_backward(tern_sum(tern_mul(y, y)));
        for (int j = 0; j < 3; j++)
            grads[i][j] = tern_grad_of(leaves[j]);
    }
    for (int j = 0; j < 3; j++)
        compare(grads[1][j], grads[0][j], 1e-5);
}

/* ---- precision --------------------------------------------------------------------------------- */

/* The sum over k of a b, one number. */
static double product(tern_dtype_t dtype, int64_t k, double a, double b)
{
    TERN_SCOPE;
    tern_tensor *x = tern_full(a, TERN_SHAPE(1, k), .dtype = dtype, .device = device);
    tern_tensor *y = tern_full(b, TERN_SHAPE(k, 1), .dtype = dtype, .device = device);
    const double value = tern_item(tern_matmul(x, y));
    assert_no_error();
    return value;
}

static void test_tf32_rounds_inputs_when_it_is_allowed(void **state) /* R025, R027 */
{
    (void)state;
    const double fine = 1 + 0x1p-12;
    assert_close(product(TERN_F32, 1, fine, 1), fine, 0);
    tern_cuda_matmul_set_allow_tf32(true);
    assert_close(product(TERN_F32, 1, fine, 1), with_cublas() ? 1 : fine, 0);
    assert_close(product(TERN_F32, 1, 1 + 0x1p-10, 1), 1 + 0x1p-10, 0);
    assert_close(product(TERN_F64, 1, fine, 1), fine, 0);
    tern_tensor *x = tern_full(fine, TERN_SHAPE(2, 1), .device = device);
    tern_tensor *bias = tern_zeros(TERN_SHAPE(2), .device = device);
    assert_close(
        tern_item(tern_amax(tern_linear(x, tern_ones(TERN_SHAPE(2, 1), .device = device), bias))),
        with_cublas() ? 1 : fine, 0);
    tern_set_fp32_precision(TERN_FP32_CUDA_MATMUL, TERN_FP32_IEEE);
    assert_close(product(TERN_F32, 1, fine, 1), fine, 0);
}

/* 256 times v and 1 more, then 1, then zeros: 514 in all. Where each half of them is rounded to the half
 * type the 1 of the first is lost, and then the sum's. */
static double halves(tern_dtype_t dtype, double v)
{
    TERN_SCOPE;
    float x[514] = { 0 };
    for (int i = 0; i < 256; i++)
        x[i] = (float)v + (i == 0);
    x[257] = 1;
    tern_tensor *left = tern_from_data(x, TERN_SHAPE(1, 514));
    tern_tensor *right = tern_ones(TERN_SHAPE(514, 1), .dtype = dtype, .device = device);
    const double value = tern_item(tern_matmul(tern_to(tern_cast(left, dtype), device), right));
    assert_no_error();
    return value;
}

static void test_half_reductions_are_allowed_and_refused(void **state) /* R030, R031 */
{
    (void)state;
    assert_close(halves(TERN_F16, 8), with_cublas() ? 2048 : 2050, 0);
    assert_close(halves(TERN_BF16, 1), with_cublas() ? 256 : 258, 0);
    assert_int_equal(tern_cuda_matmul_set_allow_fp16_reduced_precision_reduction(false), TERN_OK);
    assert_close(halves(TERN_F16, 8), 2050, 0);
    assert_close(halves(TERN_BF16, 1), with_cublas() ? 256 : 258, 0);
    assert_int_equal(tern_cuda_matmul_set_allow_bf16_reduced_precision_reduction(false), TERN_OK);
    assert_close(halves(TERN_BF16, 1), 258, 0);
    assert_int_equal(
        tern_cuda_matmul_set_allow_fp16_reduced_precision_reduction(false, .no_splitk = true),
        TERN_OK);
    assert_close(halves(TERN_F16, 8), 2050, 0);
}

static void test_f16_sums_are_allowed(void **state) /* R032 */
{
    (void)state;
    /* in f16 a sum stops growing by 1 at 2048 */
    assert_close(product(TERN_F16, 3000, 1, 1), 3000, 0);
    tern_cuda_matmul_set_allow_fp16_accumulation(true);
    assert_close(product(TERN_F16, 3000, 1, 1), with_cublas() ? 2048 : 3000, 0);
    assert_close(product(TERN_BF16, 3000, 1, 1), 3008, 0);
}

/* ---- memory ------------------------------------------------------------------------------------ */

static void test_the_workspace_is_counted_and_kept(void **state) /* M095 */
{
    (void)state;
    const int64_t expected =
        with_cublas() ? (int64_t)32 << 20 : 0; /* PyTorch's of capability 9.0 */
    tern_clear_workspaces(device);
    (void)product(TERN_F32, 4, 1, 1);
    const int64_t first = tern_memory(device).allocated_bytes;
    (void)product(TERN_F16, 4, 1, 1);
    assert_int_equal(tern_memory(device).allocated_bytes, first);
    tern_clear_workspaces(device);
    assert_int_equal(first - tern_memory(device).allocated_bytes, expected);
    (void)product(TERN_F32, 4, 1, 1);
    assert_int_equal(tern_memory(device).allocated_bytes, first);
    /* per device */
    TERN_SCOPE;
    tern_tensor *other = tern_ones(TERN_SHAPE(2, 2), .device = TERN_CUDA(1));
    const int64_t before = tern_memory(TERN_CUDA(1)).allocated_bytes;
    assert_close(tern_item(tern_sum(tern_matmul(other, other))), 8, 0);
    assert_true(tern_memory(TERN_CUDA(1)).allocated_bytes - before >= expected);
    assert_int_equal(tern_memory(device).allocated_bytes, first);
    tern_clear_workspaces(TERN_CUDA(-1));
    assert_int_equal(first - tern_memory(device).allocated_bytes, expected);
    assert_true(tern_memory(TERN_CUDA(1)).allocated_bytes - before < (int64_t)1 << 20);
}

static void test_the_libraries_are_reported(void **state)
{
    (void)state;
    tern_dev_info_t info;
    assert_true(tern_dev_info(device, &info));
    assert_int_equal(strstr(info.libraries, "cuBLAS 13.1") != NULL, with_cublas());
}

/* ---- repeating --------------------------------------------------------------------------------- */

enum { PLACES = 300, ROWS = 3, WIDTH = 7 };

static tern_tensor *gradient_of_table(tern_dtype_t dtype, tern_tensor *places, tern_tensor *factor)
{
    tern_tensor *table =
        tern_zeros(TERN_SHAPE(ROWS, WIDTH), dtype, .device = device, .requires_grad = true);
    tern_tensor *rows = tern_cast(tern_embedding(table, places), TERN_F32);
    tern_backward(tern_sum(tern_mul(rows, factor)));
    return tern_grad_of(table);
}

/* Sums of f32 in the order of the places: any other order gives other bits. */
static bool has_sums_in_order(tern_tensor *places, tern_tensor *factor)
{
    int64_t at[PLACES];
    float values[PLACES * WIDTH], sums[ROWS * WIDTH], want[ROWS * WIDTH] = { 0 };
    tern_read(gradient_of_table(TERN_F32, places, factor), TERN_F32, sums, sizeof sums);
    tern_read(tern_cast(places, TERN_I64), TERN_I64, at, sizeof at);
    tern_read(factor, TERN_F32, values, sizeof values);
    assert_no_error();
    for (int i = 0; i < PLACES * WIDTH; i++)
        want[at[i / WIDTH] * WIDTH + i % WIDTH] += values[i];
    return memcmp(sums, want, sizeof sums) == 0;
}

static void test_gradients_of_rows_repeat_where_that_is_asked_for(void **state) /* R022 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *factor = tern_to(tern_randn(TERN_SHAPE(PLACES, WIDTH)), device);
    tern_tensor *places = tern_to(tern_randint(0, ROWS, TERN_SHAPE(PLACES)), device);
    simulator_set("ORDER", "reverse");
    assert_false(has_sums_in_order(places, factor));
    tern_use_deterministic_algorithms(true);
    assert_true(has_sums_in_order(places, factor));
    assert_true(has_sums_in_order(tern_cast(places, TERN_I32), factor));
    simulator_set("ORDER", "forward");
    assert_true(has_sums_in_order(places, factor));
    tern_tensor *half = gradient_of_table(TERN_F16, places, factor);
    assert_close(tern_item(tern_sum(half)), tern_item(tern_sum(factor)), 0.5);
    tern_tensor *outside = tern_full(ROWS, TERN_SHAPE(PLACES), TERN_I64, .device = device);
    (void)gradient_of_table(TERN_F32, outside, factor);
    tern_dev_synchronize(device);
    assert_error(TERN_ERR_INDEX, "index 3 at position ");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, clear)
    const struct CMUnitTest tests[] = {
        TEST(test_products_of_every_layout),
        TEST(test_products_of_strided_views),
        TEST(test_linear_with_and_without_bias),
        TEST(test_gradients_are_the_cpus),
        TEST(test_tf32_rounds_inputs_when_it_is_allowed),
        TEST(test_half_reductions_are_allowed_and_refused),
        TEST(test_f16_sums_are_allowed),
        TEST(test_the_workspace_is_counted_and_kept),
        TEST(test_the_libraries_are_reported),
        TEST(test_gradients_of_rows_repeat_where_that_is_asked_for),
    };
    (void)setenv("TERN_SIM_DEVICES", "2", 1);
    tern_seed(3);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
