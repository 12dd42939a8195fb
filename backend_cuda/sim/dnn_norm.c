/* cuDNN's pooling (averages) and batch normalisation (spatial mode). */
#include <math.h>
#include <string.h>

#include "backend_cuda/sim/dnn.h"

typedef struct cudnnTensorStruct tensor;

/* ---- pooling --------------------------------------------------------------------------------- */

typedef struct pool_work {
    struct cudnnPoolingStruct pool;
    tensor x, y;
    double alpha, beta;
    void *x_data, *y_data;
} pool_work;

static double average(const pool_work *w, int64_t n, int64_t c, const int64_t first[2])
{
    double sum = 0;
    int64_t count = 0;
    for (int64_t h = first[0]; h < first[0] + w->pool.window[0]; h++)
        for (int64_t k = first[1]; k < first[1] + w->pool.window[1]; k++) {
            if (h < 0 || k < 0 || h >= w->x.dim[2] || k >= w->x.dim[3])
                continue;
            sum += sim_dnn_load(w->x.type, w->x_data,
                                n * w->x.stride[0] + c * w->x.stride[1] + h * w->x.stride[2] +
                                    k * w->x.stride[3]);
            count++;
        }
    if (w->pool.mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING)
        count = (int64_t)w->pool.window[0] * w->pool.window[1];
    return sum / (double)count;
}

static void run_pool(void *arguments)
{
    const pool_work *w = arguments;
    const int64_t count = sim_dnn_numel(&w->y), width = w->y.dim[3], plane = width * w->y.dim[2];
    for (int64_t i = 0; i < count; i++) {
        const int64_t first[2] = { i % plane / width * w->pool.step[0] - w->pool.pad[0],
                                   i % width * w->pool.step[1] - w->pool.pad[1] };
        const int64_t at = sim_dnn_place(&w->y, i);
        double value =
            w->alpha * average(w, i / plane / w->y.dim[1], i / plane % w->y.dim[1], first);
        if (w->beta != 0)
            value += w->beta * sim_dnn_load(w->y.type, w->y_data, at);
        sim_dnn_store(w->y.type, w->y_data, at, value);
    }
}

static cudnnStatus_t pool(const char *call, cudnnHandle_t handle, const pool_work *given,
                          const void *x, void *y)
{
    pool_work w = *given;
    for (int d = 0; d < 2; d++) {
        const int room = w.x.dim[2 + d] + 2 * w.pool.pad[d] - w.pool.window[d];
        SIM_DNN_NEED(w.x.dim[d] == w.y.dim[d]);
        SIM_DNN_NEED(room >= 0 && w.y.dim[2 + d] == room / w.pool.step[d] + 1);
    }
    SIM_DNN_NEED(w.x.type == w.y.type);
    if (w.pool.mode != CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING &&
        w.pool.mode != CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING)
        return sim_dnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "the simulator averages only");
    const sim_dnn_operand operands[] = { { "x", x, sim_dnn_bytes(&w.x), false, &w.x_data },
                                         { "y", y, sim_dnn_bytes(&w.y), true, &w.y_data } };
    return sim_dnn_submit(call, handle, run_pool, &w, sizeof w, SIM_DNN_OPERANDS(operands));
}

static cudnnStatus_t check_pool(cudnnHandle_t handle, cudnnPoolingDescriptor_t descriptor,
                                cudnnTensorDescriptor_t x_type, const void *x,
                                cudnnTensorDescriptor_t y_type, const void *y)
{
    SIM_DNN_NEED(descriptor != NULL && x_type != NULL && y_type != NULL);
    SIM_DNN_NEED(descriptor->set && x_type->set && y_type->set);
    SIM_DNN_NEED(x != NULL && y != NULL);
    return sim_dnn_check_handle(handle);
}

cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t poolingDesc,
                                  const void *alpha, const cudnnTensorDescriptor_t xDesc,
                                  const void *x, const void *beta,
                                  const cudnnTensorDescriptor_t yDesc, void *y)
{
    static const char call[] = "cudnnPoolingForward";
    cudnnStatus_t status = sim_dnn_begin(call);
    if (status == CUDNN_STATUS_SUCCESS)
        status = check_pool(handle, poolingDesc, xDesc, x, yDesc, y);
    if (status == CUDNN_STATUS_SUCCESS && (alpha == NULL || beta == NULL))
        status = sim_dnn_fail(CUDNN_STATUS_BAD_PARAM, "a factor is NULL");
    if (status == CUDNN_STATUS_SUCCESS) {
        const pool_work w = { .pool = *poolingDesc,
                              .x = *xDesc,
                              .y = *yDesc,
                              .alpha = sim_dnn_factor(xDesc->type, alpha),
                              .beta = sim_dnn_factor(xDesc->type, beta) };
        status = pool(call, handle, &w, x, y);
    }
    return sim_dnn_end(status);
}

/* ---- batch normalisation --------------------------------------------------------------------- */

/* Pointers are aliases by the time it runs; parameters are of `kind`. */
typedef struct norm_work {
    tensor x, y, dy; /* y: of the result */
    cudnnDataType_t kind;
    double factor, eps;
    void *x_data, *dy_data, *out;
    void *scale, *bias, *running_mean, *running_var, *mean, *inverse, *dscale, *dbias;
} norm_work;

static double parameter(const norm_work *w, const void *data, int64_t c)
{
    return sim_dnn_load(w->kind, data, c);
}

static int64_t per_channel(const norm_work *w)
{
    return (int64_t)w->x.dim[0] * w->x.dim[2] * w->x.dim[3];
}

/* Number, row by row, of element i of channel c. */
static int64_t element(const norm_work *w, int64_t c, int64_t i)
{
    const int64_t plane = (int64_t)w->x.dim[2] * w->x.dim[3];
    return (i / plane * w->x.dim[1] + c) * plane + i % plane;
}

static double at(const tensor *t, const void *data, int64_t i)
{
    return sim_dnn_load(t->type, data, sim_dnn_place(t, i));
}

static void moments(const norm_work *w, int64_t c, double *out_mean, double *out_square)
{
    const int64_t n = per_channel(w);
    double mean = 0, square = 0;
    for (int64_t i = 0; i < n; i++)
        mean += at(&w->x, w->x_data, element(w, c, i)) / (double)n;
    for (int64_t i = 0; i < n; i++) {
        const double d = at(&w->x, w->x_data, element(w, c, i)) - mean;
        square += d * d;
    }
    *out_mean = mean;
    *out_square = square;
}

static void normalise(const norm_work *w, int64_t c, double mean, double inverse)
{
    const int64_t n = per_channel(w);
    for (int64_t i = 0; i < n; i++) {
        const int64_t e = element(w, c, i);
        const double value = (at(&w->x, w->x_data, e) - mean) * inverse;
        sim_dnn_store(w->y.type, w->out, sim_dnn_place(&w->y, e),
                      value * parameter(w, w->scale, c) + parameter(w, w->bias, c));
    }
}

static void blend(const norm_work *w, void *data, int64_t c, double value)
{
    sim_dnn_store(w->kind, data, c, (1 - w->factor) * parameter(w, data, c) + w->factor * value);
}

/* The running variance is the unbiased one, what is saved the biased one's inverse root. */
static void run_training(void *arguments)
{
    const norm_work *w = arguments;
    const double n = (double)per_channel(w);
    for (int64_t c = 0; c < w->x.dim[1]; c++) {
        double mean, square;
        moments(w, c, &mean, &square);
        const double inverse = 1 / sqrt(square / n + w->eps);
        if (w->running_mean != NULL) {
            blend(w, w->running_mean, c, mean);
            blend(w, w->running_var, c, square / (n - 1));
        }
        if (w->mean != NULL) {
            sim_dnn_store(w->kind, w->mean, c, mean);
            sim_dnn_store(w->kind, w->inverse, c, inverse);
        }
        normalise(w, c, mean, inverse);
    }
}

static void run_inference(void *arguments)
{
    const norm_work *w = arguments;
    for (int64_t c = 0; c < w->x.dim[1]; c++)
        normalise(w, c, parameter(w, w->running_mean, c),
                  1 / sqrt(parameter(w, w->running_var, c) + w->eps));
}

static void run_backward(void *arguments)
{
    const norm_work *w = arguments;
    const int64_t n = per_channel(w);
    for (int64_t c = 0; c < w->x.dim[1]; c++) {
        const double mean = parameter(w, w->mean, c), inverse = parameter(w, w->inverse, c);
        double sum = 0, dot = 0;
        for (int64_t i = 0; i < n; i++) {
            const int64_t e = element(w, c, i);
            const double g = at(&w->dy, w->dy_data, e);
            sum += g;
            dot += g * (at(&w->x, w->x_data, e) - mean) * inverse;
        }
        sim_dnn_store(w->kind, w->dscale, c, dot);
        sim_dnn_store(w->kind, w->dbias, c, sum);
        for (int64_t i = 0; i < n; i++) {
            const int64_t e = element(w, c, i);
            const double normal = (at(&w->x, w->x_data, e) - mean) * inverse;
            const double rest = (sum + normal * dot) / (double)n;
            sim_dnn_store(w->y.type, w->out, sim_dnn_place(&w->y, e),
                          (at(&w->dy, w->dy_data, e) - rest) * inverse * parameter(w, w->scale, c));
        }
    }
}

/* What the three calls check alike; factors have to be 1 and 0. */
static cudnnStatus_t read_norm(norm_work *w, cudnnHandle_t handle, cudnnBatchNormMode_t mode,
                               const void *alpha, const void *beta, cudnnTensorDescriptor_t x,
                               cudnnTensorDescriptor_t y, cudnnTensorDescriptor_t parameters,
                               double epsilon)
{
    SIM_DNN_NEED(x != NULL && y != NULL && parameters != NULL && alpha != NULL && beta != NULL);
    SIM_DNN_NEED(x->set && y->set && parameters->set);
    SIM_DNN_NEED(epsilon >= CUDNN_BN_MIN_EPSILON);
    SIM_DNN_NEED(x->type == y->type && memcmp(x->dim, y->dim, sizeof x->dim) == 0);
    if (mode != CUDNN_BATCHNORM_SPATIAL)
        return sim_dnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "the simulator has the spatial mode only");
    if (x->type == CUDNN_DATA_BFLOAT16)
        return sim_dnn_fail(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "bf16");
    const cudnnDataType_t kind =
        x->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    SIM_DNN_NEED(parameters->type == kind);
    for (int d = 0; d < 4; d++)
        SIM_DNN_NEED(parameters->dim[d] == (d == 1 ? x->dim[1] : 1));
    if (sim_dnn_factor(x->type, alpha) != 1 || sim_dnn_factor(x->type, beta) != 0)
        return sim_dnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "the simulator scales by 1 and 0 only");
    *w = (norm_work){ .x = *x, .y = *y, .kind = kind, .eps = epsilon };
    return sim_dnn_check_handle(handle);
}

static size_t row_bytes(const norm_work *w)
{
    return (size_t)w->x.dim[1] * sim_dnn_size(w->kind);
}

cudnnStatus_t cudnnBatchNormalizationForwardTraining(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void *alpha, const void *beta,
    const cudnnTensorDescriptor_t xDesc, const void *x, const cudnnTensorDescriptor_t yDesc,
    void *y, const cudnnTensorDescriptor_t bnScaleBiasMeanVarDesc, const void *bnScale,
    const void *bnBias, double exponentialAverageFactor, void *resultRunningMean,
    void *resultRunningVariance, double epsilon, void *resultSaveMean, void *resultSaveInvVariance)
{
    static const char call[] = "cudnnBatchNormalizationForwardTraining";
    norm_work w;
    cudnnStatus_t status = sim_dnn_begin(call);
    if (status == CUDNN_STATUS_SUCCESS)
        status =
            read_norm(&w, handle, mode, alpha, beta, xDesc, yDesc, bnScaleBiasMeanVarDesc, epsilon);
    if (status == CUDNN_STATUS_SUCCESS &&
        (x == NULL || y == NULL || bnScale == NULL || bnBias == NULL ||
         (resultRunningMean == NULL) != (resultRunningVariance == NULL) ||
         (resultSaveMean == NULL) != (resultSaveInvVariance == NULL)))
        status = sim_dnn_fail(CUDNN_STATUS_BAD_PARAM, "a pointer is NULL");
    if (status == CUDNN_STATUS_SUCCESS) {
        const size_t row = row_bytes(&w);
        const sim_dnn_operand operands[] = {
            { "x", x, sim_dnn_bytes(&w.x), false, &w.x_data },
            { "y", y, sim_dnn_bytes(&w.y), true, &w.out },
            { "the scale", bnScale, row, false, &w.scale },
            { "the bias", bnBias, row, false, &w.bias },
            { "the running mean", resultRunningMean, row, true, &w.running_mean },
            { "the running variance", resultRunningVariance, row, true, &w.running_var },
            { "the mean", resultSaveMean, row, true, &w.mean },
            { "the deviation", resultSaveInvVariance, row, true, &w.inverse },
        };
        w.factor = exponentialAverageFactor;
        status =
            sim_dnn_submit(call, handle, run_training, &w, sizeof w, SIM_DNN_OPERANDS(operands));
    }
    return sim_dnn_end(status);
}

cudnnStatus_t cudnnBatchNormalizationForwardInference(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void *alpha, const void *beta,
    const cudnnTensorDescriptor_t xDesc, const void *x, const cudnnTensorDescriptor_t yDesc,
    void *y, const cudnnTensorDescriptor_t bnScaleBiasMeanVarDesc, const void *bnScale,
    const void *bnBias, const void *estimatedMean, const void *estimatedVariance, double epsilon)
{
    static const char call[] = "cudnnBatchNormalizationForwardInference";
    norm_work w;
    cudnnStatus_t status = sim_dnn_begin(call);
    if (status == CUDNN_STATUS_SUCCESS)
        status =
            read_norm(&w, handle, mode, alpha, beta, xDesc, yDesc, bnScaleBiasMeanVarDesc, epsilon);
    if (status == CUDNN_STATUS_SUCCESS &&
        (x == NULL || y == NULL || bnScale == NULL || bnBias == NULL || estimatedMean == NULL ||
         estimatedVariance == NULL))
        status = sim_dnn_fail(CUDNN_STATUS_BAD_PARAM, "a pointer is NULL");
    if (status == CUDNN_STATUS_SUCCESS) {
        const size_t row = row_bytes(&w);
        const sim_dnn_operand operands[] = {
            { "x", x, sim_dnn_bytes(&w.x), false, &w.x_data },
            { "y", y, sim_dnn_bytes(&w.y), true, &w.out },
            { "the scale", bnScale, row, false, &w.scale },
            { "the bias", bnBias, row, false, &w.bias },
            { "the mean", estimatedMean, row, false, &w.running_mean },
            { "the variance", estimatedVariance, row, false, &w.running_var },
        };
        status =
            sim_dnn_submit(call, handle, run_inference, &w, sizeof w, SIM_DNN_OPERANDS(operands));
    }
    return sim_dnn_end(status);
}

cudnnStatus_t cudnnBatchNormalizationBackward(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void *alphaDataDiff,
    const void *betaDataDiff, const void *alphaParamDiff, const void *betaParamDiff,
    const cudnnTensorDescriptor_t xDesc, const void *x, const cudnnTensorDescriptor_t dyDesc,
    const void *dy, const cudnnTensorDescriptor_t dxDesc, void *dx,
    const cudnnTensorDescriptor_t dBnScaleBiasDesc, const void *bnScale, void *dBnScaleResult,
    void *dBnBiasResult, double epsilon, const void *savedMean, const void *savedInvVariance)
{
    static const char call[] = "cudnnBatchNormalizationBackward";
    norm_work w;
    cudnnStatus_t status = sim_dnn_begin(call);
    if (status == CUDNN_STATUS_SUCCESS)
        status = read_norm(&w, handle, mode, alphaParamDiff, betaParamDiff, xDesc, dyDesc,
                           dBnScaleBiasDesc, epsilon);
    if (status == CUDNN_STATUS_SUCCESS)
        status = read_norm(&w, handle, mode, alphaDataDiff, betaDataDiff, xDesc, dxDesc,
                           dBnScaleBiasDesc, epsilon);
    if (status == CUDNN_STATUS_SUCCESS &&
        (x == NULL || dy == NULL || dx == NULL || bnScale == NULL || dBnScaleResult == NULL ||
         dBnBiasResult == NULL || savedMean == NULL || savedInvVariance == NULL))
        status = sim_dnn_fail(CUDNN_STATUS_BAD_PARAM, "a pointer is NULL");
    if (status == CUDNN_STATUS_SUCCESS) {
        const size_t row = row_bytes(&w);
        w.dy = *dyDesc;
        const sim_dnn_operand operands[] = {
            { "x", x, sim_dnn_bytes(&w.x), false, &w.x_data },
            { "dy", dy, sim_dnn_bytes(&w.dy), false, &w.dy_data },
            { "dx", dx, sim_dnn_bytes(&w.y), true, &w.out },
            { "the scale", bnScale, row, false, &w.scale },
            { "the scale's gradient", dBnScaleResult, row, true, &w.dscale },
            { "the bias' gradient", dBnBiasResult, row, true, &w.dbias },
            { "the mean", savedMean, row, false, &w.mean },
            { "the deviation", savedInvVariance, row, false, &w.inverse },
        };
        status =
            sim_dnn_submit(call, handle, run_backward, &w, sizeof w, SIM_DNN_OPERANDS(operands));
    }
    return sim_dnn_end(status);
}
