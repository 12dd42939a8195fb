/* Products with names of their own, each made of gemm, linear or mul. */
#include "core/compose.h"
#include "core/op_table.h"
#include "core/option.h"
#include "core/promote.h"
#include "core/rules.h"

static bool same_dtype(core_call *call, int i)
{
    return core_check_same_dtype(call, i, 0) &&
           core_check_dtype(call, 0, core_op_table[TERN_OP_gemm].dtypes);
}

/* ---- bmm ----------------------------------------------------------------------------------------- */

static bool bmm_fits(const tern_view *a, const tern_view *b)
{
    return a->ndim == 3 && b->ndim == 3 && a->shape[0] == b->shape[0] && a->shape[2] == b->shape[1];
}

tern_tensor *tern_bmm_at(tern_site_t site, tern_tensor *a, tern_tensor *b)
{
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_bmm, site, 2, (tern_tensor *[]){ a, b });
    tern_tensor *out = NULL;
    if (core_compose_check(&frame) && core_compose_cast(&frame) && same_dtype(&frame.call, 1)) {
        if (bmm_fits(&a->view, &b->view))
            out = core_op2(TERN_OP_gemm, site, NULL, frame.call.in[0], frame.call.in[1]);
        else
            core_fail(&frame.call, TERN_ERR_SHAPE, "tern_matmul, which broadcasts",
                      "operands have to be [B, M, K] and [B, K, N]");
    }
    return core_compose_end(&frame, out);
}

/* ---- dot, outer ---------------------------------------------------------------------------------- */

/* Autocast has its own rule for dot: the gemm inside must not cast. */
static tern_tensor *dot(core_call *call)
{
    tern_tensor *a = call->in[0], *b = call->in[1];
    const uint8_t autocast = call->self->autocast;
    call->self->autocast = 0;
    tern_tensor *out =
        core_op2(TERN_OP_gemm, TERN_HERE, NULL, tern_unsqueeze(a, 0), tern_unsqueeze(b, 1));
    call->self->autocast = autocast;
    return tern_view(out, TERN_SCALAR_SHAPE);
}

tern_tensor *tern_dot_at(tern_site_t site, tern_tensor *a, tern_tensor *b)
{
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_dot, site, 2, (tern_tensor *[]){ a, b });
    tern_tensor *out = NULL;
    if (core_compose_check(&frame) && core_compose_cast(&frame) && same_dtype(&frame.call, 1)) {
        if (a->view.ndim == 1 && b->view.ndim == 1 && a->view.numel == b->view.numel)
            out = dot(&frame.call);
        else
            core_fail(&frame.call, TERN_ERR_SHAPE, "tern_matmul or tern_einsum for other shapes",
                      "operands have to be 1-D and of one length");
    }
    return core_compose_end(&frame, out);
}

tern_tensor *tern_outer_at(tern_site_t site, tern_tensor *a, tern_tensor *b)
{
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_outer, site, 2, (tern_tensor *[]){ a, b });
    tern_tensor *out = NULL;
    if (core_compose_check(&frame)) {
        if (a->view.ndim == 1 && b->view.ndim == 1)
            out = tern_mul(tern_unsqueeze(a, 1), b);
        else
            core_fail(&frame.call, TERN_ERR_SHAPE, "tern_mul of tern_unsqueeze for other shapes",
                      "operands have to be 1-D");
    }
    return core_compose_end(&frame, out);
}

/* ---- addmm --------------------------------------------------------------------------------------- */

typedef struct addmm_attr {
    double beta, alpha;
    bool keeps_a, keeps_b; /* each for the gradient of the other, in this order */
} addmm_attr;

/* A factor of whole-number dtypes is their whole part. */
static tern_tensor *scaled(tern_tensor *t, double factor)
{
    if (t == NULL || factor == 1)
        return t;
    if (factor == 0)
        return core_zeros_like(&t->view);
    if (tern_dtype_is_float((tern_dtype_t)t->view.dtype))
        return tern_mul(t, factor);
    return tern_mul(t, core_load_int(&factor, TERN_F64));
}

static tern_tensor *addmm_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    const addmm_attr factors = core_ctx_attr(ctx, addmm_attr);
    if (factors.keeps_a)
        tern_save(ctx, in[1]);
    if (factors.keeps_b)
        tern_save(ctx, in[2]);
    tern_tensor *product = scaled(tern_matmul(in[1], in[2]), factors.alpha);
    return factors.beta == 0 ? product : tern_add_(product, scaled(in[0], factors.beta));
}

static void addmm_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const addmm_attr factors = core_ctx_attr(ctx, addmm_attr);
    if (tern_needs_grad(ctx, 0))
        grad_in[0] = scaled(grad, factors.beta);
    if (tern_needs_grad(ctx, 1)) {
        tern_tensor *b = tern_saved(ctx, factors.keeps_a ? 1 : 0);
        grad_in[1] = scaled(tern_matmul(grad, tern_transpose(b, 0, 1)), factors.alpha);
    }
    if (tern_needs_grad(ctx, 2)) {
        tern_tensor *a = tern_saved(ctx, 0);
        grad_in[2] = scaled(tern_matmul(tern_transpose(a, 0, 1), grad), factors.alpha);
    }
}

/* One node, which keeps no more than the two matrices. */
static const tern_op addmm_op = { .name = "addmm",
                                  .inputs = 3,
                                  .forward = addmm_forward,
                                  .backward = addmm_backward,
                                  .attr_size = sizeof(addmm_attr) };

static bool check_addmm(core_call *call)
{
    const tern_view *input = core_view(call, 0), *a = core_view(call, 1), *b = core_view(call, 2);
    if (a->ndim != 2 || b->ndim != 2 || a->shape[1] != b->shape[0])
        return core_fail(call, TERN_ERR_SHAPE, NULL, "mat1 and mat2 have to be [M, K] and [K, N]");
    const int64_t dims[2] = { a->shape[0], b->shape[1] };
    int64_t strides[2];
    if (input->ndim > 2 || !core_expand_strides(input, 2, dims, strides))
        return core_fail(call, TERN_ERR_SHAPE, NULL,
                         "the input does not broadcast to the product's shape [%lld, %lld]",
                         (long long)dims[0], (long long)dims[1]);
    return same_dtype(call, 1) && same_dtype(call, 2);
}

/* Their whole part has to be one of the dtype; floats take any, also rounded to infinity. */
static bool check_factors(core_call *call, const addmm_attr *factors)
{
    const tern_dtype_t dtype = (tern_dtype_t)core_view(call, 0)->dtype;
    return tern_dtype_is_float(dtype) ||
           (core_require_number(call->self, call->site, "addmm", tern_operand_float(factors->beta),
                                dtype) &&
            core_require_number(call->self, call->site, "addmm", tern_operand_float(factors->alpha),
                                dtype));
}

static tern_tensor *addmm(tern_tensor **in, addmm_attr *factors)
{
    if (factors->alpha == 1 && factors->beta == 1 && in[0]->view.ndim == 1 &&
        in[0]->view.shape[0] == in[2]->view.shape[1])
        return tern_linear(in[1], tern_transpose(in[2], 0, 1), in[0]);
    const tern_shape_t shape = TERN_SHAPE(in[1]->view.shape[0], in[2]->view.shape[1]);
    tern_tensor *const all[3] = { tern_expand(in[0], shape), in[1], in[2] };
    factors->keeps_a = tern_requires_grad(in[2]);
    factors->keeps_b = tern_requires_grad(in[1]);
    return tern_apply_at(TERN_HERE, &addmm_op, all, factors);
}

tern_tensor *tern_addmm_at(tern_site_t site, const tern_addmm_args *args)
{
    core_frame frame;
    args = core_options(args);
    core_compose_begin(&frame, TERN_OP_addmm, site, 3,
                       (tern_tensor *[]){ args->input, args->mat1, args->mat2 });
    tern_tensor *out = NULL;
    addmm_attr factors = { core_given(args->beta, 1), core_given(args->alpha, 1), false, false };
    if (core_compose_check(&frame) && core_compose_cast(&frame) && check_addmm(&frame.call) &&
        check_factors(&frame.call, &factors))
        out = addmm(frame.call.in, &factors);
    return core_compose_end(&frame, out);
}
