/* The gradient scaler's iteration: unscale, step, update. Checks come in PyTorch's order. */
#include "amp/grad_scaler.h"
#include "core/error.h"
#include "core/option.h"
#include "core/scaling.h"
#include "tern/autograd.h"
#include "tern/device.h"
#include "tern/ops.h"

/* ---- looking at gradients, and unscaling them --------------------------------------------------- */

/* What a pass over an optimizer's gradients works with. */
typedef struct pass {
    tern_grad_scaler *scaler;
    bool unscales;                     /* else it only looks */
    tern_tensor *inverse[AMP_DEVICES]; /* of the frame's scope, by the places of found[] */
    tern_tensor *reciprocal;           /* on the scale's device */
    int devices;
    tern_tensor *found[AMP_DEVICES], *cause[AMP_DEVICES];
} pass;

static tern_tensor *inverse_on(pass *u, tern_dev_t dev)
{
    if (u->reciprocal == NULL) /* rounded once, from double */
        u->reciprocal = tern_cast(tern_div(1.0, tern_cast(u->scaler->scale, TERN_F64)), TERN_F32);
    return amp_brought(u->reciprocal, dev);
}

/* The place of a gradient's device; -1 after an error. */
static int place_of(pass *u, tern_tensor *grad)
{
    const tern_dev_t dev = tern_device(grad);
    for (int d = 0; d < u->devices; d++)
        if (tern_dev_equal(tern_device(u->found[d]), dev))
            return d;
    if (u->devices == AMP_DEVICES) {
        (void)tern_fail(TERN_ERR_ARGUMENT, "scaler_unscale", "gradients on more than %d devices",
                        AMP_DEVICES);
        return -1;
    }
    u->inverse[u->devices] = u->unscales ? inverse_on(u, dev) : NULL;
    tern_tensor *found = tern_zeros(TERN_SCALAR_SHAPE, .dtype = TERN_F32, .like = grad);
    tern_tensor *cause =
        tern_full((double)INT32_MAX, TERN_SCALAR_SHAPE, .dtype = TERN_I32, .like = grad);
    if (tern_failed())
        return -1;
    u->found[u->devices] = found;
    u->cause[u->devices] = cause;
    return u->devices++;
}

static const char *name_of(tern_tensors_t params, int64_t i)
{
    return params.names != NULL && params.names[i] != NULL ? params.names[i] : "?";
}

/* Everything that may be refused is before the first gradient is divided: none is divided twice when the call is
 * repeated. */
static bool can_unscale(tern_site_t site, tern_tensors_t params)
{
    static const char what[] = "scaler_unscale";
    for (int64_t i = 0; i < params.count && !tern_failed(); i++) {
        tern_tensor *grad = tern_grad_of(params.tensors[i]);
        if (grad != NULL && tern_dtype(grad) == TERN_F16)
            (void)tern_fail_at(
                site, TERN_ERR_DTYPE, what,
                "attempting to unscale f16 gradients: that of parameter '%s'\n  try f32 "
                "parameters: autocast makes what is computed f16, not what is trained",
                name_of(params, i));
        else if (grad != NULL && tern_overlaps_itself(grad))
            (void)tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                               "several elements of the gradient of parameter '%s', which is "
                               "written, share one place in memory\n  try tern_contiguous first",
                               name_of(params, i));
    }
    return !tern_failed();
}

/* Flags on all devices where there are gradients, before one is divided. */
static void make_places(pass *u, tern_tensors_t params)
{
    for (int64_t i = 0; i < params.count && !tern_failed(); i++) {
        tern_tensor *grad = tern_grad_of(params.tensors[i]);
        if (grad != NULL)
            (void)place_of(u, grad);
    }
}

/* Fills the entry's flags and causes. */
static bool run_pass(tern_site_t site, tern_grad_scaler *scaler, const tern_optimizer *opt,
                     amp_optimizer *entry, bool unscales)
{
    const tern_tensors_t params = tern_optimizer_params(opt, -1);
    const int64_t first = amp_first_number(scaler, opt);
    amp_frame frame = amp_enter(site, false);
    pass u = { .scaler = scaler, .unscales = unscales };
    make_places(&u, params);
    for (int64_t i = 0; i < params.count && !tern_failed(); i++) {
        tern_tensor *grad = tern_grad_of(params.tensors[i]);
        const int d = grad != NULL ? place_of(&u, grad) : -1;
        if (d >= 0)
            (void)core_unscale(site, grad, u.inverse[d], u.found[d], first > 0 ? u.cause[d] : NULL,
                               first + i);
    }
    if (!tern_failed()) {
        entry->devices = u.devices;
        for (int d = 0; d < u.devices; d++) {
            entry->found[d] = tern_retain(u.found[d]);
            entry->cause[d] = tern_retain(u.cause[d]);
        }
    }
    amp_leave(&frame);
    return !tern_failed();
}

static bool check_call(tern_site_t site, const char *what, const tern_grad_scaler *scaler,
                       const tern_optimizer *opt)
{
    if (!amp_scaler_check(site, what, scaler))
        return false;
    if (opt == NULL)
        (void)tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the optimizer is NULL");
    return opt != NULL;
}

static bool check_scale(tern_site_t site, const char *what, const tern_grad_scaler *scaler)
{
    if (scaler->scale == NULL)
        (void)tern_fail_at(
            site, TERN_ERR_STATE, what,
            "there is no scale yet\n  try tern_scaler_scale(scaler, loss) earlier in "
            "the iteration");
    return scaler->scale != NULL;
}

tern_status_t tern_scaler_unscale_at(tern_site_t site, tern_grad_scaler *scaler,
                                     tern_optimizer *opt)
{
    static const char what[] = "scaler_unscale";
    if (!check_call(site, what, scaler, opt) || !scaler->enabled ||
        !check_scale(site, what, scaler))
        return tern_error_code();
    amp_optimizer *entry = amp_optimizer_of(site, scaler, opt);
    if (entry == NULL)
        return tern_error_code();
    if (entry->stage == AMP_UNSCALED)
        return tern_fail_at(site, TERN_ERR_STATE, what,
                            "has already been called on this optimizer since the last update");
    if (entry->stage == AMP_STEPPED)
        return tern_fail_at(site, TERN_ERR_STATE, what,
                            "is called after the step of this optimizer");
    if (can_unscale(site, tern_optimizer_params(opt, -1)) &&
        run_pass(site, scaler, opt, entry, true))
        entry->stage = AMP_UNSCALED;
    return tern_error_code();
}

/* ---- step ---------------------------------------------------------------------------------------- */

/* 1 where a gradient on any device was not finite, on the scale's device; of the frame's scope. */
static tern_tensor *any_found(const tern_grad_scaler *scaler, const amp_optimizer *entry)
{
    tern_tensor *any = NULL;
    for (int d = 0; d < entry->devices; d++) {
        tern_tensor *found = amp_brought(entry->found[d], tern_device(scaler->scale));
        any = any == NULL ? found : tern_maximum(any, found);
    }
    return any;
}

/* The host reads nothing: the step finds scale and flag where they are. */
static tern_status_t step_checked(tern_site_t site, tern_grad_scaler *scaler, tern_optimizer *opt,
                                  amp_optimizer *entry)
{
    if (entry->devices == 0)
        return tern_fail_at(
            site, TERN_ERR_STATE, "scaler_step",
            "no inf checks were recorded for this optimizer: none of its parameters "
            "has a gradient\n  try tern_backward(tern_scaler_scale(scaler, loss)) "
            "before");
    amp_frame frame = amp_enter(site, false);
    tern_tensor *any = any_found(scaler, entry);
    if (!tern_failed())
        (void)tern_step_scaled_at(site, opt, entry->stage == AMP_READY ? scaler->scale : NULL, any);
    amp_leave(&frame);
    return tern_error_code();
}

tern_status_t tern_scaler_step_at(tern_site_t site, tern_grad_scaler *scaler, tern_optimizer *opt)
{
    static const char what[] = "scaler_step";
    if (!check_call(site, what, scaler, opt))
        return tern_error_code();
    if (!scaler->enabled)
        return tern_step_at(site, opt);
    if (!check_scale(site, what, scaler))
        return tern_error_code();
    amp_optimizer *entry = amp_optimizer_of(site, scaler, opt);
    if (entry == NULL)
        return tern_error_code();
    if (entry->stage == AMP_STEPPED)
        return tern_fail_at(site, TERN_ERR_STATE, what,
                            "has already been called since the last update");
    if (entry->stage == AMP_READY && !run_pass(site, scaler, opt, entry, false))
        return tern_error_code();
    if (step_checked(site, scaler, opt, entry) == TERN_OK)
        entry->stage = AMP_STEPPED;
    else if (entry->stage == AMP_READY)
        amp_forget_found(entry);
    return tern_error_code();
}

/* ---- update -------------------------------------------------------------------------------------- */

static bool set_scale(tern_site_t site, tern_grad_scaler *scaler, const tern_scaler_update_args *a)
{
    const tern_tensor *t = a->new_scale_tensor;
    if (t == NULL)
        return tern_fill_at(site, scaler->scale, tern_operand_float(core_given(a->new_scale, 0))) !=
               NULL;
    if (tern_device(t).kind != tern_device(scaler->scale).kind || tern_numel(t) != 1 ||
        tern_requires_grad(t)) {
        (void)tern_fail_at(site, TERN_ERR_ARGUMENT, "scaler_update",
                           "new_scale_tensor has to be one element on the scaler's kind of device "
                           "that requires no gradient");
        return false;
    }
    const tern_copy_args copy = { .size_ = sizeof copy,
                                  .dst = scaler->scale,
                                  .src = tern_reshape(a->new_scale_tensor, TERN_SCALAR_SHAPE) };
    return tern_copy_at(site, &copy) != NULL;
}

/* Over all optimizers, on the scale's device: what the row `scale_update` takes. NULL: nothing was looked
 * at (found), no step was taken (skipped, cause). */
typedef struct sums {
    tern_tensor *found, *skipped, *cause;
} sums;

static tern_tensor *plus(tern_tensor *sum, tern_tensor *t)
{
    return sum == NULL ? t : tern_add(sum, t);
}

static sums sum_up(const tern_grad_scaler *scaler)
{
    sums s = { NULL, NULL, NULL };
    bool all_stepped = true;
    for (int64_t i = 0; i < scaler->optimizer_count; i++)
        all_stepped = all_stepped && scaler->optimizers[i].stage == AMP_STEPPED;
    for (int64_t i = 0; i < scaler->optimizer_count && !tern_failed(); i++) {
        const amp_optimizer *entry = &scaler->optimizers[i];
        tern_tensor *any = any_found(scaler, entry);
        if (any == NULL)
            continue;
        s.found = plus(s.found, any);
        if (entry->stage != AMP_STEPPED)
            continue;
        s.skipped = all_stepped ? s.found : plus(s.skipped, any);
        for (int d = 0; d < entry->devices; d++) {
            tern_tensor *cause = amp_brought(entry->cause[d], tern_device(scaler->scale));
            s.cause = s.cause == NULL ? cause : tern_minimum(s.cause, cause);
        }
    }
    return s;
}

/* Moves the scale, unless it was given, and writes the log. */
static bool move_scale(tern_site_t site, tern_grad_scaler *scaler, bool given)
{
    const sums s = sum_up(scaler);
    const tern_attr_scale options = { .growth = scaler->growth,
                                      .backoff = scaler->backoff,
                                      .interval = scaler->interval,
                                      .slot = scaler->updates % TERN_SCALER_EVENTS,
                                      .keep = given };
    if (tern_failed())
        return false;
    if (s.found == NULL && !given) {
        (void)tern_fail_at(site, TERN_ERR_STATE, "scaler_update",
                           "no inf checks were recorded prior to update\n  try "
                           "tern_scaler_step(scaler, opt) before");
        return false;
    }
    return core_scale_update(site,
                             (tern_tensor *[]){ scaler->scale, scaler->tracker, s.found, s.skipped,
                                                s.cause, scaler->log },
                             &options) == TERN_OK;
}

tern_status_t tern_scaler_update_at(tern_site_t site, const tern_scaler_update_args *args)
{
    static const char what[] = "scaler_update";
    tern_grad_scaler *scaler = args != NULL ? args->scaler : NULL;
    if (!amp_scaler_check(site, what, scaler) || !scaler->enabled ||
        !check_scale(site, what, scaler))
        return tern_error_code();
    const bool as_number = args->new_scale != 0 || core_zero_meant(args->new_scale);
    const bool given = as_number || args->new_scale_tensor != NULL;
    if (as_number && args->new_scale_tensor != NULL)
        return tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                            "new_scale and new_scale_tensor are both given");
    amp_frame frame = amp_enter(site, false);
    const char *outer = tern_calling_begin(what);
    const bool done = (!given || set_scale(site, scaler, args)) && move_scale(site, scaler, given);
    tern_calling_end(outer);
    amp_leave(&frame);
    if (!done)
        return tern_error_code();
    scaler->updates++;
    amp_forget_optimizers(scaler);
    return TERN_OK;
}
