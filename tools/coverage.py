#!/usr/bin/env python3
"""How much of the library the tests have run: lines of each folder's .c files (but for the vector kernels in
backend_cpu/isa/, whose instruction sets not every machine has), and kernels of backend_cuda/*.cu on simulated
devices, of which each must have been launched. Reads gcov's counters in a build folder (preset coverage); fails
where a folder has less than its share, or for a kernel that nothing has run.

usage: coverage.py [--lines] [build/coverage]      --lines: names the lines that were not run
"""

import collections
import glob
import json
import os
import re
import subprocess
import sys

# The least share of a folder's lines, in percent. Not run are above all failures of the system, and what runs in a
# process that ends by a signal.
LEAST = {"core": 94, "autograd": 94, "amp": 95, "nn": 96, "data": 95, "io": 92, "backend_cpu": 95, "backend_cuda": 95}


def gcov_reports(build):
    """What gcov says of each object; gcov of the compiler that made them."""
    counters = sorted(glob.glob(os.path.join(build, "CMakeFiles/*.dir/**/*.gcno"), recursive=True))
    if not counters:
        sys.exit(f"coverage: no counters in {build}: build the preset coverage first")
    for path in counters:
        out = subprocess.run(["gcov", "--json-format", "--stdout", os.path.basename(path)],
                             cwd=os.path.dirname(path), capture_output=True, text=True, check=True).stdout
        for line in out.splitlines():
            if line.strip():
                yield json.loads(line)


def place(path):
    """(folder, path from the root) of a source of the library; None of anything else."""
    inside = re.search(r"(?:^|/)((" + "|".join(LEAST) + r")/[\w/]+\.(?:c|cu|cuh))$", path)
    return (inside.group(2), inside.group(1)) if inside and "/tests/" not in path else None


def collect(build):
    """({folder: {.c file: {line: count}}}, {kernel: {instance: count}})"""
    lines = collections.defaultdict(lambda: collections.defaultdict(collections.Counter))
    kernels = collections.defaultdict(collections.Counter)
    for report in gcov_reports(build):
        for file in report["files"]:
            found = place(file["file"])
            if found is None:
                continue
            if found[1].endswith(".c"):
                for line in file["lines"]:
                    lines[found[0]][found[1]][line["line_number"]] += line["count"]
            for function in file["functions"]:
                kernel = re.match(r"(?:\w+ )?(?:\w+::)*(k_\w+)", function["demangled_name"])
                if kernel is not None:
                    kernels[kernel.group(1)][function["demangled_name"]] += function["execution_count"]
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


def show_files(files, name_them):
    """Lines run, and lines, of one folder."""
    done = total = 0
    for name in sorted(files):
        counts = files[name]
        run = sum(c > 0 for c in counts.values())
        done += run
        total += len(counts)
        if name_them and run < len(counts):
            print(f"{name:40} {run:5} of {len(counts):5} lines  {100 * run / len(counts):6.1f} %")
            print("    not run:", *sorted(n for n, c in counts.items() if c == 0))
    return done, total


def show_lines(lines, name_them):
    """How many folders have less than their share."""
    low = 0
    shares = {folder: show_files(lines[folder], name_them) for folder in LEAST}
    for folder, (done, total) in shares.items():
        share = 100 * done / max(total, 1)
        below = share < LEAST[folder]
        low += below
        print(f"{folder:14} {done:6} of {total:6} lines  {share:5.1f} %" +
              (f", less than {LEAST[folder]} %" if below else ""))
    return low


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
    low = show_lines(lines, "--lines" in sys.argv)
    idle = show_kernels(kernels)
    sys.exit(1 if low > 0 or idle > 0 else 0)


if __name__ == "__main__":
    main()
