/* layer_norm over rows, forward and gradient: statistics by two passes over a row in the first-
 * level cache, so that a large mean costs no precision. */
#include "backend_cpu/isa/lanes.h"
#include "backend_cpu/rows.h"

enum {
    NORM_BLOCK = 4096,
    NORM_FLAT = 4096, /* a row is flat from a mean on whose square is so many variances */
    NORM_GROUP = 4,   /* vectors of one array that are read together, before those of the other */
    /* Gradients past the caches, in bytes: rows up to which two of each array and three of
     * parameters stay in a first-level cache (of 48 KiB; with Zen 4's 32 two passes are faster),
     * and how far ahead of the later one is fetched: with 32 KiB no whole page, or too many lines
     * have one place. */
    NORM_PIPED = 6144,
    NORM_AHEAD = 4096,
    NORM_AHEAD_INTEL = 2048,
    NORM_AHEAD_AVX2 = 3584,
    /* The same of arrays larger than the caches on Zen 5, with stores of nothing (lanes_hold()) beside each vector; and
     * up to which rows two passes fetch, how far ahead, beside how many stores. */
    NORM_PIPED_HELD = 4096,
    NORM_AHEAD_HELD = 8192,
    NORM_TWICE_HELD = 10240,
    NORM_TWICE_AHEAD = 12288,
    NORM_TWICE_STORES = 6
};

/* What is decided before a loop: are there weight and bias, do results go past the caches? */
typedef struct cpu_norm_way {
    bool affine, stream;
} cpu_norm_way;

/* Gradients: likewise, and do the parameters' add up in the second pass over a row? In a cache the
 * first is better, which waits for its sums; of stores past the caches the first must be free. `early`: both fetch what
 * comes after. `ahead`: the second fetches what lies so many bytes ahead; `held`: beside so many stores of nothing. */
typedef struct cpu_norm_grad_way {
    bool affine, stream, late, early;
    int ahead, held;
} cpu_norm_grad_way;

#define KIND_FILE "backend_cpu/isa/layer_norm.inc"
#include "backend_cpu/isa/kinds.inc"

void CPU_ISA_NAME(cpu_layer_norm_rows)(const cpu_layer_norm_args *args, int64_t begin, int64_t end)
{
    KIND_CALL(args->dtype, layer_norm_rows, args, begin, end);
}

void CPU_ISA_NAME(cpu_layer_norm_grad_rows)(const cpu_layer_norm_args *args, int64_t begin,
                                            int64_t end, void *weight_grad, void *bias_grad)
{
    KIND_CALL(args->dtype, layer_norm_grad_rows, args, begin, end, weight_grad, bias_grad);
}
