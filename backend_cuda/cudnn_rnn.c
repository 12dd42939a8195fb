/* Recurrent layers by cuDNN: whole stacks, both directions at once, its standard algorithm.
 *
 * It has PyTorch's cells: gates in the same order, two biases, a gru whose r gates the hidden part with its
 * bias. Its weights are one piece whose inner order it tells (matrices of all layers, then all biases, in
 * practice); where that is not tern's they are copied piece by piece. Its reserve is changed by a backward, so
 * each works on a copy.
 *
 * Not asked at all: under tern_cudnn_set_deterministic or tern_use_deterministic_algorithms (it multiplies on
 * several streams, which cuBLAS does not promise to repeat), and sizes of 2^31 elements and more. */
#include <stdlib.h>

#include "backend_cuda/cuda.h"
#include "backend_cuda/cudnn_calls.h"
#include "tern/rnn.h"

enum { RECURRENT = 64 }; /* dnn_key.what */
enum { X, H0, C0, WEIGHTS, OUT, RESERVE, GRADIENT };

static const char *name_of(const tern_attr_rnn *a)
{
    return a->kind == TERN_RNN_LSTM ? "lstm" : a->kind == TERN_RNN_GRU ? "gru" : "rnn";
}

static int gates_of(const tern_attr_rnn *a)
{
    return a->kind == TERN_RNN_LSTM ? 4 : a->kind == TERN_RNN_GRU ? 3 : 1;
}

static bool has_cells(const tern_attr_rnn *a)
{
    return a->kind == TERN_RNN_LSTM;
}

/* ---- weights --------------------------------------------------------------------------------- */

/* The library's piece of weights: what it is asked about. */
typedef struct weights {
    const tern_attr_rnn *attr;
    const dnn_plan *plan;
    cudnnHandle_t handle;
    char *space;
} weights;

/* Calls `each` with every matrix and bias of a gate: where it is in tern's order, where in the library's, in
 * bytes. */
static cudnnStatus_t walk(const weights *w,
                          void (*each)(size_t ours, size_t theirs, size_t bytes, void *user),
                          void *user)
{
    const tern_attr_rnn *a = w->attr;
    const size_t size = (size_t)cuda_dtype_size(a->dtype), hidden = (size_t)a->hidden;
    const int places = a->layers * a->directions, gates = gates_of(a);
    size_t at = 0;
    for (int bias = 0; bias <= (a->biased ? 1 : 0); bias++)
        for (int place = 0; place < places; place++)
            for (int id = 0; id < 2 * gates; id++) {
                void *matrix = NULL, *row = NULL;
                const size_t below =
                    place < a->directions ? (size_t)a->features : (size_t)a->directions * hidden;
                const size_t columns = bias ? 1 : id < gates ? below : hidden;
                DNN_TRY(dnn.cudnnGetRNNWeightParams(w->handle, w->plan->rnn, place,
                                                    w->plan->weights, w->space, id, w->plan->x,
                                                    &matrix, w->plan->y, &row));
                const char *theirs = bias ? row : matrix;
                if (theirs == NULL)
                    return CUDNN_STATUS_NOT_SUPPORTED;
                each(at, (size_t)(theirs - w->space), columns * hidden * size, user);
                at += columns * hidden * size;
            }
    return CUDNN_STATUS_SUCCESS;
}

/* Whether both orders are one so far, and where ours ends. */
typedef struct comparison {
    bool apart;
    size_t end;
} comparison;

static void compare(size_t ours, size_t theirs, size_t bytes, void *user)
{
    comparison *c = user;
    c->apart = c->apart || ours != theirs;
    c->end = ours + bytes;
}

/* Does the library order weights in its own way? It only adds to the address. */
static cudnnStatus_t find_order(dnn_plan *p, cudnnHandle_t handle, const tern_attr_rnn *a)
{
    _Alignas(256) static char somewhere[256];
    const weights w = { a, p, handle, somewhere };
    comparison c = { false, 0 };
    DNN_TRY(walk(&w, compare, &c));
    p->apart = c.apart || c.end != p->weights;
    return CUDNN_STATUS_SUCCESS;
}

/* Copies between both orders, in as few runs as there are. */
typedef struct copying {
    bool back; /* from the library's to ours */
    char *ours, *theirs;
    size_t our_run, their_run, bytes;
    cudaStream_t stream;
    cudaError_t code;
} copying;

static void copy_run(copying *c)
{
    char *ours = c->ours + c->our_run, *theirs = c->theirs + c->their_run;
    if (c->bytes > 0 && c->code == cudaSuccess)
        c->code = cudaMemcpyAsync(c->back ? ours : theirs, c->back ? theirs : ours, c->bytes,
                                  cudaMemcpyDeviceToDevice, c->stream);
}

static void copy_piece(size_t ours, size_t theirs, size_t bytes, void *user)
{
    copying *c = user;
    if (c->our_run + c->bytes == ours && c->their_run + c->bytes == theirs) {
        c->bytes += bytes;
        return;
    }
    copy_run(c);
    c->our_run = ours;
    c->their_run = theirs;
    c->bytes = bytes;
}

/* ---- plans ----------------------------------------------------------------------------------- */

static cudnnMathType_t math_of(const tern_attr_rnn *a, uint32_t flags)
{
    if (a->dtype == TERN_F16 || a->dtype == TERN_BF16)
        return CUDNN_TENSOR_OP_MATH;
    return a->dtype == TERN_F32 && !(flags & TERN_NUMERICS_TF32_CONV) ? CUDNN_FMA_MATH
                                                                      : CUDNN_DEFAULT_MATH;
}

static cudnnStatus_t describe_layers(dnn_plan *p, const tern_attr_rnn *a)
{
    static const cudnnRNNMode_t modes[] = { [TERN_RNN_RELU] = CUDNN_RNN_RELU,
                                            [TERN_RNN_TANH] = CUDNN_RNN_TANH,
                                            [TERN_RNN_LSTM] = CUDNN_LSTM,
                                            [TERN_RNN_GRU] = CUDNN_GRU };
    DNN_TRY(dnn.cudnnCreateRNNDescriptor(&p->rnn));
    return dnn.cudnnSetRNNDescriptor_v8(
        p->rnn, CUDNN_RNN_ALGO_STANDARD, modes[a->kind],
        a->biased ? CUDNN_RNN_DOUBLE_BIAS : CUDNN_RNN_NO_BIAS,
        a->directions == 2 ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT,
        dnn_type(a->dtype), a->dtype == TERN_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT,
        math_of(a, p->key.flags), (int32_t)a->features, (int32_t)a->hidden, (int32_t)a->hidden,
        a->layers, NULL, CUDNN_RNN_PADDED_IO_ENABLED); /* which unpacked layouts ask for */
}

static cudnnStatus_t describe_steps(cudnnRNNDataDescriptor_t *steps, const tern_attr_rnn *a,
                                    int64_t width, const int *lengths)
{
    DNN_TRY(dnn.cudnnCreateRNNDataDescriptor(steps));
    return dnn.cudnnSetRNNDataDescriptor(*steps, dnn_type(a->dtype),
                                         CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, (int)a->length,
                                         (int)a->batch, (int)width, lengths, NULL);
}

static cudnnStatus_t describe(dnn_plan *p, const tern_attr_rnn *a, const int *lengths)
{
    const int states[3] = { a->layers * a->directions, (int)a->batch, (int)a->hidden };
    const int strides[3] = { states[1] * states[2], states[2], 1 };
    DNN_TRY(describe_layers(p, a));
    DNN_TRY(describe_steps(&p->steps_in, a, a->features, lengths));
    DNN_TRY(describe_steps(&p->steps_out, a, a->directions * a->hidden, lengths));
    DNN_TRY(dnn.cudnnCreateTensorDescriptor(&p->x));
    DNN_TRY(dnn.cudnnCreateTensorDescriptor(&p->y));
    DNN_TRY(dnn.cudnnCreateTensorDescriptor(&p->parameters));
    return dnn.cudnnSetTensorNdDescriptor(p->parameters, dnn_type(a->dtype), 3, states, strides);
}

static cudnnForwardMode_t mode_of(const tern_attr_rnn *a)
{
    return a->training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE;
}

static cudnnStatus_t fill(dnn_plan *p, cudnnHandle_t handle, const tern_attr_rnn *a)
{
    int *lengths = malloc((size_t)a->batch * sizeof *lengths);
    if (lengths == NULL)
        return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    for (int64_t i = 0; i < a->batch; i++)
        lengths[i] = (int)a->length;
    const cudnnStatus_t status = describe(p, a, lengths);
    free(lengths);
    DNN_TRY(status);
    DNN_TRY(dnn.cudnnGetRNNWeightSpaceSize(handle, p->rnn, &p->weights));
    DNN_TRY(dnn.cudnnGetRNNTempSpaceSizes(handle, p->rnn, mode_of(a), p->steps_in, &p->workspace,
                                          &p->reserve));
    return find_order(p, handle, a);
}

/* Once it is open. It takes bf16 from 9.13 and capability 8.0 on, and finds out about the latter late (PyTorch asks
 * the same). */
static bool takes_dtype(const tern_call *call, int dtype)
{
    const cuda_device *d = cuda_device_enter(call->dev.index);
    return dtype != TERN_BF16 || (d != NULL && d->capability >= 80 && dnn_is_at_least(91300));
}

static bool takes(const tern_call *call, const tern_attr_rnn *a)
{
    const uint32_t exact = TERN_NUMERICS_CUDNN_DETERMINISTIC | TERN_NUMERICS_DETERMINISTIC;
    const int64_t width = a->features > 2 * a->hidden ? a->features : 2 * a->hidden;
    return (call->host->numerics() & exact) == 0 && a->layers < INT32_MAX / 2 &&
           dnn_takes((const int64_t[4]){ a->length, a->batch, width, 1 }) &&
           dnn_takes(
               (const int64_t[4]){ (int64_t)a->layers * a->directions, a->batch, a->hidden, 1 }) &&
           dnn_takes((const int64_t[4]){ 4 * a->hidden, width, 1, 1 });
}

static dnn_key key_of(const tern_call *call, const tern_attr_rnn *a)
{
    return (dnn_key){ RECURRENT,
                      call->dev.index,
                      a->dtype,
                      0,
                      call->host->numerics() & TERN_NUMERICS_TF32_CONV,
                      { a->kind, a->layers, a->directions, a->biased, a->training,
                        (int32_t)a->length, (int32_t)a->batch, (int32_t)a->features,
                        (int32_t)a->hidden } };
}

/* Slices of half types may begin between two words. */
static bool takes_addresses(const tern_call *call)
{
    bool all = true;
    for (int i = 0; i < call->n_in; i++)
        all = all && (call->in[i] == NULL || dnn_takes_address(call->in[i]->data));
    for (int i = 0; i < call->n_out; i++)
        all = all && (call->out[i] == NULL || dnn_takes_address(call->out[i]->data));
    return all;
}

/* A filled plan; NULL after an error, or where cuDNN does not start. */
static dnn_plan *make_plan(const tern_call *call, cudaStream_t stream, const tern_attr_rnn *a,
                           const dnn_key *key, tern_status_t *out_code)
{
    bool done = false;
    dnn_plan *plan = dnn_new(key);
    cudnnHandle_t handle = plan != NULL ? dnn_enter(call, stream, name_of(a)) : NULL;
    *out_code = TERN_OK;
    if (handle != NULL) {
        const cudnnStatus_t status = fill(plan, handle, a);
        dnn_leave();
        *out_code = dnn_settle(call, name_of(a), "making a plan", status, plan, &done);
        if (*out_code == TERN_OK)
            return dnn_keep(plan);
    }
    dnn_drop(plan);
    return NULL;
}

/* The plan, which the caller drops; NULL: cuDNN is not to do it. */
static dnn_plan *plan_of(const tern_call *call, cudaStream_t stream, const tern_attr_rnn *a)
{
    const dnn_key key = key_of(call, a);
    dnn_plan *plan = dnn_find(&key);
    tern_status_t code = TERN_OK;
    bool tried = false;
    if (plan == NULL)
        do
            plan = make_plan(call, stream, a, &key, &code);
        while (dnn_again(call, code, &tried));
    if (plan == NULL)
        call->host->forget();
    if (plan == NULL || !__atomic_load_n(&plan->refused, __ATOMIC_RELAXED))
        return plan;
    dnn_drop(plan);
    return NULL;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static int64_t reserve(const tern_call *call)
{
    const tern_attr_rnn *a = call->attr;
    cudaStream_t stream = NULL;
    if (!takes(call, a) || !cuda_dnn_usable(call) || !takes_dtype(call, a->dtype))
        return -1;
    if (cuda_enter(call, &stream) != TERN_OK) {
        call->host->forget();
        return -1;
    }
    dnn_plan *plan = plan_of(call, stream, a);
    const int64_t bytes = plan != NULL ? (int64_t)plan->reserve : -1;
    dnn_drop(plan);
    return bytes;
}

/* What a call works with; members of the library's are filled between dnn_enter and dnn_leave. */
typedef struct work {
    const tern_call *call;
    const tern_attr_rnn *attr;
    cudaStream_t stream;
    cudnnHandle_t handle;
    dnn_plan *plan;
    void *workspace, *weights, *reserve;
    cudaError_t code; /* of a copy that failed */
} work;

/* States or their gradients, `which` of them, in a piece behind `before` elements. */
static void *state_at(const work *w, const tern_view *piece, int64_t before, int which)
{
    const tern_attr_rnn *a = w->attr;
    const int64_t states = (int64_t)a->layers * a->directions * a->batch * a->hidden;
    const int64_t at = TERN_RNN_PADDED(before) + which * TERN_RNN_PADDED(states);
    return (char *)piece->data + at * cuda_dtype_size(a->dtype);
}

static int64_t numel_of_y(const work *w)
{
    const tern_attr_rnn *a = w->attr;
    return a->length * a->batch * a->directions * a->hidden;
}

/* Between the tensor of weights, or of their gradient, and the library's piece. */
static cudnnStatus_t convert(work *w, void *ours, bool back)
{
    const weights all = { w->attr, w->plan, w->handle, w->weights };
    copying c = { .back = back, .ours = ours, .theirs = w->weights, .stream = w->stream };
    DNN_TRY(walk(&all, copy_piece, &c));
    copy_run(&c);
    w->code = c.code;
    return c.code == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED_CUDART;
}

/* Weights as the library wants them: the tensor itself, or a copy in scratch memory. */
static cudnnStatus_t lay_out(work *w)
{
    if (!w->plan->apart)
        return CUDNN_STATUS_SUCCESS;
    w->code = cudaMemsetAsync(w->weights, 0, w->plan->weights, w->stream);
    return w->code == cudaSuccess ? convert(w, w->call->in[WEIGHTS]->data, false)
                                  : CUDNN_STATUS_EXECUTION_FAILED_CUDART;
}

static cudnnStatus_t run_forward(work *w)
{
    const tern_view *const *in = w->call->in;
    const dnn_plan *p = w->plan;
    const bool cells = has_cells(w->attr);
    const int64_t y = numel_of_y(w);
    DNN_TRY(lay_out(w));
    return dnn.cudnnRNNForward(w->handle, p->rnn, mode_of(w->attr), NULL, p->steps_in, in[X]->data,
                               p->steps_out, in[OUT]->data, p->parameters, in[H0]->data,
                               state_at(w, in[OUT], y, 0), cells ? p->parameters : NULL,
                               cells ? in[C0]->data : NULL,
                               cells ? state_at(w, in[OUT], y, 1) : NULL, p->weights, w->weights,
                               p->workspace, w->workspace, p->reserve, w->reserve);
}

/* The gradient of the weights, added to zeros; where the orders differ, in the place of their copy, which
 * nothing reads any more. */
static cudnnStatus_t run_weights(work *w, const tern_view *out)
{
    const tern_view *const *in = w->call->in;
    const dnn_plan *p = w->plan;
    void *gradient = p->apart ? w->weights : out->data;
    w->code = cudaMemsetAsync(gradient, 0, p->weights, w->stream);
    if (w->code != cudaSuccess)
        return CUDNN_STATUS_EXECUTION_FAILED_CUDART;
    DNN_TRY(dnn.cudnnRNNBackwardWeights_v8(w->handle, p->rnn, CUDNN_WGRAD_MODE_ADD, NULL,
                                           p->steps_in, in[X]->data, p->parameters, in[H0]->data,
                                           p->steps_out, in[OUT]->data, p->weights, gradient,
                                           p->workspace, w->workspace, p->reserve, w->reserve));
    return p->apart ? convert(w, out->data, true) : CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t run_backward(work *w)
{
    const tern_view *const *in = w->call->in, *const *out = w->call->out;
    const tern_view *g = in[GRADIENT];
    const dnn_plan *p = w->plan;
    const bool cells = has_cells(w->attr);
    const int64_t y = numel_of_y(w);
    DNN_TRY(lay_out(w));
    w->code = cudaMemcpyAsync(w->reserve, in[RESERVE]->data, p->reserve, cudaMemcpyDeviceToDevice,
                              w->stream);
    if (w->code != cudaSuccess)
        return CUDNN_STATUS_EXECUTION_FAILED_CUDART;
    DNN_TRY(dnn.cudnnRNNBackwardData_v8(
        w->handle, p->rnn, NULL, p->steps_out, in[OUT]->data, g->data, p->steps_in, out[0]->data,
        p->parameters, in[H0]->data, state_at(w, g, y, 0), state_at(w, out[1], 0, 0),
        cells ? p->parameters : NULL, cells ? in[C0]->data : NULL,
        cells ? state_at(w, g, y, 1) : NULL, cells ? state_at(w, out[1], 0, 1) : NULL, p->weights,
        w->weights, p->workspace, w->workspace, p->reserve, w->reserve));
    return w->attr->wants_weights ? run_weights(w, out[2]) : CUDNN_STATUS_SUCCESS;
}

/* Memory of a call, of at least one byte; false without room, which leaves the work to cells. */
static bool find_room(work *w, bool backward)
{
    const dnn_plan *p = w->plan;
    const tern_view *kept = w->call->in[RESERVE];
    w->workspace = dnn_scratch(w->call, p->workspace + 1);
    w->weights = p->apart ? dnn_scratch(w->call, p->weights) : w->call->in[WEIGHTS]->data;
    w->reserve = backward ? dnn_scratch(w->call, p->reserve + 1) : kept != NULL ? kept->data : NULL;
    return w->workspace != NULL && w->weights != NULL && (!backward || w->reserve != NULL);
}

/* What forward fills, and backward reads: the library is told the size that it asked for. */
static tern_status_t check_reserve(const work *w)
{
    const tern_view *kept = w->call->in[RESERVE];
    const int64_t has = kept != NULL ? kept->numel : 0, wants = (int64_t)w->plan->reserve;
    if (!w->attr->training || has >= wants)
        return TERN_OK;
    return w->call->host->fail(TERN_ERR_ARGUMENT,
                               "reserve has %lld bytes where these layers keep %lld "
                               "(tern_rnn_reserve)",
                               (long long)has, (long long)wants);
}

static tern_status_t run_plan(work *w, const char *what, bool backward,
                              cudnnStatus_t (*body)(work *w))
{
    const char *op = name_of(w->attr);
    tern_status_t code;
    bool tried = false;
    CUDA_TRY(check_reserve(w));
    if (!find_room(w, backward)) {
        dnn_say_once(w->call, op, "there is no memory for its workspace");
        return TERN_OK;
    }
    do {
        if ((w->handle = dnn_enter(w->call, w->stream, op)) == NULL)
            return TERN_OK;
        w->code = cudaSuccess;
        const cudnnStatus_t status = body(w);
        dnn_leave();
        code = w->code != cudaSuccess
                   ? cuda_check(w->call->dev.index, w->code, what)
                   : dnn_settle(w->call, op, what, status, w->plan, w->attr->out_done);
    } while (dnn_again(w->call, code, &tried));
    return code;
}

static tern_status_t run_call(const tern_call *call, const char *what, bool backward,
                              cudnnStatus_t (*body)(work *w))
{
    work w = { .call = call, .attr = call->attr };
    if (!takes(call, w.attr) || !takes_addresses(call) || !cuda_dnn_usable(call) ||
        !takes_dtype(call, w.attr->dtype))
        return TERN_OK;
    CUDA_TRY(cuda_enter(call, &w.stream));
    w.plan = plan_of(call, w.stream, w.attr);
    const tern_status_t code = w.plan != NULL ? run_plan(&w, what, backward, body) : TERN_OK;
    dnn_drop(w.plan);
    return code;
}

static tern_status_t forward(const tern_call *call)
{
    return run_call(call, "cudnnRNNForward", false, run_forward);
}

static tern_status_t backward(const tern_call *call)
{
    return run_call(call, "the backward of recurrent layers", true, run_backward);
}

TERN_API const tern_backend_rnn *tern_backend_rnn_get(void);
const tern_backend_rnn *tern_backend_rnn_get(void)
{
    static const tern_backend_rnn library = {
        .size = sizeof library, .reserve = reserve, .forward = forward, .backward = backward
    };
    return &library;
}
