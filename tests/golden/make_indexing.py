#!/usr/bin/env python3
"""Writes indexing.txt: elements found by numbers that are data. See golden.py."""

import torch
import torch.nn.functional as F

from golden import Golden, draw, draw_int

golden = Golden()


def selects():
    golden.op("index_select_0", "dim 0", lambda x, i: x.index_select(0, i), x=draw(4, 3),
              constants={"i": torch.tensor([3, 0, 3, 3, 1])})
    golden.op("index_select_1", "dim -1", lambda x, i: x.index_select(-1, i), x=draw(2, 2, 4),
              constants={"i": torch.tensor([1, 1, 2])})
    golden.op("masked_select", "broadcast", lambda x, m: x.masked_select(m != 0), x=draw(3, 4),
              constants={"m": draw_int(2, 2, 1, 4)})


def scatters():
    rows = torch.tensor([[0, 2, 1, 2], [3, 1, 0, 0]])
    columns = torch.tensor([[4, 0, 2], [1, 3, 0]])
    golden.op("scatter_1", "dim 1, larger x", lambda x, s, i: x.scatter(1, i, s), x=draw(3, 5),
              s=draw(2, 3), constants={"i": columns})
    golden.op("scatter_number", "1.5", lambda x, i: x.scatter(0, i, 1.5), x=draw(4, 5),
              constants={"i": rows})
    golden.op("scatter_add_0", "dim 0", lambda x, s, i: x.scatter_add(0, i, s), x=draw(4, 5),
              s=draw(2, 4), constants={"i": rows})
    golden.op("scatter_add_2", "dim 2", lambda x, s, i: x.scatter_add(2, i, s), x=draw(2, 2, 3),
              s=draw(2, 2, 6), constants={"i": draw_int(3, 2, 2, 6)})


def lookups():
    i, j = torch.tensor([[0, -1], [2, 1]]), torch.tensor([1, -3])
    golden.op("index_one", "x[i]", lambda x, i: x[i], x=draw(3, 2), constants={"i": i})
    golden.op("index_inner", "x[:, i]", lambda x, i: x[:, i], x=draw(2, 3, 2), constants={"i": i})
    golden.op("index_two", "x[:, i, j]", lambda x, i, j: x[:, i, j], x=draw(2, 3, 4, 2),
              constants={"i": i, "j": j})
    golden.op("index_apart", "x[i, :, j]", lambda x, i, j: x[i, :, j], x=draw(3, 2, 4),
              constants={"i": i, "j": j})
    golden.op("index_mask", "x[m]", lambda x, m: x[m != 0], x=draw(3, 4, 2),
              constants={"m": draw_int(2, 3, 4)})
    golden.op("index_mask_and", "x[m, j]", lambda x, m, j: x[m != 0, j], x=draw(3, 4, 2),
              constants={"m": torch.tensor([1, 0, 1]), "j": j})


def puts():
    # each place once, unless it is added to: which of two writers is the last is not defined on a GPU
    i, j = torch.tensor([[0, -1], [2, 1]]), torch.tensor([1, -3])
    again = torch.tensor([[0, -1], [2, 0]])
    golden.op("put_one", "x[:, i] = v", lambda x, v, i: x.index_put((torch.arange(2)[:, None, None], i), v),
              x=draw(2, 4, 2), v=draw(2, 2, 2, 2), constants={"i": i})
    golden.op("put_two", "x[i, j] = v", lambda x, v, i, j: x.index_put((i, j), v), x=draw(4, 4, 2),
              v=draw(2, 1), constants={"i": i, "j": j})
    golden.op("put_add", "x[i, j] += v", lambda x, v, i, j: x.index_put((i, j), v, accumulate=True),
              x=draw(3, 4, 2), v=draw(2, 2, 2), constants={"i": again, "j": torch.tensor([1, 1])})
    golden.op("put_mask", "x[m] = v", lambda x, v, m: x.index_put((m != 0,), v), x=draw(3, 4),
              v=draw(1), constants={"m": draw_int(2, 3, 4)})


def counts():
    x = draw_int(3, 3, 4) - 1
    golden.case("nonzero", "of integers", x=x, y=x.nonzero())
    x = torch.tensor([0.0, -0.0, 1e-3, float("nan"), -2.0], dtype=torch.float64)
    golden.case("nonzero_float", "signed zeros and NaN", x=x, y=x.nonzero())
    i = torch.tensor([[0, 3], [2, 0]])
    golden.case("one_hot", "4 classes, told by the index", i=i, y=F.one_hot(i))
    golden.case("one_hot_6", "6 classes", i=i, y=F.one_hot(i, 6))


def sums():
    i = torch.tensor([2, 0, 2, 2, 1])
    golden.op("index_add_0", "dim 0", lambda x, s, i: x.index_add(0, i, s), x=draw(3, 4), s=draw(5, 4),
              constants={"i": i})
    golden.op("index_add_1", "dim -1", lambda x, s, i: x.index_add(-1, i, s), x=draw(2, 2, 4),
              s=draw(2, 2, 5), constants={"i": i})
    x = torch.tensor([3, 0, 3, 3, 1])
    golden.case("bincount", "up to the greatest", x=x, y=x.bincount())
    golden.case("bincount_least", "7 at least", x=x, y=x.bincount(minlength=7))
    w = draw(5)
    golden.case("bincount_weights", "sums", x=x, w=w, y=x.bincount(w))


def repeats():
    golden.op("repeat_each", "3 of dim 1", lambda x: x.repeat_interleave(3, 1), x=draw(2, 3, 2))
    golden.op("repeat_none", "0 of dim 0", lambda x: x.repeat_interleave(0, 0), x=draw(2, 3))
    golden.op("repeat_some", "2, 0, 3 of dim -1", lambda x, r: x.repeat_interleave(r, -1), x=draw(2, 3),
              constants={"r": torch.tensor([2, 0, 3])})
    golden.op("repeat_one", "a tensor of one number", lambda x, r: x.repeat_interleave(r, 0),
              x=draw(2, 3), constants={"r": torch.tensor([2])})


selects()
scatters()
lookups()
puts()
counts()
sums()
repeats()
golden.write("indexing")
