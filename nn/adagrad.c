/* Adagrad (torch.optim.Adagrad). */
#include <math.h>

#include "nn/optimizer.h"

static bool check(tern_site_t site, const char *what, const nn_options *options)
{
    return nn_refuse_others(site, what, options, NN_EPS | NN_ADAGRAD) &&
           nn_check_option(site, what, "lr_decay", options->lr_decay, 0, INFINITY) &&
           nn_check_option(site, what, "initial_accumulator_value",
                           options->initial_accumulator_value, 0, INFINITY) &&
           nn_check_option(site, what, "eps", options->eps, 0, INFINITY);
}

static bool has_state(const nn_options *options, int s)
{
    (void)options, (void)s;
    return true;
}

static tern_status_t step(tern_site_t site, tern_tensor *p, tern_tensor *grad, const nn_slot *slot,
                          const nn_options *options, const tern_step_scaling *scaling)
{
    const tern_attr_adagrad attr = { .lr = options->lr,
                                     .lr_decay = options->lr_decay,
                                     .eps = options->eps,
                                     .weight_decay = options->weight_decay,
                                     .step = slot->steps + 1,
                                     .maximize = options->maximize,
                                     .turn = (int32_t)(slot->steps & 1) };
    return tern_adagrad_step_at(site, p, grad, slot->state[0], scaling, &attr);
}

static const nn_kind adagrad = {
    .name = "adagrad",
    .states = 1,
    .state_names = { "sum" },
    .counts_steps = true,
    .defaults = { .lr = 1e-2, .eps = 1e-10 },
    .check = check,
    .has_state = has_state,
    .step = step,
};

tern_optimizer *tern_adagrad_at(tern_site_t site, const tern_optimizer_args *args)
{
    return nn_optimizer_create(site, &adagrad, args);
}
