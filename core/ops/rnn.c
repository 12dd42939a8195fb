/* Stacks of recurrent layers by a backend's library: what its calls are given, checked as those of rows are.
 * They are no rows of ops.def: a backend without a library has no kernel to bring, and nobody misses it. */
#include "core/rnn.h"

#include <stdatomic.h>
#include <string.h>

#include "core/backend.h"
#include "core/compose.h"
#include "core/error.h"
#include "core/stream.h"

enum { X, H0, C0, WEIGHTS, OUT, RESERVE, GRADIENT };
static const char *const operands[] = { "x", "h0", "c0", "weights", "out", "reserve", "gradient" };

/* ---- sizes ------------------------------------------------------------------------------------ */

static int64_t places(const tern_attr_rnn *a)
{
    return (int64_t)a->layers * a->directions;
}

static bool has_cells(const tern_attr_rnn *a)
{
    return a->kind == TERN_RNN_LSTM;
}

static int64_t weights_of(const tern_attr_rnn *a)
{
    const int64_t gates = a->kind == TERN_RNN_LSTM ? 4 : a->kind == TERN_RNN_GRU ? 3 : 1;
    const int64_t first = a->features + a->hidden, later = (a->directions + 1) * a->hidden;
    return gates * a->hidden * a->directions *
           (first + (a->layers - 1) * later + (a->biased ? 2 * a->layers : 0));
}

static int64_t states_of(const tern_attr_rnn *a)
{
    return (has_cells(a) ? 2 : 1) * TERN_RNN_PADDED(places(a) * a->batch * a->hidden);
}

static int64_t results_of(const tern_attr_rnn *a)
{
    return TERN_RNN_PADDED(a->length * a->batch * a->directions * a->hidden) + states_of(a);
}

/* ---- rules ------------------------------------------------------------------------------------ */

static bool is_kind(int kind)
{
    return kind >= TERN_RNN_RELU && kind <= TERN_RNN_GRU;
}

static bool check(core_call *call)
{
    const tern_attr_rnn *a = core_attr(call);
    if (!is_kind(a->kind))
        return core_fail(call, TERN_ERR_ARGUMENT, NULL, "%d is no kind of layer", (int)a->kind);
    if (a->training && call->in[RESERVE] == NULL)
        return core_fail(call, TERN_ERR_ARGUMENT, "a u8 tensor of tern_rnn_reserve elements",
                         "reserve is NULL, in training");
    const int64_t states = places(a) * a->batch * a->hidden;
    const int64_t wanted[] = { a->length * a->batch * a->features,
                               states,
                               states,
                               weights_of(a),
                               results_of(a),
                               0,
                               results_of(a) };
    for (int i = 0; i < call->n_in; i++) {
        if (call->in[i] == NULL && (i == RESERVE || (i == C0 && !has_cells(a))))
            continue;
        if (call->in[i] == NULL)
            return core_fail(call, TERN_ERR_ARGUMENT, NULL, "%s is NULL", operands[i]);
        const tern_view *v = core_view(call, i);
        if (v->dtype != (i == RESERVE ? TERN_U8 : a->dtype))
            return core_fail(call, TERN_ERR_DTYPE, NULL, "%s is %s", operands[i],
                             tern_dtype_name((tern_dtype_t)v->dtype));
        if (i != RESERVE && v->numel != wanted[i])
            return core_fail(call, TERN_ERR_SHAPE, NULL,
                             "%s has %lld elements where these layers have %lld", operands[i],
                             (long long)v->numel, (long long)wanted[i]);
        if ((call->op->mutates & B(i)) && !(v->flags & TERN_VIEW_CONTIGUOUS))
            return core_fail(call, TERN_ERR_ARGUMENT, "tern_contiguous first",
                             "%s is written, and is not contiguous", operands[i]);
    }
    return true;
}

static bool check_backward(core_call *call)
{
    const tern_attr_rnn *a = core_attr(call);
    const tern_dtype_t dtype = (tern_dtype_t)a->dtype;
    const int64_t x[] = { a->length, a->batch, a->features };
    const int64_t states = states_of(a);
    const int64_t weights = a->wants_weights ? weights_of(a) : 0;
    if (!a->training)
        return core_fail(call, TERN_ERR_ARGUMENT, NULL,
                         "training is false: there is no backward of such a forward");
    return check(call) && core_out(call, 0, dtype, 3, x) && core_out(call, 1, dtype, 1, &states) &&
           core_out(call, 2, dtype, 1, &weights);
}

/* ---- calls ------------------------------------------------------------------------------------ */

static const tern_backend_rnn *_Atomic libraries[TERN_KINDS];

void core_rnn_register(int kind, const tern_backend_rnn *library)
{
    if (kind > TERN_KIND_CPU && kind < TERN_KINDS && CORE_HAS(library, tern_backend_rnn, backward))
        atomic_store_explicit(&libraries[kind], library, memory_order_release);
}

static const tern_backend_rnn *library_of(tern_dev_t dev)
{
    return dev.kind > TERN_KIND_CPU && dev.kind < TERN_KINDS
               ? atomic_load_explicit(&libraries[dev.kind], memory_order_acquire)
               : NULL;
}

static tern_status_t run_forward(const tern_call *call)
{
    const tern_backend_rnn *library = library_of(call->dev);
    return library != NULL ? library->forward(call) : TERN_ERR_UNSUPPORTED;
}

static tern_status_t run_backward(const tern_call *call)
{
    const tern_backend_rnn *library = library_of(call->dev);
    return library != NULL ? library->backward(call) : TERN_ERR_UNSUPPORTED;
}

static const tern_op forward_op = {
    .name = "rnn_forward",
    .inputs = 6,
    .names = "x h0 c0 weights out reserve",
    .outputs = OUT_NONE,
    .optional = B(C0) | B(RESERVE),
    .mutates = B(OUT) | B(RESERVE),
    .rule = check,
    .layout = LAYOUT_CONTIGUOUS,
    .dtypes = DT_FLOATS,
    .kernels = { [TERN_KIND_CUDA] = run_forward, [TERN_KIND_EXT] = run_forward }
};
static const tern_op backward_op = {
    .name = "rnn_backward",
    .inputs = 7,
    .names = "x h0 c0 weights out reserve gradient",
    .outputs = 3,
    .optional = B(C0),
    .rule = check_backward,
    .layout = LAYOUT_CONTIGUOUS,
    .dtypes = DT_FLOATS,
    .kernels = { [TERN_KIND_CUDA] = run_backward, [TERN_KIND_EXT] = run_backward }
};

int64_t tern_rnn_reserve(const tern_attr_rnn *how, tern_dev_t dev)
{
    tern_thread *self = core_self();
    if (how == NULL || !core_dev_resolve_there(self, self->site, "rnn_reserve", dev, &dev))
        return -1;
    const tern_backend_rnn *library = library_of(dev); /* which is open now */
    if (library == NULL || !is_kind(how->kind) || !tern_dtype_is_float((tern_dtype_t)how->dtype))
        return -1;
    const tern_call record = { .size = sizeof record,
                               .attr = how,
                               .stream = core_stream_on(self, dev),
                               .host = &core_host,
                               .backend = core_backend_of(dev.kind)->context,
                               .dev = dev,
                               .threads = core_threads() };
    return library->reserve(&record);
}

/* A record of one of the two ops; false after an error. */
static bool dispatch(const tern_op *op, tern_site_t site, const tern_attr_rnn *how,
                     tern_tensor *const *in, bool *out_done, core_call *call)
{
    memset(call, 0, sizeof *call);
    call->self = core_self();
    if (how == NULL || in == NULL || out_done == NULL) {
        core_error(call->self, site, TERN_ERR_ARGUMENT, op->name,
                   "the sizes, the tensors or out_done are NULL");
        return false;
    }
    tern_attr_rnn attr = *how;
    attr.out_done = out_done;
    *out_done = false;
    call->op = op;
    call->site = site;
    call->attr = &attr;
    call->n_in = op->inputs;
    call->n_out = op->outputs == OUT_NONE ? 0 : op->outputs;
    for (int i = 0; i < call->n_in; i++)
        call->in[i] = in[i];
    return core_dispatch(call);
}

tern_status_t tern_rnn_forward_at(tern_site_t site, const tern_attr_rnn *how,
                                  tern_tensor *const in[6], bool *out_done)
{
    core_call call;
    return dispatch(&forward_op, site, how, in, out_done, &call)
               ? TERN_OK
               : (tern_status_t)call.self->error_code;
}

tern_status_t tern_rnn_backward_at(tern_site_t site, const tern_attr_rnn *how,
                                   tern_tensor *const in[7], tern_tensor *out_grads[3],
                                   bool *out_done)
{
    core_call call;
    if (out_grads == NULL)
        return tern_fail_at(site, TERN_ERR_ARGUMENT, backward_op.name, "out_grads is NULL");
    const bool ok = dispatch(&backward_op, site, how, in, out_done, &call);
    for (int i = 0; i < 3; i++)
        out_grads[i] = ok ? core_scope_add(call.self, call.out[i]) : NULL;
    return ok ? TERN_OK : (tern_status_t)call.self->error_code;
}

tern_tensor *tern_rnn_result(tern_tensor *part)
{
    return part != NULL && core_own_result(core_self(), part) ? part : NULL;
}
