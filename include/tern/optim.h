/* Optimizers, clipping, schedules.
 *
 * Numbers whose default is not zero: 0 means "not given"; TERN_ZERO or -0.0 is a real zero. In a group of
 * parameters (tern_add_group) 0 means "as the optimizer", so "no decay" is .weight_decay = TERN_ZERO. */
#ifndef TERN_OPTIM_H
#define TERN_OPTIM_H

#include "tern/base.h"
#include "tern/io.h"
#include "tern/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tern_optimizer tern_optimizer;

/* Options of an optimizer, which are the defaults of its groups, or of one group. One that the kind
 * of optimizer does not know is an error. */
typedef struct tern_optimizer_args {
    size_t size_;
    tern_tensors_t params;      /* required: leaves of float dtypes; retained */
    double lr;                  /* default 1e-3 (rmsprop, adagrad: 1e-2, lion: 1e-4) */
    double weight_decay;        /* default 0 (adamw: 0.01) */
    double momentum, dampening; /* sgd; rmsprop: momentum */
    double beta1, beta2,
        eps;       /* adam, adamw: 0.9, 0.999, 1e-8; lion: 0.9, 0.99; eps of rmsprop: 1e-8,
                                   of adagrad: 1e-10 */
    bool nesterov; /* sgd */
    bool maximize;
    bool centered;                    /* rmsprop */
    double alpha;                     /* rmsprop: default 0.99 */
    double lr_decay;                  /* adagrad */
    double initial_accumulator_value; /* adagrad */
} tern_optimizer_args;

/* g = gradient (its negative to maximize) + weight_decay * p
 * b = momentum * b + (1 - dampening) * g, in the first step g; d = b (nesterov: g + momentum * b)
 * p = p - lr * d                                                          torch.optim.SGD */
TERN_API tern_optimizer *tern_sgd_at(tern_site_t site, const tern_optimizer_args *args);
/* g = gradient + weight_decay * p; m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2
 * p = p - lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)      torch.optim.Adam */
TERN_API tern_optimizer *tern_adam_at(tern_site_t site, const tern_optimizer_args *args);
/* As Adam, with g = gradient and p shrunk by lr * weight_decay * p first. torch.optim.AdamW */
TERN_API tern_optimizer *tern_adamw_at(tern_site_t site, const tern_optimizer_args *args);
/* g = gradient + weight_decay * p; s = alpha s + (1 - alpha) g^2; centered: m = alpha m + (1 - alpha) g
 * d = g / (sqrt(s) + eps), centered: sqrt(s - m^2); momentum: b = momentum b + d, d = b
 * p = p - lr * d                                                          torch.optim.RMSprop */
TERN_API tern_optimizer *tern_rmsprop_at(tern_site_t site, const tern_optimizer_args *args);
/* g = gradient + weight_decay * p; s = s + g^2, from initial_accumulator_value
 * p = p - lr / (1 + (t - 1) lr_decay) * g / (sqrt(s) + eps)               torch.optim.Adagrad */
TERN_API tern_optimizer *tern_adagrad_at(tern_site_t site, const tern_optimizer_args *args);
/* d = sign(beta1 m + (1 - beta1) g); p = p - lr * (d + weight_decay * p); m = beta2 m + (1 - beta2) g
 * Half of Adam's state; wants a rate three to ten times lower and a decay as much higher. Chen et al.,
 * "Symbolic Discovery of Optimization Algorithms" (2023), algorithm 2. */
TERN_API tern_optimizer *tern_lion_at(tern_site_t site, const tern_optimizer_args *args);
/* tern_adam(tern_parameters(net), .lr = 1e-3). Options by name: their order is not PyTorch's, and
 * tern_sgd(params, 0.1, 0.9) sets weight_decay. */
#define tern_sgd(...) tern_sgd_at(TERN_HERE, TERN_OPTIONS_(tern_optimizer_args, __VA_ARGS__))
#define tern_adam(...) tern_adam_at(TERN_HERE, TERN_OPTIONS_(tern_optimizer_args, __VA_ARGS__))
#define tern_adamw(...) tern_adamw_at(TERN_HERE, TERN_OPTIONS_(tern_optimizer_args, __VA_ARGS__))
#define tern_rmsprop(...) \
    tern_rmsprop_at(TERN_HERE, TERN_OPTIONS_(tern_optimizer_args, __VA_ARGS__))
#define tern_adagrad(...) \
    tern_adagrad_at(TERN_HERE, TERN_OPTIONS_(tern_optimizer_args, __VA_ARGS__))
#define tern_lion(...) tern_lion_at(TERN_HERE, TERN_OPTIONS_(tern_optimizer_args, __VA_ARGS__))
/* Freed in tern_finish, or here; what refers to it (a schedule) keeps it. NULL is fine. */
TERN_API void tern_optimizer_free(tern_optimizer *opt);

/* Parameters with options of their own; what is not given, so what is 0, is the optimizer's, and a switch that
 * is on there is on here: tern_add_group(opt, tern_parameters(norms), .weight_decay = TERN_ZERO). A parameter may
 * be in one group only. Groups count from 0, the one that the optimizer was made with. */
TERN_API tern_status_t tern_add_group_at(tern_site_t site, tern_optimizer *opt,
                                         const tern_optimizer_args *args);
#define tern_add_group(opt, ...) \
    tern_add_group_at(TERN_HERE, opt, TERN_OPTIONS_(tern_optimizer_args, __VA_ARGS__))
TERN_API int64_t tern_group_count(const tern_optimizer *opt);

/* One step of every parameter that has a gradient. Gradients and state are checked, and missing state
 * is made, before the first parameter is written: a step that fails there changes none. */
TERN_API tern_status_t tern_step_at(tern_site_t site, tern_optimizer *opt);
#define tern_step(opt) tern_step_at(TERN_HERE, opt)

/* A step that the device may leave out, so that the host need not know: gradients are multiplied by
 * 1 / grad_scale where they lie (one f32; NULL: they are as they should be), and where found_inf (one
 * f32) is not 0 nothing changes, and the step does not count. What the gradient scaler calls. From the
 * first one on the number of steps lies on the device, and tern_optimizer_store reads it. */
TERN_API tern_status_t tern_step_scaled_at(tern_site_t site, tern_optimizer *opt,
                                           tern_tensor *grad_scale, tern_tensor *found_inf);
#define tern_step_scaled(opt, grad_scale, found_inf) \
    tern_step_scaled_at(TERN_HERE, opt, grad_scale, found_inf)

typedef struct tern_zero_grad_args {
    size_t size_;
    tern_optimizer *opt;
    bool in_place; /* gradients become zeros where they lie; default: there are none any more */
} tern_zero_grad_args;
TERN_API tern_status_t tern_zero_grad_at(tern_site_t site, const tern_zero_grad_args *args);
#define tern_zero_grad(...) \
    tern_zero_grad_at(TERN_HERE, TERN_OPTIONS_(tern_zero_grad_args, __VA_ARGS__))

/* Learning rate of a group; group -1 sets all. Any number that is finite and not negative. */
TERN_API tern_status_t tern_set_lr_at(tern_site_t site, tern_optimizer *opt, int64_t group,
                                      double lr);
#define tern_set_lr(opt, group, lr) tern_set_lr_at(TERN_HERE, opt, group, lr)
/* NaN for a group that there is not. */
TERN_API double tern_get_lr(const tern_optimizer *opt, int64_t group);
/* The parameters of a group, -1: of all; borrowed until the next tern_add_group, or the optimizer is freed. */
TERN_API tern_tensors_t tern_optimizer_params(const tern_optimizer *opt, int64_t group);
/* State of a parameter ("momentum_buffer"; "exp_avg", "exp_avg_sq"; "square_avg", "grad_avg"; "sum"; what
 * torch.optim calls it), borrowed; NULL when there is none yet. */
TERN_API tern_tensor *tern_optimizer_state(const tern_optimizer *opt, const tern_tensor *param,
                                           const char *name);
/* Brings the state to its parameters' devices and dtypes, after a module has moved. */
TERN_API tern_status_t tern_optimizer_move_at(tern_site_t site, tern_optimizer *opt);
#define tern_optimizer_move(opt) tern_optimizer_move_at(TERN_HERE, opt)

/* Puts state and options into a state: "<prefix>.state.<parameter>.exp_avg", ".step",
 * "<prefix>.param_groups.0.lr". Tensors are shared, numbers copied: save the state, or clone it (tern_state_clone),
 * before the next step. Restoring needs the same kind, groups and parameters (by name; by
 * place for those without); all is checked, and brought to its device, before anything changes. What the state
 * holds of another optimizer under the prefix, and this one has not (yet), stays in it. */
TERN_API tern_status_t tern_optimizer_store_at(tern_site_t site, const tern_optimizer *opt,
                                               tern_state *state, const char *prefix);
TERN_API tern_status_t tern_optimizer_restore_at(tern_site_t site, tern_optimizer *opt,
                                                 const tern_state *state, const char *prefix,
                                                 bool check_only);
#define tern_optimizer_store(opt, state, prefix) \
    tern_optimizer_store_at(TERN_HERE, opt, state, prefix)
#define tern_optimizer_restore(opt, state, prefix) \
    tern_optimizer_restore_at(TERN_HERE, opt, state, prefix, false)

/* ---- averages of weights ----------------------------------------------------------------------- */

/* Averages that forget exponentially: in evaluation they are often better than the last weights. */
typedef struct tern_ema tern_ema;

typedef struct tern_ema_args {
    size_t size_;
    tern_tensors_t params; /* required: leaves of float dtypes; retained */
    double decay;          /* default 0.999 */
} tern_ema_args;
/* tern_ema_create(tern_parameters(net), .decay = 0.99). Averages have their parameters' dtypes and devices:
 * move a module before. Freed in tern_finish, or by tern_ema_free. NULL on failure. */
TERN_API tern_ema *tern_ema_create_at(tern_site_t site, const tern_ema_args *args);
#define tern_ema_create(...) \
    tern_ema_create_at(TERN_HERE, TERN_OPTIONS_(tern_ema_args, __VA_ARGS__))
TERN_API void tern_ema_free(tern_ema *ema); /* NULL is fine */
/* After an optimizer's step: average += (1 - decay) (weight - average); the first one copies the weights.
 * One pass over memory; nothing is read back. */
TERN_API tern_status_t tern_ema_update_at(tern_site_t site, tern_ema *ema);
/* The parameters take the averages' values and the other way round, without a copy: before an evaluation, and
 * again after it, not between a forward and its backward. In between the average can neither be updated nor stored. */
TERN_API tern_status_t tern_ema_swap_at(tern_site_t site, tern_ema *ema);
/* The averages with their parameters' names, borrowed. */
TERN_API tern_tensors_t tern_ema_averages(const tern_ema *ema);
/* "<prefix>.average.<parameter>" and "<prefix>.n_averaged". The averages are shared: save the state, or clone it
 * (tern_state_clone), before the next update. Restoring checks all before it changes any. */
TERN_API tern_status_t tern_ema_store_at(tern_site_t site, const tern_ema *ema, tern_state *state,
                                         const char *prefix);
TERN_API tern_status_t tern_ema_restore_at(tern_site_t site, tern_ema *ema, const tern_state *state,
                                           const char *prefix);
#define tern_ema_update(ema) tern_ema_update_at(TERN_HERE, ema)
#define tern_ema_swap(ema) tern_ema_swap_at(TERN_HERE, ema)
#define tern_ema_store(ema, state, prefix) tern_ema_store_at(TERN_HERE, ema, state, prefix)
#define tern_ema_restore(ema, state, prefix) tern_ema_restore_at(TERN_HERE, ema, state, prefix)

/* ---- clipping --------------------------------------------------------------------------------- */

typedef struct tern_clip_args {
    size_t size_;
    tern_tensors_t params;
    double max_norm;         /* required; 0 is TERN_ZERO and makes the gradients 0 */
    double norm_type;        /* default 2; INFINITY: the largest element */
    bool error_if_nonfinite; /* reads the norm back, which waits for the device */
} tern_clip_args;
/* Multiplies the gradients of params by min(1, max_norm / (norm + 1e-6)), where norm is that of all
 * of them as one vector, which it returns (0-dim, on the first gradient's device; of half types in f32,
 * of several dtypes in the widest). Nothing is read back. Parameters without a gradient do not count.
 * Autocast regions change nothing here. */
TERN_API tern_tensor *tern_clip_grad_norm_at(tern_site_t site, const tern_clip_args *args);
#define tern_clip_grad_norm(...) \
    tern_clip_grad_norm_at(TERN_HERE, TERN_OPTIONS_(tern_clip_args, __VA_ARGS__))
/* Limits each element of the gradients to [-value, value], 0 for a value of 0. */
TERN_API tern_status_t tern_clip_grad_value_at(tern_site_t site, tern_tensors_t params,
                                               double value);
#define tern_clip_grad_value(params, value) tern_clip_grad_value_at(TERN_HERE, params, value)

/* ---- schedules -------------------------------------------------------------------------------- */

/* Sets the rates of an optimizer's groups as a function of how many times it was stepped. `base` is
 * the rate that a group had when the schedule was made; groups added later are left alone. A schedule
 * applies step 0 when it is made. An option of another kind is an error. */
typedef struct tern_schedule tern_schedule;

typedef struct tern_schedule_args {
    size_t size_;
    tern_optimizer *opt; /* required */
    int64_t
        steps; /* step: how many at one rate; cosine, warm-up, linear: how many in total; required there */
    double gamma;   /* step, multistep: default 0.1; exponential: required */
    double min_lr;  /* cosine: rate at the end; default 0 */
    int64_t warmup; /* warm-up: how many of `steps` */
    double (*factor)(int64_t step, void *user); /* custom: required */
    void *user;
    /* one cycle */
    double pct_start; /* share of the steps in which the rate rises; default 0.3 */
    double div_factor, final_div_factor; /* defaults 25 and 1e4 */
    double base_momentum, max_momentum;  /* defaults 0.85 and 0.95 */
    bool linear;                         /* straight lines, not cosines */
    bool three_phase, no_cycle_momentum;
    /* plateau; gamma and min_lr as above */
    bool maximize;    /* the metric is to grow; default: to fall */
    bool absolute;    /* threshold is not a share of the best */
    double threshold; /* what counts as better; default 1e-4 */
    double eps;       /* a fall of the rate that is not larger is left out; default 1e-8 */
    int64_t patience, cooldown; /* steps; defaults 10 (TERN_ZERO: 0) and 0 */
    const int64_t *milestones;  /* multistep: steps that do not fall, copied; required */
    int64_t milestone_count;
    double start_factor, end_factor; /* linear: defaults 1/3 and 1; 0 is TERN_ZERO */
} tern_schedule_args;
/* base * gamma^floor(t / steps) */
TERN_API tern_schedule *tern_step_schedule_at(tern_site_t site, const tern_schedule_args *args);
/* base * gamma^(how many milestones are at t or before): torch.optim.lr_scheduler.MultiStepLR.
 * .milestones = (int64_t[]){ 30, 60 }, .milestone_count = 2 */
TERN_API tern_schedule *tern_multistep_schedule_at(tern_site_t site,
                                                   const tern_schedule_args *args);
/* base * (start_factor + (end_factor - start_factor) * min(t, steps) / steps): LinearLR there. Falling to 0:
 * .start_factor = 1, .end_factor = TERN_ZERO */
TERN_API tern_schedule *tern_linear_schedule_at(tern_site_t site, const tern_schedule_args *args);
/* base * gamma^t */
TERN_API tern_schedule *tern_exponential_schedule_at(tern_site_t site,
                                                     const tern_schedule_args *args);
/* min_lr + (base - min_lr) * (1 + cos(pi * min(t, steps) / steps)) / 2 */
TERN_API tern_schedule *tern_cosine_schedule_at(tern_site_t site, const tern_schedule_args *args);
/* t < warmup: base * (t + 1) / warmup; then a cosine of steps - warmup from base to min_lr */
TERN_API tern_schedule *tern_warmup_schedule_at(tern_site_t site, const tern_schedule_args *args);
/* base is the peak: in the first pct_start of `steps` the rate rises from base / div_factor to it, then falls
 * to base / div_factor / final_div_factor, or in three phases first as slowly as it rose. Meanwhile momentum
 * (beta1 of adam, adamw, lion) goes from max to base and back; an optimizer without one needs
 * no_cycle_momentum. torch.optim.lr_scheduler.OneCycleLR */
TERN_API tern_schedule *tern_one_cycle_schedule_at(tern_site_t site,
                                                   const tern_schedule_args *args);
/* Rates are multiplied by gamma (down to min_lr) when more than `patience` steps in a row were no better
 * than the best by the threshold; `cooldown` steps after that do not count. Stepped by
 * tern_schedule_step_metric. torch.optim.lr_scheduler.ReduceLROnPlateau */
TERN_API tern_schedule *tern_plateau_schedule_at(tern_site_t site, const tern_schedule_args *args);
/* base * factor(t, user). A factor that is negative or not finite is an error, and leaves step and rates
 * as they were. */
TERN_API tern_schedule *tern_custom_schedule_at(tern_site_t site, const tern_schedule_args *args);
#define tern_step_schedule(...) \
    tern_step_schedule_at(TERN_HERE, TERN_OPTIONS_(tern_schedule_args, __VA_ARGS__))
#define tern_multistep_schedule(...) \
    tern_multistep_schedule_at(TERN_HERE, TERN_OPTIONS_(tern_schedule_args, __VA_ARGS__))
#define tern_linear_schedule(...) \
    tern_linear_schedule_at(TERN_HERE, TERN_OPTIONS_(tern_schedule_args, __VA_ARGS__))
#define tern_exponential_schedule(...) \
    tern_exponential_schedule_at(TERN_HERE, TERN_OPTIONS_(tern_schedule_args, __VA_ARGS__))
#define tern_cosine_schedule(...) \
    tern_cosine_schedule_at(TERN_HERE, TERN_OPTIONS_(tern_schedule_args, __VA_ARGS__))
#define tern_warmup_schedule(...) \
    tern_warmup_schedule_at(TERN_HERE, TERN_OPTIONS_(tern_schedule_args, __VA_ARGS__))
#define tern_one_cycle_schedule(...) \
    tern_one_cycle_schedule_at(TERN_HERE, TERN_OPTIONS_(tern_schedule_args, __VA_ARGS__))
#define tern_plateau_schedule(...) \
    tern_plateau_schedule_at(TERN_HERE, TERN_OPTIONS_(tern_schedule_args, __VA_ARGS__))
#define tern_custom_schedule(...) \
    tern_custom_schedule_at(TERN_HERE, TERN_OPTIONS_(tern_schedule_args, __VA_ARGS__))
TERN_API void tern_schedule_free(tern_schedule *schedule); /* or tern_finish; NULL is fine */

/* One step on: sets the rates for t + 1. Does nothing while an error is pending. */
TERN_API void tern_schedule_step_at(tern_site_t site, tern_schedule *schedule);
#define tern_schedule_step(schedule) tern_schedule_step_at(TERN_HERE, schedule)
/* The same for a plateau schedule, after a pass over the validation data, say: the metric is what it
 * watches (a NaN is no better than anything). */
TERN_API void tern_schedule_step_metric_at(tern_site_t site, tern_schedule *schedule,
                                           double metric);
#define tern_schedule_step_metric(schedule, metric) \
    tern_schedule_step_metric_at(TERN_HERE, schedule, metric)
TERN_API int64_t tern_schedule_steps_done(const tern_schedule *schedule);
/* "<prefix>.step" and "<prefix>.base_lr.<group>"; plateau: ".best", ".num_bad_epochs", ".cooldown_counter",
 * and base_lr are the rates as they are. Restoring sets the rates, too. */
TERN_API tern_status_t tern_schedule_store_at(tern_site_t site, const tern_schedule *schedule,
                                              tern_state *state, const char *prefix);
TERN_API tern_status_t tern_schedule_restore_at(tern_site_t site, tern_schedule *schedule,
                                                const tern_state *state, const char *prefix,
                                                bool check_only);
#define tern_schedule_store(schedule, state, prefix) \
    tern_schedule_store_at(TERN_HERE, schedule, state, prefix)
#define tern_schedule_restore(schedule, state, prefix) \
    tern_schedule_restore_at(TERN_HERE, schedule, state, prefix, false)

#ifdef __cplusplus
}
#endif
#endif
