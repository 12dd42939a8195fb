"""What the checks of ./run lint share: the list of sources, C without comments and strings."""

import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ("include", "core", "autograd", "amp", "backend_cpu", "backend_cuda", "nn", "data", "io",
           "tools", "examples", "bench", "tests")
EXTENSIONS = (".c", ".h", ".cu", ".cuh")

_NOISE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def sources(folders=FOLDERS, extensions=EXTENSIONS):
    """Paths below the root, sorted, of every source in the folders."""
    found = []
    for folder in folders:
        for where, _, names in os.walk(os.path.join(ROOT, folder)):
            found += [os.path.relpath(os.path.join(where, name), ROOT)
                      for name in names if name.endswith(extensions)]
    return sorted(found)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as stream:
        return stream.read()


def without_noise(text):
    """Blanks comments and literals and keeps every line break, so that line numbers stay right."""
    return _NOISE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
