/* Attention. */
#include <math.h>

#include "core/call.h"
#include "tests/ops/opinfo.h"
#include "tests/ref/ref.h"

/* clang-format off */

#define REAL(...) { INPUT_REAL, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ } }
#define MASK(...) { INPUT_BOOL, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ } }

static tern_tensor *run_plain(tern_tensor **in)
{
    return tern_scaled_dot_product_attention(in[0], in[1], in[2], in[3]);
}
static tern_tensor *run_causal(tern_tensor **in)
{
    return tern_scaled_dot_product_attention(in[0], in[1], in[2], in[3], .causal = true, .scale = 0.3);
}

static ref_heads of(const value *in, bool additive, bool causal)
{
    const double scale = causal ? 0.3 : 1 / sqrt((double)in[0].dims[3]);
    return (ref_heads){ &in[0], &in[1], &in[2], &in[3], additive, causal, scale };
}
static value ref_plain(const value *in)
{
    const ref_heads a = of(in, false, false);
    return ref_attend(&a);
}
static value ref_causal(const value *in)
{
    const ref_heads a = of(in, false, true);
    return ref_attend(&a);
}
static value ref_biased(const value *in)
{
    const ref_heads a = of(in, true, false);
    return ref_attend(&a);
}

/* The row (gradient, q, k, v, mask?, y, log of the sum); the last two by forward. */
static tern_tensor *slope(tern_tensor **in, int which, bool causal)
{
    tern_attr_attention attr = { .causal = causal };
    attr.scale = causal ? 0.3 : 1 / sqrt((double)tern_size(in[1], 3));
    tern_tensor *y = NULL, *lse = NULL, *grad = NULL, **made[2] = { &y, &lse };
    core_opn(TERN_OP_scaled_dot_product_attention, TERN_HERE, &attr, 4, in + 1, 2, made);
    tern_tensor *all[7] = { in[0], in[1], in[2], in[3], in[4], y, lse }, **out[3] = { NULL, NULL, NULL };
    out[which] = &grad;
    core_opn(TERN_OP_scaled_dot_product_attention_grad, TERN_HERE, &attr, 7, all, 3, out);
    return grad;
}
static value ref_slope(const value *in, int which, bool causal)
{
    const ref_heads a = of(in + 1, false, causal);
    return ref_attend_grad(&a, &in[0], which);
}
static tern_tensor *run_grad_q(tern_tensor **in) { return slope(in, 0, false); }
static tern_tensor *run_grad_k(tern_tensor **in) { return slope(in, 1, false); }
static tern_tensor *run_grad_v(tern_tensor **in) { return slope(in, 2, false); }
static tern_tensor *run_causal_q(tern_tensor **in) { return slope(in, 0, true); }
static tern_tensor *run_causal_k(tern_tensor **in) { return slope(in, 1, true); }
static tern_tensor *run_causal_v(tern_tensor **in) { return slope(in, 2, true); }
static value ref_grad_q(const value *in) { return ref_slope(in, 0, false); }
static value ref_grad_k(const value *in) { return ref_slope(in, 1, false); }
static value ref_grad_v(const value *in) { return ref_slope(in, 2, false); }
static value ref_causal_q(const value *in) { return ref_slope(in, 0, true); }
static value ref_causal_k(const value *in) { return ref_slope(in, 1, true); }
static value ref_causal_v(const value *in) { return ref_slope(in, 2, true); }

#define ATTEND(case, run_, ref_, bits, n, ...)                                                   \
    { OPINFO(scaled_dot_product_attention), .label = case, .in = { __VA_ARGS__ }, .run = run_,    \
      .ref = ref_, .differentiable = bits, .order = n, .why = n < 2 ? "too large for differences" : NULL }
#define SLOPE(case, run_, ref_, ...)                                                              \
    { OPINFO(scaled_dot_product_attention_grad), .label = case, .in = { __VA_ARGS__ },            \
      .run = run_, .ref = ref_, .floor = 4,                                                       \
      .why = "recorded gradients are made of other ops" }
#define SMALL REAL(2, 2, 3, 3), REAL(2, 2, 3, 4), REAL(2, 2, 5, 4), REAL(2, 2, 5, 3)
#define LARGE REAL(1, 2, 70, 20), REAL(1, 2, 70, 36), REAL(1, 1, 141, 36), REAL(1, 1, 141, 20)

const opinfo opinfo_attention[] = {
    ATTEND("plain", run_plain, ref_plain, 7, 2, REAL(2, 2, 3, 4), REAL(2, 2, 5, 4), REAL(2, 2, 5, 3)),
    ATTEND("causal", run_causal, ref_causal, 7, 2, REAL(1, 2, 4, 3), REAL(1, 2, 4, 3), REAL(1, 2, 4, 3)),
    ATTEND("mask", run_plain, ref_plain, 7, 2, REAL(2, 2, 3, 4), REAL(2, 2, 5, 4), REAL(2, 2, 5, 3), MASK(2, 1, 3, 5)),
    ATTEND("bias", run_plain, ref_biased, 15, 2, REAL(1, 2, 3, 4), REAL(1, 2, 5, 4), REAL(1, 2, 5, 3), REAL(2, 3, 5)),
    ATTEND("groups", run_causal, ref_causal, 7, 2, REAL(1, 4, 3, 2), REAL(1, 2, 3, 2), REAL(1, 2, 3, 2), MASK(3, 3)),
    ATTEND("one query", run_plain, ref_plain, 7, 1, REAL(1, 2, 1, 40), REAL(1, 2, 9, 40), REAL(1, 2, 9, 40)),
    ATTEND("no queries", run_plain, ref_plain, 7, 2, REAL(1, 2, 0, 4), REAL(1, 2, 5, 4), REAL(1, 2, 5, 3)),
    ATTEND("no keys", run_plain, ref_plain, 7, 2, REAL(1, 2, 3, 4), REAL(1, 2, 0, 4), REAL(1, 2, 0, 3)),
    ATTEND("blocks", run_plain, ref_plain, 0, 0, REAL(1, 2, 70, 36), REAL(1, 1, 141, 36), REAL(1, 1, 141, 20), MASK(70, 141)),
    ATTEND("causal blocks", run_causal, ref_causal, 0, 0, REAL(1, 1, 140, 33), REAL(1, 1, 150, 33), REAL(1, 1, 150, 17)),
    ATTEND("bias blocks", run_plain, ref_biased, 0, 0, REAL(1, 2, 70, 8), REAL(1, 2, 130, 8), REAL(1, 2, 130, 8), REAL(1, 1, 130)),
    SLOPE("q", run_grad_q, ref_grad_q, SMALL),
    SLOPE("k", run_grad_k, ref_grad_k, SMALL),
    SLOPE("v", run_grad_v, ref_grad_v, SMALL),
    SLOPE("q mask blocks", run_grad_q, ref_grad_q, LARGE, MASK(70, 1)),
    SLOPE("k mask blocks", run_grad_k, ref_grad_k, LARGE, MASK(70, 1)),
    SLOPE("v mask blocks", run_grad_v, ref_grad_v, LARGE, MASK(70, 1)),
    SLOPE("q causal blocks", run_causal_q, ref_causal_q, LARGE),
    SLOPE("k causal blocks", run_causal_k, ref_causal_k, LARGE),
    SLOPE("v causal blocks", run_causal_v, ref_causal_v, LARGE),
};
const int opinfo_attention_count = sizeof opinfo_attention / sizeof *opinfo_attention;
