"""The ops of bench/table.def in PyTorch: the work of bench/bench_table.c under the same names.

    torch_table.py [--threads N] [--device D] [--quick] [work ...]

Variant eager: a new result each time, as programs do; with a gradient, forward and backward. What fails is a
line with its error.
"""

import argparse
import json
import math
import os
import re

import torch
import torch.nn.functional as F  # noqa: F401, the rows use it

import timing

HERE = os.path.dirname(os.path.abspath(__file__))
BLOCKS = {"seconds": 0.02, "count": 7}
SIZES = {"small": 1 << 10, "cache": 1 << 16, "memory": 1 << 24}
ROW = re.compile(r'^(ROW|GRAD)\((\w+), (\w+), .*, "(.*)"\)$', flags=re.M)


def rows():
    """(name, inputs, has a gradient, expression) of each line."""
    with open(os.path.join(HERE, "../table.def"), encoding="utf-8") as file:
        return [(name, kind, macro == "GRAD", call) for macro, name, kind, call in
                ROW.findall(file.read())]


def measure(work, call, *values):
    """Blocks of calls; what was queued on a device is part of the time."""
    on_device = torch.get_default_device().type == "cuda"

    def body(repeats):
        for _ in range(repeats):
            call(*values)
        if on_device:
            torch.cuda.synchronize()

    body(1)
    timing.report(work, "eager", timing.blocks(body, **BLOCKS))


def fraction(*shape):
    return torch.rand(shape) * 0.8 + 0.1


def make(kind, n):
    """What table.def says of the input sets."""
    s = min(math.isqrt(n), 2048)
    shape = {"FLAT": (n,), "ROWS": (n // 256, 256), "IMAGE": (max(n // 8192, 1), 32, 16, 16),
             "SQUARE": (s, s), "HEADS": (max(n // 32768, 1), 8, 64, 64)}[kind]
    width = {"SQUARE": s, "IMAGE": 32}.get(kind, 256)
    names = {c: fraction(*shape) for c in "xyz"} | {c: fraction(width) for c in "uvw"}
    names["shape"] = shape
    if kind == "IMAGE":
        names["w"] = fraction(32, 32, 3, 3)
    if kind in ("FLAT", "ROWS"):
        names["b"] = names["x"] > 0.5
        names |= {c: torch.randint(1, 101, shape) for c in "kq"}
    if kind == "ROWS":
        names["i"] = torch.randint(0, 256, shape)
        names["t"] = torch.randint(0, min(n // 256, 256), (n // 256,))
    return names


def run_row(name, kind, grad, expression, size, wanted):
    work = f"{name}/{size}"
    forward, both = wanted(work), grad and wanted(work + "/grad")
    if not forward and not both:
        return
    names = make(kind, SIZES[size])
    call = eval("lambda " + ", ".join(names) + ": " + expression)  # the table is our own text
    values = list(names.values())
    if forward:
        with torch.no_grad():
            measure(work, call, *values)
    if both:
        x = names["x"].requires_grad_()
        gradient = torch.ones_like(call(*values))

        def step():
            x.grad = None
            call(*values).backward(gradient)

        measure(work + "/grad", step)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--quick", action="store_true", help="shorter blocks")
    parser.add_argument("works", nargs="*")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_default_device(args.device)
    if args.quick:
        BLOCKS.update(seconds=0.004, count=5)

    def wanted(work):
        part = work[work.index("/"):]
        return not args.works or any((part if w[0] == "/" else work) == w or
                                     (part if w[0] == "/" else work).startswith(w + "/")
                                     for w in args.works)

    for size in SIZES:
        for row in rows():
            try:
                run_row(*row, size, wanted)
            except Exception as error:  # of whatever op it is; the others go on
                line = {"work": f"{row[0]}/{size}", "variant": "eager", "error": str(error)[:300]}
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
