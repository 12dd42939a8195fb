/* Optimizers: making, groups, rates. What a step does is in step.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "nn/optimizer.h"

bool nn_check_option(tern_site_t site, const char *what, const char *name, double value, double low,
                     double high)
{
    if (value >= low && value < high)
        return true;
    tern_fail_at(site, TERN_ERR_ARGUMENT, what, "%s = %g is not in [%g, %g)", name, value, low,
                 high);
    return false;
}

static nn_options resolve(const tern_optimizer_args *given, const nn_options *fallback)
{
    return (nn_options){
        .lr = nn_option(given->lr, fallback->lr),
        .weight_decay = nn_option(given->weight_decay, fallback->weight_decay),
        .momentum = nn_option(given->momentum, fallback->momentum),
        .dampening = nn_option(given->dampening, fallback->dampening),
        .beta1 = nn_option(given->beta1, fallback->beta1),
        .beta2 = nn_option(given->beta2, fallback->beta2),
        .eps = nn_option(given->eps, fallback->eps),
        .alpha = nn_option(given->alpha, fallback->alpha),
        .lr_decay = nn_option(given->lr_decay, fallback->lr_decay),
        .initial_accumulator_value =
            nn_option(given->initial_accumulator_value, fallback->initial_accumulator_value),
        .centered = given->centered || fallback->centered,
        .nesterov = given->nesterov || fallback->nesterov,
        .maximize = given->maximize || fallback->maximize,
    };
}

bool nn_refuse_others(tern_site_t site, const char *what, const nn_options *options, int taken)
{
    const struct {
        int bit;
        bool given;
        const char *whose;
    } all[] = {
        { NN_MOMENTUM, options->momentum != 0,
          "momentum, dampening and nesterov are SGD's\n  try beta1" },
        { NN_DAMPENING, options->dampening != 0 || options->nesterov,
          "dampening and nesterov are SGD's" },
        { NN_BETAS, options->beta1 != 0 || options->beta2 != 0, "beta1, beta2 and eps are Adam's" },
        { NN_EPS, options->eps != 0, "eps is not an option of this optimizer" },
        { NN_ALPHA, options->alpha != 0 || options->centered, "alpha and centered are RMSprop's" },
        { NN_ADAGRAD, options->lr_decay != 0 || options->initial_accumulator_value != 0,
          "lr_decay and initial_accumulator_value are Adagrad's" },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!(taken & all[i].bit) && all[i].given) {
            tern_fail_at(site, TERN_ERR_ARGUMENT, what, "%s", all[i].whose);
            return false;
        }
    }
    return true;
}

bool nn_check_options(tern_site_t site, const char *what, const nn_kind *kind,
                      const nn_options *options)
{
    return nn_check_option(site, what, "lr", options->lr, 0, INFINITY) &&
           nn_check_option(site, what, "weight_decay", options->weight_decay, 0, INFINITY) &&
           kind->check(site, what, options) && !tern_failed();
}

/* ---- parameters ------------------------------------------------------------------------------- */

static int64_t find_param(const tern_optimizer *opt, const tern_tensor *t)
{
    for (int64_t i = 0; i < opt->count; i++)
        if (opt->params[i] == t)
            return i;
    return -1;
}

static bool check_params(tern_site_t site, const char *what, const tern_optimizer *opt,
                         tern_tensors_t params)
{
    if (params.count <= 0 || !params.tensors)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the list of parameters is empty");
    for (int64_t i = 0; i < params.count && !tern_failed(); i++) {
        const tern_tensor *t = params.tensors[i];
        char name[NN_PARAM_BYTES];
        nn_param_text(params, i, name);
        if (!t)
            tern_fail_at(site, TERN_ERR_ARGUMENT, what, "parameter %s is NULL", name);
        else if (!tern_dtype_is_float(tern_dtype(t)))
            tern_fail_at(site, TERN_ERR_DTYPE, what, "parameter %s is %s, not a float", name,
                         tern_dtype_name(tern_dtype(t)));
        else if (!tern_is_leaf(t))
            tern_fail_at(site, TERN_ERR_GRAD, what,
                         "parameter %s, made at %s, is the result of a recorded op, not a leaf\n"
                         "  try to make it where it shall be, with .device and .requires_grad, or "
                         "tern_set_requires_grad(tern_detach(t), true)",
                         name, tern_site(t));
        bool twice = find_param(opt, t) >= 0;
        for (int64_t j = 0; j < i; j++)
            twice |= params.tensors[j] == t;
        if (twice)
            tern_fail_at(site, TERN_ERR_ARGUMENT, what, "parameter %s is there twice", name);
    }
    return !tern_failed();
}

static bool name_is_taken(const tern_optimizer *opt, const char *name)
{
    for (int64_t i = 0; i < opt->count; i++)
        if (!strcmp(opt->names[i], name))
            return true;
    return false;
}

/* The parameter's name in the list, or its place. A name that another group has already (two modules
 * may both have a "0.weight") becomes "0.weight~2". */
static char *make_name(tern_site_t site, const char *what, const tern_optimizer *opt,
                       tern_tensors_t params, int64_t i)
{
    char place[24];
    snprintf(place, sizeof place, "%lld", (long long)opt->count);
    const char *base = params.names && params.names[i] ? params.names[i] : place;
    const size_t bytes = strlen(base) + 24;
    char *name = nn_alloc(site, what, 1, bytes);
    if (!name)
        return NULL;
    memcpy(name, base, strlen(base) + 1);
    for (int64_t n = 2; name_is_taken(opt, name); n++)
        snprintf(name, bytes, "%s~%lld", base, (long long)n);
    return name;
}

/* Makes *list hold `count` elements; the old list stays valid when this fails. */
static bool grow(tern_site_t site, const char *what, void *list, int64_t count, size_t bytes)
{
    void *old;
    memcpy(&old, list, sizeof old);
    void *grown = realloc(old, (size_t)count * bytes);
    if (!grown) {
        tern_fail_at(site, TERN_ERR_OOM, what, "no memory for %lld parameters", (long long)count);
        return false;
    }
    memcpy(list, &grown, sizeof grown);
    return true;
}

static bool reserve(tern_site_t site, const char *what, tern_optimizer *opt, int64_t more)
{
    const int64_t count = opt->count + more;
    return grow(site, what, &opt->params, count, sizeof *opt->params) &&
           grow(site, what, &opt->names, count, sizeof *opt->names) &&
           grow(site, what, &opt->slots, count, sizeof *opt->slots) &&
           grow(site, what, &opt->groups, opt->group_count + 1, sizeof *opt->groups);
}

/* Takes the last `more` parameters off again. */
static void take_off(tern_optimizer *opt, int64_t more)
{
    for (; more > 0; more--) {
        const nn_slot *slot = &opt->slots[--opt->count];
        for (int s = 0; s < NN_STATES; s++)
            tern_release(slot->state[s]);
        tern_release(slot->count);
        tern_release(opt->params[opt->count]);
        free(opt->names[opt->count]);
    }
}

/* `what` is the function that was called. */
static bool add_group(tern_site_t site, const char *what, tern_optimizer *opt,
                      tern_tensors_t params, const nn_options *options)
{
    if (!check_params(site, what, opt, params) || !reserve(site, what, opt, params.count))
        return false;
    const int64_t first = opt->count;
    for (int64_t i = 0; i < params.count; i++) {
        char *name = make_name(site, what, opt, params, i);
        if (!name) {
            take_off(opt, i);
            return false;
        }
        opt->params[opt->count] = tern_retain(params.tensors[i]);
        opt->names[opt->count] = name;
        opt->slots[opt->count] = (nn_slot){ .group = opt->group_count };
        opt->count++;
    }
    opt->groups[opt->group_count++] = (nn_group){ *options, first, params.count };
    return true;
}

/* ---- the object ------------------------------------------------------------------------------- */

void nn_optimizer_retain(tern_optimizer *opt)
{
    opt->owners++;
}

void nn_optimizer_release(tern_optimizer *opt)
{
    if (--opt->owners > 0)
        return;
    take_off(opt, opt->count);
    free(opt->params);
    free(opt->names);
    free(opt->slots);
    free(opt->groups);
    free(opt);
}

static void release_at_finish(void *opt)
{
    nn_optimizer_release(opt);
}

void tern_optimizer_free(tern_optimizer *opt)
{
    if (!opt)
        return;
    tern_at_finish_cancel(opt);
    nn_optimizer_release(opt);
}

tern_optimizer *nn_optimizer_create(tern_site_t site, const nn_kind *kind,
                                    const tern_optimizer_args *given)
{
    NN_ARGS(site, kind->name, tern_optimizer_args, args, given);
    if (!args_given || tern_failed())
        return NULL;
    const nn_options options = resolve(&args, &kind->defaults);
    if (!nn_check_options(site, kind->name, kind, &options))
        return NULL;
    tern_optimizer *opt = nn_alloc(site, kind->name, 1, sizeof *opt);
    if (!opt)
        return NULL;
    *opt = (tern_optimizer){ .kind = kind, .defaults = options, .owners = 1 };
    bool fine = add_group(site, kind->name, opt, args.params, &options);
    if (fine && !tern_at_finish(release_at_finish, opt)) {
        tern_fail_at(site, TERN_ERR_OOM, kind->name, "no memory");
        fine = false;
    }
    if (!fine) {
        nn_optimizer_release(opt);
        return NULL;
    }
    return opt;
}

static bool check_object(tern_site_t site, const char *what, const tern_optimizer *opt)
{
    if (!opt)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the optimizer is NULL");
    return opt && !tern_failed();
}

tern_status_t tern_add_group_at(tern_site_t site, tern_optimizer *opt,
                                const tern_optimizer_args *given)
{
    static const char what[] = "add_group";
    NN_ARGS(site, what, tern_optimizer_args, args, given);
    if (!args_given || !check_object(site, what, opt))
        return tern_error_code();
    const nn_options options = resolve(&args, &opt->defaults);
    if (nn_check_options(site, what, opt->kind, &options))
        add_group(site, what, opt, args.params, &options);
    return tern_error_code();
}

int64_t tern_group_count(const tern_optimizer *opt)
{
    return opt ? opt->group_count : 0;
}

tern_status_t tern_set_lr_at(tern_site_t site, tern_optimizer *opt, int64_t group, double lr)
{
    lr = nn_option(lr, 0); /* TERN_ZERO is one here, too */
    if (!check_object(site, "set_lr", opt) ||
        !nn_check_option(site, "set_lr", "lr", lr, 0, INFINITY))
        return tern_error_code();
    if (group < -1 || group >= opt->group_count)
        return tern_fail_at(site, TERN_ERR_INDEX, "set_lr", "group %lld of %lld", (long long)group,
                            (long long)opt->group_count);
    for (int64_t i = 0; i < opt->group_count; i++)
        if (group == -1 || group == i)
            opt->groups[i].options.lr = lr;
    return TERN_OK;
}

double tern_get_lr(const tern_optimizer *opt, int64_t group)
{
    const bool there = opt && group >= 0 && group < opt->group_count;
    return there ? opt->groups[group].options.lr : NAN;
}

tern_tensors_t tern_optimizer_params(const tern_optimizer *opt, int64_t group)
{
    if (!opt || group < -1 || group >= opt->group_count)
        return (tern_tensors_t){ NULL, NULL, 0 };
    const int64_t first = group < 0 ? 0 : opt->groups[group].first;
    const int64_t count = group < 0 ? opt->count : opt->groups[group].count;
    return (tern_tensors_t){ opt->params + first, (const char *const *)opt->names + first, count };
}

tern_tensor *tern_optimizer_state(const tern_optimizer *opt, const tern_tensor *param,
                                  const char *name)
{
    const int64_t i = opt ? find_param(opt, param) : -1;
    for (int s = 0; i >= 0 && name && s < opt->kind->states; s++)
        if (!strcmp(opt->kind->state_names[s], name))
            return opt->slots[i].state[s];
    return NULL;
}
