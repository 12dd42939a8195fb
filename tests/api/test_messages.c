/* What errors say to who made the mistake: the op, the operand by its parameter's name, what it is, what to try. */
#include <stdio.h>

#include "tests/support/check.h"
#include "tests/support/files.h"

/* The call fails, and its error has both texts. */
#define SAYS(call, first, second)                                               \
    do {                                                                        \
        (void)(call);                                                           \
        const char *text_ = tern_error_text();                                  \
        if (strstr(text_, first) == NULL || strstr(text_, second) == NULL)      \
            fail_msg("expected '%s' and '%s', got '%s'", first, second, text_); \
        tern_error_clear();                                                     \
    } while (0)

#define OF(dtype_, ...) tern_ones(TERN_SHAPE(__VA_ARGS__), .dtype = TERN_##dtype_)
#define ONES(...) OF(F32, __VA_ARGS__)

static void test_operands_have_their_parameters_names(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *none = NULL, *x = ONES(2, 4, 3);
    SAYS(tern_linear(ONES(2, 4), ONES(5, 3), ONES(5)), "linear: x has 4 features", "\n    weight ");
    SAYS(tern_linear(ONES(2, 3), none, none), "linear: weight is NULL",
         "\n    x         f32  [2, 3]");
    SAYS(tern_eq_(ONES(3), ONES(2, 3)), "eq: the result has another shape than the tensor",
         "\n    b         f32  [2, 3]");
    SAYS(tern_eq_(ONES(3), ONES(4)), "eq: shapes [3] and [4] do not broadcast",
         "\n    b         f32  [4]");
    SAYS(tern_matmul(ONES(2, 3), ONES(2, 3)), "\n    a         f32  [2, 3]", "\n    b         f32");
    SAYS(tern_matmul(ONES(2, 3), ONES(4, 3)),
         "matmul: inner sizes differ: [2, 3] x [4, 3], 3 and 4", "try tern_transpose(b, -1, -2)");
    SAYS(tern_matmul(ONES(4, 2), ONES(4, 3)), "2 and 4", "try tern_transpose(a, -1, -2)");
    SAYS(tern_matmul(ONES(3), ONES(4, 2)), "3 and 4", "try tern_reshape, or operands of other");
    SAYS(tern_matmul(tern_expand(ONES(1), TERN_SHAPE(1LL << 22, 1)),
                     tern_expand(ONES(1), TERN_SHAPE(1, 1LL << 22))),
         "matmul: out of memory on cpu: 65536.00 GiB", "");
    SAYS(tern_group_norm(OF(I64, 2, 4, 3), 2),
         "group_norm: x is i64; accepted are: f16 bf16 f32 f64", "try tern_cast(x, TERN_F32)");
    SAYS(tern_group_norm(x, 2, ONES(3)), "weight has to be [4], one for each channel of x",
         "weight ");
    SAYS(tern_softmax(OF(I64, 2, 3), 0), "softmax: x is i64", "try tern_cast(x, TERN_F32)");
    SAYS(tern_scaled_dot_product_attention(ONES(1, 1, 4, 8), ONES(1, 1, 4, 8), ONES(1, 1, 4, 8),
                                           .mask = OF(I64, 4, 4)),
         "mask is i64; accepted are: bool", "try tern_cast(mask, TERN_F32)");
    SAYS(tern_masked_select(x, OF(U8, 2, 4, 3)), "mask is u8; accepted are: bool",
         "try tern_ne(mask, 0)");
    SAYS(tern_cross_entropy(OF(I64, 2, 3), OF(I64, 2)), "logits is i64", "\n    target    i64");
    SAYS(tern_gather(x, 1, OF(I32, 2)), "x has 3 dimensions and the index 1",
         "\n    index     i32  [2]");
    SAYS(tern_scatter(x, 1, OF(I32, 2), 1), "x has 3 dimensions and the index 1", "i32  [2]");
    SAYS(tern_adaptive_avg_pool1d(x, 0), "the size to make is (1, 0)", "-1 is the input's own");
    SAYS(tern_lerp(ONES(2), none, 0.5), "lerp: end is NULL", "\n    weight ");
    SAYS(tern_batch_norm(ONES(2, 3), .running_mean = ONES(4), .running_var = ONES(4)),
         "running_mean has to be [3] for x [2, 3]; it is [4]", "\n    running_mean  f32");
    SAYS(tern_cat(0, ONES(2, 3), ONES(2, 4)), "cat: tensors[1] of shape [2, 4]",
         "\n    tensors[0]  f32  [2, 3]");
    SAYS(tern_einsum("ij,jk->ik", ONES(2, 3), none), "operands[1] is NULL", "einsum: ");
    SAYS(tern_multinomial(ONES(3), 4), "4 of 3 classes are wanted", "try .replacement = true");
    SAYS(tern_multinomial(ONES(3)), "0 of 3 classes are wanted", "try a .count of at least 1");
}

static tern_tensor *doubled(tern_op_ctx *ctx, tern_tensor **in)
{
    (void)ctx;
    return tern_mul(in[0], 2);
}

static void doubled_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    (void)ctx;
    grad_in[0] = tern_mul(grad, 2);
}

/* An op of one's own may be gone when the error is made, and its name with it. */
static void test_a_gradient_asked_of_an_op_that_is_gone(void **state)
{
    (void)state;
    char name[] = "fleeting";
    const tern_op op = {
        .name = name, .inputs = 1, .forward = doubled, .backward = doubled_backward
    };
    {
        TERN_SCOPE;
        assert_null(tern_grad_of(tern_apply(&op, tern_ones(TERN_SHAPE(1), .requires_grad = true))));
        assert_no_error();
    }
    memset(name, '?', sizeof name - 1);
    SAYS(tern_norm(NULL), "norm: x is NULL: ", "that a recorded fleeting made at ");
}

/* The row T013: what a leaf was moved to is no leaf, and its gradient stays NULL. */
static void test_a_gradient_that_no_leaf_has_is_explained(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *w = tern_ones(TERN_SHAPE(3), .requires_grad = true), *moved = tern_mul(w, 2);
    tern_backward(tern_sum(moved));
    assert_null(tern_grad_of(moved));
    assert_no_error();
    const char *const why =
        "tern_grad_of has no gradient of the tensor that a recorded mul made at ";
    SAYS(tern_norm(tern_grad_of(moved)), "norm: x is NULL: ", why);
    SAYS(tern_norm(NULL), "norm: x is NULL\n", ""); /* said once */
    SAYS(tern_item(tern_grad_of(moved)), "item: the tensor is NULL: ", why);
    SAYS(tern_clone(tern_grad_of(moved)), "clone: the tensor is NULL: ", why);
    SAYS(tern_mul_(tern_grad_of(moved), 2), "mul: a is NULL: ", why);
    SAYS(tern_sgd(TERN_TENSORS(moved)),
         "test_messages.c:", "is the result of a recorded op, not a leaf\n  try ");
    assert_null(tern_grad_of(tern_ones(TERN_SHAPE(1), .requires_grad = true)));
    SAYS(tern_norm(NULL), "norm: x is NULL\n", ""); /* a leaf that has none yet is no mistake */
    assert_non_null(tern_grad_of(w));
}

static void test_one_dtype_is_asked_for(void **state)
{
    (void)state;
    TERN_SCOPE;
    SAYS(tern_linear(OF(U8, 2, 3), ONES(4, 3), NULL),
         "linear: x and weight have different dtypes: u8 and f32\n", "try tern_cast(x, TERN_F32)");
    SAYS(tern_linear(OF(F64, 3), ONES(4, 3), NULL), "different dtypes: f64 and f32\n",
         "try tern_cast(x, TERN_F32)");
    SAYS(tern_linear(ONES(2, 3), ONES(4, 3), OF(F64, 4)),
         "linear: x and bias have different dtypes: f32 and f64\n",
         "try tern_cast(bias, TERN_F32)");
    SAYS(tern_conv2d(OF(F16, 1, 1, 5, 5), ONES(1, 1, 3, 3)), "conv2d: x and weight have different",
         "try tern_cast(x, TERN_F32)");
    SAYS(tern_matmul(ONES(2, 3), OF(F16, 3, 2)),
         "matmul: a and b have different dtypes: f32 and f16", "try tern_cast(b, TERN_F32)");
    SAYS(tern_bmm(ONES(1, 2, 3), OF(F64, 1, 3, 2)), "bmm: a and b have different dtypes",
         "try tern_cast(b, TERN_F32)");
    SAYS(tern_scaled_dot_product_attention(ONES(1, 1, 4, 8), OF(F16, 1, 1, 4, 8), ONES(1, 1, 4, 8)),
         "q and k have different dtypes: f32 and f16", "try tern_cast(k, TERN_F32)");
    SAYS(tern_layer_norm(OF(F64, 2, 3), 1, .weight = ONES(3)),
         "x and weight have different dtypes: f64 and f32", "try tern_cast(x, TERN_F32)");
    SAYS(tern_one_hot(ONES(3), 2), "index is f32; accepted are: i32 i64",
         "try tern_cast(index, TERN_I64)");
    SAYS(tern_embedding(OF(I64, 4), ONES(10, 3)), "indices are f32", "the table comes first");
    tern_module *lstm = tern_lstm_layer(3, 4);
    SAYS(tern_forward(lstm, OF(U8, 5, 2, 3)), "lstm: the input is u8, and the weights are f32",
         "    input      u8 [5, 2, 3] on cpu, made at");
    SAYS(tern_forward(lstm, ONES(5, 2, 4)), "lstm: the input has to be [L, N, features]",
         "    input      f32 [5, 2, 4] on cpu, made at");
    tern_module_free(lstm);
}

static void test_shapes_are_named(void **state)
{
    (void)state;
    TERN_SCOPE;
    SAYS(tern_cross_entropy(ONES(2, 3), OF(I64, 3)),
         "for logits [2, 3] the target has to be [2], one class number per row; it is [3]",
         "target");
    SAYS(tern_cross_entropy(ONES(2, 3, 4), OF(I64, 2)), "the target has to be [2, 4]", "it is [2]");
    SAYS(tern_nll_loss(ONES(2, 3), OF(I64, 3)), "nll_loss: for x [2, 3] the target", "it is [3]");
    SAYS(tern_mse_loss(ONES(2, 3), ONES(2), TERN_MEAN), "mse_loss: shapes [2, 3] and [2] do not",
         "\n    y         f32");
    SAYS(tern_layer_norm(ONES(2, 3), 1, .weight = ONES(4)),
         "the weight has to be [3] for x [2, 3]; it is [4]", "layer_norm: ");
    SAYS(tern_conv2d(ONES(1, 28, 28, 1), ONES(8, 1, 3, 3)), "to have 1 channels",
         "try tern_permute(x, TERN_DIMS(0, 3, 1, 2))");
    SAYS(tern_copy(ONES(3), ONES(4)), "copy: src [4] does not broadcast to dst [3]",
         "\n    dst       f32  [3]");
    SAYS(tern_conv1d(ONES(1, 3, 9), ONES(4, 2, 3), NULL),
         "conv1d: x has 3 channels, and the weight takes 2", "x         f32  [1, 3, 9]");
    SAYS(tern_masked_fill(ONES(3), OF(BOOL, 2), 0), "masked_fill: shapes [3] and [2] do not",
         "\n    mask      bool [2]");
    tern_module *norm = tern_layer_norm_layer(8);
    SAYS(tern_forward(norm, ONES(2, 4)), "are not those of the layer (1, the last of 8)",
         "    input      f32 [2, 4] on cpu");
    tern_module_free(norm);
    SAYS(tern_nll_loss(tern_ones(TERN_SCALAR_SHAPE), OF(I64, 1)),
         "nll_loss: x has no dimensions; it has to", "be [classes] or [N, classes, ...]");
    SAYS(tern_item(ONES(3)), "has not one element but 3", "tern_mean or tern_sum");
}

/* Whether the shape or the memory is too much: the call and the line are named. */
static void test_what_is_too_large_names_its_call(void **state)
{
    (void)state;
    TERN_SCOPE;
    const int64_t far = INT64_C(1) << 40;
    tern_tensor *row = tern_expand(ONES(1), TERN_SHAPE(far)), *u = OF(U8, 1, 1);
    tern_tensor *many = tern_expand(ONES(1, 1), TERN_SHAPE(1, INT64_C(1) << 62));
    SAYS(tern_zeros(TERN_SHAPE(far, far)), ": zeros: a tensor cannot have the shape [", __FILE__);
    SAYS(tern_empty(TERN_SHAPE(-1)), ": empty: a tensor cannot have the shape [-1]", __FILE__);
    SAYS(tern_linear_layer(far, far), ": linear_layer: a tensor cannot", __FILE__);
    SAYS(tern_embedding_layer(far, far), ": embedding_layer: a tensor cannot", __FILE__);
    SAYS(tern_lstm_layer(far, far), ": lstm_layer: a tensor cannot", __FILE__);
    SAYS(tern_transformer_encoder_layer(far, 1), ": transformer_encoder_layer: a tensor", __FILE__);
    SAYS(tern_randperm(-1), ": randperm: a tensor cannot have the shape [-1]", __FILE__);
    SAYS(tern_rand(TERN_SHAPE(16 * far)), ": rand: out of memory on cpu: ", __FILE__);
    SAYS(tern_relu(row), ": relu: out of memory on cpu: ", __FILE__);
    SAYS(tern_add(row, OF(F64, 1)), ": add: out of memory on cpu: ", __FILE__);
    SAYS(tern_add(row, OF(F64, 2, 1)), ": add: out of memory on cpu: ", __FILE__);
    SAYS(tern_clone(row), ": clone: out of memory on cpu: ", __FILE__);
    SAYS(tern_contiguous(row), ": contiguous: out of memory on cpu: ", __FILE__);
    SAYS(tern_cast(row, TERN_F16) != NULL, ": to: out of memory on cpu: ", __FILE__);
    SAYS(tern_cumsum(tern_expand(u, TERN_SHAPE(1, far)), 0), ": cumsum: out of memory", __FILE__);
    SAYS(tern_add(many, ONES(4, 1)), ": add: a tensor cannot have the shape [4, ",
         "\n    b         f32  [4, 1]");
    SAYS(tern_matmul(tern_transpose(many, 0, 1), many), "a tensor cannot have the shape [",
         "\n    b         f32  [1, ");
}

/* Operands of ops inside are none that a caller could look for. */
static void test_errors_are_of_what_was_given(void **state)
{
    (void)state;
    TERN_SCOPE;
    SAYS(tern_mean(ONES(3), .dtype = TERN_I64), "mean: .dtype is i64; floats are needed",
         "\n    x         f32  [3]");
    SAYS(tern_std(ONES(3), .dtype = TERN_BOOL), "std: .dtype is bool", "try .dtype = TERN_F32");
    SAYS(tern_mean(OF(I64, 3)), "mean: the input is i64; floats", "try tern_cast(x, TERN_F32)");
    SAYS(tern_einsum("ad,d->", OF(U8, 3, 2), OF(U8, 2)),
         "of two operands of u8 one is summed before they are multiplied, and sums of it are i64",
         "try tern_cast(.., TERN_I64) for both");
    SAYS(tern_einsum("ad,d->", OF(I64, 3, 2), OF(U8, 2)), "have different dtypes: i64 and u8",
         "try tern_cast for one of them");
    SAYS(tern_pixel_shuffle(ONES(1, 4, 2, 2), INT64_C(1) << 31),
         "pixel_shuffle: the factor is 2147483648; it has to be below 2^31", "x         f32");
    SAYS(tern_pixel_shuffle(ONES(1, 4, 2, 2), 0), "the factor is 0; it has to be positive", "");
}

static void test_gradients_are_shown_beside_what_they_are_of(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_set_requires_grad(ONES(3), true);
    SAYS(tern_set_grad(x, ONES(4)), "set_grad: the gradient has another shape than the tensor",
         "\n    grad      f32  [4]");
    SAYS(tern_set_grad(x, OF(F64, 3)), "the gradient has another dtype",
         "\n    grad      f64  [3]");
    SAYS(tern_backward(tern_mul(x, 2), .gradient = ONES(4)),
         "backward: the gradient has another shape", "\n    root      f32  [3]");
    SAYS(tern_backward(tern_mul(x, 2)), "backward: the root has the shape [3]",
         "try tern_mean or tern_sum of it, or .gradient");
    SAYS(tern_copy(x, ONES(3)), "copy: a leaf that requires a gradient",
         "\n    dst       f32  [3]");
    tern_tensor *y = tern_mul(x, x), *loss = tern_sum(tern_mul(y, ONES(3)));
    tern_tensor *z = tern_sum(tern_mul(y, y));
    tern_add_(y, 1);
    SAYS(tern_backward(z), "mul: b (f32 [3]), which backward needs, was changed in place once",
         "try the form of that change that makes a new tensor");
    assert_non_null(loss);
}

/* The weight itself, a view of it, and the weights that a recurrent layer keeps. */
static void test_a_step_between_forward_and_backward_is_told_where_it_belongs(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_module *nets[2] = { tern_linear_layer(3, 3), tern_gru_layer(3, 3) };
    tern_tensor *w = tern_module_tensor(nets[0], "weight"), *x = tern_ones(TERN_SHAPE(2, 3));
    tern_optimizer *opt = tern_sgd(tern_parameters(nets[0]), .lr = 0.1);
    tern_add_group(opt, tern_parameters(nets[1]));
    x = tern_set_requires_grad(x, true);
    tern_tensor *results[] = { tern_forward(nets[0], x), tern_matmul(x, tern_transpose(w, 0, 1)),
                               tern_forward(nets[1], tern_unsqueeze(x, 0)) };
    tern_backward(
        tern_sum(tern_add(tern_forward(nets[0], x), tern_forward(nets[1], tern_unsqueeze(x, 0)))));
    tern_step(opt);
    for (int i = 0; i < 3; i++)
        SAYS(tern_backward(tern_sum(results[i])), "which backward needs, was changed in place once",
             "try that change (an optimizer's step, a load, a move) before that forward, or after "
             "this backward");
    tern_optimizer_free(opt);
    tern_module_free(nets[0]);
    tern_module_free(nets[1]);
}

static tern_tensor *pass(tern_module *self, tern_tensor *x)
{
    (void)self;
    return x;
}

/* What calls share names the one that was called. */
static void test_the_function_that_was_called_is_named(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *loss = ONES(1), *scaled = NULL;
    const tern_tensors_t losses = { &loss, NULL, 1 };
    SAYS(tern_module_count(NULL), "module_count: the module is NULL", "");
    SAYS(tern_scaler_scale_all(NULL, losses, &scaled), ": scaler_scale_all: the scaler", "");
    SAYS(tern_scaler_scale(NULL, loss), ": scaler_scale: the scaler is NULL", "");
}

static void test_files_are_errors_of_the_function_that_was_called(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_module *small = tern_linear_layer(3, 4), *large = tern_linear_layer(3, 5);
    char path[FILE_PATH_BYTES + 32], torch[FILE_PATH_BYTES + 32];
    (void)snprintf(path, sizeof path, "%s/m.safetensors", file_folder());
    (void)snprintf(torch, sizeof torch, "%s/m.pt", file_folder());
    assert_int_equal(tern_module_save(small, path), TERN_OK);
    SAYS(tern_module_load(small, "/nowhere/x"),
         ": module_load: /nowhere/x: cannot open: ", "No such");
    SAYS(tern_module_save(small, "/nowhere/x"), ": module_save: /nowhere/x: cannot", "No such");
    SAYS(tern_state_load("/nowhere/x"), ": state_load: /nowhere/x: cannot open", "No such");
    SAYS(tern_module_load(large, path),
         "m.safetensors: 'weight' does not fit\n    there   f32 [4, 3]", ": module_load: ");
    SAYS(tern_module_load(large, path), "    module  f32 [5, 3] on cpu, made at ", "module_load");
    tern_module *wrapped = tern_module_create_at(TERN_HERE, sizeof *wrapped, "wrap", pass);
    tern_module_add_child(wrapped, "module", small);
    assert_int_equal(tern_module_save(wrapped, path), TERN_OK);
    tern_module *again = tern_linear_layer(3, 4);
    SAYS(tern_module_load(again, path), "unexpected  module.weight, module.bias",
         "try tern_module_restore(module, state, \"module\")");
    tern_module_free(again);
    FILE *file = fopen(torch, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite("PK\3\4 and more of it", 1, 19, file), 19);
    assert_int_equal(fclose(file), 0);
    SAYS(tern_module_load(small, torch), "but one of torch.save", "safetensors.torch.save_file");
    tern_state *empty = tern_state_create();
    int64_t value;
    tern_optimizer *opt = tern_adam(tern_parameters(small));
    SAYS(tern_state_get_int(empty, "n", &value), ": state_get_int: ", "'n' is missing");
    tern_schedule *schedule = tern_cosine_schedule(opt, .steps = 10);
    SAYS(tern_schedule_restore(schedule, empty, "s"), ": schedule_restore: ", "missing");
    tern_schedule_free(schedule);
    tern_optimizer_free(opt);
    tern_state_free(empty);
    tern_module_free(wrapped);
    tern_module_free(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operands_have_their_parameters_names),
        cmocka_unit_test(test_a_gradient_asked_of_an_op_that_is_gone),
        cmocka_unit_test(test_a_gradient_that_no_leaf_has_is_explained),
        cmocka_unit_test(test_one_dtype_is_asked_for),
        cmocka_unit_test(test_shapes_are_named),
        cmocka_unit_test(test_what_is_too_large_names_its_call),
        cmocka_unit_test(test_errors_are_of_what_was_given),
        cmocka_unit_test(test_gradients_are_shown_beside_what_they_are_of),
        cmocka_unit_test(test_a_step_between_forward_and_backward_is_told_where_it_belongs),
        cmocka_unit_test(test_the_function_that_was_called_is_named),
        cmocka_unit_test(test_files_are_errors_of_the_function_that_was_called),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
