/* Matrix products of f32 and f64 on one thread: blocks of B (and of A where its rows are not
 * contiguous) packed for the second-level cache, tiles of C held in registers. The sum over k runs
 * in order, with one rounding per step where the CPU has fused multiply-add. */
#include "backend_cpu/gemm.h"
#include "backend_cpu/isa/lanes.h"

/* Rows and vectors of a tile: as many sums as registers hold beside a row of B and one broadcast. TILE_MOST_ROWS: of one
 * vector or of two, which have registers for more. TILE_VECTORS are for a whole product of no more, TILE_WIDEST for
 * others: the fewer rows, the more often B is read. TILE_RUNS: a call makes all tiles beside each other (shallow
 * products 0.87 to 1.0 of the time with AVX-512 on Intel). TILE_NEAR: bytes, half of a first-level cache, of 48 KiB where there is AVX-512. */
#if defined(__AVX512F__)
enum { TILE_ROWS = CPU_GEMM_WIDE, TILE_VECTORS = 3, TILE_WIDEST = 3, DOT_ROWS = 6 };
enum { TILE_ISA = CPU_ISA_AVX512, TILE_RUNS = 1, TILE_MOST_ROWS = CPU_GEMM_TALL };
enum { TILE_NEAR = 24 << 10 };
static const int8_t tile_rows[TILE_VECTORS] = { TILE_ROWS, CPU_GEMM_TALL, TILE_ROWS };
#elif defined(__AVX__)
enum { TILE_ROWS = 6, TILE_VECTORS = 3, TILE_WIDEST = 2, DOT_ROWS = 3 };
enum { TILE_ISA = CPU_ISA_AVX2, TILE_RUNS = 1, TILE_MOST_ROWS = 12 };
enum { TILE_NEAR = 16 << 10 };
static const int8_t tile_rows[TILE_VECTORS] = { TILE_MOST_ROWS, TILE_ROWS, 4 };
#else
enum { TILE_ROWS = 4, TILE_VECTORS = 2, TILE_WIDEST = 2, DOT_ROWS = 2 };
enum { TILE_ISA = CPU_ISA_BASE, TILE_RUNS = 0, TILE_MOST_ROWS = 4 };
enum { TILE_NEAR = 16 << 10 };
static const int8_t tile_rows[TILE_VECTORS] = { TILE_ROWS, TILE_ROWS };
#endif
enum {
    DOT_COLUMNS = 4,
    /* Rows of B, and columns of a transposed A, lie apart, often on pages of their own, and look to the CPU like no pattern.
     * With AVX-512, whose steps are long, they are fetched so many steps before they are read (Intel: a B that is read where
     * it lies 0.8 to 0.95 of the time; one that is packed 1.0, and is not). Shorter steps are over before that has come:
     * what lies to the right is fetched, of B so many panels (Zen 3: packed 0.55 to 0.95 of the time, 20x800x800 1.06; where
     * it lies 0.6 to 1), of A so many lines (packed 0.83 to 0.95; of one that is read once, by the one panel of B, 0.65). */
    FETCHED_ROWS = 12,
    FETCHED_COLUMNS = 16,
    FETCHED_PANELS = 2,
    FETCHED_LINES = 2,
    FETCHED_DEPTH = 48,
    FETCHED_BYTES = 1 << 19, /* of an operand */
    LONG_STEPS = (int)TILE_ISA == (int)CPU_ISA_AVX512
};

/* An extent cut into `count` shares: the first `large` are of `most`, the others of one less. Tiles ask where one starts; a
 * division would take as long as a good part of a shallow tile. */
typedef struct shares {
    int64_t count, most, large;
} shares;

static shares shares_of(int64_t extent, int64_t most)
{
    shares s = { .count = (extent + most - 1) / most };
    s.most = s.count > 0 ? (extent + s.count - 1) / s.count : 0;
    s.large = extent - s.count * (s.most - 1);
    return s;
}

TILE_INLINE int64_t share_start(const shares *s, int64_t i)
{
    return i * s->most - (i > s->large ? i - s->large : 0);
}

/* How many shares from i on are as large as that one. */
TILE_INLINE int64_t shares_alike(const shares *s, int64_t i)
{
    return (i < s->large ? s->large : s->count) - i;
}

/* Rows of a later block, whose lines tiles fetch in order while they compute: the CPU's prefetchers join in. A
 * row begins `row` bytes after the one before. */
typedef struct far_rows {
    const char *at; /* of the row at `start` */
    const char *start, *end;
    int64_t row, width;
    int64_t step; /* bytes for each step of k: one or two lines */
} far_rows;

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

/* The same for 16 columns: four of the transpositions at once. */
#if defined(__AVX512F__)
/* Four steps of columns 0, 1 * apart and so on, beside each other. */
TILE_INLINE __m512 four_columns(const float *src, int64_t apart)
{
    const __m512 one = _mm512_castps128_ps512(_mm_loadu_ps(src));
    const __m512 two = _mm512_insertf32x4(one, _mm_loadu_ps(src + apart), 1);
    const __m512 three = _mm512_insertf32x4(two, _mm_loadu_ps(src + 2 * apart), 2);
    return _mm512_insertf32x4(three, _mm_loadu_ps(src + 3 * apart), 3);
}

TILE_INLINE void transpose16_f32(float *dst, int64_t dst_row, const float *src, int64_t src_row,
                                 int64_t n)
{
    const int64_t apart = 4 * src_row;
    int64_t p = 0;
    for (; p + 4 <= n; p += 4, dst += 4 * dst_row) {
        const __m512 a = four_columns(src + p, apart);
        const __m512 b = four_columns(src + p + src_row, apart);
        const __m512 c = four_columns(src + p + 2 * src_row, apart);
        const __m512 d = four_columns(src + p + 3 * src_row, apart);
        const __m512 ac_low = _mm512_unpacklo_ps(a, c), ac_high = _mm512_unpackhi_ps(a, c);
        const __m512 bd_low = _mm512_unpacklo_ps(b, d), bd_high = _mm512_unpackhi_ps(b, d);
        _mm512_storeu_ps(dst, _mm512_unpacklo_ps(ac_low, bd_low));
        _mm512_storeu_ps(dst + dst_row, _mm512_unpackhi_ps(ac_low, bd_low));
        _mm512_storeu_ps(dst + 2 * dst_row, _mm512_unpacklo_ps(ac_high, bd_high));
        _mm512_storeu_ps(dst + 3 * dst_row, _mm512_unpackhi_ps(ac_high, bd_high));
    }
    for (; p < n; p++, dst += dst_row)
        for (int j = 0; j < 16; j++)
            dst[j] = src[j * src_row + p];
}

#elif defined(__AVX__)
/* Four steps of columns 0 and `apart` beside each other. */
TILE_INLINE __m256 two_columns(const float *src, int64_t apart)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(src)),
                                _mm_loadu_ps(src + apart), 1);
}

/* Eight columns, twice. */
TILE_INLINE void transpose16_f32(float *dst, int64_t dst_row, const float *src, int64_t src_row,
                                 int64_t n)
{
    const int64_t apart = 4 * src_row;
    int64_t p = 0;
    for (; p + 4 <= n; p += 4, dst += 4 * dst_row)
        for (int j = 0; j < 16; j += 8) {
            const float *from = src + j * src_row + p;
            float *to = dst + j;
            const __m256 a = two_columns(from, apart);
            const __m256 b = two_columns(from + src_row, apart);
            const __m256 c = two_columns(from + 2 * src_row, apart);
            const __m256 d = two_columns(from + 3 * src_row, apart);
            const __m256 ac_low = _mm256_unpacklo_ps(a, c), ac_high = _mm256_unpackhi_ps(a, c);
            const __m256 bd_low = _mm256_unpacklo_ps(b, d), bd_high = _mm256_unpackhi_ps(b, d);
            _mm256_storeu_ps(to, _mm256_unpacklo_ps(ac_low, bd_low));
            _mm256_storeu_ps(to + dst_row, _mm256_unpackhi_ps(ac_low, bd_low));
            _mm256_storeu_ps(to + 2 * dst_row, _mm256_unpacklo_ps(ac_high, bd_high));
            _mm256_storeu_ps(to + 3 * dst_row, _mm256_unpackhi_ps(ac_high, bd_high));
        }
    for (; p < n; p++, dst += dst_row)
        for (int j = 0; j < 16; j++)
            dst[j] = src[j * src_row + p];
}

#else
TILE_INLINE void transpose16_f32(float *dst, int64_t dst_row, const float *src, int64_t src_row,
                                 int64_t n)
{
    for (int j = 0; j < 16; j += 4)
        transpose4_f32(dst + j, dst_row, src + j * src_row, src_row, n);
}
#endif

TILE_INLINE void transpose16_f64(double *dst, int64_t dst_row, const double *src, int64_t src_row,
                                 int64_t n)
{
    for (int j = 0; j < 16; j += 4)
        transpose4_f64(dst + j, dst_row, src + j * src_row, src_row, n);
}

/* NULL where nothing is left. */
TILE_INLINE far_rows *left_of(far_rows *rows)
{
    return rows->start < rows->end ? rows : NULL;
}

/* Rows k0 to k0 + kc of the operand that is far. All tiles of the block before it share them out: those of A are
 * half as many lines as steps, those of B one and a half for two strips. */
static far_rows far_after(const cpu_product *g, int64_t size, int64_t k0, int64_t kc)
{
    const int64_t rows = g->k - k0 < kc ? g->k - k0 : kc;
    if (g->far == CPU_GEMM_NEAR || rows <= 0)
        return (far_rows){ .row = 0 };
    const bool of_a = g->far == CPU_GEMM_FAR_A;
    const int64_t row = (of_a ? g->a_col : g->b_row) * size;
    const char *start = (const char *)(of_a ? g->a : g->b) + k0 * row;
    return (far_rows){ .at = start,
                       .start = start,
                       .end = start + rows * row,
                       .row = row,
                       .width = (of_a ? g->m : g->n) * size,
                       .step = of_a || g->m > 2 * TILE_ROWS ? 64 : 128 };
}

#define T float
#define X(name) f32_##name
#define FN(name) name##_f32
#define LANES TILE_F32_LANES
#include "backend_cpu/isa/gemm_dots.inc"
#include "backend_cpu/isa/gemm_tile.inc"
#undef T
#undef X
#undef FN
#undef LANES

#define T double
#define X(name) f64_##name
#define FN(name) name##_f64
#define LANES TILE_F64_LANES
#include "backend_cpu/isa/gemm_dots.inc"
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
