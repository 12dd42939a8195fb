/* The insides of a state. */
#ifndef TERN_IO_STATE_H
#define TERN_IO_STATE_H

#include "io/internal.h"

struct tern_state {
    io_names names; /* of tensors; texts owned */
    tern_tensor **tensors;
    io_names keys; /* of texts */
    char **texts;
    char *source; /* the file it was loaded from, or NULL */
};

#endif
