#!/usr/bin/env python3
"""Writes dtypes.txt: the dtypes that PyTorch's ops take on the CPU and on CUDA, forward and backward, for
each row of core/ops.def, from PyTorch's own op metadata (torch.testing._internal: op_db). Needs no GPU.
The metadata knows the first operand alone: dtypes_index.txt has those of numbers, class numbers and masks,
which are tried on the CPU.

    python3 -m venv venv && venv/bin/pip install torch==2.15.0 expecttest
    venv/bin/python tests/golden/make_dtypes.py

Complex, quantised, float8 and unsigned dtypes wider than u8 are left out: tern has none of them.
Where the metadata asks the hardware, the answer of a device of compute capability 8.0 or more counts.
"""

import os
import re
import warnings

import torch
import torch.testing._internal.common_cuda as common_cuda

# Asked for when op_db is imported.
for name in dir(common_cuda):
    if re.fullmatch(r"SM\d+OrLater", name):
        setattr(common_cuda, name, int(re.search(r"\d+", name).group()) <= 80)

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

PINNED = "2.15.0"
NAMES = {torch.bool: "bool", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16",
         torch.int32: "i32", torch.int64: "i64", torch.float16: "f16", torch.bfloat16: "bf16",
         torch.float32: "f32", torch.float64: "f64"}

# row of core/ops.def: the entry of op_db, where it is not the row's own name
F = "nn.functional."
ENTRIES = {
    "fill": "fill", "rand": "rand_like", "randn": "randn", "copy": "to", "relu": F + "relu",
    "gelu": F + "gelu", "gelu_tanh": F + "gelu", "silu": F + "silu",
    **{n: F + n for n in ("leaky_relu", "elu", "softplus", "hardswish", "hardtanh", "mish",
                            "relu6")},
    "div": "div no_rounding_mode", "max": "max reduction_with_dim", "gemm": "mm",
    "linear": F + "linear", "embedding": F + "embedding", "conv2d": F + "conv2d",
    "max_pool2d": F + "max_pool2d", "avg_pool2d": F + "avg_pool2d",
    "max_pool2d_grad": "max_pool2d_with_indices_backward", "batch_norm": F + "batch_norm",
    "layer_norm": F + "layer_norm", "softmax_grad": "_softmax_backward_data",
    "dropout": F + "dropout", "dropout_grad": "native_dropout_backward",
    "scaled_dot_product_attention": F + "scaled_dot_product_attention",
    "pad": F + "pad constant", "index": "__getitem__", "one_hot": F + "one_hot",
    "logsigmoid": F + "logsigmoid", "pixel_shuffle": F + "pixel_shuffle",
    "pixel_unshuffle": F + "pixel_unshuffle",
    "cross_entropy": F + "cross_entropy", "mse_loss": F + "mse_loss",
    "min": "min reduction_with_dim", "norm": "linalg.vector_norm",
    "binary_cross_entropy": F + "binary_cross_entropy",
    "binary_cross_entropy_with_logits": F + "binary_cross_entropy_with_logits",
    "floor_div": "floor_divide", "kl_div": F + "kl_div", "huber": F + "huber_loss", "nll_loss": F + "nll_loss", "l1_loss": F + "l1_loss",
    "conv1d": F + "conv1d", "conv_transpose1d": F + "conv_transpose1d",
    "conv_transpose2d": F + "conv_transpose2d", "group_norm": F + "group_norm",
    "instance_norm": F + "instance_norm", "rms_norm": F + "rms_norm",
    "adaptive_avg_pool1d": F + "adaptive_avg_pool1d",
    "adaptive_avg_pool2d": F + "adaptive_avg_pool2d",
    "adaptive_max_pool1d": F + "adaptive_max_pool1d",
    "adaptive_max_pool2d": F + "adaptive_max_pool2d",
    "interpolate": F + "interpolate bilinear", "resample2d": F + "interpolate bilinear",
    "kl_div": F + "kl_div", "nll_loss": F + "nll_loss", "l1_loss": F + "l1_loss",
    "smooth_l1_loss": F + "smooth_l1_loss", "huber_loss": F + "huber_loss",
    "cosine_similarity": F + "cosine_similarity",
}
# These are in no entry of their own: what the op's backward takes.
BACKWARD_OF = {"rms_norm_grad": "rms_norm", "embedding_grad": "embedding", "gather_grad": "gather",
               "conv2d_grad_input": "conv2d", "conv2d_grad_weight": "conv2d"}
# randperm, optimizers' steps and the scaler are in no entry of op_db.
NO_ENTRY = {"index_offset", "nonzero_starts", "randperm", "sgd_step", "adam_step", "sgd_step_scaled", "adam_step_scaled", "rmsprop_step",
            "rmsprop_step_scaled", "adagrad_step", "adagrad_step_scaled", "lion_step",
            "lion_step_scaled", "unscale", "scale_update", "linear_scan", "lstm_cell",
            "lstm_cell_grad", "gru_cell", "gru_cell_grad"}


def rows():
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "../../core/ops.def"), encoding="utf-8") as file:
        return re.findall(r"^(?:OP|VIEW|COMPOSED)\((\w+),", file.read(), flags=re.M)


def names(dtypes):
    return " ".join(n for d, n in NAMES.items() if d in dtypes) or "-"


def gradients(entry, dtypes):
    """Only floats have any; the metadata repeats the forward dtypes where nobody said so."""
    return {d for d in dtypes or () if d.is_floating_point} if entry.supports_autograd else ()


def columns(entry, backward):
    """Forward and gradient on the CPU, then on CUDA; `backward`: of a row that is the entry's gradient."""
    on_cpu = gradients(entry, entry.backward_dtypes)
    on_cuda = gradients(entry, entry.backward_dtypesIfCUDA)
    if backward:
        return f"{names(on_cpu)} : - : {names(on_cuda)} : -"
    return " : ".join(names(d) for d in (entry.dtypes, on_cpu, entry.dtypesIfCUDA, on_cuda))


def takes(function, dtype):
    """Numbers, masks where the dtype is taken as one: 0 and 1."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what is deprecated (masks of u8) is not asked for
        try:
            function(torch.tensor([[0, 1], [1, 0]]).to(dtype))
        except (RuntimeError, IndexError, TypeError, UserWarning):
            return False
    return True


def index_lines():
    x = torch.ones(2, 2)
    calls = {
        "embedding": lambda i: torch.nn.functional.embedding(i, x),
        "gather": lambda i: torch.gather(x, 1, i),
        "scatter": lambda i: torch.scatter(x, 1, i, x),
        "scatter_add": lambda i: torch.scatter_add(x, 1, i, x),
        "index_select": lambda i: torch.index_select(x, 1, i[0]),
        "index": lambda i: x[i],
        "index_put": lambda i: x.index_put((i,), torch.tensor(1.0)),
        "one_hot": lambda i: torch.nn.functional.one_hot(i, 2),
        "index_add": lambda i: x.index_add(1, i[0], x),
        "repeat_interleave": lambda i: x.repeat_interleave(i[0], 0),
        "where": lambda i: torch.where(i, x, x),
        "masked_fill": lambda i: x.masked_fill(i, 0),
        "masked_select": lambda i: x.masked_select(i),
        "cross_entropy": lambda i: torch.nn.functional.cross_entropy(x, i[0]),
        "nll_loss": lambda i: torch.nn.functional.nll_loss(x, i[0]),
    }
    for row, function in calls.items():
        yield f"{row}: {names([d for d in NAMES if takes(function, d)])}"


def main():
    assert torch.__version__.startswith(PINNED), torch.__version__
    entries = {f"{o.name} {o.variant_test_name}".strip(): o for o in op_db}
    lines = [f"# Made by make_dtypes.py with PyTorch {PINNED}; do not edit.",
             "# row: dtypes on the CPU : dtypes of its gradient there : both on CUDA : entry of op_db"]
    for row in rows():
        if row in NO_ENTRY:
            lines.append(f"{row}: - : - : - : - : none")
            continue
        forward = BACKWARD_OF.get(row)
        if forward is None and row.endswith("_grad") and row not in ENTRIES:
            forward = row[:-len("_grad")]
        if forward is not None:
            name = ENTRIES.get(forward, forward)
            lines.append(f"{row}: {columns(entries[name], True)} : {name}, backward")
            continue
        name = ENTRIES.get(row, row)
        lines.append(f"{row}: {columns(entries[name], False)} : {name}")
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "dtypes.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    with open(os.path.join(here, "dtypes_index.txt"), "w", encoding="utf-8") as file:
        file.write(f"# Made by make_dtypes.py with PyTorch {PINNED}; do not edit.\n"
                   "# row: dtypes of its numbers or of its mask on the CPU\n")
        file.write("\n".join(index_lines()) + "\n")


if __name__ == "__main__":
    main()
