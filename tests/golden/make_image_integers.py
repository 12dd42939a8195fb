#!/usr/bin/env python3
"""Writes image_integers.txt (golden.py): convolutions and averages of i64, which wrap and drop what is behind
the point, narrower integers, and images of bytes in other sizes, which are rounded to bytes after each dimension.
PyTorch computes them on the CPU alone, but "nearest"."""

import torch
import torch.nn.functional as F

from golden import Golden, draw_int

golden = Golden()


def whole(*shape, most=20):
    """From -most to most - 1."""
    return draw_int(2 * most, *shape) - most


def convolutions():
    golden.op("conv2d", "padding 1", lambda x, w, b: F.conv2d(x, w, b, padding=1),
              x=whole(2, 3, 5, 6), w=whole(4, 3, 3, 3), b=whole(4))
    golden.op("conv2d_options", "stride (2, 1), dilation (1, 2), 2 groups",
              lambda x, w, b: F.conv2d(x, w, b, (2, 1), (0, 2), (1, 2), 2),
              x=whole(2, 4, 5, 6), w=whole(6, 2, 3, 2), b=whole(6))
    golden.op("conv2d_channels", "17 to 20 channels", F.conv2d, x=whole(1, 17, 3, 3),
              w=whole(20, 17, 2, 2))
    golden.op("conv2d_wraps", "at 2^64", F.conv2d, x=torch.tensor([2**33, 2**32, 5]).reshape(1, 1, 1, 3),
              w=torch.tensor([2**31, 2**33, 7]).reshape(1, 1, 1, 3), b=torch.tensor([7]))
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32):
        x, w, b = (whole(*shape, most=120) for shape in ((1, 2, 3, 3), (2, 2, 2, 2), (2,)))
        golden.case(f"conv2d_{dtype}".replace("torch.", ""), "computed in that dtype, which wraps",
                    x=x, w=w, b=b, y=F.conv2d(x.to(dtype), w.to(dtype), b.to(dtype)))
    golden.op("conv1d", "stride 2", lambda x, w: F.conv1d(x, w, stride=2), x=whole(2, 3, 7),
              w=whole(4, 3, 3))
    golden.op("transpose2d", "stride 2, padding 1, output padding 1, 2 groups",
              lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1, 2),
              x=whole(2, 4, 3, 3), w=whole(4, 2, 3, 3), b=whole(4))
    golden.op("transpose1d", "", F.conv_transpose1d, x=whole(2, 3, 5), w=whole(3, 2, 3))


def averages():
    golden.op("average", "kernel 2", lambda x: F.avg_pool2d(x, 2), x=whole(2, 2, 5, 4))
    golden.op("average_pad", "kernel 3, stride 2, padding 1, zeros counted",
              lambda x: F.avg_pool2d(x, 3, 2, 1), x=whole(1, 2, 6, 7))
    golden.op("average_exclude", "kernel 3, stride 2, padding 1, ceil mode, zeros not counted",
              lambda x: F.avg_pool2d(x, 3, 2, 1, True, False), x=whole(1, 2, 6, 7))


def sizes():
    for name, options in {"nearest": {}, "exact": {"mode": "nearest-exact"},
                          "bilinear": {"mode": "bilinear"},
                          "corners": {"mode": "bilinear", "align_corners": True}}.items():
        for case, channels, extent, given in (
                ("size", 3, (4, 3), {"size": (7, 5)}), ("less", 6, (7, 5), {"size": (3, 2)}),
                ("scale", 2, (4, 3), {"scale_factor": (1.5, 2.25)}),
                ("keep", 2, (4, 3), {"scale_factor": 1.2})):
            x = draw_int(256, 1, channels, *extent)
            golden.case(f"{name}_{case}", f"bytes: {given}", x=x,
                        y=F.interpolate(x.byte(), **given, **options))


if __name__ == "__main__":
    convolutions()
    averages()
    sizes()
    golden.write("image_integers")
