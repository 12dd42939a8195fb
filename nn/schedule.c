/* Schedules: rates of an optimizer's groups in closed form, so that restoring one number restores all. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/schedule.h"

static double step_rate(const tern_schedule *s, double base)
{
    return base * pow(s->args.gamma, (double)(s->step / s->args.steps));
}

static double multistep_rate(const tern_schedule *s, double base)
{
    int64_t passed = 0;
    while (passed < s->args.milestone_count && s->milestones[passed] <= s->step)
        passed++;
    return base * pow(s->args.gamma, (double)passed);
}

static double linear_rate(const tern_schedule *s, double base)
{
    const double from = s->args.start_factor, to = s->args.end_factor;
    const double share = s->step < s->args.steps ? (double)s->step / (double)s->args.steps : 1;
    return base * (from + (to - from) * share);
}

static double exponential_rate(const tern_schedule *s, double base)
{
    return base * pow(s->args.gamma, (double)s->step);
}

/* Half a cosine from `from` at done = 0 to `to` at done = all and after. */
static double cosine(double from, double to, int64_t done, int64_t all)
{
    static const double pi = 3.14159265358979323846;
    const double share = done < all ? (double)done / (double)all : 1;
    return to + (from - to) * (1 + cos(pi * share)) / 2;
}

static double cosine_rate(const tern_schedule *s, double base)
{
    return cosine(base, s->args.min_lr, s->step, s->args.steps);
}

static double warmup_rate(const tern_schedule *s, double base)
{
    const int64_t warmup = s->args.warmup;
    if (s->step < warmup)
        return base * (double)(s->step + 1) / (double)warmup;
    return cosine(base, s->args.min_lr, s->step - warmup, s->args.steps - warmup);
}

static double custom_rate(const tern_schedule *s, double base)
{
    return base * s->factor;
}

/* Goes to a step and sets the rates. False, with nothing changed, where a custom factor is no factor. */
static bool apply(tern_site_t site, tern_schedule *s, int64_t step)
{
    double factor = 1;
    if (s->rate == custom_rate)
        factor = s->args.factor(step, s->args.user);
    if (tern_failed())
        return false;
    if (!(factor >= 0 && factor <= DBL_MAX)) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, "custom_schedule",
                     "factor(%lld) is %g: it must be a number, and not negative", (long long)step,
                     factor);
        return false;
    }
    s->step = step;
    s->factor = factor;
    for (int64_t i = 0; i < s->groups; i++)
        s->args.opt->groups[i].options.lr = s->rate ? s->rate(s, s->base[i]) : s->base[i];
    if (s->also)
        s->also(s);
    return true;
}

/* ---- making ----------------------------------------------------------------------------------- */

static void release_schedule(void *schedule)
{
    tern_schedule *s = schedule;
    nn_optimizer_release(s->args.opt);
    free(s->plateau);
    free(s->milestones);
    free(s->base);
    free(s);
}

void tern_schedule_free(tern_schedule *schedule)
{
    if (!schedule)
        return;
    tern_at_finish_cancel(schedule);
    release_schedule(schedule);
}

static tern_schedule *allocate(tern_site_t site, const char *what, tern_optimizer *opt)
{
    tern_schedule *s = nn_alloc(site, what, 1, sizeof *s);
    if (!s)
        return NULL;
    s->base = nn_alloc(site, what, opt->group_count, sizeof *s->base);
    if (!s->base || !tern_at_finish(release_schedule, s)) {
        tern_fail_at(site, TERN_ERR_OOM, what, "no memory");
        free(s->base);
        free(s);
        return NULL;
    }
    nn_optimizer_retain(opt);
    s->groups = opt->group_count;
    for (int64_t i = 0; i < s->groups; i++)
        s->base[i] = opt->groups[i].options.lr;
    return s;
}

/* The caller's may be gone at the next step. */
static bool copy_milestones(tern_site_t site, const char *what, tern_schedule *s)
{
    const size_t bytes = (size_t)s->args.milestone_count * sizeof *s->milestones;
    s->milestones = nn_alloc(site, what, s->args.milestone_count, sizeof *s->milestones);
    if (s->milestones)
        memcpy(s->milestones, s->args.milestones, bytes);
    return s->milestones != NULL;
}

tern_schedule *nn_schedule_make(tern_site_t site, const char *what, nn_rate_fn rate,
                                void (*also)(const tern_schedule *s),
                                const tern_schedule_args *args)
{
    if (!args->opt)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the optimizer is NULL");
    const double min_lr = nn_option(args->min_lr, 0);
    if (!(min_lr >= 0 && min_lr <= DBL_MAX && args->gamma >= 0 && args->gamma <= DBL_MAX))
        tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                     "min_lr = %g and gamma = %g must be finite, and not be negative", min_lr,
                     args->gamma);
    if (tern_failed())
        return NULL;
    tern_schedule *s = allocate(site, what, args->opt);
    if (!s)
        return NULL;
    s->args = *args;
    s->args.min_lr = min_lr;
    s->rate = rate;
    s->also = also;
    const bool ready = rate != multistep_rate || copy_milestones(site, what, s);
    if (ready && apply(site, s, 0))
        return s;
    tern_schedule_free(s);
    return NULL;
}

tern_schedule *tern_step_schedule_at(tern_site_t site, const tern_schedule_args *given)
{
    NN_SCHEDULE_ARGS(site, "step_schedule", args, given);
    if (!args_given || !nn_require_positive(site, "step_schedule", "steps", args.steps))
        return NULL;
    args.gamma = nn_option(args.gamma, 0.1);
    return nn_schedule_make(site, "step_schedule", step_rate, NULL, &args);
}

/* They do not fall, and there is one. */
static bool check_milestones(tern_site_t site, const tern_schedule_args *args)
{
    static const char what[] = "multistep_schedule";
    const int64_t *at = args->milestones;
    if (at == NULL)
        return tern_fail_at(site, TERN_ERR_ARGUMENT, what, "'milestones' is missing") == TERN_OK;
    if (!nn_require_positive(site, what, "milestone_count", args->milestone_count))
        return false;
    for (int64_t i = 0; i < args->milestone_count; i++)
        if (at[i] < (i > 0 ? at[i - 1] : 0))
            return tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                                "milestone %lld is %lld: they may not be negative, nor fall",
                                (long long)i, (long long)at[i]) == TERN_OK;
    return true;
}

tern_schedule *tern_multistep_schedule_at(tern_site_t site, const tern_schedule_args *given)
{
    NN_SCHEDULE_ARGS(site, "multistep_schedule", args, given);
    if (!args_given || !check_milestones(site, &args))
        return NULL;
    args.gamma = nn_option(args.gamma, 0.1);
    return nn_schedule_make(site, "multistep_schedule", multistep_rate, NULL, &args);
}

tern_schedule *tern_linear_schedule_at(tern_site_t site, const tern_schedule_args *given)
{
    NN_SCHEDULE_ARGS(site, "linear_schedule", args, given);
    if (!args_given || !nn_require_positive(site, "linear_schedule", "steps", args.steps))
        return NULL;
    args.start_factor = nn_option(args.start_factor, 1.0 / 3);
    args.end_factor = nn_option(args.end_factor, 1);
    if (!(args.start_factor >= 0 && args.start_factor <= DBL_MAX && args.end_factor >= 0 &&
          args.end_factor <= DBL_MAX))
        tern_fail_at(site, TERN_ERR_ARGUMENT, "linear_schedule",
                     "start_factor = %g and end_factor = %g must be finite, and not be negative",
                     args.start_factor, args.end_factor);
    return nn_schedule_make(site, "linear_schedule", linear_rate, NULL, &args);
}

tern_schedule *tern_exponential_schedule_at(tern_site_t site, const tern_schedule_args *given)
{
    NN_SCHEDULE_ARGS(site, "exponential_schedule", args, given);
    if (args_given && !(args.gamma > 0))
        tern_fail_at(site, TERN_ERR_ARGUMENT, "exponential_schedule",
                     "gamma = %g: it must be positive", args.gamma);
    return args_given
               ? nn_schedule_make(site, "exponential_schedule", exponential_rate, NULL, &args)
               : NULL;
}

tern_schedule *tern_cosine_schedule_at(tern_site_t site, const tern_schedule_args *given)
{
    NN_SCHEDULE_ARGS(site, "cosine_schedule", args, given);
    if (!args_given || !nn_require_positive(site, "cosine_schedule", "steps", args.steps))
        return NULL;
    return nn_schedule_make(site, "cosine_schedule", cosine_rate, NULL, &args);
}

tern_schedule *tern_warmup_schedule_at(tern_site_t site, const tern_schedule_args *given)
{
    NN_SCHEDULE_ARGS(site, "warmup_schedule", args, given);
    if (!args_given || !nn_require_positive(site, "warmup_schedule", "steps", args.steps))
        return NULL;
    args.warmup = nn_given(args.warmup, 0);
    if (args.warmup < 0 || args.warmup > args.steps)
        tern_fail_at(site, TERN_ERR_ARGUMENT, "warmup_schedule",
                     "warmup = %lld is not in [0, %lld], the steps in total",
                     (long long)args.warmup, (long long)args.steps);
    return nn_schedule_make(site, "warmup_schedule", warmup_rate, NULL, &args);
}

tern_schedule *tern_custom_schedule_at(tern_site_t site, const tern_schedule_args *given)
{
    NN_SCHEDULE_ARGS(site, "custom_schedule", args, given);
    if (args_given && !args.factor)
        tern_fail_at(site, TERN_ERR_ARGUMENT, "custom_schedule", "'factor' is missing");
    return args_given ? nn_schedule_make(site, "custom_schedule", custom_rate, NULL, &args) : NULL;
}

/* ---- using ------------------------------------------------------------------------------------ */

void tern_schedule_step_at(tern_site_t site, tern_schedule *schedule)
{
    if (!schedule || tern_failed())
        return;
    if (schedule->plateau)
        tern_fail_at(site, TERN_ERR_ARGUMENT, "schedule_step",
                     "a plateau schedule needs what it watches\n"
                     "  try tern_schedule_step_metric(schedule, loss)");
    else
        apply(site, schedule, schedule->step + 1);
}

int64_t tern_schedule_steps_done(const tern_schedule *schedule)
{
    return schedule ? schedule->step : 0;
}

static bool check_object(tern_site_t site, const char *what, const tern_schedule *schedule,
                         const tern_state *state)
{
    if (!schedule || !state)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the %s is NULL",
                     schedule ? "state" : "schedule");
    return !tern_failed();
}

/* "<prefix>.base_lr.<group>" */
static char *base_name(tern_site_t site, const char *prefix, int64_t group)
{
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)group);
    return nn_join(site, prefix, "base_lr", number);
}

tern_status_t tern_schedule_store_at(tern_site_t site, const tern_schedule *schedule,
                                     tern_state *state, const char *prefix)
{
    static const char what[] = "schedule_store";
    if (!check_object(site, what, schedule, state))
        return tern_error_code();
    const char *outer = tern_calling_begin(what);
    char *name = nn_join(site, prefix, NULL, "step");
    if (name)
        tern_state_set_int_at(site, state, name, schedule->step);
    free(name);
    for (int64_t i = 0; i < schedule->groups && !tern_failed(); i++) {
        name = base_name(site, prefix, i);
        /* a plateau's rates are those of now, which the program may have set */
        if (name)
            tern_state_set_number_at(site, state, name,
                                     schedule->plateau ? schedule->args.opt->groups[i].options.lr
                                                       : schedule->base[i]);
        free(name);
    }
    if (schedule->plateau && !tern_failed())
        nn_plateau_store(site, schedule->plateau, state, prefix);
    tern_calling_end(outer);
    return tern_error_code();
}

static void read_rate(tern_site_t site, const tern_state *state, const char *name, double *rate)
{
    if (tern_state_get_number_at(site, state, name, rate) == TERN_OK &&
        !(*rate >= 0 && *rate <= DBL_MAX))
        tern_fail_at(site, TERN_ERR_FORMAT, "schedule_restore", "%s: '%s' is %g, not a rate",
                     tern_state_source(state), name, *rate);
}

static bool read_base(tern_site_t site, const tern_schedule *schedule, const tern_state *state,
                      const char *prefix, double *base)
{
    for (int64_t i = 0; i <= schedule->groups && !tern_failed(); i++) {
        char *name = base_name(site, prefix, i);
        if (name && i < schedule->groups)
            read_rate(site, state, name, &base[i]);
        else if (name && nn_is_stored(state, name))
            tern_fail_at(site, TERN_ERR_STATE, "schedule_restore",
                         "%s: '%s' is there, but the schedule has %lld groups",
                         tern_state_source(state), name, (long long)schedule->groups);
        free(name);
    }
    return !tern_failed();
}

/* Swaps the rates in and sets them; back again where that fails. */
static void take_base(tern_site_t site, tern_schedule *schedule, int64_t step, double **base)
{
    double *before = schedule->base;
    schedule->base = *base;
    *base = before;
    if (apply(site, schedule, step))
        return;
    *base = schedule->base;
    schedule->base = before;
}

tern_status_t tern_schedule_restore_at(tern_site_t site, tern_schedule *schedule,
                                       const tern_state *state, const char *prefix, bool check_only)
{
    if (!check_object(site, "schedule_restore", schedule, state))
        return tern_error_code();
    int64_t step = 0;
    char *name = nn_join(site, prefix, NULL, "step");
    double *base = nn_alloc(site, "schedule_restore", schedule->groups, sizeof *base);
    const char *outer = tern_calling_begin("schedule_restore");
    if (name && base)
        tern_state_get_count_at(site, state, name, &step);
    nn_plateau plateau = { 0 };
    const bool fine = !tern_failed() && read_base(site, schedule, state, prefix, base) &&
                      (!schedule->plateau || nn_plateau_read(site, state, prefix, &plateau));
    tern_calling_end(outer);
    if (fine && !check_only)
        take_base(site, schedule, step, &base);
    if (fine && !check_only && schedule->plateau)
        *schedule->plateau = plateau;
    free(base);
    free(name);
    return tern_error_code();
}
