#!/usr/bin/env python3
"""Takes away, one at a time, each barrier of backend_cuda/*.cu, each event wait and wait of the host in
*.c, and what each launcher does; rebuilds libtern_sim.so alone in a copy of the sources and runs the tests
on simulated devices until one fails. A mutant that nothing notices survives; those that may are in
tools/mutants_kept.txt, each with its reason. Fails for any other survivor.

usage: mutate_cuda.py [--list] [--jobs N] [NAME...]      NAME: mutants whose name contains it
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time

WORK = "build/mutate"
KEPT = "tools/mutants_kept.txt"
BARRIERS = ("__syncthreads", "__syncwarp")
WAITS = ("cudaStreamWaitEvent", "cudaEventRecord", "cudaEventSynchronize",
         "cudaStreamSynchronize", "cudaDeviceSynchronize")
# Run in turn until one fails; the first notice most.
SUITES = [("^(ops/(linear|golden|golden_optim)|api/losses|unit/grad_scaler)_simulated$", {}),
          ("^api/simulated(_streams)?$", {}),
          ("^ops/(conformance|half|conv2d)_simulated$", {}),
          ("^(api|unit|ops|fault)/.*simulated", {}),
          ("^ops/conformance_simulated$", {"TERN_SIM_ORDER": "reverse"}),
          ("^ops/conformance_simulated$", {"TERN_SIM_ORDER": "random:7"})]
SLOW = "simulated_examples|threads_simulated"


class Mutant:
    """One change: the file's text between two offsets becomes another."""

    def __init__(self, kind, path, place, span, text):
        self.name = f"{kind} {os.path.basename(path)} {place}"
        self.path, self.span, self.text = path, span, text


def closing(text, start):
    """The offset behind the parenthesis that closes the one at `start`."""
    depth = 0
    for i in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    raise ValueError("a parenthesis is not closed")


def arguments(text):
    parts, depth, last = [], 0, 0
    for i, c in enumerate(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(c, 0)
        if c == "," and depth == 0:
            parts.append(text[last:i])
            last = i + 1
    return [p.strip() for p in parts + [text[last:]] if p.strip()]


def function_at(text, offset):
    """The name of the function or kernel around an offset: the last that was begun before it."""
    begun = [(0, "?")]
    for m in re.finditer(r"^(?!#|//|/\*| \*)\w.*?(\w+)\((?![^)]*;)", text[:offset], flags=re.M):
        if m.group(1) not in ("__launch_bounds__", "extern"):
            begun.append((m.start(), m.group(1)))
    for m in re.finditer(r"\b(k_\w+)\(", text[:offset]):
        before = text.rfind("__global__", 0, m.start())
        if before >= 0 and "}" not in text[before:m.start()]:
            begun.append((m.start(), m.group(1)))
    return max(begun)[1]


def mutants_of(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    found, counts = [], {}

    def add(kind, offset, place, span, replacement):
        key = (kind, place)
        counts[key] = counts.get(key, 0) + 1
        numbered = place if counts[key] == 1 else f"{place}#{counts[key]}"
        found.append(Mutant(kind, path, numbered, span, replacement))

    wanted = WAITS if path.endswith(".c") else BARRIERS
    for m in re.finditer(r"\b(%s)\(" % "|".join(wanted), text):
        end = closing(text, m.end() - 1)
        given = arguments(text[m.end():end - 1])
        value = ["cudaSuccess"] if path.endswith(".c") else ["(void)0"]
        call = "(" + ", ".join([f"(void)({a})" for a in given] + value) + ")"
        kind = "wait" if path.endswith(".c") else "barrier"
        add(kind, m.start(), f"{function_at(text, m.start())} {m.group(1)}", (m.start(), end), call)
    if path.endswith(".cu"):
        for m in re.finditer(r'extern "C" cudaError_t (\w+)\(', text):
            brace = text.index("{", closing(text, m.end() - 1))
            add("launcher", m.start(), m.group(1), (brace, brace + 1),
                "{\n    if (true)\n        return cudaSuccess;")
    return found


def all_mutants():
    found = []
    for name in sorted(os.listdir("backend_cuda")):
        if name.endswith((".c", ".cu", ".cuh")):
            found += mutants_of(os.path.join("backend_cuda", name))
    return found


def kept():
    """{name: reason} of the list: "name: reason" lines."""
    reasons = {}
    with open(KEPT, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                name, reason = line.strip().split(": ", 1)
                reasons[name] = reason
    return reasons


def copy_sources():
    """What git knows and does not ignore, as it is now, in a folder of its own."""
    target = os.path.join(WORK, "src")
    shutil.rmtree(target, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"],
                            capture_output=True, text=True, check=True).stdout
    for path in listed.split("\n"):
        if os.path.isfile(path):
            os.makedirs(os.path.join(target, os.path.dirname(path)), exist_ok=True)
            shutil.copy2(path, os.path.join(target, path))
    return target


def quiet(command, **more):
    return subprocess.run(command, capture_output=True, text=True, check=False, **more)


def build(folder, jobs, *targets):
    command = ["cmake", "--build", folder, "-j", str(jobs)]
    for target in targets:
        command += ["--target", target]
    return quiet(command)


def noticed(folder, jobs):
    """The first test that fails, or None."""
    for pattern, setting in SUITES:
        out = quiet(["ctest", "--test-dir", folder, "-j", str(jobs), "-R", pattern, "-E", SLOW,
                     "--stop-on-failure", "--timeout", "120"], env={**os.environ, **setting})
        if out.returncode != 0:
            failed = re.search(r"Test\s+#\d+: (\S+) \.*\**(?:Failed|Timeout|Exception|Subprocess)",
                               out.stdout)
            order = "".join(f" {v}" for v in setting.values())
            return (failed.group(1) if failed else "a test") + order
    return None


def try_mutant(mutant, source, folder, jobs):
    """What happens: the name of the test that notices, "survives", or "does not build"."""
    path = os.path.join(source, mutant.path)
    with open(mutant.path, encoding="utf-8") as file:
        text = file.read()
    first, last = mutant.span
    with open(path, "w", encoding="utf-8") as file:
        file.write(text[:first] + mutant.text + text[last:])
    try:
        built = build(folder, jobs, "tern_sim")
        if built.returncode != 0:
            print(built.stdout[-2000:])
            return "does not build"
        return noticed(folder, jobs) or "survives"
    finally:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def prepare(jobs):
    source, folder = copy_sources(), os.path.abspath(os.path.join(WORK, "release"))
    made = quiet(["cmake", "-S", source, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                  "-DTERN_BENCH=OFF"])
    if made.returncode == 0:
        made = build(folder, jobs)
    if made.returncode != 0:
        sys.exit(made.stdout[-4000:] + made.stderr[-2000:])
    failing = noticed(folder, jobs)
    if failing is not None:
        sys.exit(f"mutate_cuda: {failing} fails before anything is changed")
    return source, folder


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", action="store_true", help="names the mutants")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    mutants = [m for m in all_mutants()
               if not options.names or any(n in m.name for n in options.names)]
    if options.list:
        print("\n".join(m.name for m in mutants))
        return
    reasons = kept()
    source, folder = prepare(options.jobs)
    survivors = []
    for mutant in mutants:
        started = time.monotonic()
        outcome = try_mutant(mutant, source, folder, options.jobs)
        print(f"{mutant.name}: {outcome} ({time.monotonic() - started:.0f} s)", flush=True)
        if outcome in ("survives", "does not build"):
            survivors.append(mutant.name)
    without_reason = [s for s in survivors if s not in reasons]
    for name in survivors:
        print(f"survivor: {name}: {reasons.get(name, 'NO REASON')}")
    print(f"{len(mutants)} mutants, {len(survivors)} survive, {len(without_reason)} without a reason")
    sys.exit(1 if without_reason else 0)


if __name__ == "__main__":
    main()
