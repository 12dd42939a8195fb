#!/usr/bin/env python3
"""Writes attention.txt: scaled dot product attention as PyTorch computes it; see golden.py."""

import torch
import torch.nn.functional as F

from golden import Golden, draw, draw_int

golden = Golden()
attention = F.scaled_dot_product_attention


def operands(*q, k=None, v=None):
    return {"q": draw(*q), "k": draw(*(k or q)), "v": draw(*(v or k or q))}


def main():
    golden.op("attention", "four dimensions, other keys than queries", attention,
              **operands(2, 3, 4, 5, k=(2, 3, 6, 5), v=(2, 3, 6, 2)))
    golden.op("attention_causal", "as many keys", lambda q, k, v: attention(q, k, v, is_causal=True),
              **operands(1, 2, 5, 3))
    golden.op("attention_causal_more", "more keys than queries, the first are seen",
              lambda q, k, v: attention(q, k, v, is_causal=True),
              **operands(1, 2, 3, 4, k=(1, 2, 5, 4)))
    golden.op("attention_causal_fewer", "fewer keys than queries",
              lambda q, k, v: attention(q, k, v, is_causal=True),
              **operands(1, 2, 5, 4, k=(1, 2, 3, 4)))
    golden.op("attention_scale", "of one's own", lambda q, k, v: attention(q, k, v, scale=0.75),
              **operands(1, 2, 3, 4))
    seen = draw_int(2, 2, 1, 4, 6)
    seen[0, 0, 1] = 0
    golden.op("attention_mask", "by head broadcast, one query sees nothing",
              lambda q, k, v, m: attention(q, k, v, m.bool()), constants={"m": seen},
              **operands(2, 3, 4, 5, k=(2, 3, 6, 5)))
    bias = draw(4, 6)
    golden.op("attention_bias", "added, learnt", attention,
              **operands(2, 3, 4, 5, k=(2, 3, 6, 5)), m=bias)
    golden.op("attention_groups", "two heads of keys for six of queries",
              lambda q, k, v: attention(q, k, v, enable_gqa=True, is_causal=True),
              **operands(1, 6, 4, 3, k=(1, 2, 4, 3)))
    golden.op("attention_two", "one head", attention, **operands(3, 4))
    golden.op("attention_three", "heads without a batch", attention, **operands(2, 3, 4))
    golden.op("attention_five", "two dimensions of batches, keys shared by one of them", attention,
              **operands(2, 3, 2, 4, 3, k=(2, 1, 2, 5, 3)))
    golden.write("attention")


main()
