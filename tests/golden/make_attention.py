#!/usr/bin/env python3
"""Writes attention.txt: scaled dot product attention as PyTorch computes it; see golden.py."""

import torch
import torch.nn.functional as F

from golden import Golden, draw, draw_int

golden = Golden()
attention = F.scaled_dot_product_attention


def operands(*q, k=None, v=None):
    return {"q": draw(*q), "k": draw(*(k or q)), "v": draw(*(v or k or q))}


def layer(name, note, module, call, **inputs):
    """A module's result and all gradients; parameters by their names in the state dictionary."""
    module = module.double()
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(draw(*p.shape, low=-1, high=1))
    leaves = {k: v.clone().requires_grad_() for k, v in inputs.items()}
    y = call(module, **leaves)
    gy = draw(*y.shape)
    learned = leaves | dict(module.named_parameters())
    grads = torch.autograd.grad(y, list(learned.values()), gy)
    arrays = inputs | {k: v.detach().clone() for k, v in module.named_parameters()}
    arrays |= {"y": y.detach(), "gy": gy}
    golden.case(name, note, **arrays, **{"g" + k: g for k, g in zip(learned, grads)})


def layers():
    heads = torch.nn.MultiheadAttention(6, 2, batch_first=True)
    layer("layer_self", "attends to itself", heads, lambda m, x: m(x, x, x, need_weights=False)[0],
          x=draw(2, 3, 6))
    hidden = torch.tensor([[False, False, True, False], [False, True, True, False]])
    layer("layer_cross", "keys that are values, some of them padding", heads,
          lambda m, x, z: m(x, z, z, key_padding_mask=hidden, need_weights=False)[0],
          x=draw(2, 3, 6), z=draw(2, 4, 6))
    layer("layer_widths", "keys and values of other widths",
          torch.nn.MultiheadAttention(6, 3, batch_first=True, kdim=4, vdim=5),
          lambda m, x, z, w: m(x, z, w, need_weights=False)[0],
          x=draw(2, 3, 6), z=draw(2, 4, 4), w=draw(2, 4, 5))
    options = {"d_model": 6, "nhead": 2, "dim_feedforward": 5, "dropout": 0.0, "batch_first": True}
    layer("layer_encoder", "norm behind", torch.nn.TransformerEncoderLayer(**options),
          lambda m, x: m(x), x=draw(2, 3, 6))
    later = torch.nn.Transformer.generate_square_subsequent_mask(3).double()
    layer("layer_encoder_first", "norm first, gelu, causal",
          torch.nn.TransformerEncoderLayer(**options, norm_first=True, activation="gelu"),
          lambda m, x: m(x, src_mask=later, is_causal=True), x=draw(2, 3, 6))
    layer("layer_decoder", "norm behind, causal, memory partly padding",
          torch.nn.TransformerDecoderLayer(**options),
          lambda m, x, z: m(x, z, tgt_mask=later, tgt_is_causal=True,
                            memory_key_padding_mask=hidden), x=draw(2, 3, 6), z=draw(2, 4, 6))
    layer("layer_decoder_first", "norm first", torch.nn.TransformerDecoderLayer(**options,
                                                                                norm_first=True),
          lambda m, x, z: m(x, z), x=draw(2, 3, 6), z=draw(2, 4, 6))


def main():
    golden.op("attention", "four dimensions, other keys than queries", attention,
              **operands(2, 3, 4, 5, k=(2, 3, 6, 5), v=(2, 3, 6, 2)))
    golden.op("attention_causal", "as many keys",
              lambda q, k, v: attention(q, k, v, is_causal=True),
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
    layers()
    golden.write("attention")


main()
