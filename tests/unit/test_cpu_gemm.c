/* The gemm kernel against double loops: every dtype, layout and instruction set, sizes
 * around the edges of tiles and blocks. */
#include "backend_cpu/bridge.h"
#include "backend_cpu/cpu.h"
#include "backend_cpu/gemm_way.h"
#include "tests/support/check.h"
#include "tests/support/karray_layout.h"
#include "tests/support/kernel.h"
#include "tests/support/product.h"

/* ---- cases ----------------------------------------------------------------------------------- */

static void sizes_around_tiles(void *context)
{
    const tern_dtype_t dtype = *(const tern_dtype_t *)context;
    static const int64_t sizes[] = { 1, 2, 3, 5, 7, 8, 9, 15, 17, 31, 33, 49 };
    const int count = sizeof sizes / sizeof *sizes;
    for (int m = 0; m < count; m++)
        for (int n = 0; n < count; n++)
            for (int k = 0; k < count; k += 3) {
                const product_case c = { dtype, .m = sizes[m], .k = sizes[(k + m) % count],
                                         .n = sizes[n],
                                         .b_layout = (m + n) % 2 ? KARRAY_SWAPPED : 0 };
                product_check(&c);
            }
}

static void test_gemm_f32_sizes(void **state)
{
    (void)state;
    tern_dtype_t dtype = TERN_F32;
    kernel_each_isa(sizes_around_tiles, &dtype);
}

static void test_gemm_f64_sizes(void **state)
{
    (void)state;
    tern_dtype_t dtype = TERN_F64;
    kernel_each_isa(sizes_around_tiles, &dtype);
}

/* Strips of all heights by tiles of one, two and three vectors, A packed and not; five vectors are cut for tall
 * tiles, too. */
static void rows_of_tiles(void *context)
{
    const tern_dtype_t dtype = *(const tern_dtype_t *)context;
    const int64_t vector = dtype == TERN_F64 ? 8 : 16;
    for (int64_t m = 1; m <= 31; m++)
        for (int64_t n = 1; n <= 5; n++)
            for (int layout = 0; layout < 2; layout++) {
                const product_case c = { dtype, .m = m, .k = 37, .n = n * vector - m % 3,
                                         .a_layout = layout ? KARRAY_SWAPPED : 0 };
                product_check(&c);
            }
}

static void test_gemm_rows_of_every_tile(void **state)
{
    (void)state;
    tern_dtype_t dtypes[] = { TERN_F32, TERN_F64 };
    kernel_each_isa(rows_of_tiles, &dtypes[0]);
    kernel_each_isa(rows_of_tiles, &dtypes[1]);
}

static void layouts(void *context)
{
    (void)context;
    static const tern_dtype_t dtypes[] = { TERN_F32, TERN_F64, TERN_F16, TERN_BF16, TERN_I32 };
    for (int d = 0; d < 5; d++)
        for (int a = 0; a < KARRAY_LAYOUTS; a++)
            for (int b = 0; b < KARRAY_LAYOUTS; b++) {
                const product_case c = { dtypes[d],
                                         .m = 19,
                                         .k = 37,
                                         .n = 21,
                                         .a_layout = (karray_layout)a,
                                         .b_layout = (karray_layout)b };
                product_check(&c);
            }
}

static void test_gemm_any_strides(void **state)
{
    (void)state;
    kernel_each_isa(layouts, NULL);
}

/* Larger than a block in each direction, so that blocks of k add up. */
static void blocks(void *context)
{
    (void)context;
    static const int64_t sizes[][3] = { { 101, 300, 70 }, { 7, 600, 500 }, { 130, 20, 490 },
                                        { 1, 700, 33 },   { 40, 513, 10 }, { 200, 3, 1 },
                                        { 520, 12, 523 },                  /* C is fetched */
                                        { 100, 300, 5 },  { 61, 513, 21 }, /* one panel of AVX2's */
                                        { 131, 300, 43 } /* strips together */ };
    for (int i = 0; i < 10; i++)
        for (int layout = 0; layout < 4; layout++)
            for (int threads = 1; threads <= 2; threads++) {
                const product_case c = { i % 2 ? TERN_F64 : TERN_F32,
                                         .m = sizes[i][0],
                                         .k = sizes[i][1],
                                         .n = sizes[i][2],
                                         .a_layout = layout & 1 ? KARRAY_SWAPPED : 0,
                                         .b_layout = layout & 2 ? KARRAY_SWAPPED : 0,
                                         .threads = threads };
                product_check(&c);
            }
}

static void test_gemm_more_than_a_block(void **state)
{
    (void)state;
    kernel_each_isa(blocks, NULL);
}

/* Few columns against a transposed A: the transposed product, in pieces of up to 192 rows of C. */
static void turned(void *context)
{
    (void)context;
    static const int64_t columns[] = { 7, 8, 9, 11, 15, 16, 20, 24, 25, 33, 36, 37 };
    static const int64_t rows[] = { 31, 32, 33, 192, 193, 400 };
    static const int64_t depths[] = { 31, 32, 300 };
    for (int n = 0; n < 12; n++)
        for (int m = 0; m < 6; m++)
            for (int k = 0; k < 3; k++) {
                const product_case c = { TERN_F32,
                                         .m = rows[m],
                                         .k = depths[k],
                                         .n = columns[n],
                                         .a_layout = KARRAY_SWAPPED,
                                         .threads = 1 + (m + n + k) % 2 };
                product_check(&c);
            }
}

static void test_gemm_of_few_columns_turned(void **state)
{
    (void)state;
    kernel_each_isa(turned, NULL);
}

/* Weights' gradients, whose B is the batch: with AVX-512 rows that begin on cache lines, and all of those
 * that up to 128 rows of A read (32 where vectors across two lines cost, with AVX2 of little), are read where they lie, and
 * only a strip of A is packed, on the stack. */
static void unpacked(void *context)
{
    (void)context;
    for (int i = 0; i < 8; i++) {
        const product_case c = { i & 1 ? TERN_F64 : TERN_F32, .m = 40,
                                 .k = i & 4 ? 37 : 120,       .n = i & 4 ? 464 : 144,
                                 .a_layout = KARRAY_SWAPPED,  .threads = i & 2 ? 2 : 1 };
        product_check(&c);
        if (cpu_isa() == CPU_ISA_AVX512)
            assert_int_equal(kernel_scratch_bytes(), 0);
    }
    product_case few = { TERN_F32, .m = 32, .k = 100, .n = 138, .a_layout = KARRAY_SWAPPED };
    product_check(&few);
    assert_true((kernel_scratch_bytes() > 0) == (cpu_isa() == CPU_ISA_BASE));
    few.m = 36;
    product_check(&few);
    assert_true((kernel_scratch_bytes() > 0) ==
                (cpu_isa() != CPU_ISA_AVX512 || cpu_tuned_for(CPU_INTEL)));
    few.m = 40, few.k = 88; /* tall tiles save two strips; not so much that a library takes it */
    product_check(&few);
    assert_true((kernel_scratch_bytes() > 0) == (cpu_isa() != CPU_ISA_AVX512));
    few = (product_case){ TERN_F32, .m = 132, .k = 110, .n = 42, .a_layout = KARRAY_SWAPPED };
    product_check(&few);
    const bool by_library =
        cpu_blas() != NULL && cpu_isa() == CPU_ISA_AVX512 && cpu_tuned_for(CPU_ZEN4);
    assert_true((kernel_scratch_bytes() > 0) == !by_library);
}

static void test_gemm_reads_what_lies_well(void **state)
{
    (void)state;
    kernel_each_isa(unpacked, NULL);
}

/* A product of f32 whose rows of C, and of A or B, are adjacent, on one thread. */
static bool is_own(const product_case *c)
{
    const bool turned = c->b_layout == KARRAY_SWAPPED;
    const cpu_product g = { .m = c->m,
                            .k = c->k,
                            .n = c->n,
                            .a_row = c->k,
                            .a_col = 1,
                            .b_row = turned ? 1 : c->n,
                            .b_col = turned ? c->k : 1,
                            .c_row = c->n };
    return cpu_blas() == NULL || cpu_product_own_is_best(TERN_F32, &g, 1);
}

/* Own tiles pack B, which neither a library nor dot products along rows do. */
static void test_gemm_own_tiles(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {
        { 70, 10, 460 },  /* shallow, and small */
        { 300, 200, 17 }, /* two vectors of columns */
        { 17, 150, 800 }, /* more than a few rows */
        { 40, 250, 12 },  /* not so long that dot products pay */
        { 300, 300, 32 }, /* no idle lanes */
        { 100, 200, 18 }, /* not so long */
        { 34, 300, 250 }, /* more than a few rows */
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const product_case c = { TERN_F32, .m = sizes[i][0], .k = sizes[i][1], .n = sizes[i][2],
                                 .b_layout = KARRAY_SWAPPED };
        product_check(&c);
        if (cpu_isa() == CPU_ISA_AVX512 && (kernel_scratch_bytes() > 0) != is_own(&c))
            fail_msg("case %zu packs %lld bytes", i, (long long)kernel_scratch_bytes());
    }
}

/* B's rows are 1 KiB apart, so own kernels pack it. */
static int64_t scratch_of_columns(int64_t m, int64_t k, int64_t n)
{
    const int64_t a_dims[2] = { m, k }, b_dims[2] = { k, 256 }, out_dims[2] = { m, n };
    karray a = kernel_operand(TERN_F32, 2, a_dims, 1), b = kernel_operand(TERN_F32, 2, b_dims, 2);
    karray out = karray_filled(TERN_F32, 2, out_dims, 7);
    b.view.shape[1] = n;
    b.view.numel = k * n;
    const kernel_run run = {
        .kernel = cpu_gemm, .threads = 1, .in = { &a, &b }, .out = { &out }, .n_in = 2, .n_out = 1
    };
    assert_int_equal(kernel_call(&run), TERN_OK);
    karray_free(&a);
    karray_free(&b);
    karray_free(&out);
    return kernel_scratch_bytes();
}

static void test_gemm_few_columns_in_a_last_vector(void **state)
{
    (void)state;
    if (cpu_isa() != CPU_ISA_AVX512) {
        print_message("skipped: the CPU has no AVX-512, for which these shapes are routed\n");
        skip();
    }
    static const struct {
        int64_t m, k, n;
        bool zen5, zen4, intel; /* own there */
    } cases[] = {
        { 50, 300, 33, false, false, false }, { 60, 500, 33, true, false, false },
        { 52, 510, 34, true, false, false },  { 52, 510, 36, true, false, true },
        { 45, 1000, 20, true, false, true },  { 50, 500, 37, true, false, true },
        { 60, 520, 33, true, false, true },
    };
    const bool alone = cpu_blas() == NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bool own = cpu_tuned_for(CPU_INTEL)  ? cases[i].intel
                         : cpu_tuned_for(CPU_ZEN4) ? cases[i].zen4
                                                   : cases[i].zen5;
        if ((scratch_of_columns(cases[i].m, cases[i].k, cases[i].n) > 0) != (alone || own))
            fail_msg("case %zu", i);
    }
}

static void batches(void *context)
{
    (void)context;
    for (int i = 0; i < 16; i++) {
        const product_case c = { i & 8 ? TERN_BF16 : TERN_F32,
                                 .batch = 1 + 4 * (i & 1),
                                 .m = 12,
                                 .k = 9,
                                 .n = 18,
                                 .a_layout = i & 2 ? KARRAY_SWAPPED : 0,
                                 .a_repeated = (i & 4) != 0,
                                 .b_repeated = (i & 2) != 0,
                                 .threads = 2 };
        product_check(&c);
    }
    const product_case large = { TERN_F32, .batch = 3, .m = 150, .k = 120, .n = 90, .threads = 2 };
    product_check(&large);
}

static void test_gemm_batches(void **state)
{
    (void)state;
    kernel_each_isa(batches, NULL);
}

static void test_gemm_integers(void **state)
{
    (void)state;
    static const tern_dtype_t dtypes[] = { TERN_U8, TERN_I8, TERN_I16, TERN_I32, TERN_I64 };
    for (int d = 0; d < 5; d++) {
        const product_case c = { dtypes[d],   .m = 6, .k = 11, .n = 9, .b_layout = KARRAY_SWAPPED,
                                 .threads = 2 };
        product_check(&c);
    }
}

static void test_gemm_integers_wrap(void **state)
{
    (void)state;
    const int64_t one[2] = { 1, 1 };
    karray a = karray_filled(TERN_I8, 2, one, 100), b = karray_filled(TERN_I8, 2, one, 3);
    karray out = karray_filled(TERN_I8, 2, one, 0);
    const kernel_run run = {
        .kernel = cpu_gemm, .in = { &a, &b }, .out = { &out }, .n_in = 2, .n_out = 1
    };
    assert_int_equal(kernel_call(&run), TERN_OK);
    assert_int_equal((int)karray_at(&out, 0), 300 - 256);
    karray_free(&a);
    karray_free(&b);
    karray_free(&out);
}

static void test_gemm_nothing_to_add(void **state)
{
    (void)state;
    static const tern_dtype_t dtypes[] = { TERN_F32, TERN_F64, TERN_F16, TERN_I32 };
    for (int d = 0; d < 4; d++) {
        const product_case none = { dtypes[d], .m = 3, .k = 0, .n = 5 };
        product_check(&none);
        const product_case large = { dtypes[d], .m = 601, .k = 0, .n = 603, .threads = 2 };
        product_check(&large); /* so much to write that threads share it out */
        const product_case empty = { dtypes[d], .batch = 2, .m = 0, .k = 4, .n = 5 };
        product_check(&empty);
    }
}

/* A column of zeros in B does not hide an infinity in A. */
static void test_gemm_infinity_times_zero(void **state)
{
    (void)state;
    const int64_t row[2] = { 1, 2 }, square[2] = { 2, 2 };
    karray a = karray_filled(TERN_F32, 2, row, 1.0 / 0.0),
           b = karray_filled(TERN_F32, 2, square, 0);
    karray out = karray_filled(TERN_F32, 2, row, 0);
    const kernel_run run = {
        .kernel = cpu_gemm, .in = { &a, &b }, .out = { &out }, .n_in = 2, .n_out = 1
    };
    assert_int_equal(kernel_call(&run), TERN_OK);
    assert_true(karray_at(&out, 1) != karray_at(&out, 1));
    karray_free(&a);
    karray_free(&b);
    karray_free(&out);
}

/* Long enough for its own way: pieces in their order, the last one shorter. */
static void long_dots(void *context)
{
    (void)context;
    static const tern_dtype_t dtypes[] = { TERN_F32, TERN_F64, TERN_I32, TERN_I64 };
    for (int d = 0; d < 4; d++)
        for (int threads = 1; threads <= 2; threads++) {
            product_check(&(product_case){ dtypes[d], 0, 1, 200001, 1, .threads = threads });
            product_check(&(product_case){ dtypes[d], 0, 1, 200001, 1, .a_layout = KARRAY_GAPS,
                                           .threads = threads });
        }
}

static void test_gemm_long_dot(void **state)
{
    (void)state;
    kernel_each_isa(long_dots, NULL);
}

/* Some rows of whole lines, and few columns: which of them are dot products depends on the tuning (unit/gemm_way). */
static void dots_of_some_rows(void *context)
{
    (void)context;
    static const tern_dtype_t dtypes[] = { TERN_F32, TERN_F64 };
    static const int64_t sizes[][3] = { { 13, 256, 37 }, { 18, 272, 5 },  { 24, 400, 33 },
                                        { 30, 768, 18 }, { 50, 512, 14 }, { 41, 528, 23 } };
    for (int d = 0; d < 2; d++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int threads = 1; threads <= 2; threads++)
                product_check(&(product_case){ dtypes[d], .m = sizes[i][0], .k = sizes[i][1],
                                               .n = sizes[i][2], .b_layout = KARRAY_SWAPPED,
                                               .threads = threads });
}

static void test_gemm_dots_of_some_rows(void **state)
{
    (void)state;
    kernel_each_tuning(dots_of_some_rows, NULL);
}

/* Whole rounds of four vectors, vectors behind them, and what is left. */
static void dots_of_all_lengths(void *context)
{
    (void)context;
    for (int64_t k = 30; k <= 150; k++) {
        product_check(&(product_case){ TERN_F32, .m = 1, .k = k, .n = 1 });
        product_check(&(product_case){ TERN_F64, .m = 1, .k = k, .n = 1 });
    }
}

static void test_gemm_dots_of_all_lengths(void **state)
{
    (void)state;
    kernel_each_isa(dots_of_all_lengths, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm_f32_sizes),
        cmocka_unit_test(test_gemm_f64_sizes),
        cmocka_unit_test(test_gemm_rows_of_every_tile),
        cmocka_unit_test(test_gemm_any_strides),
        cmocka_unit_test(test_gemm_more_than_a_block),
        cmocka_unit_test(test_gemm_of_few_columns_turned),
        cmocka_unit_test(test_gemm_reads_what_lies_well),
        cmocka_unit_test(test_gemm_own_tiles),
        cmocka_unit_test(test_gemm_few_columns_in_a_last_vector),
        cmocka_unit_test(test_gemm_batches),
        cmocka_unit_test(test_gemm_integers),
        cmocka_unit_test(test_gemm_integers_wrap),
        cmocka_unit_test(test_gemm_nothing_to_add),
        cmocka_unit_test(test_gemm_infinity_times_zero),
        cmocka_unit_test(test_gemm_long_dot),
        cmocka_unit_test(test_gemm_dots_of_all_lengths),
        cmocka_unit_test(test_gemm_dots_of_some_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
