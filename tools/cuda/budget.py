#!/usr/bin/env python3
"""Registers and spills of every CUDA kernel against a committed budget.

usage: budget.py [--update] BUILD_FOLDER

Reads what ptxas said when the plugin was compiled (BUILD_FOLDER/cuda/*.ptxas) and compares it with
tools/cuda/budget.tsv: file, kernel (all instances of a template together), most registers, most bytes
spilled. A kernel without a line, above its line, or a line without a kernel fails. --update writes
the table from what was compiled: registers rounded up to the 8 that hardware hands out, and never
less than the table had, so that tables of several architectures add up."""
import pathlib
import re
import subprocess
import sys

TABLE = pathlib.Path(__file__).with_name("budget.tsv")
ENTRY = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\d+)'")
SPILL = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")


def demangled(names):
    run = subprocess.run(["c++filt"], input="\n".join(names), text=True, capture_output=True, check=True)
    return dict(zip(names, run.stdout.splitlines()))


def plain(name):
    """`void (anonymous namespace)::k_add<float, 4>(walk)` is k_add."""
    name = re.sub(r"\(anonymous namespace\)::", "", name)
    name = re.split(r"[<(]", name, maxsplit=1)[0]
    return name.split()[-1].split("::")[-1]


def compiled(folder):
    """{(file, kernel): [registers, spilled bytes]}, the instances and architectures that were found."""
    found, archs, instances = {}, set(), 0
    for log in sorted(folder.glob("cuda/*.ptxas")):
        entries, entry = [], None
        for line in log.read_text().splitlines():
            if match := ENTRY.search(line):
                entry = [match[1], 0, 0]
                entries.append(entry)
                archs.add(match[2])
            elif entry and (match := SPILL.search(line)):
                entry[2] = int(match[1]) + int(match[2])
            elif entry and (match := USED.search(line)):
                entry[1] = int(match[1])
        names = demangled([e[0] for e in entries]) if entries else {}
        instances += len(entries)
        for mangled, registers, spilled in entries:
            most = found.setdefault((log.name.split(".")[0] + ".cu", plain(names[mangled])), [0, 0])
            most[0], most[1] = max(most[0], registers), max(most[1], spilled)
    return found, archs, instances


def table():
    rows = {}
    for line in TABLE.read_text().splitlines() if TABLE.exists() else []:
        if line and not line.startswith("#"):
            file, kernel, registers, spilled = line.split("\t")
            rows[file, kernel] = [int(registers), int(spilled)]
    return rows


def update(found):
    old = table()
    lines = ["# file, kernel, most registers a thread, most bytes spilled; written by tools/cuda/budget.py --update"]
    for key in sorted(found):
        had = old.get(key, [0, 0])
        registers = max((found[key][0] + 7) // 8 * 8, had[0])
        lines.append("\t".join([*key, str(registers), str(max(found[key][1], had[1]))]))
    TABLE.write_text("\n".join(lines) + "\n")


def main(arguments):
    wants_update = "--update" in arguments
    folder = pathlib.Path([a for a in arguments if a != "--update"][0])
    found, archs, instances = compiled(folder)
    if not found:
        print(f"budget: {folder}/cuda holds nothing that ptxas said; build the target tern_cuda")
        return 1
    if wants_update:
        update(found)
    rows, wrong = table(), 0
    for key in sorted(found.keys() | rows.keys()):
        name, has, may = " ".join(key), found.get(key), rows.get(key)
        if has is None:
            problem = "is in the table and was not compiled"
        elif may is None:
            problem = f"has no line in the table (it takes {has[0]} registers, spills {has[1]} bytes)"
        elif has[0] > may[0] or has[1] > may[1]:
            problem = f"takes {has[0]} registers and spills {has[1]} bytes; its budget is {may[0]} and {may[1]}"
        else:
            continue
        print(f"budget: {name} {problem}")
        wrong += 1
    plugin = folder / "lib/libtern_cuda.so"
    size = f", libtern_cuda.so {plugin.stat().st_size / 1e6:.1f} MB" if plugin.exists() else ""
    print(f"budget: {len(found)} kernels in {instances} instances for sm_{', sm_'.join(sorted(archs))}; "
          f"most registers {max(f[0] for f in found.values())}, spilled bytes {sum(f[1] for f in found.values())}{size}; "
          f"{wrong} wrong")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
