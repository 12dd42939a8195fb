/* Which schedule takes which option: one that another kind would take changes nothing, and is an error. */
#include <stddef.h>
#include <string.h>

#include "nn/schedule.h"

typedef struct schedule_option {
    const char *name;
    size_t offset, bytes;
    const char *of; /* each kind with its comma, or the end, behind it */
} schedule_option;

#define OPTION(name, of)                                                                          \
    {                                                                                             \
#name, offsetof(tern_schedule_args, name), sizeof(((tern_schedule_args *)NULL)->name), of \
    }
static const schedule_option options[] = {
    OPTION(steps,
           "step_schedule, cosine_schedule, warmup_schedule, linear_schedule, one_cycle_schedule"),
    OPTION(gamma, "step_schedule, multistep_schedule, exponential_schedule, plateau_schedule"),
    OPTION(min_lr, "cosine_schedule, warmup_schedule, plateau_schedule"),
    OPTION(warmup, "warmup_schedule"),
    OPTION(factor, "custom_schedule"),
    OPTION(user, "custom_schedule"),
    OPTION(pct_start, "one_cycle_schedule"),
    OPTION(div_factor, "one_cycle_schedule"),
    OPTION(final_div_factor, "one_cycle_schedule"),
    OPTION(base_momentum, "one_cycle_schedule"),
    OPTION(max_momentum, "one_cycle_schedule"),
    OPTION(linear, "one_cycle_schedule"),
    OPTION(three_phase, "one_cycle_schedule"),
    OPTION(no_cycle_momentum, "one_cycle_schedule"),
    OPTION(maximize, "plateau_schedule"),
    OPTION(absolute, "plateau_schedule"),
    OPTION(threshold, "plateau_schedule"),
    OPTION(eps, "plateau_schedule"),
    OPTION(patience, "plateau_schedule"),
    OPTION(cooldown, "plateau_schedule"),
    OPTION(milestones, "multistep_schedule"),
    OPTION(milestone_count, "multistep_schedule"),
    OPTION(start_factor, "linear_schedule"),
    OPTION(end_factor, "linear_schedule"),
};
#undef OPTION

static bool is_given(const schedule_option *option, const tern_schedule_args *args)
{
    const unsigned char *byte = (const unsigned char *)args + option->offset;
    for (size_t i = 0; i < option->bytes; i++)
        if (byte[i] != 0)
            return true;
    return false;
}

static bool takes(const schedule_option *option, const char *what)
{
    const size_t length = strlen(what);
    for (const char *at = option->of; (at = strstr(at, what)) != NULL; at++)
        if ((at == option->of || at[-1] == ' ') && (at[length] == ',' || at[length] == '\0'))
            return true;
    return false;
}

bool nn_schedule_take(tern_site_t site, const char *what, tern_schedule_args *out,
                      const tern_schedule_args *given)
{
    if (!nn_take_args(site, what, out, given, sizeof *out))
        return false;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (is_given(&options[i], out) && !takes(&options[i], what)) {
            tern_fail_at(site, TERN_ERR_ARGUMENT, what, "'%s' is an option of %s", options[i].name,
                         options[i].of);
            return false;
        }
    return true;
}
