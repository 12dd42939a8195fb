/* The tape: a counted graph of nodes.
 *
 * A node stands for one recorded call. It is owned by the outputs that point to it and by the nodes
 * behind it; it owns its edges (producing node, or leaf), what was saved and a copy of the attributes.
 * A saved output is an alias without history, so a node never keeps itself alive. One pool object
 * holds a whole node: header, edges, saved, view of input 0 (where backward needs its shape), attrs. */
#ifndef TERN_AUTOGRAD_NODE_H
#define TERN_AUTOGRAD_NODE_H

#include "core/call.h"
#include "core/error.h"
#include "core/tape.h"

typedef struct core_edge {
    struct core_node *node; /* the producer; NULL: a leaf or nothing */
    tern_tensor *leaf;      /* gets the gradient when node is NULL; NULL: input needs none */
    uint8_t output;         /* which output of `node` */
    uint16_t stream;        /* of the first edge: where the node's own call ran */
} core_edge;
/* A core_edge.stream is a number of core/stream.h, or: */
enum { STREAM_NONE = UINT16_MAX /* only the CPU took part */ };

typedef struct core_saved {
    tern_tensor *tensor; /* NULL: an optional input that was not given */
    uint32_t version;    /* of its storage when it was saved */
    uint8_t place;       /* i: input i; SAVED_OUTPUT + j: output j; SAVED_USER + k: tern_save */
    uint8_t edge;        /* the input that it is; at least n_in: none */
    bool packed;         /* the tensor is there only while the node's backward function runs */
    uint32_t slot;       /* packed: its number in the node's checkpoint */
} core_saved;
/* SAVED_AUTOCAST: no tensor; the setting in which a user's forward ran is in `version` */
enum { SAVED_OUTPUT = 32, SAVED_USER = 64, SAVED_AUTOCAST = 128, MAX_USER_SAVED = 16 };
enum { MAX_ATTR = 320 }; /* bytes, of an op of a user's own */

typedef struct core_hook {
    struct core_hook *next;
    tern_grad_hook hook; /* one of the two is set */
    tern_accumulated_hook accumulated;
    void *user;
    tern_tensor *alias; /* what the hook is told; for nodes only, owned; leaves pass themselves */
    uint8_t output;
} core_hook;
struct core_hooks {
    core_hook *first;
    int32_t pending; /* leaves: deliveries that the running backward still owes */
    uint64_t epoch;
    tern_tensor *sum; /* leaves: of what it has delivered, owned */
};

typedef struct core_node {
    _Atomic uint32_t refs;
    uint16_t bytes;
    uint8_t n_in, n_saved;
    bool released;  /* what was saved is gone: a second backward is an error */
    uint8_t wanted; /* bit i: the running backward wants the gradient of input i */
    uint8_t leaves; /* of these, the inputs that are leaves */
    uint8_t n_out;
    int32_t pending; /* of the running backward: consumers that have not delivered */
    uint64_t epoch;  /* the backward that counted it */
    const tern_op *op;
    tern_site_t site;
    struct core_node *link; /* work lists of the engine, release list */
    tern_tensor *grad[CORE_MAX_OUTPUTS];
    struct core_hooks *hooks;
    struct core_checkpoint *checkpoint; /* that holds some of what is saved; owned; else NULL */
    core_saved *saved;
    tern_view *first;  /* geometry of input 0, NULL where backward does not ask */
    void *attr;        /* behind it, up to `bytes`, autograd_shapes_of */
    core_edge edges[]; /* n_in: here, not behind a pointer, since backward goes from edge to edge */
} core_node;

struct tern_op_ctx {
    tern_thread *self;
    core_node *node; /* in backward */
    const void *attr;
    bool in_forward;
    bool keeps;     /* the graph stays after this backward */
    uint8_t wanted; /* in forward: inputs whose gradients a backward will want */
    int n_user;     /* tern_save so far */
    tern_tensor *user[MAX_USER_SAVED];
};

/* Records the error of a question that the context, or none, cannot answer; NULL. */
void *autograd_no_answer(const tern_op_ctx *ctx, const char *what);

/* Records the error of a backward function that asks for the i-th of `count`; NULL. */
void *autograd_no_such_saved(const tern_op_ctx *ctx, const char *who, int i, int count);

/* The i-th of what an op with a rule saves, inputs before outputs; an error past the last. */
tern_tensor *autograd_saved_of_row(tern_op_ctx *ctx, int i);

/* i takes the places of the bits that are set, lowest first. */
#define FOR_BITS(i, set)                                                                      \
    for (uint32_t bits_ = (set), i; bits_ != 0 && (i = (uint32_t)__builtin_ctz(bits_), true); \
         bits_ &= bits_ - 1)

/* A node for a call, edges filled from its inputs, nothing saved yet. NULL without memory, recorded. */
core_node *autograd_node_new(core_call *call, int n_saved);
/* Takes over t's reference. In a checkpoint's forward t becomes one of its slots. `edge`: which input
 * it is, NO_EDGE or EDGE_OUTPUT: none. False after an error. */
bool autograd_node_save(tern_thread *self, core_node *node, tern_tensor *t, uint8_t place,
                        uint8_t edge);
enum {
    NO_EDGE = UINT8_MAX,
    EDGE_OUTPUT = NO_EDGE - 1
}; /* the latter: output 0, saved by tern_save */
void autograd_checkpoint_leave(tern_thread *self, core_node *node);
/* Ops of a user's own: the shapes of inputs after the first, behind the attributes (shapes.c). */
enum { AUTOGRAD_MOST_SHAPES = (CORE_MAX_INPUTS - 1) * (TERN_MAX_DIMS + 1) * 8 };
size_t autograd_shapes_bytes(const core_call *call);
void autograd_shapes_fill(const core_call *call, char *to);
static inline char *autograd_shapes_of(const core_node *node)
{
    return (char *)node->attr + ((node->op->attr_size + 7) & ~(size_t)7);
}
/* A node for a call with all that its row saves; NULL without memory, recorded. */
core_node *autograd_node_of(core_call *call);
/* Lets go of a node that nothing points to. */
void autograd_node_abandon(tern_thread *self, core_node *node);
/* Points the call's outputs to the node. */
void autograd_node_attach(core_call *call, core_node *node);
/* Lets go of what was saved. */
static inline void autograd_node_release_saved(tern_thread *self, core_node *node)
{
    const int n = node->n_saved;
    if (n == 0)
        return;
    if (__builtin_expect(node->checkpoint != NULL, 0))
        autograd_checkpoint_leave(self, node);
    node->n_saved = 0;
    node->released = true;
    for (core_saved *saved = node->saved, *end = saved + n; saved < end; saved++)
        if (saved->tensor != NULL)
            core_release(self, saved->tensor);
}

/* Does one reference to the tensor exist, and one to its memory, which is not the user's and no other
 * stream's? */
static inline bool autograd_exclusive(const tern_tensor *t)
{
    return atomic_load_explicit(&t->refs, memory_order_relaxed) == 1 && t->base == NULL &&
           atomic_load_explicit(&t->storage->refs, memory_order_relaxed) == 1 &&
           t->storage->release == NULL && !t->storage->crossed;
}

/* May x be combined with t in t's memory? */
static inline bool autograd_takes(const tern_tensor *t, const tern_tensor *x)
{
    return autograd_exclusive(t) && (t->view.flags & TERN_VIEW_DENSE) &&
           t->view.dtype == x->view.dtype &&
           core_dev_word(t->view.dev) == core_dev_word(x->view.dev) &&
           core_view_same_shape(&t->view, &x->view);
}

static inline void autograd_node_retain(core_node *node)
{
    atomic_fetch_add_explicit(&node->refs, 1, memory_order_relaxed);
}

#endif
