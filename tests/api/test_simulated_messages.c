/* What errors of operands on several devices say: which operand is where, which one to move, and how. */
#include <stdlib.h>

#include "tests/support/check.h"

static const tern_dev_t cpu = { TERN_KIND_CPU, -1 }, dev0 = { TERN_KIND_CUDA, 0 },
                        dev1 = { TERN_KIND_CUDA, 1 };

#define ONES(dev, ...) tern_ones(TERN_SHAPE(__VA_ARGS__), .device = dev)
#define WHOLE(dev, ...) tern_zeros(TERN_SHAPE(__VA_ARGS__), .device = dev, .dtype = TERN_I64)

/* The call is refused for its devices, and the error has both texts. */
#define REFUSED(call, first, second)                                                \
    do {                                                                            \
        (void)(call);                                                               \
        const char *text_ = tern_error_text();                                      \
        if (tern_error_code() != TERN_ERR_DEVICE || strstr(text_, first) == NULL || \
            strstr(text_, second) == NULL)                                          \
            fail_msg("expected '%s' and '%s', got '%s'", first, second, text_);     \
        tern_error_clear();                                                         \
    } while (0)

static void test_the_operand_to_move_is_named(void **state)
{
    (void)state;
    TERN_SCOPE;
    REFUSED(tern_add(ONES(cpu, 3), ONES(dev0, 3)), "\n    a         f32  [3]              cpu ",
            "try tern_to(a, TERN_CUDA(0))");
    REFUSED(tern_add(ONES(dev0, 3), ONES(dev1, 3)), "\n    b         f32  [3]              cuda:1",
            "try tern_to(b, TERN_CUDA(0))");
    REFUSED(tern_matmul(ONES(cpu, 2, 3), ONES(dev1, 3, 2)), "matmul: operands are on different",
            "try tern_to(a, TERN_CUDA(1))");
    REFUSED(tern_embedding(ONES(dev0, 9, 3), WHOLE(cpu, 4)), "\n    indices   i64",
            "try tern_to(indices, TERN_CUDA(0))");
    REFUSED(tern_cross_entropy(ONES(dev0, 2, 3), WHOLE(cpu, 2)), "\n    target    i64",
            "try tern_to(target, TERN_CUDA(0))");
    REFUSED(tern_index(ONES(dev0, 3), WHOLE(dev1, 2)), "index: operands are on different devices",
            "try tern_to(index, TERN_CUDA(0))");
    REFUSED(tern_index_put(ONES(dev0, 3), 1, false, WHOLE(dev1, 2)),
            "index_put: ", "try tern_to(index, TERN_CUDA(0))");
    REFUSED(tern_index(ONES(cpu, 3), WHOLE(dev0, 2)), "index: operands are on different devices",
            "\n    index     i64  [2]              cuda:0");
    REFUSED(tern_index_put(ONES(dev0, 3), ONES(cpu, 2), false, WHOLE(dev0, 2)),
            "index_put: operands are on", "try tern_to(values, TERN_CUDA(0))");
    REFUSED(tern_index_put_(ONES(dev0, 3), ONES(dev1, 2), false, WHOLE(dev0, 2)),
            "\n    values    f32  [2]              cuda:1", "try tern_to(values, TERN_CUDA(0))");
    REFUSED(tern_cat(0, ONES(dev0, 2), ONES(dev0, 2), ONES(cpu, 2)),
            "cat: operands are on different", "try tern_to(tensors[2], TERN_CUDA(0))");
    REFUSED(tern_stack(0, ONES(dev0, 2), ONES(dev1, 2)), "\n    tensors[1]  f32",
            "try tern_to(tensors[1], TERN_CUDA(0))");
    /* a number beside them is not what has to move */
    tern_tensor *condition = tern_ones(TERN_SHAPE(3), .dtype = TERN_BOOL, .device = dev0);
    REFUSED(tern_where(condition, tern_full(2, TERN_SCALAR_SHAPE), ONES(dev1, 3)),
            "where: ", "try tern_to(b, TERN_CUDA(0))");
}

/* What is written stays where it is. */
static void test_in_place_the_other_operand_moves(void **state)
{
    (void)state;
    TERN_SCOPE;
    REFUSED(tern_add_(ONES(cpu, 3), ONES(dev0, 3)), "add: operands are on different devices",
            "try tern_to(b, TERN_CPU)");
    REFUSED(tern_add_(ONES(dev1, 3), ONES(dev0, 3)), "add: ", "try tern_to(b, TERN_CUDA(1))");
}

static void test_modules_are_moved_as_a_whole(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_module *net = tern_sequential(tern_linear_layer(3, 4), tern_linear_layer(4, 2));
    tern_module *norm = tern_batch_norm1d_layer(3), *lstm = tern_lstm_layer(3, 4);
    REFUSED(tern_forward(net, ONES(dev0, 2, 3)), "linear (in 0): ",
            "try tern_module_to(module, TERN_CUDA(0)) where weight is a module's");
    REFUSED(tern_forward(norm, ONES(dev1, 2, 3)),
            "batch_norm: ", "try tern_module_to(module, TERN_CUDA(1)) where weight is a module's");
    REFUSED(tern_forward(lstm, ONES(dev0, 5, 2, 3)), "lstm: the input and the parameters are on",
            "    parameter  f32 [16, 3] on cpu, made at ");
    tern_module_to(net, dev0);
    REFUSED(tern_forward(net, ONES(cpu, 2, 3)), "linear (in 0): ", "try tern_to(x, TERN_CUDA(0))");
    REFUSED(tern_forward(net, ONES(dev1, 2, 3)), "linear (in 0): ", "try tern_to(x, TERN_CUDA(0))");
    tern_module_free(net);
    tern_module_free(norm);
    tern_module_free(lstm);
}

static void test_gradients_on_another_device(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(3), .device = dev0, .requires_grad = true);
    assert_int_not_equal(tern_set_grad(x, ONES(cpu, 3)), TERN_OK);
    assert_error(TERN_ERR_DEVICE, "set_grad: the gradient lies on another device");
    tern_backward(tern_mul(x, 2), .gradient = ONES(dev1, 3));
    assert_non_null(strstr(tern_error_text(), "\n    gradient  f32  [3]              cuda:1"));
    assert_error(TERN_ERR_DEVICE, "backward: the gradient lies on another device than the root");
}

static void test_a_step_shows_the_gradient_that_lies_elsewhere(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_module *net = tern_linear_layer(3, 2);
    tern_optimizer *opt = tern_sgd(tern_parameters(net), .lr = 0.1);
    tern_tensor *weight = tern_parameters(net).tensors[0];
    assert_int_equal(tern_set_grad(weight, ONES(cpu, 2, 3)), TERN_OK);
    tern_tensor_replace(tern_grad_of(weight), ONES(dev0, 2, 3));
    assert_no_error();
    tern_step(opt);
    assert_error(TERN_ERR_STATE, "    gradient   f32 [2, 3] on cuda:0, made at ");
    tern_optimizer_free(opt);
    tern_module_free(net);
}

int main(void)
{
    (void)setenv("TERN_SIM_DEVICES", "2", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_operand_to_move_is_named),
        cmocka_unit_test(test_in_place_the_other_operand_moves),
        cmocka_unit_test(test_modules_are_moved_as_a_whole),
        cmocka_unit_test(test_gradients_on_another_device),
        cmocka_unit_test(test_a_step_shows_the_gradient_that_lies_elsewhere),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
