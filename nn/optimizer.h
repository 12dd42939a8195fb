/* What the optimizers share. A kind is a row of functions; parameters, groups and state are common. */
#ifndef TERN_NN_OPTIMIZER_H
#define TERN_NN_OPTIMIZER_H

#include "nn/internal.h"

enum { NN_STATES = 3 };

/* Options of a group, all resolved. */
typedef struct nn_options {
    double lr, weight_decay;
    double momentum, dampening;
    double beta1, beta2, eps;
    double alpha;                               /* rmsprop */
    double lr_decay, initial_accumulator_value; /* adagrad */
    bool nesterov, maximize, centered;
} nn_options;

typedef struct nn_slot {
    tern_tensor *state[NN_STATES]; /* NULL until the first step, and where the options need none */
    tern_tensor *count;            /* i64 [2] beside the parameter, or NULL: see tern_attr_sgd */
    int64_t steps; /* done with this state; those left out among them, with a count */
    int64_t group;
} nn_slot;

typedef struct nn_group {
    nn_options options;
    int64_t first, count; /* parameters */
} nn_group;

typedef struct nn_kind {
    const char *name;
    int states;
    const char *state_names[NN_STATES];
    bool counts_steps; /* the number of steps is part of the state */
    int momentum;      /* what a cycle moves: NN_MOMENTUM, NN_BETAS (beta1), or 0: nothing */
    nn_options defaults;
    /* Options that this kind takes and their ranges; records an error. */
    bool (*check)(tern_site_t site, const char *what, const nn_options *options);
    /* Does a step with these options need state `s`? State 0 is needed where any is. */
    bool (*has_state)(const nn_options *options, int s);
    /* scaling: NULL for a plain step of a slot without a count */
    tern_status_t (*step)(tern_site_t site, tern_tensor *p, tern_tensor *grad, const nn_slot *slot,
                          const nn_options *options, const tern_step_scaling *scaling);
} nn_kind;

struct tern_optimizer {
    const nn_kind *kind;
    nn_options defaults; /* of groups */
    nn_group *groups;
    int64_t group_count;
    tern_tensor **params; /* params, names, slots: by parameter, group by group */
    char **names;         /* unique */
    nn_slot *slots;
    int64_t count;
    int64_t owners; /* the list of tern_finish, and schedules */
};

tern_optimizer *nn_optimizer_create(tern_site_t site, const nn_kind *kind,
                                    const tern_optimizer_args *args);
void nn_optimizer_retain(tern_optimizer *opt);
void nn_optimizer_release(tern_optimizer *opt);
/* Options that only some kinds have. */
enum {
    NN_MOMENTUM = 1 << 0,
    NN_DAMPENING = 1 << 1, /* and nesterov */
    NN_BETAS = 1 << 2,
    NN_EPS = 1 << 3,
    NN_ALPHA = 1 << 4, /* and centered */
    NN_ADAGRAD = 1 << 5
};
/* False, with an error that says whose the option is, where one is given that is not among `taken`. */
bool nn_refuse_others(tern_site_t site, const char *what, const nn_options *options, int taken);
/* False, with an error that names the option, unless low <= value < high. */
bool nn_check_option(tern_site_t site, const char *what, const char *name, double value, double low,
                     double high);
/* Ranges of all options, the kind's own among them; `what` is the call that errors name. */
bool nn_check_options(tern_site_t site, const char *what, const nn_kind *kind,
                      const nn_options *options);
/* Steps that changed the parameter; with a count it is read. */
int64_t nn_slot_steps(tern_site_t site, const nn_slot *slot);
/* Does a step of parameter `i` need a state `s` that is not there yet? */
bool nn_lacks_state(const tern_optimizer *opt, int64_t i, int s);
/* What such a state is before its first step, in the scope; NULL without memory. */
tern_tensor *nn_first_state(tern_site_t site, const tern_optimizer *opt, int64_t i);
/* State tensor of a parameter in which a step can write: same shape, dtype and device. */
bool nn_state_fits(const tern_tensor *state, const tern_tensor *p);

/* Names in states: "<prefix>.<middle>.<name>"; empty parts are left out. NULL without memory. */
char *nn_join(tern_site_t site, const char *prefix, const char *middle, const char *name);
/* Does the file have a tensor of this name, be it one that cannot be read? */
bool nn_is_stored(const tern_state *state, const char *name);
/* False, with an error, where it is of a dtype that tern does not have: that is not missing. */
bool nn_check_read(tern_site_t site, const char *what, const tern_state *state, const char *name);

#endif
