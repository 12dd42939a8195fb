#!/usr/bin/env python3
"""Runs random graphs of ops in PyTorch and compares values and gradients with tern's.

    TERN_TEST_GRAPHS=500 TERN_TEST_EXPORT=graphs.txt build/release/tests/ops/test_random_graphs
    build/peers/venv/bin/python bench/peers/graphs.py graphs.txt

The format is that of tests/ops/random_graph.c, the steps are those of random_steps.c. Everything is computed in f64."""

import math
import sys

import torch
import torch.nn.functional as F

ALLOWED = 1e-9


def meeting(function):
    """Losses that take operands of one shape, in tern's broadcast."""
    return lambda a, b: function(*torch.broadcast_tensors(a, b), reduction="none")


def entropy(p, target):
    """PyTorch's formula, whose function refuses targets outside of [0, 1]."""
    logs = (v.log().clamp(min=-100) for v in (p, 1 - p))
    return -(target * next(logs) + (1 - target) * next(logs))


NAMES = {
    "gelu_tanh": lambda a, b: F.gelu(a, approximate="tanh"),
    "kl_div": meeting(F.kl_div), "binary_cross_entropy": entropy,
    "binary_cross_entropy_with_logits": meeting(F.binary_cross_entropy_with_logits),
}
REDUCTIONS = {"sum", "mean", "amax", "amin", "var", "std", "prod"}
ALONG = {"softmax", "log_softmax", "cumsum", "cumprod"}


def write(a, b, n):
    y = a.clone()
    y.narrow(n[0], n[1], n[2] - n[1]).mul_(b)
    return y


def elements(t, shape):
    """As in tests/ops/random_steps.c: row-major, from the start again where they do not suffice."""
    places = torch.arange(math.prod(shape)) % t.numel()
    return t.reshape(-1)[places].reshape(shape)


def image(t, ndim=4):
    return t.reshape((1,) * (ndim - t.dim()) + t.shape) if t.dim() < ndim else t


def convolve(function, ndim):
    def run(a, b, c, n):
        x = image(a, ndim)
        inputs, groups = x.shape[1], 2 if n[5] and x.shape[1] % 2 == 0 else 1
        out, kernel = n[0] * groups, (n[1],) * (ndim - 2)
        options = dict(bias=elements(c, (out,)), stride=n[2], padding=n[3], groups=groups)
        if function is F.conv_transpose2d:
            return function(x, elements(b, (inputs, n[0], *kernel)), output_padding=n[4], **options)
        return function(x, elements(b, (out, inputs // groups, *kernel)), dilation=n[4], **options)
    return run


def along(a, dim, count):
    """a's shape, but `count` along dim."""
    return (*a.shape[:dim], count, *a.shape[dim + 1:])


def places(shape, size, n):
    return ((n[2] + n[3] * torch.arange(math.prod(shape))) % size).reshape(shape)


def scatter(a, b, c, n):
    shape = along(a, n[0], n[1])
    line = [n[1] if d == n[0] else 1 for d in range(a.dim())]
    index = places((n[1],), a.shape[n[0]], (0, 0, n[2], 1)).reshape(line).expand(shape)
    return a.scatter(n[0], index, elements(b, shape))


def mask(a, n):
    return ((n[2] + torch.arange(a.numel())) % n[3] == 0).reshape(a.shape)


SHAPES = {
    "sort": lambda a, b, c, n: a.sort(dim=n[0], descending=bool(n[1]), stable=True)[0],
    "conv2d": convolve(F.conv2d, 4),
    "conv1d": convolve(F.conv1d, 3),
    "conv_transpose2d": convolve(F.conv_transpose2d, 4),
    "max_pool2d": lambda a, b, c, n: F.max_pool2d(image(a), n[0], n[1], n[2], n[3], bool(n[4])),
    "avg_pool2d": lambda a, b, c, n: F.avg_pool2d(image(a), n[0], n[1], n[2], bool(n[4]), not n[3]),
    "adaptive_max_pool2d": lambda a, b, c, n: F.adaptive_max_pool2d(image(a), (n[0], n[1])),
    "adaptive_avg_pool2d": lambda a, b, c, n: F.adaptive_avg_pool2d(image(a), (n[0], n[1])),
    "bilinear": lambda a, b, c, n: F.interpolate(image(a), (n[0], n[1]), mode="bilinear",
                                                 align_corners=bool(n[2])),
    "nearest": lambda a, b, c, n: F.interpolate(image(a), (n[0], n[1])),
    "index_select": lambda a, b, c, n: a.index_select(n[0], places((n[1],), a.shape[n[0]], n)),
    "gather": lambda a, b, c, n: a.gather(n[0], places(along(a, n[0], n[1]), a.shape[n[0]], n)),
    "scatter": scatter,
    "scatter_add": lambda a, b, c, n: a.scatter_add(
        n[0], places(along(a, n[0], n[1]), a.shape[n[0]], n), elements(b, along(a, n[0], n[1]))),
    "embedding": lambda a, b, c, n: a[places((n[1],), a.shape[0], n)],
    "index_put": lambda a, b, c, n: a.index_put((places((n[1],), a.shape[0], n),), b.mean(),
                                                accumulate=True),
    "masked_fill": lambda a, b, c, n: a.masked_fill(mask(a, n), n[1]),
    "masked_select": lambda a, b, c, n: a.masked_select(mask(a, n)),
    "transpose": lambda a, b, c, n: a.transpose(n[0], n[1]),
    "slice": lambda a, b, c, n: a[(slice(None),) * n[0] + (slice(n[1], n[2], n[3]),)],
    "flatten": lambda a, b, c, n: a.reshape(-1),
    "unsqueeze": lambda a, b, c, n: a.unsqueeze(n[0]),
    "matmul": lambda a, b, c, n: torch.matmul(a, b),
    "einsum": lambda a, b, c, n: torch.einsum("...i,...i->...", a, b),
    "cat": lambda a, b, c, n: torch.cat((a, b), n[0]),
    "where": lambda a, b, c, n: torch.where(a > b, c, a),
    "write": lambda a, b, c, n: write(a, b, n),
    "layer_norm": lambda a, b, c, n: F.layer_norm(a, a.shape[-1:]),
    "tril": lambda a, b, c, n: a.tril(n[0]),
    "triu": lambda a, b, c, n: a.triu(n[0]),
}
TWO = {"add", "sub", "mul", "div", "pow", "maximum", "minimum", "remainder", "fmod", "atan2",
       "hypot"}


def call(name, a, b, c, n):
    if name in SHAPES:
        return SHAPES[name](a, b, c, n)
    if name in NAMES:
        return NAMES[name](a, b)
    if name in REDUCTIONS:
        return getattr(torch, name)(a, dim=n[0], keepdim=bool(n[1]))
    if name in ALONG:
        return getattr(torch, name)(a, dim=n[0])
    function = getattr(torch, name, None) or getattr(F, name)
    return function(a, b) if name in TWO else function(a)


def numbers(words):
    ndim = int(words[1])
    shape = [int(w) for w in words[2:2 + ndim]]
    return int(words[0]), torch.tensor([float(w) for w in words[2 + ndim:]],
                                       dtype=torch.float64).reshape(shape)


class Graph:
    def __init__(self, seed):
        self.seed, self.tensors, self.names, self.grads = seed, {}, {}, None
        self.worst = 0.0

    def leaf(self, words):
        i, value = numbers(words)
        self.tensors[i] = value.requires_grad_()

    def step(self, words):
        place, name = int(words[0]), words[1]
        a, b, c = (self.tensors[int(w)] for w in words[2:5])
        self.names[place] = name
        self.tensors[place] = call(name, a, b, c, [int(w) for w in words[5:]])

    def compare(self, what, got, wanted):
        if got.shape != wanted.shape:
            return f"{what}: {tuple(got.shape)} in PyTorch, {tuple(wanted.shape)} in tern"
        both = torch.isnan(got) & torch.isnan(wanted)
        off = ((got - wanted).abs() / wanted.abs().clamp(min=1)).masked_fill(both, 0)
        worst = off.max().item() if off.numel() else 0.0
        self.worst = max(self.worst, worst)
        return None if worst <= ALLOWED else f"{what}: off by {worst:.3g}"

    def value(self, words):
        i, wanted = numbers(words)
        return self.compare(f"{self.names[i]} (tensor {i})", self.tensors[i].detach(), wanted)

    def gradient(self, words):
        if self.grads is None:
            total = sum(t.mean() for t in self.tensors.values())
            leaves = [t for i, t in self.tensors.items() if i not in self.names]
            self.grads = torch.autograd.grad(total, leaves)
        i, wanted = numbers(words)
        return self.compare(f"gradient of leaf {i}", self.grads[i], wanted)


def main():
    graph, graphs, faults, used, worst = None, 0, 0, set(), 0.0
    with open(sys.argv[1], encoding="utf-8") as file:
        for line in file:
            kind, *words = line.split()
            if kind == "graph":
                graph, graphs = Graph(words[0]), graphs + 1
                continue
            fault = getattr(graph, kind)(words)
            worst = max(worst, graph.worst)
            used |= set(graph.names.values())
            if fault:
                faults += 1
                print(f"seed {graph.seed}: {fault}")
    print(f"{graphs} graphs of {len(used)} ops, PyTorch {torch.__version__}: {faults} faults, "
          f"largest difference {worst:.2g}")
    print(" ".join(sorted(used)))
    return faults > 0


if __name__ == "__main__":
    sys.exit(main())
