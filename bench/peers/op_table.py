"""Writes docs/op-table.md from what `compare.py --programs table --json FILE` measured.

    op_table.py FILE [FILE ...] > docs/op-table.md

Rows of later files replace those of earlier ones and are marked with a star. Reasons for rows below 0.9 of
PyTorch come from op_table_reasons.txt: a line "pattern: reason", the pattern a regular expression; one that is missing ends the run.
"""

import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SIZES = ("small", "cache", "memory")
GOAL = 0.9

HEAD = """# The op table

Every op of `bench/table.def` beside PyTorch, one thread: 2^10 elements (small: what a call costs), 2^16 (in the cache),
2^24 (in memory), less where `bench/table.def` says so. The ratio is PyTorch's time over tern's, so above 1 tern is faster; in
brackets the share of the limit, which is what the machine's memory takes to move what the op has to move, or its arithmetic to do
what it has to do, whichever is longer (`bench/bench_table.c`). "With gradient" is forward and backward. A share above 1 says that the
arrays were nearer to the core than those of the streams that the limit is made of; ratios above 10 at the small size are the cost of a call.
Results are new each time, as in programs: PyTorch gives large arrays back to the system, whose pages then fault in again.

{machine}. `*`: {later}

    ./run bench peers --programs table --rounds 1 --threads 1 --json table.json
    python3 bench/peers/op_table.py table.json > docs/op-table.md

| op | small | cache | memory | with gradient: small | cache | memory |
|---|---|---|---|---|---|---|"""

LATER = "measured again after a change, in a later run on the idle machine."


def load(files):
    """({work: row}, works of later files, machine)."""
    rows, later, machine = {}, set(), ""
    for index, name in enumerate(files):
        with open(name, encoding="utf-8") as file:
            found = json.load(file)
        machine = machine or found["machine"]
        for row in found["rows"]:
            if row["threads"] == 1:
                rows[row["work"]] = row
                if index > 0:
                    later.add(row["work"])
    return rows, later, machine


def cell(rows, later, work):
    row = rows.get(work)
    if row is None:
        return ""
    share = row["of_limit"]
    text = f"{row['ratio']:.2f}"
    if row["ratio"] < GOAL:
        text = f"**{text}**"
    return text + ("" if share is None else f" ({share:.2f})") + ("*" if work in later else "")


def reasons():
    """[(pattern, reason)]"""
    with open(os.path.join(HERE, "op_table_reasons.txt"), encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    return [tuple(part.strip() for part in line.split(":", 1)) for line in lines]


def slow(rows):
    """The list of rows below the goal; and the works that have no reason."""
    known, text, missing = reasons(), [], []
    groups = {}
    for work, row in rows.items():
        if row["ratio"] >= GOAL:
            continue
        reason = next((why for pattern, why in known if re.fullmatch(pattern, work)), None)
        if reason is None:
            missing.append(work)
        else:
            groups.setdefault(reason, []).append(f"{work} {row['ratio']:.2f}")
    for reason, works in groups.items():
        text.append(f"- {', '.join(works)}: {reason}")
    return text, missing


def main():
    rows, later, machine = load(sys.argv[1:])
    print(HEAD.format(machine=machine, later=LATER))
    names = dict.fromkeys(work.split("/")[0] for work in rows)
    for name in names:
        cells = [cell(rows, later, f"{name}/{size}{grad}")
                 for grad in ("", "/grad") for size in SIZES]
        print(f"| {name} | {' | '.join(cells)} |")
    text, missing = slow(rows)
    below = sum(row["ratio"] < GOAL for row in rows.values())
    print(f"\n## Below {GOAL}\n\n{below} of {len(rows)} rows.\n")
    print("\n".join(text))
    if missing:
        sys.exit("op_table: no reason in op_table_reasons.txt for " + ", ".join(missing))


if __name__ == "__main__":
    main()
