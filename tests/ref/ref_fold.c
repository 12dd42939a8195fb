/* References: reductions beyond sums, and scans. See ref.h. */
#include <math.h>

#include "tests/ref/ref.h"

/* Folds elements over the dims whose bit is set, from `first` on. */
static value fold(const value *a, uint32_t dims, double first, double (*step)(double all, double x))
{
    value out = ref_sum(a, dims); /* for its shape */
    int64_t at[TERN_MAX_DIMS] = { 0 }, i = 0;
    for (int64_t k = 0; k < out.numel; k++)
        out.data[k] = first;
    if (a->numel > 0)
        do {
            int64_t place = 0;
            for (int d = 0; d < a->ndim; d++)
                if (!(dims & (1u << d)))
                    place = place * a->dims[d] + at[d];
            out.data[place] = step(out.data[place], a->data[i++]);
        } while (ref_next(a->ndim, a->dims, at));
    return out;
}

static double times(double all, double x)
{
    return all * x;
}

value ref_prod(const value *a, uint32_t dims)
{
    return fold(a, dims, 1, times);
}

value ref_amin(const value *a, uint32_t dims)
{
    value minus = value_copy(a);
    for (int64_t i = 0; i < a->numel; i++)
        minus.data[i] = -a->data[i];
    value out = ref_amax(&minus, dims);
    for (int64_t i = 0; i < out.numel; i++)
        out.data[i] = -out.data[i];
    value_free(&minus);
    return out;
}

value ref_argmin(const value *a, int dim)
{
    value minus = value_copy(a);
    for (int64_t i = 0; i < a->numel; i++)
        minus.data[i] = -a->data[i];
    value out = ref_argmax(&minus, dim);
    value_free(&minus);
    return out;
}

static double larger(double all, double x)
{
    return x > all || isnan(x) ? x : all;
}

static double smaller(double all, double x)
{
    return x < all || isnan(x) ? x : all;
}

value ref_norm(const value *a, uint32_t dims, double p)
{
    value each = value_copy(a), out;
    for (int64_t i = 0; i < a->numel; i++) {
        const double x = fabs(a->data[i]);
        each.data[i] = isinf(p) ? x : p == 0 ? x != 0 : pow(x, p);
    }
    if (isinf(p))
        out = fold(&each, dims, p > 0 ? 0 : INFINITY, p > 0 ? larger : smaller);
    else
        out = ref_sum(&each, dims);
    for (int64_t k = 0; k < out.numel && p != 0 && !isinf(p); k++)
        out.data[k] = pow(out.data[k], 1 / p);
    value_free(&each);
    return out;
}

value ref_logsumexp(const value *a, uint32_t dims)
{
    value each = ref_map(a, exp), out = ref_sum(&each, dims);
    for (int64_t k = 0; k < out.numel; k++)
        out.data[k] = log(out.data[k]);
    value_free(&each);
    return out;
}

value ref_scan(const value *a, const value *factor, int dim, bool product, bool reverse)
{
    value out = value_copy(a);
    const int64_t n = a->ndim > 0 ? a->dims[dim] : 1;
    int64_t inner = 1;
    for (int d = dim + 1; d < a->ndim; d++)
        inner *= a->dims[d];
    for (int64_t i = 0; i < a->numel; i++) {
        const int64_t t = i / inner % n;
        if (t > 0)
            continue;
        double all = product ? 1 : 0;
        for (int64_t k = 0; k < n; k++) {
            const int64_t at = i + (reverse ? n - 1 - k : k) * inner;
            const double x = a->data[at], f = factor != NULL ? factor->data[at] : 1;
            out.data[at] = all = product ? all * x : all * f + x;
        }
    }
    return out;
}
