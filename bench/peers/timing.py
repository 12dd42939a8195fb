"""Timing of the peers, as bench/common/bench.h does it: medians of blocks, one JSON line each."""

import json
import time

import torch

# As in tern: TF32 for those who ask for it, in convolutions, too.
torch.backends.cudnn.allow_tf32 = False


def blocks(body, seconds=0.05, count=11):
    """Seconds per call: (median, lower quartile, upper quartile). body(repeats) runs the work."""
    repeats, spent = 1, timed(body, 1)
    while spent < seconds / 2:
        repeats = int(repeats * seconds / spent) + 1 if spent > 1e-7 else repeats * 16
        spent = timed(body, repeats)
    samples = sorted(timed(body, repeats) / repeats for _ in range(count))
    return samples[count // 2], samples[count // 4], samples[count - 1 - count // 4]


def timed(body, repeats):
    start = time.perf_counter()
    body(repeats)
    return time.perf_counter() - start


def report(work, variant, result):
    median, low, high = (round(1e6 * t, 4) for t in result)
    line = {"work": work, "threads": torch.get_num_threads(), "variant": variant,
            "us": median, "low": low, "high": high}
    print(json.dumps(line), flush=True)


def bench(work, variant, call, seconds=0.02, count=11):
    """Times a function of no arguments."""
    def body(repeats):
        for _ in range(repeats):
            call()

    call()
    report(work, variant, blocks(body, seconds, count))
