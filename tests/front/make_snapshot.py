#!/usr/bin/env python3
"""Writes a memory snapshot as PyTorch's json.dump(torch.cuda.memory._snapshot()) would: a model that
trains on one device until a batch does not fit. usage: make_snapshot.py STEPS > FILE

An allocator of its own, much simpler than any real one (first fit, 20 MiB and 2 MiB segments), but every
number is consistent: blocks tile segments, the trace leads to the state at the end.
"""

import json
import random
import sys

SMALL, LARGE, LIMIT = 2 << 20, 20 << 20, 768 << 20


class Device:
    def __init__(self):
        self.segments, self.trace, self.now = [], [], 1760000000000000
        self.base = 0x7F0000000000
        self.random = random.Random(1)

    def event(self, action, addr, size, frames):
        self.now += self.random.randint(20, 90)
        entry = {"action": action, "size": size, "stream": 0, "time_us": self.now, "frames": frames}
        entry["device_free" if action == "oom" else "addr"] = addr
        self.trace.append(entry)

    def reserve(self, size, frames):
        unit = SMALL if size <= 1 << 20 else LARGE
        total = unit if size < unit else -(-size // SMALL) * SMALL
        if sum(s["total_size"] for s in self.segments) + total > LIMIT:
            return None
        block = {"address": self.base, "size": total, "requested_size": 0, "state": "inactive", "frames": []}
        segment = {"device": 0, "address": self.base, "total_size": total, "stream": 0,
                   "segment_type": "small" if unit == SMALL else "large", "segment_pool_id": [0, 0],
                   "is_expandable": False, "blocks": [block]}
        self.base += total + (2 << 20)
        self.segments.append(segment)
        self.event("segment_alloc", segment["address"], total, frames)
        return segment

    def alloc(self, requested, frames):
        size = -(-requested // 512) * 512
        kind = "small" if size <= 1 << 20 else "large"
        fits = ((b["size"], s, b) for s in self.segments if s["segment_type"] == kind
                for b in s["blocks"] if b["state"] == "inactive" and b["size"] >= size)
        found = min(fits, key=lambda fit: fit[0], default=None)
        if found is None:
            segment = self.reserve(size, frames)
            if segment is None:
                self.event("oom", LIMIT // 48, requested, frames)
                return None
            block = segment["blocks"][0]
        else:
            _, segment, block = found
        rest = block["size"] - size
        if rest >= (512 if kind == "small" else 1 << 20):
            blocks = segment["blocks"]
            blocks.insert(blocks.index(block) + 1,
                          {"address": block["address"] + size, "size": rest, "requested_size": 0,
                           "state": "inactive", "frames": []})
            block["size"] = size
        block.update(state="active_allocated", requested_size=requested, frames=frames)
        self.event("alloc", block["address"], requested, frames)
        return segment, block

    def free(self, held, pending=False):
        segment, block = held
        self.event("free_requested", block["address"], block["requested_size"], block["frames"])
        if pending:
            block["state"] = "active_awaiting_free"
            return
        self.event("free_completed", block["address"], block["requested_size"], [])
        block.update(state="inactive", requested_size=0, frames=[])
        blocks, at = segment["blocks"], segment["blocks"].index(block)
        for left in (at, at - 1):
            if 0 <= left < len(blocks) - 1 and all(
                    b["state"] == "inactive" for b in blocks[left:left + 2]):
                blocks[left]["size"] += blocks.pop(left + 1)["size"]


def frames(line, name, file="train.py"):
    return [{"filename": "/opt/python/torch/nn/modules/module.py", "line": 1562, "name": "_call_impl"},
            {"filename": "/home/user/project/" + file, "line": line, "name": name}]


def train(device, steps):
    layers = [(4 << 20) + 4096 * i for i in range(8)]
    model = [device.alloc(n, frames(12 + i, "__init__", "model.py")) for i, n in enumerate(layers)]
    model += [device.alloc(2 * n, frames(31, "Adam.__init__")) for n in layers]
    kept = []
    for step in range(steps):
        batch = 1 + step % 3
        held = [device.alloc((9 << 20) * batch - 1234, frames(48, "load_batch"))]
        held += [device.alloc((3 << 20) * batch + 700 * i, frames(60 + i, "forward", "model.py")) for i in range(10)]
        held += [device.alloc(3000 + 40 * i, frames(55, "loss")) for i in range(12)]
        if any(h is None for h in held):
            device.free([h for h in held if h][-1], pending=True)
            break
        kept.append(held.pop())
        if step % 5 == 0:
            kept.append(device.alloc(5 << 20, frames(71, "keep_activations")))
        for one in reversed(held):
            device.free(one)
    return model, kept


def main():
    device = Device()
    train(device, int(sys.argv[1]))
    for segment in device.segments:
        active = [b for b in segment["blocks"] if b["state"] != "inactive"]
        segment["active_size"] = sum(b["size"] for b in active)
        segment["allocated_size"] = sum(b["size"] for b in active if b["state"] == "active_allocated")
        segment["requested_size"] = sum(b["requested_size"] for b in active)
    json.dump({"segments": device.segments, "device_traces": [device.trace],
               "allocator_settings": {"max_split_size": -1}}, sys.stdout)


if __name__ == "__main__":
    main()
