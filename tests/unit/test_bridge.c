/* The bridge to OpenBLAS and oneDNN against loops in double precision, and how it is found. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend_cpu/bridge.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/sanitizer.h"

/* Weak: there where tern has OpenMP. */
extern void omp_set_num_threads(int threads) __attribute__((weak));

static const cpu_blas_table *blas_or_skip(void)
{
    const cpu_blas_table *blas = cpu_blas();
    if (!blas) {
        cpu_blas_report report;
        cpu_blas_get_report(&report);
        print_message("skipped: no bridge (%s)\n", report.reason_count ? report.reasons[0] : "");
        skip();
    }
    return blas;
}

/* Repeatable values in [-1, 1). */
static double next_value(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int32_t)(*state >> 32) / 2147483648.0;
}

static float *random_floats(size_t count, uint64_t seed)
{
    float *data = malloc((count + 1) * sizeof *data);
    assert_non_null(data);
    for (size_t i = 0; i < count; i++)
        data[i] = (float)next_value(&seed);
    return data;
}

static double *random_doubles(size_t count, uint64_t seed)
{
    double *data = malloc((count + 1) * sizeof *data);
    assert_non_null(data);
    for (size_t i = 0; i < count; i++)
        data[i] = next_value(&seed);
    return data;
}

/* ------------------------------------------------------------------ matrix products */

static double read_element(const void *data, cpu_blas_dtype dtype, int64_t at)
{
    return dtype == CPU_BLAS_F64 ? ((const double *)data)[at] : (double)((const float *)data)[at];
}

static double reference_element(const cpu_gemm_call *g, int64_t i, int64_t j)
{
    double sum = 0;
    for (int64_t p = 0; p < g->k; p++) {
        int64_t a = g->trans_a ? p * g->lda + i : i * g->lda + p;
        int64_t b = g->trans_b ? j * g->ldb + p : p * g->ldb + j;
        sum += read_element(g->a, g->dtype, a) * read_element(g->b, g->dtype, b);
    }
    return sum;
}

static void check_row(const cpu_gemm_call *g, const void *before, int64_t i)
{
    double unit = g->dtype == CPU_BLAS_F64 ? 1e-14 : 3e-6;
    double tolerance = unit * (1 + sqrt((double)g->k));
    for (int64_t j = 0; j < g->ldc; j++) {
        int64_t at = i * g->ldc + j;
        double old = read_element(before, g->dtype, at);
        double want = old;
        if (j < g->n)
            want = reference_element(g, i, j) + (g->beta == 0 ? 0 : g->beta * old);
        double got = read_element(g->c, g->dtype, at);
        if (!(fabs(got - want) <= tolerance))
            fail_msg("%lldx%lldx%lld trans %d %d threads %d: C[%lld][%lld] is %.9g, not %.9g",
                     (long long)g->m, (long long)g->k, (long long)g->n, g->trans_a, g->trans_b,
                     g->threads, (long long)i, (long long)j, got, want);
    }
}

/* `before` is C as it was. Rows keep 3 elements of padding, which must not change. */
static void check_product(const cpu_gemm_call *g, const void *before)
{
    for (int64_t i = 0; i < g->m; i++)
        check_row(g, before, i);
}

static cpu_gemm_call product(int64_t m, int64_t k, int64_t n, int trans_a, int trans_b)
{
    cpu_gemm_call g;
    memset(&g, 0, sizeof g);
    g.dtype = CPU_BLAS_F32;
    g.m = m;
    g.n = n;
    g.k = k;
    g.trans_a = trans_a;
    g.trans_b = trans_b;
    g.threads = 1;
    g.lda = (trans_a ? m : k) + 1;
    g.ldb = (trans_b ? k : n) + 2;
    g.ldc = n + 3;
    return g;
}

static size_t extent(int64_t rows, int64_t ld)
{
    return (size_t)(rows * ld);
}

static void *random_matrix(const cpu_gemm_call *g, size_t count, uint64_t seed)
{
    if (g->dtype == CPU_BLAS_F64)
        return random_doubles(count, seed);
    return random_floats(count, seed);
}

static void run_product(cpu_gemm_call g)
{
    size_t a_count = extent(g.trans_a ? g.k : g.m, g.lda);
    size_t b_count = extent(g.trans_b ? g.n : g.k, g.ldb);
    size_t c_count = extent(g.m, g.ldc);
    void *a = random_matrix(&g, a_count, 1);
    void *b = random_matrix(&g, b_count, 2);
    void *before = random_matrix(&g, c_count, 3);
    g.a = a;
    g.b = b;
    g.c = random_matrix(&g, c_count, 3);
    assert_int_equal(cpu_blas()->gemm(&g), CPU_BLAS_OK);
    check_product(&g, before);
    free(a);
    free(b);
    free(g.c);
    free(before);
}

static const int64_t gemm_shapes[][3] = {
    { 1, 1, 1 },      { 3, 3, 3 },      { 7, 13, 5 },     { 1, 784, 128 }, { 128, 512, 1 },
    { 17, 33, 65 },   { 33, 127, 65 },  { 64, 128, 10 },  { 10, 64, 128 }, { 100, 100, 101 },
    { 129, 65, 257 }, { 128, 700, 15 }, { 5, 1000, 300 }, { 300, 40, 3 },  { 2, 3000, 2 },
    { 1, 700, 700 },  { 90, 1024, 4 },
};

static void test_gemm_matches_loops_over_odd_shapes(void **state)
{
    (void)state;
    blas_or_skip();
    for (size_t s = 0; s < sizeof gemm_shapes / sizeof *gemm_shapes; s++) {
        for (int bits = 0; bits < 16; bits++) {
            const int64_t *d = gemm_shapes[s];
            cpu_gemm_call g = product(d[0], d[1], d[2], bits & 1, bits >> 1 & 1);
            g.threads = bits & 4 ? 3 : 1;
            g.beta = bits & 8 ? 0.75 : 0;
            run_product(g);
        }
    }
}

static void test_gemm_takes_doubles(void **state)
{
    (void)state;
    cpu_gemm_call probe = product(3, 3, 3, 0, 0);
    probe.dtype = CPU_BLAS_F64;
    if (strcmp(blas_or_skip()->gemm_route(&probe, NULL), "none") == 0) {
        print_message("skipped: this build's bridge has no product of doubles\n");
        skip();
    }
    for (int bits = 0; bits < 8; bits++) {
        cpu_gemm_call g = product(65, 130, 91, bits & 1, bits >> 1 & 1);
        g.dtype = CPU_BLAS_F64;
        g.threads = bits & 4 ? 2 : 1;
        g.beta = 1;
        run_product(g);
    }
}

static void test_gemm_without_beta_never_reads_c(void **state)
{
    (void)state;
    const cpu_blas_table *blas = blas_or_skip();
    static const int64_t sizes[] = { 8, 160 };
    for (int i = 0; i < 2; i++) {
        cpu_gemm_call g = product(sizes[i], sizes[i], sizes[i], 0, 1);
        size_t count = (size_t)(g.m * g.n);
        float *a = random_floats((size_t)(g.m * g.lda), 4);
        float *c = random_floats(count, 5);
        for (size_t j = 0; j < count; j++)
            c[j] = NAN;
        g.ldb = g.lda;
        g.ldc = g.n;
        g.a = g.b = a;
        g.c = c;
        assert_int_equal(blas->gemm(&g), CPU_BLAS_OK);
        for (size_t j = 0; j < count; j++)
            assert_true(!isnan(c[j]));
        free(a);
        free(c);
    }
}

static void test_gemm_of_inner_size_zero_scales(void **state)
{
    (void)state;
    const cpu_blas_table *blas = blas_or_skip();
    float c[4] = { 1, 2, 3, NAN };
    float a[4] = { 1, 1, 1, 1 };
    cpu_gemm_call g = product(3, 0, 1, 0, 0);
    g.lda = g.ldb = g.ldc = 1;
    g.a = g.b = a;
    g.c = c;
    g.beta = 2;
    assert_int_equal(blas->gemm(&g), CPU_BLAS_OK);
    assert_true(c[0] == 2 && c[1] == 4 && c[2] == 6);
    g.beta = 0;
    g.c = c + 1;
    assert_int_equal(blas->gemm(&g), CPU_BLAS_OK);
    assert_true(c[0] == 2 && c[1] == 0 && c[3] == 0);
}

static void test_gemm_leaves_small_products_whole(void **state)
{
    (void)state;
    const cpu_blas_table *blas = blas_or_skip();
    int64_t parts = 0;
    cpu_gemm_call small = product(32, 64, 32, 0, 0);
    cpu_gemm_call large = product(256, 256, 256, 0, 0);
    small.threads = large.threads = 2;
    blas->gemm_route(&small, &parts);
    assert_int_equal(parts, 1);
    blas->gemm_route(&large, &parts);
    assert_int_equal(parts, 2);
}

/* ------------------------------------------------------------------ two threads at once */

static void *multiply_often(void *arg)
{
    float *a = random_floats(96 * 96, 11);
    cpu_gemm_call g = product(96, 96, 96, 0, 1);
    g.lda = g.ldb = g.ldc = 96;
    g.threads = 2;
    g.a = g.b = a;
    g.c = arg;
    for (int i = 0; i < 50; i++)
        cpu_blas()->gemm(&g);
    free(a);
    cpu_blas()->release_thread();
    return NULL;
}

static void test_threads_get_the_same_bits(void **state)
{
    (void)state;
    blas_or_skip();
    enum { COUNT = 3 };
    static float results[COUNT][96 * 96];
    pthread_t threads[COUNT];
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, multiply_often, results[i]), 0);
    for (int i = 0; i < COUNT; i++)
        pthread_join(threads[i], NULL);
    assert_memory_equal(results[0], results[1], sizeof results[0]);
    assert_memory_equal(results[0], results[2], sizeof results[0]);
}

/* ------------------------------------------------------------------ how it is found */

static void print_report(void)
{
    cpu_blas_report r;
    cpu_blas_get_report(&r);
    printf("loaded %d core %s (%s)\n", r.loaded, r.core_wanted ? r.core_wanted : "-",
           r.core_reason);
    printf("in use %s, oneDNN %s %s\n", r.info.openblas_corename ? r.info.openblas_corename : "-",
           r.info.onednn_version ? r.info.onednn_version : "-",
           r.info.onednn_isa ? r.info.onednn_isa : "-");
    for (int i = 0; i < r.reason_count; i++)
        printf("reason %s\n", r.reasons[i]);
}

/* What print_report writes in a fresh process of this program, under `environment` ("A=1 B=2"). */
static void fresh_report(const char *environment, char *out, size_t size)
{
    char self[512] = "";
    char command[1024];
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    snprintf(command, sizeof command, "cd / && env %s '%s' report", environment, self);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t n = fread(out, 1, size - 1, pipe);
    out[n] = 0;
    assert_int_equal(pclose(pipe), 0);
}

static void test_off_is_a_reason(void **state)
{
    (void)state;
    char text[8192];
    fresh_report("TERN_CPU_BLAS=off", text, sizeof text);
    assert_non_null(strstr(text, "loaded 0"));
    assert_non_null(strstr(text, "reason libtern_blas.so: TERN_CPU_BLAS=off"));
}

static void skip_under_a_sanitizer(void)
{
    if (!HAS_SANITIZER)
        return;
    print_message("skipped: a sanitizer takes more memory than the limits of this test leave\n");
    skip();
}

/* What `mode` of this program writes in a fresh process, after `shell` ("ulimit -v 1000; A=1"). */
static void limited_report(const char *shell, const char *mode, char *out, size_t size)
{
    char self[512] = "";
    char command[1024];
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    snprintf(command, sizeof command, "%s timeout 60 '%s' %s", shell, self, mode);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    out[fread(out, 1, size - 1, pipe)] = 0;
    if (pclose(pipe) != 0)
        fail_msg("%s: it did not come back", command);
}

/* OpenBLAS of Debian 12 does not come back from being loaded where its threads' memory is not to be had. */
static void test_too_little_room_is_a_reason(void **state)
{
    (void)state;
    char text[8192], shell[128];
    skip_under_a_sanitizer();
    for (int mib = 160; mib <= 640; mib += 80) {
        for (const char *limit = "vd"; *limit; limit++) {
            snprintf(shell, sizeof shell, "ulimit -%c %d; OMP_NUM_THREADS=2", *limit, mib * 1024);
            limited_report(shell, "report", text, sizeof text);
            if (mib < 256)
                assert_non_null(
                    strstr(text, "reason libtern_blas.so: the limit of the process's memory"));
        }
    }
}

/* It counts its threads by the environment and the processors, whatever the program asks OpenMP for, */
static void test_room_is_for_the_threads_of_the_environment(void **state)
{
    (void)state;
    char text[8192], shell[128];
    skip_under_a_sanitizer();
    for (int mib = 280; mib <= 640; mib += 40) {
        snprintf(shell, sizeof shell, "unset OMP_NUM_THREADS; ulimit -v %d; OPENBLAS_NUM_THREADS=1",
                 mib * 1024);
        limited_report(shell, "report-of-one", text, sizeof text);
    }
}

/* and starts no more than there are processors. */
static void test_room_is_for_no_more_threads_than_processors(void **state)
{
    (void)state;
    char text[8192], shell[128];
    const long processors = sysconf(_SC_NPROCESSORS_CONF);
    skip_under_a_sanitizer();
    blas_or_skip();
    snprintf(shell, sizeof shell, "ulimit -v %ld; OMP_NUM_THREADS=%ld", (processors + 8) << 17,
             processors + 32);
    limited_report(shell, "report", text, sizeof text);
    assert_non_null(strstr(text, "loaded 1"));
}

static void test_every_failed_candidate_has_a_reason(void **state)
{
    (void)state;
    char text[8192];
    fresh_report("TERN_PLUGIN_PATH=tmp:/nowhere-at-all", text, sizeof text);
    assert_non_null(strstr(text, "reason tmp/libtern_blas.so: relative folders are not searched"));
    assert_non_null(strstr(text, "reason /nowhere-at-all/libtern_blas.so: cannot open"));
}

static void test_choice_of_the_user_stands(void **state)
{
    (void)state;
    char text[8192];
    blas_or_skip();
    fresh_report("OPENBLAS_CORETYPE=Haswell", text, sizeof text);
    assert_non_null(strstr(text, "core Haswell (OPENBLAS_CORETYPE was set by the user)"));
}

static void test_kernels_fit_the_cpu(void **state)
{
    (void)state;
    char text[8192];
    blas_or_skip();
    fresh_report("-u OPENBLAS_CORETYPE", text, sizeof text);
    print_message("%s", text);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
        assert_true(strstr(text, "in use SkylakeX") || strstr(text, "in use unknown") ||
                    strstr(text, "in use -"));
    if (__builtin_cpu_supports("avx2"))
        assert_null(strstr(text, "in use Prescott"));
#endif
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "report-of-one") == 0 && omp_set_num_threads)
        omp_set_num_threads(1);
    if (argc > 1 && strncmp(argv[1], "report", 6) == 0) {
        print_report();
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm_matches_loops_over_odd_shapes),
        cmocka_unit_test(test_gemm_takes_doubles),
        cmocka_unit_test(test_gemm_without_beta_never_reads_c),
        cmocka_unit_test(test_gemm_of_inner_size_zero_scales),
        cmocka_unit_test(test_gemm_leaves_small_products_whole),
        cmocka_unit_test(test_threads_get_the_same_bits),
        cmocka_unit_test(test_off_is_a_reason),
        cmocka_unit_test(test_too_little_room_is_a_reason),
        cmocka_unit_test(test_room_is_for_the_threads_of_the_environment),
        cmocka_unit_test(test_room_is_for_no_more_threads_than_processors),
        cmocka_unit_test(test_every_failed_candidate_has_a_reason),
        cmocka_unit_test(test_choice_of_the_user_stands),
        cmocka_unit_test(test_kernels_fit_the_cpu),
    };
    return cmocka_run_group_tests_name("bridge", tests, NULL, NULL);
}
