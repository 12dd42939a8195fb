/* cuDNN's convolution calls. */
#include "backend_cuda/sim/dnn_conv.h"

static cudnnStatus_t begin(const char *call, dnn_conv *c, cudnnHandle_t handle,
                           cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                           cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y)
{
    const cudnnStatus_t status = sim_dnn_begin(call);
    return status == CUDNN_STATUS_SUCCESS ? sim_conv_read(c, handle, x, w, conv, y) : status;
}

/* ---- forward ----------------------------------------------------------------------------------- */

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t srcDesc,
    const cudnnFilterDescriptor_t filterDesc, const cudnnConvolutionDescriptor_t convDesc,
    const cudnnTensorDescriptor_t destDesc, const int requestedAlgoCount, int *returnedAlgoCount,
    cudnnConvolutionFwdAlgoPerf_t *perfResults)
{
    dnn_conv c;
    cudnnStatus_t status = begin("cudnnGetConvolutionForwardAlgorithm_v7", &c, handle, srcDesc,
                                 filterDesc, convDesc, destDesc);
    if (status == CUDNN_STATUS_SUCCESS)
        status =
            sim_conv_guess(DNN_FORWARD, &c, requestedAlgoCount, returnedAlgoCount, perfResults);
    return sim_dnn_end(status);
}

cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const void *x,
    const cudnnFilterDescriptor_t wDesc, const void *w, const cudnnConvolutionDescriptor_t convDesc,
    const cudnnTensorDescriptor_t yDesc, void *y, const int requestedAlgoCount,
    int *returnedAlgoCount, cudnnConvolutionFwdAlgoPerf_t *perfResults, void *workSpace,
    size_t workSpaceSizeInBytes)
{
    static const char call[] = "cudnnFindConvolutionForwardAlgorithmEx";
    const dnn_data data = { x, w, NULL, y, workSpace, workSpaceSizeInBytes };
    dnn_conv c;
    cudnnStatus_t status = begin(call, &c, handle, xDesc, wDesc, convDesc, yDesc);
    if (status == CUDNN_STATUS_SUCCESS)
        status = sim_conv_measure(call, handle, DNN_FORWARD, &c, &data, requestedAlgoCount,
                                  returnedAlgoCount, perfResults);
    return sim_dnn_end(status);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const cudnnFilterDescriptor_t wDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t yDesc,
    cudnnConvolutionFwdAlgo_t algo, size_t *sizeInBytes)
{
    dnn_conv c;
    cudnnStatus_t status =
        begin("cudnnGetConvolutionForwardWorkspaceSize", &c, handle, xDesc, wDesc, convDesc, yDesc);
    if (status == CUDNN_STATUS_SUCCESS)
        status = sim_conv_workspace(DNN_FORWARD, &c, (int)algo, sizeInBytes);
    return sim_dnn_end(status);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha,
                                      const cudnnTensorDescriptor_t xDesc, const void *x,
                                      const cudnnFilterDescriptor_t wDesc, const void *w,
                                      const cudnnConvolutionDescriptor_t convDesc,
                                      cudnnConvolutionFwdAlgo_t algo, void *workSpace,
                                      size_t workSpaceSizeInBytes, const void *beta,
                                      const cudnnTensorDescriptor_t yDesc, void *y)
{
    static const char call[] = "cudnnConvolutionForward";
    const dnn_data data = { x, w, NULL, y, workSpace, workSpaceSizeInBytes };
    dnn_conv c;
    cudnnStatus_t status = begin(call, &c, handle, xDesc, wDesc, convDesc, yDesc);
    if (status == CUDNN_STATUS_SUCCESS)
        status = sim_conv_run(call, handle, DNN_FORWARD, &c, (int)algo, alpha, beta, &data);
    return sim_dnn_end(status);
}

/* ---- gradient of the input --------------------------------------------------------------------- */

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t filterDesc,
    const cudnnTensorDescriptor_t diffDesc, const cudnnConvolutionDescriptor_t convDesc,
    const cudnnTensorDescriptor_t gradDesc, const int requestedAlgoCount, int *returnedAlgoCount,
    cudnnConvolutionBwdDataAlgoPerf_t *perfResults)
{
    dnn_conv c;
    cudnnStatus_t status = begin("cudnnGetConvolutionBackwardDataAlgorithm_v7", &c, handle,
                                 gradDesc, filterDesc, convDesc, diffDesc);
    if (status == CUDNN_STATUS_SUCCESS)
        status = sim_conv_guess(DNN_DATA, &c, requestedAlgoCount, returnedAlgoCount, perfResults);
    return sim_dnn_end(status);
}

cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t wDesc, const void *w,
    const cudnnTensorDescriptor_t dyDesc, const void *dy,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t dxDesc, void *dx,
    const int requestedAlgoCount, int *returnedAlgoCount,
    cudnnConvolutionBwdDataAlgoPerf_t *perfResults, void *workSpace, size_t workSpaceSizeInBytes)
{
    static const char call[] = "cudnnFindConvolutionBackwardDataAlgorithmEx";
    const dnn_data data = { NULL, w, dy, dx, workSpace, workSpaceSizeInBytes };
    dnn_conv c;
    cudnnStatus_t status = begin(call, &c, handle, dxDesc, wDesc, convDesc, dyDesc);
    if (status == CUDNN_STATUS_SUCCESS)
        status = sim_conv_measure(call, handle, DNN_DATA, &c, &data, requestedAlgoCount,
                                  returnedAlgoCount, perfResults);
    return sim_dnn_end(status);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t wDesc, const cudnnTensorDescriptor_t dyDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t dxDesc,
    cudnnConvolutionBwdDataAlgo_t algo, size_t *sizeInBytes)
{
    dnn_conv c;
    cudnnStatus_t status = begin("cudnnGetConvolutionBackwardDataWorkspaceSize", &c, handle, dxDesc,
                                 wDesc, convDesc, dyDesc);
    if (status == CUDNN_STATUS_SUCCESS)
        status = sim_conv_workspace(DNN_DATA, &c, (int)algo, sizeInBytes);
    return sim_dnn_end(status);
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha,
                                           const cudnnFilterDescriptor_t wDesc, const void *w,
                                           const cudnnTensorDescriptor_t dyDesc, const void *dy,
                                           const cudnnConvolutionDescriptor_t convDesc,
                                           cudnnConvolutionBwdDataAlgo_t algo, void *workSpace,
                                           size_t workSpaceSizeInBytes, const void *beta,
                                           const cudnnTensorDescriptor_t dxDesc, void *dx)
{
    static const char call[] = "cudnnConvolutionBackwardData";
    const dnn_data data = { NULL, w, dy, dx, workSpace, workSpaceSizeInBytes };
    dnn_conv c;
    cudnnStatus_t status = begin(call, &c, handle, dxDesc, wDesc, convDesc, dyDesc);
    if (status == CUDNN_STATUS_SUCCESS)
        status = sim_conv_run(call, handle, DNN_DATA, &c, (int)algo, alpha, beta, &data);
    return sim_dnn_end(status);
}

/* ---- gradient of the filter -------------------------------------------------------------------- */

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t srcDesc,
    const cudnnTensorDescriptor_t diffDesc, const cudnnConvolutionDescriptor_t convDesc,
    const cudnnFilterDescriptor_t gradDesc, const int requestedAlgoCount, int *returnedAlgoCount,
    cudnnConvolutionBwdFilterAlgoPerf_t *perfResults)
{
    dnn_conv c;
    cudnnStatus_t status = begin("cudnnGetConvolutionBackwardFilterAlgorithm_v7", &c, handle,
                                 srcDesc, gradDesc, convDesc, diffDesc);
    if (status == CUDNN_STATUS_SUCCESS)
        status = sim_conv_guess(DNN_FILTER, &c, requestedAlgoCount, returnedAlgoCount, perfResults);
    return sim_dnn_end(status);
}

cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const void *x,
    const cudnnTensorDescriptor_t dyDesc, const void *y,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnFilterDescriptor_t dwDesc, void *dw,
    const int requestedAlgoCount, int *returnedAlgoCount,
    cudnnConvolutionBwdFilterAlgoPerf_t *perfResults, void *workSpace, size_t workSpaceSizeInBytes)
{
    static const char call[] = "cudnnFindConvolutionBackwardFilterAlgorithmEx";
    const dnn_data data = { x, NULL, y, dw, workSpace, workSpaceSizeInBytes };
    dnn_conv c;
    cudnnStatus_t status = begin(call, &c, handle, xDesc, dwDesc, convDesc, dyDesc);
    if (status == CUDNN_STATUS_SUCCESS)
        status = sim_conv_measure(call, handle, DNN_FILTER, &c, &data, requestedAlgoCount,
                                  returnedAlgoCount, perfResults);
    return sim_dnn_end(status);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const cudnnTensorDescriptor_t dyDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnFilterDescriptor_t gradDesc,
    cudnnConvolutionBwdFilterAlgo_t algo, size_t *sizeInBytes)
{
    dnn_conv c;
    cudnnStatus_t status = begin("cudnnGetConvolutionBackwardFilterWorkspaceSize", &c, handle,
                                 xDesc, gradDesc, convDesc, dyDesc);
    if (status == CUDNN_STATUS_SUCCESS)
        status = sim_conv_workspace(DNN_FILTER, &c, (int)algo, sizeInBytes);
    return sim_dnn_end(status);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void *alpha,
                                             const cudnnTensorDescriptor_t xDesc, const void *x,
                                             const cudnnTensorDescriptor_t dyDesc, const void *dy,
                                             const cudnnConvolutionDescriptor_t convDesc,
                                             cudnnConvolutionBwdFilterAlgo_t algo, void *workSpace,
                                             size_t workSpaceSizeInBytes, const void *beta,
                                             const cudnnFilterDescriptor_t dwDesc, void *dw)
{
    static const char call[] = "cudnnConvolutionBackwardFilter";
    const dnn_data data = { x, NULL, dy, dw, workSpace, workSpaceSizeInBytes };
    dnn_conv c;
    cudnnStatus_t status = begin(call, &c, handle, xDesc, dwDesc, convDesc, dyDesc);
    if (status == CUDNN_STATUS_SUCCESS)
        status = sim_conv_run(call, handle, DNN_FILTER, &c, (int)algo, alpha, beta, &data);
    return sim_dnn_end(status);
}
