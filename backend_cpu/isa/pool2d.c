/* Pooling of floats. Plain loops for every case (pool2d_max.inc, pool2d.inc), and for f32
 * vectors by hand where the plain loops leave much: 2x2 windows side by side in planes, and
 * channels_last. */
#include "backend_cpu/pool2d.h"

#include <math.h>

#include "backend_cpu/isa/tile.h"

enum { LANES = TILE_F32_LANES };

#define T float
#define FN(name) name##_f32
#define LOWEST (-INFINITY)
#define IS_NAN(v) ((v) != (v))
#include "backend_cpu/pool2d_max.inc"
#include "backend_cpu/isa/pool2d.inc"
#undef T
#undef FN

#define T double
#define FN(name) name##_f64
#include "backend_cpu/pool2d_max.inc"
#include "backend_cpu/isa/pool2d.inc"
#undef T
#undef FN

#if defined(__AVX512F__)
#define EVEN_LANES 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD_LANES 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define LOW_PAIRS 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_PAIRS 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif defined(__AVX__)
#define EVEN_LANES 0, 2, 4, 6, 8, 10, 12, 14
#define ODD_LANES 1, 3, 5, 7, 9, 11, 13, 15
#define LOW_PAIRS 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_PAIRS 4, 12, 5, 13, 6, 14, 7, 15
#else
#define EVEN_LANES 0, 2, 4, 6
#define ODD_LANES 1, 3, 5, 7
#define LOW_PAIRS 0, 4, 1, 5
#define HIGH_PAIRS 2, 6, 3, 7
#endif

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- vectors of maxima ----------------------------------------------------------------------- */

typedef int32_t i32_lanes __attribute__((vector_size(TILE_BYTES)));

typedef struct maxima {
    f32_lanes best;
    i32_lanes at;
} maxima;

/* A candidate from `cell`: larger, or NaN. */
TILE_INLINE void take(maxima *m, f32_lanes v, int32_t cell)
{
#if defined(__AVX512F__)
    const __mmask16 larger =
        (__mmask16)(_mm512_cmp_ps_mask((__m512)v, (__m512)m->best, _CMP_GT_OQ) |
                    _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_UNORD_Q));
    m->best = (f32_lanes)_mm512_mask_mov_ps((__m512)m->best, larger, (__m512)v);
    m->at = (i32_lanes)_mm512_mask_mov_epi32((__m512i)m->at, larger, _mm512_set1_epi32(cell));
#else
    const i32_lanes larger = (v > m->best) | (v != v);
    m->best = (f32_lanes)(((i32_lanes)v & larger) | ((i32_lanes)m->best & ~larger));
    m->at = ((cell - (i32_lanes){ 0 }) & larger) | (m->at & ~larger);
#endif
}

/* The first n cells' numbers, as the index's dtype. */
TILE_INLINE void store_index(const cpu_pool *pool, int64_t to, i32_lanes at, int64_t n)
{
    if (!pool->narrow_index) {
        memcpy((int32_t *)pool->index + to, &at, (size_t)n * sizeof(int32_t));
        return;
    }
    uint8_t *index = (uint8_t *)pool->index + to;
#if defined(__AVX512F__)
    _mm_mask_storeu_epi8(index, f32_first(n), _mm512_cvtepi32_epi8((__m512i)at));
#else
    typedef uint8_t u8_lanes __attribute__((vector_size(TILE_BYTES / 4)));
    const u8_lanes bytes = __builtin_convertvector(at, u8_lanes);
    if (n == LANES)
        memcpy(index, &bytes, sizeof bytes);
    else
        for (int i = 0; i < n; i++)
            index[i] = bytes[i];
#endif
}

TILE_INLINE i32_lanes load_index(const cpu_pool *pool, int64_t from, int64_t n)
{
    i32_lanes at = { 0 };
    if (!pool->narrow_index) {
        memcpy(&at, (const int32_t *)pool->index + from, (size_t)n * sizeof(int32_t));
        return at;
    }
    const uint8_t *index = (const uint8_t *)pool->index + from;
#if defined(__AVX512F__)
    return (i32_lanes)_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(f32_first(n), index));
#else
    typedef uint8_t u8_lanes __attribute__((vector_size(TILE_BYTES / 4)));
    u8_lanes bytes = { 0 };
    if (n == LANES)
        memcpy(&bytes, index, sizeof bytes);
    else
        for (int i = 0; i < n; i++)
            bytes[i] = index[i];
    return __builtin_convertvector(bytes, i32_lanes);
#endif
}

/* n elements, two apart. */
TILE_INLINE f32_lanes load_every_second(const float *p, int64_t n)
{
    const int64_t low = smaller(2 * n - 1, LANES);
    const f32_lanes a = f32_load_part(p, f32_first(low));
    const f32_lanes b = f32_load_part(p + low, f32_first(2 * n - 1 - low));
    return __builtin_shufflevector(a, b, EVEN_LANES);
}

/* 2n elements as n pairs: firsts and seconds. */
TILE_INLINE void load_pairs(const float *p, int64_t n, f32_lanes *firsts, f32_lanes *seconds)
{
    const int64_t low = smaller(2 * n, LANES);
    const f32_lanes a = f32_load_part(p, f32_first(low));
    const f32_lanes b = f32_load_part(p + low, f32_first(2 * n - low));
    *firsts = __builtin_shufflevector(a, b, EVEN_LANES);
    *seconds = __builtin_shufflevector(a, b, ODD_LANES);
}

/* ---- planes ---------------------------------------------------------------------------------- */

/* Candidates for results `at` to at + n of a row: one cell of each window, `row` being the first
 * pixel of the row it lies in. -infinity, which is never taken, where it lies outside. */
TILE_INLINE f32_lanes candidates(const cpu_pool *pool, const float *row, int64_t at, int64_t n,
                                 int64_t cell, cpu_range inside)
{
    const tern_attr_pool *a = pool->attr;
    const int64_t stride = a->stride[1];
    const float *v = row + at * stride - a->padding[1] + cell * a->dilation[1];
    if (inside.begin <= at && at + n <= inside.end) {
        if (stride == 1)
            return f32_load_part(v, f32_first(n));
        if (stride == 2)
            return load_every_second(v, n);
    }
    f32_lanes some = f32_set(-INFINITY);
    for (int i = 0; i < n; i++)
        if (at + i >= inside.begin && at + i < inside.end)
            some[i] = v[i * stride];
    return some;
}

/* A chunk of row oh of a plane. first[i]: the first column of result i's window that is inside. */
static void max_plane_row_lanes(const cpu_pool *pool, const cpu_pool_chunk *chunk,
                                const int32_t *first, const float *x, int64_t to, int64_t oh)
{
    const tern_attr_pool *a = pool->attr;
    const cpu_range rows = cpu_pool_cells(pool, 0, oh);
    for (int64_t at = chunk->begin; at < chunk->end; at += LANES) {
        const int64_t n = smaller(chunk->end - at, LANES);
        maxima m = { .best = f32_set(-INFINITY), .at = { 0 } };
        memcpy(&m.at, first + (at - chunk->begin), (size_t)n * sizeof *first);
        m.at += (int32_t)(rows.begin * a->kernel[1]);
        for (int64_t kh = rows.begin; kh < rows.end; kh++) {
            const int64_t h = oh * a->stride[0] - a->padding[0] + kh * a->dilation[0];
            for (int64_t kw = chunk->cells.begin; kw < chunk->cells.end; kw++)
                take(&m,
                     candidates(pool, x + h * pool->in[1], at, n, kw,
                                cpu_pool_inside(pool, chunk, kw)),
                     (int32_t)(kh * a->kernel[1] + kw));
        }
        f32_store_part((float *)pool->y + to + at, f32_first(n), m.best);
        store_index(pool, to + at, m.at, n);
    }
}

static void max_planes_lanes(const cpu_pool *pool, int64_t begin, int64_t end)
{
    const int64_t plane = pool->in[0] * pool->in[1];
    for (int64_t ow = 0; ow < pool->out[1]; ow += CPU_POOL_CHUNK) {
        const cpu_pool_chunk chunk = cpu_pool_chunk_at(pool, ow);
        int32_t first[CPU_POOL_CHUNK];
        for (int64_t i = chunk.begin; i < chunk.end; i++)
            first[i - chunk.begin] = (int32_t)cpu_pool_cells(pool, 1, i).begin;
        for (int64_t unit = begin; unit < end; unit++)
            for (int64_t oh = 0; oh < pool->out[0]; oh++)
                max_plane_row_lanes(pool, &chunk, first, (const float *)pool->x + unit * plane,
                                    (unit * pool->out[0] + oh) * pool->out[1], oh);
    }
}

/* ---- maxima going back ----------------------------------------------------------------------- */

/* g where the maximum came from `cell`, else 0. */
TILE_INLINE f32_lanes share_of(f32_lanes g, i32_lanes at, int32_t cell)
{
    return (f32_lanes)((i32_lanes)g & (at == cell - (i32_lanes){ 0 }));
}

/* ---- planes, windows of 2x2 side by side ----------------------------------------------------- */

static bool is_2x2(const cpu_pool *pool)
{
    const tern_attr_pool *a = pool->attr;
    for (int d = 0; d < 2; d++)
        if (a->kernel[d] != 2 || a->stride[d] != 2 || a->padding[d] != 0 || a->dilation[d] != 1 ||
            2 * pool->out[d] > pool->in[d])
            return false;
    return true;
}

TILE_INLINE void store_pairs(float *p, int64_t n, f32_lanes firsts, f32_lanes seconds)
{
    const int64_t low = smaller(2 * n, LANES);
    f32_store_part(p, f32_first(low), __builtin_shufflevector(firsts, seconds, LOW_PAIRS));
    f32_store_part(p + low, f32_first(2 * n - low),
                   __builtin_shufflevector(firsts, seconds, HIGH_PAIRS));
}

static void max_rows_2x2(const cpu_pool *pool, const float *x, int64_t to)
{
    for (int64_t ow = 0; ow < pool->out[1]; ow += LANES) {
        const int64_t n = smaller(pool->out[1] - ow, LANES);
        maxima m = { .at = { 0 } };
        f32_lanes b, c, d;
        load_pairs(x + 2 * ow, n, &m.best, &b);
        load_pairs(x + pool->in[1] + 2 * ow, n, &c, &d);
        take(&m, b, 1);
        take(&m, c, 2);
        take(&m, d, 3);
        f32_store_part((float *)pool->y + to + ow, f32_first(n), m.best);
        store_index(pool, to + ow, m.at, n);
    }
}

static void max_planes_2x2(const cpu_pool *pool, int64_t begin, int64_t end)
{
    for (int64_t unit = begin; unit < end; unit++) {
        const float *x = (const float *)pool->x + unit * pool->in[0] * pool->in[1];
        for (int64_t oh = 0; oh < pool->out[0]; oh++)
            max_rows_2x2(pool, x + 2 * oh * pool->in[1], (unit * pool->out[0] + oh) * pool->out[1]);
    }
}

static void max_grad_rows_2x2(const cpu_pool *pool, float *x, int64_t from)
{
    for (int64_t ow = 0; ow < pool->out[1]; ow += LANES) {
        const int64_t n = smaller(pool->out[1] - ow, LANES);
        const f32_lanes g = f32_load_part((const float *)pool->y + from + ow, f32_first(n));
        const i32_lanes at = load_index(pool, from + ow, n);
        store_pairs(x + 2 * ow, n, share_of(g, at, 0), share_of(g, at, 1));
        store_pairs(x + pool->in[1] + 2 * ow, n, share_of(g, at, 2), share_of(g, at, 3));
    }
}

static void max_grad_planes_2x2(const cpu_pool *pool, int64_t begin, int64_t end)
{
    const int64_t plane = pool->in[0] * pool->in[1];
    const bool covers = 2 * pool->out[0] == pool->in[0] && 2 * pool->out[1] == pool->in[1];
    for (int64_t unit = begin; unit < end; unit++) {
        float *x = (float *)pool->x + unit * plane;
        if (!covers)
            memset(x, 0, (size_t)plane * sizeof *x);
        for (int64_t oh = 0; oh < pool->out[0]; oh++)
            max_grad_rows_2x2(pool, x + 2 * oh * pool->in[1],
                              (unit * pool->out[0] + oh) * pool->out[1]);
    }
}

/* ---- channels_last --------------------------------------------------------------------------- */

/* The window of one result: where its first cell lies and which cells are inside. */
typedef struct window {
    int64_t first;       /* element of channel 0 of cell (0, 0), which may lie outside */
    int64_t row, column; /* elements from cell to cell */
    cpu_range rows, columns;
    int32_t width; /* cells in a row */
} window;

static window window_of(const cpu_pool *pool, int64_t oh, int64_t ow)
{
    const tern_attr_pool *a = pool->attr;
    const int64_t h = oh * a->stride[0] - a->padding[0], w = ow * a->stride[1] - a->padding[1];
    return (window){ .first = (h * pool->in[1] + w) * pool->channels,
                     .row = a->dilation[0] * pool->in[1] * pool->channels,
                     .column = a->dilation[1] * pool->channels,
                     .rows = cpu_pool_cells(pool, 0, oh),
                     .columns = cpu_pool_cells(pool, 1, ow),
                     .width = (int32_t)a->kernel[1] };
}

static void max_pixel_lanes(const cpu_pool *pool, const float *x, int64_t to, const window *at)
{
    for (int64_t c = 0; c < pool->channels; c += LANES) {
        const int64_t n = smaller(pool->channels - c, LANES);
        const f32_mask some = f32_first(n);
        maxima m = { .best = f32_set(-INFINITY) };
        m.at = (i32_lanes){ 0 } + (int32_t)(at->rows.begin * at->width + at->columns.begin);
        for (int64_t kh = at->rows.begin; kh < at->rows.end; kh++) {
            const float *cell = x + at->first + kh * at->row + at->columns.begin * at->column + c;
            for (int64_t kw = at->columns.begin; kw < at->columns.end; kw++, cell += at->column)
                take(&m, f32_load_part(cell, some), (int32_t)(kh * at->width + kw));
        }
        f32_store_part((float *)pool->y + to + c, some, m.best);
        store_index(pool, to + c, m.at, n);
    }
}

static void max_rows_lanes(const cpu_pool *pool, int64_t begin, int64_t end)
{
    const int64_t image = pool->in[0] * pool->in[1] * pool->channels;
    for (int64_t unit = begin; unit < end; unit++) {
        const float *x = (const float *)pool->x + unit / pool->out[0] * image;
        for (int64_t ow = 0; ow < pool->out[1]; ow++) {
            const window at = window_of(pool, unit % pool->out[0], ow);
            max_pixel_lanes(pool, x, (unit * pool->out[1] + ow) * pool->channels, &at);
        }
    }
}

/* x holds row 2 * oh and the next: pixels of `channels` elements, taken in pairs. */
static void max_row_lanes_2x2(const cpu_pool *pool, const float *x, int64_t to)
{
    const int64_t channels = pool->channels, row = pool->in[1] * channels;
    for (int64_t ow = 0; ow < pool->out[1]; ow++, x += 2 * channels, to += channels)
        for (int64_t c = 0; c < channels; c += LANES) {
            const int64_t n = smaller(channels - c, LANES);
            const f32_mask some = f32_first(n);
            maxima m = { .best = f32_load_part(x + c, some), .at = { 0 } };
            take(&m, f32_load_part(x + c + channels, some), 1);
            take(&m, f32_load_part(x + c + row, some), 2);
            take(&m, f32_load_part(x + c + row + channels, some), 3);
            f32_store_part((float *)pool->y + to + c, some, m.best);
            store_index(pool, to + c, m.at, n);
        }
}

static void max_rows_lanes_2x2(const cpu_pool *pool, int64_t begin, int64_t end)
{
    const int64_t row = pool->in[1] * pool->channels;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t image = unit / pool->out[0], oh = unit % pool->out[0];
        max_row_lanes_2x2(pool, (const float *)pool->x + (image * pool->in[0] + 2 * oh) * row,
                          unit * pool->out[1] * pool->channels);
    }
}

static void max_grad_pixel_lanes(const cpu_pool *pool, float *x, int64_t from, const window *at)
{
    for (int64_t c = 0; c < pool->channels; c += LANES) {
        const int64_t n = smaller(pool->channels - c, LANES);
        const f32_mask some = f32_first(n);
        const f32_lanes g = f32_load_part((const float *)pool->y + from + c, some);
        const i32_lanes index = load_index(pool, from + c, n);
        for (int64_t kh = at->rows.begin; kh < at->rows.end; kh++) {
            float *cell = x + at->first + kh * at->row + at->columns.begin * at->column + c;
            for (int64_t kw = at->columns.begin; kw < at->columns.end; kw++, cell += at->column) {
                const f32_lanes share = share_of(g, index, (int32_t)(kh * at->width + kw));
                f32_store_part(cell, some, f32_load_part(cell, some) + share);
            }
        }
    }
}

static void max_grad_images_lanes(const cpu_pool *pool, int64_t begin, int64_t end)
{
    const int64_t image = pool->in[0] * pool->in[1] * pool->channels;
    for (int64_t unit = begin; unit < end; unit++) {
        float *x = (float *)pool->x + unit * image;
        memset(x, 0, (size_t)image * sizeof *x);
        int64_t from = unit * pool->out[0] * pool->out[1] * pool->channels;
        for (int64_t oh = 0; oh < pool->out[0]; oh++)
            for (int64_t ow = 0; ow < pool->out[1]; ow++, from += pool->channels) {
                const window at = window_of(pool, oh, ow);
                max_grad_pixel_lanes(pool, x, from, &at);
            }
    }
}

static void max_grad_row_lanes_2x2(const cpu_pool *pool, float *x, int64_t from)
{
    const int64_t channels = pool->channels, row = pool->in[1] * channels;
    for (int64_t ow = 0; ow < pool->out[1]; ow++, x += 2 * channels, from += channels)
        for (int64_t c = 0; c < channels; c += LANES) {
            const int64_t n = smaller(channels - c, LANES);
            const f32_mask some = f32_first(n);
            const f32_lanes g = f32_load_part((const float *)pool->y + from + c, some);
            const i32_lanes at = load_index(pool, from + c, n);
            f32_store_part(x + c, some, share_of(g, at, 0));
            f32_store_part(x + c + channels, some, share_of(g, at, 1));
            f32_store_part(x + c + row, some, share_of(g, at, 2));
            f32_store_part(x + c + row + channels, some, share_of(g, at, 3));
        }
}

static void max_grad_images_lanes_2x2(const cpu_pool *pool, int64_t begin, int64_t end)
{
    const int64_t row = pool->in[1] * pool->channels, image = pool->in[0] * row;
    const bool covers = 2 * pool->out[0] == pool->in[0] && 2 * pool->out[1] == pool->in[1];
    for (int64_t unit = begin; unit < end; unit++) {
        float *x = (float *)pool->x + unit * image;
        if (!covers)
            memset(x, 0, (size_t)image * sizeof *x);
        for (int64_t oh = 0; oh < pool->out[0]; oh++)
            max_grad_row_lanes_2x2(pool, x + 2 * oh * row,
                                   (unit * pool->out[0] + oh) * pool->out[1] * pool->channels);
    }
}

/* ---- entries --------------------------------------------------------------------------------- */

/* With fewer channels most lanes would be idle. */
static bool fills_lanes(const cpu_pool *pool)
{
    return TILE_MASKED ? pool->channels >= LANES / 4 : pool->channels % LANES == 0;
}

void CPU_ISA_NAME(cpu_max_pool_f32)(const cpu_pool *pool, int64_t begin, int64_t end)
{
    if (pool->channels_last && fills_lanes(pool))
        (is_2x2(pool) ? max_rows_lanes_2x2 : max_rows_lanes)(pool, begin, end);
    else if (!pool->channels_last && is_2x2(pool))
        max_planes_2x2(pool, begin, end);
    else if (!pool->channels_last)
        max_planes_lanes(pool, begin, end);
    else
        max_pool_f32(pool, begin, end);
}

void CPU_ISA_NAME(cpu_max_pool_grad_f32)(const cpu_pool *pool, int64_t begin, int64_t end)
{
    const tern_attr_pool *a = pool->attr;
    const bool many_cells = a->kernel[0] * a->kernel[1] > 16;
    if (pool->channels_last && fills_lanes(pool) && is_2x2(pool))
        max_grad_images_lanes_2x2(pool, begin, end);
    else if (pool->channels_last && fills_lanes(pool) && !many_cells)
        max_grad_images_lanes(pool, begin, end);
    else if (!pool->channels_last && is_2x2(pool))
        max_grad_planes_2x2(pool, begin, end);
    else
        max_pool_grad_f32(pool, begin, end);
}

void CPU_ISA_NAME(cpu_max_pool_f64)(const cpu_pool *pool, int64_t begin, int64_t end)
{
    max_pool_f64(pool, begin, end);
}

void CPU_ISA_NAME(cpu_max_pool_grad_f64)(const cpu_pool *pool, int64_t begin, int64_t end)
{
    max_pool_grad_f64(pool, begin, end);
}

void CPU_ISA_NAME(cpu_avg_pool_f32)(const cpu_pool *pool, int64_t begin, int64_t end)
{
    avg_pool_f32(pool, begin, end);
}

void CPU_ISA_NAME(cpu_avg_pool_f64)(const cpu_pool *pool, int64_t begin, int64_t end)
{
    avg_pool_f64(pool, begin, end);
}

void CPU_ISA_NAME(cpu_avg_pool_grad_f32)(const cpu_pool *pool, int64_t begin, int64_t end)
{
    avg_pool_grad_f32(pool, begin, end);
}

void CPU_ISA_NAME(cpu_avg_pool_grad_f64)(const cpu_pool *pool, int64_t begin, int64_t end)
{
    avg_pool_grad_f64(pool, begin, end);
}
