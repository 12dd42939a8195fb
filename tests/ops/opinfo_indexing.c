/* Elements found by numbers that are data. References walk plain values. */
#include "core/call.h"
#include "tests/ops/opinfo.h"
#include "tests/ref/ref.h"

/* clang-format off */

#define REAL(...) { INPUT_REAL, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ } }
#define INDEX(lo, hi, ...) \
    { INPUT_INDEX, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ }, .low = lo, .high = hi }
#define COUNTS(hi, n) { INPUT_REAL, .ndim = 1, .dims = { n }, .low = 0, .high = hi }
#define MASK(...) { INPUT_BOOL, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ } }

/* ---- index_select, scatter ---- */

static tern_tensor *run_select_0(tern_tensor **in) { return tern_index_select(in[0], 0, in[1]); }
static tern_tensor *run_select_1(tern_tensor **in)
{
    return tern_index_select(in[0], -1, tern_cast(in[1], TERN_I32));
}
static bool chosen(const value *x, const int64_t *at, int64_t *from, const void *user)
{
    const value *index = user;
    const int dim = index->ndim == 1 && index->dims[0] == 4 ? 0 : 1; /* as the cases below have it */
    for (int d = 0; d < x->ndim; d++)
        from[d] = d == dim ? (int64_t)index->data[at[d]] : at[d];
    return true;
}
static value ref_select_0(const value *in)
{
    return ref_taken(&in[0], 2, (int64_t[]){ in[1].numel, in[0].dims[1] }, chosen, &in[1]);
}
static value ref_select_1(const value *in)
{
    return ref_taken(&in[0], 2, (int64_t[]){ in[0].dims[0], 6 }, chosen, &in[1]);
}

static tern_tensor *run_scatter(tern_tensor **in) { return tern_scatter(in[0], 1, in[1], in[2]); }
static tern_tensor *run_scatter_number(tern_tensor **in) { return tern_scatter(in[0], 0, in[1], 1); }
static tern_tensor *run_scatter_add(tern_tensor **in) { return tern_scatter_add(in[0], 0, in[1], in[2]); }
static tern_tensor *run_scatter_inplace(tern_tensor **in)
{
    return tern_scatter_add_(tern_clone(in[0]), 0, in[1], in[2]);
}
/* in[2] missing: 1; into dimension `dim` of a matrix */
static value scattered(const value *in, int dim, bool adds)
{
    value out = value_copy(&in[0]);
    const int64_t columns = in[1].dims[in[1].ndim - 1];
    for (int64_t i = 0; i < in[1].numel; i++) {
        const int64_t r = i / columns, c = i % columns, k = (int64_t)in[1].data[i];
        double *to = &out.data[dim == 0 ? k * in[0].dims[1] + c : r * in[0].dims[1] + k];
        const double x = in[2].data == NULL ? 1 : in[2].data[r * in[2].dims[1] + c];
        *to = adds ? *to + x : x;
    }
    return out;
}
static value ref_scatter(const value *in) { return scattered(in, 1, false); }
static value ref_scatter_number(const value *in) { return scattered(in, 0, false); }
static value ref_scatter_add(const value *in) { return scattered(in, 0, true); }

/* ---- index, index_put: x [3, 4, 2], indices [2, 3] and [3] ---- */

static tern_tensor *run_index(tern_tensor **in) { return tern_index(in[0], in[1], in[2]); }
static tern_tensor *run_index_inner(tern_tensor **in) { return tern_index(in[0], NULL, in[1]); }
static int64_t from_end(double k, int64_t n) { return (int64_t)(k < 0 ? k + (double)n : k); }
static bool looked_up(const value *x, const int64_t *at, int64_t *from, const void *user)
{
    const value *in = user;
    from[0] = from_end(in[1].data[at[0] * 3 + at[1]], x->dims[0]);
    from[1] = from_end(in[2].data[at[1]], x->dims[1]);
    from[2] = at[2];
    return true;
}
static value ref_index(const value *in)
{
    return ref_taken(&in[0], 3, (int64_t[]){ in[1].dims[0], 3, in[0].dims[2] }, looked_up, in);
}
static bool looked_up_inner(const value *x, const int64_t *at, int64_t *from, const void *user)
{
    const value *in = user;
    from[0] = at[0];
    from[1] = from_end(in[1].data[at[1] * 2 + at[2]], x->dims[1]);
    from[2] = at[3];
    return true;
}
static value ref_index_inner(const value *in)
{
    return ref_taken(&in[0], 4, (int64_t[]){ in[0].dims[0], in[1].dims[0], 2, in[0].dims[2] }, looked_up_inner, in);
}

/* x [3, 4, 2] += values [2] at the places of in[1], in[2] */
static tern_tensor *run_index_put(tern_tensor **in)
{
    return tern_index_put(in[0], in[3], true, in[1], in[2]);
}
static value ref_index_put(const value *in)
{
    value out = value_copy(&in[0]);
    const int64_t *dims = in[0].dims;
    for (int64_t i = 0; i < in[1].numel; i++)
        for (int64_t c = 0; c < dims[2]; c++)
            out.data[(from_end(in[1].data[i], dims[0]) * dims[1] +
                      from_end(in[2].data[i % 3], dims[1])) * dims[2] + c] += in[3].data[c];
    return out;
}
static tern_tensor *run_index_put_mask(tern_tensor **in)
{
    return tern_index_put_(tern_clone(in[0]), 1, false, in[1]);
}
static value ref_index_put_mask(const value *in)
{
    value out = value_copy(&in[0]);
    for (int64_t i = 0; i < out.numel; i++)
        if (in[1].data[i] != 0)
            out.data[i] = 1;
    return out;
}
static tern_tensor *run_index_offset(tern_tensor **in)
{
    tern_attr_dim attr = { .dim = 1, .size = 5 };
    return core_op2(TERN_OP_index_offset, TERN_HERE, &attr, in[0], in[1]);
}
static value ref_index_offset(const value *in)
{
    value out = value_copy(&in[0]);
    for (int64_t i = 0; i < out.numel; i++)
        out.data[i] = in[1].data[i] * 5 + (double)from_end(in[0].data[i], 5);
    return out;
}

/* ---- results whose size depends on data ---- */

static int64_t count_set(const value *x)
{
    int64_t count = 0;
    for (int64_t i = 0; i < x->numel; i++)
        count += x->data[i] != 0;
    return count;
}
/* About half of the elements are not 0. */
static tern_tensor *thinned(tern_tensor *x, tern_tensor *mask)
{
    return tern_mul(x, tern_cast(mask, tern_dtype(x)));
}
static value thinned_value(const value *in)
{
    value out = value_copy(&in[0]);
    for (int64_t i = 0; i < out.numel; i++)
        out.data[i] = in[1].data[i] != 0 ? out.data[i] : 0;
    return out;
}
static tern_tensor *run_nonzero(tern_tensor **in) { return tern_nonzero(thinned(in[0], in[1])); }
static value ref_nonzero(const value *in)
{
    value x = thinned_value(in);
    value out = value_new(2, (int64_t[]){ count_set(&x), x.ndim });
    int64_t at[TERN_MAX_DIMS] = { 0 }, n = 0, i = 0;
    do {
        for (int d = 0; x.data[i] != 0 && d < x.ndim; d++)
            out.data[n++] = (double)at[d];
        i++;
    } while (ref_next(x.ndim, x.dims, at));
    value_free(&x);
    return out;
}
static tern_tensor *run_nonzero_starts(tern_tensor **in)
{
    return core_op1(TERN_OP_nonzero_starts, TERN_HERE, NULL, thinned(in[0], in[1]));
}
static value ref_nonzero_starts(const value *in)
{
    value x = thinned_value(in);
    const int64_t chunks = (x.numel + TERN_NONZERO_CHUNK - 1) / TERN_NONZERO_CHUNK;
    value out = value_new(1, (int64_t[]){ chunks + 1 });
    for (int64_t i = 0; i < x.numel; i++)
        for (int64_t c = i / TERN_NONZERO_CHUNK + 1; x.data[i] != 0 && c <= chunks; c++)
            out.data[c]++;
    value_free(&x);
    return out;
}
static tern_tensor *run_masked_select(tern_tensor **in) { return tern_masked_select(in[0], in[1]); }
static value ref_masked_select(const value *in) /* x [n], mask [rows, n] */
{
    value out = value_new(1, (int64_t[]){ count_set(&in[1]) });
    for (int64_t i = 0, n = 0; i < in[1].numel; i++)
        if (in[1].data[i] != 0)
            out.data[n++] = in[0].data[i % in[0].numel];
    return out;
}
static tern_tensor *run_one_hot(tern_tensor **in)
{
    return tern_cast(tern_one_hot(in[1], 5), tern_dtype(in[0]));
}
static value ref_one_hot(const value *in)
{
    value out = value_new(2, (int64_t[]){ in[1].numel, 5 });
    for (int64_t i = 0; i < in[1].numel; i++)
        out.data[i * 5 + (int64_t)in[1].data[i]] = 1;
    return out;
}

/* ---- sums and repetitions ---- */

static tern_tensor *run_index_add(tern_tensor **in) { return tern_index_add(in[0], 0, in[1], in[2]); }
static tern_tensor *run_index_add_inplace(tern_tensor **in)
{
    return tern_index_add_(tern_clone(in[0]), 0, tern_cast(in[1], TERN_I32), in[2]);
}
static value ref_index_add(const value *in)
{
    value out = value_copy(&in[0]);
    for (int64_t i = 0; i < in[2].numel; i++) {
        const int64_t columns = in[2].dims[1];
        out.data[(int64_t)in[1].data[i / columns] * columns + i % columns] += in[2].data[i];
    }
    return out;
}
static tern_tensor *run_bincount(tern_tensor **in)
{
    return tern_cast(tern_bincount(in[0], NULL, 3), tern_dtype(in[0]));
}
static tern_tensor *run_bincount_weights(tern_tensor **in)
{
    tern_tensor *sums = tern_bincount(in[0], tern_cast(in[1], TERN_F32), 9);
    return tern_cast(sums, tern_dtype(in[0]));
}
static value counted(const value *in, int64_t size)
{
    for (int64_t i = 0; i < in[0].numel; i++)
        size = in[0].data[i] >= (double)size ? (int64_t)in[0].data[i] + 1 : size;
    value out = value_new(1, &size);
    for (int64_t i = 0; i < in[0].numel; i++)
        out.data[(int64_t)in[0].data[i]] += in[1].data == NULL ? 1 : in[1].data[i];
    return out;
}
static value ref_bincount(const value *in) { return counted(in, 3); }
static value ref_bincount_weights(const value *in) { return counted(in, 9); }
static tern_tensor *run_repeat_each(tern_tensor **in) { return tern_repeat_interleave(in[0], 3, -1); }
static tern_tensor *run_repeat_rows(tern_tensor **in) { return tern_repeat_interleave(in[0], in[1], 0); }
static bool each_thrice(const value *x, const int64_t *at, int64_t *from, const void *user)
{
    (void)x;
    (void)user;
    from[0] = at[0];
    from[1] = at[1] / 3;
    return true;
}
static value ref_repeat_each(const value *in)
{
    return ref_taken(&in[0], 2, (int64_t[]){ in[0].dims[0], 3 * in[0].dims[1] }, each_thrice, NULL);
}
static value ref_repeat_rows(const value *in)
{
    int64_t rows = 0, n = 0;
    const int64_t columns = in[0].dims[1];
    for (int64_t i = 0; i < in[1].numel; i++)
        rows += (int64_t)in[1].data[i];
    value out = value_new(2, (int64_t[]){ rows, columns });
    for (int64_t i = 0; i < in[1].numel; i++)
        for (int64_t k = 0; k < (int64_t)in[1].data[i] * columns; k++)
            out.data[n++] = in[0].data[i * columns + k % columns];
    return out;
}

#define CASE(row, label_, name, ref_, grads, ...)                                            \
    { OPINFO(row), .label = label_, .in = { __VA_ARGS__ }, .run = run_##name, .ref = ref_,    \
      .differentiable = grads, .order = (grads) != 0 ? 2 : 0 }

const opinfo opinfo_indexing[] = {
    CASE(index_select, "dim 0", select_0, ref_select_0, 1, REAL(3, 5), INDEX(0, 3, 4)),
    CASE(index_select, "long rows", select_0, ref_select_0, 1, REAL(3, 40), INDEX(0, 3, 4)),
    CASE(index_select, "i32, last dim", select_1, ref_select_1, 1, REAL(3, 5), INDEX(0, 5, 6)),
    CASE(scatter, "a larger src", scatter, ref_scatter, 5, REAL(3, 5), INDEX(0, 5, 2, 1), REAL(2, 3)),
    CASE(index_select, "nothing", select_0, ref_select_0, 1, REAL(3, 5), INDEX(0, 3, 0)),
    CASE(scatter, "nothing", scatter, ref_scatter, 5, REAL(3, 5), INDEX(0, 5, 0, 1), REAL(0, 3)),
    CASE(scatter_add, "nothing", scatter_add, ref_scatter_add, 5, REAL(3, 5), INDEX(0, 3, 0, 4), REAL(0, 4)),
    CASE(index, "nothing", index, ref_index, 1, REAL(3, 4, 2), INDEX(-3, 3, 0, 3), INDEX(-4, 4, 3)),
    CASE(index_put, "nothing", index_put, ref_index_put, 9, REAL(3, 4, 2), INDEX(-3, 3, 0, 3),
         INDEX(-4, 4, 3), REAL(2)),
    CASE(scatter, "a number", scatter_number, ref_scatter_number, 1, REAL(4, 5), INDEX(0, 4, 3, 4)),
    CASE(scatter_add, "", scatter_add, ref_scatter_add, 5, REAL(3, 5), INDEX(0, 3, 6, 4), REAL(6, 4)),
    CASE(scatter_add, "in place", scatter_inplace, ref_scatter_add, 5, REAL(3, 40), INDEX(0, 3, 6, 30),
         REAL(6, 30)),
    CASE(index, "two dims", index, ref_index, 1, REAL(3, 4, 2), INDEX(-3, 3, 2, 3), INDEX(-4, 4, 3)),
    CASE(index, "an inner dim", index_inner, ref_index_inner, 1, REAL(3, 4, 2), INDEX(-4, 4, 3, 2)),
    CASE(index_put, "accumulate", index_put, ref_index_put, 9, REAL(3, 4, 2), INDEX(-3, 3, 2, 3),
         INDEX(-4, 4, 3), REAL(2)),
    CASE(index_put, "mask, in place", index_put_mask, ref_index_put_mask, 1, REAL(5, 7), MASK(5, 7)),
    CASE(index_offset, "", index_offset, ref_index_offset, 0, INDEX(-5, 5, 4, 6), INDEX(0, 7, 4, 6)),
    CASE(nonzero, "", nonzero, ref_nonzero, 0, REAL(5, 7, 3), MASK(5, 7, 3)),
    CASE(nonzero, "more than a chunk", nonzero, ref_nonzero, 0, REAL(71, 137), MASK(71, 137)),
    CASE(nonzero_starts, "", nonzero_starts, ref_nonzero_starts, 0, REAL(71, 137), MASK(71, 137)),
    CASE(masked_select, "broadcast", masked_select, ref_masked_select, 1, REAL(7), MASK(5, 7)),
    CASE(one_hot, "", one_hot, ref_one_hot, 0, REAL(1), INDEX(0, 5, 9)),
    CASE(index_add, "", index_add, ref_index_add, 5, REAL(3, 5), INDEX(0, 3, 6), REAL(6, 5)),
    CASE(index_add, "in place", index_add_inplace, ref_index_add, 5, REAL(3, 40), INDEX(0, 3, 6), REAL(6, 40)),
    CASE(index_add, "nothing", index_add, ref_index_add, 5, REAL(3, 5), INDEX(0, 3, 0), REAL(0, 5)),
    CASE(bincount, "", bincount, ref_bincount, 0, COUNTS(7, 40)),
    CASE(bincount, "weights", bincount_weights, ref_bincount_weights, 0, COUNTS(7, 12), INDEX(0, 5, 12)),
    CASE(repeat_interleave, "a number", repeat_each, ref_repeat_each, 1, REAL(3, 5)),
    CASE(repeat_interleave, "a tensor", repeat_rows, ref_repeat_rows, 1, REAL(4, 5), INDEX(0, 4, 4)),
};
const int opinfo_indexing_count = sizeof opinfo_indexing / sizeof *opinfo_indexing;
