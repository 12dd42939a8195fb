/* Products whose ways are measured (backend_cpu/gemm_trial.h): which one is taken after how many calls, and that every
 * one of those calls is right. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "backend_cpu/crowd.h"
#include "backend_cpu/gemm_trial.h"
#include "tests/support/check.h"
#include "tests/support/karray_layout.h"
#include "tests/support/kernel.h"

static cpu_product product(int64_t m, int64_t k, int64_t n)
{
    return (cpu_product){
        .m = m, .n = n, .k = k, .a_row = k, .a_col = 1, .b_row = n, .b_col = 1, .c_row = n
    };
}

static bool is_same(cpu_gemm_choice a, cpu_gemm_choice b)
{
    return a.own == b.own && a.maker == b.maker && a.cut == b.cut && a.threads == b.threads;
}

enum { WAYS = 12 /* of f32 on two threads */ };

/* Calls until one way is left, of which `fastest` takes `seconds` and all others twice that. */
static int calls_to_decide(cpu_gemm_trial *trial, cpu_gemm_choice fastest, double seconds)
{
    bool decided = false;
    for (int calls = 0;; calls++) {
        const cpu_gemm_choice way = cpu_gemm_trial_next(trial, &decided);
        if (decided) {
            assert_true(is_same(way, fastest));
            return calls;
        }
        assert_true(calls < 1000);
        /* something disturbs two of three calls of the fastest */
        const double noise = calls % 3 == 1 ? 0 : 1;
        (void)cpu_gemm_trial_took(trial, is_same(way, fastest) ? noise + seconds : 2 * seconds);
    }
}

static void test_the_fastest_way_is_found(void **state)
{
    (void)state;
    const cpu_gemm_choice ways[] = { { true, CPU_BLAS_BY_TABLE, CPU_BLAS_ROWS, 2 },
                                     { true, CPU_BLAS_BY_TABLE, CPU_BLAS_AS_PLANNED, 1 },
                                     { false, CPU_BLAS_OPENBLAS, CPU_BLAS_COLUMNS, 2 },
                                     { false, CPU_BLAS_TILES, CPU_BLAS_AS_PLANNED, 1 } };
    for (int i = 0; i < 4; i++) {
        const cpu_product g = product(100 + i, 64, 80);
        cpu_gemm_trial *trial = cpu_gemm_trial_of(TERN_F32, &g, 2, true);
        assert_int_equal(calls_to_decide(trial, ways[i], 1e-5),
                         3 * WAYS); /* the first round says it */
        assert_ptr_equal(cpu_gemm_trial_of(TERN_F32, &g, 2, true), trial);
    }
}

static void test_close_ways_are_tried_more_often(void **state)
{
    (void)state;
    const cpu_product g = product(300, 64, 80);
    cpu_gemm_trial *trial = cpu_gemm_trial_of(TERN_F64, &g, 1, true);
    int calls = 0;
    for (bool last = false; !last; calls++) {
        bool decided;
        const cpu_gemm_choice way = cpu_gemm_trial_next(trial, &decided);
        assert_false(decided);
        last = cpu_gemm_trial_took(trial, way.own ? 1.01e-5 : 1e-5);
    }
    assert_int_equal(calls, 2 * (3 + 6 + 12)); /* own kernels and OpenBLAS, all rounds */
    assert_true(cpu_gemm_trial_seconds(trial, true, CPU_BLAS_BY_TABLE) == 1.01e-5);
    assert_true(cpu_gemm_trial_seconds(trial, false, CPU_BLAS_OPENBLAS) == 1e-5);
    assert_true(isinf(cpu_gemm_trial_seconds(trial, false, CPU_BLAS_ONEDNN)));
}

static void test_long_products_are_tried_in_one_round(void **state)
{
    (void)state;
    const cpu_product g = product(5000, 64, 80);
    const cpu_gemm_choice way = { false, CPU_BLAS_ONEDNN, CPU_BLAS_AS_PLANNED, 1 };
    cpu_gemm_trial *trial = cpu_gemm_trial_of(TERN_F32, &g, 1, true);
    bool decided = false;
    int calls = 0;
    for (; !decided; calls++) {
        const cpu_gemm_choice next = cpu_gemm_trial_next(trial, &decided);
        if (decided)
            assert_true(is_same(next, way));
        else
            (void)cpu_gemm_trial_took(trial, is_same(next, way) ? 0.0999 : 0.1);
    }
    assert_int_equal(calls, 3 * 4 + 1);
}

static void test_shapes_are_told_apart(void **state)
{
    (void)state;
    cpu_product g = product(20, 640, 80);
    cpu_gemm_trial *const first = cpu_gemm_trial_of(TERN_F32, &g, 1, true);
    assert_ptr_not_equal(cpu_gemm_trial_of(TERN_F32, &g, 2, true), first);
    assert_ptr_not_equal(cpu_gemm_trial_of(TERN_F64, &g, 1, true), first);
    int64_t *const strides[] = {
        &g.m, &g.n, &g.k, &g.a_row, &g.a_col, &g.b_row, &g.b_col, &g.c_row
    };
    for (size_t i = 0; i < sizeof strides / sizeof *strides; i++) {
        *strides[i] += 1;
        assert_ptr_not_equal(cpu_gemm_trial_of(TERN_F32, &g, 1, true), first);
        *strides[i] -= 1;
    }
    g.accumulate = true;
    assert_ptr_not_equal(cpu_gemm_trial_of(TERN_F32, &g, 1, true), first);
    g.accumulate = false;
    g.bias = &g;
    assert_ptr_not_equal(cpu_gemm_trial_of(TERN_F32, &g, 1, true), first);
    g.bias = NULL;
    assert_ptr_equal(cpu_gemm_trial_of(TERN_F32, &g, 1, true), first);
}

/* Of more than two threads a library's blocks may lie in a grid. */
static void test_grids_are_tried_too(void **state)
{
    (void)state;
    const cpu_product g = product(25, 640, 80);
    cpu_gemm_trial *trial = cpu_gemm_trial_of(TERN_F32, &g, 4, true);
    int grids = 0, alone = 0, calls = 0;
    for (bool decided = false; !decided; calls++) {
        const cpu_gemm_choice way = cpu_gemm_trial_next(trial, &decided);
        if (decided)
            break;
        grids += way.cut == CPU_BLAS_AS_PLANNED && way.threads == 4;
        alone += way.cut == CPU_BLAS_AS_PLANNED && way.threads == 1;
        (void)cpu_gemm_trial_took(trial, 1);
    }
    assert_int_equal(calls, 3 * CPU_GEMM_TRIALS);
    assert_int_equal(grids, 3 * 3);
    assert_int_equal(alone, 3 * 4);
}

/* Without libraries own kernels alone are measured. */
static void test_own_ways_without_a_library(void **state)
{
    (void)state;
    const cpu_product g = product(23, 640, 80);
    cpu_gemm_trial *trial = cpu_gemm_trial_of(TERN_F32, &g, 1, false);
    bool decided;
    assert_true(cpu_gemm_trial_next(trial, &decided).own);
    assert_true(decided);
}

static void test_a_full_table_leaves_it_to_the_committed_ones(void **state)
{
    (void)state;
    int64_t m = 1;
    cpu_product g = product(m, 6, 7);
    while (cpu_gemm_trial_of(TERN_F32, &g, 1, true) != NULL) {
        assert_true(m <= CPU_GEMM_SHAPES);
        g.m = ++m;
    }
    g.m = 2;
    assert_non_null(cpu_gemm_trial_of(TERN_F32, &g, 1, true));
}

enum { K = 90, N = 150 };

/* [m, K] by [K, N] in row-major order. */
static double *reference(const karray *a, const karray *b, int64_t m)
{
    double *sums = calloc((size_t)(m * N), sizeof *sums);
    assert_non_null(sums);
    for (int64_t i = 0; i < m * N; i++)
        for (int64_t k = 0; k < K; k++)
            sums[i] += a->values[i / N * K + k] * b->values[k * N + i % N];
    return sums;
}

/* A product again and again: right each time, and, once a way is found, the same each time. */
static void check_calls(tern_dtype_t dtype, int threads, bool transposed)
{
    const int64_t m = 200 + threads; /* a shape of its own */
    karray a = kernel_operand(dtype, 2, (const int64_t[]){ m, K }, 1);
    karray b = kernel_operand(dtype, 2, (const int64_t[]){ K, N }, 2);
    karray out = karray_filled(dtype, 2, (const int64_t[]){ m, N }, 0);
    double *sums = reference(&a, &b, m);
    if (transposed)
        karray_relayout(&b, KARRAY_SWAPPED);
    const kernel_run run = { .kernel = cpu_gemm,
                             .threads = threads,
                             .in = { &a, &b },
                             .out = { &out },
                             .n_in = 2,
                             .n_out = 1 };
    const size_t bytes = (size_t)(m * N * tern_dtype_size(dtype));
    void *last = malloc(bytes);
    const int events = kernel_events();
    const bool measured = threads > 1 || cpu_blas() != NULL; /* else there is one way */
    int after = 0;                                           /* calls since a way was found */
    for (int call = 0; after < 20; call++) {
        assert_true(call < 100000);
        *cpu_crowd_here() = (cpu_crowd){ .pause = 0 }; /* or calls may not count for long */
        memset(out.view.data, 0xFF, bytes);
        assert_int_equal(kernel_call(&run), TERN_OK);
        if (after > 1)
            assert_memory_equal(out.view.data, last, bytes);
        memcpy(last, out.view.data, bytes);
        after += !measured || kernel_events() > events;
        for (int64_t i = 0; i < m * N; i += 1 + call % 64 * 3)
            kernel_expect("product", i, karray_at(&out, i), sums[i],
                          dtype == TERN_F64 ? 1e-13 : 1e-5);
    }
    assert_int_equal(kernel_events(), events + measured);
    free(last);
    free(sums);
    karray_free(&a);
    karray_free(&b);
    karray_free(&out);
}

static void test_every_call_is_right(void **state)
{
    (void)state;
    const uint32_t before = kernel_set_numerics(TERN_NUMERICS_CPU_BENCHMARK);
    for (int t = 0; t < 2; t++) {
        check_calls(TERN_F32, 1, t == 1);
        check_calls(TERN_F32, 2, t == 1);
        check_calls(TERN_F32, 4, t == 1);
        check_calls(TERN_F64, 3, t == 1);
    }
    (void)kernel_set_numerics(before);
}

/* A thread begins anew, and its table ends with it (LeakSanitizer). */
static void *new_trial(void *product)
{
    return cpu_gemm_trial_of(TERN_F32, product, 1, true);
}

static void test_a_thread_has_its_own(void **state)
{
    (void)state;
    cpu_product g = product(24, 640, 80);
    cpu_gemm_trial *const own = cpu_gemm_trial_of(TERN_F32, &g, 1, true);
    void *other = NULL;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, new_trial, &g), 0);
    assert_int_equal(pthread_join(thread, &other), 0);
    assert_non_null(other);
    assert_ptr_not_equal(other, own);
}

/* Calls of a product on two threads; how many ways were found. */
static int found_in(int calls, int64_t m)
{
    const int before = kernel_events();
    karray a = kernel_operand(TERN_F32, 2, (const int64_t[]){ m, K }, 1);
    karray b = kernel_operand(TERN_F32, 2, (const int64_t[]){ K, N }, 2);
    karray out = karray_filled(TERN_F32, 2, (const int64_t[]){ m, N }, 0);
    const kernel_run run = {
        .kernel = cpu_gemm, .threads = 2, .in = { &a, &b }, .out = { &out }, .n_in = 2, .n_out = 1
    };
    for (int call = 0; call < calls; call++)
        assert_int_equal(kernel_call(&run), TERN_OK);
    karray_free(&a);
    karray_free(&b);
    karray_free(&out);
    return kernel_events() - before;
}

/* Nothing is measured where results have to repeat. */
static void test_deterministic_algorithms_come_first(void **state)
{
    (void)state;
    const uint32_t before =
        kernel_set_numerics(TERN_NUMERICS_CPU_BENCHMARK | TERN_NUMERICS_DETERMINISTIC);
    assert_int_equal(found_in(400, 300), 0);
    (void)kernel_set_numerics(before);
}

/* Where other processes want the cores, a team's time is none. */
static void test_a_crowd_is_not_measured(void **state)
{
    (void)state;
    const uint32_t before = kernel_set_numerics(TERN_NUMERICS_CPU_BENCHMARK);
    const cpu_crowd saved = *cpu_crowd_here();
    cpu_crowd_here()->alone_until = INT64_MAX;
    assert_int_equal(found_in(400, 301), 0);
    *cpu_crowd_here() = saved;
    (void)kernel_set_numerics(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call_is_right),
        cmocka_unit_test(test_deterministic_algorithms_come_first),
        cmocka_unit_test(test_a_crowd_is_not_measured),
        cmocka_unit_test(test_the_fastest_way_is_found),
        cmocka_unit_test(test_close_ways_are_tried_more_often),
        cmocka_unit_test(test_long_products_are_tried_in_one_round),
        cmocka_unit_test(test_shapes_are_told_apart),
        cmocka_unit_test(test_grids_are_tried_too),
        cmocka_unit_test(test_own_ways_without_a_library),
        cmocka_unit_test(test_a_thread_has_its_own),
        cmocka_unit_test(test_a_full_table_leaves_it_to_the_committed_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
