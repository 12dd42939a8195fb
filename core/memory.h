/* Data of tensors: a simple counting cache that reuses the memory of a training step.
 *
 * Up to CORE_INLINE_BYTES the data sits behind the storage's own header, in one pool object. Larger
 * CPU blocks come from per-thread lists by size class (four classes per power of two), so a steady
 * step takes nothing from the system; a block freed by another thread goes home over a lock-free
 * stack. Other devices' memory goes straight to their backend. */
#ifndef TERN_CORE_MEMORY_H
#define TERN_CORE_MEMORY_H

#include "core/tensor.h"

enum { CORE_INLINE_BYTES = 448 };
/* storage.cache_class: a class of the block lists, or one of these */
enum { CORE_CACHE_INLINE = 1000, CORE_CACHE_BACKEND, CORE_CACHE_FOREIGN };

/* A storage with one reference; data NULL when bytes is 0. NULL when memory is used up: nothing is
 * recorded, the caller says what it was for. */
core_storage *core_storage_new(tern_thread *self, tern_dev_t dev, int64_t bytes);
/* A storage over memory of the caller's; release(user) when the last reference goes. */
core_storage *core_storage_foreign(tern_thread *self, void *data, int64_t bytes,
                                   void (*release)(void *user), void *user);

#endif
