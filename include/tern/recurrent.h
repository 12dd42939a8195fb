/* Pointwise parts of recurrent cells, one pass over memory each: what the layers of tern/layers.h (rnn, lstm,
 * gru) are made of. They write some of their arguments, have no history, and take tensors [N, k H] of one
 * dtype, those that are written contiguous. Gates stand in PyTorch's order. */
#ifndef TERN_RECURRENT_H
#define TERN_RECURRENT_H

#include "tern/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* gates [N, 4H] + hidden: i, f, o through sigmoid, g through tanh, written to gates;
 * c = f c_before + i g; h = o tanh(c). */
TERN_API tern_status_t tern_lstm_cell_at(tern_site_t site, tern_tensor *gates, tern_tensor *hidden,
                                         tern_tensor *c_before, tern_tensor *c, tern_tensor *h);
/* From i, f, g, o and the gradients of h and c: grad_c becomes that of c_before, grad_gates is written. */
TERN_API tern_status_t tern_lstm_cell_grad_at(tern_site_t site, tern_tensor *gates,
                                              tern_tensor *c_before, tern_tensor *c,
                                              tern_tensor *grad_h, tern_tensor *grad_c,
                                              tern_tensor *grad_gates);
/* gates, hidden [N, 3H]: r = sigmoid(gates_r + hidden_r), z alike, n = tanh(gates_n + r hidden_n);
 * h = n + z (h_before - n). saved [N, 4H]: r, z, n, hidden_n. */
TERN_API tern_status_t tern_gru_cell_at(tern_site_t site, tern_tensor *gates, tern_tensor *hidden,
                                        tern_tensor *h_before, tern_tensor *saved, tern_tensor *h);
/* grad_h becomes z times itself, what reaches h_before past the gates; grad_gates and grad_hidden are written. */
TERN_API tern_status_t tern_gru_cell_grad_at(tern_site_t site, tern_tensor *saved,
                                             tern_tensor *h_before, tern_tensor *grad_h,
                                             tern_tensor *grad_gates, tern_tensor *grad_hidden);
#define tern_lstm_cell(gates, hidden, c_before, c, h) \
    tern_lstm_cell_at(TERN_HERE, gates, hidden, c_before, c, h)
#define tern_lstm_cell_grad(gates, c_before, c, grad_h, grad_c, grad_gates) \
    tern_lstm_cell_grad_at(TERN_HERE, gates, c_before, c, grad_h, grad_c, grad_gates)
#define tern_gru_cell(gates, hidden, h_before, saved, h) \
    tern_gru_cell_at(TERN_HERE, gates, hidden, h_before, saved, h)
#define tern_gru_cell_grad(saved, h_before, grad_h, grad_gates, grad_hidden) \
    tern_gru_cell_grad_at(TERN_HERE, saved, h_before, grad_h, grad_gates, grad_hidden)

#ifdef __cplusplus
}
#endif
#endif
