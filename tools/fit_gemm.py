#!/usr/bin/env python3
"""Makes a table of which products own kernels make faster than a library, from measurements of both.

usage: fit_gemm.py NAME OWN LIBRARY [OWN LIBRARY ...] > backend_cpu/gemm_own_NAME.h

NAME: the tuning (backend_cpu/tuning.h). OWN and LIBRARY: what bench_gemm printed for the same shapes and threads under
TERN_CPU_GEMM=own and =library; a pair whose file names hold ".1." is of one thread, of ".2." of two.
How to measure: docs/design/backend_cpu.md, "A table for another CPU".

A way's share of a shape is its speed over that of the faster library, called directly in the same run. A tree of limits on
sizes is grown for each number of threads and each op so that shares below 0.95 cost most, then time. What a tree does for
shapes that it has not seen (in five parts, each held back once) goes to stderr.
"""

import random
import re
import sys

WAYS = ("own", "library")
OPS = ("NN", "NT", "TN")
# what limits may be on: names of cpu_gemm_size
SIZES = {
    "m": lambda m, k, n: m,
    "n": lambda m, k, n: n,
    "k": lambda m, k, n: k,
    "c": lambda m, k, n: m * n,
    "b": lambda m, k, n: k * n,
    "a": lambda m, k, n: m * k,
    "work": lambda m, k, n: m * n * k,
    "rest": lambda m, k, n: (n - 1) % 16 + 1,
}
DEPTH = 6  # of a tree
LEAST_SHAPES = 30  # of a leaf
LEAST_COLUMNS = 10  # narrower products go by the limits of gemm_way.c
LEAST_GAIN = 1.0  # of a limit, in units of cost()
LINE = re.compile(r"(\d+)x(\d+)x(\d+):(NN|NT|TN)\s+tern\s+([\d.]+) us(.*)")


def read(path):
    """{(m, k, n, op): share} of a file."""
    shares = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            found = LINE.match(line)
            libraries = re.findall(r"(?:openblas|onednn)\s+([\d.]+) us", found[6]) if found else []
            if libraries:
                best = min(float(t) for t in libraries)
                key = (int(found[1]), int(found[2]), int(found[3]), found[4])
                shares[key] = best / max(float(found[5]), 1e-3)
    return shares


def load(pairs):
    """{(threads, op): [(sizes, (share by own, by library))]}"""
    rows = {}
    for own_path, library_path in pairs:
        threads = 1 if ".1." in own_path.rsplit("/", 1)[-1] else 2
        own, library = read(own_path), read(library_path)
        for m, k, n, op in sorted(own.keys() & library.keys()):
            if n < LEAST_COLUMNS:
                continue
            sizes = {name: of(m, k, n) for name, of in SIZES.items()}
            key = (m, k, n, op)
            rows.setdefault((threads, op), []).append((sizes, (own[key], library[key])))
    return rows


def cost(share):
    return 1.5 / share + (1.0 if share < 0.95 else 0.0)


def totals(rows):
    return [sum(cost(shares[way]) for _, shares in rows) for way in range(2)]


def best_limit(rows):
    """(cost, name, limit) of the best split, or None."""
    best = None
    whole = totals(rows)
    for name in SIZES:
        ordered = sorted(rows, key=lambda row: row[0][name])
        left = [0.0, 0.0]
        for i in range(len(ordered) - LEAST_SHAPES):
            for way in range(2):
                left[way] += cost(ordered[i][1][way])
            size = ordered[i][0][name]
            if i + 1 < LEAST_SHAPES or size == ordered[i + 1][0][name]:
                continue
            total = min(left) + min(whole[way] - left[way] for way in range(2))
            if best is None or total < best[0]:
                best = (total, name, size)
    return best


def grow(rows, depth=DEPTH):
    """A leaf (way, rows), or (name, limit, tree up to it, tree above)."""
    whole = totals(rows)
    leaf = (whole.index(min(whole)), rows)
    found = best_limit(rows) if depth > 0 and len(rows) >= 2 * LEAST_SHAPES else None
    if found is None:
        return leaf
    _, name, limit = found
    below = grow([row for row in rows if row[0][name] <= limit], depth - 1)
    above = grow([row for row in rows if row[0][name] > limit], depth - 1)
    if min(whole) - tree_cost(below) - tree_cost(above) < LEAST_GAIN:
        return leaf
    if len(below) == 2 and len(above) == 2 and below[0] == above[0]:
        return leaf
    return (name, limit, below, above)


def tree_cost(tree):
    if len(tree) == 2:
        return sum(cost(shares[tree[0]]) for _, shares in tree[1])
    return tree_cost(tree[2]) + tree_cost(tree[3])


def choose(tree, sizes):
    while len(tree) == 4:
        tree = tree[2] if sizes[tree[0]] <= tree[1] else tree[3]
    return tree[0]


def summary(shares):
    ordered = sorted(shares)
    low = sum(share < 0.95 for share in ordered)
    return (
        f"median {ordered[len(ordered) // 2]:.3f}, a tenth below {ordered[len(ordered) // 10]:.3f}, "
        f"{low} of {len(ordered)} below 0.95"
    )


def held_back(rows):
    """Shares of rows by trees that have not seen them."""
    order = list(rows)
    random.Random(1).shuffle(order)
    shares = []
    for part in range(5):
        tree = grow([row for i, row in enumerate(order) if i % 5 != part])
        shares += [row[1][choose(tree, row[0])] for i, row in enumerate(order) if i % 5 == part]
    return shares


def middle(values):
    return sorted(values)[len(values) // 2]


def put(tree, indent):
    space = "    " * indent
    if len(tree) == 2:
        way, rows = tree
        own, library = (middle([shares[i] for _, shares in rows]) for i in range(2))
        print(f"{space}return {'true' if way == 0 else 'false'}; /* {len(rows)}: {own:.2f}, {library:.2f} */")
        return
    print(f"{space}if (s->{tree[0]} <= {tree[1]}) {{")
    put(tree[2], indent + 1)
    print(f"{space}}} else {{")
    put(tree[3], indent + 1)
    print(f"{space}}}")


def main(arguments):
    if len(arguments) < 3 or len(arguments) % 2 == 0 or not re.fullmatch(r"[a-z0-9]+", arguments[0]):
        print(__doc__, file=sys.stderr)
        return 2
    name, files = arguments[0], arguments[1:]
    rows = load(list(zip(files[0::2], files[1::2])))
    count = sum(len(part) for part in rows.values())
    print(f"/* Do own kernels make a product, on {name}? Made by tools/fit_gemm.py from {count} measured products of f32 by")
    print(" * AVX-512. Behind an answer stand the number of shapes that it holds for, and the median shares of the faster")
    print(" * library's speed by own kernels and by libraries. */")
    functions = []
    every = []
    for threads in (1, 2):
        for op in OPS:
            part = rows.get((threads, op), [])
            if not part:
                print(f"fit_gemm: no products {op} on {threads} threads", file=sys.stderr)
                return 1
            held = held_back(part)
            every += held
            print(f"{threads} {op}: {summary(held)}; own alone {summary([r[1][0] for r in part])}", file=sys.stderr)
            function = f"{name}_owns_{op.lower()}_{'alone' if threads == 1 else 'shared'}"
            functions.append(function)
            print(f"\nstatic bool {function}(const cpu_gemm_size *s)\n{{")
            put(grow(part), 1)
            print("}")
    print(f"all: {summary(every)}", file=sys.stderr)
    print(f"\nstatic const cpu_gemm_owns {name}_owns[2][3] = {{\n    {{ {', '.join(functions[:3])} }},")
    print(f"    {{ {', '.join(functions[3:])} }},\n}};")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
