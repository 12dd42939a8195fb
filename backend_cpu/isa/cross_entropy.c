/* Cross-entropy from logits: the log of the sum of exponentials and the loss in one pass, the
 * gradient in another. Sums are f32, or f64 for f64; losses add up in double. */
#include "backend_cpu/isa/lanes_exp.h"
#include "backend_cpu/rows.h"

enum {
    LOSS_BLOCK = 2048 /* elements of a row: fit in the first-level cache */
};
/* Vectors of sums of a row: 16 registers hold two and what is constant. */
#if defined(__AVX2__) && !defined(__AVX512F__)
enum { LOSS_SUMS = 2 };
#else
enum { LOSS_SUMS = 4 };
#endif
#define LOSS_LN2 0.693147180559945309417
/* Beyond it a step of f32 is 7.6e-6 and more: half of that is what probabilities may be off by. */
#define LOSS_ROUNDED 64

/* x = 2^power times the result, which is 1 to 2; x below 1, infinity and NaN stay with power 0. */
static inline float f32_loss_fraction(float x, float *power)
{
    const uint32_t bits = f32_bits(x);
    const int split = (x >= 1.0f) & (x < INFINITY);
    *power = split ? (float)((int32_t)(bits >> 23) - 127) : 0.0f;
    return split ? f32_from_bits((bits & 0x7FFFFFu) | 0x3F800000u) : x;
}
static inline double f64_loss_fraction(double x, double *power)
{
    *power = 0;
    return x;
}

#define KIND_FILE "backend_cpu/isa/cross_entropy.inc"
#include "backend_cpu/isa/kinds.inc"

double CPU_ISA_NAME(cpu_loss_units_forward)(const cpu_loss_args *args, int64_t begin, int64_t end)
{
    double sum = 0;
    KIND_CALL(args->dtype, loss_forward, args, begin, end, &sum);
    return sum;
}

void CPU_ISA_NAME(cpu_loss_units_backward)(const cpu_loss_args *args, int64_t begin, int64_t end)
{
    KIND_CALL(args->dtype, loss_backward, args, begin, end);
}
