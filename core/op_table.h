/* Declares every rule_* and back_* that core/ops.def names, for the table and for their definitions. */
#ifndef TERN_CORE_OP_TABLE_H
#define TERN_CORE_OP_TABLE_H

#include "core/call.h"

/* clang-format off */
#define RULE(name) bool rule_##name(core_call *call);
#define BACK(name) void back_##name(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in);
RULE(limits)
RULE(view) RULE(permute) RULE(slice) RULE(expand) RULE(unfold)
RULE(bernoulli) RULE(remap) RULE(triangle)
RULE(sum) RULE(mean) RULE(amax) RULE(max) RULE(argmax) RULE(norm)
RULE(scan) RULE(linear_scan) RULE(sort) RULE(searchsorted)
RULE(gemm) RULE(linear)
RULE(embedding) RULE(embedding_grad) RULE(gather) RULE(gather_grad)
RULE(index_select) RULE(scatter) RULE(index_offset) RULE(nonzero_starts) RULE(nonzero)
RULE(conv2d) RULE(conv2d_grad_input) RULE(conv2d_grad_weight)
RULE(max_pool2d) RULE(max_pool2d_grad) RULE(avg_pool2d) RULE(avg_pool2d_grad)
RULE(batch_norm) RULE(batch_norm_grad) RULE(layer_norm) RULE(layer_norm_grad)
RULE(resample2d) RULE(rms_norm) RULE(rms_norm_grad)
RULE(softmax) RULE(softmax_grad) RULE(dropout) RULE(dropout_grad)
RULE(cross_entropy) RULE(cross_entropy_grad) RULE(unscale) RULE(scale_update)
RULE(attention) RULE(attention_grad)
RULE(lstm_cell) RULE(lstm_cell_grad) RULE(gru_cell) RULE(gru_cell_grad)

BACK(copy) BACK(view) BACK(permute) BACK(slice) BACK(expand) BACK(unfold)
BACK(flip) BACK(roll) BACK(pad) BACK(tril) BACK(triu)
BACK(neg) BACK(abs) BACK(exp) BACK(log) BACK(sqrt) BACK(tanh) BACK(sigmoid) BACK(relu)
BACK(gelu) BACK(gelu_tanh) BACK(silu)
BACK(tanh_grad) BACK(sigmoid_grad) BACK(relu_grad) BACK(gelu_grad) BACK(gelu_tanh_grad) BACK(silu_grad)
BACK(expm1) BACK(log1p) BACK(log2) BACK(log10) BACK(rsqrt) BACK(reciprocal) BACK(square) BACK(sin)
BACK(cos) BACK(tan) BACK(asin) BACK(acos) BACK(atan) BACK(sinh) BACK(cosh) BACK(erf) BACK(frac)
BACK(hardswish) BACK(mish) BACK(leaky_relu) BACK(elu) BACK(softplus) BACK(hardtanh) BACK(clamp)
BACK(hardswish_grad) BACK(mish_grad) BACK(leaky_relu_grad) BACK(elu_grad) BACK(softplus_grad)
BACK(hardtanh_grad) BACK(clamp_grad)
BACK(add) BACK(sub) BACK(mul) BACK(div) BACK(pow) BACK(maximum) BACK(minimum) BACK(where)
BACK(remainder) BACK(atan2) BACK(hypot) BACK(lerp) BACK(addcmul) BACK(addcdiv)
BACK(sum) BACK(mean) BACK(amax) BACK(var) BACK(max)
BACK(prod) BACK(std) BACK(norm) BACK(cumsum) BACK(cumprod) BACK(linear_scan) BACK(sort)
BACK(gemm) BACK(linear)
BACK(embedding) BACK(embedding_grad) BACK(gather) BACK(gather_grad)
BACK(index_select) BACK(scatter) BACK(scatter_add)
BACK(conv2d) BACK(conv2d_grad_input) BACK(conv2d_grad_weight)
BACK(max_pool2d) BACK(max_pool2d_grad) BACK(avg_pool2d) BACK(avg_pool2d_grad)
BACK(batch_norm) BACK(batch_norm_grad) BACK(layer_norm) BACK(layer_norm_grad)
BACK(resample2d) BACK(rms_norm) BACK(rms_norm_grad)
BACK(softmax) BACK(softmax_grad) BACK(log_softmax) BACK(log_softmax_grad)
BACK(dropout) BACK(dropout_grad) BACK(cross_entropy) BACK(binary_cross_entropy) BACK(binary_cross_entropy_with_logits) BACK(cross_entropy_grad)
BACK(kl_div) BACK(huber) BACK(huber_grad)
BACK(attention)
#undef RULE
#undef BACK
/* clang-format on */

#endif
