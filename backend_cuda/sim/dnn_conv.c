/* cuDNN's convolution calls: algorithms with their limits and workspaces, choice, and direct loops.
 *
 * An algorithm differs from another in what it supports, in its workspace, which holds the sums where
 * there is one, and in its modelled time. Heuristics and measurement disagree on purpose, so that a
 * program that asks for one and gets the other shows. */
#include <stdlib.h>
#include <string.h>

#include "backend_cuda/sim/dnn_conv.h"

typedef struct dnn_work {
    dnn_conv conv;
    dnn_kind kind;
    double alpha, beta;
    bool tf32;
    void *in[3]; /* x, w, y; the result's is not used */
    void *result, *workspace;
    size_t workspace_bytes;
} dnn_work;

/* Of x, w, y: which one a call makes. */
static int result_of(dnn_kind kind)
{
    return kind == DNN_FORWARD ? 2 : kind == DNN_DATA ? 0 : 1;
}

/* 10 bits of mantissa, ties to even. */
static double as_tf32(double value)
{
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if ((bits & 0x7F800000u) != 0x7F800000u)
        bits = (bits + 0xFFFu + (bits >> 13 & 1u)) & ~0x1FFFu;
    memcpy(&f, &bits, sizeof bits);
    return f;
}

#define REAL float
#define NAME(x) x##_float
#include "backend_cuda/sim/dnn_loops.h"
#define REAL double
#define NAME(x) x##_double
#include "backend_cuda/sim/dnn_loops.h"

/* ---- algorithms ------------------------------------------------------------------------------ */

enum {
    PLAIN = 1,     /* no steps, no dilation */
    CELLS_3 = 2,   /* filters of 3 x 3 */
    CELLS_3_5 = 4, /* filters of 3 x 3 or 5 x 5 */
    ROWS = 8,      /* not for channels last */
    NEVER = 16,    /* listed, not implemented */
    NO_WIDE = 32,  /* not for doubles and bf16 */
    RANDOM = 64,   /* not deterministic */
    CORES = 128    /* on tensor cores, too */
};
/* Limits, workspace in results, and modelled times by heuristics and by measurement. */
typedef struct algorithm {
    int limits, workspace;
    float guessed, measured;
} algorithm;

/* clang-format off */
static const algorithm algorithms[3][8] = {
    [DNN_FORWARD] = { { 0, 0, 3, 2 },
                      { CORES, 1, 1, 3 },
                      { PLAIN | ROWS, 2, 5, 5 },
                      { NEVER, 0, 9, 9 },
                      { PLAIN | ROWS | NO_WIDE, 4, 7, 7 },
                      { PLAIN | ROWS | NO_WIDE, 3, 6, 6 },
                      { PLAIN | ROWS | NO_WIDE | CELLS_3, 0, 2, 1 },
                      { PLAIN | ROWS | NO_WIDE | CELLS_3_5 | CORES, 3, 4, 4 } },
    [DNN_DATA] = { { RANDOM, 0, 1, 3 },
                   { CORES, 1, 2, 2 },
                   { PLAIN | ROWS | NO_WIDE, 4, 7, 7 },
                   { PLAIN | ROWS | NO_WIDE, 3, 6, 6 },
                   { PLAIN | ROWS | NO_WIDE | CELLS_3, 0, 3, 1 },
                   { PLAIN | ROWS | NO_WIDE | CELLS_3_5 | CORES, 3, 4, 4 } },
    [DNN_FILTER] = { { RANDOM, 0, 1, 2 },
                     { CORES, 1, 2, 3 },
                     { PLAIN | ROWS | NO_WIDE, 4, 7, 7 },
                     { RANDOM | ROWS, 2, 3, 1 },
                     { NEVER, 0, 9, 9 },
                     { PLAIN | ROWS | NO_WIDE | CELLS_3 | CORES, 3, 4, 4 },
                     { PLAIN | ROWS | NO_WIDE, 3, 6, 6 } },
};
/* clang-format on */
static const int counts[3] = { CUDNN_CONVOLUTION_FWD_ALGO_COUNT,
                               CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT,
                               CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT };

static bool supports(const dnn_conv *c, const algorithm *a)
{
    const bool plain = c->step[0] == 1 && c->step[1] == 1 && c->dilation[0] == 1 &&
                       c->dilation[1] == 1 && c->pad[0] < c->w.dim[2] && c->pad[1] < c->w.dim[3];
    const bool square = c->w.dim[2] == c->w.dim[3];
    const bool wide = c->x.type == CUDNN_DATA_DOUBLE || c->x.type == CUDNN_DATA_BFLOAT16;
    if ((a->limits & NEVER) || ((a->limits & PLAIN) && !plain) || ((a->limits & NO_WIDE) && wide))
        return false;
    if ((a->limits & ROWS) && c->format == CUDNN_TENSOR_NHWC)
        return false;
    if ((a->limits & (CELLS_3 | CELLS_3_5)) && !square)
        return false;
    const int cells = c->w.dim[2];
    return !((a->limits & CELLS_3) && cells != 3) &&
           !((a->limits & CELLS_3_5) && cells != 3 && cells != 5);
}

static size_t workspace_of(const dnn_conv *c, dnn_kind kind, const algorithm *a)
{
    const struct cudnnTensorStruct *const t[3] = { &c->x, &c->w, &c->y };
    const size_t real = c->x.type == CUDNN_DATA_DOUBLE ? sizeof(double) : sizeof(float);
    return (size_t)sim_dnn_numel(t[result_of(kind)]) * real * (size_t)a->workspace;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static cudnnStatus_t check_layout(const dnn_conv *c)
{
    if (!sim_dnn_is_packed(&c->x, c->format) || !sim_dnn_is_packed(&c->y, c->format))
        return sim_dnn_fail(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT,
                            "x, y and the filter are not of one layout without gaps");
    if (c->format == CUDNN_TENSOR_NHWC && c->x.type == CUDNN_DATA_DOUBLE)
        return sim_dnn_fail(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "doubles in NHWC");
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t sim_conv_read(dnn_conv *c, cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                            cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t conv,
                            cudnnTensorDescriptor_t y)
{
    const cudnnStatus_t status = sim_dnn_check_handle(handle);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    SIM_DNN_NEED(x != NULL && w != NULL && conv != NULL && y != NULL);
    SIM_DNN_NEED(x->set && w->set && conv->set && y->set);
    *c = (dnn_conv){ .x = *x, .y = *y, .w = sim_dnn_of_filter(w), .format = w->format };
    memcpy(c->pad, conv->pad, sizeof c->pad);
    memcpy(c->step, conv->step, sizeof c->step);
    memcpy(c->dilation, conv->dilation, sizeof c->dilation);
    c->groups = conv->groups;
    c->compute = conv->compute;
    c->math = conv->math;
    SIM_DNN_NEED(x->type == w->type && x->type == y->type);
    SIM_DNN_NEED(x->dim[0] == y->dim[0]);
    SIM_DNN_NEED(x->dim[1] == w->dim[1] * c->groups && w->dim[0] % c->groups == 0);
    SIM_DNN_NEED(y->dim[1] == w->dim[0]);
    for (int d = 0; d < 2; d++) {
        const int covered = c->dilation[d] * (w->dim[2 + d] - 1) + 1;
        const int room = x->dim[2 + d] + 2 * c->pad[d] - covered;
        SIM_DNN_NEED(room >= 0 && y->dim[2 + d] == room / c->step[d] + 1);
    }
    const cudnnDataType_t wanted =
        x->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    if (c->compute != wanted)
        return sim_dnn_fail(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "no such type is accumulated");
    return check_layout(c);
}

/* ---- choice ---------------------------------------------------------------------------------- */

typedef struct candidate {
    int algo;
    cudnnStatus_t status;
    float time;
    size_t memory;
    cudnnDeterminism_t determinism;
} candidate;

/* Fastest first, unsupported ones at the end, as cuDNN lists them. */
static int list_candidates(const dnn_conv *c, dnn_kind kind, bool measured, size_t limit,
                           candidate *list)
{
    for (int i = 0; i < counts[kind]; i++) {
        const algorithm *a = &algorithms[kind][i];
        candidate now = { .algo = i,
                          .status = CUDNN_STATUS_SUCCESS,
                          .time = measured ? a->measured : a->guessed,
                          .memory = workspace_of(c, kind, a),
                          .determinism = (a->limits & RANDOM) ? CUDNN_NON_DETERMINISTIC
                                                              : CUDNN_DETERMINISTIC };
        if (!supports(c, a))
            now.status = CUDNN_STATUS_NOT_SUPPORTED;
        else if (now.memory > limit)
            now.status = CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
        if (now.status != CUDNN_STATUS_SUCCESS)
            now.time += 100;
        int at = i;
        for (; at > 0 && list[at - 1].time > now.time; at--)
            list[at] = list[at - 1];
        list[at] = now;
    }
    for (int i = 0; i < counts[kind]; i++)
        if (list[i].status != CUDNN_STATUS_SUCCESS)
            list[i].time = -1;
    return counts[kind];
}

/* "Algorithms without the CUDNN_TENSOR_OP_MATH availability will only be tried with CUDNN_DEFAULT_MATH, and
 * returned as such" (cudnnFindConvolutionForwardAlgorithm), whatever was asked for. For f32 none has it before
 * Ampere. */
static cudnnMathType_t math_of(const dnn_conv *c, const algorithm *a)
{
    const bool plain = (a->limits & CORES) == 0 || sim_config.capability < 80;
    return c->math == CUDNN_FMA_MATH && plain ? CUDNN_DEFAULT_MATH : c->math;
}

/* The three perf structs differ in the enum of `algo` alone. */
static cudnnStatus_t give_list(const dnn_conv *c, dnn_kind kind, bool measured, size_t limit,
                               int requested, int *returned, void *results)
{
    candidate list[8];
    SIM_DNN_NEED(requested > 0 && returned != NULL && results != NULL);
    const int n = list_candidates(c, kind, measured, limit, list);
    *returned = n < requested ? n : requested;
    for (int i = 0; i < *returned; i++) {
        cudnnConvolutionFwdAlgoPerf_t perf = { .algo = (cudnnConvolutionFwdAlgo_t)list[i].algo,
                                               .status = list[i].status,
                                               .time = list[i].time,
                                               .memory = list[i].memory,
                                               .determinism = list[i].determinism,
                                               .mathType =
                                                   math_of(c, &algorithms[kind][list[i].algo]) };
        memcpy((char *)results + (size_t)i * sizeof perf, &perf, sizeof perf);
    }
    return CUDNN_STATUS_SUCCESS;
}

/* ---- work ------------------------------------------------------------------------------------ */

static void run_conv(void *arguments)
{
    const dnn_work *work = arguments;
    if (work->conv.x.type == CUDNN_DATA_DOUBLE)
        run_double(work);
    else
        run_float(work);
}

/* What a measurement leaves in its result and workspace: nothing to rely on. */
static void run_measurement(void *arguments)
{
    const dnn_work *work = arguments;
    const struct cudnnTensorStruct *const t[3] = { &work->conv.x, &work->conv.w, &work->conv.y };
    memset(work->result, 0xFF, sim_dnn_bytes(t[result_of(work->kind)]));
    if (work->workspace != NULL)
        memset(work->workspace, 0xFF, work->workspace_bytes);
}

/* For tensor cores; the real library is slow or fails where an algorithm was chosen for other addresses. */
static cudnnStatus_t check_addresses(const dnn_data *data)
{
    const void *const given[] = { data->x, data->w, data->y, data->result, data->workspace };
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (((uintptr_t)given[i] & 15) != 0)
            return sim_dnn_fail(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
                                "%p is no multiple of 16 bytes", given[i]);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t submit(const char *call, cudnnHandle_t handle, dnn_work *plan,
                            const dnn_data *data, bool measurement)
{
    static const char *const names[3] = { "x", "w", "y" };
    const void *const given[3] = { data->x, data->w, data->y };
    const struct cudnnTensorStruct *const t[3] = { &plan->conv.x, &plan->conv.w, &plan->conv.y };
    void *arguments = NULL;
    const cudnnStatus_t status = check_addresses(data);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    sim_op *op = sim_work_new(handle->stream, call, measurement ? run_measurement : run_conv,
                              sizeof *plan, &arguments);
    if (op == NULL)
        return sim_dnn_fail(CUDNN_STATUS_EXECUTION_FAILED_CUDART, "the stream takes no work");
    bool ordered = true;
    for (int i = 0; i < 3; i++)
        if (i != result_of(plan->kind))
            ordered = ordered && sim_work_use(op, names[i], given[i], sim_dnn_bytes(t[i]), false,
                                              &plan->in[i]);
    ordered = ordered &&
              sim_work_use(op, "the result", data->result, sim_dnn_bytes(t[result_of(plan->kind)]),
                           true, &plan->result) &&
              sim_work_use(op, "the workspace", data->workspace, plan->workspace_bytes, true,
                           &plan->workspace);
    if (!ordered) {
        sim_work_cancel(op);
        return sim_dnn_fail(CUDNN_STATUS_EXECUTION_FAILED_CUDART, "%s", sim_last_report());
    }
    memcpy(arguments, plan, sizeof *plan);
    sim_work_submit(op);
    if (!measurement)
        return CUDNN_STATUS_SUCCESS;
    sim_device_wait(handle->device);
    return sim_devices[handle->device].lost == cudaSuccess
               ? CUDNN_STATUS_SUCCESS
               : sim_dnn_fail(CUDNN_STATUS_EXECUTION_FAILED, "%s", sim_last_report());
}

cudnnStatus_t sim_conv_run(const char *call, cudnnHandle_t handle, dnn_kind kind, const dnn_conv *c,
                           int algo, const void *alpha, const void *beta, const dnn_data *data)
{
    SIM_DNN_NEED(alpha != NULL && beta != NULL);
    SIM_DNN_NEED(data->result != NULL);
    SIM_DNN_NEED(kind == DNN_FORWARD || data->y != NULL);
    SIM_DNN_NEED(kind == DNN_DATA || data->x != NULL);
    SIM_DNN_NEED(kind == DNN_FILTER || data->w != NULL);
    SIM_DNN_NEED(algo >= 0 && algo < counts[kind]);
    const algorithm *a = &algorithms[kind][algo];
    if (!supports(c, a))
        return sim_dnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "algorithm %d is not for this", algo);
    dnn_work plan = { .conv = *c, .kind = kind };
    plan.alpha = sim_dnn_factor(c->x.type, alpha);
    plan.beta = sim_dnn_factor(c->x.type, beta);
    plan.tf32 =
        c->x.type == CUDNN_DATA_FLOAT && c->math != CUDNN_FMA_MATH && sim_config.capability >= 80;
    plan.workspace_bytes = workspace_of(c, kind, a);
    SIM_DNN_NEED(data->workspace_bytes >= plan.workspace_bytes);
    SIM_DNN_NEED(plan.workspace_bytes == 0 || data->workspace != NULL);
    return submit(call, handle, &plan, data, false);
}

cudnnStatus_t sim_conv_measure(const char *call, cudnnHandle_t handle, dnn_kind kind,
                               const dnn_conv *c, const dnn_data *data, int requested,
                               int *returned, void *results)
{
    SIM_DNN_NEED(data->result != NULL);
    dnn_work plan = { .conv = *c, .kind = kind };
    plan.workspace_bytes = data->workspace != NULL ? data->workspace_bytes : 0;
    const cudnnStatus_t status = submit(call, handle, &plan, data, true);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    return give_list(c, kind, true, plan.workspace_bytes, requested, returned, results);
}

cudnnStatus_t sim_conv_workspace(dnn_kind kind, const dnn_conv *c, int algo, size_t *out_bytes)
{
    SIM_DNN_NEED(out_bytes != NULL && algo >= 0 && algo < counts[kind]);
    if (!supports(c, &algorithms[kind][algo]))
        return sim_dnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "algorithm %d is not for this", algo);
    *out_bytes = workspace_of(c, kind, &algorithms[kind][algo]);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t sim_conv_guess(dnn_kind kind, const dnn_conv *c, int requested, int *returned,
                             void *results)
{
    return give_list(c, kind, false, SIZE_MAX, requested, returned, results);
}
