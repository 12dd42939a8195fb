/* Walks over golden vectors; see golden_rows.h. */
#include "tests/support/golden_rows.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/check.h"

static const golden_array *find(const char *test, const char *prefix, const char *name)
{
    char full[20];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    return golden_find(test, full);
}

golden_inputs golden_make_inputs(const golden_row *r, tern_dtype_t dtype)
{
    golden_inputs in = { 0 };
    int used = 0;
    for (const char *at = r->inputs; sscanf(at, "%15s%n", in.names[in.count], &used) == 1;
         at += used) {
        const golden_array *a = golden_find(r->test, in.names[in.count]);
        if (a == NULL)
            fail_msg("%s has no array %s", r->test, in.names[in.count]);
        tern_tensor *t = value_tensor(&a->v, a->is_integer ? TERN_I64 : dtype, LAYOUT_ROW_MAJOR);
        if (find(r->test, "g", in.names[in.count]) != NULL)
            tern_set_requires_grad(t, true);
        in.tensors[in.count++] = t;
    }
    return in;
}

void golden_check(const golden_row *r, tern_dtype_t dtype, const char *name, tern_tensor *t,
                  const golden_array *want)
{
    assert_no_error();
    /* 12 digits are what the file has. */
    const double tolerance = r->error * dtype_epsilon(dtype) + 1e-11;
    value got = value_of(t);
    const double distance = value_distance(&got, &want->v, 1);
    value_free(&got);
    if (!(distance <= tolerance))
        fail_msg("%s, %s: %s is off by %g, allowed %g", r->test, tern_dtype_name(dtype), name,
                 distance, tolerance);
}

static void check_gradients(const golden_row *r, tern_dtype_t dtype, const golden_inputs *in,
                            tern_tensor *y)
{
    const golden_array *gy = golden_find(r->test, "gy");
    if (gy == NULL)
        return;
    tern_backward(y, .gradient = value_tensor(&gy->v, dtype, LAYOUT_ROW_MAJOR));
    for (int i = 0; i < in->count; i++) {
        const golden_array *want = find(r->test, "g", in->names[i]);
        if (want != NULL)
            golden_check(r, dtype, want->name, tern_grad_of(in->tensors[i]), want);
    }
}

void golden_check_row(const golden_row *r, tern_dtype_t dtype)
{
    TERN_SCOPE;
    golden_inputs in = golden_make_inputs(r, dtype);
    tern_tensor *y = r->run(in.tensors);
    const golden_array *want = golden_find(r->test, "y");
    assert_non_null(want);
    golden_check(r, dtype, "y", y, want);
    check_gradients(r, dtype, &in, y);
}

/* u flows into gx: gradients of gradients. */
void golden_check_second_order(const char *test, golden_fn run)
{
    TERN_SCOPE;
    const golden_row r = { test, "x gy u", run, 256 };
    golden_inputs in = golden_make_inputs(&r, TERN_F64);
    tern_tensor *x = tern_set_requires_grad(in.tensors[0], true);
    tern_tensor *gy = tern_set_requires_grad(in.tensors[1], true);
    tern_tensor *wanted[2] = { x, gy };
    tern_tensor *gx[1];
    tern_tensor *second[2];
    tern_grad(run(&x), wanted, 1, gx, .gradient = gy, .create_graph = true);
    golden_check(&r, TERN_F64, "gx", gx[0], golden_find(test, "gx"));
    tern_grad(gx[0], wanted, 2, second, .gradient = in.tensors[2]);
    golden_check(&r, TERN_F64, "hx", second[0], golden_find(test, "hx"));
    golden_check(&r, TERN_F64, "hgy", second[1], golden_find(test, "hgy"));
}

void golden_check_rows(const golden_row *rows, int count)
{
    for (int i = 0; i < count; i++) {
        golden_check_row(&rows[i], TERN_F64);
        golden_check_row(&rows[i], TERN_F32);
    }
}

static bool is_known(const golden_row *rows, int count, const char *const *elsewhere,
                     const char *test)
{
    for (int i = 0; i < count; i++)
        if (strcmp(rows[i].test, test) == 0)
            return true;
    for (; *elsewhere != NULL; elsewhere++)
        if (strncmp(test, *elsewhere, strlen(*elsewhere)) == 0)
            return true;
    return false;
}

void golden_check_complete(const golden_row *rows, int count, const char *const *elsewhere)
{
    for (int64_t i = 0; golden_at(i) != NULL; i++)
        if (!is_known(rows, count, elsewhere, golden_at(i)->test))
            fail_msg("no test uses the case %s", golden_at(i)->test);
}

int golden_open_or_say(const char *family)
{
    const char *why = golden_open(family);
    if (why != NULL)
        fprintf(stderr, "%s.txt: %s\n", family, why);
    return why != NULL;
}
