/* Images that a loader moves and mirrors while it gathers them. */
#ifndef DATA_AUGMENT_H
#define DATA_AUGMENT_H

#include <stdbool.h>
#include <stdint.h>

enum { AUGMENT_WIDTH_MAX = 4096 };

typedef struct data_augment {
    int64_t crop; /* pixels that an image moves at most, each way */
    bool flip;
    uint64_t seed, call; /* key of the draws */
} data_augment;

/* What happens to one sample. */
typedef struct data_move {
    int64_t down, right; /* -crop .. crop */
    bool flip;
} data_move;

/* Depends on the key and the sample's number alone. */
data_move data_augment_draw(const data_augment *augment, int64_t sample);

/* Line `y` of a plane [height, width] after the move; what comes in from outside is 0. */
void data_augment_line(const data_move *move, const uint8_t *plane, int64_t height, int64_t width,
                       int64_t y, uint8_t *line);

#endif
