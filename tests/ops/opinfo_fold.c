/* Reductions beyond sums, and scans. */
#include <math.h>

#include "core/call.h"
#include "tests/ops/opinfo.h"
#include "tests/ref/ref.h"

/* clang-format off */

#define REAL(...) { INPUT_REAL, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ } }
#define FROM(lo, hi, ...) \
    { INPUT_REAL, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ }, .low = lo, .high = hi }

static tern_tensor *run_prod(tern_tensor **in) { return tern_prod(in[0]); }
static value ref_prod_all(const value *in) { return ref_prod(&in[0], (1u << in[0].ndim) - 1); }
static tern_tensor *run_prod_middle(tern_tensor **in) { return tern_prod(in[0], TERN_DIMS(1)); }
static value ref_prod_middle(const value *in) { return ref_prod(&in[0], 2); }
static tern_tensor *run_prod_ends(tern_tensor **in)
{
    return tern_prod(in[0], TERN_DIMS(0, -1), .keepdim = true);
}
static value ref_prod_ends(const value *in)
{
    value out = ref_prod(&in[0], 5);
    out.ndim = 3;
    out.dims[1] = out.dims[0];
    out.dims[0] = out.dims[2] = 1;
    return out;
}
static tern_tensor *run_amin(tern_tensor **in) { return tern_amin(in[0], TERN_DIMS(0)); }
static value ref_amin_first(const value *in) { return ref_amin(&in[0], 1); }
static tern_tensor *run_amin_all(tern_tensor **in) { return tern_amin(in[0]); }
static value ref_amin_all(const value *in) { return ref_amin(&in[0], (1u << in[0].ndim) - 1); }
static tern_tensor *run_min(tern_tensor **in) { return tern_min(in[0], 1, NULL); }
static value ref_min(const value *in) { return ref_amin(&in[0], 2); }
static tern_tensor *run_min_places(tern_tensor **in)
{
    tern_tensor *places = NULL;
    (void)tern_min(in[0], 1, &places);
    return places;
}
static tern_tensor *run_argmin(tern_tensor **in) { return tern_argmin(in[0], -1); }
static value ref_argmin_1(const value *in) { return ref_argmin(&in[0], 1); }
static value ref_argmin_last(const value *in) { return ref_argmin(&in[0], in[0].ndim - 1); }
static double is_there(double x) { return x != 0; }
static tern_tensor *run_any(tern_tensor **in) { return tern_any(in[0], TERN_DIMS(1)); }
static value ref_any(const value *in)
{
    value each = ref_map(&in[0], is_there), count = ref_sum(&each, 2), out = ref_map(&count, is_there);
    value_free(&count);
    value_free(&each);
    return out;
}
static tern_tensor *run_all(tern_tensor **in) { return tern_all(in[0], TERN_DIMS(0)); }
static value ref_all(const value *in)
{
    value each = ref_map(&in[0], is_there), out = ref_prod(&each, 1);
    value_free(&each);
    return out;
}
static tern_tensor *run_std(tern_tensor **in) { return tern_std(in[0], TERN_DIMS(-1)); }
static value ref_std_last(const value *in)
{
    value var = ref_var(&in[0], 1u << (in[0].ndim - 1), 1), out = ref_map(&var, sqrt);
    value_free(&var);
    return out;
}
static tern_tensor *run_std_all(tern_tensor **in) { return tern_std(in[0], .no_correction = true); }
static value ref_std_all(const value *in)
{
    value var = ref_var(&in[0], (1u << in[0].ndim) - 1, 0), out = ref_map(&var, sqrt);
    value_free(&var);
    return out;
}
static tern_tensor *run_logsumexp(tern_tensor **in) { return tern_logsumexp(in[0], TERN_DIMS(1)); }
static value ref_logsumexp_1(const value *in) { return ref_logsumexp(&in[0], 2); }
static tern_tensor *run_logsumexp_all(tern_tensor **in) { return tern_logsumexp(in[0]); }
static value ref_logsumexp_all(const value *in)
{
    return ref_logsumexp(&in[0], (1u << in[0].ndim) - 1);
}

#define NORM(label, number, option)                                                     \
    static tern_tensor *run_norm_##label(tern_tensor **in)                              \
    {                                                                                   \
        return tern_norm(in[0], TERN_DIMS(1), .p = option);                             \
    }                                                                                   \
    static value ref_norm_##label(const value *in) { return ref_norm(&in[0], 2, number); }
NORM(2, 2, 0)
NORM(1, 1, 1)
NORM(0, 0, TERN_ZERO)
NORM(3, 3, 3)
NORM(half, 0.5, 0.5)
NORM(between, 1.5, 1.5)
NORM(minus, -1, -1)
NORM(greatest, INFINITY, INFINITY)
NORM(least, -INFINITY, -INFINITY)
static tern_tensor *run_norm_all(tern_tensor **in) { return tern_norm(in[0]); }
static value ref_norm_all(const value *in) { return ref_norm(&in[0], (1u << in[0].ndim) - 1, 2); }

static tern_tensor *run_cumsum(tern_tensor **in) { return tern_cumsum(in[0], 1); }
static value ref_cumsum(const value *in) { return ref_scan(&in[0], NULL, 1, false, false); }
static tern_tensor *run_cumsum_first(tern_tensor **in) { return tern_cumsum(in[0], 0); }
static value ref_cumsum_first(const value *in) { return ref_scan(&in[0], NULL, 0, false, false); }
static tern_tensor *run_cumprod(tern_tensor **in) { return tern_cumprod(in[0], 1); }
static value ref_cumprod(const value *in) { return ref_scan(&in[0], NULL, 1, true, false); }
static tern_tensor *run_cumprod_first(tern_tensor **in) { return tern_cumprod(in[0], 0); }
static value ref_cumprod_first(const value *in) { return ref_scan(&in[0], NULL, 0, true, false); }
static tern_tensor *run_linear_scan(tern_tensor **in)
{
    tern_attr_scan attr = { .dim = -1 };
    return core_op2(TERN_OP_linear_scan, TERN_HERE, &attr, in[0], in[1]);
}
static value ref_linear_scan(const value *in)
{
    return ref_scan(&in[0], &in[1], in[0].ndim - 1, false, false);
}
static tern_tensor *run_linear_scan_reverse(tern_tensor **in)
{
    tern_attr_scan attr = { .dim = 1, .reverse = 1 };
    return core_op2(TERN_OP_linear_scan, TERN_HERE, &attr, in[0], in[1]);
}
static value ref_linear_scan_reverse(const value *in)
{
    return ref_scan(&in[0], &in[1], 1, false, true);
}

#define CASE1(name, label_, input, run_, reference, grads)                                   \
    { OPINFO(name), .label = label_, .in = { input }, .run = run_, .ref = reference,          \
      .differentiable = (grads) > 0, .order = grads }

const opinfo opinfo_fold[] = {
    CASE1(prod, "all", REAL(2, 3), run_prod, ref_prod_all, 2),
    CASE1(prod, "0-dim", { .kind = INPUT_REAL }, run_prod, ref_prod_all, 2),
    CASE1(prod, "empty", REAL(3, 0), run_prod, ref_prod_all, 0),
    CASE1(prod, "middle", REAL(3, 5, 2), run_prod_middle, ref_prod_middle, 2),
    CASE1(prod, "ends", REAL(3, 2, 2), run_prod_ends, ref_prod_ends, 2),
    { OPINFO(prod), .label = "long", .in = { FROM(0.97, 1.03, 3, 700, 2) }, .run = run_prod_middle,
      .ref = ref_prod_middle },
    CASE1(prod, "no middle", REAL(3, 0, 2), run_prod_middle, ref_prod_middle, 2),
    CASE1(any, "of nothing", REAL(3, 0, 2), run_any, ref_any, 0),
    CASE1(logsumexp, "of nothing", REAL(3, 0, 2), run_logsumexp, ref_logsumexp_1, 2),
    CASE1(norm, "of nothing", REAL(3, 0, 2), run_norm_2, ref_norm_2, 2),
    CASE1(std, "of nothing", REAL(3, 0), run_std, ref_std_last, 2),
    CASE1(amin, "no columns", REAL(4, 0), run_amin, ref_amin_first, 2),
    CASE1(amin, "first", REAL(4, 5), run_amin, ref_amin_first, 2),
    CASE1(amin, "all", REAL(70, 50), run_amin_all, ref_amin_all, 0),
    CASE1(std, "last", REAL(3, 6), run_std, ref_std_last, 2),
    CASE1(std, "biased", REAL(40, 30), run_std_all, ref_std_all, 1),
    CASE1(min, "", REAL(3, 5, 2), run_min, ref_min, 2),
    CASE1(min, "places", REAL(3, 5, 2), run_min_places, ref_argmin_1, 0),
    CASE1(argmin, "", REAL(3, 5, 40), run_argmin, ref_argmin_last, 0),
    CASE1(any, "", REAL(3, 5, 2), run_any, ref_any, 0),
    CASE1(all, "", REAL(3, 5, 2), run_all, ref_all, 0),
    CASE1(logsumexp, "middle", REAL(3, 5, 2), run_logsumexp, ref_logsumexp_1, 2),
    CASE1(logsumexp, "all", REAL(30, 20), run_logsumexp_all, ref_logsumexp_all, 1),
    CASE1(norm, "2", REAL(3, 5, 2), run_norm_2, ref_norm_2, 2),
    CASE1(norm, "all", REAL(30, 50), run_norm_all, ref_norm_all, 1),
    CASE1(norm, "1", REAL(3, 5, 2), run_norm_1, ref_norm_1, 2),
    CASE1(norm, "0", REAL(3, 5, 2), run_norm_0, ref_norm_0, 0),
    CASE1(norm, "3", REAL(3, 5, 2), run_norm_3, ref_norm_3, 2),
    { OPINFO(norm), .label = "1/2", .in = { REAL(3, 5, 2) }, .run = run_norm_half, .ref = ref_norm_half,
      .differentiable = 1, .order = 1, .floor = 8, .why = "second differences near 0 are too steep" },
    CASE1(norm, "3/2", FROM(0.25, 2, 3, 5, 2), run_norm_between, ref_norm_between, 2),
    CASE1(norm, "-1", FROM(0.25, 2, 3, 5, 2), run_norm_minus, ref_norm_minus, 2),
    CASE1(norm, "greatest", REAL(3, 5, 2), run_norm_greatest, ref_norm_greatest, 2),
    CASE1(norm, "least", REAL(3, 5, 2), run_norm_least, ref_norm_least, 2),
    CASE1(cumsum, "", REAL(3, 5), run_cumsum, ref_cumsum, 2),
    CASE1(cumsum, "empty", REAL(3, 0), run_cumsum, ref_cumsum, 0),
    CASE1(cumsum, "0-dim", { .kind = INPUT_REAL }, run_cumsum_first, ref_cumsum_first, 2),
    CASE1(cumsum, "columns", REAL(70, 3, 50), run_cumsum_first, ref_cumsum_first, 0),
    CASE1(cumsum, "middle", REAL(2, 70, 5), run_cumsum, ref_cumsum, 0),
    CASE1(cumprod, "", REAL(3, 5), run_cumprod, ref_cumprod, 2),
    CASE1(cumprod, "0-dim", { .kind = INPUT_REAL }, run_cumprod_first, ref_cumprod_first, 2),
    CASE1(cumprod, "first", REAL(4, 3, 2), run_cumprod_first, ref_cumprod_first, 2),
    { OPINFO(cumprod), .label = "long", .in = { FROM(0.9, 1.1, 2, 300) }, .run = run_cumprod,
      .ref = ref_cumprod },
    { OPINFO(linear_scan), .label = "", .in = { REAL(3, 5), REAL(3, 5) }, .run = run_linear_scan,
      .ref = ref_linear_scan, .differentiable = 3, .order = 2, .floor = 4 },
    { OPINFO(linear_scan), .label = "long", .in = { REAL(2, 300), FROM(-1, 1, 2, 300) },
      .run = run_linear_scan, .ref = ref_linear_scan, .floor = 4 },
    { OPINFO(linear_scan), .label = "reverse", .in = { REAL(3, 5, 2), REAL(3, 5, 2) },
      .run = run_linear_scan_reverse, .ref = ref_linear_scan_reverse, .differentiable = 3, .order = 2,
      .floor = 4 },
};
const int opinfo_fold_count = sizeof opinfo_fold / sizeof *opinfo_fold;
