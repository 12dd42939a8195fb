/* cuDNN's handles and descriptors: checks as the real library makes them (tried against 9.19). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sim_half.h>

#include "backend_cuda/sim/dnn.h"

enum { VERSION = 91900 };
static _Thread_local char last_text[1024];

/* ---- entering, leaving, errors --------------------------------------------------------------- */

cudnnStatus_t sim_dnn_fail(cudnnStatus_t status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(last_text, sizeof last_text, format, arguments);
    va_end(arguments);
    return status;
}

cudnnStatus_t sim_dnn_begin(const char *call)
{
    const int injected = (int)sim_begin(call);
    if (injected == 0)
        return CUDNN_STATUS_SUCCESS;
    const int status = injected >= 1000 ? injected
                       : injected == (int)cudaErrorMemoryAllocation
                           ? (int)CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED
                           : (int)CUDNN_STATUS_EXECUTION_FAILED_CUDART;
    return sim_dnn_fail((cudnnStatus_t)status, "injected into %s", call);
}

cudnnStatus_t sim_dnn_end(cudnnStatus_t status)
{
    (void)sim_end(cudaSuccess);
    return status;
}

cudnnStatus_t sim_dnn_check_handle(cudnnHandle_t handle)
{
    SIM_DNN_NEED(handle != NULL);
    if (handle->device != sim_current_device())
        return sim_dnn_fail(CUDNN_STATUS_BAD_PARAM,
                            "the handle is of device %d, the current device is %d", handle->device,
                            sim_current_device());
    const cudaError_t lost = sim_devices[handle->device].lost;
    if (lost != cudaSuccess)
        return sim_dnn_fail(CUDNN_STATUS_EXECUTION_FAILED, "the device is lost (%d)", (int)lost);
    return CUDNN_STATUS_SUCCESS;
}

size_t cudnnGetVersion(void)
{
    return VERSION;
}

/* An injected code is the version (12080). */
size_t cudnnGetCudartVersion(void)
{
    const int injected = (int)sim_begin("cudnnGetCudartVersion");
    (void)sim_end(cudaSuccess);
    return injected >= 1000 ? (size_t)injected : CUDART_VERSION;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    switch (status) {
#define X(name, value) \
    case name:         \
        return #name;
        SIM_CUDNN_STATUSES(X)
#undef X
    }
    return "CUDNN_UNKNOWN_STATUS";
}

void cudnnGetLastErrorString(char *message, size_t max_size)
{
    if (message != NULL && max_size > 0)
        (void)snprintf(message, max_size, "%s", last_text);
    last_text[0] = '\0';
}

cudnnStatus_t sim_dnn_submit(const char *call, cudnnHandle_t handle, void (*run)(void *arguments),
                             const void *plan, size_t bytes, const sim_dnn_operand *operands,
                             int count)
{
    void *arguments = NULL;
    for (int i = 0; i < count; i++)
        if (((uintptr_t)operands[i].view & 3) != 0)
            return sim_dnn_fail(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
                                "%s, %p, is no multiple of 4 bytes", operands[i].name,
                                operands[i].view);
    sim_op *op = sim_work_new(handle->stream, call, run, bytes, &arguments);
    if (op == NULL)
        return sim_dnn_fail(CUDNN_STATUS_EXECUTION_FAILED_CUDART, "the stream takes no work");
    for (int i = 0; i < count; i++) {
        const sim_dnn_operand *o = &operands[i];
        if (o->view != NULL &&
            !sim_work_use(op, o->name, o->view, o->bytes, o->writes, o->out_alias)) {
            sim_work_cancel(op);
            return sim_dnn_fail(CUDNN_STATUS_EXECUTION_FAILED_CUDART, "%s", sim_last_report());
        }
    }
    memcpy(arguments, plan, bytes);
    sim_work_submit(op);
    return CUDNN_STATUS_SUCCESS;
}

/* ---- handles --------------------------------------------------------------------------------- */

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    cudnnStatus_t status = sim_dnn_begin("cudnnCreate");
    if (status == CUDNN_STATUS_SUCCESS && handle == NULL)
        status = sim_dnn_fail(CUDNN_STATUS_BAD_PARAM, "handle is NULL");
    if (status == CUDNN_STATUS_SUCCESS &&
        (sim_config.devices == 0 || sim_devices[sim_current_device()].lost != cudaSuccess))
        status = sim_dnn_fail(CUDNN_STATUS_NOT_INITIALIZED, "the device cannot be used");
    if (status == CUDNN_STATUS_SUCCESS && !sim_memory_for_handle(sim_current_device()))
        status = sim_dnn_fail(CUDNN_STATUS_NOT_INITIALIZED, "the device has no memory left");
    if (status == CUDNN_STATUS_SUCCESS) {
        *handle = calloc(1, sizeof **handle);
        if (*handle == NULL)
            status = CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
        else
            (*handle)->device = sim_current_device();
    }
    return sim_dnn_end(status);
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    const cudnnStatus_t status = sim_dnn_begin("cudnnDestroy");
    if (status == CUDNN_STATUS_SUCCESS && handle != NULL)
        sim_memory_of_handle_ends(handle->device);
    if (status == CUDNN_STATUS_SUCCESS)
        free(handle);
    return sim_dnn_end(status);
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t streamId)
{
    cudnnStatus_t status = sim_dnn_begin("cudnnSetStream");
    if (status == CUDNN_STATUS_SUCCESS)
        status = sim_dnn_check_handle(handle);
    if (status == CUDNN_STATUS_SUCCESS) {
        const struct CUstream_st *s = sim_stream_of(streamId);
        if (s == NULL || s->device != handle->device)
            status = sim_dnn_fail(CUDNN_STATUS_BAD_PARAM, "the stream is not of device %d",
                                  handle->device);
        else
            handle->stream = streamId;
    }
    return sim_dnn_end(status);
}

/* ---- elements -------------------------------------------------------------------------------- */

bool sim_dnn_is_type(cudnnDataType_t type)
{
    return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_DOUBLE || type == CUDNN_DATA_HALF ||
           type == CUDNN_DATA_BFLOAT16;
}

size_t sim_dnn_size(cudnnDataType_t type)
{
    return type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2;
}

size_t sim_dnn_bytes(const struct cudnnTensorStruct *t)
{
    int64_t last = 0;
    for (int d = 0; d < 4; d++)
        last += (t->dim[d] - 1) * t->stride[d];
    return (size_t)(last + 1) * sim_dnn_size(t->type);
}

int64_t sim_dnn_numel(const struct cudnnTensorStruct *t)
{
    return (int64_t)t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
}

static void packed_strides(const int dim[4], cudnnTensorFormat_t format, int64_t stride[4])
{
    static const int orders[2][4] = { { 3, 2, 1, 0 }, { 1, 3, 2, 0 } };
    int64_t step = 1;
    for (int i = 0; i < 4; i++) {
        const int d = orders[format == CUDNN_TENSOR_NHWC][i];
        stride[d] = step;
        step *= dim[d];
    }
}

bool sim_dnn_is_packed(const struct cudnnTensorStruct *t, cudnnTensorFormat_t format)
{
    int64_t stride[4];
    bool same = true;
    packed_strides(t->dim, format, stride);
    for (int d = 0; d < 4; d++)
        same = same && (t->dim[d] == 1 || t->stride[d] == stride[d]);
    return same;
}

struct cudnnTensorStruct sim_dnn_of_filter(const struct cudnnFilterStruct *f)
{
    struct cudnnTensorStruct t = { .set = f->set, .type = f->type };
    memcpy(t.dim, f->dim, sizeof t.dim);
    packed_strides(t.dim, f->format, t.stride);
    return t;
}

double sim_dnn_load(cudnnDataType_t type, const void *data, int64_t i)
{
    if (type == CUDNN_DATA_FLOAT)
        return ((const float *)data)[i];
    if (type == CUDNN_DATA_DOUBLE)
        return ((const double *)data)[i];
    const uint16_t bits = ((const uint16_t *)data)[i];
    return type == CUDNN_DATA_HALF ? sim_half_to_float(bits) : sim_bf16_to_float(bits);
}

void sim_dnn_store(cudnnDataType_t type, void *data, int64_t i, double value)
{
    if (type == CUDNN_DATA_FLOAT)
        ((float *)data)[i] = (float)value;
    else if (type == CUDNN_DATA_DOUBLE)
        ((double *)data)[i] = value;
    else
        ((uint16_t *)data)[i] = type == CUDNN_DATA_HALF ? sim_float_to_half((float)value)
                                                        : sim_float_to_bf16((float)value);
}

int64_t sim_dnn_place(const struct cudnnTensorStruct *t, int64_t i)
{
    int64_t place = 0;
    for (int d = 3; d >= 0; d--) {
        place += i % t->dim[d] * t->stride[d];
        i /= t->dim[d];
    }
    return place;
}

double sim_dnn_factor(cudnnDataType_t type, const void *factor)
{
    return type == CUDNN_DATA_DOUBLE ? *(const double *)factor : (double)*(const float *)factor;
}

/* ---- descriptors ----------------------------------------------------------------------------- */

/* cudnnCreate<Kind>Descriptor and cudnnDestroy<Kind>Descriptor; what `initial` sets holds until the
 * first set. Destroying NULL is fine. */
#define DESCRIPTOR(kind, ...)                                                          \
    cudnnStatus_t cudnnCreate##kind##Descriptor(cudnn##kind##Descriptor_t *d)          \
    {                                                                                  \
        cudnnStatus_t status = sim_dnn_begin("cudnnCreate" #kind "Descriptor");        \
        if (status == CUDNN_STATUS_SUCCESS && d == NULL)                               \
            status = sim_dnn_fail(CUDNN_STATUS_BAD_PARAM, "the descriptor is NULL");   \
        if (status == CUDNN_STATUS_SUCCESS) {                                          \
            *d = malloc(sizeof **d);                                                   \
            if (*d == NULL)                                                            \
                status = CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;           \
            else                                                                       \
                **d = (struct cudnn##kind##Struct){ __VA_ARGS__ };                     \
        }                                                                              \
        return sim_dnn_end(status);                                                    \
    }                                                                                  \
    cudnnStatus_t cudnnDestroy##kind##Descriptor(cudnn##kind##Descriptor_t d)          \
    {                                                                                  \
        const cudnnStatus_t status = sim_dnn_begin("cudnnDestroy" #kind "Descriptor"); \
        if (status == CUDNN_STATUS_SUCCESS)                                            \
            free(d);                                                                   \
        return sim_dnn_end(status);                                                    \
    }
DESCRIPTOR(Tensor, .set = false)
DESCRIPTOR(Filter, .set = false)
DESCRIPTOR(Convolution, .groups = 1)
DESCRIPTOR(Pooling, .set = false)
DESCRIPTOR(RNN, .set = false)
DESCRIPTOR(RNNData, .set = false)

static cudnnStatus_t set_tensor(cudnnTensorDescriptor_t t, cudnnDataType_t type, const int dim[4],
                                const int stride[4])
{
    SIM_DNN_NEED(t != NULL);
    SIM_DNN_NEED(sim_dnn_is_type(type));
    int64_t last = 1;
    for (int d = 0; d < 4; d++) {
        SIM_DNN_NEED(dim[d] > 0);
        SIM_DNN_NEED(stride[d] != 0);
        last += (int64_t)(dim[d] - 1) * stride[d];
    }
    if (last > INT32_MAX)
        return sim_dnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "2^31 elements and more");
    *t = (struct cudnnTensorStruct){ .set = true, .type = type };
    for (int d = 0; d < 4; d++) {
        t->dim[d] = dim[d];
        t->stride[d] = stride[d];
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t tensorDesc,
                                           cudnnDataType_t dataType, int n, int c, int h, int w,
                                           int nStride, int cStride, int hStride, int wStride)
{
    cudnnStatus_t status = sim_dnn_begin("cudnnSetTensor4dDescriptorEx");
    if (status == CUDNN_STATUS_SUCCESS)
        status = set_tensor(tensorDesc, dataType, (const int[4]){ n, c, h, w },
                            (const int[4]){ nStride, cStride, hStride, wStride });
    return sim_dnn_end(status);
}

static cudnnStatus_t set_filter(cudnnFilterDescriptor_t f, cudnnDataType_t type,
                                cudnnTensorFormat_t format, const int dim[4])
{
    SIM_DNN_NEED(f != NULL);
    SIM_DNN_NEED(sim_dnn_is_type(type));
    SIM_DNN_NEED(format == CUDNN_TENSOR_NCHW || format == CUDNN_TENSOR_NHWC);
    for (int d = 0; d < 4; d++)
        SIM_DNN_NEED(dim[d] > 0);
    *f = (struct cudnnFilterStruct){ .set = true, .type = type, .format = format };
    memcpy(f->dim, dim, sizeof f->dim);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filterDesc,
                                         cudnnDataType_t dataType, cudnnTensorFormat_t format,
                                         int k, int c, int h, int w)
{
    cudnnStatus_t status = sim_dnn_begin("cudnnSetFilter4dDescriptor");
    if (status == CUDNN_STATUS_SUCCESS)
        status = set_filter(filterDesc, dataType, format, (const int[4]){ k, c, h, w });
    return sim_dnn_end(status);
}

static cudnnStatus_t set_convolution(cudnnConvolutionDescriptor_t c, const int pad[2],
                                     const int step[2], const int dilation[2],
                                     cudnnConvolutionMode_t mode, cudnnDataType_t compute)
{
    SIM_DNN_NEED(c != NULL);
    SIM_DNN_NEED(mode == CUDNN_CONVOLUTION || mode == CUDNN_CROSS_CORRELATION);
    SIM_DNN_NEED(sim_dnn_is_type(compute) && compute != CUDNN_DATA_BFLOAT16);
    for (int d = 0; d < 2; d++)
        SIM_DNN_NEED(pad[d] >= 0 && step[d] > 0 && dilation[d] > 0);
    if (mode == CUDNN_CONVOLUTION)
        return sim_dnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "the simulator does not turn filters");
    c->set = true;
    c->compute = compute;
    memcpy(c->pad, pad, sizeof c->pad);
    memcpy(c->step, step, sizeof c->step);
    memcpy(c->dilation, dilation, sizeof c->dilation);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convDesc, int pad_h,
                                              int pad_w, int u, int v, int dilation_h,
                                              int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t computeType)
{
    cudnnStatus_t status = sim_dnn_begin("cudnnSetConvolution2dDescriptor");
    if (status == CUDNN_STATUS_SUCCESS)
        status = set_convolution(convDesc, (const int[2]){ pad_h, pad_w }, (const int[2]){ u, v },
                                 (const int[2]){ dilation_h, dilation_w }, mode, computeType);
    return sim_dnn_end(status);
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convDesc, int groupCount)
{
    cudnnStatus_t status = sim_dnn_begin("cudnnSetConvolutionGroupCount");
    if (status == CUDNN_STATUS_SUCCESS && (convDesc == NULL || groupCount < 1))
        status = sim_dnn_fail(CUDNN_STATUS_BAD_PARAM, "%d groups", groupCount);
    if (status == CUDNN_STATUS_SUCCESS)
        convDesc->groups = groupCount;
    return sim_dnn_end(status);
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convDesc,
                                          cudnnMathType_t mathType)
{
    cudnnStatus_t status = sim_dnn_begin("cudnnSetConvolutionMathType");
    if (status == CUDNN_STATUS_SUCCESS && (convDesc == NULL || (unsigned)mathType > CUDNN_FMA_MATH))
        status = sim_dnn_fail(CUDNN_STATUS_BAD_PARAM, "mathType is %d", (int)mathType);
    if (status == CUDNN_STATUS_SUCCESS)
        convDesc->math = mathType;
    return sim_dnn_end(status);
}

static cudnnStatus_t set_pooling(cudnnPoolingDescriptor_t p, cudnnPoolingMode_t mode,
                                 cudnnNanPropagation_t nan_rule, const int window[2],
                                 const int pad[2], const int step[2])
{
    SIM_DNN_NEED(p != NULL);
    SIM_DNN_NEED((unsigned)mode <= CUDNN_POOLING_MAX_DETERMINISTIC);
    SIM_DNN_NEED((unsigned)nan_rule <= CUDNN_PROPAGATE_NAN);
    for (int d = 0; d < 2; d++)
        SIM_DNN_NEED(window[d] > 0 && step[d] > 0);
    *p = (struct cudnnPoolingStruct){ .set = true, .mode = mode };
    memcpy(p->window, window, sizeof p->window);
    memcpy(p->pad, pad, sizeof p->pad);
    memcpy(p->step, step, sizeof p->step);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t poolingDesc,
                                          cudnnPoolingMode_t mode,
                                          cudnnNanPropagation_t maxpoolingNanOpt, int windowHeight,
                                          int windowWidth, int verticalPadding,
                                          int horizontalPadding, int verticalStride,
                                          int horizontalStride)
{
    cudnnStatus_t status = sim_dnn_begin("cudnnSetPooling2dDescriptor");
    if (status == CUDNN_STATUS_SUCCESS)
        status = set_pooling(poolingDesc, mode, maxpoolingNanOpt,
                             (const int[2]){ windowHeight, windowWidth },
                             (const int[2]){ verticalPadding, horizontalPadding },
                             (const int[2]){ verticalStride, horizontalStride });
    return sim_dnn_end(status);
}

/* ---- the library's table --------------------------------------------------------------------- */

#define ENTRY(name)                 \
    {                               \
#name, (void (*)(void))name \
    }
const sim_function sim_dnn_functions[] = {
    ENTRY(cudnnGetVersion),
    ENTRY(cudnnGetCudartVersion),
    ENTRY(cudnnGetErrorString),
    ENTRY(cudnnGetLastErrorString),
    ENTRY(cudnnCreate),
    ENTRY(cudnnDestroy),
    ENTRY(cudnnSetStream),
    ENTRY(cudnnCreateTensorDescriptor),
    ENTRY(cudnnSetTensor4dDescriptorEx),
    ENTRY(cudnnDestroyTensorDescriptor),
    ENTRY(cudnnCreateFilterDescriptor),
    ENTRY(cudnnSetFilter4dDescriptor),
    ENTRY(cudnnDestroyFilterDescriptor),
    ENTRY(cudnnCreateConvolutionDescriptor),
    ENTRY(cudnnSetConvolution2dDescriptor),
    ENTRY(cudnnSetConvolutionGroupCount),
    ENTRY(cudnnSetConvolutionMathType),
    ENTRY(cudnnDestroyConvolutionDescriptor),
    ENTRY(cudnnCreatePoolingDescriptor),
    ENTRY(cudnnSetPooling2dDescriptor),
    ENTRY(cudnnDestroyPoolingDescriptor),
    ENTRY(cudnnGetConvolutionForwardAlgorithm_v7),
    ENTRY(cudnnFindConvolutionForwardAlgorithmEx),
    ENTRY(cudnnGetConvolutionForwardWorkspaceSize),
    ENTRY(cudnnConvolutionForward),
    ENTRY(cudnnGetConvolutionBackwardDataAlgorithm_v7),
    ENTRY(cudnnFindConvolutionBackwardDataAlgorithmEx),
    ENTRY(cudnnGetConvolutionBackwardDataWorkspaceSize),
    ENTRY(cudnnConvolutionBackwardData),
    ENTRY(cudnnGetConvolutionBackwardFilterAlgorithm_v7),
    ENTRY(cudnnFindConvolutionBackwardFilterAlgorithmEx),
    ENTRY(cudnnGetConvolutionBackwardFilterWorkspaceSize),
    ENTRY(cudnnConvolutionBackwardFilter),
    ENTRY(cudnnPoolingForward),
    ENTRY(cudnnBatchNormalizationForwardTraining),
    ENTRY(cudnnBatchNormalizationForwardInference),
    ENTRY(cudnnBatchNormalizationBackward),
    ENTRY(cudnnSetTensorNdDescriptor),
    ENTRY(cudnnCreateRNNDescriptor),
    ENTRY(cudnnSetRNNDescriptor_v8),
    ENTRY(cudnnDestroyRNNDescriptor),
    ENTRY(cudnnCreateRNNDataDescriptor),
    ENTRY(cudnnSetRNNDataDescriptor),
    ENTRY(cudnnDestroyRNNDataDescriptor),
    ENTRY(cudnnGetRNNTempSpaceSizes),
    ENTRY(cudnnGetRNNWeightSpaceSize),
    ENTRY(cudnnGetRNNWeightParams),
    ENTRY(cudnnRNNForward),
    ENTRY(cudnnRNNBackwardData_v8),
    ENTRY(cudnnRNNBackwardWeights_v8),
    { NULL, NULL },
};
