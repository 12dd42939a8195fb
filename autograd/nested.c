/* A backward inside a backward: hooks and backward functions may run one of their own, over nodes and leaves
 * that the outer one has counted. It keeps what it finds in them, and puts it back at its end. */
#include <stdlib.h>

#include "autograd/running.h"
#include "core/error.h"

struct kept_node {
    core_node *node, *link;
    uint64_t epoch;
    int32_t pending;
    uint8_t wanted, leaves;
    tern_tensor *grad[CORE_MAX_OUTPUTS];
};

struct kept_hooks {
    struct core_hooks *hooks;
    uint64_t epoch;
    int32_t pending;
    tern_tensor *sum;
};

/* Room for one more of `size` bytes each; NULL without memory, recorded. */
static void *with_room(const engine *e, void *list, int64_t count, int64_t *capacity, size_t size)
{
    if (count < *capacity)
        return list;
    const int64_t more = *capacity == 0 ? 16 : 2 * *capacity;
    void *larger = core_fault() ? NULL : realloc(list, (size_t)more * size);
    if (larger == NULL)
        core_error(e->self, e->self->site, TERN_ERR_OOM, "backward",
                   "no host memory for a backward inside another");
    else
        *capacity = more;
    return larger;
}

bool autograd_keep_node(engine *e, core_node *node)
{
    kept *k = &e->kept;
    struct kept_node *list =
        with_room(e, k->nodes, k->n_nodes, &k->node_capacity, sizeof *k->nodes);
    if (list == NULL)
        return false;
    k->nodes = list;
    struct kept_node *one = &list[k->n_nodes++];
    *one = (struct kept_node){ .node = node,
                               .link = node->link,
                               .epoch = node->epoch,
                               .pending = node->pending,
                               .wanted = node->wanted,
                               .leaves = node->leaves };
    for (int i = 0; i < node->n_out; i++) {
        one->grad[i] = node->grad[i];
        node->grad[i] = NULL;
    }
    return true;
}

bool autograd_keep_hooks(engine *e, struct core_hooks *hooks)
{
    kept *k = &e->kept;
    struct kept_hooks *list =
        with_room(e, k->hooks, k->n_hooks, &k->hooks_capacity, sizeof *k->hooks);
    if (list == NULL)
        return false;
    k->hooks = list;
    list[k->n_hooks++] = (struct kept_hooks){
        .hooks = hooks, .epoch = hooks->epoch, .pending = hooks->pending, .sum = hooks->sum
    };
    hooks->sum = NULL;
    return true;
}

void autograd_put_back(engine *e)
{
    kept *k = &e->kept;
    for (int64_t n = 0; n < k->n_nodes; n++) {
        const struct kept_node *one = &k->nodes[n];
        core_node *node = one->node;
        node->link = one->link;
        node->epoch = one->epoch;
        node->pending = one->pending;
        node->wanted = one->wanted;
        node->leaves = one->leaves;
        for (int i = 0; i < node->n_out; i++)
            node->grad[i] = one->grad[i];
    }
    for (int64_t n = 0; n < k->n_hooks; n++) {
        const struct kept_hooks *one = &k->hooks[n];
        one->hooks->epoch = one->epoch;
        one->hooks->pending = one->pending;
        one->hooks->sum = one->sum;
    }
    free(k->nodes);
    free(k->hooks);
}

bool autograd_runs_outside(const engine *e, const core_node *node)
{
    for (const engine *outer = e->outer; outer != NULL; outer = outer->outer)
        if (outer->ctx.node == node)
            return true;
    return false;
}
