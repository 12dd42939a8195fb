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
    static const char what[] = "scaler_store";
    if (!check_state(site, what, scaler, state, prefix) || !scaler->enabled)
        return tern_error_code();
    const char *outer = tern_calling_begin(what);
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
    tern_calling_end(outer);
    return tern_error_code();
}

static bool is_empty(const tern_state *state, const char *prefix)
{
    char name[NAME_BYTES];
    for (int i = 0; i < MEMBERS; i++)
        if (tern_state_get(state, member(prefix, i, name)) != NULL ||
            tern_state_unread_dtype(state, name) != NULL)
            return false;
    return true;
}

static bool take(tern_site_t site, tern_grad_scaler *scaler, double scale, int64_t tracker)
{
    scaler->init_scale = scale;
    scaler->init_tracker = tracker;
    if (scaler->scale == NULL)
        return true;
    amp_frame frame = amp_enter(site, false);
    const bool done = tern_fill_at(site, scaler->scale, tern_operand_float(scale)) != NULL &&
                      tern_fill_at(site, scaler->tracker, tern_operand_int(tracker)) != NULL;
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
    const char *outer = tern_calling_begin(what);
    for (int i = 0; i < 3 && !tern_failed(); i++)
        (void)tern_state_get_number_at(site, state, member(prefix, i, name), &numbers[i]);
    for (int i = 0; i < 2 && !tern_failed(); i++)
        (void)tern_state_get_int_at(site, state, member(prefix, 3 + i, name), &counts[i]);
    tern_calling_end(outer);
    if (!tern_failed() && (counts[1] < 0 || counts[1] > INT32_MAX))
        (void)tern_fail_at(site, TERN_ERR_FORMAT, what,
                           "%s: '%s' is %lld, not a number of steps that an i32 holds",
                           tern_state_source(state), member(prefix, 4, name), (long long)counts[1]);
    if (tern_failed() || check_only)
        return tern_error_code();
    scaler->growth = numbers[1];
    scaler->backoff = numbers[2];
    scaler->interval = counts[0];
    (void)take(site, scaler, numbers[0], counts[1]);
    return tern_error_code();
}

/* ---- names of parameters ------------------------------------------------------------------------- */

static void set_name(char *out, tern_tensors_t params, int64_t i)
{
    if (params.names != NULL && params.names[i] != NULL)
        (void)snprintf(out, TERN_SCALER_NAME_BYTES, "%s", params.names[i]);
    else
        (void)snprintf(out, TERN_SCALER_NAME_BYTES, "parameter %lld", (long long)i);
}

/* An optimizer may lie where another one lay that is gone: the names of both ends tell. */
static bool has_names(const amp_names *names, const tern_optimizer *opt, tern_tensors_t params)
{
    char name[TERN_SCALER_NAME_BYTES];
    bool same = names->opt == opt && names->count == params.count && params.count > 0;
    for (int64_t i = 0; same && i<params.count; i += params.count> 1 ? params.count - 1 : 1) {
        set_name(name, params, i);
        same = strcmp(name, names->name[i]) == 0;
    }
    return same;
}

int64_t amp_first_number(tern_grad_scaler *scaler, const tern_optimizer *opt)
{
    const tern_tensors_t params = tern_optimizer_params(opt, -1);
    for (const amp_names *names = scaler->names; names != NULL; names = names->next)
        if (has_names(names, opt, params))
            return names->first;
    const size_t bytes = (size_t)params.count * TERN_SCALER_NAME_BYTES;
    amp_names *names = core_fault() ? NULL : malloc(sizeof *names + bytes);
    if (names == NULL) /* the cause of a skip stays unknown */
        return 0;
    names->opt = opt;
    names->first = scaler->name_count + 1;
    names->count = params.count;
    for (int64_t i = 0; i < params.count; i++)
        set_name(names->name[i], params, i);
    names->next = scaler->names;
    scaler->names = names;
    scaler->name_count += params.count;
    return names->first;
}

static const char *name_of(const tern_grad_scaler *scaler, double number)
{
    for (const amp_names *names = scaler->names; names != NULL; names = names->next)
        if (number >= (double)names->first && number < (double)(names->first + names->count))
            return names->name[(int64_t)number - names->first];
    return NULL;
}

void amp_free_names(tern_grad_scaler *scaler)
{
    for (amp_names *names = scaler->names, *next; names != NULL; names = next) {
        next = names->next;
        free(names);
    }
}

/* ---- what it did: read when it is asked for ------------------------------------------------------ */

static const tern_site_t nowhere;

/* Was the step of `entry` since the last update left out? *out_cause: why, unless that is NULL. */
static bool left_out(const amp_optimizer *entry, double *out_cause)
{
    double found = 0, cause = (double)INT32_MAX;
    for (int d = 0; entry->stage == AMP_STEPPED && d < entry->devices; d++) {
        found += tern_item_at(nowhere, entry->found[d]);
        if (out_cause != NULL)
            cause = fmin(cause, tern_item_at(nowhere, entry->cause[d]));
    }
    if (out_cause != NULL)
        *out_cause = cause;
    return found != 0;
}

bool tern_scaler_skipped(const tern_grad_scaler *scaler, const tern_optimizer *opt)
{
    const amp_optimizer *entry = scaler != NULL ? amp_find_optimizer(scaler, opt) : NULL;
    return entry != NULL && left_out(entry, NULL);
}

/* Zeros before the first loss, and when it cannot be read. */
static void read_log(const tern_grad_scaler *scaler, float log[AMP_LOG])
{
    memset(log, 0, AMP_LOG * sizeof *log);
    if (scaler != NULL && scaler->log != NULL)
        (void)tern_read_at(nowhere, scaler->log, TERN_F32, log, TERN_F32,
                           AMP_LOG * (int64_t)sizeof *log);
}

int64_t tern_scaler_update_count(const tern_grad_scaler *scaler)
{
    return scaler != NULL ? scaler->updates : 0;
}

int64_t tern_scaler_skip_count(const tern_grad_scaler *scaler)
{
    float log[AMP_LOG];
    read_log(scaler, log);
    int64_t skips = (int64_t)log[AMP_LOG - 2];
    for (int64_t i = 0; scaler != NULL && i < scaler->optimizer_count; i++)
        skips += left_out(&scaler->optimizers[i], NULL);
    return skips;
}

const char *tern_scaler_overflowed(const tern_grad_scaler *scaler)
{
    float log[AMP_LOG];
    double cause;
    if (scaler == NULL)
        return NULL;
    for (int64_t i = scaler->optimizer_count - 1; i >= 0; i--)
        if (left_out(&scaler->optimizers[i], &cause))
            return name_of(scaler, cause);
    read_log(scaler, log);
    return name_of(scaler, (double)log[AMP_LOG - 1]);
}

int64_t tern_scaler_history(const tern_grad_scaler *scaler, tern_scaler_event *out_events,
                            int64_t count)
{
    float log[AMP_LOG];
    if (scaler == NULL || out_events == NULL || count < 0)
        return 0;
    int64_t kept = scaler->updates < TERN_SCALER_EVENTS ? scaler->updates : TERN_SCALER_EVENTS;
    kept = kept < count ? kept : count;
    read_log(scaler, log);
    for (int64_t i = 0; i < kept; i++) {
        const int64_t update = scaler->updates - kept + i; /* from 0 */
        const float *line = log + 3 * (update % TERN_SCALER_EVENTS);
        const char *name = line[0] > 0 ? name_of(scaler, (double)line[2]) : NULL;
        out_events[i] = (tern_scaler_event){ .update = update + 1,
                                             .scale = (double)line[1],
                                             .skipped = (int64_t)line[0] };
        (void)snprintf(out_events[i].parameter, TERN_SCALER_NAME_BYTES, "%s",
                       name != NULL ? name : "");
    }
    return kept;
}
