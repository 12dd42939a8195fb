#!/usr/bin/env python3
"""Writes product.txt: addmm, bmm, dot, outer and einsum as PyTorch computes them. See golden.py."""

import torch

from golden import Golden, draw

golden = Golden()

EINSUMS = {
    # name: equation, shapes
    "matmul": ("ij,jk->ik", (3, 4), (4, 2)),
    "transposed": ("ij,kj->ki", (3, 4), (2, 4)),
    "batch": ("bij,bjk->bik", (2, 3, 4), (2, 4, 2)),
    "batch_last": ("ijb,jkb->bki", (3, 4, 2), (4, 5, 2)),
    "two_summed": ("abcd,cdea->be", (2, 3, 4, 2), (4, 2, 3, 2)),
    "hadamard": ("ij,ij->ij", (3, 4), (3, 4)),
    "outer": ("i,j->ij", (3,), (4,)),
    "dot": ("i,i->", (4,), (4,)),
    "implicit": ("ba,ac", (2, 3), (3, 4)),
    "capitals": ("cA,aA", (3, 4), (2, 4)),
    "summed_alone": ("ij,k->k", (2, 3), (4,)),
    "ellipsis": ("...ij,...jk->...ik", (2, 1, 3, 4), (3, 4, 2)),
    "ellipsis_implicit": ("...ij,...jk", (2, 1, 3, 4), (3, 4, 2)),
    "ellipsis_summed": ("...i,...i->i", (2, 3, 4), (2, 3, 4)),
    "ellipsis_middle": ("i...j,j...->...i", (3, 2, 4), (4, 2)),
    "diagonal_product": ("iij,jk->ik", (3, 3, 4), (4, 2)),
    "two_diagonals": ("ii,ji->ij", (3, 3), (2, 3)),
    "broadcast_sum": ("ij,kj->ik", (3, 1), (2, 4)),
    "broadcast_batch": ("bij,bjk->bik", (1, 3, 4), (2, 4, 2)),
    "spaces": (" i j , j k -> i k ", (3, 2), (2, 3)),
    "attention": ("bqhd,bkhd->bhqk", (2, 3, 2, 4), (2, 5, 2, 4)),
}
ALONE = {
    "trace": ("ii", (3, 3)), "diagonal": ("ii->i", (3, 3)), "transpose": ("ij->ji", (2, 3)),
    "sum": ("ijk->j", (2, 3, 4)), "three": ("iii->i", (3, 3, 3)),
    "diagonal_last": ("bijj->jb", (2, 3, 4, 4)), "ellipsis": ("i...->...", (2, 3, 4)),
}


def products():
    golden.op("bmm", "two batches", torch.bmm, a=draw(2, 3, 4), b=draw(2, 4, 5))
    golden.op("dot", "two vectors", torch.dot, a=draw(7), b=draw(7))
    golden.op("outer", "two vectors", torch.outer, a=draw(3), b=draw(4))
    for name, shape, beta, alpha in (("row", (5,), 1, 1), ("matrix", (3, 5), 0.5, -1.5),
                                     ("column", (3, 1), 2, 1), ("number", (), 1, 0.25),
                                     ("no_input", (3, 5), 0, 2), ("no_product", (5,), 3, 0)):
        golden.op("addmm_" + name, f"beta {beta}, alpha {alpha}",
                  lambda x, a, b, beta=beta, alpha=alpha:
                  torch.addmm(x, a, b, beta=beta, alpha=alpha),
                  x=draw(*shape), a=draw(3, 4), b=draw(4, 5))


def einsums():
    for name, (equation, a, b) in EINSUMS.items():
        golden.op("es_" + name, equation, lambda x, y, e=equation: torch.einsum(e, x, y),
                  a=draw(*a), b=draw(*b))
    for name, (equation, a) in ALONE.items():
        golden.op("es1_" + name, equation, lambda x, e=equation: torch.einsum(e, x), a=draw(*a))


products()
einsums()
golden.write("product")
