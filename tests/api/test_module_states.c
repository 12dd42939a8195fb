/* Modules in files and back, the values they begin with, and how right they are. */
#include "tests/support/check.h"

#include <math.h>

#include "tests/support/files.h"

static tern_module *new_net(void)
{
    return tern_sequential(tern_linear_layer(3, 4), tern_batch_norm1d_layer(4),
                           tern_linear_layer(4, 2));
}

/* Every value of every parameter and buffer, in order. */
static void read_values(tern_module *net, double *out, int64_t room)
{
    const tern_tensors_t lists[2] = { tern_parameters(net), tern_buffers(net) };
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < lists[k].count; i++) {
            const int64_t count = tern_numel(lists[k].tensors[i]);
            assert_true(count <= room);
            tern_read(lists[k].tensors[i], TERN_F64, out, count * (int64_t)sizeof *out);
            out += count;
            room -= count;
        }
    assert_no_error();
}

enum { VALUES = 12 + 4 + 4 + 4 + 8 + 2 + 4 + 4 + 1 };

static void expect_same(tern_module *a, tern_module *b)
{
    double x[VALUES], y[VALUES];
    read_values(a, x, VALUES);
    read_values(b, y, VALUES);
    assert_memory_equal(x, y, sizeof x);
}

/* ---- files ------------------------------------------------------------------------------------ */

static void test_a_module_comes_back_bit_for_bit(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_module *net = new_net();
    tern_module *other = new_net();
    tern_forward(net, tern_randn(TERN_SHAPE(6, 3))); /* moves the running statistics */
    assert_int_equal(tern_module_save(net, file_path("net")), TERN_OK);
    assert_int_equal(tern_module_load(other, file_path("net")), TERN_OK);
    expect_same(net, other);
    tern_safetensors *file = tern_safetensors_open(file_path("net"));
    assert_int_equal(tern_safetensors_count(file), 9);
    assert_true(tern_safetensors_find(file, "1.num_batches_tracked") >= 0);
    assert_true(tern_safetensors_find(file, "2.weight") >= 0);
    tern_safetensors_close(file);
    tern_module_free(net);
    tern_module_free(other);
}

static void test_a_prefix_keeps_two_modules_apart(void **unused)
{
    (void)unused;
    tern_module *a = new_net();
    tern_module *b = new_net();
    tern_module *back = new_net();
    tern_state *state = tern_state_create();
    tern_module_store(a, state, "a");
    tern_module_store(b, state, "b");
    assert_non_null(tern_state_get(state, "b.0.weight"));
    assert_int_equal(tern_state_tensors(state).count, 18);
    assert_int_equal(tern_module_restore(back, state, "b"), TERN_OK);
    expect_same(back, b);
    assert_int_equal(tern_module_restore(back, state, "a", .check_only = true), TERN_OK);
    expect_same(back, b);
    tern_module_restore(back, state, "c");
    assert_error(TERN_ERR_STATE, "missing     0.weight, 0.bias");
    tern_state_free(state);
    tern_module_free(a);
    tern_module_free(b);
    tern_module_free(back);
}

static tern_state *state_without(tern_module *net, const char *name)
{
    tern_state *whole = tern_state_create(), *less = tern_state_create();
    tern_module_store(net, whole, NULL);
    const tern_tensors_t all = tern_state_tensors(whole);
    for (int64_t i = 0; i < all.count; i++)
        if (strcmp(all.names[i], name) != 0)
            tern_state_set(less, all.names[i], all.tensors[i]);
    assert_int_equal(tern_state_tensors(less).count, all.count - 1);
    tern_state_free(whole);
    return less;
}

/* As in PyTorch 2.15, of a state without a version, which a file has not. */
static void test_running_statistics_need_no_count(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_module *net = new_net(), *other = new_net();
    tern_forward(net, tern_randn(TERN_SHAPE(6, 3)));
    tern_forward(other, tern_randn(TERN_SHAPE(6, 3)));
    tern_forward(other, tern_randn(TERN_SHAPE(6, 3)));
    tern_state *less = state_without(net, "1.num_batches_tracked");
    tern_names_t missing;
    assert_int_equal(tern_module_restore(other, less, NULL, .out_missing = &missing), TERN_OK);
    assert_int_equal(missing.count, 0);
    assert_true(tern_item(tern_module_tensor(other, "1.num_batches_tracked")) == 2);
    tern_copy(tern_module_tensor(other, "1.num_batches_tracked"),
              tern_module_tensor(net, "1.num_batches_tracked"));
    expect_same(net, other);
    tern_state_free(less);
    tern_module_free(net);
    tern_module_free(other);
}

/* Other buffers, and a parameter of that name, have to be there. */
static void test_all_but_a_count_has_to_be_there(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_module *net = new_net();
    tern_state *less = state_without(net, "1.running_var");
    tern_module_restore(net, less);
    assert_error(TERN_ERR_STATE, "missing     1.running_var");
    tern_state_free(less);
    tern_module_add_parameter(net, "num_batches_tracked", tern_ones(TERN_SHAPE(1)));
    less = state_without(net, "num_batches_tracked");
    tern_module_restore(net, less);
    assert_error(TERN_ERR_STATE, "missing     num_batches_tracked");
    tern_state_free(less);
    tern_module_free(net);
}

static void test_values_take_the_dtype_of_the_module(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_module *wide = tern_linear_layer(2, 2, .dtype = TERN_F64);
    tern_module *narrow = tern_linear_layer(2, 2, .dtype = TERN_F32);
    tern_module_save(wide, file_path("wide"));
    assert_int_equal(tern_module_load(narrow, file_path("wide")), TERN_OK);
    tern_tensor *weight = tern_module_tensor(narrow, "weight");
    assert_int_equal(tern_dtype(weight), TERN_F32);
    assert_true(tern_requires_grad(weight));
    tern_tensor *apart = tern_sub(tern_module_tensor(wide, "weight"), weight);
    assert_close(tern_item(tern_amax(tern_abs(apart))), 0, 1e-7);
    tern_module_free(wide);
    tern_module_free(narrow);
}

static void test_a_shared_parameter_is_saved_once(void **unused)
{
    (void)unused;
    tern_module *layer = tern_linear_layer(2, 2, .no_bias = true);
    tern_module *net = tern_sequential(layer, layer);
    tern_module_save(net, file_path("tied"));
    tern_state *state = tern_state_load(file_path("tied"));
    assert_int_equal(tern_state_tensors(state).count, 1);
    assert_int_equal(tern_module_restore(net, state, NULL), TERN_OK);
    tern_state_free(state);
    tern_module_free(net);
}

/* As in PyTorch, which copies under each name in turn. */
static void test_all_names_of_a_shared_parameter_are_read(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_module *layer = tern_linear_layer(2, 2, .no_bias = true);
    tern_module *net = tern_sequential(layer, layer);
    tern_tensor *weight = tern_module_tensor(net, "0.weight");
    tern_state *state = tern_state_create();
    tern_state_set(state, "1.weight", tern_full(5, TERN_SHAPE(2, 2)));
    assert_int_equal(tern_module_restore(net, state), TERN_OK);
    assert_true(tern_item(tern_sum(weight)) == 20);
    tern_state_set(state, "0.weight", tern_full(1, TERN_SHAPE(2, 2)));
    assert_int_equal(tern_module_restore(net, state), TERN_OK);
    assert_true(tern_item(tern_sum(weight)) == 20);
    tern_state_set(state, "1.weight", tern_full(3, TERN_SHAPE(2, 3)));
    tern_module_restore(net, state);
    assert_error(TERN_ERR_SHAPE, "'1.weight' does not fit\n    there   f32 [2, 3]");
    tern_state_set(state, "1.weight", tern_full(3, TERN_SHAPE(2, 2), .dtype = TERN_I64));
    tern_module_restore(net, state);
    assert_error(TERN_ERR_DTYPE, "'1.weight' does not fit");
    assert_true(tern_item(tern_sum(weight)) == 20);
    tern_state_free(state);
    tern_module_free(net);
}

/* ---- what does not fit ------------------------------------------------------------------------ */

/* A file's tensor of a dtype that tern does not have is in the way only where it is wanted. */
static void test_what_cannot_be_read_may_be_left(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    static const char header[] =
        "{\"bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
        "\"m.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]},"
        "\"m.weight\":{\"dtype\":\"F8_E5M2\",\"shape\":[2,1],"
        "\"data_offsets\":[16,18]},"
        "\"scale\":{\"dtype\":\"F8_E8M0\",\"shape\":[2],"
        "\"data_offsets\":[18,20]}}";
    const float data[] = { 5, 6, 7, 8 };
    const unsigned char head[8] = { (sizeof header - 1) & 0xff, (sizeof header - 1) >> 8 };
    FILE *out = fopen(file_path("foreign"), "wb");
    assert_true(fwrite(head, 1, 8, out) == 8 && fwrite(header, 1, sizeof header - 1, out) > 0 &&
                fwrite(data, 1, 16, out) == 16 && fwrite("abcd", 1, 4, out) == 4);
    (void)fclose(out);
    tern_module *net = tern_linear_layer(1, 2);
    tern_names_t missing, unexpected;
    assert_int_equal(tern_module_load(net, file_path("foreign"), .partial = true,
                                      .out_missing = &missing, .out_unexpected = &unexpected),
                     TERN_OK);
    assert_true(missing.count == 1 && unexpected.count == 3);
    assert_string_equal(missing.names[0], "weight");
    assert_string_equal(unexpected.names[2], "scale");
    assert_true(tern_item(tern_select(tern_parameters(net).tensors[1], 0, 1)) == 6);
    tern_module_load(net, file_path("foreign"));
    assert_error(TERN_ERR_STATE, "unexpected  m.bias, m.weight, scale");
    tern_state *state = tern_state_load(file_path("foreign"));
    tern_module_restore(net, state, "m", .partial = true, .out_missing = &missing,
                        .out_unexpected = &unexpected);
    assert_error(TERN_ERR_DTYPE, "'m.weight' is of F8_E5M2, which tern does not have");
    assert_true(missing.count == 0 && unexpected.count == 0);
    assert_true(tern_item(tern_select(tern_parameters(net).tensors[1], 0, 1)) == 6);
    tern_state_free(state);
    tern_module_free(net);
}

static void test_names_must_agree_unless_partial(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_names_t missing = { NULL, 0 }, unexpected = { NULL, 0 };
    tern_module *net = tern_linear_layer(2, 1);
    tern_state *state = tern_state_create();
    tern_state_set(state, "weight", tern_full(3, TERN_SHAPE(1, 2)));
    tern_state_set(state, "extra", tern_ones(TERN_SHAPE(1)));
    const double before = tern_item(tern_sum(tern_module_tensor(net, "weight")));
    missing.count = unexpected.count = 77;
    tern_module_load(net, "/nowhere", .out_missing = &missing, .out_unexpected = &unexpected);
    assert_true(tern_failed());
    tern_error_clear();
    assert_true(missing.count == 0 && unexpected.count == 0);
    tern_module_restore(net, state, .out_missing = &missing, .out_unexpected = &unexpected);
    assert_non_null(strstr(tern_error_text(), "unexpected  extra"));
    assert_error(TERN_ERR_STATE, "missing     bias");
    assert_int_equal(missing.count, 1);
    assert_string_equal(missing.names[0], "bias");
    assert_int_equal(unexpected.count, 1);
    assert_string_equal(unexpected.names[0], "extra");
    assert_true(tern_item(tern_sum(tern_module_tensor(net, "weight"))) == before);
    assert_int_equal(tern_module_restore(net, state, .partial = true), TERN_OK);
    assert_true(tern_item(tern_sum(tern_module_tensor(net, "weight"))) == 6);
    tern_state_free(state);
    tern_module_free(net);
}

/* The wrong tensor is the last one, so a restore that wrote as it went would have changed others. */
static void test_a_wrong_shape_changes_nothing(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_module *net = new_net();
    tern_module *other = new_net();
    tern_module *copy = new_net();
    tern_state *state = tern_state_create();
    tern_module_store(net, state, NULL);
    tern_module_restore(copy, state, NULL);
    tern_state *bad = tern_state_create();
    tern_module_store(other, bad, NULL);
    tern_state_set(bad, "2.bias", tern_ones(TERN_SHAPE(3)));
    tern_module_restore(net, bad, .partial = true);
    assert_error(TERN_ERR_SHAPE, "'2.bias' does not fit");
    expect_same(net, copy);
    tern_state_set(bad, "2.bias", tern_ones(TERN_SHAPE(2), TERN_I64));
    tern_module_restore(net, bad, NULL);
    assert_error(TERN_ERR_DTYPE, "'2.bias' does not fit");
    expect_same(net, copy);
    tern_state_free(state);
    tern_state_free(bad);
    tern_module_free(net);
    tern_module_free(other);
    tern_module_free(copy);
}

static void test_what_is_missing_altogether_is_named(void **unused)
{
    (void)unused;
    tern_module *net = new_net();
    tern_module_load(net, file_path("nowhere"));
    assert_error(TERN_ERR_IO, "nowhere: cannot open");
    tern_module_restore(net, NULL, NULL);
    assert_error(TERN_ERR_ARGUMENT, "the state is NULL");
    tern_module_save(NULL, file_path("null"));
    assert_error(TERN_ERR_ARGUMENT, "the module is NULL");
    tern_module_free(net);
}

/* ---- initial values (torch.nn's defaults) ----------------------------------------------------- */

/* Uniform on (-bound, bound): within it, near both ends, and with the deviation bound / sqrt(3). */
static void expect_uniform(tern_tensor *t, double bound)
{
    TERN_SCOPE;
    TERN_NO_GRAD;
    const double n = (double)tern_numel(t);
    const double square = tern_item(tern_mean(tern_mul(t, t)));
    assert_no_error();
    const double most = tern_item(tern_amax(t));
    const double least = -tern_item(tern_amax(tern_neg(t)));
    assert_true(most < bound && most > 0.9 * bound);
    assert_true(least >= -bound && least < -0.9 * bound);
    assert_close(square / (bound * bound), 1.0 / 3, 1.5 / sqrt(n));
}

static void test_layers_begin_as_torchs_do(void **unused)
{
    (void)unused;
    tern_seed(5);
    tern_module *linear = tern_linear_layer(100, 400);
    expect_uniform(tern_module_tensor(linear, "weight"), 0.1);
    expect_uniform(tern_module_tensor(linear, "bias"), 0.1);
    tern_module *conv = tern_conv2d_layer(8, 64, 5, .groups = 2);
    expect_uniform(tern_module_tensor(conv, "weight"), 0.1); /* fan in: 4 * 5 * 5 */
    expect_uniform(tern_module_tensor(conv, "bias"), 0.1);
    tern_module *table = tern_embedding_layer(200, 50);
    TERN_SCOPE;
    tern_tensor *weight = tern_module_tensor(table, "weight");
    assert_close(tern_item(tern_mean(weight)), 0, 0.05);
    assert_close(tern_item(tern_mean(tern_mul(weight, weight))), 1, 0.06);
    tern_module *norm = tern_batch_norm2d_layer(3);
    assert_true(tern_item(tern_sum(tern_module_tensor(norm, "weight"))) == 3);
    assert_true(tern_item(tern_sum(tern_module_tensor(norm, "bias"))) == 0);
    assert_true(tern_item(tern_sum(tern_module_tensor(norm, "running_var"))) == 3);
    assert_true(tern_item(tern_module_tensor(norm, "num_batches_tracked")) == 0);
    assert_no_error();
    tern_module *const all[] = { linear, conv, table, norm };
    for (int i = 0; i < 4; i++)
        tern_module_free(all[i]);
}

static void test_initialisers_have_torchs_bounds(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *t = tern_empty(TERN_SHAPE(60, 150));
    expect_uniform(tern_init_kaiming_uniform(t), sqrt(6.0 / 150));
    expect_uniform(tern_init_kaiming_uniform(t, .fan_out = true, .gain = 1), sqrt(3.0 / 60));
    expect_uniform(tern_init_xavier_uniform(t), sqrt(6.0 / 210));
    tern_init_kaiming_normal(t);
    assert_close(tern_item(tern_mean(tern_mul(t, t))), 2.0 / 150, 0.05 * 2 / 150);
    tern_init_xavier_normal(t, 2);
    assert_close(tern_item(tern_mean(tern_mul(t, t))), 4 * 2.0 / 210, 0.05 * 8 / 210);
    assert_true(tern_item(tern_sum(tern_init_constant(t, 0.5))) == 4500);
    assert_close(tern_init_gain(TERN_GAIN_LEAKY_RELU, 0.2), sqrt(2 / 1.04), 1e-12);
    assert_true(tern_init_gain(TERN_GAIN_TANH, 0) == 5.0 / 3 && isnan(tern_init_gain(0, 0)));
    assert_no_error();
    tern_init_xavier_normal(tern_empty(TERN_SHAPE(3)));
    assert_error(TERN_ERR_SHAPE, "1 dimensions has no fan");
    tern_init_constant(tern_empty(TERN_SHAPE(3), TERN_I64), 1);
    assert_error(TERN_ERR_DTYPE, "i64, not a float");
}

static void test_initialisers_refuse_what_is_no_range(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    const double nan = (double)NAN, inf = (double)INFINITY;
    tern_tensor *t = tern_full(7, TERN_SHAPE(2, 3)), *half = tern_cast(t, TERN_F16);
    assert_null(tern_init_uniform(t, 1, 0));
    assert_error(TERN_ERR_ARGUMENT, "init_uniform: low = 1 is above high = 0");
    assert_null(tern_init_uniform(t, nan, 1));
    assert_error(TERN_ERR_ARGUMENT, "the range [nan, 1) does not lie within f32");
    assert_null(tern_init_uniform(t, 0, inf));
    assert_error(TERN_ERR_ARGUMENT, "the range [0, inf) does not lie within f32");
    assert_null(tern_init_uniform(half, -1e5, 0));
    assert_error(TERN_ERR_ARGUMENT, "the range [-100000, 0) does not lie within f16");
    assert_null(tern_init_uniform(t, -3e38, 3e38));
    assert_error(TERN_ERR_ARGUMENT, "is wider than f32 counts");
    assert_null(tern_init_normal(t, 0, -1));
    assert_error(TERN_ERR_ARGUMENT, "init_normal: the deviation is -1");
    assert_null(tern_init_normal(t, 0, nan));
    assert_error(TERN_ERR_ARGUMENT, "init_normal: the deviation is nan");
    assert_null(tern_init_xavier_uniform(t, nan));
    assert_error(TERN_ERR_ARGUMENT, "init_xavier_uniform: gain = nan");
    assert_null(tern_init_kaiming_normal(t, -1));
    assert_error(TERN_ERR_ARGUMENT, "init_kaiming_normal: gain = -1");
    assert_null(tern_init_kaiming_uniform(t, inf));
    assert_error(TERN_ERR_ARGUMENT, "init_kaiming_uniform: gain = inf");
    assert_true(tern_item(tern_sum(t)) == 42 && tern_item(tern_sum(half)) == 42);
    assert_true(tern_item(tern_sum(tern_init_uniform(t, 2, 2))) == 12);
    assert_true(tern_item(tern_sum(tern_init_normal(t, 1, 0))) == 6);
    assert_true(tern_item(tern_sum(tern_init_xavier_normal(t, TERN_ZERO))) == 0);
    assert_no_error();
}

/* ---- accuracy --------------------------------------------------------------------------------- */

/* A layer that gives its input: scores are what the data says. */
static tern_module *new_echo(int64_t size)
{
    TERN_SCOPE;
    tern_module *echo = tern_linear_layer(size, size, .no_bias = true);
    TERN_NO_GRAD;
    tern_tensor *eye = tern_reshape(tern_arange(.end = (double)size), TERN_SHAPE(size, 1));
    tern_copy(tern_module_tensor(echo, "weight"),
              tern_cast(tern_eq(eye, tern_arange(.end = (double)size)), TERN_F32));
    return echo;
}

static void test_accuracy_counts_and_puts_modes_back(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    const float scores[] = { 1, 2, 0, 5, 1, 1, 0, 0, 9, 1, 3, 2, 4, 0, 0 };
    const int64_t classes[] = { 1, 0, 2, 2, 1 }; /* three of them right */
    tern_dataset *data = tern_dataset_from_tensors(
        tern_from_data(scores, TERN_SHAPE(5, 3)), tern_from_data(classes, TERN_SHAPE(5), TERN_I64));
    tern_module *frozen = tern_dropout_layer(0.9);
    tern_module *net = tern_sequential(new_echo(3), tern_dropout_layer(0.9), frozen);
    tern_eval(frozen);
    const int64_t before = tern_live_tensors();
    for (int64_t batch = 0; batch < 4; batch++)
        assert_close(tern_accuracy(net, data, batch), 0.6, 1e-12);
    assert_true(net->training && tern_module_child(net, 1)->training && !frozen->training);
    tern_set_owned_mode(true);
    assert_close(tern_accuracy(net, data), 0.6, 1e-12);
    tern_set_owned_mode(false);
    assert_int_equal(tern_live_tensors(), before);
    assert_no_error();
    tern_module_free(net);
}

static void test_accuracy_refuses_what_it_cannot_count(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_module *net = new_echo(2);
    tern_dataset *no_classes = tern_dataset_from_tensors(tern_ones(TERN_SHAPE(4, 2)));
    assert_true(isnan(tern_accuracy(net, no_classes)));
    assert_error(TERN_ERR_SHAPE, "classes  none");
    tern_dataset *column = tern_dataset_from_tensors(tern_ones(TERN_SHAPE(4, 2)),
                                                     tern_zeros(TERN_SHAPE(4, 1), TERN_I64));
    assert_true(isnan(tern_accuracy(net, column)));
    assert_error(TERN_ERR_SHAPE, "classes [N] are needed");
    assert_true(net->training);
    assert_true(isnan(tern_accuracy(net)));
    assert_error(TERN_ERR_ARGUMENT, "a module and a dataset");
    tern_module_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_module_comes_back_bit_for_bit),
        cmocka_unit_test(test_a_prefix_keeps_two_modules_apart),
        cmocka_unit_test(test_running_statistics_need_no_count),
        cmocka_unit_test(test_all_but_a_count_has_to_be_there),
        cmocka_unit_test(test_values_take_the_dtype_of_the_module),
        cmocka_unit_test(test_a_shared_parameter_is_saved_once),
        cmocka_unit_test(test_all_names_of_a_shared_parameter_are_read),
        cmocka_unit_test(test_what_cannot_be_read_may_be_left),
        cmocka_unit_test(test_names_must_agree_unless_partial),
        cmocka_unit_test(test_a_wrong_shape_changes_nothing),
        cmocka_unit_test(test_what_is_missing_altogether_is_named),
        cmocka_unit_test(test_layers_begin_as_torchs_do),
        cmocka_unit_test(test_initialisers_have_torchs_bounds),
        cmocka_unit_test(test_initialisers_refuse_what_is_no_range),
        cmocka_unit_test(test_accuracy_counts_and_puts_modes_back),
        cmocka_unit_test(test_accuracy_refuses_what_it_cannot_count),
    };
    const int failed = check_run(tests, NULL, NULL);
    return failed + tern_finish();
}
