/* Elementwise kernels where the values are special: NaN, infinities, overflow, integers that wrap,
 * denormals; and where. */
#include <float.h>
#include <math.h>

#include "backend_cpu/cpu.h"
#include "tests/support/check.h"
#include "tests/support/elementwise.h"
#include "tests/support/karray_layout.h"

/* ---- special values -------------------------------------------------------------------------- */

static const double specials[] = { 0.0,   -0.0,  1,    -1,  0.5,      -2,        3,  1e30,
                                   -1e30, 1e-30, 88.5, -95, INFINITY, -INFINITY, NAN };
enum { SPECIALS = sizeof specials / sizeof specials[0] };

static void check_specials(void *context)
{
    const op_case *op = context;
    const int64_t n = SPECIALS * SPECIALS;
    for (int dtype = TERN_F32; dtype <= TERN_F64; dtype++) {
        setting s = make_setting(op, (tern_dtype_t)dtype, 1, &n);
        for (int64_t i = 0; i < n; i++) {
            karray_set(&s.in[0], i, specials[i % SPECIALS]);
            karray_set(&s.in[1], i, specials[i / SPECIALS]);
        }
        const kernel_run run = { .kernel = op->kernel,
                                 .in = { &s.in[0], &s.in[1] },
                                 .n_in = op->inputs,
                                 .out = { &s.out },
                                 .n_out = 1 };
        assert_int_equal(kernel_call(&run), TERN_OK);
        for (int64_t i = 0; i < n; i++) {
            const double want = want_at(&s, i);
            /* what f32 cannot hold overflows there */
            const double rounded = dtype == TERN_F32 ? (double)(float)want : want;
            kernel_expect(op->name, i, karray_at(&s.out, i), rounded, 1e-6);
        }
        free_setting(&s);
    }
}

static void test_special_values(void **state)
{
    (void)state;
    static const char *const names[] = { "neg",  "abs",     "sign",    "exp",     "log", "sqrt",
                                         "tanh", "sigmoid", "relu",    "add",     "sub", "mul",
                                         "div",  "pow",     "maximum", "minimum", "eq",  "ne",
                                         "lt",   "le",      "gt",      "ge" };
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        op_case op = *elementwise_case(names[k]);
        kernel_each_isa(check_specials, &op);
    }
}

/* From below the least denormal to above the largest number: within a unit or so, and the same bits
 * whatever is computed beside it. */
static void check_exponentials(void *context)
{
    (void)context;
    enum { STEPS = 3200, BESIDE = 3 };
    static const double beside[BESIDE] = { -100, 89, NAN };
    const int64_t n = 33;
    karray x = karray_filled(TERN_F32, 1, &n, 0);
    karray y = karray_filled(TERN_F32, 1, &n, 7);
    const kernel_run run = {
        .kernel = cpu_exp, .in = { &x }, .n_in = 1, .out = { &y }, .n_out = 1
    };
    for (int step = 0; step < STEPS; step++) {
        const double value = (double)(float)(-106 + step * 0.0613);
        for (int64_t i = 0; i < n; i++)
            karray_set(&x, i, value);
        assert_int_equal(kernel_call(&run), TERN_OK);
        const double alone = karray_at(&y, 0), want = exp(value);
        if (want > (double)FLT_MAX)
            assert_true(isinf(alone));
        else if (fabs(alone - want) > want * 2e-7 + 1.5e-45)
            fail_msg("exp(%.9g) is %.9g, not %.9g", value, alone, want);
        for (int64_t i = 1; i < n; i += 4)
            karray_set(&x, i, beside[i % BESIDE]);
        assert_int_equal(kernel_call(&run), TERN_OK);
        for (int64_t i = 0; i < n; i++)
            if (i % 4 != 1)
                assert_true(karray_at(&y, i) == alone);
    }
    karray_free(&x);
    karray_free(&y);
}

static void test_exponentials_of_every_size(void **state)
{
    (void)state;
    kernel_each_isa(check_exponentials, NULL);
}

static void test_activations_far_out(void **state)
{
    (void)state;
    static const tern_kernel kernels[] = { cpu_gelu, cpu_gelu_tanh, cpu_silu };
    const int64_t n = 4;
    for (int k = 0; k < 3; k++) {
        karray x = karray_filled(TERN_F32, 1, &n, 0), y = karray_filled(TERN_F32, 1, &n, 9);
        karray_set(&x, 0, 1e30);
        karray_set(&x, 1, -1e30);
        karray_set(&x, 2, INFINITY);
        karray_set(&x, 3, NAN);
        const kernel_run run = {
            .kernel = kernels[k], .in = { &x }, .n_in = 1, .out = { &y }, .n_out = 1
        };
        assert_int_equal(kernel_call(&run), TERN_OK);
        kernel_expect("far out", 0, karray_at(&y, 0), x.values[0], 0);
        kernel_expect("far out", 1, karray_at(&y, 1), 0, 0);
        kernel_expect("far out", 2, karray_at(&y, 2), INFINITY, 0);
        kernel_expect("far out", 3, karray_at(&y, 3), NAN, 0);
        karray_free(&x);
        karray_free(&y);
    }
}

/* The least normal numbers, for which parts of a formula may be denormals, which vectors take for 0. */
static void check_least(void *context)
{
    (void)context;
    static const tern_kernel kernels[] = { cpu_expm1, cpu_sinh, cpu_tanh, cpu_sin, cpu_log1p };
    const int64_t n = 1000;
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
        karray x = karray_filled(TERN_F32, 1, &n, 0), y = karray_filled(TERN_F32, 1, &n, 9);
        for (int64_t i = 0; i < n; i++)
            karray_set(&x, i, (i & 1 ? -1 : 1) * FLT_MIN * (1 + 0.01 * (double)i));
        const kernel_run run = {
            .kernel = kernels[k], .in = { &x }, .n_in = 1, .out = { &y }, .n_out = 1
        };
        assert_int_equal(kernel_call(&run), TERN_OK);
        for (int64_t i = 0; i < n; i++)
            assert_true(karray_at(&y, i) == (double)(float)x.values[i]);
        karray_free(&x);
        karray_free(&y);
    }
}

static void test_the_least_numbers_are_their_own(void **state)
{
    (void)state;
    kernel_each_isa(check_least, NULL);
}

/* ---- one exponent for all -------------------------------------------------------------------- */

/* In place, or with gaps between rows, or neither. */
static void check_power(tern_dtype_t dtype, double exponent, int way)
{
    const int64_t dims[2] = { 7, 41 };
    const bool whole = !tern_dtype_is_float(dtype);
    karray x = whole ? karray_random(dtype, 2, dims, dtype == TERN_U8 ? 0 : -4, 5, 3)
                     : karray_random(dtype, 2, dims, -4, 4, 3);
    for (int64_t i = 0; i < SPECIALS && !whole; i++)
        karray_set(&x, i * 3, specials[i]);
    if (way == 2)
        karray_relayout(&x, KARRAY_GAPS);
    karray n = karray_filled(dtype, 0, NULL, exponent), y = karray_filled(dtype, 2, dims, 9);
    karray *to = way == 1 ? &x : &y;
    const kernel_run run = {
        .kernel = cpu_pow, .in = { &x, &n }, .n_in = 2, .out = { to }, .n_out = 1
    };
    assert_int_equal(kernel_call(&run), TERN_OK);
    /* a half type's range, and what f32 cannot hold */
    const double most = dtype == TERN_F16 ? 65519 : dtype == TERN_F64 ? DBL_MAX : (double)FLT_MAX;
    for (int64_t i = 0; i < x.view.numel; i++) {
        double want = pow(x.values[i], exponent);
        want = !whole && fabs(want) > most ? copysign(INFINITY, want) : want;
        kernel_expect("power", i, karray_at(to, i), want,
                      whole ? 0 : kernel_tolerance(dtype, 3e-7));
        if (want == 0)
            assert_int_equal(signbit(karray_at(to, i)) != 0, signbit(want) != 0);
    }
    karray_free(&x);
    karray_free(&n);
    karray_free(&y);
}

static void check_powers(void *context)
{
    (void)context;
    static const double exponents[] = { 0, 1, 2, 3, 4, -1, -2, 0.5 };
    static const tern_dtype_t dtypes[] = { TERN_F32, TERN_F64, TERN_F16, TERN_BF16,
                                           TERN_I64, TERN_I16, TERN_U8 };
    for (int d = 0; d < 7; d++)
        for (int e = 0; e < (d < 4 ? 8 : 4); e++)
            for (int way = 0; way < 3; way++)
                check_power(dtypes[d], exponents[e], way);
}

static void test_powers_by_one_number(void **state)
{
    (void)state;
    kernel_each_isa(check_powers, NULL);
}

/* ---- signs of half types --------------------------------------------------------------------- */

/* Every number of two bytes but NaN keeps its bits, NaN stays NaN. */
static void check_signs(void *context)
{
    (void)context;
    const int64_t n = 65536;
    const uint16_t most[] = { 0x7C00, 0x7F80 };
    for (int d = 0; d < 2; d++)
        for (int flips = 0; flips < 2; flips++) {
            karray x = karray_filled(d ? TERN_BF16 : TERN_F16, 1, &n, 0);
            uint16_t *bits = x.view.data;
            for (int64_t i = 0; i < n; i++)
                bits[i] = (uint16_t)i;
            karray y = karray_filled(d ? TERN_BF16 : TERN_F16, 1, &n, 0);
            const kernel_run run = { .kernel = flips ? cpu_neg : cpu_abs,
                                     .in = { &x },
                                     .n_in = 1,
                                     .out = { &y },
                                     .n_out = 1 };
            assert_int_equal(kernel_call(&run), TERN_OK);
            const uint16_t *got = y.view.data;
            for (int64_t i = 0; i < n; i++) {
                const uint16_t want = (uint16_t)(flips ? i ^ 0x8000 : i & 0x7FFF);
                if ((i & 0x7FFF) > most[d])
                    assert_true((got[i] & 0x7FFF) > most[d]);
                else
                    assert_int_equal(got[i], want);
            }
            karray_free(&x);
            karray_free(&y);
        }
}

static void test_signs_of_half_types(void **state)
{
    (void)state;
    kernel_each_isa(check_signs, NULL);
}

/* ---- integers and bool ----------------------------------------------------------------------- */

typedef struct integer_case {
    tern_kernel kernel;
    tern_dtype_t dtype;
    double a, b, want;
} integer_case;

static void test_integers_wrap(void **state)
{
    (void)state;
    static const integer_case all[] = {
        { cpu_add, TERN_I8, 127, 1, -128 },
        { cpu_add, TERN_U8, 255, 2, 1 },
        { cpu_sub, TERN_I16, -32768, 1, 32767 },
        { cpu_mul, TERN_I16, 300, 300, 24464 },
        { cpu_mul, TERN_I32, 65536, 65536, 0 },
        { cpu_sub, TERN_U8, 1, 2, 255 },
        { cpu_pow, TERN_I32, 2, 31, -2147483648.0 },
        { cpu_pow, TERN_I32, 2, -1, 0 },
        { cpu_pow, TERN_I32, -1, -3, -1 },
        { cpu_pow, TERN_I64, -1, -2, 1 },
        { cpu_pow, TERN_I64, 1, -7, 1 },
        { cpu_pow, TERN_I8, -2, 3, -8 },
        { cpu_pow, TERN_U8, 3, 5, 243 },
        { cpu_add, TERN_BOOL, 1, 1, 1 },
        { cpu_mul, TERN_BOOL, 1, 0, 0 },
        { cpu_maximum, TERN_BOOL, 0, 1, 1 },
    };
    const int64_t n = 21;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        karray a = karray_filled(all[i].dtype, 1, &n, all[i].a);
        karray b = karray_filled(all[i].dtype, 1, &n, all[i].b);
        const kernel_run run = {
            .kernel = all[i].kernel, .in = { &a, &b }, .n_in = 2, .out = { &a }, .n_out = 1
        };
        assert_int_equal(kernel_call(&run), TERN_OK);
        for (int64_t k = 0; k < n; k++)
            kernel_expect("integer case", (int64_t)i, karray_at(&a, k), all[i].want, 0);
        karray_free(&a);
        karray_free(&b);
    }
}

/* ---- where ----------------------------------------------------------------------------------- */

static void check_where(tern_dtype_t dtype, int variant)
{
    const int64_t dims[2] = { 23, 41 };
    karray c = karray_filled(TERN_BOOL, 2, dims, 0);
    karray a = karray_random(dtype, 2, dims, 0, 2, 1), b = karray_random(dtype, 2, dims, 0, 2, 2);
    karray out = karray_filled(dtype, 2, dims, 0);
    for (int64_t i = 0; i < c.view.numel; i++)
        karray_set(&c, i, i % 3 == 0);
    if (variant == 1)
        karray_repeat(&a, 1);
    if (variant == 2)
        karray_repeat(&c, 1);
    if (variant == 3)
        karray_relayout(&b, KARRAY_GAPS);
    if (variant == 4) {
        karray_free(&b);
        b = karray_filled(dtype, 0, NULL, 1);
    }
    const kernel_run run = {
        .kernel = cpu_where, .in = { &c, &a, &b }, .n_in = 3, .out = { &out }, .n_out = 1
    };
    assert_int_equal(kernel_call(&run), TERN_OK);
    for (int64_t i = 0; i < out.view.numel; i++)
        kernel_expect("where", i, karray_at(&out, i),
                      c.values[i] != 0 ? a.values[i] : b.values[variant == 4 ? 0 : i], 0);
    karray_free(&c);
    karray_free(&a);
    karray_free(&b);
    karray_free(&out);
}

static void check_all_where(void *context)
{
    (void)context;
    for (int dtype = TERN_BOOL; dtype < TERN_DTYPES; dtype++) {
        for (int variant = 0; variant < 5; variant++)
            check_where((tern_dtype_t)dtype, variant);
    }
}

static void test_where(void **state)
{
    (void)state;
    kernel_each_isa(check_all_where, NULL);
}

/* ---- denormals ------------------------------------------------------------------------------- */

static void test_denormals_are_flushed_in_big_calls_only_and_settings_restored(void **state)
{
    (void)state;
#if defined(__SSE2__)
    const uint32_t before = _mm_getcsr() & 0xFFC0u;
    const int64_t sizes[2] = { 8, 100000 };
    for (int k = 0; k < 2; k++) {
        karray x = karray_filled(TERN_F32, 1, &sizes[k], 1e-40);
        const kernel_run run = {
            .kernel = cpu_add, .threads = 2, .in = { &x, &x }, .n_in = 2, .out = { &x }, .n_out = 1
        };
        assert_int_equal(kernel_call(&run), TERN_OK);
        assert_int_equal(karray_at(&x, sizes[k] - 1) == 0, k);
        assert_int_equal(_mm_getcsr() & 0xFFC0u, before);
        karray_free(&x);
    }
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_exponentials_of_every_size),
        cmocka_unit_test(test_activations_far_out),
        cmocka_unit_test(test_the_least_numbers_are_their_own),
        cmocka_unit_test(test_powers_by_one_number),
        cmocka_unit_test(test_signs_of_half_types),
        cmocka_unit_test(test_integers_wrap),
        cmocka_unit_test(test_where),
        cmocka_unit_test(test_denormals_are_flushed_in_big_calls_only_and_settings_restored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
