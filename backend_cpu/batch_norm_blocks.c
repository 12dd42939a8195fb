/* Cutting batch_norm into blocks. */
#include "backend_cpu/batch_norm.h"
#include "backend_cpu/caches.h"

enum {
    PLANE_BLOCK = 16384,  /* elements of a channel: still in a cache when they are read again */
    SLAB_BYTES = 1 << 18, /* the same for rows */
    SLAB_ROWS = 64,       /* at least: a slab leaves two stat per column behind */
    VECTOR = 16,          /* folded columns are a multiple of this ... */
    FOLDED = 64           /* ... and at least so many */
};

static int64_t fold_of(int64_t channels, int64_t count)
{
    if (channels >= FOLDED)
        return 1;
    int64_t fold = 1;
    while (channels * fold % VECTOR != 0 || channels * fold < FOLDED)
        fold *= 2;
    return fold <= count ? fold : 1;
}

static void set_columns(cpu_norm_job *job)
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

void cpu_norm_set_geometry(cpu_norm_job *job, const tern_view *x, int read)
{
    job->x = x->data;
    job->dtype = x->dtype;
    job->size = cpu_dtype_size(x->dtype);
    job->stream = cpu_writes_past(read * x->numel * job->size, x->numel * job->size);
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

bool cpu_norm_get_arrays(cpu_norm_job *job)
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

void cpu_norm_run(cpu_norm_job *job, int streams, cpu_range_fn planes, cpu_range_fn columns)
{
    const int64_t numel = job->count * job->channels;
    const int64_t bytes = numel * job->size * streams;
    if (job->plane > 0)
        cpu_rows_run(job->call, bytes, numel * 8, job->channels, cpu_rows_grain(job->count), planes,
                     job);
    else
        cpu_rows_run(job->call, bytes, numel * 8, job->slabs + (job->left > 0), 1, columns, job);
}

void *cpu_norm_place(const cpu_norm_job *job, void *stat, int64_t i)
{
    return (char *)stat + i * cpu_stat_size(job->dtype);
}

void cpu_norm_set_stat(const cpu_norm_job *job, void *stat, int64_t channel, double value)
{
    for (int64_t k = 0; k < job->fold; k++)
        cpu_stat_set(stat, job->dtype, k * job->channels + channel, value);
}

/* A block of x, grad and out from an element on. */
static cpu_norm_block block_at(const cpu_norm_job *job, int64_t element)
{
    cpu_norm_block block = { .dtype = job->dtype, .stream = job->stream };
    const int64_t bytes = element * job->size;
    block.x = (const char *)job->x + bytes;
    block.grad = job->grad != NULL ? (const char *)job->grad + bytes : NULL;
    block.out = (char *)job->out + bytes;
    return block;
}

cpu_norm_block cpu_norm_slab(const cpu_norm_job *job, int64_t slab)
{
    const int64_t first = slab < job->slabs ? slab * job->slab : job->rows;
    cpu_norm_block block = block_at(job, first * job->columns);
    block.n = slab < job->slabs ? job->columns : job->channels;
    block.count = slab == job->slabs              ? job->left
                  : first + job->slab > job->rows ? job->rows - first
                                                  : job->slab;
    block.mean = job->mean;
    block.scale = job->scale;
    block.shift = job->shift;
    block.slope = job->slope;
    return block;
}

char *cpu_norm_partial(const cpu_norm_job *job, int64_t slab)
{
    return job->partial + slab * 2 * job->columns * cpu_stat_size(job->dtype);
}

bool cpu_norm_next_piece(const cpu_norm_job *job, int64_t channel, int64_t *at,
                         cpu_norm_block *block)
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

cpu_norm_block cpu_norm_channel(const cpu_norm_job *job, int64_t channel)
{
    cpu_norm_block block = block_at(job, channel * job->plane);
    block.stride = job->channels * job->plane;
    block.count = job->images;
    block.n = job->plane;
    block.mean = cpu_norm_place(job, job->mean, channel);
    block.scale = cpu_norm_place(job, job->scale, channel);
    block.shift = cpu_norm_place(job, job->shift, channel);
    block.slope = cpu_norm_place(job, job->slope, channel);
    return block;
}
