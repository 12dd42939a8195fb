/* Functions of vectors out of tables that lie in registers, where one instruction chooses each lane's
 * of 32 floats (AVX-512); else by the formulas. Only for files in backend_cpu/isa/. */
#ifndef TERN_BACKEND_CPU_ISA_LANES_TABLE_H
#define TERN_BACKEND_CPU_ISA_LANES_TABLE_H

#include "backend_cpu/isa/lanes.h"
#include "backend_cpu/isa/stream_line.h"

#if defined(__AVX512F__)
/* table[j mod 32] */
TILE_INLINE f32_lanes f32_lanes_choose(const float *table, i32_lanes j)
{
    return (f32_lanes)_mm512_permutex2var_ps(_mm512_loadu_ps(table), (__m512i)j,
                                             _mm512_loadu_ps(table + 16));
}

/* Polynomials in r of the normal distribution's upper tail, Q(9 j / 32 + r), by power: minimax for
 * |r| <= 9 / 64, error 2.8e-8 (own computation, Remez exchange at 40 digits). Beyond 8.57 Q is 0. */
/* clang-format off */
static const float f32_normal_tail[5][32] __attribute__((unused)) = {
    { 0.5f, 0.389259338f, 0.286887705f, 0.199404567f, 0.130294517f, 0.0798249543f, 0.0457536243f,
      0.0244909022f, 0.0122244721f, 0.00568284001f, 0.00245790114f, 0.000988219865f,
      0.000369078538f, 0.000127965963f, 4.11675101e-05f, 1.22830479e-05f, 3.39768394e-06f,
      8.71047121e-07f, 2.06898576e-07f, 4.55220537e-08f, 9.275543e-09f, 1.74995152e-09f,
      3.05638237e-10f, 4.94104167e-11f, 7.39264466e-12f, 1.02352675e-12f, 1.31120185e-13f,
      1.55406338e-14f, 1.70395649e-15f, 1.72824129e-16f, 1.62134381e-17f, 0.0f },
    { -0.398942262f, -0.383470774f, -0.340567172f, -0.279460371f, -0.211877286f, -0.148420915f,
      -0.0960620865f, -0.0574453361f, -0.031739708f, -0.0162030235f, -0.00764246564f,
      -0.00333053991f, -0.00134103093f, -0.000498890411f, -0.000171479769f,
      -5.44579161e-05f, -1.59789633e-05f, -4.33186096e-06f, -1.08501968e-06f,
      -2.5109415e-07f, -5.36871312e-08f, -1.06056417e-08f, -1.93568805e-09f,
      -3.26410288e-10f, -5.08534811e-11f, -7.31988255e-12f, -9.73446801e-13f,
      -1.19603261e-13f, -1.3576704e-14f, -1.42384915e-15f, -1.37958863e-16f, 0.0f },
    { -6.87701868e-06f, 0.0539250411f, 0.095783636f, 0.117896385f, 0.119180195f, 0.10435801f,
      0.0810522735f, 0.0565478839f, 0.0357074216f, 0.0205072127f, 0.0107474299f,
      0.00515207415f, 0.0022630766f, 0.000912080228f, 0.00033762274f, 0.000114881572f,
      3.59563164e-05f, 1.03571429e-05f, 2.74687e-06f, 6.71013765e-07f, 1.51027677e-07f,
      3.13277972e-08f, 5.99033667e-09f, 1.05610443e-09f, 1.71700598e-10f, 2.57461188e-11f,
      3.56110128e-12f, 4.5440187e-13f, 5.34963614e-14f, 5.81134736e-15f, 5.82550298e-16f,
      0.0f },
    { 0.0667352974f, 0.0586569272f, 0.0387174971f, 0.0134617174f, -0.00924982969f, -0.0240299702f,
      -0.0294633266f, -0.0274731442f, -0.0214788802f, -0.0146208964f, -0.00883036014f,
      -0.00478349719f, -0.00234030536f, -0.00103894575f, -0.000419910124f, -0.000154894718f,
      -5.22460468e-05f, -1.61379521e-05f, -4.57018587e-06f, -1.18775279e-06f,
      -2.83509848e-07f, -6.2193763e-08f, -1.25459616e-08f, -2.32833663e-09f,
      -3.97694572e-10f, -6.25416524e-11f, -9.05813532e-12f, -1.20858054e-12f,
      -1.48588092e-13f, -1.68366721e-14f, -1.75862971e-15f, 0.0f },
    { -0.0027931314f, -0.013052512f, -0.0213110782f, -0.0223852657f, -0.0171801448f,
      -0.00890038256f, -0.00107063353f, 0.00408047903f, 0.00610295311f, 0.00580685632f,
      0.00439599622f, 0.00282670883f, 0.00158912234f, 0.000793349871f, 0.000355090713f,
      0.000143388403f, 5.24696879e-05f, 1.7455397e-05f, 5.29229101e-06f, 1.46515072e-06f,
      3.70945486e-07f, 8.59933493e-08f, 1.82722353e-08f, 3.56173868e-09f, 6.37365716e-10f,
      1.0477047e-10f, 1.58286231e-11f, 2.19888799e-12f, 2.80990969e-13f, 3.30418405e-14f,
      3.57648185e-15f, 0.0f }
};
/* clang-format on */

/* x Phi(x) = max(x, 0) - |x| Q(|x|): where it nears 0 nothing cancels. Within 9e-8 |x|; from 8.57 on
 * exactly x or 0. */
TILE_INLINE f32_lanes f32_lanes_gelu(f32_lanes x)
{
    const float step = 0.28125f;
    const f32_lanes size = (f32_lanes)((i32_lanes)x & 0x7FFFFFFF);
    const f32_lanes t = f32_lanes_min(f32_set(31 * step), size);
    const f32_lanes shifted = t * (1 / step) + F32_ROUND_SHIFT; /* j in its low bits */
    const f32_lanes r = t - (shifted - F32_ROUND_SHIFT) * step;
    const i32_lanes j = (i32_lanes)shifted;
    f32_lanes tail = f32_lanes_choose(f32_normal_tail[4], j);
    tail = tail * r + f32_lanes_choose(f32_normal_tail[3], j);
    tail = tail * r + f32_lanes_choose(f32_normal_tail[2], j);
    tail = tail * r + f32_lanes_choose(f32_normal_tail[1], j);
    tail = tail * r + f32_lanes_choose(f32_normal_tail[0], j);
    /* -infinity is not cut off, so that it gives NaN, as in PyTorch */
    return f32_lanes_max(f32_set(0), x) - f32_lanes_max(-x, t) * tail;
}
#else
TILE_INLINE f32_lanes f32_lanes_gelu(f32_lanes x)
{
    float each[TILE_F32_LANES];
    f32_store(each, x);
    KEEP_LOOP
    for (int i = 0; i < TILE_F32_LANES; i++)
        each[i] = f32_gelu(each[i]);
    return f32_load(each);
}
#endif

#endif
