/* batch_norm. Statistics of a block are about the block's own mean and merged in double, in an
 * order that does not depend on the threads. */
#include "backend_cpu/batch_norm.h"

#include <math.h>

#include "backend_cpu/convert.h"
#include "backend_cpu/kernels.h"

/* ---- statistics ------------------------------------------------------------------------------ */

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

static moments plane_moments(const cpu_norm_job *job, int64_t channel)
{
    moments all = { 0 };
    cpu_norm_block block;
    int64_t at = 0;
    while (cpu_norm_next_piece(job, channel, &at, &block)) {
        double mean, m2; /* memory for one stat each */
        CPU_ISA_PICK(cpu_planes_moments)(&block, &mean, &m2);
        merge(&all, (double)(block.count * block.n), cpu_stat_at(&mean, job->dtype, 0),
              cpu_stat_at(&m2, job->dtype, 0));
    }
    return all;
}

static void run_column_moments(void *context, int64_t begin, int64_t end)
{
    const cpu_norm_job *job = context;
    for (int64_t slab = begin; slab < end; slab++) {
        const cpu_norm_block block = cpu_norm_slab(job, slab);
        char *partial = cpu_norm_partial(job, slab);
        CPU_ISA_PICK(cpu_columns_moments)
        (&block, partial, cpu_norm_place(job, partial, job->columns));
    }
}

/* Merges a slab's statistics of `channels` columns, which stand for `count` rows each. */
static void merge_columns(const cpu_norm_job *job, const char *partial, int64_t first,
                          double before, double count)
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

static void merge_slabs(const cpu_norm_job *job)
{
    double before = 0;
    for (int64_t slab = 0; slab < job->slabs + (job->left > 0); slab++) {
        const cpu_norm_block block = cpu_norm_slab(job, slab);
        for (int64_t first = 0; first < block.n; first += job->channels) {
            merge_columns(job, cpu_norm_partial(job, slab), first, before, (double)block.count);
            before += (double)block.count;
        }
    }
}

static double running_of(const cpu_norm_job *job, int input, int64_t channel)
{
    const tern_view *view = job->call->in[input];
    return cpu_load_f64((char *)view->data + channel * cpu_dtype_size(view->dtype), view->dtype);
}

static void update_running(const cpu_norm_job *job, int input, int64_t channel, double value)
{
    const tern_view *view = job->call->in[input];
    if (view == NULL)
        return;
    const double m = job->attr->momentum;
    const double updated = (1 - m) * running_of(job, input, channel) + m * value;
    cpu_store_f64((char *)view->data + channel * cpu_dtype_size(view->dtype), view->dtype, updated);
}

/* Writes outputs 1 and 2, the running statistics and what `apply` needs. */
static void settle_channel(cpu_norm_job *job, int64_t channel, const moments *all)
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
    cpu_norm_set_stat(job, job->mean, channel, mean);
    cpu_norm_set_stat(job, job->scale, channel, rstd * weight);
    cpu_norm_set_stat(job, job->shift, channel, bias);
}

/* ---- forward --------------------------------------------------------------------------------- */

static void run_planes(void *context, int64_t begin, int64_t end)
{
    cpu_norm_job *job = context;
    for (int64_t channel = begin; channel < end; channel++) {
        moments all = { 0 };
        if (job->attr->training)
            all = plane_moments(job, channel);
        settle_channel(job, channel, &all);
        const cpu_norm_block block = cpu_norm_channel(job, channel);
        CPU_ISA_PICK(cpu_planes_apply)(&block);
    }
    if (job->stream)
        cpu_stream_end();
}

static void run_column_apply(void *context, int64_t begin, int64_t end)
{
    const cpu_norm_job *job = context;
    for (int64_t slab = begin; slab < end; slab++) {
        const cpu_norm_block block = cpu_norm_slab(job, slab);
        CPU_ISA_PICK(cpu_columns_apply)(&block);
    }
    if (job->stream)
        cpu_stream_end();
}

static void forward_columns(cpu_norm_job *job)
{
    if (job->attr->training)
        cpu_norm_run(job, 1, NULL, run_column_moments);
    memset(job->sums, 0, (size_t)job->channels * 2 * sizeof *job->sums);
    if (job->attr->training)
        merge_slabs(job);
    for (int64_t channel = 0; channel < job->channels; channel++) {
        const moments all = { (double)job->count, job->sums[channel],
                              job->sums[job->channels + channel] };
        settle_channel(job, channel, &all);
    }
    cpu_norm_run(job, 2, NULL, run_column_apply);
}

/* An empty batch has no statistics, and leaves the running ones alone. */
static tern_status_t forward_empty(const cpu_norm_job *job)
{
    for (int64_t channel = 0; channel < job->channels; channel++)
        for (int i = 1; i < 3; i++)
            cpu_stat_set(job->call->out[i]->data, job->dtype, channel, NAN);
    return TERN_OK;
}

tern_status_t cpu_batch_norm(const tern_call *call)
{
    cpu_norm_job job = { .call = call, .attr = call->attr, .out = call->out[0]->data };
    cpu_norm_set_geometry(&job, call->in[0], 1);
    if (job.count == 0)
        return forward_empty(&job);
    if (!cpu_norm_get_arrays(&job) || !cpu_stat_of(call, call->in[1], &job.weight) ||
        !cpu_stat_of(call, call->in[2], &job.bias))
        return TERN_ERR_OOM;
    if (job.plane > 0)
        cpu_norm_run(&job, 2, run_planes, NULL);
    else
        forward_columns(&job);
    return TERN_OK;
}
