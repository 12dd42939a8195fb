"""The networks of examples/cnn_mnist.c and mlp_mnist.c, trained in PyTorch on the same files.

    torch_mnist.py --data DIR [--model cnn|mlp] [--epochs N] [--steps N] [--seed N] [--threads N]

Adam at 1e-3 with a cosine over all steps of all epochs; --steps ends the run after N of them, as the
examples' does. An epoch's last batch may be short, as theirs is. Prints one JSON line: accuracy, loss per epoch, seconds
per epoch. Images stay in memory as float tensors and are gathered by index, which is the fastest
way that PyTorch has.
"""

import argparse
import gzip
import json
import os
import time

import numpy
import torch
import torch.nn.functional as F

import torch_steps

MODELS = {"cnn": (torch_steps.cnn, 64, (1, 28, 28)), "mlp": (torch_steps.mlp2, 128, (784,))}


def read_idx(folder, name):
    for path, opener in ((name, open), (name + ".gz", gzip.open)):
        path = os.path.join(folder, path)
        if os.path.exists(path):
            with opener(path, "rb") as file:
                data = file.read()
            ndim = data[3]
            shape = numpy.frombuffer(data, ">i4", ndim, 4)
            return numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * ndim).reshape(shape)
    raise SystemExit(f"{folder} has no {name}")


def load(folder, part, shape):
    images = torch.from_numpy(read_idx(folder, f"{part}-images-idx3-ubyte").astype(numpy.float32))
    labels = torch.from_numpy(read_idx(folder, f"{part}-labels-idx1-ubyte").astype(numpy.int64))
    return ((images / 255 - 0.1307) / 0.3081).reshape(-1, *shape), labels


def train(net, opt, schedule, images, labels, batch, count):
    """One epoch of `count` steps: mean loss and seconds."""
    total, start = 0.0, time.perf_counter()
    order = torch.randperm(len(images))
    for i in range(count):
        rows = order[i * batch:(i + 1) * batch]
        loss = F.cross_entropy(net(images[rows]), labels[rows])
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        schedule.step()
        total += loss.item()
    return total / count, time.perf_counter() - start


def steps_of_epochs(epochs, whole, most):
    """Steps of each epoch that is begun; most: of all together, 0 for no limit."""
    left = most or epochs * whole
    counts = [min(whole, left - whole * i) for i in range(epochs)]
    return [count for count in counts if count > 0]


@torch.no_grad()
def accuracy(net, images, labels):
    right = sum((net(x).argmax(1) == y).sum().item()
                for x, y in zip(images.split(512), labels.split(512)))
    return right / len(images)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--model", choices=MODELS, default="cnn")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    make, batch, shape = MODELS[args.model]
    images, labels = load(args.data, "train", shape)
    net = make()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)
    whole = (len(images) + batch - 1) // batch
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs * whole)
    epochs = [train(net, opt, schedule, images, labels, batch, count)
              for count in steps_of_epochs(args.epochs, whole, args.steps)]
    print(json.dumps({"model": args.model, "seed": args.seed, "threads": args.threads,
                      "torch": torch.__version__, "losses": [round(e[0], 6) for e in epochs],
                      "seconds": [round(e[1], 3) for e in epochs],
                      "test_accuracy": accuracy(net, *load(args.data, "t10k", shape))}))


if __name__ == "__main__":
    main()
