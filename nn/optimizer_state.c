/* Optimizers into states and back, by torch's names: "<prefix>.state.<parameter>.exp_avg",
 * "<prefix>.param_groups.0.lr". A restore reads and converts all before it changes anything. */
#include <stdio.h>
#include <stdlib.h>

#include "nn/optimizer.h"

/* Options as they are saved; those that few kinds have only where they are not 0. */
static const struct {
    const char *name;
    size_t offset;
    bool rare;
} numbers[] = {
    { "lr", offsetof(nn_options, lr), false },
    { "weight_decay", offsetof(nn_options, weight_decay), false },
    { "momentum", offsetof(nn_options, momentum), false },
    { "dampening", offsetof(nn_options, dampening), false },
    { "beta1", offsetof(nn_options, beta1), false },
    { "beta2", offsetof(nn_options, beta2), false },
    { "eps", offsetof(nn_options, eps), false },
    { "alpha", offsetof(nn_options, alpha), true },
    { "lr_decay", offsetof(nn_options, lr_decay), true },
    { "initial_accumulator_value", offsetof(nn_options, initial_accumulator_value), true },
};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static double *number_of(nn_options *options, int i)
{
    return (double *)(void *)((char *)options + numbers[i].offset);
}

/* "<prefix>.param_groups.<group>.<option>" */
static char *option_name(tern_site_t site, const char *prefix, int64_t group, const char *option)
{
    char middle[48];
    snprintf(middle, sizeof middle, "param_groups.%lld", (long long)group);
    return nn_join(site, prefix, middle, option);
}

/* "<prefix>.state.<parameter>.<what>" */
static char *state_name(tern_site_t site, const char *prefix, const char *param, const char *what)
{
    char *middle = nn_join(site, "state", NULL, param);
    char *name = middle ? nn_join(site, prefix, middle, what) : NULL;
    free(middle);
    return name;
}

static bool check_objects(tern_site_t site, const char *what, const tern_optimizer *opt,
                          const tern_state *state)
{
    if (!opt || !state)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the %s is NULL", opt ? "state" : "optimizer");
    return !tern_failed();
}

/* ---- storing ---------------------------------------------------------------------------------- */

static void store_int(tern_site_t site, tern_state *state, char *name, int64_t value)
{
    if (name)
        tern_state_set_int_at(site, state, name, value);
    free(name);
}

static void store_group(tern_site_t site, const nn_group *group, int64_t place, tern_state *state,
                        const char *prefix)
{
    nn_options options = group->options;
    for (int i = 0; i < NUMBERS && !tern_failed(); i++) {
        if (numbers[i].rare && *number_of(&options, i) == 0)
            continue;
        char *name = option_name(site, prefix, place, numbers[i].name);
        if (name)
            tern_state_set_number_at(site, state, name, *number_of(&options, i));
        free(name);
    }
    if (options.centered)
        store_int(site, state, option_name(site, prefix, place, "centered"), 1);
    store_int(site, state, option_name(site, prefix, place, "nesterov"), options.nesterov);
    store_int(site, state, option_name(site, prefix, place, "maximize"), options.maximize);
    store_int(site, state, option_name(site, prefix, place, "params"), group->count);
}

/* A state that the next step would make is stored as it would begin, so that all of it is there. */
static void store_tensor(tern_site_t site, const tern_optimizer *opt, int64_t i, int s,
                         tern_state *state, const char *name)
{
    nn_frame frame = nn_enter(site);
    tern_tensor *t =
        nn_lacks_state(opt, i, s) ? nn_first_state(site, opt, i) : opt->slots[i].state[s];
    if (t)
        tern_state_set_at(site, state, name, t);
    nn_leave(&frame);
}

static void store_slot(tern_site_t site, const tern_optimizer *opt, int64_t i, tern_state *state,
                       const char *prefix)
{
    const nn_slot *slot = &opt->slots[i];
    const int64_t steps = slot->state[0] ? nn_slot_steps(site, slot) : 0;
    if (steps == 0)
        return;
    for (int s = 0; s < opt->kind->states && !tern_failed(); s++) {
        char *name = state_name(site, prefix, opt->names[i], opt->kind->state_names[s]);
        if (name)
            store_tensor(site, opt, i, s, state, name);
        free(name);
    }
    if (opt->kind->counts_steps)
        store_int(site, state, state_name(site, prefix, opt->names[i], "step"), steps);
}

tern_status_t tern_optimizer_store_at(tern_site_t site, const tern_optimizer *opt,
                                      tern_state *state, const char *prefix)
{
    static const char what[] = "optimizer_store";
    if (!check_objects(site, what, opt, state))
        return tern_error_code();
    const char *outer = tern_calling_begin(what);
    char *name = nn_join(site, prefix, NULL, "kind");
    if (name)
        tern_state_set_text_at(site, state, name, opt->kind->name);
    free(name);
    for (int64_t i = 0; i < opt->group_count && !tern_failed(); i++)
        store_group(site, &opt->groups[i], i, state, prefix);
    for (int64_t i = 0; i < opt->count && !tern_failed(); i++)
        store_slot(site, opt, i, state, prefix);
    tern_calling_end(outer);
    return tern_error_code();
}

/* ---- restoring: reading ----------------------------------------------------------------------- */

typedef struct restore {
    tern_site_t site;
    tern_optimizer *opt;
    const tern_state *state;
    const char *prefix;
    nn_options *options; /* per group */
    nn_slot *slots;      /* per parameter; tensors of the scope */
    int64_t used;        /* entries of "<prefix>.state." that belong to a parameter */
} restore;

static void fail_format(const restore *r, const char *name, const char *why)
{
    tern_fail_at(r->site, TERN_ERR_STATE, "optimizer_restore", "%s: '%s' %s",
                 tern_state_source(r->state), name, why);
}

static void check_kind(const restore *r)
{
    char *name = nn_join(r->site, r->prefix, NULL, "kind");
    const char *kind = name ? tern_state_text(r->state, name) : NULL;
    if (name && !kind)
        fail_format(r, name, "is missing: no optimizer is stored under that prefix");
    else if (name && strcmp(kind, r->opt->kind->name) != 0)
        tern_fail_at(r->site, TERN_ERR_STATE, "optimizer_restore", "%s: '%s' is %s, not %s",
                     tern_state_source(r->state), name, kind, r->opt->kind->name);
    free(name);
}

static int64_t read_count(const restore *r, char *name)
{
    int64_t value = 0;
    if (name)
        tern_state_get_count_at(r->site, r->state, name, &value);
    free(name);
    return value;
}

static void read_group(restore *r, int64_t place)
{
    nn_options *options = &r->options[place];
    for (int i = 0; i < NUMBERS && !tern_failed(); i++) {
        char *name = option_name(r->site, r->prefix, place, numbers[i].name);
        *number_of(options, i) = 0;
        if (name && (!numbers[i].rare || nn_is_stored(r->state, name)))
            tern_state_get_number_at(r->site, r->state, name, number_of(options, i));
        free(name);
    }
    char *centered = option_name(r->site, r->prefix, place, "centered");
    const bool has_centered = centered && nn_is_stored(r->state, centered);
    free(centered);
    options->centered =
        has_centered && read_count(r, option_name(r->site, r->prefix, place, "centered")) != 0;
    options->nesterov = read_count(r, option_name(r->site, r->prefix, place, "nesterov")) != 0;
    options->maximize = read_count(r, option_name(r->site, r->prefix, place, "maximize")) != 0;
    const int64_t params = read_count(r, option_name(r->site, r->prefix, place, "params"));
    if (!tern_failed() && params != r->opt->groups[place].count)
        tern_fail_at(r->site, TERN_ERR_STATE, "optimizer_restore",
                     "%s: group %lld has %lld parameters there and %lld here",
                     tern_state_source(r->state), (long long)place, (long long)params,
                     (long long)r->opt->groups[place].count);
    nn_options checked = *options;
    checked.nesterov = options->nesterov && options->momentum != 0; /* a cycle may be at 0 */
    if (!tern_failed())
        nn_check_options(r->site, "optimizer_restore", r->opt->kind, &checked);
}

static void check_group_count(const restore *r)
{
    char *name = option_name(r->site, r->prefix, r->opt->group_count, "lr");
    if (name && nn_is_stored(r->state, name))
        tern_fail_at(r->site, TERN_ERR_STATE, "optimizer_restore",
                     "%s: more groups of parameters than the optimizer's %lld",
                     tern_state_source(r->state), (long long)r->opt->group_count);
    free(name);
}

/* A copy of its own, where and as the parameter is. */
static tern_tensor *copy_state(const restore *r, tern_tensor *source, const tern_tensor *p)
{
    return tern_to_at(r->site, source,
                      TERN_OPTIONS_(tern_to_args, .device = tern_device(p), .copy = true,
                                    .dtype = tern_dtype(p),
                                    .format = tern_is_channels_last(p) ? TERN_FORMAT_CHANNELS_LAST
                                                                       : TERN_FORMAT_PRESERVE));
}

static tern_tensor *read_tensor(const restore *r, const char *name, int64_t i)
{
    tern_tensor *source = tern_state_get(r->state, name);
    char there[512], here[512];
    if (!nn_check_read(r->site, "optimizer_restore", r->state, name))
        return NULL;
    if (!source)
        fail_format(r, name, "is missing");
    else if (!nn_same_shape(source, r->opt->params[i]))
        tern_fail_at(r->site, TERN_ERR_STATE, "optimizer_restore",
                     "%s: '%s' has another shape than its parameter\n    there      %s\n"
                     "    parameter  %s",
                     tern_state_source(r->state), name, nn_summary(source, there, sizeof there),
                     nn_summary(r->opt->params[i], here, sizeof here));
    else if (!tern_dtype_is_float(tern_dtype(source)))
        fail_format(r, name, "is not a float");
    return tern_failed() ? NULL : copy_state(r, source, r->opt->params[i]);
}

/* A parameter has all of its state there or none. What its options do not need now (a momentum that is 0 in
 * this step of a cycle) is read where it is there. */
static void read_slot(restore *r, int64_t i)
{
    const nn_kind *kind = r->opt->kind;
    const char *param = r->opt->names[i];
    nn_slot *slot = &r->slots[i];
    slot->group = r->opt->slots[i].group;
    char *name = state_name(r->site, r->prefix, param, kind->state_names[0]);
    const bool there = name && nn_is_stored(r->state, name);
    free(name);
    if (!there)
        return;
    for (int s = 0; s < kind->states && !tern_failed(); s++) {
        name = state_name(r->site, r->prefix, param, kind->state_names[s]);
        if (name &&
            (kind->has_state(&r->options[slot->group], s) || nn_is_stored(r->state, name))) {
            r->used++;
            slot->state[s] = read_tensor(r, name, i);
        }
        free(name);
    }
    r->used += kind->counts_steps;
    slot->steps = 1;
    if (kind->counts_steps && !tern_failed())
        slot->steps = read_count(r, state_name(r->site, r->prefix, param, "step"));
    if (!tern_failed() && slot->steps < 1)
        fail_format(r, param, "has a number of steps below 1");
}

static int64_t count_names(const char *const *names, int64_t count, const char *start)
{
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++)
        found += !strncmp(names[i], start, strlen(start));
    return found;
}

/* State that belongs to no parameter means that names have changed: going on would lose it. So does one
 * that cannot be read. */
static void check_used(const restore *r)
{
    char *start = nn_join(r->site, r->prefix, NULL, "state.");
    if (!start)
        return;
    const tern_tensors_t all = tern_state_tensors(r->state);
    const tern_names_t unread = tern_state_unread(r->state);
    const int64_t there =
        count_names(all.names, all.count, start) + count_names(unread.names, unread.count, start);
    if (there != r->used)
        tern_fail_at(r->site, TERN_ERR_STATE, "optimizer_restore",
                     "%s: %lld entries of '%s' belong to no parameter of the optimizer",
                     tern_state_source(r->state), (long long)(there - r->used), start);
    free(start);
}

/* ---- restoring: doing it ---------------------------------------------------------------------- */

static void commit(const restore *r)
{
    tern_optimizer *opt = r->opt;
    for (int64_t i = 0; i < opt->group_count; i++)
        opt->groups[i].options = r->options[i];
    for (int64_t i = 0; i < opt->count; i++) {
        for (int s = 0; s < NN_STATES; s++) {
            tern_retain(r->slots[i].state[s]);
            tern_release(opt->slots[i].state[s]);
        }
        tern_release(opt->slots[i].count);
        opt->slots[i] = r->slots[i];
    }
}

static void run(restore *r, bool check_only)
{
    check_kind(r);
    for (int64_t i = 0; i < r->opt->group_count && !tern_failed(); i++)
        read_group(r, i);
    if (!tern_failed())
        check_group_count(r);
    for (int64_t i = 0; i < r->opt->count && !tern_failed(); i++)
        read_slot(r, i);
    if (!tern_failed())
        check_used(r);
    if (!tern_failed() && !check_only)
        commit(r);
}

tern_status_t tern_optimizer_restore_at(tern_site_t site, tern_optimizer *opt,
                                        const tern_state *state, const char *prefix,
                                        bool check_only)
{
    if (!check_objects(site, "optimizer_restore", opt, state))
        return tern_error_code();
    restore r = { site, opt, state, prefix, NULL, NULL, 0 };
    r.options = nn_alloc(site, "optimizer_restore", opt->group_count, sizeof *r.options);
    r.slots = nn_alloc(site, "optimizer_restore", opt->count, sizeof *r.slots);
    if (r.options && r.slots) {
        nn_frame frame = nn_enter(site);
        const bool recording = tern_set_grad_enabled(false);
        const char *outer = tern_calling_begin("optimizer_restore");
        run(&r, check_only);
        tern_calling_end(outer);
        tern_set_grad_enabled(recording);
        nn_leave(&frame);
    }
    free(r.options);
    free(r.slots);
    return tern_error_code();
}
