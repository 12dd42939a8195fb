#include "data/order.h"

#include "tern/tensor.h"

/* high * 2^-64 of a 64-bit draw times the bound: an index whose bias is below bound / 2^64. */
static int64_t below(uint32_t high, uint32_t low, int64_t bound)
{
    uint64_t upper = (uint64_t)high * (uint64_t)bound;
    uint64_t lower = (uint64_t)low * (uint64_t)bound >> 32;
    return (int64_t)((upper + lower) >> 32);
}

void data_order_shuffle(int64_t *order, int64_t count, uint64_t seed, uint64_t call)
{
    for (int64_t i = 0; i < count; i++) {
        order[i] = i;
    }
    uint32_t bits[4] = { 0 };
    for (int64_t i = count - 1, used = 0; i > 0; i--, used++) {
        if (used % 2 == 0) {
            tern_philox(seed, call, (uint64_t)used / 2, bits);
        }
        const uint32_t *pair = bits + 2 * (used % 2);
        int64_t j = below(pair[0], pair[1], i + 1);
        int64_t kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}
