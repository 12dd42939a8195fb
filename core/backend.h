/* The registry of backends: one per device kind. */
#ifndef TERN_CORE_BACKEND_H
#define TERN_CORE_BACKEND_H

#include "core/op_id.h"
#include "core/thread.h"
#include "tern/plugin.h"

/* A member that a plugin's table is too short for counts as NULL. */
#define CORE_HAS(table, type, member)                                                      \
    ((table) != NULL && (table)->size >= offsetof(type, member) + sizeof(table)->member && \
     (table)->member != NULL)

/* Kernels by kind and op id; NULL: the backend has none. Written at registration only. */
extern const tern_kernel *core_kernels[TERN_KINDS];

/* A registered plugin of that kind, or NULL. The CPU has none: it is always there. */
const tern_backend *core_backend_of(int kind);
/* Checks a table and makes its devices appear. The text lives as long as the process. */
tern_status_t core_backend_register(const tern_backend *backend, const char **out_why);
/* Called by a fork, in the child: kernels of devices that are its parent's alone (core_cuda_left) fail. */
void core_backend_in_child(void);
/* How calls of such devices end: TERN_ERR_STATE, with words. */
tern_status_t core_backend_left(void);
/* Services for kernels. */
extern const tern_host core_host;

/* Plain bytes between any two devices, on the thread's current streams (core/copy_across.c); the host
 * waits when it is one side. */
tern_status_t core_copy_bytes(tern_site_t site, tern_dev_t to, void *dst, tern_dev_t from,
                              const void *src, int64_t bytes);
/* All of `in` to `out`: dense, of one dtype and shape, on different devices. non_blocking: with
 * page-locked memory the host does not wait, with other memory only until it has been read.
 * *out_waited: it did, for the device's work before the copy. */
tern_status_t core_copy_across(tern_site_t site, const tern_tensor *out, const tern_tensor *in,
                               bool non_blocking, bool *out_waited);

/* What a backend said of the failure of its call. They are read once: the next failure, which may come
 * without words, is not explained by them. */
const char *core_backend_words(tern_thread *self);
/* Records a failure of a backend's call, in the backend's words where it gave some. */
tern_status_t core_backend_failed(tern_thread *self, tern_site_t site, tern_status_t code,
                                  const char *what);

/* Turns a device as given into one a tensor can have: default, current index, fallback, range check.
 * False after recording an error. */
bool core_dev_resolve(tern_thread *self, tern_site_t site, const char *what, tern_dev_t dev,
                      tern_dev_t *out_dev);
/* The same where nothing new is asked of the device: once its backend is there it is itself, also after CUDA was
 * switched off, since what lives there stays, and goes on there. */
bool core_dev_resolve_there(tern_thread *self, tern_site_t site, const char *what, tern_dev_t dev,
                            tern_dev_t *out_dev);

/* Threads a CPU kernel may use (tern_set_num_threads, which another thread may call at any time). */
extern _Atomic int core_thread_count;
static inline int core_threads(void)
{
    return atomic_load_explicit(&core_thread_count, memory_order_relaxed);
}

#endif
