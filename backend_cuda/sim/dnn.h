/* cuDNN of simulated devices: what its files share. */
#ifndef TERN_SIM_DNN_H
#define TERN_SIM_DNN_H

#include <cudnn.h>

#include "backend_cuda/sim/sim.h"

struct cudnnContext {
    int device;
    cudaStream_t stream;
};

/* Descriptors are of no use before their first set. */
struct cudnnTensorStruct {
    bool set;
    cudnnDataType_t type;
    int dim[4];
    int64_t stride[4];
};

struct cudnnFilterStruct {
    bool set;
    cudnnDataType_t type;
    cudnnTensorFormat_t format;
    int dim[4];
};

struct cudnnConvolutionStruct {
    bool set;
    int pad[2], step[2], dilation[2], groups;
    cudnnDataType_t compute;
    cudnnMathType_t math;
};

struct cudnnRNNStruct {
    bool set, biased, padded;
    cudnnRNNMode_t mode;
    cudnnDataType_t type;
    int directions, layers, features, hidden;
};

/* Sequences of one length, row by row. */
struct cudnnRNNDataStruct {
    bool set;
    cudnnDataType_t type;
    int length, batch, size;
};

struct cudnnPoolingStruct {
    bool set;
    cudnnPoolingMode_t mode;
    int window[2], pad[2], step[2];
};

/* Enters a call under its name: not success is an injected failure. Numbers below 1000, as "*@k=2"
 * gives, become what cuDNN says when CUDA fails so. */
cudnnStatus_t sim_dnn_begin(const char *call);
/* Leaves it. */
cudnnStatus_t sim_dnn_end(cudnnStatus_t status);
/* Notes a text for cudnnGetLastErrorString and returns the status. */
cudnnStatus_t sim_dnn_fail(cudnnStatus_t status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#define SIM_DNN_NEED(condition)                                                     \
    do {                                                                            \
        if (!(condition))                                                           \
            return sim_dnn_fail(CUDNN_STATUS_BAD_PARAM, "%s is false", #condition); \
    } while (0)
/* The handle may be used now: it is of the current device. */
cudnnStatus_t sim_dnn_check_handle(cudnnHandle_t handle);

/* A piece of memory that a call reads or writes; view NULL: it does not. */
typedef struct sim_dnn_operand {
    const char *name;
    const void *view;
    size_t bytes;
    bool writes;
    void **out_alias; /* in the plan */
} sim_dnn_operand;
/* Hands work to the handle's stream: run(a copy of the plan, which holds the aliases by then). */
cudnnStatus_t sim_dnn_submit(const char *call, cudnnHandle_t handle, void (*run)(void *arguments),
                             const void *plan, size_t bytes, const sim_dnn_operand *operands,
                             int count);
#define SIM_DNN_OPERANDS(list) list, (int)(sizeof(list) / sizeof *(list))

/* ---- elements -------------------------------------------------------------------------------- */

bool sim_dnn_is_type(cudnnDataType_t type);
size_t sim_dnn_size(cudnnDataType_t type);
/* Bytes from the first element to behind the last. */
size_t sim_dnn_bytes(const struct cudnnTensorStruct *t);
int64_t sim_dnn_numel(const struct cudnnTensorStruct *t);
/* Row-major without gaps, or channels last without gaps; extents of 1 may have any stride. */
bool sim_dnn_is_packed(const struct cudnnTensorStruct *t, cudnnTensorFormat_t format);
/* A filter as a tensor. */
struct cudnnTensorStruct sim_dnn_of_filter(const struct cudnnFilterStruct *f);
double sim_dnn_load(cudnnDataType_t type, const void *data, int64_t i);
void sim_dnn_store(cudnnDataType_t type, void *data, int64_t i, double value);
/* Where element i, counted row by row, lies. */
int64_t sim_dnn_place(const struct cudnnTensorStruct *t, int64_t i);
/* A scaling factor of a call: double for doubles, else float. */
double sim_dnn_factor(cudnnDataType_t type, const void *factor);

extern const sim_function sim_dnn_functions[];

#endif
