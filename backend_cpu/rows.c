/* Parameters and partial sums of kernels over rows. */
#include "backend_cpu/rows.h"

bool cpu_stat_of(const tern_call *call, const tern_view *view, const void **out_stat)
{
    *out_stat = NULL;
    if (view == NULL)
        return true;
    *out_stat = view->data;
    if (!cpu_is_half(view->dtype) || view->numel == 0)
        return true;
    float *wide = call->host->scratch(call, view->numel * (int64_t)sizeof(float));
    if (wide == NULL)
        return false;
    cpu_to_f32(wide, view->data, view->dtype, view->numel);
    *out_stat = wide;
    return true;
}

#define ADD_UP(T)                       \
    for (int64_t k = 0; k < count; k++) \
        for (int64_t j = 0; j < n; j++) \
    sum[j] += (double)((const T *)stat)[k * step + first + j]

void cpu_stat_add_up(const tern_view *out, const void *stat, int dtype, int64_t count, int64_t step)
{
    enum { STRIP = 512 }; /* parts lie pages apart: few visits to each */
    const int64_t size = cpu_dtype_size(out->dtype);
    for (int64_t first = 0; first < out->numel; first += STRIP) {
        const int64_t n = out->numel - first < STRIP ? out->numel - first : STRIP;
        double sum[STRIP];
        memset(sum, 0, (size_t)n * sizeof *sum);
        if (dtype == TERN_F64)
            ADD_UP(double);
        else
            ADD_UP(float);
        cpu_converter(out->dtype, TERN_F64)((char *)out->data + first * size, sum, n);
    }
}
