#!/usr/bin/env python3
"""Writes optim.txt: steps of optimizers, rates of schedules, averages of weights (see golden.py).

optimizer_*  p: the parameter at first, g: a gradient per step; y: the parameter after each step,
             s, s2, ...: the state after the last, in the order of the note
one_cycle_*  y: the rate before each step, momentum: what goes with it
plateau_*    y: the rate before each step, m: the metric of each
ema          w: the weights before each update, y: the average after it
"""

import torch

from golden import Golden, draw

golden = Golden()
STEPS = 5


def optimizers():
    kinds = {
        "rmsprop": (torch.optim.RMSprop, dict()),
        "rmsprop_decay": (torch.optim.RMSprop, dict(lr=0.05, alpha=0.9, eps=1e-4, weight_decay=0.1)),
        "rmsprop_momentum": (torch.optim.RMSprop, dict(lr=0.02, momentum=0.9, maximize=True)),
        "rmsprop_centered": (torch.optim.RMSprop, dict(lr=0.02, alpha=0.5, centered=True)),
        "rmsprop_both": (torch.optim.RMSprop,
                         dict(lr=0.02, alpha=0.8, centered=True, momentum=0.5, weight_decay=0.01)),
        "adagrad": (torch.optim.Adagrad, dict()),
        "adagrad_decay": (torch.optim.Adagrad, dict(lr=0.1, lr_decay=0.25, weight_decay=0.1)),
        "adagrad_started": (torch.optim.Adagrad,
                            dict(lr=0.1, initial_accumulator_value=0.5, eps=1e-3, maximize=True)),
    }
    start = draw(6)
    grads = [draw(6) for _ in range(STEPS)]
    for name, (kind, options) in kinds.items():
        p = start.clone().requires_grad_()
        optimizer = kind([p], foreach=False, **options)
        path = []
        for g in grads:
            p.grad = g.clone()
            optimizer.step()
            path.append(p.detach().clone())
        state = {k: v for k, v in optimizer.state[p].items() if k != "step"}
        note = ", ".join(f"{k} {v}" for k, v in options.items()) or "defaults"
        extra = {f"s{i}" if i > 1 else "s": v for i, v in enumerate(state.values(), 1)}
        golden.case("optimizer_" + name, note + "; state: " + ", ".join(state),
                    p=start, g=torch.stack(grads), y=torch.stack(path), **extra)


def run(schedule, optimizer, steps):
    """Rates before each step, and what goes with them."""
    rates, momenta = [], []
    for _ in range(steps):
        group = optimizer.param_groups[0]
        rates.append(group["lr"])
        momenta.append(group["betas"][0] if "betas" in group else group["momentum"])
        optimizer.step()
        schedule.step()
    return dict(y=torch.tensor(rates, dtype=torch.float64),
                momentum=torch.tensor(momenta, dtype=torch.float64))


def schedules():
    lr = torch.optim.lr_scheduler
    p = torch.zeros(1, requires_grad=True)
    kinds = {
        "cos": dict(),
        "linear": dict(anneal_strategy="linear", pct_start=0.5, div_factor=10.0,
                       final_div_factor=100.0),
        "three": dict(three_phase=True, pct_start=0.4, base_momentum=0.5, max_momentum=0.9),
        "three_linear": dict(three_phase=True, pct_start=0.4, anneal_strategy="linear",
                             cycle_momentum=False),
    }
    for name, options in kinds.items():
        for make, label in ((torch.optim.SGD, "sgd"), (torch.optim.Adam, "adam")):
            optimizer = make([p], lr=0.1)
            schedule = lr.OneCycleLR(optimizer, 0.5, total_steps=20, **options)
            note = ", ".join(f"{k} {v}" for k, v in options.items()) or "defaults"
            golden.case(f"one_cycle_{name}_{label}", "peak 0.5, 20 steps, " + note,
                        **run(schedule, optimizer, 20))


def plateaus():
    lr = torch.optim.lr_scheduler
    metrics = [4.0, 3.0, 3.0, 2.9999, 2.9, 2.95, 2.95, 2.9, 2.9, 3.1, 2.0, 2.0, 2.0, 2.0, 1.9999,
               2.0, float("nan"), 2.0, 2.0, 2.0, 1.0, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5]
    kinds = {
        "plain": dict(patience=2),
        "abs": dict(patience=1, threshold=0.06, threshold_mode="abs", factor=0.5),
        "max": dict(mode="max", patience=2, factor=0.5, cooldown=2),
        "max_abs": dict(mode="max", patience=0, factor=0.5, threshold=0.5, threshold_mode="abs"),
        "least": dict(patience=0, factor=0.5, min_lr=0.06, eps=0.01),
    }
    for name, options in kinds.items():
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
        schedule = lr.ReduceLROnPlateau(optimizer, **options)
        rates = []
        for metric in metrics:
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step(metric)
        golden.case("plateau_" + name, ", ".join(f"{k} {v}" for k, v in options.items()),
                    m=torch.tensor(metrics, dtype=torch.float64),
                    y=torch.tensor(rates, dtype=torch.float64))


def averages():
    swa = torch.optim.swa_utils
    p = torch.nn.Parameter(draw(5))
    holder = torch.nn.ParameterList([p])
    model = swa.AveragedModel(holder, multi_avg_fn=swa.get_ema_multi_avg_fn(0.75))
    weights, path = [], []
    for _ in range(STEPS):
        with torch.no_grad():
            p.copy_(draw(5))
        model.update_parameters(holder)
        weights.append(p.detach().clone())
        path.append(next(model.parameters()).detach().clone())
    golden.case("ema", "decay 0.75; w: weights before each update, y: the average after it",
                w=torch.stack(weights), y=torch.stack(path))


def clipping():
    g = draw(7, low=-4, high=4)
    g[2] = float("nan")
    p = torch.zeros(7, dtype=torch.float64, requires_grad=True)
    p.grad = g.clone()
    torch.nn.utils.clip_grad_value_([p], 1.25)
    golden.case("clip_value", "value 1.25", g=g, y=p.grad)


optimizers()
schedules()
plateaus()
averages()
clipping()
if __name__ == "__main__":
    golden.write("optim")
