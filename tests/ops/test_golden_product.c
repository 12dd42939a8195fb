/* Products with names of their own against PyTorch: tests/golden/product.txt. */
#include "tests/support/check.h"
#include "tests/support/golden_rows.h"

#define OP GOLDEN_OP
#define TWO(name, equation) OP(name, tern_einsum(equation, in[0], in[1]))
#define ONE(name, equation) OP(name, tern_einsum(equation, in[0]))

OP(bmm, tern_bmm(in[0], in[1]))
OP(dot_op, tern_dot(in[0], in[1]))
OP(outer_op, tern_outer(in[0], in[1]))
OP(addmm, tern_addmm(in[0], in[1], in[2]))
OP(addmm_matrix, tern_addmm(in[0], in[1], in[2], .beta = 0.5, .alpha = -1.5))
OP(addmm_column, tern_addmm(in[0], in[1], in[2], .beta = 2))
OP(addmm_number, tern_addmm(in[0], in[1], in[2], .alpha = 0.25))
OP(addmm_no_input, tern_addmm(in[0], in[1], in[2], .beta = -0.0, .alpha = 2))
OP(addmm_no_product, tern_addmm(in[0], in[1], in[2], .beta = 3, .alpha = -0.0))
TWO(matmul, "ij,jk->ik")
TWO(transposed, "ij,kj->ki")
TWO(batch, "bij,bjk->bik")
TWO(batch_last, "ijb,jkb->bki")
TWO(two_summed, "abcd,cdea->be")
TWO(hadamard, "ij,ij->ij")
TWO(outer, "i,j->ij")
TWO(dot, "i,i->")
TWO(implicit, "ba,ac")
TWO(capitals, "cA,aA")
TWO(summed_alone, "ij,k->k")
TWO(ellipsis, "...ij,...jk->...ik")
TWO(ellipsis_implicit, "...ij,...jk")
TWO(ellipsis_summed, "...i,...i->i")
TWO(ellipsis_middle, "i...j,j...->...i")
TWO(diagonal_product, "iij,jk->ik")
TWO(two_diagonals, "ii,ji->ij")
TWO(broadcast_sum, "ij,kj->ik")
TWO(broadcast_batch, "bij,bjk->bik")
TWO(spaces, " i j , j k -> i k ")
TWO(attention, "bqhd,bkhd->bhqk")
ONE(one_trace, "ii")
ONE(one_diagonal, "ii->i")
ONE(one_transpose, "ij->ji")
ONE(one_sum, "ijk->j")
ONE(one_three, "iii->i")
ONE(one_diagonal_last, "bijj->jb")
ONE(one_ellipsis, "i...->...")

/* clang-format off */
static const golden_row rows[] = {
    { "bmm", "a b", run_bmm, 16 },
    { "dot", "a b", run_dot_op, 32 },
    { "outer", "a b", run_outer_op, 16 },
    { "addmm_row", "x a b", run_addmm, 32 },
    { "addmm_matrix", "x a b", run_addmm_matrix, 32 },
    { "addmm_column", "x a b", run_addmm_column, 32 },
    { "addmm_number", "x a b", run_addmm_number, 32 },
    { "addmm_no_input", "x a b", run_addmm_no_input, 32 },
    { "addmm_no_product", "x a b", run_addmm_no_product, 32 },
    { "es_matmul", "a b", run_matmul, 32 },
    { "es_transposed", "a b", run_transposed, 32 },
    { "es_batch", "a b", run_batch, 32 },
    { "es_batch_last", "a b", run_batch_last, 32 },
    { "es_two_summed", "a b", run_two_summed, 32 },
    { "es_hadamard", "a b", run_hadamard, 32 },
    { "es_outer", "a b", run_outer, 32 },
    { "es_dot", "a b", run_dot, 32 },
    { "es_implicit", "a b", run_implicit, 32 },
    { "es_capitals", "a b", run_capitals, 32 },
    { "es_summed_alone", "a b", run_summed_alone, 32 },
    { "es_ellipsis", "a b", run_ellipsis, 32 },
    { "es_ellipsis_implicit", "a b", run_ellipsis_implicit, 32 },
    { "es_ellipsis_summed", "a b", run_ellipsis_summed, 32 },
    { "es_ellipsis_middle", "a b", run_ellipsis_middle, 32 },
    { "es_diagonal_product", "a b", run_diagonal_product, 32 },
    { "es_two_diagonals", "a b", run_two_diagonals, 32 },
    { "es_broadcast_sum", "a b", run_broadcast_sum, 32 },
    { "es_broadcast_batch", "a b", run_broadcast_batch, 32 },
    { "es_spaces", "a b", run_spaces, 32 },
    { "es_attention", "a b", run_attention, 32 },
    { "es1_trace", "a", run_one_trace, 32 },
    { "es1_diagonal", "a", run_one_diagonal, 32 },
    { "es1_transpose", "a", run_one_transpose, 32 },
    { "es1_sum", "a", run_one_sum, 32 },
    { "es1_three", "a", run_one_three, 32 },
    { "es1_diagonal_last", "a", run_one_diagonal_last, 32 },
    { "es1_ellipsis", "a", run_one_ellipsis, 32 },
};
/* clang-format on */

int main(void)
{
    golden_use("product", rows, sizeof rows / sizeof *rows, "");
    const struct CMUnitTest tests[] = { GOLDEN_TESTS };
    return check_run(tests, golden_setup, golden_teardown);
}
