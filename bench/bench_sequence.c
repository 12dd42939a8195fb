/* A random sequence of allocations on a device, one line an operation: what it was, and allocated bytes,
 * reserved bytes, segments and inactive split blocks after it. bench/peers/torch_sequence.py does the
 * same with PyTorch's allocator; the first line that differs is a finding (./run gpu-check). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/arguments.h"
#include "common/bench.h"
#include "tern/tern.h"

enum { MOST_LIVE = 65536 };

static struct {
    void *data;
    int64_t bytes;
} live[MOST_LIVE];
static int64_t count, total;
static tern_dev_t device;

/* splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014) */
static uint64_t state;
static uint64_t below(uint64_t most)
{
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (z ^ (z >> 31)) % most;
}

static void take(void)
{
    const uint64_t bits = 4 + below(24);
    live[count].bytes = (int64_t)(1 + below((uint64_t)1 << bits));
    live[count].data = tern_memory_alloc(device, live[count].bytes, NULL);
    bench_check();
    total += live[count].bytes;
    printf("alloc %lld", (long long)live[count++].bytes);
}

static void give(void)
{
    const uint64_t at = below((uint64_t)count);
    (void)tern_memory_free(device, live[at].data);
    total -= live[at].bytes;
    printf("free %lld", (long long)live[at].bytes);
    live[at] = live[--count];
}

int main(int argc, char **argv)
{
    int64_t seed = 1, operations = 10000;
    const bench_option options[] = { { .name = "seed", .number = &seed },
                                     { .name = "operations", .number = &operations },
                                     { .name = NULL } };
    const bench_asked asked = bench_begin(
        argc, argv, "[--seed N (1)] [--operations N (10000)] [--device D (cuda)]", options);
    if (asked.device == NULL)
        bench_set_device("cuda");
    device = tern_default_device();
    state = (uint64_t)seed;
    for (int64_t i = 0; i < operations; i++) {
        const uint64_t kind = below(1000);
        printf("%lld ", (long long)i);
        if (kind < 2) {
            tern_empty_cache(device);
            printf("empty_cache");
        } else if (count > 0 && (kind >= 550 || total > (int64_t)2 << 30 || count == MOST_LIVE)) {
            give();
        } else {
            take();
        }
        const tern_memory_stats_t s = tern_memory_stats(device);
        printf(" %lld %lld %lld %lld\n", (long long)s.allocated_bytes.current,
               (long long)s.reserved_bytes.current, (long long)s.segment.current,
               (long long)s.inactive_split.current);
    }
    while (count > 0)
        (void)tern_memory_free(device, live[--count].data);
    return bench_end();
}
