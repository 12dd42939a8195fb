/* How products go: operands that lie beyond the second-level cache, and what threads share out. */
#include "backend_cpu/gemm_way.h"
#include "tests/support/check.h"
#include "tests/support/kernel.h"

#include <stdlib.h>

/* ---- far operands ---------------------------------------------------------------------------- */

typedef struct far_case {
    tern_dtype_t dtype;
    int64_t m, k, n;
    bool a_by_columns, bias, accumulate;
    bool b_by_columns, by_dots;
} far_case;

static cpu_product product_of(const far_case *c, const karray *a, const karray *b,
                              const karray *bias, const karray *out)
{
    return (cpu_product){ .m = c->m,
                          .k = c->k,
                          .n = c->n,
                          .a = a->view.data,
                          .a_row = c->a_by_columns ? 1 : c->k,
                          .a_col = c->a_by_columns ? c->m : 1,
                          .b = b->view.data,
                          .b_row = c->b_by_columns ? 1 : c->n,
                          .b_col = c->b_by_columns ? c->k : 1,
                          .bias = c->bias ? bias->view.data : NULL,
                          .c = out->view.data,
                          .c_row = c->n,
                          .accumulate = c->accumulate,
                          .by_dots = c->by_dots };
}

static void run_alone(int dtype, const cpu_product *g)
{
    void *scratch = aligned_alloc(64, (size_t)(cpu_product_piece_bytes(dtype, g) + 63) / 64 * 64);
    assert_non_null(scratch);
    cpu_product_alone(dtype, g, scratch);
    free(scratch);
}

/* What is fetched early and in blocks of another depth, or made as the transposed product, changes no bit. */
static void check_far(const far_case *c, cpu_gemm_far far, bool turned)
{
    const int64_t a_dims[1] = { c->m * c->k }, b_dims[1] = { c->k * c->n };
    const int64_t out_dims[1] = { c->m * c->n };
    karray a = karray_random(c->dtype, 1, a_dims, -1, 1, 1);
    karray b = karray_random(c->dtype, 1, b_dims, -1, 1, 2);
    karray bias = karray_random(c->dtype, 1, &c->n, -1, 1, 3);
    karray near_out = karray_filled(c->dtype, 1, out_dims, 7);
    karray far_out = karray_filled(c->dtype, 1, out_dims, 7);
    cpu_product g = product_of(c, &a, &b, &bias, &near_out);
    run_alone((int)c->dtype, &g);
    g = product_of(c, &a, &b, &bias, &far_out);
    g.far = far;
    g.turned = turned;
    run_alone((int)c->dtype, &g);
    const size_t bytes = (size_t)(c->m * c->n * tern_dtype_size(c->dtype));
    assert_memory_equal(near_out.view.data, far_out.view.data, bytes);
    for (int64_t i = 0; i < c->m * c->n; i += 13) {
        double sum = c->accumulate ? 7 : c->bias ? karray_at(&bias, i % c->n) : 0;
        for (int64_t k = 0; k < c->k; k++)
            sum += karray_at(&a, c->a_by_columns ? k * c->m + i / c->n : i / c->n * c->k + k) *
                   karray_at(&b, c->b_by_columns ? i % c->n * c->k + k : k * c->n + i % c->n);
        kernel_expect("far", i, karray_at(&far_out, i), sum, 1e-5 * (1 + (double)c->k / 64));
    }
    karray_free(&a);
    karray_free(&b);
    karray_free(&bias);
    karray_free(&near_out);
    karray_free(&far_out);
}

/* Rows of one to five strips; a last block and a last panel that are not full. */
static void far_cases(void *context)
{
    (void)context;
    static const int64_t rows[] = { 9, 16, 17, 25, 40, 13 };
    if (cpu_isa() < CPU_ISA_AVX2)
        return;
    for (int r = 0; r < 6; r++)
        for (int way = 0; way < 4; way++) {
            const tern_dtype_t dtype = r == 3 ? TERN_F64 : TERN_F32;
            const far_case few = { dtype,
                                   .m = rows[r],
                                   .k = 147 + r,
                                   .n = 203 - 16 * r,
                                   .a_by_columns = way & 1,
                                   .bias = way == 2,
                                   .accumulate = way == 3 };
            check_far(&few, CPU_GEMM_FAR_B, false);
            const far_case narrow = { dtype,
                                      .m = 203 - r,
                                      .k = 147 + r,
                                      .n = rows[r],
                                      .a_by_columns = true,
                                      .bias = way == 2,
                                      .accumulate = way == 3 };
            check_far(&narrow, CPU_GEMM_FAR_A, false);
        }
}

static void test_far_operands_change_no_bits(void **state)
{
    (void)state;
    kernel_each_isa(far_cases, NULL);
}

/* ---- tiles that are alike -------------------------------------------------------------------- */

/* Of sums of a few small whole numbers every order gives the same. */
static karray whole_numbers(tern_dtype_t dtype, int64_t n, int seed)
{
    karray a = karray_filled(dtype, 1, &n, 0);
    for (int64_t i = 0; i < n; i++) {
        const int value = (int)((i * 7 + seed) % 11) - 5;
        if (dtype == TERN_F64)
            ((double *)a.view.data)[i] = value;
        else
            ((float *)a.view.data)[i] = (float)value;
    }
    return a;
}

static void check_alike(const far_case *c)
{
    karray a = whole_numbers(c->dtype, c->m * c->k, 1), b = whole_numbers(c->dtype, c->k * c->n, 2);
    karray bias = whole_numbers(c->dtype, c->n, 3), out = whole_numbers(c->dtype, c->m * c->n, 4);
    karray before = whole_numbers(c->dtype, c->m * c->n, 4);
    const cpu_product g = product_of(c, &a, &b, &bias, &out);
    run_alone((int)c->dtype, &g);
    for (int64_t i = 0; i < c->m; i++)
        for (int64_t j = 0; j < c->n; j++) {
            double sum = c->accumulate ? karray_at(&before, i * c->n + j) : 0;
            sum += c->bias ? karray_at(&bias, j) : 0;
            for (int64_t p = 0; p < c->k; p++)
                sum += karray_at(&a, i * g.a_row + p * g.a_col) *
                       karray_at(&b, p * g.b_row + j * g.b_col);
            if (karray_at(&out, i * c->n + j) != sum)
                fail_msg("%lldx%lldx%lld, row %lld, column %lld: %g, not %g", (long long)c->m,
                         (long long)c->k, (long long)c->n, (long long)i, (long long)j,
                         karray_at(&out, i * c->n + j), sum);
        }
    karray_free(&a);
    karray_free(&b);
    karray_free(&bias);
    karray_free(&out);
    karray_free(&before);
}

/* One panel of all strips, panels of a few strips, and of one strip whose rows fill the cache; the last vector full or not. */
static void alike_cases(void *context)
{
    (void)context;
    static const int64_t columns[] = { 11, 16, 40, 48, 118, 250, 379, 384, 490, 1001 };
    for (int n = 0; n < 10; n++)
        for (int i = 0; i < 24; i++)
            check_alike(&(far_case){ .dtype = i & 1 ? TERN_F64 : TERN_F32,
                                     .m = i & 2 ? 61 : 20,
                                     .k = i & 2 ? 13 : 70,
                                     .n = columns[n],
                                     .a_by_columns = i >= 12,
                                     .bias = i % 12 / 4 == 1,
                                     .accumulate = i % 12 / 4 == 2 });
}

static void test_tiles_that_are_alike(void **state)
{
    (void)state;
    kernel_each_isa(alike_cases, NULL);
}

/* Strips that are rows of C, and columns; fours of one call and of more; a last one that is none; one row or column. */
static void dot_cases(void *context)
{
    (void)context;
    static const int64_t sizes[][3] = { { 50, 64, 6 },  { 13, 100, 10 }, { 6, 40, 33 },
                                        { 1, 200, 31 }, { 29, 70, 1 },   { 7, 2100, 21 },
                                        { 64, 33, 64 }, { 61, 900, 5 },  { 4, 32, 4 } };
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int i = 0; i < 6; i++)
            check_alike(&(far_case){ .dtype = i & 1 ? TERN_F64 : TERN_F32,
                                     .m = sizes[s][0],
                                     .k = sizes[s][1],
                                     .n = sizes[s][2],
                                     .b_by_columns = true,
                                     .by_dots = true,
                                     .bias = i / 2 == 1,
                                     .accumulate = i / 2 == 2 });
}

static void test_dots_that_are_alike(void **state)
{
    (void)state;
    kernel_each_isa(dot_cases, NULL);
}

/* ---- turned ---------------------------------------------------------------------------------- */

/* Pieces that are alike, and a last one that packs what the others do not: 36 rows of the transposed product
 * against 193 and 400 columns. Few rows against a transposed B, too, and sums that start from a bias. */
static void turned_cases(void *context)
{
    (void)context;
    static const int64_t columns[] = { 1, 4, 7, 11, 16, 24, 36, 50 };
    static const int64_t rows[] = { 1, 33, 192, 193, 400 };
    for (int n = 0; n < 8; n++)
        for (int m = 0; m < 5; m++)
            for (int64_t k = 30; k <= 630; k += 200) {
                const tern_dtype_t dtype = m == 1 ? TERN_F64 : TERN_F32;
                const far_case narrow = { dtype, .m = rows[m], .k = k, .n = columns[n],
                                          .a_by_columns = true };
                const far_case few = { dtype,
                                       .m = columns[n],
                                       .k = k,
                                       .n = rows[m],
                                       .a_by_columns = m == 3,
                                       .bias = n % 2 == 0,
                                       .b_by_columns = m != 4 };
                check_far(&narrow, CPU_GEMM_NEAR, true);
                check_far(&few, CPU_GEMM_NEAR, true);
            }
}

static void test_turning_changes_no_bits(void **state)
{
    (void)state;
    kernel_each_isa(turned_cases, NULL);
}

static void test_what_is_turned(void **state)
{
    (void)state;
    const cpu_product good = {
        .m = 32, .k = 32, .n = 24, .a_row = 1, .a_col = 32, .b_row = 24, .b_col = 1
    };
    cpu_product g = good;
    assert_true(cpu_product_prefers_turning(&g));
    g.m = 31;
    assert_false(cpu_product_prefers_turning(&g));
    g = good, g.k = 31;
    assert_false(cpu_product_prefers_turning(&g));
    g = good, g.a_row = 32, g.a_col = 1;
    assert_false(cpu_product_prefers_turning(&g));
    g = good, g.b_row = 1, g.b_col = 32;
    assert_false(cpu_product_prefers_turning(&g));
    g = good, g.bias = &g;
    assert_false(cpu_product_prefers_turning(&g));
    g = good, g.accumulate = true;
    assert_false(cpu_product_prefers_turning(&g));
    for (g = good, g.n = 1; g.n < 60; g.n++)
        assert_true(cpu_product_prefers_turning(&g) ==
                    ((g.n >= 8 && g.n <= 24) || (g.n >= 33 && g.n <= 36)));
}

static void test_what_is_far(void **state)
{
    (void)state;
    const bool here = cpu_isa() == CPU_ISA_AVX512 && cpu_tuned_for(CPU_INTEL);
    const cpu_gemm_far far_b = here ? CPU_GEMM_FAR_B : CPU_GEMM_NEAR;
    const cpu_gemm_far far_a = here ? CPU_GEMM_FAR_A : CPU_GEMM_NEAR;
    cpu_product g = {
        .m = 20, .k = 1000, .n = 600, .a_row = 1000, .a_col = 1, .b_row = 600, .b_col = 1
    };
    assert_int_equal(cpu_product_far(TERN_F32, &g), far_b);
    assert_int_equal(cpu_product_far(TERN_F16, &g), CPU_GEMM_NEAR);
    g.b_row = 1200; /* a thread's part of columns */
    assert_int_equal(cpu_product_far(TERN_F32, &g), CPU_GEMM_NEAR);
    g.b_row = 600;
    g.k = 500; /* 1.2 MB */
    assert_int_equal(cpu_product_far(TERN_F32, &g), CPU_GEMM_NEAR);
    g = (cpu_product){
        .m = 1000, .k = 800, .n = 40, .a_row = 1, .a_col = 1000, .b_row = 40, .b_col = 1
    };
    assert_int_equal(cpu_product_far(TERN_F32, &g), far_a);
    g.n = 49;
    assert_int_equal(cpu_product_far(TERN_F32, &g), CPU_GEMM_NEAR);
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef enum layout { NN, NT, TN } layout; /* what is transposed */

static bool rows_are_shared(int64_t m, int64_t k, int64_t n, layout of)
{
    const cpu_product g = { .m = m,
                            .k = k,
                            .n = n,
                            .a_row = of == TN ? 1 : k,
                            .a_col = of == TN ? m : 1,
                            .b_row = of == NT ? 1 : n,
                            .b_col = of == NT ? k : 1,
                            .c_row = n };
    return cpu_product_parts_are_rows(TERN_F32, &g, 2);
}

/* Tiles of six rows pack more of B for each, and least of all a transposed A. */
static void expect_parts_without_avx512(void)
{
    assert_true(rows_are_shared(96, 23, 463, NN));
    assert_true(rows_are_shared(104, 1158, 72, NN));
    assert_false(rows_are_shared(9, 657, 743, NN));
    assert_true(rows_are_shared(215, 975, 69, NT));
    /* AVX2 turns these; the tuning alone changes no instructions */
    if (cpu_isa() == CPU_ISA_AVX2) {
        assert_true(rows_are_shared(128, 784, 512, NT));
        assert_true(rows_are_shared(45, 907, 313, NT));
        assert_true(rows_are_shared(64, 784, 128, NT));
    }
    assert_false(rows_are_shared(24, 400, 272, NT));
    assert_false(rows_are_shared(30, 291, 434, NT));
    assert_true(rows_are_shared(98, 917, 23, TN));
    assert_true(rows_are_shared(340, 860, 68, TN));
    assert_true(rows_are_shared(89, 41, 377, TN));
    assert_true(rows_are_shared(24, 107, 541, TN));
    assert_false(rows_are_shared(26, 390, 915, TN));
    assert_false(rows_are_shared(23, 164, 1054, TN));
}

/* Columns cost a move of lines for each row of C, and that each thread packs all of a transposed A; rows cost that
 * each packs, or turns, all of B; and tiles that are not full cost strips. As measured on two threads. */
static void test_parts_are_rows_or_columns(void **state)
{
    (void)state;
    if (cpu_tuned_for(CPU_AVX2)) {
        expect_parts_without_avx512();
        return;
    }
    assert_true(rows_are_shared(377, 291, 192, NN));
    assert_true(rows_are_shared(1740, 20, 115, NN));
    assert_true(rows_are_shared(62, 541, 215, NN));
    assert_false(rows_are_shared(10, 62, 843, NN));
    assert_false(rows_are_shared(9, 763, 1639, NN));
    assert_false(rows_are_shared(12, 300, 900, NT));
    assert_false(rows_are_shared(1, 2048, 2048, NN));
    assert_true(rows_are_shared(31, 53, 847, NN));
    assert_false(rows_are_shared(9, 657, 743, NN));
    assert_true(rows_are_shared(15, 955, 212, TN));
    assert_true(rows_are_shared(26, 390, 915, TN));
    assert_false(rows_are_shared(23, 342, 128, NT));
    assert_false(rows_are_shared(38, 865, 685, NT));
    assert_false(rows_are_shared(58, 512, 441, NN));
    assert_false(rows_are_shared(41, 190, 1004, TN));
    /* two cores of a Zen 5 may be far apart */
    assert_true(rows_are_shared(55, 23, 1458, NT) == cpu_tuned_for(CPU_ZEN5));
    /* a layer's weights lie with the thread that steps them, which counts from a depth on, and up to what a
     * second-level cache of 1 MiB keeps */
    assert_false(rows_are_shared(64, 784, 128, NT));
    assert_true(rows_are_shared(64, 127, 128, NT));
    assert_false(rows_are_shared(64, 128, 128, NT));
    assert_false(rows_are_shared(128, 512, 256, NT));
    assert_true(rows_are_shared(128, 513, 256, NT) == !cpu_tuned_for(CPU_INTEL));
}

static void test_threads_from_four_microseconds_on(void **state)
{
    (void)state;
    const tern_call call = { .threads = 2 };
    const cpu_product more = { .m = 22, .k = 252, .n = 94 }, less = { .m = 16, .k = 128, .n = 150 };
    const cpu_product large = { .m = 1000, .k = 1000, .n = 1000 };
    const int most = cpu_product_threads(&call, TERN_F32, &large, 1); /* 1 without OpenMP */
    assert_int_equal(cpu_product_threads(&call, TERN_F32, &more, 1), most);
    assert_int_equal(cpu_product_threads(&call, TERN_F32, &less, 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_far_operands_change_no_bits),
        cmocka_unit_test(test_what_is_far),
        cmocka_unit_test(test_tiles_that_are_alike),
        cmocka_unit_test(test_dots_that_are_alike),
        cmocka_unit_test(test_turning_changes_no_bits),
        cmocka_unit_test(test_what_is_turned),
        cmocka_unit_test(test_parts_are_rows_or_columns),
        cmocka_unit_test(test_threads_from_four_microseconds_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
