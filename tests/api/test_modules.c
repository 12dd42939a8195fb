/* Modules: names, sharing, modes, moving, freeing, running. */
#include "tests/support/check.h"

typedef struct {
    tern_module base;
    tern_module *up, *down;
    tern_tensor *scale, *mean;
} mlp;

static tern_tensor *mlp_forward(tern_module *self, tern_tensor *x)
{
    mlp *m = (mlp *)self;
    tern_tensor *hidden = tern_relu(tern_forward(m->up, x));
    return tern_mul(tern_forward(m->down, hidden), m->scale);
}

static mlp *new_mlp(void)
{
    TERN_SCOPE;
    mlp *m = TERN_MODULE(mlp, mlp_forward);
    TERN_CHILD(m, up, tern_linear_layer(3, 4));
    TERN_CHILD(m, down, tern_linear_layer(4, 2, .no_bias = true));
    TERN_PARAM(m, scale, tern_ones(TERN_SHAPE(2)));
    TERN_BUFFER(m, mean, tern_zeros(TERN_SHAPE(2), TERN_I64));
    assert_no_error();
    return m;
}

static void expect_names(tern_tensors_t list, const char *const *names, int64_t count)
{
    assert_no_error();
    assert_int_equal(list.count, count);
    for (int64_t i = 0; i < count; i++)
        assert_string_equal(list.names[i], names[i]);
}

/* Leaves, counters and tensors are as they were once a module is gone. */
static void test_freeing_a_module_frees_all_below_it(void **unused)
{
    (void)unused;
    const int64_t before = tern_live_tensors();
    mlp *m = new_mlp();
    assert_int_equal(tern_live_tensors(), before + 5);
    tern_module_free(&m->base);
    assert_no_error();
    assert_int_equal(tern_live_tensors(), before);
    tern_module_free(NULL);
    assert_no_error();
}

static void test_names_follow_the_tree(void **unused)
{
    (void)unused;
    mlp *m = new_mlp();
    expect_names(tern_parameters(&m->base),
                 (const char *const[]){ "scale", "up.weight", "up.bias", "down.weight" }, 4);
    expect_names(tern_buffers(&m->base), (const char *const[]){ "mean" }, 1);
    assert_ptr_equal(tern_module_tensor(&m->base, "scale"), m->scale);
    assert_ptr_equal(tern_module_tensor(&m->base, "mean"), m->mean);
    assert_null(tern_module_tensor(&m->base, "down.bias"));
    assert_ptr_equal(tern_module_find(&m->base, "down"), m->down);
    assert_ptr_equal(tern_module_find(&m->base, ""), &m->base);
    assert_null(tern_module_find(&m->base, "down.weight"));
    assert_int_equal(tern_module_count(&m->base), 2 + 12 + 4 + 8);
    assert_int_equal(tern_module_child_count(&m->base), 2);
    assert_string_equal(tern_module_child_name(&m->base, 1), "down");
    assert_ptr_equal(tern_module_child(&m->base, 1), m->down);
    assert_null(tern_module_child(&m->base, 2));
    assert_true(tern_requires_grad(m->scale) && !tern_requires_grad(m->mean));
    tern_module_free(&m->base);
}

static void test_sequential_counts_its_modules(void **unused)
{
    (void)unused;
    tern_module *net =
        tern_sequential(tern_linear_layer(4, 3), tern_relu_layer(), tern_linear_layer(3, 2));
    expect_names(tern_parameters(net),
                 (const char *const[]){ "0.weight", "0.bias", "2.weight", "2.bias" }, 4);
    tern_sequential_add(net, NULL, tern_linear_layer(2, 1, .no_bias = true));
    tern_sequential_add(net, "head", tern_linear_layer(1, 1, .no_bias = true));
    expect_names(tern_parameters(net),
                 (const char *const[]){ "0.weight", "0.bias", "2.weight", "2.bias", "3.weight",
                                        "head.weight" },
                 6);
    tern_module_free(net);
    tern_module *empty = tern_sequential();
    assert_int_equal(tern_parameters(empty).count, 0);
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(2));
    assert_ptr_equal(tern_forward(empty, x), x);
    tern_module_free(empty);
}

/* "a" with "b", and "a.b" beside it: as a file it would be one of the two. */
static void test_two_tensors_cannot_have_one_name(void **unused)
{
    (void)unused;
    tern_module *inner = tern_sequential(), *net = tern_sequential();
    tern_sequential_add(inner, "b", tern_linear_layer(2, 2, .no_bias = true));
    tern_sequential_add(net, "a", inner);
    tern_module *beside = tern_sequential_add(net, "a.b", tern_linear_layer(2, 2, .no_bias = true));
    assert_int_equal(tern_parameters(net).count, 0);
    assert_error(TERN_ERR_STATE, "two tensors have the name 'a.b.weight'");
    tern_state *state = tern_state_create();
    tern_module_store(net, state, NULL);
    assert_error(TERN_ERR_STATE, "two tensors have the name 'a.b.weight'");
    assert_int_equal(tern_state_tensors(state).count, 0);
    tern_module_restore(net, state);
    assert_error(TERN_ERR_STATE, "two tensors have the name 'a.b.weight'");
    tern_state_free(state);
    tern_module_add_parameter(beside, "weight", tern_module_tensor(inner, "b.weight"));
    expect_names(tern_parameters(net), (const char *const[]){ "a.b.weight" }, 1); /* one tensor */
    tern_module_add_child(net, "a.c", tern_linear_layer(2, 2, .no_bias = true));
    expect_names(tern_parameters(net), (const char *const[]){ "a.b.weight", "a.c.weight" }, 2);
    tern_module_free(net);
}

/* Names that are numbers do not get in the way, and nothing is replaced. */
static void test_a_sequential_appends(void **unused)
{
    (void)unused;
    tern_module *net = tern_sequential(tern_relu_layer());
    tern_module *two = tern_sequential_add(net, "2", tern_linear_layer(1, 2, .no_bias = true));
    tern_sequential_add(net, NULL, tern_linear_layer(2, 3, .no_bias = true));
    tern_sequential_add(net, NULL, tern_linear_layer(3, 4, .no_bias = true));
    expect_names(tern_parameters(net), (const char *const[]){ "2.weight", "3.weight", "4.weight" },
                 3);
    tern_module *other = tern_relu_layer();
    assert_null(tern_sequential_add(net, "2", other));
    assert_error(TERN_ERR_ARGUMENT, "there is a child '2'");
    assert_ptr_equal(tern_module_find(net, "2"), two);
    assert_int_equal(tern_module_child_count(net), 4);
    tern_module_free(other);
    tern_module_free(net);
    assert_no_error();
}

static void test_a_child_added_again_replaces_the_old_one(void **unused)
{
    (void)unused;
    const int64_t before = tern_live_tensors();
    mlp *m = new_mlp();
    tern_module *old = m->down;
    TERN_CHILD(m, down, tern_linear_layer(4, 2));
    assert_int_equal(tern_parameters(&m->base).count, 5);
    assert_ptr_equal(tern_module_find(&m->base, "down"), m->down);
    tern_module_free(old); /* nobody's any more */
    assert_no_error();
    tern_module_free(&m->base);
    assert_int_equal(tern_live_tensors(), before);
}

/* ---- sharing ---------------------------------------------------------------------------------- */

static void test_a_shared_parameter_counts_once(void **unused)
{
    (void)unused;
    const int64_t before = tern_live_tensors();
    mlp *m = new_mlp();
    tern_module_add_parameter(&m->base, "tied", tern_module_tensor(m->up, "weight"));
    expect_names(tern_parameters(&m->base),
                 (const char *const[]){ "scale", "tied", "up.bias", "down.weight" }, 4);
    assert_int_equal(tern_module_count(&m->base), 2 + 12 + 4 + 8);
    assert_ptr_equal(tern_module_tensor(&m->base, "up.weight"),
                     tern_module_tensor(&m->base, "tied"));
    tern_module_free(&m->base);
    assert_int_equal(tern_live_tensors(), before);
}

static void test_a_shared_child_goes_with_its_last_parent(void **unused)
{
    (void)unused;
    const int64_t before = tern_live_tensors();
    tern_module *shared = tern_linear_layer(2, 2);
    tern_module *a = tern_sequential(shared, tern_relu_layer(), shared);
    tern_module *b = tern_sequential(shared);
    assert_int_equal(tern_parameters(a).count, 2);
    tern_module_free(a);
    assert_int_equal(tern_live_tensors(), before + 2);
    tern_module_free(shared);
    assert_error(TERN_ERR_STATE, "belongs to another module");
    tern_module_free(b);
    assert_int_equal(tern_live_tensors(), before);
}

static void test_a_module_cannot_contain_itself(void **unused)
{
    (void)unused;
    mlp *m = new_mlp();
    assert_null(tern_module_add_child(m->up, "top", &m->base));
    assert_error(TERN_ERR_ARGUMENT, "child 'top' contains the module");
    assert_null(tern_module_add_child(&m->base, "self", &m->base));
    assert_error(TERN_ERR_ARGUMENT, "child 'self' contains the module");
    assert_null(tern_module_add_child(&m->base, "none", NULL));
    assert_error(TERN_ERR_ARGUMENT, "child 'none' is NULL");
    tern_module_free(&m->base);
}

/* The program still holds the module that the constructor did not get to keep. */
static void test_a_failed_sequential_leaves_its_modules_alone(void **unused)
{
    (void)unused;
    const int64_t before = tern_live_tensors();
    tern_module *first = tern_linear_layer(2, 2);
    assert_null(tern_sequential(first, NULL));
    assert_error(TERN_ERR_ARGUMENT, "child '1' is NULL");
    assert_int_equal(tern_parameters(first).count, 2);
    tern_module_free(first);
    assert_no_error();
    assert_int_equal(tern_live_tensors(), before);
}

static void test_parameters_are_float_leaves(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    mlp *m = new_mlp();
    tern_module_add_parameter(&m->base, "whole", tern_zeros(TERN_SHAPE(2), TERN_I64));
    assert_error(TERN_ERR_DTYPE, "parameter 'whole' is i64");
    tern_module_add_parameter(&m->base, "made", tern_mul(m->scale, 2));
    assert_error(TERN_ERR_GRAD, "parameter 'made' is the result of a recorded op");
    tern_module_add_parameter(&m->base, "", tern_ones(TERN_SHAPE(2)));
    assert_error(TERN_ERR_ARGUMENT, "the name is empty");
    tern_module_add_parameter(NULL, "a", tern_ones(TERN_SHAPE(2)));
    assert_error(TERN_ERR_ARGUMENT, "the module is NULL");
    assert_int_equal(tern_parameters(&m->base).count, 4);
    tern_module_free(&m->base);
}

/* ---- modes and moving ------------------------------------------------------------------------- */

static void test_train_and_eval_reach_all_modules(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_module *dropout = tern_dropout_layer(0.5);
    tern_module *net = tern_sequential(tern_sequential(dropout));
    tern_tensor *x = tern_ones(TERN_SHAPE(64));
    assert_true(net->training && dropout->training);
    tern_eval(net);
    assert_true(!net->training && !dropout->training);
    assert_true(tern_item(tern_sum(tern_eq(tern_forward(net, x), x))) == 64);
    tern_train(net);
    assert_true(dropout->training);
    assert_true(tern_item(tern_sum(tern_eq(tern_forward(net, x), x))) == 0);
    assert_no_error();
    tern_module_free(net);
}

static void test_a_move_keeps_the_same_tensors(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    mlp *m = new_mlp();
    tern_tensor *weight = tern_module_tensor(m->up, "weight");
    const double sum = tern_item(tern_sum(weight));
    tern_backward(tern_sum(tern_forward(&m->base, tern_ones(TERN_SHAPE(5, 3)))));
    assert_int_equal(tern_module_to(&m->base, .dtype = TERN_F64), TERN_OK);
    assert_ptr_equal(tern_module_tensor(m->up, "weight"), weight);
    assert_int_equal(tern_dtype(weight), TERN_F64);
    assert_int_equal(tern_dtype(m->scale), TERN_F64);
    assert_int_equal(tern_dtype(tern_grad_of(weight)), TERN_F64);
    assert_int_equal(tern_dtype(m->mean), TERN_I64); /* floats only */
    assert_true(tern_requires_grad(weight) && tern_is_leaf(weight));
    assert_close(tern_item(tern_sum(weight)), sum, 1e-6);
    tern_module_to(&m->base, .dtype = TERN_I32);
    assert_error(TERN_ERR_DTYPE, "must be a float, not i32");
    tern_module_free(&m->base);
}

static void test_gradients_are_switched_and_dropped(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    mlp *m = new_mlp();
    tern_backward(tern_sum(tern_forward(&m->base, tern_ones(TERN_SHAPE(5, 3)))));
    assert_non_null(tern_grad_of(m->scale));
    tern_module_zero_grad(&m->base);
    assert_null(tern_grad_of(m->scale));
    tern_module_requires_grad(m->up, false);
    tern_backward(tern_sum(tern_forward(&m->base, tern_ones(TERN_SHAPE(5, 3)))));
    assert_no_error();
    assert_null(tern_grad_of(tern_module_tensor(m->up, "weight")));
    assert_non_null(tern_grad_of(tern_module_tensor(m->down, "weight")));
    tern_module_free(&m->base);
}

static void count_type(tern_module *m, void *user)
{
    *(int *)user += strcmp(m->type, "linear") == 0;
}

static void test_describe_and_apply_show_the_tree(void **unused)
{
    (void)unused;
    char text[400];
    char cut[12];
    int linears = 0;
    tern_module *net = tern_sequential(tern_linear_layer(4, 3), tern_relu_layer(),
                                       tern_sequential(tern_linear_layer(3, 2, .no_bias = true)));
    assert_string_equal(tern_module_describe(net, text, sizeof text),
                        "sequential(\n"
                        "  (0): linear(in=4, out=3)\n"
                        "  (1): relu()\n"
                        "  (2): sequential(\n"
                        "    (0): linear(in=3, out=2, no bias)\n"
                        "  )\n"
                        ")\n"
                        "parameters: 21\n");
    assert_string_equal(tern_module_describe(net, cut, sizeof cut), "sequential(");
    assert_string_equal(tern_module_describe(net, NULL, 0), "");
    tern_module_apply(net, count_type, &linears);
    assert_int_equal(linears, 2);
    tern_module_free(net);
}

/* ---- running ---------------------------------------------------------------------------------- */

static void test_forward_leaves_its_result_alone(void **unused)
{
    (void)unused;
    mlp *m = new_mlp();
    TERN_SCOPE;
    TERN_NO_GRAD;
    tern_tensor *x = tern_ones(TERN_SHAPE(5, 3));
    const int64_t before = tern_live_tensors();
    tern_tensor *y = tern_forward(&m->base, x);
    assert_no_error();
    assert_int_equal(tern_live_tensors(), before + 1);
    tern_drop(y);
    tern_set_owned_mode(true);
    y = tern_forward(&m->base, x);
    tern_set_owned_mode(false);
    assert_int_equal(tern_live_tensors(), before + 1);
    tern_release(y);
    assert_int_equal(tern_live_tensors(), before);
    tern_module_free(&m->base);
}

static void test_errors_name_the_module_and_the_caller(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_module *inner = tern_sequential(tern_linear_layer(4, 3), tern_linear_layer(2, 1));
    tern_module *net = tern_sequential(tern_relu_layer(), inner);
    assert_null(tern_forward(net, tern_ones(TERN_SHAPE(5, 4))));
    assert_non_null(strstr(tern_error_text(), "(in 1.1)"));
    assert_non_null(strstr(tern_error_site(), "test_modules.c"));
    assert_error(TERN_ERR_SHAPE, "linear");
    assert_null(tern_forward(net, NULL));
    assert_error(TERN_ERR_ARGUMENT, "the input of sequential is NULL");
    assert_null(tern_forward(NULL, tern_ones(TERN_SHAPE(1))));
    assert_error(TERN_ERR_ARGUMENT, "the module is NULL");
    assert_null(tern_matmul(tern_ones(TERN_SHAPE(2, 3)), tern_ones(TERN_SHAPE(2, 3))));
    assert_null(strstr(tern_error_text(), "(in ")); /* the path has ended with the module */
    tern_error_clear();
    tern_module_free(net);
}

static tern_tensor *nothing_forward(tern_module *self, tern_tensor *x)
{
    (void)self;
    (void)x;
    return NULL;
}

typedef struct {
    tern_module base;
} nothing;

static void test_a_forward_without_a_result_is_an_error(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    nothing *m = TERN_MODULE(nothing, nothing_forward);
    assert_null(tern_forward(&m->base, tern_ones(TERN_SHAPE(1))));
    assert_error(TERN_ERR_STATE, "the forward function of nothing returned NULL");
    tern_module_free(&m->base);
}

typedef struct {
    tern_module base;
} halves;

/* in[1], which may be NULL, is added; out[1] is the other half. */
static void halves_forward(tern_module *self, tern_args *args)
{
    (void)self;
    tern_tensor *x = args->in[1] ? tern_add(args->in[0], args->in[1]) : args->in[0];
    args->out[0] = tern_slice(x, 0, 0, tern_size(x, 0) / 2);
    args->out[1] = tern_slice(x, 0, tern_size(x, 0) / 2, tern_size(x, 0));
}

static void test_the_general_form_has_several_results(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    halves *m = TERN_MODULE(halves, halves_forward);
    tern_tensor *x = tern_arange(.end = 4, .dtype = TERN_F32);
    tern_args args = TERN_ARGS(x, tern_ones(TERN_SHAPE(4)));
    tern_tensor *first = tern_forward_args(&m->base, &args);
    assert_ptr_equal(first, args.out[0]);
    assert_no_error();
    assert_true(tern_item(tern_sum(args.out[0])) == 3 && tern_item(tern_sum(args.out[1])) == 7);
    assert_true(tern_item(tern_sum(tern_forward(&m->base, x))) == 1);
    assert_null(tern_forward_args(&m->base, NULL));
    assert_error(TERN_ERR_ARGUMENT, "args are NULL");
    tern_module_free(&m->base);
}

static void gives_once(tern_module *self, tern_args *args)
{
    (void)self;
    if (args->user)
        args->out[0] = args->out[1] = args->in[0];
}

static void test_results_of_a_call_before_are_none_of_this_one(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    halves *m = TERN_MODULE(halves, gives_once);
    tern_args args = TERN_ARGS(tern_ones(TERN_SHAPE(4)));
    args.user = m;
    assert_ptr_equal(tern_forward_args(&m->base, &args), args.in[0]);
    args.user = NULL;
    assert_null(tern_forward_args(&m->base, &args));
    assert_null(args.out[1]);
    assert_true(tern_failed());
    tern_error_clear();
    tern_module_free(&m->base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_freeing_a_module_frees_all_below_it),
        cmocka_unit_test(test_names_follow_the_tree),
        cmocka_unit_test(test_sequential_counts_its_modules),
        cmocka_unit_test(test_two_tensors_cannot_have_one_name),
        cmocka_unit_test(test_a_sequential_appends),
        cmocka_unit_test(test_a_child_added_again_replaces_the_old_one),
        cmocka_unit_test(test_a_shared_parameter_counts_once),
        cmocka_unit_test(test_a_shared_child_goes_with_its_last_parent),
        cmocka_unit_test(test_a_module_cannot_contain_itself),
        cmocka_unit_test(test_a_failed_sequential_leaves_its_modules_alone),
        cmocka_unit_test(test_parameters_are_float_leaves),
        cmocka_unit_test(test_train_and_eval_reach_all_modules),
        cmocka_unit_test(test_a_move_keeps_the_same_tensors),
        cmocka_unit_test(test_gradients_are_switched_and_dropped),
        cmocka_unit_test(test_describe_and_apply_show_the_tree),
        cmocka_unit_test(test_forward_leaves_its_result_alone),
        cmocka_unit_test(test_errors_name_the_module_and_the_caller),
        cmocka_unit_test(test_a_forward_without_a_result_is_an_error),
        cmocka_unit_test(test_the_general_form_has_several_results),
        cmocka_unit_test(test_results_of_a_call_before_are_none_of_this_one),
    };
    const int failed = check_run(tests, NULL, NULL);
    return failed + tern_finish();
}
