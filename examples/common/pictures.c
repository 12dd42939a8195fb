/* Pictures in colour to train on when no file is at hand: ten kinds of figure, each in colours, at a
 * size and in a place of its own, on a ground with a gradient and noise. The same for the same seed. */
#include "common.h"

#include <stdint.h>
#include <stdlib.h>

enum { SIDE = 32, PLANE = SIDE * SIDE, CHANNELS = 3, KINDS = 10 };

typedef struct figure {
    int kind;
    float x, y, size; /* centre and half extent, in pixels */
    float fore[CHANNELS], back[CHANNELS], slope[CHANNELS];
} figure;

/* splitmix64: 0 .. 1 */
static float draw(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (float)((z ^ z >> 31) >> 40) * 0x1p-24F;
}

static float magnitude(float v)
{
    return v < 0 ? -v : v;
}

/* Is the point (u, v) of the square -1 .. 1 part of the figure? */
static bool is_inside(int kind, float u, float v)
{
    const float round = u * u + v * v;
    const float au = magnitude(u), av = magnitude(v);
    const float square = au > av ? au : av;
    if (square > 1)
        return false;
    switch (kind) {
    case 0: /* disc */
        return round < 1;
    case 1: /* ring */
        return round < 1 && round > 0.36F;
    case 2: /* square */
        return square < 0.9F;
    case 3: /* frame */
        return square < 0.9F && square > 0.5F;
    case 4: /* triangle */
        return 2 * au < v + 1;
    case 5: /* plus */
        return au < 0.3F || av < 0.3F;
    case 6: /* cross */
        return magnitude(au - av) < 0.35F;
    case 7: /* bars */
        return (int)((v + 1) * 2.5F) % 2 == 0;
    case 8: /* posts */
        return (int)((u + 1) * 2.5F) % 2 == 0;
    default: /* board */
        return ((int)((u + 1) * 2) + (int)((v + 1) * 2)) % 2 == 0;
    }
}

static figure choose_figure(uint64_t *state)
{
    figure f;
    f.kind = (int)(draw(state) * KINDS);
    f.size = 7 + 6 * draw(state);
    f.x = f.size + (SIDE - 2 * f.size) * draw(state);
    f.y = f.size + (SIDE - 2 * f.size) * draw(state);
    for (int c = 0; c < CHANNELS; c++) {
        f.back[c] = 200 * draw(state);
        f.slope[c] = 80 * (draw(state) - 0.5F);
        f.fore[c] = f.back[c] + (f.back[c] < 100 ? 40 : -40) + 60 * (draw(state) - 0.5F);
    }
    return f;
}

static void draw_picture(const figure *f, uint64_t *state, uint8_t *pixels)
{
    for (int i = 0; i < PLANE; i++) {
        const float x = (float)(i % SIDE) + 0.5F, y = (float)(i / SIDE) + 0.5F;
        const bool inside = is_inside(f->kind, (x - f->x) / f->size, (y - f->y) / f->size);
        for (int c = 0; c < CHANNELS; c++) {
            const float ground = f->back[c] + f->slope[c] * (x + y) / (2 * SIDE);
            const float value = (inside ? f->fore[c] : ground) + 30 * (draw(state) - 0.5F);
            pixels[c * PLANE + i] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
        }
    }
}

tern_dataset *example_pictures(int64_t count, uint64_t seed)
{
    TERN_SCOPE;
    tern_tensor *x =
        tern_empty(TERN_SHAPE(count, CHANNELS, SIDE, SIDE), .dtype = TERN_U8, .device = TERN_CPU);
    tern_tensor *y = tern_empty(TERN_SHAPE(count), .dtype = TERN_U8, .device = TERN_CPU);
    uint8_t *pixels = x && y ? tern_data(x) : NULL;
    uint8_t *labels = pixels ? tern_data(y) : NULL;
    for (int64_t i = 0; labels && i < count; i++) {
        uint64_t state = seed << 32 | (uint64_t)i;
        const figure f = choose_figure(&state);
        draw_picture(&f, &state, pixels + i * CHANNELS * PLANE);
        labels[i] = (uint8_t)f.kind;
    }
    return tern_dataset_normalize(tern_dataset_from_tensors(x, y), .mean = { 0.4, 0.4, 0.4 },
                                  .deviation = { 0.25, 0.25, 0.25 });
}
