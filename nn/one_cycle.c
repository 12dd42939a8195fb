/* One cycle (torch.optim.lr_scheduler.OneCycleLR): the rate rises and falls once, the momentum the other
 * way. Smith and Topin, "Super-Convergence" (2018). */
#include <math.h>

#include "nn/schedule.h"

/* Where a step is: in a phase from one rate to another, a share of it done. */
typedef struct phase {
    int place; /* 0: up, 1: down, 2: of three, the last */
    double share;
} phase;

static phase phase_at(const tern_schedule *s)
{
    const tern_schedule_args *a = &s->args;
    const double top = a->pct_start * (double)a->steps - 1, all = (double)(a->steps - 1);
    const double ends[3] = { top, a->three_phase ? 2 * top : all, all };
    const double step = fmin((double)s->step, all);
    int i = 0;
    double start = 0;
    for (; i < (a->three_phase ? 2 : 1) && step > ends[i]; i++)
        start = ends[i];
    return (phase){ i, ends[i] > start ? (step - start) / (ends[i] - start) : 1 };
}

static double between(const tern_schedule *s, double from, double to, double share)
{
    static const double pi = 3.14159265358979323846;
    if (s->args.linear)
        return from + (to - from) * share;
    return to + (from - to) / 2 * (1 + cos(pi * share));
}

static double cycle_rate(const tern_schedule *s, double base)
{
    const double first = base / s->args.div_factor, last = first / s->args.final_div_factor;
    const phase at = phase_at(s);
    if (at.place == 0)
        return between(s, first, base, at.share);
    if (at.place == 1)
        return between(s, base, s->args.three_phase ? first : last, at.share);
    return between(s, first, last, at.share);
}

static void cycle_momentum(const tern_schedule *s)
{
    const double high = s->args.max_momentum, low = s->args.base_momentum;
    const phase at = phase_at(s);
    const double momentum = at.place == 0   ? between(s, high, low, at.share)
                            : at.place == 1 ? between(s, low, high, at.share)
                                            : high;
    const tern_optimizer *opt = s->args.opt;
    for (int64_t i = 0; i < s->groups; i++) {
        nn_options *options = &opt->groups[i].options;
        if (opt->kind->momentum == NN_BETAS)
            options->beta1 = momentum;
        else
            options->momentum = momentum;
    }
}

static bool check(tern_site_t site, const tern_schedule_args *a)
{
    static const char what[] = "one_cycle_schedule";
    if (!(a->pct_start >= 0 && a->pct_start <= 1))
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "pct_start = %g is not in [0, 1]",
                     a->pct_start);
    else if (!(a->div_factor > 0 && a->final_div_factor > 0))
        tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                     "div_factor = %g and final_div_factor = %g must be positive", a->div_factor,
                     a->final_div_factor);
    else if (a->no_cycle_momentum)
        return true;
    else if (a->opt && !a->opt->kind->momentum)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                     "%s has no momentum to cycle\n  try .no_cycle_momentum = true",
                     a->opt->kind->name);
    else if (!(a->base_momentum >= 0 && a->max_momentum < 1 && a->base_momentum <= a->max_momentum))
        tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                     "base_momentum = %g and max_momentum = %g must rise inside [0, 1)",
                     a->base_momentum, a->max_momentum);
    return !tern_failed();
}

tern_schedule *tern_one_cycle_schedule_at(tern_site_t site, const tern_schedule_args *given)
{
    NN_SCHEDULE_ARGS(site, "one_cycle_schedule", args, given);
    if (!args_given || !nn_require_positive(site, "one_cycle_schedule", "steps", args.steps))
        return NULL;
    args.pct_start = nn_option(args.pct_start, 0.3);
    args.div_factor = nn_option(args.div_factor, 25);
    args.final_div_factor = nn_option(args.final_div_factor, 1e4);
    args.base_momentum = nn_option(args.base_momentum, 0.85);
    args.max_momentum = nn_option(args.max_momentum, 0.95);
    if (!check(site, &args))
        return NULL;
    return nn_schedule_make(site, "one_cycle_schedule", cycle_rate,
                            args.no_cycle_momentum ? NULL : cycle_momentum, &args);
}
