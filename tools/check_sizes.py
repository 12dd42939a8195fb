#!/usr/bin/env python3
"""Reports how long files and functions are; fails over 800 lines for a file or 120 for a function.

The aims are softer: nine functions in ten under 40 lines, files under 500. Both are printed.
"""

import sys

import checks

FILE_AIM, FILE_LIMIT = 500, 800
FUNCTION_AIM, FUNCTION_LIMIT = 40, 120


def functions(text):
    """(first line, lines) of each function, from the brace at the margin to the closing one."""
    found, start = [], None
    lines = checks.without_noise(text).split("\n")
    previous = ""
    for number, line in enumerate(lines, 1):
        if line.startswith("{") and previous.rstrip().endswith(")"):
            start = number
        elif line.startswith("}") and start is not None:
            found.append((start, number - start + 1))
            start = None
        if line.strip():
            previous = line
    return found


def main():
    bad, lengths, long_files = 0, [], 0
    for path in checks.sources():
        text = checks.read(path)
        size = text.count("\n")
        if size > FILE_LIMIT:
            print(f"{path}: {size} lines, the limit is {FILE_LIMIT}")
            bad += 1
        long_files += size > FILE_AIM
        for line, length in functions(text):
            lengths.append(length)
            if length > FUNCTION_LIMIT:
                print(f"{path}:{line}: a function of {length} lines, the limit is {FUNCTION_LIMIT}")
                bad += 1
    if lengths:
        short = sum(length < FUNCTION_AIM for length in lengths)
        share = 100 * short / len(lengths)
        print(f"sizes: {len(lengths)} functions, {share:.1f} % under {FUNCTION_AIM} lines, "
              f"the longest {max(lengths)}; {long_files} files over {FILE_AIM} lines")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
