/* gather, index_select, scatter and gradients: one dimension by numbers, any strides. Work is split along a
 * dimension in which results do not meet, so that the order of a sum does not depend on the
 * threads. */
#include "backend_cpu/kernels.h"
#include "backend_cpu/rows.h"
#include "tern/op_attr.h"

enum { LINE_OPERANDS = 3, INDEX = 0, NEAR = 1, FAR = 2, LONG_LINE = 16, PIECE = 2048 };

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

typedef enum gather_deed {
    TAKE, /* near = far */
    PUT,  /* far = near */
    ADD   /* far += near */
} gather_deed;

typedef struct gather_job {
    gather_walk walk;
    int split;    /* the dimension that ranges cut */
    bool checked; /* all numbers are known to fit */
    bool spread;  /* the caller's index is 1-D: the walk repeats it */
    int64_t bad;  /* atomic: 0 while all numbers fit */
    gather_deed deed;
    int dtype; /* of NEAR and FAR */
    int64_t size;
} gather_job;

/* Some number does not fit; nothing was moved for it. */
static void note_bad(gather_job *job)
{
    __atomic_store_n(&job->bad, 1, __ATOMIC_RELAXED);
}

/* ---- lines ----------------------------------------------------------------------------------- */

typedef struct gather_line {
    const char *index;
    char *near_;
    char *far_;
    int64_t index_step, near_step, far_stride, n;
} gather_line;

/* The highest bit is set where a number is below 0 or above `last`: in the number, or in what it lacks to the last. */
static inline __attribute__((always_inline)) uint64_t misfits(const char *index, const int64_t step,
                                                              int64_t n, uint64_t last)
{
    uint64_t k, bad = 0;
    for (int64_t i = 0; i < n; i++) {
        memcpy(&k, index + i * step, sizeof k);
        bad |= k | (last - k);
    }
    return bad;
}

/* Do the n numbers lie in 0 .. size - 1? */
static bool numbers_fit(const char *index, int64_t step, int64_t n, int64_t size)
{
    const uint64_t last = (uint64_t)size - 1;
    const uint64_t bad = step == 8 ? misfits(index, 8, n, last) : misfits(index, step, n, last);
    return bad >> 63 == 0;
}

/* What a loop needs in registers: stores might change what `job` and `line` point to. */
#define LINE_LOOP(T, STATEMENT, index_step, near_step, far_of)                           \
    do {                                                                                 \
        const char *index = line->index;                                                 \
        char *near_at = line->near_, *far_at = line->far_;                               \
        const int64_t stride = line->far_stride, n = line->n, step = job->walk.far_step; \
        (void)stride, (void)step;                                                        \
        for (int64_t i = 0; i < n; i++) {                                                \
            uint64_t k;                                                                  \
            memcpy(&k, index + i * (index_step), sizeof k);                              \
            T *near_ = (T *)(void *)(near_at + i * (near_step));                         \
            T *far_ = far_of;                                                            \
            STATEMENT;                                                                   \
        }                                                                                \
    } while (0)

/* Numbers and results without gaps, and what they number too: most lines. */
#define LINE(T, STATEMENT)                                                           \
    do {                                                                             \
        if (line->index_step == 8 && line->near_step == (int64_t)sizeof(T) &&        \
            line->far_stride == 0 && job->walk.far_step == (int64_t)sizeof(T))       \
            LINE_LOOP(T, STATEMENT, 8, (int64_t)sizeof(T), (T *)(void *)far_at + k); \
        else                                                                         \
            LINE_LOOP(T, STATEMENT, line->index_step, line->near_step,               \
                      (T *)(void *)(far_at + i * stride + (int64_t)k * step));       \
    } while (0)

#define MOVE_LINE(T)                 \
    do {                             \
        if (job->deed == TAKE)       \
            LINE(T, *near_ = *far_); \
        else                         \
            LINE(T, *far_ = *near_); \
    } while (0)

/* Integers wrap, whatever their sign. */
static void add_line(const gather_job *job, const gather_line *line)
{
    switch (job->dtype) {
    case TERN_F64:
        LINE(double, *far_ += *near_);
        break;
    case TERN_F32:
        LINE(float, *far_ += *near_);
        break;
    case TERN_BOOL:
        LINE(uint8_t, *far_ = (uint8_t)(*far_ | *near_));
        break;
    case TERN_I16:
        LINE(uint16_t, *far_ = (uint16_t)(*far_ + *near_));
        break;
    case TERN_I32:
        LINE(uint32_t, *far_ += *near_);
        break;
    case TERN_I64:
        LINE(uint64_t, *far_ += *near_);
        break;
    default:
        LINE(uint8_t, *far_ = (uint8_t)(*far_ + *near_));
    }
}

static void move_line(const gather_job *job, const gather_line *line)
{
    if (job->deed == ADD)
        add_line(job, line);
    else if (job->size == 1)
        MOVE_LINE(uint8_t);
    else if (job->size == 2)
        MOVE_LINE(uint16_t);
    else if (job->size == 4)
        MOVE_LINE(uint32_t);
    else
        MOVE_LINE(uint64_t);
}

/* Numbers are looked at in pieces that a cache holds until they are used. */
static void run_line(gather_job *job, const gather_line *whole)
{
    gather_line line = *whole;
    for (int64_t left = whole->n; left > 0; left -= PIECE) {
        line.n = left < PIECE ? left : PIECE;
        if (job->checked || numbers_fit(line.index, line.index_step,
                                        line.index_step == 0 ? 1 : line.n, job->walk.far_size))
            move_line(job, &line);
        else
            note_bad(job);
        line.index += PIECE * line.index_step;
        line.near_ += PIECE * line.near_step;
        line.far_ += PIECE * line.far_stride;
    }
}

#define ADD_ROW(T)                            \
    do {                                      \
        T *to = (T *)(void *)far_;            \
        const T *from = (T *)(void *)near_;   \
        CPU_INDEPENDENT                       \
        for (int64_t i = 0; i < line->n; i++) \
            to[i] += from[i];                 \
    } while (0)

/* A line that one number is for, without gaps on both sides. */
static void run_row(gather_job *job, const gather_line *line)
{
    char *near_ = line->near_;
    uint64_t k;
    memcpy(&k, line->index, sizeof k);
    if (k >= (uint64_t)job->walk.far_size) {
        note_bad(job);
        return;
    }
    char *far_ = line->far_ + (int64_t)k * job->walk.far_step;
    if (job->deed == TAKE)
        memcpy(near_, far_, (size_t)(line->n * job->size));
    else if (job->deed == PUT)
        memcpy(far_, near_, (size_t)(line->n * job->size));
    else if (job->dtype == TERN_F64)
        ADD_ROW(double);
    else
        ADD_ROW(float);
}

static bool is_row(const gather_job *job, const gather_line *line)
{
    return line->index_step == 0 && line->near_step == job->size && line->far_stride == job->size &&
           (job->deed != ADD || job->dtype == TERN_F32 || job->dtype == TERN_F64);
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
    const bool row = is_row(job, &line);
    for (;;) {
        if (row)
            run_row(job, &line);
        else
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

static tern_status_t refuse(const tern_call *call, int64_t k, int64_t position, int dim,
                            int64_t size)
{
    return call->host->fail(TERN_ERR_INDEX,
                            "index %lld at position %lld is outside dimension %d, which has %lld",
                            (long long)k, (long long)position, dim, (long long)size);
}

static tern_status_t bad_number(const tern_call *call, const gather_job *job, int dim)
{
    const gather_walk *walk = &job->walk;
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
    return refuse(call, k, job->spread ? at[dim] : position, dim, walk->far_size);
}

static tern_status_t run(const tern_call *call, gather_job *job, int dim, int64_t numel)
{
    job->bad = 0;
    if (numel > 0 && job->walk.far_size == 0)
        return bad_number(call, job, dim);
    if (numel == 0)
        return TERN_OK;
    job->split = longest(&job->walk, job->walk.ndim > 1 ? dim : -1);
    const int64_t count = job->walk.shape[job->split];
    if (job->walk.ndim == 1 && job->deed != TAKE)
        run_range(job, 0, count); /* all may meet */
    else
        cpu_rows_run(call, numel * (2 * job->size + 8), numel * 4, count,
                     cpu_rows_grain(numel / count), run_range, job);
    return job->bad == 0 ? TERN_OK : bad_number(call, job, dim);
}

tern_status_t cpu_gather(const tern_call *call)
{
    gather_job job = { 0 };
    const int dim = ((const tern_attr_dim *)call->attr)->dim;
    set_walk(&job, dim, call->in[1], call->out[0], call->in[0]);
    return run(call, &job, dim, call->in[1]->numel);
}

/* The index of an empty result, which takes nothing from x, fits all the same. */
static tern_status_t check_unused(const tern_call *call, int dim)
{
    const tern_view *x = call->in[0], *index = call->in[1];
    const int64_t step = index->ndim > 0 ? index->stride[0] : 0;
    const int64_t size = x->ndim > 0 ? x->shape[dim] : 1;
    for (int64_t i = 0; i < index->numel; i++) {
        int64_t k;
        memcpy(&k, (const char *)index->data + i * step * (int64_t)sizeof k, sizeof k);
        if ((uint64_t)k >= (uint64_t)size)
            return refuse(call, k, i, dim, size);
    }
    return TERN_OK;
}

/* The index as gather wants it: of the result's shape, repeated along all dimensions but its own. */
tern_status_t cpu_index_select(const tern_call *call)
{
    gather_job job = { 0 };
    const int dim = ((const tern_attr_dim *)call->attr)->dim;
    const tern_view *out = call->out[0];
    tern_view index = *call->in[1];
    const int64_t step = index.ndim > 0 ? index.stride[0] : 0;
    index.ndim = out->ndim;
    for (int d = 0; d < out->ndim; d++) {
        index.shape[d] = out->shape[d];
        index.stride[d] = d == dim ? step : 0;
    }
    if (out->numel == 0)
        return check_unused(call, dim);
    job.spread = true;
    set_walk(&job, dim, &index, out, call->in[0]);
    return run(call, &job, dim, out->numel);
}

/* ---- scatter --------------------------------------------------------------------------------- */

static tern_status_t copy_to(const tern_call *call, const tern_view *out, const tern_view *from)
{
    const tern_view *in[1] = { from };
    const tern_view *to[1] = { out };
    tern_call copy = *call;
    copy.n_in = copy.n_out = 1;
    copy.in = in;
    copy.out = to;
    copy.attr = NULL;
    return cpu_copy(&copy);
}

/* Row-major f32 of like's shape, in the memory at `data`. */
static tern_view wide_view(const tern_view *like, float *data)
{
    tern_view wide = *like;
    int64_t stride = 1;
    for (int d = like->ndim - 1; d >= 0; d--) {
        wide.stride[d] = stride;
        stride *= like->shape[d];
    }
    wide.data = data;
    wide.dtype = TERN_F32;
    wide.flags = TERN_VIEW_CONTIGUOUS | TERN_VIEW_DENSE;
    return wide;
}

/* Half types add up in f32, in scratch: from zeros, or from what the output holds. */
static tern_status_t half_sums(const tern_call *call, gather_job *job, int dim, bool zeros,
                               const tern_view *src)
{
    const tern_view *out = call->out[0];
    const int64_t bytes = (out->numel + src->numel) * (int64_t)sizeof(float);
    float *memory = call->host->scratch(call, bytes);
    if (memory == NULL)
        return TERN_ERR_OOM;
    const tern_view sum = wide_view(out, memory), wide = wide_view(src, memory + out->numel);
    tern_status_t status = copy_to(call, &wide, src);
    if (status == TERN_OK && zeros)
        memset(memory, 0, (size_t)out->numel * sizeof(float));
    else if (status == TERN_OK)
        status = copy_to(call, &sum, out);
    if (status != TERN_OK)
        return status;
    set_walk(job, dim, call->in[1], &wide, &sum);
    status = run(call, job, dim, src->numel);
    return status == TERN_OK ? copy_to(call, out, &sum) : status;
}

static bool is_same(const tern_view *a, const tern_view *b)
{
    bool same = a->data == b->data;
    for (int d = 0; d < a->ndim; d++)
        same = same && (a->stride[d] == b->stride[d] || a->shape[d] == 1);
    return same;
}

/* Numbers are looked at before anything is written. */
static tern_status_t check_numbers(const tern_call *call, const gather_job *job, int dim)
{
    const gather_walk *walk = &job->walk;
    const int last = walk->ndim - 1;
    const int64_t n = walk->shape[last], step = walk->stride[INDEX][last];
    int64_t at[TERN_MAX_DIMS] = { 0 };
    const char *p = walk->data[INDEX];
    for (;;) {
        if (!numbers_fit(p, step, n, walk->far_size))
            return bad_number(call, job, dim);
        int d = last - 1;
        for (; d >= 0; d--) {
            p += walk->stride[INDEX][d];
            if (++at[d] < walk->shape[d])
                break;
            p -= walk->shape[d] * walk->stride[INDEX][d];
            at[d] = 0;
        }
        if (d < 0)
            return TERN_OK;
    }
}

static tern_status_t scatter(const tern_call *call, gather_deed deed)
{
    gather_job job = { .deed = deed };
    const int dim = ((const tern_attr_dim *)call->attr)->dim;
    const tern_view *x = call->in[0], *out = call->out[0], *src = call->in[2];
    if (out->numel > 0 && !is_same(out, x)) {
        const tern_status_t status = copy_to(call, out, x);
        if (status != TERN_OK)
            return status;
    }
    if (src->numel == 0)
        return TERN_OK;
    set_walk(&job, dim, call->in[1], src, out);
    const tern_status_t status = check_numbers(call, &job, dim);
    if (status != TERN_OK)
        return status;
    job.checked = true;
    if (deed == ADD && cpu_is_half(out->dtype))
        return half_sums(call, &job, dim, false, src);
    return run(call, &job, dim, src->numel);
}

tern_status_t cpu_scatter(const tern_call *call)
{
    return scatter(call, PUT);
}

tern_status_t cpu_scatter_add(const tern_call *call)
{
    return scatter(call, ADD);
}

tern_status_t cpu_gather_grad(const tern_call *call)
{
    gather_job job = { .deed = ADD };
    const int dim = ((const tern_attr_gather_grad *)call->attr)->dim;
    const tern_view *out = call->out[0];
    if (cpu_is_half(out->dtype) && out->numel > 0)
        return half_sums(call, &job, dim, true, call->in[0]);
    if (out->numel > 0)
        memset(out->data, 0, (size_t)(out->numel * cpu_dtype_size(out->dtype)));
    set_walk(&job, dim, call->in[1], call->in[0], out);
    return run(call, &job, dim, call->in[1]->numel);
}
