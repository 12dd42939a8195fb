#!/usr/bin/env python3
"""What ./run gpu-check found, as report.json and report.md in its folder.

usage: gpu_report.py OUT

The exit status is 1 when a stage did not come to its end or a suite failed."""
import json
import pathlib
import re
import sys

STAGES = ("build", "machine", "suites", "ops", "sequences", "table", "sanitizer", "compiled")
# goals of the project: share of the device's own copy bandwidth, and of PyTorch's speed
COPY_SHARE = 0.85
OF_BANDWIDTH = ("add", "relu", "gelu", "sum", "sum_rows", "softmax", "layer_norm", "cross_entropy")
SIMULATED = re.compile(r"^ *simulated +yes$", re.M)  # `tern env` says so of each device
SLOW = 0.9  # of PyTorch's speed: these are named first


def text(path):
    """The file's; places in the checkout are told from there, since a report is for others."""
    here = str(pathlib.Path.cwd())
    return path.read_text(errors="replace").replace(here + "/", "").replace(here, ".") if path.exists() else ""


def lines_of(paths):
    """JSON lines; a program that was cut may have left half of one."""
    for path in paths:
        for line in text(path).splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue


def fastest(paths):
    """{work: {variant: line of the fastest round}}, and the lines that are errors."""
    works, errors = {}, []
    for row in lines_of(paths):
        if "us" not in row:
            errors.append(row)
            continue
        old = works.setdefault(row["work"], {}).get(row["variant"])
        if old is None or row["us"] < old["us"]:
            works[row["work"]][row["variant"]] = row
    return works, errors


def table_rows(out):
    """Ops of bench/table.def: tern's time, the limit's and PyTorch's; the slowest beside PyTorch first."""
    works, errors = fastest([out / "table-tern.out", out / "table-torch.out"])
    rows = []
    for work, variants in works.items():
        us = {name: row["us"] for name, row in variants.items()}
        if "tern" in us:
            rows.append({"work": work, "us": us["tern"], "torch_us": us.get("eager"),
                         "ratio": us["eager"] / us["tern"] if "eager" in us else None,
                         "of_limit": us["limit"] / us["tern"] if "limit" in us else None})
    return sorted(rows, key=lambda r: (r["ratio"] is None, r["ratio"])), errors


def collect(out):
    report = {"stages": {}, "suites": {}, "simulated": SIMULATED.search(text(out / "machine.log")) is not None}
    for stage in STAGES:
        status = text(out / f"{stage}.status").split()
        report["stages"][stage] = {"status": int(status[0]), "seconds": int(status[1])} if status else None
    for path in sorted(out.glob("suites/*.tsv")):
        name, status, seconds = text(path).rstrip("\n").split("\t")
        report["suites"][name] = {"status": int(status), "seconds": int(seconds)}
    report["ops"], report["errors"] = fastest(sorted(out.glob("ops-*.out")))
    report["table"], more = table_rows(out)
    report["errors"] += more
    for stage in ("sequences", "sanitizer", "machine"):
        report[stage] = text(out / f"{stage}.log").splitlines()
    report["budget"] = [line for line in text(out / "build.log").splitlines() if line.startswith("budget:")]
    return report


def rows_of(works):
    copy = works.get("copy", {}).get("tern", {}).get("gb_per_s", 0)
    for work, variants in works.items():
        tern = variants.get("tern")
        peers = [v for name, v in variants.items() if name.startswith("torch")]
        if tern is None:
            continue
        share = tern["gb_per_s"] / copy if copy and tern["gb_per_s"] else None
        ratio = min(p["us"] for p in peers) / tern["us"] if peers else None
        yield work, tern, share, ratio


def shown(value, form="{:.2f}"):
    return form.format(value) if value is not None else ""


def stage_lines(report):
    yield from ("| stage | result | seconds |", "|---|---|---|")
    for stage, result in report["stages"].items():
        said = "not run" if result is None else "done" if result["status"] == 0 else f"status {result['status']}"
        yield f"| {stage} | {said} | {result['seconds'] if result else ''} |"
    bad = [name for name, suite in report["suites"].items() if suite["status"] != 0]
    yield from ("", f"Suites on the device: {len(report['suites'])}, failed: {', '.join(bad) or 'none'}.", "")


def op_lines(report):
    yield "| work | us | GB/s | share of copy | TFLOP/s | speed against PyTorch's fastest |"
    yield "|---|---|---|---|---|---|"
    for work, tern, share, ratio in rows_of(report["ops"]):
        mark = " (below the goal)" if work in OF_BANDWIDTH and share is not None and share < COPY_SHARE else ""
        yield (f"| {work} | {tern['us']:.1f} | {shown(tern['gb_per_s'] or None, '{:.0f}')} | {shown(share)}{mark} | "
               f"{shown(tern['tflop_per_s'] or None, '{:.1f}')} | {shown(ratio)} |")


def table_lines(report):
    compared = [r for r in report["table"] if r["ratio"] is not None]
    slow = [r for r in compared if r["ratio"] < SLOW]
    yield from ("", "## Every op", "")
    yield (f"{len(report['table'])} rows of bench/table.def, {len(compared)} beside PyTorch's eager mode; below "
           f"{SLOW} of its speed: {len(slow)}.")
    yield from ("", "| op | us | of the limit | PyTorch us | speed against PyTorch |", "|---|---|---|---|---|")
    for r in report["table"]:
        yield (f"| {r['work']} | {r['us']:.1f} | {shown(r['of_limit'])} | {shown(r['torch_us'], '{:.1f}')} | "
               f"{shown(r['ratio'])} |")


def markdown(report):
    lines = ["# gpu-check", ""]
    if report["simulated"]:
        lines += ["**A rehearsal on a simulated device: its times say nothing about a GPU.**", ""]
    lines += [*stage_lines(report), *op_lines(report)]
    if report["errors"]:
        lines += ["", "## Works that failed", ""]
        lines += [f"- {row['work']} ({row['variant']}): {row.get('error', '')}" for row in report["errors"]]
    for title, name in (("compute-sanitizer", "sanitizer"), ("Allocators", "sequences"),
                        ("Registers", "budget"), ("Machine", "machine")):
        lines += ["", f"## {title}", "", "```", *(report[name] or ["nothing"]), "```"]
    lines += table_lines(report)
    return "\n".join(lines) + "\n"


def main(arguments):
    out = pathlib.Path(arguments[0])
    report = collect(out)
    (out / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    (out / "report.md").write_text(markdown(report))
    print("\n".join(stage_lines(report)))
    print(f"the whole report: {out / 'report.md'}")
    failed = [s for s, result in report["stages"].items() if result is None or result["status"] != 0]
    bad = [name for name, suite in report["suites"].items() if suite["status"] != 0]
    return 1 if failed or bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
