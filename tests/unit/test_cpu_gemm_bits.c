/* Products of own kernels have the same bits with any number of threads. By own kernels whatever the sizes: a library
 * decides for itself, and which sizes go to one, a table does for each number of threads. */
#include <stdlib.h>

#include "backend_cpu/cpu.h"
#include "tests/support/check.h"
#include "tests/support/karray_layout.h"
#include "tests/support/kernel.h"

/* [m, k] by [k, n], whose layout says whether it is stored transposed. */
static void expect_same_bits(tern_dtype_t dtype, int64_t m, int64_t k, int64_t n, bool transposed)
{
    const int64_t a_dims[2] = { m, k }, b_dims[2] = { k, n }, out_dims[2] = { m, n };
    karray a = kernel_operand(dtype, 2, a_dims, 1), b = kernel_operand(dtype, 2, b_dims, 2);
    karray out[3];
    if (transposed)
        karray_relayout(&b, KARRAY_SWAPPED);
    for (int t = 0; t < 3; t++) {
        out[t] = karray_filled(dtype, 2, out_dims, 0);
        const kernel_run run = { .kernel = cpu_gemm,
                                 .threads = 1 + t,
                                 .in = { &a, &b },
                                 .out = { &out[t] },
                                 .n_in = 2,
                                 .n_out = 1 };
        assert_int_equal(kernel_call(&run), TERN_OK);
    }
    const size_t bytes = (size_t)(m * n * tern_dtype_size(dtype));
    assert_memory_equal(out[0].view.data, out[1].view.data, bytes);
    assert_memory_equal(out[0].view.data, out[2].view.data, bytes);
    karray_free(&a);
    karray_free(&b);
    for (int t = 0; t < 3; t++)
        karray_free(&out[t]);
}

/* Parts of a product are narrower than it: still every sum has the whole product's order. */
static void same_bits(void *context)
{
    (void)context;
    for (int t = 0; t < 2; t++) {
        expect_same_bits(TERN_F64, 50, 201, 60, t == 1);
        expect_same_bits(TERN_F32, 50, 270, 40, t == 1);
        expect_same_bits(TERN_F32, 34, 300, 60, t == 1);
        expect_same_bits(TERN_F32, 77, 90, 97, t == 1);  /* uneven rows, and one column too many */
        expect_same_bits(TERN_F32, 40, 300, 90, t == 1); /* AVX2 turns parts, or the whole */
        expect_same_bits(TERN_F32, 24, 100, 200, t == 1);
        expect_same_bits(TERN_F16, 150, 301, 130, t == 1);
        expect_same_bits(TERN_BF16, 150, 301, 130, t == 1);
        expect_same_bits(TERN_F32, 1, 200001, 1, t == 1); /* long dots, in pieces */
        expect_same_bits(TERN_F64, 1, 200001, 1, t == 1);
        if (cpu_isa() != CPU_ISA_AVX512)
            continue;
        expect_same_bits(TERN_F32, 150, 301, 130, t == 1);
        expect_same_bits(TERN_F32, 64, 600, 100, t == 1);
        expect_same_bits(TERN_F32, 40, 300, 200, t == 1);
        expect_same_bits(TERN_F32, 300, 700, 40, t == 1);
        expect_same_bits(TERN_F32, 403, 226, 111, t == 1);
    }
}

static void test_same_bits_with_any_threads(void **state)
{
    (void)state;
    kernel_each_isa(same_bits, NULL);
}

/* Nor is a named way measured against others. */
static void test_a_named_way_is_not_measured(void **state)
{
    (void)state;
    const uint32_t before = kernel_set_numerics(TERN_NUMERICS_CPU_BENCHMARK);
    const int events = kernel_events();
    for (int i = 0; i < 100; i++)
        expect_same_bits(TERN_F32, 77, 90, 97, false);
    assert_int_equal(kernel_events(), events);
    (void)kernel_set_numerics(before);
}

int main(void)
{
    (void)setenv("TERN_CPU_GEMM", "own", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits_with_any_threads),
        cmocka_unit_test(test_a_named_way_is_not_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
