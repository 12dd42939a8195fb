/* Checkpoints: functions that run again in backward. See autograd/checkpoint.h. */
#include "autograd/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/autocast.h"
#include "core/option.h"

typedef struct slot {
    tern_tensor *tensor; /* owned; NULL until computed again, and after it was used */
    uint32_t version;    /* of its storage when it was saved */
    bool live;           /* somebody may ask for it */
    uint8_t dtype, ndim;
    tern_dev_t dev;
    int64_t dims[TERN_MAX_DIMS];
} slot;

typedef struct input {
    tern_tensor *tensor; /* owned; NULL: a slot of the outer checkpoint */
    uint32_t version, outer_slot;
} input;

typedef struct core_checkpoint {
    _Atomic uint32_t refs; /* of nodes, of checkpoints inside it, of the running call */
    tern_checkpoint_args args;
    tern_site_t site;
    input *inputs;
    struct core_checkpoint *outer; /* owned; NULL: none */
    slot *slots;
    uint32_t count, capacity;
    bool complete; /* forward has ended: count is final */
    uint64_t epoch;
    struct tern_generator generator;
    uint32_t autocast;
    uint16_t streams[TERN_KINDS][CORE_MAX_DEVICES]; /* forward's current ones */
} core_checkpoint;

static uint32_t version_of(const tern_tensor *t)
{
    return atomic_load_explicit(&t->storage->version, memory_order_relaxed);
}

/* ---- life ---------------------------------------------------------------------------------------- */

static void drop_slot(tern_thread *self, slot *s)
{
    tern_tensor *t = s->tensor;
    s->tensor = NULL;
    if (t != NULL)
        core_release(self, t);
}

static void release(tern_thread *self, core_checkpoint *c)
{
    if (atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (int64_t i = 0; i < c->args.count; i++) {
        if (c->inputs[i].tensor != NULL)
            core_release(self, c->inputs[i].tensor);
        else if (c->outer != NULL) {
            c->outer->slots[c->inputs[i].outer_slot].live = false;
            drop_slot(self, &c->outer->slots[c->inputs[i].outer_slot]);
        }
    }
    for (uint32_t k = 0; k < c->count; k++)
        drop_slot(self, &c->slots[k]);
    if (c->outer != NULL)
        release(self, c->outer);
    if (c->args.release != NULL)
        c->args.release(c->args.user);
    free(c->slots);
    free(c->inputs);
    free(c);
}

static core_checkpoint *retain(core_checkpoint *c)
{
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

static bool no_memory(tern_thread *self, tern_site_t site)
{
    core_error(self, site, TERN_ERR_OOM, "checkpoint", "no host memory for a checkpoint");
    return false;
}

/* Inputs are kept here, or are slots of the checkpoint whose forward is running. */
static bool keep_inputs(tern_thread *self, core_checkpoint *c)
{
    const struct core_checkpoint_mode *mode = self->checkpoint;
    const bool inside = mode != NULL && !mode->again;
    for (int64_t i = 0; i < c->args.count; i++) {
        tern_tensor *t = c->args.inputs[i];
        uint32_t number = 0;
        if (mode != NULL && !autograd_checkpoint_pack(self, t, &number))
            return false;
        c->inputs[i].tensor = inside ? NULL : core_retain(t);
        c->inputs[i].version = version_of(t);
        c->inputs[i].outer_slot = number;
        if (inside && c->outer == NULL)
            c->outer = retain(mode->checkpoint);
    }
    return self->error_code == TERN_OK;
}

static core_checkpoint *create(tern_thread *self, tern_site_t site,
                               const tern_checkpoint_args *args)
{
    core_checkpoint *c = core_fault() ? NULL : calloc(1, sizeof *c);
    if (c != NULL)
        c->inputs = calloc((size_t)args->count + 1, sizeof *c->inputs);
    if (c == NULL || c->inputs == NULL) {
        free(c);
        no_memory(self, site);
        return NULL;
    }
    atomic_store_explicit(&c->refs, 1, memory_order_relaxed);
    c->args = *args;
    c->site = site;
    c->generator = self->generator;
    c->autocast = core_autocast_state(self);
    memcpy(c->streams, self->streams, sizeof c->streams);
    if (keep_inputs(self, c))
        return c;
    c->args.count = 0; /* inputs that were not reached hold nothing */
    for (int64_t i = 0; i < args->count; i++)
        if (c->inputs[i].tensor != NULL)
            core_release(self, c->inputs[i].tensor);
    c->args.release = NULL;
    release(self, c);
    return NULL;
}

/* ---- saving -------------------------------------------------------------------------------------- */

static bool note(tern_thread *self, core_checkpoint *c, const tern_tensor *t)
{
    if (c->count == c->capacity) {
        const uint32_t capacity = c->capacity == 0 ? 16 : 2 * c->capacity;
        slot *slots = core_fault() ? NULL : realloc(c->slots, capacity * sizeof *slots);
        if (slots == NULL)
            return no_memory(self, c->site);
        c->slots = slots;
        c->capacity = capacity;
    }
    slot *s = &c->slots[c->count++];
    *s = (slot){ .live = true, .dtype = t->view.dtype, .ndim = t->view.ndim, .dev = t->view.dev };
    memcpy(s->dims, t->view.shape, sizeof s->dims[0] * t->view.ndim);
    return true;
}

static bool fits(const slot *s, const tern_view *v)
{
    return s->dtype == v->dtype && s->ndim == v->ndim && tern_dev_equal(s->dev, v->dev) &&
           memcmp(s->dims, v->shape, sizeof s->dims[0] * v->ndim) == 0;
}

static bool differs(tern_thread *self, const core_checkpoint *c, uint32_t k, const tern_view *v)
{
    char a[160], b[160], x[TERN_DEV_NAME_BYTES], y[TERN_DEV_NAME_BYTES];
    const slot *s = &c->slots[k];
    core_error(self, c->site, TERN_ERR_GRAD, "checkpoint",
               "saved tensor %u is %s %s on %s when it is computed again, and was %s %s on %s\n"
               "  try a function that does the same each time it is called",
               k, tern_dtype_name((tern_dtype_t)v->dtype),
               core_shape_text(v->ndim, v->shape, a, sizeof a), tern_dev_name(v->dev, x),
               tern_dtype_name((tern_dtype_t)s->dtype),
               core_shape_text(s->ndim, s->dims, b, sizeof b), tern_dev_name(s->dev, y));
    return false;
}

/* From here on calls return NULL, as after an error. */
static void stop(tern_thread *self, struct core_checkpoint_mode *mode)
{
    mode->stopped = true;
    self->error_code = TERN_ERR_STATE;
    self->error_site = mode->checkpoint->site;
    (void)snprintf(self->error_text, sizeof self->error_text,
                   "checkpoint: nothing more is needed\n");
}

static bool put(tern_thread *self, struct core_checkpoint_mode *mode, tern_tensor *t)
{
    core_checkpoint *c = mode->checkpoint;
    const uint32_t k = mode->next;
    if (k >= c->count)
        return true; /* counted, and complained about at the end */
    slot *s = &c->slots[k];
    if (!c->args.unchecked && !fits(s, &t->view))
        return differs(self, c, k, &t->view);
    if (s->live) {
        /* without the history of this run, which would keep all of it alive */
        s->tensor = t->node == NULL ? core_retain(t) : core_tensor_alias(self, t->site, t);
        if (s->tensor == NULL)
            return false;
        if (t->node != NULL)
            s->tensor->requires_grad = true;
        s->version = version_of(t);
    }
    return true;
}

bool autograd_checkpoint_pack(tern_thread *self, tern_tensor *t, uint32_t *out_slot)
{
    struct core_checkpoint_mode *mode = self->checkpoint;
    core_checkpoint *c = mode->checkpoint;
    *out_slot = mode->next;
    if (!mode->again ? !note(self, c, t) : !put(self, mode, t))
        return false;
    mode->next++;
    if (mode->again && mode->next == c->count && !c->args.no_early_stop)
        stop(self, mode);
    return true;
}

void autograd_checkpoint_ahead(tern_thread *self)
{
    const struct core_checkpoint_mode *mode = self->checkpoint;
    const core_checkpoint *c = mode->checkpoint;
    if (mode->again && mode->next > 0 && mode->next <= c->count)
        c->slots[mode->next - 1].version++;
}

/* ---- running ------------------------------------------------------------------------------------- */

/* fn in a scope of its own; its result, if it is the scope's, is retained for the caller. */
static tern_tensor *run(tern_thread *self, const core_checkpoint *c, tern_tensor *const *in,
                        struct core_checkpoint_mode *mode)
{
    struct core_checkpoint_mode *outer = self->checkpoint;
    const bool owned_mode = self->owned_mode;
    tern_scope scope = tern_scope_begin();
    self->checkpoint = mode;
    self->owned_mode = false;
    tern_tensor *y = c->args.fn(in, c->args.count, c->args.user);
    self->checkpoint = outer;
    if (self->error_code != TERN_OK)
        y = NULL;
    if (y != NULL)
        core_retain(y);
    tern_scope_end(&scope);
    self->owned_mode = owned_mode;
    return y;
}

static tern_tensor *take(tern_thread *self, core_checkpoint *c, uint32_t k, uint64_t epoch);

/* Owned by the caller, NULL after an error. */
static tern_tensor *input_again(tern_thread *self, core_checkpoint *c, int64_t i, uint64_t epoch)
{
    const input *in = &c->inputs[i];
    if (in->tensor == NULL)
        return take(self, c->outer, in->outer_slot, epoch);
    if (version_of(in->tensor) == in->version)
        return core_retain(in->tensor);
    core_error(self, c->site, TERN_ERR_GRAD, "checkpoint",
               "input %lld was changed in place after forward, and is needed to compute again\n"
               "  try the form of that change that makes a new tensor, or change a clone",
               (long long)i);
    return NULL;
}

static bool check_count(tern_thread *self, const core_checkpoint *c, uint32_t found)
{
    if (found == c->count || (!c->complete && found > c->count))
        return true;
    core_error(self, c->site, TERN_ERR_GRAD, "checkpoint",
               "forward saved %u tensors, the second run %u\n"
               "  try a function that does the same each time it is called",
               c->count, found);
    return false;
}

/* The second run, in the setting of the first; the thread's own comes back after it. */
static bool run_again(tern_thread *self, core_checkpoint *c, tern_tensor *const *in)
{
    struct core_checkpoint_mode mode = { .checkpoint = c, .again = true };
    const struct tern_generator generator = self->generator;
    const bool grad_mode = self->grad_mode, in_backward = self->in_backward;
    const tern_site_t site = self->site;
    uint16_t streams[TERN_KINDS][CORE_MAX_DEVICES];
    memcpy(streams, self->streams, sizeof streams);
    memcpy(self->streams, c->streams, sizeof streams);
    if (!c->args.no_rng)
        self->generator = c->generator;
    const uint32_t autocast = core_autocast_replay_begin(self, c->autocast);
    self->grad_mode = true;
    self->in_backward = false;
    self->site = NULL;
    tern_tensor *y = run(self, c, in, &mode);
    if (mode.stopped)
        tern_error_clear();
    if (y != NULL)
        core_release(self, y);
    self->site = site;
    self->in_backward = in_backward;
    self->grad_mode = grad_mode;
    core_autocast_replay_end(self, autocast);
    if (!c->args.no_rng)
        self->generator = generator;
    memcpy(self->streams, streams, sizeof streams);
    return self->error_code == TERN_OK && (mode.stopped || check_count(self, c, mode.next));
}

static bool compute_again(tern_thread *self, core_checkpoint *c, uint64_t epoch)
{
    for (uint32_t k = 0; k < c->count; k++)
        drop_slot(self, &c->slots[k]);
    c->epoch = epoch;
    tern_tensor **in =
        core_fault() ? NULL : calloc((size_t)c->args.count + 1, sizeof(tern_tensor *));
    if (in == NULL)
        return no_memory(self, c->site);
    bool ok = true;
    for (int64_t i = 0; i < c->args.count && ok; i++) {
        in[i] = input_again(self, c, i, epoch);
        ok = in[i] != NULL;
    }
    ok = ok && run_again(self, c, in);
    for (int64_t i = 0; i < c->args.count; i++)
        if (in[i] != NULL)
            core_release(self, in[i]);
    free(in);
    return ok;
}

/* What slot k holds, which is then empty: the caller owns it. NULL after an error. */
static tern_tensor *take(tern_thread *self, core_checkpoint *c, uint32_t k, uint64_t epoch)
{
    if ((c->epoch != epoch || c->slots[k].tensor == NULL) && !compute_again(self, c, epoch))
        return NULL;
    tern_tensor *t = c->slots[k].tensor;
    c->slots[k].tensor = NULL;
    return t;
}

/* ---- nodes --------------------------------------------------------------------------------------- */

/* A saved input leads back to where the node's own edge leads; others have no history. */
static tern_tensor *linked(tern_thread *self, const core_node *node, const core_saved *saved,
                           tern_tensor *t)
{
    const core_edge *edge = saved->edge < node->n_in ? &node->edges[saved->edge] : NULL;
    if (edge != NULL && edge->leaf != NULL && edge->leaf->storage == t->storage) {
        core_release(self, t);
        return core_retain(edge->leaf);
    }
    if (t->node == NULL && !t->requires_grad && (edge == NULL || edge->node == NULL))
        return t;
    tern_tensor *alias = core_tensor_alias(self, t->site, t);
    core_release(self, t);
    if (alias == NULL || edge == NULL || edge->node == NULL)
        return alias;
    autograd_node_retain(edge->node);
    alias->node = edge->node;
    alias->output_index = edge->output;
    alias->requires_grad = true;
    return alias;
}

bool autograd_checkpoint_fill(tern_thread *self, core_node *node, uint64_t epoch)
{
    core_checkpoint *c = node->checkpoint;
    for (int i = 0; i < node->n_saved; i++) {
        core_saved *saved = &node->saved[i];
        if (!saved->packed || saved->tensor != NULL)
            continue;
        tern_tensor *t = take(self, c, saved->slot, epoch);
        if (t != NULL)
            t = linked(self, node, saved, t);
        if (t == NULL)
            return false;
        saved->tensor = t;
        saved->version = c->slots[saved->slot].version;
    }
    return true;
}

void autograd_checkpoint_empty(tern_thread *self, core_node *node)
{
    for (int i = 0; i < node->n_saved; i++) {
        tern_tensor *t = node->saved[i].tensor;
        if (!node->saved[i].packed || t == NULL)
            continue;
        node->saved[i].tensor = NULL;
        core_release(self, t);
    }
}

void autograd_checkpoint_leave(tern_thread *self, core_node *node)
{
    core_checkpoint *c = node->checkpoint;
    node->checkpoint = NULL;
    for (int i = 0; i < node->n_saved; i++)
        if (node->saved[i].packed) {
            c->slots[node->saved[i].slot].live = false;
            drop_slot(self, &c->slots[node->saved[i].slot]);
        }
    release(self, c);
}

void autograd_checkpoint_join(tern_thread *self, core_node *node)
{
    if (node->checkpoint == NULL)
        node->checkpoint = retain(self->checkpoint->checkpoint);
}

/* ---- the call ------------------------------------------------------------------------------------ */

static bool check(tern_thread *self, tern_site_t site, const tern_checkpoint_args *args)
{
    if (self->error_code != TERN_OK)
        return false;
    bool given = args->fn != NULL && args->count >= 0 && (args->count == 0 || args->inputs != NULL);
    for (int64_t i = 0; given && i < args->count; i++)
        given = args->inputs[i] != NULL;
    if (!given)
        core_error(self, site, TERN_ERR_ARGUMENT, "checkpoint",
                   "the function or an input is NULL, or the count %lld is negative",
                   (long long)args->count);
    for (int64_t i = 0; given && i < args->count; i++)
        given = core_is_there(self, site, "checkpoint", args->inputs[i]);
    return given;
}

tern_tensor *tern_checkpoint_at(tern_site_t site, const tern_checkpoint_args *args)
{
    tern_thread *self = core_self();
    const tern_site_t here = core_site(self, site);
    args = core_options(args);
    if (!check(self, here, args)) {
        if (args->release != NULL)
            args->release(args->user);
        return NULL;
    }
    core_checkpoint *c = create(self, here, args);
    if (c == NULL) {
        if (args->release != NULL)
            args->release(args->user);
        return NULL;
    }
    struct core_checkpoint_mode mode = { .checkpoint = c };
    tern_tensor *y = run(self, c, args->inputs, self->grad_mode ? &mode : self->checkpoint);
    if (y == NULL && self->error_code == TERN_OK)
        core_error(self, here, TERN_ERR_STATE, "checkpoint", "the function returned NULL");
    c->complete = true;
    c->args.inputs = NULL; /* the caller's list */
    if (y != NULL && y->scope_slot < 0)
        y = core_scope_add(self, y);
    else if (y != NULL && !self->owned_mode)
        core_release(self, y); /* an input, or another scope's */
    release(self, c);
    return y;
}
