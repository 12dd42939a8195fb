/* Recurrent layers against golden vectors (recurrent.txt): results, states, all gradients and the gradients of
 * those. */
#include "tests/support/check.h"
#include "tests/support/golden_rows.h"

#include <stdio.h>

typedef struct layer_case {
    const char *test;
    tern_module *(*make)(tern_site_t site, const tern_rnn_layer_args *args);
    tern_rnn_layer_args args;
} layer_case;

static const layer_case cases[] = {
    { "rnn", tern_rnn_layer_at, { .in = 3, .hidden = 4 } },
    { "rnn_relu", tern_rnn_layer_at, { .in = 3, .hidden = 4, .relu = true, .layers = 2 } },
    { "rnn_both",
      tern_rnn_layer_at,
      { .in = 3, .hidden = 2, .bidirectional = true, .batch_first = true } },
    { "lstm", tern_lstm_layer_at, { .in = 3, .hidden = 4 } },
    { "lstm_both",
      tern_lstm_layer_at,
      { .in = 3, .hidden = 2, .layers = 2, .bidirectional = true } },
    { "lstm_first",
      tern_lstm_layer_at,
      { .in = 3, .hidden = 4, .batch_first = true, .no_bias = true } },
    { "lstm_zeros", tern_lstm_layer_at, { .in = 2, .hidden = 3 } },
    { "lstm_one", tern_lstm_layer_at, { .in = 3, .hidden = 4 } },
    { "gru", tern_gru_layer_at, { .in = 3, .hidden = 4 } },
    { "gru_both",
      tern_gru_layer_at,
      { .in = 3, .hidden = 2, .layers = 2, .bidirectional = true, .batch_first = true } },
    { "gru_bare", tern_gru_layer_at, { .in = 3, .hidden = 4, .no_bias = true } },
    { "gru_one", tern_gru_layer_at, { .in = 3, .hidden = 4, .bidirectional = true } },
};
enum { CASES = sizeof cases / sizeof *cases };

/* NULL where the case has none. */
static tern_tensor *leaf(const char *test, const char *name, tern_dtype_t dtype)
{
    if (golden_find(test, name) == NULL)
        return NULL;
    return tern_set_requires_grad(golden_tensor(test, name, dtype), true);
}

static void check(const char *test, const char *name, tern_tensor *t, double tolerance)
{
    if (golden_find(test, name) != NULL)
        golden_check(test, name, t, tolerance);
}

static void load_parameters(const char *test, tern_module *m)
{
    TERN_NO_GRAD;
    const tern_tensors_t all = tern_parameters(m);
    char name[16];
    for (int64_t i = 0; i < all.count; i++) {
        (void)snprintf(name, sizeof name, "p%d", (int)i);
        tern_copy(all.tensors[i], golden_tensor(test, name, tern_dtype(all.tensors[i])));
    }
    (void)snprintf(name, sizeof name, "p%d", (int)all.count);
    assert_null(golden_find(test, name));
    assert_no_error();
}

enum { MOST_LEAVES = 24 };

/* What gradients are wanted of, by the names of their gradients. */
typedef struct leaves {
    tern_tensor *tensors[MOST_LEAVES], *grads[MOST_LEAVES];
    char names[MOST_LEAVES][16];
    int64_t count;
} leaves;

static void add_leaf(leaves *all, const char *name, tern_tensor *t)
{
    if (t == NULL)
        return;
    assert_true(all->count < MOST_LEAVES);
    (void)snprintf(all->names[all->count], sizeof all->names[0], "%s", name);
    all->tensors[all->count++] = t;
}

/* The sum of the squares of all gradients, recorded. */
static tern_tensor *squares(const leaves *all)
{
    tern_tensor *sum = NULL;
    for (int64_t i = 0; i < all->count; i++) {
        tern_tensor *square = tern_sum(tern_mul(all->grads[i], all->grads[i]));
        sum = sum != NULL ? tern_add(sum, square) : square;
    }
    return sum;
}

static void check_gradients(const char *test, tern_tensor *root, leaves *all, double tolerance)
{
    tern_grad(root, all->tensors, all->count, all->grads, .retain_graph = true);
    assert_no_error();
    for (int64_t i = 0; i < all->count; i++)
        check(test, all->names[i], all->grads[i], tolerance);
}

/* The first gradients again, recorded: from ops instead of kernels of cells. */
static void check_second_gradients(const char *test, tern_tensor *root, leaves *all,
                                   double tolerance)
{
    tern_grad(root, all->tensors, all->count, all->grads, .create_graph = true);
    assert_no_error();
    for (int64_t i = 0; i < all->count; i++) {
        char name[16];
        check(test, all->names[i], all->grads[i], tolerance);
        (void)snprintf(name, sizeof name, "g%.14s", all->names[i]);
        memcpy(all->names[i], name, sizeof name);
        assert_non_null(golden_find(test, name));
    }
    check_gradients(test, squares(all), all, 8 * tolerance);
}

static void check_case(const layer_case *c, tern_dtype_t dtype, double tolerance)
{
    static const char *const outs[3] = { "y", "h", "c" };
    static const char *const grads[3] = { "gx", "gh0", "gc0" }, *const flows[3] = { "gy", "gh",
                                                                                    "gc" };
    TERN_SCOPE;
    tern_rnn_layer_args args = c->args;
    args.size_ = sizeof args;
    args.dtype = dtype;
    tern_module *m = c->make(TERN_HERE, &args);
    load_parameters(c->test, m);
    tern_args run = TERN_ARGS(leaf(c->test, "x", dtype), leaf(c->test, "h0", dtype),
                              leaf(c->test, "c0", dtype));
    tern_forward_args(m, &run);
    assert_no_error();
    tern_tensor *sum = NULL;
    leaves all = { .count = 0 };
    for (int i = 0; i < 3; i++) {
        add_leaf(&all, grads[i], run.in[i]);
        check(c->test, outs[i], run.out[i], tolerance);
        if (run.out[i] == NULL)
            continue;
        tern_tensor *part = tern_sum(tern_mul(run.out[i], golden_tensor(c->test, flows[i], dtype)));
        sum = sum != NULL ? tern_add(sum, part) : part;
    }
    const tern_tensors_t parameters = tern_parameters(m);
    for (int64_t i = 0; i < parameters.count; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "gp%d", (int)i);
        add_leaf(&all, name, parameters.tensors[i]);
    }
    check_gradients(c->test, sum, &all, tolerance);
    check_second_gradients(c->test, sum, &all, tolerance);
    tern_module_free(m);
}

static void test_layers_agree_in_f64(void **unused)
{
    (void)unused;
    for (int i = 0; i < CASES; i++)
        check_case(&cases[i], TERN_F64, 1e-10);
}

static void test_layers_agree_in_f32(void **unused)
{
    (void)unused;
    for (int i = 0; i < CASES; i++)
        check_case(&cases[i], TERN_F32, 5e-6);
}

static void test_no_case_is_left_out(void **unused)
{
    (void)unused;
    const golden_array *a;
    for (int64_t i = 0; (a = golden_at(i)) != NULL; i++) {
        bool found = false;
        for (int k = 0; k < CASES; k++)
            found = found || strcmp(cases[k].test, a->test) == 0;
        if (!found)
            fail_msg("%s is in recurrent.txt and in no case", a->test);
    }
}

int main(void)
{
    golden_use("recurrent", NULL, 0, "");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers_agree_in_f64),
        cmocka_unit_test(test_layers_agree_in_f32),
        cmocka_unit_test(test_no_case_is_left_out),
    };
    return check_run(tests, golden_setup, golden_teardown);
}
