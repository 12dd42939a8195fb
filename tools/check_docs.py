#!/usr/bin/env python3
"""Fails on what a document names and the tree does not have, and on variables and keys that no document names.

Looked up are links to files and to headings; files and folders in backticks; commands of ./run and of tern, presets and
targets of bench; names of the API (tern_x) and variables (TERN_X). The generated docs/ops.md is left out. A name with a
gap in it (<op>, NAME, *, ...) is a pattern and looked up as one. Files are meant from the root, from the document's
folder, or from the folder that it is about: `lanes.h` is found anywhere below one that has it.

The other way round, each variable TERN_X that the library, a command, an example or a script of ./run reads is in the
page of environment variables, and each key of the examples' --json in theirs.
"""

import fnmatch
import os
import re
import sys

import checks

GENERATED = {"docs/ops.md"}
FILE = re.compile(r"^[\w<>*.\-/]+\.(?:c|h|cu|cuh|inc|def|py|sh|md|txt|tsv|cmake|js|json)$|^[\w<>*\-]+/[\w<>*.\-/]*$")
# What a build, an installation or a call makes, and headers of other libraries.
OUTSIDE = re.compile(r"^(?:build|shared|share|lib\w*|OUT)/|^(?:cudnn|cuda\w*|cublas\w*|nvml)\.h$")
HEADING = re.compile(r"^#+ +(.*?)\s*$", re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)

# Where what is read from the environment and written as JSON is documented; whose variables are nobody's but their own.
ENVIRONMENT_PAGE = "docs/guide/environment.md"
RESULTS_PAGE, RESULTS_SOURCE = "docs/guide/examples.md", "examples/common/results.c"
OWN_VARIABLES = ("tests/", "bench/")
# In C a name may also reach getenv through a table, so all of a file that calls it count.
VARIABLE = {".c": r'"(TERN_[A-Z_]*[A-Z])"', ".sh": r"\$\{(TERN_[A-Z_]*[A-Z])[:=?+}-]",
            ".py": r"""environ(?:\.get\(|\[)["'](TERN_[A-Z_]*[A-Z])["']"""}


FILES = checks.tracked()
FOLDERS = {f[:i] for f in FILES for i in range(len(f)) if f[i] == "/"}
SOURCES = "\n".join(checks.read(f) for f in FILES
                    if f.endswith((".c", ".h", ".cu", ".cuh", ".inc", ".def", ".py", ".sh", ".cmake", ".txt", ".in", ".js"))
                    or f == "run")
WORDS = set(re.findall(r"\w+", SOURCES))


def anchor(heading):
    kept = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
    return kept.replace(" ", "-")


def is_there(name, document):
    """A file or folder, from the root, the document's folder or any folder's end; or a test of ctest."""
    name = os.path.normpath(re.sub(r"<[^>]*>", "*", name))
    beside = os.path.normpath(os.path.join(os.path.dirname(document), name))
    suite = re.sub(r"_simulated(_two)?$|_without_\w+$", "", name)
    ctest = "tests/{}/test_{}.*".format(*os.path.split(suite))
    if f"add_test(NAME {suite} " in SOURCES:
        return True
    candidates = (name, beside, "*/" + name, ctest)
    if any(c in FOLDERS or c in FILES for c in candidates[:2]):
        return True
    return any(fnmatch.fnmatch(f, c) for c in candidates for f in [*FILES, *FOLDERS])


def wrong_links(document, text):
    for target in LINK.findall(text):
        path, _, place = target.partition("#")
        if "://" in target:
            continue
        file = os.path.normpath(os.path.join(os.path.dirname(document), path)) if path else document
        if file not in FILES and file not in FOLDERS:
            yield f"links to {target}, which is not there"
        elif place and place not in map(anchor, HEADING.findall(checks.read(file))):
            yield f"links to {target}: there is no such heading"


def run_commands():
    return set(re.findall(r"^([a-z-]+)(?: \|[^)\n]*)?\)", checks.read("run"), re.MULTILINE))


def presets():
    return set(re.findall(r'"name": "([a-z-]+)"', checks.read("CMakePresets.json")))


def tern_commands():
    return set(re.findall(r"usage: tern ([a-z-]+)", SOURCES))


def wrong_commands(code):
    run = re.match(r"\./run ([a-z-]+)(?: ([a-z-]+))?", code)
    if run and run[1] not in run_commands():
        yield f"`{code}`: ./run has no such command"
    if run and run[1] == "build" and run[2] and run[2] not in presets():
        yield f"`{code}`: there is no such preset"
    tern = re.match(r"tern ([a-z-]+)(?!.*:)", code)
    if tern and tern[1] not in tern_commands():
        yield f"`{code}`: tern has no such command"


def wrong_names(code):
    for name in re.findall(r"(?<![\w.<])(?:tern_|TERN_)\w+(?![\w*<])", code):
        simulated = name.removeprefix("TERN_SIM_")
        if name not in WORDS and not name.endswith("_") and f'"{simulated}"' not in SOURCES:
            yield f"`{code}`: nothing is called {name}"


def wrong_in(document):
    text = checks.read(document)
    yield from wrong_links(document, BLOCK.sub("", text))
    for block in BLOCK.findall(text):
        for line in block.splitlines():
            command = re.sub(r"^(?:[A-Z_]+=\S+ +)*", "", line.strip())
            yield from wrong_commands(command)
            yield from wrong_names(line)
    for code in CODE.findall(BLOCK.sub("", text)):
        yield from wrong_commands(code)
        yield from wrong_names(code)
        if FILE.match(code) and not OUTSIDE.match(code) and not is_there(code, document):
            yield f"`{code}` is no file or folder here"


def variables_of(file):
    """The variables TERN_X that a source asks the environment for."""
    kind = ".sh" if file == "run" else os.path.splitext(file)[1]
    kind = ".c" if kind in (".h", ".inc", ".cu", ".cuh") else kind
    if file.startswith(OWN_VARIABLES) or kind not in VARIABLE:
        return set()
    text = checks.read(file)
    return set() if kind == ".c" and "getenv(" not in text else set(re.findall(VARIABLE[kind], text))


def unnamed_variables():
    page = checks.read(ENVIRONMENT_PAGE) if ENVIRONMENT_PAGE in FILES else ""
    named = set(re.findall(r"`(TERN_\w*)", page))
    families = tuple(name for name in named if name.endswith("_"))  # `TERN_GPU_*`
    for file in FILES:
        for name in sorted(variables_of(file)):
            if name not in named and not name.startswith(families):
                yield f"{file}: reads {name}, which {ENVIRONMENT_PAGE} does not name: add its row there"


def unnamed_keys():
    page = checks.read(RESULTS_PAGE) if RESULTS_PAGE in FILES else ""
    source = checks.read(RESULTS_SOURCE) if RESULTS_SOURCE in FILES else ""
    for call in re.findall(r"cJSON_Add\w+\(.*?\);", source, re.DOTALL):
        for key in re.findall(r'"(\w+)"', call):
            if not re.search(rf"`(?:\w+\[\]\.)?{key}`", page):
                yield f"{RESULTS_SOURCE}: writes the key {key}, which {RESULTS_PAGE} does not name: add its row there"


def main():
    bad = 0
    for complaint in [*unnamed_variables(), *unnamed_keys()]:
        print(complaint)
        bad += 1
    for document in sorted(f for f in FILES if f.endswith(".md") and f not in GENERATED):
        for complaint in wrong_in(document):
            print(f"{document}: {complaint}")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
