/* The insides of a state. */
#ifndef TERN_IO_STATE_H
#define TERN_IO_STATE_H

#include "io/internal.h"

struct tern_state {
    io_names names; /* of tensors; texts owned */
    tern_tensor **tensors;
    io_names keys; /* of texts */
    char **texts;
    io_names unread; /* of the file's tensors whose dtypes tern does not have; texts owned */
    char **dtypes;   /* of these, as the file has them */
    char *source;    /* the file it was loaded from, or NULL */
};

/* The file has a tensor of this name, whose dtype tern does not have. False after an error. */
bool io_state_note_unread(tern_site_t site, tern_state *state, const char *name, const char *dtype);

#endif
