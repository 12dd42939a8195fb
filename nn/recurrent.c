/* RNN, LSTM and GRU layers. One direction of one layer is one op over the whole sequence: the inputs' part of
 * all gates is one product, then each step is a product with the state before and one pointwise kernel; backward
 * goes the other way, and makes the weights' gradients as one product each. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "nn/internal.h"

typedef enum mode { RNN_TANH, RNN_RELU, LSTM, GRU } mode;

static int gates_of(mode m)
{
    return m == LSTM ? 4 : m == GRU ? 3 : 1;
}

/* ---- the op of one direction ------------------------------------------------------------------- */

enum { X, H0, W_IH, W_HH, B_IH, B_HH, C0, MOST_INPUTS };
enum { SAVED_X, SAVED_H0, SAVED_W_IH, SAVED_W_HH, SAVED_STATES, SAVED_GATES, SAVED_C0 };

typedef struct direction {
    int32_t mode, reverse;
} direction;

/* Sizes, and the order in which steps are gone through. */
typedef struct sequence {
    mode mode;
    bool reverse;
    int64_t length, batch, size; /* L, N, H */
} sequence;

static sequence sequence_of(const direction *d, const tern_tensor *x, const tern_tensor *h0)
{
    return (sequence){ (mode)d->mode, d->reverse != 0, tern_size(x, 0), tern_size(x, 1),
                       tern_size(h0, 1) };
}

/* The k-th step's place in the sequence. */
static int64_t place(const sequence *s, int64_t k)
{
    return s->reverse ? s->length - 1 - k : k;
}

/* states [2 or 1, L, N, H]: h and, in an LSTM, c. */
static tern_tensor *state_at(tern_tensor *states, int which, int64_t t)
{
    return tern_select(tern_select(states, 0, which), 0, t);
}

static tern_tensor *state_before(const sequence *s, tern_tensor *states, int which,
                                 tern_tensor *first, int64_t k)
{
    return k == 0 ? first : state_at(states, which, place(s, k - 1));
}

static tern_tensor *room(const tern_tensor *like, tern_shape_t shape)
{
    return tern_empty(shape, .dtype = tern_dtype(like), .device = tern_device(like));
}

static void step(const sequence *s, tern_tensor **in, tern_tensor *gates, tern_tensor *saved,
                 tern_tensor *states, int64_t k)
{
    const int64_t t = place(s, k);
    tern_tensor *before = state_before(s, states, 0, in[H0], k);
    tern_tensor *hidden = tern_linear(before, in[W_HH], in[B_HH]);
    tern_tensor *inputs = tern_select(gates, 0, t), *h = state_at(states, 0, t);
    if (s->mode == LSTM) {
        tern_lstm_cell(inputs, hidden, state_before(s, states, 1, in[C0], k),
                       state_at(states, 1, t), h);
    } else if (s->mode == GRU) {
        tern_gru_cell(inputs, hidden, before, tern_select(saved, 0, t), h);
    } else {
        tern_tensor *sum = tern_add(inputs, hidden);
        tern_copy(h, s->mode == RNN_TANH ? tern_tanh(sum) : tern_relu(sum));
    }
}

static tern_tensor *forward_sequence(tern_op_ctx *ctx, tern_tensor **in)
{
    const sequence s = sequence_of(tern_op_attr(ctx), in[X], in[H0]);
    tern_tensor *gates = tern_contiguous(tern_linear(in[X], in[W_IH], in[B_IH]));
    if (!gates)
        return NULL;
    tern_tensor *states =
        room(gates, TERN_SHAPE(s.mode == LSTM ? 2 : 1, s.length, s.batch, s.size));
    tern_tensor *saved = s.mode == LSTM  ? gates
                         : s.mode == GRU ? room(gates, TERN_SHAPE(s.length, s.batch, 4 * s.size))
                                         : NULL;
    for (int64_t k = 0; k < s.length && !tern_failed(); k++) {
        TERN_SCOPE;
        step(&s, in, gates, saved, states, k);
    }
    tern_save(ctx, in[X]);
    tern_save(ctx, in[H0]);
    tern_save(ctx, in[W_IH]);
    tern_save(ctx, in[W_HH]);
    tern_save(ctx, states);
    tern_save(ctx, saved);
    if (s.mode == LSTM)
        tern_save(ctx, in[C0]);
    return tern_failed() ? NULL : states;
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
static void step_back(tern_op_ctx *ctx, const sequence *s, tern_tensor *grad, tern_tensor *inputs,
                      tern_tensor *hidden, carried *next, int64_t k)
{
    const int64_t t = place(s, k);
    tern_tensor *states = tern_saved(ctx, SAVED_STATES), *w_hh = tern_saved(ctx, SAVED_W_HH);
    tern_tensor *grad_h = tern_add(state_at(grad, 0, t), next->h);
    tern_tensor *in_t = tern_select(inputs, 0, t), *hidden_t = tern_select(hidden, 0, t);
    if (s->mode == LSTM) {
        tern_tensor *grad_c = tern_add(state_at(grad, 1, t), next->c);
        tern_lstm_cell_grad(tern_select(tern_saved(ctx, SAVED_GATES), 0, t),
                            state_before(s, states, 1, tern_saved(ctx, SAVED_C0), k),
                            state_at(states, 1, t), grad_h, grad_c, in_t);
        carry(&next->c, grad_c);
        carry(&next->h, tern_matmul(in_t, w_hh));
    } else if (s->mode == GRU) {
        tern_gru_cell_grad(tern_select(tern_saved(ctx, SAVED_GATES), 0, t),
                           state_before(s, states, 0, tern_saved(ctx, SAVED_H0), k), grad_h, in_t,
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
static tern_tensor *states_before(tern_op_ctx *ctx, const sequence *s)
{
    tern_tensor *first = tern_unsqueeze(tern_saved(ctx, SAVED_H0), 0);
    tern_tensor *h = tern_select(tern_saved(ctx, SAVED_STATES), 0, 0);
    if (s->length > 1 && s->reverse)
        first = tern_cat(0, tern_slice(h, 0, 1), first);
    else if (s->length > 1)
        first = tern_cat(0, first, tern_slice(h, 0, 0, s->length - 1));
    return tern_reshape(first, TERN_SHAPE(s->length * s->batch, s->size));
}

static void weight_grads(tern_op_ctx *ctx, const sequence *s, tern_tensor *inputs,
                         tern_tensor *hidden, tern_tensor **grad_in)
{
    tern_tensor *x = tern_saved(ctx, SAVED_X);
    const int64_t rows = s->length * s->batch, size = tern_size(x, 2);
    const int64_t width = gates_of(s->mode) * s->size;
    tern_tensor *in_rows = tern_reshape(inputs, TERN_SHAPE(rows, width));
    tern_tensor *hidden_rows = tern_reshape(hidden, TERN_SHAPE(rows, width));
    if (tern_needs_grad(ctx, X))
        grad_in[X] = tern_reshape(tern_matmul(in_rows, tern_saved(ctx, SAVED_W_IH)),
                                  TERN_SHAPE(s->length, s->batch, size));
    if (tern_needs_grad(ctx, W_IH))
        grad_in[W_IH] =
            tern_matmul(tern_transpose(in_rows, 0, 1), tern_reshape(x, TERN_SHAPE(rows, size)));
    if (tern_needs_grad(ctx, W_HH))
        grad_in[W_HH] = tern_matmul(tern_transpose(hidden_rows, 0, 1), states_before(ctx, s));
    if (tern_needs_grad(ctx, B_IH))
        grad_in[B_IH] = tern_sum(in_rows, TERN_DIMS(0));
    if (tern_needs_grad(ctx, B_HH))
        grad_in[B_HH] = tern_sum(hidden_rows, TERN_DIMS(0));
}

static void backward_sequence(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    if (tern_grad_enabled()) { /* as cuDNN's in PyTorch */
        tern_fail(TERN_ERR_GRAD, "recurrent",
                  "gradients of gradients of a recurrent layer are not available");
        return;
    }
    tern_tensor *h0 = tern_saved(ctx, SAVED_H0);
    const sequence s = sequence_of(tern_op_attr(ctx), tern_saved(ctx, SAVED_X), h0);
    const tern_shape_t all = TERN_SHAPE(s.length, s.batch, gates_of(s.mode) * s.size);
    tern_tensor *inputs = room(grad, all), *hidden = s.mode == GRU ? room(grad, all) : inputs;
    carried next = { NULL, NULL };
    const tern_new_args zeros = { .size_ = sizeof zeros,
                                  .shape = TERN_SHAPE(s.batch, s.size),
                                  .dtype = tern_dtype(grad),
                                  .device = tern_device(grad) };
    carry(&next.h, tern_zeros_at(TERN_HERE, &zeros));
    carry(&next.c, s.mode == LSTM ? tern_zeros_at(TERN_HERE, &zeros) : NULL);
    grad = tern_contiguous(grad);
    for (int64_t k = s.length - 1; k >= 0 && !tern_failed(); k--) {
        TERN_SCOPE;
        step_back(ctx, &s, grad, inputs, hidden, &next, k);
    }
    if (!tern_failed())
        weight_grads(ctx, &s, inputs, hidden, grad_in);
    if (tern_needs_grad(ctx, H0))
        grad_in[H0] = tern_detach(next.h);
    if (s.mode == LSTM && tern_needs_grad(ctx, C0))
        grad_in[C0] = tern_detach(next.c);
    tern_release(next.h);
    tern_release(next.c);
}

#define SEQUENCE(name_, inputs_)                                                                   \
    {                                                                                              \
        .name = name_, .inputs = inputs_, .forward = forward_sequence,                             \
        .backward = backward_sequence, .attr_size = sizeof(direction),                             \
        .optional = 1u << B_IH | 1u << B_HH, .cast_cuda = TERN_CAST_LOW, .cast_cpu = TERN_CAST_LOW \
    }
static const tern_op sequence_op = SEQUENCE("rnn", 6), lstm_op = SEQUENCE("lstm", 7),
                     gru_op = SEQUENCE("gru", 6);

/* ---- the layers -------------------------------------------------------------------------------- */

enum { PARAMETERS = 4 }; /* of a direction: weights and biases as the op takes them */

typedef struct recurrent {
    tern_module base;
    mode mode;
    int64_t in, size, layers;
    int directions;
    bool batch_first;
    double dropout;
    tern_generator *generator;
    tern_tensor **parameters;
} recurrent;

/* What runs through the layers. */
typedef struct pass {
    tern_tensor *x;       /* [L, N, features] */
    tern_tensor *h0, *c0; /* [layers directions, N, H] */
    tern_tensor **h, **c; /* after the last step, per layer and direction */
} pass;

static tern_tensor *run_direction(const recurrent *m, pass *p, int64_t place_)
{
    tern_tensor **w = &m->parameters[PARAMETERS * place_];
    const bool reverse = m->directions == 2 && place_ % 2 == 1;
    const direction attr = { (int32_t)m->mode, reverse };
    tern_tensor *in[MOST_INPUTS] = { p->x,
                                     tern_select(p->h0, 0, place_),
                                     w[0],
                                     w[1],
                                     w[2],
                                     w[3],
                                     p->c0 ? tern_select(p->c0, 0, place_) : NULL };
    const tern_op *op = m->mode == LSTM ? &lstm_op : m->mode == GRU ? &gru_op : &sequence_op;
    tern_tensor *states = tern_apply_at(TERN_HERE, op, in, &attr);
    const int64_t last = reverse ? 0 : tern_size(p->x, 0) - 1;
    tern_tensor *y = tern_select(states, 0, 0);
    p->h[place_] = tern_select(y, 0, last);
    if (m->mode == LSTM)
        p->c[place_] = tern_select(tern_select(states, 0, 1), 0, last);
    return y;
}

static void run_layers(const recurrent *m, pass *p)
{
    for (int64_t layer = 0; layer < m->layers && !tern_failed(); layer++) {
        const int64_t first = layer * m->directions;
        tern_tensor *y = run_direction(m, p, first);
        if (m->directions == 2)
            y = tern_cat(2, y, run_direction(m, p, first + 1));
        if (m->dropout > 0 && layer + 1 < m->layers)
            y = tern_dropout(y, m->dropout, .evaluating = !m->base.training,
                             .generator = m->generator);
        p->x = y;
    }
}

static bool check_input(const recurrent *m, const tern_tensor *x)
{
    const char *what = m->base.type;
    const int ndim = tern_ndim(x);
    if (!x)
        tern_fail(TERN_ERR_ARGUMENT, what, "the input is NULL");
    else if ((ndim != 2 && ndim != 3) || tern_size(x, -1) != m->in)
        tern_fail(TERN_ERR_SHAPE, what,
                  "the input has to be %s, or [L, %lld] for one sequence, with %lld features",
                  m->batch_first ? "[N, L, features]" : "[L, N, features]", (long long)m->in,
                  (long long)m->in);
    else if (tern_size(x, ndim == 3 && m->batch_first ? 1 : 0) == 0)
        tern_fail(TERN_ERR_SHAPE, what, "the sequence has no steps");
    return !tern_failed();
}

/* A state [layers directions, N, H] ([.., H] for one sequence), zeros where none is given. */
static tern_tensor *first_state(const recurrent *m, tern_tensor *given, const tern_tensor *x,
                                bool one, const char *name)
{
    const int64_t places = m->layers * m->directions, batch = tern_size(x, 1);
    if (!given)
        return tern_zeros(TERN_SHAPE(places, batch, m->size), .dtype = tern_dtype(x),
                          .device = tern_device(x));
    tern_tensor *state = one && tern_ndim(given) == 2 ? tern_unsqueeze(given, 1) : given;
    if (tern_ndim(state) == 3 && tern_size(state, 0) == places && tern_size(state, 1) == batch &&
        tern_size(state, 2) == m->size)
        return state;
    tern_fail(TERN_ERR_SHAPE, m->base.type,
              "%s has to be [%lld, %lld, %lld]: layers, batch, hidden", name, (long long)places,
              (long long)batch, (long long)m->size);
    return NULL;
}

/* The states after the last step; without the batch's dimension for one sequence. */
static tern_tensor *last_states(const recurrent *m, tern_tensor **states, bool one)
{
    tern_tensor *all = tern_stack_at(TERN_HERE, states, m->layers * m->directions, 0);
    return one ? tern_squeeze(all, 1) : all;
}

static void forward(tern_module *self, tern_args *args)
{
    const recurrent *m = (const recurrent *)self;
    tern_tensor *x = args->in[0];
    if (!check_input(m, x))
        return;
    const bool one = tern_ndim(x) == 2, turned = m->batch_first && !one;
    const int64_t places = m->layers * m->directions;
    pass p = { .x = one ? tern_unsqueeze(x, 1) : turned ? tern_transpose(x, 0, 1) : x };
    p.h0 = first_state(m, args->in[1], p.x, one, "h0");
    if (m->mode == LSTM)
        p.c0 = first_state(m, args->in[2], p.x, one, "c0");
    p.h = tern_failed() ? NULL : nn_alloc(TERN_HERE, m->base.type, 2 * places, sizeof *p.h);
    if (!p.h)
        return;
    p.c = p.h + places;
    run_layers(m, &p);
    if (!tern_failed()) {
        args->out[0] = one ? tern_squeeze(p.x, 1) : turned ? tern_transpose(p.x, 0, 1) : p.x;
        args->out[1] = last_states(m, p.h, one);
        if (m->mode == LSTM)
            args->out[2] = last_states(m, p.c, one);
    }
    free(p.h);
}

static void describe(const tern_module *self, char *buffer, size_t bytes)
{
    const recurrent *m = (const recurrent *)self;
    snprintf(buffer, bytes, "in=%lld, hidden=%lld, layers=%lld%s%s%s", (long long)m->in,
             (long long)m->size, (long long)m->layers, m->directions == 2 ? ", bidirectional" : "",
             m->batch_first ? ", batch first" : "", m->mode == RNN_RELU ? ", relu" : "");
}

static void release(tern_module *self)
{
    free(((recurrent *)self)->parameters);
}

/* "weight_ih_l0", "bias_hh_l1_reverse": PyTorch's names, in its order. */
static void add_parameters(recurrent *m, const tern_rnn_layer_args *args, int64_t layer, int back)
{
    static const char *const names[PARAMETERS] = { "weight_ih", "weight_hh", "bias_ih", "bias_hh" };
    const nn_origin origin = { args->device, args->dtype, args->generator };
    const int64_t in = layer == 0 ? m->in : m->size * m->directions;
    const int64_t rows = gates_of(m->mode) * m->size;
    const double bound = 1 / sqrt((double)m->size);
    tern_tensor **to = &m->parameters[PARAMETERS * (layer * m->directions + back)];
    for (int i = 0; i < PARAMETERS && !tern_failed(); i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s_l%lld%s", names[i], (long long)layer,
                       back ? "_reverse" : "");
        if (i < 2)
            to[i] = nn_uniform_parameter(&m->base, name, TERN_SHAPE(rows, i == 0 ? in : m->size),
                                         origin, bound);
        else if (!args->no_bias)
            to[i] = nn_uniform_parameter(&m->base, name, TERN_SHAPE(rows), origin, bound);
    }
}

static bool check_args(tern_site_t site, const char *what, const tern_rnn_layer_args *args)
{
    enum { MOST_LAYERS = 1000 };
    if (!nn_require_positive(site, what, "in", args->in) ||
        !nn_require_positive(site, what, "hidden", args->hidden))
        return false;
    if (args->layers < 0 || args->layers > MOST_LAYERS)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "layers = %lld is not in [1, %d]",
                     (long long)args->layers, MOST_LAYERS);
    else if (!(args->dropout >= 0 && args->dropout <= 1))
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "dropout = %g is not in [0, 1]", args->dropout);
    return !tern_failed();
}

static tern_module *make(tern_site_t site, const char *type, mode m,
                         const tern_rnn_layer_args *given)
{
    char what[32];
    (void)snprintf(what, sizeof what, "%s_layer", type);
    NN_ARGS(site, what, tern_rnn_layer_args, args, given);
    if (!args_given || !check_args(site, what, &args))
        return NULL;
    nn_frame frame = nn_enter(site);
    recurrent *layer = (recurrent *)tern_module_create_args_at(site, sizeof *layer, type, forward);
    if (layer) {
        layer->base.describe = describe;
        layer->base.release = release;
        layer->mode = m == RNN_TANH && args.relu ? RNN_RELU : m;
        layer->in = args.in;
        layer->size = args.hidden;
        layer->layers = args.layers ? args.layers : 1;
        layer->directions = args.bidirectional ? 2 : 1;
        layer->batch_first = args.batch_first;
        layer->dropout = args.dropout;
        layer->generator = args.generator;
        layer->parameters = nn_alloc(site, what, layer->layers * layer->directions * PARAMETERS,
                                     sizeof *layer->parameters);
        for (int64_t l = 0; l < layer->layers && !tern_failed(); l++)
            for (int back = 0; back < layer->directions; back++)
                add_parameters(layer, &args, l, back);
    }
    return nn_layer_done(&frame, layer ? &layer->base : NULL);
}

tern_module *tern_rnn_layer_at(tern_site_t site, const tern_rnn_layer_args *args)
{
    return make(site, "rnn", RNN_TANH, args);
}

tern_module *tern_lstm_layer_at(tern_site_t site, const tern_rnn_layer_args *args)
{
    return make(site, "lstm", LSTM, args);
}

tern_module *tern_gru_layer_at(tern_site_t site, const tern_rnn_layer_args *args)
{
    return make(site, "gru", GRU, args);
}
