"""What the checks of ./run lint share: the lists of files and of sources, C without comments and strings."""

import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ("include", "core", "autograd", "amp", "backend_cpu", "backend_cuda", "nn", "data", "io",
           "tools", "examples", "bench", "tests")
EXTENSIONS = (".c", ".h", ".cu", ".cuh")

_NOISE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)

# What a checkout holds that is nobody's source (.gitignore).
_MADE = re.compile(r"^(?:build|data/mnist)$|(?:^|/)(?:__pycache__|\.cache|\.git)$")


def tracked():
    """Paths below the root of every file that is there and that git does not ignore. Without git, or where it does
    not read this folder (an archive, another owner's checkout): of all but what .gitignore names."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
        return [path for path in listed.stdout.split("\0") if os.path.isfile(os.path.join(ROOT, path))]
    except (OSError, subprocess.CalledProcessError):
        return sorted(_walked())


def _walked():
    for where, folders, names in os.walk(ROOT):
        here = os.path.relpath(where, ROOT)
        below = "" if here == "." else here + "/"
        folders[:] = [name for name in folders if not _MADE.search(below + name)]
        yield from (below + name for name in names if name != ".git" and not name.endswith(".pyc"))


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
