"""What the scripts make_<family>.py share: they collect cases and write <family>.txt, which tests read.

    python3 -m venv venv && venv/bin/pip install torch==2.15.0
    venv/bin/python tests/golden/make_golden.py

Tests read the committed files and need neither Python nor PyTorch. A case is a group of arrays:
inputs by their names, results `y` (`y2`, ...), the gradient that flows in `gy`, and the gradient of
an input x as `gx`. Inputs are multiples of 1/64, so every float dtype but bf16 holds them exactly;
everything else is printed with 12 digits.
"""

import math
import os
import sys

import torch

PINNED = "2.15.0"
DIGITS = 12
DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
          torch.float16, torch.bfloat16, torch.float32, torch.float64]


torch.set_num_threads(1)
generator = torch.Generator().manual_seed(20261121)


def draw(*shape, low=-2.0, high=2.0):
    """Values in [low, high] on a grid of 1/64."""
    steps = torch.rand(shape, generator=generator, dtype=torch.float64)
    return torch.round((low + (high - low) * steps) * 64) / 64


def draw_int(high, *shape):
    return torch.randint(0, high, shape, generator=generator)


class Golden:
    """Collects cases in order."""

    def __init__(self):
        self.cases = []

    def case(self, name, note, **arrays):
        assert name not in [c[0] for c in self.cases], name
        self.cases.append((name, note, {k: torch.as_tensor(v) for k, v in arrays.items()}))

    def op(self, name, note, function, constants=None, **inputs):
        """A case with gradients of all float inputs; function takes inputs, then constants."""
        constants = constants or {}
        leaves = {k: v.clone().requires_grad_(v.is_floating_point()) for k, v in inputs.items()}
        results = function(*leaves.values(), *constants.values())
        results = results if isinstance(results, tuple) else (results,)
        arrays = dict(inputs) | constants
        arrays["y"] = results[0].detach()
        for i, extra in enumerate(results[1:], 2):
            arrays[f"y{i}"] = extra.detach()
        learned = {k: v for k, v in leaves.items() if v.requires_grad}
        if learned and results[0].requires_grad:
            gy = draw(*results[0].shape)
            arrays["gy"] = gy
            grads = torch.autograd.grad(results[0], list(learned.values()), gy)
            arrays |= {"g" + k: g for k, g in zip(learned, grads)}
        self.case(name, note, **arrays)

    def second(self, name, function, x):
        """Gradients of gradients of a function of one tensor."""
        x = x.clone().requires_grad_()
        y = function(x)
        gy, ggx = draw(*y.shape).requires_grad_(), draw(*x.shape)
        (gx,) = torch.autograd.grad(y, x, gy, create_graph=True)
        wrt_x, wrt_gy = torch.autograd.grad(gx, (x, gy), ggx)
        self.case("second_" + name, "u: gradient that flows into gx; hx, hgy: those of x and gy",
                  x=x.detach(), gy=gy.detach(), gx=gx.detach(), u=ggx, hx=wrt_x, hgy=wrt_gy)

    def write(self, family):
        """Writes <family>.txt beside this file."""
        if torch.__version__.split("+")[0] != PINNED:
            sys.exit(f"this needs PyTorch {PINNED}, not {torch.__version__}: it is part of the data")
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), family + ".txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.text(family))
        print(f"{path}: {len(self.cases)} cases, {os.path.getsize(path)} bytes")

    def text(self, family):
        names = " ".join(str(d).removeprefix("torch.") for d in DTYPES)
        version = torch.__version__.split("+")[0]
        parts = [HEAD.format(version=version, dtypes=names, family=family)]
        for name, note, arrays in self.cases:
            parts.append(f"\ncase {name}: {note}\n")
            for key, tensor in arrays.items():
                kind = "float" if tensor.is_floating_point() else "int"
                parts.append(" ".join([key, kind, *map(str, tensor.shape)]) + "\n")
                parts.append(wrapped([literal(v) for v in tensor.reshape(-1).tolist()]))
        return "".join(parts)


SPECIAL = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 3.0, -3.0, 8.0, -8.0, 20.0, -20.0, 60.0,
                        -60.0, 88.5, -88.5, 1e-4, -1e-4, math.inf, -math.inf, math.nan],
                       dtype=torch.float64)

HEAD = """# Made by make_{family}.py with PyTorch {version}; do not edit. See there for what a case holds.
# Read by tests/support/golden.c: "case NAME: NOTE", then per array "NAME TYPE EXTENTS..." (TYPE is
# float or int) and its values on indented lines. Dtype numbers count from 1 in this order:
# {dtypes}
"""


def literal(value):
    value = float(value)
    if math.isnan(value):
        return "nan"
    return f"{value:.{DIGITS}g}"


def wrapped(parts, width=100, indent="  "):
    line, lines = indent, []
    for part in parts:
        if len(line) + len(part) + 1 > width:
            lines.append(line.rstrip())
            line = indent
        line += part + " "
    return "\n".join(lines + [line.rstrip()]) + "\n"
