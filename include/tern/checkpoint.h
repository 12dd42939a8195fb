/* Checkpointing: a part of a model whose saved tensors are not kept but computed again in backward.
 * torch.utils.checkpoint's non-reentrant form: the graph is there from the start, so that tern_grad,
 * hooks, retain_graph, create_graph and checkpoints inside checkpoints work as without. */
#ifndef TERN_CHECKPOINT_H
#define TERN_CHECKPOINT_H

#include "tern/base.h"
#include "tern/nn.h"
#include "tern/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes one tensor of others; NULL after a failure. It is called once in forward and again when backward
 * first needs what it saved, and has to do the same each time. The second call is ended by a pending
 * error (TERN_ERR_STATE, "nothing more is needed") as soon as it has made what is needed; code that looks
 * at errors by itself can return NULL. */
typedef tern_tensor *(*tern_checkpoint_fn)(tern_tensor *const *in, int64_t count, void *user);

typedef struct tern_checkpoint_args {
    size_t size_;
    tern_checkpoint_fn fn;
    tern_tensor *const *inputs; /* kept for backward; an error there if one was changed in place */
    int64_t count;
    void *user;                  /* has to live as long as the graph, */
    void (*release)(void *user); /* which calls this at its end (NULL: nothing) */
    bool no_rng;                 /* do not draw the numbers of forward again; of the thread's own
                                    generator, that is: one that fn owns it has to wind back itself */
    bool no_early_stop;          /* run fn to its end */
    bool unchecked; /* do not compare shapes, dtypes and devices of what is computed again */
} tern_checkpoint_args;
/* fn's result. What else fn made is let go. The thread's random numbers, autocast setting and current streams are
 * those of forward when fn is called again, and stay for the caller as they were. While nothing is recorded this
 * is a call of fn. A different number of saved tensors, or other shapes, dtypes or devices, are an error
 * of backward. */
TERN_API tern_tensor *tern_checkpoint_at(tern_site_t site, const tern_checkpoint_args *args);
#define tern_checkpoint(...) \
    tern_checkpoint_at(TERN_HERE, TERN_OPTIONS_(tern_checkpoint_args, __VA_ARGS__))

/* tern_forward(m, x), checkpointed. m has to live until the graph is gone. */
TERN_API tern_tensor *tern_checkpoint_forward_at(tern_site_t site, tern_module *m, tern_tensor *x);
#define tern_checkpoint_forward(m, x) tern_checkpoint_forward_at(TERN_HERE, m, x)
/* A tern_sequential in segments of (number of modules) / segments, each but the last checkpointed. */
TERN_API tern_tensor *tern_checkpoint_sequential_at(tern_site_t site, tern_module *sequential,
                                                    int64_t segments, tern_tensor *x);
#define tern_checkpoint_sequential(sequential, segments, x) \
    tern_checkpoint_sequential_at(TERN_HERE, sequential, segments, x)

#ifdef __cplusplus
}
#endif
#endif
