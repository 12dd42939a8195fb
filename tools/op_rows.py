"""Reads the rows of core/ops.def."""

import re
from collections import namedtuple

import checks

PATH = "core/ops.def"
Row = namedtuple("Row", "kind name members group line")

_ROW = re.compile(r"^(OP|VIEW|COMPOSED)\(\s*(\w+)\s*")
_GROUP = re.compile(r"^/\*\s*-{2,}\s*(.*?)\s*-{2,}")
_MEMBER = re.compile(r"\.(\w+)\s*=\s*")


def _members(text):
    """{'inputs': '2', ...} from the designated initialisers of one row."""
    starts = list(_MEMBER.finditer(text))
    ends = [start.start() for start in starts[1:]] + [len(text)]
    return {start.group(1): text[start.end():end].strip().rstrip(",").strip()
            for start, end in zip(starts, ends)}


def _row_text(lines, index):
    """The text between a row's parentheses, which may go on over several lines."""
    text, depth = "", 0
    for line in lines[index:]:
        for character in line:
            depth += {"(": 1, ")": -1}.get(character, 0)
            if depth == 0 and character == ")":
                return text[text.index("(") + 1:]
            text += character
        text += " "
    raise ValueError(f"{PATH}:{index + 1}: a row without its closing parenthesis")


def rows():
    """Every row, in order."""
    found, group = [], ""
    lines = checks.read(PATH).split("\n")
    for index, line in enumerate(lines):
        if _GROUP.match(line):
            group = _GROUP.match(line).group(1)
        match = _ROW.match(line)
        if match:
            members = _members(_row_text(lines, index))
            found.append(Row(match.group(1), match.group(2), members, group, index + 1))
    return found
