#!/usr/bin/env python3
"""Every row of core/ops.def has a test, an OPINFO(name) entry in tests/ops/opinfo*.c, a call in
tests/ops/test_golden*.c, which compare with PyTorch, and, if it has a kernel, a line in bench/table.def. It says
which dtypes it takes and, unless it is a view, how exact it is: tests walk the one and hold the other.

Entries and calls are often made by a macro, so that they are read behind the preprocessor, where
OPINFO(name) has become .op = "name". No entry is without a row.
"""

import glob
import os
import re
import subprocess
import sys

import checks
import op_rows

ENTRY = re.compile(r'\.op\s*=\s*"(\w+)"')
CALL = re.compile(r"\btern_(\w+?)(?:_inplace)?_at\s*\(\s*\"")
TIMED = re.compile(r"^(?:ROW|GRAD)\((\w+),", flags=re.M)
# Rows with a kernel that need no line in bench/table.def: gradients and steps are timed with what they
# belong to, the others under another name.
UNTIMED = re.compile(r"\w+_(grad|grad_\w+|step|step_scaled|cell)$|unscale$|scale_update$")
ELSEWHERE = {"copy": "clone", "gemm": "matmul", "linear_scan": "cumprod", "index_offset": "index",
             "nonzero_starts": "nonzero", "resample2d": "interpolate", "huber": "huber_loss",
             "searchsorted": "multinomial"}
# Rows that no golden vectors are of by name: what draws its own random numbers, views and fills, whose
# gradients the others' vectors go through, and parts of other ops, which have theirs. Optimizers' steps
# and the scaler have suites of their own (optim.txt, grad_scaler.txt).
NO_VECTORS = set("""rand randn randperm randint bernoulli dropout multinomial fill view permute slice expand
                 transpose squeeze unsqueeze flatten contiguous gemm linear_scan index_offset nonzero_starts
                 resample2d huber unscale scale_update""".split())
PART = re.compile(r"\w+_(grad|grad_\w+|step|step_scaled|cell)$")


def preprocessed(pattern):
    """(path, text behind the preprocessor) of the files."""
    command = [os.environ.get("CC", "gcc"), "-E", "-P", "-D_GNU_SOURCE=", "-Iinclude", "-I."]
    for path in sorted(glob.glob(os.path.join(checks.ROOT, pattern))):
        done = subprocess.run(command + [path], cwd=checks.ROOT, text=True, check=True,
                              stdout=subprocess.PIPE)
        yield os.path.relpath(path, checks.ROOT), done.stdout


def entries():
    """{name: file} of every entry."""
    return {match.group(1): path for path, text in preprocessed("tests/ops/opinfo*.c")
            for match in ENTRY.finditer(text)}


def without_vectors(rows):
    """Rows that are compared with nothing that PyTorch has computed."""
    called = {name for _, text in preprocessed("tests/ops/test_golden*.c") for name in CALL.findall(text)}
    return [row for row in rows
            if row.name not in called and row.name not in NO_VECTORS and not PART.match(row.name)]


def untimed(rows):
    """Rows that the op table of the benchmarks leaves out."""
    with open(os.path.join(checks.ROOT, "bench/table.def"), encoding="utf-8") as file:
        timed = set(TIMED.findall(file.read()))
    return [row for row in rows if row.kind == "OP" and not UNTIMED.match(row.name)
            and ELSEWHERE.get(row.name, row.name) not in timed]


def without_members(rows):
    """(row, member) of rows that leave out what the conformance tests read."""
    return [(row, member) for row in rows for member in ("dtypes", "tolerance")
            if member not in row.members and (row.kind, member) != ("VIEW", "tolerance")]


def main():
    tested = entries()
    rows = op_rows.rows()
    names = {row.name for row in rows}
    bad = 0
    for row in rows:
        if row.name not in tested:
            print(f"{op_rows.PATH}:{row.line}: no OPINFO({row.name}) in tests/ops/opinfo*.c")
            bad += 1
    for row, member in without_members(rows):
        print(f"{op_rows.PATH}:{row.line}: {row.name} has no .{member}")
        bad += 1
    for row in without_vectors(rows):
        print(f"{op_rows.PATH}:{row.line}: no call of tern_{row.name} in tests/ops/test_golden*.c")
        bad += 1
    for row in untimed(rows):
        print(f"{op_rows.PATH}:{row.line}: no line for {row.name} in bench/table.def")
        bad += 1
    for name, where in sorted(tested.items()):
        if name not in names:
            print(f"{where}: OPINFO({name}) has no row in {op_rows.PATH}")
            bad += 1
    print(f"ops: {len(rows)} rows, {len(names & set(tested))} tested")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
