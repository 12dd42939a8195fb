/* The backward of a recurrent layer when it is recorded itself: the steps are gone through again in ops that
 * have gradients, forward and then back, so that any order of gradients follows from theirs. The kernels of the
 * cells have none: theirs would be as large again, for what is rarely asked. */
#include <stdlib.h>

#include "nn/recurrent.h"

enum { MOST_GATES = 4 };

/* One step: gates after their curves (lstm i, f, g, o; gru r, z, n), what a gru's hidden part adds to n, and the
 * states after it. */
typedef struct values {
    tern_tensor *gate[MOST_GATES], *hidden_n, *h, *c, *tanh_c;
} values;

/* Arrays of all steps in the order of the sequence. */
typedef struct steps {
    values *at;
    tern_tensor **inputs, **hidden, **before;
} steps;

static tern_tensor *part(tern_tensor *gates, int64_t i, int64_t size)
{
    return tern_slice(gates, 1, i * size, (i + 1) * size);
}

static void go_lstm(const rnn_sequence *s, tern_tensor *gates, const values *before, values *v)
{
    for (int i = 0; i < 4; i++) {
        tern_tensor *x = part(gates, i, s->size);
        v->gate[i] = i == 2 ? tern_tanh(x) : tern_sigmoid(x);
    }
    v->c = tern_add(tern_mul(v->gate[1], before->c), tern_mul(v->gate[0], v->gate[2]));
    v->tanh_c = tern_tanh(v->c);
    v->h = tern_mul(v->gate[3], v->tanh_c);
}

static void go_gru(const rnn_sequence *s, tern_tensor *inputs, tern_tensor *hidden,
                   const values *before, values *v)
{
    for (int i = 0; i < 2; i++)
        v->gate[i] = tern_sigmoid(tern_add(part(inputs, i, s->size), part(hidden, i, s->size)));
    v->hidden_n = part(hidden, 2, s->size);
    v->gate[2] = tern_tanh(tern_add(part(inputs, 2, s->size), tern_mul(v->gate[0], v->hidden_n)));
    v->h = tern_add(v->gate[2], tern_mul(v->gate[1], tern_sub(before->h, v->gate[2])));
}

static void go(const rnn_sequence *s, tern_tensor *const in[RNN_OPERANDS], const values *first,
               steps *all)
{
    tern_tensor *gates = tern_linear(in[RNN_X], in[RNN_W_IH], in[RNN_B_IH]);
    const values *before = first;
    for (int64_t k = 0; k < s->length && !tern_failed(); k++) {
        const int64_t t = rnn_place(s, k);
        values *v = &all->at[t];
        tern_tensor *inputs = tern_select(gates, 0, t);
        tern_tensor *hidden = tern_linear(before->h, in[RNN_W_HH], in[RNN_B_HH]);
        all->before[t] = before->h;
        if (s->mode == RNN_LSTM)
            go_lstm(s, tern_add(inputs, hidden), before, v);
        else if (s->mode == RNN_GRU)
            go_gru(s, inputs, hidden, before, v);
        else
            v->h = s->mode == RNN_TANH ? tern_tanh(tern_add(inputs, hidden))
                                       : tern_relu(tern_add(inputs, hidden));
        before = v;
    }
}

/* x (1 - x), times what comes. */
static tern_tensor *through_sigmoid(tern_tensor *grad, tern_tensor *x)
{
    return tern_mul(grad, tern_mul(x, tern_sub(1.0, x)));
}

static tern_tensor *through_tanh(tern_tensor *grad, tern_tensor *x)
{
    return tern_mul(grad, tern_sub(1.0, tern_mul(x, x)));
}

/* Either may be NULL. */
static tern_tensor *sum(tern_tensor *a, tern_tensor *b)
{
    return a == NULL || b == NULL ? (a != NULL ? a : b) : tern_add(a, b);
}

/* `next` holds the gradients of h and c after the step, then of those before it. */
static void back_lstm(tern_tensor *w_hh, const values *before, const values *v, values *next,
                      tern_tensor **out_gates)
{
    tern_tensor *const *gate = v->gate;
    tern_tensor *c = tern_add(next->c, through_tanh(tern_mul(next->h, gate[3]), v->tanh_c));
    *out_gates = tern_cat(1, through_sigmoid(tern_mul(c, gate[2]), gate[0]),
                          through_sigmoid(tern_mul(c, before->c), gate[1]),
                          through_tanh(tern_mul(c, gate[0]), gate[2]),
                          through_sigmoid(tern_mul(next->h, v->tanh_c), gate[3]));
    next->c = tern_mul(c, gate[1]);
    next->h = tern_matmul(*out_gates, w_hh);
}

static void back_gru(tern_tensor *w_hh, const values *before, const values *v, values *next,
                     tern_tensor **out_inputs, tern_tensor **out_hidden)
{
    tern_tensor *r = v->gate[0], *z = v->gate[1], *n = v->gate[2];
    tern_tensor *of_n = through_tanh(tern_mul(next->h, tern_sub(1.0, z)), n);
    tern_tensor *of_z = through_sigmoid(tern_mul(next->h, tern_sub(before->h, n)), z);
    tern_tensor *of_r = through_sigmoid(tern_mul(of_n, v->hidden_n), r);
    *out_inputs = tern_cat(1, of_r, of_z, of_n);
    *out_hidden = tern_cat(1, of_r, of_z, tern_mul(of_n, r));
    next->h = tern_add(tern_mul(next->h, z), tern_matmul(*out_hidden, w_hh));
}

/* Leaves in *next the gradients of the first states. */
static void go_back(const rnn_sequence *s, tern_tensor *const in[RNN_OPERANDS], const values *first,
                    const rnn_flow *flow, const steps *all, values *next)
{
    *next = (values){ .h = flow->last_h, .c = flow->last_c };
    for (int64_t k = s->length - 1; k >= 0 && !tern_failed(); k--) {
        const int64_t t = rnn_place(s, k);
        const values *v = &all->at[t];
        const values *before = k == 0 ? first : &all->at[rnn_place(s, k - 1)];
        next->h = sum(tern_select(flow->h, 0, t), next->h);
        if (s->mode == RNN_LSTM) {
            next->c = sum(flow->c != NULL ? tern_select(flow->c, 0, t) : NULL, next->c);
            back_lstm(in[RNN_W_HH], before, v, next, &all->inputs[t]);
        } else if (s->mode == RNN_GRU) {
            back_gru(in[RNN_W_HH], before, v, next, &all->inputs[t], &all->hidden[t]);
        } else {
            all->inputs[t] =
                s->mode == RNN_TANH
                    ? through_tanh(next->h, v->h)
                    : tern_mul(next->h, tern_cast(tern_gt(v->h, 0.0), tern_dtype(v->h)));
            next->h = tern_matmul(all->inputs[t], in[RNN_W_HH]);
        }
    }
}

void rnn_grads_of_ops(const rnn_sequence *s, tern_tensor *const in[RNN_OPERANDS], uint32_t wanted,
                      const rnn_flow *flow, tern_tensor *out[RNN_OPERANDS])
{
    const values first = { .h = in[RNN_H0], .c = in[RNN_C0] };
    values next = { .h = NULL };
    tern_tensor **lists = nn_alloc(TERN_HERE, "recurrent", 3 * s->length, sizeof *lists);
    steps all = { .at = nn_alloc(TERN_HERE, "recurrent", s->length, sizeof *all.at),
                  .inputs = lists };
    if (all.at != NULL && lists != NULL) {
        all.hidden = lists + s->length;
        all.before = lists + 2 * s->length;
        go(s, in, &first, &all);
        go_back(s, in, &first, flow, &all, &next);
    }
    if (!tern_failed()) {
        const tern_shape_t rows = TERN_SHAPE(s->length * s->batch, s->size);
        rnn_slopes slopes = { .inputs = tern_stack_at(TERN_HERE, all.inputs, s->length, 0) };
        slopes.hidden =
            s->mode == RNN_GRU ? tern_stack_at(TERN_HERE, all.hidden, s->length, 0) : slopes.inputs;
        slopes.before = tern_reshape(tern_stack_at(TERN_HERE, all.before, s->length, 0), rows);
        rnn_weight_grads(s, in, wanted, &slopes, out);
        out[RNN_H0] = wanted & 1u << RNN_H0 ? next.h : NULL;
        if (wanted & 1u << RNN_C0)
            out[RNN_C0] = next.c;
    }
    free(all.at);
    free(lists);
}
