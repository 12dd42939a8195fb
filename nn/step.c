/* One step of an optimizer: first everything that can fail for a reason of the program's (gradients,
 * state, memory for new state), then one fused call per parameter. */
#include "nn/optimizer.h"

#include <stdio.h>

#include "tern/device.h"

bool nn_state_fits(const tern_tensor *state, const tern_tensor *p)
{
    return tern_numel(state) == tern_numel(p) && tern_dtype(state) == tern_dtype(p) &&
           tern_dev_equal(tern_device(state), tern_device(p));
}

static bool make_state(tern_site_t site, tern_optimizer *opt, int64_t i)
{
    const tern_tensor *p = opt->params[i];
    const tern_new_args args = { .size_ = sizeof args,
                                 .shape = tern_shape(p),
                                 .dtype = tern_dtype(p),
                                 .device = tern_device(p),
                                 .format = tern_is_channels_last(p) ? TERN_FORMAT_CHANNELS_LAST
                                                                    : TERN_FORMAT_PRESERVE };
    tern_tensor *made[NN_STATES] = { NULL };
    for (int s = 0; s < opt->kind->states; s++) {
        made[s] = tern_zeros_at(site, &args);
        if (!made[s])
            return false;
    }
    for (int s = 0; s < opt->kind->states; s++)
        opt->slots[i].state[s] = tern_retain(made[s]);
    return true;
}

/* "f32 [10, 20] on cuda:0, made at train.c:12": without values, which would have to be read. */
static const char *describe(const tern_tensor *t, char *text, size_t bytes)
{
    const tern_shape_t shape = tern_shape(t);
    char dims[128] = "", name[TERN_DEV_NAME_BYTES];
    size_t used = 0;
    for (int d = 0; d < shape.ndim && used < sizeof dims - 24; d++)
        used += (size_t)snprintf(dims + used, sizeof dims - used, d == 0 ? "%lld" : ", %lld",
                                 (long long)shape.dims[d]);
    (void)snprintf(text, bytes, "%s [%s] on %s, made at %s", tern_dtype_name(tern_dtype(t)), dims,
                   tern_dev_name(tern_device(t), name), tern_site(t) ? tern_site(t) : "?");
    return text;
}

static bool check_state(tern_site_t site, const tern_optimizer *opt, int64_t i)
{
    for (int s = 0; s < opt->kind->states; s++) {
        if (nn_state_fits(opt->slots[i].state[s], opt->params[i]))
            continue;
        char state[512];
        char param[512];
        tern_fail_at(site, TERN_ERR_STATE, "step",
                     "%s of parameter '%s' does not fit it\n    state      %s\n    parameter  %s\n"
                     "  try tern_optimizer_move(opt) after the module has moved",
                     opt->kind->state_names[s], opt->names[i],
                     describe(opt->slots[i].state[s], state, sizeof state),
                     describe(opt->params[i], param, sizeof param));
        return false;
    }
    return true;
}

static bool prepare_one(tern_site_t site, tern_optimizer *opt, int64_t i, const tern_tensor *grad)
{
    if (!nn_state_fits(grad, opt->params[i])) {
        tern_fail_at(site, TERN_ERR_STATE, "step",
                     "the gradient of parameter '%s' has another shape, dtype or device",
                     opt->names[i]);
        return false;
    }
    if (!opt->kind->has_state(&opt->groups[opt->slots[i].group].options))
        return true;
    return opt->slots[i].state[0] ? check_state(site, opt, i) : make_state(site, opt, i);
}

static bool prepare(tern_site_t site, tern_optimizer *opt)
{
    for (int64_t i = 0; i < opt->count; i++) {
        const tern_tensor *grad = tern_grad_of(opt->params[i]);
        if (grad && !prepare_one(site, opt, i, grad))
            return false;
    }
    return true;
}

static void update(tern_site_t site, tern_optimizer *opt)
{
    for (int64_t i = 0; i < opt->count; i++) {
        tern_tensor *grad = tern_grad_of(opt->params[i]);
        if (!grad)
            continue;
        nn_slot *slot = &opt->slots[i];
        const nn_options *options = &opt->groups[slot->group].options;
        if (opt->kind->step(site, opt->params[i], grad, slot, options) != TERN_OK)
            return;
        slot->steps++;
    }
}

tern_status_t tern_step_at(tern_site_t site, tern_optimizer *opt)
{
    if (!opt)
        return tern_fail_at(site, TERN_ERR_ARGUMENT, "step", "the optimizer is NULL");
    if (tern_failed())
        return tern_error_code();
    nn_frame frame = nn_enter(site);
    const bool recording = tern_set_grad_enabled(false);
    if (prepare(site, opt))
        update(site, opt);
    tern_set_grad_enabled(recording);
    nn_leave(&frame);
    return tern_error_code();
}

tern_status_t tern_zero_grad_at(tern_site_t site, const tern_zero_grad_args *given)
{
    NN_ARGS(site, "zero_grad", tern_zero_grad_args, args, given);
    if (args_given && !args.opt)
        tern_fail_at(site, TERN_ERR_ARGUMENT, "zero_grad", "the optimizer is NULL");
    if (tern_failed())
        return tern_error_code();
    const tern_optimizer *opt = args.opt;
    nn_frame frame = nn_enter(site);
    const bool recording = tern_set_grad_enabled(false);
    for (int64_t i = 0; i < opt->count; i++) {
        if (!args.in_place)
            tern_set_grad_at(site, opt->params[i], NULL);
        else if (tern_grad_of(opt->params[i]))
            tern_fill_at(site, tern_grad_of(opt->params[i]), 0);
    }
    tern_set_grad_enabled(recording);
    nn_leave(&frame);
    return tern_error_code();
}

/* ---- after a module has moved ----------------------------------------------------------------- */

static tern_tensor *moved_state(tern_site_t site, tern_tensor *state, const tern_tensor *p)
{
    return tern_to_at(site, state,
                      &(tern_to_args){ .size_ = sizeof(tern_to_args),
                                       .device = tern_device(p),
                                       .dtype = tern_dtype(p) });
}

tern_status_t tern_optimizer_move_at(tern_site_t site, tern_optimizer *opt)
{
    if (!opt)
        return tern_fail_at(site, TERN_ERR_ARGUMENT, "optimizer_move", "the optimizer is NULL");
    nn_frame frame = nn_enter(site);
    const bool recording = tern_set_grad_enabled(false);
    for (int64_t i = 0; i < opt->count && !tern_failed(); i++)
        for (int s = 0; s < opt->kind->states && opt->slots[i].state[s]; s++) {
            tern_tensor *moved = moved_state(site, opt->slots[i].state[s], opt->params[i]);
            if (!moved)
                break;
            tern_retain(moved);
            tern_release(opt->slots[i].state[s]);
            opt->slots[i].state[s] = moved;
        }
    tern_set_grad_enabled(recording);
    nn_leave(&frame);
    return tern_error_code();
}
