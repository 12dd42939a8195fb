/* Gradients: the tape, backward, hooks, ops of one's own.
 *
 * An op whose input requires a gradient is recorded while grad mode is on. tern_backward walks the
 * record from a result back to the leaves, adds gradients into them and frees what was saved at its
 * last use. Gradients live where their tensor lives. */
#ifndef TERN_AUTOGRAD_H
#define TERN_AUTOGRAD_H

#include "tern/base.h"
#include "tern/ops.h"
#include "tern/plugin.h"
#include "tern/tensor.h"

/* clang-format off */

#ifdef __cplusplus
extern "C" {
#endif

/* True for a leaf that was asked to, and for what was recorded of one; false for NULL. */
TERN_API bool tern_requires_grad(const tern_tensor *t);
/* Leaves only (tensors that no recorded op made), floats only. Returns t. */
TERN_API tern_tensor *tern_set_requires_grad_at(tern_site_t site, tern_tensor *t, bool on);
#define tern_set_requires_grad(t, on) tern_set_requires_grad_at(TERN_HERE, t, on)
/* True for a tensor that no recorded op made, whether it requires a gradient or not. */
TERN_API bool tern_is_leaf(const tern_tensor *t);

/* The gradient of a leaf, borrowed until it is cleared (tern_zero_grad), set or replaced; NULL when there is none. A
 * tensor that is no leaf, such as the copy of one on a device, has none: the error of what is done with that NULL says
 * so. */
TERN_API tern_tensor *tern_grad_of(tern_tensor *t);
/* Makes `grad` (same shape, dtype, device; may be a view of a larger buffer; NULL: none) the gradient
 * of a leaf; backward adds into it. */
TERN_API tern_status_t tern_set_grad_at(tern_site_t site, tern_tensor *t, tern_tensor *grad);
#define tern_set_grad(t, grad) tern_set_grad_at(TERN_HERE, t, grad)

typedef struct tern_backward_args {
    size_t size_;
    tern_tensor *root;
    tern_tensor *gradient; /* default: 1, for a root of one element */
    bool retain_graph;     /* keep what was saved, so that backward can be called again */
    bool create_graph;     /* record backward itself; implies retain_graph. A leaf's gradient then holds the graph that
                            * holds the leaf, until it is set to NULL */
} tern_backward_args;
/* Adds the gradients of `root` into those of the leaves that it was made of; saved tensors are let go of
 * unless retain_graph says otherwise. An error (TERN_ERR_GRAD) when root records nothing, has more than one
 * element and no `gradient`, or a tensor that backward needs was changed in place, or a leaf that was frozen and then
 * changed with a record. Leaves may have got a part of
 * what they would have then. Threads may go backward at once where they share no leaf: adding to one leaf's
 * gradient at once loses some (PyTorch locks it). One thread at a time walks a graph, or a part that graphs have in
 * common, by this call or by tern_grad: what a walk counts and collects lies in the nodes, so two at once give wrong
 * gradients, without an error (PyTorch's walks count apart). */
TERN_API tern_status_t tern_backward_at(tern_site_t site, const tern_backward_args *args);
#define tern_backward(...) \
    tern_backward_at(TERN_HERE, TERN_OPTIONS_(tern_backward_args, __VA_ARGS__))

/* Gradients of `root` with respect to `inputs` (leaves or not), into out_grads, as new tensors of the
 * scope; nothing is added to any leaf, and only what leads to inputs runs. An input that root does not
 * depend on gives NULL when allow_unused is set, else an error. One thread at a time walks a graph, as with
 * tern_backward: roots with a part in common need a lock of the program's. */
typedef struct tern_grad_args {
    size_t size_;
    tern_tensor *root;
    tern_tensor *const *inputs;
    int64_t count;
    tern_tensor **out_grads;
    tern_tensor *gradient;
    bool retain_graph, create_graph, allow_unused;
} tern_grad_args;
TERN_API tern_status_t tern_grad_at(tern_site_t site, const tern_grad_args *args);
#define tern_grad(...) tern_grad_at(TERN_HERE, TERN_OPTIONS_(tern_grad_args, __VA_ARGS__))

/* Are ops of the calling thread recorded? True at first. */
TERN_API bool tern_grad_enabled(void);
/* Per thread; returns the previous setting. */
TERN_API bool tern_set_grad_enabled(bool on);
static inline void tern_grad_restore_(bool *previous) { tern_set_grad_enabled(*previous); }
#if defined(__GNUC__)
/* To the end of the block nothing is recorded. */
#define TERN_NO_GRAD                                                                       \
    bool TERN_JOIN(tern_no_grad_, __LINE__) __attribute__((cleanup(tern_grad_restore_), unused)) = \
        tern_set_grad_enabled(false)
#endif

/* While it is on, every gradient that a node of a backward hands on is looked at, and the first NaN is an
 * error (TERN_ERR_GRAD) that names the op and the line of its forward. Slow: each is read. Per thread;
 * returns the previous setting. */
TERN_API bool tern_set_anomaly(bool on);
TERN_API bool tern_anomaly_enabled(void);
static inline void tern_anomaly_restore_(bool *previous) { tern_set_anomaly(*previous); }
#if defined(__GNUC__)
/* To the end of the block gradients are looked at. */
#define TERN_ANOMALY                                                                       \
    bool TERN_JOIN(tern_anomaly_, __LINE__) __attribute__((cleanup(tern_anomaly_restore_), unused)) = \
        tern_set_anomaly(true)
#endif

/* Called once per backward with the whole gradient of `t` before it is used; may return another tensor of its
 * shape, dtype and device to use instead, or NULL to leave it. Lives as long as t. */
typedef tern_tensor *(*tern_grad_hook)(tern_tensor *t, tern_tensor *grad, void *user);
TERN_API tern_status_t tern_add_hook_at(tern_site_t site, tern_tensor *t, tern_grad_hook hook,
                                        void *user);
#define tern_add_hook(t, hook, user) tern_add_hook_at(TERN_HERE, t, hook, user)
/* Called once per backward when a leaf's gradient is complete. */
typedef void (*tern_accumulated_hook)(tern_tensor *leaf, void *user);
TERN_API tern_status_t tern_add_accumulated_hook_at(tern_site_t site, tern_tensor *leaf,
                                                    tern_accumulated_hook hook, void *user);
#define tern_add_accumulated_hook(leaf, hook, user) \
    tern_add_accumulated_hook_at(TERN_HERE, leaf, hook, user)

/* ---- ops ------------------------------------------------------------------------------------- */

/* What a forward or backward function of an op may ask. In backward, saved tensors are checked: one
 * that was changed in place since is an error that names the op and the site. */
typedef struct tern_op_ctx tern_op_ctx; /* NULL is an error, as is a question that forward cannot answer */
TERN_API void tern_save(tern_op_ctx *ctx, tern_tensor *t); /* forward only; retains t */
/* Backward: the i-th that tern_save was given, of an op with a rule the i-th that `save` and then `save_out`
 * name; borrowed. In grad mode inputs and the result have their history. An error where nothing was saved there;
 * NULL for what was not given, or is not needed (`save_cross`). */
TERN_API tern_tensor *tern_saved(tern_op_ctx *ctx, int i);
/* Is grad_in[input] wanted? In forward: will a backward want it? (No, where the call is not recorded.) */
TERN_API bool tern_needs_grad(const tern_op_ctx *ctx, int input);
/* The attribute struct given to tern_apply or to the op's call. */
TERN_API const void *tern_op_attr(const tern_op_ctx *ctx);
/* Backward: gradient of output i, NULL when nothing flowed into it (output 0 is the argument). */
TERN_API tern_tensor *tern_output_grad(tern_op_ctx *ctx, int i);

/* How autocast treats an op; one column for the CPU, one for CUDA and devices of other backends. An op
 * with a forward that says anything but NONE runs it with autocast off; one that says nothing runs it
 * as its caller does, and its backward with the setting that forward had. */
enum {
    TERN_CAST_NONE = 0, /* runs in the dtypes it gets */
    TERN_CAST_LOW,      /* inputs become the region's low dtype */
    TERN_CAST_F32,      /* inputs become f32 */
    TERN_CAST_DTYPE,    /* the same where input 0 is f16 or bf16 and no dtype argument was given */
    TERN_CAST_PROMOTE,  /* inputs meet in f32 where one is f32, else in the low dtype */
    TERN_CAST_BANNED    /* an error in a region: unsafe */
};

/* What a rule sees of a call: its inputs (borrowed; NULL: an optional one that is not given, or none) and the
 * attribute struct. A rule says what is wrong with them by tern_fail, and is false then, or makes every output. */
typedef struct tern_op_call tern_op_call;
TERN_API tern_tensor *tern_rule_input(const tern_op_call *call, int i);
TERN_API const void *tern_rule_attr(const tern_op_call *call);
/* Makes output i, row-major, on the device where the call runs; each once. False: recorded. */
TERN_API bool tern_rule_output(tern_op_call *call, int i, tern_dtype_t dtype, tern_shape_t shape);
/* What strides an op's kernels take; inputs that do not fit are copied before. */
enum {
    TERN_LAYOUT_STRIDED = 0,    /* any strides, also 0 */
    TERN_LAYOUT_CONTIGUOUS = 1, /* row-major */
    TERN_LAYOUT_IMAGE = 2       /* 4-D: row-major or channels_last, each on its own; others row-major */
};

/* An op: the row that core/ops.def fills for each op of the library, and users for theirs.
 * Either `forward` (an op made of other ops) or `rule` and kernels are set. Where a forward returns an input, or a view
 * of one, and the op is recorded, a change in place of the result, or of that memory before the result is used, is an
 * error, as in PyTorch: return a clone. */
struct tern_op {
    const char *name;
    uint8_t inputs;  /* how many, at most 8 */
    uint8_t outputs; /* with a rule; 0 means 1, 255 (of the library's rows alone) none. A forward has one */
    /* Runs the op in terms of other ops, grad mode off. Returns output 0. */
    tern_tensor *(*forward)(tern_op_ctx *ctx, tern_tensor **in);
    /* Sets grad_in[i] for each wanted input, on the input's device and in its shape, or in one that the input
     * can be expanded to: what it is repeated along is summed, as PyTorch does. Another dtype is cast; all
     * else is an error (TERN_ERR_GRAD). NULL: not differentiable. */
    void (*backward)(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in);
    /* Checks inputs and makes the outputs; false after recording an error. */
    bool (*rule)(tern_op_call *call);
    bool is_view;     /* output 0 shares input 0's storage: no kernel runs; the library's rows alone */
    uint16_t attr_size;
    uint8_t optional; /* bit i: input i may be NULL, but the first of an op with a rule */
    /* Up to `layout` of ops with a rule only; a forward saves by tern_save. */
    /* Bit i: the kernel writes input i, which has to fit `layout`. That is not recorded, so an input that requires a
     * gradient is written in TERN_NO_GRAD alone; autocast leaves it as it is. */
    uint8_t mutates;
    uint8_t save;     /* bit i: input i is saved for backward */
    uint8_t save_out; /* bit i: output i is saved, after the inputs */
    uint8_t save_cross; /* two-input products: each is saved only if the other needs a gradient */
    uint8_t layout;   /* TERN_LAYOUT_* */
    uint8_t frozen;   /* bit i: output i never requires a gradient (indices, masks, statistics) */
    uint8_t cast_cuda, cast_cpu;
    uint32_t dtypes;  /* bit d: kernels take input 0 in dtype d; what the others have is the rule's to check */
    double tolerance; /* largest relative error of an f32 result against double precision */
    tern_kernel kernels[TERN_KINDS]; /* ops of one's own; the library's are in the backends' tables */
    uint16_t id_;     /* place in ops.def; 0 for ops of one's own */
    const char *cast_advice; /* TERN_CAST_BANNED: what to use instead */
    uint32_t dtypes_cpu; /* bit d: the CPU's kernels alone take dtype d, which is not in `dtypes` */
    const char *names;   /* of the inputs, for errors: "x weight bias"; NULL: by number */
};

/* Applies an op of one's own to its `op->inputs` inputs, with a rule where the first of them lies. attr:
 * op->attr_size bytes; NULL: zeros. */
TERN_API tern_tensor *tern_apply_at(tern_site_t site, const tern_op *op, tern_tensor *const *in,
                                    const void *attr);
#define tern_apply(op, ...) \
    tern_apply_at(TERN_HERE, op, TERN_ARRAY_(tern_tensor *, __VA_ARGS__), NULL)

/* ---- checking -------------------------------------------------------------------------------- */

typedef tern_tensor *(*tern_gradcheck_fn)(tern_tensor *const *in, void *user);
typedef struct tern_gradcheck_args {
    size_t size_;
    tern_gradcheck_fn fn;        /* f64 tensors in, one tensor out; in a scope, also in owned mode */
    tern_tensor *const *inputs;  /* f64; those that require a gradient are checked: one at least */
    int64_t count;
    void *user;
    int order;   /* 1 (default): gradients; 2: gradients of gradients too */
    double step; /* default 1e-6 */
    double tolerance; /* default 1e-5, relative and absolute */
    /* Moves all elements of an input at once, along a random direction: two evaluations for each input
     * instead of two for each element, as torch.autograd.gradcheck(fast_mode=True). */
    bool fast_mode;
} tern_gradcheck_args;
/* Compares gradients with central differences. On disagreement the error names input, element, both
 * values; with fast_mode the input alone. */
TERN_API tern_status_t tern_gradcheck_at(tern_site_t site, const tern_gradcheck_args *args);
#define tern_gradcheck(...) \
    tern_gradcheck_at(TERN_HERE, TERN_OPTIONS_(tern_gradcheck_args, __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
