/* RMSprop (torch.optim.RMSprop). */
#include <math.h>

#include "nn/optimizer.h"

enum { SQUARE, BUFFER, MEAN };

static bool check(tern_site_t site, const char *what, const nn_options *options)
{
    return nn_refuse_others(site, what, options, NN_MOMENTUM | NN_EPS | NN_ALPHA) &&
           nn_check_option(site, what, "momentum", options->momentum, 0, INFINITY) &&
           nn_check_option(site, what, "alpha", options->alpha, 0, INFINITY) &&
           nn_check_option(site, what, "eps", options->eps, 0, INFINITY);
}

static bool has_state(const nn_options *options, int s)
{
    return s == SQUARE || (s == BUFFER && options->momentum != 0) ||
           (s == MEAN && options->centered);
}

static tern_status_t step(tern_site_t site, tern_tensor *p, tern_tensor *grad, const nn_slot *slot,
                          const nn_options *options, const tern_step_scaling *scaling)
{
    const tern_attr_rmsprop attr = { .lr = options->lr,
                                     .alpha = options->alpha,
                                     .momentum = options->momentum,
                                     .eps = options->eps,
                                     .weight_decay = options->weight_decay,
                                     .maximize = options->maximize,
                                     .turn = (int32_t)(slot->steps & 1) };
    return tern_rmsprop_step_at(site, p, grad, slot->state[SQUARE], slot->state[BUFFER],
                                slot->state[MEAN], scaling, &attr);
}

static const nn_kind rmsprop = {
    .name = "rmsprop",
    .states = 3,
    .state_names = { "square_avg", "momentum_buffer", "grad_avg" },
    .counts_steps = true,
    .momentum = NN_MOMENTUM,
    .defaults = { .lr = 1e-2, .alpha = 0.99, .eps = 1e-8 },
    .check = check,
    .has_state = has_state,
    .step = step,
};

tern_optimizer *tern_rmsprop_at(tern_site_t site, const tern_optimizer_args *args)
{
    return nn_optimizer_create(site, &rmsprop, args);
}
