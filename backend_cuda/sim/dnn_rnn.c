/* cuDNN's recurrent layers: descriptors and calls, with the checks of the real library (its descriptors were
 * tried, 9.19) and what its documentation asks for: unpacked layouts need padded input and output.
 * Sequences of one length, the standard algorithm, no dropout, no projection. */
#include <string.h>

#include "backend_cuda/sim/dnn_rnn.h"

/* ---- descriptors ----------------------------------------------------------------------------- */

static cudnnStatus_t set_tensor(cudnnTensorDescriptor_t tensorDesc, cudnnDataType_t type, int count,
                                const int *dim, const int *stride)
{
    SIM_DNN_NEED(tensorDesc != NULL && dim != NULL && stride != NULL);
    SIM_DNN_NEED(sim_dnn_is_type(type));
    SIM_DNN_NEED(count >= 2);
    if (count > 4)
        return sim_dnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "more than four dimensions");
    for (int d = 0; d < count; d++)
        SIM_DNN_NEED(dim[d] > 0 && stride[d] != 0);
    *tensorDesc = (struct cudnnTensorStruct){ .set = true, .type = type };
    for (int d = 0; d < 4; d++) {
        tensorDesc->dim[d] = d < count ? dim[d] : 1;
        tensorDesc->stride[d] = d < count ? stride[d] : 1;
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensorDesc,
                                         cudnnDataType_t dataType, int nbDims, const int dimA[],
                                         const int strideA[])
{
    cudnnStatus_t status = sim_dnn_begin("cudnnSetTensorNdDescriptor");
    if (status == CUDNN_STATUS_SUCCESS)
        status = set_tensor(tensorDesc, dataType, nbDims, dimA, strideA);
    return sim_dnn_end(status);
}

static cudnnStatus_t check_types(cudnnDataType_t type, cudnnDataType_t precision)
{
    const bool fits = type == CUDNN_DATA_DOUBLE ? precision == CUDNN_DATA_DOUBLE
                      : type == CUDNN_DATA_FLOAT
                          ? precision == CUDNN_DATA_FLOAT
                          : precision == CUDNN_DATA_FLOAT || precision == type;
    return fits ? CUDNN_STATUS_SUCCESS
                : sim_dnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "mathPrec does not go with dataType");
}

cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t rnnDesc, cudnnRNNAlgo_t algo,
                                       cudnnRNNMode_t cellMode, cudnnRNNBiasMode_t biasMode,
                                       cudnnDirectionMode_t dirMode, cudnnRNNInputMode_t inputMode,
                                       cudnnDataType_t dataType, cudnnDataType_t mathPrec,
                                       cudnnMathType_t mathType, int32_t inputSize,
                                       int32_t hiddenSize, int32_t projSize, int32_t numLayers,
                                       cudnnDropoutDescriptor_t dropoutDesc, uint32_t auxFlags)
{
    const bool known = (unsigned)algo < CUDNN_RNN_ALGO_COUNT && (unsigned)cellMode <= CUDNN_GRU &&
                       (unsigned)biasMode <= CUDNN_RNN_SINGLE_REC_BIAS &&
                       (unsigned)dirMode <= CUDNN_BIDIRECTIONAL &&
                       (unsigned)inputMode <= CUDNN_SKIP_INPUT && sim_dnn_is_type(dataType) &&
                       sim_dnn_is_type(mathPrec) && (unsigned)mathType <= CUDNN_FMA_MATH &&
                       auxFlags <= CUDNN_RNN_PADDED_IO_ENABLED;
    const bool sizes = inputSize >= 1 && hiddenSize >= 1 && projSize >= 1 && numLayers >= 1;
    const bool simulated = algo == CUDNN_RNN_ALGO_STANDARD &&
                           (biasMode == CUDNN_RNN_NO_BIAS || biasMode == CUDNN_RNN_DOUBLE_BIAS) &&
                           inputMode == CUDNN_LINEAR_INPUT && projSize == hiddenSize &&
                           dropoutDesc == NULL;
    cudnnStatus_t status = sim_dnn_begin("cudnnSetRNNDescriptor_v8");
    if (status == CUDNN_STATUS_SUCCESS && (rnnDesc == NULL || !known || !sizes))
        status = sim_dnn_fail(CUDNN_STATUS_BAD_PARAM, "%s",
                              rnnDesc == NULL ? "rnnDesc is NULL"
                              : known         ? "a size is below 1"
                                              : "a mode is none");
    if (status == CUDNN_STATUS_SUCCESS)
        status = check_types(dataType, mathPrec);
    if (status == CUDNN_STATUS_SUCCESS && !simulated)
        status = sim_dnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "the simulator has no such layers");
    if (status == CUDNN_STATUS_SUCCESS)
        *rnnDesc = (struct cudnnRNNStruct){ .set = true,
                                            .biased = biasMode == CUDNN_RNN_DOUBLE_BIAS,
                                            .padded = auxFlags == CUDNN_RNN_PADDED_IO_ENABLED,
                                            .mode = cellMode,
                                            .type = dataType,
                                            .directions = dirMode == CUDNN_BIDIRECTIONAL ? 2 : 1,
                                            .layers = numLayers,
                                            .features = inputSize,
                                            .hidden = hiddenSize };
    return sim_dnn_end(status);
}

static cudnnStatus_t set_data(cudnnRNNDataDescriptor_t d, cudnnDataType_t type,
                              cudnnRNNDataLayout_t layout, const int sizes[3], const int *lengths)
{
    SIM_DNN_NEED(d != NULL && lengths != NULL);
    SIM_DNN_NEED(sim_dnn_is_type(type));
    SIM_DNN_NEED((unsigned)layout <= CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED);
    SIM_DNN_NEED(sizes[0] > 0 && sizes[1] > 0 && sizes[2] > 0);
    bool even = true;
    for (int i = 0; i < sizes[1]; i++) {
        SIM_DNN_NEED(lengths[i] >= 0 && lengths[i] <= sizes[0]);
        even = even && lengths[i] == sizes[0];
    }
    if (!even || layout != CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED)
        return sim_dnn_fail(CUDNN_STATUS_NOT_SUPPORTED,
                            "the simulator has sequences of one length, step by step");
    *d = (struct cudnnRNNDataStruct){ true, type, sizes[0], sizes[1], sizes[2] };
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t rnnDataDesc,
                                        cudnnDataType_t dataType, cudnnRNNDataLayout_t layout,
                                        int maxSeqLength, int batchSize, int vectorSize,
                                        const int seqLengthArray[], void *paddingFill)
{
    cudnnStatus_t status = sim_dnn_begin("cudnnSetRNNDataDescriptor");
    (void)paddingFill;
    if (status == CUDNN_STATUS_SUCCESS)
        status = set_data(rnnDataDesc, dataType, layout,
                          (const int[3]){ maxSeqLength, batchSize, vectorSize }, seqLengthArray);
    return sim_dnn_end(status);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

enum { LITTLE = 64 }; /* bytes of work memory where the reserve holds everything */

static cudnnStatus_t sizes_of(const struct cudnnRNNStruct *net, cudnnForwardMode_t mode,
                              const struct cudnnRNNDataStruct *x, size_t *out_work,
                              size_t *out_reserve)
{
    SIM_DNN_NEED(net != NULL && x != NULL && net->set && x->set);
    SIM_DNN_NEED(mode == CUDNN_FWD_MODE_INFERENCE || mode == CUDNN_FWD_MODE_TRAINING);
    if (!net->padded) /* the simulator's sequences are unpacked */
        return sim_dnn_fail(CUDNN_STATUS_BAD_PARAM,
                            "an unpacked layout without CUDNN_RNN_PADDED_IO_ENABLED");
    const size_t kept = sim_rnn_kept_bytes(net, x->length, x->batch);
    const bool training = mode == CUDNN_FWD_MODE_TRAINING;
    if (out_work != NULL)
        *out_work = training ? LITTLE : kept;
    if (out_reserve != NULL)
        *out_reserve = training ? kept : 0;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc,
                                        cudnnForwardMode_t fwdMode, cudnnRNNDataDescriptor_t xDesc,
                                        size_t *workSpaceSize, size_t *reserveSpaceSize)
{
    cudnnStatus_t status = sim_dnn_begin("cudnnGetRNNTempSpaceSizes");
    if (status == CUDNN_STATUS_SUCCESS)
        status = sim_dnn_check_handle(handle);
    if (status == CUDNN_STATUS_SUCCESS)
        status = sizes_of(rnnDesc, fwdMode, xDesc, workSpaceSize, reserveSpaceSize);
    return sim_dnn_end(status);
}

cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc,
                                         size_t *weightSpaceSize)
{
    cudnnStatus_t status = sim_dnn_begin("cudnnGetRNNWeightSpaceSize");
    if (status == CUDNN_STATUS_SUCCESS)
        status = sim_dnn_check_handle(handle);
    if (status == CUDNN_STATUS_SUCCESS &&
        (rnnDesc == NULL || !rnnDesc->set || weightSpaceSize == NULL))
        status = sim_dnn_fail(CUDNN_STATUS_BAD_PARAM, "an argument is NULL or not set");
    if (status == CUDNN_STATUS_SUCCESS)
        *weightSpaceSize = sim_rnn_weight_bytes(rnnDesc);
    return sim_dnn_end(status);
}

static cudnnStatus_t find_weights(const struct cudnnRNNStruct *net, int place, size_t bytes,
                                  const void *space, int id, cudnnTensorDescriptor_t m,
                                  void **out_matrix, cudnnTensorDescriptor_t b, void **out_bias)
{
    SIM_DNN_NEED(net != NULL && net->set && m != NULL && b != NULL);
    SIM_DNN_NEED(out_matrix != NULL && out_bias != NULL && space != NULL);
    SIM_DNN_NEED(place >= 0 && place < net->layers * net->directions);
    SIM_DNN_NEED(id >= 0 && id < 2 * sim_rnn_gates(net));
    SIM_DNN_NEED(bytes >= sim_rnn_weight_bytes(net));
    char *at = (char *)(uintptr_t)space;
    *out_matrix = at + sim_rnn_offset(net, place, id, false);
    *out_bias = net->biased ? at + sim_rnn_offset(net, place, id, true) : NULL;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc,
                                      int32_t pseudoLayer, size_t weightSpaceSize,
                                      const void *weightSpace, int32_t linLayerID,
                                      cudnnTensorDescriptor_t mDesc, void **mAddr,
                                      cudnnTensorDescriptor_t bDesc, void **bAddr)
{
    cudnnStatus_t status = sim_dnn_begin("cudnnGetRNNWeightParams");
    if (status == CUDNN_STATUS_SUCCESS)
        status = sim_dnn_check_handle(handle);
    if (status == CUDNN_STATUS_SUCCESS)
        status = find_weights(rnnDesc, pseudoLayer, weightSpaceSize, weightSpace, linLayerID, mDesc,
                              mAddr, bDesc, bAddr);
    return sim_dnn_end(status);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* What the three calls take alike. */
typedef struct rnn_call {
    const char *name;
    cudnnHandle_t handle;
    const struct cudnnRNNStruct *net;
    const struct cudnnRNNDataStruct *x, *y;
    const struct cudnnTensorStruct *h, *c;
    cudnnForwardMode_t mode;
    size_t weights, work, reserve;
    bool have_weights, have_work, have_reserve;
} rnn_call;

static cudnnStatus_t check_state(const rnn_call *r, const struct cudnnTensorStruct *t)
{
    SIM_DNN_NEED(t != NULL && t->set && t->type == r->net->type);
    SIM_DNN_NEED(t->dim[0] == r->net->layers * r->net->directions);
    SIM_DNN_NEED(t->dim[1] == r->x->batch && t->dim[2] == r->net->hidden && t->dim[3] == 1);
    SIM_DNN_NEED(sim_dnn_is_packed(t, CUDNN_TENSOR_NCHW));
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_call(const rnn_call *r)
{
    size_t work = 0, reserve = 0;
    cudnnStatus_t status = sim_dnn_check_handle(r->handle);
    if (status == CUDNN_STATUS_SUCCESS)
        status = sizes_of(r->net, r->mode, r->x, &work, &reserve);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    SIM_DNN_NEED(r->y != NULL && r->y->set && r->x->type == r->net->type);
    SIM_DNN_NEED(r->y->type == r->net->type && r->x->size == r->net->features);
    SIM_DNN_NEED(r->y->size == r->net->directions * r->net->hidden);
    SIM_DNN_NEED(r->y->length == r->x->length && r->y->batch == r->x->batch);
    SIM_DNN_NEED(r->have_weights && r->weights >= sim_rnn_weight_bytes(r->net));
    SIM_DNN_NEED(r->have_work && r->work >= work);
    SIM_DNN_NEED(reserve == 0 || (r->have_reserve && r->reserve >= reserve));
    status = check_state(r, r->h);
    return status == CUDNN_STATUS_SUCCESS && r->c != NULL ? check_state(r, r->c) : status;
}

/* `missing`: one of the operands that every such call wants, which `what` says. */
static cudnnStatus_t begin_call(const rnn_call *r, bool missing, const char *what)
{
    cudnnStatus_t status = sim_dnn_begin(r->name);
    if (status == CUDNN_STATUS_SUCCESS)
        status = check_call(r);
    if (status == CUDNN_STATUS_SUCCESS && missing)
        status = sim_dnn_fail(CUDNN_STATUS_BAD_PARAM, "%s", what);
    return status;
}

static sim_rnn plan_of(const rnn_call *r)
{
    return (sim_rnn){ .net = *r->net,
                      .length = r->x->length,
                      .batch = r->x->batch,
                      .training = r->mode == CUDNN_FWD_MODE_TRAINING };
}

static size_t bytes_of(const struct cudnnRNNDataStruct *d)
{
    return (size_t)d->length * (size_t)d->batch * (size_t)d->size * sim_dnn_size(d->type);
}

cudnnStatus_t cudnnRNNForward(cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc,
                              cudnnForwardMode_t fwdMode, const int32_t devSeqLengths[],
                              cudnnRNNDataDescriptor_t xDesc, const void *x,
                              cudnnRNNDataDescriptor_t yDesc, void *y,
                              cudnnTensorDescriptor_t hDesc, const void *hx, void *hy,
                              cudnnTensorDescriptor_t cDesc, const void *cx, void *cy,
                              size_t weightSpaceSize, const void *weightSpace, size_t workSpaceSize,
                              void *workSpace, size_t reserveSpaceSize, void *reserveSpace)
{
    const rnn_call r = { "cudnnRNNForward",
                         handle,
                         rnnDesc,
                         xDesc,
                         yDesc,
                         hDesc,
                         cDesc,
                         fwdMode,
                         weightSpaceSize,
                         workSpaceSize,
                         reserveSpaceSize,
                         weightSpace != NULL,
                         workSpace != NULL,
                         reserveSpace != NULL };
    cudnnStatus_t status = begin_call(&r, x == NULL || y == NULL, "x or y is NULL");
    (void)devSeqLengths;
    if (status == CUDNN_STATUS_SUCCESS) {
        sim_rnn w = plan_of(&r);
        const size_t state = sim_dnn_bytes(hDesc);
        const bool kept = w.training;
        void *other = NULL;
        const sim_dnn_operand operands[] = {
            { "x", x, bytes_of(xDesc), false, &w.x },
            { "y", y, bytes_of(yDesc), true, &w.y },
            { "hx", hx, state, false, &w.hx },
            { "hy", hy, state, true, &w.hy },
            { "cx", cx, state, false, &w.cx },
            { "cy", cy, state, true, &w.cy },
            { "the weights", weightSpace, weightSpaceSize, false, &w.weights },
            { "the work space", workSpace, workSpaceSize, true, kept ? &other : &w.kept },
            { "the reserve", kept ? reserveSpace : NULL, reserveSpaceSize, true, &w.kept },
        };
        status = sim_dnn_submit(r.name, handle, sim_rnn_forward, &w, sizeof w,
                                SIM_DNN_OPERANDS(operands));
    }
    return sim_dnn_end(status);
}

cudnnStatus_t cudnnRNNBackwardData_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc,
                                      const int32_t devSeqLengths[], cudnnRNNDataDescriptor_t yDesc,
                                      const void *y, const void *dy, cudnnRNNDataDescriptor_t xDesc,
                                      void *dx, cudnnTensorDescriptor_t hDesc, const void *hx,
                                      const void *dhy, void *dhx, cudnnTensorDescriptor_t cDesc,
                                      const void *cx, const void *dcy, void *dcx,
                                      size_t weightSpaceSize, const void *weightSpace,
                                      size_t workSpaceSize, void *workSpace,
                                      size_t reserveSpaceSize, void *reserveSpace)
{
    const rnn_call r = { "cudnnRNNBackwardData_v8",
                         handle,
                         rnnDesc,
                         xDesc,
                         yDesc,
                         hDesc,
                         cDesc,
                         CUDNN_FWD_MODE_TRAINING,
                         weightSpaceSize,
                         workSpaceSize,
                         reserveSpaceSize,
                         weightSpace != NULL,
                         workSpace != NULL,
                         reserveSpace != NULL };
    cudnnStatus_t status =
        begin_call(&r, y == NULL || dy == NULL || dx == NULL, "y, dy or dx is NULL");
    (void)devSeqLengths;
    if (status == CUDNN_STATUS_SUCCESS) {
        sim_rnn w = plan_of(&r);
        const size_t state = sim_dnn_bytes(hDesc);
        void *work = NULL;
        const sim_dnn_operand operands[] = {
            { "y", y, bytes_of(yDesc), false, &w.y },
            { "dy", dy, bytes_of(yDesc), false, &w.dy },
            { "dx", dx, bytes_of(xDesc), true, &w.dx },
            { "hx", hx, state, false, &w.hx },
            { "dhy", dhy, state, false, &w.dhy },
            { "dhx", dhx, state, true, &w.dhx },
            { "cx", cx, state, false, &w.cx },
            { "dcy", dcy, state, false, &w.dcy },
            { "dcx", dcx, state, true, &w.dcx },
            { "the weights", weightSpace, weightSpaceSize, false, &w.weights },
            { "the work space", workSpace, workSpaceSize, true, &work },
            { "the reserve", reserveSpace, reserveSpaceSize, true, &w.kept },
        };
        status = sim_dnn_submit(r.name, handle, sim_rnn_backward_data, &w, sizeof w,
                                SIM_DNN_OPERANDS(operands));
    }
    return sim_dnn_end(status);
}

cudnnStatus_t cudnnRNNBackwardWeights_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc,
                                         cudnnWgradMode_t addGrad, const int32_t devSeqLengths[],
                                         cudnnRNNDataDescriptor_t xDesc, const void *x,
                                         cudnnTensorDescriptor_t hDesc, const void *hx,
                                         cudnnRNNDataDescriptor_t yDesc, const void *y,
                                         size_t weightSpaceSize, void *dweightSpace,
                                         size_t workSpaceSize, void *workSpace,
                                         size_t reserveSpaceSize, void *reserveSpace)
{
    const rnn_call r = { "cudnnRNNBackwardWeights_v8",
                         handle,
                         rnnDesc,
                         xDesc,
                         yDesc,
                         hDesc,
                         NULL,
                         CUDNN_FWD_MODE_TRAINING,
                         weightSpaceSize,
                         workSpaceSize,
                         reserveSpaceSize,
                         dweightSpace != NULL,
                         workSpace != NULL,
                         reserveSpace != NULL };
    cudnnStatus_t status = begin_call(&r, x == NULL || y == NULL, "x or y is NULL");
    (void)devSeqLengths;
    if (status == CUDNN_STATUS_SUCCESS && addGrad != CUDNN_WGRAD_MODE_ADD)
        status = sim_dnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "gradients are added");
    if (status == CUDNN_STATUS_SUCCESS) {
        sim_rnn w = plan_of(&r);
        void *work = NULL;
        const sim_dnn_operand operands[] = {
            { "x", x, bytes_of(xDesc), false, &w.x },
            { "hx", hx, sim_dnn_bytes(hDesc), false, &w.hx },
            { "y", y, bytes_of(yDesc), false, &w.y },
            { "the weights' gradient", dweightSpace, weightSpaceSize, true, &w.dweights },
            { "the work space", workSpace, workSpaceSize, true, &work },
            { "the reserve", reserveSpace, reserveSpaceSize, true, &w.kept },
        };
        status = sim_dnn_submit(r.name, handle, sim_rnn_backward_weights, &w, sizeof w,
                                SIM_DNN_OPERANDS(operands));
    }
    return sim_dnn_end(status);
}
