#!/usr/bin/env python3
"""Writes the seeds of the fuzzers to tests/fuzz/corpus: small valid files and near misses, a few bytes each."""

import gzip
import json
import os
import struct

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")


def idx(code, extents, elements):
    return struct.pack(">BBBB", 0, 0, code, len(extents)) + b"".join(
        struct.pack(">I", extent) for extent in extents) + elements


def pack(data, level=9):
    return gzip.compress(data, level, mtime=0)


def safetensors(entries, data=b"", metadata=()):
    header = dict(entries)
    if metadata != ():
        header["__metadata__"] = metadata
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


IDX = {
    "u8": idx(0x08, [2, 3], bytes(6)),
    "labels": idx(0x08, [4], b"\1\2\3\4"),
    "i8": idx(0x09, [2], b"\x80\x7f"),
    "i16": idx(0x0B, [2], b"\1\2\xff\xfe"),
    "i32": idx(0x0C, [1], b"\xff\xff\xff\xfb"),
    "f32": idx(0x0D, [1], struct.pack(">f", 0.5)),
    "f64": idx(0x0E, [1, 1], struct.pack(">d", -2.0)),
    "empty": idx(0x08, [0, 28, 28], b""),
    "overflow": idx(0x0E, [0xFFFFFFFF] * 3, b""),
    "long": idx(0x08, [2], bytes(3)),
    "packed": pack(idx(0x08, [64, 4], bytes(256))),
    "packed-lie": pack(idx(0x08, [1 << 30], bytes(256))),
}
GZIP = {
    "plain": b"plain bytes",
    "zeros": pack(bytes(5000)),
    "stored": pack(b"stored block", 0),
    "two": pack(b"one") + pack(b"two"),
    "padded": pack(b"padded") + bytes(5),
    "cut": pack(b"cut off here")[:-6],
    "after": pack(b"x") + b"rest",
}
RECORD = bytes([9]) + bytes(range(256)) * 12
CIFAR = {"one": RECORD, "two": RECORD + RECORD, "cut": RECORD[:100], "label": b"\x0a" + RECORD[1:]}
SAFETENSORS = {
    "empty": safetensors({}),
    "one": safetensors({"a": entry("F32", [2], 0, 8)}, bytes(8)),
    "two": safetensors({"a": entry("F32", [1], 0, 4), "b.c": entry("I64", [], 4, 12)}, bytes(12)),
    "text": safetensors({"a": entry("U8", [0, 3], 0, 0)}, b"", {"format": "pt", "k": "\u00e9"}),
    "unnamed": safetensors({"a": entry("U8", [1], 0, 1)}, b"1", {"": "x"}),
    "null": safetensors({"a": entry("U8", [1], 0, 1)}, b"1", None),
    "gap": safetensors({"a": entry("F32", [1], 4, 8)}, bytes(8)),
    "overlap": safetensors({"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 2, 6)}, bytes(6)),
    "huge": safetensors({"a": entry("F64", [1 << 62, 8], 0, 8)}, bytes(8)),
    "length": struct.pack("<Q", 1 << 60) + b"{}",
}


def snapshot(blocks, trace=()):
    frames = [{"filename": "a.py", "line": 3, "name": "f"}]
    address, listed = 4096, []
    for size, state in blocks:
        listed.append({"address": address, "size": size, "requested_size": size - 1, "state": state,
                       "frames": frames})
        address += size
    segment = {"device": 0, "address": 4096, "total_size": address - 4096, "stream": 0,
               "segment_type": "small", "segment_pool_id": [0, 1], "is_expandable": True, "blocks": listed}
    events = [{"action": action, "addr": addr, "size": size, "stream": 0, "time_us": 5 + i,
               "frames": frames} for i, (action, addr, size) in enumerate(trace)]
    return json.dumps({"segments": [segment], "device_traces": [events]}).encode()


SNAPSHOT = {
    "empty": b'{"segments":[]}',
    "states": snapshot([(512, "active_allocated"), (512, "inactive"), (512, "active_pending_free")]),
    "trace": snapshot([(512, "active_allocated")],
                      [("segment_alloc", 4096, 512), ("alloc", 4096, 512), ("free_requested", 4096, 512),
                       ("free_completed", 4096, 512), ("alloc", 4096, 511), ("oom", 0, 4096)]),
    "list": b'[{"address":1,"total_size":512,"blocks":[{"size":512,"state":"inactive"}]}]',
    "before": snapshot([(512, "inactive")], [("free_requested", 1, 9000), ("segment_unmap", 1, 9000)]),
    "named": b'{"segments":[{"device":"cuda:0","address":1,"total_size":0,"blocks":[]}]}',
}

VISIBLE = {
    "indices": b"2, +3, -0, 5",
    "negative": b"0,1,-1,2",
    "garbage": b"0x1,two,3",
    "repeated": b"1,01",
    "uuids": b"GPU-a1,GPU-b",
    "mig": b"MIG-1,MIG-2",
    "large": b"99999999999999999999,0",
}

PRODUCTS = {
    "way": b"f32 128 512 784 784 1 1 784 512 1 0 2 onednn rows 2 here; tern",
    "doubles": b"f64 20 30 40 40 1 30 1 30 0 1 1 openblas planned 1 here; tern",
    "own": b"f32 20 30 40 1 20 1 40 30 0 0 4 own columns 4 here; tern",
    "other": b"f32 20 30 40 40 1 30 1 30 0 0 1 tiles planned 1 there",
    "large": b"f32 99999999999999999999 1 1 1 1 1 1 1 0 0 1 own planned 1 here; tern",
    "cut": b"f32 20 30 40 40 1 30 1 30 0 0 1 own pla",
    "remark": b"# ways",
}


def main():
    for folder, seeds in (("idx", IDX), ("gzip", GZIP), ("cifar", CIFAR), ("safetensors", SAFETENSORS),
                          ("snapshot", SNAPSHOT), ("visible", VISIBLE), ("products", PRODUCTS)):
        os.makedirs(os.path.join(HERE, folder), exist_ok=True)
        for name, data in seeds.items():
            with open(os.path.join(HERE, folder, name), "wb") as stream:
                stream.write(data)


if __name__ == "__main__":
    main()
