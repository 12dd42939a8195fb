/* dropout: the uniform of element i is that of draw (seed, call), element i, whatever the device
 * and the number of threads; an element stays where its uniform is p or more. */
#include <math.h>

#include "backend_cpu/kernels.h"
#include "backend_cpu/rows.h"
#include "tern/op_attr.h"

typedef struct dropout_job {
    const tern_attr_dropout *attr;
    const char *x;
    char *y;
    uint8_t *mask;
    int dtype;
    int64_t size;
    int32_t least; /* p in the units of uniforms, 2^-24, rounded up */
    double scale;  /* 0 where nothing stays */
} dropout_job;

static void run_apply(void *context, int64_t begin, int64_t end)
{
    const dropout_job *job = context;
    float wide[CPU_BLOCK];
    for (int64_t i = begin; i < end; i += CPU_BLOCK) {
        const int64_t n = end - i < CPU_BLOCK ? end - i : CPU_BLOCK;
        const void *x = job->x + i * job->size;
        void *y = job->y + i * job->size;
        const float scale = (float)job->scale;
        if (job->dtype == TERN_F64) {
            CPU_ISA_PICK(cpu_dropout_apply_f64)(y, x, job->mask + i, job->scale, n);
        } else if (job->dtype == TERN_F32) {
            CPU_ISA_PICK(cpu_dropout_apply_f32)(y, x, job->mask + i, scale, n);
        } else {
            cpu_to_f32(wide, x, job->dtype, n);
            CPU_ISA_PICK(cpu_dropout_apply_f32)(wide, wide, job->mask + i, scale, n);
            cpu_from_f32(y, job->dtype, wide, n);
        }
    }
}

static void run_forward(void *context, int64_t begin, int64_t end)
{
    const dropout_job *job = context;
    for (int64_t i = begin; i < end; i += CPU_BLOCK) {
        const int64_t next = i + CPU_BLOCK < end ? i + CPU_BLOCK : end;
        CPU_ISA_PICK(cpu_dropout_mask)
        (job->mask + i, job->attr->seed, job->attr->call, i, next - i, job->least);
        run_apply(context, i, next);
    }
}

static tern_status_t run(const tern_call *call, void *mask, cpu_range_fn range, int64_t flops)
{
    const tern_view *x = call->in[0];
    const tern_attr_dropout *attr = call->attr;
    dropout_job job = { .attr = attr, .x = x->data, .y = call->out[0]->data, .mask = mask };
    job.dtype = x->dtype;
    job.size = cpu_dtype_size(x->dtype);
    job.least = (int32_t)ceil(attr->p * 0x1p24);
    job.scale = attr->p < 1.0 ? 1.0 / (1.0 - attr->p) : 0.0;
    if (x->numel > 0)
        cpu_rows_run(call, x->numel * (2 * job.size + 1), x->numel * flops, x->numel, 8 * CPU_BLOCK,
                     range, &job);
    return TERN_OK;
}

tern_status_t cpu_dropout(const tern_call *call)
{
    _Static_assert(CPU_BLOCK % CPU_DROPOUT_GRAIN == 0, "blocks begin where the mask's words do");
    return run(call, call->out[1]->data, run_forward, 20);
}

tern_status_t cpu_dropout_grad(const tern_call *call)
{
    return run(call, call->in[1]->data, run_apply, 2);
}
