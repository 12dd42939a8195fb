/* Rates that fall when a metric no longer gets better (torch.optim.lr_scheduler.ReduceLROnPlateau). */
#include <math.h>
#include <stdlib.h>

#include "nn/schedule.h"

/* torch's: relative thresholds are factors of the best, whatever its sign. */
static bool is_better(const tern_schedule_args *a, double metric, double best)
{
    const double by = a->threshold;
    if (a->maximize)
        return metric > (a->absolute ? best + by : best * (by + 1));
    return metric < (a->absolute ? best - by : best * (1 - by));
}

static void reduce(tern_schedule *s)
{
    for (int64_t i = 0; i < s->groups; i++) {
        double *rate = &s->args.opt->groups[i].options.lr;
        const double next = fmax(*rate * s->args.gamma, s->args.min_lr);
        if (*rate - next > s->args.eps)
            *rate = next;
    }
}

void tern_schedule_step_metric_at(tern_site_t site, tern_schedule *schedule, double metric)
{
    if (!schedule || tern_failed())
        return;
    nn_plateau *p = schedule->plateau;
    if (!p) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, "schedule_step_metric",
                     "only a plateau schedule watches a metric\n"
                     "  try tern_schedule_step(schedule)");
        return;
    }
    schedule->step++;
    if (is_better(&schedule->args, metric, p->best)) {
        p->best = metric;
        p->bad_steps = 0;
    } else {
        p->bad_steps++;
    }
    if (p->cooldown_left > 0) {
        p->cooldown_left--;
        p->bad_steps = 0;
    }
    if (p->bad_steps > schedule->args.patience) {
        reduce(schedule);
        p->cooldown_left = schedule->args.cooldown;
        p->bad_steps = 0;
    }
}

static bool check(tern_site_t site, const tern_schedule_args *a)
{
    static const char what[] = "plateau_schedule";
    if (!(a->gamma >= 0 && a->gamma < 1))
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "gamma = %g is not in [0, 1)", a->gamma);
    else if (!(a->threshold >= 0 && a->eps >= 0))
        tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                     "threshold = %g and eps = %g must not be negative", a->threshold, a->eps);
    else if (a->patience < 0 || a->cooldown < 0)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                     "patience = %lld and cooldown = %lld must not be negative",
                     (long long)a->patience, (long long)a->cooldown);
    return !tern_failed();
}

tern_schedule *tern_plateau_schedule_at(tern_site_t site, const tern_schedule_args *given)
{
    NN_SCHEDULE_ARGS(site, "plateau_schedule", args, given);
    if (!args_given)
        return NULL;
    args.gamma = nn_option(args.gamma, 0.1);
    args.patience = nn_given(args.patience, 10);
    args.cooldown = nn_given(args.cooldown, 0);
    args.threshold = nn_option(args.threshold, 1e-4);
    args.eps = nn_option(args.eps, 1e-8);
    if (!check(site, &args))
        return NULL;
    nn_plateau *plateau = nn_alloc(site, "plateau_schedule", 1, sizeof *plateau);
    tern_schedule *s =
        plateau ? nn_schedule_make(site, "plateau_schedule", NULL, NULL, &args) : NULL;
    if (!s) {
        free(plateau);
        return NULL;
    }
    plateau->best = args.maximize ? -INFINITY : INFINITY;
    s->plateau = plateau;
    return s;
}

/* ---- states ------------------------------------------------------------------------------------ */

void nn_plateau_store(tern_site_t site, const nn_plateau *plateau, tern_state *state,
                      const char *prefix)
{
    char *best = nn_join(site, prefix, NULL, "best");
    char *bad = nn_join(site, prefix, NULL, "num_bad_epochs");
    char *cooldown = nn_join(site, prefix, NULL, "cooldown_counter");
    if (best && bad && cooldown) {
        tern_state_set_number_at(site, state, best, plateau->best);
        tern_state_set_int_at(site, state, bad, plateau->bad_steps);
        tern_state_set_int_at(site, state, cooldown, plateau->cooldown_left);
    }
    free(best);
    free(bad);
    free(cooldown);
}

bool nn_plateau_read(tern_site_t site, const tern_state *state, const char *prefix, nn_plateau *out)
{
    char *best = nn_join(site, prefix, NULL, "best");
    char *bad = nn_join(site, prefix, NULL, "num_bad_epochs");
    char *cooldown = nn_join(site, prefix, NULL, "cooldown_counter");
    if (best && bad && cooldown) {
        tern_state_get_number_at(site, state, best, &out->best);
        tern_state_get_count_at(site, state, bad, &out->bad_steps);
        tern_state_get_count_at(site, state, cooldown, &out->cooldown_left);
    }
    free(best);
    free(bad);
    free(cooldown);
    return !tern_failed();
}
