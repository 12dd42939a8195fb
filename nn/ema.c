/* Averages of weights that forget exponentially (torch.optim.swa_utils.AveragedModel with an EMA). One
 * update is one pass: a step of SGD towards the weights, average += (1 - decay) (weight - average). */
#include <stdio.h>
#include <stdlib.h>

#include "nn/optimizer.h"

struct tern_ema {
    double decay;
    int64_t count, updates;
    tern_tensor **params, **averages;
    char **names;
    bool swapped;
};

static void release_ema(void *object)
{
    tern_ema *ema = object;
    for (int64_t i = 0; i < ema->count; i++) {
        tern_release(ema->params ? ema->params[i] : NULL);
        tern_release(ema->averages ? ema->averages[i] : NULL);
        free(ema->names ? ema->names[i] : NULL);
    }
    free(ema->params);
    free(ema->averages);
    free(ema->names);
    free(ema);
}

void tern_ema_free(tern_ema *ema)
{
    if (!ema)
        return;
    tern_at_finish_cancel(ema);
    release_ema(ema);
}

/* ---- making ------------------------------------------------------------------------------------ */

static bool check_args(tern_site_t site, const tern_ema_args *args)
{
    static const char what[] = "ema_create";
    if (!(args->decay >= 0 && args->decay <= 1))
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "decay = %g is not in [0, 1]", args->decay);
    if (args->params.count <= 0 || !args->params.tensors)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the list of parameters is empty");
    for (int64_t i = 0; i < args->params.count && !tern_failed(); i++) {
        const tern_tensor *t = args->params.tensors[i];
        char name[NN_PARAM_BYTES];
        nn_param_text(args->params, i, name);
        if (!t)
            tern_fail_at(site, TERN_ERR_ARGUMENT, what, "parameter %s is NULL", name);
        else if (!tern_dtype_is_float(tern_dtype(t)) || !tern_is_leaf(t))
            tern_fail_at(site, TERN_ERR_ARGUMENT, what, "parameter %s is %s", name,
                         tern_is_leaf(t) ? "not of a float dtype" : "not a leaf");
        for (int64_t j = 0; j < i && !tern_failed(); j++)
            if (args->params.tensors[j] == t)
                tern_fail_at(site, TERN_ERR_ARGUMENT, what, "parameter %s is there twice", name);
    }
    return !tern_failed();
}

static bool add(tern_site_t site, tern_ema *ema, tern_tensors_t params, int64_t i)
{
    char place[24];
    (void)snprintf(place, sizeof place, "%lld", (long long)i);
    const char *name = params.names && params.names[i] ? params.names[i] : place;
    tern_tensor *average = tern_clone_at(site, params.tensors[i]);
    ema->names[i] = average ? nn_copy_text(site, "ema_create", name) : NULL;
    if (!ema->names[i])
        return false;
    ema->params[i] = tern_retain(params.tensors[i]);
    ema->averages[i] = tern_retain(average);
    return true;
}

static bool fill(tern_site_t site, tern_ema *ema, tern_tensors_t params)
{
    static const char what[] = "ema_create";
    ema->count = params.count;
    ema->params = nn_alloc(site, what, params.count, sizeof *ema->params);
    ema->averages = nn_alloc(site, what, params.count, sizeof *ema->averages);
    ema->names = nn_alloc(site, what, params.count, sizeof *ema->names);
    if (!ema->params || !ema->averages || !ema->names)
        return false;
    nn_frame frame = nn_enter(site);
    const bool recording = tern_set_grad_enabled(false);
    bool fine = true;
    for (int64_t i = 0; fine && i < params.count; i++)
        fine = add(site, ema, params, i);
    tern_set_grad_enabled(recording);
    nn_leave(&frame);
    return fine;
}

tern_ema *tern_ema_create_at(tern_site_t site, const tern_ema_args *given)
{
    NN_ARGS(site, "ema_create", tern_ema_args, args, given);
    if (!args_given || tern_failed())
        return NULL;
    args.decay = nn_option(args.decay, 0.999);
    if (!check_args(site, &args))
        return NULL;
    tern_ema *ema = nn_alloc(site, "ema_create", 1, sizeof *ema);
    if (!ema)
        return NULL;
    ema->decay = args.decay;
    bool fine = fill(site, ema, args.params);
    if (fine && !tern_at_finish(release_ema, ema)) {
        tern_fail_at(site, TERN_ERR_OOM, "ema_create", "no memory");
        fine = false;
    }
    if (fine)
        return ema;
    release_ema(ema);
    return NULL;
}

/* ---- using ------------------------------------------------------------------------------------- */

static bool check_object(tern_site_t site, const char *what, const tern_ema *ema)
{
    if (!ema)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the average is NULL");
    return ema && !tern_failed();
}

/* Averages where and as their parameters are; `swapped` ones may only be swapped. */
static bool check_ready(tern_site_t site, const char *what, const tern_ema *ema, bool swapped)
{
    if (!check_object(site, what, ema))
        return false;
    if (ema->swapped && !swapped)
        tern_fail_at(site, TERN_ERR_STATE, what,
                     "the module holds the averages now\n  try tern_ema_swap(ema) first");
    for (int64_t i = 0; i < ema->count && !tern_failed(); i++)
        if (!nn_state_fits(ema->averages[i], ema->params[i]))
            tern_fail_at(site, TERN_ERR_STATE, what,
                         "parameter '%s' has another shape, dtype or device than its average\n"
                         "  try to make the average after the module has moved",
                         ema->names[i]);
    return !tern_failed();
}

static void average(tern_site_t site, const tern_ema *ema, int64_t i)
{
    const tern_copy_args copy = { .size_ = sizeof copy,
                                  .dst = ema->averages[i],
                                  .src = ema->params[i] };
    const tern_attr_sgd towards = { .lr = 1 - ema->decay, .weight_decay = 1, .maximize = 1 };
    if (ema->updates == 0)
        tern_copy_at(site, &copy);
    else
        tern_sgd_step_at(site, ema->averages[i], ema->params[i], NULL, &towards);
}

tern_status_t tern_ema_update_at(tern_site_t site, tern_ema *ema)
{
    if (!check_ready(site, "ema_update", ema, false))
        return tern_error_code();
    nn_frame frame = nn_enter(site);
    const bool recording = tern_set_grad_enabled(false);
    for (int64_t i = 0; i < ema->count && !tern_failed(); i++)
        average(site, ema, i);
    ema->updates += !tern_failed();
    tern_set_grad_enabled(recording);
    nn_leave(&frame);
    return tern_error_code();
}

/* Views of the weights' memory, of the frame's scope, before the first parameter lets go of it. */
static bool take_weights(tern_site_t site, const tern_ema *ema, tern_tensor **weights)
{
    for (int64_t i = 0; i < ema->count && !tern_failed(); i++) {
        weights[i] = tern_detach_at(site, ema->params[i]);
        if (!tern_is_leaf(ema->params[i]))
            tern_fail_at(site, TERN_ERR_GRAD, "ema_swap", "parameter '%s' is no leaf any more",
                         ema->names[i]);
    }
    return !tern_failed();
}

static void exchange(tern_site_t site, tern_ema *ema, tern_tensor **weights)
{
    for (int64_t i = 0; i < ema->count; i++) {
        tern_tensor_replace_at(site, ema->params[i], ema->averages[i]);
        tern_tensor_replace_at(site, ema->averages[i], weights[i]);
    }
    ema->swapped = !ema->swapped;
}

tern_status_t tern_ema_swap_at(tern_site_t site, tern_ema *ema)
{
    if (!check_ready(site, "ema_swap", ema, true))
        return tern_error_code();
    tern_tensor **weights = nn_alloc(site, "ema_swap", ema->count, sizeof(tern_tensor *));
    if (!weights)
        return tern_error_code();
    nn_frame frame = nn_enter(site);
    const bool recording = tern_set_grad_enabled(false);
    if (take_weights(site, ema, weights))
        exchange(site, ema, weights);
    tern_set_grad_enabled(recording);
    nn_leave(&frame);
    free(weights);
    return tern_error_code();
}

tern_tensors_t tern_ema_averages(const tern_ema *ema)
{
    return ema ? (tern_tensors_t){ ema->averages, (const char *const *)ema->names, ema->count }
               : (tern_tensors_t){ NULL, NULL, 0 };
}

/* ---- states ------------------------------------------------------------------------------------ */

tern_status_t tern_ema_store_at(tern_site_t site, const tern_ema *ema, tern_state *state,
                                const char *prefix)
{
    if (!check_ready(site, "ema_store", ema, false))
        return tern_error_code();
    if (!state)
        return tern_fail_at(site, TERN_ERR_ARGUMENT, "ema_store", "the state is NULL");
    const char *outer = tern_calling_begin("ema_store");
    char *name = nn_join(site, prefix, NULL, "n_averaged");
    if (name)
        tern_state_set_int_at(site, state, name, ema->updates);
    free(name);
    for (int64_t i = 0; i < ema->count && !tern_failed(); i++) {
        name = nn_join(site, prefix, "average", ema->names[i]);
        if (name)
            tern_state_set_at(site, state, name, ema->averages[i]);
        free(name);
    }
    tern_calling_end(outer);
    return tern_error_code();
}

/* The average of a name as it is in the state, where and as its parameter is; NULL after an error. */
static tern_tensor *read_average(tern_site_t site, const tern_ema *ema, int64_t i,
                                 const tern_state *state, const char *prefix)
{
    char *name = nn_join(site, prefix, "average", ema->names[i]);
    tern_tensor *source = name ? tern_state_get(state, name) : NULL;
    bool same = source && tern_ndim(source) == tern_ndim(ema->averages[i]) &&
                tern_dtype_is_float(tern_dtype(source));
    for (int d = 0; same && d < tern_ndim(source); d++)
        same = tern_size(source, d) == tern_size(ema->averages[i], d);
    if (nn_check_read(site, "ema_restore", state, name) && name && !same)
        tern_fail_at(site, TERN_ERR_STATE, "ema_restore", "%s: '%s' %s", tern_state_source(state),
                     name, source ? "has another shape, or is no float" : "is missing");
    free(name);
    if (!same)
        return NULL;
    return tern_to_at(site, source,
                      TERN_OPTIONS_(tern_to_args, .device = tern_device(ema->params[i]),
                                    .copy = true, .dtype = tern_dtype(ema->params[i])));
}

static void restore(tern_site_t site, tern_ema *ema, const tern_state *state, const char *prefix,
                    tern_tensor **read)
{
    int64_t updates = 0;
    char *name = nn_join(site, prefix, NULL, "n_averaged");
    if (name)
        tern_state_get_count_at(site, state, name, &updates);
    free(name);
    for (int64_t i = 0; i < ema->count && !tern_failed(); i++)
        read[i] = read_average(site, ema, i, state, prefix);
    if (tern_failed())
        return;
    for (int64_t i = 0; i < ema->count; i++) {
        tern_retain(read[i]);
        tern_release(ema->averages[i]);
        ema->averages[i] = read[i];
    }
    ema->updates = updates;
}

tern_status_t tern_ema_restore_at(tern_site_t site, tern_ema *ema, const tern_state *state,
                                  const char *prefix)
{
    if (!check_ready(site, "ema_restore", ema, false))
        return tern_error_code();
    if (!state)
        return tern_fail_at(site, TERN_ERR_ARGUMENT, "ema_restore", "the state is NULL");
    tern_tensor **read = nn_alloc(site, "ema_restore", ema->count, sizeof *read);
    if (!read)
        return tern_error_code();
    nn_frame frame = nn_enter(site);
    const bool recording = tern_set_grad_enabled(false);
    const char *outer = tern_calling_begin("ema_restore");
    restore(site, ema, state, prefix, read);
    tern_calling_end(outer);
    tern_set_grad_enabled(recording);
    nn_leave(&frame);
    free(read);
    return tern_error_code();
}
