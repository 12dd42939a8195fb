#!/usr/bin/env python3
"""The simulator's headers of CUDA's libraries agree with the real ones, where those are installed.

Each prototype of ours is declared again after the real header, so that the compiler compares them; each
value is asserted, and each struct's size and members. The runtime's own header is left out: the same
sources are compiled against both.
"""

import os
import re
import shutil
import subprocess
import sys

import checks

OURS = "backend_cuda/sim/include"
HEADERS = ("cudnn.h", "cublas_v2.h", "cublasLt.h", "nvml.h")

PROTOTYPE = re.compile(r"^(?:const )?\w+[ *]+\w+\([^;{}]*\);", re.MULTILINE)
ENUM = re.compile(r"typedef enum \w*\s*\{([^}]*)\}")
VALUE = re.compile(r"\b([A-Z]\w+) = (-?(?:0x)?[0-9A-Fa-f]+)")
LISTED = re.compile(r"\bX\((\w+), (-?\d+)")
MACRO = re.compile(r"^#define ([A-Z]\w+) (\d+)$", re.MULTILINE)
STRUCT = re.compile(r"typedef struct (\w+) \{([^}]*)\} (\w+);")
MEMBER = re.compile(r"(\w+)(?:\[\w+\])*\s*[;,]")


def real_folder():
    """The toolkit's include folder, or None."""
    nvcc = shutil.which("nvcc")
    roots = [os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))] if nvcc else []
    for root in roots + ["/usr/local/cuda"]:
        if os.path.isdir(os.path.join(root, "include")):
            return os.path.join(root, "include")
    return None


def without_comments(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)


def statements(text):
    """What the compiler is to find true after the real header."""
    for enum in ENUM.finditer(text):
        for name, value in VALUE.findall(enum.group(1)):
            yield f'_Static_assert((int){name} == {value}, "{name}");'
    for name, value in LISTED.findall(text) + MACRO.findall(text):
        yield f'_Static_assert((int){name} == {value}, "{name}");'
    for tag, body, name in STRUCT.findall(text):
        yield f"struct ours_{tag} {{{body}}};"
        yield f'_Static_assert(sizeof(struct ours_{tag}) == sizeof({name}), "{name}");'
        for member in MEMBER.findall(body):
            yield (f"_Static_assert(offsetof(struct ours_{tag}, {member}) == "
                   f'offsetof({name}, {member}), "{name}.{member}");')
    for prototype in PROTOTYPE.findall(text):
        if not prototype.startswith(("typedef", "struct")):
            yield prototype


def complaints(header, folder):
    text = without_comments(checks.read(os.path.join(OURS, header)))
    source = "\n".join([f"#include <{header}>", "#include <stddef.h>", *statements(text), ""])
    compiler = os.environ.get("CC", "gcc")
    done = subprocess.run([compiler, "-x", "c", "-std=gnu17", "-w", "-fsyntax-only", "-I", folder,
                           "-"], input=source, text=True, capture_output=True, check=False)
    return done.stderr if done.returncode else "", source.count("\n") - 2


def main():
    folder = real_folder()
    bad = 0
    for header in HEADERS:
        if not os.path.exists(os.path.join(checks.ROOT, OURS, header)):
            continue
        if folder is None or not os.path.exists(os.path.join(folder, header)):
            print(f"{header}: no real one here to compare with")
            continue
        said, count = complaints(header, folder)
        print(f"{header}: {count} statements " + ("hold" if not said else "do not all hold"))
        if said:
            print(said)
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
