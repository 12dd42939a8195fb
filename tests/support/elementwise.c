/* See elementwise.h. */
#include "tests/support/elementwise.h"

#include <math.h>

#include "backend_cpu/cpu.h"
#include "tests/support/check.h"
#include "tests/support/karray_layout.h"

#define BIT(dtype) (1u << (dtype))
#define FLOATS (BIT(TERN_F16) | BIT(TERN_BF16) | BIT(TERN_F32) | BIT(TERN_F64))
#define ALL 0x7FEu
#define NUMBERS (ALL & ~BIT(TERN_BOOL))

/* ---- references ------------------------------------------------------------------------------ */

static double ref_neg(double a)
{
    return -a;
}
static double ref_sign(double a)
{
    return (a > 0) - (a < 0);
}
static double ref_relu(double a)
{
    return a < 0 ? 0 : a;
}
static double ref_rsqrt(double a)
{
    return 1 / sqrt(a);
}
static double ref_square(double a)
{
    return a * a;
}
static double ref_sigmoid(double a)
{
    return 1 / (1 + exp(-a));
}
static double ref_cdf(double a)
{
    return 0.5 * erfc(-a / sqrt(2));
}
static double ref_gelu(double a)
{
    return a * ref_cdf(a);
}
static double ref_silu(double a)
{
    return a * ref_sigmoid(a);
}
static double inner(double a)
{
    return sqrt(2 / acos(-1)) * (a + 0.044715 * a * a * a);
}
static double ref_gelu_tanh(double a)
{
    return 0.5 * a * (1 + tanh(inner(a)));
}
static double ref_tanh_grad(double g, double y)
{
    return g * (1 - y * y);
}
static double ref_sigmoid_grad(double g, double y)
{
    return g * y * (1 - y);
}
static double ref_relu_grad(double g, double y)
{
    return y <= 0 ? 0 : g;
}
static double ref_gelu_grad(double g, double a)
{
    return g * (ref_cdf(a) + a * exp(-a * a / 2) / sqrt(2 * acos(-1)));
}
static double ref_gelu_tanh_grad(double g, double a)
{
    const double t = tanh(inner(a));
    const double slope = sqrt(2 / acos(-1)) * (1 + 3 * 0.044715 * a * a);
    return g * (0.5 * (1 + t) + 0.5 * a * (1 - t * t) * slope);
}
static double ref_silu_grad(double g, double a)
{
    const double s = ref_sigmoid(a);
    return g * s * (1 + a * (1 - s));
}
static double ref_add(double a, double b)
{
    return a + b;
}
static double ref_sub(double a, double b)
{
    return a - b;
}
static double ref_mul(double a, double b)
{
    return a * b;
}
static double ref_div(double a, double b)
{
    return a / b;
}
static double ref_max(double a, double b)
{
    return isnan(a) || a > b ? a : b;
}
static double ref_min(double a, double b)
{
    return isnan(a) || a < b ? a : b;
}
static double ref_eq(double a, double b)
{
    return a == b;
}
static double ref_ne(double a, double b)
{
    return a != b;
}
static double ref_lt(double a, double b)
{
    return a < b;
}
static double ref_le(double a, double b)
{
    return a <= b;
}
static double ref_gt(double a, double b)
{
    return a > b;
}
static double ref_ge(double a, double b)
{
    return a >= b;
}

#define UNARY(name, ref, dtypes, low, high, tolerance)                       \
    {                                                                        \
#name, cpu_##name, 1, ref, NULL, dtypes, low, high, tolerance, false \
    }
#define BINARY(name, ref, dtypes, low, high, tolerance)                      \
    {                                                                        \
#name, cpu_##name, 2, NULL, ref, dtypes, low, high, tolerance, false \
    }
#define COMPARE(name)                                              \
    {                                                              \
#name, cpu_##name, 2, NULL, ref_##name, ALL, 0, 4, 0, true \
    }
const op_case elementwise_cases[ELEMENTWISE_CASES] = {
    UNARY(neg, ref_neg, NUMBERS & ~BIT(TERN_U8), -5, 5, 0),
    UNARY(abs, fabs, NUMBERS, -5, 5, 0),
    UNARY(sign, ref_sign, ALL, -2, 2, 0),
    UNARY(exp, exp, FLOATS, -9, 9, 2e-7),
    UNARY(log, log, FLOATS, 0.01, 30, 2e-7),
    UNARY(sqrt, sqrt, FLOATS, 0, 30, 1e-7),
    UNARY(tanh, tanh, FLOATS, -6, 6, 3e-7),
    UNARY(sigmoid, ref_sigmoid, FLOATS, -12, 12, 3e-7),
    UNARY(relu, ref_relu, NUMBERS, -5, 5, 0),
    UNARY(expm1, expm1, FLOATS, -9, 9, 3e-7),
    UNARY(log1p, log1p, FLOATS, -0.9, 30, 3e-7),
    UNARY(log2, log2, FLOATS, 0.01, 30, 2e-7),
    UNARY(log10, log10, FLOATS, 0.01, 30, 2e-7),
    UNARY(rsqrt, ref_rsqrt, FLOATS, 0.01, 30, 2e-7),
    UNARY(square, ref_square, NUMBERS, -5, 5, 1e-7),
    UNARY(sin, sin, FLOATS, -60, 60, 2e-7),
    UNARY(cos, cos, FLOATS, -60, 60, 2e-7),
    UNARY(tan, tan, FLOATS, -1.4, 1.4, 4e-7),
    UNARY(asin, asin, FLOATS, -1, 1, 3e-7),
    UNARY(acos, acos, FLOATS, -1, 1, 3e-7),
    UNARY(atan, atan, FLOATS, -9, 9, 2e-7),
    UNARY(sinh, sinh, FLOATS, -9, 9, 3e-7),
    UNARY(cosh, cosh, FLOATS, -9, 9, 2e-7),
    UNARY(erf, erf, FLOATS, -4, 4, 3e-7),
    UNARY(floor, floor, NUMBERS, -5, 5, 0),
    UNARY(round, rint, NUMBERS, -5, 5, 0),
    UNARY(gelu, ref_gelu, FLOATS, -8, 8, 5e-7),
    UNARY(gelu_tanh, ref_gelu_tanh, FLOATS, -8, 8, 5e-7),
    UNARY(silu, ref_silu, FLOATS, -12, 12, 3e-7),
    BINARY(tanh_grad, ref_tanh_grad, FLOATS, -1, 1, 3e-7),
    BINARY(sigmoid_grad, ref_sigmoid_grad, FLOATS, -1, 1, 3e-7),
    BINARY(relu_grad, ref_relu_grad, FLOATS, -1, 1, 0),
    BINARY(gelu_grad, ref_gelu_grad, FLOATS, -5, 5, 1e-6),
    BINARY(gelu_tanh_grad, ref_gelu_tanh_grad, FLOATS, -5, 5, 1e-6),
    BINARY(silu_grad, ref_silu_grad, FLOATS, -5, 5, 1e-6),
    BINARY(add, ref_add, NUMBERS, -60, 60, 1e-7),
    BINARY(sub, ref_sub, NUMBERS & ~BIT(TERN_U8), -60, 60, 1e-7),
    BINARY(mul, ref_mul, ALL, 0, 11, 1e-7),
    BINARY(div, ref_div, FLOATS, 0.5, 9, 1e-7),
    BINARY(pow, pow, NUMBERS, 0, 3.9, 2e-7),
    BINARY(maximum, ref_max, ALL, -9, 9, 0),
    BINARY(minimum, ref_min, ALL, -9, 9, 0),
    COMPARE(eq),
    COMPARE(ne),
    COMPARE(lt),
    COMPARE(le),
    COMPARE(gt),
    COMPARE(ge),
};

/* ---- one call against its reference ---------------------------------------------------------- */

karray setting_input(const op_case *op, tern_dtype_t dtype, int ndim, const int64_t *dims,
                     uint64_t seed)
{
    const double low = dtype == TERN_U8 || dtype == TERN_BOOL ? fmax(op->low, 0) : op->low;
    const double high = dtype == TERN_BOOL ? 2 : op->high;
    karray a = karray_random(dtype, ndim, dims, low, high, seed);
    for (int64_t i = 0; !tern_dtype_is_float(dtype) && i < a.view.numel; i++)
        karray_set(&a, i, dtype == TERN_BOOL ? (double)(i * (int64_t)seed % 3 == 0) : a.values[i]);
    return a;
}

setting make_setting(const op_case *op, tern_dtype_t dtype, int ndim, const int64_t *dims)
{
    setting s = { .op = op, .dtype = dtype, .threads = 1 };
    s.in[0] = setting_input(op, dtype, ndim, dims, 1);
    s.in[1] = setting_input(op, dtype, ndim, dims, 2);
    s.out = karray_filled(op->compares ? TERN_BOOL : dtype, ndim, dims, 1);
    return s;
}

void free_setting(setting *s)
{
    karray_free(&s->in[0]);
    karray_free(&s->in[1]);
    karray_free(&s->out);
}

double want_at(const setting *s, int64_t i)
{
    const double a = s->in[0].values[i];
    const double b = s->in[1].values[s->in[1].view.numel == 1 ? 0 : i];
    return s->op->inputs == 1 ? s->op->of1(a) : s->op->of2(a, b);
}

void check_setting(void *context)
{
    setting *s = context;
    const op_case *op = s->op;
    const kernel_run run = { .kernel = op->kernel,
                             .threads = s->threads,
                             .in = { &s->in[0], &s->in[1] },
                             .n_in = op->inputs,
                             .out = { &s->out },
                             .n_out = 1 };
    assert_int_equal(kernel_call(&run), TERN_OK);
    double tolerance = 0;
    if (tern_dtype_is_float(s->dtype) && !op->compares)
        tolerance = op->tolerance > 0 || s->dtype == TERN_F16 || s->dtype == TERN_BF16
                        ? kernel_tolerance(s->dtype, op->tolerance)
                        : 0;
    for (int64_t i = 0; i < s->out.view.numel; i++)
        kernel_expect(op->name, i, karray_at_place(&s->out, i), want_at(s, i), tolerance);
}

const op_case *elementwise_case(const char *name)
{
    for (int c = 0; c < ELEMENTWISE_CASES; c++)
        if (strcmp(elementwise_cases[c].name, name) == 0)
            return &elementwise_cases[c];
    return NULL;
}

void elementwise_each(void (*body)(const op_case *op, tern_dtype_t dtype))
{
    for (int c = 0; c < ELEMENTWISE_CASES; c++) {
        for (int dtype = TERN_BOOL; dtype < TERN_DTYPES; dtype++) {
            if (elementwise_cases[c].dtypes >> dtype & 1)
                body(&elementwise_cases[c], (tern_dtype_t)dtype);
        }
    }
}
