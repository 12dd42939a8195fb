#!/usr/bin/env python3
"""Writes binary.txt: ops with two and three operands, beside those that make_golden.py has."""

import math

import torch

from golden import Golden, draw

golden = Golden()
INF, NAN = math.inf, math.nan


def table(a, b):
    """Every pair of both lists."""
    pairs = [(x, y) for x in a for y in b]
    return (torch.tensor([p[0] for p in pairs], dtype=torch.float64),
            torch.tensor([p[1] for p in pairs], dtype=torch.float64))


def real():
    edges = [0.0, -0.0, 1.0, -1.0, 2.5, -7.0, 6.0, INF, -INF, NAN]
    for name in ("fmod", "remainder", "atan2", "hypot"):
        function = getattr(torch, name)
        a, b = draw(3, 5, low=-8, high=8), draw(5, low=0.5, high=3)
        b[1::2] *= -1
        golden.op(name, "rows", function, a=a, b=b)
        golden.op(name + "_outer", "both grow", function, a=draw(3, 1), b=draw(4, low=1, high=2))
        pairs = table(edges, edges)
        golden.case(name + "_edges", "zeros, signs, infinities, NaN", a=pairs[0], b=pairs[1],
                    y=function(*pairs))
    a, b = draw(3, 5, low=-8, high=8), draw(5, low=0.5, high=3)
    b[::2] *= -1
    golden.case("floor_div", "rows", a=a, b=b, y=torch.floor_divide(a, b))
    pairs = table(edges, edges)
    golden.case("floor_div_edges", "zeros, signs, infinities, NaN", a=pairs[0], b=pairs[1],
                y=torch.floor_divide(*pairs))
    for name in ("and", "or", "xor"):
        function = getattr(torch, "logical_" + name)
        golden.case("logical_" + name, "NaN is true", a=pairs[0], b=pairs[1], y=function(*pairs))


def whole():
    a = torch.tensor([7, -7, 6, -6, 0, 1, -1, 127, -128] * 6)
    b = torch.tensor([2, -2, 3, -3, 5, -128] * 9)
    for name in ("fmod", "remainder", "floor_divide"):
        short = name.replace("divide", "div")
        golden.case("whole_" + short, "integers of both signs", a=a, b=b,
                    y=getattr(torch, name)(a, b))
    for name in ("and", "or", "xor"):
        golden.case("bitwise_" + name, "i64", a=a, b=b, y=getattr(torch, "bitwise_" + name)(a, b))
    a = torch.tensor([1, -1, 5, -128, 127, 64] * 9)
    b = torch.tensor([0, 1, 3, 6, 7, 8, 63, 64, -1] * 6)
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        for name in ("left", "right"):
            function = getattr(torch, f"bitwise_{name}_shift")
            x = a.to(dtype)
            golden.case(f"shift_{name}_{str(dtype)[6:]}", "beyond the width, too", a=x.long(), b=b,
                        y=function(x, b.to(dtype)).long())


def three():
    x, a, b = draw(3, 4), draw(3, 4), draw(4, low=0.5, high=2)
    golden.op("addcmul", "value 1", torch.addcmul, x=x, a=a, b=b)
    golden.op("addcmul_value", "value -2.5", lambda *t: torch.addcmul(*t, value=-2.5), x=x, a=a, b=b)
    golden.op("addcdiv", "value 1", torch.addcdiv, x=x, a=a, b=b)
    golden.op("addcdiv_value", "value 0.25", lambda *t: torch.addcdiv(*t, value=0.25), x=x, a=a,
              b=b)
    golden.op("lerp", "weights from -1 to 2", torch.lerp, x=x, a=a, b=draw(4, low=-1, high=2))
    golden.op("lerp_number", "weight 0.75", lambda s, e: torch.lerp(s, e, 0.75), x=x, a=a)
    mask = torch.tensor([True, False, True, False])
    golden.op("masked_fill", "with 2.5", lambda t, m: t.masked_fill(m.bool(), 2.5),
              constants={"m": mask}, x=x)
    golden.op("masked_fill_tensor", "with a 0-dim tensor",
              lambda t, v, m: t.masked_fill(m.bool(), v), constants={"m": mask}, x=x,
              v=draw())
    golden.case("whole_addcmul", "value 2", x=torch.tensor([1, -2, 3]), a=torch.tensor([4, 5, -6]),
                b=torch.tensor([7]),
                y=torch.addcmul(torch.tensor([1, -2, 3]), torch.tensor([4, 5, -6]),
                                torch.tensor([7]), value=2))
    golden.case("whole_masked_fill", "2.5 among integers is 2", x=torch.tensor([1, -2, 3, 4]),
                m=mask, y=torch.tensor([1, -2, 3, 4]).masked_fill(mask, 2.5))


def close():
    edges = [0.0, -0.0, 1.0, 1.000005, 1.0001, 0.905, -1.0, 1e-9, INF, -INF, NAN]
    a, b = table(edges, edges)
    golden.case("isclose", "default tolerances", a=a, b=b, y=torch.isclose(a, b))
    golden.case("isclose_nan", "NaN is close to NaN", a=a, b=b,
                y=torch.isclose(a, b, equal_nan=True))
    golden.case("isclose_wide", "rtol 0.1, atol 0.01", a=a, b=b,
                y=torch.isclose(a, b, rtol=0.1, atol=0.01))
    golden.case("isclose_exact", "both 0", a=a, b=b, y=torch.isclose(a, b, rtol=0, atol=0))
    a, b = torch.tensor([100, 200, -3, 0]), torch.tensor([101, 250, -3, 1])
    golden.case("isclose_whole", "integers", a=a, b=b, y=torch.isclose(a, b, rtol=0.01))


if __name__ == "__main__":
    real()
    whole()
    three()
    close()
    golden.write("binary")
