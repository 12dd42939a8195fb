/* Images [n, c, h, w] in one of two layouts: row-major, or channels last. */
#ifndef TERN_BACKEND_CUDA_IMAGE_H
#define TERN_BACKEND_CUDA_IMAGE_H

#include "backend_cuda/cuda.h"

/* Does it lie so, without gaps? Dimensions of extent 1 may have any stride, so both may be true. */
bool cuda_image_lies(const tern_view *view, bool channels_last);
/* Does it lie so at a multiple of 16 bytes? cuDNN wants that of convolutions for tensor cores. */
bool cuda_image_is_ready(const tern_view *view, bool channels_last);
/* Its elements in that layout, at such an address: itself, or a copy in scratch memory. */
tern_status_t cuda_image_as(const tern_call *call, cudaStream_t stream, const tern_view *view,
                            bool channels_last, void **out_data);
/* Copies elements that lie at `data` in that layout to the view. */
tern_status_t cuda_image_from(const tern_call *call, cudaStream_t stream, const tern_view *view,
                              bool channels_last, void *data);

#endif
