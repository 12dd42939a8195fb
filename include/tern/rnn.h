/* Stacks of recurrent layers over whole sequences by a library of the device's (cuDNN): the way from the
 * layers of tern/layers.h to it, and what a backend that has one exports. K layers, D directions, N sequences
 * of L steps; all tensors row by row without gaps:
 *   x [L, N, features]; h0 and, of an LSTM, c0 [K D, N, H];
 *   weights: w_ih [gates H, ...], w_hh of each layer and direction, then b_ih, b_hh of each, gates in PyTorch's
 *   order (i f g o, r z n);
 *   out: y [L, N, D H], then h and c after the last step, each piece padded (TERN_RNN_PADDED). */
#ifndef TERN_RNN_H
#define TERN_RNN_H

#include "tern/plugin.h"
#include "tern/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TERN_RNN_RELU, TERN_RNN_TANH, TERN_RNN_LSTM, TERN_RNN_GRU };

typedef struct tern_attr_rnn {
    int32_t kind, layers, directions, dtype; /* of all tensors but the reserve */
    int64_t length, batch, features, hidden;
    bool biased, training; /* training: a backward may follow */
    bool wants_weights;    /* backward: the gradient of the weights, too */
    bool *out_done; /* on the host: stays false where the library refuses, nothing being queued */
} tern_attr_rnn;

/* Where several results or states lie in one piece, each begins at a multiple of 64 elements. */
#define TERN_RNN_PADDED(count) (((count) + 63) / 64 * 64)

/* ---- calls: without history, all of them, on one device ---------------------------------------- */

/* Bytes that a forward leaves for its backward; -1: no library of that device does this one, or there is no such
 * device, which is an error. */
TERN_API int64_t tern_rnn_reserve(const tern_attr_rnn *how, tern_dev_t dev);
/* in: x, h0, c0, weights, out, reserve (u8, of tern_rnn_reserve elements or more; NULL but in training); the last two
 * are written. *out_done: false where the library refuses after all. */
TERN_API tern_status_t tern_rnn_forward_at(tern_site_t site, const tern_attr_rnn *how,
                                           tern_tensor *const in[6], bool *out_done);
/* in: those, of a forward in training, and the gradient of out; out_grads: of x, of h0 and c0 (padded, one behind the
 * other), of weights (no elements unless it is wanted). */
TERN_API tern_status_t tern_rnn_backward_at(tern_site_t site, const tern_attr_rnn *how,
                                            tern_tensor *const in[7], tern_tensor *out_grads[3],
                                            bool *out_done);
/* A part of what a call gave, which its caller lets go, as a tensor of its own; NULL: `part` was, or no memory. */
TERN_API tern_tensor *tern_rnn_result(tern_tensor *part);
#define tern_rnn_forward(how, in, out_done) tern_rnn_forward_at(TERN_HERE, how, in, out_done)
#define tern_rnn_backward(how, in, out_grads, out_done) \
    tern_rnn_backward_at(TERN_HERE, how, in, out_grads, out_done)

/* ---- for backends ------------------------------------------------------------------------------ */

/* A call's attr is a tern_attr_rnn; tensors as above. */
typedef struct tern_backend_rnn {
    uint32_t size;
    /* As tern_rnn_reserve; the log says why not. No tensors. */
    int64_t (*reserve)(const tern_call *call);
    tern_kernel forward;
    tern_kernel backward; /* the reserve stays as it was */
} tern_backend_rnn;

/* Optional export of a plugin, asked once when its backend has been registered. Without it layers are made of
 * cells. */
typedef const tern_backend_rnn *(*tern_backend_rnn_fn)(void);
#define TERN_BACKEND_RNN_NAME "tern_backend_rnn_get"

#ifdef __cplusplus
}
#endif
#endif
