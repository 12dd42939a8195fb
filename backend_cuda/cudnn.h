/* cuDNN behind a narrow interface: cudnn*.c alone call it (its classic calls are marked deprecated, so
 * that nothing else may depend on them), and no type of it is seen here.
 *
 * Each function hands the call's work to cuDNN on `stream` and sets *out_done. Where it stays false an
 * own kernel is to do the work, nothing having been queued: the library is not there or disabled
 * (tern_cudnn_set_enabled), the shape is not one that it takes, or it refused. Reasons other than the
 * user's wish are logged once each. An error is what cuDNN failed at. */
#ifndef TERN_BACKEND_CUDA_CUDNN_H
#define TERN_BACKEND_CUDA_CUDNN_H

#include "backend_cuda/launch.h"

/* Is it there and not disabled? Opens the library at the first call. */
bool cuda_dnn_usable(const tern_call *call);

/* "cuDNN 9.19.0", "" where it is not there; opens the library. */
const char *cuda_dnn_version(void);

typedef enum cuda_dnn_pass {
    CUDA_DNN_FORWARD,    /* (x, w) -> y */
    CUDA_DNN_GRAD_INPUT, /* (y, w) -> x */
    CUDA_DNN_GRAD_WEIGHT /* (x, y) -> w */
} cuda_dnn_pass;

/* x, w and y without gaps, all row-major or all channels last; strides of `shape` are not read. */
typedef struct cuda_dnn_conv {
    const cuda_conv_shape *shape;
    int dtype;
    bool channels_last;
    void *x, *w, *y;
} cuda_dnn_conv;
tern_status_t cuda_dnn_convolve(const tern_call *call, cudaStream_t stream, cuda_dnn_pass pass,
                                const cuda_dnn_conv *conv, bool *out_done);

/* Averages over windows inside the padded input; x and y as above. */
tern_status_t cuda_dnn_average(const tern_call *call, cudaStream_t stream,
                               const cuda_pool_shape *shape, int dtype, bool channels_last,
                               const void *x, void *y, bool *out_done);

/* x (and the gradient) row-major. Evaluating, `mean` and `rstd` are not made. */
tern_status_t cuda_dnn_normalise(const tern_call *call, cudaStream_t stream,
                                 const cuda_norm_args *args, bool *out_done);
/* Training only. */
tern_status_t cuda_dnn_normalise_grad(const tern_call *call, cudaStream_t stream,
                                      const cuda_norm_args *args, bool *out_done);

#endif
