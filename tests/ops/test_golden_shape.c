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

#define ROW(name)                 \
    {                             \
#name, "x", run_##name, 4 \
    }
static const golden_row rows[] = {
    ROW(split),        ROW(split_sizes), ROW(chunk),        ROW(unbind),      ROW(movedim),
    ROW(movedim_back), ROW(unfold),      ROW(unfold_apart), ROW(unfold_long), ROW(unfold_0d),
    ROW(repeat),       ROW(repeat_more), ROW(repeat_5d),    ROW(repeat_once),
};
enum { ROWS = sizeof rows / sizeof *rows };

static void test_ops_agree_with_pytorch(void **state)
{
    (void)state;
    golden_check_rows(rows, ROWS);
}

static void test_every_case_is_used(void **state)
{
    (void)state;
    static const char *const elsewhere[] = { NULL };
    golden_check_complete(rows, ROWS, elsewhere);
}

static int open_vectors(void **state)
{
    (void)state;
    return golden_open_or_say("shape");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_ops_agree_with_pytorch),
                                        cmocka_unit_test(test_every_case_is_used) };
    return check_run(tests, open_vectors, NULL);
}
