/* Which cells of x a result of resample2d is made of, along one dimension, and how much each counts: what
 * both backends compute alike. RESAMPLE_FN comes before a function; a backend sets it. */
#ifndef TERN_BACKEND_CPU_RESAMPLE_H
#define TERN_BACKEND_CPU_RESAMPLE_H

#include <math.h>
#include <stdint.h>

#include "tern/op_attr.h"

#ifndef RESAMPLE_FN
#define RESAMPLE_FN static inline
#endif

/* One dimension: `in` cells become `out`; step as in the attributes; narrow: places are computed in f32,
 * as for f32 and half types; strict: a step that was given always counts. */
typedef struct resample_axis {
    int32_t in, out;
    double step;
    int mode, align_corners, narrow, strict;
} resample_axis;

/* Cells begin .. end - 1. Linear: the last one counts `second`, the first one the rest to 1; otherwise
 * all count alike. */
typedef struct resample_cells {
    int32_t begin, end;
    double second;
} resample_cells;

RESAMPLE_FN double resample_step(const resample_axis *a)
{
    if (a->align_corners)
        return a->out > 1 ? (double)(a->in - 1) / (a->out - 1) : 0;
    return a->step > 0 ? a->step : (double)a->in / a->out;
}

/* floor((i + shift) step), at most the last cell. */
RESAMPLE_FN int32_t resample_scaled(const resample_axis *a, int32_t i, float shift)
{
    const float place = ((float)i + shift) * (float)resample_step(a);
    const int32_t cell = place < (float)a->in ? (int32_t)place : a->in - 1;
    return cell < a->in - 1 ? cell : a->in - 1;
}

/* As in PyTorch a step that was given does not count where "nearest" gives as many results as there are
 * cells, or twice as many, unless it is strict. Without a step the shortcuts are what it would compute. */
RESAMPLE_FN int32_t resample_nearest(const resample_axis *a, int32_t i)
{
    if (a->mode == TERN_RESAMPLE_NEAREST_EXACT)
        return resample_scaled(a, i, 0.5F);
    if (a->strict && a->step > 0)
        return resample_scaled(a, i, 0);
    if (a->in == a->out)
        return i;
    return a->out == 2 * (int64_t)a->in ? i / 2 : resample_scaled(a, i, 0);
}

RESAMPLE_FN resample_cells resample_linear(const resample_axis *a, int32_t i)
{
    const double step = resample_step(a), shift = a->align_corners ? 0 : 0.5;
    const float narrow_place = (float)step * ((float)i + (float)shift) - (float)shift;
    double place = a->narrow ? (double)narrow_place : step * (i + shift) - shift;
    resample_cells cells;
    const bool stays = a->in == a->out; /* neither a given step nor the next cell counts */
    if (stays)
        place = i;
    if (place < 0)
        place = 0;
    cells.begin = place < a->in ? (int32_t)place : a->in - 1;
    const bool two = !stays && cells.begin + 1 < a->in;
    cells.end = cells.begin + 1 + two;
    cells.second = two ? place - cells.begin : 1;
    return cells;
}

/* What result i is made of. */
RESAMPLE_FN resample_cells resample_at(const resample_axis *a, int32_t i)
{
    resample_cells cells;
    if (a->mode == TERN_RESAMPLE_LINEAR)
        return resample_linear(a, i);
    cells.second = 1;
    if (a->mode == TERN_RESAMPLE_AVERAGE) {
        cells.begin = (int32_t)((int64_t)i * a->in / a->out);
        cells.end = (int32_t)(((int64_t)(i + 1) * a->in + a->out - 1) / a->out);
        cells.second = 1.0 / (cells.end - cells.begin);
        return cells;
    }
    cells.begin = resample_nearest(a, i);
    cells.end = cells.begin + 1;
    return cells;
}

RESAMPLE_FN double resample_weight(const resample_axis *a, const resample_cells *cells,
                                   int32_t cell)
{
    if (a->mode == TERN_RESAMPLE_LINEAR && cell == cells->begin && cells->end - cells->begin == 2)
        return 1 - cells->second;
    return cells->second;
}

/* The first result whose cells end behind `cell`; a->out where there is none. Ends never fall. */
RESAMPLE_FN int32_t resample_first(const resample_axis *a, int32_t cell)
{
    const double step = resample_step(a);
    const double guess = step > 0 ? (double)cell / step : 0;
    int32_t i = guess < a->out - 1 ? (int32_t)guess : a->out - 1;
    while (i > 0 && resample_at(a, i - 1).end > cell)
        i--;
    while (i < a->out && resample_at(a, i).end <= cell)
        i++;
    return i;
}

#endif
