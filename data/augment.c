#include "data/augment.h"

#include <string.h>

#include "tern/tensor.h"

/* Draws of the order count up from 0 under the same key; these have the highest bit. */
static const uint64_t first_draw = UINT64_C(1) << 63;

static int64_t below(uint32_t draw, int64_t bound)
{
    return (int64_t)((uint64_t)draw * (uint64_t)bound >> 32);
}

data_move data_augment_draw(const data_augment *augment, int64_t sample)
{
    uint32_t bits[4];
    tern_philox(augment->seed, augment->call, first_draw | (uint64_t)sample, bits);
    const int64_t places = 2 * augment->crop + 1;
    return (data_move){ .down = below(bits[0], places) - augment->crop,
                        .right = below(bits[1], places) - augment->crop,
                        .flip = augment->flip && bits[2] >> 31 };
}

static void reverse(uint8_t *line, int64_t width)
{
    for (int64_t i = 0, j = width - 1; i < j; i++, j--) {
        const uint8_t kept = line[i];
        line[i] = line[j];
        line[j] = kept;
    }
}

void data_augment_line(const data_move *move, const uint8_t *plane, int64_t height, int64_t width,
                       int64_t y, uint8_t *line)
{
    const int64_t from = y - move->down;
    const int64_t gap = move->right < 0 ? -move->right : move->right;
    memset(line, 0, (size_t)width);
    if (from < 0 || from >= height || gap >= width) {
        return;
    }
    const uint8_t *in = plane + from * width;
    if (move->right >= 0) {
        memcpy(line + gap, in, (size_t)(width - gap));
    } else {
        memcpy(line, in + gap, (size_t)(width - gap));
    }
    if (move->flip) {
        reverse(line, width);
    }
}
