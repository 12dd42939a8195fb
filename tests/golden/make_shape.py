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


views()
repeats()
golden.write("shape")
