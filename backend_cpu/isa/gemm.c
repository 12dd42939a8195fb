/* Matrix products of f32 and f64 on one thread: blocks of B (and of A where its rows are not
 * contiguous) packed for the second-level cache, tiles of C held in registers. The sum over k runs
 * in order, with one rounding per step where the CPU has fused multiply-add. */
#include "backend_cpu/gemm.h"
#include "backend_cpu/isa/lanes.h"

/* Rows and vectors of a tile: as many sums as registers hold beside a row of B and one broadcast.
 * TILE_TALL: rows of one of two vectors. */
#if defined(__AVX512F__)
enum { TILE_ROWS = 8, TILE_VECTORS = 3, TILE_TALL = 14, DOT_ROWS = 4 };
#elif defined(__AVX__)
enum { TILE_ROWS = 6, TILE_VECTORS = 2, TILE_TALL = 6, DOT_ROWS = 2 };
#else
enum { TILE_ROWS = 4, TILE_VECTORS = 2, TILE_TALL = 4, DOT_ROWS = 2 };
#endif
enum { DOT_COLUMNS = 4 };

/* dst[p * dst_row + j] = src[j * src_row + p] for 4 columns j and n rows p. */
TILE_INLINE void transpose4_f32(float *dst, int64_t dst_row, const float *src, int64_t src_row,
                                int64_t n)
{
    int64_t p = 0;
    for (; p + 4 <= n; p += 4, dst += 4 * dst_row)
        f32_transpose4(dst, dst_row, src + p, src_row);
    for (; p < n; p++, dst += dst_row)
        for (int j = 0; j < 4; j++)
            dst[j] = src[j * src_row + p];
}

TILE_INLINE void transpose4_f64(double *dst, int64_t dst_row, const double *src, int64_t src_row,
                                int64_t n)
{
    for (int64_t p = 0; p < n; p++, dst += dst_row)
        for (int j = 0; j < 4; j++)
            dst[j] = src[j * src_row + p];
}

#define T float
#define X(name) f32_##name
#define FN(name) name##_f32
#define LANES TILE_F32_LANES
#include "backend_cpu/isa/gemm_tile.inc"
#undef T
#undef X
#undef FN
#undef LANES

#define T double
#define X(name) f64_##name
#define FN(name) name##_f64
#define LANES TILE_F64_LANES
#include "backend_cpu/isa/gemm_tile.inc"
#undef T
#undef X
#undef FN
#undef LANES

/* ---- half types ------------------------------------------------------------------------------ */

#if defined(__AVX512F__)
/* v[i][j] and v[j][i] exchanged, elements of 4 bytes. */
TILE_INLINE void turn16(__m512i v[16])
{
    __m512i w[16];
    TILE_UNROLL
    for (int i = 0; i < 16; i += 2) {
        w[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
        w[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    }
    TILE_UNROLL
    for (int i = 0; i < 16; i += 4) {
        v[i] = _mm512_unpacklo_epi64(w[i], w[i + 2]);
        v[i + 1] = _mm512_unpackhi_epi64(w[i], w[i + 2]);
        v[i + 2] = _mm512_unpacklo_epi64(w[i + 1], w[i + 3]);
        v[i + 3] = _mm512_unpackhi_epi64(w[i + 1], w[i + 3]);
    }
    TILE_UNROLL
    for (int i = 0; i < 4; i++) {
        w[i] = _mm512_shuffle_i32x4(v[i], v[i + 4], 0x88);
        w[i + 4] = _mm512_shuffle_i32x4(v[i], v[i + 4], 0xDD);
        w[i + 8] = _mm512_shuffle_i32x4(v[i + 8], v[i + 12], 0x88);
        w[i + 12] = _mm512_shuffle_i32x4(v[i + 8], v[i + 12], 0xDD);
    }
    TILE_UNROLL
    for (int i = 0; i < 8; i++) {
        v[i] = _mm512_shuffle_i32x4(w[i], w[i + 8], 0x88);
        v[i + 8] = _mm512_shuffle_i32x4(w[i], w[i + 8], 0xDD);
    }
}
#endif

#define K(name) f16_##name
#define H(name) name##_f16
#define TO_F32 cpu_f16_to_f32
#include "backend_cpu/isa/gemm_half_f32.inc"
#undef K
#undef H
#undef TO_F32

#define K(name) bf16_##name
#define H(name) name##_bf16
#define TO_F32 cpu_bf16_to_f32
#include "backend_cpu/isa/gemm_half_f32.inc"
#undef K
#undef H
#undef TO_F32

#if defined(__AVX512F__)
#include "backend_cpu/isa/gemm_pairs.inc"
void CPU_ISA_NAME(cpu_gemm_bf16_pairs)(const cpu_product *g, void *scratch)
{
    run_half_pairs(g, scratch);
}
#else
void CPU_ISA_NAME(cpu_gemm_bf16_pairs)(const cpu_product *g, void *scratch)
{
    run_half_bf16(g, scratch);
}
#endif
