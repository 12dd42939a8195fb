#!/usr/bin/env python3
"""Writes unary.txt: elementary functions, rounding, tests of one operand, activations, clamp."""

import math

import torch
import torch.nn.functional as F

from golden import SPECIAL, Golden, draw, draw_int

golden = Golden()
FUNCTIONS = ("expm1 log1p log2 log10 rsqrt reciprocal square sin cos tan asin acos atan sinh cosh "
             "erf floor ceil round trunc frac").split()
POSITIVE = ("log2", "log10", "rsqrt", "reciprocal")
BELOW_1 = ("asin", "acos", "tan")
TESTS = ("isnan", "isinf", "isfinite", "logical_not")
ACTIVATIONS = {
    "hardswish": F.hardswish, "mish": F.mish, "relu6": F.relu6, "leaky_relu": F.leaky_relu,
    "leaky_relu_rising": lambda x: F.leaky_relu(x, -0.5), "elu": F.elu,
    "elu_alpha": lambda x: F.elu(x, 0.5), "softplus": F.softplus,
    "softplus_options": lambda x: F.softplus(x, 2, 5), "hardtanh": F.hardtanh,
    "hardtanh_options": lambda x: F.hardtanh(x, 0, 3), "clamp": lambda x: x.clamp(-1, 1.5),
    "clamp_min": lambda x: x.clamp(min=0.25), "clamp_max": lambda x: x.clamp(max=-0.25),
    "clamp_crossed": lambda x: x.clamp(1, -1), "clamp_nan": lambda x: x.clamp(math.nan, 1),
}
CURVED = ("hardswish", "mish", "elu", "elu_alpha", "softplus", "softplus_options")
# points where slopes change, and the ends of what is cut
JOINTS = torch.tensor([-3.0, 3.0, 0.0, -0.0, -1.0, 1.0, 1.5, 6.0, 0.25, -0.25, 2.5, math.nan],
                      dtype=torch.float64)


def functions():
    for name in FUNCTIONS:
        low, high = (1 / 64, 4) if name in POSITIVE else (-0.9, 0.9) if name in BELOW_1 else (-4, 4)
        low = -0.9 if name == "log1p" else low
        golden.op(name, "odd shape", getattr(torch, name), x=draw(3, 5, 3, low=low, high=high))
        golden.case(name + "_special", "infinities, zeros, NaN", x=SPECIAL,
                    y=getattr(torch, name)(SPECIAL))
    halves = torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.5], dtype=torch.float64)
    golden.case("round_ties", "to even", x=halves, y=halves.round())
    far = torch.tensor([1e5 + 0.25, -123456.5, 1e7, 33554432.0, -1e9, 8589934592.0], dtype=torch.float64)
    for name in ("sin", "cos", "tan"):
        golden.case(name + "_far", "large angles", x=far.float().double(),
                    y=getattr(torch, name)(far.float().double()))
    for name in TESTS:
        golden.case(name, "infinities, zeros, NaN", x=SPECIAL,
                    y=getattr(torch, name)(SPECIAL).to(torch.int64))
    whole = draw_int(100, 7) - 50
    golden.case("bitwise_not", "integers", x=whole, y=whole.bitwise_not())
    golden.case("square_bool", "bool becomes i64", x=torch.tensor([1, 0, 1]),
                y=torch.tensor([True, False, True]).square())


def activations():
    for name, function in ACTIVATIONS.items():
        golden.op(name, "odd shape", function, x=draw(3, 5, 3, low=-7, high=7))
        golden.op(name + "_joints", "where slopes change", function, x=JOINTS)
        golden.case(name + "_special", "infinities, zeros, NaN", x=SPECIAL, y=function(SPECIAL))
    whole = draw_int(20, 4, 5) - 10
    golden.case("clamp_whole", "integers", x=whole, y=whole.clamp(-3, 4))
    golden.case("clamp_promoted", "integers and a float limit", x=whole, y=whole.clamp(-3, 2.5))
    golden.case("hardtanh_whole", "integers", x=whole, y=F.hardtanh(whole, -2.5, 3.5))


def gradients_of_gradients():
    for name in FUNCTIONS[:16]:
        low, high = (0.25, 3) if name in POSITIVE + ("log1p",) else (-0.9, 0.9)
        golden.second(name, getattr(torch, name), draw(4, 3, low=low, high=high))
    for name in CURVED:
        golden.second(name, ACTIVATIONS[name], draw(4, 3, low=-4, high=4) + 1 / 128)


def gradients_at_the_ends():
    for name in FUNCTIONS:
        golden.op(name + "_ends", "gradients at infinities, zeros, NaN", getattr(torch, name), x=SPECIAL)
    for name, function in ACTIVATIONS.items():
        golden.op(name + "_ends", "gradients at infinities, zeros, NaN", function, x=SPECIAL)
    both = torch.tensor([-1.0, 0, 1, 2, 3, 1, math.nan, -math.inf, math.inf], dtype=torch.float64)
    low = torch.tensor([0.0, 0, 0, 0, 0, 2, 0, 0, 0], dtype=torch.float64)
    golden.op("clamp_tensors", "limits that cross, infinities", torch.clamp,
              x=both.nan_to_num(0.5, math.inf, -math.inf), low=low,
              high=torch.tensor([2.0, 2, 2, 2, 2, 1, 2, 2, 2], dtype=torch.float64))
    golden.op("clamp_in_place", "of a part", lambda x, low: x.clone()[1:].clamp_(low[1:]), x=both, low=low)


def logsigmoid():
    golden.op("logsigmoid", "odd shape", F.logsigmoid, x=draw(3, 5, 3, low=-7, high=7))
    golden.op("logsigmoid_joints", "as the others", F.logsigmoid, x=JOINTS)
    golden.case("logsigmoid_special", "infinities, zeros, NaN", x=SPECIAL, y=F.logsigmoid(SPECIAL))
    golden.second("logsigmoid", F.logsigmoid, draw(4, 3, low=-4, high=4) + 1 / 128)
    golden.op("logsigmoid_ends", "gradients at infinities, zeros, NaN", F.logsigmoid, x=SPECIAL)


functions()
activations()
gradients_of_gradients()
gradients_at_the_ends()
logsigmoid()
golden.write("unary")
