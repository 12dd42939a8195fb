/* Pointwise parts of recurrent cells. They write their inputs, so each case works on copies, and what was
 * written stands side by side in the result. */
#include <math.h>

#include "core/call.h"
#include "tests/ops/opinfo.h"

/* clang-format off */

enum { N = 3, H = 19 };
#define GATES(k, low_, high_) { INPUT_REAL, 2, { N, (k) * H }, low_, high_ }
#define PLAIN GATES(1, -2, 2)

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
/* Element k of gate `gate` of a row. */
static double at(const value *v, int64_t row, int gate, int64_t k)
{
    return v->data[row * v->dims[1] + gate * H + k];
}
static void put(value *v, int64_t row, int gate, int64_t k, double x)
{
    v->data[row * v->dims[1] + gate * H + k] = x;
}
static tern_tensor *room(const tern_tensor *like, int gates)
{
    return tern_zeros(TERN_SHAPE(tern_size(like, 0), gates * H), .dtype = tern_dtype(like), .device = tern_device(like));
}

/* columns: i, f, g, o, c, h */
static tern_tensor *run_lstm_cell(tern_tensor **in)
{
    tern_tensor *gates = room(in[0], 4), *c = room(in[0], 1), *h = room(in[0], 1);
    tern_copy(gates, in[0]);
    (void)tern_lstm_cell(gates, in[1], in[2], c, h);
    return tern_cat(1, gates, c, h);
}
static value ref_lstm_cell(const value *in)
{
    value out = value_new(2, (int64_t[]){ in[0].dims[0], 6 * H });
    for (int64_t row = 0; row < in[0].dims[0]; row++)
        for (int64_t k = 0; k < H; k++) {
            double gate[4];
            for (int j = 0; j < 4; j++) {
                const double x = at(&in[0], row, j, k) + at(&in[1], row, j, k);
                put(&out, row, j, k, gate[j] = j == 2 ? tanh(x) : sigmoid(x));
            }
            const double c = gate[1] * at(&in[2], row, 0, k) + gate[0] * gate[2];
            put(&out, row, 4, k, c);
            put(&out, row, 5, k, gate[3] * tanh(c));
        }
    return out;
}

/* columns: gradients of i, f, g, o before their curves, of c before */
static tern_tensor *run_lstm_cell_grad(tern_tensor **in)
{
    tern_tensor *dc = room(in[0], 1), *gates = room(in[0], 4);
    tern_copy(dc, in[4]);
    (void)tern_lstm_cell_grad(in[0], in[1], in[2], in[3], dc, gates);
    return tern_cat(1, gates, dc);
}
static value ref_lstm_cell_grad(const value *in)
{
    value out = value_new(2, (int64_t[]){ in[0].dims[0], 5 * H });
    for (int64_t row = 0; row < in[0].dims[0]; row++)
        for (int64_t k = 0; k < H; k++) {
            const double i = at(&in[0], row, 0, k), f = at(&in[0], row, 1, k), g = at(&in[0], row, 2, k);
            const double o = at(&in[0], row, 3, k), t = tanh(at(&in[2], row, 0, k));
            const double dh = at(&in[3], row, 0, k), dc = at(&in[4], row, 0, k) + dh * o * (1 - t * t);
            put(&out, row, 0, k, dc * g * i * (1 - i));
            put(&out, row, 1, k, dc * at(&in[1], row, 0, k) * f * (1 - f));
            put(&out, row, 2, k, dc * i * (1 - g * g));
            put(&out, row, 3, k, dh * t * o * (1 - o));
            put(&out, row, 4, k, dc * f);
        }
    return out;
}

/* columns: r, z, n, hidden n, h */
static tern_tensor *run_gru_cell(tern_tensor **in)
{
    tern_tensor *saved = room(in[0], 4), *h = room(in[0], 1);
    (void)tern_gru_cell(in[0], in[1], in[2], saved, h);
    return tern_cat(1, saved, h);
}
static value ref_gru_cell(const value *in)
{
    value out = value_new(2, (int64_t[]){ in[0].dims[0], 5 * H });
    for (int64_t row = 0; row < in[0].dims[0]; row++)
        for (int64_t k = 0; k < H; k++) {
            const double r = sigmoid(at(&in[0], row, 0, k) + at(&in[1], row, 0, k));
            const double z = sigmoid(at(&in[0], row, 1, k) + at(&in[1], row, 1, k));
            const double hidden = at(&in[1], row, 2, k), n = tanh(at(&in[0], row, 2, k) + r * hidden);
            put(&out, row, 0, k, r);
            put(&out, row, 1, k, z);
            put(&out, row, 2, k, n);
            put(&out, row, 3, k, hidden);
            put(&out, row, 4, k, (1 - z) * n + z * at(&in[2], row, 0, k));
        }
    return out;
}

/* columns: gradients of the gates, of the hidden gates, of h before past them */
static tern_tensor *run_gru_cell_grad(tern_tensor **in)
{
    tern_tensor *dh = room(in[0], 1), *gates = room(in[0], 3), *hidden = room(in[0], 3);
    tern_copy(dh, in[2]);
    (void)tern_gru_cell_grad(in[0], in[1], dh, gates, hidden);
    return tern_cat(1, gates, hidden, dh);
}
static value ref_gru_cell_grad(const value *in)
{
    value out = value_new(2, (int64_t[]){ in[0].dims[0], 7 * H });
    for (int64_t row = 0; row < in[0].dims[0]; row++)
        for (int64_t k = 0; k < H; k++) {
            const double r = at(&in[0], row, 0, k), z = at(&in[0], row, 1, k), n = at(&in[0], row, 2, k);
            const double dh = at(&in[2], row, 0, k), dn = dh * (1 - z) * (1 - n * n);
            const double dr = dn * at(&in[0], row, 3, k) * r * (1 - r);
            const double dz = dh * (at(&in[1], row, 0, k) - n) * z * (1 - z);
            const double all[7] = { dr, dz, dn, dr, dz, dn * r, dh * z };
            for (int j = 0; j < 7; j++)
                put(&out, row, j, k, all[j]);
        }
    return out;
}

const opinfo opinfo_recurrent[] = {
    { OPINFO(lstm_cell), .label = "", .in = { GATES(4, -3, 3), GATES(4, -3, 3), PLAIN },
      .run = run_lstm_cell, .ref = ref_lstm_cell },
    { OPINFO(lstm_cell_grad), .label = "", .in = { GATES(4, 0.1, 0.9), PLAIN, PLAIN, PLAIN, PLAIN },
      .run = run_lstm_cell_grad, .ref = ref_lstm_cell_grad },
    { OPINFO(gru_cell), .label = "", .in = { GATES(3, -3, 3), GATES(3, -3, 3), PLAIN },
      .run = run_gru_cell, .ref = ref_gru_cell },
    { OPINFO(gru_cell_grad), .label = "", .in = { GATES(4, 0.1, 0.9), PLAIN, PLAIN },
      .run = run_gru_cell_grad, .ref = ref_gru_cell_grad },
};
const int opinfo_recurrent_count = sizeof opinfo_recurrent / sizeof *opinfo_recurrent;
