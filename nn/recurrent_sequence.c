/* One direction of a recurrent layer as one op over the whole sequence: the inputs' part of all gates is one
 * product, then each step is a product with the state before and one pointwise kernel; backward goes the other
 * way, and makes the weights' gradients as one product each. */
#include "nn/recurrent.h"

/* What is saved: x, h0, both weights and the states; then what there is of the gates (not of a plain rnn), c0
 * and the biases. */
enum { SAVED_STATES = RNN_W_HH + 1, SAVED_MORE };

typedef struct direction {
    int32_t mode, reverse;
    int32_t biased; /* bit 0: has RNN_B_IH, bit 1: RNN_B_HH */
} direction;

static rnn_sequence sequence_of(const direction *d, const tern_tensor *x, const tern_tensor *h0)
{
    return (rnn_sequence){ (rnn_mode)d->mode, d->reverse != 0, tern_size(x, 0), tern_size(x, 1),
                           tern_size(h0, 1) };
}

/* states [2 or 1, L, N, H]: h and, in an LSTM, c. */
static tern_tensor *state_at(tern_tensor *states, int which, int64_t t)
{
    return tern_select(tern_select(states, 0, which), 0, t);
}

static tern_tensor *state_before(const rnn_sequence *s, tern_tensor *states, int which,
                                 tern_tensor *first, int64_t k)
{
    return k == 0 ? first : state_at(states, which, rnn_place(s, k - 1));
}

static tern_tensor *room(tern_tensor *like, tern_shape_t shape)
{
    return tern_empty(shape, .dtype = tern_dtype(like), .like = like);
}

static void step(const rnn_sequence *s, tern_tensor **in, tern_tensor *gates, tern_tensor *saved,
                 tern_tensor *states, int64_t k)
{
    const int64_t t = rnn_place(s, k);
    tern_tensor *before = state_before(s, states, 0, in[RNN_H0], k);
    tern_tensor *hidden = tern_linear(before, in[RNN_W_HH], in[RNN_B_HH]);
    tern_tensor *inputs = tern_select(gates, 0, t), *h = state_at(states, 0, t);
    if (s->mode == RNN_LSTM) {
        tern_lstm_cell(inputs, hidden, state_before(s, states, 1, in[RNN_C0], k),
                       state_at(states, 1, t), h);
    } else if (s->mode == RNN_GRU) {
        tern_gru_cell(inputs, hidden, before, tern_select(saved, 0, t), h);
    } else {
        tern_tensor *sum = tern_add(inputs, hidden);
        tern_copy(h, s->mode == RNN_TANH ? tern_tanh(sum) : tern_relu(sum));
    }
}

static tern_tensor *forward_sequence(tern_op_ctx *ctx, tern_tensor **in)
{
    const rnn_sequence s = sequence_of(tern_op_attr(ctx), in[RNN_X], in[RNN_H0]);
    tern_tensor *gates = tern_contiguous(tern_linear(in[RNN_X], in[RNN_W_IH], in[RNN_B_IH]));
    if (!gates)
        return NULL;
    tern_tensor *states =
        room(gates, TERN_SHAPE(s.mode == RNN_LSTM ? 2 : 1, s.length, s.batch, s.size));
    tern_tensor *saved = s.mode == RNN_LSTM ? gates
                         : s.mode == RNN_GRU
                             ? room(gates, TERN_SHAPE(s.length, s.batch, 4 * s.size))
                             : NULL;
    for (int64_t k = 0; k < s.length && !tern_failed(); k++) {
        TERN_SCOPE;
        step(&s, in, gates, saved, states, k);
    }
    for (int i = RNN_X; i <= RNN_W_HH; i++)
        tern_save(ctx, in[i]);
    tern_save(ctx, states);
    tern_save(ctx, saved);
    tern_save(ctx, s.mode == RNN_LSTM ? in[RNN_C0] : NULL);
    tern_save(ctx, in[RNN_B_IH]);
    tern_save(ctx, in[RNN_B_HH]);
    return tern_failed() ? NULL : states;
}

/* ---- backward ---------------------------------------------------------------------------------- */

/* What forward saved. */
typedef struct kept {
    tern_tensor *in[RNN_OPERANDS];
    tern_tensor *states, *gates;
} kept;

static kept what_was_kept(tern_op_ctx *ctx)
{
    const direction *d = tern_op_attr(ctx);
    kept k = { .states = tern_saved(ctx, SAVED_STATES) };
    int next = SAVED_MORE;
    for (int i = RNN_X; i <= RNN_W_HH; i++)
        k.in[i] = tern_saved(ctx, i);
    if (d->mode == RNN_LSTM || d->mode == RNN_GRU)
        k.gates = tern_saved(ctx, next++);
    if (d->mode == RNN_LSTM)
        k.in[RNN_C0] = tern_saved(ctx, next++);
    for (int i = RNN_B_IH; i <= RNN_B_HH; i++)
        if (d->biased & 1 << (i - RNN_B_IH))
            k.in[i] = tern_saved(ctx, next++);
    return k;
}

/* Gradients on their way back through the steps; owned. */
typedef struct carried {
    tern_tensor *h, *c;
} carried;

static void carry(tern_tensor **slot, tern_tensor *t)
{
    tern_retain(t);
    tern_release(*slot);
    *slot = t;
}

/* Both kinds of gates' gradients [L, N, k H]: what the inputs' part gets, and the hidden part. */
static void step_back(const kept *saved, const rnn_sequence *s, tern_tensor *grad,
                      const rnn_slopes *slopes, carried *next, int64_t k)
{
    const int64_t t = rnn_place(s, k);
    tern_tensor *states = saved->states, *w_hh = saved->in[RNN_W_HH];
    tern_tensor *grad_h = tern_add(state_at(grad, 0, t), next->h);
    tern_tensor *in_t = tern_select(slopes->inputs, 0, t);
    if (s->mode == RNN_LSTM) {
        tern_tensor *grad_c = tern_add(state_at(grad, 1, t), next->c);
        tern_lstm_cell_grad(tern_select(saved->gates, 0, t),
                            state_before(s, states, 1, saved->in[RNN_C0], k),
                            state_at(states, 1, t), grad_h, grad_c, in_t);
        carry(&next->c, grad_c);
        carry(&next->h, tern_matmul(in_t, w_hh));
    } else if (s->mode == RNN_GRU) {
        tern_tensor *hidden_t = tern_select(slopes->hidden, 0, t);
        tern_gru_cell_grad(tern_select(saved->gates, 0, t),
                           state_before(s, states, 0, saved->in[RNN_H0], k), grad_h, in_t,
                           hidden_t);
        carry(&next->h, tern_add(grad_h, tern_matmul(hidden_t, w_hh)));
    } else {
        tern_tensor *h = state_at(states, 0, t);
        tern_tensor *slope = s->mode == RNN_TANH ? tern_sub(1.0, tern_mul(h, h))
                                                 : tern_cast(tern_gt(h, 0.0), tern_dtype(h));
        tern_copy(in_t, tern_mul(grad_h, slope));
        carry(&next->h, tern_matmul(in_t, w_hh));
    }
}

/* h before each step, [L N, H] in the order of the sequence. */
static tern_tensor *states_before(const kept *saved, const rnn_sequence *s)
{
    tern_tensor *first = tern_unsqueeze(saved->in[RNN_H0], 0);
    tern_tensor *h = tern_select(saved->states, 0, 0);
    if (s->length > 1 && s->reverse)
        first = tern_cat(0, tern_slice(h, 0, 1), first);
    else if (s->length > 1)
        first = tern_cat(0, first, tern_slice(h, 0, 0, s->length - 1));
    return tern_reshape(first, TERN_SHAPE(s->length * s->batch, s->size));
}

void rnn_weight_grads(const rnn_sequence *s, tern_tensor *const in[RNN_OPERANDS], uint32_t wanted,
                      const rnn_slopes *slopes, tern_tensor *out[RNN_OPERANDS])
{
    const int64_t rows = s->length * s->batch, size = tern_size(in[RNN_X], 2);
    const tern_shape_t all = TERN_SHAPE(rows, rnn_gates(s->mode) * s->size);
    tern_tensor *inputs = tern_reshape(slopes->inputs, all);
    tern_tensor *hidden = tern_reshape(slopes->hidden, all);
    if (wanted & 1u << RNN_X)
        out[RNN_X] =
            tern_reshape(tern_matmul(inputs, in[RNN_W_IH]), TERN_SHAPE(s->length, s->batch, size));
    if (wanted & 1u << RNN_W_IH)
        out[RNN_W_IH] = tern_matmul(tern_transpose(inputs, 0, 1),
                                    tern_reshape(in[RNN_X], TERN_SHAPE(rows, size)));
    if (wanted & 1u << RNN_W_HH)
        out[RNN_W_HH] = tern_matmul(tern_transpose(hidden, 0, 1), slopes->before);
    if (wanted & 1u << RNN_B_IH)
        out[RNN_B_IH] = tern_sum(inputs, TERN_DIMS(0));
    if (wanted & 1u << RNN_B_HH)
        out[RNN_B_HH] = tern_sum(hidden, TERN_DIMS(0));
}

static tern_tensor *zeros_like_state(const rnn_sequence *s, tern_tensor *like)
{
    return tern_zeros(TERN_SHAPE(s->batch, s->size), .dtype = tern_dtype(like), .like = like);
}

/* By the cells' gradients, which have none themselves. */
static void grads_of_cells(const kept *saved, const rnn_sequence *s, uint32_t wanted,
                           tern_tensor *grad, tern_tensor **grad_in)
{
    const tern_shape_t all = TERN_SHAPE(s->length, s->batch, rnn_gates(s->mode) * s->size);
    rnn_slopes slopes = { .inputs = room(grad, all) };
    slopes.hidden = s->mode == RNN_GRU ? room(grad, all) : slopes.inputs;
    carried next = { NULL, NULL };
    carry(&next.h, zeros_like_state(s, grad));
    carry(&next.c, s->mode == RNN_LSTM ? zeros_like_state(s, grad) : NULL);
    grad = tern_contiguous(grad);
    for (int64_t k = s->length - 1; k >= 0 && !tern_failed(); k--) {
        TERN_SCOPE;
        step_back(saved, s, grad, &slopes, &next, k);
    }
    if (!tern_failed() && (wanted & 1u << RNN_W_HH))
        slopes.before = states_before(saved, s);
    if (!tern_failed())
        rnn_weight_grads(s, saved->in, wanted, &slopes, grad_in);
    if (wanted & 1u << RNN_H0)
        grad_in[RNN_H0] = tern_detach(next.h);
    if (wanted & 1u << RNN_C0)
        grad_in[RNN_C0] = tern_detach(next.c);
    tern_release(next.h);
    tern_release(next.c);
}

static void backward_sequence(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const kept saved = what_was_kept(ctx);
    if (tern_failed())
        return;
    const rnn_sequence s = sequence_of(tern_op_attr(ctx), saved.in[RNN_X], saved.in[RNN_H0]);
    uint32_t wanted = 0;
    for (int i = 0; i < (s.mode == RNN_LSTM ? RNN_OPERANDS : RNN_C0); i++)
        wanted |= tern_needs_grad(ctx, i) ? 1u << i : 0;
    const rnn_flow flow = { .h = tern_select(grad, 0, 0),
                            .c = s.mode == RNN_LSTM ? tern_select(grad, 0, 1) : NULL };
    if (tern_grad_enabled())
        rnn_grads_of_ops(&s, saved.in, wanted, &flow, grad_in);
    else
        grads_of_cells(&saved, &s, wanted, grad, grad_in);
}

#define SEQUENCE(name_, inputs_)                                                 \
    {                                                                            \
        .name = name_, .inputs = inputs_, .forward = forward_sequence,           \
        .backward = backward_sequence, .attr_size = sizeof(direction),           \
        .optional = 1u << RNN_B_IH | 1u << RNN_B_HH, .cast_cuda = TERN_CAST_LOW, \
        .cast_cpu = TERN_CAST_LOW                                                \
    }
static const tern_op sequence_op = SEQUENCE("rnn", 6), lstm_op = SEQUENCE("lstm", 7),
                     gru_op = SEQUENCE("gru", 6);

tern_tensor *rnn_run_direction(rnn_mode mode, bool reverse, tern_tensor *const in[RNN_OPERANDS])
{
    const int32_t biased = (in[RNN_B_IH] != NULL) | (in[RNN_B_HH] != NULL) << 1;
    const direction attr = { (int32_t)mode, reverse, biased };
    const tern_op *op = mode == RNN_LSTM ? &lstm_op : mode == RNN_GRU ? &gru_op : &sequence_op;
    return tern_apply_at(TERN_HERE, op, in, &attr);
}
