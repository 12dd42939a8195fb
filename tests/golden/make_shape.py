#!/usr/bin/env python3
"""Writes shape.txt: views and copies with elements in other places. See golden.py."""

import torch
import torch.nn.functional as F

from golden import Golden, draw

golden = Golden()


def joined(parts):
    """The parts as one row, the last first."""
    return torch.cat([p.reshape(-1) for p in reversed(parts)])


def views():
    golden.op("split", "3 of dim 1", lambda x: joined(x.split(3, 1)), x=draw(2, 7, 2))
    golden.op("split_sizes", "2, 0, 3 of dim 0", lambda x: joined(x.split([2, 0, 3])), x=draw(5, 2))
    golden.op("chunk", "4 of 5", lambda x: joined(x.chunk(4)), x=draw(5, 2))
    golden.op("unbind", "dim -1", lambda x: joined(x.unbind(-1)), x=draw(2, 3, 4))
    golden.op("movedim", "1 to -1", lambda x: x.movedim(1, -1), x=draw(2, 3, 4, 2))
    golden.op("movedim_back", "-1 to 0", lambda x: x.movedim(-1, 0), x=draw(2, 3, 4))
    golden.op("unfold", "size 3 step 2", lambda x: x.unfold(1, 3, 2), x=draw(2, 8, 3))
    golden.op("unfold_apart", "size 2 step 3", lambda x: x.unfold(0, 2, 3), x=draw(9, 2))
    golden.op("unfold_long", "size 7 step 1", lambda x: x.unfold(-1, 7, 1), x=draw(2, 9))
    golden.op("unfold_0d", "of a 0-dim tensor", lambda x: x.unfold(0, 1, 1), x=draw())


def repeats():
    golden.op("repeat", "2, 3", lambda x: x.repeat(2, 3), x=draw(3, 2))
    golden.op("repeat_more", "new dimensions", lambda x: x.repeat(2, 1, 3, 2), x=draw(2, 3))
    golden.op("repeat_5d", "all of five", lambda x: x.repeat(2, 3, 2, 2, 1), x=draw(2, 1, 2, 1, 2))
    golden.op("repeat_once", "a copy", lambda x: x.repeat(1, 1), x=draw(2, 3))


def turns():
    golden.op("flip", "dims 0 and -1", lambda x: x.flip(0, -1), x=draw(2, 3, 4))
    golden.op("flip_0d", "a 0-dim tensor", lambda x: x.flip(0), x=draw())
    golden.op("roll", "1, -2 along 0, 1", lambda x: x.roll((1, -2), (0, 1)), x=draw(3, 5, 2))
    golden.op("roll_flat", "7 in row-major order", lambda x: x.roll(7), x=draw(3, 5))
    golden.op("roll_twice", "2, 9 along 1, 1", lambda x: x.roll((2, 9), (1, 1)), x=draw(2, 4))
    golden.op("tril", "main diagonal", torch.tril, x=draw(3, 4))
    golden.op("tril_1", "diagonal 1 of matrices", lambda x: x.tril(1), x=draw(2, 2, 4, 3))
    golden.op("triu_2", "diagonal 2", lambda x: x.triu(2), x=draw(3, 5))
    golden.op("triu_below", "diagonal -1", lambda x: x.triu(-1), x=draw(2, 4, 3))


def pads():
    golden.op("pad", "constant 1.5", lambda x: F.pad(x, (1, 2, 0, 1), value=1.5), x=draw(2, 3, 4))
    golden.op("pad_cut", "constant, negative", lambda x: F.pad(x, (-1, 2, 1, -2)), x=draw(4, 5))
    golden.op("pad_reflect", "1-D", lambda x: F.pad(x, (3, 1), mode="reflect"), x=draw(2, 3, 4))
    golden.op("pad_reflect_cut", "right alone", lambda x: F.pad(x, (-2, 3), mode="reflect"),
              x=draw(2, 5))
    golden.op("pad_reflect_2d", "2-D", lambda x: F.pad(x, (3, 1, 2, 0), mode="reflect"),
              x=draw(2, 2, 3, 4))
    golden.op("pad_replicate", "1-D", lambda x: F.pad(x, (2, 5), mode="replicate"), x=draw(2, 3, 4))
    golden.op("pad_replicate_2d", "2-D", lambda x: F.pad(x, (4, 1, -2, 2), mode="replicate"),
              x=draw(2, 1, 3, 3))
    golden.op("pad_replicate_3d", "3-D", lambda x: F.pad(x, (1, 1, 0, 2, 1, 0), mode="replicate"),
              x=draw(1, 2, 2, 2, 3))
    golden.op("pad_circular", "2-D", lambda x: F.pad(x, (2, 3, 1, 0), mode="circular"),
              x=draw(1, 2, 3, 4))


def made():
    golden.case("linspace", "-1 to 2, 7", y=torch.linspace(-1, 2, 7, dtype=torch.float64))
    golden.case("linspace_i64", "-3 to 10, 6", y=torch.linspace(-3, 10, 6, dtype=torch.int64))
    golden.case("linspace_i32", "-3.7 to 7.9, 6", y=torch.linspace(-3.7, 7.9, 6, dtype=torch.int32))
    golden.case("linspace_one", "5 to 9, 1", y=torch.linspace(5, 9, 1, dtype=torch.float64))
    golden.case("eye", "4, 2", y=torch.eye(4, 2, dtype=torch.float64))


def stacked():
    golden.op("stack", "before dimension 1", lambda x, t: torch.stack((x, t), 1), x=draw(2, 3),
              t=draw(2, 3))
    golden.op("stack_last", "behind all, of 0-dim", lambda x, t: torch.stack((x, t), -1), x=draw(),
              t=draw())
    golden.case("arange", "-1 to 2 in steps of 0.75", y=torch.arange(-1, 2, 0.75, dtype=torch.float64))
    golden.case("arange_down", "7 to -2 in steps of -3", y=torch.arange(7, -2, -3))


def pads_cut():
    golden.op("pad_circular_cut", "2-D, of what is left",
              lambda x: F.pad(x, (-1, 2, 1, -2), mode="circular"), x=draw(1, 2, 4, 4))
    golden.op("pad_reflect_beyond", "more than all is taken away",
              lambda x: F.pad(x, (-6, 4, 3, -5), mode="reflect"), x=draw(1, 2, 4, 5))
    golden.op("pad_replicate_beyond", "more than all is taken away",
              lambda x: F.pad(x, (-6, 7, 8, -7), mode="replicate"), x=draw(1, 2, 4, 5))


views()
repeats()
turns()
pads()
made()
stacked()
pads_cut()
golden.write("shape")
