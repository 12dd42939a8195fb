#!/usr/bin/env python3
"""Writes reduce.txt: reductions and scans; see golden.py."""

import math

import torch

from golden import Golden, draw

golden = Golden()
F64 = torch.float64
INF, NAN = math.inf, math.nan


def t(*values):
    return torch.tensor(values, dtype=F64)


def extremes():
    x = draw(2, 3, 4)
    ties = t([1.0, 3, 3], [2, 2, 2], [5, 1, 1])
    odd = t([1.0, NAN, NAN], [-INF, 2, INF], [NAN, 0, -0.0])
    golden.op("amin", "all dimensions", torch.amin, x=x)
    golden.op("amin_ties", "dimension 1, ties share the gradient", lambda a: a.amin(1), x=ties)
    golden.op("min_ties", "dimension 1, the first place takes the gradient",
              lambda a: tuple(a.min(1)), x=ties)
    golden.op("min_keep", "dimension 0 of three", lambda a: tuple(a.min(0)), x=x)
    golden.case("argmin", "dimension 2, first of ties", x=torch.round(x), y=torch.round(x).argmin(2))
    for name in ("amin", "amax"):
        golden.case(name + "_nan", "NaN wins", x=odd, y=getattr(odd, name)(1))
    for name in ("argmin", "argmax"):
        golden.case(name + "_nan", "the first NaN", x=odd, y=getattr(odd, name)(1))
    zeros = t([0.0, 0, 0], [0, NAN, 0], [1, 2, 3])
    for name in ("any", "all"):
        golden.case(name, "dimension 1", x=zeros, y=getattr(zeros, name)(1).long())
        golden.case(name + "_none", "of nothing", x=torch.ones(2, 0, dtype=F64),
                    y=getattr(torch.ones(2, 0), name)(1).long())


def sums():
    x = draw(2, 3, 4)
    golden.op("std", "dimension 2, correction 1", lambda a: a.std(2), x=x)
    golden.op("std_all", "all dimensions, correction 0", lambda a: a.std(correction=0), x=x)
    golden.op("std_0", "no spread: no gradient", lambda a: a.std(1), x=t([1.0, 1, 1], [1, 2, 4]))
    golden.op("logsumexp", "dimension 1", lambda a: a.logsumexp(1), x=x)
    golden.op("logsumexp_dims", "dimensions 0 and 2, kept, large values",
              lambda a: a.logsumexp((0, 2), keepdim=True), x=x * 512)
    golden.op("logsumexp_inf", "infinities and NaN", lambda a: a.logsumexp(1),
              x=t([-INF, -INF], [INF, 1], [INF, INF], [-INF, 1], [NAN, 1], [-1000, 1000]))
    golden.case("logsumexp_none", "of nothing", x=torch.ones(2, 0, dtype=F64),
                y=torch.ones(2, 0).logsumexp(1))


def norms():
    x = torch.cat([draw(2, 3, 4), torch.zeros(1, 3, 4, dtype=F64)])
    x[0, 0, 0] = 0
    for label, p in {"2": 2, "1": 1, "3": 3, "half": 0.5, "between": 1.5, "minus": -1.0,
                     "greatest": INF, "least": -INF}.items():
        golden.op("norm_" + label, f"p = {p}, dimension 2; zeros in it",
                  lambda a, p=p: torch.linalg.vector_norm(a, p, 2), x=x)
    golden.case("norm_0", "p = 0: a count", x=x, y=torch.linalg.vector_norm(x, 0, (0, 2)))
    golden.op("norm_all", "p = 2, all dimensions", torch.linalg.vector_norm, x=x)
    golden.op("norm_ties", "ties of the greatest share", lambda a: torch.linalg.vector_norm(a, INF, 1),
              x=t([1.0, -3, 3], [2, 2, -2], [NAN, 1, NAN]))


def products():
    x = draw(2, 3, 4)
    zeros = t([1.0, 0, 3], [0, 0, 3], [2, 3, 4])
    golden.op("prod_all", "all dimensions", torch.prod, x=draw(2, 3))
    golden.op("prod_dim1", "dimension 1, kept", lambda a: a.prod(1, keepdim=True), x=x)
    golden.op("prod_zeros", "none, one and two zeros", lambda a: a.prod(1), x=zeros)
    golden.case("prod_none", "of nothing", x=torch.ones(2, 0, dtype=F64), y=torch.ones(2, 0).prod(1))
    golden.op("cumsum", "dimension 1", lambda a: a.cumsum(1), x=x)
    golden.op("cumsum_last", "dimension 2", lambda a: a.cumsum(-1), x=x)
    golden.op("cumprod", "dimension 1", lambda a: a.cumprod(1), x=x)
    golden.op("cumprod_zeros", "none, one and two zeros", lambda a: a.cumprod(1), x=zeros)
    golden.op("cumprod_0", "dimension 0", lambda a: a.cumprod(0), x=x)
    odd = t([1.0, INF, 2, NAN, 1], [0, INF, 1, 1, 1], [-INF, 2, INF, 3, 0])
    golden.case("cumsum_odd", "infinities and NaN", x=odd, y=odd.cumsum(1))
    golden.case("cumprod_odd", "infinities and NaN", x=odd, y=odd.cumprod(1))


def second_order():
    x = draw(3, 4)
    zeros = x.clone()
    zeros[0, 1] = zeros[1, 2] = zeros[1, 0] = 0
    golden.second("prod", lambda a: a.prod(1), zeros)
    golden.second("cumprod", lambda a: a.cumprod(1), x)
    golden.second("cumsum", lambda a: a.cumsum(1).square(), x)
    golden.second("std", lambda a: a.std(1), x)
    golden.second("norm", lambda a: torch.linalg.vector_norm(a, 3, 1), x)
    golden.second("logsumexp", lambda a: a.logsumexp(1), x)


def dtypes():
    """Dtypes of results: numbers as in the head of the file, 0 an error."""
    from golden import DTYPES
    index = {d: i + 1 for i, d in enumerate(DTYPES)}

    def result(name, d):
        try:
            return index[getattr(torch.ones(2, dtype=d), name)(0).dtype]
        except RuntimeError:
            return 0

    for name in ("prod", "amin", "any", "all", "cumsum", "cumprod", "logsumexp"):
        golden.case("dtype_" + name, "dtype of the result", y=torch.tensor([result(name, d) for d in DTYPES]))


def main():
    for section in (extremes, sums, norms, products, second_order, dtypes):
        section()
    golden.write("reduce")


if __name__ == "__main__":
    main()
