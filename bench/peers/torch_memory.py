"""The memory of a steady training step of PyTorch at its peak: the work of bench/bench_memory.c.

    torch_memory.py [--threads N] [--device cuda] [--variants eager,fused,...] [work ...]

On the CPU the running sum of what the profiler says is allocated and freed, from the making of the
model on, at its highest within one step that follows three others; on a device the allocator's own
peak. Both count what tern's counters count (weights, optimizer state, batch, gradients, what is
saved, work memory) but for the buffers that MKL packs operands of products into: `mkl` is how
much MKL itself says these are. Variants are those of torch_steps.py.
"""

import argparse
import ctypes
import gc
import json
import os

import torch
from torch.profiler import ProfilerActivity, profile, record_function

import torch_steps

STEP = "steady step"


def peak_of_events(events):
    """The largest running sum between the marks of the step."""
    begin, end = next((e.start_ns(), e.end_ns()) for e in events if e.name() == STEP)
    total = peak = 0
    for event in sorted((e for e in events if e.name() == "[memory]"), key=lambda e: e.start_ns()):
        if event.start_ns() > end:
            break
        if event.start_ns() >= begin:
            peak = max(peak, total)
        total += event.nbytes()
        if event.start_ns() >= begin:
            peak = max(peak, total)
    return peak


class Mkl:
    """What MKL's own memory manager holds, where PyTorch was built with MKL."""

    def __init__(self):
        try:
            library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib",
                                               "libtorch_cpu.so"))
            self.peak, self.free = library.mkl_serv_peak_mem_usage, library.mkl_serv_free_buffers
            self.peak.restype = ctypes.c_longlong
            self.peak(1)
        except (OSError, AttributeError):
            self.peak = None

    def begin(self):
        if self.peak:
            self.free()
            self.peak(-1)

    def most(self):
        return self.peak(2) if self.peak else 0


def on_cpu(work, variant):
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step = torch_steps.make_step(work, variant)
        for _ in range(3):
            step()
        with record_function(STEP):
            step()
    return peak_of_events(profiler.profiler.kineto_results.events())


def on_device(work, variant, device):
    torch.set_default_device(device)
    step = torch_steps.make_step(work, variant)
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


def emit(work, threads, variant, size):
    print(json.dumps({"work": work, "threads": threads, "variant": variant,
                      "kib": size / 1024}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--variants", default="eager,fused,eager_cl,fused_cl")
    parser.add_argument("works", nargs="*")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    mkl = Mkl()
    for work in args.works or ("mlp2", "cnn", "resnet20", "gpt", "regression"):
        mkl.begin()
        for variant in args.variants.split(","):
            if variant.endswith("_cl") and work not in ("cnn", "resnet20"):
                continue
            size = (on_cpu(work, variant) if args.device == "cpu"
                    else on_device(work, variant, args.device))
            gc.collect()
            emit(work, args.threads, variant, size)
        emit(work, args.threads, "mkl", mkl.most())


if __name__ == "__main__":
    main()
