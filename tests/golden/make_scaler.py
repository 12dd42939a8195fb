#!/usr/bin/env python3
"""Writes grad_scaler.txt: scripted iterations and what torch.amp.GradScaler on the CPU did in them.

    python3 -m venv venv && venv/bin/pip install torch==2.15.0
    venv/bin/python tests/golden/make_scaler.py

The file holds the commands themselves, so that tests/unit/test_grad_scaler.c runs the same script,
and after them, on lines that begin with "=", the state that PyTorch was in.

    scaler INIT GROWTH BACKOFF INTERVAL ENABLED     param VALUES...     sgd LR MOMENTUM PARAMS...
    adam LR PARAMS...     loss PARAM WEIGHTS...: scale(sum(param * weights)), backward
    unscale OPT   clip OPT NORM   step OPT   zero OPT   update [SCALE]
    growth X  backoff X  interval N: setters    save   load: into a new scaler
    fails COMMAND | words of PyTorch's error | words of tern's
"""

import os

import torch

PINNED = "2.15.0"
SCENARIOS = """
scenario growth_and_backoff
scaler 4 2 0.5 2 1
param 1 -2 3
sgd 0.125 0 0
loop 1 1 1; 1 -2 0.5; 1 inf 1; 0.5 0.5 0.5; 2 2 2; 1 1 1

scenario nan_and_both_signs
scaler 1024 2 0.5 3 1
param 1 2
sgd 0.25 0 0
loop 1 1; nan 1; 1 -inf; inf -inf; 1 1; 1 1; 1 1; 1 1

scenario momentum_starts_at_the_first_step_taken
scaler 256 2 0.5 2 1
param 1 2
sgd 0.125 0.9 0
loop inf 1; 1 1; 1 2; inf 1; 2 1; 1 1

scenario adam_does_not_count_skipped_steps
scaler 65536 2 0.5 2 1
param 1 2 -1
adam 0.125 0
loop 1 inf 1; 1 2 -3; nan 1 1; 0.5 0.25 1; 1 1 1; 1 -1 1

scenario odd_factors
scaler 3 1.7 0.3 1 1
param 1 2
sgd 0.125 0 0
loop 1 1; 1 1; inf 1; 1 1; inf 1; inf 1; 1 1

scenario the_scale_is_clamped_above
scaler 85070591730234615865843651857942052864 2 0.5 1 1
param 1e-30 1e-30
sgd 0.125 0 0
loop 1e-20 1e-20; 1e-20 1e-20; 1e-20 1e-20; inf 1; 1e-20 1e-20

scenario the_scale_is_not_clamped_below
scaler 1e-37 2 0.0001 3 1
param 1 2
sgd 0.125 0 0
loop inf 1; inf 1; inf 1

scenario two_optimizers
scaler 1024 2 0.5 2 1
param 1 2
param 3 4
sgd 0.125 0 0
adam 0.125 1
loss 0 1 1
loss 1 2 2
step 0
step 1
update
zero 0
zero 1
loss 0 inf 1
loss 1 1 1
step 0
step 1
update
zero 0
zero 1
loss 0 1 1
loss 1 1 nan
unscale 1
step 0
step 1
update
zero 0
zero 1
loss 0 1 1
loss 1 1 1
step 0
step 1
update
zero 0
zero 1
loss 0 1 1
loss 1 1 1
step 1
step 0
update

scenario accumulation
scaler 128 2 0.5 2 1
param 1 2
sgd 0.125 0.5 0
loss 0 0.5 0.25
loss 0 0.5 0.5
loss 0 1 1
step 0
update
zero 0
loss 0 1 1
loss 0 inf 1
loss 0 1 1
step 0
update
zero 0
loss 0 0.5 0.5
loss 0 -0.5 1
step 0
update

scenario clipping
scaler 65536 2 0.5 2 1
param 1 2 3
sgd 0.125 0 0
loss 0 3 4 0
unscale 0
clip 0 1
step 0
update
zero 0
loss 0 0.1 0.2 0.2
unscale 0
clip 0 1
step 0
update
zero 0
loss 0 inf 0.2 0.2
unscale 0
clip 0 1
step 0
update
zero 0
loss 0 1 0.2 0.2
unscale 0
step 0
update

scenario resumed
scaler 512 2 0.5 3 1
param 1 2
sgd 0.125 0 0
loop 1 1; 1 1
save
loop 1 1; 1 1; inf 1; 1 1
load
loop 1 1; 1 1; inf 1; 1 1

scenario resumed_before_the_first_loss
scaler 512 4 0.25 2 1
save
load
param 1 2
sgd 0.125 0 0
loop 1 1; 1 1; inf 1

scenario a_scale_of_ones_own
scaler 512 2 0.5 2 1
param 1 2
sgd 0.125 0 0
loop 1 1
loss 0 1 1
step 0
update 64
zero 0
loop 1 1; 1 1; inf 1
loss 0 inf 1
step 0
update 8
zero 0
loop 1 1

scenario setters
scaler 512 2 0.5 2 1
param 1 2
sgd 0.125 0 0
loop 1 1
growth 8
backoff 0.125
loop 1 1; inf 1
interval 1
loop 1 1; 1 1
growth 0.5
loop 1 1

scenario disabled
scaler 512 2 0.5 2 0
param 1 2
sgd 0.125 0 0
loop 1 1; 2 2
loss 0 1 1
unscale 0
unscale 0
step 0
step 0
update

scenario misuse
scaler 512 2 0.5 2 1
param 1 2
param 3
sgd 0.125 0 0
sgd 0.125 0 1
fails unscale 0 | Attempted unscale_ but _scale is None | there is no scale yet
fails step 0 | Attempted step but _scale is None | there is no scale yet
fails update | Attempted update but _scale is None | there is no scale yet
loss 0 1 1
fails update | No inf checks were recorded prior to update | no inf checks were recorded prior
fails step 1 | No inf checks were recorded for this optimizer | no inf checks were recorded for this
unscale 0
fails unscale 0 | unscale_() has already been called | has already been called on this optimizer
step 0
fails unscale 0 | unscale_() is being called after step() | is called after the step
fails step 0 | step() has already been called | has already been called since
update
fails update | No inf checks were recorded prior to update | no inf checks were recorded prior
step 0
update
"""


class Run:
    """One scenario in PyTorch."""

    def __init__(self):
        self.params, self.opts, self.saved = [], [], None

    def scaler_(self, init, growth, backoff, interval, enabled):
        self.scaler = torch.amp.GradScaler(
            "cpu", init_scale=float(init), growth_factor=float(growth),
            backoff_factor=float(backoff), growth_interval=int(interval), enabled=enabled == "1")

    def param(self, *values):
        self.params.append(torch.tensor([float(v) for v in values], requires_grad=True))

    def of(self, places):
        return [self.params[int(p)] for p in places]

    def sgd(self, lr, momentum, *params):
        self.opts.append(torch.optim.SGD(self.of(params), float(lr), float(momentum)))

    def adam(self, lr, *params):
        self.opts.append(torch.optim.Adam(self.of(params), float(lr)))

    def loss(self, place, *weights):
        weights = torch.tensor([float(w) for w in weights])
        self.scaler.scale((self.params[int(place)] * weights).sum()).backward()

    def unscale(self, opt):
        self.scaler.unscale_(self.opts[int(opt)])

    def clip(self, opt, norm):
        params = [p for g in self.opts[int(opt)].param_groups for p in g["params"]]
        torch.nn.utils.clip_grad_norm_(params, float(norm))

    def step(self, opt):
        self.scaler.step(self.opts[int(opt)])

    def zero(self, opt):
        self.opts[int(opt)].zero_grad()

    def update(self, scale=None):
        self.scaler.update(None if scale is None else float(scale))

    def growth(self, x):
        self.scaler.set_growth_factor(float(x))

    def backoff(self, x):
        self.scaler.set_backoff_factor(float(x))

    def interval(self, n):
        self.scaler.set_growth_interval(int(n))

    def save(self):
        self.saved = self.scaler.state_dict()

    def load(self):
        self.scaler = torch.amp.GradScaler("cpu")
        self.scaler.load_state_dict(self.saved)

    def do(self, line):
        name, *arguments = line.split()
        getattr(self, "scaler_" if name == "scaler" else name)(*arguments)

    def state(self):
        yield f"= scale {self.scaler.get_scale():.9g}"
        if self.scaler.is_enabled():
            yield f"= tracker {self.scaler._get_growth_tracker()}"
        for i, p in enumerate(self.params):
            yield f"= param {i} " + " ".join(f"{v:.9g}" for v in p.tolist())


def expand(line):
    """loop W; W: an iteration of parameter 0 and optimizer 0 for each list of weights."""
    if not line.startswith("loop "):
        return [line]
    iterations = [w.strip() for w in line[5:].split(";")]
    return [c for w in iterations for c in (f"loss 0 {w}", "step 0", "update", "zero 0")]


def play(lines):
    run, out = Run(), []
    for line in (c for l in lines for c in expand(l)):
        out.append(line)
        if line.startswith("fails "):
            command, words, _ = (part.strip() for part in line[6:].split("|"))
            try:
                run.do(command)
                raise SystemExit(f"PyTorch takes: {line}")
            except (AssertionError, RuntimeError) as error:
                assert words in str(error), (line, str(error))
            continue
        run.do(line)
        if line.split()[0] in ("step", "update", "load"):
            out += run.state()
    return out


def main():
    assert torch.__version__.startswith(PINNED), torch.__version__
    text = [f"# Made by make_scaler.py with PyTorch {PINNED}; do not edit. See there."]
    for block in SCENARIOS.strip().split("\n\n"):
        head, *lines = block.split("\n")
        text += ["", head] + play(lines)
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "grad_scaler.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
