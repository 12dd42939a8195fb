/* SGD with momentum (torch.optim.SGD). */
#include <math.h>

#include "nn/optimizer.h"

static bool check(tern_site_t site, const char *what, const nn_options *options)
{
    if (!nn_refuse_others(site, what, options, NN_MOMENTUM | NN_DAMPENING))
        return false;
    if (options->nesterov && (options->momentum <= 0 || options->dampening != 0))
        tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                     "nesterov needs a momentum above 0 and a dampening of 0, not %g and %g",
                     options->momentum, options->dampening);
    return nn_check_option(site, what, "momentum", options->momentum, 0, INFINITY) &&
           nn_check_option(site, what, "dampening", options->dampening, -INFINITY, INFINITY);
}

static bool has_state(const nn_options *options, int s)
{
    (void)s;
    return options->momentum != 0;
}

static tern_status_t step(tern_site_t site, tern_tensor *p, tern_tensor *grad, const nn_slot *slot,
                          const nn_options *options, const tern_step_scaling *scaling)
{
    const bool moves = options->momentum != 0;
    const tern_attr_sgd attr = { .lr = options->lr,
                                 .momentum = options->momentum,
                                 .dampening = options->dampening,
                                 .weight_decay = options->weight_decay,
                                 .nesterov = options->nesterov,
                                 .maximize = options->maximize,
                                 .first = slot->steps == 0,
                                 .turn = (int32_t)(slot->steps & 1) };
    tern_tensor *buffer = moves ? slot->state[0] : NULL;
    return scaling != NULL ? tern_sgd_step_scaled_at(site, p, grad, buffer, scaling, &attr)
                           : tern_sgd_step_at(site, p, grad, buffer, &attr);
}

static const nn_kind nn_sgd = {
    .name = "sgd",
    .states = 1,
    .state_names = { "momentum_buffer" },
    .momentum = NN_MOMENTUM,
    .defaults = { .lr = 1e-3 },
    .check = check,
    .has_state = has_state,
    .step = step,
};

tern_optimizer *tern_sgd_at(tern_site_t site, const tern_optimizer_args *args)
{
    return nn_optimizer_create(site, &nn_sgd, args);
}
