/* Kernels of the tests' device: scalar loops in double, run from the queue. Plain on purpose: they are
 * a second opinion on what an op means. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

/* clang-format off */

/* ---- elements ------------------------------------------------------------------------------------ */

static int64_t offset_of(const tern_view *v, int64_t i)
{
    int64_t offset = 0;
    for (int d = v->ndim - 1; d >= 0; d--) {
        offset += i % v->shape[d] * v->stride[d];
        i /= v->shape[d];
    }
    return offset;
}

/* bf16: the upper half of an f32 */
static double get_bf16(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return (double)value;
}

static uint16_t to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)(isnan(value) ? 0x7FC0u : (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

static double get_f16(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double value = exponent == 0 ? ldexp(mantissa, -24) : ldexp(mantissa + 1024, exponent - 25);
    if (exponent == 31)
        value = mantissa != 0 ? (double)NAN : (double)INFINITY;
    return bits & 0x8000 ? -value : value;
}

/* Multiples of the step at the value's size, 2^-24 at least; nearbyint rounds ties to even. */
static uint16_t to_f16(double value)
{
    const unsigned sign = signbit(value) ? 0x8000u : 0u;
    int exponent = 0;
    if (isnan(value))
        return 0x7E00u;
    if (value == 0)
        return (uint16_t)sign; /* frexp would call it a half */
    if (fabs(value) >= 65520)
        return (uint16_t)(sign | 0x7C00u);
    (void)frexp(value, &exponent);
    exponent = exponent < -13 ? -13 : exponent;
    const unsigned steps = (unsigned)nearbyint(ldexp(fabs(value), 11 - exponent));
    return (uint16_t)(sign | (steps + ((unsigned)(exponent + 13) << 10)));
}

double view_get(const tern_view *v, int64_t i)
{
    const int64_t k = offset_of(v, i);
    switch (v->dtype) {
    case TERN_BOOL:
    case TERN_U8: return ((const uint8_t *)v->data)[k];
    case TERN_I8: return ((const int8_t *)v->data)[k];
    case TERN_I16: return ((const int16_t *)v->data)[k];
    case TERN_I32: return ((const int32_t *)v->data)[k];
    case TERN_I64: return (double)((const int64_t *)v->data)[k];
    case TERN_F32: return (double)((const float *)v->data)[k];
    case TERN_F64: return ((const double *)v->data)[k];
    case TERN_F16: return get_f16(((const uint16_t *)v->data)[k]);
    case TERN_BF16: return get_bf16(((const uint16_t *)v->data)[k]);
    default: return NAN;
    }
}

void put(const tern_view *v, int64_t i, double value)
{
    const int64_t k = offset_of(v, i);
    switch (v->dtype) {
    case TERN_BOOL: ((uint8_t *)v->data)[k] = value != 0; break;
    case TERN_U8: ((uint8_t *)v->data)[k] = (uint8_t)(int64_t)value; break;
    case TERN_I8: ((int8_t *)v->data)[k] = (int8_t)(int64_t)value; break;
    case TERN_I16: ((int16_t *)v->data)[k] = (int16_t)(int64_t)value; break;
    case TERN_I32: ((int32_t *)v->data)[k] = (int32_t)(int64_t)value; break;
    case TERN_I64: ((int64_t *)v->data)[k] = (int64_t)value; break;
    case TERN_F32: ((float *)v->data)[k] = (float)value; break;
    case TERN_F64: ((double *)v->data)[k] = value; break;
    case TERN_F16: ((uint16_t *)v->data)[k] = to_f16(value); break;
    case TERN_BF16: ((uint16_t *)v->data)[k] = to_bf16((float)value); break;
    default: break;
    }
}

double get(const work *w, int input, int64_t i)
{
    const tern_view *v = &w->in[input];
    if (v->dev.kind == TERN_KIND_CPU)
        return w->host_value[input];
    return view_get(v, v->numel == 1 ? 0 : i);
}

/* ---- elementwise --------------------------------------------------------------------------------- */

#define KERNEL(name, attr)                                          \
    static tern_status_t test_##name(const tern_call *call)         \
    {                                                               \
        return enqueue(call, body_##name, attr);                    \
    }
#define ELEMENTWISE(name, expression)                               \
    static void body_##name(work *w)                                \
    {                                                               \
        for (int64_t i = 0; i < w->out[0].numel; i++) {             \
            const double a = get(w, 0, i);                          \
            const double b = w->n_in > 1 ? get(w, 1, i) : 0;        \
            (void)b;                                                \
            put(&w->out[0], i, expression);                         \
        }                                                           \
    }                                                               \
    KERNEL(name, 0)

ELEMENTWISE(copy, a)
ELEMENTWISE(neg, -a)
ELEMENTWISE(abs, fabs(a))
ELEMENTWISE(exp, exp(a))
ELEMENTWISE(log, log(a))
ELEMENTWISE(sqrt, sqrt(a))
ELEMENTWISE(tanh, tanh(a))
ELEMENTWISE(sigmoid, 1 / (1 + exp(-a)))
ELEMENTWISE(relu, a > 0 ? a : isnan(a) ? a : 0)
ELEMENTWISE(gelu, 0.5 * a * (1 + erf(a * 0.70710678118654752)))
ELEMENTWISE(add, a + b)
ELEMENTWISE(sub, a - b)
ELEMENTWISE(mul, a * b)
ELEMENTWISE(div, a / b)
ELEMENTWISE(pow, pow(a, b))
ELEMENTWISE(maximum, a > b || isnan(a) ? a : b)
ELEMENTWISE(minimum, a < b || isnan(a) ? a : b)
ELEMENTWISE(eq, a == b)
ELEMENTWISE(ne, a != b)
ELEMENTWISE(lt, a < b)
ELEMENTWISE(le, a <= b)
ELEMENTWISE(gt, a > b)
ELEMENTWISE(ge, a >= b)
ELEMENTWISE(relu_grad, b > 0 ? a : 0)
ELEMENTWISE(tanh_grad, a * (1 - b * b))
ELEMENTWISE(sigmoid_grad, a * b * (1 - b))

static void body_fill(work *w)
{
    tern_attr_fill attr;
    memcpy(&attr, w->attr, sizeof attr);
    for (int64_t i = 0; i < w->out[0].numel; i++)
        put(&w->out[0], i, attr.value.f);
}
KERNEL(fill, sizeof(tern_attr_fill))

/* ---- reductions: out's dimensions are in's without (or with extent 1 in) the reduced ones --------- */

static void reduce(work *w, bool mean)
{
    tern_attr_reduce attr;
    memcpy(&attr, w->attr, sizeof attr);
    const tern_view *in = &w->in[0], *out = &w->out[0];
    double *sums = calloc((size_t)out->numel + 1, sizeof *sums);
    if (sums == NULL)
        return;
    for (int64_t i = 0; i < in->numel; i++) {
        int64_t rest = i, place = 0, scale = 1;
        for (int d = in->ndim - 1; d >= 0; d--) {
            const int64_t at = rest % in->shape[d];
            rest /= in->shape[d];
            if (attr.dims & (1u << d))
                continue;
            place += at * scale;
            scale *= in->shape[d];
        }
        sums[place] += view_get(in, i);
    }
    const double share = mean && out->numel > 0 ? (double)out->numel / (double)in->numel : 1;
    for (int64_t i = 0; i < out->numel; i++)
        put(out, i, sums[i] * share);
    free(sums);
}
static void body_sum(work *w) { reduce(w, false); }
static void body_mean(work *w) { reduce(w, true); }
KERNEL(sum, sizeof(tern_attr_reduce))
KERNEL(mean, sizeof(tern_attr_reduce))

/* ---- products ------------------------------------------------------------------------------------- */

static double at2(const tern_view *v, int64_t row, int64_t column)
{
    return view_get(v, row * v->shape[v->ndim - 1] + column);
}

static void body_gemm(work *w)
{
    const tern_view *a = &w->in[0], *b = &w->in[1], *out = &w->out[0];
    const int nd = out->ndim;
    const int64_t m = out->shape[nd - 2], n = out->shape[nd - 1], k = a->shape[nd - 1];
    const int64_t batch = nd == 3 ? out->shape[0] : 1;
    for (int64_t i = 0; i < batch * m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum += at2(a, i, l) * at2(b, i / m * k + l, j);
            put(out, i * n + j, sum);
        }
}
KERNEL(gemm, 0)

static void body_linear(work *w)
{
    const tern_view *x = &w->in[0], *weight = &w->in[1], *out = &w->out[0];
    const int64_t m = out->shape[0], n = out->shape[1], k = x->shape[1];
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = w->has_in[2] ? view_get(&w->in[2], j) : 0;
            for (int64_t l = 0; l < k; l++)
                sum += at2(x, i, l) * at2(weight, j, l);
            put(out, i * n + j, sum);
        }
}
KERNEL(linear, 0)

/* ---- cross entropy: logits [N, C, ...], the rest counted as one dimension S ------------------------ */

typedef struct loss {
    tern_attr_loss attr;
    const tern_view *x, *target, *weight; /* weight NULL: 1 */
    int64_t rows, classes, inner;
    double weights, counted; /* sums of all weights, and of those of the targets that count */
} loss;

static double weight_of(const loss *l, int64_t c) { return l->weight != NULL ? view_get(l->weight, c) : 1; }
static int64_t target_of(const loss *l, int64_t row) { return (int64_t)view_get(l->target, row); }
static double logit(const loss *l, int64_t row, int64_t c)
{
    return view_get(l->x, (row / l->inner * l->classes + c) * l->inner + row % l->inner);
}

/* x, target and weight are inputs number `first`, ... */
static loss loss_of(const work *w, int first)
{
    loss l = { .x = &w->in[first], .target = &w->in[first + 1] };
    memcpy(&l.attr, w->attr, sizeof l.attr);
    l.weight = w->has_in[first + 2] ? &w->in[first + 2] : NULL;
    l.classes = l.x->shape[l.x->ndim > 1];
    l.rows = l.target->numel;
    l.inner = l.x->ndim > 1 ? l.x->numel / (l.x->shape[0] * l.classes) : 1;
    for (int64_t c = 0; c < l.classes; c++)
        l.weights += weight_of(&l, c);
    for (int64_t i = 0; i < l.rows; i++)
        if (target_of(&l, i) != l.attr.ignore_index)
            l.counted += weight_of(&l, target_of(&l, i));
    return l;
}

static double log_sum(const loss *l, int64_t row)
{
    double sum = 0, top = -INFINITY;
    for (int64_t c = 0; c < l->classes; c++)
        top = fmax(top, logit(l, row, c));
    for (int64_t c = 0; c < l->classes; c++)
        sum += exp(logit(l, row, c) - top);
    return top + log(sum);
}

static double row_loss(const loss *l, int64_t row, double log_of_sum)
{
    const int64_t t = target_of(l, row);
    const double e = l->attr.label_smoothing;
    double smooth = 0;
    if (t == l->attr.ignore_index)
        return 0;
    for (int64_t c = 0; c < l->classes; c++)
        smooth += weight_of(l, c) * (log_of_sum - logit(l, row, c));
    return (1 - e) * weight_of(l, t) * (log_of_sum - logit(l, row, t)) + e / (double)l->classes * smooth;
}

static void body_cross_entropy(work *w)
{
    const loss l = loss_of(w, 0);
    double total = 0;
    for (int64_t i = 0; i < l.rows; i++) {
        const double log_of_sum = log_sum(&l, i), one = row_loss(&l, i, log_of_sum);
        put(&w->out[1], i, log_of_sum);
        if (l.attr.reduction == TERN_REDUCTION_NONE)
            put(&w->out[0], i, one);
        total += one;
    }
    if (l.attr.reduction != TERN_REDUCTION_NONE)
        put(&w->out[0], 0, l.attr.reduction == TERN_REDUCTION_SUM ? total : total / l.counted);
}
KERNEL(cross_entropy, sizeof(tern_attr_loss))

static void body_cross_entropy_grad(work *w)
{
    const loss l = loss_of(w, 1);
    const double e = l.attr.label_smoothing;
    for (int64_t i = 0; i < l.x->numel; i++) {
        const int64_t c = i / l.inner % l.classes;
        const int64_t row = i / l.inner / l.classes * l.inner + i % l.inner;
        const int64_t t = target_of(&l, row);
        const double p = exp(view_get(l.x, i) - view_get(&w->in[4], row));
        const double g = get(w, 0, row) / (l.attr.reduction == TERN_REDUCTION_MEAN ? l.counted : 1);
        const bool counts = t != l.attr.ignore_index;
        put(&w->out[0], i, !counts ? 0 : g * ((1 - e) * weight_of(&l, t) * (p - (c == t)) +
                                              e / (double)l.classes * (p * l.weights - weight_of(&l, c))));
    }
}
KERNEL(cross_entropy_grad, sizeof(tern_attr_loss))

/* ---- optimizer steps -------------------------------------------------------------------------------- */

static void body_sgd_step(work *w)
{
    tern_attr_sgd o;
    memcpy(&o, w->attr, sizeof o);
    for (int64_t i = 0; i < w->in[0].numel; i++) {
        const double p = get(w, 0, i);
        double g = (o.maximize ? -1 : 1) * get(w, 1, i) + o.weight_decay * p;
        if (w->has_in[2]) {
            const double b = o.first ? g : o.momentum * get(w, 2, i) + (1 - o.dampening) * g;
            put(&w->in[2], i, b);
            g = o.nesterov ? g + o.momentum * b : b;
        }
        put(&w->in[0], i, p - o.lr * g);
    }
}
KERNEL(sgd_step, sizeof(tern_attr_sgd))

static void body_adam_step(work *w)
{
    tern_attr_adam o;
    memcpy(&o, w->attr, sizeof o);
    const double c1 = 1 - pow(o.beta1, (double)o.step), c2 = 1 - pow(o.beta2, (double)o.step);
    for (int64_t i = 0; i < w->in[0].numel; i++) {
        double p = get(w, 0, i), g = (o.maximize ? -1 : 1) * get(w, 1, i);
        if (o.decoupled)
            p *= 1 - o.lr * o.weight_decay;
        else
            g += o.weight_decay * p;
        const double m = o.beta1 * get(w, 2, i) + (1 - o.beta1) * g;
        const double v = o.beta2 * get(w, 3, i) + (1 - o.beta2) * g * g;
        put(&w->in[2], i, m);
        put(&w->in[3], i, v);
        put(&w->in[0], i, p - o.lr / c1 * m / (sqrt(v) / sqrt(c2) + o.eps));
    }
}
KERNEL(adam_step, sizeof(tern_attr_adam))

/* Scale, flag and count are inputs from `first` on: false when the step is left out. */
static bool begin_scaled(work *w, int first, int32_t turn, double *out_done)
{
    const bool out = w->has_in[first + 1] && get(w, first + 1, 0) != 0;
    if (w->has_in[first + 2]) {
        *out_done = get(w, first + 2, turn & 1);
        put(&w->in[first + 2], 1 - (turn & 1), *out_done + !out);
    }
    for (int64_t i = 0; !out && w->has_in[first] && i < w->in[1].numel; i++)
        put(&w->in[1], i, get(w, 1, i) * (double)(float)(1 / get(w, first, 0)));
    return !out;
}

static void body_sgd_step_scaled(work *w)
{
    tern_attr_sgd o;
    memcpy(&o, w->attr, sizeof o);
    double done = o.first ? 0 : 1;
    if (!begin_scaled(w, 3, o.turn, &done))
        return;
    o.first = done == 0;
    memcpy(w->attr, &o, sizeof o);
    body_sgd_step(w);
}
KERNEL(sgd_step_scaled, sizeof(tern_attr_sgd))

static void body_adam_step_scaled(work *w)
{
    tern_attr_adam o;
    memcpy(&o, w->attr, sizeof o);
    double done = (double)o.step - 1;
    if (!begin_scaled(w, 4, o.turn, &done))
        return;
    o.step = (int64_t)done + 1;
    memcpy(w->attr, &o, sizeof o);
    body_adam_step(w);
}
KERNEL(adam_step_scaled, sizeof(tern_attr_adam))

/* ---- the gradient scaler ---- */

static void body_unscale(work *w)
{
    const double factor = w->has_in[1] ? get(w, 1, 0) : 1;
    tern_attr_unscale o;
    memcpy(&o, w->attr, sizeof o);
    for (int64_t i = 0; i < w->in[0].numel; i++) {
        const double g = get(w, 0, i);
        if (!isfinite(g)) {
            put(&w->in[2], 0, 1);
            if (w->has_in[3])
                put(&w->in[3], 0, fmin(get(w, 3, 0), (double)o.index));
        }
        put(&w->in[0], i, g * factor);
    }
}
KERNEL(unscale, sizeof(tern_attr_unscale))

static void body_scale_update(work *w)
{
    tern_attr_scale o;
    memcpy(&o, w->attr, sizeof o);
    const double scale = get(w, 0, 0), good = get(w, 1, 0) + 1;
    const bool found = w->has_in[2] && get(w, 2, 0) != 0, grows = good >= (double)o.interval;
    if (!o.keep) {
        put(&w->in[0], 0, found ? scale * o.backoff : grows ? scale * o.growth : scale);
        put(&w->in[1], 0, found || grows ? 0 : good);
    }
    if (!w->has_in[5])
        return;
    const double skipped = w->has_in[3] ? get(w, 3, 0) : 0, cause = w->has_in[4] ? get(w, 4, 0) : -1;
    const int64_t end = w->in[5].numel;
    put(&w->in[5], 3 * o.slot, skipped);
    put(&w->in[5], 3 * o.slot + 1, get(w, 0, 0));
    put(&w->in[5], 3 * o.slot + 2, cause);
    put(&w->in[5], end - 2, get(w, 5, end - 2) + skipped);
    if (skipped > 0)
        put(&w->in[5], end - 1, cause);
}
KERNEL(scale_update, sizeof(tern_attr_scale))

#define ENTRY(name) { #name, test_##name }
const tern_kernel_entry test_kernels[] = {
    ENTRY(copy), ENTRY(fill), ENTRY(neg), ENTRY(abs), ENTRY(exp), ENTRY(log), ENTRY(sqrt),
    ENTRY(tanh), ENTRY(sigmoid), ENTRY(relu), ENTRY(gelu), ENTRY(add), ENTRY(sub), ENTRY(mul),
    ENTRY(div), ENTRY(pow), ENTRY(maximum), ENTRY(minimum), ENTRY(eq), ENTRY(ne), ENTRY(lt),
    ENTRY(le), ENTRY(gt), ENTRY(ge), ENTRY(relu_grad), ENTRY(tanh_grad), ENTRY(sigmoid_grad),
    ENTRY(sum), ENTRY(mean), ENTRY(gemm), ENTRY(linear), ENTRY(cross_entropy),
    ENTRY(cross_entropy_grad), ENTRY(sgd_step), ENTRY(adam_step), ENTRY(unscale), ENTRY(scale_update),
    ENTRY(sgd_step_scaled), ENTRY(adam_step_scaled)
};
const int64_t test_kernel_count = sizeof test_kernels / sizeof *test_kernels;
