/* Walks over golden vectors; see golden_rows.h. */
#include "tests/support/golden_rows.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/check.h"

tern_tensor *golden_second, *golden_third;

static struct {
    const char *family;
    const golden_row *rows;
    size_t count;
    const char *elsewhere;
} used;

const golden_array *golden_need(const char *test, const char *name)
{
    const golden_array *a = golden_find(test, name);
    if (a == NULL)
        fail_msg("%s has no array %s", test, name);
    return a;
}

tern_tensor *golden_tensor(const char *test, const char *name, tern_dtype_t dtype)
{
    return value_tensor(&golden_need(test, name)->v, dtype, LAYOUT_ROW_MAJOR);
}

/* "g" and a name: the gradient of that input, NULL where the case has none. */
static const golden_array *gradient_of(const char *test, const char *input)
{
    char name[20];
    (void)snprintf(name, sizeof name, "g%s", input);
    return golden_find(test, name);
}

golden_inputs golden_make_inputs(const golden_row *r, tern_dtype_t dtype)
{
    golden_inputs in = { 0 };
    int used_bytes = 0;
    for (const char *at = r->inputs; sscanf(at, "%15s%n", in.names[in.count], &used_bytes) == 1;
         at += used_bytes) {
        const golden_array *a = golden_need(r->test, in.names[in.count]);
        tern_tensor *t = value_tensor(&a->v, a->is_integer ? TERN_I64 : dtype, LAYOUT_ROW_MAJOR);
        if (gradient_of(r->test, in.names[in.count]) != NULL)
            tern_set_requires_grad(t, true);
        in.tensors[in.count++] = t;
    }
    return in;
}

void golden_check(const char *test, const char *name, tern_tensor *t, double tolerance)
{
    const golden_array *want = golden_need(test, name);
    assert_no_error();
    if (t == NULL)
        fail_msg("%s: nothing was made that could be %s", test, name);
    value got = value_of(t);
    const double distance = value_distance(&got, &want->v, 1);
    value_free(&got);
    if (!(distance <= tolerance))
        fail_msg("%s, %s: %s is off by %g, allowed %g", test, tern_dtype_name(tern_dtype(t)), name,
                 distance, tolerance);
}

static void check(const golden_row *r, tern_dtype_t dtype, const char *name, tern_tensor *t)
{
    /* 12 digits are what the file has. */
    golden_check(r->test, name, t, r->error * dtype_epsilon(dtype) + 1e-11);
}

static void check_gradients(const golden_row *r, tern_dtype_t dtype, const golden_inputs *in,
                            tern_tensor *y)
{
    if (golden_find(r->test, "gy") == NULL)
        return;
    tern_backward(y, .gradient = golden_tensor(r->test, "gy", dtype));
    for (int i = 0; i < in->count; i++) {
        const golden_array *want = gradient_of(r->test, in->names[i]);
        if (want != NULL)
            check(r, dtype, want->name, tern_grad_of(in->tensors[i]));
    }
}

static void check_row(const golden_row *r, tern_dtype_t dtype)
{
    TERN_SCOPE;
    golden_inputs in = golden_make_inputs(r, dtype);
    golden_second = golden_third = NULL;
    tern_tensor *y = r->run(in.tensors);
    check(r, dtype, "y", y);
    if (golden_find(r->test, "y2") != NULL)
        check(r, dtype, "y2", golden_second);
    if (golden_find(r->test, "y3") != NULL)
        check(r, dtype, "y3", golden_third);
    check_gradients(r, dtype, &in, y);
}

/* u flows into gx: gradients of gradients. */
static void check_second_order(const golden_row *r)
{
    TERN_SCOPE;
    golden_inputs in = golden_make_inputs(r, TERN_F64);
    tern_tensor *x = tern_set_requires_grad(in.tensors[0], true);
    tern_tensor *gy = tern_set_requires_grad(in.tensors[1], true);
    tern_tensor *wanted[2] = { x, gy };
    tern_tensor *gx[1];
    tern_tensor *second[2];
    tern_grad(r->run(&x), wanted, 1, gx, .gradient = gy, .create_graph = true);
    check(r, TERN_F64, "gx", gx[0]);
    tern_grad(gx[0], wanted, 2, second, .gradient = in.tensors[2]);
    check(r, TERN_F64, "hx", second[0]);
    check(r, TERN_F64, "hgy", second[1]);
}

void golden_rows_agree(void **state)
{
    (void)state;
    for (size_t i = 0; i < used.count; i++) {
        const golden_row *r = &used.rows[i];
        if (golden_find(r->test, "hx") != NULL) {
            check_second_order(r);
            continue;
        }
        check_row(r, TERN_F64);
        check_row(r, TERN_F32);
    }
}

static bool is_in_a_row(const char *test)
{
    for (size_t i = 0; i < used.count; i++)
        if (strcmp(used.rows[i].test, test) == 0)
            return true;
    return false;
}

static bool is_elsewhere(const char *test)
{
    char word[32];
    int bytes = 0;
    for (const char *at = used.elsewhere; sscanf(at, "%31s%n", word, &bytes) == 1; at += bytes)
        if (strncmp(test, word, strlen(word)) == 0)
            return true;
    return false;
}

void golden_no_case_is_left_out(void **state)
{
    (void)state;
    for (int64_t i = 0; golden_at(i) != NULL; i++)
        if (!is_in_a_row(golden_at(i)->test) && !is_elsewhere(golden_at(i)->test))
            fail_msg("no test uses the case %s", golden_at(i)->test);
}

void golden_use(const char *family, const golden_row *rows, size_t count, const char *elsewhere)
{
    used.family = family;
    used.rows = rows;
    used.count = count;
    used.elsewhere = elsewhere;
}

bool golden_ready(const char *family)
{
    const char *why = golden_open(family);
    if (why != NULL)
        (void)fprintf(stderr, "%s.txt: %s\n", family, why);
    return why == NULL;
}

int golden_setup(void **state)
{
    (void)state;
    return golden_ready(used.family) ? 0 : 1;
}

int golden_teardown(void **state)
{
    (void)state;
    golden_close();
    return 0;
}
