/* Elements found by numbers that are data, against golden vectors. */
#include "tests/support/check.h"
#include "tests/support/golden_rows.h"

GOLDEN_OP(index_select_0, tern_index_select(in[0], 0, in[1]))
GOLDEN_OP(index_select_1, tern_index_select(in[0], -1, in[1]))
GOLDEN_OP(masked_select, tern_masked_select(in[0], tern_ne(in[1], 0)))
GOLDEN_OP(scatter_1, tern_scatter(in[0], 1, in[2], in[1]))
GOLDEN_OP(scatter_number, tern_scatter(in[0], 0, in[1], 1.5))
GOLDEN_OP(scatter_add_0, tern_scatter_add(in[0], 0, in[2], in[1]))
GOLDEN_OP(scatter_add_2, tern_scatter_add(in[0], 2, in[2], in[1]))
GOLDEN_OP(index_one, tern_index(in[0], in[1]))
GOLDEN_OP(index_inner, tern_index(in[0], NULL, in[1]))
GOLDEN_OP(index_two, tern_index(in[0], NULL, in[1], in[2]))
GOLDEN_OP(index_apart, tern_index(in[0], in[1], NULL, in[2]))
GOLDEN_OP(index_mask, tern_index(in[0], tern_ne(in[1], 0)))
GOLDEN_OP(index_mask_and, tern_index(in[0], tern_ne(in[1], 0), in[2]))
GOLDEN_OP(put_one, tern_index_put(in[0], in[1], false, NULL, in[2]))
GOLDEN_OP(put_two, tern_index_put(in[0], in[1], false, in[2], in[3]))
GOLDEN_OP(put_add, tern_index_put(in[0], in[1], true, in[2], in[3]))
GOLDEN_OP(put_mask, tern_index_put(in[0], in[1], false, tern_ne(in[2], 0)))
GOLDEN_OP(nonzero, tern_nonzero(in[0]))
GOLDEN_OP(nonzero_float, tern_nonzero(in[0]))
GOLDEN_OP(one_hot, tern_one_hot(in[0], 0))
GOLDEN_OP(one_hot_6, tern_one_hot(in[0], 6))
GOLDEN_OP(index_add_0, tern_index_add(in[0], 0, in[2], in[1]))
GOLDEN_OP(index_add_1, tern_index_add(in[0], -1, in[2], in[1]))
GOLDEN_OP(bincount, tern_bincount(in[0], NULL, 0))
GOLDEN_OP(bincount_least, tern_bincount(in[0], NULL, 7))
GOLDEN_OP(bincount_weights, tern_bincount(in[0], in[1], 0))
GOLDEN_OP(repeat_each, tern_repeat_interleave(in[0], 3, 1))
GOLDEN_OP(repeat_none, tern_repeat_interleave(in[0], 0, 0))
GOLDEN_OP(repeat_some, tern_repeat_interleave(in[0], in[1], -1))
GOLDEN_OP(repeat_one, tern_repeat_interleave(in[0], in[1], 0))

#define ROW(name, inputs)            \
    {                                \
#name, inputs, run_##name, 8 \
    }
static const golden_row rows[] = {
    ROW(index_select_0, "x i"),   ROW(index_select_1, "x i"),
    ROW(masked_select, "x m"),    ROW(scatter_1, "x s i"),
    ROW(scatter_number, "x i"),   ROW(scatter_add_0, "x s i"),
    ROW(scatter_add_2, "x s i"),  ROW(index_one, "x i"),
    ROW(index_inner, "x i"),      ROW(index_two, "x i j"),
    ROW(index_apart, "x i j"),    ROW(index_mask, "x m"),
    ROW(index_mask_and, "x m j"), ROW(put_one, "x v i"),
    ROW(put_two, "x v i j"),      ROW(put_add, "x v i j"),
    ROW(put_mask, "x v m"),       ROW(nonzero, "x"),
    ROW(nonzero_float, "x"),      ROW(one_hot, "i"),
    ROW(one_hot_6, "i"),          ROW(index_add_0, "x s i"),
    ROW(index_add_1, "x s i"),    ROW(bincount, "x"),
    ROW(bincount_least, "x"),     ROW(bincount_weights, "x w"),
    ROW(repeat_each, "x"),        ROW(repeat_none, "x"),
    ROW(repeat_some, "x r"),      ROW(repeat_one, "x r"),
};

int main(void)
{
    golden_use("indexing", rows, sizeof rows / sizeof *rows, "");
    const struct CMUnitTest tests[] = { GOLDEN_TESTS };
    return check_run(tests, golden_setup, golden_teardown);
}
