/* Each op takes the dtypes that PyTorch's takes on the same device, the CPU or CUDA, forward and backward:
 * tests/golden/dtypes.txt, made from PyTorch's own metadata. What is left out has a reason in
 * missing_dtypes.def. The metadata knows the first operand of an op alone; numbers of rows, classes and masks are
 * tried, in PyTorch on the CPU: dtypes_index.txt. */
#include <stdio.h>
#include <stdlib.h>

#include "core/call.h"
#include "core/op_id.h"
#include "tests/ops/opinfo.h"
#include "tests/support/check.h"

static const struct {
    const char *device, *row, *dtype, *why;
} missing[] = {
#define MISSING(device, row, dtype, why) { #device, #row, #dtype, why },
#define NO_GRADIENT(row, why)
#include "tests/ops/missing_dtypes.def"
#undef MISSING
#undef NO_GRADIENT
    { NULL, NULL, NULL, NULL } /* the list may be empty */
};
enum { MISSING_COUNT = sizeof missing / sizeof *missing - 1 };

static const struct {
    const char *row, *why;
} no_gradient[] = {
#define MISSING(device, row, dtype, why)
#define NO_GRADIENT(row, why) { #row, why },
#include "tests/ops/missing_dtypes.def"
#undef MISSING
#undef NO_GRADIENT
};
enum { NO_GRADIENTS = sizeof no_gradient / sizeof *no_gradient };

static int failures, taken, gradients;
static bool met[MISSING_COUNT + 1]; /* entries of the list that PyTorch's metadata asks for */

static bool is_of_this_device(int i)
{
    return strcmp(missing[i].device, check_on_cpu() ? "CPU" : "CUDA") == 0;
}

/* Is it in the list? */
static bool is_missing(const char *row, tern_dtype_t dtype)
{
    for (int i = 0; i < MISSING_COUNT; i++)
        if (is_of_this_device(i) && strcmp(missing[i].row, row) == 0 &&
            strcmp(missing[i].dtype, tern_dtype_name(dtype)) == 0)
            return met[i] = true;
    return false;
}

static bool has_no_gradient(const char *row)
{
    for (int i = 0; i < NO_GRADIENTS; i++)
        if (strcmp(no_gradient[i].row, row) == 0)
            return true;
    return false;
}

static void complain(const char *row, tern_dtype_t dtype, const char *what)
{
    failures++;
    print_error("%s in %s: %s\n", row, tern_dtype_name(dtype), what);
}

/* The result of the op's case in a dtype, with `backward` after a walk back; NULL: not taken. */
static tern_tensor *run(const opinfo *info, tern_dtype_t dtype, bool backward)
{
    value values[MAX_IN];
    tern_tensor *in[MAX_IN];
    opinfo_values(info, dtype, values);
    opinfo_tensors(info, dtype, LAYOUT_ROW_MAJOR, values, in);
    for (int i = 0; i < MAX_IN; i++) {
        value_free(&values[i]);
        if (backward && info->in[i].kind == INPUT_REAL)
            in[i] = tern_set_requires_grad(in[i], true);
    }
    assert_no_error();
    tern_tensor *out = info->run(in);
    if (out != NULL && tern_requires_grad(out))
        (void)tern_backward(out, tern_ones(tern_shape(out), tern_dtype(out)));
    if (out != NULL && !tern_failed()) /* bad values are found at a wait */
        (void)tern_dev_synchronize(tern_default_device());
    return tern_failed() ? NULL : out;
}

static void check_forward(const char *row, const opinfo *info, tern_dtype_t dtype)
{
    TERN_SCOPE;
    if (info->skip_dtypes & (1u << dtype)) /* a gradient's case whose inputs have several dtypes */
        return;
    const bool takes = run(info, dtype, false) != NULL, listed = is_missing(row, dtype);
    if (!takes && !listed)
        complain(row, dtype, tern_error_text());
    if (takes && listed)
        complain(row, dtype, "is taken, and is in missing_dtypes.def");
    taken += takes;
    tern_error_clear();
}

static void check_backward(const char *row, const opinfo *info, tern_dtype_t dtype)
{
    TERN_SCOPE;
    const tern_tensor *out = run(info, dtype, true);
    if (out == NULL)
        complain(row, dtype, tern_error_text());
    else if (tern_requires_grad(out) == has_no_gradient(row))
        complain(row, dtype,
                 tern_requires_grad(out) ? "has a gradient, against missing_dtypes.def"
                                         : "PyTorch's has a gradient");
    gradients++;
    tern_error_clear();
}

/* The row's first case that runs in the dtype; where none does, its first. */
static const opinfo *case_of(const char *row, tern_dtype_t dtype)
{
    const opinfo *first = NULL;
    for (int i = 0; opinfo_at(i) != NULL; i++) {
        if (strcmp(opinfo_at(i)->op, row) != 0)
            continue;
        if ((opinfo_at(i)->skip_dtypes & (1u << dtype)) == 0)
            return opinfo_at(i);
        first = first == NULL ? opinfo_at(i) : first;
    }
    if (first == NULL)
        fail_msg("no case for %s", row);
    return first;
}

/* Calls `check` for each dtype named in a field: "f16 f32" or "-". */
static void each_dtype(const char *field, const char *row,
                       void (*check)(const char *, const opinfo *, tern_dtype_t))
{
    char name[16];
    int used = 0;
    for (const char *at = field; sscanf(at, "%15s%n", name, &used) == 1; at += used) {
        if (strcmp(name, "-") == 0)
            return;
        const tern_dtype_t dtype = tern_dtype_parse(name);
        assert_int_not_equal(dtype, TERN_DTYPE_NONE);
        check(row, case_of(row, dtype), dtype);
    }
}

/* A line of the table: row, dtypes and those of gradients on the CPU, the same on CUDA. */
static void check_line(const char *line, bool *listed)
{
    char row[48], field[4][128];
    assert_int_equal(sscanf(line, "%47[^:]:%127[^:]:%127[^:]:%127[^:]:%127[^:]:", row, field[0],
                            field[1], field[2], field[3]),
                     5);
    assert_non_null(opinfo_row(row));
    listed[opinfo_row(row)->id_] = true;
    const int device = check_on_cpu() ? 0 : 2;
    each_dtype(field[device], row, check_forward);
    each_dtype(field[device + 1], row, check_backward);
}

/* Each entry of the list is about a dtype that PyTorch takes. */
static void check_list(void)
{
    for (int i = 0; i < NO_GRADIENTS; i++)
        print_message("no gradient: %s: %s\n", no_gradient[i].row, no_gradient[i].why);
    for (int i = 0; i < MISSING_COUNT; i++) {
        if (!is_of_this_device(i))
            continue;
        print_message("not taken: %s in %s: %s\n", missing[i].row, missing[i].dtype,
                      missing[i].why);
        if (!met[i])
            complain(missing[i].row, tern_dtype_parse(missing[i].dtype),
                     "is in missing_dtypes.def, and PyTorch does not take it there either");
    }
}

static FILE *open_golden(const char *name)
{
    const char *source = getenv("TERN_TEST_SOURCE");
    char path[512];
    (void)snprintf(path, sizeof path, "%s/tests/golden/%s", source ? source : ".", name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    return file;
}

static void test_rows_take_pytorchs_dtypes(void **state)
{
    (void)state;
    char line[512];
    bool listed[TERN_OP_COUNT] = { false };
    int lines = 0;
    FILE *file = open_golden("dtypes.txt");
    for (; fgets(line, sizeof line, file) != NULL; lines++)
        if (line[0] != '#')
            check_line(line, listed);
    (void)fclose(file);
    for (int id = 1; id < TERN_OP_COUNT; id++)
        if (!listed[id])
            fail_msg("%s is not in the table: run make_dtypes.py", core_op_table[id].name);
    print_message("%d rows: %d dtypes, %d of gradients\n", lines, taken, gradients);
    check_list();
    assert_int_equal(failures, 0);
    assert_true(taken > 400 && gradients > 150);
}

/* ---- numbers, class numbers, masks ------------------------------------------------------------- */

typedef tern_tensor *(*lookup_fn)(tern_tensor *x, tern_tensor *i);

#define LOOKUP(row, expression)                                    \
    static tern_tensor *with_##row(tern_tensor *x, tern_tensor *i) \
    {                                                              \
        (void)x;                                                   \
        return expression;                                         \
    }
LOOKUP(embedding, tern_embedding(x, i))
LOOKUP(gather, tern_gather(x, 1, i))
LOOKUP(scatter, tern_scatter(x, 1, i, x))
LOOKUP(scatter_add, tern_scatter_add(x, 1, i, x))
LOOKUP(index_select, tern_index_select(x, 1, tern_select(i, 0, 0)))
LOOKUP(index, tern_index(x, i))
LOOKUP(index_put, tern_index_put(x, 1, false, i))
LOOKUP(one_hot, tern_one_hot(i, 2))
LOOKUP(index_add, tern_index_add(x, 1, tern_select(i, 0, 0), x))
LOOKUP(repeat_interleave, tern_repeat_interleave(x, tern_select(i, 0, 0), 0))
LOOKUP(where, tern_where(i, x, x))
LOOKUP(masked_fill, tern_masked_fill(x, i, 0))
LOOKUP(masked_select, tern_masked_select(x, i))
LOOKUP(cross_entropy, tern_cross_entropy(x, tern_select(i, 0, 0)))
LOOKUP(nll_loss, tern_nll_loss(x, tern_select(i, 0, 0)))

/* more: dtypes that PyTorch's does not take */
static const struct lookup {
    const char *row;
    lookup_fn run;
    uint32_t more;
} lookups[] = {
    { "embedding", with_embedding, 0 },
    { "gather", with_gather, 0 },
    { "scatter", with_scatter, 0 },
    { "scatter_add", with_scatter_add, 0 },
    { "index_select", with_index_select, 0 },
    { "index", with_index, 0 },
    { "index_put", with_index_put, 0 },
    { "one_hot", with_one_hot, B(TERN_I32) },
    { "index_add", with_index_add, 0 },
    { "repeat_interleave", with_repeat_interleave, 0 },
    { "where", with_where, 0 },
    { "masked_fill", with_masked_fill, 0 },
    { "masked_select", with_masked_select, 0 },
    { "cross_entropy", with_cross_entropy, 0 },
    { "nll_loss", with_nll_loss, 0 },
};
enum { LOOKUPS = sizeof lookups / sizeof *lookups };

static uint32_t dtypes_of(const char *field)
{
    char name[16];
    int used = 0;
    uint32_t dtypes = 0;
    for (const char *at = field; sscanf(at, "%15s%n", name, &used) == 1; at += used)
        dtypes |= B(tern_dtype_parse(name));
    return dtypes;
}

static int place_of_lookup(const char *row)
{
    for (int k = 0; k < LOOKUPS; k++)
        if (strcmp(lookups[k].row, row) == 0)
            return k;
    return -1;
}

/* The calls of make_dtypes.py. */
static void check_lookup(const struct lookup *l, uint32_t dtypes)
{
    const int64_t places[] = { 0, 1, 1, 0 };
    for (int d = 1; d < TERN_DTYPES; d++) {
        TERN_SCOPE;
        const tern_dev_t dev = tern_default_device();
        tern_tensor *x = tern_ones(TERN_SHAPE(2, 2), .device = dev);
        tern_tensor *i = tern_from_data(places, .shape = TERN_SHAPE(2, 2), .dtype = TERN_I64);
        const tern_tensor *out = l->run(x, tern_cast(tern_to(i, dev), (tern_dtype_t)d));
        if (out != NULL)
            (void)tern_dev_synchronize(dev);
        const bool taken_here = out != NULL && !tern_failed();
        if (taken_here != ((dtypes & B(d)) != 0))
            complain(l->row, (tern_dtype_t)d, taken_here ? "is taken as a number" : "is no number");
        tern_error_clear();
    }
}

static void test_numbers_and_masks_have_pytorchs_dtypes(void **state)
{
    (void)state;
    char line[256], row[48], field[128];
    bool checked[LOOKUPS] = { false };
    int lines = 0;
    failures = 0;
    FILE *file = open_golden("dtypes_index.txt");
    for (; fgets(line, sizeof line, file) != NULL; lines += line[0] != '#') {
        if (line[0] == '#')
            continue;
        assert_int_equal(sscanf(line, "%47[^:]:%127[^\n]", row, field), 2);
        const int k = place_of_lookup(row);
        if (k < 0 || checked[k])
            fail_msg("the row '%s' has no lookup here, or is there twice", row);
        checked[k] = true;
        check_lookup(&lookups[k], dtypes_of(field) | lookups[k].more);
    }
    (void)fclose(file);
    assert_int_equal(lines, LOOKUPS);
    assert_int_equal(failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows_take_pytorchs_dtypes),
                                        cmocka_unit_test(
                                            test_numbers_and_masks_have_pytorchs_dtypes) };
    return check_run(tests, NULL, NULL);
}
