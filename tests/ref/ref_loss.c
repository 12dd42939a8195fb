/* References of losses. See ref.h. */
#include <math.h>

#include "tests/ref/ref.h"

value ref_reduced_loss(value each, int reduction)
{
    if (reduction == TERN_NONE)
        return each;
    const double n = reduction == TERN_MEAN         ? (double)each.numel
                     : reduction == TERN_BATCH_MEAN ? (double)each.dims[0]
                                                    : 1;
    value out = value_new(0, NULL);
    for (int64_t i = 0; i < each.numel; i++)
        out.data[0] += each.data[i];
    out.data[0] /= n;
    value_free(&each);
    return out;
}

value ref_nll_loss(const value *x, const value *target, const value *weight, int reduction,
                   int64_t ignore)
{
    const int64_t classes = x->dims[1],
                  places = target->dims[0] > 0 ? target->numel / target->dims[0] : 0;
    value each = value_new(target->ndim, target->dims);
    double mass = 0;
    for (int64_t i = 0; i < target->numel; i++) {
        const int64_t t = (int64_t)target->data[i], n = i / places;
        if (t == ignore)
            continue;
        const double w = weight->data != NULL ? weight->data[t] : 1;
        each.data[i] = -w * x->data[(n * classes + t) * places + i % places];
        mass += w;
    }
    if (reduction == TERN_NONE)
        return each;
    value out = ref_reduced_loss(each, TERN_SUM);
    if (reduction == TERN_MEAN)
        out.data[0] /= mass;
    return out;
}

value ref_cosine_similarity(const value *x, const value *y)
{
    const int64_t rows = x->dims[0], n = x->dims[1];
    value out = value_new(1, &rows);
    for (int64_t i = 0; i < rows; i++) {
        double dot = 0, xx = 0, yy = 0;
        for (int64_t k = 0; k < n; k++) {
            const double a = x->data[i * n + k], b = y->data[y->ndim == 1 ? k : i * n + k];
            dot += a * b;
            xx += a * a;
            yy += b * b;
        }
        out.data[i] = dot / (sqrt(xx) * sqrt(yy));
    }
    return out;
}
