#!/usr/bin/env python3
"""Checks tests/semantics.tsv: every row proves itself by a test that exists, or says `n/a: reason` or
`later: reason`; no row twice. Prints the counts."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def fault_of(where: str) -> str | None:
    if re.match(r"(n/a|later): \S", where):
        return None
    path, _, name = where.partition(":")
    file = ROOT / path
    if not file.is_file():
        return f"no file {path}"
    if not re.search(rf"\b{re.escape(name)}\(void", file.read_text()):
        return f"no test {name} in {path}"
    return None


def main() -> int:
    seen, counts, faults = set(), {"proved": 0, "n/a": 0, "later": 0}, 0
    for line in (ROOT / "tests/semantics.tsv").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        row, _, where = line.partition("\t")
        fault = "listed twice" if row in seen else fault_of(where)
        seen.add(row)
        kind = where.split(":")[0]
        counts[kind if kind in counts else "proved"] += 1
        if fault:
            faults += 1
            print(f"tests/semantics.tsv: {row}: {fault}")
    print("semantics: " + ", ".join(f"{n} {what}" for what, n in counts.items()))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
