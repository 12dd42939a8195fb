/* Elementwise kernels against scalar functions in double precision: every op, dtype, instruction
 * set, over layouts, sizes around vector lengths, in place, and with special values. */
#include <math.h>

#include "backend_cpu/cpu.h"
#include "tests/support/check.h"
#include "tests/support/karray_layout.h"

typedef struct op_case {
    const char *name;
    tern_kernel kernel;
    int inputs;
    double (*of1)(double);
    double (*of2)(double, double);
    uint32_t dtypes;
    double low, high; /* of inputs; integers use whole numbers of the range */
    double tolerance; /* of f32 */
    bool compares;
} op_case;

#define BIT(dtype) (1u << (dtype))
static const uint32_t floats = BIT(TERN_F16) | BIT(TERN_BF16) | BIT(TERN_F32) | BIT(TERN_F64);
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
static const op_case cases[] = {
    UNARY(neg, ref_neg, NUMBERS & ~BIT(TERN_U8), -5, 5, 0),
    UNARY(abs, fabs, NUMBERS, -5, 5, 0),
    UNARY(sign, ref_sign, ALL, -2, 2, 0),
    UNARY(exp, exp, FLOATS, -9, 9, 2e-7),
    UNARY(log, log, FLOATS, 0.01, 30, 2e-7),
    UNARY(sqrt, sqrt, FLOATS, 0, 30, 1e-7),
    UNARY(tanh, tanh, FLOATS, -6, 6, 3e-7),
    UNARY(sigmoid, ref_sigmoid, FLOATS, -12, 12, 3e-7),
    UNARY(relu, ref_relu, NUMBERS, -5, 5, 0),
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
enum { CASES = sizeof cases / sizeof cases[0] };

/* ---- one call against its reference ---------------------------------------------------------- */

typedef struct setting {
    const op_case *op;
    tern_dtype_t dtype;
    karray in[2], out;
    int threads;
} setting;

/* Integers and bool take whole numbers of the range that they can hold. */
static karray input(const op_case *op, tern_dtype_t dtype, int ndim, const int64_t *dims,
                    uint64_t seed)
{
    const double low = dtype == TERN_U8 || dtype == TERN_BOOL ? fmax(op->low, 0) : op->low;
    const double high = dtype == TERN_BOOL ? 2 : op->high;
    karray a = karray_random(dtype, ndim, dims, low, high, seed);
    for (int64_t i = 0; !tern_dtype_is_float(dtype) && i < a.view.numel; i++)
        karray_set(&a, i, dtype == TERN_BOOL ? (double)(i * (int64_t)seed % 3 == 0) : a.values[i]);
    return a;
}

static setting make_setting(const op_case *op, tern_dtype_t dtype, int ndim, const int64_t *dims)
{
    setting s = { .op = op, .dtype = dtype, .threads = 1 };
    s.in[0] = input(op, dtype, ndim, dims, 1);
    s.in[1] = input(op, dtype, ndim, dims, 2);
    s.out = karray_filled(op->compares ? TERN_BOOL : dtype, ndim, dims, 1);
    return s;
}

static void free_setting(setting *s)
{
    karray_free(&s->in[0]);
    karray_free(&s->in[1]);
    karray_free(&s->out);
}

static double want_at(const setting *s, int64_t i)
{
    const double a = s->in[0].values[i];
    const double b = s->in[1].values[s->in[1].view.numel == 1 ? 0 : i];
    return s->op->inputs == 1 ? s->op->of1(a) : s->op->of2(a, b);
}

static void check_setting(void *context)
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
    if (floats >> s->dtype & 1 && !op->compares)
        tolerance = op->tolerance > 0 || s->dtype == TERN_F16 || s->dtype == TERN_BF16
                        ? kernel_tolerance(s->dtype, op->tolerance)
                        : 0;
    for (int64_t i = 0; i < s->out.view.numel; i++)
        kernel_expect(op->name, i, karray_at_place(&s->out, i), want_at(s, i), tolerance);
}

static void for_each_dtype(void (*body)(const op_case *op, tern_dtype_t dtype))
{
    for (int c = 0; c < CASES; c++) {
        for (int dtype = TERN_BOOL; dtype < TERN_DTYPES; dtype++) {
            if (cases[c].dtypes >> dtype & 1)
                body(&cases[c], (tern_dtype_t)dtype);
        }
    }
}

/* ---- sizes, layouts, operands ---------------------------------------------------------------- */

static void check_sizes(const op_case *op, tern_dtype_t dtype)
{
    static const int64_t sizes[] = { 0, 1, 2, 3, 15, 16, 17, 31, 33, 64, 127, 513, 1100 };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        setting s = make_setting(op, dtype, 1, &sizes[i]);
        kernel_each_isa(check_setting, &s);
        free_setting(&s);
    }
}

static void test_sizes_around_vectors(void **state)
{
    (void)state;
    for_each_dtype(check_sizes);
}

static void check_layouts(const op_case *op, tern_dtype_t dtype)
{
    const int64_t dims[3] = { 3, 21, 19 };
    for (int layout = 0; layout < KARRAY_LAYOUTS * KARRAY_LAYOUTS; layout++) {
        setting s = make_setting(op, dtype, 3, dims);
        karray_relayout(&s.in[0], (karray_layout)(layout % KARRAY_LAYOUTS));
        karray_relayout(&s.out, (karray_layout)(layout / KARRAY_LAYOUTS));
        karray_relayout(&s.in[1], (karray_layout)(layout % 3));
        kernel_each_isa(check_setting, &s);
        free_setting(&s);
    }
}

static void test_layouts(void **state)
{
    (void)state;
    for_each_dtype(check_layouts);
}

static void check_repeated(const op_case *op, tern_dtype_t dtype)
{
    const int64_t dims[3] = { 4, 5, 37 };
    for (int which = 0; which < 9; which++) {
        setting s = make_setting(op, dtype, 3, dims);
        karray_repeat(&s.in[0], which % 3);
        karray_repeat(&s.in[1], which / 3);
        kernel_each_isa(check_setting, &s);
        free_setting(&s);
    }
}

static void test_operands_with_stride_zero(void **state)
{
    (void)state;
    for_each_dtype(check_repeated);
}

static void check_number(const op_case *op, tern_dtype_t dtype)
{
    const int64_t n = 700;
    if (op->inputs < 2)
        return;
    setting s = make_setting(op, dtype, 1, &n);
    karray_free(&s.in[1]);
    s.in[1] = input(op, dtype, 0, NULL, 2);
    kernel_each_isa(check_setting, &s);
    free_setting(&s);
}

static void test_a_number_as_second_operand(void **state)
{
    (void)state;
    for_each_dtype(check_number);
}

/* ---- large: threads, streams ----------------------------------------------------------------- */

static void test_large_sums_use_threads_and_streams(void **state)
{
    (void)state;
    const int64_t n = (5 << 20) + 3;
    const op_case add = BINARY(add, ref_add, FLOATS, -60, 60, 1e-7);
    setting s = make_setting(&add, TERN_F32, 1, &n);
    s.threads = 2;
    kernel_each_isa(check_setting, &s);
    free_setting(&s);
}

/* Read from half of the largest cache that is counted on: the results go past it. */
static void check_large_differences(void *context)
{
    (void)context;
    const int64_t n = (4 << 20) + 37, one = 1;
    karray x = karray_random(TERN_F32, 1, &n, -3, 3, 1), y = karray_filled(TERN_F32, 1, &n, 7);
    karray number = karray_filled(TERN_F32, 1, &one, 1.5);
    for (int side = 0; side < 2; side++) {
        const kernel_run run = { .kernel = cpu_sub,
                                 .in = { side ? &number : &x, side ? &x : &number },
                                 .n_in = 2,
                                 .out = { &y },
                                 .n_out = 1 };
        assert_int_equal(kernel_call(&run), TERN_OK);
        const float *from = x.view.data, *to = y.view.data;
        for (int64_t i = 0; i < n; i++)
            assert_true(to[i] == (side ? 1.5f - from[i] : from[i] - 1.5f));
    }
    karray_free(&x);
    karray_free(&y);
    karray_free(&number);
}

static void test_large_differences_with_a_number(void **state)
{
    (void)state;
    kernel_each_isa(check_large_differences, NULL);
}

/* Bits must not depend on position or number of threads. */
static void test_a_value_gives_the_same_bits_everywhere(void **state)
{
    (void)state;
    const int64_t n = 40003;
    karray x = karray_filled(TERN_F32, 1, &n, 0.7310585786), y = x;
    y = karray_filled(TERN_F32, 1, &n, 0);
    for (int c = 0; c < CASES; c++) {
        const op_case *op = &cases[c];
        if (op->compares || !(op->dtypes >> TERN_F32 & 1))
            continue;
        for (int threads = 1; threads < 4; threads++) {
            const kernel_run run = { .kernel = op->kernel,
                                     .threads = threads,
                                     .in = { &x, &x },
                                     .n_in = op->inputs,
                                     .out = { &y },
                                     .n_out = 1 };
            assert_int_equal(kernel_call(&run), TERN_OK);
            for (int64_t i = 1; i < n; i++)
                assert_memory_equal((float *)y.view.data + i, y.view.data, sizeof(float));
        }
    }
    karray_free(&x);
    karray_free(&y);
}

/* ---- in place -------------------------------------------------------------------------------- */

static void check_in_place(const op_case *op, tern_dtype_t dtype)
{
    const int64_t dims[2] = { 9, 61 };
    for (int layout = 0; layout < KARRAY_LAYOUTS && !op->compares; layout++) {
        setting s = make_setting(op, dtype, 2, dims);
        karray_relayout(&s.in[0], (karray_layout)layout);
        const kernel_run run = { .kernel = op->kernel,
                                 .in = { &s.in[0], &s.in[1] },
                                 .n_in = op->inputs,
                                 .out = { &s.in[0] },
                                 .n_out = 1 };
        assert_int_equal(kernel_call(&run), TERN_OK);
        for (int64_t i = 0; i < s.in[0].view.numel; i++)
            kernel_expect(op->name, i, karray_at_place(&s.in[0], i), want_at(&s, i),
                          floats >> dtype & 1 ? kernel_tolerance(dtype, op->tolerance + 1e-9) : 0);
        free_setting(&s);
    }
}

static void test_in_place(void **state)
{
    (void)state;
    for_each_dtype(check_in_place);
}

/* x -= x[k], where the row or element that is read is overwritten on the way. */
static void test_an_operand_inside_the_output(void **state)
{
    (void)state;
    const int64_t dims[2] = { 40, 50 };
    for (int number = 0; number < 2; number++) {
        karray x = karray_random(TERN_F32, 2, dims, -1, 1, 3);
        karray part = x;
        part.view.data = (float *)x.view.data + 7 * 50;
        part.view.flags = number ? TERN_VIEW_CONTIGUOUS | TERN_VIEW_DENSE : 0;
        part.view.stride[0] = 0;
        part.view.numel = number ? 1 : part.view.numel;
        part.view.ndim = number ? 0 : 2;
        const kernel_run run = {
            .kernel = cpu_sub, .in = { &x, &part }, .n_in = 2, .out = { &x }, .n_out = 1
        };
        assert_int_equal(kernel_call(&run), TERN_OK);
        for (int64_t i = 0; i < x.view.numel; i++)
            kernel_expect("sub", i, karray_at(&x, i),
                          x.values[i] - x.values[7 * 50 + (number ? 0 : i % 50)], 1e-6);
        karray_free(&x);
    }
}

/* out is in moved by one element. */
static void test_operands_that_overlap_partly(void **state)
{
    (void)state;
    const int64_t n = 300, longer = n + 1;
    for (int forward = 0; forward < 2; forward++) {
        karray x = karray_random(TERN_F32, 1, &longer, -1, 1, 3);
        karray in = x, out = x;
        in.view.shape[0] = out.view.shape[0] = in.view.numel = out.view.numel = n;
        in.view.data = (float *)x.view.data + !forward;
        out.view.data = (float *)x.view.data + forward;
        const kernel_run run = {
            .kernel = cpu_neg, .in = { &in }, .n_in = 1, .out = { &out }, .n_out = 1
        };
        assert_int_equal(kernel_call(&run), TERN_OK);
        for (int64_t i = 0; i < n; i++)
            kernel_expect("neg", i, karray_at(&out, i), -x.values[i + !forward], 0);
        karray_free(&x);
    }
}

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
        for (int c = 0; c < CASES; c++) {
            op_case op = cases[c];
            if (strcmp(op.name, names[k]) == 0)
                kernel_each_isa(check_specials, &op);
        }
    }
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

static void test_where(void **state)
{
    (void)state;
    for (int dtype = TERN_BOOL; dtype < TERN_DTYPES; dtype++) {
        for (int variant = 0; variant < 5; variant++)
            check_where((tern_dtype_t)dtype, variant);
    }
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
        cmocka_unit_test(test_sizes_around_vectors),
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_operands_with_stride_zero),
        cmocka_unit_test(test_a_number_as_second_operand),
        cmocka_unit_test(test_large_sums_use_threads_and_streams),
        cmocka_unit_test(test_large_differences_with_a_number),
        cmocka_unit_test(test_a_value_gives_the_same_bits_everywhere),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_an_operand_inside_the_output),
        cmocka_unit_test(test_operands_that_overlap_partly),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_activations_far_out),
        cmocka_unit_test(test_integers_wrap),
        cmocka_unit_test(test_where),
        cmocka_unit_test(test_denormals_are_flushed_in_big_calls_only_and_settings_restored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
