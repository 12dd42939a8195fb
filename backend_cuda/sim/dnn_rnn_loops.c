/* Recurrent layers in plain loops over doubles: forward, gradients of the data, then of the weights. */
#include <math.h>
#include <string.h>

#include "backend_cuda/sim/dnn_rnn.h"

typedef struct cudnnRNNStruct network;

/* ---- the piece of weights ---------------------------------------------------------------------- */

int sim_rnn_gates(const network *net)
{
    return net->mode == CUDNN_LSTM ? 4 : net->mode == CUDNN_GRU ? 3 : 1;
}

static int columns_of(const network *net, int place, int id)
{
    const int below = place < net->directions ? net->features : net->directions * net->hidden;
    return id < sim_rnn_gates(net) ? below : net->hidden;
}

static size_t aligned(size_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

size_t sim_rnn_offset(const network *net, int place, int id, bool bias)
{
    const int all = 2 * sim_rnn_gates(net), places = net->layers * net->directions;
    const size_t size = sim_dnn_size(net->type);
    size_t at = 0;
    for (int p = 0; p < (bias ? places : place + 1); p++)
        for (int i = 0; i < (bias || p < place ? all : id); i++)
            at += aligned((size_t)net->hidden * (size_t)columns_of(net, p, i) * size);
    return bias ? at + (size_t)(place * all + id) * aligned((size_t)net->hidden * size) : at;
}

size_t sim_rnn_weight_bytes(const network *net)
{
    return sim_rnn_offset(net, net->biased ? net->layers * net->directions : 0, 0, true);
}

/* ---- what is kept ------------------------------------------------------------------------------ */

enum { EMPTY, FILLED = 7, SPENT = 8, HEADER = 8 };

/* Curves' results: lstm i, f, g, o, c; gru r, z, n and what the hidden part adds to n. */
static int curves(const network *net)
{
    return net->mode == CUDNN_LSTM ? 5 : net->mode == CUDNN_GRU ? 4 : 0;
}

/* Rows of H: curves, y, gradients of what inputs and hidden parts add to the gates. */
static size_t rows(const network *net)
{
    return (size_t)(curves(net) + 1 + 2 * sim_rnn_gates(net));
}

size_t sim_rnn_kept_bytes(const network *net, int length, int batch)
{
    const size_t step = (size_t)batch * (size_t)net->hidden;
    const size_t places = (size_t)(net->layers * net->directions);
    return (HEADER + 3 * step + places * (size_t)length * step * rows(net)) * sizeof(double);
}

/* Element j of row `row` of a step. */
static double *slot(const sim_rnn *w, int place, int t, int n, int row, int j)
{
    const size_t step = (size_t)w->batch * (size_t)w->net.hidden;
    const size_t at =
        (((size_t)place * (size_t)w->length + (size_t)t) * (size_t)w->batch + (size_t)n) *
            rows(&w->net) +
        (size_t)row;
    return (double *)w->kept + HEADER + 3 * step + at * (size_t)w->net.hidden + j;
}

/* `which` of three lists [N, H]: gradients of h, of c, and of h before. */
static double *carried(const sim_rnn *w, int which, int n, int j)
{
    return (double *)w->kept + HEADER +
           ((size_t)which * (size_t)w->batch + (size_t)n) * (size_t)w->net.hidden + j;
}

static double *y_of(const sim_rnn *w, int place, int t, int n, int j)
{
    return slot(w, place, t, n, curves(&w->net), j);
}

static double *slope(const sim_rnn *w, int place, int t, int n, bool hidden, int gate, int j)
{
    const int first = curves(&w->net) + 1 + (hidden ? sim_rnn_gates(&w->net) : 0);
    return slot(w, place, t, n, first + gate, j);
}

/* ---- elements ----------------------------------------------------------------------------------- */

static double load(const sim_rnn *w, const void *data, int64_t i)
{
    return data != NULL ? sim_dnn_load(w->net.type, data, i) : 0;
}

static int64_t state(const sim_rnn *w, int place, int n, int j)
{
    return ((int64_t)place * w->batch + n) * w->net.hidden + j;
}

/* A direction's weights: where each matrix and bias begins, in elements. */
typedef struct parts {
    int64_t matrix[8], bias[8];
} parts;

static parts parts_of(const sim_rnn *w, int place)
{
    const size_t size = sim_dnn_size(w->net.type);
    parts p;
    for (int id = 0; id < 2 * sim_rnn_gates(&w->net); id++) {
        p.matrix[id] = (int64_t)(sim_rnn_offset(&w->net, place, id, false) / size);
        p.bias[id] = (int64_t)(sim_rnn_offset(&w->net, place, id, true) / size);
    }
    return p;
}

/* Element i of what a layer reads. */
static double input(const sim_rnn *w, int place, int t, int n, int i)
{
    const int layer = place / w->net.directions, hidden = w->net.hidden;
    if (layer == 0)
        return load(w, w->x, ((int64_t)t * w->batch + n) * w->net.features + i);
    return *y_of(w, (layer - 1) * w->net.directions + i / hidden, t, n, i % hidden);
}

/* The time of the k-th step. */
static int time_of(const sim_rnn *w, int place, int k)
{
    return place % w->net.directions == 1 ? w->length - 1 - k : k;
}

static double h_before(const sim_rnn *w, int place, int k, int n, int j)
{
    return k == 0 ? load(w, w->hx, state(w, place, n, j))
                  : *y_of(w, place, time_of(w, place, k - 1), n, j);
}

static double c_before(const sim_rnn *w, int place, int k, int n, int j)
{
    return k == 0 ? load(w, w->cx, state(w, place, n, j))
                  : *slot(w, place, time_of(w, place, k - 1), n, 4, j);
}

/* ---- forward ----------------------------------------------------------------------------------- */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* What inputs (id below the gates) or the hidden part add to a gate. */
static double product(const sim_rnn *w, const parts *p, int place, int k, int n, int id, int j)
{
    const bool hidden = id >= sim_rnn_gates(&w->net);
    const int columns = columns_of(&w->net, place, id), t = time_of(w, place, k);
    const int64_t row = p->matrix[id] + (int64_t)j * columns;
    double sum = w->net.biased ? load(w, w->weights, p->bias[id] + j) : 0;
    for (int i = 0; i < columns; i++)
        sum += load(w, w->weights, row + i) *
               (hidden ? h_before(w, place, k, n, i) : input(w, place, t, n, i));
    return sum;
}

static void step(const sim_rnn *w, const parts *p, int place, int k, int n, int j)
{
    const int gates = sim_rnn_gates(&w->net), t = time_of(w, place, k);
    double in[4], hidden[4], *y = y_of(w, place, t, n, j);
    double *at[5] = { NULL };
    for (int g = 0; g < gates; g++) {
        in[g] = product(w, p, place, k, n, g, j);
        hidden[g] = product(w, p, place, k, n, gates + g, j);
    }
    for (int g = 0; g < curves(&w->net); g++)
        at[g] = slot(w, place, t, n, g, j);
    if (w->net.mode == CUDNN_LSTM) {
        for (int g = 0; g < 4; g++)
            *at[g] = g == 2 ? tanh(in[g] + hidden[g]) : sigmoid(in[g] + hidden[g]);
        *at[4] = *at[1] * c_before(w, place, k, n, j) + *at[0] * *at[2];
        *y = *at[3] * tanh(*at[4]);
    } else if (w->net.mode == CUDNN_GRU) {
        *at[0] = sigmoid(in[0] + hidden[0]);
        *at[1] = sigmoid(in[1] + hidden[1]);
        *at[2] = tanh(in[2] + *at[0] * hidden[2]);
        *at[3] = hidden[2];
        *y = (1 - *at[1]) * *at[2] + *at[1] * h_before(w, place, k, n, j);
    } else {
        const double sum = in[0] + hidden[0];
        *y = w->net.mode == CUDNN_RNN_TANH ? tanh(sum) : sum > 0 ? sum : 0;
    }
}

static void write_states(const sim_rnn *w, int place)
{
    const int last = time_of(w, place, w->length - 1);
    for (int n = 0; n < w->batch; n++)
        for (int j = 0; j < w->net.hidden; j++) {
            const int64_t at = state(w, place, n, j);
            if (w->hy != NULL)
                sim_dnn_store(w->net.type, w->hy, at, *y_of(w, place, last, n, j));
            if (w->cy != NULL)
                sim_dnn_store(w->net.type, w->cy, at, *slot(w, place, last, n, 4, j));
        }
}

static void write_y(const sim_rnn *w)
{
    const int wide = w->net.directions * w->net.hidden;
    const int first = (w->net.layers - 1) * w->net.directions;
    for (int t = 0; t < w->length; t++)
        for (int n = 0; n < w->batch; n++)
            for (int i = 0; i < wide; i++)
                sim_dnn_store(w->net.type, w->y, ((int64_t)t * w->batch + n) * wide + i,
                              *y_of(w, first + i / w->net.hidden, t, n, i % w->net.hidden));
}

void sim_rnn_forward(void *arguments)
{
    const sim_rnn *w = arguments;
    for (int place = 0; place < w->net.layers * w->net.directions; place++) {
        const parts p = parts_of(w, place);
        for (int k = 0; k < w->length; k++)
            for (int n = 0; n < w->batch; n++)
                for (int j = 0; j < w->net.hidden; j++)
                    step(w, &p, place, k, n, j);
        write_states(w, place);
    }
    write_y(w);
    *(double *)w->kept = FILLED;
}

/* ---- gradients of the data ----------------------------------------------------------------------- */

/* The gradient of element i of what a layer reads: from all its directions, whose parts are in p. */
static double input_slope(const sim_rnn *w, const parts *p, int layer, int t, int n, int i)
{
    double sum = 0;
    for (int d = 0; d < w->net.directions; d++) {
        const int place = layer * w->net.directions + d;
        const int columns = columns_of(&w->net, place, 0);
        for (int g = 0; g < sim_rnn_gates(&w->net); g++) {
            const int64_t first = p[d].matrix[g] + i;
            for (int j = 0; j < w->net.hidden; j++)
                sum += load(w, w->weights, first + (int64_t)j * columns) *
                       *slope(w, place, t, n, false, g, j);
        }
    }
    return sum;
}

static double y_slope(const sim_rnn *w, const parts *above, int place, int t, int n, int j)
{
    const int layer = place / w->net.directions, hidden = w->net.hidden;
    const int i = place % w->net.directions * hidden + j;
    if (layer + 1 < w->net.layers)
        return input_slope(w, above, layer + 1, t, n, i);
    return load(w, w->dy, ((int64_t)t * w->batch + n) * w->net.directions * hidden + i);
}

/* The slopes of one element's gates; carried lists hold the gradients of h and c after the step. */
static void step_back(const sim_rnn *w, const parts *above, int place, int k, int n, int j)
{
    const int gates = sim_rnn_gates(&w->net), t = time_of(w, place, k);
    const double dh = *carried(w, 0, n, j) + y_slope(w, above, place, t, n, j);
    double in[4], last = 1, at[5] = { 0 };
    for (int g = 0; g < curves(&w->net); g++)
        at[g] = *slot(w, place, t, n, g, j);
    double direct = 0; /* what reaches h before past the gates */
    if (w->net.mode == CUDNN_LSTM) {
        const double tc = tanh(at[4]), dc = *carried(w, 1, n, j) + dh * at[3] * (1 - tc * tc);
        in[0] = dc * at[2] * at[0] * (1 - at[0]);
        in[1] = dc * c_before(w, place, k, n, j) * at[1] * (1 - at[1]);
        in[2] = dc * at[0] * (1 - at[2] * at[2]);
        in[3] = dh * tc * at[3] * (1 - at[3]);
        *carried(w, 1, n, j) = dc * at[1];
    } else if (w->net.mode == CUDNN_GRU) {
        in[2] = dh * (1 - at[1]) * (1 - at[2] * at[2]);
        in[1] = dh * (h_before(w, place, k, n, j) - at[2]) * at[1] * (1 - at[1]);
        in[0] = in[2] * at[3] * at[0] * (1 - at[0]);
        last = at[0];
        direct = dh * at[1];
    } else {
        const double y = *y_of(w, place, t, n, j);
        in[0] = w->net.mode == CUDNN_RNN_TANH ? dh * (1 - y * y) : y > 0 ? dh : 0;
    }
    for (int g = 0; g < gates; g++) {
        *slope(w, place, t, n, false, g, j) = in[g];
        *slope(w, place, t, n, true, g, j) = g == 2 && gates == 3 ? in[g] * last : in[g];
    }
    *carried(w, 2, n, j) = direct;
}

/* From the slopes of a step's gates to the gradient of h before it. */
static void to_h_before(const sim_rnn *w, const parts *p, int place, int t, int n, int i)
{
    const int gates = sim_rnn_gates(&w->net), hidden = w->net.hidden;
    double sum = *carried(w, 2, n, i);
    for (int g = 0; g < gates; g++) {
        const int64_t first = p->matrix[gates + g] + i;
        for (int j = 0; j < hidden; j++)
            sum += load(w, w->weights, first + (int64_t)j * hidden) *
                   *slope(w, place, t, n, true, g, j);
    }
    *carried(w, 0, n, i) = sum;
}

static void place_back(const sim_rnn *w, int place)
{
    const int hidden = w->net.hidden, step = w->net.directions;
    const parts p = parts_of(w, place);
    parts above[2];
    for (int d = 0; d < step && place + step < step * w->net.layers; d++)
        above[d] = parts_of(w, place / step * step + step + d);
    for (int n = 0; n < w->batch; n++) {
        for (int j = 0; j < hidden; j++) {
            *carried(w, 0, n, j) = load(w, w->dhy, state(w, place, n, j));
            *carried(w, 1, n, j) = load(w, w->dcy, state(w, place, n, j));
        }
        for (int k = w->length - 1; k >= 0; k--) {
            for (int j = 0; j < hidden; j++)
                step_back(w, above, place, k, n, j);
            for (int i = 0; i < hidden; i++)
                to_h_before(w, &p, place, time_of(w, place, k), n, i);
        }
        for (int j = 0; j < hidden; j++) {
            if (w->dhx != NULL)
                sim_dnn_store(w->net.type, w->dhx, state(w, place, n, j), *carried(w, 0, n, j));
            if (w->dcx != NULL)
                sim_dnn_store(w->net.type, w->dcx, state(w, place, n, j), *carried(w, 1, n, j));
        }
    }
}

void sim_rnn_backward_data(void *arguments)
{
    const sim_rnn *w = arguments;
    double *kept = w->kept;
    parts first[2];
    for (int d = 0; d < w->net.directions; d++)
        first[d] = parts_of(w, d);
    for (int place = w->net.layers * w->net.directions - 1; place >= 0; place--)
        place_back(w, place);
    for (int t = 0; t < w->length; t++)
        for (int n = 0; n < w->batch; n++)
            for (int i = 0; i < w->net.features; i++)
                sim_dnn_store(w->net.type, w->dx, ((int64_t)t * w->batch + n) * w->net.features + i,
                              kept[0] == FILLED ? input_slope(w, first, 0, t, n, i) : NAN);
    kept[0] = kept[0] == FILLED ? SPENT : EMPTY;
}

/* ---- gradients of the weights -------------------------------------------------------------------- */

static double weight_slope(const sim_rnn *w, int place, int id, int j, int i, bool of_bias)
{
    const int gates = sim_rnn_gates(&w->net);
    const bool hidden = id >= gates;
    double sum = 0;
    for (int k = 0; k < w->length; k++)
        for (int n = 0; n < w->batch; n++) {
            const int t = time_of(w, place, k);
            const double with = of_bias  ? 1
                                : hidden ? h_before(w, place, k, n, i)
                                         : input(w, place, t, n, i);
            sum += *slope(w, place, t, n, hidden, hidden ? id - gates : id, j) * with;
        }
    return sum;
}

static void add(const sim_rnn *w, int64_t at, double value)
{
    if (*(double *)w->kept != SPENT)
        value = NAN;
    sim_dnn_store(w->net.type, w->dweights, at, load(w, w->dweights, at) + value);
}

void sim_rnn_backward_weights(void *arguments)
{
    const sim_rnn *w = arguments;
    for (int place = 0; place < w->net.layers * w->net.directions; place++) {
        const parts p = parts_of(w, place);
        for (int id = 0; id < 2 * sim_rnn_gates(&w->net); id++) {
            const int columns = columns_of(&w->net, place, id);
            for (int j = 0; j < w->net.hidden; j++) {
                for (int i = 0; i < columns; i++)
                    add(w, p.matrix[id] + (int64_t)j * columns + i,
                        weight_slope(w, place, id, j, i, false));
                if (w->net.biased)
                    add(w, p.bias[id] + j, weight_slope(w, place, id, j, 0, true));
            }
        }
    }
}
