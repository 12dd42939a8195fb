#!/usr/bin/env python3
"""bench/peers/compare.py, with programs that only print: times and bytes become rows of tables."""

import contextlib
import io
import json
import os
import sys
import tempfile
import types
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench/peers"))

import compare  # noqa: E402
import mnist  # noqa: E402


def printed(text):
    """What compare reads of a program that prints `text`, and what it complains of."""
    complaints = io.StringIO()
    with contextlib.redirect_stderr(complaints):
        lines = compare.lines_of([sys.executable, "-c", f"print({text!r})"], 1)
    return lines, complaints.getvalue()


class Lines(unittest.TestCase):
    def test_times_and_bytes_are_read(self):
        for unit in ("us", "kib"):
            line = {"work": "a", "threads": 1, "variant": "tern", unit: 2.5}
            lines, complaints = printed(json.dumps(line))
            self.assertEqual((lines, complaints), ([line], ""))
            self.assertEqual(compare.quantity(line), 2.5)

    def test_other_lines_are_named(self):
        for text in ("warming up", json.dumps({"work": "a", "variant": "tern"}), "3"):
            lines, complaints = printed(text)
            self.assertEqual(lines, [])
            self.assertIn(f"not a measurement: {text}", complaints)


class Tables(unittest.TestCase):
    def test_a_ratio_is_of_the_fastest_variant(self):
        rounds = [{"tern": 2.0, "torch eager": 6.0, "torch compile": 5.0},
                  {"tern": 2.0, "torch eager": 4.0, "torch compile": 5.0}]
        row = compare.row("steps", "mlp", 2, rounds)
        self.assertEqual((row["unit"], row["ratio"], row["low"], row["high"]), ("us", 2.25, 2.0, 2.5))

    def test_memory_counts_the_buffers_of_mkl_apart(self):
        rounds = [{"tern": 100.0, "torch eager": 120.0, "torch mkl": 30.0}]
        row = compare.row("memory", "mlp", 1, rounds)
        self.assertEqual((row["unit"], row["ratio"], row["of_limit"]), ("KiB", 1.2, 1.5))
        self.assertIn("| mlp | 1 | 100 | 120 (eager) | **1.20** |", "\n".join(compare.table([row], "KiB")))


# Stands in for an example and for torch_mnist.py: prints or writes what its options say.
PROGRAM = """#!{python}
import json, sys
words = [word for word in sys.argv[1:] if word != "--quiet"]
given = dict(zip(words[::2], words[1::2]))
seed = int(given["--seed"])
if given["--data"] == "nowhere":
    sys.exit(1)
if "--json" in given:
    epochs = [dict(loss=1.0 / (seed + e), train_seconds=2.0, samples_per_second=1.0) for e in range(2)]
    open(given["--json"], "w").write(json.dumps(dict(epochs=epochs, test_accuracy=0.9 + seed / 100)))
else:
    print("a warning")
    print(json.dumps(dict(losses=[1.0, 0.5], seconds=[4.0 * seed, 4.0 * seed], test_accuracy=0.8)))
"""


class Mnist(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        os.mkdir(os.path.join(self.folder.name, "examples"))
        for name in ("examples/cnn_mnist", "torch_mnist.py"):
            path = os.path.join(self.folder.name, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(PROGRAM.format(python=sys.executable))
            os.chmod(path, 0o755)
        self.addCleanup(setattr, mnist, "HERE", mnist.HERE)
        mnist.HERE = self.folder.name

    def measured(self, data):
        args = types.SimpleNamespace(bench=os.path.join(self.folder.name, "bench"), data=data, epochs=None,
                                     steps=None, seeds=3, threads="2", works=["cnn"])
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            return mnist.measure(args)

    def test_both_sides_are_run_with_each_seed(self):
        [row] = self.measured("here")
        self.assertEqual((row["work"], row["threads"], row["epochs"], row["seeds"]), ("cnn_mnist", 2, 3, 3))
        self.assertAlmostEqual(row["tern"]["accuracy"]["mean"], 0.92)
        self.assertEqual(row["tern"]["loss"]["low"], 0.25)  # the last epoch's
        self.assertEqual((row["ratio"], row["low"], row["high"]), (4.0, 2.0, 6.0))
        text = "\n".join(mnist.table([row]))
        self.assertIn("| cnn_mnist --epochs 3 | 2 | 3 | 92.00 % (91.00 to 93.00) | 80.00 % (80.00 to 80.00) ", text)
        self.assertIn("| 0.5000 (0.5000 to 0.5000) | 4 | 16 | **4.00** | 2.00 to 6.00 |", text)

    def test_what_fails_has_no_row(self):
        self.assertEqual(self.measured("nowhere"), [])

    def test_it_wants_the_files_and_to_be_alone(self):
        for options in (["--programs", "mnist"], ["--programs", "mnist,ops", "--data", "here"]):
            with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
                sys.argv = ["compare.py", *options]
                compare.arguments()
            self.assertIn("mnist", said.getvalue())


if __name__ == "__main__":
    unittest.main()
