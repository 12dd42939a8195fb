#!/usr/bin/env python3
"""Writes loss.txt: losses beside cross-entropy and mse_loss, which make_golden.py has."""

import torch
import torch.nn.functional as F

from golden import Golden, draw, draw_int

golden = Golden()
REDUCTIONS = ("mean", "sum", "none")


def distances():
    x, t = draw(3, 4, low=-4, high=4), draw(3, 4, low=-4, high=4)
    t[0, 0] = x[0, 0]
    t[0, 1], t[1, 0] = x[0, 1] + 1, x[1, 0] - 1  # at the joint of both halves
    for r in REDUCTIONS:
        golden.op(f"l1_{r}", f"reduction {r}", lambda a, b, r=r: F.l1_loss(a, b, reduction=r),
                  x=x, t=t)
        golden.op(f"smooth_l1_{r}", f"reduction {r}",
                  lambda a, b, r=r: F.smooth_l1_loss(a, b, reduction=r), x=x, t=t)
        golden.op(f"huber_{r}", f"reduction {r}",
                  lambda a, b, r=r: F.huber_loss(a, b, reduction=r), x=x, t=t)
    golden.op("smooth_l1_beta", "beta 0.25", lambda a, b: F.smooth_l1_loss(a, b, beta=0.25),
              x=x, t=t)
    golden.op("huber_delta", "delta 2.5", lambda a, b: F.huber_loss(a, b, delta=2.5), x=x, t=t)
    golden.op("l1_broadcast", "each of [3, 1] and [4]",
              lambda a, b: F.l1_loss(a, b, reduction="none"), x=draw(3, 1), t=draw(4))


def distributions():
    x, t = draw(3, 4, low=-4, high=0), draw(3, 4, low=0.125, high=1)
    for r in REDUCTIONS + ("batchmean",):
        golden.op(f"kl_div_{r}", f"reduction {r}",
                  lambda a, b, r=r: F.kl_div(a, b, reduction=r), x=x, t=t)
    golden.op("kl_div_log", "the target is a logarithm",
              lambda a, b: F.kl_div(a, b, reduction="batchmean", log_target=True),
              x=x, t=draw(3, 4, low=-4, high=0))
    zeros = t.clone()
    zeros[1] = 0
    golden.op("kl_div_zero", "targets of 0", lambda a, b: F.kl_div(a, b, reduction="none"),
              constants={"t": zeros}, x=x)


def classes():
    x, target = draw(4, 3, low=-4, high=0), torch.tensor([2, 0, 1, 2])
    weight = draw(3, low=0.25, high=2)
    for r in REDUCTIONS:
        golden.op(f"nll_{r}", f"reduction {r}",
                  lambda a, t, w, r=r: F.nll_loss(a, t, w, reduction=r),
                  constants={"t": target, "w": weight}, x=x)
    golden.op("nll_plain", "no weights", F.nll_loss, constants={"t": target}, x=x)
    golden.op("nll_ignore", "ignore index 0, weights",
              lambda a, t, w: F.nll_loss(a, t, w, ignore_index=0),
              constants={"t": target, "w": weight}, x=x)
    golden.op("nll_usual", "ignore index -100",
              F.nll_loss, constants={"t": torch.tensor([2, -100, 1, -100])}, x=x)
    golden.op("nll_nothing", "all targets ignored: NaN", F.nll_loss,
              constants={"t": torch.tensor([-100, -100])}, x=draw(2, 3))
    golden.op("nll_spatial", "[N, C, S, S] with targets [N, S, S], weights",
              F.nll_loss, constants={"t": draw_int(3, 2, 2, 3), "w": weight},
              x=draw(2, 3, 2, 3))
    golden.op("nll_one", "[C] with one target", F.nll_loss, constants={"t": torch.tensor(1)},
              x=draw(3))


def angles():
    golden.op("cosine", "dimension 1", lambda a, b: F.cosine_similarity(a, b, 1),
              x=draw(3, 4), t=draw(3, 4))
    golden.op("cosine_first", "dimension 0 of [3, 4, 2] and [4, 1]",
              lambda a, b: F.cosine_similarity(a, b, 0), x=draw(3, 4, 2), t=draw(4, 1))
    golden.op("cosine_eps", "lengths below eps = 3",
              lambda a, b: F.cosine_similarity(a, b, 1, 3.0), constants={"t": draw(3, 4)},
              x=draw(3, 4, low=4, high=6))
    zero = torch.zeros(2, 3, dtype=torch.float64)
    golden.op("cosine_zero", "a vector of length 0", lambda a, b: F.cosine_similarity(a, b, 1),
              x=zero, t=draw(2, 3))


def chances():
    x, t = draw(3, 4, low=1 / 16, high=15 / 16), draw(3, 4, low=0, high=1)
    logits, w, pos = draw(3, 4, low=-4, high=4), draw(4, low=0.25, high=2), draw(4, low=0.5, high=3)
    for r in REDUCTIONS:
        golden.op(f"bce_{r}", f"reduction {r}",
                  lambda a, b, r=r: F.binary_cross_entropy(a, b, reduction=r), x=x, t=t)
        golden.op(f"bce_logits_{r}", f"reduction {r}",
                  lambda a, b, r=r: F.binary_cross_entropy_with_logits(a, b, reduction=r),
                  x=logits, t=t)
    golden.op("bce_weight", "weights", lambda a, t, w: F.binary_cross_entropy(a, t, w),
              constants={"t": t, "w": w}, x=x)
    golden.op("bce_logits_weight", "weights, and of ones",
              lambda a, t, w, p: F.binary_cross_entropy_with_logits(a, t, w, pos_weight=p),
              constants={"t": t, "w": w, "p": pos}, x=logits)
    ends = torch.tensor([0.0, 0.0, 1.0, 1.0], dtype=torch.float64)
    golden.op("bce_ends", "0 and 1: logarithms end at -100",
              lambda a, t: F.binary_cross_entropy(a, t, reduction="none"),
              constants={"t": torch.tensor([0.0, 1.0, 0.0, 1.0], dtype=torch.float64)}, x=ends)
    golden.op("bce_logits_far", "where the sigmoid is 0 or 1",
              lambda a, t: F.binary_cross_entropy_with_logits(a, t, reduction="none"),
              constants={"t": torch.tensor([0.0, 1.0, 0.5], dtype=torch.float64)},
              x=torch.tensor([800.0, -800.0, 90.0], dtype=torch.float64))


if __name__ == "__main__":
    distances()
    distributions()
    classes()
    angles()
    chances()
    golden.write("loss")
