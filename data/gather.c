/* Rows of a batch out of stored samples: copied, widened, or normalised in one pass from u8 to f32.
 * Multiplication and addition round separately on every machine, so that a run repeats anywhere. */
#include <string.h>

#include "data/dataset.h"

/* gcc vectorises a loop of unknown length only from -O3 on. */
#if defined(__GNUC__) && !defined(__clang__)
#define VECTORIZED __attribute__((optimize("O3")))
#else
#define VECTORIZED
#endif

typedef void (*normalize_fn)(const uint8_t *in, float *out, int64_t count, float scale,
                             float offset);

VECTORIZED static void normalize_portable(const uint8_t *restrict in, float *restrict out,
                                          int64_t count, float scale, float offset)
{
    for (int64_t i = 0; i < count; i++) {
        out[i] = (float)in[i] * scale + offset;
    }
}

#if defined(__x86_64__)
VECTORIZED __attribute__((target("avx2"))) static void normalize_avx2(const uint8_t *restrict in,
                                                                      float *restrict out,
                                                                      int64_t count, float scale,
                                                                      float offset)
{
    for (int64_t i = 0; i < count; i++) {
        out[i] = (float)in[i] * scale + offset;
    }
}

static normalize_fn normalize_choose(void)
{
    return __builtin_cpu_supports("avx2") ? normalize_avx2 : normalize_portable;
}
#else
static normalize_fn normalize_choose(void)
{
    return normalize_portable;
}
#endif

static void normalize_row(const tern_dataset *dataset, normalize_fn normalize, const uint8_t *in,
                          float *out)
{
    int64_t numel = dataset->channel_numel;
    for (int64_t c = 0; c < dataset->channels; c++) {
        normalize(in + c * numel, out + c * numel, numel, dataset->scale[c], dataset->offset[c]);
    }
}

/* The same of an image that is moved, line by line. */
static void normalize_moved(const tern_dataset *dataset, normalize_fn normalize,
                            const data_move *move, const uint8_t *in, float *out)
{
    uint8_t line[AUGMENT_WIDTH_MAX];
    const int64_t height = dataset->x.shape.dims[1], width = dataset->x.shape.dims[2];
    for (int64_t c = 0; c < dataset->channels; c++, in += dataset->channel_numel) {
        for (int64_t y = 0; y < height; y++, out += width) {
            data_augment_line(move, in, height, width, y, line);
            normalize(line, out, width, dataset->scale[c], dataset->offset[c]);
        }
    }
}

static int64_t widen(const uint8_t *in, tern_dtype_t stored)
{
    int16_t i16;
    int32_t i32;
    int64_t i64;
    switch (stored) {
    case TERN_U8:
        return *in;
    case TERN_I8:
        return (int8_t)*in;
    case TERN_I16:
        memcpy(&i16, in, sizeof i16);
        return i16;
    case TERN_I32:
        memcpy(&i32, in, sizeof i32);
        return i32;
    default:
        memcpy(&i64, in, sizeof i64);
        return i64;
    }
}

/* Shuffled rows lie anywhere, so the row after the next is asked for while this one is read. */
static void prefetch_row(const uint8_t *row, int64_t bytes)
{
    enum { LINE_BYTES = 64, AHEAD_BYTES = 1024 };
    for (int64_t at = 0; at < bytes && at < AHEAD_BYTES; at += LINE_BYTES) {
        __builtin_prefetch(row + at);
    }
}

static void gather_part(const tern_dataset *dataset, const data_part *part, const int64_t *order,
                        int64_t first, int64_t count, const data_augment *augment, uint8_t *out)
{
    normalize_fn normalize = normalize_choose();
    for (int64_t i = 0; i < count; i++, out += part->row_bytes) {
        const uint8_t *in = part->bytes + (order ? order[i] : first + i) * part->stored_bytes;
        if (order && i + 2 < count) {
            prefetch_row(part->bytes + order[i + 2] * part->stored_bytes, part->stored_bytes);
        }
        if (part->conversion == DATA_NORMALIZE && augment) {
            const data_move move = data_augment_draw(augment, order ? order[i] : first + i);
            normalize_moved(dataset, normalize, &move, in, (float *)(void *)out);
        } else if (part->conversion == DATA_NORMALIZE) {
            normalize_row(dataset, normalize, in, (float *)(void *)out);
        } else if (part->conversion == DATA_WIDEN) {
            int64_t value = widen(in, part->stored);
            memcpy(out, &value, sizeof value);
        } else if (part->row_bytes > 0) {
            memcpy(out, in, (size_t)part->row_bytes);
        }
    }
}

/* A callback's bools are 0 or not 0 (a mask of 255s), those of tensors 0 or 1. */
static void clean_bools(const data_part *part, uint8_t *row)
{
    for (int64_t i = 0; part->dtype == TERN_BOOL && i < part->numel; i++) {
        row[i] = row[i] != 0;
    }
}

static int64_t gather_callback(const tern_dataset *dataset, const int64_t *order, int64_t first,
                               int64_t count, uint8_t *x, uint8_t *y)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t sample = order ? order[i] : first + i;
        uint8_t *x_row = x + i * dataset->x.row_bytes;
        uint8_t *y_row = dataset->has_y ? y + i * dataset->y.row_bytes : NULL;
        if (!dataset->fetch(dataset->user, sample, x_row, y_row)) {
            return sample;
        }
        clean_bools(&dataset->x, x_row);
        if (y_row) {
            clean_bools(&dataset->y, y_row);
        }
    }
    return -1;
}

int64_t data_gather(const tern_dataset *dataset, const int64_t *order, int64_t first, int64_t count,
                    const data_augment *augment, void *x, void *y)
{
    if (dataset->fetch) {
        return gather_callback(dataset, order, first, count, x, y);
    }
    gather_part(dataset, &dataset->x, order, first, count, augment, x);
    if (dataset->has_y) {
        gather_part(dataset, &dataset->y, order, first, count, NULL, y);
    }
    return -1;
}
