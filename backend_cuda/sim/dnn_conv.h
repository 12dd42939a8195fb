/* Convolution calls of simulated cuDNN: what the calls (dnn_conv_calls.c) ask of dnn_conv.c. */
#ifndef TERN_SIM_DNN_CONV_H
#define TERN_SIM_DNN_CONV_H

#include "backend_cuda/sim/dnn.h"

typedef enum dnn_kind { DNN_FORWARD, DNN_DATA, DNN_FILTER } dnn_kind;

typedef struct dnn_conv {
    struct cudnnTensorStruct x, w, y;
    cudnnTensorFormat_t format;
    int pad[2], step[2], dilation[2], groups;
    cudnnDataType_t compute;
    cudnnMathType_t math;
} dnn_conv;

/* Pointers of a call; the result's own place among x, w, y stays NULL. */
typedef struct dnn_data {
    const void *x, *w, *y;
    void *result, *workspace;
    size_t workspace_bytes;
} dnn_data;

/* The call's geometry; BAD_PARAM where the parts do not fit together. */
cudnnStatus_t sim_conv_read(dnn_conv *c, cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                            cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t conv,
                            cudnnTensorDescriptor_t y);
/* Algorithms, fastest first by heuristics. */
cudnnStatus_t sim_conv_guess(dnn_kind kind, const dnn_conv *c, int requested, int *returned,
                             void *results);
/* The same by measurement: waits, and leaves NaN in the result and in the workspace. */
cudnnStatus_t sim_conv_measure(const char *call, cudnnHandle_t handle, dnn_kind kind,
                               const dnn_conv *c, const dnn_data *data, int requested,
                               int *returned, void *results);
cudnnStatus_t sim_conv_workspace(dnn_kind kind, const dnn_conv *c, int algo, size_t *out_bytes);
cudnnStatus_t sim_conv_run(const char *call, cudnnHandle_t handle, dnn_kind kind, const dnn_conv *c,
                           int algo, const void *alpha, const void *beta, const dnn_data *data);

#endif
