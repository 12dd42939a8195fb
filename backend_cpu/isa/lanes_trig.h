/* Sine, cosine and tangent of the vectors of lanes.h, within 1.5 ulp (tangent 3.3). Only for files in
 * backend_cpu/isa/.
 *
 * x is reduced to r = x - n pi / 2 in double precision, so that nothing of r is lost up to a million;
 * larger elements, and what is not finite, are left to the C library. */
#ifndef TERN_BACKEND_CPU_ISA_LANES_TRIG_H
#define TERN_BACKEND_CPU_ISA_LANES_TRIG_H

#include "backend_cpu/isa/lanes.h"

#define TRIG_FAR 1e6f
#define TRIG_TURN_HI 1.57079632673412561417 /* pi / 2: 33 bits, so that n times it is exact */
#define TRIG_TURN_LO 6.07710050650619224932e-11

typedef struct trig_parts {
    f32_lanes sin, cos; /* of r */
    i32_lanes n;
} trig_parts;

TILE_INLINE f64_lanes f64_lanes_turns(f64_lanes x, f64_lanes *out_rest)
{
    const f64_lanes shift = f64_set(6755399441055744.0);
    const f64_lanes n = (x * 0.636619772367581343 + shift) - shift;
    *out_rest = (x - n * TRIG_TURN_HI) - n * TRIG_TURN_LO;
    return n;
}

/* Minimax in r^2 for |r| <= pi / 4: relative errors 3.8e-9 and 1.2e-10. */
TILE_INLINE trig_parts f32_lanes_trig_parts(f32_lanes x)
{
    trig_parts parts;
    f64_lanes low_rest, high_rest;
    const f64_lanes low = f64_lanes_turns(f32_lanes_widen_low(x), &low_rest);
    const f64_lanes high = f64_lanes_turns(f32_lanes_widen_high(x), &high_rest);
    const f32_lanes r = f32_lanes_narrow(low_rest, high_rest), z = r * r;
    const f32_lanes odd = (z * -0.000195151511209948057f + 0.00833215981022827247f) * z;
    const f32_lanes even = z * 0.0000244330075003705736f + -0.00138873149724362709f;
    parts.n = (i32_lanes)(f32_lanes_narrow(low, high) + F32_ROUND_SHIFT);
    parts.sin = r + r * z * (odd + -0.166666545949282018f);
    parts.cos = (even * z + 0.041666645657212709f) * (z * z) + (1.0f - z * 0.5f);
    return parts;
}

TILE_INLINE f32_lanes f32_lanes_choice(i32_lanes mask, f32_lanes yes, f32_lanes no)
{
    return (f32_lanes)(((i32_lanes)yes & mask) | ((i32_lanes)no & ~mask));
}

/* Elements that are far out, infinite or NaN. */
TILE_INLINE i32_lanes f32_lanes_far(f32_lanes x)
{
    return ~((f32_lanes)((i32_lanes)x & 0x7FFFFFFF) <= TRIG_FAR);
}

#define TRIG_BY_LIBRARY(name)                                                                    \
    static __attribute__((noinline, unused))                                                     \
    f32_lanes trig_far_##name(f32_lanes result, f32_lanes x)                                     \
    {                                                                                            \
        const i32_lanes far = f32_lanes_far(x);                                                  \
        for (int i = 0; i < TILE_F32_LANES; i++)                                                 \
            if (far[i])                                                                          \
                result[i] = name##f(x[i]);                                                       \
        return result;                                                                           \
    }                                                                                            \
    TILE_INLINE f32_lanes trig_result_##name(f32_lanes result, f32_lanes x)                      \
    {                                                                                            \
        return __builtin_expect(i32_lanes_any(f32_lanes_far(x)), 0) ? trig_far_##name(result, x) \
                                                                    : result;                    \
    }
TRIG_BY_LIBRARY(sin)
TRIG_BY_LIBRARY(cos)
TRIG_BY_LIBRARY(tan)
#undef TRIG_BY_LIBRARY

/* sin or cos of r by n's lowest bit; negative by the next. */
TILE_INLINE f32_lanes f32_lanes_quadrant(trig_parts parts, i32_lanes n)
{
    const f32_lanes size = f32_lanes_choice(-(n & 1), parts.cos, parts.sin);
    return (f32_lanes)((i32_lanes)size ^ ((n & 2) << 30));
}

/* -0 stays what it is. */
TILE_INLINE f32_lanes f32_lanes_sin(f32_lanes x)
{
    const trig_parts parts = f32_lanes_trig_parts(x);
    const f32_lanes sine = f32_lanes_quadrant(parts, parts.n);
    return trig_result_sin(f32_lanes_choice(x == 0.0f, x, sine), x);
}

TILE_INLINE f32_lanes f32_lanes_cos(f32_lanes x)
{
    const trig_parts parts = f32_lanes_trig_parts(x);
    return trig_result_cos(f32_lanes_quadrant(parts, parts.n + 1), x);
}

TILE_INLINE f32_lanes f32_lanes_tan(f32_lanes x)
{
    const trig_parts parts = f32_lanes_trig_parts(x);
    const i32_lanes odd = -(parts.n & 1);
    const f32_lanes above = f32_lanes_choice(odd, -parts.cos, parts.sin);
    const f32_lanes below = f32_lanes_choice(odd, parts.sin, parts.cos);
    return trig_result_tan(f32_lanes_choice(x == 0.0f, x, above / below), x);
}

#endif
