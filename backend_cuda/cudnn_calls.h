/* What the files that call cuDNN share (cudnn.c, cudnn_conv.c, cudnn_norm.c, cudnn_rnn.c); nobody else includes it. */
#ifndef TERN_BACKEND_CUDA_CUDNN_CALLS_H
#define TERN_BACKEND_CUDA_CUDNN_CALLS_H

#include <cudnn.h>

#include "backend_cuda/cudnn.h"
#include "tern/error.h"

/* clang-format off */
#define DNN_CALLS(X) \
    X(cudnnGetVersion) X(cudnnGetCudartVersion) X(cudnnGetErrorString) X(cudnnGetLastErrorString) X(cudnnCreate) X(cudnnSetStream) \
    X(cudnnCreateTensorDescriptor) X(cudnnSetTensor4dDescriptorEx) \
    X(cudnnDestroyTensorDescriptor) X(cudnnCreateFilterDescriptor) X(cudnnSetFilter4dDescriptor) \
    X(cudnnDestroyFilterDescriptor) X(cudnnCreateConvolutionDescriptor) \
    X(cudnnSetConvolution2dDescriptor) X(cudnnSetConvolutionGroupCount) \
    X(cudnnSetConvolutionMathType) X(cudnnDestroyConvolutionDescriptor) \
    X(cudnnCreatePoolingDescriptor) X(cudnnSetPooling2dDescriptor) \
    X(cudnnDestroyPoolingDescriptor) \
    X(cudnnGetConvolutionForwardAlgorithm_v7) X(cudnnFindConvolutionForwardAlgorithmEx) \
    X(cudnnGetConvolutionForwardWorkspaceSize) X(cudnnConvolutionForward) \
    X(cudnnGetConvolutionBackwardDataAlgorithm_v7) X(cudnnFindConvolutionBackwardDataAlgorithmEx) \
    X(cudnnGetConvolutionBackwardDataWorkspaceSize) X(cudnnConvolutionBackwardData) \
    X(cudnnGetConvolutionBackwardFilterAlgorithm_v7) \
    X(cudnnFindConvolutionBackwardFilterAlgorithmEx) \
    X(cudnnGetConvolutionBackwardFilterWorkspaceSize) X(cudnnConvolutionBackwardFilter) \
    X(cudnnPoolingForward) X(cudnnBatchNormalizationForwardTraining) \
    X(cudnnBatchNormalizationForwardInference) X(cudnnBatchNormalizationBackward) \
    X(cudnnSetTensorNdDescriptor) X(cudnnCreateRNNDescriptor) X(cudnnSetRNNDescriptor_v8) \
    X(cudnnDestroyRNNDescriptor) X(cudnnCreateRNNDataDescriptor) X(cudnnSetRNNDataDescriptor) \
    X(cudnnDestroyRNNDataDescriptor) X(cudnnGetRNNTempSpaceSizes) X(cudnnGetRNNWeightSpaceSize) \
    X(cudnnGetRNNWeightParams) X(cudnnRNNForward) X(cudnnRNNBackwardData_v8) \
    X(cudnnRNNBackwardWeights_v8)
/* clang-format on */

typedef struct dnn_calls {
#define X(name) __typeof__(&name) name;
    DNN_CALLS(X)
#undef X
} dnn_calls;
extern dnn_calls dnn;

/* cuDNN 9.13 is 91300. After cuda_dnn_usable. */
bool dnn_is_at_least(size_t version);

/* ---- plans ----------------------------------------------------------------------------------- */

enum { DNN_NUMBERS = 20 };

/* All that a plan depends on; unused parts are zero. */
typedef struct dnn_key {
    int32_t what, device, dtype, channels_last;
    uint32_t flags; /* TERN_NUMERICS_* that count here */
    int32_t number[DNN_NUMBERS];
} dnn_key;

/* A way to convolve, and its work memory. */
typedef struct dnn_way {
    int algorithm;
    cudnnMathType_t math;
    size_t workspace;
} dnn_way;

enum { DNN_WAYS = 8 };

/* Descriptors of one shape, made once and only read from then on (but for `math`: by who has a handle). */
typedef struct dnn_plan {
    dnn_key key;
    cudnnTensorDescriptor_t x, y;
    cudnnTensorDescriptor_t parameters; /* batch normalisation */
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t conv;
    cudnnPoolingDescriptor_t pool;
    cudnnRNNDescriptor_t rnn;
    cudnnRNNDataDescriptor_t steps_in, steps_out; /* recurrent layers: x and y */
    size_t reserve, weights;                      /* their bytes */
    bool apart;                                   /* cuDNN orders weights in its own way */
    size_t workspace;                             /* of recurrent layers */
    /* Of convolutions: the fastest first, each with less workspace than those before. */
    dnn_way way[DNN_WAYS];
    int ways;
    cudnnMathType_t math; /* of `conv`, as it is */
    bool refused;         /* cuDNN does not take this shape */
    bool kept;
    struct dnn_plan *next;
} dnn_plan;

/* The plan of that key, or NULL. */
dnn_plan *dnn_find(const dnn_key *key);
/* An empty one; NULL: no memory on the host. */
dnn_plan *dnn_new(const dnn_key *key);
/* Keeps a plan that was made, unless another thread was faster or there are very many; the one to use. */
dnn_plan *dnn_keep(dnn_plan *plan);
/* After use: frees a plan that is not kept. */
void dnn_drop(dnn_plan *plan);
/* Rows of a tensor's descriptor; dims [n, c, h, w]. Makes it where it is NULL. */
cudnnStatus_t dnn_describe_tensor(cudnnTensorDescriptor_t *tensor, int dtype, bool channels_last,
                                  const int64_t dims[4]);
/* All extents from 1 on, and fewer than 2^31 elements. */
bool dnn_takes(const int64_t dims[4]);

/* Whatever the dtype, cuDNN wants tensors at multiples of 4 bytes; NULL is none. */
static inline bool dnn_takes_address(const void *p)
{
    return ((uintptr_t)p & 3) == 0;
}

cudnnDataType_t dnn_type(int dtype);
/* Scaling factors: double for f64, else float. */
const void *dnn_one(int dtype);
const void *dnn_zero(int dtype);

/* ---- calls ----------------------------------------------------------------------------------- */

/* The handle of the call's device and stream, locked for this thread until dnn_leave; NULL, unlocked:
 * cuDNN does not start on this device, which is logged once. */
cudnnHandle_t dnn_enter(const tern_call *call, cudaStream_t stream, const char *op);
void dnn_leave(void);
/* Memory for this call's work; NULL: there is none, of which nobody hears. */
void *dnn_scratch(const tern_call *call, size_t bytes);
/* One line for each op and reason: why an own kernel does it. */
void dnn_say_once(const tern_call *call, const char *op, const char *reason);
/* What became of a call: done, refused (noted in the plan, *out_done stays false), or an error. */
tern_status_t dnn_settle(const tern_call *call, const char *op, const char *what,
                         cudnnStatus_t status, dnn_plan *plan, bool *out_done);

/* Whether to go on once more, after dnn_settle's code: the library found no memory, and the caching allocator has now
 * given back what nobody uses. *tried begins as false. Without a handle. */
bool dnn_again(const tern_call *call, tern_status_t code, bool *tried);
/* Calls body(plan, handle, args) for the call's device and stream, once more where the library finds no memory, and
 * settles what it says; `what` is the library's call. */
tern_status_t dnn_run(const tern_call *call, cudaStream_t stream, const char *op, const char *what,
                      dnn_plan *plan,
                      cudnnStatus_t (*body)(dnn_plan *plan, cudnnHandle_t handle, const void *args),
                      const void *args, bool *out_done);

/* Ends a function of type cudnnStatus_t with a status that is not success. */
#define DNN_TRY(call_)                             \
    do {                                           \
        const cudnnStatus_t dnn_status_ = (call_); \
        if (dnn_status_ != CUDNN_STATUS_SUCCESS)   \
            return dnn_status_;                    \
    } while (0)

#endif
