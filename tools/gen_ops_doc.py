#!/usr/bin/env python3
"""Writes docs/ops.md from core/ops.def; with --check, fails when the file there is another."""

import os
import sys

import checks
import op_rows

PATH = "docs/ops.md"
HEAD = """# Operations

Made from `core/ops.def` by `tools/gen_ops_doc.py`; edit the table, not this page.

- **kind**: `op` has a kernel on every backend, `view` shares its input's storage, `composed` is
  made of other ops.
- **dtypes**: what the op takes; the names stand for the sets in `core/call.h`.
- **gradient**: whether the result can be differentiated.
- **autocast**: what happens to the inputs in an autocast region, on CUDA / on the CPU.
- **tolerance**: the largest relative error of an f32 result against a double-precision reference;
  0 is exact.
"""
CAST = {"TERN_CAST_LOW": "low", "TERN_CAST_F32": "f32", "TERN_CAST_DTYPE": "f32 by dtype",
        "TERN_CAST_PROMOTE": "promote", "TERN_CAST_BANNED": "banned"}


def cast(row, column):
    return CAST.get(row.members.get(column, ""), "-")


def table_line(row):
    members = row.members
    dtypes = members.get("dtypes", "").replace("DT_", "").lower().replace(" | ", ", ") or "-"
    gradient = "yes" if "backward" in members or row.kind == "COMPOSED" else "no"
    casts = f"{cast(row, 'cast_cuda')} / {cast(row, 'cast_cpu')}"
    outputs = members.get("outputs", "1").replace("OUT_NONE", "in place")
    cells = (f"`{row.name}`", row.kind.lower(), members.get("inputs", "-"), outputs, dtypes,
             gradient, "-" if casts == "- / -" else casts, members.get("tolerance", "-"))
    return "| " + " | ".join(cells) + " |"


def page():
    text, group = HEAD, None
    for row in op_rows.rows():
        if row.group != group:
            group = row.group
            text += f"\n## {group[:1].upper() + group[1:]}\n\n"
            text += "| op | kind | inputs | outputs | dtypes | gradient | autocast | tolerance |\n"
            text += "|---|---|---|---|---|---|---|---|\n"
        text += table_line(row) + "\n"
    return text


def main():
    full = os.path.join(checks.ROOT, PATH)
    text = page()
    if sys.argv[1:] == ["--check"]:
        current = checks.read(PATH) if os.path.exists(full) else ""
        if current != text:
            print(f"{PATH} is not current: run tools/gen_ops_doc.py")
            return 1
        return 0
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "w", encoding="utf-8") as stream:
        stream.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
