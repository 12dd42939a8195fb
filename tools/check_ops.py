#!/usr/bin/env python3
"""Every row of core/ops.def has a test: an OPINFO(name) entry in tests/ops/opinfo*.c.

Entries are often made by a macro, so that they are read behind the preprocessor, where OPINFO(name)
has become .op = "name". No entry is without a row.
"""

import glob
import os
import re
import subprocess
import sys

import checks
import op_rows

ENTRY = re.compile(r'\.op\s*=\s*"(\w+)"')
TIMED = re.compile(r"^(?:ROW|GRAD)\((\w+),", flags=re.M)
# Rows with a kernel that need no line in bench/table.def: gradients and steps are timed with what they
# belong to, the others under another name.
UNTIMED = re.compile(r"\w+_(grad|grad_\w+|step|step_scaled|cell)$|unscale$|scale_update$")
ELSEWHERE = {"copy": "clone", "gemm": "matmul", "linear_scan": "cumprod", "index_offset": "index",
             "nonzero_starts": "nonzero", "resample2d": "interpolate", "huber": "huber_loss",
             "searchsorted": "multinomial"}


def entries():
    """{name: file} of every entry."""
    found = {}
    preprocess = [os.environ.get("CC", "gcc"), "-E", "-P", "-D_GNU_SOURCE=", "-Iinclude", "-I."]
    for path in sorted(glob.glob(os.path.join(checks.ROOT, "tests/ops/opinfo*.c"))):
        done = subprocess.run(preprocess + [path], cwd=checks.ROOT, text=True, check=True,
                              stdout=subprocess.PIPE)
        for match in ENTRY.finditer(done.stdout):
            found[match.group(1)] = os.path.relpath(path, checks.ROOT)
    return found


def untimed(rows):
    """Rows that the op table of the benchmarks leaves out."""
    with open(os.path.join(checks.ROOT, "bench/table.def"), encoding="utf-8") as file:
        timed = set(TIMED.findall(file.read()))
    return [row for row in rows if row.kind == "OP" and not UNTIMED.match(row.name)
            and ELSEWHERE.get(row.name, row.name) not in timed]


def main():
    tested = entries()
    rows = op_rows.rows()
    names = {row.name for row in rows}
    bad = 0
    for row in rows:
        if row.name not in tested:
            print(f"{op_rows.PATH}:{row.line}: no OPINFO({row.name}) in tests/ops/opinfo*.c")
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
