/* The gradient scaler's iteration: unscale, step, update. Checks come in PyTorch's order. */
#include <math.h>

#include "amp/grad_scaler.h"
#include "core/error.h"
#include "tern/autograd.h"
#include "tern/device.h"
#include "tern/ops.h"

/* ---- unscale ------------------------------------------------------------------------------------- */

/* What a call of unscale works with. */
typedef struct unscaling {
    tern_grad_scaler *scaler;
    tern_tensor *inverse[AMP_DEVICES]; /* of the frame's scope, by the places of found[] */
    tern_tensor *reciprocal;           /* on the scale's device */
    int devices;
    tern_tensor *found[AMP_DEVICES];
} unscaling;

/* The place of a device; -1 after an error. */
static int place_of(unscaling *u, tern_dev_t dev)
{
    for (int d = 0; d < u->devices; d++)
        if (tern_dev_equal(tern_device(u->found[d]), dev))
            return d;
    if (u->devices == AMP_DEVICES) {
        (void)tern_fail(TERN_ERR_ARGUMENT, "scaler_unscale", "gradients on more than %d devices",
                        AMP_DEVICES);
        return -1;
    }
    if (u->reciprocal == NULL) /* rounded once, from double */
        u->reciprocal = tern_cast(tern_div(1.0, tern_cast(u->scaler->scale, TERN_F64)), TERN_F32);
    tern_tensor *inverse = tern_to(u->reciprocal, dev, .non_blocking = true);
    tern_tensor *found = tern_zeros(TERN_SCALAR_SHAPE, .dtype = TERN_F32, .device = dev);
    if (tern_failed())
        return -1;
    u->inverse[u->devices] = inverse;
    u->found[u->devices] = found;
    return u->devices++;
}

static bool refuse_f16(tern_site_t site, tern_tensors_t params)
{
    for (int64_t i = 0; i < params.count; i++) {
        tern_tensor *grad = tern_grad_of(params.tensors[i]);
        if (grad == NULL || tern_dtype(grad) != TERN_F16)
            continue;
        (void)tern_fail_at(site, TERN_ERR_DTYPE, "scaler_unscale",
                           "attempting to unscale f16 gradients: that of parameter '%s'\n  try f32 "
                           "parameters: autocast makes what is computed f16, not what is trained",
                           params.names != NULL && params.names[i] != NULL ? params.names[i] : "?");
        return false;
    }
    return true;
}

static bool unscale_all(tern_site_t site, tern_grad_scaler *scaler, const tern_optimizer *opt,
                        amp_optimizer *entry)
{
    const tern_tensors_t params = tern_optimizer_params(opt, -1);
    if (!refuse_f16(site, params))
        return false;
    amp_frame frame = amp_enter(site, false);
    unscaling u = { .scaler = scaler };
    for (int64_t i = 0; i < params.count && !tern_failed(); i++) {
        tern_tensor *grad = tern_grad_of(params.tensors[i]);
        const int d = grad != NULL ? place_of(&u, tern_device(grad)) : -1;
        if (d >= 0)
            (void)tern_unscale_at(site, grad, u.inverse[d], u.found[d]);
    }
    if (!tern_failed()) {
        entry->devices = u.devices;
        for (int d = 0; d < u.devices; d++)
            entry->found[d] = tern_retain(u.found[d]);
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
    if (unscale_all(site, scaler, opt, entry))
        entry->stage = AMP_UNSCALED;
    return tern_error_code();
}

/* ---- step ---------------------------------------------------------------------------------------- */

/* Reads one flag per device. */
static bool any_found(tern_site_t site, const amp_optimizer *entry)
{
    double sum = 0;
    for (int d = 0; d < entry->devices; d++)
        sum += tern_item_at(site, entry->found[d]);
    return sum != 0;
}

static tern_status_t skip(tern_site_t site, tern_grad_scaler *scaler, const tern_optimizer *opt,
                          amp_optimizer *entry)
{
    entry->skipped = true;
    scaler->skips++;
    amp_find_overflow(site, scaler, opt);
    return tern_error_code();
}

static tern_status_t step_checked(tern_site_t site, tern_grad_scaler *scaler, tern_optimizer *opt,
                                  amp_optimizer *entry)
{
    if (entry->devices == 0)
        return tern_fail_at(
            site, TERN_ERR_STATE, "scaler_step",
            "no inf checks were recorded for this optimizer: none of its parameters "
            "has a gradient\n  try tern_backward(tern_scaler_scale(scaler, loss)) "
            "before");
    const bool found = any_found(site, entry);
    if (tern_failed())
        return tern_error_code();
    const tern_status_t status = found ? skip(site, scaler, opt, entry) : tern_step_at(site, opt);
    if (status == TERN_OK) {
        entry->found_known = true;
        entry->stage = AMP_STEPPED;
    }
    return status;
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
    if (entry->stage == AMP_READY) {
        if (!unscale_all(site, scaler, opt, entry))
            return tern_error_code();
        entry->stage = AMP_UNSCALED;
    }
    return step_checked(site, scaler, opt, entry);
}

bool tern_scaler_skipped(const tern_grad_scaler *scaler, const tern_optimizer *opt)
{
    const amp_optimizer *entry = scaler != NULL ? amp_find_optimizer(scaler, opt) : NULL;
    return entry != NULL && entry->skipped;
}

/* ---- update -------------------------------------------------------------------------------------- */

static bool set_scale(tern_site_t site, tern_grad_scaler *scaler, const tern_scaler_update_args *a)
{
    const tern_tensor *t = a->new_scale_tensor;
    if (t == NULL) {
        scaler->known_scale = (double)(float)a->new_scale;
        return tern_fill_at(site, scaler->scale, a->new_scale) != NULL;
    }
    if (tern_device(t).kind != tern_device(scaler->scale).kind || tern_numel(t) != 1 ||
        tern_requires_grad(t)) {
        (void)tern_fail_at(site, TERN_ERR_ARGUMENT, "scaler_update",
                           "new_scale_tensor has to be one element on the scaler's kind of device "
                           "that requires no gradient");
        return false;
    }
    scaler->known_scale = NAN;
    const tern_copy_args copy = { .size_ = sizeof copy,
                                  .dst = scaler->scale,
                                  .src = tern_reshape(a->new_scale_tensor, TERN_SCALAR_SHAPE) };
    return tern_copy_at(site, &copy) != NULL;
}

/* The sum of all flags on the scale's device; NULL after an error. *out_skips: how many steps were left
 * out, -1 when a flag has not been read. */
static tern_tensor *all_found(tern_site_t site, const tern_grad_scaler *scaler, int64_t *out_skips)
{
    tern_tensor *sum = NULL;
    *out_skips = 0;
    for (int64_t i = 0; i < scaler->optimizer_count; i++) {
        const amp_optimizer *entry = &scaler->optimizers[i];
        if (entry->devices > 0 && !entry->found_known)
            *out_skips = -1;
        else if (*out_skips >= 0)
            *out_skips += entry->skipped;
        for (int d = 0; d < entry->devices; d++) {
            tern_tensor *found =
                tern_to(entry->found[d], tern_device(scaler->scale), .non_blocking = true);
            sum = sum == NULL ? found : tern_add(sum, found);
        }
    }
    if (sum == NULL && !tern_failed())
        (void)tern_fail_at(site, TERN_ERR_STATE, "scaler_update",
                           "no inf checks were recorded prior to update\n  try "
                           "tern_scaler_step(scaler, opt) before");
    return sum;
}

/* The kernel's rule on what the host knows, so that the history needs no wait. */
static void mirror(tern_grad_scaler *scaler, int64_t skips)
{
    if (skips < 0) {
        scaler->known_scale = NAN;
    } else if (skips > 0) {
        scaler->known_scale = (double)(float)(scaler->known_scale * scaler->backoff);
        scaler->known_tracker = 0;
    } else if (++scaler->known_tracker == scaler->interval) {
        const double grown = (double)(float)(scaler->known_scale * scaler->growth);
        scaler->known_scale = isinf(grown) ? scaler->known_scale : grown;
        scaler->known_tracker = 0;
    }
}

static bool move_scale(tern_site_t site, tern_grad_scaler *scaler)
{
    int64_t skips;
    const tern_attr_scale options = { scaler->growth, scaler->backoff, scaler->interval };
    tern_tensor *found = all_found(site, scaler, &skips);
    if (found == NULL ||
        tern_scale_update_at(site, scaler->scale, scaler->tracker, found, &options) != TERN_OK)
        return false;
    mirror(scaler, skips);
    return true;
}

tern_status_t tern_scaler_update_at(tern_site_t site, const tern_scaler_update_args *args)
{
    static const char what[] = "scaler_update";
    tern_grad_scaler *scaler = args != NULL ? args->scaler : NULL;
    if (!amp_scaler_check(site, what, scaler) || !scaler->enabled ||
        !check_scale(site, what, scaler))
        return tern_error_code();
    amp_frame frame = amp_enter(site, false);
    const bool given =
        args->new_scale_tensor != NULL || args->new_scale != 0 || signbit(args->new_scale) != 0;
    const bool done = given ? set_scale(site, scaler, args) : move_scale(site, scaler);
    amp_leave(&frame);
    if (!done)
        return tern_error_code();
    amp_add_event(scaler);
    amp_forget_optimizers(scaler);
    return TERN_OK;
}
