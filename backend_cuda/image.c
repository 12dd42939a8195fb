/* Layouts of images. */
#include "backend_cuda/image.h"

#include "backend_cuda/launch.h"

/* The same elements at `data`, without gaps. */
static tern_view laid_out(const tern_view *view, bool channels_last, void *data)
{
    static const int orders[2][4] = { { 3, 2, 1, 0 }, { 1, 3, 2, 0 } };
    tern_view laid = *view;
    int64_t step = 1;
    for (int i = 0; i < 4; i++) {
        const int d = orders[channels_last][i];
        laid.stride[d] = step;
        step *= view->shape[d];
    }
    laid.data = data;
    return laid;
}

bool cuda_image_lies(const tern_view *view, bool channels_last)
{
    const tern_view laid = laid_out(view, channels_last, view->data);
    for (int d = 0; d < 4; d++)
        if (view->shape[d] != 1 && view->stride[d] != laid.stride[d])
            return false;
    return true;
}

bool cuda_image_is_ready(const tern_view *view, bool channels_last)
{
    return ((uintptr_t)view->data & 15) == 0 && cuda_image_lies(view, channels_last);
}

static tern_status_t copy(const tern_call *call, cudaStream_t stream, const tern_view *to,
                          const tern_view *from)
{
    const tern_view *views[2] = { to, from };
    const int64_t size = cuda_dtype_size(to->dtype), parts = cuda_walk_parts(2, views);
    for (int64_t i = 0; i < parts; i++) {
        cuda_walk_part part;
        cuda_walk_plan(2, views, i, &part);
        CUDA_TRY(cuda_launched(call,
                               cuda_launch_copy((char *)to->data + part.offset[0] * size, to->dtype,
                                                (const char *)from->data + part.offset[1] * size,
                                                from->dtype, &part.walk, stream),
                               "change of layout"));
    }
    return TERN_OK;
}

tern_status_t cuda_image_as(const tern_call *call, cudaStream_t stream, const tern_view *view,
                            bool channels_last, void **out_data)
{
    *out_data = view->data;
    if (cuda_image_is_ready(view, channels_last))
        return TERN_OK;
    *out_data = cuda_scratch(call, view->numel * cuda_dtype_size(view->dtype));
    if (*out_data == NULL)
        return TERN_ERR_OOM;
    const tern_view laid = laid_out(view, channels_last, *out_data);
    return copy(call, stream, &laid, view);
}

tern_status_t cuda_image_from(const tern_call *call, cudaStream_t stream, const tern_view *view,
                              bool channels_last, void *data)
{
    const tern_view laid = laid_out(view, channels_last, data);
    return copy(call, stream, view, &laid);
}
