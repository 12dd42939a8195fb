/* Products of half types: each way against double loops, over layouts, odd depths and blocks of every
 * dimension; which way is taken. */
#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend_cpu/bridge.h"
#include "backend_cpu/gemm.h"
#include "backend_cpu/half.h"
#include "tests/support/check.h"
#include "tests/support/kernel.h"
#include "tern/system.h"

typedef struct half_case {
    int64_t m, k, n;
    bool a_turned, b_turned, has_bias; /* turned: stored as its transpose */
} half_case;

/* Numbers of [-1, 1) that the dtype has, with gaps between rows that hold NaN. */
static uint16_t *matrix(int dtype, int64_t rows, int64_t pitch, int64_t columns, uint32_t seed)
{
    uint16_t *m = malloc((size_t)(rows * pitch + 1) * sizeof *m);
    assert_non_null(m);
    for (int64_t i = 0; i < rows * pitch; i++) {
        seed = seed * 1664525u + 1013904223u;
        const float value = (float)(seed >> 8) / (float)(1 << 23) - 1;
        m[i] = i % pitch >= columns ? (uint16_t)0x7FFF
               : dtype == TERN_F16  ? cpu_f32_to_f16(value)
                                    : cpu_f32_to_bf16(value);
    }
    return m;
}

static double at(int dtype, const uint16_t *m, int64_t i)
{
    return (double)(dtype == TERN_F16 ? cpu_f16_to_f32(m[i]) : cpu_bf16_to_f32(m[i]));
}

/* op(M) [rows, columns] as doubles, row-major. */
static double *widened(int dtype, const uint16_t *m, int64_t rows, int64_t columns, int64_t row,
                       int64_t column)
{
    double *out = malloc((size_t)(rows * columns) * sizeof *out);
    assert_non_null(out);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            out[i * columns + j] = at(dtype, m, i * row + j * column);
    return out;
}

static void expect_all(int dtype, const cpu_product *g)
{
    double *a = widened(dtype, g->a, g->m, g->k, g->a_row, g->a_col);
    double *b = widened(dtype, g->b, g->n, g->k, g->b_col, g->b_row);
    const double unit = dtype == TERN_F16 ? 0x1p-11 : 0x1p-8;
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            double sum = g->bias != NULL ? at(dtype, g->bias, j) : 0, size = fabs(sum);
            for (int64_t p = 0; p < g->k; p++) {
                const double term = a[i * g->k + p] * b[j * g->k + p];
                sum += term;
                size += fabs(term);
            }
            /* f32 sums, one rounding to the dtype */
            const double most = unit * fabs(sum) + size * 0x1p-24 * ((double)g->k / 8 + 8) + 1e-30;
            const double got = at(dtype, g->c, i * g->c_row + j);
            if (!(fabs(got - sum) <= most))
                fail_msg("[%lld, %lld] of %lldx%lldx%lld: %.9g, not %.9g", (long long)i,
                         (long long)j, (long long)g->m, (long long)g->k, (long long)g->n, got, sum);
        }
    free(a);
    free(b);
}

static void check_way(int dtype, bool native, const half_case *c)
{
    const int64_t a_pitch = (c->a_turned ? c->m : c->k) + 3;
    const int64_t b_pitch = (c->b_turned ? c->k : c->n) + 5;
    cpu_product g = { .m = c->m, .n = c->n, .k = c->k, .c_row = c->n, .native = native };
    uint16_t *a = matrix(dtype, c->a_turned ? c->k : c->m, a_pitch, a_pitch - 3, 1);
    uint16_t *b = matrix(dtype, c->b_turned ? c->n : c->k, b_pitch, b_pitch - 5, 2);
    uint16_t *bias = matrix(dtype, 1, c->n, c->n, 3);
    uint16_t *out = matrix(dtype, c->m, c->n, 0, 4);
    g.a = a;
    g.b = b;
    g.c = out;
    g.bias = c->has_bias ? bias : NULL;
    g.a_row = c->a_turned ? 1 : a_pitch;
    g.a_col = c->a_turned ? a_pitch : 1;
    g.b_row = c->b_turned ? 1 : b_pitch;
    g.b_col = c->b_turned ? b_pitch : 1;
    void *scratch = aligned_alloc(64, (size_t)cpu_product_piece_bytes(dtype, &g));
    assert_non_null(scratch);
    memset(scratch, 0xFF, (size_t)cpu_product_piece_bytes(dtype, &g)); /* NaN */
    cpu_product_alone(dtype, &g, scratch);
    expect_all(dtype, &g);
    free(scratch);
    free(out);
    free(bias);
    free(b);
    free(a);
}

static void check_all(void *context)
{
    (void)context;
    static const int64_t sizes[][3] = {
        { 1, 1, 1 },    { 3, 5, 7 },     { 8, 16, 48 },   { 9, 33, 49 },    { 17, 31, 16 },
        { 2, 700, 30 }, { 40, 513, 20 }, { 300, 515, 7 }, { 13, 258, 491 }, { 275, 514, 482 },
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int layout = sizes[i][0] == 275 ? 3 : 0; layout < 4; layout++) {
            const half_case c = { sizes[i][0], sizes[i][1],       sizes[i][2],
                                  layout & 1,  (layout & 2) != 0, layout != 2 };
            check_way(TERN_F16, false, &c);
            check_way(TERN_BF16, false, &c);
            if (cpu_isa() == CPU_ISA_AVX512 && (cpu_half_this().features & CPU_HAS_BF16) != 0)
                check_way(TERN_BF16, true, &c);
        }
}

static void test_half_products_against_double(void **state)
{
    (void)state;
    kernel_each_isa(check_all, NULL);
}

/* ---- the choice ------------------------------------------------------------------------------ */

static const cpu_half_cpu zen5 = { CPU_VENDOR_AMD, 0x1A, 2, CPU_HAS_BF16 };
static const cpu_half_cpu zen4 = { CPU_VENDOR_AMD, 0x19, 0x11, CPU_HAS_BF16 };
static const cpu_half_cpu emerald = { CPU_VENDOR_INTEL, 6, 0xCF, CPU_HAS_BF16 | CPU_HAS_FP16 };
static const cpu_half_cpu emerald_amx = { CPU_VENDOR_INTEL, 6, 0xCF,
                                          CPU_HAS_BF16 | CPU_HAS_FP16 | CPU_HAS_AMX };
/* Another CPU for its AMX-FP16: nobody has measured it. */
static const cpu_half_cpu granite = {
    CPU_VENDOR_INTEL, 6, 0xAD, CPU_HAS_BF16 | CPU_HAS_FP16 | CPU_HAS_AMX | CPU_HAS_AMX_FP16
};
static const cpu_half_cpu old = { CPU_VENDOR_INTEL, 6, 0x55, 0 };

static void test_cpus_by_model_and_features(void **state)
{
    (void)state;
    assert_string_equal(cpu_half_kind(&zen5), "AMD_ZEN5");
    assert_string_equal(cpu_half_kind(&emerald), "INTEL_EMERALD_RAPIDS");
    assert_null(cpu_half_kind(&zen4));
    assert_string_equal(cpu_half_kind(&emerald_amx), "INTEL_AMX");
    assert_null(cpu_half_kind(&granite));
    assert_null(cpu_half_kind(&old));
}

static void expect_ways(const cpu_half_cpu *cpu, const char *wanted, int dtype,
                        cpu_half_way product, cpu_half_way conv)
{
    assert_int_equal(cpu_half_way_of(cpu, wanted, dtype, CPU_HALF_WIDE), product);
    assert_int_equal(cpu_half_way_of(cpu, wanted, dtype, CPU_HALF_CONV), conv);
}

static void test_measurements_decide_and_not_presence(void **state)
{
    (void)state;
    expect_ways(&zen5, NULL, TERN_BF16, CPU_HALF_OWN, CPU_HALF_LIBRARY);
    expect_ways(&zen5, NULL, TERN_F16, CPU_HALF_F32, CPU_HALF_F32);
    expect_ways(&zen5, "nonsense", TERN_BF16, CPU_HALF_OWN, CPU_HALF_LIBRARY);
    const cpu_half_cpu *others[] = { &zen4, &emerald, &granite, &old };
    for (int i = 0; i < 4; i++) {
        expect_ways(others[i], NULL, TERN_BF16, CPU_HALF_F32, CPU_HALF_F32);
        expect_ways(others[i], NULL, TERN_F16, CPU_HALF_F32, CPU_HALF_F32);
    }
    expect_ways(&emerald_amx, NULL, TERN_BF16, CPU_HALF_LIBRARY, CPU_HALF_LIBRARY);
    expect_ways(&emerald_amx, NULL, TERN_F16, CPU_HALF_F32, CPU_HALF_F32);
    assert_int_equal(cpu_half_way_of(&emerald_amx, NULL, TERN_BF16, CPU_HALF_FEW_ROWS),
                     CPU_HALF_OWN);
    expect_ways(&zen5, "f32", TERN_BF16, CPU_HALF_F32, CPU_HALF_F32);
    expect_ways(&zen4, "native", TERN_BF16, CPU_HALF_OWN, CPU_HALF_LIBRARY);
    expect_ways(&zen4, "native", TERN_F16, CPU_HALF_F32, CPU_HALF_F32);
    expect_ways(&old, "native", TERN_BF16, CPU_HALF_F32, CPU_HALF_F32);
    expect_ways(&granite, "library", TERN_BF16, CPU_HALF_LIBRARY, CPU_HALF_LIBRARY);
    expect_ways(&granite, "library", TERN_F16, CPU_HALF_LIBRARY, CPU_HALF_LIBRARY);
}

static void expect_reason(const cpu_half_cpu *cpu, const char *wanted, const char *part)
{
    char text[256], cut[16];
    cpu_half_describe(cpu, wanted, text, sizeof text);
    if (strstr(text, part) == NULL)
        fail_msg("'%s' does not say '%s'", text, part);
    cpu_half_describe(cpu, wanted, cut, sizeof cut);
    assert_true(strlen(cut) < sizeof cut && strncmp(cut, text, strlen(cut)) == 0);
}

static void test_the_reason_says_what_is_there_and_measured(void **state)
{
    (void)state;
    expect_reason(&zen5, NULL, "AMD Zen 5: AVX512-BF16 at 1.");
    expect_reason(&zen5, NULL, "times the speed of f32, convolutions at ");
    expect_reason(&zen5, NULL, ", measured");
    expect_reason(&emerald, NULL, "at 0.47 times the speed of f32, by its peak rate, not measured");
    expect_reason(&emerald, NULL, "AVX512-FP16 is there, nobody has measured it: f32 arithmetic");
    expect_reason(&emerald_amx, NULL, "Intel Xeon with AMX: AMX-BF16 at 4.");
    expect_reason(&granite, NULL,
                  "AMX-BF16 is there, nobody has measured it: f32 arithmetic; AMX-FP16");
    expect_reason(&granite, NULL, "bench_half --table");
    expect_reason(&zen4, NULL, "AVX512-BF16 is there, nobody has measured it: f32 arithmetic");
    expect_reason(&old, NULL, "the CPU has no AVX512-BF16, AVX512-FP16 or AMX");
    expect_reason(&old, "library", "TERN_CPU_HALF=library");
}

/* The choice is made once per process. */
static void expect_in_child(const char *setting, int dtype, cpu_half_way product, cpu_half_way conv)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool same = setenv("TERN_CPU_HALF", setting, 1) == 0 &&
                    cpu_half_conv_way(dtype, CPU_HALF_CONV) == conv;
        for (int64_t n = 1; n < 2000; n *= 3)
            same = same && cpu_half_product_way(dtype, n, n, n) == product;
        _exit(same ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_option_takes_a_way_by_hand(void **state)
{
    (void)state;
    expect_in_child("f32", TERN_BF16, CPU_HALF_F32, CPU_HALF_F32);
    expect_in_child("library", TERN_F16, CPU_HALF_LIBRARY, CPU_HALF_LIBRARY);
    expect_in_child("library", TERN_BF16, CPU_HALF_LIBRARY, CPU_HALF_LIBRARY);
}

static bool a_library_takes_bf16(void)
{
    const cpu_gemm_call call = { .dtype = CPU_BLAS_BF16, .threads = 1, .m = 64, .n = 64, .k = 64 };
    return cpu_blas() != NULL && strcmp(cpu_blas()->gemm_route(&call, NULL), "onednn") == 0;
}

static void test_products_are_counted_by_way(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_cpu_half_t before, after;
    tern_tensor *a = tern_ones(TERN_SHAPE(64, 64), .dtype = TERN_BF16);
    tern_tensor *h = tern_ones(TERN_SHAPE(64, 64), .dtype = TERN_F16);
    tern_cpu_half(&before);
    (void)tern_matmul(a, a);
    (void)tern_matmul(h, h);
    tern_cpu_half(&after);
    const cpu_half_way way = cpu_half_product_way(TERN_BF16, 64, 64, 64);
    const int64_t native = way == CPU_HALF_OWN, library = after.library - before.library;
    assert_int_equal(after.native - before.native, native);
    assert_int_equal(library, way == CPU_HALF_LIBRARY && a_library_takes_bf16());
    assert_int_equal(after.widened - before.widened, 2 - native - library);
    assert_true(after.reason[0] != '\0');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_option_takes_a_way_by_hand), /* first: before any choice */
        cmocka_unit_test(test_half_products_against_double),
        cmocka_unit_test(test_cpus_by_model_and_features),
        cmocka_unit_test(test_measurements_decide_and_not_presence),
        cmocka_unit_test(test_the_reason_says_what_is_there_and_measured),
        cmocka_unit_test(test_products_are_counted_by_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
