/* Recurrent layers by a library of the device's (cuDNN): a whole stack is one op. Its weights go in one piece,
 * its results come in one; where gradients are recorded, or the library refuses late, directions as ops do it. */
#include <stdlib.h>

#include "nn/recurrent.h"
#include "tern/amp.h"
#include "tern/rnn.h"

enum { X, H0, WEIGHTS, C0, INPUTS };
enum { SAVED_X, SAVED_H0, SAVED_WEIGHTS, SAVED_OUT, SAVED_RESERVE, SAVED_C0 };

/* The op's attributes. */
typedef struct stack_attr {
    tern_attr_rnn how;
    int64_t reserve; /* bytes */
} stack_attr;

static int64_t numel_of_y(const tern_attr_rnn *a)
{
    return a->length * a->batch * a->directions * a->hidden;
}

/* h (which 0) or c of all layers and directions, in a piece that has `from` elements before them. */
static tern_tensor *states_at(const tern_attr_rnn *a, tern_tensor *piece, int64_t from, int which)
{
    const int64_t places = (int64_t)a->layers * a->directions,
                  count = places * a->batch * a->hidden;
    from = TERN_RNN_PADDED(from) + which * TERN_RNN_PADDED(count);
    return tern_reshape(tern_slice(piece, 0, from, from + count),
                        TERN_SHAPE(places, a->batch, a->hidden));
}

/* ---- forward ----------------------------------------------------------------------------------- */

/* Nothing, no elements, where the library refuses. */
static tern_tensor *forward_stack(tern_op_ctx *ctx, tern_tensor **in)
{
    const stack_attr *attr = tern_op_attr(ctx);
    const tern_attr_rnn *how = &attr->how;
    const bool cells = how->kind == TERN_RNN_LSTM;
    const int64_t states = (int64_t)how->layers * how->directions * how->batch * how->hidden;
    const int64_t numel =
        TERN_RNN_PADDED(numel_of_y(how)) + (cells ? 2 : 1) * TERN_RNN_PADDED(states);
    tern_tensor *c0 = cells ? in[C0] : NULL, *reserve = NULL;
    tern_tensor *out = tern_empty(TERN_SHAPE(numel), .dtype = tern_dtype(in[X]), .like = in[X]);
    if (how->training)
        reserve = tern_empty(TERN_SHAPE(attr->reserve), .dtype = TERN_U8, .like = in[X]);
    bool done = false;
    tern_rnn_forward(how, ((tern_tensor *[]){ in[X], in[H0], c0, in[WEIGHTS], out, reserve }),
                     &done);
    if (!done)
        return tern_failed() ? NULL
                             : tern_empty(TERN_SHAPE(0), .dtype = tern_dtype(in[X]), .like = in[X]);
    tern_save(ctx, in[X]);
    tern_save(ctx, in[H0]);
    tern_save(ctx, in[WEIGHTS]);
    tern_save(ctx, out);
    tern_save(ctx, reserve);
    tern_save(ctx, c0);
    return out;
}

/* ---- backward by ops ---------------------------------------------------------------------------- */

/* A stack's operands and the gradients of its results. */
typedef struct operands {
    const tern_attr_rnn *how;
    tern_tensor *x, *h0, *c0, *weights;
    tern_tensor *y_grad, *h_grad, *c_grad;
    rnn_mode mode;
    int64_t next; /* of `weights`: what has been taken */
} operands;

static tern_tensor *take(operands *o, int64_t rows, int64_t columns)
{
    const int64_t count = rows * (columns ? columns : 1);
    tern_tensor *piece = tern_slice(o->weights, 0, o->next, o->next + count);
    o->next += count;
    return columns ? tern_reshape(piece, TERN_SHAPE(rows, columns)) : piece;
}

/* All directions' operands but their x. */
static void take_all(operands *o, tern_tensor *(*in)[RNN_OPERANDS])
{
    const tern_attr_rnn *how = o->how;
    const int64_t rows = rnn_gates(o->mode) * how->hidden;
    for (int place = 0; place < how->layers * how->directions; place++) {
        const bool first = place < how->directions;
        in[place][RNN_H0] = tern_select(o->h0, 0, place);
        in[place][RNN_C0] = o->c0 ? tern_select(o->c0, 0, place) : NULL;
        in[place][RNN_W_IH] = take(o, rows, first ? how->features : how->directions * how->hidden);
        in[place][RNN_W_HH] = take(o, rows, how->hidden);
    }
    for (int place = 0; how->biased && place < how->layers * how->directions; place++) {
        in[place][RNN_B_IH] = take(o, rows, 0);
        in[place][RNN_B_HH] = take(o, rows, 0);
    }
}

/* One layer's y from its directions' ops. */
static tern_tensor *run_layer(const operands *o, tern_tensor *(*in)[RNN_OPERANDS], tern_tensor *x)
{
    tern_tensor *y[2] = { NULL, NULL };
    for (int d = 0; d < o->how->directions; d++) {
        in[d][RNN_X] = x;
        y[d] = tern_select(rnn_run_direction(o->mode, d == 1, in[d]), 0, 0);
    }
    return y[1] ? tern_cat(2, y[0], y[1]) : y[0];
}

/* One layer back: the gradient of its x, and made[] of its directions. */
static tern_tensor *run_layer_back(const operands *o, tern_tensor *(*in)[RNN_OPERANDS], int place,
                                   tern_tensor *grad, tern_tensor *(*made)[RNN_OPERANDS])
{
    const tern_attr_rnn *how = o->how;
    const uint32_t all = (1u << RNN_OPERANDS) - 1;
    const uint32_t wanted =
        all & ~(how->biased ? 0 : 1u << RNN_B_IH | 1u << RNN_B_HH) & ~(o->c0 ? 0 : 1u << RNN_C0);
    for (int d = 0; d < how->directions; d++) {
        const rnn_sequence s = { o->mode, d == 1, how->length, how->batch, how->hidden };
        const rnn_flow flow = { .h = tern_slice(grad, 2, d * how->hidden, (d + 1) * how->hidden),
                                .last_h = tern_select(o->h_grad, 0, place + d),
                                .last_c = o->c_grad ? tern_select(o->c_grad, 0, place + d) : NULL };
        rnn_grads_of_ops(&s, in[place + d], wanted, &flow, made[place + d]);
    }
    return how->directions == 2 ? tern_add(made[place][RNN_X], made[place + 1][RNN_X])
                                : made[place][RNN_X];
}

/* Directions' gradients as those of the stack's operands. */
static void gather(const operands *o, tern_tensor *(*made)[RNN_OPERANDS], tern_tensor **list,
                   tern_tensor **grad_in)
{
    static const struct {
        int of, as;
    } states[2] = { { RNN_H0, H0 }, { RNN_C0, C0 } };
    const int places = o->how->layers * o->how->directions;
    for (int k = 0; k < (o->c0 ? 2 : 1); k++) {
        for (int place = 0; place < places; place++)
            list[place] = made[place][states[k].of];
        grad_in[states[k].as] = tern_stack_at(TERN_HERE, list, places, 0);
    }
    int64_t n = 0;
    for (int i = RNN_W_IH; i <= (o->how->biased ? RNN_B_IH : RNN_W_IH); i += 2)
        for (int place = 0; place < places; place++)
            for (int k = i; k < i + 2; k++)
                list[n++] = tern_reshape(made[place][k], TERN_SHAPE(-1));
    grad_in[WEIGHTS] = tern_cat_at(TERN_HERE, list, n, 0);
}

static void backward_by_ops(operands *o, tern_tensor **grad_in)
{
    const int places = o->how->layers * o->how->directions, step = o->how->directions;
    tern_tensor *(*in)[RNN_OPERANDS] = nn_alloc(TERN_HERE, "recurrent", places, sizeof *in);
    tern_tensor *(*made)[RNN_OPERANDS] = nn_alloc(TERN_HERE, "recurrent", places, sizeof *made);
    tern_tensor **list = nn_alloc(TERN_HERE, "recurrent", RNN_PARAMETERS * places, sizeof *list);
    if (in && made && list) {
        tern_tensor *x = o->x, *grad = o->y_grad;
        take_all(o, in);
        for (int place = 0; place < places && !tern_failed(); place += step)
            x = run_layer(o, &in[place], x);
        for (int place = places - step; place >= 0 && !tern_failed(); place -= step)
            grad = run_layer_back(o, in, place, grad, made);
        if (!tern_failed())
            gather(o, made, list, grad_in);
        grad_in[X] = grad;
    }
    free(in);
    free(made);
    free(list);
}

/* ---- backward ---------------------------------------------------------------------------------- */

static rnn_mode mode_of(const tern_attr_rnn *how)
{
    return how->kind == TERN_RNN_LSTM   ? RNN_LSTM
           : how->kind == TERN_RNN_GRU  ? RNN_GRU
           : how->kind == TERN_RNN_TANH ? RNN_TANH
                                        : RNN_RELU;
}

static tern_tensor *y_in(const tern_attr_rnn *how, tern_tensor *results)
{
    return tern_reshape(tern_slice(results, 0, 0, numel_of_y(how)),
                        TERN_SHAPE(how->length, how->batch, how->directions * how->hidden));
}

static void backward_stack(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_attr_rnn how = ((const stack_attr *)tern_op_attr(ctx))->how;
    const bool cells = how.kind == TERN_RNN_LSTM;
    tern_tensor *x = tern_saved(ctx, SAVED_X), *h0 = tern_saved(ctx, SAVED_H0);
    tern_tensor *weights = tern_saved(ctx, SAVED_WEIGHTS);
    tern_tensor *c0 = cells ? tern_saved(ctx, SAVED_C0) : NULL;
    bool done = false;
    how.wants_weights = tern_needs_grad(ctx, WEIGHTS);
    if (!tern_grad_enabled() && !tern_failed()) {
        tern_tensor *out[3];
        tern_rnn_backward(&how,
                          ((tern_tensor *[]){ x, h0, c0, weights, tern_saved(ctx, SAVED_OUT),
                                              tern_saved(ctx, SAVED_RESERVE), grad }),
                          out, &done);
        if (done) {
            grad_in[X] = out[0];
            grad_in[H0] = states_at(&how, out[1], 0, 0);
            grad_in[WEIGHTS] = how.wants_weights ? out[2] : NULL;
            grad_in[C0] = cells ? states_at(&how, out[1], 0, 1) : NULL;
        }
    }
    if (done || tern_failed())
        return;
    operands o = { .how = &how,
                   .x = x,
                   .h0 = h0,
                   .c0 = c0,
                   .weights = weights,
                   .y_grad = y_in(&how, grad),
                   .h_grad = states_at(&how, grad, numel_of_y(&how), 0),
                   .c_grad = cells ? states_at(&how, grad, numel_of_y(&how), 1) : NULL,
                   .mode = mode_of(&how) };
    backward_by_ops(&o, grad_in);
}

/* ---- a stack ----------------------------------------------------------------------------------- */

#define STACK(name_, inputs_)                                                                   \
    {                                                                                           \
        .name = name_, .inputs = inputs_, .forward = forward_stack, .backward = backward_stack, \
        .attr_size = sizeof(stack_attr), .cast_cuda = TERN_CAST_LOW, .cast_cpu = TERN_CAST_LOW  \
    }
static const tern_op rnn_op = STACK("rnn", C0), lstm_op = STACK("lstm", INPUTS),
                     gru_op = STACK("gru", C0);

/* What a tensor's dtype becomes in the op: autocast leaves doubles alone. */
static tern_dtype_t dtype_in_op(const tern_tensor *t)
{
    const tern_dev_t dev = tern_device(t);
    const bool casts = tern_autocast_enabled(dev) && tern_dtype(t) != TERN_F64;
    return casts ? tern_autocast_dtype(dev) : tern_dtype(t);
}

/* As many rows and columns as the layer was made with; a bias (columns 0) or none, as `there` says. */
static bool fits(const tern_tensor *t, bool there, int64_t rows, int64_t columns)
{
    if (t == NULL || !there)
        return (t != NULL) == there;
    return tern_ndim(t) == (columns ? 2 : 1) && tern_size(t, 0) == rows &&
           (columns == 0 || tern_size(t, 1) == columns);
}

/* The library trusts the sizes, and takes all biases or none; a program may have put others there. */
static bool is_whole(const rnn_stack *s)
{
    const int64_t rows = rnn_gates(s->mode) * s->size;
    const bool biased = s->parameters[2] != NULL;
    for (int64_t place = 0; place < s->layers * s->directions; place++) {
        tern_tensor *const *w = &s->parameters[RNN_PARAMETERS * place];
        const int64_t in = place < s->directions ? s->features : s->directions * s->size;
        if (!fits(w[0], true, rows, in) || !fits(w[1], true, rows, s->size) ||
            !fits(w[2], biased, rows, 0) || !fits(w[3], biased, rows, 0))
            return false;
    }
    return true;
}

/* Operands of one kind and one device, as the library wants them; others are for the ops to judge. */
static bool alike(const rnn_stack *s, const tern_tensor *x, const tern_tensor *h0,
                  const tern_tensor *c0, bool *out_wants)
{
    const tern_tensor *given[3] = { x, h0, c0 };
    const int64_t parameters = RNN_PARAMETERS * s->layers * s->directions;
    *out_wants = false;
    for (int64_t i = 0; i < 3 + parameters; i++) {
        const tern_tensor *t = i < 3 ? given[i] : s->parameters[i - 3];
        if (t == NULL)
            continue;
        if (!tern_dtype_is_float(tern_dtype(t)) || dtype_in_op(t) != dtype_in_op(x) ||
            !tern_dev_equal(tern_device(t), tern_device(x)))
            return false;
        *out_wants = *out_wants || (tern_grad_enabled() && tern_requires_grad(t));
    }
    return tern_numel(x) > 0;
}

static bool describe(const rnn_stack *s, tern_tensor *x, bool wants_grad, stack_attr *out)
{
    static const int32_t kinds[] = { [RNN_TANH] = TERN_RNN_TANH,
                                     [RNN_RELU] = TERN_RNN_RELU,
                                     [RNN_LSTM] = TERN_RNN_LSTM,
                                     [RNN_GRU] = TERN_RNN_GRU };
    const tern_dev_t dev = tern_device(x);
    memset(out, 0, sizeof *out);
    out->how = (tern_attr_rnn){
        .kind = kinds[s->mode],
        .layers = (int32_t)s->layers,
        .directions = s->directions,
        .dtype = (int32_t)dtype_in_op(x),
        .length = tern_size(x, 0),
        .batch = tern_size(x, 1),
        .features = s->features,
        .hidden = s->size,
        .biased = s->parameters[2] != NULL,
        .training = wants_grad,
    };
    out->reserve = tern_rnn_reserve(&out->how, dev);
    return out->reserve >= 0;
}

/* All weights, then all biases, as one row. NULL after an error. */
static tern_tensor *flat_weights(const rnn_stack *s, bool biased)
{
    const int64_t places = s->layers * s->directions;
    tern_tensor **list = nn_alloc(TERN_HERE, "recurrent", RNN_PARAMETERS * places, sizeof *list);
    int64_t n = 0;
    for (int from = 0; list != NULL && from < (biased ? 4 : 2); from += 2)
        for (int64_t place = 0; place < places; place++)
            for (int k = from; k < from + 2; k++)
                list[n++] = tern_reshape(s->parameters[RNN_PARAMETERS * place + k], TERN_SHAPE(-1));
    tern_tensor *flat = list != NULL ? tern_cat_at(TERN_HERE, list, n, 0) : NULL;
    free(list);
    return flat;
}

bool rnn_run_stack(const rnn_stack *s, tern_tensor *x, tern_tensor *h0, tern_tensor *c0,
                   tern_tensor *out[3])
{
    stack_attr attr;
    bool wants_grad;
    if (!is_whole(s) || !alike(s, x, h0, c0, &wants_grad) || !describe(s, x, wants_grad, &attr))
        return false;
    const tern_op *op = s->mode == RNN_LSTM ? &lstm_op : s->mode == RNN_GRU ? &gru_op : &rnn_op;
    tern_tensor *const in[INPUTS] = { tern_contiguous(x), h0, flat_weights(s, attr.how.biased),
                                      c0 };
    tern_tensor *results = tern_failed() ? NULL : tern_apply_at(TERN_HERE, op, in, &attr);
    if (results == NULL || tern_numel(results) == 0)
        return false;
    out[0] = y_in(&attr.how, results);
    out[1] = states_at(&attr.how, results, numel_of_y(&attr.how), 0);
    out[2] = s->mode == RNN_LSTM ? states_at(&attr.how, results, numel_of_y(&attr.how), 1) : NULL;
    return true;
}
