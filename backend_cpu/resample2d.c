/* resample2d: results are weighted sums of neighbouring cells. The cells and weights of both dimensions
 * are tables made at each call, transposed ones for gradients; half types become f32 some rows at a time.
 * Bytes are rounded to bytes after each dimension. */
#include "backend_cpu/cpu.h"
#include "backend_cpu/kernels.h"
#include "backend_cpu/resample.h"

/* Result i along a dimension: `count` cells from `first`, with weights from `at`. */
typedef struct span {
    int32_t first, count;
    int64_t at;
} span;

typedef struct axis_table {
    span *spans;
    double *weights;
    int32_t *fixed; /* bytes: the weights times 2^bits, rounded */
    int bits;
} axis_table;

typedef struct resample_job {
    axis_table rows, columns;
    const void *pairs; /* of the columns, where no result has more than two cells; else NULL */
    const void *x;
    void *y;
    int64_t channels; /* channels_last; else 1, and units are planes */
    int64_t in[2], out[2];
    int64_t units; /* rows of results, image after image (or plane after plane) */
    /* half types: */
    int dtype;
    int64_t images;
    int64_t kept, made; /* rows of x and of results that a part has in f32, at most */
    int64_t at_once;    /* whole images; 0: rows */
    int64_t parts, part_floats;
    float *room;
} resample_job;

/* ---- tables ---------------------------------------------------------------------------------- */

static void fill_forward(const resample_axis *a, axis_table *t)
{
    int64_t used = 0;
    for (int32_t i = 0; i < a->out; i++) {
        const resample_cells cells = resample_at(a, i);
        t->spans[i] = (span){ cells.begin, cells.end - cells.begin, used };
        for (int32_t cell = cells.begin; cell < cells.end; cell++)
            t->weights[used++] = resample_weight(a, &cells, cell);
    }
}

/* Of each cell the results that it is part of. */
static void fill_transposed(const resample_axis *a, axis_table *t)
{
    int64_t used = 0;
    int32_t first = 0;
    for (int32_t cell = 0; cell < a->in; cell++) {
        while (first < a->out && resample_at(a, first).end <= cell)
            first++;
        t->spans[cell] = (span){ first < a->out ? first : 0, 0, used };
        for (int32_t i = first; i < a->out; i++) {
            const resample_cells cells = resample_at(a, i);
            if (cells.begin > cell)
                break;
            t->weights[used++] = resample_weight(a, &cells, cell);
            t->spans[cell].count++;
        }
    }
}

/* x has `from` cells, the result `to`. Both tables hold each pair of a cell and a result once: at most
 * two for a result that is interpolated, and windows share at most a cell with the next. */
static bool make_table(const tern_call *call, axis_table *t, int d, int64_t from, int64_t to)
{
    const tern_attr_resample *attr = call->attr;
    const bool transposed = attr->transposed != 0;
    const resample_axis a = { .in = (int32_t)(transposed ? to : from),
                              .out = (int32_t)(transposed ? from : to),
                              .step = attr->step[d],
                              .mode = attr->mode,
                              .align_corners = attr->align_corners,
                              .narrow =
                                  call->in[0]->dtype != TERN_F64 && call->in[0]->dtype != TERN_U8,
                              .strict = attr->strict };
    const int64_t pairs = from + to + (from > to ? from : to);
    t->spans = call->host->scratch(call, to * (int64_t)sizeof *t->spans);
    t->weights = call->host->scratch(call, pairs * (int64_t)sizeof *t->weights);
    if (t->spans == NULL || t->weights == NULL)
        return false;
    if (transposed)
        fill_transposed(&a, t);
    else
        fill_forward(&a, t);
    return true;
}

static bool has_pairs(const axis_table *t, int64_t to)
{
    int32_t most = 0;
    for (int64_t i = 0; i < to; i++)
        most = t->spans[i].count > most ? t->spans[i].count : most;
    return most <= 2;
}

/* ---- loops ----------------------------------------------------------------------------------- */

#define T float
#define FN(name) name##_f32
#include "backend_cpu/resample2d.inc"
#undef T
#undef FN
#define T double
#define FN(name) name##_f64
#include "backend_cpu/resample2d.inc"

/* ---- half types ------------------------------------------------------------------------------ */

enum { ROW_FLOATS = 1 << 14, FEWEST_KEPT = 4 };

/* Rows of x in f32, counted through all images. */
typedef struct wide_rows {
    const resample_job *job;
    float *data;
    int64_t first, count;
} wide_rows;

/* Rows [first, first + count) in f32, at most `kept`. */
static const float *widen_rows(wide_rows *w, int64_t first, int64_t count)
{
    const resample_job *job = w->job;
    const int64_t row = job->in[1] * job->channels, all = job->images * job->in[0];
    if (first < w->first || first + count > w->first + w->count) {
        w->first = first;
        w->count = job->kept < all - first ? job->kept : all - first;
        cpu_to_f32(w->data, (const char *)job->x + first * row * 2, job->dtype, w->count * row);
    }
    return w->data + (first - w->first) * row;
}

/* A row of results; where more than `kept` rows belong to it, of some of them after the others. */
static void resample_half_row(const resample_job *job, wide_rows *w, int64_t unit, float *y,
                              float *more)
{
    const span all = job->rows.spans[unit % job->out[0]];
    const int64_t first = unit / job->out[0] * job->in[0] + all.first;
    for (int32_t r = 0; r == 0 || r < all.count; r += (int32_t)job->kept) {
        span some = { 0, all.count - r, all.at + r };
        if (some.count > job->kept)
            some.count = (int32_t)job->kept;
        const float *x = some.count > 0 ? widen_rows(w, first + r, some.count) : w->data;
        resample_row_f32(job, x, r == 0 ? y : more, &some);
        for (int64_t i = 0; r > 0 && i < job->out[1] * job->channels; i++)
            y[i] += more[i];
    }
}

/* Rows [begin, end) of results, which may begin and end within an image. */
static void resample_half_rows(const resample_job *job, float *room, int64_t begin, int64_t end)
{
    const int64_t row = job->out[1] * job->channels;
    wide_rows w = { .job = job, .data = room };
    float *y = room + job->kept * job->in[1] * job->channels;
    for (int64_t unit = begin, n; unit < end; unit += n) {
        n = job->made < end - unit ? job->made : end - unit;
        for (int64_t i = 0; i < n; i++)
            resample_half_row(job, &w, unit + i, y + i * row, y + job->made * row);
        cpu_from_f32((char *)job->y + unit * row * 2, job->dtype, y, n * row);
    }
}

/* Small images, several at a time, by f32's loop. */
static void resample_half_images(const resample_job *job, float *room, int64_t begin, int64_t end)
{
    const int64_t x_image = job->in[0] * job->in[1] * job->channels;
    const int64_t y_image = job->out[0] * job->out[1] * job->channels;
    resample_job some = *job;
    float *y = room + job->kept * job->in[1] * job->channels;
    some.x = room;
    some.y = y;
    for (int64_t i = begin, n; i < end; i += n) {
        n = job->at_once < end - i ? job->at_once : end - i;
        cpu_to_f32(room, (const char *)job->x + i * x_image * 2, job->dtype, n * x_image);
        resample_rows_f32(&some, 0, n * job->out[0]);
        cpu_from_f32((char *)job->y + i * y_image * 2, job->dtype, y, n * y_image);
    }
}

static void resample_half_parts(void *context, int64_t begin, int64_t end)
{
    const resample_job *job = context;
    const int64_t count = job->at_once > 0 ? job->images : job->units;
    for (int64_t part = begin; part < end; part++)
        (job->at_once > 0 ? resample_half_images : resample_half_rows)(
            job, job->room + part * job->part_floats, part * count / job->parts,
            (part + 1) * count / job->parts);
}

/* At least one. */
static int64_t rows_at_a_time(int64_t row, int64_t fewest, int64_t all)
{
    int64_t rows = row > 0 ? ROW_FLOATS / row : fewest;
    rows = rows < fewest ? fewest : rows;
    return rows < all || all == 0 ? rows : all;
}

/* Each part has a room. More than one for a thread only while rooms take no more than half of what x and y
 * would take in f32, and never more than that. */
static int64_t parts_of(const resample_job *job, int threads)
{
    const int64_t x = job->images * job->in[0] * job->in[1] * job->channels;
    const int64_t y = job->units * job->out[1] * job->channels, fit = (x + y) / job->part_floats;
    int64_t parts = fit / 2 < threads ? threads : fit / 2;
    parts = parts < 4 * threads ? parts : 4 * threads;
    parts = parts < fit ? parts : fit;
    parts = parts < job->units ? parts : job->units;
    return threads == 1 || parts < 1 ? 1 : parts;
}

static bool resample_half(const tern_call *call, resample_job *job, int threads)
{
    const int64_t x_row = job->in[1] * job->channels, y_row = job->out[1] * job->channels;
    job->kept = rows_at_a_time(x_row, FEWEST_KEPT, job->images * job->in[0]);
    job->made = rows_at_a_time(y_row, 1, job->units);
    job->part_floats = (job->kept * x_row + (job->made + 1) * y_row + 15) / 16 * 16;
    job->parts = parts_of(job, threads);
    if (job->kept >= job->in[0] && job->in[0] > 0 && job->made >= job->out[0] &&
        job->images >= job->parts) {
        const int64_t in = job->kept / job->in[0], out = job->made / job->out[0];
        job->at_once = in < out ? in : out;
    }
    job->room = call->host->scratch(call, job->parts * job->part_floats * 4);
    if (job->room != NULL)
        cpu_parallel(threads, job->parts, 1, resample_half_parts, job);
    return job->room != NULL;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* As in PyTorch: columns first, then rows, each by weights of 16 bits and rounded to bytes; a result has
 * one cell or two. */
typedef struct byte_job {
    const resample_job *job;
    int64_t parts;
    uint8_t *rooms; /* two rows of results for each part */
} byte_job;

/* Rows of x with as many columns as results have: rows `at`, counted through all images; -1: none. */
typedef struct byte_rows {
    uint8_t *row[2];
    int64_t at[2];
} byte_rows;

/* As many bits as leave the largest weight below 2^15. */
static bool fix_weights(const tern_call *call, axis_table *t, int64_t results)
{
    const int64_t n = t->spans[results - 1].at + t->spans[results - 1].count;
    double most = 0;
    t->fixed = call->host->scratch(call, n * (int64_t)sizeof *t->fixed);
    if (t->fixed == NULL)
        return false;
    for (int64_t i = 0; i < n; i++)
        most = t->weights[i] > most ? t->weights[i] : most;
    while (t->bits < 22 && 0.5 + most * (1 << (t->bits + 1)) < 1 << 15)
        t->bits++;
    for (int64_t i = 0; i < n; i++)
        t->fixed[i] = (int32_t)(0.5 + t->weights[i] * (1 << t->bits));
    return true;
}

static inline uint8_t rounded_byte(int32_t sum, int bits)
{
    const int32_t byte = (sum + (1 << (bits - 1))) >> bits;
    return byte < 255 ? (uint8_t)byte : 255;
}

/* y[i] of a[i] and b[i]; b is not read where there is one cell. */
static inline void blend_bytes(uint8_t *y, const uint8_t *a, const uint8_t *b, int64_t n,
                               const axis_table *t, const span *s)
{
    const int32_t first = t->fixed[s->at], second = s->count > 1 ? t->fixed[s->at + 1] : 0;
    for (int64_t i = 0; i < n; i++)
        y[i] = rounded_byte(first * a[i] + (s->count > 1 ? second * b[i] : 0), t->bits);
}

static const uint8_t *byte_row(const resample_job *job, byte_rows *rows, int64_t at)
{
    const int64_t channels = job->channels;
    uint8_t *y = rows->row[at & 1];
    if (rows->at[at & 1] == at)
        return y;
    rows->at[at & 1] = at;
    const uint8_t *x = (const uint8_t *)job->x + at * job->in[1] * channels;
    for (int64_t i = 0; i < job->out[1]; i++) {
        const span *s = &job->columns.spans[i];
        const uint8_t *cell = x + s->first * channels;
        blend_bytes(y + i * channels, cell, cell + channels, channels, &job->columns, s);
    }
    return y;
}

static void resample_byte_parts(void *context, int64_t begin, int64_t end)
{
    const byte_job *b = context;
    const resample_job *job = b->job;
    const int64_t row = job->out[1] * job->channels;
    for (int64_t part = begin; part < end; part++) {
        uint8_t *room = b->rooms + part * 2 * row;
        byte_rows rows = { { room, room + row }, { -1, -1 } };
        const int64_t last = (part + 1) * job->units / b->parts;
        for (int64_t unit = part * job->units / b->parts; unit < last; unit++) {
            const span *s = &job->rows.spans[unit % job->out[0]];
            const int64_t at = unit / job->out[0] * job->in[0] + s->first;
            const uint8_t *first = byte_row(job, &rows, at);
            const uint8_t *second = s->count > 1 ? byte_row(job, &rows, at + 1) : first;
            blend_bytes((uint8_t *)job->y + unit * row, first, second, row, &job->rows, s);
        }
    }
}

static bool resample_bytes(const tern_call *call, resample_job *job, int threads)
{
    byte_job b = { .job = job, .parts = threads == 1 ? 1 : 4 * (int64_t)threads };
    b.parts = b.parts < job->units ? b.parts : job->units;
    b.rooms = call->host->scratch(call, b.parts * 2 * job->out[1] * job->channels);
    if (b.rooms == NULL || !fix_weights(call, &job->rows, job->out[0]) ||
        !fix_weights(call, &job->columns, job->out[1]))
        return false;
    cpu_parallel(threads, b.parts, 1, resample_byte_parts, &b);
    return true;
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static bool make_pairs(const tern_call *call, resample_job *job)
{
    if (job->channels != 1 || !has_pairs(&job->columns, job->out[1]))
        return true;
    void *pairs = call->host->scratch(call, job->out[1] * (int64_t)sizeof(pair_f64));
    if (pairs == NULL)
        return false;
    if (job->dtype == TERN_F64)
        fill_pairs_f64(pairs, &job->columns, job->out[1]);
    else
        fill_pairs_f32(pairs, &job->columns, job->out[1]);
    job->pairs = pairs;
    return true;
}

tern_status_t cpu_resample2d(const tern_call *call)
{
    const tern_view *x = call->in[0], *y = call->out[0];
    const bool channels_last = (x->flags & TERN_VIEW_CONTIGUOUS) == 0;
    if (y->numel == 0)
        return TERN_OK;
    resample_job job = { .x = x->data,
                         .y = y->data,
                         .dtype = x->dtype,
                         .channels = channels_last ? x->shape[1] : 1,
                         .images = x->shape[0] * (channels_last ? 1 : x->shape[1]) };
    for (int d = 0; d < 2; d++) {
        job.in[d] = x->shape[2 + d];
        job.out[d] = y->shape[2 + d];
        if (!make_table(call, d == 0 ? &job.rows : &job.columns, d, job.in[d], job.out[d]))
            return TERN_ERR_OOM;
    }
    job.units = job.images * job.out[0];
    const int64_t bytes = (x->numel + y->numel) * cpu_dtype_size(x->dtype);
    const int threads = cpu_threads(call, bytes, (x->numel + y->numel) * 4);
    if (x->dtype == TERN_U8)
        return resample_bytes(call, &job, threads) ? TERN_OK : TERN_ERR_OOM;
    if (!make_pairs(call, &job))
        return TERN_ERR_OOM;
    if (x->dtype == TERN_F16 || x->dtype == TERN_BF16)
        return resample_half(call, &job, threads) ? TERN_OK : TERN_ERR_OOM;
    cpu_parallel(threads, job.units, 1,
                 x->dtype == TERN_F64 ? resample_rows_f64 : resample_rows_f32, &job);
    return TERN_OK;
}
