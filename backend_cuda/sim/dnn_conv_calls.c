/* cuDNN's convolution calls. */
#include "backend_cuda/sim/dnn_conv.h"

/* A call of any pass: x, w and y are the convolution's, whichever of them is the result. */
typedef struct conv_call {
    const char *name;
    dnn_kind kind;
    cudnnHandle_t handle;
    cudnnTensorDescriptor_t x;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t conv;
    cudnnTensorDescriptor_t y;
} conv_call;

static cudnnStatus_t begin(const conv_call *call, dnn_conv *c)
{
    const cudnnStatus_t status = sim_dnn_begin(call->name);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    return sim_conv_read(c, call->handle, call->x, call->w, call->conv, call->y);
}

static cudnnStatus_t guess(const conv_call *call, int requested, int *returned, void *results)
{
    dnn_conv c;
    cudnnStatus_t status = begin(call, &c);
    if (status == CUDNN_STATUS_SUCCESS)
        status = sim_conv_guess(call->kind, &c, requested, returned, results);
    return sim_dnn_end(status);
}

static cudnnStatus_t measure(const conv_call *call, const dnn_data *data, int requested,
                             int *returned, void *results)
{
    dnn_conv c;
    cudnnStatus_t status = begin(call, &c);
    if (status == CUDNN_STATUS_SUCCESS)
        status = sim_conv_measure(call->name, call->handle, call->kind, &c, data, requested,
                                  returned, results);
    return sim_dnn_end(status);
}

static cudnnStatus_t workspace(const conv_call *call, int algo, size_t *out_bytes)
{
    dnn_conv c;
    cudnnStatus_t status = begin(call, &c);
    if (status == CUDNN_STATUS_SUCCESS)
        status = sim_conv_workspace(call->kind, &c, algo, out_bytes);
    return sim_dnn_end(status);
}

static cudnnStatus_t run(const conv_call *call, int algo, const void *alpha, const void *beta,
                         const dnn_data *data)
{
    dnn_conv c;
    cudnnStatus_t status = begin(call, &c);
    if (status == CUDNN_STATUS_SUCCESS)
        status = sim_conv_run(call->name, call->handle, call->kind, &c, algo, alpha, beta, data);
    return sim_dnn_end(status);
}

/* ---- forward ----------------------------------------------------------------------------------- */

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t srcDesc,
    const cudnnFilterDescriptor_t filterDesc, const cudnnConvolutionDescriptor_t convDesc,
    const cudnnTensorDescriptor_t destDesc, const int requestedAlgoCount, int *returnedAlgoCount,
    cudnnConvolutionFwdAlgoPerf_t *perfResults)
{
    const conv_call call = {
        __func__, DNN_FORWARD, handle, srcDesc, filterDesc, convDesc, destDesc
    };
    return guess(&call, requestedAlgoCount, returnedAlgoCount, perfResults);
}

cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const void *x,
    const cudnnFilterDescriptor_t wDesc, const void *w, const cudnnConvolutionDescriptor_t convDesc,
    const cudnnTensorDescriptor_t yDesc, void *y, const int requestedAlgoCount,
    int *returnedAlgoCount, cudnnConvolutionFwdAlgoPerf_t *perfResults, void *workSpace,
    size_t workSpaceSizeInBytes)
{
    const conv_call call = { __func__, DNN_FORWARD, handle, xDesc, wDesc, convDesc, yDesc };
    const dnn_data data = { x, w, NULL, y, workSpace, workSpaceSizeInBytes };
    return measure(&call, &data, requestedAlgoCount, returnedAlgoCount, perfResults);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const cudnnFilterDescriptor_t wDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t yDesc,
    cudnnConvolutionFwdAlgo_t algo, size_t *sizeInBytes)
{
    const conv_call call = { __func__, DNN_FORWARD, handle, xDesc, wDesc, convDesc, yDesc };
    return workspace(&call, (int)algo, sizeInBytes);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha,
                                      const cudnnTensorDescriptor_t xDesc, const void *x,
                                      const cudnnFilterDescriptor_t wDesc, const void *w,
                                      const cudnnConvolutionDescriptor_t convDesc,
                                      cudnnConvolutionFwdAlgo_t algo, void *workSpace,
                                      size_t workSpaceSizeInBytes, const void *beta,
                                      const cudnnTensorDescriptor_t yDesc, void *y)
{
    const conv_call call = { __func__, DNN_FORWARD, handle, xDesc, wDesc, convDesc, yDesc };
    const dnn_data data = { x, w, NULL, y, workSpace, workSpaceSizeInBytes };
    return run(&call, (int)algo, alpha, beta, &data);
}

/* ---- gradient of the input --------------------------------------------------------------------- */

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t filterDesc,
    const cudnnTensorDescriptor_t diffDesc, const cudnnConvolutionDescriptor_t convDesc,
    const cudnnTensorDescriptor_t gradDesc, const int requestedAlgoCount, int *returnedAlgoCount,
    cudnnConvolutionBwdDataAlgoPerf_t *perfResults)
{
    const conv_call call = { __func__, DNN_DATA, handle, gradDesc, filterDesc, convDesc, diffDesc };
    return guess(&call, requestedAlgoCount, returnedAlgoCount, perfResults);
}

cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t wDesc, const void *w,
    const cudnnTensorDescriptor_t dyDesc, const void *dy,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t dxDesc, void *dx,
    const int requestedAlgoCount, int *returnedAlgoCount,
    cudnnConvolutionBwdDataAlgoPerf_t *perfResults, void *workSpace, size_t workSpaceSizeInBytes)
{
    const conv_call call = { __func__, DNN_DATA, handle, dxDesc, wDesc, convDesc, dyDesc };
    const dnn_data data = { NULL, w, dy, dx, workSpace, workSpaceSizeInBytes };
    return measure(&call, &data, requestedAlgoCount, returnedAlgoCount, perfResults);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t wDesc, const cudnnTensorDescriptor_t dyDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t dxDesc,
    cudnnConvolutionBwdDataAlgo_t algo, size_t *sizeInBytes)
{
    const conv_call call = { __func__, DNN_DATA, handle, dxDesc, wDesc, convDesc, dyDesc };
    return workspace(&call, (int)algo, sizeInBytes);
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha,
                                           const cudnnFilterDescriptor_t wDesc, const void *w,
                                           const cudnnTensorDescriptor_t dyDesc, const void *dy,
                                           const cudnnConvolutionDescriptor_t convDesc,
                                           cudnnConvolutionBwdDataAlgo_t algo, void *workSpace,
                                           size_t workSpaceSizeInBytes, const void *beta,
                                           const cudnnTensorDescriptor_t dxDesc, void *dx)
{
    const conv_call call = { __func__, DNN_DATA, handle, dxDesc, wDesc, convDesc, dyDesc };
    const dnn_data data = { NULL, w, dy, dx, workSpace, workSpaceSizeInBytes };
    return run(&call, (int)algo, alpha, beta, &data);
}

/* ---- gradient of the filter -------------------------------------------------------------------- */

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t srcDesc,
    const cudnnTensorDescriptor_t diffDesc, const cudnnConvolutionDescriptor_t convDesc,
    const cudnnFilterDescriptor_t gradDesc, const int requestedAlgoCount, int *returnedAlgoCount,
    cudnnConvolutionBwdFilterAlgoPerf_t *perfResults)
{
    const conv_call call = { __func__, DNN_FILTER, handle, srcDesc, gradDesc, convDesc, diffDesc };
    return guess(&call, requestedAlgoCount, returnedAlgoCount, perfResults);
}

cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const void *x,
    const cudnnTensorDescriptor_t dyDesc, const void *y,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnFilterDescriptor_t dwDesc, void *dw,
    const int requestedAlgoCount, int *returnedAlgoCount,
    cudnnConvolutionBwdFilterAlgoPerf_t *perfResults, void *workSpace, size_t workSpaceSizeInBytes)
{
    const conv_call call = { __func__, DNN_FILTER, handle, xDesc, dwDesc, convDesc, dyDesc };
    const dnn_data data = { x, NULL, y, dw, workSpace, workSpaceSizeInBytes };
    return measure(&call, &data, requestedAlgoCount, returnedAlgoCount, perfResults);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const cudnnTensorDescriptor_t dyDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnFilterDescriptor_t gradDesc,
    cudnnConvolutionBwdFilterAlgo_t algo, size_t *sizeInBytes)
{
    const conv_call call = { __func__, DNN_FILTER, handle, xDesc, gradDesc, convDesc, dyDesc };
    return workspace(&call, (int)algo, sizeInBytes);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void *alpha,
                                             const cudnnTensorDescriptor_t xDesc, const void *x,
                                             const cudnnTensorDescriptor_t dyDesc, const void *dy,
                                             const cudnnConvolutionDescriptor_t convDesc,
                                             cudnnConvolutionBwdFilterAlgo_t algo, void *workSpace,
                                             size_t workSpaceSizeInBytes, const void *beta,
                                             const cudnnFilterDescriptor_t dwDesc, void *dw)
{
    const conv_call call = { __func__, DNN_FILTER, handle, xDesc, dwDesc, convDesc, dyDesc };
    const dnn_data data = { x, NULL, dy, dw, workSpace, workSpaceSizeInBytes };
    return run(&call, (int)algo, alpha, beta, &data);
}
