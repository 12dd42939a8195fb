/* Convolution by cuDNN. An algorithm is chosen once for each shape: the fastest of those that the flags
 * allow, by cuDNN's heuristics or, under tern_cudnn_set_benchmark, by its measurement; where its workspace
 * cannot be had, the next that wants less. */
#include <stdio.h>

#include "backend_cuda/cudnn_calls.h"

enum { MOST_ALGORITHMS = DNN_WAYS };
#define ALGORITHM_NAMES                                                                             \
    {                                                                                               \
        { "IMPLICIT_GEMM", "IMPLICIT_PRECOMP_GEMM", "GEMM", "DIRECT", "FFT", "FFT_TILING",          \
          "WINOGRAD",      "WINOGRAD_NONFUSED" },                                                   \
            { "ALGO_0", "ALGO_1", "FFT", "FFT_TILING", "WINOGRAD", "WINOGRAD_NONFUSED" },           \
            { "ALGO_0", "ALGO_1", "FFT", "ALGO_3", "WINOGRAD", "WINOGRAD_NONFUSED", "FFT_TILING" }, \
    }

/* The three passes differ in calls and types, not in what is done with them. */
typedef struct candidate {
    int algorithm;
    cudnnStatus_t status;
    cudnnDeterminism_t determinism;
    cudnnMathType_t math;
} candidate;

static const char *const op_names[] = { "conv2d", "conv2d_grad_input", "conv2d_grad_weight" };
static const char *const call_names[] = { "cudnnConvolutionForward", "cudnnConvolutionBackwardData",
                                          "cudnnConvolutionBackwardFilter" };
static const int algorithm_counts[] = { CUDNN_CONVOLUTION_FWD_ALGO_COUNT,
                                        CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT,
                                        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT };

/* What a choice works with; workspace: for measurements. */
typedef struct chooser {
    const tern_call *call;
    cudaStream_t stream;
    cuda_dnn_pass pass;
    const cuda_dnn_conv *conv;
    dnn_plan *plan;
    void *workspace;
    size_t workspace_bytes;
    candidate list[MOST_ALGORITHMS];
    int count;
} chooser;

#define TAKE(c, perf)                                                                        \
    for (int i = 0; i < (c)->count; i++)                                                     \
        (c)->list[i] = (candidate)                                                           \
        {                                                                                    \
            (int)(perf)[i].algo, (perf)[i].status, (perf)[i].determinism, (perf)[i].mathType \
        }

/* ---- asking ---------------------------------------------------------------------------------- */

static cudnnStatus_t ask_forward(chooser *c, cudnnHandle_t handle, bool measure)
{
    const dnn_plan *p = c->plan;
    cudnnConvolutionFwdAlgoPerf_t perf[MOST_ALGORITHMS];
    DNN_TRY(measure ? dnn.cudnnFindConvolutionForwardAlgorithmEx(
                          handle, p->x, c->conv->x, p->w, c->conv->w, p->conv, p->y, c->conv->y,
                          MOST_ALGORITHMS, &c->count, perf, c->workspace, c->workspace_bytes)
                    : dnn.cudnnGetConvolutionForwardAlgorithm_v7(handle, p->x, p->w, p->conv, p->y,
                                                                 MOST_ALGORITHMS, &c->count, perf));
    TAKE(c, perf);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t ask_input(chooser *c, cudnnHandle_t handle, bool measure)
{
    const dnn_plan *p = c->plan;
    cudnnConvolutionBwdDataAlgoPerf_t perf[MOST_ALGORITHMS];
    DNN_TRY(measure ? dnn.cudnnFindConvolutionBackwardDataAlgorithmEx(
                          handle, p->w, c->conv->w, p->y, c->conv->y, p->conv, p->x, c->conv->x,
                          MOST_ALGORITHMS, &c->count, perf, c->workspace, c->workspace_bytes)
                    : dnn.cudnnGetConvolutionBackwardDataAlgorithm_v7(
                          handle, p->w, p->y, p->conv, p->x, MOST_ALGORITHMS, &c->count, perf));
    TAKE(c, perf);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t ask_weight(chooser *c, cudnnHandle_t handle, bool measure)
{
    const dnn_plan *p = c->plan;
    cudnnConvolutionBwdFilterAlgoPerf_t perf[MOST_ALGORITHMS];
    DNN_TRY(measure ? dnn.cudnnFindConvolutionBackwardFilterAlgorithmEx(
                          handle, p->x, c->conv->x, p->y, c->conv->y, p->conv, p->w, c->conv->w,
                          MOST_ALGORITHMS, &c->count, perf, c->workspace, c->workspace_bytes)
                    : dnn.cudnnGetConvolutionBackwardFilterAlgorithm_v7(
                          handle, p->x, p->y, p->conv, p->w, MOST_ALGORITHMS, &c->count, perf));
    TAKE(c, perf);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t ask(chooser *c, cudnnHandle_t handle, bool measure)
{
    c->count = 0;
    return c->pass == CUDA_DNN_FORWARD      ? ask_forward(c, handle, measure)
           : c->pass == CUDA_DNN_GRAD_INPUT ? ask_input(c, handle, measure)
                                            : ask_weight(c, handle, measure);
}

/* Workspace of an algorithm; refused where it is none for this shape. */
static cudnnStatus_t ask_size(const dnn_plan *p, cudnnHandle_t handle, cuda_dnn_pass pass,
                              int algorithm, size_t *out_bytes)
{
    switch (pass) {
    case CUDA_DNN_FORWARD:
        return dnn.cudnnGetConvolutionForwardWorkspaceSize(
            handle, p->x, p->w, p->conv, p->y, (cudnnConvolutionFwdAlgo_t)algorithm, out_bytes);
    case CUDA_DNN_GRAD_INPUT:
        return dnn.cudnnGetConvolutionBackwardDataWorkspaceSize(
            handle, p->w, p->y, p->conv, p->x, (cudnnConvolutionBwdDataAlgo_t)algorithm, out_bytes);
    case CUDA_DNN_GRAD_WEIGHT:
        break;
    }
    return dnn.cudnnGetConvolutionBackwardFilterWorkspaceSize(
        handle, p->x, p->y, p->conv, p->w, (cudnnConvolutionBwdFilterAlgo_t)algorithm, out_bytes);
}

/* The kind of multiplication belongs to the algorithm. With a handle, which one thread has at a time. */
static cudnnStatus_t set_math(dnn_plan *p, cudnnMathType_t math)
{
    if (p->math == math)
        return CUDNN_STATUS_SUCCESS;
    DNN_TRY(dnn.cudnnSetConvolutionMathType(p->conv, math));
    p->math = math;
    return CUDNN_STATUS_SUCCESS;
}

/* What a plan is run with. */
typedef struct run_args {
    cuda_dnn_pass pass;
    const cuda_dnn_conv *conv;
    const dnn_way *way;
    void *workspace;
} run_args;

static cudnnStatus_t run(dnn_plan *p, cudnnHandle_t handle, const void *args)
{
    const run_args *r = args;
    const cuda_dnn_conv *c = r->conv;
    const dnn_way *way = r->way;
    const void *one = dnn_one(c->dtype), *zero = dnn_zero(c->dtype);
    DNN_TRY(set_math(p, way->math));
    switch (r->pass) {
    case CUDA_DNN_FORWARD:
        return dnn.cudnnConvolutionForward(handle, one, p->x, c->x, p->w, c->w, p->conv,
                                           (cudnnConvolutionFwdAlgo_t)way->algorithm, r->workspace,
                                           way->workspace, zero, p->y, c->y);
    case CUDA_DNN_GRAD_INPUT:
        return dnn.cudnnConvolutionBackwardData(handle, one, p->w, c->w, p->y, c->y, p->conv,
                                                (cudnnConvolutionBwdDataAlgo_t)way->algorithm,
                                                r->workspace, way->workspace, zero, p->x, c->x);
    case CUDA_DNN_GRAD_WEIGHT:
        break;
    }
    return dnn.cudnnConvolutionBackwardFilter(handle, one, p->x, c->x, p->y, c->y, p->conv,
                                              (cudnnConvolutionBwdFilterAlgo_t)way->algorithm,
                                              r->workspace, way->workspace, zero, p->w, c->w);
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* TF32 is for f32 alone, and cuDNN's default: without it only plain multiply-adds may be used. */
static cudnnMathType_t first_math(const dnn_key *key)
{
    if (key->dtype == TERN_F16 || key->dtype == TERN_BF16)
        return CUDNN_TENSOR_OP_MATH;
    return key->dtype == TERN_F32 && !(key->flags & TERN_NUMERICS_TF32_CONV) ? CUDNN_FMA_MATH
                                                                             : CUDNN_DEFAULT_MATH;
}

static cudnnStatus_t describe(dnn_plan *p, const cuda_dnn_conv *c)
{
    const cuda_conv_shape *s = c->shape;
    const cudnnDataType_t type = dnn_type(c->dtype);
    DNN_TRY(dnn_describe_tensor(&p->x, c->dtype, c->channels_last,
                                (const int64_t[4]){ s->n, s->c, s->in[0], s->in[1] }));
    DNN_TRY(dnn_describe_tensor(&p->y, c->dtype, c->channels_last,
                                (const int64_t[4]){ s->n, s->o, s->out[0], s->out[1] }));
    DNN_TRY(dnn.cudnnCreateFilterDescriptor(&p->w));
    DNN_TRY(dnn.cudnnSetFilter4dDescriptor(
        p->w, type, c->channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW, (int)s->o,
        (int)(s->c / s->groups), (int)s->kernel[0], (int)s->kernel[1]));
    DNN_TRY(dnn.cudnnCreateConvolutionDescriptor(&p->conv));
    DNN_TRY(dnn.cudnnSetConvolution2dDescriptor(
        p->conv, (int)s->padding[0], (int)s->padding[1], (int)s->stride[0], (int)s->stride[1],
        (int)s->dilation[0], (int)s->dilation[1], CUDNN_CROSS_CORRELATION,
        type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT));
    DNN_TRY(dnn.cudnnSetConvolutionGroupCount(p->conv, (int)s->groups));
    p->math = first_math(&p->key);
    return dnn.cudnnSetConvolutionMathType(p->conv, p->math);
}

/* The library lists an algorithm that has no tensor cores, or any before Ampere, under its default, whatever
 * was asked for; with plain multiply-adds such a one runs as with the default. */
static cudnnMathType_t math_for(const dnn_key *key, const candidate *a)
{
    return first_math(key) == CUDNN_FMA_MATH ? CUDNN_FMA_MATH : a->math;
}

static bool is_allowed(const dnn_key *key, const candidate *a)
{
    if (a->status != CUDNN_STATUS_SUCCESS)
        return false;
    if ((key->flags & TERN_NUMERICS_CUDNN_DETERMINISTIC) && a->determinism != CUDNN_DETERMINISTIC)
        return false;
    return first_math(key) != CUDNN_FMA_MATH || a->math == CUDNN_FMA_MATH ||
           a->math == CUDNN_DEFAULT_MATH;
}

static void log_choice(const chooser *c, bool measured)
{
    static const char *const names[][MOST_ALGORITHMS] = ALGORITHM_NAMES;
    const cuda_conv_shape *s = c->conv->shape;
    c->call->host->event(
        TERN_LOG_DEBUG,
        "%s on cuda:%d: cuDNN takes %s by %s, with %zu bytes of workspace, for [%lld, %lld, %lld, "
        "%lld] and %lld filters of %lldx%lld%s",
        op_names[c->pass], (int)c->call->dev.index, names[c->pass][c->plan->way[0].algorithm],
        measured ? "measurement" : "heuristics", c->plan->way[0].workspace, (long long)s->n,
        (long long)s->c, (long long)s->in[0], (long long)s->in[1], (long long)s->o,
        (long long)s->kernel[0], (long long)s->kernel[1],
        c->conv->channels_last ? ", channels last" : "");
    cuda_return(c->call);
}

/* Those of the list that may be used; one that wants no less than a faster one never will be. */
static cudnnStatus_t pick(chooser *c, cudnnHandle_t handle)
{
    dnn_plan *p = c->plan;
    for (int i = 0; i < c->count; i++) {
        const candidate *a = &c->list[i];
        dnn_way way = { a->algorithm, math_for(&p->key, a), 0 };
        if (!is_allowed(&p->key, a))
            continue;
        const cudnnStatus_t status = set_math(p, way.math);
        if (status != CUDNN_STATUS_SUCCESS)
            return p->ways > 0 ? CUDNN_STATUS_SUCCESS : status;
        if (ask_size(p, handle, c->pass, way.algorithm, &way.workspace) == CUDNN_STATUS_SUCCESS &&
            (p->ways == 0 || way.workspace < p->way[p->ways - 1].workspace))
            p->way[p->ways++] = way;
    }
    return p->ways > 0 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}

/* Memory for measuring: what the greediest algorithm wants, or as much as there is. */
static void find_room(chooser *c)
{
    size_t sizes[MOST_ALGORITHMS] = { 0 };
    cudnnHandle_t handle = dnn_enter(c->call, c->stream, op_names[c->pass]);
    for (int a = 0; handle != NULL && a < algorithm_counts[c->pass]; a++)
        if (ask_size(c->plan, handle, c->pass, a, &sizes[a]) != CUDNN_STATUS_SUCCESS)
            sizes[a] = 0;
    if (handle != NULL)
        dnn_leave();
    size_t limit = SIZE_MAX;
    do {
        size_t most = 0;
        for (int a = 0; a < MOST_ALGORITHMS; a++)
            most = sizes[a] > most && sizes[a] < limit ? sizes[a] : most;
        limit = most;
        c->workspace = most > 0 ? dnn_scratch(c->call, most) : NULL;
    } while (limit > 0 && c->workspace == NULL);
    c->workspace_bytes = limit;
}

/* Fills the plan. *out_ready is false where cuDNN does not start. */
static cudnnStatus_t choose(chooser *c, bool *out_ready)
{
    const bool measure = c->plan->key.flags & TERN_NUMERICS_CUDNN_BENCHMARK;
    DNN_TRY(describe(c->plan, c->conv));
    if (measure)
        find_room(c);
    cudnnHandle_t handle = dnn_enter(c->call, c->stream, op_names[c->pass]);
    *out_ready = handle != NULL;
    if (handle == NULL)
        return CUDNN_STATUS_SUCCESS;
    cudnnStatus_t status = ask(c, handle, measure);
    if (status == CUDNN_STATUS_SUCCESS)
        status = pick(c, handle);
    dnn_leave();
    if (status == CUDNN_STATUS_SUCCESS)
        log_choice(c, measure);
    return status;
}

static dnn_key key_of(const tern_call *call, cuda_dnn_pass pass, const cuda_dnn_conv *c)
{
    const cuda_conv_shape *s = c->shape;
    uint32_t flags = call->host->numerics();
    if (flags & TERN_NUMERICS_DETERMINISTIC)
        flags |= TERN_NUMERICS_CUDNN_DETERMINISTIC;
    flags &= TERN_NUMERICS_CUDNN_BENCHMARK | TERN_NUMERICS_CUDNN_DETERMINISTIC |
             (c->dtype == TERN_F32 ? TERN_NUMERICS_TF32_CONV : 0u);
    const int64_t numbers[] = { s->n,          s->c,          s->o,           s->groups,
                                s->in[0],      s->in[1],      s->out[0],      s->out[1],
                                s->kernel[0],  s->kernel[1],  s->stride[0],   s->stride[1],
                                s->padding[0], s->padding[1], s->dilation[0], s->dilation[1] };
    dnn_key key = { (int32_t)pass, call->dev.index, c->dtype, c->channels_last, flags, { 0 } };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        key.number[i] = (int32_t)numbers[i];
    return key;
}

static bool takes(const cuda_dnn_conv *c)
{
    const cuda_conv_shape *s = c->shape;
    for (int d = 0; d < 2; d++)
        if (s->stride[d] > INT32_MAX || s->padding[d] > INT32_MAX / 4 || s->dilation[d] > INT32_MAX)
            return false;
    return dnn_takes((const int64_t[4]){ s->n, s->c, s->in[0], s->in[1] }) &&
           dnn_takes((const int64_t[4]){ s->n, s->o, s->out[0], s->out[1] }) &&
           dnn_takes((const int64_t[4]){ s->o, s->c / s->groups, s->kernel[0], s->kernel[1] });
}

static tern_status_t make_plan(chooser *c, const dnn_key *key, dnn_plan **out_plan)
{
    bool ready = true, done = false;
    if ((c->plan = dnn_new(key)) == NULL)
        return TERN_OK;
    const cudnnStatus_t status = choose(c, &ready);
    tern_status_t code = TERN_OK;
    if (status != CUDNN_STATUS_SUCCESS)
        code =
            dnn_settle(c->call, op_names[c->pass], "choosing an algorithm", status, c->plan, &done);
    if (code == TERN_OK && ready)
        *out_plan = dnn_keep(c->plan);
    else
        dnn_drop(c->plan);
    return code;
}

/* *out_plan stays NULL where cuDNN does not start or is out of the question. */
static tern_status_t plan_for(chooser *c, dnn_plan **out_plan)
{
    const dnn_key key = key_of(c->call, c->pass, c->conv);
    tern_status_t code = TERN_OK;
    bool tried = false;
    *out_plan = dnn_find(&key);
    if (*out_plan == NULL)
        do
            code = make_plan(c, &key, out_plan);
        while (dnn_again(c->call, code, &tried));
    return code;
}

/* The fastest way that there is memory for, or NULL. */
static const dnn_way *find_way(const tern_call *call, const dnn_plan *plan, void **out_workspace)
{
    for (int i = 0; i < plan->ways; i++) {
        const dnn_way *way = &plan->way[i];
        *out_workspace = way->workspace > 0 ? dnn_scratch(call, way->workspace) : NULL;
        if (way->workspace == 0 || *out_workspace != NULL)
            return way;
    }
    return NULL;
}

tern_status_t cuda_dnn_convolve(const tern_call *call, cudaStream_t stream, cuda_dnn_pass pass,
                                const cuda_dnn_conv *conv, bool *out_done)
{
    chooser c = { .call = call, .stream = stream, .pass = pass, .conv = conv };
    dnn_plan *plan = NULL;
    tern_status_t code = TERN_OK;
    if (!cuda_dnn_usable(call))
        return TERN_OK;
    if (!takes(conv)) {
        dnn_say_once(call, op_names[pass], "sizes, steps or padding are too large for it");
        return TERN_OK;
    }
    CUDA_TRY(plan_for(&c, &plan));
    if (plan != NULL && !__atomic_load_n(&plan->refused, __ATOMIC_RELAXED)) {
        run_args args = { .pass = pass, .conv = conv };
        args.way = find_way(call, plan, &args.workspace);
        if (args.way != NULL)
            code =
                dnn_run(call, stream, op_names[pass], call_names[pass], plan, run, &args, out_done);
        else
            dnn_say_once(call, op_names[pass], "there is no memory for its workspace");
    }
    dnn_drop(plan);
    return code;
}
