/* Gradients against central differences.
 *
 * The function's result is reduced to one number with fixed random weights; for order 2 the number is
 * the weighted sum of the first gradients, and the same comparison runs on that. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/node.h"
#include "core/option.h"

enum { MAX_CHECKED = 16 };

typedef struct check_run {
    const tern_gradcheck_args *args;
    tern_site_t site;
    double step, tolerance;
} check_run;

/* sum(t * w), w fixed by `key` */
static tern_tensor *weighted_sum(tern_tensor *t, uint64_t key)
{
    tern_generator *generator = tern_generator_create(key);
    tern_tensor *w = tern_rand(tern_shape(t), .dtype = tern_dtype(t), .device = tern_device(t),
                               .generator = generator);
    tern_generator_free(generator);
    return tern_sum(tern_mul(t, tern_add(w, 0.5)));
}

/* The number that is differentiated, recorded. */
static tern_tensor *evaluate(const check_run *run, tern_tensor *const *in, int order)
{
    const tern_gradcheck_args *args = run->args;
    tern_tensor *value = args->fn(in, args->user);
    if (value == NULL && !tern_failed())
        tern_fail_at(run->site, TERN_ERR_STATE, "gradcheck", "the function returned NULL");
    if (value == NULL)
        return NULL;
    tern_tensor *s = weighted_sum(value, 17);
    if (order == 1 || s == NULL)
        return s;
    tern_tensor *checked[MAX_CHECKED], *grads[MAX_CHECKED];
    int64_t n = 0;
    for (int64_t i = 0; i < args->count; i++)
        if (tern_requires_grad(in[i]))
            checked[n++] = in[i];
    if (tern_grad(s, checked, n, grads, .create_graph = true, .allow_unused = true) != TERN_OK)
        return NULL;
    tern_tensor *sum = NULL;
    for (int64_t i = 0; i < n; i++)
        if (grads[i] != NULL) {
            tern_tensor *part = weighted_sum(grads[i], 31 + (uint64_t)i);
            sum = sum == NULL ? part : tern_add(sum, part);
        }
    return sum;
}

/* The number with `values` in place of input i's. NaN after an error. */
static double number_at(const check_run *run, int64_t i, const double *values, int order)
{
    TERN_SCOPE;
    const tern_gradcheck_args *args = run->args;
    tern_tensor *in[MAX_CHECKED];
    for (int64_t j = 0; j < args->count; j++)
        in[j] = args->inputs[j];
    tern_tensor *t = tern_from_data(values, tern_shape(in[i]), .dtype = TERN_F64);
    t = tern_to(t, tern_device(in[i]));
    in[i] = tern_set_requires_grad(t, true);
    if (in[i] == NULL)
        return NAN;
    tern_tensor *s = evaluate(run, in, order);
    return s == NULL ? (tern_failed() ? NAN : 0.0) : tern_item(s);
}

/* Input i: its elements, what backward gives for them, and room for as many that are moved. */
typedef struct checked_input {
    int64_t i, numel;
    double *values, *analytic, *point;
} checked_input;

static bool differ(const check_run *run, double analytic, double numeric)
{
    if (!isfinite(analytic) || !isfinite(numeric)) /* a bound would be infinite, too */
        return analytic != numeric && !tern_failed();
    const double bound = run->tolerance * fmax(1.0, fmax(fabs(numeric), fabs(analytic)));
    return !(fabs(numeric - analytic) <= bound) && !tern_failed();
}

static double step_of(const check_run *run, const checked_input *in, int64_t k)
{
    return run->step * fmax(1.0, fabs(in->values[k]));
}

/* One element after the other. */
static void compare_elements(const check_run *run, const checked_input *in, int order)
{
    for (int64_t k = 0; k < in->numel && !tern_failed(); k++) {
        const double h = step_of(run, in, k);
        in->point[k] = in->values[k] + h;
        const double up = number_at(run, in->i, in->point, order);
        in->point[k] = in->values[k] - h;
        const double down = number_at(run, in->i, in->point, order);
        in->point[k] = in->values[k];
        const double numeric = (up - down) / (2 * h);
        if (differ(run, in->analytic[k], numeric))
            tern_fail_at(
                run->site, TERN_ERR_GRAD, "gradcheck",
                "order %d: input %lld, element %lld: backward gives %.10g, differences %.10g",
                order, (long long)in->i, (long long)k, in->analytic[k], numeric);
    }
}

/* All elements at once, each by a random part of its step: the derivative along that direction. */
static void compare_direction(const check_run *run, const checked_input *in, int order)
{
    tern_generator *generator = tern_generator_create(47 + (uint64_t)in->i);
    tern_tensor *direction = tern_rand(TERN_SHAPE(in->numel), .dtype = TERN_F64, .device = TERN_CPU,
                                       .generator = generator);
    tern_generator_free(generator);
    const double *part = tern_data(direction);
    double side[2], analytic = 0;
    if (part == NULL)
        return;
    for (int sign = 0; sign < 2; sign++) {
        for (int64_t k = 0; k < in->numel; k++)
            in->point[k] =
                in->values[k] + (sign == 0 ? 1 : -1) * (2 * part[k] - 1) * step_of(run, in, k);
        side[sign] = number_at(run, in->i, in->point, order);
    }
    for (int64_t k = 0; k < in->numel; k++)
        analytic += in->analytic[k] * (2 * part[k] - 1) * step_of(run, in, k) / run->step;
    const double numeric = (side[0] - side[1]) / (2 * run->step);
    if (differ(run, analytic, numeric))
        tern_fail_at(run->site, TERN_ERR_GRAD, "gradcheck",
                     "order %d: input %lld, along a random direction: backward gives %.10g, "
                     "differences %.10g; without .fast_mode the element is named",
                     order, (long long)in->i, analytic, numeric);
}

static tern_status_t compare_input(const check_run *run, int64_t i, tern_tensor *grad, int order)
{
    TERN_SCOPE;
    const int64_t numel = tern_numel(run->args->inputs[i]);
    const int64_t bytes = numel * (int64_t)sizeof(double);
    double *room = calloc(3 * (size_t)numel + 1, sizeof *room);
    const checked_input in = { i, numel, room, room + numel, room + 2 * numel };
    if (room == NULL)
        tern_fail_at(run->site, TERN_ERR_OOM, "gradcheck", "no memory to check input %lld",
                     (long long)i);
    else if (tern_read(run->args->inputs[i], TERN_F64, in.values, bytes) == TERN_OK &&
             (grad == NULL || tern_read(grad, TERN_F64, in.analytic, bytes) == TERN_OK)) {
        memcpy(in.point, in.values, (size_t)bytes);
        if (run->args->fast_mode)
            compare_direction(run, &in, order);
        else
            compare_elements(run, &in, order);
    }
    free(room);
    return tern_error_code();
}

static tern_status_t check_order(const check_run *run, int order)
{
    TERN_SCOPE;
    const tern_gradcheck_args *args = run->args;
    tern_tensor *checked[MAX_CHECKED], *grads[MAX_CHECKED] = { NULL };
    int64_t place[MAX_CHECKED], n = 0;
    for (int64_t i = 0; i < args->count; i++)
        if (tern_requires_grad(args->inputs[i])) {
            place[n] = i;
            checked[n++] = args->inputs[i];
        }
    tern_tensor *s = evaluate(run, args->inputs, order);
    if (s == NULL && tern_failed())
        return tern_error_code();
    /* a number that depends on no input (a linear function's second order) has zero gradients */
    if (s != NULL && tern_requires_grad(s) &&
        tern_grad(s, checked, n, grads, .allow_unused = true) != TERN_OK)
        return tern_error_code();
    for (int64_t i = 0; i < n; i++)
        if (compare_input(run, place[i], grads[i], order) != TERN_OK)
            return tern_error_code();
    return TERN_OK;
}

/* At least one, and differences can be taken of each. */
static bool check_inputs(tern_site_t site, const tern_gradcheck_args *args)
{
    bool checks = false;
    for (int64_t i = 0; i < args->count && !tern_failed(); i++) {
        const tern_tensor *t = args->inputs[i];
        checks = checks || tern_requires_grad(t);
        if (tern_requires_grad(t) && tern_dtype(t) != TERN_F64)
            tern_fail_at(site, TERN_ERR_DTYPE, "gradcheck",
                         "input %lld is %s: differences need f64", (long long)i,
                         tern_dtype_name(tern_dtype(t)));
    }
    if (!checks)
        tern_fail_at(site, TERN_ERR_GRAD, "gradcheck",
                     "no input requires a gradient, so that there is nothing to check\n"
                     "  try tern_set_requires_grad(x, true)");
    return !tern_failed();
}

tern_status_t tern_gradcheck_at(tern_site_t site, const tern_gradcheck_args *args)
{
    args = core_options(args);
    const check_run run = { args, site, args->step > 0 ? args->step : 1e-6,
                            args->tolerance > 0 ? args->tolerance : 1e-5 };
    if (args->fn == NULL || args->inputs == NULL || args->count < 1 || args->count > MAX_CHECKED)
        return tern_fail_at(site, TERN_ERR_ARGUMENT, "gradcheck",
                            "a function and 1 to %d inputs are needed", MAX_CHECKED);
    if (args->order < 0 || args->order > 2)
        return tern_fail_at(site, TERN_ERR_ARGUMENT, "gradcheck",
                            "order = %d: 1 checks gradients, 2 gradients of gradients, too",
                            args->order);
    if (!check_inputs(site, args))
        return tern_error_code();
    const tern_site_t outer = tern_site_begin(site);
    const bool owned_mode = tern_set_owned_mode(false); /* scopes end what is made here */
    for (int order = 1; order <= (args->order == 2 ? 2 : 1); order++)
        if (check_order(&run, order) != TERN_OK)
            break;
    tern_set_owned_mode(owned_mode);
    tern_site_end(outer);
    return tern_error_code();
}
