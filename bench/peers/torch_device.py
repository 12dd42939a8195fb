"""Large ops and training steps in PyTorch on a device: the work of bench/bench_device.c.

    torch_device.py [--device cuda] [--elements N] [--variants fused,compile] [work ...]

Models run in each variant: eager with the fused optimizer, and through torch.compile. What fails is a line
with its error.
"""

import argparse
import json

import torch
import torch.nn.functional as F

import timing
import torch_steps

ROW = 1024


def emit(work, variant, result, traffic=0, flops=0):
    median, low, high = result
    print(json.dumps({"work": work, "variant": variant, "us": round(1e6 * median, 4),
                      "low": round(1e6 * low, 4), "high": round(1e6 * high, 4),
                      "gb_per_s": round(1e-9 * traffic / median, 3),
                      "tflop_per_s": round(1e-12 * flops / median, 3)}), flush=True)


def body_of(call, device):
    def body(repeats):
        for _ in range(repeats):
            call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    body(1)
    return body


def ops(device, elements):
    rows = elements // ROW
    a, b = (torch.randn(rows, ROW, device=device) for _ in range(2))
    weight = torch.ones(ROW, device=device)
    classes = torch.zeros(rows, dtype=torch.int64, device=device)
    return {"copy": (lambda: a.clone(), 2), "add": (lambda: a + b, 3), "relu": (lambda: a.relu(), 2),
            "gelu": (lambda: F.gelu(a), 2), "sum": (lambda: a.sum(), 1), "sum_rows": (lambda: a.sum(1), 1),
            "softmax": (lambda: a.softmax(-1), 2),
            "layer_norm": (lambda: F.layer_norm(a, (ROW,), weight, weight), 2),
            "cross_entropy": (lambda: F.cross_entropy(a, classes), 1)}


def products(device, elements):
    for name, side, dtype in (("f32", 4096, torch.float32), ("f16", 8192, torch.float16),
                              ("bf16", 8192, torch.bfloat16)):
        side = ROW if side * side > elements else side
        a, b = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
        yield "matmul_" + name, (lambda a=a, b=b: a @ b), 2.0 * side ** 3


def measure(name, variant, make, device, seconds=0.02, **sizes):
    """make: gives the call, which may take long to make, and may fail."""
    try:
        emit(name, variant, timing.blocks(body_of(make(), device), seconds), **sizes)
    except Exception as error:  # of whatever work it is; the others go on
        print(json.dumps({"work": name, "variant": variant, "error": str(error)[:300]}), flush=True)


def models(device, variants, wanted):
    torch.set_default_device(device)
    for name in ["mlp1", "mlp2", "lenet", "cnn", "wide", "tiny", "resnet20", "gpt"]:
        for variant in variants:
            if wanted(name):
                measure(name, "torch " + variant, lambda: torch_steps.make_step(name, variant),
                        device, 0.05)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--elements", type=int, default=1 << 26)
    parser.add_argument("--variants", default="fused,compile", help="of the models")
    parser.add_argument("work", nargs="*")
    options = parser.parse_args()
    device = torch.device(options.device)

    def wanted(name):
        return not options.work or name in options.work

    for name, (call, passes) in ops(device, options.elements).items():
        if wanted(name):
            measure(name, "torch", lambda: call, device, traffic=4.0 * passes * options.elements)
    for name, call, flops in products(device, options.elements):
        if wanted(name):
            measure(name, "torch", lambda: call, device, flops=flops)
    models(device, options.variants.split(","), wanted)


main()
