/* One step of an optimizer: first everything that can fail for a reason of the program's (gradients,
 * state, memory for new state), then one fused call per parameter. */
#include "nn/optimizer.h"

#include <stdio.h>

#include "tern/device.h"

bool nn_state_fits(const tern_tensor *state, const tern_tensor *p)
{
    return nn_same_shape(state, p) && tern_dtype(state) == tern_dtype(p) &&
           tern_dev_equal(tern_device(state), tern_device(p));
}

static const nn_options *options_of(const tern_optimizer *opt, int64_t i)
{
    return &opt->groups[opt->slots[i].group].options;
}

bool nn_lacks_state(const tern_optimizer *opt, int64_t i, int s)
{
    return !opt->slots[i].state[s] && opt->kind->has_state(options_of(opt, i), s);
}

tern_tensor *nn_first_state(tern_site_t site, const tern_optimizer *opt, int64_t i)
{
    const double value = options_of(opt, i)->initial_accumulator_value;
    tern_tensor *p = opt->params[i];
    const tern_new_args args = { .size_ = sizeof args,
                                 .shape = tern_shape(p),
                                 .dtype = tern_dtype(p),
                                 .like = p,
                                 .format = tern_is_channels_last(p) ? TERN_FORMAT_CHANNELS_LAST
                                                                    : TERN_FORMAT_PRESERVE };
    return value != 0 ? tern_full_at(site, tern_operand_float(value), &args)
                      : tern_zeros_at(site, &args);
}

/* What is needed and not there: all of it before the first step, a momentum's when a schedule brings one. */
static bool make_state(tern_site_t site, tern_optimizer *opt, int64_t i)
{
    nn_slot *slot = &opt->slots[i];
    tern_tensor *made[NN_STATES] = { NULL };
    for (int s = 0; s < opt->kind->states; s++) {
        if (!nn_lacks_state(opt, i, s))
            continue;
        made[s] = nn_first_state(site, opt, i);
        if (!made[s])
            return false;
    }
    for (int s = 0; s < opt->kind->states; s++)
        if (made[s])
            slot->state[s] = tern_retain(made[s]);
    if (made[0]) /* steps without it are none of its own: SGD's first gradient is not dampened */
        slot->steps = 0;
    return true;
}

static bool check_state(tern_site_t site, const tern_optimizer *opt, int64_t i)
{
    for (int s = 0; s < opt->kind->states; s++) {
        const tern_tensor *state = opt->slots[i].state[s], *p = opt->params[i];
        if (!opt->kind->has_state(options_of(opt, i), s) || nn_state_fits(state, p))
            continue;
        char ours[512], theirs[512];
        tern_fail_at(site, TERN_ERR_STATE, "step",
                     "%s of parameter '%s' does not fit it\n    state      %s\n    parameter  %s%s",
                     opt->kind->state_names[s], opt->names[i], nn_summary(state, ours, sizeof ours),
                     nn_summary(p, theirs, sizeof theirs),
                     nn_same_shape(state, p)
                         ? "\n  try tern_optimizer_move(opt) after the module has moved"
                         : ""); /* no move brings another shape */
        return false;
    }
    return true;
}

/* `writes`: the step divides the gradient where it lies. */
static bool prepare_one(tern_site_t site, tern_optimizer *opt, int64_t i, const tern_tensor *grad,
                        bool writes)
{
    if (writes && !nn_check_written_grad(site, "step", tern_optimizer_params(opt, -1), i))
        return false;
    if (!nn_state_fits(grad, opt->params[i])) {
        char ours[512], theirs[512];
        tern_fail_at(site, TERN_ERR_STATE, "step",
                     "the gradient of parameter '%s' has another shape, dtype or device\n"
                     "    gradient   %s\n    parameter  %s",
                     opt->names[i], nn_summary(grad, ours, sizeof ours),
                     nn_summary(opt->params[i], theirs, sizeof theirs));
        return false;
    }
    if (!opt->kind->has_state(options_of(opt, i), 0))
        return true;
    return make_state(site, opt, i) && check_state(site, opt, i);
}

/* ---- steps that the device may leave out ------------------------------------------------------- */

enum { MOST_DEVICES = 16 };

/* Scale and flag on each device with gradients; tensors of the frame's scope. */
typedef struct scaled_step {
    tern_tensor *scale, *found; /* the caller's; scale may be NULL */
    int devices;
    tern_dev_t dev[MOST_DEVICES];
    tern_step_scaling there[MOST_DEVICES]; /* without a count */
} scaled_step;

/* Before whatever is queued there next; the CPU queues nothing, so the host waits for what comes to it. */
static tern_tensor *brought(tern_site_t site, tern_tensor *t, tern_dev_t dev)
{
    const tern_to_args to = { .size_ = sizeof to,
                              .device = dev,
                              .non_blocking = dev.kind != TERN_KIND_CPU };
    return t == NULL ? NULL : tern_to_at(site, t, &to);
}

/* NULL after an error. */
static const tern_step_scaling *scaling_on(tern_site_t site, scaled_step *s, tern_dev_t dev)
{
    for (int d = 0; d < s->devices; d++)
        if (tern_dev_equal(s->dev[d], dev))
            return &s->there[d];
    if (s->devices == MOST_DEVICES) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, "step_scaled", "gradients on more than %d devices",
                     MOST_DEVICES);
        return NULL;
    }
    const tern_step_scaling here = { brought(site, s->scale, dev), brought(site, s->found, dev),
                                     NULL };
    if (tern_failed())
        return NULL;
    s->dev[s->devices] = dev;
    s->there[s->devices] = here;
    return &s->there[s->devices++];
}

/* From here on the number of steps is the device's: both of its numbers are what the host has counted. */
static bool make_count(tern_site_t site, nn_slot *slot, tern_tensor *p)
{
    const tern_new_args args = {
        .size_ = sizeof args, .shape = TERN_SHAPE(2), .dtype = TERN_I64, .like = p
    };
    if (!slot->count)
        slot->count = tern_retain(tern_full_at(site, tern_operand_int(slot->steps), &args));
    return slot->count != NULL;
}

int64_t nn_slot_steps(tern_site_t site, const nn_slot *slot)
{
    int64_t counts[2] = { 0 };
    if (!slot->count)
        return slot->steps;
    tern_read_at(site, slot->count, TERN_I64, counts, TERN_I64, sizeof counts);
    return counts[slot->steps & 1];
}

/* ---- a step ------------------------------------------------------------------------------------ */

static bool prepare(tern_site_t site, tern_optimizer *opt, scaled_step *scaled)
{
    for (int64_t i = 0; i < opt->count; i++) {
        const tern_tensor *grad = tern_grad_of(opt->params[i]);
        if (!grad)
            continue;
        if (!prepare_one(site, opt, i, grad, scaled != NULL && scaled->scale != NULL))
            return false;
        nn_slot *slot = &opt->slots[i];
        tern_tensor *p = opt->params[i];
        if (scaled && (!scaling_on(site, scaled, tern_device(p)) ||
                       (slot->state[0] && !make_count(site, slot, p))))
            return false;
    }
    return true;
}

static void update(tern_site_t site, tern_optimizer *opt, scaled_step *scaled)
{
    for (int64_t i = 0; i < opt->count; i++) {
        tern_tensor *p = opt->params[i], *grad = tern_grad_of(p);
        if (!grad)
            continue;
        nn_slot *slot = &opt->slots[i];
        const nn_options *options = &opt->groups[slot->group].options;
        tern_step_scaling scaling = { .scale = NULL };
        if (scaled)
            scaling = *scaling_on(site, scaled, tern_device(p));
        scaling.count = slot->count;
        const bool plain = !scaled && !slot->count;
        if (opt->kind->step(site, p, grad, slot, options, plain ? NULL : &scaling) != TERN_OK)
            return;
        slot->steps++;
    }
}

static tern_status_t step(tern_site_t site, tern_optimizer *opt, scaled_step *scaled)
{
    if (!opt)
        return tern_fail_at(site, TERN_ERR_ARGUMENT, "step", "the optimizer is NULL");
    if (tern_failed())
        return tern_error_code();
    nn_frame frame = nn_enter(site);
    const bool recording = tern_set_grad_enabled(false);
    if (prepare(site, opt, scaled))
        update(site, opt, scaled);
    tern_set_grad_enabled(recording);
    nn_leave(&frame);
    return tern_error_code();
}

tern_status_t tern_step_at(tern_site_t site, tern_optimizer *opt)
{
    return step(site, opt, NULL);
}

tern_status_t tern_step_scaled_at(tern_site_t site, tern_optimizer *opt, tern_tensor *grad_scale,
                                  tern_tensor *found_inf)
{
    scaled_step scaled = { .scale = grad_scale, .found = found_inf };
    if (!found_inf)
        return tern_fail_at(site, TERN_ERR_ARGUMENT, "step_scaled", "the flag is NULL");
    return step(site, opt, &scaled);
}

tern_status_t tern_zero_grad_at(tern_site_t site, const tern_zero_grad_args *given)
{
    NN_ARGS(site, "zero_grad", tern_zero_grad_args, args, given);
    if (args_given && !args.opt)
        tern_fail_at(site, TERN_ERR_ARGUMENT, "zero_grad", "the optimizer is NULL");
    const tern_tensors_t params = tern_optimizer_params(args.opt, -1);
    for (int64_t i = 0; args.in_place && i < params.count && !tern_failed(); i++)
        nn_check_written_grad(site, "zero_grad", params, i);
    if (tern_failed())
        return tern_error_code();
    nn_frame frame = nn_enter(site);
    const bool recording = tern_set_grad_enabled(false);
    for (int64_t i = 0; i < params.count; i++) {
        tern_tensor *p = params.tensors[i], *grad = tern_grad_of(p);
        if (!args.in_place)
            tern_set_grad_at(site, p, NULL);
        else if (grad && tern_requires_grad(grad)) /* of .create_graph: its history goes */
            tern_set_grad_at(site, p, tern_detach_at(site, grad));
        if (args.in_place && grad)
            tern_fill_at(site, tern_grad_of(p), tern_operand_int(0));
    }
    tern_set_grad_enabled(recording);
    nn_leave(&frame);
    return tern_error_code();
}

/* ---- after a module has moved ----------------------------------------------------------------- */

static tern_tensor *moved_state(tern_site_t site, tern_tensor *state, const tern_tensor *p)
{
    return tern_to_at(
        site, state, TERN_OPTIONS_(tern_to_args, .device = tern_device(p), .dtype = tern_dtype(p)));
}

tern_status_t tern_optimizer_move_at(tern_site_t site, tern_optimizer *opt)
{
    if (!opt)
        return tern_fail_at(site, TERN_ERR_ARGUMENT, "optimizer_move", "the optimizer is NULL");
    nn_frame frame = nn_enter(site);
    const bool recording = tern_set_grad_enabled(false);
    for (int64_t i = 0; i < opt->count && !tern_failed(); i++)
        for (int s = 0; s < opt->kind->states && !tern_failed(); s++) {
            if (!opt->slots[i].state[s])
                continue;
            tern_tensor *moved = moved_state(site, opt->slots[i].state[s], opt->params[i]);
            if (!moved)
                break;
            tern_retain(moved);
            tern_release(opt->slots[i].state[s]);
            opt->slots[i].state[s] = moved;
        }
    for (int64_t i = 0; i < opt->count && !tern_failed(); i++) {
        tern_tensor *moved = brought(site, opt->slots[i].count, tern_device(opt->params[i]));
        if (!moved)
            continue;
        tern_retain(moved);
        tern_release(opt->slots[i].count);
        opt->slots[i].count = moved;
    }
    tern_set_grad_enabled(recording);
    nn_leave(&frame);
    return tern_error_code();
}
