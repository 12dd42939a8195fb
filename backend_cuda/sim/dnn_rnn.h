/* cuDNN's recurrent layers of simulated devices: what descriptors and loops share. */
#ifndef TERN_SIM_DNN_RNN_H
#define TERN_SIM_DNN_RNN_H

#include "backend_cuda/sim/dnn.h"

/* One call. Pointers are aliases by the time it runs; c's are NULL but in an LSTM, gradients' where the
 * caller gave none. */
typedef struct sim_rnn {
    struct cudnnRNNStruct net;
    int length, batch;
    bool training;
    void *x, *y, *hx, *hy, *cx, *cy, *weights,
        *kept; /* kept: the reserve, or in inference the workspace */
    void *dy, *dx, *dhy, *dhx, *dcy, *dcx, *dweights;
} sim_rnn;

int sim_rnn_gates(const struct cudnnRNNStruct *net);
/* Where a gate's matrix (or bias) lies in the piece of weights, in bytes. Each begins at a multiple of 16,
 * so that odd sizes leave gaps; matrices of all layers come first, then all biases. */
size_t sim_rnn_offset(const struct cudnnRNNStruct *net, int place, int id, bool bias);
size_t sim_rnn_weight_bytes(const struct cudnnRNNStruct *net);
/* Of what is kept from forward to backward: plain doubles. */
size_t sim_rnn_kept_bytes(const struct cudnnRNNStruct *net, int length, int batch);

/* A backward of what is spent, or was never filled, makes NaN. */
void sim_rnn_forward(void *arguments);
void sim_rnn_backward_data(void *arguments);
void sim_rnn_backward_weights(void *arguments);

#endif
