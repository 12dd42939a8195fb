"""Whole training steps in PyTorch: the work of bench/bench_steps.c.

    torch_steps.py [--threads N] [--variants eager,fused,compile,...] [work ...]

Variants: eager (the optimizer's default), fused (one-pass optimizer), compile (forward and loss
through torch.compile, fused optimizer), for networks with convolutions eager_cl and fused_cl
(channels_last), and only when asked for compile_all (the optimizer's step is compiled as well).
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

import timing


def mlp1():
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


def mlp2():
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                         nn.Linear(512, 10))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                         nn.Linear(84, 10))


def cnn():
    return nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10))


def tiny():
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 4))


def wide():
    return nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
                         nn.Linear(1024, 1024))


def regression():
    return nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(conv3(inputs, outputs, stride), nn.BatchNorm2d(outputs), nn.ReLU(),
                                  conv3(outputs, outputs, 1), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Identity() if inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


def conv3(inputs, outputs, stride):
    return nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)


def resnet20():
    blocks, inputs = [], 16
    for outputs in (16, 32, 64):
        for _ in range(3):
            blocks.append(Residual(inputs, outputs, 1 if inputs == outputs else 2))
            inputs = outputs
    return nn.Sequential(conv3(3, 16, 1), nn.BatchNorm2d(16), nn.ReLU(), *blocks, nn.AvgPool2d(8),
                         nn.Flatten(), nn.Linear(64, 10))


class Block(nn.Module):
    """Attention by the fused function, as its documentation advises."""

    def __init__(self, width=128, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = (part.view(n, t, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, symbols=65, length=64, width=128):
        super().__init__()
        self.symbols = nn.Embedding(symbols, width)
        self.places = nn.Parameter(torch.randn(length, width))
        self.blocks = nn.Sequential(*(Block(width) for _ in range(4)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, symbols, bias=False)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.symbols(x) + self.places))).flatten(0, 1)


class Recurrent(nn.Module):
    """What the last step of a sequence says."""

    def __init__(self, kind):
        super().__init__()
        self.layers = kind(128, 256, num_layers=2, batch_first=True)
        self.head = nn.Linear(256, 10)

    def forward(self, x):
        return self.head(self.layers(x)[0][:, -1])


def lstm():
    return Recurrent(nn.LSTM)


def gru():
    return Recurrent(nn.GRU)


def sgd(parameters, **options):
    return torch.optim.SGD(parameters, lr=0.01, **options)


def momentum(parameters, **options):
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, **options)


def adam(parameters, **options):
    return torch.optim.Adam(parameters, lr=1e-3, **options)


def adamw(parameters, **options):
    return torch.optim.AdamW(parameters, lr=1e-3, **options)


WORKS = {"mlp1": (mlp1, sgd, (64, 784), 10), "mlp2": (mlp2, adam, (128, 784), 10),
         "lenet": (lenet, momentum, (64, 1, 28, 28), 10), "cnn": (cnn, adam, (64, 1, 28, 28), 10),
         "tiny": (tiny, sgd, (8, 4), 4), "resnet20": (resnet20, momentum, (128, 3, 32, 32), 10),
         "gpt": (Gpt, adamw, (16, 64), 65), "lstm": (lstm, adam, (32, 64, 128), 10),
         "gru": (gru, adam, (32, 64, 128), 10)}
SYMBOLS = {"gpt"}  # inputs are numbers below `classes`, and each has a target of its own
# made when asked for
MORE = {"wide": (wide, sgd, (256, 1024), 1024), "regression": (regression, adam, (200, 1), 1)}
VARIANTS = ("eager", "fused", "compile", "eager_cl", "fused_cl")


def make_step(work, variant):
    """A function that runs one training step."""
    make, optimizer, shape, classes = {**WORKS, **MORE}[work]
    torch.manual_seed(1)
    net, x, y = make(), torch.randn(shape), torch.randint(0, classes, shape[:1])
    if work in SYMBOLS:
        x, y = torch.randint(0, classes, shape), torch.randint(0, classes, (shape[0] * shape[1],))
    if variant.endswith("_cl"):
        net, x = net.to(memory_format=torch.channels_last), x.contiguous(
            memory_format=torch.channels_last)
    if work == "regression":
        y = torch.randn(shape[0], classes)
    opt = optimizer(net.parameters(), **({} if variant.startswith("eager") else {"fused": True}))

    compare = F.mse_loss if work == "regression" else F.cross_entropy

    def loss_of(inputs, target):
        return compare(net(inputs), target)

    forward, update = loss_of, opt.step
    if variant.startswith("compile"):
        forward = torch.compile(loss_of)
    if variant == "compile_all":
        opt = optimizer(net.parameters())
        update = torch.compile(lambda: opt.step())

    def step():
        forward(x, y).backward()
        update()
        opt.zero_grad(set_to_none=True)

    return step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--seconds", type=float, default=0.05, help="per block")
    parser.add_argument("works", nargs="*")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    for work in args.works or WORKS:
        for variant in args.variants.split(","):
            if variant.endswith("_cl") and len({**WORKS, **MORE}[work][2]) != 4:
                continue
            step = make_step(work, variant)
            for _ in range(5):
                step()
            timing.bench(work, variant, step, args.seconds)


if __name__ == "__main__":
    main()
