/* Matrix products: torch.matmul's rules on top of gemm, which takes [M, K] [K, N] or one batch
 * dimension more. Batches that share the right matrix are folded into one tall product. */
#include "core/compose.h"
#include "core/error.h"
#include "core/op_table.h"
#include "core/rules.h"

/* ---- gemm -------------------------------------------------------------------------------------- */

static bool fits(const tern_view *a, const tern_view *b)
{
    return a->dtype == b->dtype && a->ndim == b->ndim && (a->ndim == 2 || a->ndim == 3) &&
           a->shape[a->ndim - 1] == b->shape[b->ndim - 2] &&
           (a->ndim == 2 || a->shape[0] == b->shape[0]);
}

bool rule_gemm(core_call *call)
{
    const tern_view *a = core_view(call, 0), *b = core_view(call, 1);
    if (!fits(a, b))
        return core_fail(
            call, a->dtype != b->dtype ? TERN_ERR_DTYPE : TERN_ERR_SHAPE, NULL,
            "operands have to be [M, K] and [K, N], or [B, M, K] and [B, K, N], of one "
            "dtype");
    const int64_t dims[3] = { a->shape[0], a->shape[a->ndim - 2], b->shape[b->ndim - 1] };
    return core_out(call, 0, (tern_dtype_t)a->dtype, a->ndim, dims + (a->ndim == 2));
}

static tern_tensor *gemm(tern_tensor *a, tern_tensor *b)
{
    return core_op2(TERN_OP_gemm, TERN_HERE, NULL, a, b);
}

static bool is_number(const tern_tensor *t)
{
    return t != NULL && t->view.ndim == 2 && t->view.numel == 1;
}

/* A matrix times a number, as of dot, is no work for a library of products. */
static tern_tensor *gradient(tern_tensor *a, tern_tensor *b)
{
    return is_number(a) || is_number(b) ? tern_mul(a, b) : gemm(a, b);
}

void back_gemm(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    if (tern_needs_grad(ctx, 0))
        grad_in[0] = gradient(grad, tern_transpose(core_saved_in(ctx, 1), -1, -2));
    if (tern_needs_grad(ctx, 1))
        grad_in[1] = gradient(tern_transpose(core_saved_in(ctx, 0), -1, -2), grad);
}

/* ---- shapes ------------------------------------------------------------------------------------ */

static tern_shape_t shape_of(const tern_view *v)
{
    tern_shape_t shape = { .set_ = TERN_GIVEN_, .ndim = v->ndim };
    for (int d = 0; d < v->ndim; d++)
        shape.dims[d] = v->shape[d];
    return shape;
}

static int64_t product_of(const int64_t *dims, int n)
{
    int64_t product = 1;
    for (int d = 0; d < n; d++)
        product *= dims[d];
    return product;
}

/* Sizes of a product whose operands have at least 2 dimensions. */
typedef struct sizes {
    int64_t m, k, n;
    int32_t ndim; /* of the batch */
    int64_t batch[TERN_MAX_DIMS];
} sizes;

static bool check_kinds(core_call *call, const tern_view *a, const tern_view *b)
{
    if (a->ndim == 0 || b->ndim == 0)
        return core_fail(call, TERN_ERR_SHAPE, "tern_mul for a product with a number",
                         "operands need at least one dimension");
    return core_check_same_dtype(call, 1, 0) &&
           core_check_dtype(call, 0, core_op_table[TERN_OP_gemm].dtypes);
}

/* What to try where the last size of a is not the last but one of b. */
static const char *inner_advice(const tern_view *a, const tern_view *b)
{
    const int64_t x = a->shape[a->ndim - 1], y = b->shape[b->ndim > 1 ? b->ndim - 2 : 0];
    if (b->ndim > 1 && b->shape[b->ndim - 1] == x)
        return "tern_transpose(b, -1, -2)";
    if (a->ndim > 1 && a->shape[a->ndim - 2] == y)
        return "tern_transpose(a, -1, -2)";
    return "tern_reshape, or operands of other sizes: these fit in no order of theirs";
}

static bool check_inner(core_call *call, const tern_view *a, const tern_view *b)
{
    char left[160], right[160];
    const int64_t x = a->shape[a->ndim - 1], y = b->shape[b->ndim > 1 ? b->ndim - 2 : 0];
    if (x == y)
        return true;
    return core_fail(
        call, TERN_ERR_SHAPE, inner_advice(a, b), "inner sizes differ: %s x %s, %lld and %lld",
        core_shape_text(a->ndim, a->shape, left, sizeof left),
        core_shape_text(b->ndim, b->shape, right, sizeof right), (long long)x, (long long)y);
}

static tern_view batch_view(const tern_view *v)
{
    tern_view batch = *v;
    batch.ndim = (uint8_t)(v->ndim - 2);
    return batch;
}

static bool measure(core_call *call, const tern_view *a, const tern_view *b, sizes *s)
{
    const tern_view x = batch_view(a), y = batch_view(b);
    s->m = a->shape[a->ndim - 2];
    s->k = a->shape[a->ndim - 1];
    s->n = b->shape[b->ndim - 1];
    return core_broadcast(call, &x, &y, &s->ndim, s->batch);
}

/* ---- composition ------------------------------------------------------------------------------- */

/* The batch's dimensions with two more behind. */
static tern_shape_t with_batch(const sizes *s, int64_t rows, int64_t columns)
{
    tern_shape_t shape = { .set_ = TERN_GIVEN_, .ndim = s->ndim + 2 };
    for (int d = 0; d < s->ndim; d++)
        shape.dims[d] = s->batch[d];
    shape.dims[s->ndim] = rows;
    shape.dims[s->ndim + 1] = columns;
    return shape;
}

/* Is b one matrix for the whole batch, and a one matrix of batch x M rows without a copy? */
static bool can_fold(const tern_view *a, const tern_view *b, const sizes *s)
{
    int64_t strides[TERN_MAX_DIMS];
    const int64_t tall[2] = { product_of(a->shape, a->ndim - 1), s->k };
    return a->ndim >= b->ndim && product_of(b->shape, b->ndim - 2) == 1 &&
           product_of(a->shape, a->ndim - 2) == product_of(s->batch, s->ndim) &&
           core_view_strides(a, 2, tall, strides);
}

static tern_tensor *folded(tern_tensor *a, tern_tensor *b, const sizes *s)
{
    const int64_t rows = product_of(s->batch, s->ndim) * s->m;
    tern_tensor *tall = tern_view(a, TERN_SHAPE(rows, s->k));
    tern_tensor *out = gemm(tall, tern_reshape(b, TERN_SHAPE(s->k, s->n)));
    return tern_view(out, with_batch(s, s->m, s->n));
}

/* [batch, rows, columns], expanded where t's own batch is smaller. */
static tern_tensor *as_batch(tern_tensor *t, const sizes *s, int64_t rows, int64_t columns)
{
    const tern_shape_t whole = with_batch(s, rows, columns);
    if (product_of(t->view.shape, t->view.ndim) != product_of(whole.dims, whole.ndim))
        t = tern_expand(t, whole);
    return tern_reshape(t, TERN_SHAPE(product_of(s->batch, s->ndim), rows, columns));
}

static tern_tensor *batched(tern_tensor *a, tern_tensor *b, const sizes *s)
{
    tern_tensor *out = gemm(as_batch(a, s, s->m, s->k), as_batch(b, s, s->k, s->n));
    return tern_view(out, with_batch(s, s->m, s->n));
}

static tern_tensor *multiply(core_call *call, tern_tensor *a, tern_tensor *b)
{
    sizes s;
    const bool a_vector = a->view.ndim == 1, b_vector = b->view.ndim == 1;
    if (a_vector)
        a = tern_unsqueeze(a, 0);
    if (b_vector)
        b = tern_unsqueeze(b, 1);
    if (a == NULL || b == NULL || !measure(call, &a->view, &b->view, &s))
        return NULL;
    tern_tensor *out;
    if (a->view.ndim == 2 && b->view.ndim == 2)
        out = gemm(a, b);
    else
        out = can_fold(&a->view, &b->view, &s) ? folded(a, b, &s) : batched(a, b, &s);
    if (!a_vector && !b_vector)
        return out;
    if (out == NULL)
        return NULL;
    tern_shape_t shape = shape_of(&out->view);
    if (a_vector)
        shape.dims[shape.ndim - 2] = shape.dims[shape.ndim - 1];
    shape.ndim -= a_vector + b_vector;
    return tern_view(out, shape);
}

/* The plain case goes to the row at once; its errors are matmul's all the same. */
static tern_tensor *gemm_called_matmul(tern_site_t site, tern_tensor *a, tern_tensor *b)
{
    tern_thread *self = core_self();
    const char *outer = core_calling_begin(self, core_op_table[TERN_OP_matmul].name);
    tern_tensor *out = core_op2(TERN_OP_gemm, site, NULL, a, b);
    core_calling_end(self, outer);
    return out;
}

tern_tensor *tern_matmul_at(tern_site_t site, tern_tensor *a, tern_tensor *b)
{
    if (a != NULL && b != NULL && fits(&a->view, &b->view) &&
        tern_dev_equal(a->view.dev, b->view.dev))
        return gemm_called_matmul(site, a, b);
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_matmul, site, 2, (tern_tensor *[]){ a, b });
    tern_tensor *out = NULL;
    if (core_compose_check(&frame) && core_compose_cast(&frame)) {
        a = frame.call.in[0];
        b = frame.call.in[1];
        if (check_kinds(&frame.call, &a->view, &b->view) &&
            check_inner(&frame.call, &a->view, &b->view))
            out = multiply(&frame.call, a, b);
    }
    return core_compose_end(&frame, out);
}
