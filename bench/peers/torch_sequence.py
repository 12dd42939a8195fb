"""A random sequence of allocations through PyTorch's caching allocator: the work of
bench/bench_sequence.c, line for line.

    torch_sequence.py SEED OPERATIONS
"""

import sys

import torch

MASK = (1 << 64) - 1


class Numbers:
    """splitmix64, as in bench_sequence.c."""

    def __init__(self, seed):
        self.state = seed

    def below(self, most):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return (z ^ (z >> 31)) % most


def main():
    numbers, operations = Numbers(int(sys.argv[1])), int(sys.argv[2])
    live, total = [], 0
    torch.cuda.init()
    for i in range(operations):
        kind = numbers.below(1000)
        if kind < 2:
            torch.cuda.empty_cache()
            what = "empty_cache"
        elif live and (kind >= 550 or total > 2 << 30):
            at = numbers.below(len(live))
            pointer, size = live[at]
            live[at] = live[-1]
            live.pop()
            torch.cuda.caching_allocator_delete(pointer)
            total -= size
            what = f"free {size}"
        else:
            size = 1 + numbers.below(1 << (4 + numbers.below(24)))
            live.append((torch.cuda.caching_allocator_alloc(size), size))
            total += size
            what = f"alloc {size}"
        stats = torch.cuda.memory_stats()
        print(i, what, stats["allocated_bytes.all.current"], stats["reserved_bytes.all.current"],
              stats["segment.all.current"], stats["inactive_split.all.current"])


main()
