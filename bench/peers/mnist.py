"""Training to the end on MNIST: examples/cnn_mnist.c and mlp_mnist.c beside the same models in PyTorch
(torch_mnist.py), one after the other for each seed. compare.py calls it for --programs mnist.

Accuracy and the last epoch's loss are means over the seeds with their range; the ratio of training times is
PyTorch's over tern's of the same seed, median and range, above 1: tern is faster. Seeds draw other weights
and another order on both sides, so a single seed says nothing of either.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
EPOCHS = {"mlp": 5, "cnn": 3}  # as docs/performance.md has them


def output_of(command, threads):
    """What a program prints; None, said on stderr, when it fails."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        print(f"mnist: {' '.join(command)} ended with {done.returncode}", file=sys.stderr)
    return done.stdout if done.returncode == 0 else None


def plan_of(args, model, seed, threads):
    """The options that both sides take."""
    plan = ["--data", args.data, "--epochs", str(args.epochs or EPOCHS[model]), "--seed", str(seed),
            "--threads", str(threads)]
    return plan + (["--steps", str(args.steps)] if args.steps else [])


def run_tern(args, model, seed, threads):
    """(accuracy, last loss, seconds), or None."""
    program = os.path.join(os.path.dirname(os.path.abspath(args.bench)), "examples", model + "_mnist")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "results.json")
        command = [program, "--device", "cpu", "--quiet", "--json", path]
        if output_of(command + plan_of(args, model, seed, threads), threads) is None:
            return None
        with open(path, encoding="utf-8") as file:
            results = json.load(file)
    epochs = results["epochs"]
    return results["test_accuracy"], epochs[-1]["loss"], sum(e["train_seconds"] for e in epochs)


def run_torch(args, model, seed, threads):
    """The same of PyTorch."""
    script = os.path.join(HERE, "torch_mnist.py")
    text = output_of([sys.executable, script, "--model", model, *plan_of(args, model, seed, threads)], threads)
    if text is None:
        return None
    results = json.loads(text.splitlines()[-1])
    return results["test_accuracy"], results["losses"][-1], sum(results["seconds"])


def spread(values):
    return {"mean": statistics.mean(values), "low": min(values), "high": max(values)}


def row(args, model, threads, pairs):
    """A row of the table, from (tern, PyTorch) for each seed; None without one."""
    if not pairs:
        return None
    tern, torch = zip(*pairs)
    ratios = [t[2] / o[2] for o, t in pairs]
    found = {"work": f"{model}_mnist", "threads": threads, "epochs": args.epochs or EPOCHS[model],
             "steps": args.steps, "seeds": len(pairs), "ratio": statistics.median(ratios),
             "low": min(ratios), "high": max(ratios)}
    for side, results in (("tern", tern), ("torch", torch)):
        accuracy, loss, seconds = zip(*results)
        found[side] = {"accuracy": spread(accuracy), "loss": spread(loss), "seconds": spread(seconds)}
    return found


def measure(args):
    """Rows of all models and threads."""
    models = [model for model in EPOCHS if not args.works or model in args.works]
    rows = []
    for threads in (int(t) for t in args.threads.split(",")):
        for model in models:
            pairs = []
            for seed in range(1, args.seeds + 1):
                print(f"mnist: {model}, seed {seed} of {args.seeds}, {threads} threads", file=sys.stderr)
                tern = run_tern(args, model, seed, threads)
                torch = run_torch(args, model, seed, threads) if tern else None
                if torch:
                    pairs.append((tern, torch))
            rows.append(row(args, model, threads, pairs))
    return [r for r in rows if r]


def accuracy(values):
    return f"{100 * values['mean']:.2f} % ({100 * values['low']:.2f} to {100 * values['high']:.2f})"


def loss(values):
    return f"{values['mean']:.4f} ({values['low']:.4f} to {values['high']:.4f})"


def table(rows):
    yield ("| run | threads | seeds | tern, test accuracy | PyTorch, test accuracy | tern, last loss | PyTorch, last loss "
           "| tern s | PyTorch s | ratio | range |")
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for r in rows:
        plan = f"{r['work']} --epochs {r['epochs']}" + (f" --steps {r['steps']}" if r["steps"] else "")
        tern, torch = r["tern"], r["torch"]
        yield (f"| {plan} | {r['threads']} | {r['seeds']} | {accuracy(tern['accuracy'])} | {accuracy(torch['accuracy'])} "
               f"| {loss(tern['loss'])} | {loss(torch['loss'])} | {tern['seconds']['mean']:.4g} "
               f"| {torch['seconds']['mean']:.4g} | **{r['ratio']:.2f}** | {r['low']:.2f} to {r['high']:.2f} |")
