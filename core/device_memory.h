/* One caching allocator per device, over the backend's raw memory (the CPU's: core/cpu_memory.h) or over
 * what the user put in its place. */
#ifndef TERN_CORE_DEVICE_MEMORY_H
#define TERN_CORE_DEVICE_MEMORY_H

#include "core/alloc/alloc.h"
#include "core/error.h"
#include "core/thread.h"
#include "tern/memory.h"

/* The allocator of a device that exists, made at first use. NULL with *out_code and a reason that
 * lives for the process: settings that cannot be, no host memory, a device of its parent's in the child of a fork. */
core_alloc *core_device_allocator(tern_dev_t dev, tern_status_t *out_code, const char **out_why);
/* The same without making one: NULL for a device that never gave memory, or that does not exist. An
 * index of -1 is the thread's current one. */
core_alloc *core_device_allocator_of(tern_dev_t dev);
/* What is set for one device: false, with an error, for TERN_ALL_DEVICES. */
bool core_one_device(tern_thread *self, tern_site_t site, const char *what, tern_dev_t dev);
/* A device was asked for and the CPU was got, whose memory is not to be limited, or given by others, for a GPU's sake.
 * True: nothing is to be set, which the log says once. */
bool core_setting_is_anothers(tern_site_t site, const char *what, tern_dev_t asked, tern_dev_t got);
/* core/pinned_memory.c: the settings of pinned memory, which all devices share. */
void core_pinned_settings_read(core_alloc_settings *settings);
void core_pinned_settings_write(const core_alloc_settings *settings);

/* A block for a tensor on the device's current stream. NULL on failure; core_oom_error says why. */
core_alloc_block *core_device_malloc(tern_thread *self, tern_site_t site, tern_dev_t dev,
                                     int64_t bytes, void *stream);
void core_device_free(tern_thread *self, tern_dev_t dev, core_alloc_block *block);
/* The same for a cache in front of it, which counts what tensors have by itself: a block of `bytes` for
 * a request of `asked`. */
core_alloc_block *core_device_request(tern_thread *self, tern_site_t site, tern_dev_t dev,
                                      int64_t bytes, int64_t asked);

/* TERN_ALLOC_CONF, else PYTORCH_ALLOC_CONF, else PYTORCH_CUDA_ALLOC_CONF (strict for the first only),
 * TERN_NO_CACHE, PYTORCH_NO_CUDA_MEMORY_CACHING. Errors and warnings go to the log; *out_error is the
 * text of an error in TERN_ALLOC_CONF, else NULL. Read once per process; to be called without short locks. */
const core_alloc_settings *core_alloc_environment(const char **out_error);

/* Called by a fork, in the child: those of devices that are its parent's alone (core_cuda_left) are no longer there;
 * blocks of theirs stay as they are when they are freed. */
void core_device_memory_in_child(void);

/* Visits the allocators there are, the CPU's last. */
void core_device_each(void (*visit)(tern_dev_t dev, core_alloc *a, void *user), void *user);

/* A line for each allocator there is. */
void core_device_memory_text(core_text *text);

/* Records the error of the calling thread's last failed request for memory of `dev`; returns its
 * code. */
tern_status_t core_oom_error(tern_thread *self, tern_site_t site, tern_dev_t dev, int64_t bytes);
/* What core_oom_error will say; also tern_oom_info. */
void core_oom_note(tern_site_t site, tern_dev_t dev, core_alloc *a,
                   const core_alloc_failure *failure);
/* The same for a failure that is not a matter of numbers; `why` lives for the process or is in the
 * thread's message. */
void core_oom_note_code(tern_status_t code, const char *why);
/* The code of the calling thread's last failed request, for who says it in other words; *out_why: the device's,
 * of a code that is not TERN_ERR_OOM. */
tern_status_t core_oom_take(const char **out_why);
/* Failed requests of the calling thread are of no interest until it is switched off: they leave the code of an error,
 * and no more. */
void core_oom_hush(bool on);
/* Asks the user's callback; true: try again. */
bool core_oom_retry(int attempt);
/* The policy lets a factory or a move go on on the CPU: clears the pending error and warns. Not inside
 * another call of the library, where the tensor would meet others of the device. */
bool core_oom_to_cpu(tern_thread *self, tern_site_t site, const char *what, tern_dev_t dev);

#endif
