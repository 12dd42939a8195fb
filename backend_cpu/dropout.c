/* dropout: the uniform of element i is that of draw (seed, call), element i, whatever the device and
 * the number of threads; an element stays where its uniform is p or more. */
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
    float p;      /* the least uniform that stays: uniforms are multiples of 2^-24 */
    double scale; /* 0 where nothing stays */
} dropout_job;

static void run_forward(void *context, int64_t begin, int64_t end)
{
    const dropout_job *job = context;
    const tern_attr_dropout *attr = job->attr;
    float uniform[CPU_BLOCK], wide[CPU_BLOCK];
    for (int64_t i = begin; i < end; i += CPU_BLOCK) {
        const int64_t n = end - i < CPU_BLOCK ? end - i : CPU_BLOCK;
        const void *x = job->x + i * job->size;
        void *y = job->y + i * job->size;
        cpu_uniform_f32(uniform, attr->seed, attr->call, i, n);
        if (job->dtype == TERN_F64) {
            CPU_ISA_PICK(cpu_dropout_f64)(y, job->mask + i, x, uniform, job->p, job->scale, n);
        } else if (job->dtype == TERN_F32) {
            CPU_ISA_PICK(cpu_dropout_f32)(y, job->mask + i, x, uniform, job->p,
                                          (float)job->scale, n);
        } else {
            cpu_to_f32(wide, x, job->dtype, n);
            CPU_ISA_PICK(cpu_dropout_f32)(wide, job->mask + i, wide, uniform, job->p,
                                          (float)job->scale, n);
            cpu_from_f32(y, job->dtype, wide, n);
        }
    }
}

static void run_backward(void *context, int64_t begin, int64_t end)
{
    const dropout_job *job = context;
    float wide[CPU_BLOCK];
    for (int64_t i = begin; i < end; i += CPU_BLOCK) {
        const int64_t n = end - i < CPU_BLOCK ? end - i : CPU_BLOCK;
        const void *g = job->x + i * job->size;
        void *gx = job->y + i * job->size;
        if (job->dtype == TERN_F64) {
            CPU_ISA_PICK(cpu_dropout_grad_f64)(gx, g, job->mask + i, job->scale, n);
        } else if (job->dtype == TERN_F32) {
            CPU_ISA_PICK(cpu_dropout_grad_f32)(gx, g, job->mask + i, (float)job->scale, n);
        } else {
            cpu_to_f32(wide, g, job->dtype, n);
            CPU_ISA_PICK(cpu_dropout_grad_f32)(wide, wide, job->mask + i, (float)job->scale, n);
            cpu_from_f32(gx, job->dtype, wide, n);
        }
    }
}

static tern_status_t run(const tern_call *call, void *mask, cpu_range_fn range, int64_t flops)
{
    const tern_view *x = call->in[0];
    const tern_attr_dropout *attr = call->attr;
    dropout_job job = { .attr = attr, .x = x->data, .y = call->out[0]->data, .mask = mask };
    job.dtype = x->dtype;
    job.size = cpu_dtype_size(x->dtype);
    job.p = (float)(ceil(attr->p * 0x1p24) * 0x1p-24);
    job.scale = attr->p < 1.0 ? 1.0 / (1.0 - attr->p) : 0.0;
    if (x->numel > 0)
        cpu_rows_run(call, x->numel * (2 * job.size + 1), x->numel * flops, x->numel, 8 * CPU_BLOCK,
                     range, &job);
    return TERN_OK;
}

tern_status_t cpu_dropout(const tern_call *call)
{
    return run(call, call->out[1]->data, run_forward, 20);
}

tern_status_t cpu_dropout_grad(const tern_call *call)
{
    return run(call, call->in[1]->data, run_backward, 2);
}
