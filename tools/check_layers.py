#!/usr/bin/env python3
"""Fails on an #include that a layer may not have.

core < autograd < amp < nn, data, io < tools, examples, bench. Backends include core and nothing
above it. core names no backend but in one file. nn, data and examples use only the public headers
and their own folder.
"""

import os
import re
import sys

import checks

PUBLIC = "include"
ALLOWED = {
    "include": {PUBLIC},
    "core": {PUBLIC, "core"},
    "autograd": {PUBLIC, "core", "autograd"},
    "amp": {PUBLIC, "core", "autograd", "amp"},
    "backend_cpu": {PUBLIC, "core", "backend_cpu"},
    "backend_cuda": {PUBLIC, "core", "backend_cuda"},
    "nn": {PUBLIC, "nn"},
    "data": {PUBLIC, "data"},
    "io": {PUBLIC, "core", "autograd", "amp", "io"},
    "examples": {PUBLIC, "examples"},
}
REGISTRATION = "core/backend_list.c"

# Formulas and lists that the CPU's backend shares with others: no code of it.
SHARED = {"backend_cpu/formulas.h": ("backend_cuda/",),
          "backend_cpu/resample.h": ("backend_cuda/",),
          "backend_cpu/elementwise.def": ("backend_cuda/",)}

# A library's header outside the folders that own the dependency would make the dependency spread.
EXTERNAL = {
    r"(cblas|oneapi/|dnnl|openblas)": ("backend_cpu/bridge/", "bench/", "tests/"),
    r"(cuda|cublas|cudnn|nccl|nvml|sim_)": ("backend_cuda/", "tests/sim/", "tools/cuda/"),
    r"omp\.h": ("backend_cpu/", "bench/", "tests/"),
    r"zlib\.h": ("data/", "io/", "tests/"),
    r"(cjson/|cJSON)": ("io/", "tools/", "examples/common/", "tests/"),
    # Elsewhere a lock is one of core/lock.h, which a child of a fork finds free.
    r"(pthread|threads)\.h": ("core/lock.c", "core/thread.c", "core/alloc/", "backend_cpu/bridge/",
                              "backend_cpu/gemm_trial.c",
                              "backend_cuda/", "data/", "bench/", "tests/"),
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def layer_of(path, target, quoted):
    """The folder that an included file lives in, or None for a header from outside."""
    if target.startswith("tern/"):
        return PUBLIC
    if not quoted:
        return None
    beside = os.path.normpath(os.path.join(os.path.dirname(path), target))
    for candidate in (target, beside):
        if os.path.exists(os.path.join(checks.ROOT, candidate)):
            return candidate.split(os.sep)[0]
    return target.split("/")[0] if "/" in target else None


def problem(path, quote, target):
    own = path.split(os.sep)[0]
    layer = layer_of(path, target, quote == '"')
    if layer is None:
        for pattern, homes in EXTERNAL.items():
            if re.match(pattern, target) and not path.startswith(homes):
                return f"only {', '.join(homes)} may include <{target}>"
        return None
    if path == REGISTRATION and layer.startswith("backend_"):
        return None
    if path.startswith(SHARED.get(target, ("-",))):
        return None
    if own in ALLOWED and layer not in ALLOWED[own]:
        return f"{own}/ may not include {target}"
    return None


def main():
    bad = 0
    for path in checks.sources():
        text = checks.read(path)
        for match in INCLUDE.finditer(text):
            what = problem(path, match.group(1), match.group(2))
            if what:
                line = text.count("\n", 0, match.start(1)) + 1
                print(f"{path}:{line}: {what}")
                bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
