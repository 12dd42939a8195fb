/* The one call record, and what rules, backward functions and public ops are written with.
 *
 * A public op fills a record and dispatches it:
 *
 *     tern_tensor *tern_softmax_at(tern_site_t site, tern_tensor *x, int dim)
 *     {
 *         tern_attr_dim attr = { .dim = dim };
 *         return core_op1(TERN_OP_softmax, site, &attr, x);
 *     }
 *
 * The dispatcher (core/dispatch.c) takes it through a fixed order: pending error, site, NULL and
 * device checks, autocast, rule (shapes, broadcast, promotion, outputs), dtype check, kernel, version
 * bump, tape. A rule validates and makes the outputs:
 *
 *     bool rule_softmax(core_call *call)
 *     {
 *         const tern_view *x = &call->in[0]->view;
 *         tern_attr_dim *attr = core_attr(call);
 *         if (!core_normalise_dim(call, &attr->dim, x->ndim)) return false;
 *         return core_out(call, 0, x->dtype, x->ndim, x->shape);
 *     }
 *
 * The dispatcher checks the dtype of input 0 against the row after the rule, which may have cast it.
 * Attributes are the caller's struct: a rule may normalise them; a recorded call keeps a copy. */
#ifndef TERN_CORE_CALL_H
#define TERN_CORE_CALL_H

#include <stddef.h>

#include "core/op_id.h"
#include "core/tensor.h"
#include "core/thread.h"
#include "tern/autograd.h"
#include "tern/op_attr.h"
#include "tern/ops.h"

enum { CORE_MAX_INPUTS = 8, CORE_MAX_OUTPUTS = 3, OUT_NONE = 255 };

/* What strides a row's kernels take. Inputs that do not fit are copied before the kernel. */
enum {
    LAYOUT_STRIDED = TERN_LAYOUT_STRIDED,
    LAYOUT_CONTIGUOUS = TERN_LAYOUT_CONTIGUOUS,
    LAYOUT_IMAGE = TERN_LAYOUT_IMAGE
};

#define B(i) (1u << (i))
#define DT_ALL 0x7FEu /* bits 1..10 */
#define DT_NUMBERS (DT_ALL & ~B(TERN_BOOL))
#define DT_WHOLE (DT_ALL & ~DT_FLOATS)
#define DT_FLOATS (B(TERN_F16) | B(TERN_BF16) | B(TERN_F32) | B(TERN_F64))

typedef struct tern_op_call {
    tern_thread *self;
    const tern_op *op;
    tern_site_t site;
    void *attr;
    tern_dev_t dev; /* where it runs: the inputs' device; creators set it */
    uint8_t n_in;
    uint8_t n_out;
    bool preset;   /* out[] was given by the caller (in place, copy): borrowed, not made */
    uint8_t owned; /* bit i: in[i] is a temporary of the record, released at its end */
    union {
        tern_tensor *in[CORE_MAX_INPUTS];
        const tern_view *in_views[CORE_MAX_INPUTS]; /* the same: a tensor begins with its view */
    };
    union {
        tern_tensor *out[CORE_MAX_OUTPUTS];
        const tern_view *out_views[CORE_MAX_OUTPUTS];
    };
} core_call;
_Static_assert(offsetof(tern_tensor, view) == 0, "a tensor's address is its view's");

/* Rows by id; [0] is empty. */
extern const tern_op core_op_table[TERN_OP_COUNT];

/* Runs a filled record. True: out[] holds the results (new ones have reference count 1 and belong to
 * nobody yet). False: the error is recorded and nothing is left over. Temporaries are released. */
bool core_dispatch(core_call *call);

/* What every record starts with; inputs and n_in are still to come. */
static inline void core_fill(core_call *call, tern_thread *self, tern_op_id id, tern_site_t site,
                             void *attr)
{
    const tern_op *op = &core_op_table[id];
    call->self = self;
    call->op = op;
    call->site = site;
    call->attr = attr;
    call->n_out = op->outputs == 0 ? 1 : op->outputs == OUT_NONE ? 0 : op->outputs;
    call->preset = false;
    call->owned = 0;
}

/* Lets go of the record's temporaries. */
static inline void core_release_owned(core_call *call)
{
    if (__builtin_expect(call->owned == 0, 1))
        return;
    for (int i = 0; i < call->n_in; i++)
        if (call->owned & B(i))
            core_release(call->self, call->in[i]);
    call->owned = 0;
}

/* Fill, dispatch, and hand output 0 (of core_opn: all n_out outputs) to the innermost scope.
 * Inputs may be NULL only where the row says optional. */
tern_tensor *core_op0(tern_op_id id, tern_site_t site, void *attr, tern_dev_t dev,
                      tern_dtype_t dtype, int ndim, const int64_t *dims);
tern_tensor *core_op1(tern_op_id id, tern_site_t site, void *attr, tern_tensor *a);
tern_tensor *core_op2(tern_op_id id, tern_site_t site, void *attr, tern_tensor *a, tern_tensor *b);
tern_tensor *core_op3(tern_op_id id, tern_site_t site, void *attr, tern_tensor *a, tern_tensor *b,
                      tern_tensor *c);
/* Outputs that are not wanted have a NULL entry in out (out itself may not be NULL unless the op has
 * no outputs). Returns false after an error; then all outputs are NULL. */
bool core_opn(tern_op_id id, tern_site_t site, void *attr, int n_in, tern_tensor *const *in,
              int n_out, tern_tensor ***out);
/* Runs a row with outputs given (fill, copy, arange into an existing tensor); in-place semantics. */
tern_status_t core_op_into(tern_op_id id, tern_site_t site, void *attr, tern_tensor *out,
                           tern_tensor *a);
/* In place: writes a, returns it (owned as before); NULL after an error. */
tern_tensor *core_op_inplace(tern_op_id id, tern_site_t site, void *attr, tern_tensor *a,
                             tern_tensor *b);
tern_tensor *core_op1_inplace(tern_op_id id, tern_site_t site, void *attr, tern_tensor *a);
/* The same for any number of inputs; in[0] is what is written. */
tern_tensor *core_opn_inplace(tern_op_id id, tern_site_t site, void *attr, int n_in,
                              tern_tensor *const *in);
/* The row's kernel on (t, x) in t's memory, for callers that know what the dispatcher would find: no
 * error is pending, both have one device, dtype (which the row takes) and shape, nothing is recorded,
 * and nobody else sees t's memory. t, or NULL after an error. */
tern_tensor *core_apply_ready(tern_thread *self, tern_op_id id, void *attr, tern_tensor *t,
                              tern_tensor *x);

/* ---- for rules ------------------------------------------------------------------------------- */

static inline void *core_attr(core_call *call)
{
    return call->attr;
}

/* Makes output i: row-major. False: no memory, or too many elements, recorded. No-op when outputs are preset. */
bool core_out(core_call *call, int i, tern_dtype_t dtype, int ndim, const int64_t *dims);
/* Output with t's shape and, when t is dense, t's strides. The other one: what is not small and row-major, and preset. */
bool core_out_like_other(core_call *call, int i, const tern_view *like, tern_dtype_t dtype);
static inline bool core_out_like(core_call *call, int i, const tern_view *like, tern_dtype_t dtype)
{
    if (__builtin_expect(call->preset || !(like->flags & TERN_VIEW_CONTIGUOUS), 0))
        return core_out_like_other(call, i, like, dtype);
    call->out[i] = core_tensor_new_like(call->self, call->site, call->dev, dtype, like);
    return __builtin_expect(call->out[i] != NULL, 1) || core_out_like_other(call, i, like, dtype);
}
/* Preset outputs: can the first be written: is it on the call's device, each element in a place of its own? */
bool core_check_destination(core_call *call);
/* Output with given strides (dense, in any order); not for outputs that are preset. */
bool core_out_strided(core_call *call, int i, tern_dtype_t dtype, int ndim, const int64_t *dims,
                      const int64_t *strides);
/* 4-D output, channels_last or row-major. */
bool core_out_image(core_call *call, int i, tern_dtype_t dtype, const int64_t dims[4],
                    bool channels_last);
/* View rows: output 0 shares in[0]'s storage at an element offset. */
bool core_out_view(core_call *call, int64_t offset, int ndim, const int64_t *dims,
                   const int64_t *strides);
/* Records "site: op: message", an operand table and returns false. `advice` may be NULL. */
bool core_fail(core_call *call, tern_status_t code, const char *advice, const char *format, ...)
    TERN_PRINTF(4, 5);
/* What errors call input i: the public function's parameter, or "input 2" of an op of one's own. The text is
 * in `out`. */
enum { CORE_OPERAND_BYTES = 40 };
const char *core_operand_name(const tern_op *op, int i, char out[CORE_OPERAND_BYTES]);
/* The error of an input that is NULL and may not be; returns false. */
bool core_missing_input(core_call *call, int i);
/* Input i was released before (core_tensor_is_gone). */
bool core_gone_input(core_call *call, int i);
/* The error of inputs that lie on different devices; returns false. */
bool core_mixed_devices(core_call *call);
/* Inputs that may not be NULL are not, all lie on one device (but for 0-dim CPU tensors in elementwise
 * rows); sets call->dev. The dispatcher's own check, for functions made of several calls. */
bool core_check_inputs(core_call *call);
/* Negative dims count from the end; an error names op and range. ndim 0 takes 0 and -1. */
bool core_normalise_dim(core_call *call, int32_t *dim, int ndim);
/* The shape in which operands meet; error when they do not. */
bool core_broadcast(core_call *call, const tern_view *a, const tern_view *b, int32_t *out_ndim,
                    int64_t *out_dims);
/* in[i] becomes `t`, whose reference the record takes over; false for NULL. */
bool core_replace_input(core_call *call, int i, tern_tensor *t);
/* Makes in[i] a (recorded) cast or expand of itself where it is not that already. */
bool core_cast_input(core_call *call, int i, tern_dtype_t dtype);
bool core_expand_input(core_call *call, int i, int ndim, const int64_t *dims);
/* Checks dtype of input i; the error lists what is accepted. */
bool core_check_dtype(core_call *call, int i, uint32_t accepted);
/* Has input i the dtype of input `as`? */
bool core_check_same_dtype(core_call *call, int i, int as);
/* Does anything that this call makes have to carry a gradient to input i? For save decisions. */
bool core_input_needs_grad(const core_call *call, int i);
#define core_view(call, i) (&(call)->in[i]->view)

/* ---- for backward functions (written with public ops; sites are inherited) --------------------- */

/* Saved inputs and outputs by their place in the row (not by order of saving). NULL for an optional
 * input that was not given; NULL too after recording an error for one changed in place. */
tern_tensor *core_saved_in(tern_op_ctx *ctx, int i);
tern_tensor *core_saved_out(tern_op_ctx *ctx, int i);
/* tern_needs_grad of all inputs: bit i is input i. */
uint32_t core_wanted(const tern_op_ctx *ctx);
/* Shape of input i in forward, saved or not. */
const tern_view *core_input_view(const tern_op_ctx *ctx, int i);
/* The row applied to (grad, x), in grad's own memory when nobody else holds it and nothing is recorded:
 * grad must not be used afterwards. `attr`: the call's own (tern_op_attr), or NULL. */
tern_tensor *core_grad_apply(tern_op_ctx *ctx, tern_op_id id, const void *attr, tern_tensor *grad,
                             tern_tensor *x);
/* grad summed over what x is repeated along to have its shape: x can be expanded to that. */
tern_tensor *core_sum_to(tern_tensor *grad, const tern_view *x);
/* What has come so far of the gradient of what input i is, when backward may add to a part of it in
 * place: nobody else holds it, nothing is recorded, one stream runs both. NULL: add nothing, return. */
tern_tensor *core_grad_so_far(const tern_op_ctx *ctx, int i);
/* A copy of the call's attributes, as its own type. */
#define core_ctx_attr(ctx, type) (*(const type *)tern_op_attr(ctx))

/* ---- rules shared by several rows --------------------------------------------------------------- */
bool rule_preset(core_call *call);
bool rule_unary(core_call *call);       /* same dtype, shape and layout */
bool rule_unary_float(core_call *call); /* integers become the default float first */
bool rule_square(core_call *call);      /* bool becomes i64 first */
bool rule_test(core_call *call);        /* same shape and layout, bool */
bool rule_same(core_call *call);        /* all inputs alike in dtype and shape; output too */
bool rule_binary(core_call *call);
bool rule_binary_float(core_call *call);
bool rule_compare(core_call *call);
bool rule_where(core_call *call);
bool rule_ternary(core_call *call); /* three operands, broadcast and promoted */
bool rule_addcdiv(core_call *call);
void back_zero(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in);

/* Rows' own rules and backward functions are declared in core/op_table.h and defined in core/ops/. */
#endif
