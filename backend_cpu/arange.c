/* arange: out[i] = start + i * step. Integers wrap, floats are rounded once from double. linspace: the
 * same from both ends, always in double. Compiled without contraction to FMA: products are rounded before they are
 * added, on every processor and device. */
#include "backend_cpu/kernels.h"
#include "backend_cpu/strided.h"
#include "tern/op_attr.h"

typedef struct job {
    char *out;
    const void *attr;
    int dtype;
    bool real;
    cpu_convert_fn convert;
} job;

/* Numbers of 32 bits, which every CPU makes double in vectors; `begin` is below 2^53, so that the sum is exact. */
static void arange_real(double *out, const tern_attr_arange *attr, double begin, int n)
{
    const double start = attr->f_start, step = attr->f_step;
    for (int i = 0; i < n; i++)
        out[i] = start + (begin + (double)i) * step;
}

static void arange_whole(int64_t *out, const tern_attr_arange *attr, uint64_t begin, int n)
{
    const uint64_t step = (uint64_t)attr->i_step;
    uint64_t value = (uint64_t)attr->i_start + begin * step;
    for (int i = 0; i < n; i++, value += step)
        out[i] = (int64_t)value;
}

static void arange_range(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const tern_attr_arange *attr = j->attr;
    const int64_t size = cpu_dtype_size(j->dtype);
    union {
        double f[CPU_BLOCK];
        int64_t i[CPU_BLOCK];
    } block;
    for (; begin < end; begin += CPU_BLOCK) {
        const int n = (int)(end - begin < CPU_BLOCK ? end - begin : CPU_BLOCK);
        if (j->real)
            arange_real(block.f, attr, (double)begin, n);
        else
            arange_whole(block.i, attr, (uint64_t)begin, n);
        j->convert(j->out + begin * size, &block, n);
    }
}

static void linspace_range(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const tern_attr_linspace *attr = j->attr;
    const int64_t size = cpu_dtype_size(j->dtype), last = attr->steps - 1;
    const double step = last > 0 ? (attr->end - attr->start) / (double)last : 0;
    double block[CPU_BLOCK];
    for (; begin < end; begin += CPU_BLOCK) {
        const int64_t n = end - begin < CPU_BLOCK ? end - begin : CPU_BLOCK;
        for (int64_t i = 0; i < n; i++)
            block[i] = begin + i < attr->steps / 2 || last == 0
                           ? attr->start + step * (double)(begin + i)
                           : attr->end - step * (double)(last - begin - i);
        j->convert(j->out + begin * size, block, n);
    }
}

/* Row-major into the output, or by way of scratch memory. */
static tern_status_t run(const tern_call *call, cpu_range_fn range, bool real)
{
    const tern_view *out = call->out[0];
    const int64_t bytes = out->numel * cpu_dtype_size(out->dtype);
    job j = { .out = out->data,
              .attr = call->attr,
              .dtype = out->dtype,
              .real = real,
              .convert = cpu_converter(out->dtype, real ? TERN_F64 : TERN_I64) };
    if (bytes == 0)
        return TERN_OK;
    if (!cpu_is_contiguous(out)) {
        j.out = call->host->scratch(call, bytes);
        if (!j.out)
            return TERN_ERR_OOM;
    }
    cpu_parallel(cpu_threads(call, bytes, 0), out->numel, CPU_BLOCK * 8, range, &j);
    if (j.out != out->data)
        cpu_copy_row_major(out, j.out, out->dtype, call);
    return TERN_OK;
}

tern_status_t cpu_arange(const tern_call *call)
{
    return run(call, arange_range, tern_dtype_is_float((tern_dtype_t)call->out[0]->dtype));
}

tern_status_t cpu_linspace(const tern_call *call)
{
    return run(call, linspace_range, true);
}
