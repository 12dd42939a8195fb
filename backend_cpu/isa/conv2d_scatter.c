/* The input gradient of a convolution of few input channels: lanes are the channels of one row
 * of the kernel side by side, [tap][channel], which lie so in a channels_last image too. A tile
 * is those of two pixels; it is summed over all output channels and then added to where it
 * belongs. */
#include "backend_cpu/conv2d.h"
#include "backend_cpu/isa/tile.h"

enum { LANES = TILE_F32_LANES };
typedef int32_t i32_lanes __attribute__((vector_size(TILE_BYTES)));

/* Vectors of a tile: twice as many sums beside two broadcasts and a weight. */
#if defined(__AVX512F__)
enum { VECTORS = 12 };
#define EACH_VECTORS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#elif defined(__AVX__)
enum { VECTORS = 6 };
#define EACH_VECTORS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#else
enum { VECTORS = 5 };
#define EACH_VECTORS(X) X(1) X(2) X(3) X(4) X(5)
#endif

typedef struct scatter_tile {
    const float *weights;
    const cpu_conv_scatter *s;
    int64_t x_at[VECTORS];   /* elements of x from a pixel's first one */
    i32_lanes keep[VECTORS]; /* all bits set in lanes that exist */
} scatter_tile;

/* Whole vectors are stored, with 0 added beyond a run: a load that finds part of what it wants in a
 * masked store waits for the store to end, and the pixel below reads the same vectors again. */
TILE_INLINE void add_pixel(const scatter_tile *t, float *x, const f32_lanes *sum, const int vectors)
{
    TILE_UNROLL
    for (int v = 0; v < vectors; v++) {
        float *to = x + t->x_at[v];
        f32_store(to, f32_load(to) + (f32_lanes)((i32_lanes)sum[v] & t->keep[v]));
    }
}

/* The pixel at y and, where there are two, the one below. */
TILE_INLINE void run_pixels(const scatter_tile *t, float *x, const float *y, const int vectors,
                            const int pixels)
{
    const cpu_conv_scatter *s = t->s;
    f32_lanes sum[2][VECTORS];
    TILE_UNROLL
    for (int v = 0; v < vectors; v++)
        sum[0][v] = sum[1][v] = f32_set(0);
    const float *w = t->weights, *below = y + s->y_row;
    const int64_t stride = s->stride, y_channel = s->y_channel;
    for (int64_t o = 0, at = 0; o < s->channels; o++, at += y_channel, w += stride) {
        const f32_lanes a = f32_set(y[at]), b = f32_set(pixels == 2 ? below[at] : 0);
        TILE_UNROLL
        for (int v = 0; v < vectors; v++) {
            f32_lanes weight = f32_load(w + v * LANES);
            TILE_IN_REGISTER(weight);
            sum[0][v] += a * weight;
            if (pixels == 2)
                sum[1][v] += b * weight;
        }
    }
    add_pixel(t, x, sum[0], vectors);
    if (pixels == 2)
        add_pixel(t, x + s->x_row, sum[1], vectors);
}

TILE_INLINE void run_rows(const scatter_tile *t, const int vectors)
{
    const cpu_conv_scatter *s = t->s;
    for (int64_t row = 0; row < s->rows; row += 2) {
        float *x = s->x + row * s->x_row;
        const float *y = s->y + row * s->y_row;
        for (int64_t p = 0; p < s->columns; p++, x += s->x_column, y += s->y_column)
            if (row + 1 < s->rows)
                run_pixels(t, x, y, vectors, 2);
            else
                run_pixels(t, x, y, vectors, 1);
    }
}

#define ROWS(vectors)                                 \
    static void rows_##vectors(const scatter_tile *t) \
    {                                                 \
        run_rows(t, vectors);                         \
    }
#define ROWS_NAME(vectors) rows_##vectors,
EACH_VECTORS(ROWS)
static void (*const rows_of[VECTORS])(const scatter_tile *) = { EACH_VECTORS(ROWS_NAME) };

void CPU_ISA_NAME(cpu_conv_scatter_rows)(const cpu_conv_scatter *s)
{
    const int64_t per_row = s->padded_run / LANES, total = s->kernel_rows * per_row;
    const int64_t tiles = (total + VECTORS - 1) / VECTORS;
    for (int64_t i = 0; i < tiles; i++) {
        const int64_t first = i * total / tiles, vectors = (i + 1) * total / tiles - first;
        scatter_tile t = { .s = s, .weights = s->weights + first * LANES };
        for (int64_t v = 0; v < vectors; v++) {
            const int64_t row = (first + v) / per_row, at = (first + v) % per_row * LANES;
            const int64_t left = s->run - at > 0 ? s->run - at : 0;
            t.x_at[v] = row * s->kernel_row + (left > 0 ? at : 0);
            for (int lane = 0; lane < LANES; lane++)
                t.keep[v][lane] = lane < left ? -1 : 0;
        }
        rows_of[vectors - 1](&t);
    }
}
