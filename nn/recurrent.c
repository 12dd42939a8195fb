/* RNN, LSTM and GRU layers: parameters, stacks of layers and directions, states. */
#include "nn/recurrent.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tern/amp.h"
#include "tern/rnn.h"

typedef struct recurrent {
    tern_module base;
    rnn_mode mode;
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

static tern_tensor *run_direction(const recurrent *m, pass *p, int64_t place)
{
    tern_tensor **w = &m->parameters[RNN_PARAMETERS * place];
    const bool reverse = m->directions == 2 && place % 2 == 1;
    tern_tensor *const in[RNN_OPERANDS] = { p->x,
                                            tern_select(p->h0, 0, place),
                                            w[0],
                                            w[1],
                                            w[2],
                                            w[3],
                                            p->c0 ? tern_select(p->c0, 0, place) : NULL };
    tern_tensor *states = rnn_run_direction(m->mode, reverse, in);
    const int64_t last = reverse ? 0 : tern_size(p->x, 0) - 1;
    tern_tensor *y = tern_select(states, 0, 0);
    p->h[place] = tern_select(y, 0, last);
    if (m->mode == RNN_LSTM)
        p->c[place] = tern_select(tern_select(states, 0, 1), 0, last);
    return y;
}

/* `count` layers from `first` on in one call of a library; false: none does it. */
static bool run_stack(const recurrent *m, pass *p, int64_t first, int64_t count)
{
    const int64_t from = first * m->directions, places = count * m->directions;
    const rnn_stack stack = { .mode = m->mode,
                              .layers = count,
                              .features = tern_size(p->x, 2),
                              .size = m->size,
                              .directions = m->directions,
                              .parameters = &m->parameters[RNN_PARAMETERS * from] };
    tern_tensor *out[3];
    tern_tensor *h0 = tern_slice(p->h0, 0, from, from + places);
    tern_tensor *c0 = p->c0 ? tern_slice(p->c0, 0, from, from + places) : NULL;
    if (!rnn_run_stack(&stack, p->x, h0, c0, out))
        return false;
    p->x = out[0];
    for (int64_t i = 0; i < places; i++) {
        p->h[from + i] = tern_select(out[1], 0, i);
        p->c[from + i] = out[2] ? tern_select(out[2], 0, i) : NULL;
    }
    return true;
}

/* Dropout between layers is the library's own op also where another library does the layers: its random
 * numbers are the generator's on every device. */
static void run_layers(const recurrent *m, pass *p)
{
    const bool drops = m->dropout > 0 && m->base.training;
    const bool here = tern_device(p->x).kind == TERN_KIND_CPU;
    if (!here && !drops && run_stack(m, p, 0, m->layers))
        return;
    for (int64_t layer = 0; layer < m->layers && !tern_failed(); layer++) {
        const int64_t first = layer * m->directions;
        if (here || !drops || !run_stack(m, p, layer, 1)) {
            tern_tensor *y = run_direction(m, p, first);
            p->x = m->directions == 2 ? tern_cat(2, y, run_direction(m, p, first + 1)) : y;
        }
        if (drops && layer + 1 < m->layers)
            p->x = tern_dropout(p->x, m->dropout, .generator = m->generator);
    }
}

/* Autocast makes one dtype of floats; integers it leaves alone. */
static bool matches_weights(const recurrent *m, const tern_tensor *x)
{
    const tern_tensor *weight = m->parameters[0];
    const tern_dtype_t dtype = tern_dtype(x);
    return weight == NULL || dtype == tern_dtype(weight) ||
           (tern_dtype_is_float(dtype) && tern_autocast_enabled(tern_device(x)));
}

static bool check_input(const recurrent *m, const tern_tensor *x)
{
    const char *what = m->base.type;
    const int ndim = tern_ndim(x);
    const tern_tensor *weight = m->parameters[0];
    char text[512], there[512];
    if (!x)
        tern_fail(TERN_ERR_ARGUMENT, what, "the input is NULL");
    else if ((ndim != 2 && ndim != 3) || tern_size(x, -1) != m->in)
        nn_fail_operand(TERN_ERR_SHAPE, what, "input", x,
                        "the input has to be %s, or [L, %lld] for one sequence, with %lld features",
                        m->batch_first ? "[N, L, features]" : "[L, N, features]", (long long)m->in,
                        (long long)m->in);
    else if (!matches_weights(m, x))
        tern_fail(TERN_ERR_DTYPE, what,
                  "the input is %s, and the weights are %s\n    input      %s\n"
                  "    parameter  %s\n  try tern_cast",
                  tern_dtype_name(tern_dtype(x)), tern_dtype_name(tern_dtype(weight)),
                  nn_summary(x, text, sizeof text), nn_summary(weight, there, sizeof there));
    else if (weight && !tern_dev_equal(tern_device(x), tern_device(weight)))
        tern_fail(
            TERN_ERR_DEVICE, what,
            "the input and the parameters are on different devices\n    input      %s\n"
            "    parameter  %s\n  try tern_to for the input, or tern_module_to for the module",
            nn_summary(x, text, sizeof text), nn_summary(weight, there, sizeof there));
    else if (tern_size(x, ndim == 3 && m->batch_first ? 1 : 0) == 0)
        tern_fail(TERN_ERR_SHAPE, what, "the sequence has no steps");
    return !tern_failed();
}

/* A state lies where the input does; autocast makes one dtype of floats. */
static bool fits_input(const recurrent *m, const char *name, const tern_tensor *given,
                       const tern_tensor *x)
{
    const tern_dtype_t dtype = tern_dtype(given);
    const bool same = dtype == tern_dtype(x) ||
                      (tern_dtype_is_float(dtype) && tern_autocast_enabled(tern_device(x)));
    if (same && tern_dev_equal(tern_device(given), tern_device(x)))
        return true;
    char there[512], here[512];
    tern_fail(same ? TERN_ERR_DEVICE : TERN_ERR_DTYPE, m->base.type,
              "%s and the input are %s\n    %-9s  %s\n    input      %s\n  try %s for %s", name,
              same ? "on different devices" : "of different dtypes", name,
              nn_summary(given, there, sizeof there), nn_summary(x, here, sizeof here),
              same ? "tern_to" : "tern_cast", name);
    return false;
}

/* A state [layers directions, N, H] ([.., H] for one sequence), zeros where none is given. */
static tern_tensor *first_state(const recurrent *m, tern_tensor *given, tern_tensor *x, bool one,
                                const char *name)
{
    const int64_t places = m->layers * m->directions, batch = tern_size(x, 1);
    if (!given)
        return tern_zeros(TERN_SHAPE(places, batch, m->size), .dtype = tern_dtype(x), .like = x);
    tern_tensor *state = one && tern_ndim(given) == 2 ? tern_unsqueeze(given, 1) : given;
    if (tern_ndim(state) == 3 && tern_size(state, 0) == places && tern_size(state, 1) == batch &&
        tern_size(state, 2) == m->size)
        return fits_input(m, name, given, x) ? state : NULL;
    nn_fail_operand(TERN_ERR_SHAPE, m->base.type, name, given,
                    "%s has to be [%lld, %lld, %lld]: layers, batch, hidden", name,
                    (long long)places, (long long)batch, (long long)m->size);
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
    if (m->mode == RNN_LSTM)
        p.c0 = first_state(m, args->in[2], p.x, one, "c0");
    p.h = tern_failed() ? NULL : nn_alloc(TERN_HERE, m->base.type, 2 * places, sizeof *p.h);
    if (!p.h)
        return;
    p.c = p.h + places;
    run_layers(m, &p);
    if (!tern_failed()) {
        tern_tensor *y = one ? tern_squeeze(p.x, 1) : turned ? tern_transpose(p.x, 0, 1) : p.x;
        args->out[0] = tern_rnn_result(y);
        args->out[1] = tern_rnn_result(last_states(m, p.h, one));
        if (m->mode == RNN_LSTM)
            args->out[2] = tern_rnn_result(last_states(m, p.c, one));
    }
    free(p.h);
}

static void describe(const tern_module *self, char *buffer, size_t bytes)
{
    const recurrent *m = (const recurrent *)self;
    snprintf(buffer, bytes, "in=%lld, hidden=%lld, layers=%lld%s%s%s", (long long)m->in,
             (long long)m->size, (long long)m->layers, m->directions == 2 ? ", bidirectional" : "",
             m->batch_first ? ", batch first" : "", m->mode == RNN_RELU ? ", relu" : "");
    if (m->dropout != 0)
        nn_describe_more(buffer, bytes, ", dropout=%g", m->dropout);
    if (m->parameters[2] == NULL) /* bias_ih_l0 */
        nn_describe_more(buffer, bytes, ", no bias");
}

static void release(tern_module *self)
{
    free(((recurrent *)self)->parameters);
}

/* "weight_ih_l0", "bias_hh_l1_reverse": PyTorch's names, in its order. */
static void add_parameters(recurrent *m, const tern_rnn_layer_args *args, int64_t layer, int back)
{
    static const char *const names[RNN_PARAMETERS] = { "weight_ih", "weight_hh", "bias_ih",
                                                       "bias_hh" };
    const nn_origin origin = { args->device, args->dtype, args->generator };
    const int64_t in = layer == 0 ? m->in : m->size * m->directions;
    const int64_t rows = nn_times(rnn_gates(m->mode), m->size);
    const double bound = 1 / sqrt((double)m->size);
    tern_tensor **to = &m->parameters[RNN_PARAMETERS * (layer * m->directions + back)];
    for (int i = 0; i < RNN_PARAMETERS && !tern_failed(); i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s_l%lld%s", names[i], (long long)layer,
                       back ? "_reverse" : "");
        if (i < 2)
            nn_uniform_parameter(&m->base, name, TERN_SHAPE(rows, i == 0 ? in : m->size), origin,
                                 bound);
        else if (!args->no_bias)
            nn_uniform_parameter(&m->base, name, TERN_SHAPE(rows), origin, bound);
        nn_bind_tensor(&m->base, name, &to[i]);
    }
}

static bool check_args(tern_site_t site, const char *what, rnn_mode mode,
                       const tern_rnn_layer_args *args)
{
    enum { MOST_LAYERS = 1000 };
    if (!nn_require_positive(site, what, "in", args->in) ||
        !nn_require_positive(site, what, "hidden", args->hidden))
        return false;
    if (args->layers < 0 || args->layers > MOST_LAYERS)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "layers = %lld is not in [1, %d]",
                     (long long)args->layers, MOST_LAYERS);
    else if (!(nn_option(args->dropout, 0) >= 0 && args->dropout <= 1))
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "dropout = %g is not in [0, 1]", args->dropout);
    else if (args->relu && mode != RNN_TANH)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                     "relu is tern_rnn_layer's: gates have their own functions");
    return !tern_failed();
}

static tern_module *make(tern_site_t site, const char *type, rnn_mode m,
                         const tern_rnn_layer_args *given)
{
    char what[32];
    (void)snprintf(what, sizeof what, "%s_layer", type);
    NN_ARGS(site, what, tern_rnn_layer_args, args, given);
    if (!args_given || !check_args(site, what, m, &args))
        return NULL;
    nn_frame frame = nn_layer_begin(site, what);
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
        layer->dropout = nn_option(args.dropout, 0);
        layer->generator = args.generator;
        layer->parameters = nn_alloc(site, what, layer->layers * layer->directions * RNN_PARAMETERS,
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
    return make(site, "lstm", RNN_LSTM, args);
}

tern_module *tern_gru_layer_at(tern_site_t site, const tern_rnn_layer_args *args)
{
    return make(site, "gru", RNN_GRU, args);
}
