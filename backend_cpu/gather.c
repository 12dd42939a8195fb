/* gather and its gradient: one dimension by numbers, any strides. Work is split along a
 * dimension in which results do not meet, so that the order of a sum does not depend on the
 * threads. */
#include "backend_cpu/kernels.h"
#include "backend_cpu/rows.h"
#include "tern/op_attr.h"

enum { LINE_OPERANDS = 3, INDEX = 0, NEAR = 1, FAR = 2, LONG_LINE = 16 };

/* Walks `index` and two arrays beside it: NEAR, which has its shape (forward the result,
 * backward the gradient), and FAR, which is reached through the numbers (x, or the gradient of
 * x). Strides count bytes; FAR's in `dim` is far_step and 0 in the walk. */
typedef struct gather_walk {
    int ndim;
    int64_t shape[TERN_MAX_DIMS];
    char *data[LINE_OPERANDS];
    int64_t stride[LINE_OPERANDS][TERN_MAX_DIMS];
    int64_t far_step, far_size; /* far_size: numbers are below it */
} gather_walk;

typedef struct gather_job {
    gather_walk walk;
    int split;   /* the dimension that ranges cut */
    int64_t bad; /* atomic: 0 while all numbers fit */
    bool add;
    int dtype; /* of NEAR and FAR */
    int64_t size;
} gather_job;

/* One number; 0 in the place of one that does not fit, which is noted. */
static inline int64_t number_at(gather_job *job, const char *p)
{
    int64_t k;
    memcpy(&k, p, sizeof k);
    if (__builtin_expect((uint64_t)k < (uint64_t)job->walk.far_size, 1))
        return k;
    __atomic_store_n(&job->bad, 1, __ATOMIC_RELAXED);
    return 0;
}

/* ---- lines ----------------------------------------------------------------------------------- */

typedef struct gather_line {
    const char *index;
    char *near_;
    char *far_;
    int64_t index_step, near_step, far_stride, n;
} gather_line;

#define LINE(T, STATEMENT)                                                                       \
    do {                                                                                         \
        for (int64_t i = 0; i < line->n; i++) {                                                  \
            const int64_t k = number_at(job, line->index + i * line->index_step);                \
            T *near_ = (T *)(void *)(line->near_ + i * line->near_step);                         \
            T *far_ = (T *)(void *)(line->far_ + i * line->far_stride + k * job->walk.far_step); \
            STATEMENT;                                                                           \
        }                                                                                        \
    } while (0)

static void run_line(gather_job *job, const gather_line *line)
{
    if (job->add && job->dtype == TERN_F64)
        LINE(double, *far_ += *near_);
    else if (job->add)
        LINE(float, *far_ += *near_);
    else if (job->size == 1)
        LINE(uint8_t, *near_ = *far_);
    else if (job->size == 2)
        LINE(uint16_t, *near_ = *far_);
    else if (job->size == 4)
        LINE(uint32_t, *near_ = *far_);
    else
        LINE(uint64_t, *near_ = *far_);
}

static int longest(const gather_walk *walk, int except)
{
    int best = except == 0 && walk->ndim > 1 ? 1 : 0;
    for (int d = best + 1; d < TERN_MAX_DIMS; d++) /* extents beyond ndim are 1 */
        if (d != except && walk->shape[d] > walk->shape[best])
            best = d;
    return best;
}

/* The whole walk, line by line. Numbers of one sum come in the order
 * of `dim`, whichever dimension that is. */
static void run_walk(gather_job *job, const gather_walk *walk)
{
    const int last = walk->ndim - 1; /* where neighbours lie together, unless it is short */
    const int inner = walk->shape[last] >= LONG_LINE ? last : longest(walk, -1);
    int64_t at[TERN_MAX_DIMS] = { 0 };
    gather_line line = { .index = walk->data[INDEX],
                         .near_ = walk->data[NEAR],
                         .far_ = walk->data[FAR],
                         .n = walk->shape[inner] };
    line.index_step = walk->stride[INDEX][inner];
    line.near_step = walk->stride[NEAR][inner];
    line.far_stride = walk->stride[FAR][inner];
    for (;;) {
        run_line(job, &line);
        int d = walk->ndim - 1;
        for (; d >= 0; d--) {
            if (d == inner)
                continue;
            const int64_t back = ++at[d] < walk->shape[d] ? -1 : at[d] - 1;
            line.index -= back * walk->stride[INDEX][d];
            line.near_ -= back * walk->stride[NEAR][d];
            line.far_ -= back * walk->stride[FAR][d];
            if (back < 0)
                break;
            at[d] = 0;
        }
        if (d < 0)
            return;
    }
}

static void run_range(void *context, int64_t begin, int64_t end)
{
    gather_job *job = context;
    gather_walk part = job->walk;
    part.shape[job->split] = end - begin;
    for (int o = 0; o < LINE_OPERANDS; o++)
        part.data[o] += begin * part.stride[o][job->split];
    run_walk(job, &part);
}

/* ---- setting up ------------------------------------------------------------------------------ */

static void set_walk(gather_job *job, int dim, const tern_view *index, const tern_view *near_,
                     const tern_view *far_)
{
    const tern_view *views[LINE_OPERANDS] = { index, near_, far_ };
    gather_walk *walk = &job->walk;
    job->size = cpu_dtype_size(far_->dtype);
    job->dtype = far_->dtype;
    walk->ndim = index->ndim > 0 ? index->ndim : 1;
    for (int d = 0; d < TERN_MAX_DIMS; d++)
        walk->shape[d] = d < index->ndim ? index->shape[d] : 1;
    for (int o = 0; o < LINE_OPERANDS; o++) {
        const int64_t size = cpu_dtype_size(views[o]->dtype);
        walk->data[o] = views[o]->data;
        walk->stride[o][0] = 0;
        for (int d = 0; d < index->ndim; d++)
            walk->stride[o][d] = views[o]->stride[d] * size;
    }
    walk->far_step = walk->stride[FAR][dim];
    walk->far_size = index->ndim > 0 ? far_->shape[dim] : 1;
    walk->stride[FAR][dim] = 0;
}

static tern_status_t bad_number(const tern_call *call, const gather_walk *walk, int dim)
{
    int64_t at[TERN_MAX_DIMS] = { 0 };
    int64_t position = 0, k = 0;
    for (;; position++) {
        const char *p = walk->data[INDEX];
        for (int d = 0; d < walk->ndim; d++)
            p += at[d] * walk->stride[INDEX][d];
        memcpy(&k, p, sizeof k);
        if ((uint64_t)k >= (uint64_t)walk->far_size)
            break;
        for (int d = walk->ndim - 1; d >= 0 && ++at[d] == walk->shape[d]; d--)
            at[d] = 0;
    }
    return call->host->fail(TERN_ERR_INDEX,
                            "index %lld at position %lld is outside dimension %d, which has %lld",
                            (long long)k, (long long)position, dim, (long long)walk->far_size);
}

static tern_status_t run(const tern_call *call, gather_job *job, int dim, int64_t numel)
{
    job->bad = 0;
    if (numel > 0 && job->walk.far_size == 0)
        return bad_number(call, &job->walk, dim);
    if (numel == 0)
        return TERN_OK;
    job->split = longest(&job->walk, job->walk.ndim > 1 ? dim : -1);
    const int64_t count = job->walk.shape[job->split];
    if (job->walk.ndim == 1 && job->add)
        run_range(job, 0, count); /* all sums may meet */
    else
        cpu_rows_run(call, numel * (2 * job->size + 8), numel * 4, count,
                     cpu_rows_grain(numel / count), run_range, job);
    return job->bad == 0 ? TERN_OK : bad_number(call, &job->walk, dim);
}

tern_status_t cpu_gather(const tern_call *call)
{
    gather_job job = { 0 };
    const int dim = ((const tern_attr_dim *)call->attr)->dim;
    set_walk(&job, dim, call->in[1], call->out[0], call->in[0]);
    return run(call, &job, dim, call->in[1]->numel);
}

/* ---- gradient -------------------------------------------------------------------------------- */

/* Half types add up in f32: gradient and result are widened in scratch. */
static tern_status_t half_gradient(const tern_call *call, gather_job *job, int dim)
{
    const tern_view *out = call->out[0];
    const tern_view *grad = call->in[0];
    tern_view sum = *out;
    tern_view wide = *grad;
    const int64_t bytes = (out->numel + grad->numel) * (int64_t)sizeof(float);
    sum.data = call->host->scratch(call, bytes);
    if (sum.data == NULL)
        return TERN_ERR_OOM;
    sum.dtype = wide.dtype = TERN_F32;
    wide.data = (float *)sum.data + out->numel;
    int64_t stride = 1;
    for (int d = grad->ndim - 1; d >= 0; d--) {
        wide.stride[d] = stride;
        stride *= grad->shape[d];
    }
    wide.flags = TERN_VIEW_CONTIGUOUS | TERN_VIEW_DENSE;
    const tern_view *in[1] = { grad };
    const tern_view *to[1] = { &wide };
    tern_call copy = *call;
    copy.n_in = copy.n_out = 1;
    copy.in = in;
    copy.out = to;
    copy.attr = NULL;
    tern_status_t status = cpu_copy(&copy);
    if (status != TERN_OK)
        return status;
    memset(sum.data, 0, (size_t)out->numel * sizeof(float));
    set_walk(job, dim, call->in[1], &wide, &sum);
    status = run(call, job, dim, grad->numel);
    cpu_from_f32(out->data, out->dtype, sum.data, out->numel);
    return status;
}

tern_status_t cpu_gather_grad(const tern_call *call)
{
    gather_job job = { 0 };
    job.add = true;
    const int dim = ((const tern_attr_gather_grad *)call->attr)->dim;
    const tern_view *out = call->out[0];
    if (cpu_is_half(out->dtype) && out->numel > 0)
        return half_gradient(call, &job, dim);
    if (out->numel > 0)
        memset(out->data, 0, (size_t)(out->numel * cpu_dtype_size(out->dtype)));
    set_walk(&job, dim, call->in[1], call->in[0], out);
    return run(call, &job, dim, call->in[1]->numel);
}
