/* Lion: the sign of a blend of momentum and gradient. Chen et al., "Symbolic Discovery of Optimization
 * Algorithms", arXiv 2302.06675 (2023), algorithm 2. */
#include "nn/optimizer.h"

static bool check(tern_site_t site, const char *what, const nn_options *options)
{
    return nn_refuse_others(site, what, options, NN_BETAS) &&
           nn_check_option(site, what, "beta1", options->beta1, 0, 1) &&
           nn_check_option(site, what, "beta2", options->beta2, 0, 1);
}

static bool has_state(const nn_options *options, int s)
{
    (void)options, (void)s;
    return true;
}

static tern_status_t step(tern_site_t site, tern_tensor *p, tern_tensor *grad, const nn_slot *slot,
                          const nn_options *options, const tern_step_scaling *scaling)
{
    const tern_attr_lion attr = { .lr = options->lr,
                                  .beta1 = options->beta1,
                                  .beta2 = options->beta2,
                                  .weight_decay = options->weight_decay,
                                  .maximize = options->maximize,
                                  .turn = (int32_t)(slot->steps & 1) };
    return tern_lion_step_at(site, p, grad, slot->state[0], scaling, &attr);
}

static const nn_kind lion = {
    .name = "lion",
    .states = 1,
    .state_names = { "exp_avg" },
    .momentum = NN_BETAS,
    .defaults = { .lr = 1e-4, .beta1 = 0.9, .beta2 = 0.99 },
    .check = check,
    .has_state = has_state,
    .step = step,
};

tern_optimizer *tern_lion_at(tern_site_t site, const tern_optimizer_args *args)
{
    return nn_optimizer_create(site, &lion, args);
}
