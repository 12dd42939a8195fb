#!/usr/bin/env python3
"""Each header compiles alone: public ones as strict C17 and as C++17, internal ones as C17.

An internal header without an include guard is a body that its includer completes, and is left out.
tests/headers/ uses the public macros in all their lengths: as C17 and C++17, with gcc and with clang.

Each public function that takes a pointer has a call in tests/api/null_arguments.def, which hands it NULL;
but for ops whose only pointers are their operands, which ops/conformance hands NULL.
"""

import concurrent.futures
import os
import re
import shutil
import subprocess
import sys

import checks
import op_rows

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wredundant-decls", "-Wconversion", "-Werror"]
COMPILE = ["-fsyntax-only", "-Iinclude", *WARNINGS]
INTERNAL = ("core", "autograd", "amp", "backend_cpu", "nn", "data", "io")

FUNCTION = re.compile(r'visibility\("default"\)\)\)[^;{}]*?\b(tern_\w+) ?\(([^;]*)\)[^;]*;')
# What a call with NULL would leave behind or print; contexts of ops come from the library alone.
NEVER_NULL = {"tern_print_at", "tern_retain", "tern_path_push", "tern_calling_begin", "tern_calling_end"}
CONTEXTS = ("tern_op_ctx *", "tern_op_call *")
OPERAND = re.compile(r"tern_tensor \*(?!\*|const)")


def compile_alone(command, file):
    """The compiler's complaints about a source that includes nothing but the file."""
    source = f'#include "{file}"\n'
    done = subprocess.run(command + ["-"], input=source, text=True, capture_output=True,
                          cwd=checks.ROOT, check=False)
    return done.stderr if done.returncode else ""


def jobs():
    c = os.environ.get("CC", "gcc")
    cxx = os.environ.get("CXX", "g++")
    for path in checks.sources(("include",), (".h",)):
        name = os.path.relpath(path, "include")
        yield [c, "-x", "c", "-std=c17", *COMPILE], name
        if shutil.which(cxx):
            yield [cxx, "-x", "c++", "-std=c++17", *COMPILE], name
    for compiler in filter(shutil.which, (c, "clang")):
        yield [compiler, "-x", "c", "-std=c17", *COMPILE, "-I."], "tests/headers/uses.c"
    for compiler in filter(shutil.which, (cxx, "clang++")):
        yield [compiler, "-x", "c++", "-std=c++17", *COMPILE, "-I."], "tests/headers/uses.cpp"
    for path in checks.sources(INTERNAL, (".h",)):
        if "#ifndef TERN_" not in checks.read(path):
            continue
        internal = ["-D_GNU_SOURCE=", "-DCPU_ISA=base", "-I."]
        yield [c, "-x", "c", "-std=c17", *internal, *COMPILE], path


def preprocessed(source):
    """What is made of it; of a header that cannot be read, what is there: compile_alone says what is wrong."""
    command = [os.environ.get("CC", "gcc"), "-E", "-P", "-D_GNU_SOURCE=", "-Iinclude", "-I.", "-xc", "-"]
    done = subprocess.run(command, input=source, text=True, capture_output=True, cwd=checks.ROOT,
                          check=False)
    return done.stdout


def without_null():
    """Public functions with a pointer that no test hands NULL."""
    headers = "".join(f'#include "{os.path.relpath(path, "include")}"\n'
                      for path in checks.sources(("include",), (".h",)))
    called = set(re.findall(r"\bcall_(tern_\w+)", preprocessed(
        '#include "tests/api/test_null_arguments.c"\n')))
    ops = {form.format(row.name) for row in op_rows.rows() for form in ("tern_{}_at", "tern_{}_inplace_at")}
    for name, arguments in FUNCTION.findall(preprocessed(headers)):
        if name in ops:
            arguments = OPERAND.sub("", arguments)
        if ("*" in arguments or "[" in arguments) and not any(c in arguments for c in CONTEXTS) \
                and name not in called | NEVER_NULL:
            yield name


def main():
    bad = 0
    for name in sorted(set(without_null())):
        print(f"{name} takes a pointer and has no call in tests/api/null_arguments.def")
        bad += 1
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for complaint in pool.map(lambda job: compile_alone(*job), list(jobs())):
            if complaint:
                print(complaint)
                bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
