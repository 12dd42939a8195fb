/* batch_norm and its gradient. There are two ways to lie in memory:
 *   planes   [N, C, S] row-major with S > 1: a channel is N pieces of S elements; threads share
 *            channels, and what was just read is still in a cache when it is normalised;
 *   columns  [N, C] and channels_last: rows of C elements. Few channels are folded: `fold` rows are
 *            taken as one of fold * C columns, so that vectors are full. Threads share slabs of rows.
 * Statistics of a block are about the block's own mean and merged in double, in an order that does
 * not depend on the threads. */
#include <math.h>

#include "backend_cpu/convert.h"
#include "backend_cpu/kernels.h"
#include "backend_cpu/rows.h"
#include "tern/op_attr.h"

enum {
    PLANE_BLOCK = 16384,  /* elements of a channel: still in a cache when they are read again */
    SLAB_BYTES = 1 << 18, /* the same for rows */
    SLAB_ROWS = 64,       /* at least: a slab leaves two stat per column behind */
    VECTOR = 16,          /* folded columns are a multiple of this ... */
    FOLDED = 64           /* ... and at least so many */
};

typedef struct norm_job {
    const tern_call *call;
    const tern_attr_norm *attr;
    const void *x;
    const void *grad; /* lies as x does */
    void *out;
    int dtype;
    bool stream;              /* the result leaves the caches anyway */
    int64_t size;             /* of an element */
    int64_t channels, count;  /* count: values per channel */
    int64_t images, plane;    /* planes: N and S; 0 and 0: columns */
    int64_t fold, columns, rows, left; /* columns == fold * channels; left: rows beside the folds */
    int64_t slab, slabs;      /* rows in one; how many, the rows left are one more */
    char *partial;            /* by slab: two stat per column */
    double *sums;             /* what partial adds up to: two per channel */
    void *mean, *scale, *shift, *slope; /* stat, by channel repeated `fold` times */
    const void *weight, *bias, *rstd;   /* stat by channel */
} norm_job;

/* ---- geometry --------------------------------------------------------------------------------- */

static int64_t fold_of(int64_t channels, int64_t count)
{
    if (channels >= FOLDED)
        return 1;
    int64_t fold = 1;
    while (channels * fold % VECTOR != 0 || channels * fold < FOLDED)
        fold *= 2;
    return fold <= count ? fold : 1;
}

static void set_columns(norm_job *job)
{
    job->fold = fold_of(job->channels, job->count);
    job->columns = job->fold * job->channels;
    job->rows = job->count / job->fold;
    job->left = job->count % job->fold;
    job->slab = SLAB_BYTES / (job->columns * job->size);
    if (job->slab < SLAB_ROWS)
        job->slab = SLAB_ROWS;
    job->slabs = (job->rows + job->slab - 1) / job->slab;
}

static void set_geometry(norm_job *job, const tern_view *x)
{
    job->x = x->data;
    job->dtype = x->dtype;
    job->size = cpu_dtype_size(x->dtype);
    job->stream = x->numel * job->size >= CPU_STREAM_BYTES;
    job->channels = x->shape[1];
    job->count = job->channels > 0 ? x->numel / job->channels : 0;
    job->images = x->shape[0];
    job->plane = job->images > 0 ? job->count / job->images : 0;
    job->fold = 1;
    job->columns = job->channels;
    if (job->plane > 1 && cpu_is_contiguous(x))
        return;
    job->images = 0;
    job->plane = 0;
    if (job->count > 0)
        set_columns(job);
}

static bool get_arrays(norm_job *job)
{
    const int64_t stat = cpu_stat_size(job->dtype);
    const int64_t arrays = 4 * job->columns * stat;
    const int64_t sums = job->channels * 2 * (int64_t)sizeof(double);
    const int64_t partial = job->plane > 0 ? 0 : (job->slabs + 1) * 2 * job->columns * stat;
    char *memory = job->call->host->scratch(job->call, sums + arrays + partial);
    if (memory == NULL)
        return false;
    job->sums = (double *)(void *)memory;
    job->mean = memory + sums;
    job->scale = memory + sums + job->columns * stat;
    job->shift = memory + sums + 2 * job->columns * stat;
    job->slope = memory + sums + 3 * job->columns * stat;
    job->partial = memory + sums + arrays;
    return true;
}

static void run(norm_job *job, int streams, cpu_range_fn planes, cpu_range_fn columns)
{
    const int64_t numel = job->count * job->channels;
    const int64_t bytes = numel * job->size * streams;
    if (job->plane > 0)
        cpu_rows_run(job->call, bytes, numel * 8, job->channels, cpu_rows_grain(job->count), planes,
                     job);
    else
        cpu_rows_run(job->call, bytes, numel * 8, job->slabs + (job->left > 0), 1, columns, job);
}

static void *stat_place(const norm_job *job, void *stat, int64_t i)
{
    return (char *)stat + i * cpu_stat_size(job->dtype);
}

static void set_stat(const norm_job *job, void *stat, int64_t channel, double value)
{
    for (int64_t k = 0; k < job->fold; k++)
        cpu_stat_set(stat, job->dtype, k * job->channels + channel, value);
}

/* A block of x, grad and out from an element on. */
static cpu_norm_block block_at(const norm_job *job, int64_t element)
{
    cpu_norm_block block = { .dtype = job->dtype, .stream = job->stream };
    const int64_t bytes = element * job->size;
    block.x = (const char *)job->x + bytes;
    block.grad = job->grad != NULL ? (const char *)job->grad + bytes : NULL;
    block.out = (char *)job->out + bytes;
    return block;
}

/* The rows of a slab; of slab number `slabs` those that folding leaves. */
static cpu_norm_block slab_block(const norm_job *job, int64_t slab)
{
    const int64_t first = slab < job->slabs ? slab * job->slab : job->rows;
    cpu_norm_block block = block_at(job, first * job->columns);
    block.n = slab < job->slabs ? job->columns : job->channels;
    block.count = slab == job->slabs                 ? job->left
                  : first + job->slab > job->rows ? job->rows - first
                                                     : job->slab;
    block.mean = job->mean;
    block.scale = job->scale;
    block.shift = job->shift;
    block.slope = job->slope;
    return block;
}

static char *slab_partial(const norm_job *job, int64_t slab)
{
    return job->partial + slab * 2 * job->columns * cpu_stat_size(job->dtype);
}

/* Pieces of a channel in turn: whole planes while they are small, else parts of one. *at counts
 * elements of the channel. */
static bool next_piece(const norm_job *job, int64_t channel, int64_t *at, cpu_norm_block *block)
{
    if (*at >= job->count)
        return false;
    const int64_t image = *at / job->plane;
    const int64_t offset = *at % job->plane;
    *block = block_at(job, (image * job->channels + channel) * job->plane + offset);
    block->stride = job->channels * job->plane;
    block->count = 1;
    block->n = job->plane - offset < PLANE_BLOCK ? job->plane - offset : PLANE_BLOCK;
    if (job->plane < PLANE_BLOCK) {
        const int64_t together = PLANE_BLOCK / job->plane;
        block->count = job->images - image < together ? job->images - image : together;
    }
    *at += block->count * block->n;
    return true;
}

static cpu_norm_block channel_block(const norm_job *job, int64_t channel)
{
    cpu_norm_block block = block_at(job, channel * job->plane);
    block.stride = job->channels * job->plane;
    block.count = job->images;
    block.n = job->plane;
    block.mean = stat_place(job, job->mean, channel);
    block.scale = stat_place(job, job->scale, channel);
    block.shift = stat_place(job, job->shift, channel);
    block.slope = stat_place(job, job->slope, channel);
    return block;
}

/* ---- statistics ------------------------------------------------------------------------------- */

typedef struct moments {
    double count, mean, m2;
} moments;

static void merge(moments *all, double count, double mean, double m2)
{
    const double away = mean - all->mean;
    const double share = count / (all->count + count);
    all->m2 += m2 + away * away * all->count * share;
    all->mean += away * share;
    all->count += count;
}

static moments plane_moments(const norm_job *job, int64_t channel)
{
    moments all = { 0 };
    cpu_norm_block block;
    int64_t at = 0;
    while (next_piece(job, channel, &at, &block)) {
        double mean, m2; /* memory for one stat each */
        CPU_ISA_PICK(cpu_planes_moments)(&block, &mean, &m2);
        merge(&all, (double)(block.count * block.n), cpu_stat_at(&mean, job->dtype, 0),
              cpu_stat_at(&m2, job->dtype, 0));
    }
    return all;
}

static void run_column_moments(void *context, int64_t begin, int64_t end)
{
    const norm_job *job = context;
    for (int64_t slab = begin; slab < end; slab++) {
        const cpu_norm_block block = slab_block(job, slab);
        char *partial = slab_partial(job, slab);
        CPU_ISA_PICK(cpu_columns_moments)(&block, partial,
                                          stat_place(job, partial, job->columns));
    }
}

/* Merges a slab's statistics of `channels` columns, which stand for `count` rows each. */
static void merge_columns(const norm_job *job, const char *partial, int64_t first, double before,
                          double count)
{
    const double share = count / (before + count);
    const double spread = before * share;
    double *mean = job->sums;
    double *m2 = job->sums + job->channels;
    for (int64_t c = 0; c < job->channels; c++) {
        const double away = cpu_stat_at(partial, job->dtype, first + c) - mean[c];
        m2[c] += cpu_stat_at(partial, job->dtype, job->columns + first + c) + away * away * spread;
        mean[c] += away * share;
    }
}

static void merge_slabs(const norm_job *job)
{
    double before = 0;
    for (int64_t slab = 0; slab < job->slabs + (job->left > 0); slab++) {
        const cpu_norm_block block = slab_block(job, slab);
        for (int64_t first = 0; first < block.n; first += job->channels) {
            merge_columns(job, slab_partial(job, slab), first, before, (double)block.count);
            before += (double)block.count;
        }
    }
}

static double running_of(const norm_job *job, int input, int64_t channel)
{
    const tern_view *view = job->call->in[input];
    return cpu_load_f64((char *)view->data + channel * cpu_dtype_size(view->dtype), view->dtype);
}

static void update_running(const norm_job *job, int input, int64_t channel, double value)
{
    const tern_view *view = job->call->in[input];
    if (view == NULL)
        return;
    const double m = job->attr->momentum;
    const double updated = (1 - m) * running_of(job, input, channel) + m * value;
    cpu_store_f64((char *)view->data + channel * cpu_dtype_size(view->dtype), view->dtype, updated);
}

/* Writes outputs 1 and 2, the running statistics and what `apply` needs. */
static void settle_channel(norm_job *job, int64_t channel, const moments *all)
{
    double mean, variance;
    if (job->attr->training) {
        mean = all->mean;
        variance = all->m2 / all->count;
        update_running(job, 3, channel, mean);
        update_running(job, 4, channel, all->m2 / (all->count - 1));
    } else {
        mean = running_of(job, 3, channel);
        variance = running_of(job, 4, channel);
    }
    const double rstd = 1 / sqrt(variance + job->attr->eps);
    const double weight = job->weight != NULL ? cpu_stat_at(job->weight, job->dtype, channel) : 1;
    const double bias = job->bias != NULL ? cpu_stat_at(job->bias, job->dtype, channel) : 0;
    cpu_stat_set(job->call->out[1]->data, job->dtype, channel, mean);
    cpu_stat_set(job->call->out[2]->data, job->dtype, channel, rstd);
    set_stat(job, job->mean, channel, mean);
    set_stat(job, job->scale, channel, rstd * weight);
    set_stat(job, job->shift, channel, bias);
}

/* ---- forward ---------------------------------------------------------------------------------- */

static void run_planes(void *context, int64_t begin, int64_t end)
{
    norm_job *job = context;
    for (int64_t channel = begin; channel < end; channel++) {
        moments all = { 0 };
        if (job->attr->training)
            all = plane_moments(job, channel);
        settle_channel(job, channel, &all);
        const cpu_norm_block block = channel_block(job, channel);
        CPU_ISA_PICK(cpu_planes_apply)(&block);
    }
    if (job->stream)
        cpu_stream_end();
}

static void run_column_apply(void *context, int64_t begin, int64_t end)
{
    const norm_job *job = context;
    for (int64_t slab = begin; slab < end; slab++) {
        const cpu_norm_block block = slab_block(job, slab);
        CPU_ISA_PICK(cpu_columns_apply)(&block);
    }
    if (job->stream)
        cpu_stream_end();
}

static void forward_columns(norm_job *job)
{
    if (job->attr->training)
        run(job, 1, NULL, run_column_moments);
    memset(job->sums, 0, (size_t)job->channels * 2 * sizeof *job->sums);
    if (job->attr->training)
        merge_slabs(job);
    for (int64_t channel = 0; channel < job->channels; channel++) {
        const moments all = { (double)job->count, job->sums[channel],
                              job->sums[job->channels + channel] };
        settle_channel(job, channel, &all);
    }
    run(job, 2, NULL, run_column_apply);
}

/* An empty batch has no statistics, and leaves the running ones alone. */
static tern_status_t forward_empty(const norm_job *job)
{
    for (int64_t channel = 0; channel < job->channels; channel++)
        for (int i = 1; i < 3; i++)
            cpu_stat_set(job->call->out[i]->data, job->dtype, channel, NAN);
    return TERN_OK;
}

tern_status_t cpu_batch_norm(const tern_call *call)
{
    norm_job job = { .call = call, .attr = call->attr, .out = call->out[0]->data };
    set_geometry(&job, call->in[0]);
    if (job.count == 0)
        return forward_empty(&job);
    if (!get_arrays(&job) || !cpu_stat_of(call, call->in[1], &job.weight) ||
        !cpu_stat_of(call, call->in[2], &job.bias))
        return TERN_ERR_OOM;
    if (job.plane > 0)
        run(&job, 2, run_planes, NULL);
    else
        forward_columns(&job);
    return TERN_OK;
}

/* ---- gradient --------------------------------------------------------------------------------- */

/* Of one channel: sums of the gradient and of gradient (x - mean). */
typedef struct grad_sums {
    double sum, product;
} grad_sums;

static grad_sums plane_sums(const norm_job *job, int64_t channel)
{
    grad_sums all = { 0 };
    cpu_norm_block block;
    int64_t at = 0;
    while (next_piece(job, channel, &at, &block)) {
        double sum, product; /* memory for one stat each */
        block.mean = stat_place(job, job->mean, channel);
        CPU_ISA_PICK(cpu_planes_sums)(&block, &sum, &product);
        all.sum += cpu_stat_at(&sum, job->dtype, 0);
        all.product += cpu_stat_at(&product, job->dtype, 0);
    }
    return all;
}

static void run_column_sums(void *context, int64_t begin, int64_t end)
{
    const norm_job *job = context;
    for (int64_t slab = begin; slab < end; slab++) {
        const cpu_norm_block block = slab_block(job, slab);
        char *partial = slab_partial(job, slab);
        CPU_ISA_PICK(cpu_columns_sums)(&block, partial, stat_place(job, partial, job->columns));
    }
}

static void add_slabs(const norm_job *job)
{
    double *sum = job->sums;
    double *product = job->sums + job->channels;
    for (int64_t slab = 0; slab < job->slabs + (job->left > 0); slab++) {
        const char *partial = slab_partial(job, slab);
        const int64_t n = slab < job->slabs ? job->columns : job->channels;
        for (int64_t first = 0; first < n; first += job->channels)
            for (int64_t c = 0; c < job->channels; c++) {
                sum[c] += cpu_stat_at(partial, job->dtype, first + c);
                product[c] += cpu_stat_at(partial, job->dtype, job->columns + first + c);
            }
    }
}

static void store_parameter_grad(const norm_job *job, int output, int64_t channel, double value)
{
    const tern_view *view = job->call->out[output];
    cpu_store_f64((char *)view->data + channel * cpu_dtype_size(view->dtype), view->dtype, value);
}

/* Gradients of the parameters, and what `grad` needs. */
static void settle_gradient(norm_job *job, int64_t channel, const grad_sums *all)
{
    const double rstd = cpu_stat_at(job->rstd, job->dtype, channel);
    const double weight = job->weight != NULL ? cpu_stat_at(job->weight, job->dtype, channel) : 1;
    const double scale = rstd * weight;
    const double share = job->attr->training ? scale / (double)job->count : 0;
    store_parameter_grad(job, 1, channel, all->product * rstd);
    store_parameter_grad(job, 2, channel, all->sum);
    set_stat(job, job->scale, channel, scale);
    set_stat(job, job->shift, channel, share * all->sum);
    set_stat(job, job->slope, channel, share * all->product * rstd * rstd);
}

static void run_plane_grads(void *context, int64_t begin, int64_t end)
{
    norm_job *job = context;
    for (int64_t channel = begin; channel < end; channel++) {
        const grad_sums all = plane_sums(job, channel);
        settle_gradient(job, channel, &all);
        const cpu_norm_block block = channel_block(job, channel);
        CPU_ISA_PICK(cpu_planes_grad)(&block);
    }
    if (job->stream)
        cpu_stream_end();
}

static void run_column_grads(void *context, int64_t begin, int64_t end)
{
    const norm_job *job = context;
    for (int64_t slab = begin; slab < end; slab++) {
        const cpu_norm_block block = slab_block(job, slab);
        CPU_ISA_PICK(cpu_columns_grad)(&block);
    }
    if (job->stream)
        cpu_stream_end();
}

static void backward_columns(norm_job *job)
{
    run(job, 2, NULL, run_column_sums);
    memset(job->sums, 0, (size_t)job->channels * 2 * sizeof *job->sums);
    add_slabs(job);
    for (int64_t channel = 0; channel < job->channels; channel++) {
        const grad_sums all = { job->sums[channel], job->sums[job->channels + channel] };
        settle_gradient(job, channel, &all);
    }
    run(job, 3, NULL, run_column_grads);
}

/* The gradient in x's layout: its own memory, or copied to scratch. */
static tern_status_t align_gradient(norm_job *job, const tern_view *grad, const tern_view *x)
{
    job->grad = grad->data;
    if (cpu_same_layout(grad, x))
        return TERN_OK;
    tern_view copy = *x;
    copy.data = job->call->host->scratch(job->call, x->numel * job->size);
    if (copy.data == NULL)
        return TERN_ERR_OOM;
    const tern_view *in[1] = { grad };
    const tern_view *out[1] = { &copy };
    tern_call call = *job->call;
    call.n_in = 1;
    call.n_out = 1;
    call.in = in;
    call.out = out;
    call.attr = NULL;
    job->grad = copy.data;
    return cpu_copy(&call);
}

tern_status_t cpu_batch_norm_grad(const tern_call *call)
{
    norm_job job = { .call = call, .attr = call->attr, .out = call->out[0]->data };
    set_geometry(&job, call->in[1]);
    if (job.count == 0) {
        cpu_stat_add_up(call->out[1], NULL, job.dtype, 0, 0);
        cpu_stat_add_up(call->out[2], NULL, job.dtype, 0, 0);
        return TERN_OK;
    }
    if (!get_arrays(&job) || !cpu_stat_of(call, call->in[2], &job.weight))
        return TERN_ERR_OOM;
    const tern_status_t status = align_gradient(&job, call->in[0], call->in[1]);
    if (status != TERN_OK)
        return status;
    job.rstd = call->in[4]->data;
    for (int64_t channel = 0; channel < job.channels; channel++)
        set_stat(&job, job.mean, channel, cpu_stat_at(call->in[3]->data, job.dtype, channel));
    if (job.plane > 0)
        run(&job, 3, run_plane_grads, NULL);
    else
        backward_columns(&job);
    return TERN_OK;
}
