/* Elementwise ops with three operands: lerp, addcmul, addcdiv; and masked_fill, which is where. */
#include <math.h>

#include "core/compose.h"
#include "core/error.h"
#include "core/op_table.h"
#include "core/promote.h"
#include "core/rules.h"
#include "core/tape.h"

/* ---- in place ---------------------------------------------------------------------------------- */

typedef tern_tensor *(*run_fn)(tern_op_id id, tern_site_t site, void *attr, tern_tensor *const *in);

static tern_tensor *run_row(tern_op_id id, tern_site_t site, void *attr, tern_tensor *const *in)
{
    return core_op3(id, site, attr, in[0], in[1], in[2]);
}

/* Nothing to convert and nothing that backward reads: the row writes its first operand. */
static bool writes_at_once(tern_op_id id, tern_tensor *const *in)
{
    const bool records = core_self()->grad_mode;
    for (int i = 0; i < 3; i++)
        if (in[i] == NULL || (records && tern_requires_grad(in[i])) ||
            (in[i]->view.dtype != in[0]->view.dtype && !(in[i]->view.flags & TERN_VIEW_NUMBER)))
            return false;
    return core_op_table[id].rule != NULL;
}

/* Does backward read in[0], as the first operand or as another one? */
static bool reads_written(tern_op_id id, tern_tensor *const *in)
{
    for (int i = 0; i < 3; i++)
        if (in[i] == in[0] && (core_op_table[id].save & B(i)) != 0)
            return true;
    return false;
}

/* Else the result is made and copied over in[0], rounded once. Backward may read what was there, so
 * that the row works on a copy. */
static tern_tensor *inplace(tern_op_id id, tern_site_t site, void *attr, tern_tensor *const *in,
                            run_fn run)
{
    if (writes_at_once(id, in))
        return core_opn_inplace(id, site, attr, 3, in);
    core_frame frame;
    const int n_in =
        core_op_table[id].rule != NULL ? 3 : 2; /* masked_fill has looked at its third */
    core_compose_begin(&frame, id, site, n_in, in);
    frame.call.out[0] = in[0];
    tern_tensor *result = NULL;
    if (core_compose_check(&frame) && core_tape_check_inplace(&frame.call)) {
        tern_tensor *const before = core_compose_before(&frame, in[0]);
        tern_tensor *const x =
            reads_written(id, in) ? tern_clone(before) : before; /* for each operand that it is */
        tern_tensor *const from[3] = { x, in[1] == in[0] ? x : in[1], in[2] == in[0] ? x : in[2] };
        result = x != NULL ? run(id, site, attr, from) : NULL;
    }
    bool ok = result != NULL;
    if (ok &&
        !core_dtype_can_hold((tern_dtype_t)in[0]->view.dtype, (tern_dtype_t)tern_dtype(result)))
        ok = core_fail(&frame.call, TERN_ERR_DTYPE, "the form that makes a new tensor",
                       "the result is %s, which a tensor of %s cannot take in place",
                       tern_dtype_name(tern_dtype(result)),
                       tern_dtype_name((tern_dtype_t)in[0]->view.dtype));
    if (ok && !core_view_same_shape(&in[0]->view, &result->view))
        ok = core_fail(&frame.call, TERN_ERR_SHAPE, "the form that makes a new tensor",
                       "the result has another shape than the tensor that is written");
    ok = ok && core_op_into(TERN_OP_copy, site, NULL, in[0], result) == TERN_OK;
    core_compose_end(&frame, NULL);
    return ok ? in[0] : NULL;
}

/* ---- lerp -------------------------------------------------------------------------------------- */

/* A number is rounded to the dtype of x, but beside half types, which are computed in f32. */
static tern_tensor *weight_of(tern_thread *self, tern_site_t site, tern_operand weight,
                              const tern_tensor *x)
{
    if (weight.kind_ == 0)
        return weight.value_.tensor;
    const bool wide = x != NULL && x->view.dtype == TERN_F64;
    return core_number_new(self, site, weight, wide ? TERN_F64 : TERN_F32);
}

static tern_tensor *lerp(tern_site_t site, tern_tensor *x, tern_tensor *end, tern_operand weight,
                         bool writes)
{
    tern_thread *self = core_self();
    if (self->error_code != TERN_OK)
        return NULL;
    tern_tensor *w = weight_of(self, site, weight, x);
    tern_tensor *const in[3] = { x, end, w };
    tern_tensor *out = writes ? inplace(TERN_OP_lerp, site, NULL, in, run_row)
                              : run_row(TERN_OP_lerp, site, NULL, in);
    core_operand_end(self, weight, w);
    return out;
}

tern_tensor *tern_lerp_at(tern_site_t site, tern_tensor *x, tern_tensor *end, tern_operand weight)
{
    return lerp(site, x, end, weight, false);
}

tern_tensor *tern_lerp_inplace_at(tern_site_t site, tern_tensor *x, tern_tensor *end,
                                  tern_operand weight)
{
    return lerp(site, x, end, weight, true);
}

void back_lerp(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *weight = core_saved_in(ctx, 2);
    if (tern_needs_grad(ctx, 0))
        grad_in[0] = tern_mul(grad, tern_sub(1.0, weight));
    if (tern_needs_grad(ctx, 1))
        grad_in[1] = tern_mul(grad, weight);
    if (tern_needs_grad(ctx, 2))
        grad_in[2] = tern_mul(grad, tern_sub(core_saved_in(ctx, 1), core_saved_in(ctx, 0)));
}

/* ---- x + value a b, x + value a / b ------------------------------------------------------------ */

/* The factor has to be a number of the dtype where the three meet; half types keep it in f32. A missing operand is the
 * row's to tell. */
static bool check_factor(tern_op_id id, tern_site_t site, tern_tensor *const *in,
                         tern_operand value)
{
    if (in[0] == NULL || in[1] == NULL || in[2] == NULL)
        return true;
    const tern_view *const views[] = { &in[0]->view, &in[1]->view, &in[2]->view };
    const tern_dtype_t meet = core_result_type_of(views, 3);
    const bool half = meet == TERN_F16 || meet == TERN_BF16;
    return core_require_number(core_self(), site, core_op_table[id].name, value,
                               half ? TERN_F32 : meet);
}

static tern_tensor *accumulate(tern_op_id id, tern_site_t site, tern_tensor *x, tern_tensor *a,
                               tern_tensor *b, tern_operand value, bool writes)
{
    if (tern_failed())
        return NULL;
    if (value.kind_ == 0) {
        (void)tern_fail_at(site, TERN_ERR_ARGUMENT, core_op_table[id].name,
                           "the factor is a tensor; it has to be a number\n"
                           "  try tern_mul of one of the operands");
        return NULL;
    }
    tern_tensor *const in[3] = { x, a, b };
    if (!check_factor(id, site, in, value))
        return NULL;
    const bool real = value.kind_ == TERN_NUMBER_FLOAT;
    tern_attr_numbers attr = { .f = { real ? value.value_.f : (double)value.value_.i },
                               .i = { real ? core_load_int(&value.value_.f, TERN_F64)
                                           : value.value_.i } };
    return writes ? inplace(id, site, &attr, in, run_row) : run_row(id, site, &attr, in);
}

#define PUBLIC_ACCUMULATE(name)                                                             \
    tern_tensor *tern_##name##_at(tern_site_t site, tern_tensor *x, tern_tensor *a,         \
                                  tern_tensor *b, tern_operand value)                       \
    {                                                                                       \
        return accumulate(TERN_OP_##name, site, x, a, b, value, false);                     \
    }                                                                                       \
    tern_tensor *tern_##name##_inplace_at(tern_site_t site, tern_tensor *x, tern_tensor *a, \
                                          tern_tensor *b, tern_operand value)               \
    {                                                                                       \
        return accumulate(TERN_OP_##name, site, x, a, b, value, true);                      \
    }
PUBLIC_ACCUMULATE(addcmul)
PUBLIC_ACCUMULATE(addcdiv)

bool rule_addcdiv(core_call *call)
{
    const tern_view *a = core_view(call, 1), *b = core_view(call, 2);
    if (!tern_dtype_is_float((tern_dtype_t)a->dtype) &&
        !tern_dtype_is_float((tern_dtype_t)b->dtype))
        return core_fail(call, TERN_ERR_DTYPE, "tern_cast(a, TERN_F32)",
                         "integers are not divided by integers here");
    return rule_ternary(call);
}

/* Gradients by a and b are products of the gradient, the factor and what was saved. In half types one of the
 * two that come together first may overflow where the result does not: all is f32 there, rounded once. Else the
 * factor goes to what was saved, as in PyTorch. */
static tern_tensor *widened(tern_tensor *t, const tern_tensor *grad)
{
    const tern_dtype_t dtype = (tern_dtype_t)grad->view.dtype;
    return t == NULL ? NULL : tern_cast(t, tern_dtype_size(dtype) == 2 ? TERN_F32 : dtype);
}

static tern_tensor *narrowed(tern_tensor *t, const tern_tensor *grad)
{
    return t == NULL ? NULL : tern_cast(t, (tern_dtype_t)grad->view.dtype);
}

static tern_tensor *scaled(tern_tensor *t, double value)
{
    return value == 1 ? t : tern_mul(t, value);
}

void back_addcmul(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const double value = core_ctx_attr(ctx, tern_attr_numbers).f[0];
    grad_in[0] = grad;
    for (int i = 1; i < 3; i++)
        if (tern_needs_grad(ctx, i)) {
            tern_tensor *other = scaled(widened(core_saved_in(ctx, 3 - i), grad), value);
            grad_in[i] = narrowed(tern_mul(widened(grad, grad), other), grad);
        }
}

/* That of b as g value / b a / b: the square of b would not always fit. */
void back_addcdiv(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const double value = core_ctx_attr(ctx, tern_attr_numbers).f[0];
    grad_in[0] = grad;
    if (!tern_needs_grad(ctx, 1) && !tern_needs_grad(ctx, 2))
        return;
    tern_tensor *b = widened(core_saved_in(ctx, 2), grad);
    tern_tensor *of_a = tern_mul(widened(grad, grad), tern_div(value, b));
    if (tern_needs_grad(ctx, 1))
        grad_in[1] = narrowed(of_a, grad);
    if (tern_needs_grad(ctx, 2)) {
        tern_tensor *a = widened(core_saved_in(ctx, 1), grad);
        grad_in[2] = narrowed(tern_neg(tern_mul(of_a, tern_div(a, b))), grad);
    }
}

/* ---- masked_fill ------------------------------------------------------------------------------- */

static bool check_mask(core_call *call)
{
    const tern_dtype_t dtype = (tern_dtype_t)core_view(call, 1)->dtype;
    return dtype == TERN_BOOL ||
           core_fail(call, TERN_ERR_DTYPE, "tern_ne(mask, 0)", "the mask is %s; it has to be bool",
                     tern_dtype_name(dtype));
}

/* (x, mask, value): the value is cast, so that x decides on the dtype. */
static tern_tensor *fill_where(tern_op_id id, tern_site_t site, void *attr, tern_tensor *const *in)
{
    (void)id, (void)attr;
    tern_tensor *value = in[2];
    if (value->view.dtype != in[0]->view.dtype)
        value = tern_cast(value, (tern_dtype_t)in[0]->view.dtype);
    return core_op3(TERN_OP_where, site, NULL, in[1], value, in[0]);
}

static tern_tensor *masked_fill(tern_site_t site, tern_tensor *x, tern_tensor *mask,
                                tern_operand value, bool writes)
{
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_masked_fill, site, 2, (tern_tensor *[]){ x, mask });
    tern_thread *self = frame.call.self;
    tern_tensor *out = NULL, *v = NULL;
    int32_t ndim;
    int64_t dims[TERN_MAX_DIMS];
    if (core_compose_check(&frame) && check_mask(&frame.call) &&
        core_broadcast(&frame.call, &x->view, &mask->view, &ndim, dims) &&
        core_require_number(self, site, "masked_fill", value, tern_dtype(x)))
        v = value.kind_ == 0 ? value.value_.tensor
                             : core_number_new(self, site, value, (tern_dtype_t)x->view.dtype);
    if (v != NULL && v->view.ndim > 0)
        core_fail(&frame.call, TERN_ERR_SHAPE, "tern_where(mask, value, x)",
                  "the value has %d dimensions; it has to be a number or 0-dim", v->view.ndim);
    else if (v == NULL && !tern_failed())
        core_fail(&frame.call, TERN_ERR_ARGUMENT, NULL, "the value is NULL");
    else if (v != NULL) {
        tern_tensor *const in[3] = { x, mask, v };
        out = writes ? inplace(TERN_OP_masked_fill, site, NULL, in, fill_where)
                     : fill_where(TERN_OP_masked_fill, site, NULL, in);
    }
    core_operand_end(self, value, v);
    if (!writes)
        return core_compose_end(&frame, out);
    core_compose_end(&frame, NULL);
    return out;
}

tern_tensor *tern_masked_fill_at(tern_site_t site, tern_tensor *x, tern_tensor *mask,
                                 tern_operand value)
{
    return masked_fill(site, x, mask, value, false);
}

tern_tensor *tern_masked_fill_inplace_at(tern_site_t site, tern_tensor *x, tern_tensor *mask,
                                         tern_operand value)
{
    return masked_fill(site, x, mask, value, true);
}
