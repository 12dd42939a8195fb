/* What functions share that make tensors out of no tensors: create.c, from_memory.c. */
#ifndef TERN_CORE_OPS_CREATE_H
#define TERN_CORE_OPS_CREATE_H

#include "core/call.h"

/* A creation in progress. */
typedef struct core_maker {
    tern_thread *self;
    tern_site_t site;
    const char *what; /* for messages */
    const tern_new_args *args;
    tern_new_args as_like; /* what args points to when they name a tensor */
    bool laid_out_as_like;
    tern_dtype_t dtype;
    tern_dev_t dev;
} core_maker;

/* False with the error recorded. `dtype`: where the arguments name none; NONE: the default float. */
bool core_maker_begin(core_maker *m, tern_site_t site, const char *what, const tern_new_args *args,
                      tern_dtype_t dtype);
/* False, with the error recorded. */
bool core_maker_refuse(const core_maker *m, tern_status_t code, const char *text);
/* Reference count 1, owned by no scope. On the CPU when the device has no room and TERN_OOM says so. */
tern_tensor *core_maker_tensor(const core_maker *m);
/* Hands t, if all went well, to the scope; NULL, with t released, if not. */
tern_tensor *core_maker_end(const core_maker *m, tern_tensor *t, bool ok);

#endif
