/* Views and copies with elements in other places against golden vectors. */
#include "tests/support/check.h"
#include "tests/support/golden_rows.h"

/* Parts as one row, the last first. */
static tern_tensor *joined(tern_tensor **parts, int64_t count)
{
    tern_tensor *rows[8];
    for (int64_t i = 0; i < count; i++)
        rows[i] = tern_reshape(parts[count - 1 - i], TERN_SHAPE(-1));
    return count > 0 ? tern_cat_at(TERN_HERE, rows, count, 0) : NULL;
}

static tern_tensor *run_split(tern_tensor **in)
{
    tern_tensor *parts[8];
    return joined(parts, tern_split(in[0], 3, 1, parts, 8));
}

static tern_tensor *run_split_sizes(tern_tensor **in)
{
    tern_tensor *parts[8];
    const int64_t sizes[] = { 2, 0, 3 };
    return joined(parts, tern_split_sizes(in[0], sizes, 3, 0, parts, 8));
}

static tern_tensor *run_chunk(tern_tensor **in)
{
    tern_tensor *parts[8];
    return joined(parts, tern_chunk(in[0], 4, 0, parts, 8));
}

static tern_tensor *run_unbind(tern_tensor **in)
{
    tern_tensor *parts[8];
    return joined(parts, tern_unbind(in[0], -1, parts, 8));
}

GOLDEN_OP(movedim, tern_movedim(in[0], 1, -1))
GOLDEN_OP(movedim_back, tern_movedim(in[0], -1, 0))
GOLDEN_OP(unfold, tern_unfold(in[0], 1, 3, 2))
GOLDEN_OP(unfold_apart, tern_unfold(in[0], 0, 2, 3))
GOLDEN_OP(unfold_long, tern_unfold(in[0], -1, 7, 1))
GOLDEN_OP(unfold_0d, tern_unfold(in[0], 0, 1, 1))
GOLDEN_OP(repeat, tern_repeat(in[0], TERN_SHAPE(2, 3)))
GOLDEN_OP(repeat_more, tern_repeat(in[0], TERN_SHAPE(2, 1, 3, 2)))
GOLDEN_OP(repeat_5d, tern_repeat(in[0], TERN_SHAPE(2, 3, 2, 2, 1)))
GOLDEN_OP(repeat_once, tern_repeat(in[0], TERN_SHAPE(1, 1)))
GOLDEN_OP(flip, tern_flip(in[0], TERN_DIMS(0, -1)))
GOLDEN_OP(flip_0d, tern_flip(in[0], TERN_DIMS(0)))
GOLDEN_OP(roll, tern_roll(in[0], TERN_SHAPE(1, -2), TERN_DIMS(0, 1)))
GOLDEN_OP(roll_flat, tern_roll(in[0], TERN_SHAPE(7), (tern_dims_t){ 0 }))
GOLDEN_OP(roll_twice, tern_roll(in[0], TERN_SHAPE(2, 9), TERN_DIMS(1, 1)))
GOLDEN_OP(tril, tern_tril(in[0], 0))
GOLDEN_OP(tril_1, tern_tril(in[0], 1))
GOLDEN_OP(triu_2, tern_triu(in[0], 2))
GOLDEN_OP(triu_below, tern_triu(in[0], -1))
GOLDEN_OP(pad, tern_pad(in[0], { 1, 2, 0, 1 }, .value = 1.5))
GOLDEN_OP(pad_cut, tern_pad(in[0], { -1, 2, 1, -2 }))
GOLDEN_OP(pad_reflect, tern_pad(in[0], { 3, 1 }, TERN_PAD_REFLECT))
GOLDEN_OP(pad_reflect_cut, tern_pad(in[0], { -2, 3 }, TERN_PAD_REFLECT))
GOLDEN_OP(pad_reflect_2d, tern_pad(in[0], { 3, 1, 2, 0 }, TERN_PAD_REFLECT))
GOLDEN_OP(pad_replicate, tern_pad(in[0], { 2, 5 }, TERN_PAD_REPLICATE))
GOLDEN_OP(pad_replicate_2d, tern_pad(in[0], { 4, 1, -2, 2 }, TERN_PAD_REPLICATE))
GOLDEN_OP(pad_replicate_3d, tern_pad(in[0], { 1, 1, 0, 2, 1, 0 }, TERN_PAD_REPLICATE))
GOLDEN_OP(pad_circular, tern_pad(in[0], { 2, 3, 1, 0 }, TERN_PAD_CIRCULAR))
GOLDEN_OP(pad_circular_cut, tern_pad(in[0], { -1, 2, 1, -2 }, TERN_PAD_CIRCULAR))
GOLDEN_OP(pad_reflect_beyond, tern_pad(in[0], { -6, 4, 3, -5 }, TERN_PAD_REFLECT))
GOLDEN_OP(pad_replicate_beyond, tern_pad(in[0], { -6, 7, 8, -7 }, TERN_PAD_REPLICATE))

/* ---- made from nothing ---- */

GOLDEN_OP(linspace, ((void)in, tern_linspace(-1, 2, 7, TERN_F64)))
GOLDEN_OP(linspace_i64, ((void)in, tern_linspace(-3, 10, 6, TERN_I64)))
GOLDEN_OP(linspace_i32, ((void)in, tern_linspace(-3.7, 7.9, 6, TERN_I32)))
GOLDEN_OP(linspace_one, ((void)in, tern_linspace(5, 9, 1, TERN_F64)))
GOLDEN_OP(eye, ((void)in, tern_eye(4, 2, TERN_F64)))

GOLDEN_OP(stack, tern_stack(1, in[0], in[1]))
GOLDEN_OP(stack_last, tern_stack(-1, in[0], in[1]))
GOLDEN_OP(arange, ((void)in, tern_arange(-1, 2, 0.75, TERN_F64)))
GOLDEN_OP(arange_down, ((void)in, tern_arange(7, -2, -3)))

#define ROW(name)                 \
    {                             \
#name, "x", run_##name, 4 \
    }
#define MADE(name)               \
    {                            \
#name, "", run_##name, 4 \
    }
static const golden_row rows[] = {
    ROW(split),
    ROW(split_sizes),
    ROW(chunk),
    ROW(unbind),
    ROW(movedim),
    ROW(movedim_back),
    ROW(unfold),
    ROW(unfold_apart),
    ROW(unfold_long),
    ROW(unfold_0d),
    ROW(repeat),
    ROW(repeat_more),
    ROW(repeat_5d),
    ROW(repeat_once),
    ROW(flip),
    ROW(flip_0d),
    ROW(roll),
    ROW(roll_flat),
    ROW(roll_twice),
    ROW(tril),
    ROW(tril_1),
    ROW(triu_2),
    ROW(triu_below),
    ROW(pad),
    ROW(pad_cut),
    ROW(pad_reflect),
    ROW(pad_reflect_cut),
    ROW(pad_reflect_2d),
    ROW(pad_replicate),
    ROW(pad_replicate_2d),
    ROW(pad_replicate_3d),
    ROW(pad_circular),
    ROW(pad_circular_cut),
    ROW(pad_reflect_beyond),
    ROW(pad_replicate_beyond),
    MADE(linspace),
    MADE(linspace_i64),
    MADE(linspace_i32),
    MADE(linspace_one),
    MADE(eye),
    MADE(arange),
    MADE(arange_down),
    { "stack", "x t", run_stack, 4 },
    { "stack_last", "x t", run_stack_last, 4 },
};

int main(void)
{
    golden_use("shape", rows, sizeof rows / sizeof *rows, "");
    const struct CMUnitTest tests[] = { GOLDEN_TESTS };
    return check_run(tests, golden_setup, golden_teardown);
}
