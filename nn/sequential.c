/* Modules one after the other. */
#include <stdio.h>

#include "nn/internal.h"

/* What a child made is let go as soon as the next one has used it, so that evaluation holds two
 * activations at a time; those that the tape saved stay with the tape. */
tern_tensor *nn_forward_range(tern_module *sequential, int64_t from, int64_t to, tern_tensor *x)
{
    tern_tensor *y = x;
    for (int64_t i = from; i < to && y; i++) {
        tern_tensor *next = tern_forward(sequential->members_->children[i].module, y);
        if (y != x && y != next && tern_in_scope(y))
            tern_drop(y);
        y = next;
    }
    return y;
}

static tern_tensor *forward(tern_module *self, tern_tensor *x)
{
    return nn_forward_range(self, 0, self->members_->child_count, x);
}

bool nn_is_sequential(const tern_module *m)
{
    return m->forward == forward;
}

enum { NUMBER_BYTES = 24 };

/* The next number that no child has for its name. */
static void next_number(tern_module *sequential, char number[NUMBER_BYTES])
{
    int64_t next = sequential->members_->child_count;
    do
        (void)snprintf(number, NUMBER_BYTES, "%lld", (long long)next++);
    while (nn_find_child(sequential, number));
}

static tern_module *add(tern_site_t site, const char *what, tern_module *sequential,
                        const char *name, tern_module *module)
{
    if (!nn_module_check(site, what, sequential))
        return NULL;
    if (sequential->forward != forward) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the module is a %s", sequential->type);
        return NULL;
    }
    char number[NUMBER_BYTES];
    if (!name)
        next_number(sequential, number);
    else if (nn_find_child(sequential, name))
        tern_fail_at(
            site, TERN_ERR_ARGUMENT, what,
            "there is a child '%s'\n  try tern_module_add_child to put another in its place", name);
    if (!module)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "child '%s' is NULL", name ? name : number);
    return tern_failed() ? NULL
                         : tern_module_add_child_at(site, sequential, name ? name : number, module);
}

tern_module *tern_sequential_add_at(tern_site_t site, tern_module *sequential, const char *name,
                                    tern_module *module)
{
    return add(site, "sequential_add", sequential, name, module);
}

tern_module *tern_sequential_at(tern_site_t site, tern_module *const *modules, int64_t count)
{
    nn_frame frame = nn_layer_begin(site, "sequential");
    tern_module *m = tern_module_create_at(site, sizeof *m, "sequential", forward);
    if (m && count > 0 && !modules)
        tern_fail_at(site, TERN_ERR_ARGUMENT, "sequential", "the list of modules is NULL");
    for (int64_t i = 0; m && !tern_failed() && i < count; i++)
        add(site, "sequential", m, NULL, modules[i]);
    if (m && tern_failed())
        nn_module_let_go(m);
    return nn_layer_done(&frame, m);
}
