/* Tensors of other libraries and for them, without a copy: DLPack, the data structure that NumPy, PyTorch,
 * CuPy, JAX and others hand to each other (https://dmlc.github.io/dlpack/latest/c_api.html). Its two managed
 * tensors are only named here: a program that looks inside includes <dlpack/dlpack.h>, which goes together
 * with this header. */
#ifndef TERN_DLPACK_H
#define TERN_DLPACK_H

#include "tern/base.h"
#include "tern/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct DLManagedTensorVersioned; /* version 1 */
struct DLManagedTensor;          /* before it, what older libraries take */

/* A managed tensor over t's memory, which lives until its deleter has been called, once and from any thread.
 * NULL on failure: t requires a gradient (tern_detach gives one that does not), or lies on a device that
 * DLPack has no name for. On a device, work that is queued on t's stream may still write it: whoever reads
 * elsewhere waits for the stream first. Both sides see each other's writes; tern does not count those of
 * others as in-place changes. */
TERN_API struct DLManagedTensorVersioned *tern_to_dlpack_at(tern_site_t site, tern_tensor *t);
TERN_API struct DLManagedTensor *tern_to_dlpack_unversioned_at(tern_site_t site, tern_tensor *t);
#define tern_to_dlpack(t) tern_to_dlpack_at(TERN_HERE, t)
#define tern_to_dlpack_unversioned(t) tern_to_dlpack_unversioned_at(TERN_HERE, t)

/* A tensor over a managed tensor's memory, which is taken over: its deleter is called when nothing refers to
 * the memory any more (after the device's work is done), or at once when this fails. Memory of the CPU, page-locked
 * memory of CUDA, which becomes the CPU's, and memory of CUDA devices; dtypes that tern has; strides that
 * are not negative. What is marked as read-only is copied. NULL on failure, also of NULL. */
TERN_API tern_tensor *tern_from_dlpack_at(tern_site_t site,
                                          struct DLManagedTensorVersioned *managed);
TERN_API tern_tensor *tern_from_dlpack_unversioned_at(tern_site_t site,
                                                      struct DLManagedTensor *managed);
#define tern_from_dlpack(managed) tern_from_dlpack_at(TERN_HERE, managed)
#define tern_from_dlpack_unversioned(managed) tern_from_dlpack_unversioned_at(TERN_HERE, managed)

/* For bindings of Python, as the destructor of a capsule ("dltensor_versioned", "dltensor"): deletes the managed
 * tensor of one that nobody took. Also while an exception is on its way, which a destructor that is written in Python
 * would lose. Finds CPython's functions in the process; without them it does nothing. */
TERN_API void tern_dlpack_capsule_end(void *capsule);

#ifdef __cplusplus
}
#endif
#endif
