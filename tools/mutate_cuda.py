#!/usr/bin/env python3
"""Takes away, one at a time, each barrier of backend_cuda/*.cu, each event wait and wait of the host in
*.c, each launch of a kernel and what each launcher does, and runs the tests on simulated devices that reach
the place until one fails. A mutant that nothing notices survives; those that may are in
tools/mutants_kept.txt, each with its reason. Fails for any other survivor.

All mutants are in one libtern_sim.so, made from a copy of the sources: TERN_MUTANT says which is on, and
the places that a test reaches are noted once before. The tests are those of build/release. What was found
is kept in build/mutate/results.jsonl by the text of the mutated file: a second call goes on where the first
was cut.

usage: mutate_cuda.py [--list] [--jobs N] [--again] [--seconds N] [NAME...]
    NAME: mutants whose name contains it     --again: also those that were tried before
    --seconds: starts no mutant after that many
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import checks

WORK = os.path.abspath("build/mutate")
BUILT = os.path.abspath("build/release")
TESTED = os.path.join(WORK, "tested")  # as it was: another build must not change it meanwhile
KEPT = "tools/mutants_kept.txt"
RESULTS = os.path.join(WORK, "results.jsonl")
BARRIERS = ("__syncthreads", "__syncwarp")
WAITS = ("cudaStreamWaitEvent", "cudaEventRecord", "cudaEventSynchronize",
         "cudaStreamSynchronize", "cudaDeviceSynchronize")
LAUNCHES = ("cudaLaunchKernelEx",)
TESTS = re.compile(r"simulated|_without_")
SLOW = re.compile(r"simulated_examples|threads_simulated|_simulated_two$")
# Blocks and threads in other orders, where none fails in their own.
ORDERS = ("reverse", "random:7")
HEADER = "backend_cuda/mutant.h"
SWITCH = """/* Written by tools/mutate_cuda.py. */
#ifndef MUTANT_H
#define MUTANT_H
#ifdef __cplusplus
extern "C" {
#endif
extern __attribute__((visibility("hidden"))) int mutant_wanted;
extern __attribute__((visibility("hidden"))) unsigned char *mutant_seen;
static inline bool mutant_at(int number)
{
    mutant_seen[number] = 1;
    return number == mutant_wanted;
}
#ifdef __cplusplus
}
#endif
#endif
"""
STATE = """/* Written by tools/mutate_cuda.py. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend_cuda/mutant.h"

static unsigned char unwatched[MOST];
int mutant_wanted = -1;
unsigned char *mutant_seen = unwatched;

static __attribute__((constructor)) void start(void)
{
    const char *number = getenv("TERN_MUTANT"), *path = getenv("TERN_MUTANT_SEEN");
    if (number != NULL)
        mutant_wanted = atoi(number);
    const int file = path != NULL ? open(path, O_RDWR | O_CREAT, 0600) : -1;
    if (file < 0 || ftruncate(file, MOST) != 0)
        return;
    void *shared = mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (shared != MAP_FAILED)
        mutant_seen = shared;
    (void)close(file);
}
"""


class Mutant:
    """One change: the file's text between two offsets is made to depend on whether it is on."""

    def __init__(self, kind, path, place, span, switched):
        self.name = f"{kind} {os.path.basename(path)} {place}"
        self.path, self.span, self.switched = path, span, switched
        self.number, self.digest = -1, ""


# ---- what there is to change -------------------------------------------------------------------------


def closing(text, start):
    """The offset behind the parenthesis that closes the one at `start`."""
    depth = 0
    for i in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    raise ValueError("a parenthesis is not closed")


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


def calls_of(path, text, kind, names, instead):
    """Calls that may be left out; `instead` is their value then."""
    for m in re.finditer(r"\b(%s)\(" % "|".join(names), text):
        end = closing(text, m.end() - 1)
        whole = text[m.start():end]
        if "##" in whole:  # in a macro: see launchers_of_macros
            continue
        kernel = re.search(r"\bk_\w+", whole) if kind == "launch" else None
        what = kernel.group(0) if kernel else m.group(1)
        yield Mutant(kind, path, f"{function_at(text, m.start())} {what}", (m.start(), end),
                     lambda number, whole=whole: f"(mutant_at({number}) ? {instead} : {whole})")


def launchers_of(path, text):
    for m in re.finditer(r'extern "C" cudaError_t (\w+)\(', text):
        brace = text.index("{", closing(text, m.end() - 1))
        yield Mutant("launcher", path, m.group(1), (brace, brace + 1),
                     lambda number: f"{{ if (mutant_at({number})) return cudaSuccess;")


def launchers_of_macros(path, text):
    """Launchers that a macro makes: one mutant for each of its lines, here or in elementwise.def."""
    for m in re.finditer(r'#define (\w+)\(.*\\\n\s*extern "C" cudaError_t cuda_launch_##(\w+)\(', text):
        brace = text.index("{", closing(text, m.end() - 1))
        lines = text
        if re.search(r'#include "\S+\.def"', text[brace:]):
            with open("backend_cpu/elementwise.def", encoding="utf-8") as file:
                lines = file.read()
        for i, name in enumerate(re.findall(rf"^{m.group(1)}\((\w+)", lines, flags=re.M)):
            # the first of them changes the macro, for all
            yield Mutant("launcher", path, f"cuda_launch_{name}", (brace, brace + 1) if i == 0 else None,
                         lambda _, given=m.group(2):
                         f"{{ if (mutant_at(MUTANT_##{given})) return cudaSuccess;")


def mutants_of(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if path.endswith(".c"):
        found = list(calls_of(path, text, "wait", WAITS, "cudaSuccess"))
    else:
        found = list(calls_of(path, text, "barrier", BARRIERS, "(void)0"))
        found += calls_of(path, text, "launch", LAUNCHES, "cudaSuccess")
    if path.endswith(".cu"):
        found += launchers_of(path, text)
        found += launchers_of_macros(path, text)
    counts = {}
    for mutant in found:
        counts[mutant.name] = counts.get(mutant.name, 0) + 1
        if counts[mutant.name] > 1:
            mutant.name += f"#{counts[mutant.name]}"
    return found


def all_mutants():
    found = []
    for name in sorted(os.listdir("backend_cuda")):
        if name.endswith((".c", ".cu", ".cuh")):
            found += mutants_of(os.path.join("backend_cuda", name))
    for number, mutant in enumerate(found):
        mutant.number, mutant.digest = number, digest(mutant.path)
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


# ---- one plugin with all of them ---------------------------------------------------------------------


def switched_text(path, mutants):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for m in sorted((m for m in mutants if m.span), key=lambda m: -m.span[0]):
        text = text[:m.span[0]] + m.switched(m.number) + text[m.span[1]:]
    numbers = [f"MUTANT_{m.name.split('cuda_launch_')[1]} = {m.number}" for m in mutants
               if m.name.startswith("launcher")]
    names = "enum { %s };" % ", ".join(numbers) if numbers else ""
    return f'#include <stdbool.h>\n#include "{HEADER}"\n{names}\n#line 1 "{path}"\n' + text


def write_if_new(path, text):
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def copy_sources(mutants):
    """The files of the checkout, as they are now, in a folder of its own, with the switches."""
    target = os.path.join(WORK, "src")
    by_path = {}
    for m in mutants:
        by_path.setdefault(m.path, []).append(m)
    wanted = {HEADER: SWITCH, "backend_cuda/mutant.c": STATE.replace("MOST", str(len(mutants)))}
    wanted |= {path: switched_text(path, some) for path, some in by_path.items()}
    for path in checks.tracked():
        if path not in wanted:
            os.makedirs(os.path.join(target, os.path.dirname(path)), exist_ok=True)
            there = os.path.join(target, path)
            if not os.path.exists(there) or os.stat(there).st_mtime != os.stat(path).st_mtime:
                shutil.copy2(path, there)
    for path, text in wanted.items():
        write_if_new(os.path.join(target, path), text)
    for folder, _, names in os.walk(os.path.join(target, "backend_cuda")):
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), target)
            if path not in wanted and not os.path.isfile(path):
                os.remove(os.path.join(folder, name))
    return target


def run_or_die(command):
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        sys.exit(f"mutate_cuda: {' '.join(command)}:\n{made.stdout[-6000:]}{made.stderr[-2000:]}")
    return made.stdout


def keep_programs():
    """Links to all that tests run, which stay what they are when build/release is built again."""
    shutil.rmtree(TESTED, ignore_errors=True)
    for part in ("tests", "lib", "examples", "bin"):
        shutil.copytree(os.path.join(BUILT, part), os.path.join(TESTED, part), symlinks=True,
                        copy_function=os.link, ignore=shutil.ignore_patterns("*.a"))


def build(mutants, jobs):
    """Builds the plugin; returns the folder with it and all other plugins."""
    folder = os.path.join(WORK, "release")
    run_or_die(["cmake", "-S", copy_sources(mutants), "-B", folder, "-G", "Ninja",
                "-DCMAKE_BUILD_TYPE=Release", "-DTERN_BENCH=OFF", "-DTERN_CUDA=OFF"])
    run_or_die(["cmake", "--build", folder, "-j", str(jobs), "--target", "tern_sim"])
    keep_programs()
    plugins = os.path.join(WORK, "lib")
    shutil.rmtree(plugins, ignore_errors=True)
    os.makedirs(plugins)
    for name in os.listdir(os.path.join(TESTED, "lib")):
        if name.endswith(".so") and name not in ("libtern_sim.so", "libtern_cuda.so"):
            os.symlink(os.path.join(TESTED, "lib", name), os.path.join(plugins, name))
    os.symlink(os.path.join(folder, "lib/libtern_sim.so"), os.path.join(plugins, "libtern_sim.so"))
    return plugins


# ---- tests -------------------------------------------------------------------------------------------


class Test:
    def __init__(self, entry, plugins):
        self.name, self.seconds, self.reached = entry["name"], 0.0, b""
        self.command = [part.replace(BUILT, TESTED) for part in entry["command"]]
        self.environment, self.folder = {}, TESTED
        for p in entry.get("properties", []):
            if p["name"] == "ENVIRONMENT":
                self.environment = dict(v.replace(BUILT, TESTED).split("=", 1) for v in p["value"])
        self.environment["TERN_PLUGIN_PATH"] = plugins
        self.environment["LD_LIBRARY_PATH"] = os.path.join(TESTED, "lib")

    def run(self, limit, **setting):
        """The exit status; None after `limit` seconds."""
        begun = subprocess.Popen(self.command, cwd=self.folder, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, start_new_session=True,
                                 env={**os.environ, **self.environment, **setting})
        try:
            return begun.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(begun.pid, signal.SIGKILL)  # its own session: children too
            begun.wait()
            return None


def find_tests(plugins):
    listed = json.loads(run_or_die(["ctest", "--test-dir", BUILT, "--show-only=json-v1"]))
    return [Test(t, plugins) for t in listed["tests"]
            if TESTS.search(t["name"]) and not SLOW.search(t["name"]) and "command" in t]


def look(test):
    """Runs a test without any change: how long it takes, and what it reaches."""
    seen = os.path.join(WORK, "seen", test.name.replace("/", "_"))
    if os.path.exists(seen):
        os.remove(seen)
    began = time.monotonic()
    status = test.run(900, TERN_MUTANT_SEEN=seen)
    test.seconds = time.monotonic() - began
    if os.path.exists(seen):
        with open(seen, "rb") as file:
            test.reached = file.read()
    return status


def watch(tests, jobs):
    """Tests that pass, with what they reach; fails for one that does not."""
    os.makedirs(os.path.join(WORK, "seen"), exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        statuses = list(pool.map(look, tests))
    failing = [t.name for t, s in zip(tests, statuses) if s not in (0, 77)]
    if failing:
        sys.exit(f"mutate_cuda: before anything is changed these fail: {' '.join(failing)}")
    return [t for t, s in zip(tests, statuses) if s == 0 and any(t.reached)]


class Orders:
    """Which tests pass in another order without any change, found when it matters."""

    def __init__(self):
        self.known, self.lock = {}, threading.Lock()

    def passes(self, test, order):
        with self.lock:
            if (test.name, order) not in self.known:
                self.known[test.name, order] = test.run(900, TERN_SIM_ORDER=order) == 0
            return self.known[test.name, order]


def outcome_of(mutant, tests, orders):
    """The test that notices, or why none does."""
    reaching = [t for t in tests if t.reached[mutant.number]]
    if not reaching:
        return "survives: no test reaches it"
    reaching.sort(key=lambda t: t.seconds)
    for order in ("", *ORDERS):
        setting = {"TERN_SIM_ORDER": order} if order else {}
        for test in reaching:
            limit = 30 + 10 * test.seconds
            status = test.run(limit, TERN_MUTANT=str(mutant.number), **setting)
            if status != 0 and (not order or orders.passes(test, order)):
                return test.name + (f" {order}" if order else "") + ("" if status is not None else " (no end)")
    return "survives"


# ---- all of it ---------------------------------------------------------------------------------------


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:16]


def known_results(mutants):
    """{name: outcome} of what was found before and still holds: the mutated file is the same."""
    digests, found = {m.name: m.digest for m in mutants}, {}
    if os.path.exists(RESULTS):
        with open(RESULTS, encoding="utf-8") as file:
            for line in file:
                row = json.loads(line)
                if digests.get(row["name"]) == row["file"]:
                    found[row["name"]] = row["outcome"]
    return found


def try_all(wanted, tests, options):
    """Outcomes of the mutants that there was time for."""
    found, orders, lock = {}, Orders(), threading.Lock()
    began = time.monotonic()

    def one(mutant):
        start = time.monotonic()
        if options.seconds and start - began > options.seconds:
            return
        outcome = outcome_of(mutant, tests, orders)
        with lock, open(RESULTS, "a", encoding="utf-8") as file:
            found[mutant.name] = outcome
            print(f"{mutant.name}: {outcome} ({time.monotonic() - start:.0f} s)", flush=True)
            row = {"name": mutant.name, "file": mutant.digest, "outcome": outcome}
            file.write(json.dumps(row) + "\n")

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for done in [pool.submit(one, m) for m in wanted]:
            done.result()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", action="store_true", help="names the mutants")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--again", action="store_true", help="also those that were tried before")
    parser.add_argument("--seconds", type=int, default=0, help="starts no mutant after that many")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    mutants = all_mutants()
    chosen = [m for m in mutants if not options.names or any(n in m.name for n in options.names)]
    if options.list:
        print("\n".join(m.name for m in chosen))
        return
    results = {} if options.again else known_results(chosen)
    results = {name: o for name, o in results.items() if not o.startswith("survives")}
    reasons = kept()
    # those that may survive are tried by all tests in all orders: last
    wanted = sorted((m for m in chosen if m.name not in results), key=lambda m: m.name in reasons)
    if wanted:
        tests = watch(find_tests(build(mutants, options.jobs)), options.jobs)
        results |= try_all(wanted, tests, options)
    survivors = [n for n, o in results.items() if o.startswith("survives")]
    without_reason = [s for s in survivors if s not in reasons]
    for name in survivors:
        print(f"survivor: {name}: {reasons.get(name, 'NO REASON')}")
    print(f"{len(results)} of {len(chosen)} mutants tried, {len(survivors)} survive, "
          f"{len(without_reason)} without a reason")
    sys.exit(1 if without_reason or len(results) < len(chosen) else 0)


if __name__ == "__main__":
    main()
