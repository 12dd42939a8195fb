#!/usr/bin/env python3
"""Makes tables of who makes a matrix product fastest, from measurements of each way.

usage: fit_gemm.py [--leaf N] [--refine TABLE] NAME OWN LIBRARY [OWN LIBRARY ...] > backend_cpu/gemm_own_NAME.h
       fit_gemm.py [--leaf N] --routes NAME OPENBLAS ONEDNN TILES [...] > backend_cpu/bridge/gemm_fitted_NAME.def

NAME: the tuning (backend_cpu/tuning.h). The files: what bench_gemm printed for the same shapes and threads under
TERN_CPU_GEMM=own, =library, =openblas, =onednn and =tiles, or the files of bench_ways. Files whose names hold ".1." are of one thread, of ".2." of two;
routes are of one. How to measure: docs/design/backend_cpu.md, "A table for another CPU".

A way's share of a shape is its speed over that of the faster library, called directly in the same run. A tree of limits on
sizes is grown for each number of threads and each op so that shares below 0.95 cost most, then time. What a tree does for
shapes that it has not seen (in five parts, each held back once) goes to stderr. An answer is of at least N shapes (30):
larger ones give a shorter table, and one that holds better on another machine of the kind.

--refine: TABLE, an earlier gemm_own_NAME.h, was measured on another machine of the kind. Its answers stay, but where these
measurements, beside the medians of that answer as one more of each shape, gain REFINED by others. Write to another file, then move it.
"""

import math
import random
import re
import sys

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
# what rows of routes may limit: members of GEMM_ROUTE, in their order
ROUTE_SIZES = ("work", "m", "n", "c", "k")
ROUTES = ("OPENBLAS", "ONEDNN", "TILES")
RESTS = ("zen4",)  # tunings that ask cpu_product_has_small_rest before their rows
DEPTH = 6  # of a tree
LEAST_SHAPES = 30  # of a leaf, where nothing else is asked for
LEAST_COLUMNS = {"zen5": 8}  # else 10; narrower products go by the limits of gemm_way.c
LEAST_GAIN = 1.0  # of a limit, in units of cost()
REFINED = 3.0  # what another answer gains at least; as deep as REFINED_DEPTH below the one that it replaces
REFINED_DEPTH = 3
EARLIER = 1.0  # how much an earlier table's medians count
PREFERRED = 0.05  # what the way that it chose costs less than the other at least
SPREADS = (0.025, 0.012)  # of own kernels' shares and of libraries' about a median, logistic: how many are below 0.95
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


def load(groups):
    """{(threads, op): [(sizes, (share by each way), (cost of each))]}; a group: a file of each way."""
    rows = {}
    for paths in groups:
        threads = 1 if ".1." in paths[0].rsplit("/", 1)[-1] else 2
        ways = [read(path) for path in paths]
        for m, k, n, op in sorted(set.intersection(*(set(way) for way in ways))):
            sizes = {name: of(m, k, n) for name, of in SIZES.items()}
            shares = tuple(way[m, k, n, op] for way in ways)
            rows.setdefault((threads, op), []).append((sizes, shares, tuple(map(cost, shares))))
    return rows


def cost(share):
    return 1.5 / share + (1.0 if share < 0.95 else 0.0)


def totals(rows):
    return [sum(row[2][way] for row in rows) for way in range(len(rows[0][2]))]


def best_limit(rows, names, least):
    """(cost, name, limit) of the best split, or None."""
    best = None
    whole = totals(rows)
    for name in names:
        ordered = sorted(rows, key=lambda row: row[0][name])
        left = [0.0] * len(whole)
        for i in range(len(ordered) - least):
            for way, each in enumerate(ordered[i][2]):
                left[way] += each
            size = ordered[i][0][name]
            if i + 1 < least or size == ordered[i + 1][0][name]:
                continue
            total = min(left) + min(w - l for w, l in zip(whole, left))
            if best is None or total < best[0]:
                best = (total, name, size)
    return best


def grow(rows, names=tuple(SIZES), least=LEAST_SHAPES, depth=DEPTH):
    """A leaf (way, rows), or (name, limit, tree up to it, tree above)."""
    whole = totals(rows)
    leaf = (whole.index(min(whole)), rows)
    found = best_limit(rows, names, least) if depth > 0 and len(rows) >= 2 * least else None
    if found is None:
        return leaf
    _, name, limit = found
    below = grow([row for row in rows if row[0][name] <= limit], names, least, depth - 1)
    above = grow([row for row in rows if row[0][name] > limit], names, least, depth - 1)
    if min(whole) - tree_cost(below) - tree_cost(above) < LEAST_GAIN:
        return leaf
    if len(below) == 2 and len(above) == 2 and below[0] == above[0]:
        return leaf
    return (name, limit, below, above)


def tree_cost(tree):
    if len(tree) == 2:
        return sum(row[2][tree[0]] for row in tree[1])
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


def held_back(rows, make):
    """Shares of rows by trees that have not seen them."""
    order = list(rows)
    random.Random(1).shuffle(order)
    shares = []
    for part in range(5):
        tree = make([row for i, row in enumerate(order) if i % 5 != part])
        shares += [row[1][choose(tree, row[0])] for i, row in enumerate(order) if i % 5 == part]
    return shares


ANSWER = re.compile(r"if \(s->(\w+) <= (\d+)\)|return (true|false); /\* \d+: ([\d.]+), ([\d.]+)")


def read_tree(text, function):
    """The tree of a table's function; an answer is (way, (median of each way), ())."""
    body = re.search(rf"static bool {function}\(.*?\n}}", text, re.S)
    if body is None:
        raise ValueError(f"no {function} in the earlier table")
    answers = ANSWER.finditer(body[0])

    def next_tree():
        name, limit, owns, *medians = next(answers).groups()
        if name is None:
            return (0 if owns == "true" else 1, tuple(map(float, medians)), ())
        below = next_tree()
        return (name, int(limit), below, next_tree())

    return next_tree()


def with_earlier(row, way, earlier):
    """A row whose costs have those of an earlier table's answer in them."""
    costs = [1.5 / share + 1 / (1 + math.exp((share - 0.95) / spread)) for share, spread in zip(earlier, SPREADS)]
    costs[1 - way] = max(costs[1 - way], costs[way] + PREFERRED)
    return (row[0], row[1], tuple(now + EARLIER * then for now, then in zip(row[2], costs)), earlier)


def refine(tree, rows, least):
    """An earlier tree, with other answers where rows gain enough by them."""
    if len(tree) == 4:
        name, limit, below, above = tree
        return (
            name,
            limit,
            refine(below, [row for row in rows if row[0][name] <= limit], least),
            refine(above, [row for row in rows if row[0][name] > limit], least),
        )
    way, earlier, _ = tree
    if not rows:
        return (way, [({}, earlier, (), earlier)])
    rows = [with_earlier(row, way, earlier) for row in rows]
    other = grow(rows, least=least, depth=REFINED_DEPTH)
    return other if totals(rows)[way] - tree_cost(other) >= REFINED else (way, rows)


def middle(values):
    return sorted(values)[len(values) // 2]


def medians(rows):
    """Of each way, and after "earlier" what an earlier table's answer has."""
    then = "; earlier " + ", ".join(f"{median:.2f}" for median in rows[0][3]) if len(rows[0]) > 3 else ""
    return ", ".join(f"{middle(shares):.2f}" for shares in zip(*(row[1] for row in rows))) + then


def put(tree, indent):
    space = "    " * indent
    if len(tree) == 2:
        way, rows = tree
        print(f"{space}return {'true' if way == 0 else 'false'}; /* {sum(len(row[0]) > 0 for row in rows)}: {medians(rows)} */")
        return
    print(f"{space}if (s->{tree[0]} <= {tree[1]}) {{")
    put(tree[2], indent + 1)
    print(f"{space}}} else {{")
    put(tree[3], indent + 1)
    print(f"{space}}}")


def put_routes(op, tree, most):
    """Rows from the smallest sizes on, so that each needs upper limits only: the first that holds decides."""
    if len(tree) == 2:
        way, rows = tree
        work, m, n, c, k = (most.get(name, 0) for name in ROUTE_SIZES)
        print(f"/* {len(rows)}: {medians(rows)} */")
        print(f"GEMM_ROUTE({op}, {work}, {m}, 0, {n}, {c}, 0, {k}, {ROUTES[way]})")
        return
    name, limit, below, above = tree
    put_routes(op, below, {**most, name: min(limit, most.get(name, limit))})
    put_routes(op, above, most)


def fit_routes(name, files, least):
    rows = load(list(zip(*(files[i :: len(ROUTES)] for i in range(len(ROUTES))))))
    count = sum(len(part) for part in rows.values())
    print(f"/* How a block of a float product is made on one thread on {name}: rows as in gemm_routes.def, made by")
    print(f" * tools/fit_gemm.py from {count} measured products of at least 0.5 million multiplications. Above a row stand the number")
    print(f" * of shapes that it holds for, and the median shares of the faster library's speed by {', '.join(ROUTES)}. */")
    every = []
    for op in OPS:
        part = [row for row in rows.get((1, op), []) if name not in RESTS or not has_small_rest(op, row[0])]
        if not part:
            print(f"fit_gemm: no products {op} on one thread", file=sys.stderr)
            return 1
        held = held_back(part, lambda rows: grow(rows, ROUTE_SIZES, least))
        every += held
        print(f"routes {op}: {summary(held)}; best of each {summary([max(row[1]) for row in part])}", file=sys.stderr)
        put_routes(op, grow(part, ROUTE_SIZES, least), {})
    print(f"all: {summary(every)}", file=sys.stderr)
    return 0


def has_small_rest(op, s):
    """cpu_product_has_small_rest of backend_cpu/gemm_rest.h, which rows cannot say."""
    turned = op == "NT"
    return (
        s["m"] >= 8 and 9 <= s["n"] <= 104 and s["k"] >= (64 if turned else 33)
        and (s["n"] <= (12 if turned else 16) or s["rest"] <= 8)
    )


def fit_own(name, files, least, earlier=None):
    rows = load(list(zip(files[0::2], files[1::2])))
    rows = {key: [row for row in part if row[0]["n"] >= LEAST_COLUMNS.get(name, 10)] for key, part in rows.items()}
    count = sum(len(part) for part in rows.values())
    print(f"/* Do own kernels make a product, on {name}? Made by tools/fit_gemm.py from {count} measured products of f32 by")
    print(f" * {'AVX2' if name == 'avx2' else 'AVX-512'}. Behind an answer stand the number of shapes that it holds for, and the median shares of the faster")
    print(f" * library's speed by own kernels and by libraries.{' Refined from a table of another machine of the kind.' if earlier else ''} */")
    functions = []
    every = []
    for threads in (1, 2):
        for op in OPS:
            part = rows.get((threads, op), [])
            if not part:
                print(f"fit_gemm: no products {op} on {threads} threads", file=sys.stderr)
                return 1
            function = f"{name}_owns_{op.lower()}_{'alone' if threads == 1 else 'shared'}"
            old = read_tree(earlier, function) if earlier else None
            make = (lambda some, old=old: refine(old, some, least)) if old else (lambda some: grow(some, least=least))
            held = held_back(part, make)
            every += held
            print(f"{threads} {op}: {summary(held)}; own alone {summary([r[1][0] for r in part])}", file=sys.stderr)
            functions.append(function)
            print(f"\nstatic bool {function}(const cpu_gemm_size *s)\n{{")
            tree = make(part)
            if len(tree) == 2:
                print("    (void)s;")
            put(tree, 1)
            print("}")
    print(f"all: {summary(every)}", file=sys.stderr)
    print(f"\nstatic const cpu_gemm_owns {name}_owns[2][3] = {{\n    {{ {', '.join(functions[:3])} }},")
    print(f"    {{ {', '.join(functions[3:])} }},\n}};")
    return 0


def main(arguments):
    fit, ways, least = fit_own, 2, LEAST_SHAPES
    more = {}
    if arguments[:1] == ["--leaf"] and arguments[1:] and arguments[1].isdecimal():
        least, arguments = int(arguments[1]), arguments[2:]
    if arguments[:1] == ["--refine"] and arguments[1:]:
        try:
            with open(arguments[1], encoding="utf-8") as table:
                more = {"earlier": table.read()}
        except OSError as wrong:
            print(f"fit_gemm: {wrong}", file=sys.stderr)
            return 1
        arguments = arguments[2:]
    elif arguments[:1] == ["--routes"]:
        fit, ways, arguments = fit_routes, len(ROUTES), arguments[1:]
    files = arguments[1:]
    if not files or len(files) % ways != 0 or least < 1 or not re.fullmatch(r"[a-z0-9]+", arguments[0]):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        return fit(arguments[0], files, least, **more)
    except ValueError as wrong:
        print(f"fit_gemm: {wrong}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
