/* Adam and AdamW (torch.optim), which differ in where the weight decay goes. */
#include "nn/optimizer.h"

static bool check(tern_site_t site, const char *what, const nn_options *options)
{
    return nn_refuse_others(site, what, options, NN_BETAS | NN_EPS) &&
           nn_check_option(site, what, "beta1", options->beta1, 0, 1) &&
           nn_check_option(site, what, "beta2", options->beta2, 0, 1) &&
           nn_check_option(site, what, "eps", options->eps, 0, 1e300);
}

static bool has_state(const nn_options *options, int s)
{
    (void)options, (void)s;
    return true;
}

static tern_status_t step(tern_site_t site, tern_tensor *p, tern_tensor *grad, const nn_slot *slot,
                          const nn_options *options, const tern_step_scaling *scaling,
                          bool decoupled)
{
    const tern_attr_adam attr = { .lr = options->lr,
                                  .beta1 = options->beta1,
                                  .beta2 = options->beta2,
                                  .eps = options->eps,
                                  .weight_decay = options->weight_decay,
                                  .step = slot->steps + 1,
                                  .decoupled = decoupled,
                                  .maximize = options->maximize,
                                  .turn = (int32_t)(slot->steps & 1) };
    if (scaling != NULL)
        return tern_adam_step_scaled_at(site, p, grad, slot->state[0], slot->state[1], scaling,
                                        &attr);
    return tern_adam_step_at(site, p, grad, slot->state[0], slot->state[1], &attr);
}

static tern_status_t step_adam(tern_site_t site, tern_tensor *p, tern_tensor *grad,
                               const nn_slot *slot, const nn_options *options,
                               const tern_step_scaling *scaling)
{
    return step(site, p, grad, slot, options, scaling, false);
}

static tern_status_t step_adamw(tern_site_t site, tern_tensor *p, tern_tensor *grad,
                                const nn_slot *slot, const nn_options *options,
                                const tern_step_scaling *scaling)
{
    return step(site, p, grad, slot, options, scaling, true);
}

static const nn_kind nn_adam = {
    .name = "adam",
    .states = 2,
    .state_names = { "exp_avg", "exp_avg_sq" },
    .counts_steps = true,
    .momentum = NN_BETAS,
    .defaults = { .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 },
    .check = check,
    .has_state = has_state,
    .step = step_adam,
};

static const nn_kind nn_adamw = {
    .name = "adamw",
    .states = 2,
    .state_names = { "exp_avg", "exp_avg_sq" },
    .counts_steps = true,
    .momentum = NN_BETAS,
    .defaults = { .lr = 1e-3, .weight_decay = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 },
    .check = check,
    .has_state = has_state,
    .step = step_adamw,
};

tern_optimizer *tern_adam_at(tern_site_t site, const tern_optimizer_args *args)
{
    return nn_optimizer_create(site, &nn_adam, args);
}

tern_optimizer *tern_adamw_at(tern_site_t site, const tern_optimizer_args *args)
{
    return nn_optimizer_create(site, &nn_adamw, args);
}
