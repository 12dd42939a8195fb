/* Views, joining, indexing. References move plain values. */
#include "core/call.h"
#include "tests/ops/opinfo.h"
#include "tests/ref/ref.h"

/* clang-format off */

#define REAL(...) { INPUT_REAL, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ } }
#define INDEX(hi, ...) \
    { INPUT_INDEX, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ }, .low = 0, .high = hi }

static value reshaped(const value *v, int ndim, const int64_t *dims)
{
    value out = value_copy(v);
    out.ndim = ndim;
    for (int d = 0; d < ndim; d++)
        out.dims[d] = dims[d];
    return out;
}

/* out[i...] = in[order applied] : dimension d of the result is dimension order[d] of the input */
static value permuted(const value *v, const int *order)
{
    int64_t dims[TERN_MAX_DIMS], at[TERN_MAX_DIMS] = { 0 }, from[TERN_MAX_DIMS], i = 0;
    for (int d = 0; d < v->ndim; d++)
        dims[d] = v->dims[order[d]];
    value out = value_new(v->ndim, dims);
    do {
        for (int d = 0; d < v->ndim; d++)
            from[order[d]] = at[d];
        out.data[i++] = v->data[ref_place(v, v->ndim, from)];
    } while (ref_next(v->ndim, dims, at));
    return out;
}

/* start : start + length * step : step along a dimension */
static value sliced(const value *v, int dim, int64_t start, int64_t length, int64_t step)
{
    int64_t dims[TERN_MAX_DIMS], at[TERN_MAX_DIMS] = { 0 }, from[TERN_MAX_DIMS], i = 0;
    for (int d = 0; d < v->ndim; d++)
        dims[d] = d == dim ? length : v->dims[d];
    value out = value_new(v->ndim, dims);
    if (out.numel == 0)
        return out;
    do {
        for (int d = 0; d < v->ndim; d++)
            from[d] = d == dim ? start + at[d] * step : at[d];
        out.data[i++] = v->data[ref_place(v, v->ndim, from)];
    } while (ref_next(v->ndim, dims, at));
    return out;
}

static tern_tensor *run_view(tern_tensor **in)
{
    return tern_view(tern_contiguous(in[0]), TERN_SHAPE(6, -1));
}
static value ref_view(const value *in) { return reshaped(&in[0], 2, (int64_t[]){ 6, in[0].numel / 6 }); }
static tern_tensor *run_reshape(tern_tensor **in) { return tern_reshape(in[0], TERN_SHAPE(6, -1)); }
static tern_tensor *run_flatten(tern_tensor **in) { return tern_flatten(in[0], 0, -1); }
static value ref_flatten(const value *in) { return reshaped(&in[0], 1, &in[0].numel); }
static tern_tensor *run_permute(tern_tensor **in) { return tern_permute(in[0], TERN_DIMS(2, 0, 1)); }
static value ref_permute(const value *in) { return permuted(&in[0], (int[]){ 2, 0, 1 }); }
static tern_tensor *run_transpose(tern_tensor **in) { return tern_transpose(in[0], 0, -1); }
static value ref_transpose(const value *in) { return permuted(&in[0], (int[]){ 2, 1, 0 }); }
static tern_tensor *run_slice(tern_tensor **in) { return tern_slice(in[0], 1, 1, 6, 2); }
static value ref_slice(const value *in) { return sliced(&in[0], 1, 1, 3, 2); }
static tern_tensor *run_select(tern_tensor **in) { return tern_select(in[0], 1, -2); }
static value ref_select(const value *in)
{
    value row = sliced(&in[0], 1, in[0].dims[1] - 2, 1, 1);
    value out = reshaped(&row, 1, (int64_t[]){ in[0].dims[0] });
    value_free(&row);
    return out;
}
static tern_tensor *run_squeeze(tern_tensor **in) { return tern_squeeze(in[0], 1); }
static value ref_squeeze(const value *in)
{
    return reshaped(&in[0], 2, (int64_t[]){ in[0].dims[0], in[0].dims[2] });
}
static tern_tensor *run_unsqueeze(tern_tensor **in) { return tern_unsqueeze(in[0], -1); }
static value ref_unsqueeze(const value *in)
{
    return reshaped(&in[0], 3, (int64_t[]){ in[0].dims[0], in[0].dims[1], 1 });
}
static tern_tensor *run_expand(tern_tensor **in) { return tern_expand(in[0], TERN_SHAPE(2, 3, -1)); }
static double second(double a, double b) { return a * 0 + b; }
static value ref_expand(const value *in)
{
    value shape = value_new(3, (int64_t[]){ 2, 3, in[0].dims[1] });
    value out = ref_map2(&shape, &in[0], second);
    value_free(&shape);
    return out;
}

static tern_tensor *run_movedim(tern_tensor **in) { return tern_movedim(in[0], 0, -1); }
static value ref_movedim(const value *in) { return permuted(&in[0], (int[]){ 1, 2, 0 }); }
static tern_tensor *run_unfold(tern_tensor **in) { return tern_unfold(in[0], 1, 3, 2); }
static value ref_windows(const value *in) { return ref_unfold(&in[0], 1, 3, 2); }
static tern_tensor *run_unfold_long(tern_tensor **in) { return tern_unfold(in[0], 0, 7, 2); }
static value ref_windows_long(const value *in) { return ref_unfold(&in[0], 0, 7, 2); }
static tern_tensor *run_repeat(tern_tensor **in) { return tern_repeat(in[0], TERN_SHAPE(2, 1, 3)); }
static value ref_repeated(const value *in) { return ref_repeat(&in[0], 3, (int64_t[]){ 2, 1, 3 }); }
static tern_tensor *run_repeat_all(tern_tensor **in)
{
    return tern_repeat(in[0], TERN_SHAPE(2, 3, 2, 2));
}
static value ref_repeated_all(const value *in)
{
    return ref_repeat(&in[0], 4, (int64_t[]){ 2, 3, 2, 2 });
}

/* All parts, in another order. */
static tern_tensor *last_first(tern_tensor **parts, int64_t count)
{
    tern_tensor *swapped[8];
    for (int64_t i = 0; i < count; i++)
        swapped[i] = parts[count - 1 - i];
    return count > 0 ? tern_cat_at(TERN_HERE, swapped, count, -1) : NULL;
}
static tern_tensor *run_split(tern_tensor **in)
{
    tern_tensor *parts[8];
    return last_first(parts, tern_split(in[0], 3, 1, parts, 8));
}
static tern_tensor *run_chunk(tern_tensor **in)
{
    tern_tensor *parts[8];
    return last_first(parts, tern_chunk(in[0], 3, -1, parts, 8));
}
/* of 7 columns parts of 3, 3 and 1 */
static value ref_split(const value *in)
{
    static const int64_t from[] = { 6, 3, 4, 5, 0, 1, 2 };
    value out = value_copy(&in[0]);
    for (int64_t i = 0; i < out.numel; i++)
        out.data[i] = in[0].data[i / 7 * 7 + from[i % 7]];
    return out;
}
static tern_tensor *run_unbind(tern_tensor **in)
{
    tern_tensor *parts[8];
    return last_first(parts, tern_unbind(in[0], 1, parts, 8));
}
static value ref_unbind(const value *in)
{
    const int64_t rows = in[0].dims[0], columns = in[0].dims[1];
    value out = value_new(1, &in[0].numel);
    for (int64_t i = 0; i < out.numel; i++)
        out.data[i] = in[0].data[i % rows * columns + columns - 1 - i / rows];
    return out;
}

static tern_tensor *run_cat(tern_tensor **in) { return tern_cat(1, in[0], in[1], in[0]); }
static value ref_cat(const value *in)
{
    const int64_t a = in[0].dims[1], b = in[1].dims[1];
    value out = value_new(2, (int64_t[]){ in[0].dims[0], a + b + a });
    for (int64_t r = 0; r < out.dims[0]; r++)
        for (int64_t c = 0; c < out.dims[1]; c++) {
            double *to = &out.data[r * out.dims[1] + c];
            if (c >= a && c < a + b)
                *to = in[1].data[r * b + c - a];
            else
                *to = in[0].data[r * a + (c < a ? c : c - a - b)];
        }
    return out;
}
static tern_tensor *run_stack(tern_tensor **in) { return tern_stack(0, in[0], in[1]); }
static value ref_stack(const value *in)
{
    value out = value_new(3, (int64_t[]){ 2, in[0].dims[0], in[0].dims[1] });
    for (int64_t i = 0; i < out.numel; i++)
        out.data[i] = in[i / in[0].numel].data[i % in[0].numel];
    return out;
}

static tern_tensor *run_embedding(tern_tensor **in) { return tern_embedding(in[0], in[1]); }
static value ref_embedding(const value *in)
{
    const int64_t width = in[0].dims[1];
    value out = value_new(3, (int64_t[]){ in[1].dims[0], in[1].dims[1], width });
    for (int64_t i = 0; i < out.numel; i++)
        out.data[i] = in[0].data[(int64_t)in[1].data[i / width] * width + i % width];
    return out;
}
static tern_tensor *run_embedding_grad(tern_tensor **in)
{
    tern_attr_dim attr = { .size = 6 };
    return core_op2(TERN_OP_embedding_grad, TERN_HERE, &attr, in[0], in[1]);
}
static value ref_embedding_grad(const value *in)
{
    const int64_t width = in[0].dims[in[0].ndim - 1];
    value out = value_new(2, (int64_t[]){ 6, width });
    for (int64_t i = 0; i < in[0].numel; i++)
        out.data[(int64_t)in[1].data[i / width] * width + i % width] += in[0].data[i];
    return out;
}
static tern_tensor *run_gather(tern_tensor **in) { return tern_gather(in[0], 1, in[1]); }
static tern_tensor *run_gather_i32(tern_tensor **in)
{
    return tern_gather(in[0], 1, tern_cast(in[1], TERN_I32));
}
static value ref_gather(const value *in)
{
    value out = value_copy(&in[1]);
    for (int64_t i = 0; i < out.numel; i++)
        out.data[i] = in[0].data[i / in[1].dims[1] * in[0].dims[1] + (int64_t)in[1].data[i]];
    return out;
}
static tern_tensor *run_gather_grad(tern_tensor **in)
{
    tern_attr_gather_grad attr = { .dim = 1, .ndim = 2, .dims = { 3, 5 } };
    return core_op2(TERN_OP_gather_grad, TERN_HERE, &attr, in[0], in[1]);
}
static value ref_gather_grad(const value *in)
{
    value out = value_new(2, (int64_t[]){ 3, 5 });
    for (int64_t i = 0; i < in[1].numel; i++)
        out.data[i / in[1].dims[1] * 5 + (int64_t)in[1].data[i]] += in[0].data[i];
    return out;
}

#define CASE1(name, label_, input, reference)                                                \
    { OPINFO(name), .label = label_, .in = { input }, .run = run_##name, .ref = reference,    \
      .differentiable = 1, .order = 2 }
#define CASE2(name, label_, a, b, grads)                                                     \
    { OPINFO(name), .label = label_, .in = { a, b }, .run = run_##name, .ref = ref_##name,    \
      .differentiable = grads, .order = 2 }

const opinfo opinfo_shape[] = {
    CASE1(view, "", REAL(2, 3, 4), ref_view),
    CASE1(reshape, "", REAL(2, 3, 4), ref_view),
    CASE1(flatten, "4-D", REAL(2, 3, 2, 2), ref_flatten),
    CASE1(permute, "", REAL(2, 3, 4), ref_permute),
    CASE1(transpose, "", REAL(2, 3, 4), ref_transpose),
    CASE1(slice, "step 2", REAL(3, 7), ref_slice),
    CASE1(select, "from the end", REAL(3, 5), ref_select),
    CASE1(squeeze, "", REAL(3, 1, 5), ref_squeeze),
    CASE1(unsqueeze, "", REAL(3, 5), ref_unsqueeze),
    CASE1(expand, "", REAL(1, 4), ref_expand),
    CASE1(expand, "of nothing", REAL(1, 0), ref_expand),
    CASE1(movedim, "", REAL(2, 3, 4), ref_movedim),
    CASE1(unfold, "overlapping", REAL(2, 8, 3), ref_windows),
    CASE1(split, "", REAL(2, 7), ref_split),
    CASE1(chunk, "", REAL(3, 7), ref_split),
    CASE1(unbind, "", REAL(3, 4), ref_unbind),
    CASE1(repeat, "", REAL(3, 2), ref_repeated),
    { OPINFO(unfold), .label = "few windows", .in = { REAL(9, 2) }, .run = run_unfold_long,
      .ref = ref_windows_long, .differentiable = 1, .order = 2 },
    { OPINFO(repeat), .label = "every dimension", .in = { REAL(2, 1, 2, 3) },
      .run = run_repeat_all, .ref = ref_repeated_all, .differentiable = 1, .order = 2 },
    CASE2(cat, "", REAL(3, 2), REAL(3, 4), 3),
    CASE2(cat, "with nothing", REAL(3, 0), REAL(3, 4), 3),
    CASE2(stack, "", REAL(3, 4), REAL(3, 4), 3),
    CASE2(embedding, "", REAL(6, 5), INDEX(6, 2, 4), 1),
    CASE2(embedding, "no indices", REAL(6, 5), INDEX(6, 0, 4), 1),
    CASE2(embedding, "no columns", REAL(6, 0), INDEX(6, 2, 4), 1),
    CASE2(embedding_grad, "", REAL(4, 5), INDEX(6, 4), 1),
    CASE2(gather, "", REAL(3, 5), INDEX(5, 3, 4), 1),
    { OPINFO(gather), .label = "i32", .in = { REAL(3, 5), INDEX(5, 3, 4) }, .run = run_gather_i32,
      .ref = ref_gather, .differentiable = 1, .order = 2 },
    CASE2(gather, "no places", REAL(3, 5), INDEX(5, 3, 0), 1),
    CASE2(gather_grad, "", REAL(3, 4), INDEX(5, 3, 4), 1),
};
const int opinfo_shape_count = sizeof opinfo_shape / sizeof *opinfo_shape;
