/* Recurrent layers: names, describing, autocast, dropout, training on a small task, and what is refused. */
#include "tests/support/check.h"

#include <math.h>

static void test_parameters_have_torchs_names(void **unused)
{
    (void)unused;
    tern_module *m = tern_lstm_layer(3, 5, .layers = 2, .bidirectional = true);
    const char *names[] = { "weight_ih_l0",         "weight_hh_l0",         "bias_ih_l0",
                            "bias_hh_l0",           "weight_ih_l0_reverse", "weight_hh_l0_reverse",
                            "bias_ih_l0_reverse",   "bias_hh_l0_reverse",   "weight_ih_l1",
                            "weight_hh_l1",         "bias_ih_l1",           "bias_hh_l1",
                            "weight_ih_l1_reverse", "weight_hh_l1_reverse", "bias_ih_l1_reverse",
                            "bias_hh_l1_reverse" };
    const tern_tensors_t all = tern_parameters(m);
    assert_int_equal(all.count, 16);
    for (int i = 0; i < 16; i++)
        assert_string_equal(all.names[i], names[i]);
    assert_int_equal(tern_size(tern_module_tensor(m, "weight_ih_l1"), 0), 20);
    assert_int_equal(tern_size(tern_module_tensor(m, "weight_ih_l1"), 1), 10);
    char text[512];
    assert_non_null(strstr(tern_module_describe(m, text, sizeof text),
                           "in=3, hidden=5, layers=2, bidirectional"));
    tern_module_free(m);
}

/* The sum of a sequence of signs is above zero or not: nothing but the state knows. */
static void learns(tern_module *m)
{
    tern_seed(3);
    tern_module *head = tern_linear_layer(16, 1);
    tern_module_to(head, tern_device(tern_parameters(m).tensors[0]));
    tern_optimizer *opt = tern_adam(tern_parameters(m), .lr = 0.02);
    tern_add_group(opt, tern_parameters(head));
    double loss = INFINITY;
    for (int step = 0; step < 120; step++) {
        TERN_SCOPE;
        tern_tensor *x = tern_sign(tern_randn(TERN_SHAPE(7, 32, 1)));
        tern_tensor *y = tern_cast(tern_gt(tern_sum(x, TERN_DIMS(0)), 0.0), TERN_F32);
        tern_args run = TERN_ARGS(x);
        tern_forward_args(m, &run);
        tern_tensor *last = tern_select(run.out[1], 0, 0);
        tern_tensor *each = tern_binary_cross_entropy_with_logits(tern_forward(head, last), y);
        tern_tensor *mean = tern_mean(each);
        tern_backward(mean);
        tern_step(opt);
        tern_zero_grad(opt);
        loss = tern_item(mean);
    }
    assert_no_error();
    assert_true(loss < 0.2);
    tern_optimizer_free(opt);
    tern_module_free(head);
    tern_module_free(m);
}

static void test_each_kind_learns(void **unused)
{
    (void)unused;
    learns(tern_rnn_layer(1, 16));
    learns(tern_lstm_layer(1, 16));
    learns(tern_gru_layer(1, 16));
}

static void test_autocast_and_half_types(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_module *m = tern_gru_layer(4, 8, .layers = 2, .dropout = 0.5);
    tern_tensor *x = tern_randn(TERN_SHAPE(3, 2, 4), .requires_grad = true);
    tern_tensor *y;
    {
        TERN_AUTOCAST(tern_device(x), TERN_BF16);
        y = tern_forward(m, x);
    }
    assert_no_error();
    assert_int_equal(tern_dtype(y), TERN_BF16);
    tern_backward(tern_sum(tern_cast(y, TERN_F32)));
    assert_no_error();
    assert_int_equal(tern_dtype(tern_grad_of(x)), TERN_F32);
    tern_eval(m);
    assert_true(tern_item(tern_sum(tern_ne(tern_forward(m, x), tern_forward(m, x)))) == 0);
    tern_module_free(m);
}

static void test_what_does_not_fit_is_refused(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    assert_null(tern_lstm_layer(.hidden = 4));
    assert_error(TERN_ERR_ARGUMENT, "'in' is missing");
    assert_null(tern_gru_layer(3, 4, .layers = -1));
    assert_error(TERN_ERR_ARGUMENT, "layers = -1");
    assert_null(tern_gru_layer(3, 4, .dropout = 2));
    assert_error(TERN_ERR_ARGUMENT, "dropout = 2");
    assert_null(tern_lstm_layer(3, 4, .relu = true));
    assert_error(TERN_ERR_ARGUMENT, "lstm_layer: relu is tern_rnn_layer's");
    assert_null(tern_gru_layer(3, 4, .relu = true));
    assert_error(TERN_ERR_ARGUMENT, "gru_layer: relu is tern_rnn_layer's");
    tern_module *m = tern_lstm_layer(3, 4);
    assert_null(tern_forward(m, tern_zeros(TERN_SHAPE(5, 2, 7))));
    assert_error(TERN_ERR_SHAPE, "the input has to be [L, N, features], or [L, 3]");
    assert_null(tern_forward(m, tern_zeros(TERN_SHAPE(0, 2, 3))));
    assert_error(TERN_ERR_SHAPE, "the sequence has no steps");
    assert_null(tern_forward(m, tern_zeros(TERN_SHAPE(5, 2, 3), TERN_U8)));
    assert_error(TERN_ERR_DTYPE, "lstm: the input is u8, and the weights are f32");
    assert_null(tern_forward(m, tern_zeros(TERN_SHAPE(5, 2, 3), TERN_F64)));
    assert_error(TERN_ERR_DTYPE, "lstm: the input is f64, and the weights are f32");
    tern_args run = TERN_ARGS(tern_zeros(TERN_SHAPE(5, 2, 3)), tern_zeros(TERN_SHAPE(2, 2, 4)));
    assert_null(tern_forward_args(m, &run));
    assert_error(TERN_ERR_SHAPE,
                 "h0 has to be [1, 2, 4]: layers, batch, hidden\n    h0         f32 [2, 2, 4] on ");
    run.in[1] = tern_zeros(TERN_SHAPE(1, 2, 4), TERN_F64);
    assert_null(tern_forward_args(m, &run));
    assert_error(
        TERN_ERR_DTYPE,
        "lstm: h0 and the input are of different dtypes\n    h0         f64 [1, 2, 4] on ");
    run.in[1] = NULL;
    run.in[2] = tern_zeros(TERN_SHAPE(1, 2, 4), TERN_BF16);
    assert_null(tern_forward_args(m, &run));
    assert_error(TERN_ERR_DTYPE, "lstm: c0 and the input are of different dtypes\n    c0 ");
    {
        TERN_AUTOCAST(tern_default_device(), TERN_BF16);
        assert_non_null(tern_forward_args(m, &run));
        assert_no_error();
    }
    if (tern_default_device().kind != TERN_KIND_CPU) {
        run.in[2] = tern_zeros(TERN_SHAPE(1, 2, 4), .device = TERN_CPU);
        assert_null(tern_forward_args(m, &run));
        assert_error(TERN_ERR_DEVICE, "lstm: c0 and the input are on different devices\n    c0 ");
    }
    tern_module_free(m);
}

/* in: x, h0 and, of an lstm, c0 */
static tern_tensor *all_results(tern_tensor *const *in, void *user)
{
    tern_args run = TERN_ARGS(in[0], in[1], in[2]);
    tern_forward_args(user, &run);
    tern_tensor *y = tern_reshape(run.out[0], TERN_SHAPE(-1));
    tern_tensor *h = tern_reshape(run.out[1], TERN_SHAPE(-1));
    return run.out[2] ? tern_cat(0, y, h, tern_reshape(run.out[2], TERN_SHAPE(-1)))
                      : tern_cat(0, y, h);
}

static tern_tensor *leaf(tern_shape_t shape)
{
    return tern_set_requires_grad(tern_randn(shape, .dtype = TERN_F64), true);
}

static void check_orders(tern_module *m, int64_t places, bool cells)
{
    TERN_SCOPE;
    tern_seed(5);
    tern_tensor *in[3] = { leaf(TERN_SHAPE(3, 2, 2)), leaf(TERN_SHAPE(places, 2, 3)),
                           cells ? leaf(TERN_SHAPE(places, 2, 3)) : NULL };
    assert_int_equal(tern_gradcheck(all_results, in, cells ? 3 : 2, m, .order = 2), TERN_OK);
    tern_module_free(m);
}

static void test_gradients_of_gradients(void **unused)
{
    (void)unused;
    check_orders(tern_rnn_layer(2, 3, .dtype = TERN_F64), 1, false);
    check_orders(tern_rnn_layer(2, 3, .dtype = TERN_F64, .relu = true, .bidirectional = true), 2,
                 false);
    check_orders(tern_lstm_layer(2, 3, .dtype = TERN_F64), 1, true);
    check_orders(tern_lstm_layer(2, 3, .dtype = TERN_F64, .layers = 2, .bidirectional = true), 4,
                 true);
    check_orders(tern_gru_layer(2, 3, .dtype = TERN_F64, .no_bias = true), 1, false);
    check_orders(tern_gru_layer(2, 3, .dtype = TERN_F64, .layers = 2), 2, false);
}

/* Twice through one layer in one graph, and a third order. */
static void test_one_layer_twice_and_a_third_order(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_module *m = tern_lstm_layer(3, 3, .dtype = TERN_F64);
    tern_tensor *x = leaf(TERN_SHAPE(4, 2, 3)), *g = NULL;
    tern_tensor *s = tern_sum(tern_forward(m, tern_forward(m, x)));
    for (int order = 1; order <= 3; order++) {
        tern_grad(s, &x, 1, &g, .create_graph = true);
        s = tern_sum(tern_mul(g, g));
    }
    assert_no_error();
    assert_true(isfinite(tern_item(s)) && tern_item(s) > 0);
    tern_module_free(m);
}

/* A batch of none is a batch; half types have second orders, too. */
static void test_empty_batch_and_second_order_of_half(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_module *m = tern_gru_layer(3, 4);
    tern_tensor *x = tern_zeros(TERN_SHAPE(5, 0, 3), .requires_grad = true), *g = NULL;
    tern_tensor *y = tern_forward(m, x);
    assert_int_equal(tern_size(y, 1), 0);
    tern_grad(tern_sum(y), &x, 1, &g, .create_graph = true);
    assert_no_error();
    tern_module_free(m);
    m = tern_gru_layer(3, 4, .dtype = TERN_BF16);
    x = tern_set_requires_grad(tern_randn(TERN_SHAPE(5, 2, 3), .dtype = TERN_BF16), true);
    tern_grad(tern_sum(tern_forward(m, x)), &x, 1, &g, .create_graph = true);
    tern_backward(tern_sum(tern_mul(g, g)));
    assert_no_error();
    assert_int_equal(tern_dtype(tern_grad_of(x)), TERN_BF16);
    tern_module_free(m);
}

static void test_cells_check_their_operands(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *gates = tern_zeros(TERN_SHAPE(2, 8)), *c = tern_zeros(TERN_SHAPE(2, 2));
    tern_tensor *h = tern_zeros(TERN_SHAPE(2, 2)), *wide = tern_zeros(TERN_SHAPE(2, 3));
    assert_int_equal(tern_lstm_cell(gates, gates, c, wide, h), TERN_ERR_SHAPE);
    assert_error(TERN_ERR_SHAPE, "c has to be [N, 1 H]");
    assert_int_equal(tern_lstm_cell(gates, gates, c, c, tern_transpose(h, 0, 1)),
                     TERN_ERR_ARGUMENT);
    assert_error(TERN_ERR_ARGUMENT, "h is written, and is not contiguous");
    tern_tensor *doubles = tern_zeros(TERN_SHAPE(2, 2), .dtype = TERN_F64);
    assert_int_equal(tern_lstm_cell(gates, gates, doubles, c, h), TERN_ERR_DTYPE);
    assert_error(TERN_ERR_DTYPE, "c_before differs");
    tern_tensor *none = tern_zeros(TERN_SHAPE(0, 8)), *nothing = tern_zeros(TERN_SHAPE(0, 2));
    assert_int_equal(tern_lstm_cell(none, none, nothing, nothing, nothing), TERN_OK);
}

/* They are parts of what the layer computed in, but no views for the program, as in PyTorch. */
static void test_results_are_tensors_of_their_own(void **unused)
{
    (void)unused;
    for (int which = 0; which < 8; which++) {
        TERN_SCOPE;
        const bool turned = which & 1, lstm = which & 2, one = which & 4;
        tern_module *m = lstm ? tern_lstm_layer(4, 5, .batch_first = turned)
                              : tern_gru_layer(4, 5, .batch_first = turned, .bidirectional = !one);
        tern_tensor *x = one ? tern_randn(TERN_SHAPE(3, 4)) : tern_randn(TERN_SHAPE(2, 3, 4));
        tern_tensor *two = tern_full(2, TERN_SCALAR_SHAPE, .requires_grad = true);
        tern_args run = TERN_ARGS(x);
        {
            TERN_NO_GRAD;
            tern_forward_args(m, &run);
        }
        for (int i = 0; i < (lstm ? 3 : 2); i++) {
            tern_mul_(run.out[i], two);
            assert_no_error();
            tern_tensor *sum = tern_sum(run.out[i]);
            tern_backward(sum);
            assert_close(tern_item(tern_grad_of(two)), tern_item(sum) / 2, 1e-4);
            tern_set_grad(two, NULL);
        }
        tern_module_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameters_have_torchs_names),
        cmocka_unit_test(test_each_kind_learns),
        cmocka_unit_test(test_autocast_and_half_types),
        cmocka_unit_test(test_what_does_not_fit_is_refused),
        cmocka_unit_test(test_gradients_of_gradients),
        cmocka_unit_test(test_one_layer_twice_and_a_third_order),
        cmocka_unit_test(test_empty_batch_and_second_order_of_half),
        cmocka_unit_test(test_cells_check_their_operands),
        cmocka_unit_test(test_results_are_tensors_of_their_own),
    };
    return check_run(tests, NULL, NULL);
}
