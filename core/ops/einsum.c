/* einsum of one or two operands: letters are parsed into labels, operands are brought to [batch, rows,
 * depth] and [batch, depth, columns] by views, and one gemm multiplies them.
 *
 * Labels: 0-25 for A-Z, 26-51 for a-z (the order of results without "->"), then one for each dimension
 * under an ellipsis, counted so that the last ones of all operands are the same. */
#include "core/compose.h"
#include "core/op_table.h"
#include "tern/amp.h"

#include <string.h>

enum { LETTERS = 52, LABELS = LETTERS + TERN_MAX_DIMS, MOST_OPERANDS = 2, ABSENT = -1 };

/* The dimensions of a tensor, or of the result, by label. */
typedef struct labelled {
    tern_tensor *t;
    int n;
    int8_t label[TERN_MAX_DIMS];
} labelled;

/* One part of the equation. */
typedef struct subscripts {
    int letters, ellipsis; /* how many; the place of the ellipsis among them, or ABSENT */
    int8_t label[TERN_MAX_DIMS];
} subscripts;

typedef struct einsum {
    core_call *call;
    const char *equation;
    int operands;
    subscripts in[MOST_OPERANDS], out;
    bool has_out;
    int covered; /* dimensions under the widest ellipsis */
    labelled operand[MOST_OPERANDS], result;
} einsum;

static bool wrong(const einsum *e, const char *what)
{
    return core_fail(e->call, TERN_ERR_ARGUMENT, NULL, "\"%s\": %s", e->equation, what);
}

static char letter_of(int label)
{
    return (char)(label < 26 ? 'A' + label : label < LETTERS ? 'a' + label - 26 : '.');
}

/* ---- the equation -------------------------------------------------------------------------------- */

static int label_of(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : ABSENT;
}

/* Reads up to a comma, "->" or the end; NULL after an error. */
static const char *parse_part(const einsum *e, const char *text, subscripts *part)
{
    const char *what = NULL;
    part->letters = 0;
    part->ellipsis = ABSENT;
    for (; what == NULL && *text != '\0' && *text != ',' && *text != '-'; text++) {
        const int label = label_of(*text);
        if (label != ABSENT && part->letters < TERN_MAX_DIMS) {
            part->label[part->letters++] = (int8_t)label;
        } else if (label != ABSENT) {
            what = "a part has more letters than a tensor has dimensions";
        } else if (strncmp(text, "...", 3) == 0 && part->ellipsis == ABSENT) {
            part->ellipsis = part->letters;
            text += 2;
        } else if (*text != ' ') {
            what = "takes letters a-z and A-Z, one \"...\" in each part, \",\" and \"->\"";
        }
    }
    return what == NULL || wrong(e, what) ? text : NULL;
}

static bool parse(einsum *e)
{
    const char *text = e->equation;
    for (int i = 0; i < e->operands; i++) {
        text = parse_part(e, text, &e->in[i]);
        if (text == NULL)
            return false;
        if (i + 1 < e->operands && *text++ != ',')
            return wrong(e, "has fewer parts than operands were given");
    }
    if (*text == ',')
        return wrong(e, "has more parts than operands were given");
    e->has_out = *text == '-';
    if (!e->has_out)
        return true;
    if (text[1] != '>')
        return wrong(e, "\"-\" has to be followed by \">\"");
    text = parse_part(e, text + 2, &e->out);
    return text != NULL && (*text == '\0' || wrong(e, "goes on after the result's letters"));
}

/* ---- labels of operands and result --------------------------------------------------------------- */

/* `under`: how many dimensions lie under the ellipsis. */
static void add_labels(const einsum *e, const subscripts *part, int under, labelled *out)
{
    out->n = 0;
    for (int i = 0; i <= part->letters; i++) {
        for (int k = 0; i == part->ellipsis && k < under; k++)
            out->label[out->n++] = (int8_t)(LETTERS + e->covered - under + k);
        if (i < part->letters)
            out->label[out->n++] = part->label[i];
    }
}

static bool label_operands(einsum *e)
{
    int under[MOST_OPERANDS];
    for (int i = 0; i < e->operands; i++) {
        const subscripts *part = &e->in[i];
        const int ndim = e->call->in[i]->view.ndim;
        under[i] = ndim - part->letters;
        if (under[i] < 0 || (under[i] > 0 && part->ellipsis == ABSENT))
            return core_fail(e->call, TERN_ERR_SHAPE, NULL,
                             "\"%s\": operand %d has %d dimensions and its part %d letters",
                             e->equation, i, ndim, part->letters);
        if (part->ellipsis != ABSENT && under[i] > e->covered)
            e->covered = under[i];
    }
    for (int i = 0; i < e->operands; i++) {
        e->operand[i].t = e->call->in[i];
        add_labels(e, &e->in[i], under[i], &e->operand[i]);
    }
    return true;
}

static int place_of(const labelled *l, int label)
{
    for (int d = 0; d < l->n; d++)
        if (l->label[d] == label)
            return d;
    return ABSENT;
}

static int count_of(const einsum *e, int label)
{
    int n = 0;
    for (int i = 0; i < e->operands; i++)
        for (int d = 0; d < e->operand[i].n; d++)
            n += e->operand[i].label[d] == label;
    return n;
}

static bool too_many(const einsum *e)
{
    return core_fail(e->call, TERN_ERR_SHAPE, NULL,
                     "\"%s\": the result would have more than %d dimensions", e->equation,
                     TERN_MAX_DIMS);
}

static bool implicit_result(einsum *e)
{
    e->result.n = 0;
    for (int k = 0; k < LABELS; k++) {
        const int label = (k + LETTERS) % LABELS; /* the ellipsis comes first */
        const bool wanted =
            label >= LETTERS ? label < LETTERS + e->covered : count_of(e, label) == 1;
        if (wanted && e->result.n == TERN_MAX_DIMS)
            return too_many(e);
        if (wanted)
            e->result.label[e->result.n++] = (int8_t)label;
    }
    return true;
}

static bool label_result(einsum *e)
{
    if (!e->has_out)
        return implicit_result(e);
    const int under = e->out.ellipsis == ABSENT ? 0 : e->covered;
    if (e->out.letters + under > TERN_MAX_DIMS)
        return too_many(e);
    for (int i = 0; i < e->out.letters; i++) {
        const int label = e->out.label[i];
        bool twice = false;
        for (int k = 0; k < i; k++)
            twice |= e->out.label[k] == label;
        if (twice || count_of(e, label) == 0)
            return core_fail(e->call, TERN_ERR_ARGUMENT, NULL, "\"%s\": the result's letter %c %s",
                             e->equation, letter_of(label),
                             twice ? "stands there twice" : "is in no operand");
    }
    add_labels(e, &e->out, under, &e->result);
    return true;
}

/* ---- sizes --------------------------------------------------------------------------------------- */

static bool check_size(const einsum *e, int label, int64_t size, int64_t *known)
{
    const bool fits = *known == 1 || size == 1 || *known == size;
    if (*known == 1)
        *known = size;
    return fits || core_fail(e->call, TERN_ERR_SHAPE, NULL,
                             "\"%s\": the dimensions called %c have %lld and %lld elements",
                             e->equation, letter_of(label), (long long)*known, (long long)size);
}

static bool check_sizes(const einsum *e)
{
    int64_t known[LABELS];
    for (int label = 0; label < LABELS; label++)
        known[label] = 1;
    for (int i = 0; i < e->operands; i++) {
        const labelled *x = &e->operand[i];
        for (int d = 0; d < x->n; d++) {
            const int first = place_of(x, x->label[d]);
            const int64_t size = x->t->view.shape[d], twin = x->t->view.shape[first];
            if (size != twin)
                return core_fail(e->call, TERN_ERR_SHAPE, NULL,
                                 "\"%s\": the diagonal %c of operand %d has %lld and %lld elements",
                                 e->equation, letter_of(x->label[d]), i, (long long)twin,
                                 (long long)size);
            if (!check_size(e, x->label[d], size, &known[x->label[d]]))
                return false;
        }
    }
    return true;
}

/* ---- operands ------------------------------------------------------------------------------------ */

static void forget(labelled *x, int d)
{
    x->n--;
    for (; d < x->n; d++)
        x->label[d] = x->label[d + 1];
}

/* Dimensions p and q become one, in front: both first, flattened, every (n + 1)-th element. */
static void take_diagonal(labelled *x, int p, int q)
{
    const int64_t n = x->t->view.shape[p];
    const int8_t label = x->label[p];
    tern_dims_t order = { .set_ = TERN_GIVEN_, .ndim = x->n, .dims = { p, q } };
    tern_shape_t flat = { .set_ = TERN_GIVEN_, .ndim = x->n - 1, .dims = { n * n } };
    labelled out = { .n = x->n - 1, .label = { label } };
    for (int d = 0, k = 1; d < x->n; d++)
        if (d != p && d != q) {
            order.dims[k + 1] = d;
            flat.dims[k] = x->t->view.shape[d];
            out.label[k++] = x->label[d];
        }
    out.t = tern_slice(tern_reshape(tern_permute(x->t, order), flat), .step = n + 1);
    *x = out;
}

static bool take_diagonals(labelled *x)
{
    for (int d = 0; d < x->n && x->t != NULL; d++) {
        const int first = place_of(x, x->label[d]);
        if (first < d) {
            take_diagonal(x, first, d);
            d = 0;
        }
    }
    return x->t != NULL;
}

static int64_t size_of(const labelled *x, int label)
{
    const int d = place_of(x, label);
    return d == ABSENT ? 1 : x->t->view.shape[d];
}

/* Dimensions that the other operand lacks (or has with one element) and the result has not are summed; those of
 * one element that the other has larger disappear, and of two operands those that the result has not: as in
 * PyTorch nothing is summed there, which would make i64 of other integers. */
static bool sum_own(const einsum *e, labelled *x, const labelled *other)
{
    tern_dims_t summed = { .set_ = TERN_GIVEN_ };
    uint64_t gone = 0;
    for (int d = 0; d < x->n; d++) {
        const int label = x->label[d];
        const int64_t size = x->t->view.shape[d], theirs = size_of(other, label);
        const bool shared = place_of(other, label) != ABSENT;
        const bool kept = place_of(&e->result, label) != ABSENT;
        if (size == 1 && ((shared && theirs != 1) || (!kept && e->operands == 2)))
            gone |= UINT64_C(1) << d;
        else if (!kept && (!shared || (theirs == 1 && size != 1)))
            summed.dims[summed.ndim++] = d;
    }
    if (summed.ndim > 0)
        x->t = tern_sum(x->t, .dims = summed, .keepdim = true);
    for (int d = x->n - 1; d >= 0 && x->t != NULL; d--) {
        bool drop = (gone >> d & 1) != 0;
        for (int k = 0; k < summed.ndim; k++)
            drop |= summed.dims[k] == d;
        if (!drop)
            continue;
        x->t = tern_squeeze(x->t, d);
        forget(x, d);
    }
    return x->t != NULL;
}

/* ---- putting together ---------------------------------------------------------------------------- */

/* x in the order of the result, with dimensions of one element where it has none. */
static tern_tensor *aligned(const labelled *x, const labelled *result)
{
    tern_dims_t order = { .set_ = TERN_GIVEN_, .ndim = 0 };
    for (int d = 0; d < result->n; d++)
        if (place_of(x, result->label[d]) != ABSENT)
            order.dims[order.ndim++] = place_of(x, result->label[d]);
    tern_tensor *t = tern_permute(x->t, order);
    for (int d = 0; d < result->n; d++)
        if (place_of(x, result->label[d]) == ABSENT)
            t = tern_unsqueeze(t, d);
    return t;
}

/* Dimensions in the order in which a product has them, and how many elements they are. */
typedef struct group {
    tern_dims_t order; /* places in the operand */
    int64_t size;
} group;

/* Those of x's dimensions of which `other` and the result have what is asked, in the order of `by`. */
static group group_of(const labelled *x, const labelled *by, const labelled *other,
                      const labelled *result, bool shared, bool kept)
{
    group g = { .order = { .set_ = TERN_GIVEN_ }, .size = 1 };
    for (int k = 0; k < by->n; k++) {
        const int label = by->label[k], d = place_of(x, label);
        if (d == ABSENT || (place_of(other, label) != ABSENT) != shared ||
            (place_of(result, label) != ABSENT) != kept)
            continue;
        g.order.dims[g.order.ndim++] = d;
        g.size *= x->t->view.shape[d];
    }
    return g;
}

static void append(tern_dims_t *order, const group *g)
{
    for (int d = 0; d < g->order.ndim; d++)
        order->dims[order->ndim++] = g->order.dims[d];
}

/* x as [batch, first, second]: a view where its strides allow it, else one copy. */
static tern_tensor *as_matrices(const labelled *x, const group *batch, const group *first,
                                const group *second)
{
    tern_dims_t order = { .set_ = TERN_GIVEN_ };
    append(&order, batch);
    append(&order, first);
    append(&order, second);
    tern_tensor *t = tern_permute(x->t, order);
    if (batch->order.ndim == 0)
        return tern_reshape(t, TERN_SHAPE(first->size, second->size));
    return tern_reshape(t, TERN_SHAPE(batch->size, first->size, second->size));
}

static void name(labelled *product, tern_shape_t *shape, const labelled *x, const group *g)
{
    for (int d = 0; d < g->order.ndim; d++) {
        const int place = (int)g->order.dims[d];
        product->label[product->n++] = x->label[place];
        shape->dims[shape->ndim++] = x->t->view.shape[place];
    }
}

/* In a region gemm casts both to one dtype itself; on the CPU, where einsum has no class, it is the first to. */
static bool gemm_casts(const core_call *call, const tern_tensor *t)
{
    const tern_dtype_t dtype = (tern_dtype_t)t->view.dtype;
    return tern_autocast_enabled(call->dev) && tern_dtype_is_float(dtype) && dtype != TERN_F64;
}

static bool dtypes_meet(const einsum *e, const tern_tensor *a, const tern_tensor *b)
{
    if (a->view.dtype == b->view.dtype || (gemm_casts(e->call, a) && gemm_casts(e->call, b)))
        return true;
    const tern_dtype_t given = (tern_dtype_t)core_view(e->call, 0)->dtype;
    if (given == (tern_dtype_t)core_view(e->call, 1)->dtype)
        return core_fail(
            e->call, TERN_ERR_DTYPE, "tern_cast(.., TERN_I64) for both",
            "\"%s\": of two operands of %s one is summed before they are multiplied, "
            "and sums of it are %s",
            e->equation, tern_dtype_name(given),
            tern_dtype_name((tern_dtype_t)(a->view.dtype != given ? a : b)->view.dtype));
    return core_fail(
        e->call, TERN_ERR_DTYPE, "tern_cast for one of them",
        "\"%s\": operands that are multiplied and summed have different dtypes: %s and %s",
        e->equation, tern_dtype_name((tern_dtype_t)a->view.dtype),
        tern_dtype_name((tern_dtype_t)b->view.dtype));
}

static tern_tensor *multiply(const einsum *e, const labelled *a, const labelled *b)
{
    const labelled *result = &e->result;
    const group batch = group_of(a, a, b, result, true, true);
    const group rows = group_of(a, a, b, result, false, true);
    const group depth = group_of(a, a, b, result, true, false);
    const group columns = group_of(b, b, a, result, false, true);
    const group batch_b = group_of(b, a, a, result, true, true);
    const group depth_b = group_of(b, a, a, result, true, false);
    if (depth.order.ndim == 0)
        return tern_mul(aligned(a, result), aligned(b, result));
    if (!dtypes_meet(e, a->t, b->t))
        return NULL;
    labelled product = { .n = 0 };
    tern_shape_t shape = { .set_ = TERN_GIVEN_ };
    name(&product, &shape, a, &batch);
    name(&product, &shape, a, &rows);
    name(&product, &shape, b, &columns);
    product.t = core_op2(TERN_OP_gemm, TERN_HERE, NULL, as_matrices(a, &batch, &rows, &depth),
                         as_matrices(b, &batch_b, &depth_b, &columns));
    product.t = tern_view(product.t, shape);
    return aligned(&product, result);
}

static tern_tensor *evaluate(einsum *e)
{
    static const labelled nothing = { .n = 0 };
    labelled *a = &e->operand[0], *b = &e->operand[1];
    if (!parse(e) || !label_operands(e) || !label_result(e) || !check_sizes(e))
        return NULL;
    for (int i = 0; i < e->operands; i++)
        if (!take_diagonals(&e->operand[i]))
            return NULL;
    if (e->operands == 1)
        return sum_own(e, a, &nothing) ? aligned(a, &e->result) : NULL;
    const labelled a_before = *a;
    return sum_own(e, a, b) && sum_own(e, b, &a_before) ? multiply(e, a, b) : NULL;
}

/* A class of einsum's own has cast the operands: sums of one of them, and the gemm, must not cast again. */
static tern_tensor *evaluate_cast(einsum *e)
{
    uint8_t *region = &e->call->self->autocast;
    const uint8_t autocast = *region;
    const int rule =
        e->call->dev.kind == TERN_KIND_CPU ? e->call->op->cast_cpu : e->call->op->cast_cuda;
    if (rule != TERN_CAST_NONE)
        *region = 0;
    tern_tensor *out = evaluate(e);
    *region = autocast;
    return out;
}

tern_tensor *tern_einsum_at(tern_site_t site, const char *equation, tern_tensor *const *operands,
                            int64_t count)
{
    core_frame frame;
    const bool given = operands != NULL && count >= 1 && count <= MOST_OPERANDS;
    core_compose_begin(&frame, TERN_OP_einsum, site, given ? count : 0, operands);
    tern_tensor *out = NULL;
    einsum e = { .call = &frame.call, .equation = equation, .operands = (int)count };
    if (!given || equation == NULL)
        core_fail(&frame.call, TERN_ERR_ARGUMENT,
                  "tern_einsum of the first two, then of the result",
                  "needs an equation and one or two operands; %lld were given", (long long)count);
    else if (core_compose_check(&frame) && core_compose_cast(&frame))
        out = evaluate_cast(&e);
    return core_compose_end(&frame, out);
}
