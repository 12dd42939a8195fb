/* Making, copying and elementwise rows. */
#include <math.h>

#include "core/call.h"
#include "tests/ops/opinfo.h"
#include "tests/ref/ref.h"

/* clang-format off */

#define REAL(...) { INPUT_REAL, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ } }
#define RANGE(lo, hi, ...) \
    { INPUT_REAL, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ }, .low = lo, .high = hi }
#define NUMBER { INPUT_REAL, .ndim = 0 }

/* ---- one operand ---- */

#define UNARY(name, expression)                                                              \
    static tern_tensor *run_##name(tern_tensor **in) { return tern_##name(in[0]); }          \
    static double f_##name(double x) { return expression; }                                  \
    static value ref_##name(const value *in) { return ref_map(&in[0], f_##name); }

static double phi(double x) { return exp(-x * x / 2) / sqrt(2 * M_PI); }
static double Phi(double x) { return 0.5 * (1 + erf(x / sqrt(2))); }
static double logistic(double x) { return 1 / (1 + exp(-x)); }
static double gelu_tanh_inner(double x) { return sqrt(2 / M_PI) * (x + 0.044715 * x * x * x); }

UNARY(neg, -x)
UNARY(abs, fabs(x))
UNARY(sign, (x > 0) - (x < 0))
UNARY(exp, exp(x))
UNARY(log, log(x))
UNARY(sqrt, sqrt(x))
UNARY(tanh, tanh(x))
UNARY(sigmoid, logistic(x))
UNARY(relu, x > 0 ? x : 0)
UNARY(gelu, x *Phi(x))
UNARY(gelu_tanh, 0.5 * x * (1 + tanh(gelu_tanh_inner(x))))
UNARY(silu, x *logistic(x))

/* ---- fused gradients: (gradient, saved) ---- */

#define FUSED(name, expression)                                                              \
    static tern_tensor *run_##name(tern_tensor **in)                                         \
    {                                                                                        \
        return core_op2(TERN_OP_##name, TERN_HERE, NULL, in[0], in[1]);                      \
    }                                                                                        \
    static double f_##name(double g, double x) { return expression; }                        \
    static value ref_##name(const value *in) { return ref_map2(&in[0], &in[1], f_##name); }

static double gelu_tanh_slope(double x)
{
    const double t = tanh(gelu_tanh_inner(x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

FUSED(tanh_grad, g *(1 - x * x))
FUSED(sigmoid_grad, g *x *(1 - x))
FUSED(relu_grad, x > 0 ? g : 0)
FUSED(gelu_grad, g *(Phi(x) + x * phi(x)))
FUSED(gelu_tanh_grad, g *gelu_tanh_slope(x))
FUSED(silu_grad, g *logistic(x) * (1 + x * (1 - logistic(x))))

/* ---- two operands ---- */

#define BINARY(name, expression)                                                             \
    static tern_tensor *run_##name(tern_tensor **in) { return tern_##name(in[0], in[1]); }   \
    static double f_##name(double x, double y) { return expression; }                        \
    static value ref_##name(const value *in) { return ref_map2(&in[0], &in[1], f_##name); }

BINARY(add, x + y)
BINARY(sub, x - y)
BINARY(mul, x *y)
BINARY(div, x / y)
BINARY(pow, pow(x, y))
BINARY(maximum, x > y ? x : y)
BINARY(minimum, x < y ? x : y)
BINARY(eq, x == y)
BINARY(ne, x != y)
BINARY(lt, x < y)
BINARY(le, x <= y)
BINARY(gt, x > y)
BINARY(ge, x >= y)

static tern_tensor *run_add_number(tern_tensor **in) { return tern_add(in[0], 2); }
static double plus_two(double x) { return x + 2; }
static value ref_add_number(const value *in) { return ref_map(&in[0], plus_two); }
static tern_tensor *run_mul_inplace(tern_tensor **in)
{
    tern_tensor *copy = tern_clone(in[0]);
    return tern_mul_(copy, tern_detach(in[1]));
}

static tern_tensor *run_where(tern_tensor **in) { return tern_where(in[0], in[1], in[2]); }
static double pick_first(double c, double a) { return c != 0 ? a : 0; }
static double pick_second(double c, double b) { return c != 0 ? 0 : b; }
static double plus(double a, double b) { return a + b; }
static value ref_where(const value *in)
{
    value a = ref_map2(&in[0], &in[1], pick_first), b = ref_map2(&in[0], &in[2], pick_second);
    value out = ref_map2(&a, &b, plus);
    value_free(&a);
    value_free(&b);
    return out;
}

/* ---- making and copying: the first input gives shape and dtype ---- */

static tern_tensor *run_fill(tern_tensor **in)
{
    return tern_full(3, tern_shape(in[0]), tern_dtype(in[0]));
}
static double three(double x) { return x * 0 + 3; }
static value ref_fill(const value *in) { return ref_map(&in[0], three); }
static tern_tensor *run_arange(tern_tensor **in)
{
    return tern_arange(2, 2 + 3 * (double)tern_numel(in[0]), 3, tern_dtype(in[0]));
}
static value ref_arange(const value *in)
{
    value out = value_new(1, &in[0].numel);
    for (int64_t i = 0; i < out.numel; i++)
        out.data[i] = 2 + 3 * (double)i;
    return out;
}
static tern_tensor *run_copy(tern_tensor **in)
{
    tern_tensor *out = tern_empty(tern_shape(in[0]), tern_dtype(in[0]));
    return tern_copy(out, in[0]);
}
static value ref_same(const value *in) { return value_copy(&in[0]); }
static tern_tensor *run_copy_broadcast(tern_tensor **in)
{
    tern_tensor *out = tern_empty(TERN_SHAPE(3, 4, 5), tern_dtype(in[0]));
    return tern_copy(out, in[0]);
}
static value ref_copy_broadcast(const value *in)
{
    value zero = value_new(3, (int64_t[]){ 3, 4, 5 }), out = ref_map2(&zero, &in[0], plus);
    value_free(&zero);
    return out;
}
static tern_tensor *run_clone(tern_tensor **in) { return tern_clone(in[0]); }
static tern_tensor *run_contiguous(tern_tensor **in) { return tern_contiguous(in[0]); }
static tern_tensor *run_to(tern_tensor **in) { return tern_to(in[0], .dtype = TERN_F64); }

/* Random rows are compared with the documented definition: element i is lane i % 4 of block i / 4. */
static double uniform_at(int64_t i, int64_t call)
{
    uint32_t bits[4];
    tern_philox(7, (uint64_t)call, (uint64_t)i / 4, bits);
    return (double)(bits[i % 4] >> 8) * 0x1p-24;
}
static tern_tensor *run_rand(tern_tensor **in)
{
    tern_seed(7);
    return tern_to(tern_rand(tern_shape(in[0]), TERN_F32), .dtype = tern_dtype(in[0]));
}
static value ref_rand(const value *in)
{
    value out = value_copy(&in[0]);
    for (int64_t i = 0; i < out.numel; i++)
        out.data[i] = uniform_at(i, 0);
    return out;
}
/* a normal's square integrates to one: moments of a large draw, as one number */
static tern_tensor *run_randn(tern_tensor **in)
{
    tern_seed(7);
    tern_tensor *x = tern_randn(TERN_SHAPE(100000), tern_dtype(in[0]));
    x = tern_to(x, .dtype = TERN_F64);
    tern_tensor *close = tern_lt(tern_abs(tern_sub(tern_mean(tern_mul(x, x)), 1.0)), 0.02);
    tern_tensor *centred = tern_lt(tern_abs(tern_mean(x)), 0.02);
    return tern_to(tern_mul(close, centred), .dtype = tern_dtype(in[0]));
}
static value ref_one(const value *in)
{
    (void)in;
    value out = value_new(0, NULL);
    out.data[0] = 1;
    return out;
}
/* sorted counts of a permutation: each value once */
static tern_tensor *run_randperm(tern_tensor **in)
{
    tern_seed(7);
    tern_tensor *p = tern_randperm(100, tern_dtype(in[0]));
    tern_tensor *grid = tern_eq(tern_unsqueeze(p, 1), tern_arange(0, 100, 1, tern_dtype(in[0])));
    return tern_to(tern_sum(grid, TERN_DIMS(0)), .dtype = tern_dtype(in[0]));
}
static value ref_ones_100(const value *in)
{
    (void)in;
    value out = value_new(1, (int64_t[]){ 100 });
    for (int64_t i = 0; i < 100; i++)
        out.data[i] = 1;
    return out;
}

#define CASE1(name, label_, input, grads)                                                    \
    { OPINFO(name), .label = label_, .in = { input }, .run = run_##name, .ref = ref_##name,   \
      .differentiable = (grads) > 0, .order = grads }
#define CASE2(name, label_, a, b, grads)                                                     \
    { OPINFO(name), .label = label_, .in = { a, b }, .run = run_##name, .ref = ref_##name,    \
      .differentiable = (grads) > 0 ? 3 : 0, .order = grads }
#define SMALL REAL(3, 5)
#define POSITIVE RANGE(0.5, 3, 3, 5)

const opinfo opinfo_elementwise[] = {
    CASE1(fill, "3", REAL(3, 5), 0),
    CASE1(arange, "by 3", REAL(17), 0),
    { OPINFO(rand), .label = "definition", .in = { REAL(5, 7) }, .run = run_rand, .ref = ref_rand },
    { OPINFO(randn), .label = "moments", .in = { REAL(1) }, .run = run_randn, .ref = ref_one },
    { OPINFO(randperm), .label = "each once", .in = { REAL(1) }, .run = run_randperm,
      .ref = ref_ones_100 },
    { OPINFO(copy), .label = "same shape", .in = { REAL(3, 4, 5) }, .run = run_copy, .ref = ref_same,
      .differentiable = 1, .order = 1 },
    { OPINFO(copy), .label = "4-D", .in = { REAL(2, 3, 4, 5) }, .run = run_copy, .ref = ref_same },
    { OPINFO(copy), .label = "broadcast", .in = { REAL(4, 1) }, .run = run_copy_broadcast,
      .ref = ref_copy_broadcast, .differentiable = 1, .order = 1 },
    { OPINFO(clone), .label = "4-D", .in = { REAL(2, 3, 4, 5) }, .run = run_clone, .ref = ref_same,
      .differentiable = 1, .order = 1 },
    { OPINFO(contiguous), .label = "4-D", .in = { REAL(2, 3, 4, 5) }, .run = run_contiguous,
      .ref = ref_same, .differentiable = 1, .order = 1 },
    { OPINFO(to), .label = "f64", .in = { REAL(3, 5) }, .run = run_to, .ref = ref_same,
      .differentiable = 1, .order = 1 },
    CASE1(neg, "", SMALL, 2),
    CASE1(neg, "empty", REAL(3, 0), 0),
    CASE1(neg, "0-dim", NUMBER, 2),
    CASE1(abs, "", RANGE(0.3, 2, 3, 5), 2),
    CASE1(sign, "", SMALL, 0),
    CASE1(exp, "", SMALL, 2),
    CASE1(exp, "long", REAL(67, 31), 0),
    CASE1(log, "", POSITIVE, 2),
    CASE1(log, "long", RANGE(1e-3, 1e3, 67, 31), 0),
    CASE1(sqrt, "", POSITIVE, 2),
    CASE1(tanh, "", SMALL, 2),
    CASE1(tanh, "long", RANGE(-12, 12, 67, 31), 0),
    CASE1(sigmoid, "", SMALL, 2),
    CASE1(sigmoid, "long", RANGE(-30, 30, 67, 31), 0),
    CASE1(relu, "", SMALL, 2),
    CASE1(relu, "4-D", REAL(2, 3, 4, 5), 1),
    CASE1(gelu, "", SMALL, 2),
    CASE1(gelu, "long", RANGE(-6, 6, 67, 31), 0),
    CASE1(gelu_tanh, "", SMALL, 2),
    CASE1(gelu_tanh, "long", RANGE(-6, 6, 67, 31), 0),
    CASE1(silu, "", SMALL, 2),
    CASE1(silu, "long", RANGE(-20, 20, 67, 31), 0),
    CASE2(tanh_grad, "", SMALL, SMALL, 2),
    CASE2(sigmoid_grad, "", SMALL, SMALL, 2),
    { OPINFO(relu_grad), .label = "", .in = { SMALL, SMALL }, .run = run_relu_grad,
      .ref = ref_relu_grad, .differentiable = 1, .order = 2 },
    CASE2(gelu_grad, "", SMALL, SMALL, 2),
    CASE2(gelu_tanh_grad, "", SMALL, SMALL, 2),
    CASE2(silu_grad, "", SMALL, SMALL, 2),
    CASE2(add, "", SMALL, SMALL, 2),
    CASE2(add, "4-D", REAL(2, 3, 4, 5), REAL(2, 3, 4, 5), 1),
    CASE2(add, "bias", REAL(4, 7), REAL(7), 2),
    CASE2(add, "column", REAL(4, 7), REAL(4, 1), 2),
    CASE2(add, "both grow", REAL(4, 1, 3), REAL(5, 1), 2),
    CASE2(add, "0-dim", SMALL, NUMBER, 2),
    CASE2(add, "empty", REAL(0, 5), REAL(5), 0),
    CASE2(add, "long", REAL(67, 301), REAL(67, 301), 0),
    { OPINFO(add), .label = "number", .in = { SMALL }, .run = run_add_number, .ref = ref_add_number,
      .differentiable = 1, .order = 1 },
    CASE2(sub, "", SMALL, SMALL, 2),
    CASE2(sub, "row", REAL(5), REAL(3, 5), 2),
    CASE2(mul, "", SMALL, SMALL, 2),
    CASE2(mul, "column", REAL(4, 7), REAL(4, 1), 2),
    { OPINFO(mul), .label = "in place", .in = { SMALL, SMALL }, .run = run_mul_inplace,
      .ref = ref_mul, .differentiable = 1, .order = 1 },
    CASE2(div, "", SMALL, POSITIVE, 2),
    CASE2(div, "row", REAL(5), POSITIVE, 2),
    CASE2(pow, "", RANGE(0.5, 2, 3, 5), RANGE(0, 3, 3, 5), 2),
    CASE2(maximum, "", SMALL, SMALL, 2),
    CASE2(minimum, "", SMALL, SMALL, 2),
    CASE2(eq, "", SMALL, SMALL, 0),
    CASE2(ne, "", SMALL, SMALL, 0),
    CASE2(lt, "", SMALL, SMALL, 0),
    CASE2(le, "bias", REAL(4, 7), REAL(7), 0),
    CASE2(gt, "", SMALL, SMALL, 0),
    CASE2(ge, "", SMALL, SMALL, 0),
    { OPINFO(where), .label = "", .in = { { .kind = INPUT_BOOL, .ndim = 2, .dims = { 3, 5 } }, SMALL, SMALL },
      .run = run_where, .ref = ref_where, .differentiable = 6, .order = 2 },
    { OPINFO(where), .label = "broadcast", .in = { { .kind = INPUT_BOOL, .ndim = 2, .dims = { 4, 1 } }, REAL(5), REAL(3, 1, 5) },
      .run = run_where, .ref = ref_where, .differentiable = 6, .order = 2 },
};
const int opinfo_elementwise_count = sizeof opinfo_elementwise / sizeof *opinfo_elementwise;
