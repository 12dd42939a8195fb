/* multinomial: classes drawn by their weights, made of other ops in f64, so that all devices draw the
 * same. */
#include <math.h>

#include "core/compose.h"
#include "core/op_table.h"
#include "core/option.h"

/* On the CPU so many weights a thread go through all ops before the next ones come: in f64 1 MiB, which a cache keeps. */
enum { AT_ONCE = 1 << 17 };

/* greatest: of all weights. */
static bool sums_are_finite(tern_tensor *x, double greatest)
{
    if (greatest * (double)x->view.shape[x->view.ndim - 1] < INFINITY)
        return true;
    double most = INFINITY;
    tern_tensor *sums = tern_amax(tern_sum(x, TERN_DIMS(-1)));
    return sums != NULL && tern_read(sums, TERN_F64, &most, sizeof most) == TERN_OK &&
           most < INFINITY;
}

/* Weights are numbers >= 0, each row has one above 0, and no row's sum leaves f64: the host reads three numbers to know. */
static bool check_weights(core_call *call, tern_tensor *x)
{
    double found[3];
    tern_tensor *greatest = tern_amax(x, .dims = TERN_DIMS(-1)); /* of each row */
    tern_tensor *const facts[3] = { tern_amin(x), tern_amin(greatest), tern_amax(greatest) };
    tern_tensor *all = tern_stack_at(call->site, facts, 3, 0);
    if (all == NULL || tern_read(all, TERN_F64, found, sizeof found) != TERN_OK)
        return false;
    if (!(found[0] >= 0) || !sums_are_finite(x, found[2]))
        return core_fail(call, TERN_ERR_ARGUMENT, NULL,
                         "weights and their sums have to be finite and at least 0; the least "
                         "weight is %g, the greatest %g",
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
        return core_fail(call, TERN_ERR_ARGUMENT,
                         args->count < 1 ? "a .count of at least 1"
                                         : ".replacement = true, or a smaller .count",
                         "%lld of %lld classes are wanted", (long long)args->count, (long long)n);
    return true;
}

/* Where a uniform share of the sum falls. */
static tern_tensor *draw_again(tern_tensor *weights, tern_tensor *uniforms)
{
    const int last = weights->view.ndim - 1;
    const int64_t n = weights->view.shape[last];
    tern_tensor *sums = tern_cumsum(weights, last);
    tern_tensor *total = tern_slice(sums, .dim = last, .start = n - 1, .end = n);
    return tern_searchsorted(sums, tern_mul(uniforms, total), true);
}

/* The largest of weight / exponential: the first of them to happen. */
static tern_tensor *draw_once(tern_tensor *weights, tern_tensor *uniforms, int64_t count)
{
    tern_tensor *places = NULL;
    tern_tensor *waiting = tern_neg(tern_log(tern_sub(1.0, uniforms)));
    (void)tern_topk(tern_div(weights, waiting), count, weights->view.ndim - 1, true, &places);
    return places;
}

static tern_tensor *draw(const tern_multinomial_args *args, tern_tensor *x, tern_tensor *uniforms)
{
    tern_tensor *weights = tern_cast(x, TERN_F64);
    if (weights == NULL)
        return NULL;
    return args->replacement ? draw_again(weights, uniforms)
                             : draw_once(weights, uniforms, args->count);
}

/* `step` rows at a time. */
static tern_tensor *draw_rows(const tern_multinomial_args *args, tern_tensor *x,
                              tern_tensor *uniforms, int64_t step)
{
    const int64_t rows = x->view.shape[0];
    tern_tensor *out = tern_empty(TERN_SHAPE(rows, args->count), .dtype = TERN_I64, .like = x);
    for (int64_t row = 0; row < rows && !tern_failed(); row += step) {
        const int64_t end = row + step < rows ? row + step : rows;
        tern_scope scope = tern_scope_begin();
        (void)tern_copy(tern_slice(out, 0, row, end),
                        draw(args, tern_slice(x, 0, row, end), tern_slice(uniforms, 0, row, end)));
        tern_scope_end(&scope);
    }
    return tern_failed() ? NULL : out;
}

/* The same numbers, however many rows go at a time. */
static tern_tensor *draw_all(const tern_multinomial_args *args, tern_tensor *x)
{
    const int last = x->view.ndim - 1;
    const int64_t n = x->view.shape[last], at_once = AT_ONCE * (int64_t)tern_num_threads() / n;
    tern_shape_t shape = tern_shape(x);
    if (args->replacement)
        shape.dims[last] = args->count;
    tern_tensor *uniforms =
        tern_rand(shape, .dtype = TERN_F64, .like = x, .generator = args->generator);
    if (uniforms == NULL)
        return NULL;
    if (x->view.dev.kind == TERN_KIND_CPU && last == 1 && at_once < x->view.shape[0])
        return draw_rows(args, x, uniforms, at_once > 0 ? at_once : 1);
    return draw(args, x, uniforms);
}

tern_tensor *tern_multinomial_at(tern_site_t site, const tern_multinomial_args *args)
{
    args = core_options(args);
    tern_tensor *x = args->weights, *out = NULL;
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_multinomial, site, 1, &x);
    if (core_compose_check(&frame) && check_shape(&frame.call, args)) {
        tern_tensor *weights = tern_detach(x);
        if (weights != NULL && x->view.numel == 0)
            out = tern_zeros(TERN_SHAPE(0, args->count), .dtype = TERN_I64, .like = x);
        else if (weights != NULL && check_weights(&frame.call, weights))
            out = draw_all(args, weights);
    }
    return core_compose_end(&frame, out);
}
