/* The registry of backends: one per device kind. */
#ifndef TERN_CORE_BACKEND_H
#define TERN_CORE_BACKEND_H

#include "core/op_id.h"
#include "core/thread.h"
#include "tern/plugin.h"

enum { CORE_MAX_DEVICES = 64 }; /* of one kind */

/* Kernels by kind and op id; NULL: the backend has none. Written at registration only. */
extern const tern_kernel *core_kernels[TERN_KINDS];

/* A registered plugin of that kind, or NULL. The CPU has none: it is always there. */
const tern_backend *core_backend_of(int kind);
/* Checks a table and makes its devices appear. The text lives as long as the process. */
tern_status_t core_backend_register(const tern_backend *backend, const char **out_why);
/* Services for kernels. */
extern const tern_host core_host;

/* Plain bytes between any two devices; returns when dst has them or the source has been read. */
tern_status_t core_copy_bytes(tern_dev_t to, void *dst, tern_dev_t from, const void *src,
                              int64_t bytes);

/* Turns a device as given into one a tensor can have: default, current index, fallback, range check.
 * False after recording an error. */
bool core_dev_resolve(tern_thread *self, tern_site_t site, const char *what, tern_dev_t dev,
                      tern_dev_t *out_dev);

/* Threads a CPU kernel may use (tern_set_num_threads). */
extern int core_thread_count;

#endif
