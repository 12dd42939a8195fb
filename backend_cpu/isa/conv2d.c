/* Convolution of f32 over staged planes (conv2d.h): tiles of results in registers, one broadcast or
 * one vector of the input for each multiplication, no column matrix.
 *
 * By channels: lanes are output channels; a tile is some pixels of a row. By pixels: lanes are pixels
 * of a row; a tile is all of few output channels. The weight gradients exchange the roles of result
 * and weight: a tile is some taps, summed over all pixels. */
#include "backend_cpu/conv2d.h"
#include "backend_cpu/isa/tile.h"

enum { LANES = TILE_F32_LANES };

/* X(1, v) X(2, v) ...: one function for each size of tile. */
#define UP_TO_3(X, v) X(1, v) X(2, v) X(3, v)
#define UP_TO_4(X, v) UP_TO_3(X, v) X(4, v)
#define UP_TO_5(X, v) UP_TO_4(X, v) X(5, v)
#define UP_TO_6(X, v) UP_TO_5(X, v) X(6, v)
#define UP_TO_8(X, v) UP_TO_6(X, v) X(7, v) X(8, v)
#define UP_TO_10(X, v) UP_TO_8(X, v) X(9, v) X(10, v)
#define UP_TO_12(X, v) UP_TO_10(X, v) X(11, v) X(12, v)
#define UP_TO_14(X, v) UP_TO_12(X, v) X(13, v) X(14, v)

/* Largest tiles that leave registers for operands: pixels and taps (each has a pointer) by one and
 * by two vectors of channels, and sums of a tile by pixels. */
#if defined(__AVX512F__)
enum { PIXELS_1 = 14, PIXELS_2 = 12, TAPS_1 = 12, TAPS_2 = 10, SUM_REGISTERS = 24 };
#define EACH_PIXELS_1 UP_TO_14
#define EACH_PIXELS_2 UP_TO_12
#define EACH_TAPS_1 UP_TO_12
#define EACH_TAPS_2 UP_TO_10
#elif defined(__AVX__)
enum { PIXELS_1 = 12, PIXELS_2 = 6, TAPS_1 = 10, TAPS_2 = 6, SUM_REGISTERS = 12 };
#define EACH_PIXELS_1 UP_TO_12
#define EACH_PIXELS_2 UP_TO_6
#define EACH_TAPS_1 UP_TO_10
#define EACH_TAPS_2 UP_TO_6
#else
enum { PIXELS_1 = 10, PIXELS_2 = 5, TAPS_1 = 10, TAPS_2 = 5, SUM_REGISTERS = 10 };
#define EACH_PIXELS_1 UP_TO_10
#define EACH_PIXELS_2 UP_TO_5
#define EACH_TAPS_1 UP_TO_10
#define EACH_TAPS_2 UP_TO_5
#endif

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- forward by channels ----------------------------------------------------------------------- */

typedef struct channel_tile {
    const float *x, *weights, *bias;
    const int32_t *offset;
    int64_t taps, stride;
    float *y;
    int64_t y_column;
    f32_mask last;
} channel_tile;

TILE_INLINE void run_channel_tile(const channel_tile *t, const int pixels, const int vectors)
{
    f32_lanes sum[PIXELS_1][2];
    TILE_UNROLL
    for (int i = 0; i < pixels; i++)
        TILE_UNROLL
        for (int v = 0; v < vectors; v++)
            sum[i][v] = f32_load(t->bias + v * LANES);
    const float *w = t->weights, *base = t->x;
    const int32_t *offset = t->offset, *const end = offset + t->taps;
    const int64_t stride = t->stride;
    for (; offset < end; offset++, w += stride) {
        const float *x = base + *offset;
        f32_lanes weight[2];
        TILE_UNROLL
        for (int v = 0; v < vectors; v++)
            weight[v] = f32_load(w + v * LANES);
        TILE_UNROLL
        for (int i = 0; i < pixels; i++) {
            const f32_lanes value = f32_set(x[i]);
            TILE_UNROLL
            for (int v = 0; v < vectors; v++)
                sum[i][v] += value * weight[v];
        }
    }
    float *y = t->y;
    const int64_t y_column = t->y_column;
    TILE_UNROLL
    for (int i = 0; i < pixels; i++, y += y_column) {
        if (vectors == 2)
            f32_store(y, sum[i][0]);
        f32_store_part(y + (vectors - 1) * LANES, t->last, sum[i][vectors - 1]);
    }
}

#define CHANNEL_TILE(pixels, vectors)                                        \
    static void channel_tile_##pixels##_##vectors(const channel_tile *t)     \
    {                                                                        \
        run_channel_tile(t, pixels, vectors);                                \
    }
#define CHANNEL_NAME(pixels, vectors) channel_tile_##pixels##_##vectors,
EACH_PIXELS_1(CHANNEL_TILE, 1)
EACH_PIXELS_2(CHANNEL_TILE, 2)
static void (*const channel_tiles_1[])(const channel_tile *) = { EACH_PIXELS_1(CHANNEL_NAME, 1) };
static void (*const channel_tiles_2[])(const channel_tile *) = { EACH_PIXELS_2(CHANNEL_NAME, 2) };

/* A row of results, vectors * LANES channels from the tile's; tiles share the pixels evenly. */
static void channel_row(channel_tile *t, const float *x, float *y, int64_t columns, int vectors)
{
    const int64_t most = vectors == 2 ? PIXELS_2 : PIXELS_1;
    const int64_t tiles = (columns + most - 1) / most;
    for (int64_t i = 0; i < tiles; i++) {
        const int64_t first = i * columns / tiles, pixels = (i + 1) * columns / tiles - first;
        t->x = x + first;
        t->y = y + first * t->y_column;
        (vectors == 2 ? channel_tiles_2 : channel_tiles_1)[pixels - 1](t);
    }
}

void CPU_ISA_NAME(cpu_conv_by_channels)(const cpu_conv_rows *r)
{
    for (int64_t c = 0, vectors; c < r->channels; c += vectors * LANES) {
        vectors = r->channels - c > LANES ? 2 : 1;
        const int64_t left = r->channels - c - (vectors - 1) * LANES;
        channel_tile t = { .weights = r->weights + c,
                           .bias = r->bias + c,
                           .offset = r->offset,
                           .taps = r->taps,
                           .stride = r->stride,
                           .y_column = r->y_column,
                           .last = f32_first(smaller(left, LANES)) };
        for (int64_t row = 0; row < r->rows; row++)
            channel_row(&t, r->x + row * r->x_row, r->y + row * r->y_row + c, r->columns,
                        (int)vectors);
    }
}

/* ---- forward by pixels ------------------------------------------------------------------------- */

enum { STRIPS = 4 }; /* vectors of pixels in a tile, at most */

typedef struct pixel_tile {
    const float *x[STRIPS];
    float *y[STRIPS];
    f32_mask mask[STRIPS];
    const float *weights, *bias;
    const int32_t *offset;
    int64_t taps, y_channel;
} pixel_tile;

TILE_INLINE void run_pixel_tile(const pixel_tile *t, const int channels, const int strips)
{
    f32_lanes sum[CPU_CONV_FEW][STRIPS];
    TILE_UNROLL
    for (int c = 0; c < channels; c++)
        TILE_UNROLL
        for (int s = 0; s < strips; s++)
            sum[c][s] = f32_set(t->bias[c]);
    const float *w = t->weights;
    const int32_t *offset = t->offset, *const end = offset + t->taps;
    const float *base[STRIPS];
    TILE_UNROLL
    for (int s = 0; s < strips; s++)
        base[s] = t->x[s];
    for (; offset < end; offset++, w += CPU_CONV_FEW) {
        f32_lanes x[STRIPS];
        TILE_UNROLL
        for (int s = 0; s < strips; s++)
            x[s] = f32_load(base[s] + *offset);
        TILE_UNROLL
        for (int c = 0; c < channels; c++) {
            const f32_lanes weight = f32_set(w[c]);
            TILE_UNROLL
            for (int s = 0; s < strips; s++)
                sum[c][s] += weight * x[s];
        }
    }
    TILE_UNROLL
    for (int c = 0; c < channels; c++)
        TILE_UNROLL
        for (int s = 0; s < strips; s++)
            f32_store_part(t->y[s] + c * t->y_channel, t->mask[s], sum[c][s]);
}

#define PIXEL_TILE(channels, strips)                                         \
    static void pixel_tile_##channels##_##strips(const pixel_tile *t)        \
    {                                                                        \
        run_pixel_tile(t, channels, strips);                                 \
    }
#define PIXEL_NAME(channels, strips) pixel_tile_##channels##_##strips,
#if defined(__AVX512F__)
#define EACH_FEW_2 UP_TO_8
#define EACH_FEW_3 UP_TO_8
#define EACH_FEW_4 UP_TO_6
#else
#define EACH_FEW_2 UP_TO_6
#define EACH_FEW_3 UP_TO_4
#define EACH_FEW_4 UP_TO_3
#endif
UP_TO_8(PIXEL_TILE, 1)
EACH_FEW_2(PIXEL_TILE, 2)
EACH_FEW_3(PIXEL_TILE, 3)
EACH_FEW_4(PIXEL_TILE, 4)
static void (*const pixel_tiles[STRIPS][CPU_CONV_FEW])(const pixel_tile *) = {
    { UP_TO_8(PIXEL_NAME, 1) },
    { EACH_FEW_2(PIXEL_NAME, 2) },
    { EACH_FEW_3(PIXEL_NAME, 3) },
    { EACH_FEW_4(PIXEL_NAME, 4) },
};

void CPU_ISA_NAME(cpu_conv_by_pixels)(const cpu_conv_rows *r)
{
    pixel_tile t = { .weights = r->weights,
                     .bias = r->bias,
                     .offset = r->offset,
                     .taps = r->taps,
                     .y_channel = r->y_channel };
    const int64_t most = smaller(STRIPS, SUM_REGISTERS / r->channels);
    int64_t strips = 0;
    for (int64_t row = 0; row < r->rows; row++)
        for (int64_t column = 0; column < r->columns; column += LANES) {
            t.x[strips] = r->x + row * r->x_row + column;
            t.y[strips] = r->y + row * r->y_row + column;
            t.mask[strips] = f32_first(smaller(r->columns - column, LANES));
            const bool last = row == r->rows - 1 && column + LANES >= r->columns;
            if (++strips == most || last) {
                pixel_tiles[strips - 1][r->channels - 1](&t);
                strips = 0;
            }
        }
}

/* ---- weight gradient by channels --------------------------------------------------------------- */

typedef struct sum_tile {
    const float *x[TAPS_1];
    const float *y;
    float *sums;
    int64_t rows, columns, x_row, y_row, y_column, stride;
    f32_mask last;
} sum_tile;

TILE_INLINE void run_sum_tile(const sum_tile *t, const int taps, const int vectors)
{
    f32_lanes sum[TAPS_1][2];
    TILE_UNROLL
    for (int i = 0; i < taps; i++)
        TILE_UNROLL
        for (int v = 0; v < vectors; v++)
            sum[i][v] = f32_set(0);
    const f32_mask last = t->last;
    const int64_t columns = t->columns, y_column = t->y_column;
    for (int64_t row = 0; row < t->rows; row++) {
        const float *x[TAPS_1];
        TILE_UNROLL
        for (int i = 0; i < taps; i++)
            x[i] = t->x[i] + row * t->x_row;
        const float *y = t->y + row * t->y_row;
        for (int64_t p = 0; p < columns; p++, y += y_column) {
            f32_lanes g[2];
            if (vectors == 2)
                g[0] = f32_load(y);
            g[vectors - 1] = f32_load_part(y + (vectors - 1) * LANES, last);
            TILE_UNROLL
            for (int i = 0; i < taps; i++) {
                const f32_lanes value = f32_set(x[i][p]);
                TILE_UNROLL
                for (int v = 0; v < vectors; v++)
                    sum[i][v] += value * g[v];
            }
        }
    }
    TILE_UNROLL
    for (int i = 0; i < taps; i++)
        TILE_UNROLL
        for (int v = 0; v < vectors; v++) {
            float *s = t->sums + i * t->stride + v * LANES;
            f32_store(s, f32_load(s) + sum[i][v]);
        }
}

#define SUM_TILE(taps, vectors)                                     \
    static void sum_tile_##taps##_##vectors(const sum_tile *t)      \
    {                                                               \
        run_sum_tile(t, taps, vectors);                             \
    }
#define SUM_NAME(taps, vectors) sum_tile_##taps##_##vectors,
EACH_TAPS_1(SUM_TILE, 1)
EACH_TAPS_2(SUM_TILE, 2)
static void (*const sum_tiles_1[])(const sum_tile *) = { EACH_TAPS_1(SUM_NAME, 1) };
static void (*const sum_tiles_2[])(const sum_tile *) = { EACH_TAPS_2(SUM_NAME, 2) };

void CPU_ISA_NAME(cpu_conv_sum_by_channels)(const cpu_conv_rows *r)
{
    for (int64_t c = 0, vectors; c < r->channels; c += vectors * LANES) {
        vectors = r->channels - c > LANES ? 2 : 1;
        const int64_t left = r->channels - c - (vectors - 1) * LANES;
        sum_tile t = { .y = r->y + c,
                       .rows = r->rows,
                       .columns = r->columns,
                       .x_row = r->x_row,
                       .y_row = r->y_row,
                       .y_column = r->y_column,
                       .stride = r->stride,
                       .last = f32_first(smaller(left, LANES)) };
        const int64_t most = vectors == 2 ? TAPS_2 : TAPS_1;
        const int64_t tiles = (r->taps + most - 1) / most;
        for (int64_t i = 0; i < tiles; i++) {
            const int64_t first = i * r->taps / tiles, taps = (i + 1) * r->taps / tiles - first;
            for (int64_t k = 0; k < taps; k++)
                t.x[k] = r->x + r->offset[first + k];
            t.sums = r->sums + first * r->stride + c;
            (vectors == 2 ? sum_tiles_2 : sum_tiles_1)[taps - 1](&t);
        }
    }
}

/* ---- weight gradient by pixels ----------------------------------------------------------------- */

/* Taps and channels of a tile. */
enum { FEW_TAPS = 4, FEW_CHANNELS = SUM_REGISTERS / FEW_TAPS };

typedef struct few_tile {
    const float *x[FEW_TAPS];
    const float *y;
    float *sums; /* [channels][r->taps][CPU_CONV_LANES] */
    int64_t rows, columns, x_row, y_row, y_channel, sums_channel;
} few_tile;

/* One vector of pixels. Masked x: a value beyond the row may be infinite, and 0 times it is not 0. */
TILE_INLINE void add_pixels(f32_lanes sum[FEW_CHANNELS][FEW_TAPS], const float *const *x,
                            const float *y, int64_t y_channel, int64_t at, const int channels,
                            const int taps, const bool part, f32_mask mask)
{
    f32_lanes g[FEW_CHANNELS];
    TILE_UNROLL
    for (int c = 0; c < channels; c++) {
        const float *from = y + c * y_channel + at;
        g[c] = part ? f32_load_part(from, mask) : f32_load(from);
    }
    TILE_UNROLL
    for (int i = 0; i < taps; i++) {
        const f32_lanes value = part ? f32_load_part(x[i] + at, mask) : f32_load(x[i] + at);
        TILE_UNROLL
        for (int c = 0; c < channels; c++)
            sum[c][i] += value * g[c];
    }
}

TILE_INLINE void run_few_tile(const few_tile *t, const int channels, const int taps)
{
    f32_lanes sum[FEW_CHANNELS][FEW_TAPS];
    TILE_UNROLL
    for (int c = 0; c < channels; c++)
        TILE_UNROLL
        for (int i = 0; i < taps; i++)
            sum[c][i] = f32_set(0);
    const int64_t columns = t->columns, whole = columns / LANES * LANES;
    const f32_mask mask = f32_first(columns - whole);
    for (int64_t row = 0; row < t->rows; row++) {
        const float *x[FEW_TAPS];
        TILE_UNROLL
        for (int i = 0; i < taps; i++)
            x[i] = t->x[i] + row * t->x_row;
        const float *y = t->y + row * t->y_row;
        for (int64_t at = 0; at < whole; at += LANES)
            add_pixels(sum, x, y, t->y_channel, at, channels, taps, false, mask);
        if (whole < columns)
            add_pixels(sum, x, y, t->y_channel, whole, channels, taps, true, mask);
    }
    TILE_UNROLL
    for (int c = 0; c < channels; c++)
        TILE_UNROLL
        for (int i = 0; i < taps; i++) {
            float *s = t->sums + c * t->sums_channel + i * CPU_CONV_LANES;
            f32_store(s, f32_load(s) + sum[c][i]);
        }
}

#define FEW_TILE(taps, channels)                                        \
    static void few_tile_##channels##_##taps(const few_tile *t)         \
    {                                                                   \
        run_few_tile(t, channels, taps);                                \
    }
#define FEW_TILES(channels) \
    FEW_TILE(1, channels) FEW_TILE(2, channels) FEW_TILE(3, channels) FEW_TILE(4, channels)
#define FEW_NAMES(channels)                                                 \
    {                                                                       \
        few_tile_##channels##_1, few_tile_##channels##_2, few_tile_##channels##_3, \
            few_tile_##channels##_4                                         \
    }
FEW_TILES(1)
FEW_TILES(2)
#if defined(__AVX__)
FEW_TILES(3)
#endif
#if defined(__AVX512F__)
FEW_TILES(4)
FEW_TILES(5)
FEW_TILES(6)
#endif
static void (*const few_tiles[FEW_CHANNELS][FEW_TAPS])(const few_tile *) = {
    FEW_NAMES(1), FEW_NAMES(2),
#if defined(__AVX__)
    FEW_NAMES(3),
#endif
#if defined(__AVX512F__)
    FEW_NAMES(4), FEW_NAMES(5), FEW_NAMES(6),
#endif
};

void CPU_ISA_NAME(cpu_conv_sum_by_pixels)(const cpu_conv_rows *r)
{
    few_tile t = { .rows = r->rows,
                   .columns = r->columns,
                   .x_row = r->x_row,
                   .y_row = r->y_row,
                   .y_channel = r->y_channel,
                   .sums_channel = r->taps * CPU_CONV_LANES };
    const int64_t blocks = (r->channels + FEW_CHANNELS - 1) / FEW_CHANNELS;
    const int64_t tiles = (r->taps + FEW_TAPS - 1) / FEW_TAPS;
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t c = b * r->channels / blocks;
        const int64_t channels = (b + 1) * r->channels / blocks - c;
        t.y = r->y + c * r->y_channel;
        for (int64_t i = 0; i < tiles; i++) {
            const int64_t first = i * r->taps / tiles, taps = (i + 1) * r->taps / tiles - first;
            for (int64_t k = 0; k < taps; k++)
                t.x[k] = r->x + r->offset[first + k];
            t.sums = r->sums + c * t.sums_channel + first * CPU_CONV_LANES;
            few_tiles[channels - 1][taps - 1](&t);
        }
    }
}

/* ---- bias gradient ----------------------------------------------------------------------------- */

static void sum_bias_by_channels(const cpu_conv_rows *r)
{
    for (int64_t c = 0; c < r->channels; c += LANES) {
        const f32_mask some = f32_first(smaller(r->channels - c, LANES));
        f32_lanes sum = f32_set(0);
        for (int64_t row = 0; row < r->rows; row++) {
            const float *y = r->y + row * r->y_row + c;
            for (int64_t p = 0; p < r->columns; p++)
                sum += f32_load_part(y + p * r->y_column, some);
        }
        f32_store_part(r->sums + c, some, f32_load_part(r->sums + c, some) + sum);
    }
}

void CPU_ISA_NAME(cpu_conv_sum_bias)(const cpu_conv_rows *r)
{
    if (r->y_channel == 1) {
        sum_bias_by_channels(r);
        return;
    }
    for (int64_t c = 0; c < r->channels; c++) {
        f32_lanes sum = f32_set(0);
        for (int64_t row = 0; row < r->rows; row++) {
            const float *y = r->y + c * r->y_channel + row * r->y_row;
            int64_t p = 0;
            for (; p + LANES <= r->columns; p += LANES)
                sum += f32_load(y + p);
            sum += f32_load_part(y + p, f32_first(r->columns - p));
        }
        r->sums[c] += f32_total(sum);
    }
}

/* ---- transposing ------------------------------------------------------------------------------- */

void CPU_ISA_NAME(cpu_transpose_f32)(float *out, int64_t out_row, const float *in, int64_t in_row,
                                     int64_t rows, int64_t columns)
{
    const int64_t whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4;
    for (int64_t r = 0; r < whole_rows; r += 4)
        for (int64_t c = 0; c < whole_columns; c += 4)
            f32_transpose4(out + c * out_row + r, out_row, in + r * in_row + c, in_row);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; c++)
            out[c * out_row + r] = in[r * in_row + c];
}
