"""Runs tern's benchmarks and PyTorch's on the same work, interleaved, and prints Markdown tables.

    compare.py [--rounds N] [--threads 1,2] [--programs steps,ops] [--bench DIR] [--json FILE]
               [work ...]
    compare.py --programs mnist --data DIR [--seeds N] [--epochs N] [--steps N] [--threads 1,2]
               [--json FILE] [cnn] [mlp]

A round runs every program once, tern's and PyTorch's one after the other. The ratio of a round is
PyTorch's fastest variant over tern, both of that round, so a machine whose speed drifts does not
favour either; the table has the median of the rounds and their range. Above 1, tern is faster.
Of the limit: what the machine's memory and arithmetic would take over what tern takes, for
programs that print a variant `limit`. Of the program `memory`, whose numbers are KiB, the same: above
1, tern takes less; the last ratio counts the buffers of MKL, too, which PyTorch's profiler does not see.
The program `mnist` trains the examples' models to the end on both sides (mnist.py), a round for each seed.
"""

import argparse
import collections
import json
import os
import platform
import statistics
import subprocess
import sys

import mnist

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def lines_of(command, threads):
    """The JSON lines that a program prints; its errors go to stderr."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads),
                       TORCHINDUCTOR_CACHE_DIR=os.path.join(ROOT, "build", "peers", "inductor"))
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        print(f"compare: {' '.join(command)} ended with {done.returncode}", file=sys.stderr)
    found = []
    for line in done.stdout.splitlines():
        try:
            measured = json.loads(line)
            quantity(measured)
            found.append(measured)
        except (ValueError, KeyError, TypeError):
            print(f"compare: not a measurement: {line}", file=sys.stderr)
    return found


def quantity(line):
    """What the ratios are of: microseconds, or KiB."""
    return line["us"] if "us" in line else line["kib"]


def run_round(args, threads, times):
    """One of each program; appends to times[program, work, threads][variant]."""
    for program in args.programs.split(","):
        tern = [os.path.join(args.bench, "bench_" + program), "--json"]
        peer = [sys.executable, os.path.join(HERE, f"torch_{program}.py")]
        count = ["--threads", str(threads)]
        round_times = collections.defaultdict(dict)
        for line in lines_of(tern + count + args.works, threads):
            round_times[line["work"]][line["variant"]] = quantity(line)
        for line in lines_of(peer + count + args.works, threads):
            round_times[line["work"]]["torch " + line["variant"]] = quantity(line)
        for work, variants in round_times.items():
            times[program, work, threads].append(variants)


def fastest(variants):
    """(name, us) of PyTorch's fastest variant, or (name, KiB) of its smallest; None without one."""
    torch = {k: v for k, v in variants.items() if k.startswith("torch ") and k != "torch mkl"}
    return min(torch.items(), key=lambda item: item[1]) if torch else None


def number(value):
    return f"{value:.4g}"


def row(program, work, threads, rounds):
    both = [r for r in rounds if "tern" in r and fastest(r)]
    if not both:
        return None
    ratios = [fastest(r)[1] / r["tern"] for r in both]
    names = collections.Counter(fastest(r)[0].removeprefix("torch ") for r in both)
    others = sorted({k for r in both for k in r if k not in ("tern", "limit")})
    limits = [r["limit"] / r["tern"] for r in both if "limit" in r]
    limits += [(fastest(r)[1] + r["torch mkl"]) / r["tern"] for r in both if "torch mkl" in r]
    detail = ", ".join(f"{k.removeprefix('torch ')} "
                       f"{number(statistics.median(r[k] for r in both if k in r))}"
                       for k in others)
    return {"work": work, "threads": threads, "unit": "KiB" if program == "memory" else "us",
            "tern": statistics.median(r["tern"] for r in both),
            "torch": statistics.median(fastest(r)[1] for r in both),
            "fastest": names.most_common(1)[0][0], "ratio": statistics.median(ratios),
            "low": min(ratios), "high": max(ratios), "rounds": len(both), "variants": detail,
            "of_limit": statistics.median(limits) if limits else None}


def table(rows, unit):
    best, last = ("fastest", "of the limit") if unit == "us" else ("smallest", "with MKL's buffers")
    yield (f"| work | threads | tern {unit} | PyTorch {unit} ({best} variant) | ratio | range "
           f"| {last} | all variants |")
    yield "|---|---|---|---|---|---|---|---|"
    for r in (r for r in rows if r["unit"] == unit):
        yield (f"| {r['work']} | {r['threads']} | {number(r['tern'])} | "
               f"{number(r['torch'])} ({r['fastest']}) | **{r['ratio']:.2f}** | "
               f"{r['low']:.2f} to {r['high']:.2f} | "
               f"{'' if r['of_limit'] is None else format(r['of_limit'], '.2f')} | "
               f"{r['variants']} |")


def machine():
    """The CPU, PyTorch, and what in the environment changes the speed of either side."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            model = next(line.split(":")[1].strip() for line in file if "model name" in line)
    except (OSError, StopIteration):
        pass
    prefixes = ("OPENBLAS_", "MKL_", "DNNL_", "ONEDNN_", "OMP_", "KMP_", "GOMP_", "TERN_CPU")
    settings = sorted(f"{k}={v}" for k, v in os.environ.items() if k.startswith(prefixes))
    version = subprocess.run([sys.executable, "-c", "import torch; print(torch.__version__)"],
                             stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    return ", ".join([model, f"{os.cpu_count()} CPUs", f"PyTorch {version}", *settings])


def measure(args):
    times = collections.defaultdict(list)
    for index in range(args.rounds):
        for threads in (int(t) for t in args.threads.split(",")):
            print(f"compare: round {index + 1} of {args.rounds}, {threads} threads",
                  file=sys.stderr)
            run_round(args, threads, times)
    rows = [row(*key, rounds) for key, rounds in times.items()]
    return sorted((r for r in rows if r), key=lambda r: r["threads"])


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--programs", default="steps,ops")
    parser.add_argument("--bench", default=os.path.join(ROOT, "build", "release", "bench"))
    parser.add_argument("--json", help="also write the rows there")
    parser.add_argument("--data", help="of mnist: the folder with MNIST's four files")
    parser.add_argument("--seeds", type=int, default=3, help="of mnist: from 1 to N")
    parser.add_argument("--epochs", type=int, help="of mnist: default 3 for cnn, 5 for mlp")
    parser.add_argument("--steps", type=int, help="of mnist: end each run after N steps")
    parser.add_argument("works", nargs="*")
    args = parser.parse_args()
    if "mnist" in args.programs.split(",") and args.programs != "mnist":
        parser.error("mnist is measured alone: --programs mnist")
    if args.programs == "mnist" and not args.data:
        parser.error("--programs mnist wants --data DIR, the folder with MNIST's four files")
    return args


def main():
    args = arguments()
    if args.programs == "mnist":
        rows = mnist.measure(args)
        print(machine() + "\n")
        print("\n".join(mnist.table(rows)))
    else:
        rows = measure(args)
        print(machine() + f", {args.rounds} rounds\n")
        for unit in sorted({r["unit"] for r in rows}, reverse=True):
            print("\n".join(table(rows, unit)))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"machine": machine(), "rows": rows}, file, indent=1)
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
