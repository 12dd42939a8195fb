/* Ops against golden vectors: forward and gradients, in f64 and in f32. */
#include "tests/support/check.h"
#include "tests/support/golden_rows.h"

#define UNARY(name) GOLDEN_OP(name, tern_##name(in[0]))
#define BINARY(name) GOLDEN_OP(name, tern_##name(in[0], in[1]))

UNARY(neg)
UNARY(abs)
UNARY(sign)
UNARY(exp)
UNARY(log)
UNARY(sqrt)
UNARY(tanh)
UNARY(sigmoid)
UNARY(relu)
UNARY(gelu)
UNARY(gelu_tanh)
UNARY(silu)
BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(div)
BINARY(pow)
BINARY(maximum)
BINARY(minimum)
BINARY(eq)
BINARY(ne)
BINARY(lt)
BINARY(le)
BINARY(gt)
BINARY(ge)
BINARY(matmul)
GOLDEN_OP(where, tern_where(tern_ne(in[2], 0), in[0], in[1]))
GOLDEN_OP(sum_all, tern_sum(in[0]))
GOLDEN_OP(sum_dims, tern_sum(in[0], .dims = TERN_DIMS(0, 2), .keepdim = true))
GOLDEN_OP(mean_all, tern_mean(in[0]))
GOLDEN_OP(mean_dim1, tern_mean(in[0], .dims = TERN_DIMS(1)))
GOLDEN_OP(amax, tern_amax(in[0], .dims = TERN_DIMS(1)))
GOLDEN_OP(max, tern_max(in[0], 1, &golden_second))
GOLDEN_OP(argmax, tern_argmax(in[0], 2))
GOLDEN_OP(var, tern_var(in[0], .dims = TERN_DIMS(2)))
GOLDEN_OP(var_0, tern_var(in[0], .no_correction = true))
GOLDEN_OP(var_2, tern_var(in[0], .dims = TERN_DIMS(0, 1), .correction = 2, .keepdim = true))
GOLDEN_OP(linear, tern_linear(in[0], in[1], in[2]))
GOLDEN_OP(embedding, tern_embedding(in[0], in[1]))
GOLDEN_OP(gather_0, tern_gather(in[0], 0, in[1]))
GOLDEN_OP(gather_1, tern_gather(in[0], 1, in[1]))
GOLDEN_OP(conv, tern_conv2d(in[0], in[1], in[2], .padding = { 1 }))
GOLDEN_OP(conv_stride, tern_conv2d(in[0], in[1], .stride = { 2, 1 }, .padding = { 0, 2 }))
GOLDEN_OP(conv_dilation, tern_conv2d(in[0], in[1], in[2], .dilation = { 2, 3 }, .padding = { 2 }))
GOLDEN_OP(conv_groups, tern_conv2d(in[0], in[1], in[2], .groups = 2, .padding = { 1 }))
GOLDEN_OP(conv_depthwise,
          tern_conv2d(in[0], in[1], in[2], .groups = 4, .stride = { 2 }, .padding = { 1 }))
GOLDEN_OP(conv_1x1, tern_conv2d(in[0], in[1], in[2]))
GOLDEN_OP(max_pool, tern_max_pool2d(in[0], .kernel = { 2 }))
GOLDEN_OP(max_pool_overlap,
          tern_max_pool2d(in[0], .kernel = { 3 }, .stride = { 2 }, .padding = { 1 }))
GOLDEN_OP(max_pool_ceil, tern_max_pool2d(in[0], .kernel = { 2, 3 }, .stride = { 2 },
                                         .dilation = { 1, 2 }, .ceil_mode = true))
GOLDEN_OP(avg_pool, tern_avg_pool2d(in[0], .kernel = { 2 }))
GOLDEN_OP(avg_pool_pad, tern_avg_pool2d(in[0], .kernel = { 3 }, .stride = { 2 }, .padding = { 1 }))
GOLDEN_OP(avg_pool_exclude,
          tern_avg_pool2d(in[0], .kernel = { 3 }, .stride = { 2 }, .padding = { 1 },
                          .ceil_mode = true, .exclude_pad = true))
GOLDEN_OP(batch_norm_plain, tern_batch_norm(in[0], .training = true))
GOLDEN_OP(layer_norm, tern_layer_norm(in[0], .weight = in[1], .bias = in[2]))
GOLDEN_OP(layer_norm_2, tern_layer_norm(in[0], 2, in[1], in[2], .eps = 1e-3))
GOLDEN_OP(layer_norm_plain, tern_layer_norm(in[0]))
GOLDEN_OP(softmax_0, tern_softmax(in[0], 0))
GOLDEN_OP(softmax_1, tern_softmax(in[0], 1))
GOLDEN_OP(softmax_2, tern_softmax(in[0], 2))
GOLDEN_OP(log_softmax_0, tern_log_softmax(in[0], 0))
GOLDEN_OP(log_softmax_1, tern_log_softmax(in[0], 1))
GOLDEN_OP(log_softmax_2, tern_log_softmax(in[0], 2))
GOLDEN_OP(entropy_mean, tern_cross_entropy(in[0], in[1]))
GOLDEN_OP(entropy_sum, tern_cross_entropy(in[0], in[1], .reduction = TERN_SUM))
GOLDEN_OP(entropy_none, tern_cross_entropy(in[0], in[1], .reduction = TERN_NONE))
GOLDEN_OP(entropy_smooth, tern_cross_entropy(in[0], in[1], .label_smoothing = 0.1))
GOLDEN_OP(entropy_ignore, tern_cross_entropy(in[0], in[1], .ignore = true, .ignore_index = 0))
GOLDEN_OP(entropy_weight, tern_cross_entropy(in[0], in[1], in[2]))
GOLDEN_OP(entropy_all, tern_cross_entropy(in[0], in[1], in[2], .label_smoothing = 0.2,
                                          .ignore = true, .ignore_index = 2))
GOLDEN_OP(entropy_nothing, tern_cross_entropy(in[0], in[1], .ignore = true, .ignore_index = 1))
GOLDEN_OP(mse_mean, tern_mse_loss(in[0], in[1], TERN_MEAN))
GOLDEN_OP(mse_sum, tern_mse_loss(in[0], in[1], TERN_SUM))
GOLDEN_OP(mse_none, tern_mse_loss(in[0], in[1], TERN_NONE))

/* batch_norm changes its running statistics, so it works on copies: y2 and y3. */
static tern_tensor *batch_norm(tern_tensor **in, bool training, double momentum)
{
    golden_second = tern_clone(in[3]);
    golden_third = tern_clone(in[4]);
    return tern_batch_norm(in[0], .weight = in[1], .bias = in[2], .running_mean = golden_second,
                           .running_var = golden_third, .training = training, .momentum = momentum);
}

GOLDEN_OP(batch_norm_train, batch_norm(in, true, 0.1))
GOLDEN_OP(batch_norm_eval, batch_norm(in, false, 0.1))
GOLDEN_OP(batch_norm_2d, batch_norm(in, true, 0.3))

/* clang-format off */
#define ELEMENTWISE(name) { #name, "x", run_##name, 16 }, { #name "_special", "x", run_##name, 16 }
#define BROADCAST(name) { #name, "a b", run_##name, 16 }, { #name "_outer", "a b", run_##name, 16 }
#define COMPARE(name) { #name, "a b", run_##name, 0 }
/* clang-format on */

static const golden_row rows[] = {
    ELEMENTWISE(neg),
    ELEMENTWISE(abs),
    ELEMENTWISE(sign),
    ELEMENTWISE(exp),
    ELEMENTWISE(log),
    ELEMENTWISE(sqrt),
    ELEMENTWISE(tanh),
    ELEMENTWISE(sigmoid),
    ELEMENTWISE(relu),
    ELEMENTWISE(gelu),
    ELEMENTWISE(gelu_tanh),
    ELEMENTWISE(silu),
    BROADCAST(add),
    BROADCAST(sub),
    BROADCAST(mul),
    BROADCAST(div),
    BROADCAST(maximum),
    BROADCAST(minimum),
    { "pow", "a b", run_pow, 64 },
    { "pow_square", "a b", run_pow, 64 },
    { "maximum_tie", "a b", run_maximum, 0 },
    { "maximum_nan", "a b", run_maximum, 0 },
    { "minimum_nan", "a b", run_minimum, 0 },
    { "where", "a b c", run_where, 0 },
    COMPARE(eq),
    COMPARE(ne),
    COMPARE(lt),
    COMPARE(le),
    COMPARE(gt),
    COMPARE(ge),
    { "sum_all", "x", run_sum_all, 64 },
    { "sum_dims", "x", run_sum_dims, 32 },
    { "mean_all", "x", run_mean_all, 16 },
    { "mean_dim1", "x", run_mean_dim1, 16 },
    { "amax_ties", "x", run_amax, 4 },
    { "max_ties", "x", run_max, 0 },
    { "argmax", "x", run_argmax, 0 },
    { "var", "x", run_var, 32 },
    { "var_0", "x", run_var_0, 32 },
    { "var_2", "x", run_var_2, 32 },
    { "matmul_dot", "a b", run_matmul, 32 },
    { "matmul_matvec", "a b", run_matmul, 32 },
    { "matmul_vecmat", "a b", run_matmul, 32 },
    { "matmul_matmat", "a b", run_matmul, 32 },
    { "matmul_batch", "a b", run_matmul, 32 },
    { "matmul_batch_broadcast", "a b", run_matmul, 64 },
    { "matmul_batch_vec", "a b", run_matmul, 32 },
    { "matmul_vec_batch", "a b", run_matmul, 32 },
    { "linear", "x w b", run_linear, 32 },
    { "embedding", "w index", run_embedding, 16 },
    { "gather_0", "x index", run_gather_0, 16 },
    { "gather_1", "x index", run_gather_1, 16 },
    { "conv2d", "x w b", run_conv, 128 },
    { "conv2d_stride", "x w", run_conv_stride, 128 },
    { "conv2d_dilation", "x w b", run_conv_dilation, 128 },
    { "conv2d_groups", "x w b", run_conv_groups, 128 },
    { "conv2d_depthwise", "x w b", run_conv_depthwise, 128 },
    { "conv2d_1x1", "x w b", run_conv_1x1, 64 },
    { "max_pool2d", "x", run_max_pool, 0 },
    { "max_pool2d_overlap", "x", run_max_pool_overlap, 16 },
    { "max_pool2d_ceil", "x", run_max_pool_ceil, 16 },
    { "max_pool2d_ties", "x", run_max_pool, 0 },
    { "avg_pool2d", "x", run_avg_pool, 16 },
    { "avg_pool2d_pad", "x", run_avg_pool_pad, 16 },
    { "avg_pool2d_exclude", "x", run_avg_pool_exclude, 16 },
    { "batch_norm_train", "x w b mean var", run_batch_norm_train, 64 },
    { "batch_norm_eval", "x w b mean var", run_batch_norm_eval, 64 },
    { "batch_norm_2d", "x w b mean var", run_batch_norm_2d, 64 },
    { "batch_norm_plain", "x", run_batch_norm_plain, 64 },
    { "layer_norm", "x w b", run_layer_norm, 64 },
    { "layer_norm_2", "x w b", run_layer_norm_2, 64 },
    { "layer_norm_plain", "x", run_layer_norm_plain, 64 },
    { "softmax_0", "x", run_softmax_0, 16 },
    { "softmax_1", "x", run_softmax_1, 16 },
    { "softmax_2", "x", run_softmax_2, 16 },
    { "softmax_large", "x", run_softmax_0, 16 },
    { "log_softmax_0", "x", run_log_softmax_0, 16 },
    { "log_softmax_1", "x", run_log_softmax_1, 16 },
    { "log_softmax_2", "x", run_log_softmax_2, 16 },
    { "cross_entropy_mean", "x t", run_entropy_mean, 32 },
    { "cross_entropy_sum", "x t", run_entropy_sum, 32 },
    { "cross_entropy_none", "x t", run_entropy_none, 32 },
    { "cross_entropy_smooth", "x t", run_entropy_smooth, 32 },
    { "cross_entropy_ignore", "x t", run_entropy_ignore, 32 },
    { "cross_entropy_weight", "x t w", run_entropy_weight, 32 },
    { "cross_entropy_all", "x t w", run_entropy_all, 32 },
    { "cross_entropy_spatial", "x t", run_entropy_smooth, 32 },
    { "cross_entropy_nothing", "x t", run_entropy_nothing, 32 },
    { "mse_mean", "x t", run_mse_mean, 32 },
    { "mse_sum", "x t", run_mse_sum, 64 },
    { "mse_none", "x t", run_mse_none, 32 },
    GOLDEN_SECOND_ORDER("tanh", run_tanh),
    GOLDEN_SECOND_ORDER("sigmoid", run_sigmoid),
    GOLDEN_SECOND_ORDER("gelu", run_gelu),
    GOLDEN_SECOND_ORDER("silu", run_silu),
    GOLDEN_SECOND_ORDER("exp", run_exp),
    GOLDEN_SECOND_ORDER("softmax", run_softmax_1),
    GOLDEN_SECOND_ORDER("layer_norm", run_layer_norm_plain),
};

int main(void)
{
    /* test_golden_optim.c, test_golden_promotion.c and test_half.c have the others. */
    golden_use("golden", rows, sizeof rows / sizeof *rows,
               "optimizer_ schedule_ clip_ cast_ promote_ half_");
    const struct CMUnitTest tests[] = { GOLDEN_TESTS };
    return check_run(tests, golden_setup, golden_teardown);
}
