/* Libraries of backends for recurrent layers (tern/rnn.h). */
#ifndef TERN_CORE_RNN_H
#define TERN_CORE_RNN_H

#include "tern/rnn.h"

/* The library of devices of that kind, from now on; NULL: none. */
void core_rnn_register(int kind, const tern_backend_rnn *library);

#endif
