#!/usr/bin/env python3
"""Writes autocast.txt: what PyTorch's autocast does to the ops that correspond to the rows of
core/ops.def, one column for CUDA and one for the CPU. Needs no GPU.

    python3 -m venv venv && venv/bin/pip install torch==2.15.0
    venv/bin/python tests/golden/make_autocast.py

CUDA's classes are the lists of torch/include/ATen/autocast_mode.h, each checked against the kernels
that the dispatcher really has under AutocastCUDA. The CPU's lists are in no header: an op belongs
to one if the dispatcher has a kernel under AutocastCPU, and its class is seen by calling the op.
"""

import os
import re

import torch
import torch.nn.functional as F

PINNED = "2.15.0"
LISTS = {"LOWER_PRECISION_FP": "low", "FP32": "f32", "FP32_SET_OPT_DTYPE": "dtype",
         "PROMOTE": "promote"}

x = torch.randn(2, 3, 4, 4)
m = torch.randn(4, 4)
k = torch.randn(3, 3, 1, 1)
flat = torch.randn(4, 6)
target = torch.randint(0, 6, (4,))
index = torch.randint(0, 4, (4, 4))

# row of core/ops.def: the ops of PyTorch that it stands for, and a call of it with float tensors
def probabilities(a, b):
    return F.binary_cross_entropy(a.sigmoid(), b.sigmoid())


UNARY = ("expm1 log1p log2 log10 rsqrt reciprocal square sin cos tan asin acos atan sinh cosh "
         "erf floor ceil round trunc frac isnan isinf isfinite logical_not").split()
ROWS = {
    "neg": ("neg", torch.neg, m), "abs": ("abs", torch.abs, m), "sign": ("sign", torch.sign, m),
    "exp": ("exp", torch.exp, m), "log": ("log", torch.log, m), "sqrt": ("sqrt", torch.sqrt, m),
    "tanh": ("tanh", torch.tanh, m), "sigmoid": ("sigmoid", torch.sigmoid, m),
    "relu": ("relu", torch.relu, m), "gelu": ("gelu", F.gelu, m),
    "gelu_tanh": ("gelu", lambda a: F.gelu(a, approximate="tanh"), m),
    "silu": ("silu", F.silu, m),
    **{n: (n, getattr(torch, n), m) for n in UNARY},
    "leaky_relu": ("leaky_relu", F.leaky_relu, m), "elu": ("elu", F.elu, m),
    "softplus": ("softplus", F.softplus, m), "hardswish": ("hardswish", F.hardswish, m),
    "hardtanh": ("hardtanh", F.hardtanh, m), "mish": ("mish", F.mish, m),
    "relu6": ("relu6", F.relu6, m), "clamp": ("clamp", lambda a: a.clamp(-1, 1), m),
    "add": ("add.Tensor", torch.add, m, m), "sub": ("sub.Tensor", torch.sub, m, m),
    "mul": ("mul.Tensor", torch.mul, m, m), "div": ("div.Tensor", torch.div, m, m),
    "pow": ("pow.Tensor_Tensor pow.Tensor_Scalar pow.Scalar", torch.pow, m.abs(), m),
    "maximum": ("maximum", torch.maximum, m, m), "minimum": ("minimum", torch.minimum, m, m),
    "eq": ("eq.Tensor",), "ne": ("ne.Tensor",), "lt": ("lt.Tensor",), "le": ("le.Tensor",),
    "gt": ("gt.Tensor",), "ge": ("ge.Tensor",),
    "where": ("where.self", lambda a, b: torch.where(m > 0, a, b), m, m),
    "sum": ("sum sum.dim_IntList", torch.sum, m), "mean": ("mean mean.dim", torch.mean, m),
    "amax": ("amax", torch.amax, m), "var": ("var.correction", torch.var, m),
    "max": ("max.dim", lambda a: torch.max(a, 0)[0], m), "argmax": ("argmax",),
    "prod": ("prod prod.dim_int", torch.prod, m), "amin": ("amin", torch.amin, m),
    "std": ("std.correction", torch.std, m),
    "norm": ("linalg_vector_norm", torch.linalg.vector_norm, m),
    "min": ("min.dim", lambda a: torch.min(a, 0)[0], m), "argmin": ("argmin",),
    "cumsum": ("cumsum", lambda a: torch.cumsum(a, 0), m),
    "cumprod": ("cumprod", lambda a: torch.cumprod(a, 0), m),
    "logsumexp": ("logsumexp", lambda a: torch.logsumexp(a, 0), m),
    "sort": ("sort sort.stable", lambda a: torch.sort(a)[0], m), "argsort": ("argsort",),
    "topk": ("topk", lambda a: torch.topk(a, 2)[0], m),
    "median": ("median median.dim", lambda a: torch.median(a, 0)[0], m),
    "gemm": ("mm bmm", torch.mm, m, m), "linear": ("linear", F.linear, m, m),
    # made of bmm: not listed on the CPU, where bmm is
    "einsum": ("einsum", lambda a, b: torch.einsum("ij,jk->ik", a, b), m, m),
    "embedding": ("embedding", lambda a: F.embedding(index, a), m),
    "gather": ("gather", lambda a: torch.gather(a, 0, index), m),
    "index_add": ("index_add", lambda a, b: a.index_add(0, index[0], b), m, m),
    "scatter_add": ("scatter_add", lambda a, b: a.scatter_add(0, index, b), m, m),
    "index_put": ("index_put", lambda a, b: a.index_put((index[0],), b), m, m),
    # the modes "constant" and "circular"; the others have ops and classes of their own
    "pad": ("constant_pad_nd _pad_circular", lambda a: F.pad(a, (1, 1)), m),
    "conv2d": ("conv2d", F.conv2d, x, k),
    "max_pool2d": ("max_pool2d", lambda a: F.max_pool2d(a, 2), x),
    "avg_pool2d": ("avg_pool2d", lambda a: F.avg_pool2d(a, 2), x),
    "batch_norm": ("batch_norm", lambda a: F.batch_norm(a, None, None, training=True), x),
    "layer_norm": ("layer_norm", lambda a: F.layer_norm(a, (4,)), m),
    "conv1d": ("conv1d", F.conv1d, x[:, :, 0], k[..., 0]),
    "conv_transpose1d": ("conv_transpose1d", F.conv_transpose1d, x[:, :, 0], k[..., 0]),
    "conv_transpose2d": ("conv_transpose2d.input", F.conv_transpose2d, x, k),
    "adaptive_avg_pool1d": ("adaptive_avg_pool1d", lambda a: F.adaptive_avg_pool1d(a, 3), x[0]),
    "adaptive_avg_pool2d": ("adaptive_avg_pool2d", lambda a: F.adaptive_avg_pool2d(a, 3), x),
    "adaptive_max_pool1d": ("adaptive_max_pool1d", lambda a: F.adaptive_max_pool1d(a, 3), x[0]),
    "adaptive_max_pool2d": ("adaptive_max_pool2d", lambda a: F.adaptive_max_pool2d(a, 3), x),
    "interpolate": ("upsample_nearest2d upsample_bilinear2d",
                    lambda a: F.interpolate(a, (3, 3), mode="bilinear"), x),
    "group_norm": ("group_norm", lambda a: F.group_norm(a, 3), x),
    "instance_norm": ("instance_norm", F.instance_norm, x),
    "rms_norm": ("rms_norm", lambda a: F.rms_norm(a, (4,)), m),
    "softmax": ("softmax.int", lambda a: torch.softmax(a, 1), m),
    "log_softmax": ("log_softmax.int", lambda a: torch.log_softmax(a, 1), m),
    "dropout": ("dropout", lambda a: F.dropout(a, 0.5), m),
    # on CUDA made of log_softmax (f32 by dtype) and nll_loss (f32), which together are f32; square of pow (f32)
    "cross_entropy": ("cross_entropy_loss", lambda a: F.cross_entropy(a, target), flat),
    "binary_cross_entropy": ("binary_cross_entropy", probabilities, m, m),
    "binary_cross_entropy_with_logits": ("binary_cross_entropy_with_logits",
                                         F.binary_cross_entropy_with_logits, m, m),
    "floor_div": ("floor_divide", torch.floor_divide, m, m),
    "remainder": ("remainder.Tensor", torch.remainder, m, m),
    "fmod": ("fmod.Tensor", torch.fmod, m, m), "atan2": ("atan2", torch.atan2, m, m),
    "lerp": ("lerp.Tensor lerp.Scalar", lambda a, b: torch.lerp(a, b, 0.5), m, m),
    "addcmul": ("addcmul", torch.addcmul, m, m, m), "addcdiv": ("addcdiv", torch.addcdiv, m, m, m),
    "masked_fill": ("masked_fill.Scalar masked_fill.Tensor", lambda a: a.masked_fill(m > 0, 1), m),
    "hypot": ("hypot", torch.hypot, m, m), "logical_and": ("logical_and",),
    "logical_or": ("logical_or",), "logical_xor": ("logical_xor",),
    "kl_div": ("kl_div", F.kl_div, m, m), "l1_loss": ("l1_loss", F.l1_loss, m, m),
    "nll_loss": ("nll_loss", lambda a: F.nll_loss(a, target), flat),
    "smooth_l1_loss": ("smooth_l1_loss", F.smooth_l1_loss, m, m),
    "huber_loss": ("huber_loss", F.huber_loss, m, m),
    "cosine_similarity": ("cosine_similarity", F.cosine_similarity, m, m),
    "bmm": ("bmm", torch.bmm, m[None], m[None]), "addmm": ("addmm", torch.addmm, m, m, m),
    "dot": ("dot", torch.dot, m[0], m[0]), "outer": ("outer", torch.outer, m[0], m[0]),
    "scaled_dot_product_attention": ("scaled_dot_product_attention",
                                     F.scaled_dot_product_attention, x, x, x),
    "matmul": ("matmul", torch.matmul, m, m), "mse_loss": ("mse_loss", F.mse_loss, m, m),
    "cat": ("cat", lambda a, b: torch.cat((a, b)), m, m),
    "stack": ("stack", lambda a, b: torch.stack((a, b)), m, m),
}
# Has a kernel for AutocastCUDA that is in none of the lists: it raises.
BANNED = {"binary_cross_entropy"}
COMPOSED_CUDA = {"cross_entropy": ("f32", ("log_softmax.int", "nll_loss")),
                 "square": ("f32", ("pow.Tensor_Scalar",))}


def has(op, key):
    return torch._C._dispatch_has_kernel_for_dispatch_key("aten::" + op, key)


def cuda_lists():
    path = os.path.join(os.path.dirname(torch.__file__), "include/ATen/autocast_mode.h")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    classes = {}
    for name, cast in LISTS.items():
        body = re.search(r"#define AT_FORALL_%s\(_\)((?:.*\\\n)*.*\n)" % name, text).group(1)
        for op, overload in re.findall(r"_\((\w+)(?:, (\w+))?\)", body):
            if overload != "deprecated":
                classes[op + ("." + overload if overload else "")] = cast
    return classes


def cuda_class(row, ops, lists):
    if row in COMPOSED_CUDA:
        cast, parts = COMPOSED_CUDA[row]
        assert all(has(p, "AutocastCUDA") for p in parts)
        return cast
    if set(ops) <= BANNED:
        assert all(op not in lists and has(op, "AutocastCUDA") for op in ops), row
        return "banned"
    casts = {lists.get(op, "none") for op in ops}
    assert len(casts) == 1, (row, casts)
    cast = casts.pop()
    assert all(has(op, "AutocastCUDA") == (cast != "none") for op in ops), row
    return cast


def result(call, tensors, dtypes):
    given = [t.to(d) for t, d in zip(tensors, dtypes)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return call(*given).dtype


def cpu_class(row, ops, call, tensors):
    kernels = [has(op, "AutocastCPU") for op in ops]
    assert len(set(kernels)) == 1, row
    if not kernels[0]:
        return "none"
    low, full = torch.bfloat16, torch.float32
    n = len(tensors)
    of_low, of_full = (result(call, tensors, [d] * n) for d in (low, full))
    if of_low == full:
        return "f32"
    if of_full == low:
        return "low"
    assert n > 1 and result(call, tensors, [low] + [full] * (n - 1)) == full, row
    return "promote"


def main():
    assert torch.__version__.startswith(PINNED), torch.__version__
    lists = cuda_lists()
    lines = [f"# Made by make_autocast.py with PyTorch {PINNED}; do not edit. row cuda cpu"]
    for row, (names, *rest) in ROWS.items():
        ops = names.split()
        cpu = cpu_class(row, ops, rest[0] if rest else None, rest[1:])
        lines.append(f"{row} {cuda_class(row, ops, lists)} {cpu}")
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "autocast.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
