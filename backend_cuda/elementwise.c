/* Elementwise ops: walks are planned, host numbers found, and each part launched. */
#include "backend_cuda/elementwise.h"

#include <math.h>
#include <string.h>

#include "backend_cuda/cuda.h"
#include "backend_cuda/kernels.h"

typedef cudaError_t (*launch_fn)(const cuda_elements *e, cudaStream_t stream);

/* Half types as their bits say; no library of conversions for two numbers. */
static double half_value(uint16_t bits, bool bf16)
{
    if (bf16) {
        const uint32_t wide = (uint32_t)bits << 16;
        float f;
        memcpy(&f, &wide, sizeof f);
        return (double)f;
    }
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double size = exponent == 31  ? (fraction != 0 ? (double)NAN : (double)INFINITY)
                        : exponent == 0 ? ldexp(fraction, -24)
                                        : ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 ? -size : size;
}

cuda_number cuda_number_of(const tern_view *view)
{
    const void *at = view->data;
    switch (view->dtype) {
    case TERN_F64:
        return (cuda_number){ true, false, *(const double *)at, 0 };
    case TERN_F32:
        return (cuda_number){ true, false, (double)*(const float *)at, 0 };
    case TERN_F16:
    case TERN_BF16:
        return (cuda_number){ true, false,
                              half_value(*(const uint16_t *)at, view->dtype == TERN_BF16), 0 };
    case TERN_I64:
        return (cuda_number){ true, true, 0, *(const int64_t *)at };
    case TERN_I32:
        return (cuda_number){ true, true, 0, *(const int32_t *)at };
    case TERN_I16:
        return (cuda_number){ true, true, 0, *(const int16_t *)at };
    case TERN_I8:
        return (cuda_number){ true, true, 0, *(const int8_t *)at };
    default:
        return (cuda_number){ true, true, 0, *(const uint8_t *)at };
    }
}

static const char *at_offset(const void *data, int64_t elements, int64_t size)
{
    return data != NULL ? (const char *)data + elements * size : NULL;
}

/* Does every operand that is no number lie as the result does, without gaps? Of an input k < 2 one element may serve
 * all: bit k of *out_singles, where that is asked for. */
static bool is_linear(const cuda_walk *w, int operands, const tern_view *const *views,
                      int *out_singles)
{
    if (w->ndim == 0)
        return true;
    for (int k = 0; k < operands; k++) {
        const int64_t step = w->stride[0][k];
        if (views[k]->dev.kind == TERN_KIND_CPU || step == 1)
            continue;
        if (step != 0 || out_singles == NULL || k < 1 || k > 2)
            return false;
        *out_singles |= 1 << (k - 1);
    }
    return w->ndim == 1;
}

static tern_status_t run(const tern_call *call, launch_fn launch, const char *name)
{
    cudaStream_t stream = NULL;
    const int operands = 1 + call->n_in;
    const tern_view *views[4] = { call->out[0] };
    for (int k = 0; k < call->n_in; k++)
        views[k + 1] = call->in[k];
    const int64_t parts = cuda_walk_parts(operands, views);
    if (parts == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter(call, &stream));
    for (int64_t i = 0; i < parts; i++) {
        cuda_walk_part part;
        cuda_walk_plan(operands, views, i, &part);
        const int64_t size = cuda_dtype_size(views[1]->dtype);
        cuda_elements e = { .walk = &part.walk, .dtype = views[1]->dtype };
        e.out = (char *)views[0]->data + part.offset[0] * cuda_dtype_size(views[0]->dtype);
        if (call->attr != NULL)
            e.attr = *(const tern_attr_numbers *)call->attr;
        for (int k = 1; k < operands; k++) {
            const bool number = views[k]->dev.kind == TERN_KIND_CPU;
            if (number)
                e.number[k - 1] = cuda_number_of(views[k]);
            e.in[k - 1] = number ? NULL : at_offset(views[k]->data, part.offset[k], size);
        }
        e.linear = is_linear(&part.walk, operands, views, &e.singles);
        CUDA_TRY(cuda_launched(call, launch(&e, stream), name));
    }
    return TERN_OK;
}

#define ELEMENT(name, shape, kinds, real, integer)   \
    tern_status_t cuda_##name(const tern_call *call) \
    {                                                \
        return run(call, cuda_launch_##name, #name); \
    }
#include "backend_cpu/elementwise.def"
#undef ELEMENT

tern_status_t cuda_where(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_view *views[4] = { call->out[0], call->in[0], call->in[1], call->in[2] };
    const int64_t parts = cuda_walk_parts(4, views);
    if (parts == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter(call, &stream));
    for (int64_t i = 0; i < parts; i++) {
        cuda_walk_part part;
        cuda_walk_plan(4, views, i, &part);
        const int64_t size = cuda_dtype_size(views[0]->dtype);
        cuda_where_args w = { .walk = &part.walk, .dtype = views[0]->dtype };
        w.out = (char *)views[0]->data + part.offset[0] * size;
        for (int k = 1; k < 4; k++) {
            const bool number = views[k]->dev.kind == TERN_KIND_CPU;
            if (number)
                w.number[k - 1] = cuda_number_of(views[k]);
            w.in[k - 1] =
                number ? NULL : at_offset(views[k]->data, part.offset[k], k == 1 ? 1 : size);
        }
        w.linear = is_linear(&part.walk, 4, views, NULL);
        CUDA_TRY(cuda_launched(call, cuda_launch_where(&w, stream), "where"));
    }
    return TERN_OK;
}
