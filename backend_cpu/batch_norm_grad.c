/* The gradient of batch_norm: sums over each channel, then one pass. Sums add up in double, in an
 * order that does not depend on the threads. */
#include "backend_cpu/batch_norm.h"
#include "backend_cpu/convert.h"
#include "backend_cpu/kernels.h"

/* Of one channel: sums of the gradient and of gradient (x - mean). */
typedef struct grad_sums {
    double sum, product;
} grad_sums;

static grad_sums plane_sums(const cpu_norm_job *job, int64_t channel)
{
    grad_sums all = { 0 };
    cpu_norm_block block;
    int64_t at = 0;
    while (cpu_norm_next_piece(job, channel, &at, &block)) {
        double sum, product; /* memory for one stat each */
        block.mean = cpu_norm_place(job, job->mean, channel);
        CPU_ISA_PICK(cpu_planes_sums)(&block, &sum, &product);
        all.sum += cpu_stat_at(&sum, job->dtype, 0);
        all.product += cpu_stat_at(&product, job->dtype, 0);
    }
    return all;
}

static void run_column_sums(void *context, int64_t begin, int64_t end)
{
    const cpu_norm_job *job = context;
    for (int64_t slab = begin; slab < end; slab++) {
        const cpu_norm_block block = cpu_norm_slab(job, slab);
        char *partial = cpu_norm_partial(job, slab);
        CPU_ISA_PICK(cpu_columns_sums)(&block, partial, cpu_norm_place(job, partial, job->columns));
    }
}

static void add_slabs(const cpu_norm_job *job)
{
    double *sum = job->sums;
    double *product = job->sums + job->channels;
    for (int64_t slab = 0; slab < job->slabs + (job->left > 0); slab++) {
        const char *partial = cpu_norm_partial(job, slab);
        const int64_t n = slab < job->slabs ? job->columns : job->channels;
        for (int64_t first = 0; first < n; first += job->channels)
            for (int64_t c = 0; c < job->channels; c++) {
                sum[c] += cpu_stat_at(partial, job->dtype, first + c);
                product[c] += cpu_stat_at(partial, job->dtype, job->columns + first + c);
            }
    }
}

static void store_parameter_grad(const cpu_norm_job *job, int output, int64_t channel, double value)
{
    const tern_view *view = job->call->out[output];
    cpu_store_f64((char *)view->data + channel * cpu_dtype_size(view->dtype), view->dtype, value);
}

/* Gradients of the parameters, and what x's needs: evaluating, that is the gradient's scale alone, also
 * where x or a sum is not finite, and `apply` computes it. */
static void settle_gradient(cpu_norm_job *job, int64_t channel, const grad_sums *all)
{
    const double rstd = cpu_stat_at(job->rstd, job->dtype, channel);
    const double weight = job->weight != NULL ? cpu_stat_at(job->weight, job->dtype, channel) : 1;
    const double scale = rstd * weight;
    const double share = scale / (double)job->count;
    const bool training = job->attr->training;
    store_parameter_grad(job, 1, channel, all->product * rstd);
    store_parameter_grad(job, 2, channel, all->sum);
    cpu_norm_set_stat(job, job->scale, channel, scale);
    if (!training)
        cpu_norm_set_stat(job, job->mean, channel, 0);
    cpu_norm_set_stat(job, job->shift, channel, training ? share * all->sum : -0.0);
    cpu_norm_set_stat(job, job->slope, channel, share * all->product * rstd * rstd);
}

static void run_plane_grads(void *context, int64_t begin, int64_t end)
{
    cpu_norm_job *job = context;
    for (int64_t channel = begin; channel < end; channel++) {
        const grad_sums all = plane_sums(job, channel);
        settle_gradient(job, channel, &all);
        cpu_norm_block block = cpu_norm_channel(job, channel);
        if (job->attr->training) {
            CPU_ISA_PICK(cpu_planes_grad)(&block);
        } else {
            block.x = block.grad;
            CPU_ISA_PICK(cpu_planes_apply)(&block);
        }
    }
    if (job->stream)
        cpu_stream_end();
}

static void run_column_grads(void *context, int64_t begin, int64_t end)
{
    const cpu_norm_job *job = context;
    for (int64_t slab = begin; slab < end; slab++) {
        cpu_norm_block block = cpu_norm_slab(job, slab);
        if (job->attr->training) {
            CPU_ISA_PICK(cpu_columns_grad)(&block);
        } else {
            block.x = block.grad;
            CPU_ISA_PICK(cpu_columns_apply)(&block);
        }
    }
    if (job->stream)
        cpu_stream_end();
}

static void backward_columns(cpu_norm_job *job)
{
    cpu_norm_run(job, 2, NULL, run_column_sums);
    memset(job->sums, 0, (size_t)job->channels * 2 * sizeof *job->sums);
    add_slabs(job);
    for (int64_t channel = 0; channel < job->channels; channel++) {
        const grad_sums all = { job->sums[channel], job->sums[job->channels + channel] };
        settle_gradient(job, channel, &all);
    }
    cpu_norm_run(job, 3, NULL, run_column_grads);
}

/* The gradient in x's layout: its own memory, or copied to scratch. */
static tern_status_t align_gradient(cpu_norm_job *job, const tern_view *grad, const tern_view *x)
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
    cpu_norm_job job = { .call = call, .attr = call->attr, .out = call->out[0]->data };
    cpu_norm_set_geometry(&job, call->in[1], 2);
    if (job.count == 0) {
        cpu_stat_add_up(call->out[1], NULL, job.dtype, 0, 0);
        cpu_stat_add_up(call->out[2], NULL, job.dtype, 0, 0);
        return TERN_OK;
    }
    if (!cpu_norm_get_arrays(&job) || !cpu_stat_of(call, call->in[2], &job.weight))
        return TERN_ERR_OOM;
    const tern_status_t status = align_gradient(&job, call->in[0], call->in[1]);
    if (status != TERN_OK)
        return status;
    job.rstd = call->in[4]->data;
    for (int64_t channel = 0; channel < job.channels; channel++)
        cpu_norm_set_stat(&job, job.mean, channel,
                          cpu_stat_at(call->in[3]->data, job.dtype, channel));
    if (job.plane > 0)
        cpu_norm_run(&job, 3, run_plane_grads, NULL);
    else
        backward_columns(&job);
    return TERN_OK;
}
