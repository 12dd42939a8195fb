/* Convolution of f32 over staged planes (conv2d.h), with tiles of results in registers and no
 * column matrix. By channels: lanes are output channels; a tile is some pixels of a row. By
 * pixels: lanes are pixels of a row; a tile is all of few output channels. */
#include "backend_cpu/conv2d.h"
#include "backend_cpu/isa/conv2d_tile.h"

/* Largest tiles that leave registers for operands: pixels by one and by two vectors of channels,
 * and sums of a tile by pixels. */
#if defined(__AVX512F__)
enum { PIXELS_1 = 14, PIXELS_2 = 12, SUM_REGISTERS = 24 };
#define EACH_PIXELS_1 UP_TO_14
#define EACH_PIXELS_2 UP_TO_12
#elif defined(__AVX__)
enum { PIXELS_1 = 12, PIXELS_2 = 6, SUM_REGISTERS = 12 };
#define EACH_PIXELS_1 UP_TO_12
#define EACH_PIXELS_2 UP_TO_6
#else
enum { PIXELS_1 = 10, PIXELS_2 = 5, SUM_REGISTERS = 10 };
#define EACH_PIXELS_1 UP_TO_10
#define EACH_PIXELS_2 UP_TO_5
#endif

/* ---- forward by channels --------------------------------------------------------------------- */

typedef struct channel_tile {
    const float *x, *weights, *bias;
    const int32_t *offset;
    int64_t taps, stride;
    float *y;
    int64_t y_column;
    f32_mask last;
} channel_tile;

TILE_INLINE void store_channels(const channel_tile *t, f32_lanes sum[PIXELS_1][2], const int pixels,
                                const int vectors)
{
    float *y = t->y;
    const int64_t y_column = t->y_column;
    const f32_mask last = t->last;
    TILE_UNROLL
    for (int i = 0; i < pixels; i++, y += y_column) {
        if (vectors == 2)
            f32_store(y, sum[i][0]);
        f32_store_part(y + (vectors - 1) * LANES, last, sum[i][vectors - 1]);
    }
}

TILE_INLINE void run_channel_tile(const channel_tile *t, const int pixels, const int vectors)
{
    f32_lanes sum[PIXELS_1][2];
    TILE_UNROLL
    for (int i = 0; i < pixels; i++) {
        TILE_UNROLL
        for (int v = 0; v < vectors; v++)
            sum[i][v] = f32_load(t->bias + v * LANES);
    }
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
    store_channels(t, sum, pixels, vectors);
}

#define CHANNEL_TILE(pixels, vectors)                                    \
    static void channel_tile_##pixels##_##vectors(const channel_tile *t) \
    {                                                                    \
        run_channel_tile(t, pixels, vectors);                            \
    }
#define CHANNEL_NAME(pixels, vectors) channel_tile_##pixels##_##vectors,
EACH_PIXELS_1(CHANNEL_TILE, 1)
EACH_PIXELS_2(CHANNEL_TILE, 2)
static void (*const channel_tiles_1[])(const channel_tile *) = { EACH_PIXELS_1(CHANNEL_NAME, 1) };
static void (*const channel_tiles_2[])(const channel_tile *) = { EACH_PIXELS_2(CHANNEL_NAME, 2) };

/* The same where taps come in runs of `run`: each element of x is broadcast once for all the taps
 * that read it, since multiplying with a broadcast from memory runs at two thirds of the speed. */
TILE_INLINE void run_channel_tile_run(const channel_tile *t, const int pixels, const int vectors,
                                      const int run)
{
    f32_lanes sum[PIXELS_1][2];
    TILE_UNROLL
    for (int i = 0; i < pixels; i++) {
        TILE_UNROLL
        for (int v = 0; v < vectors; v++)
            sum[i][v] = f32_load(t->bias + v * LANES);
    }
    const float *w = t->weights, *base = t->x;
    const int32_t *offset = t->offset, *const end = offset + t->taps;
    const int64_t stride = t->stride;
    for (; offset < end; offset += run) {
        const float *x = base + *offset;
        f32_lanes weight[LONGEST_RUN][2];
        TILE_UNROLL
        for (int k = 0; k < run; k++, w += stride) {
            TILE_UNROLL
            for (int v = 0; v < vectors; v++)
                weight[k][v] = f32_load(w + v * LANES);
        }
        TILE_UNROLL
        for (int j = 0; j < pixels + run - 1; j++) {
            const f32_lanes value = f32_set(x[j]);
            TILE_UNROLL
            for (int k = j < pixels ? 0 : j - pixels + 1; k <= j && k < run; k++) {
                TILE_UNROLL
                for (int v = 0; v < vectors; v++)
                    sum[j - k][v] += value * weight[k][v];
            }
        }
    }
    store_channels(t, sum, pixels, vectors);
}

#if defined(__AVX512F__)
#define RUN_TILE(pixels, name)                                        \
    static void channel_tile_##pixels##_##name(const channel_tile *t) \
    {                                                                 \
        run_channel_tile_run(t, pixels, name / 10, name % 10);        \
    }
UP_TO_14(RUN_TILE, 13)
UP_TO_14(RUN_TILE, 15)
UP_TO_12(RUN_TILE, 23)
UP_TO_10(RUN_TILE, 25)
static void (*const channel_tiles_13[])(const channel_tile *) = { UP_TO_14(CHANNEL_NAME, 13) };
static void (*const channel_tiles_15[])(const channel_tile *) = { UP_TO_14(CHANNEL_NAME, 15) };
static void (*const channel_tiles_23[])(const channel_tile *) = { UP_TO_12(CHANNEL_NAME, 23) };
static void (*const channel_tiles_25[])(const channel_tile *) = { UP_TO_10(CHANNEL_NAME, 25) };
#endif

/* Tiles of up to `most` pixels for so many vectors of channels and runs of taps. */
typedef struct channel_tiles {
    void (*const *of)(const channel_tile *);
    int64_t most;
} channel_tiles;

static channel_tiles channel_tiles_for(int64_t vectors, int64_t run)
{
#if defined(__AVX512F__)
    if (run == 3)
        return vectors == 2 ? (channel_tiles){ channel_tiles_23, 12 }
                            : (channel_tiles){ channel_tiles_13, 14 };
    if (run == 5)
        return vectors == 2 ? (channel_tiles){ channel_tiles_25, 10 }
                            : (channel_tiles){ channel_tiles_15, 14 };
#else
    (void)run;
#endif
    return vectors == 2 ? (channel_tiles){ channel_tiles_2, PIXELS_2 }
                        : (channel_tiles){ channel_tiles_1, PIXELS_1 };
}

/* A row of results; tiles share the pixels evenly. */
static void channel_row(channel_tile *t, channel_tiles tiles, const float *x, float *y,
                        int64_t columns)
{
    const int64_t count = (columns + tiles.most - 1) / tiles.most;
    for (int64_t i = 0; i < count; i++) {
        const int64_t first = i * columns / count, pixels = (i + 1) * columns / count - first;
        t->x = x + first;
        t->y = y + first * t->y_column;
        tiles.of[pixels - 1](t);
    }
}

void CPU_ISA_NAME(cpu_conv_by_channels)(const cpu_conv_rows *r)
{
    for (int64_t c = 0, vectors; c < r->channels; c += vectors * LANES) {
        vectors = r->channels - c > LANES ? 2 : 1;
        const int64_t left = r->channels - c - (vectors - 1) * LANES;
        const channel_tiles tiles = channel_tiles_for(vectors, r->run);
        channel_tile t = { .weights = r->weights + c,
                           .bias = r->bias + c,
                           .offset = r->offset,
                           .taps = r->taps,
                           .stride = r->stride,
                           .y_column = r->y_column,
                           .last = f32_first(smaller(left, LANES)) };
        for (int64_t row = 0; row < r->rows; row++)
            channel_row(&t, tiles, r->x + row * r->x_row, r->y + row * r->y_row + c, r->columns);
    }
}

/* ---- forward by pixels ----------------------------------------------------------------------- */

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
    for (int c = 0; c < channels; c++) {
        TILE_UNROLL
        for (int s = 0; s < strips; s++)
            sum[c][s] = f32_set(t->bias[c]);
    }
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
    for (int c = 0; c < channels; c++) {
        TILE_UNROLL
        for (int s = 0; s < strips; s++)
            f32_store_part(t->y[s] + c * t->y_channel, t->mask[s], sum[c][s]);
    }
}

#define PIXEL_TILE(channels, strips)                                  \
    static void pixel_tile_##channels##_##strips(const pixel_tile *t) \
    {                                                                 \
        run_pixel_tile(t, channels, strips);                          \
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

/* ---- moving ---------------------------------------------------------------------------------- */

void CPU_ISA_NAME(cpu_copy_rows_f32)(float *out, int64_t out_row, const float *in, int64_t in_row,
                                     int64_t rows, int64_t columns)
{
    const int64_t whole = columns / LANES * LANES;
    const f32_mask part = f32_first(columns - whole);
    for (int64_t r = 0; r < rows; r++, out += out_row, in += in_row) {
        for (int64_t c = 0; c < whole; c += LANES)
            f32_store(out + c, f32_load(in + c));
        if (whole < columns)
            f32_store_part(out + whole, part, f32_load_part(in + whole, part));
    }
}

/* So many lines of the result are written from end to end at a time, however far apart they are; the
 * fewer where pages apart, since such lines share a set of the nearest cache. */
static int64_t turned_columns(int64_t out_row)
{
    return out_row % 1024 == 0 ? 8 : 16;
}

void CPU_ISA_NAME(cpu_turn_rows_f32)(float *out, int64_t out_row, const float *in, int64_t in_row,
                                     int64_t rows, int64_t columns)
{
    const int64_t whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4;
    const int64_t width = turned_columns(out_row);
    for (int64_t first = 0; first < whole_columns; first += width) {
        const int64_t last = smaller(first + width, whole_columns);
        for (int64_t r = 0; r < whole_rows; r += 4)
            for (int64_t c = first; c < last; c += 4)
                f32_transpose4(out + c * out_row + r, out_row, in + r * in_row + c, in_row);
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; c++)
            out[c * out_row + r] = in[r * in_row + c];
}
