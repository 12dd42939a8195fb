#!/usr/bin/env python3
"""Each header compiles alone: public ones as strict C17 and as C++17, internal ones as C17.

An internal header without an include guard is a body that its includer completes, and is left out.
tests/headers/ uses the public macros in all their lengths: as C17 and C++17, with gcc and with clang.
"""

import concurrent.futures
import os
import shutil
import subprocess
import sys

import checks

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]
COMPILE = ["-fsyntax-only", "-Iinclude", *WARNINGS]
INTERNAL = ("core", "autograd", "amp", "backend_cpu", "nn", "data", "io")


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


def main():
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for complaint in pool.map(lambda job: compile_alone(*job), list(jobs())):
            if complaint:
                print(complaint)
                bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
