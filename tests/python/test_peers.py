#!/usr/bin/env python3
"""bench/peers/compare.py, with programs that only print: times and bytes become rows of tables."""

import contextlib
import io
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench/peers"))

import compare  # noqa: E402


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


if __name__ == "__main__":
    unittest.main()
