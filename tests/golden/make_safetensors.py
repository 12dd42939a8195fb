#!/usr/bin/env python3
"""Writes files as the Python safetensors library does, for the tests of reading and writing them.

    python3 -m venv venv && venv/bin/pip install torch==2.15.0 safetensors numpy
    venv/bin/python tests/golden/make_safetensors.py            writes the three files beside it
    python3 tests/golden/make_safetensors.py check A B          compares two files tensor by tensor

python_dtypes  a tensor [2, 3] of every dtype that tern has, a scalar and an empty one, and texts.
               Byte i of each is (251 - 5 i) mod 256: negative zeros and NaNs with a payload among them
pytorch_net    weights of a small network, in PyTorch's names; pytorch_sample: x and its logits

The check needs the safetensors package alone; it ends with 77 where that is missing.
"""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
DTYPES = {"bool": 1, "uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "float16": 2,
          "bfloat16": 2, "float32": 4, "float64": 8}
TEXTS = {"format": "pt", "quote": "\"back\\slash", "bird": "\N{BIRD}\n"}


def path_of(name):
    return os.path.join(HERE, name + ".safetensors")


def patterns():
    import torch

    tensors = {}
    for name, size in DTYPES.items():
        data = bytearray((251 - 5 * i) % 256 for i in range(6 * size))
        if name == "bool":
            data = bytearray([1, 0, 1, 1, 0, 0])
        tensors[name] = torch.frombuffer(data, dtype=getattr(torch, name)).reshape(2, 3)
    tensors["scalar"] = torch.tensor(2.5)
    tensors["empty"] = torch.zeros(3, 0, 2, dtype=torch.float64)
    return tensors


def make():
    import safetensors.torch
    import torch
    from torch import nn

    safetensors.torch.save_file(patterns(), path_of("python_dtypes"), metadata=TEXTS)
    torch.manual_seed(7)
    net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(),
                        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 10))
    net(torch.randn(32, 1, 8, 8))  # running statistics that are not the initial ones
    x = torch.randn(5, 1, 8, 8)
    with torch.no_grad():
        logits = net.eval()(x)
    safetensors.torch.save_file(net.state_dict(), path_of("pytorch_net"))
    safetensors.torch.save_file({"x": x, "logits": logits}, path_of("pytorch_sample"))


def read(path):
    import safetensors

    with open(path, "rb") as file:
        data = file.read()
    length = int.from_bytes(data[:8], "little")
    texts = json.loads(data[8:8 + length]).get("__metadata__", {})
    return dict(safetensors.deserialize(data)), texts


def check(a, b):
    """Dtypes, shapes, bytes and texts agree."""
    try:
        (here, texts), (there, other_texts) = read(a), read(b)
    except ImportError as error:
        print("skipped:", error)
        return 77
    if texts != other_texts:
        print("texts differ:", texts, other_texts)
        return 1
    if here.keys() != there.keys():
        print("names differ:", sorted(here), sorted(there))
        return 1
    for name, entry in here.items():
        other = there[name]
        for key in ("dtype", "shape", "data"):
            if bytes(entry[key]) != bytes(other[key]) if key == "data" else entry[key] != other[key]:
                print(name, key, "differs:", entry[key], other[key])
                return 1
    return 0


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "check":
        sys.exit(check(sys.argv[2], sys.argv[3]))
    make()
