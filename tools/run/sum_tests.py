#!/usr/bin/env python3
"""Adds up test results.

A cmocka program counts each of its test functions, any other test counts once. A program that ends
badly counts at least one failure, whatever it printed before. A test that is skipped prints
"skipped: REASON" before, and is named with it. The last line is "N passed, N failed,
N skipped"; with --show, for one preset, it reads otherwise, so that only the total has this form,
and the output of a failed run comes before it.
"""

import argparse
import os
import re
import sys
import xml.etree.ElementTree as ElementTree

CASE = re.compile(r"^\[\s*(OK|FAILED|SKIPPED)\s*\] (?!\d+ test\(s\))(\S+)", re.MULTILINE)
REASON = re.compile(r"^skipped: (.*)$", re.MULTILINE)


def reason_of(text):
    """What a program said last of all the reasons in its output up to here."""
    reasons = REASON.findall(text)
    return reasons[-1] if reasons else "no reason given"


def skipped_tests(text):
    """Test functions that were skipped, each with the reason that it gave since the one before it ended."""
    reasons, begin = {}, 0
    for match in CASE.finditer(text):
        if match.group(1) == "SKIPPED":
            reasons.setdefault(match.group(2), reason_of(text[begin : match.start()]))
        begin = match.end()
    return [f"{test} ({reasons[test]})" for test in sorted(reasons)]


def count_program(case):
    """(passed, failed, skipped) of one CTest entry, and the names of what failed or was skipped."""
    name = case.get("name")
    output = case.find("system-out")
    text = "".join(output.itertext()) if output is not None else ""
    seen = {"OK": set(), "FAILED": set(), "SKIPPED": set()}
    for verdict, test in CASE.findall(text):
        seen[verdict].add(test)
    broken = case.find("failure") is not None or case.get("status") == "fail"
    skip = case.find("skipped")
    if case.get("status") == "disabled" or (skip is not None and "SKIP" in skip.get("message", "")):
        return (0, 0, 1), [], [f"{name} ({reason_of(text)})"]
    if skip is not None:
        return (0, 1, 0), [f"{name}: {skip.get('message')}"], []
    counts = [len(seen["OK"] - seen["FAILED"]), len(seen["FAILED"]), len(seen["SKIPPED"])]
    failures = [f"{name}: {test}" for test in sorted(seen["FAILED"])]
    if broken and not counts[1]:
        counts[1] = 1
        failures.append(name)
    if sum(counts) == 0:
        counts[0] = 1
    return tuple(counts), failures, [f"{name}: {test}" for test in skipped_tests(text)]


def count_file(path):
    totals, failures, skips = [0, 0, 0], [], []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        counts, failed, skipped = count_program(case)
        totals = [a + b for a, b in zip(totals, counts)]
        failures += failed
        skips += skipped
    return totals, failures, skips


def show_output(log, failures):
    """The output of ctest, but only when something failed."""
    if failures:
        with open(log, encoding="utf-8", errors="replace") as stream:
            sys.stdout.write(stream.read())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--extra-passed", type=int, default=0)
    parser.add_argument("--extra-failed", type=int, default=0)
    parser.add_argument("--show", metavar="LOG")
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    totals = [arguments.extra_passed, arguments.extra_failed, 0]
    failures, skips = [], []
    for path in filter(os.path.exists, arguments.files):
        counts, failed, skipped = count_file(path)
        totals = [a + b for a, b in zip(totals, counts)]
        failures += [f"{path}: {name}" for name in failed]
        skips += [f"{path}: {name}" for name in skipped]
    for name in failures:
        print(f"FAILED   {name}")
    if arguments.show:
        for name in skips:
            print(f"skipped  {name}")
        show_output(arguments.show, failures)
        print(f"passed {totals[0]}, failed {totals[1]}, skipped {totals[2]}")
    else:
        print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    return 1 if totals[1] else 0


if __name__ == "__main__":
    sys.exit(main())
