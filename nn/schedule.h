/* What the files of schedules share. */
#ifndef TERN_NN_SCHEDULE_H
#define TERN_NN_SCHEDULE_H

#include "nn/optimizer.h"

typedef double (*nn_rate_fn)(const tern_schedule *schedule, double base);

/* What a plateau schedule remembers of the metrics that it saw. */
typedef struct nn_plateau {
    double best;
    int64_t bad_steps, cooldown_left;
} nn_plateau;

struct tern_schedule {
    tern_schedule_args args;
    nn_rate_fn rate;                      /* NULL: plateau, whose rates are `base` */
    void (*also)(const tern_schedule *s); /* sets what goes with the rates; NULL: nothing */
    int64_t step;
    double factor;       /* custom: what the caller's function said for `step` */
    double *base;        /* per group that was there when the schedule was made */
    nn_plateau *plateau; /* NULL: another kind */
    int64_t groups;
    int64_t *milestones; /* a copy of the caller's; NULL: another kind */
};

/* Copies the options over zeros; false, with an error, where one is another kind's. */
bool nn_schedule_take(tern_site_t site, const char *what, tern_schedule_args *out,
                      const tern_schedule_args *given);
#define NN_SCHEDULE_ARGS(site, what, local, args) \
    tern_schedule_args local = { 0 };             \
    const bool local##_given = nn_schedule_take(site, what, &local, args)

/* A schedule at step 0; NULL on failure. args are checked but for what all kinds share. */
tern_schedule *nn_schedule_make(tern_site_t site, const char *what, nn_rate_fn rate,
                                void (*also)(const tern_schedule *s),
                                const tern_schedule_args *args);

/* "<prefix>.best", ".num_bad_epochs" and ".cooldown_counter", as torch names them. */
void nn_plateau_store(tern_site_t site, const nn_plateau *plateau, tern_state *state,
                      const char *prefix);
bool nn_plateau_read(tern_site_t site, const tern_state *state, const char *prefix,
                     nn_plateau *out);

#endif
