/* What the tiles of isa/conv2d.c and isa/conv2d_sum.c share. */
#ifndef TERN_BACKEND_CPU_ISA_CONV2D_TILE_H
#define TERN_BACKEND_CPU_ISA_CONV2D_TILE_H

#include "backend_cpu/isa/tile.h"

enum {
    LANES = TILE_F32_LANES,
    LONGEST_RUN = 5 /* of taps side by side that have a tile of their own */
};

/* X(1, v) X(2, v) ...: one function for each size of tile. */
#define UP_TO_2(X, v) X(1, v) X(2, v)
#define UP_TO_3(X, v) UP_TO_2(X, v) X(3, v)
#define UP_TO_4(X, v) UP_TO_3(X, v) X(4, v)
#define UP_TO_5(X, v) UP_TO_4(X, v) X(5, v)
#define UP_TO_6(X, v) UP_TO_5(X, v) X(6, v)
#define UP_TO_8(X, v) UP_TO_6(X, v) X(7, v) X(8, v)
#define UP_TO_10(X, v) UP_TO_8(X, v) X(9, v) X(10, v)
#define UP_TO_12(X, v) UP_TO_10(X, v) X(11, v) X(12, v)
#define UP_TO_14(X, v) UP_TO_12(X, v) X(13, v) X(14, v)

TILE_INLINE int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#endif
