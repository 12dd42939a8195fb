#!/usr/bin/env python3
"""Adds an op of each kind by the recipes of tests/recipe/ to a copy of the sources: counts the places that
they touch against CONTRIBUTING.md, builds, runs the ops' tests on the CPU and on simulated devices, and
leaves out each file once to see that compiler, linker, lint or test names it. Then the copy is removed.

usage: try_recipe.py [--jobs N]         all of it; called by ./run test full
       try_recipe.py --check            places are found and counted, nothing is built; called by ./run lint
       try_recipe.py --golden PYTHON    makes tests/recipe/golden.recipe with that Python's PyTorch
"""

import argparse
import difflib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import checks
import op_recipe

# beside the programs of tests that a recipe names
TARGETS = ["test_ops_conformance", "test_ops_dtypes", "bench_table"]
LINTS = (["tools/check_ops.py"], ["tools/gen_ops.py", "--check"], ["tools/check_layers.py"],
         ["tools/check_sizes.py"], ["tools/check_headers.py"], ["tools/check_format.py"])
# what the tools write, and who notices that it is not current
GENERATED = {"docs/ops.md": "docs/ops.md is not current",
             "core/op_table.h": "core/op_table.h is not current"}


class Copy:
    """The sources, as they are now, in a folder of their own."""

    def __init__(self, root):
        self.root = root
        self.originals = {}
        for path in checks.tracked():
            os.makedirs(os.path.dirname(self.path(path)), exist_ok=True)
            shutil.copy2(os.path.join(checks.ROOT, path), self.path(path))

    def path(self, name):
        return os.path.join(self.root, name)

    def has(self, pieces):
        """Every file with these pieces of the recipes and no others; untouched files keep their times."""
        for piece in pieces:
            if piece.path not in self.originals:
                self.originals[piece.path] = read_or_none(self.path(piece.path))
        texts = op_recipe.applied(self.originals, pieces)
        for path, original in self.originals.items():
            text = texts.get(path, original)
            if text == read_or_none(self.path(path)):
                continue
            if text is None:
                os.remove(self.path(path))
                continue
            with open(self.path(path), "w", encoding="utf-8") as stream:
                stream.write(text)

    def run(self, command, **environment):
        """(whether it ended well, what it printed)"""
        done = subprocess.run(command, cwd=self.root, text=True, errors="replace",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=dict(os.environ, **environment))
        return done.returncode == 0, done.stdout


def read_or_none(path):
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as stream:
        return stream.read()


def made_by(script):
    """tests/golden/make_x.py writes tests/golden/x.txt."""
    return script.replace("/make_", "/").replace(".py", ".txt")


class Trial:
    """One run: what was found, line by line."""

    def __init__(self, copy, recipes, made, jobs):
        self.copy, self.recipes, self.jobs = copy, recipes, jobs
        self.pieces = [p for r in recipes for p in r.pieces] + made
        self.wrong = 0

    def say(self, good, what, output=""):
        self.wrong += not good
        print(f"{'ok      ' if good else 'WRONG   '}{what}", flush=True)
        if not good:
            print("\n".join(line[:200] for line in output.splitlines()[-40:]), flush=True)
        return good

    def expect_success(self, what, command, **environment):
        good, output = self.copy.run(command, **environment)
        return self.say(good, what, output)

    def expect_notice(self, piece, who, command):
        good, output = self.copy.run(command)
        named = next((line for line in output.splitlines() if piece.notice.says in line), None)
        words = (named or piece.notice.says).replace(self.copy.root + "/", "").strip()
        self.say(not good and named is not None,
                 f"{piece.op} without {piece.path}: {who} says \"{words}\"", output)

    # ---- pieces that are left out

    def noticed(self, who):
        """The pieces at which a recipe says that this one notices their file's absence."""
        return [p for p in self.pieces if p.notice is not None and p.notice.who == who]

    def without(self, piece):
        """All but what the piece's op has in its file; what a script has not made is not there, either."""
        made = made_by(piece.path)
        return [p for p in self.pieces if p.op != piece.op or p.path not in (piece.path, made)]

    # ---- steps

    def lint(self):
        self.copy.has(self.pieces)
        for path, words in GENERATED.items():
            good, output = self.copy.run([sys.executable, "tools/gen_ops.py", "--check"])
            self.say(not good and words in output, f"before gen_ops.py: lint says \"{words}\"", output)
        self.expect_success("gen_ops.py", [sys.executable, "tools/gen_ops.py"])
        for command in LINTS:
            self.expect_success(" ".join(command), [sys.executable] + command)
        self.expect_success("check_device.sh",
                            ["sh", "tools/cuda/check_device.sh"] +
                            [p.path for p in self.pieces if p.path.endswith(".cu")])
        for piece in self.noticed("running"):
            if piece.notice.what.endswith(".py"):
                self.copy.has(self.without(piece))
                self.expect_notice(piece, "lint", [sys.executable, piece.notice.what])

    def configure(self):
        self.copy.has(self.pieces)
        return self.expect_success("configure", ["cmake", "--preset", "release", "-DTERN_EXAMPLES=OFF",
                                                 "-DTERN_CUDA=OFF", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"])

    def compile_without(self):
        with open(self.copy.path("build/release/compile_commands.json"), encoding="utf-8") as stream:
            commands = {os.path.relpath(c["file"], self.copy.root): c for c in json.load(stream)}
        for piece in self.noticed("compiling"):
            self.copy.has(self.without(piece))
            command = shlex.split(commands[piece.notice.what]["command"])
            at = command.index("-o")
            self.expect_notice(piece, "the compiler",
                               command[:at] + command[at + 2:] + ["-fsyntax-only"])

    def build(self, *targets):
        return ["cmake", "--build", "build/release", "-j", str(self.jobs), "--target", *targets]

    def link_without(self):
        """All that one library misses at once: the linker names each. libtern comes behind libtern_sim."""
        for target in ("tern_sim", "tern"):
            left_out = [p for p in self.noticed("linking") if p.notice.what == target]
            gone = {(p.op, p.path) for p in left_out}
            self.copy.has([p for p in self.pieces if (p.op, p.path) not in gone])
            good, output = self.copy.run(self.build(target))
            for piece in left_out:
                named = re.search(rf"undefined (?:reference|symbol).*\b{piece.notice.says}\b", output)
                words = named.group() if named else piece.notice.says
                self.say(not good and named is not None,
                         f"{piece.op} without {piece.path}: the linker says \"{words}\"", output)

    def programs(self):
        return sorted({p.notice.what for p in self.noticed("running")
                       if not p.notice.what.endswith(".py")})

    def test(self):
        self.copy.has(self.pieces)
        programs = self.programs()
        targets = TARGETS + ["test_" + name.replace("/", "_") for name in programs]
        if not self.expect_success("build", self.build(*targets)):
            return False
        ctest = ["ctest", "--test-dir", "build/release", "--output-on-failure", "-j", str(self.jobs),
                 "--no-tests=error", "-R"]
        for recipe in self.recipes:
            self.expect_success(f"{recipe.op}: conformance and gradients, CPU and simulated devices",
                                ctest + ["^ops/conformance(_simulated(_two)?)?$"], TERN_TEST_OP=recipe.op)
        for name in ["ops/dtypes"] + programs:
            self.expect_success(f"{name}, CPU and simulated devices",
                                ctest + [f"^{name}(_simulated(_two)?)?$"])
        timed = [f"{r.op}/small" for r in self.recipes if r.kind != "composed"]
        return self.expect_success("bench_table " + " ".join(timed),
                                   ["build/release/bench/bench_table"] + timed)

    def run_without(self):
        for piece in self.noticed("building"):
            self.copy.has(self.without(piece))
            self.expect_notice(piece, "the build", self.build(piece.notice.what))
        for piece in self.noticed("running"):
            if piece.notice.what not in self.programs():
                continue
            self.copy.has(self.without(piece))
            program = "test_" + piece.notice.what.replace("/", "_")
            test = f"ctest --test-dir build/release --output-on-failure -R '^{piece.notice.what}$'"
            build = " ".join(self.build(program))
            self.expect_notice(piece, piece.notice.what, ["sh", "-c", f"{build} >&2 && {test}"])
        for piece in [p for p in self.pieces if p.path == "tests/golden/dtypes.txt"]:
            self.copy.has(self.without(piece))
            words = f"{piece.op} is not in the table"
            piece = piece._replace(notice=op_recipe.Notice("running", "ops/dtypes", words))
            self.expect_notice(piece, "ops/dtypes", ["ctest", "--test-dir", "build/release",
                                                     "--output-on-failure", "-R", "^ops/dtypes$"])


def check(recipes, made):
    """Counts, and whether every piece finds its place."""
    wrong = []
    for recipe in recipes:
        over, places, lines = op_recipe.over_budget(recipe)
        wrong += over
        print(f"recipe: {recipe.kind} {recipe.op}: {places} places, {lines} lines")
    pieces = [p for r in recipes for p in r.pieces] + made
    originals = {p.path: read_or_none(os.path.join(checks.ROOT, p.path)) for p in pieces}
    for recipe in recipes:
        try:
            op_recipe.applied(originals, recipe.pieces + [p for p in made if p.op == recipe.op])
        except ValueError as error:
            wrong.append(str(error))
    print("\n".join(wrong), end="\n" if wrong else "")
    return not wrong


def made_pieces(before, after, path):
    """The lines that are in `after` alone, as pieces of golden.recipe."""
    old, new = before.splitlines(), after.splitlines()
    text = ""
    for tag, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        if tag != "insert":
            raise ValueError(f"{path}: PyTorch writes other lines than those there: run its script first")
        place = "end" if i == len(old) else "`" + re.match(r"\S+ ?", old[i - 1]).group() + "`"
        text += f"@@ {path} after {place}\n" + "\n".join(new[k:m]) + "\n\n"
    return text


def make_golden(python, recipes):
    """Runs the generators that recipes extend, and those that read the op table, in a copy."""
    with tempfile.TemporaryDirectory(prefix="tern-recipe-") as folder:
        copy = Copy(folder)
        copy.has([p for r in recipes for p in r.pieces])
        scripts = {p.path for r in recipes for p in r.pieces if "/make_" in p.path}
        text = "# What PyTorch writes for the ops of these recipes; made by tools/try_recipe.py --golden.\n\n"
        for script in sorted(scripts | {"tests/golden/make_dtypes.py"}):
            path = made_by(script)
            before = read_or_none(copy.path(path))
            good, output = copy.run([python, script])
            if not good:
                sys.exit(output)
            text += made_pieces(before, read_or_none(copy.path(path)), path)
    path = os.path.join(checks.ROOT, op_recipe.FOLDER, op_recipe.MADE + ".recipe")
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text.rstrip("\n") + "\n")
    print(f"written {path}")


def try_all(recipes, made, jobs):
    with tempfile.TemporaryDirectory(prefix="tern-recipe-") as folder:
        # two trials of the same sources, in folders of other names, share what ccache holds
        os.environ.update(CCACHE_BASEDIR=folder, CCACHE_NOHASHDIR="1")
        trial = Trial(Copy(folder), recipes, made, jobs)
        trial.lint()
        if trial.configure():
            trial.compile_without()
            trial.link_without()
            if trial.test():
                trial.run_without()
    print(f"recipe: {trial.wrong} wrong")
    return trial.wrong == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--golden", metavar="PYTHON")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    recipes, made = op_recipe.read()
    if arguments.golden:
        make_golden(arguments.golden, recipes)
        return 0
    if not check(recipes, made):
        return 1
    return 0 if arguments.check or try_all(recipes, made, arguments.jobs) else 1


if __name__ == "__main__":
    sys.exit(main())
