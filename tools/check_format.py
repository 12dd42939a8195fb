#!/usr/bin/env python3
"""Prints the sources that clang-format would change, one a line; .clang-format has the settings.

Templates (*.inc) are left out: clang-format cannot read names that macros make.
"""

import concurrent.futures
import os
import subprocess
import sys

import checks


def is_formatted(path):
    done = subprocess.run(["clang-format", "--dry-run", "--Werror", path], cwd=checks.ROOT,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return done.returncode == 0


def main():
    paths = checks.sources(extensions=(".c", ".h", ".cu", ".cuh"))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, formatted in zip(paths, pool.map(is_formatted, paths)):
            if not formatted:
                print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
