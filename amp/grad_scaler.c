/* The gradient scaler: making it, scaling losses, options. Steps and updates are in scaler_step.c. */
#include "amp/grad_scaler.h"

#include <math.h>
#include <stdlib.h>

#include "core/option.h"
#include "tern/autograd.h"
#include "tern/device.h"

/* ---- frames -------------------------------------------------------------------------------------- */

amp_frame amp_enter(tern_site_t site, bool recording)
{
    tern_thread *self = core_self();
    amp_frame frame = { .autocast = self->autocast };
    frame.site = tern_site_begin(site);
    frame.owned = tern_set_owned_mode(false);
    frame.recording = tern_set_grad_enabled(recording && self->grad_mode);
    frame.scope = tern_scope_begin();
    self->autocast = 0;
    return frame;
}

void amp_leave(amp_frame *frame)
{
    tern_scope_end(&frame->scope);
    (void)tern_set_grad_enabled(frame->recording);
    (void)tern_set_owned_mode(frame->owned);
    core_self()->autocast = frame->autocast;
    tern_site_end(frame->site);
}

tern_tensor *amp_brought(tern_tensor *t, tern_dev_t dev)
{
    return tern_to(t, dev, .non_blocking = dev.kind != TERN_KIND_CPU);
}

bool amp_scaler_check(tern_site_t site, const char *what, const tern_grad_scaler *scaler)
{
    if (scaler == NULL)
        (void)tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the scaler is NULL");
    return !tern_failed();
}

/* ---- the object ---------------------------------------------------------------------------------- */

static void release(void *object)
{
    tern_grad_scaler *scaler = object;
    amp_forget_optimizers(scaler);
    tern_release(scaler->scale);
    tern_release(scaler->tracker);
    tern_release(scaler->log);
    amp_free_names(scaler);
    free(scaler->optimizers);
    free(scaler);
}

void tern_grad_scaler_free(tern_grad_scaler *scaler)
{
    if (scaler == NULL)
        return;
    tern_at_finish_cancel(scaler);
    release(scaler);
}

static bool check_options(tern_site_t site, const tern_grad_scaler *scaler)
{
    static const char what[] = "grad_scaler";
    if (!(scaler->growth > 1))
        (void)tern_fail_at(site, TERN_ERR_ARGUMENT, what, "growth_factor = %g: it must be > 1.0",
                           scaler->growth);
    else if (!(scaler->backoff < 1))
        (void)tern_fail_at(site, TERN_ERR_ARGUMENT, what, "backoff_factor = %g: it must be < 1.0",
                           scaler->backoff);
    else
        return true;
    return false;
}

static bool wants_scaling(tern_site_t site, const tern_grad_scaler_args *args)
{
    if (args->disabled)
        return false;
    if (args->device.kind != TERN_KIND_CUDA || tern_dev_count(TERN_KIND_CUDA) > 0)
        return true;
    tern_log_write(TERN_LOG_WARNING, site,
                   "a gradient scaler for CUDA, but there is no CUDA device: it is disabled");
    return false;
}

tern_grad_scaler *tern_grad_scaler_create_at(tern_site_t site, const tern_grad_scaler_args *args)
{
    static const char what[] = "grad_scaler";
    args = core_options(args);
    if (args->size_ < sizeof *args) {
        (void)tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the options are too short");
        return NULL;
    }
    tern_grad_scaler *scaler = core_fault() ? NULL : calloc(1, sizeof *scaler);
    if (scaler == NULL || !tern_at_finish(release, scaler)) {
        (void)tern_fail_at(site, TERN_ERR_OOM, what, "no host memory");
        free(scaler);
        return NULL;
    }
    scaler->init_scale = core_given(args->init_scale, 65536);
    scaler->growth = core_given(args->growth_factor, 2);
    scaler->backoff = core_given(args->backoff_factor, 0.5);
    scaler->interval = args->growth_interval != 0 ? args->growth_interval : 2000;
    scaler->enabled = wants_scaling(site, args);
    if (!scaler->enabled || check_options(site, scaler))
        return scaler;
    tern_grad_scaler_free(scaler);
    return NULL;
}

bool tern_scaler_enabled(const tern_grad_scaler *scaler)
{
    return scaler != NULL && scaler->enabled;
}

/* ---- optimizers ---------------------------------------------------------------------------------- */

const amp_optimizer *amp_find_optimizer(const tern_grad_scaler *scaler, const tern_optimizer *opt)
{
    for (int64_t i = 0; i < scaler->optimizer_count; i++)
        if (scaler->optimizers[i].opt == opt)
            return &scaler->optimizers[i];
    return NULL;
}

amp_optimizer *amp_optimizer_of(tern_site_t site, tern_grad_scaler *scaler,
                                const tern_optimizer *opt)
{
    for (int64_t i = 0; i < scaler->optimizer_count; i++)
        if (scaler->optimizers[i].opt == opt)
            return &scaler->optimizers[i];
    if (scaler->optimizer_count == scaler->optimizer_capacity) {
        const int64_t capacity = 2 * scaler->optimizer_capacity + 4;
        amp_optimizer *list =
            core_fault() ? NULL : realloc(scaler->optimizers, (size_t)capacity * sizeof *list);
        if (list == NULL) {
            (void)tern_fail_at(site, TERN_ERR_OOM, "grad_scaler", "no host memory");
            return NULL;
        }
        scaler->optimizers = list;
        scaler->optimizer_capacity = capacity;
    }
    amp_optimizer *entry = &scaler->optimizers[scaler->optimizer_count++];
    *entry = (amp_optimizer){ .opt = opt };
    return entry;
}

void amp_forget_found(amp_optimizer *entry)
{
    for (int d = 0; d < entry->devices; d++) {
        tern_release(entry->found[d]);
        tern_release(entry->cause[d]);
    }
    entry->devices = 0;
}

void amp_forget_optimizers(tern_grad_scaler *scaler)
{
    for (int64_t i = 0; i < scaler->optimizer_count; i++)
        amp_forget_found(&scaler->optimizers[i]);
    scaler->optimizer_count = 0;
}

/* ---- scaling ------------------------------------------------------------------------------------- */

/* Scale and tracker come to be where the first loss lies. */
static bool make_state(tern_grad_scaler *scaler, tern_tensor *loss)
{
    if (scaler->scale != NULL)
        return true;
    tern_tensor *scale =
        tern_full(scaler->init_scale, TERN_SCALAR_SHAPE, .dtype = TERN_F32, .like = loss);
    tern_tensor *tracker =
        tern_full((double)scaler->init_tracker, TERN_SCALAR_SHAPE, .dtype = TERN_I32, .like = loss);
    tern_tensor *log = tern_zeros(TERN_SHAPE(AMP_LOG), .dtype = TERN_F32, .like = loss);
    if (tern_failed())
        return false;
    scaler->scale = tern_retain(scale);
    scaler->tracker = tern_retain(tracker);
    scaler->log = tern_retain(log);
    return true;
}

static tern_tensor *scaled(tern_grad_scaler *scaler, tern_tensor *loss)
{
    return tern_mul(loss, amp_brought(scaler->scale, tern_device(loss)));
}

/* what: the public function, for errors. */
static tern_status_t scale_all(tern_site_t site, const char *what, tern_grad_scaler *scaler,
                               tern_tensors_t losses, tern_tensor **out_scaled)
{
    if (losses.count > 0 && (losses.tensors == NULL || out_scaled == NULL))
        return tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the list of losses or results is NULL");
    for (int64_t i = 0; i < losses.count && out_scaled != losses.tensors; i++)
        out_scaled[i] = NULL;
    if (!amp_scaler_check(site, what, scaler))
        return tern_error_code();
    for (int64_t i = 0; i < losses.count; i++)
        if (losses.tensors[i] == NULL)
            return tern_fail_at(site, TERN_ERR_ARGUMENT, what, "loss %lld is NULL", (long long)i);
    amp_frame frame = amp_enter(site, true);
    for (int64_t i = 0; i < losses.count && !tern_failed(); i++) {
        tern_tensor *loss = losses.tensors[i];
        if (scaler->enabled)
            loss = make_state(scaler, loss) ? scaled(scaler, loss) : NULL;
        if (loss != NULL)
            out_scaled[i] = frame.owned ? tern_retain(loss) : tern_keep(loss);
    }
    amp_leave(&frame);
    return tern_error_code();
}

tern_status_t tern_scaler_scale_all_at(tern_site_t site, tern_grad_scaler *scaler,
                                       tern_tensors_t losses, tern_tensor **out_scaled)
{
    return scale_all(site, "scaler_scale_all", scaler, losses, out_scaled);
}

tern_tensor *tern_scaler_scale_at(tern_site_t site, tern_grad_scaler *scaler, tern_tensor *loss)
{
    tern_tensor *out = NULL;
    const tern_tensors_t one = { &loss, NULL, 1 };
    return scale_all(site, "scaler_scale", scaler, one, &out) == TERN_OK ? out : NULL;
}

/* ---- options ------------------------------------------------------------------------------------- */

double tern_scaler_get_scale_at(tern_site_t site, tern_grad_scaler *scaler)
{
    if (!amp_scaler_check(site, "scaler_get_scale", scaler))
        return NAN;
    if (!scaler->enabled || scaler->scale == NULL)
        return scaler->enabled ? scaler->init_scale : 1;
    return tern_item_at(site, scaler->scale);
}

double tern_scaler_growth_factor(const tern_grad_scaler *scaler)
{
    return scaler != NULL ? scaler->growth : 0;
}

double tern_scaler_backoff_factor(const tern_grad_scaler *scaler)
{
    return scaler != NULL ? scaler->backoff : 0;
}

int64_t tern_scaler_growth_interval(const tern_grad_scaler *scaler)
{
    return scaler != NULL ? scaler->interval : 0;
}

void tern_scaler_set_growth_factor(tern_grad_scaler *scaler, double factor)
{
    if (scaler != NULL)
        scaler->growth = factor;
}

void tern_scaler_set_backoff_factor(tern_grad_scaler *scaler, double factor)
{
    if (scaler != NULL)
        scaler->backoff = factor;
}

void tern_scaler_set_growth_interval(tern_grad_scaler *scaler, int64_t interval)
{
    if (scaler != NULL)
        scaler->interval = interval;
}
