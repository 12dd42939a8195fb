/* resample2d: results are weighted sums of neighbouring cells. The cells and weights of both dimensions
 * are tables made at each call, transposed ones for gradients; half types become f32 on the way. */
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
} axis_table;

typedef struct resample_job {
    axis_table rows, columns;
    const void *pairs; /* of the columns, where no result has more than two cells; else NULL */
    const void *x;
    void *y;
    int64_t channels; /* channels_last; else 1, and units are planes */
    int64_t in[2], out[2];
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
                              .narrow = call->in[0]->dtype != TERN_F64 };
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

tern_status_t cpu_resample2d(const tern_call *call)
{
    const tern_view *x = call->in[0], *y = call->out[0];
    const bool half = x->dtype == TERN_F16 || x->dtype == TERN_BF16;
    const bool channels_last = (x->flags & TERN_VIEW_CONTIGUOUS) == 0;
    if (y->numel == 0)
        return TERN_OK;
    resample_job job = { .x = x->data, .y = y->data, .channels = channels_last ? x->shape[1] : 1 };
    for (int d = 0; d < 2; d++) {
        job.in[d] = x->shape[2 + d];
        job.out[d] = y->shape[2 + d];
        if (!make_table(call, d == 0 ? &job.rows : &job.columns, d, job.in[d], job.out[d]))
            return TERN_ERR_OOM;
    }
    float *wide = NULL;
    if (half) {
        wide = call->host->scratch(call, (x->numel + y->numel) * (int64_t)sizeof *wide);
        if (wide == NULL)
            return TERN_ERR_OOM;
        cpu_to_f32(wide, x->data, x->dtype, x->numel);
        job.x = wide;
        job.y = wide + x->numel;
    }
    if (!channels_last && has_pairs(&job.columns, job.out[1])) {
        void *pairs = call->host->scratch(call, job.out[1] * (int64_t)sizeof(pair_f64));
        if (pairs == NULL)
            return TERN_ERR_OOM;
        if (x->dtype == TERN_F64)
            fill_pairs_f64(pairs, &job.columns, job.out[1]);
        else
            fill_pairs_f32(pairs, &job.columns, job.out[1]);
        job.pairs = pairs;
    }
    const int64_t images = x->shape[0] * (channels_last ? 1 : x->shape[1]);
    const int64_t bytes = (x->numel + y->numel) * cpu_dtype_size(x->dtype);
    cpu_parallel(cpu_threads(call, bytes, (x->numel + y->numel) * 4), images * job.out[0], 1,
                 x->dtype == TERN_F64 ? resample_rows_f64 : resample_rows_f32, &job);
    if (half)
        cpu_from_f32(y->data, y->dtype, job.y, y->numel);
    return TERN_OK;
}
