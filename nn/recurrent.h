/* What the files of the recurrent layers share: one direction of a layer as one op over the sequence. */
#ifndef TERN_NN_RECURRENT_H
#define TERN_NN_RECURRENT_H

#include "nn/internal.h"

typedef enum rnn_mode { RNN_TANH, RNN_RELU, RNN_LSTM, RNN_GRU } rnn_mode;

/* A direction's operands, in the order of the op's inputs; biases and c0 may be NULL. */
enum { RNN_X, RNN_H0, RNN_W_IH, RNN_W_HH, RNN_B_IH, RNN_B_HH, RNN_C0, RNN_OPERANDS };

/* Sizes, and the order in which steps are gone through. */
typedef struct rnn_sequence {
    rnn_mode mode;
    bool reverse;
    int64_t length, batch, size; /* L, N, H */
} rnn_sequence;

static inline int rnn_gates(rnn_mode mode)
{
    return mode == RNN_LSTM ? 4 : mode == RNN_GRU ? 3 : 1;
}

/* The k-th step's place in the sequence. */
static inline int64_t rnn_place(const rnn_sequence *s, int64_t k)
{
    return s->reverse ? s->length - 1 - k : k;
}

/* One direction over all steps: [2 or 1, L, N, H], the states h and, of an LSTM, c. */
tern_tensor *rnn_run_direction(rnn_mode mode, bool reverse, tern_tensor *const in[RNN_OPERANDS]);

/* Gradients of what the inputs add to the gates, of what h before adds (both [L, N, gates H]; the same
 * tensor but of a GRU), and h before each step [L N, H]. */
typedef struct rnn_slopes {
    tern_tensor *inputs, *hidden, *before;
} rnn_slopes;

/* Gradients of x, the weights and the biases, each only where its bit is in `wanted`. */
void rnn_weight_grads(const rnn_sequence *s, tern_tensor *const in[RNN_OPERANDS], uint32_t wanted,
                      const rnn_slopes *slopes, tern_tensor *out[RNN_OPERANDS]);

/* Gradients of a direction's results: of the states at each step [L, N, H] (c: NULL where none), and beside
 * them of those after the last step [N, H] (NULL where none). */
typedef struct rnn_flow {
    tern_tensor *h, *c, *last_h, *last_c;
} rnn_flow;

/* The gradients of all operands from recorded ops alone, so that they have gradients themselves. */
void rnn_grads_of_ops(const rnn_sequence *s, tern_tensor *const in[RNN_OPERANDS], uint32_t wanted,
                      const rnn_flow *flow, tern_tensor *out[RNN_OPERANDS]);

/* ---- stacks by a library of the device's (recurrent_stack.c) --------------------------------------- */

enum { RNN_PARAMETERS = 4 }; /* of a direction: weights and biases as its op takes them */

typedef struct rnn_stack {
    rnn_mode mode;
    int64_t layers, features, size; /* features: of x */
    int directions;
    tern_tensor *const *parameters; /* RNN_PARAMETERS of each layer and direction */
} rnn_stack;

/* x [L, N, features], h0 and c0 (of an LSTM) [layers directions, N, H] to y [L, N, directions H] and the states
 * after the last step. False, out untouched: no library does it, so cells do; or an error. */
bool rnn_run_stack(const rnn_stack *s, tern_tensor *x, tern_tensor *h0, tern_tensor *c0,
                   tern_tensor *out[3]);

#endif
