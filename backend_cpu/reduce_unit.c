/* One part of a reduction: a chunk of the reduced elements of a few neighbouring outputs. */
#include <math.h>

#include "backend_cpu/reduce_plan.h"
#include "backend_cpu/strided.h"

/* ---- units ----------------------------------------------------------------------------------- */

typedef struct piece {
    const void *x;
    int64_t n, stride; /* columns: n rows, `stride` bytes apart */
    int64_t at;        /* reduced index of the first */
} piece;

/* What elements of each column are compared with, and by how much they exceed it in all. */
typedef struct middle {
    double about[CPU_BLOCK], away[CPU_BLOCK];
} middle;

typedef void (*piece_fn)(const reduce_plan *p, const piece *x, int64_t columns, reduce_cells c,
                         middle *mid);

static void sum_piece(const reduce_plan *p, const piece *x, int64_t columns, reduce_cells c,
                      middle *mid)
{
    (void)mid;
    if (p->columns)
        p->loops->sum_rows(c.first, x->x, columns, x->n, x->stride);
    else
        p->loops->sum(c.first, x->x, x->n, 1, 0);
}

static void spread_piece(const reduce_plan *p, const piece *x, int64_t columns, reduce_cells c,
                         middle *mid)
{
    if (p->columns) {
        p->loops->spread_rows(&c.second->f64, mid->away, x->x, columns, x->n, x->stride,
                              mid->about);
        return;
    }
    cpu_spread sum = { c.second->f64, mid->away[0] };
    p->loops->spread(&sum, x->x, x->n, mid->about[0]);
    c.second->f64 = sum.squares;
    mid->away[0] = sum.away;
}

static void prod_piece(const reduce_plan *p, const piece *x, int64_t columns, reduce_cells c,
                       middle *mid)
{
    (void)mid;
    if (p->columns)
        p->loops->prod_rows(c.first, x->x, columns, x->n, x->stride);
    else
        p->loops->prod(c.first, x->x, x->n, 1, 0);
}

static void squares_piece(const reduce_plan *p, const piece *x, int64_t columns, reduce_cells c,
                          middle *mid)
{
    static const double zeros[CPU_BLOCK];
    double *sums = (double *)(void *)c.first;
    (void)mid;
    if (p->columns)
        p->loops->spread_rows(sums, NULL, x->x, columns, x->n, x->stride, zeros);
    else
        p->loops->squares(sums, x->x, x->n, 1, 0);
}

/* One value of T. */
static inline void copy_value(const reduce_plan *p, void *to, const void *from)
{
    memcpy(to, from, p->type_size == 4 ? 4 : 8);
}

static void extreme_piece(const reduce_plan *p, const piece *x, int64_t columns, reduce_cells c,
                          middle *mid)
{
    (void)mid;
    if (c.second->i64 < 0)
        memcpy(c.first, x->x, (size_t)(columns * p->type_size));
    c.second->i64 = 0;
    if (p->columns)
        p->extreme->best_rows(c.first, x->x, columns, x->n, x->stride);
    else
        p->extreme->best(c.first, x->x, x->n, 1, 0);
}

static void place_piece(const reduce_plan *p, const piece *x, int64_t columns, reduce_cells c,
                        middle *mid)
{
    (void)mid;
    if (c.second->i64 < 0) {
        memcpy(c.first, x->x, (size_t)(columns * p->type_size));
        for (int64_t i = 0; i < columns; i++)
            c.second[i].i64 = x->at;
    }
    if (p->columns) {
        p->extreme->place_rows(c.first, &c.second->i64, x->x, columns, x->n, x->stride, x->at);
        return;
    }
    reduce_number most;
    copy_value(p, &most, c.first);
    p->extreme->best(&most, x->x, x->n, 1, 0);
    if (x->at > 0 && p->loops->find(&most, c.first, 1) == 0)
        return; /* the one before is as great, and earlier */
    copy_value(p, c.first, &most);
    c.second->i64 = x->at + p->loops->find(&most, x->x, x->n);
}

/* Buffers of one thread for elements that must be packed or widened. */
typedef struct buffers {
    _Alignas(64) char packed[CPU_BLOCK * 8];
    _Alignas(64) char wide[4 * CPU_BLOCK * 8];
} buffers;

/* Takes the next elements of a chunk, `left` of them, as they lie or by way of the buffers. */
static piece next_rows(const reduce_plan *p, const cpu_cursor *at, int64_t left, buffers *b)
{
    const int64_t row = p->reduced.shape[0] - at->at[0];
    piece x = { at->data[0], row < left ? row : left, p->size, 0 };
    if (p->reduced.stride[0][0] != p->size && x.n > 1) {
        x.n = left < CPU_BLOCK ? left : CPU_BLOCK;
        x.x = cpu_pack(at, 0, p->size, x.n, b->packed);
    }
    if (p->widen) {
        x.n = x.n < CPU_BLOCK ? x.n : CPU_BLOCK;
        p->widen(b->wide, x.x, x.n);
        if (p->map)
            p->map(b->wide, x.n, p->power);
        x.x = b->wide;
    }
    return x;
}

static piece next_columns(const reduce_plan *p, const cpu_cursor *at, int64_t left, int64_t columns,
                          buffers *b)
{
    const int64_t row = p->reduced.shape[0] - at->at[0];
    piece x = { at->data[0], row < left ? row : left, p->reduced.stride[0][0], 0 };
    if (p->widen) {
        x.n = x.n < 4 ? x.n : 4;
        for (int64_t r = 0; r < x.n; r++) {
            char *wide = b->wide + r * CPU_BLOCK * p->type_size;
            p->widen(wide, at->data[0] + r * x.stride, columns);
            if (p->map)
                p->map(wide, columns, p->power);
        }
        x.x = b->wide;
        x.stride = CPU_BLOCK * p->type_size;
    }
    return x;
}

/* Reduced elements begin .. end of outputs whose first input element is `offset` bytes in. */
static void run_span(const reduce_plan *p, piece_fn run, int64_t offset, int64_t columns,
                     int64_t begin, int64_t end, reduce_cells c, middle *mid)
{
    if (p->plain_rows) {
        const char *x = p->reduced.data[0] + offset + begin * p->size;
        const piece all = { x, end - begin, p->size, begin };
        if (begin < end)
            run(p, &all, 1, c, mid);
        return;
    }
    buffers b;
    cpu_cursor at;
    cpu_cursor_init(&at, &p->reduced, begin);
    at.data[0] += offset;
    while (begin < end) {
        piece x = p->columns ? next_columns(p, &at, end - begin, columns, &b)
                             : next_rows(p, &at, end - begin, &b);
        x.at = begin;
        run(p, &x, columns, c, mid);
        cpu_cursor_advance(&at, x.n);
        begin += x.n;
    }
}

/* From the sums to the sums of squares about the means. Sums of T are rounded, so that their means are
 * off: by how much, the sum of what elements exceed them by says. Sums of f32 that overflowed are no help.
 * Where an element is infinite there is no distance from the mean, and so no spread. */
static void run_spread(const reduce_plan *p, int64_t offset, int64_t columns, int64_t begin,
                       int64_t end, reduce_cells c)
{
    middle mid;
    double *sums = (double *)(void *)c.first;
    const double n = (double)(end - begin);
    for (int64_t i = 0; i < columns; i++) {
        const double mean = p->type_size == 4 ? (double)(float)(sums[i] / n) : sums[i] / n;
        mid.about[i] = p->type_size != 4 || isfinite(mean) ? mean : 0;
        mid.away[i] = 0;
    }
    run_span(p, spread_piece, offset, columns, begin, end, c, &mid);
    for (int64_t i = 0; i < columns; i++) {
        const double left = c.second[i].f64 - mid.away[i] * mid.away[i] / n;
        if (p->type_size == 4 && !isfinite(mid.away[i]))
            c.second[i].f64 = (double)NAN;
        else if (isfinite(c.second[i].f64))
            c.second[i].f64 = left < 0 ? 0 : left; /* by rounding */
        sums[i] = mid.about[i] * n + mid.away[i];
    }
}

/* Outputs that are reduced together, all of one block or a single one. */
static void run_together(const reduce_plan *p, int64_t offset, int64_t columns, int64_t begin,
                         int64_t end, reduce_cells c)
{
    if (reduce_is_extreme(p)) {
        c.second->i64 = -1; /* nothing seen */
        run_span(p, p->kind == KIND_PLACE ? place_piece : extreme_piece, offset, columns, begin,
                 end, c, NULL);
        return;
    }
    const piece_fn run = p->kind == KIND_PROD      ? prod_piece
                         : p->kind == KIND_SQUARES ? squares_piece
                                                   : sum_piece;
    run_span(p, run, offset, columns, begin, end, c, NULL);
}

static inline reduce_cells cells_from(const reduce_plan *p, reduce_cells c, int64_t i)
{
    return (reduce_cells){ c.first + i * p->first_size, c.second + i };
}

/* All of rows of n elements, `stride` bytes apart, in the loops' type. */
static void run_lines(const reduce_plan *p, const char *x, int64_t n, int64_t rows, int64_t stride,
                      reduce_cells c)
{
    if (!reduce_is_extreme(p)) {
        if (p->kind == KIND_SQUARES)
            p->loops->squares((double *)(void *)c.first, x, n, rows, stride);
        else
            (p->kind == KIND_PROD ? p->loops->prod : p->loops->sum)(c.first, x, n, rows, stride);
        return;
    }
    for (int64_t i = 0; i < rows; i++)
        copy_value(p, c.first + i * p->type_size, x + i * stride);
    p->extreme->best(c.first, x, n, rows, stride);
    for (int64_t i = 0; i < rows && p->kind == KIND_PLACE; i++)
        c.second[i].i64 = p->loops->find(c.first + i * p->type_size, x + i * stride, n);
}

/* Outputs whose elements lie in rows are taken by the loops all at once, short rows without gaps that have to be
 * widened some at a time; else false. */
static bool run_rows(const reduce_plan *p, int64_t offset, int64_t rows, reduce_cells c)
{
    const int64_t n = p->reduced_count, stride = p->kept.stride[0][0];
    const char *x = p->reduced.data[0] + offset;
    if (n == 0 || p->chunks > 1 || !p->whole_rows)
        return false;
    if (!p->widen) {
        run_lines(p, x, n, rows, stride, c);
        return true;
    }
    if (n > CPU_BLOCK || stride != n * p->size)
        return false;
    _Alignas(64) char wide[CPU_BLOCK * 8];
    for (int64_t done = 0; done < rows;) {
        const int64_t fit = CPU_BLOCK / n, left = rows - done, count = fit < left ? fit : left;
        p->widen(wide, x + done * stride, count * n);
        if (p->map)
            p->map(wide, count * n, p->power);
        run_lines(p, wide, n, count, n * p->type_size, cells_from(p, c, done));
        done += count;
    }
    return true;
}

void cpu_reduce_unit(const reduce_plan *p, int64_t offset, int64_t columns, int64_t chunk,
                     reduce_cells c)
{
    const int64_t begin = chunk * p->chunk;
    const int64_t end = begin + p->chunk < p->reduced_count ? begin + p->chunk : p->reduced_count;
    reduce_number *first = (reduce_number *)(void *)c.first;
    memset(c.first, 0, (size_t)columns * sizeof(reduce_number));
    for (int64_t i = 0; p->kind == KIND_PROD && i < columns; i++)
        first[i] = p->acc == TERN_I64 ? (reduce_number){ .i64 = 1 } : (reduce_number){ .f64 = 1 };
    memset(c.second, 0, (size_t)columns * sizeof(reduce_number));
    /* Rows of a block lie in the first-level cache while the second pass of var runs; a row at a time would
     * leave it waiting for the last additions of each. */
    const int64_t rows = p->columns ? 1 : columns, together = p->columns ? columns : 1;
    const int64_t row = p->kept.stride[0][0];
    const bool done = rows > 1 && run_rows(p, offset, rows, c);
    for (int64_t i = 0; i < rows && !done; i++)
        run_together(p, offset + i * row, together, begin, end, cells_from(p, c, i));
    for (int64_t i = 0; p->kind == KIND_VAR && i < rows; i++)
        run_spread(p, offset + i * row, together, begin, end, cells_from(p, c, i));
}

/* ---- combining and storing ------------------------------------------------------------------- */

/* Numbers of the two parts that stand before and in a chunk. Chan, Golub, LeVeque 1979. */
static void combine_spread(const reduce_plan *p, reduce_cells total, reduce_cells part,
                           int64_t columns, int64_t chunk)
{
    double *sums = (double *)(void *)total.first;
    const double *more = (const double *)(const void *)part.first;
    const double before = (double)(chunk * p->chunk);
    const int64_t rest = p->reduced_count - chunk * p->chunk;
    const double count = (double)(rest < p->chunk ? rest : p->chunk);
    for (int64_t i = 0; i < columns; i++) {
        const double apart = more[i] / count - sums[i] / before;
        total.second[i].f64 +=
            part.second[i].f64 + apart * apart * (before * count / (before + count));
        sums[i] += more[i];
    }
}

static void combine_products(const reduce_plan *p, reduce_number *products,
                             const reduce_number *more, int64_t columns)
{
    for (int64_t i = 0; i < columns; i++) {
        if (p->acc == TERN_I64)
            products[i].i64 = (int64_t)((uint64_t)products[i].i64 * (uint64_t)more[i].i64);
        else
            products[i].f64 *= more[i].f64;
    }
}

void cpu_reduce_combine(const reduce_plan *p, reduce_cells total, reduce_cells part,
                        int64_t columns, int64_t chunk)
{
    reduce_number *sums = (reduce_number *)(void *)total.first;
    const reduce_number *more = (const reduce_number *)(const void *)part.first;
    if (p->kind == KIND_VAR) {
        combine_spread(p, total, part, columns, chunk);
    } else if (p->kind == KIND_EXTREME) {
        p->extreme->best_rows(total.first, part.first, columns, 1, 0);
    } else if (p->kind == KIND_PLACE) {
        for (int64_t i = 0; i < columns; i++)
            p->extreme->place_rows(total.first + i * p->type_size, &total.second[i].i64,
                                   part.first + i * p->type_size, 1, 1, 0, part.second[i].i64);
    } else if (p->kind == KIND_PROD) {
        combine_products(p, sums, more, columns);
    } else if (p->acc == TERN_I64) {
        for (int64_t i = 0; i < columns; i++)
            sums[i].i64 = (int64_t)((uint64_t)sums[i].i64 + (uint64_t)more[i].i64);
    } else {
        for (int64_t i = 0; i < columns; i++)
            sums[i].f64 += more[i].f64;
    }
}

static void store(char *out, int64_t stride, int dtype, const void *values, int from,
                  int64_t columns)
{
    const int64_t size = cpu_dtype_size(dtype);
    _Alignas(64) char converted[CPU_BLOCK * 8];
    if (stride == size || columns == 1) {
        cpu_converter(dtype, from)(out, values, columns);
        return;
    }
    cpu_converter(dtype, from)(converted, values, columns);
    for (int64_t i = 0; i < columns; i++)
        memcpy(out + i * stride, converted + i * size, (size_t)size);
}

/* Means, variances, roots: sums are f64 here. */
static void finish_sums(const reduce_plan *p, int64_t columns, reduce_cells c)
{
    const double n = (double)p->reduced_count;
    const double freedom = n - p->correction > 0 ? n - p->correction : 0;
    double *sums = (double *)(void *)c.first;
    for (int64_t i = 0; i < columns; i++) {
        if (p->kind == KIND_MEAN)
            sums[i] /= n;
        else if (p->kind == KIND_VAR)
            sums[i] = c.second[i].f64 / freedom;
        if (p->root == 2)
            sums[i] = sqrt(sums[i]);
        else if (p->root != 0)
            sums[i] = pow(sums[i], 1 / p->root);
    }
}

void cpu_reduce_finish(const reduce_plan *p, char *const *out, int64_t columns, reduce_cells c)
{
    const bool extreme = reduce_is_extreme(p);
    const int place = p->has_value ? 1 : 0;
    if (!extreme && p->acc == TERN_F64)
        finish_sums(p, columns, c);
    if (p->has_value)
        store(out[0], p->kept.stride[1][0], p->out_dtype[0], c.first, extreme ? p->type : p->acc,
              columns);
    if (p->has_place)
        store(out[place], p->kept.stride[1 + place][0], p->out_dtype[place], c.second, TERN_I64,
              columns);
}
