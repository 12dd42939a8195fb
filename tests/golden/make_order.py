#!/usr/bin/env python3
"""Writes order.txt: sorting, parts of a sorted order, unique, searchsorted; see golden.py."""

import math

import torch

from golden import Golden, draw, draw_int, generator

golden = Golden()
F64 = torch.float64
INF, NAN = math.inf, math.nan


def t(*values):
    return torch.tensor(values, dtype=F64)


def sorting():
    x = (torch.randperm(30, generator=generator, dtype=F64) / 8 - 2).reshape(2, 5, 3)
    ties = t([3.0, 1, 3, 1, 2], [0.0, -0.0, 1, -1, 0])
    odd = t([1.0, NAN, -INF, NAN, INF], [NAN, 2, NAN, 1, 0])
    golden.op("sort", "dimension 1", lambda a: tuple(a.sort(1)), x=x)
    golden.op("sort_falling", "dimension 2, falling", lambda a: tuple(a.sort(2, descending=True)), x=x)
    golden.op("sort_ties", "equal elements keep their order",
              lambda a: tuple(torch.sort(a, dim=1, stable=True)), x=ties)
    golden.op("sort_ties_falling", "equal elements keep their order",
              lambda a: tuple(torch.sort(a, dim=1, descending=True, stable=True)), x=ties)
    golden.case("sort_nan", "NaN comes last", x=odd, y=torch.sort(odd, dim=1, stable=True)[0],
                y2=torch.sort(odd, dim=1, stable=True)[1])
    falling = torch.sort(odd, dim=1, descending=True, stable=True)
    golden.case("sort_nan_falling", "NaN comes first", x=odd, y=falling[0], y2=falling[1])
    golden.op("topk", "3 of dimension 1", lambda a: tuple(a.topk(3, 1)), x=x)
    golden.op("topk_least", "2 least of dimension 0 of two", lambda a: tuple(a.topk(2, 0, largest=False)),
              x=x[0])
    golden.case("topk_nan", "2, NaN is the largest", x=odd, y=odd.topk(2, 1)[0])
    golden.op("median", "dimension 1 of five", lambda a: tuple(a.median(1)), x=x)
    golden.op("median_even", "of an even number the lower", lambda a: tuple(a.median(0)),
              x=x[:, :2].reshape(4, 3))
    golden.op("median_all", "all elements", torch.median, x=x)
    golden.op("median_all_ties", "ties share the gradient", torch.median, x=t(1, 2, 2, 3, 2.0, 5))
    golden.op("median_nan", "the first NaN is the median", lambda a: tuple(a.median(1)),
              x=t([1.0, 2, 3], [1, NAN, 3], [5, 0, -1]))
    golden.case("median_none", "of nothing", x=t(), y=t().median())


def finding():
    x = torch.tensor([[3, 1, 3, 0], [1, 7, 3, 3]])
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    golden.case("unique", "of integers; y2: inverse, y3: counts", x=x, y=values, y2=inverse, y3=counts)
    odd = t(NAN, 1, NAN, 0.0, -0.0, 1)
    values, inverse, counts = torch.unique(odd, return_inverse=True, return_counts=True)
    golden.case("unique_nan", "each NaN is one of its own", x=odd, y=values, y2=inverse, y3=counts)
    rows = draw(3, 6).sort(1)[0]
    wanted = draw(3, 4)
    wanted[:, 0] = rows[:, 2]
    golden.case("search", "rows", s=rows, x=wanted, y=torch.searchsorted(rows, wanted))
    golden.case("search_right", "behind equal ones", s=rows, x=wanted,
                y=torch.searchsorted(rows, wanted, right=True))
    line = rows[0].contiguous()
    golden.case("search_line", "one row for all", s=line, x=wanted, y=torch.searchsorted(line, wanted))


def places():
    x = torch.round(draw(3, 6) * 2)
    golden.case("argsort", "dimension 1, equal ones keep their order", x=x, y=x.argsort(dim=1, stable=True))
    golden.case("argsort_falling", "dimension 0, descending", x=x,
                y=x.argsort(dim=0, descending=True, stable=True))


def parts():
    for name, dim, x in (("rows", 0, draw_int(2, 9, 3)), ("columns", 1, draw_int(2, 2, 9)),
                         ("middle", -2, draw_int(2, 2, 7, 1)), ("line", 0, draw_int(4, 8)),
                         ("none", 0, torch.zeros((0, 3), dtype=torch.int64)),
                         ("real", 0, draw(3, 5)[[2, 0, 1, 0, 2]])):
        values, inverse, counts = torch.unique(x, dim=dim, return_inverse=True, return_counts=True)
        golden.case("unique_" + name, f"along {dim}", x=x, y=values, y2=inverse, y3=counts)


def main():
    for section in (sorting, finding, places, parts):
        section()
    golden.write("order")


if __name__ == "__main__":
    main()
