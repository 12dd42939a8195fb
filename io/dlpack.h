/* DLPack's structures, version 1 (https://dmlc.github.io/dlpack/latest/c_api.html, C API and ABI of 1.0):
 * declared here so that nothing has to be installed. Names that the public header forward declares are
 * DLPack's own. */
#ifndef TERN_IO_DLPACK_H
#define TERN_IO_DLPACK_H

#include <stddef.h>
#include <stdint.h>

enum { DLPACK_MAJOR = 1, DLPACK_MINOR = 0 };
enum { DLPACK_CPU = 1, DLPACK_CUDA = 2, DLPACK_CUDA_HOST = 3 }; /* device types */
enum { DLPACK_INT = 0, DLPACK_UINT = 1, DLPACK_FLOAT = 2, DLPACK_BFLOAT = 4, DLPACK_BOOL = 6 };
enum { DLPACK_READ_ONLY = 1 << 0, DLPACK_IS_COPIED = 1 << 1 }; /* flags */

typedef struct dlpack_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits; /* of the dtype */
    uint16_t lanes;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL, before 1.2: row-major */
    uint64_t byte_offset;
} dlpack_tensor;

struct DLManagedTensor {
    dlpack_tensor tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self); /* may be NULL */
};

struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self); /* may be NULL */
    uint64_t flags;
    dlpack_tensor tensor;
};

#if UINTPTR_MAX == UINT64_MAX
_Static_assert(sizeof(dlpack_tensor) == 48, "the standard's layout");
_Static_assert(offsetof(dlpack_tensor, byte_offset) == 40, "the standard's layout");
_Static_assert(sizeof(struct DLManagedTensor) == 64, "the standard's layout");
_Static_assert(offsetof(struct DLManagedTensorVersioned, tensor) == 32, "the standard's layout");
#endif

#endif
