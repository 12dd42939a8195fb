/* cross_entropy and its gradient: logits [C], [N, C] or [N, C, ...], row-major. Targets are checked
 * before anything is written. The loss adds up in chunks that do not depend on the threads. */
#include "backend_cpu/caches.h"
#include "backend_cpu/convert.h"
#include "backend_cpu/kernels.h"
#include "backend_cpu/rows.h"
#include "tern/op_attr.h"

enum { CHUNKS = 64 };

typedef struct loss_job {
    cpu_loss_args args;
    int64_t positions;
    int64_t units;
    double partial[CHUNKS];
} loss_job;

static void set_extents(loss_job *job, const tern_view *x, const tern_attr_loss *attr)
{
    cpu_loss_args *args = &job->args;
    args->x = x->data;
    args->dtype = x->dtype;
    const int64_t bytes = x->numel * cpu_dtype_size(x->dtype);
    args->stream = cpu_writes_past(bytes, bytes);
    args->blocks = x->ndim > 1 ? x->shape[0] : 1;
    args->classes = x->shape[x->ndim > 1 ? 1 : 0];
    args->inner = 1;
    for (int d = 2; d < x->ndim; d++)
        args->inner *= x->shape[d];
    args->smoothing = attr->label_smoothing;
    args->ignore_index = attr->ignore_index;
    job->positions = args->blocks * args->inner;
    job->units = job->positions > 0 ? cpu_loss_units(args) : 0;
}

/* ---- weights and targets --------------------------------------------------------------------- */

/* False after recording an error. */
static bool set_weight(const tern_call *call, loss_job *job, const tern_view *weight)
{
    cpu_loss_args *args = &job->args;
    args->weight_sum = (double)args->classes;
    if (!cpu_stat_of(call, weight, &args->weight))
        return false;
    if (weight != NULL)
        args->weight_sum = 0;
    for (int64_t c = 0; weight != NULL && c < args->classes; c++)
        args->weight_sum += cpu_stat_at(args->weight, args->dtype, c);
    return true;
}

/* Sum of the weights of the targets that count. */
static double total_weight(const loss_job *job)
{
    const int64_t *target = job->args.target;
    const int64_t ignored = job->args.ignore_index;
    if (job->args.weight == NULL) {
        int64_t count = 0;
        for (int64_t i = 0; i < job->positions; i++)
            count += target[i] != ignored;
        return (double)count;
    }
    double sum = 0;
    for (int64_t i = 0; i < job->positions; i++)
        if (target[i] != ignored)
            sum += cpu_stat_at(job->args.weight, job->args.dtype, target[i]);
    return sum;
}

static bool targets_in_range(const loss_job *job)
{
    const int64_t *target = job->args.target;
    const uint64_t classes = (uint64_t)job->args.classes;
    const int64_t ignored = job->args.ignore_index;
    uint64_t bad = 0;
    for (int64_t i = 0; i < job->positions; i++)
        bad |= (uint64_t)((uint64_t)target[i] >= classes) & (uint64_t)(target[i] != ignored);
    return bad == 0;
}

static tern_status_t bad_target(const tern_call *call, const loss_job *job)
{
    const int64_t *target = job->args.target;
    const int64_t classes = job->args.classes;
    int64_t i = 0;
    while (i < job->positions &&
           ((target[i] >= 0 && target[i] < classes) || target[i] == job->args.ignore_index))
        i++;
    return call->host->fail(TERN_ERR_INDEX,
                            "target %lld at position %lld is no class; there are %lld classes, "
                            "numbered from 0, and %lld is ignored",
                            (long long)target[i], (long long)i, (long long)classes,
                            (long long)job->args.ignore_index);
}

/* ---- forward --------------------------------------------------------------------------------- */

static void run_forward(void *context, int64_t begin, int64_t end)
{
    loss_job *job = context;
    const int64_t chunks = job->units < CHUNKS ? job->units : CHUNKS;
    for (int64_t k = begin; k < end; k++)
        job->partial[k] = CPU_ISA_PICK(cpu_loss_units_forward)(&job->args, job->units * k / chunks,
                                                               job->units * (k + 1) / chunks);
}

/* Time goes with the logits. */
static void run_units(const tern_call *call, loss_job *job, int streams, int64_t count,
                      int64_t grain, cpu_range_fn run)
{
    const int64_t numel = job->positions * job->args.classes;
    cpu_rows_run(call, numel * cpu_dtype_size(job->args.dtype) * streams, numel * 25, count, grain,
                 run, job);
}

tern_status_t cpu_cross_entropy(const tern_call *call)
{
    const tern_attr_loss *attr = call->attr;
    loss_job job;
    set_extents(&job, call->in[0], attr);
    job.args.target = call->in[1]->data;
    job.args.lse = call->out[1]->data;
    const bool separate = attr->reduction == TERN_REDUCTION_NONE;
    job.args.out = separate ? call->out[0]->data : NULL;
    if (!targets_in_range(&job))
        return bad_target(call, &job);
    if (!set_weight(call, &job, call->in[2]))
        return TERN_ERR_OOM;
    const int64_t chunks = job.units < CHUNKS ? job.units : CHUNKS;
    if (chunks > 0)
        run_units(call, &job, 1, chunks, 1, run_forward);
    if (separate)
        return TERN_OK;
    double loss = 0;
    for (int64_t k = 0; k < chunks; k++)
        loss += job.partial[k];
    if (attr->reduction == TERN_REDUCTION_MEAN)
        loss /= total_weight(&job);
    cpu_store_f64(call->out[0]->data, job.args.dtype, loss);
    return TERN_OK;
}

/* ---- gradient -------------------------------------------------------------------------------- */

static void run_backward(void *context, int64_t begin, int64_t end)
{
    const loss_job *job = context;
    CPU_ISA_PICK(cpu_loss_units_backward)(&job->args, begin, end);
    if (job->args.stream)
        cpu_stream_end();
}

tern_status_t cpu_cross_entropy_grad(const tern_call *call)
{
    const tern_attr_loss *attr = call->attr;
    const tern_view *grad = call->in[0];
    loss_job job;
    set_extents(&job, call->in[1], attr);
    job.args.target = call->in[2]->data;
    job.args.lse = call->in[4]->data;
    job.args.out = call->out[0]->data;
    job.args.grad = NULL;
    job.args.scale = 0;
    if (call->out[0]->numel == 0)
        return TERN_OK;
    if (!targets_in_range(&job))
        return bad_target(call, &job);
    if (!set_weight(call, &job, call->in[3]))
        return TERN_ERR_OOM;
    if (attr->reduction == TERN_REDUCTION_NONE)
        job.args.grad = grad->data;
    else
        job.args.scale = cpu_load_f64(grad->data, grad->dtype);
    if (attr->reduction == TERN_REDUCTION_MEAN)
        job.args.scale /= total_weight(&job);
    run_units(call, &job, 2, job.units, cpu_rows_grain(job.args.classes * CPU_LOSS_UNIT),
              run_backward);
    return TERN_OK;
}
