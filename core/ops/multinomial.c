/* multinomial: classes drawn by their weights, made of other ops in f64, so that all devices draw the
 * same. */
#include <math.h>

#include "core/compose.h"
#include "core/op_table.h"
#include "core/option.h"

/* Weights are numbers >= 0 and each row has one above 0: the host reads three numbers to know. total: the
 * sum of each row, which is not finite where a weight is not. */
static bool check_weights(core_call *call, tern_tensor *weights, tern_tensor *total)
{
    double found[3];
    tern_tensor *const facts[3] = { tern_amin(weights), tern_amin(total), tern_amax(total) };
    tern_tensor *all = tern_stack_at(call->site, facts, 3, 0);
    if (all == NULL || tern_read(all, TERN_F64, found, sizeof found) != TERN_OK)
        return false;
    if (!(found[0] >= 0) || !(found[2] < INFINITY))
        return core_fail(
            call, TERN_ERR_ARGUMENT, NULL,
            "weights have to be finite and at least 0; the least is %g, the largest sum "
            "of a row %g",
            found[0], found[2]);
    if (!(found[1] > 0))
        return core_fail(call, TERN_ERR_ARGUMENT, NULL, "the weights of a row add up to 0");
    return true;
}

static bool check_shape(core_call *call, const tern_multinomial_args *args)
{
    const tern_view *x = core_view(call, 0);
    const int64_t n = x->ndim > 0 ? x->shape[x->ndim - 1] : 0;
    if (!core_check_dtype(call, 0, DT_FLOATS))
        return false;
    if (x->ndim < 1 || x->ndim > 2 || n == 0)
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "weights are [classes] or [rows, classes], with classes");
    if (args->count < 1 || (!args->replacement && args->count > n))
        return core_fail(call, TERN_ERR_ARGUMENT, ".replacement = true, or a smaller .count",
                         "%lld of %lld classes are wanted", (long long)args->count, (long long)n);
    return true;
}

static tern_tensor *uniforms(tern_tensor *weights, int64_t count, tern_generator *generator)
{
    tern_shape_t shape = tern_shape(weights);
    shape.dims[shape.ndim - 1] = count;
    return tern_rand(shape, .dtype = TERN_F64, .device = tern_device(weights),
                     .generator = generator);
}

/* Where a uniform share of the sum falls. */
static tern_tensor *draw_again(core_call *call, tern_tensor *weights, int64_t count,
                               tern_generator *generator)
{
    const int last = weights->view.ndim - 1;
    const int64_t n = weights->view.shape[last];
    tern_tensor *sums = tern_cumsum(weights, last);
    tern_tensor *total = tern_slice(sums, .dim = last, .start = n - 1, .end = n);
    if (!check_weights(call, weights, total))
        return NULL;
    return tern_searchsorted(sums, tern_mul(uniforms(weights, count, generator), total), true);
}

/* The largest of weight / exponential: the first of them to happen. */
static tern_tensor *draw_once(core_call *call, tern_tensor *weights, int64_t count,
                              tern_generator *generator)
{
    const int last = weights->view.ndim - 1;
    tern_tensor *places = NULL;
    if (!check_weights(call, weights, tern_sum(weights, TERN_DIMS(-1))))
        return NULL;
    tern_tensor *u = uniforms(weights, weights->view.shape[last], generator);
    tern_tensor *waiting = tern_neg(tern_log(tern_sub(1.0, u)));
    (void)tern_topk(tern_div(weights, waiting), count, last, true, &places);
    return places;
}

tern_tensor *tern_multinomial_at(tern_site_t site, const tern_multinomial_args *args)
{
    args = core_options(args);
    tern_tensor *x = args->weights, *out = NULL;
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_multinomial, site, 1, &x);
    if (core_compose_check(&frame) && check_shape(&frame.call, args)) {
        tern_tensor *weights = tern_cast(tern_detach(x), TERN_F64);
        if (weights != NULL && x->view.numel == 0)
            out =
                tern_zeros(TERN_SHAPE(0, args->count), .dtype = TERN_I64, .device = tern_device(x));
        else if (weights != NULL && args->replacement)
            out = draw_again(&frame.call, weights, args->count, args->generator);
        else if (weights != NULL)
            out = draw_once(&frame.call, weights, args->count, args->generator);
    }
    return core_compose_end(&frame, out);
}
