/* The weight gradient of an f32 convolution over staged planes (conv2d.h): as in isa/conv2d.c,
 * with the roles of result and weight exchanged. A tile is some taps, summed over all pixels;
 * lanes are output channels or pixels of a row. */
#include "backend_cpu/conv2d.h"
#include "backend_cpu/isa/conv2d_tile.h"

/* Largest tiles that leave registers for operands: taps (each has a pointer) by one and by two
 * vectors of channels, and sums of a tile by pixels. */
#if defined(__AVX512F__)
enum { TAPS_1 = 12, TAPS_2 = 10, SUM_REGISTERS = 24 };
#define EACH_TAPS_1 UP_TO_12
#define EACH_TAPS_2 UP_TO_10
#elif defined(__AVX__)
enum { TAPS_1 = 10, TAPS_2 = 6, SUM_REGISTERS = 12 };
#define EACH_TAPS_1 UP_TO_10
#define EACH_TAPS_2 UP_TO_6
#else
enum { TAPS_1 = 10, TAPS_2 = 5, SUM_REGISTERS = 10 };
#define EACH_TAPS_1 UP_TO_10
#define EACH_TAPS_2 UP_TO_5
#endif

/* ---- weight gradient by channels ------------------------------------------------------------- */

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
    for (int i = 0; i < taps; i++) {
        TILE_UNROLL
        for (int v = 0; v < vectors; v++)
            sum[i][v] = f32_set(0);
    }
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
    for (int i = 0; i < taps; i++) {
        TILE_UNROLL
        for (int v = 0; v < vectors; v++) {
            float *s = t->sums + i * t->stride + v * LANES;
            f32_store(s, f32_load(s) + sum[i][v]);
        }
    }
}

#define SUM_TILE(taps, vectors)                                \
    static void sum_tile_##taps##_##vectors(const sum_tile *t) \
    {                                                          \
        run_sum_tile(t, taps, vectors);                        \
    }
#define SUM_NAME(taps, vectors) sum_tile_##taps##_##vectors,
EACH_TAPS_1(SUM_TILE, 1)
EACH_TAPS_2(SUM_TILE, 2)
static void (*const sum_tiles_1[])(const sum_tile *) = { EACH_TAPS_1(SUM_NAME, 1) };
static void (*const sum_tiles_2[])(const sum_tile *) = { EACH_TAPS_2(SUM_NAME, 2) };

#if defined(__AVX512F__)

/* The same where taps come in runs: a few pixels of y in registers meet each element of x, which is
 * broadcast once for all the taps that read it. A tile is up to RUNS runs. */
enum { RUNS = 5 };
#define EACH_RUNS_13 UP_TO_5
#define EACH_RUNS_15 UP_TO_5
#define EACH_RUNS_23 UP_TO_3
#define EACH_RUNS_25 UP_TO_2

TILE_INLINE void add_pixels_run(f32_lanes sum[RUNS][LONGEST_RUN][2], const float *const *x,
                                const float *y, int64_t y_column, f32_mask last, const int pixels,
                                const int runs, const int vectors, const int run)
{
    f32_lanes g[4][2];
    TILE_UNROLL
    for (int p = 0; p < pixels; p++) {
        const float *from = y + p * y_column;
        if (vectors == 2)
            g[p][0] = f32_load(from);
        g[p][vectors - 1] = f32_load_part(from + (vectors - 1) * LANES, last);
    }
    TILE_UNROLL
    for (int i = 0; i < runs; i++) {
        TILE_UNROLL
        for (int j = 0; j < pixels + run - 1; j++) {
            const f32_lanes value = f32_set(x[i][j]);
            TILE_UNROLL
            for (int k = j < pixels ? 0 : j - pixels + 1; k <= j && k < run; k++) {
                TILE_UNROLL
                for (int v = 0; v < vectors; v++)
                    sum[i][k][v] += value * g[j - k][v];
            }
        }
    }
}

TILE_INLINE void run_sum_tile_run(const sum_tile *t, const int runs, const int vectors,
                                  const int run)
{
    f32_lanes sum[RUNS][LONGEST_RUN][2];
    TILE_UNROLL
    for (int i = 0; i < runs * run * vectors; i++)
        sum[i / (run * vectors)][i / vectors % run][i % vectors] = f32_set(0);
    const int64_t y_column = t->y_column, columns = t->columns;
    for (int64_t row = 0; row < t->rows; row++) {
        const float *x[RUNS], *y = t->y + row * t->y_row;
        TILE_UNROLL
        for (int i = 0; i < runs; i++)
            x[i] = t->x[i] + row * t->x_row;
        int64_t p = 0;
        for (; p + 4 <= columns; p += 4, y += 4 * y_column) {
            add_pixels_run(sum, x, y, y_column, t->last, 4, runs, vectors, run);
            TILE_UNROLL
            for (int i = 0; i < runs; i++)
                x[i] += 4;
        }
        for (; p < columns; p++, y += y_column) {
            add_pixels_run(sum, x, y, y_column, t->last, 1, runs, vectors, run);
            TILE_UNROLL
            for (int i = 0; i < runs; i++)
                x[i]++;
        }
    }
    TILE_UNROLL
    for (int i = 0; i < runs * run; i++) {
        TILE_UNROLL
        for (int v = 0; v < vectors; v++) {
            float *s = t->sums + i * t->stride + v * LANES;
            f32_store(s, f32_load(s) + sum[i / run][i % run][v]);
        }
    }
}

#define SUM_TILE_RUN(runs, name)                            \
    static void sum_tile_##runs##_##name(const sum_tile *t) \
    {                                                       \
        run_sum_tile_run(t, runs, name / 10, name % 10);    \
    }
EACH_RUNS_13(SUM_TILE_RUN, 13)
EACH_RUNS_15(SUM_TILE_RUN, 15)
EACH_RUNS_23(SUM_TILE_RUN, 23)
EACH_RUNS_25(SUM_TILE_RUN, 25)
static void (*const sum_tiles_13[])(const sum_tile *) = { EACH_RUNS_13(SUM_NAME, 13) };
static void (*const sum_tiles_15[])(const sum_tile *) = { EACH_RUNS_15(SUM_NAME, 15) };
static void (*const sum_tiles_23[])(const sum_tile *) = { EACH_RUNS_23(SUM_NAME, 23) };
static void (*const sum_tiles_25[])(const sum_tile *) = { EACH_RUNS_25(SUM_NAME, 25) };

#endif

/* Tiles of up to `most` runs of `run` taps. */
typedef struct sum_tiles {
    void (*const *of)(const sum_tile *);
    int64_t most, run;
} sum_tiles;

static sum_tiles sum_tiles_for(int64_t vectors, int64_t run)
{
#if defined(__AVX512F__)
    if (run == 3)
        return vectors == 2 ? (sum_tiles){ sum_tiles_23, 3, 3 } : (sum_tiles){ sum_tiles_13, 5, 3 };
    if (run == 5)
        return vectors == 2 ? (sum_tiles){ sum_tiles_25, 2, 5 } : (sum_tiles){ sum_tiles_15, 5, 5 };
#else
    (void)run;
#endif
    return vectors == 2 ? (sum_tiles){ sum_tiles_2, TAPS_2, 1 }
                        : (sum_tiles){ sum_tiles_1, TAPS_1, 1 };
}

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
        const sum_tiles tiles = sum_tiles_for(vectors, r->run);
        const int64_t runs = r->taps / tiles.run, count = (runs + tiles.most - 1) / tiles.most;
        for (int64_t i = 0; i < count; i++) {
            const int64_t first = i * runs / count, some = (i + 1) * runs / count - first;
            for (int64_t k = 0; k < some; k++)
                t.x[k] = r->x + r->offset[(first + k) * tiles.run];
            t.sums = r->sums + first * tiles.run * r->stride + c;
            tiles.of[some - 1](&t);
        }
    }
}

/* ---- weight gradient by pixels --------------------------------------------------------------- */

/* Taps and channels of a tile. */
enum { FEW_TAPS = 4, FEW_CHANNELS = SUM_REGISTERS / FEW_TAPS };

typedef struct few_tile {
    const float *x[FEW_TAPS];
    const float *y;
    float *sums; /* [channels][r->taps][CPU_CONV_LANES] */
    int64_t rows, columns, x_row, y_row, y_channel, sums_channel;
} few_tile;

/* One vector of pixels. Masked x: a value beyond the row may be infinite, and 0 times it is not
 * 0. */
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
    for (int c = 0; c < channels; c++) {
        TILE_UNROLL
        for (int i = 0; i < taps; i++)
            sum[c][i] = f32_set(0);
    }
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
    for (int c = 0; c < channels; c++) {
        TILE_UNROLL
        for (int i = 0; i < taps; i++) {
            float *s = t->sums + c * t->sums_channel + i * CPU_CONV_LANES;
            f32_store(s, f32_load(s) + sum[c][i]);
        }
    }
}

#define FEW_TILE(taps, channels)                                \
    static void few_tile_##channels##_##taps(const few_tile *t) \
    {                                                           \
        run_few_tile(t, channels, taps);                        \
    }
#define FEW_TILES(channels) UP_TO_4(FEW_TILE, channels)
#define FEW_NAMES(channels)                                                        \
    {                                                                              \
        few_tile_##channels##_1, few_tile_##channels##_2, few_tile_##channels##_3, \
            few_tile_##channels##_4                                                \
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

/* ---- bias gradient --------------------------------------------------------------------------- */

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
