#!/usr/bin/env python3
"""How much of backend_cuda/ the tests have run on simulated devices: lines of each .c file, and kernels of
the .cu files, of which each must have been launched. Reads gcov's counters of libtern_sim.so in a build
folder (preset coverage); fails below 95 % of all lines, or for a kernel that nothing has run.

usage: cuda_coverage.py [--lines] [build/coverage]      --lines: names the lines that were not run
"""

import collections
import glob
import json
import os
import re
import subprocess
import sys

LEAST = 95.0


def gcov_reports(build):
    """What gcov says of each object of the plugin; gcov of the compiler that made them."""
    folder = os.path.join(build, "CMakeFiles/tern_sim.dir/backend_cuda")
    counters = sorted(glob.glob(os.path.join(folder, "*.gcno")))
    if not counters:
        sys.exit(f"cuda_coverage: no counters in {folder}: build the preset coverage first")
    for path in counters:
        out = subprocess.run(["gcov", "--json-format", "--stdout", os.path.basename(path)],
                             cwd=folder, capture_output=True, text=True, check=True).stdout
        for line in out.splitlines():
            if line.strip():
                yield json.loads(line)


def collect(build):
    """({.c file: {line: count}}, {kernel: {instance: count}})"""
    lines = collections.defaultdict(lambda: collections.defaultdict(int))
    kernels = collections.defaultdict(lambda: collections.defaultdict(int))
    for report in gcov_reports(build):
        for file in report["files"]:
            inside = re.search(r"backend_cuda/(\w+\.(?:c|cu|cuh))$", file["file"])
            if inside is None:
                continue
            if inside.group(1).endswith(".c"):
                for line in file["lines"]:
                    lines[inside.group(1)][line["line_number"]] += line["count"]
            for function in file["functions"]:
                kernel = re.match(r"(?:\w+ )?(?:\w+::)*(k_\w+)", function["demangled_name"])
                if kernel is not None:
                    count = function["execution_count"]
                    kernels[kernel.group(1)][function["demangled_name"]] += count
    return lines, kernels


def defined_kernels():
    """Names after __global__ in the sources: what is never instantiated is in no counter."""
    found = set()
    for path in glob.glob("backend_cuda/*.cu") + glob.glob("backend_cuda/*.cuh"):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for start in re.finditer(r"__global__", text):
            name = re.search(r"\b(k_\w+)\s*\(", text[start.end():start.end() + 300])
            if name is not None:
                found.add(name.group(1))
    return found


def show_lines(lines, name_them):
    done = total = 0
    for name in sorted(lines):
        counts = lines[name]
        run = sum(c > 0 for c in counts.values())
        print(f"{name:20} {run:5} of {len(counts):5} lines  {100 * run / len(counts):6.1f} %")
        if name_them and run < len(counts):
            print("    not run:", *sorted(n for n, c in counts.items() if c == 0))
        done += run
        total += len(counts)
    share = 100 * done / total
    print(f"{'backend_cuda/*.c':20} {done:5} of {total:5} lines  {share:6.1f} %")
    return share


def show_kernels(kernels):
    defined = defined_kernels()
    idle = sorted(k for k in defined if not any(kernels.get(k, {}).values()))
    instances = [c for k in kernels.values() for c in k.values()]
    print(f"{len(defined) - len(idle)} of {len(defined)} kernels were launched, "
          f"{sum(c > 0 for c in instances)} of {len(instances)} instances")
    for kernel in idle:
        print(f"    never launched: {kernel}")
    return len(idle)


def main():
    arguments = [a for a in sys.argv[1:] if a != "--lines"]
    lines, kernels = collect(arguments[0] if arguments else "build/coverage")
    share = show_lines(lines, "--lines" in sys.argv)
    idle = show_kernels(kernels)
    sys.exit(1 if share < LEAST or idle > 0 else 0)


if __name__ == "__main__":
    main()
