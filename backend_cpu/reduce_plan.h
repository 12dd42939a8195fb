/* How a reduction is cut up (reduce.c) and what is done with one part (reduce_unit.c). */
#ifndef TERN_BACKEND_CPU_REDUCE_PLAN_H
#define TERN_BACKEND_CPU_REDUCE_PLAN_H

#include "backend_cpu/reduce.h"

typedef enum reduce_kind {
    KIND_SUM,
    KIND_MEAN,
    KIND_VAR,
    KIND_PROD,
    KIND_SQUARES, /* their sum */
    KIND_EXTREME, /* the greatest or least */
    KIND_PLACE    /* and where it is */
} reduce_kind;

typedef union reduce_number {
    double f64;
    int64_t i64;
    float f32; /* extreme of f32 */
} reduce_number;

typedef struct reduce_plan {
    reduce_kind kind;
    const cpu_reduce_loops *loops;
    const cpu_extreme_loops *extreme;
    bool least;     /* the least, not the greatest */
    cpu_map_fn map; /* of elements before they are reduced, or NULL */
    double power;   /* for it */
    double root;    /* results are taken to 1 / root; 0: as they are */
    int type;       /* dtype that the loops see: TERN_F32, TERN_F64, TERN_I64 */
    int acc;        /* dtype of sums */
    int64_t type_size;
    cpu_convert_fn widen; /* NULL: as they lie */
    int64_t size;         /* of an input element */
    cpu_walk kept;        /* 0: input, 1: out[0], 2: out[1] or out[0] */
    cpu_walk reduced;     /* 0: input */
    int64_t kept_count, reduced_count;
    bool columns;
    bool whole_rows;                       /* each output's elements lie without gaps */
    bool plain_rows;                       /* in the loops' type, too */
    int64_t first_size;                    /* bytes per output of cells.first */
    int64_t block, blocks_per_row, blocks; /* outputs per block; blocks along kept dim 0; in all */
    int64_t chunk, chunks;                 /* reduced elements per chunk; chunks */
    char *cells;                           /* scratch: chunks > 1 */
    double correction;
    int out_dtype[2];
    bool has_value, has_place;
} reduce_plan;

static inline bool reduce_is_extreme(const reduce_plan *p)
{
    return p->kind == KIND_EXTREME || p->kind == KIND_PLACE;
}

/* What a unit leaves for each output of its block: a sum, a product or the extreme so far (an array of
 * the accumulator's type, or of T), and squares or places. */
typedef struct reduce_cells {
    char *first;
    reduce_number *second;
} reduce_cells;

static inline reduce_cells reduce_cells_at(char *memory, int64_t index, int64_t block)
{
    reduce_number *first = (reduce_number *)(void *)memory + index * 2 * block;
    return (reduce_cells){ (char *)first, first + block };
}

/* Reduces chunk `chunk` of `columns` neighbouring outputs, the input of the first of which starts
 * `offset` bytes in. */
void cpu_reduce_unit(const reduce_plan *p, int64_t offset, int64_t columns, int64_t chunk,
                     reduce_cells c);
/* Adds chunk `chunk` to all before it. */
void cpu_reduce_combine(const reduce_plan *p, reduce_cells total, reduce_cells part,
                        int64_t columns, int64_t chunk);
/* Turns what all chunks left into results, in place, and stores them from out[0] (out[1]) on. */
void cpu_reduce_finish(const reduce_plan *p, char *const *out, int64_t columns, reduce_cells c);

#endif
