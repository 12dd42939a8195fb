/* Products with names of their own: bmm, addmm, dot, outer, einsum. */
#include "core/call.h"
#include "tests/ops/opinfo.h"
#include "tests/ref/ref.h"

/* clang-format off */

#define REAL(...) { INPUT_REAL, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ } }
#define NUMBER { INPUT_REAL, .ndim = 0 }

/* A function of in[] and its reference, which is an einsum without broadcasting. */
#define CASE(name, expression, reference)                                       \
    static tern_tensor *run_##name(tern_tensor **in) { return expression; }     \
    static value ref_##name(const value *in) { return reference; }
#define EINSUM(name, equation)                                                  \
    CASE(name, tern_einsum(equation, in[0], in[1]), ref_einsum(equation, &in[0], &in[1]))

CASE(bmm, tern_bmm(in[0], in[1]), ref_matmul(&in[0], &in[1]))
CASE(dot, tern_dot(in[0], in[1]), ref_einsum("i,i->", &in[0], &in[1]))
CASE(outer, tern_outer(in[0], in[1]), ref_einsum("i,j->ij", &in[0], &in[1]))
CASE(trace, tern_einsum("ii", in[0]), ref_einsum("ii->", &in[0], NULL))
CASE(diagonal, tern_einsum("bijj->jb", in[0]), ref_einsum("bijj->jb", &in[0], NULL))
CASE(ellipsis, tern_einsum("...ij,...jk->...ik", in[0], in[1]), ref_einsum("abij,bjk->abik", &in[0], &in[1]))
EINSUM(turned, "ij,kj->ki")
EINSUM(batch_last, "ijb,jkb->bki")
EINSUM(two_summed, "abcd,cdea->be")
EINSUM(elements, "ij,ji->ij")
EINSUM(alone, "aij,jk->k")
EINSUM(diagonals, "iij,jk->ik")
EINSUM(attention, "bqhd,bkhd->bhqk")

static value scaled_sum(const value *in, double beta, double alpha)
{
    value out = ref_einsum("ij,jk->ik", &in[1], &in[2]);
    int64_t at[2] = { 0 }, i = 0;
    if (out.numel > 0)
        do {
            out.data[i] = alpha * out.data[i] + beta * in[0].data[ref_place(&in[0], 2, at)];
            i++;
        } while (ref_next(2, out.dims, at));
    return out;
}
CASE(addmm, tern_addmm(in[0], in[1], in[2]), scaled_sum(in, 1, 1))
CASE(addmm_scaled, tern_addmm(in[0], in[1], in[2], .beta = 3, .alpha = -2), scaled_sum(in, 3, -2))
CASE(addmm_alone, tern_addmm(in[0], in[1], in[2], .beta = -0.0, .alpha = 2), scaled_sum(in, 0, 2))

/* half types round sums of operands before the product, and a product before what is added to it */
#define TWO(op_, label_, name, a, b)                                                             \
    { OPINFO(op_), .label = label_, .in = { a, b }, .run = run_##name, .ref = ref_##name,         \
      .differentiable = 3, .order = 2, .floor = 8 }
#define ONE(op_, label_, name, a)                                                                \
    { OPINFO(op_), .label = label_, .in = { a }, .run = run_##name, .ref = ref_##name,            \
      .differentiable = 1, .order = 2, .floor = 4 }
#define ADDMM(label_, name, x, a, b)                                                             \
    { OPINFO(addmm), .label = label_, .in = { x, a, b }, .run = run_##name, .ref = ref_##name,    \
      .differentiable = 7, .order = 2, .floor = 16 }

const opinfo opinfo_einsum[] = {
    TWO(bmm, "", bmm, REAL(3, 5, 4), REAL(3, 4, 6)),
    TWO(bmm, "no batch", bmm, REAL(0, 5, 4), REAL(0, 4, 6)),
    TWO(dot, "", dot, REAL(19), REAL(19)),
    TWO(dot, "nothing", dot, REAL(0), REAL(0)),
    TWO(outer, "", outer, REAL(5), REAL(3)),
    ADDMM("row", addmm, REAL(6), REAL(5, 4), REAL(4, 6)),
    ADDMM("matrix", addmm, REAL(5, 6), REAL(5, 4), REAL(4, 6)),
    ADDMM("column, factors", addmm_scaled, REAL(5, 1), REAL(5, 4), REAL(4, 6)),
    ADDMM("number, factors", addmm_scaled, NUMBER, REAL(5, 4), REAL(4, 6)),
    ADDMM("input not read", addmm_alone, REAL(5, 6), REAL(5, 4), REAL(4, 6)),
    ADDMM("no depth", addmm_scaled, REAL(6), REAL(5, 0), REAL(0, 6)),
    TWO(einsum, "turned", turned, REAL(5, 4), REAL(3, 4)),
    TWO(einsum, "batch last", batch_last, REAL(3, 4, 2), REAL(4, 5, 2)),
    TWO(einsum, "two summed", two_summed, REAL(2, 3, 4, 2), REAL(4, 2, 3, 2)),
    TWO(einsum, "elements", elements, REAL(3, 4), REAL(4, 3)),
    { OPINFO(einsum), .label = "summed alone", .in = { REAL(2, 3, 4), REAL(4, 2) }, .run = run_alone,
      .ref = ref_alone, .differentiable = 3, .order = 2, .floor = 8,
      .skip_dtypes = B(TERN_U8) | B(TERN_I8) | B(TERN_I16) | B(TERN_I32),
      .why = "the sum of one operand alone is i64, which no product takes with the other: PyTorch's error" },
    TWO(einsum, "extent of 1 summed", turned, REAL(5, 1), REAL(3, 4)),
    TWO(einsum, "extent of 1 kept", attention, REAL(1, 3, 2, 4), REAL(2, 5, 2, 4)),
    TWO(einsum, "diagonals", diagonals, REAL(3, 3, 4), REAL(4, 2)),
    TWO(einsum, "attention", attention, REAL(2, 3, 2, 4), REAL(2, 5, 2, 4)),
    TWO(einsum, "ellipsis", ellipsis, REAL(2, 1, 3, 4), REAL(3, 4, 2)),
    TWO(einsum, "no depth", turned, REAL(5, 0), REAL(3, 0)),
    TWO(einsum, "empty", batch_last, REAL(0, 4, 2), REAL(4, 5, 2)),
    ONE(einsum, "trace", trace, REAL(4, 4)),
    ONE(einsum, "diagonal", diagonal, REAL(2, 3, 4, 4)),
};
const int opinfo_einsum_count = sizeof opinfo_einsum / sizeof *opinfo_einsum;
