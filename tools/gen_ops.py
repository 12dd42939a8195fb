#!/usr/bin/env python3
"""Writes what is made from core/ops.def: docs/ops.md, and core/op_table.h, which declares the functions that
rows name. With --check, fails when a file there is another."""

import os
import re
import sys

import checks
import op_rows

PAGE_HEAD = """# Operations

Made from `core/ops.def` by `tools/gen_ops.py`; edit the table, not this page.

- **kind**: `op` has a kernel on every backend, `view` shares its input's storage, `composed` is
  made of other ops.
- **dtypes**: what the op takes; the names stand for the sets in `core/call.h`. "CPU:" comes before what the CPU
  alone takes, as in PyTorch; elsewhere that is an error which says so.
- **gradient**: whether the result can be differentiated.
- **autocast**: what happens to the inputs in an autocast region, on CUDA / on the CPU.
- **tolerance**: the largest relative error of an f32 result against a double-precision reference;
  0 is exact.
"""
HEADER_HEAD = """/* Declares the rules and backward functions that rows of core/ops.def name, for the table and for their
 * definitions. Made by tools/gen_ops.py; edit the table, not this file. */
#ifndef TERN_CORE_OP_TABLE_H
#define TERN_CORE_OP_TABLE_H

#include "core/call.h"

/* clang-format off */
#define RULE(name) bool rule_##name(core_call *call);
#define BACK(name) void back_##name(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in);
"""
HEADER_END = """#undef RULE
#undef BACK
/* clang-format on */

#endif
"""
CAST = {"TERN_CAST_LOW": "low", "TERN_CAST_F32": "f32", "TERN_CAST_DTYPE": "f32 by dtype",
        "TERN_CAST_PROMOTE": "promote", "TERN_CAST_BANNED": "banned"}


def cast(row, column):
    return CAST.get(row.members.get(column, ""), "-")


def has_gradient(row):
    """What is made of other ops has theirs, unless it reads no tensor or its result is frozen."""
    if row.kind == "COMPOSED":
        return row.members.get("inputs") != "0" and "frozen" not in row.members
    return "backward" in row.members


def names(dtypes):
    """"floats, i64" of "DT_FLOATS | B(TERN_I64)"."""
    text = re.sub(r"B\(TERN_(\w+)\)", r"\1", dtypes)
    return text.replace("DT_", "").lower().replace(" | ", ", ").replace(" & ~", " but ")


def dtypes(row):
    text = names(row.members.get("dtypes", "-"))
    more = row.members.get("dtypes_cpu")
    return text if more is None else text + "; CPU: " + names(more)


def table_line(row):
    members = row.members
    gradient = "yes" if has_gradient(row) else "no"
    tolerance = members.get("tolerance", "0" if row.kind == "VIEW" else "-")
    casts = f"{cast(row, 'cast_cuda')} / {cast(row, 'cast_cpu')}"
    outputs = members.get("outputs", "1").replace("OUT_NONE", "in place")
    cells = (f"`{row.name}`", row.kind.lower(), members.get("inputs", "-"), outputs, dtypes(row),
             gradient, "-" if casts == "- / -" else casts, tolerance)
    return "| " + " | ".join(cells) + " |"


def page():
    text, group = PAGE_HEAD, None
    for row in op_rows.rows():
        if row.group != group:
            group = row.group
            text += f"\n## {group[:1].upper() + group[1:]}\n\n"
            text += "| op | kind | inputs | outputs | dtypes | gradient | autocast | tolerance |\n"
            text += "|---|---|---|---|---|---|---|---|\n"
        text += table_line(row) + "\n"
    return text


def header():
    """A line for each row that names a rule or a backward function for the first time; those that several
    rows share are declared, with their contracts, in core/call.h."""
    known = set(re.findall(r"\b((?:rule|back)_\w+)\(", checks.without_noise(checks.read("core/call.h"))))
    text = HEADER_HEAD
    for row in op_rows.rows():
        line = []
        for macro, member, prefix in (("RULE", "rule", "rule_"), ("BACK", "backward", "back_")):
            name = row.members.get(member, "")
            if name.startswith(prefix) and name not in known:
                known.add(name)
                line.append(f"{macro}({name[len(prefix):]})")
        if line:
            text += " ".join(line) + "\n"
    return text + HEADER_END


def main():
    bad = 0
    for path, text in (("docs/ops.md", page()), ("core/op_table.h", header())):
        full = os.path.join(checks.ROOT, path)
        current = checks.read(path) if os.path.exists(full) else ""
        if current == text:
            continue
        if sys.argv[1:] == ["--check"]:
            print(f"{path} is not current: run tools/gen_ops.py")
            bad = 1
            continue
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as stream:
            stream.write(text)
    return bad


if __name__ == "__main__":
    sys.exit(main())
