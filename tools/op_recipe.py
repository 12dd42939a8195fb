"""Recipes of tests/recipe/: what an op of each kind adds to the sources, by CONTRIBUTING.md's "Add an op".

A recipe is a text in pieces, each headed by the file that it goes to and the place there:

    @@ core/ops.def after `OP(mish,`        behind the one line that begins so
    @@ tests/golden/make_unary.py before `golden.write(`
    @@ core/ops/product.c after end
    @@ core/ops/trace.c new
    @@ without it linking tern says `cpu_trace`  who notices that the file was left out, and in which words

golden.recipe holds what PyTorch writes for the ops of the others: no place that anybody edits.
"""

import fnmatch
import glob
import os
import re
from collections import namedtuple

import checks

FOLDER = "tests/recipe"
MADE = "golden"
Recipe = namedtuple("Recipe", "op kind pieces")
Piece = namedtuple("Piece", "op path where anchor notice text")
# who: compiling, linking, building or a test; what: a source, target or test; says: words of it
Notice = namedtuple("Notice", "who what says")

_HEAD = re.compile(r"^@@ (\S+) (after|before|new)(?: (end|`(.*)`))?$")
_NOTICE = re.compile(r"^@@ without it (?:(compiling|linking|building) ?)?(\S*) ?says `(.*)`$")
_ROW = re.compile(r"^\| `([^`]+)`[^|]*\| *(\w+|-) *\| *(\w+|-) *\| *(\w+|-) *\|", flags=re.M)
_SUM = re.compile(r"^\| \*\*(places|lines)\*\* *\| *(\d+) *\| *(\d+) *\| *(\d+) *\|", flags=re.M)
KINDS = ("elementwise", "composed", "structured")


def _piece(op, block):
    lines = block.rstrip("\n").split("\n")
    head = _HEAD.match(lines[0])
    if head is None:
        raise ValueError(f"{FOLDER}: no head of a piece: {lines[0]}")
    notice = None
    if len(lines) > 1 and lines[1].startswith("@@ without"):
        match = _NOTICE.match(lines.pop(1))
        notice = Notice(match.group(1) or "running", match.group(2), match.group(3))
    text = "\n".join(lines[1:]) + "\n"
    return Piece(op, head.group(1), head.group(2), head.group(4) or head.group(3), notice, text)


def read():
    """Every recipe, and the pieces that PyTorch made."""
    recipes, made = [], []
    for path in sorted(glob.glob(os.path.join(checks.ROOT, FOLDER, "*.recipe"))):
        op = os.path.basename(path)[:-len(".recipe")]
        head, *blocks = re.split(r"^(?=@@ (?!without))", checks.read(path), flags=re.M)
        pieces = [_piece(op, block) for block in blocks]
        if op == MADE:
            made = [p._replace(op=_op_of(p.text)) for p in pieces]
        else:
            recipes.append(Recipe(op, re.search(r"^kind (\w+)$", head, flags=re.M).group(1), pieces))
    return sorted(recipes, key=lambda r: KINDS.index(r.kind)), made


def _op_of(text):
    """The op that made lines are of: their first word, or that of a case."""
    return re.match(r"\s*(?:case )?([a-z0-9]+)", text).group(1)


def inserted(text, piece):
    """The text with the piece in it; ValueError where its place is not to be found."""
    if piece.where == "new" or piece.anchor == "end":
        return (text or "") + piece.text
    lines = text.split("\n")
    found = [i for i, line in enumerate(lines) if line.startswith(piece.anchor)]
    if len(found) != 1:
        raise ValueError(f"{piece.path}: {len(found)} lines begin with `{piece.anchor}`, where the "
                         f"recipe of {piece.op} wants one")
    at = found[0] + (piece.where == "after")
    return "\n".join(lines[:at] + piece.text.rstrip("\n").split("\n") + lines[at:])


def applied(originals, pieces):
    """{path: text} of every file that the pieces touch; originals: {path: text, or None where it is new}."""
    texts = {}
    for piece in pieces:
        text = texts.get(piece.path, originals[piece.path])
        if (text is None) != (piece.where == "new"):
            raise ValueError(f"{piece.path}: the recipe of {piece.op} wants it "
                             f"{'new' if piece.where == 'new' else 'to be there'}")
        texts[piece.path] = inserted(text, piece)
    return texts


def costs():
    """What CONTRIBUTING.md says: ({file pattern: {kind: insertions}}, {"places": {kind: n}, "lines": ...})."""
    text = checks.read("CONTRIBUTING.md")
    rows = {m.group(1): {kind: _number(m.group(i + 2)) for i, kind in enumerate(KINDS)}
            for m in _ROW.finditer(text)}
    sums = {m.group(1): {kind: int(m.group(i + 2)) for i, kind in enumerate(KINDS)}
            for m in _SUM.finditer(text)}
    return rows, sums


def _number(cell):
    return int(cell) if cell.isdigit() else {"-": 0, "new": 1}[cell]


def over_budget(recipe):
    """What the recipe touches beyond what CONTRIBUTING.md says, as sentences; and its places and lines."""
    rows, sums = costs()
    wrong, counts = [], {row: 0 for row in rows}
    for piece in recipe.pieces:
        row = next((r for r in rows if fnmatch.fnmatch(piece.path, r)), None)
        if row is None:
            wrong.append(f"{recipe.op} touches {piece.path}, which is in no row of CONTRIBUTING.md")
        else:
            counts[row] += 1
    for row, said in rows.items():
        if counts[row] != said[recipe.kind]:
            wrong.append(f"{recipe.op}: {counts[row]} insertions in {row}, CONTRIBUTING.md says "
                         f"{said[recipe.kind]} for an op that is {recipe.kind}")
    places = len({p.path for p in recipe.pieces})
    lines = sum(p.text.count("\n") for p in recipe.pieces)
    for what, number in (("places", places), ("lines", lines)):
        if what not in sums or number > sums[what][recipe.kind]:
            wrong.append(f"{recipe.op}: {number} {what}, more than CONTRIBUTING.md says")
    return wrong, places, lines
