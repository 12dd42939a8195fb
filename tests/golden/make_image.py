#!/usr/bin/env python3
"""Writes image.txt: sequences, transposed convolution, pooling to a size, interpolation, and
normalisation by groups; conv2d, pooling, batch and layer norm are in make_golden.py."""

import torch
import torch.nn.functional as F

from golden import Golden, draw

golden = Golden()


def convolutions():
    golden.op("conv1d", "no bias", F.conv1d, x=draw(2, 3, 8), w=draw(4, 3, 3))
    golden.op("conv1d_options", "stride 2, padding 2, dilation 2, groups 2",
              lambda x, w, b: F.conv1d(x, w, b, 2, 2, 2, 2), x=draw(2, 4, 9), w=draw(6, 2, 3),
              b=draw(6))
    golden.op("conv1d_one", "[C, L]", F.conv1d, x=draw(3, 7), w=draw(2, 3, 2), b=draw(2))
    golden.op("transpose1d", "stride 2, padding 1, output padding 1",
              lambda x, w, b: F.conv_transpose1d(x, w, b, 2, 1, 1), x=draw(2, 3, 5),
              w=draw(3, 2, 4), b=draw(2))
    golden.op("transpose2d", "no bias", F.conv_transpose2d, x=draw(2, 3, 4, 3), w=draw(3, 2, 3, 2))
    golden.op("transpose2d_options",
              "stride (2, 3), padding (1, 2), output padding (1, 0), groups 2, dilation (1, 2)",
              lambda x, w, b: F.conv_transpose2d(x, w, b, (2, 3), (1, 2), (1, 0), 2, (1, 2)),
              x=draw(2, 4, 3, 4), w=draw(4, 3, 3, 2), b=draw(6))
    golden.op("transpose2d_one", "[C, H, W]", F.conv_transpose2d, x=draw(2, 3, 3),
              w=draw(2, 3, 2, 2), b=draw(3))


def pools():
    x = draw(2, 3, 7, 5)
    golden.op("adaptive_avg", "to (3, 2)", lambda a: F.adaptive_avg_pool2d(a, (3, 2)), x=x)
    golden.op("adaptive_avg_even", "to (2, 3)", lambda a: F.adaptive_avg_pool2d(a, (2, 3)),
              x=draw(2, 3, 8, 6))
    golden.op("adaptive_avg_keep", "to (None, 2)", lambda a: F.adaptive_avg_pool2d(a, (None, 2)),
              x=x)
    golden.op("adaptive_avg_larger", "to (5, 4)", lambda a: F.adaptive_avg_pool2d(a, (5, 4)),
              x=draw(1, 2, 2, 3))
    golden.op("adaptive_max", "to (3, 2)", lambda a: F.adaptive_max_pool2d(a, (3, 2)), x=x)
    ties = torch.round(draw(1, 2, 7, 5, low=0, high=2))
    golden.op("adaptive_max_ties", "to (3, 2), equal values: the first gets the gradient",
              lambda a: F.adaptive_max_pool2d(a, (3, 2)), x=ties)
    golden.op("adaptive_max_even", "to (2, 3)", lambda a: F.adaptive_max_pool2d(a, (2, 3)),
              x=draw(2, 3, 8, 6))
    golden.op("adaptive_avg1d", "to 4", lambda a: F.adaptive_avg_pool1d(a, 4), x=draw(2, 3, 9))
    golden.op("adaptive_max1d", "to 4", lambda a: F.adaptive_max_pool1d(a, 4), x=draw(2, 3, 9))


def sizes():
    x = draw(2, 2, 4, 3)
    for name, options in {"nearest": {}, "exact": {"mode": "nearest-exact"},
                          "bilinear": {"mode": "bilinear"},
                          "corners": {"mode": "bilinear", "align_corners": True}}.items():
        golden.op(f"{name}_size", "to (7, 5)",
                  lambda a, o=options: F.interpolate(a, (7, 5), **o), x=x)
        golden.op(f"{name}_less", "to (3, 2)",
                  lambda a, o=options: F.interpolate(a, (3, 2), **o), x=draw(1, 2, 7, 5))
        golden.op(f"{name}_scale", "by (1.5, 2.25)",
                  lambda a, o=options: F.interpolate(a, scale_factor=(1.5, 2.25), **o), x=x)
        golden.op(f"{name}_shrink", "by 0.6",
                  lambda a, o=options: F.interpolate(a, scale_factor=0.6, **o), x=draw(1, 2, 7, 5))
    golden.op("corners_one", "to (1, 1)",
              lambda a: F.interpolate(a, (1, 1), mode="bilinear", align_corners=True), x=x)
    golden.op("linear", "to 9", lambda a: F.interpolate(a, 9, mode="linear"), x=draw(2, 3, 5))
    golden.op("nearest_line", "by 2", lambda a: F.interpolate(a, scale_factor=2), x=draw(2, 3, 5))


def norms():
    golden.op("group", "2 groups", lambda x, w, b: F.group_norm(x, 2, w, b), x=draw(2, 4, 3, 2),
              w=draw(4), b=draw(4))
    golden.op("group_plain", "3 groups, eps 0.5", lambda x: F.group_norm(x, 3, eps=0.5),
              x=draw(3, 6))
    golden.op("group_bias", "1 group, no weight", lambda x, b: F.group_norm(x, 1, None, b),
              x=draw(2, 3, 4), b=draw(3))
    golden.op("instance", "", lambda x, w, b: F.instance_norm(x, None, None, w, b),
              x=draw(2, 3, 3, 2), w=draw(3), b=draw(3))
    golden.op("instance_plain", "[N, C, L], eps 0.5", lambda x: F.instance_norm(x, eps=0.5),
              x=draw(2, 3, 5))
    mean, var = draw(3), draw(3, low=0.5, high=2)
    golden.op("instance_running", "by running statistics",
              lambda x, w, b, m, v: F.instance_norm(x, m, v, w, b, False),
              constants={"m": mean, "v": var}, x=draw(2, 3, 4), w=draw(3), b=draw(3))
    x, m, v = draw(2, 3, 5), mean.clone(), var.clone()
    y = F.instance_norm(x, m, v, momentum=0.25)
    golden.case("instance_updates", "momentum 0.25; m2, v2: the running statistics after it",
                x=x, m=mean, v=var, y=y, m2=m, v2=v)
    golden.op("rms", "", lambda x, w: F.rms_norm(x, (5,), w, 1e-3), x=draw(3, 5), w=draw(5))
    golden.op("rms_two", "last two dimensions", lambda x, w: F.rms_norm(x, (2, 5), w, 1e-3),
              x=draw(3, 2, 5), w=draw(2, 5))
    golden.op("rms_plain", "no weight, eps 0.5", lambda x: F.rms_norm(x, (5,), eps=0.5),
              x=draw(3, 5))


if __name__ == "__main__":
    convolutions()
    pools()
    sizes()
    norms()
    golden.second("rms", lambda x: F.rms_norm(x, (4,), eps=1e-3), draw(3, 4))
    golden.second("group", lambda x: F.group_norm(x, 2), draw(2, 4, 3))
    golden.second("transpose2d", lambda x: F.conv_transpose2d(x * x, torch.ones(2, 1, 2, 2).double()),
                  draw(1, 2, 2, 3))
    golden.op("transpose1d_wide", "stride 1, padding 1, output padding 2, dilation 3",
              lambda x, w, b: F.conv_transpose1d(x, w, b, 1, 1, 2, 1, 3), x=draw(2, 3, 5),
              w=draw(3, 2, 2), b=draw(2))
    golden.op("transpose2d_wide", "stride (2, 1), padding (3, 0), output padding (1, 3), dilation (2, 4)",
              lambda x, w, b: F.conv_transpose2d(x, w, b, (2, 1), (3, 0), (1, 3), 1, (2, 4)),
              x=draw(1, 2, 4, 3), w=draw(2, 2, 3, 2), b=draw(2))
    golden.op("pixel_shuffle", "factor 2", lambda x: F.pixel_shuffle(x, 2), x=draw(2, 8, 3, 2))
    golden.op("pixel_shuffle_3", "factor 3, no images", lambda x: F.pixel_shuffle(x, 3), x=draw(9, 1, 2))
    golden.op("pixel_unshuffle", "factor 2", lambda x: F.pixel_unshuffle(x, 2), x=draw(2, 3, 4, 6))
    golden.op("pixel_unshuffle_more", "factor 3, two dimensions of images",
              lambda x: F.pixel_unshuffle(x, 3), x=draw(2, 1, 2, 3, 6))
    golden.write("image")
