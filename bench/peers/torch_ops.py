"""Single ops in PyTorch: the work of bench/bench_ops.c under the same names.

    torch_ops.py [--threads N] [work ...]

Variants: alloc (a new result each time, as programs do), out (into an existing tensor, where
PyTorch offers that), and for optimizers eager (the default) and fused.
"""

import argparse

import torch
import torch.nn.functional as F

import timing

SIZES = {"4k": 4096, "1m": 1 << 20, "16m": 1 << 24}


def calls():
    """What a call costs: per op, and per node of a backward pass."""
    a, b = torch.ones(1), torch.ones(1)
    c = torch.ones(1, requires_grad=True)

    def plain():
        with torch.no_grad():
            for _ in range(1000):
                torch.add(a, b)

    def recorded():
        for _ in range(1000):
            torch.add(c, b)

    def chain():
        t = c
        for _ in range(1000):
            t = t * b
        return t

    yield "add1", plain
    yield "add1_recorded", recorded
    yield "backward_mul_node", chain


def run_calls(wanted):
    for work, call in calls():
        if not wanted(work):
            continue
        if work == "backward_mul_node":
            samples = []
            for _ in range(41):
                root = call()
                samples.append(timing.timed(lambda _, r=root: r.backward(), 1) / 1000)
            samples.sort()
            timing.report(work, "eager", (samples[20], samples[10], samples[30]))
        else:
            median, low, high = timing.blocks(lambda n, f=call: [f() for _ in range(n)], 0.02)
            timing.report(work, "eager", (median / 1000, low / 1000, high / 1000))


def elementwise(name, n):
    """(variant, call) of an elementwise op on n elements."""
    a, b, out = torch.randn(n), torch.randn(n), torch.empty(n)
    if name == "add":
        return (("alloc", lambda: torch.add(a, b)), ("out", lambda: torch.add(a, b, out=out)))
    if name in ("exp", "tanh"):
        function = getattr(torch, name)
        return (("alloc", lambda: function(a)), ("out", lambda: function(a, out=out)))
    if name == "relu":
        return (("alloc", lambda: torch.relu(a)),
                ("out", lambda: torch.clamp_min(a, 0, out=out)))
    function = {"gelu": F.gelu, "sum": torch.sum}[name]
    return (("alloc", lambda: function(a)),)


def run_elementwise(wanted):
    for suffix, n in SIZES.items():
        for name in ("add", "relu", "exp", "tanh", "gelu", "sum"):
            work = f"{name}_{suffix}"
            if wanted(work):
                for variant, call in elementwise(name, n):
                    timing.bench(work, variant, call)


def run_rows(wanted):
    x, w, b = torch.randn(1024, 1024), torch.randn(1024), torch.randn(1024)
    if wanted("softmax_1024x1024"):
        timing.bench("softmax_1024x1024", "alloc", lambda: torch.softmax(x, -1))
    if wanted("layer_norm_1024x1024"):
        timing.bench("layer_norm_1024x1024", "alloc", lambda: F.layer_norm(x, (1024,), w, b))
    for n, c in ((1024, 1024), (64, 10)):
        work = f"cross_entropy_{n}x{c}"
        if not wanted(work):
            continue
        logits, target = torch.randn(n, c, requires_grad=True), torch.randint(0, c, (n,))

        def both(logits=logits, target=target):
            logits.grad = None
            F.cross_entropy(logits, target).backward()

        timing.bench(work, "alloc", both)


def run_optimizers(wanted):
    kinds = {"sgd_669706": (torch.optim.SGD, {"lr": 1e-9}),
             "adam_669706": (torch.optim.Adam, {"lr": 1e-9})}
    for work, (kind, options) in kinds.items():
        if not wanted(work):
            continue
        for variant, more in (("eager", {}), ("fused", {"fused": True})):
            p = torch.randn(669706, requires_grad=True)
            p.grad = torch.randn(669706)
            opt = kind([p], **options, **more)
            timing.bench(work, variant, opt.step)


def run_products(wanted):
    shapes = {"matmul_64x784x128": (64, 784, 128), "matmul_128x784x512": (128, 784, 512),
              "matmul_64x128x10": (64, 128, 10), "matmul_256": (256, 256, 256),
              "matmul_1024": (1024, 1024, 1024)}
    for work, (m, k, n) in shapes.items():
        if wanted(work):
            a, b, out = torch.randn(m, k), torch.randn(k, n), torch.empty(m, n)
            timing.bench(work, "alloc", lambda a=a, b=b: torch.mm(a, b))
            timing.bench(work, "out", lambda a=a, b=b, out=out: torch.mm(a, b, out=out))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("works", nargs="*")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    def wanted(work):
        return not args.works or work in args.works

    run_calls(wanted)
    with torch.no_grad():
        run_elementwise(wanted)
        run_products(wanted)
    run_rows(wanted)
    run_optimizers(wanted)


if __name__ == "__main__":
    main()
