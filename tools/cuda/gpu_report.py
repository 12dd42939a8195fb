#!/usr/bin/env python3
"""What ./run gpu-check found, as report.json and report.md in its folder.

usage: gpu_report.py OUT

The exit status is 1 when a stage failed or a suite did."""
import json
import pathlib
import sys

STAGES = ("build", "machine", "suites", "sanitizer", "ops", "sequences")
# goals of the project: share of the device's own copy bandwidth, and of PyTorch's speed
COPY_SHARE = 0.85
OF_BANDWIDTH = ("add", "relu", "gelu", "sum", "sum_rows", "softmax", "layer_norm", "cross_entropy")


def text(path):
    return path.read_text(errors="replace") if path.exists() else ""


def fastest(out):
    """{work: {variant: line of the fastest round}}"""
    works = {}
    for line in text(out / "ops.jsonl").splitlines():
        row = json.loads(line)
        old = works.setdefault(row["work"], {}).get(row["variant"])
        if old is None or row["us"] < old["us"]:
            works[row["work"]][row["variant"]] = row
    return works


def collect(out):
    report = {"stages": {}, "suites": {}, "simulated": "simulated" in text(out / "machine.log")}
    for stage in STAGES:
        status = text(out / f"{stage}.status").split()
        report["stages"][stage] = {"status": int(status[0]), "seconds": int(status[1])} if status else None
    for line in text(out / "suites.tsv").splitlines():
        name, status, seconds = line.split("\t")
        report["suites"][name] = {"status": int(status), "seconds": int(seconds)}
    report["ops"] = fastest(out)
    report["sequences"] = text(out / "sequences.log").splitlines()
    report["sanitizer"] = [line for line in text(out / "sanitizer.log").splitlines()
                           if line.startswith(("==", "cannot")) and ("SUMMARY" in line or "== " in line[:4] or "cannot" in line)]
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


def markdown(report):
    lines = ["# gpu-check", ""]
    if report["simulated"]:
        lines += ["**A rehearsal on a simulated device: its times say nothing about a GPU.**", ""]
    lines += ["| stage | result | seconds |", "|---|---|---|"]
    for stage, result in report["stages"].items():
        said = "not run" if result is None else "done" if result["status"] == 0 else f"status {result['status']}"
        lines.append(f"| {stage} | {said} | {result['seconds'] if result else ''} |")
    bad = [name for name, suite in report["suites"].items() if suite["status"] != 0]
    lines += ["", f"Suites on the device: {len(report['suites'])}, failed: {', '.join(bad) or 'none'}.", ""]
    lines += ["| work | us | GB/s | share of copy | TFLOP/s | speed against PyTorch's fastest |", "|---|---|---|---|---|---|"]
    for work, tern, share, ratio in rows_of(report["ops"]):
        mark = " (below the goal)" if work in OF_BANDWIDTH and share is not None and share < COPY_SHARE else ""
        lines.append(f"| {work} | {tern['us']:.1f} | {shown(tern['gb_per_s'] or None, '{:.0f}')} | {shown(share)}{mark} | "
                     f"{shown(tern['tflop_per_s'] or None, '{:.1f}')} | {shown(ratio)} |")
    lines += ["", "## compute-sanitizer", "", *report["sanitizer"], "", "## Allocators", "", *report["sequences"], ""]
    return "\n".join(lines)


def main(arguments):
    out = pathlib.Path(arguments[0])
    report = collect(out)
    (out / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    (out / "report.md").write_text(markdown(report))
    print(markdown(report))
    failed = [s for s, result in report["stages"].items() if result is None or result["status"] != 0]
    bad = [name for name, suite in report["suites"].items() if suite["status"] != 0]
    return 1 if failed or bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
