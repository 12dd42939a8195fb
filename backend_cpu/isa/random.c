/* Philox and what is made of its bits, 16 blocks (64 elements) at a time. */
#include <math.h>

#include "backend_cpu/formulas.h"
#include "backend_cpu/random.h"
#include "core/philox.h"

enum { N = CPU_RANDOM_BLOCKS };

/* lanes[l][b]: lane l of the group's block b. */
static inline void philox_group(uint32_t lanes[4][N], uint64_t seed, uint64_t draw, int64_t group)
{
    const uint64_t first = (uint64_t)group * N; /* a multiple of 16: no carry inside */
    const uint32_t low = (uint32_t)first, high = (uint32_t)(first >> 32);
    CPU_INDEPENDENT
    for (uint32_t b = 0; b < N; b++) {
        uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
        uint32_t c0 = low + b, c1 = high, c2 = (uint32_t)draw, c3 = (uint32_t)(draw >> 32);
        CORE_PHILOX_TWO(c0, c1, c2, c3, k0, k1);
        CORE_PHILOX_TWO(c0, c1, c2, c3, k0, k1);
        CORE_PHILOX_TWO(c0, c1, c2, c3, k0, k1);
        CORE_PHILOX_TWO(c0, c1, c2, c3, k0, k1);
        CORE_PHILOX_TWO(c0, c1, c2, c3, k0, k1);
        lanes[0][b] = c0;
        lanes[1][b] = c1;
        lanes[2][b] = c2;
        lanes[3][b] = c3;
    }
}

void CPU_ISA_NAME(cpu_random_bits)(uint32_t *out, uint64_t seed, uint64_t draw, int64_t group,
                                   int64_t groups)
{
    for (int64_t g = 0; g < groups; g++, out += CPU_RANDOM_GROUP) {
        uint32_t lanes[4][N];
        philox_group(lanes, seed, draw, group + g);
        for (int b = 0; b < N; b++) {
            for (int l = 0; l < 4; l++)
                out[4 * b + l] = lanes[l][b];
        }
    }
}

void CPU_ISA_NAME(cpu_random_uniforms)(float *out, uint64_t seed, uint64_t draw, int64_t group,
                                       int64_t groups)
{
    for (int64_t g = 0; g < groups; g++, out += CPU_RANDOM_GROUP) {
        uint32_t lanes[4][N];
        philox_group(lanes, seed, draw, group + g);
        for (int b = 0; b < N; b++) {
            for (int l = 0; l < 4; l++)
                out[4 * b + l] = (float)(int32_t)(lanes[l][b] >> 8) * 0x1p-24f;
        }
    }
}

/* Box-Muller; bits of the radius and of the angle. Double precision, so that the rounded results
 * are the same within 2 ulp wherever they are computed. */
static inline void normal_pair(uint32_t radius_bits, uint32_t angle_bits, float *out_even,
                               float *out_odd)
{
    /* 2^52 plus an integer, by bits: conversions of unsigned integers are slow or missing */
    const double radius_count = f64_from_bits(0x4330000000000000u | radius_bits) - 0x1p52;
    const double angle_count = f64_from_bits(0x4330000000000000u | angle_bits) - 0x1p52;
    const double u = (radius_count + 0.5) * 0x1p-32;
    const double r = sqrt(f64_log2_near(u) * (-2.0 * 0.693147180559945309417));
    /* the angle is quarter / 4 + t turns with |t| <= 1/8 */
    const uint32_t quarter = (angle_bits + 0x20000000u) >> 30;
    const double shifted =
        f64_from_bits(0x4330000000000000u | (((uint64_t)angle_bits + 0x20000000u) >> 30)) - 0x1p52;
    const double t = angle_count * 0x1p-32 - shifted * 0.25;
    const double z = t * t;
    double s = -14.9158114586435484;
    s = s * z + 42.0555397551485768;
    s = s * z - 76.7058340540462239;
    s = s * z + 81.6052491812191991;
    s = s * z - 41.3417022402713351;
    s = (s * z + 6.28318530717955817) * t;
    double c = -26.0581755330789003;
    c = c * z + 60.2381856157676665;
    c = c * z - 85.4567649648511467;
    c = c * z + 64.9393938315026581;
    c = c * z - 19.7392088019228491;
    c = c * z + 0.999999999999944505;
    const int swap = (quarter & 1) != 0;
    const double cosine = swap ? s : c, sine = swap ? c : s;
    const uint32_t cosine_negative = (quarter + 1) & 2, sine_negative = quarter & 2;
    *out_even = (float)(cosine_negative ? -(r * cosine) : r * cosine);
    *out_odd = (float)(sine_negative ? -(r * sine) : r * sine);
}

void CPU_ISA_NAME(cpu_random_normals)(float *out, uint64_t seed, uint64_t draw, int64_t group,
                                      int64_t groups)
{
    for (int64_t g = 0; g < groups; g++, out += CPU_RANDOM_GROUP) {
        uint32_t lanes[4][N];
        float normals[4][N];
        philox_group(lanes, seed, draw, group + g);
        for (int half = 0; half < 4; half += 2) {
            CPU_INDEPENDENT
            for (int b = 0; b < N; b++)
                normal_pair(lanes[half][b], lanes[half + 1][b], &normals[half][b],
                            &normals[half + 1][b]);
        }
        for (int b = 0; b < N; b++) {
            for (int l = 0; l < 4; l++)
                out[4 * b + l] = normals[l][b];
        }
    }
}
