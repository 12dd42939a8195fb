#!/usr/bin/env python3
"""Writes recurrent.txt: torch.nn.RNN, LSTM and GRU, with all gradients (see golden.py).

x, h0 (and c0) go in; p0, p1, ... are the parameters in PyTorch's order; y, h (and c) come out. gy, gh (and
gc) are the gradients that flow into them, gx, gh0, gc0 and gp0, ... those that come out; ggx, ggp0, ... are the
gradients of the sum of the squares of those.
"""

import torch

from golden import Golden, draw

golden = Golden()


def layer(name, kind, features, size, length, batch, states=True, **options):
    module = kind(features, size, dtype=torch.float64, **options)
    for p in module.parameters():
        p.data = draw(*p.shape, low=-1, high=1)
    lstm, first = kind is torch.nn.LSTM, options.get("batch_first", False)
    shape = (length, features) if batch is None else (
        (batch, length, features) if first else (length, batch, features))
    places = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    state = (places, size) if batch is None else (places, batch, size)
    leaves = {"x": draw(*shape)}
    if states:
        leaves["h0"] = draw(*state)
        if lstm:
            leaves["c0"] = draw(*state)
    arrays = {k: v.clone() for k, v in leaves.items()}
    leaves = {k: v.requires_grad_() for k, v in leaves.items()}
    given = list(leaves.values())
    if len(given) == 3:
        given = [given[0], (given[1], given[2])]
    y, last = module(*given)
    out = {"y": y, "h": last[0], "c": last[1]} if lstm else {"y": y, "h": last}
    flows = {k: draw(*v.shape) for k, v in out.items()}
    parameters = {f"p{i}": p for i, p in enumerate(module.parameters())}
    wanted = leaves | parameters
    grads = torch.autograd.grad(list(out.values()), list(wanted.values()), list(flows.values()),
                                create_graph=True)
    second = torch.autograd.grad(sum(g.square().sum() for g in grads), list(wanted.values()))
    arrays |= {k: p.detach() for k, p in parameters.items()}
    arrays |= {k: v.detach() for k, v in out.items()}
    arrays |= {"g" + k: v for k, v in flows.items()}
    arrays |= {"g" + k: g.detach() for k, g in zip(wanted, grads)}
    arrays |= {"gg" + k: g for k, g in zip(wanted, second)}
    golden.case(name, ", ".join(f"{k} {v}" for k, v in options.items()) or "plain", **arrays)


nn = torch.nn
layer("rnn", nn.RNN, 3, 4, 5, 2)
layer("rnn_relu", nn.RNN, 3, 4, 5, 2, nonlinearity="relu", num_layers=2)
layer("rnn_both", nn.RNN, 3, 2, 4, 2, bidirectional=True, batch_first=True)
layer("lstm", nn.LSTM, 3, 4, 5, 2)
layer("lstm_both", nn.LSTM, 3, 2, 4, 2, num_layers=2, bidirectional=True)
layer("lstm_first", nn.LSTM, 3, 4, 3, 2, batch_first=True, bias=False)
layer("lstm_zeros", nn.LSTM, 2, 3, 4, 1, states=False)
layer("lstm_one", nn.LSTM, 3, 4, 1, None)
layer("gru", nn.GRU, 3, 4, 5, 2)
layer("gru_both", nn.GRU, 3, 2, 4, 2, num_layers=2, bidirectional=True, batch_first=True)
layer("gru_bare", nn.GRU, 3, 4, 3, 2, bias=False)
layer("gru_one", nn.GRU, 3, 4, 6, None, bidirectional=True)

if __name__ == "__main__":
    golden.write("recurrent")
