/* What the gradient scaler keeps: its state in files, its history, the cause of a skipped step. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "amp/grad_scaler.h"
#include "tern/autograd.h"
#include "tern/ops.h"

/* ---- states -------------------------------------------------------------------------------------- */

enum { NAME_BYTES = 512, MEMBERS = 5 };
static const char *const members[MEMBERS] = { "scale", "growth_factor", "backoff_factor",
                                              "growth_interval", "_growth_tracker" };

static const char *member(const char *prefix, int i, char name[NAME_BYTES])
{
    const bool bare = prefix == NULL || prefix[0] == '\0';
    (void)snprintf(name, NAME_BYTES, "%s%s%s", bare ? "" : prefix, bare ? "" : ".", members[i]);
    return name;
}

static bool check_state(tern_site_t site, const char *what, const tern_grad_scaler *scaler,
                        const tern_state *state, const char *prefix)
{
    if (!amp_scaler_check(site, what, scaler))
        return false;
    if (state == NULL)
        (void)tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the state is NULL");
    else if (prefix != NULL && strlen(prefix) > NAME_BYTES / 2)
        (void)tern_fail_at(site, TERN_ERR_ARGUMENT, what, "a prefix of more than %d bytes",
                           NAME_BYTES / 2);
    return !tern_failed();
}

tern_status_t tern_scaler_store_at(tern_site_t site, tern_grad_scaler *scaler, tern_state *state,
                                   const char *prefix)
{
    char name[NAME_BYTES];
    if (!check_state(site, "scaler_store", scaler, state, prefix) || !scaler->enabled)
        return tern_error_code();
    const double numbers[3] = { tern_scaler_get_scale_at(site, scaler), scaler->growth,
                                scaler->backoff };
    const int64_t tracker =
        scaler->tracker != NULL ? tern_item_int_at(site, scaler->tracker) : scaler->init_tracker;
    for (int i = 0; i < 3 && !tern_failed(); i++)
        (void)tern_state_set_number_at(site, state, member(prefix, i, name), numbers[i]);
    if (!tern_failed())
        (void)tern_state_set_int_at(site, state, member(prefix, 3, name), scaler->interval);
    if (!tern_failed())
        (void)tern_state_set_int_at(site, state, member(prefix, 4, name), tracker);
    return tern_error_code();
}

static bool is_empty(const tern_state *state, const char *prefix)
{
    char name[NAME_BYTES];
    for (int i = 0; i < MEMBERS; i++)
        if (tern_state_get(state, member(prefix, i, name)) != NULL)
            return false;
    return true;
}

static bool take(tern_site_t site, tern_grad_scaler *scaler, double scale, int64_t tracker)
{
    scaler->init_scale = scale;
    scaler->init_tracker = tracker;
    scaler->known_scale = (double)(float)scale;
    scaler->known_tracker = tracker;
    if (scaler->scale == NULL)
        return true;
    amp_frame frame = amp_enter(site, false);
    const bool done = tern_fill_at(site, scaler->scale, scale) != NULL &&
                      tern_fill_at(site, scaler->tracker, (double)tracker) != NULL;
    amp_leave(&frame);
    return done;
}

tern_status_t tern_scaler_restore_at(tern_site_t site, tern_grad_scaler *scaler,
                                     const tern_state *state, const char *prefix, bool check_only)
{
    static const char what[] = "scaler_restore";
    char name[NAME_BYTES];
    double numbers[3] = { 0 };
    int64_t counts[2] = { 0 };
    if (!check_state(site, what, scaler, state, prefix) || !scaler->enabled)
        return tern_error_code();
    if (is_empty(state, prefix))
        return tern_fail_at(site, TERN_ERR_STATE, what,
                            "%s: there is no scaler under '%s', possibly because it was saved from "
                            "a disabled one",
                            tern_state_source(state), prefix != NULL ? prefix : "");
    for (int i = 0; i < 3 && !tern_failed(); i++)
        (void)tern_state_get_number_at(site, state, member(prefix, i, name), &numbers[i]);
    for (int i = 0; i < 2 && !tern_failed(); i++)
        (void)tern_state_get_int_at(site, state, member(prefix, 3 + i, name), &counts[i]);
    if (tern_failed() || check_only)
        return tern_error_code();
    scaler->growth = numbers[1];
    scaler->backoff = numbers[2];
    scaler->interval = counts[0];
    (void)take(site, scaler, numbers[0], counts[1]);
    return tern_error_code();
}

/* ---- the cause of a skip ------------------------------------------------------------------------- */

/* One flag per parameter, read at once. */
static void read_flags(tern_site_t site, tern_tensors_t params, tern_dev_t dev, float *out_flags)
{
    tern_tensor *flags = tern_zeros(TERN_SHAPE(params.count), .dtype = TERN_F32, .device = dev);
    tern_tensor *one = tern_ones(TERN_SCALAR_SHAPE, .dtype = TERN_F32, .device = dev);
    for (int64_t i = 0; i < params.count && !tern_failed(); i++) {
        tern_tensor *grad = tern_grad_of(params.tensors[i]);
        if (grad != NULL && tern_dev_equal(tern_device(grad), dev))
            (void)tern_unscale_at(site, grad, one, tern_select(flags, 0, i));
    }
    if (!tern_failed())
        (void)tern_read_at(site, flags, TERN_F32, out_flags,
                           params.count * (int64_t)sizeof *out_flags);
}

static bool first_with(tern_tensors_t params, const float *flags, char *out_name)
{
    for (int64_t i = 0; i < params.count; i++) {
        if (flags[i] == 0)
            continue;
        if (params.names != NULL && params.names[i] != NULL)
            (void)snprintf(out_name, TERN_SCALER_NAME_BYTES, "%s", params.names[i]);
        else
            (void)snprintf(out_name, TERN_SCALER_NAME_BYTES, "parameter %lld", (long long)i);
        return true;
    }
    return false;
}

void amp_find_overflow(tern_site_t site, tern_grad_scaler *scaler, const tern_optimizer *opt)
{
    const tern_tensors_t params = tern_optimizer_params(opt, -1);
    const amp_optimizer *entry = amp_find_optimizer(scaler, opt);
    scaler->overflowed[0] = '\0';
    float *flags = core_fault() ? NULL : calloc((size_t)params.count, sizeof *flags);
    if (flags == NULL) /* the step is skipped all the same; its cause stays unknown */
        return;
    amp_frame frame = amp_enter(site, false);
    for (int d = 0; d < entry->devices && !tern_failed(); d++) {
        read_flags(site, params, tern_device(entry->found[d]), flags);
        if (!tern_failed() && first_with(params, flags, scaler->overflowed))
            break;
    }
    amp_leave(&frame);
    free(flags);
    if (scaler->cause[0] == '\0')
        memcpy(scaler->cause, scaler->overflowed, sizeof scaler->cause);
}

/* ---- history ------------------------------------------------------------------------------------- */

void amp_add_event(tern_grad_scaler *scaler)
{
    tern_scaler_event *event = &scaler->events[scaler->updates++ % TERN_SCALER_EVENTS];
    event->update = scaler->updates;
    event->scale = amp_scale_without_wait(scaler);
    event->skipped = 0;
    for (int64_t i = 0; i < scaler->optimizer_count; i++)
        event->skipped += scaler->optimizers[i].skipped;
    memcpy(event->parameter, scaler->cause, sizeof event->parameter);
    scaler->cause[0] = '\0';
}

int64_t tern_scaler_update_count(const tern_grad_scaler *scaler)
{
    return scaler->updates;
}

int64_t tern_scaler_skip_count(const tern_grad_scaler *scaler)
{
    return scaler->skips;
}

const char *tern_scaler_overflowed(const tern_grad_scaler *scaler)
{
    return scaler->overflowed[0] != '\0' ? scaler->overflowed : NULL;
}

int64_t tern_scaler_history(const tern_grad_scaler *scaler, tern_scaler_event *out_events,
                            int64_t count)
{
    int64_t kept = scaler->updates < TERN_SCALER_EVENTS ? scaler->updates : TERN_SCALER_EVENTS;
    kept = kept < count ? kept : count;
    for (int64_t i = 0; i < kept; i++)
        out_events[i] = scaler->events[(scaler->updates - kept + i) % TERN_SCALER_EVENTS];
    return kept;
}
