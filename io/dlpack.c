/* See tern/dlpack.h. */
#include "tern/dlpack.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend.h"
#include "core/cuda/cuda.h"
#include "core/error.h"
#include "core/memory.h"
#include "io/dlpack.h"
#include "tern/autograd.h"
#include "tern/device.h"
#include "tern/error.h"

/* ---- dtypes ------------------------------------------------------------------------------------ */

static const struct {
    uint8_t code, bits;
} dtypes[TERN_DTYPES] = {
    [TERN_BOOL] = { DLPACK_BOOL, 8 },  [TERN_U8] = { DLPACK_UINT, 8 },
    [TERN_I8] = { DLPACK_INT, 8 },     [TERN_I16] = { DLPACK_INT, 16 },
    [TERN_I32] = { DLPACK_INT, 32 },   [TERN_I64] = { DLPACK_INT, 64 },
    [TERN_F16] = { DLPACK_FLOAT, 16 }, [TERN_BF16] = { DLPACK_BFLOAT, 16 },
    [TERN_F32] = { DLPACK_FLOAT, 32 }, [TERN_F64] = { DLPACK_FLOAT, 64 },
};

static tern_dtype_t dtype_of(const dlpack_tensor *d)
{
    for (int dtype = TERN_BOOL; dtype < TERN_DTYPES && d->lanes == 1; dtype++)
        if (dtypes[dtype].code == d->code && dtypes[dtype].bits == d->bits)
            return (tern_dtype_t)dtype;
    return TERN_DTYPE_NONE;
}

/* ---- to others --------------------------------------------------------------------------------- */

typedef struct exported {
    union {
        struct DLManagedTensorVersioned versioned;
        struct DLManagedTensor plain;
    } managed; /* first: what the consumer holds */
    tern_tensor *t;
    int64_t shape[TERN_MAX_DIMS], strides[TERN_MAX_DIMS];
} exported;

static void end_export(exported *e)
{
    tern_release(e->t);
    free(e);
}

static void delete_versioned(struct DLManagedTensorVersioned *self)
{
    end_export(self->manager_ctx);
}

static void delete_plain(struct DLManagedTensor *self)
{
    end_export(self->manager_ctx);
}

static bool can_export(tern_site_t site, const tern_tensor *t)
{
    static const char what[] = "to_dlpack";
    if (tern_failed())
        return false;
    if (t == NULL)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the tensor is NULL");
    else if (tern_requires_grad(t))
        tern_fail_at(site, TERN_ERR_GRAD, what,
                     "the tensor requires a gradient, which others would not record\n"
                     "  try tern_detach(t)");
    else if (t->view.dev.kind != TERN_KIND_CPU && t->view.dev.kind != TERN_KIND_CUDA) {
        char name[TERN_DEV_NAME_BYTES];
        tern_fail_at(site, TERN_ERR_DEVICE, what,
                     "DLPack has no name for %s\n  try tern_cpu(t), which copies",
                     tern_dev_name(t->view.dev, name));
    }
    return !tern_failed();
}

/* Holds the memory by a tensor of its own, so that whatever becomes of t changes nothing. */
static exported *begin_export(tern_site_t site, tern_tensor *t)
{
    if (!can_export(site, t))
        return NULL;
    tern_thread *self = core_self();
    exported *e = malloc(sizeof *e);
    tern_tensor *alias = e != NULL ? core_tensor_alias(self, core_site(self, site), t) : NULL;
    if (alias == NULL) {
        free(e);
        tern_fail_at(site, TERN_ERR_OOM, "to_dlpack", "no host memory");
        return NULL;
    }
    e->t = alias;
    return e;
}

static dlpack_tensor described(exported *e)
{
    const tern_view *v = &e->t->view;
    const bool cuda = v->dev.kind == TERN_KIND_CUDA;
    for (int d = 0; d < v->ndim; d++) {
        e->shape[d] = v->shape[d];
        e->strides[d] = v->stride[d];
    }
    return (dlpack_tensor){ .data = v->numel > 0 ? v->data : NULL,
                            .device_type = cuda ? DLPACK_CUDA : DLPACK_CPU,
                            .device_id = cuda ? v->dev.index : 0,
                            .ndim = v->ndim,
                            .code = dtypes[v->dtype].code,
                            .bits = dtypes[v->dtype].bits,
                            .lanes = 1,
                            .shape = e->shape,
                            .strides = e->strides };
}

struct DLManagedTensorVersioned *tern_to_dlpack_at(tern_site_t site, tern_tensor *t)
{
    exported *e = begin_export(site, t);
    if (e == NULL)
        return NULL;
    e->managed.versioned = (struct DLManagedTensorVersioned){ .major = DLPACK_MAJOR,
                                                              .minor = DLPACK_MINOR,
                                                              .manager_ctx = e,
                                                              .deleter = delete_versioned,
                                                              .tensor = described(e) };
    return &e->managed.versioned;
}

struct DLManagedTensor *tern_to_dlpack_unversioned_at(tern_site_t site, tern_tensor *t)
{
    exported *e = begin_export(site, t);
    if (e == NULL)
        return NULL;
    e->managed.plain = (struct DLManagedTensor){ .tensor = described(e),
                                                 .manager_ctx = e,
                                                 .deleter = delete_plain };
    return &e->managed.plain;
}

/* ---- from others ------------------------------------------------------------------------------- */

/* A managed tensor of either form, and what keeps it while a storage refers to its memory. */
typedef struct imported {
    struct DLManagedTensorVersioned *versioned;
    struct DLManagedTensor *plain;
    tern_dev_t dev;
} imported;

static void call_deleter(const imported *i)
{
    if (i->versioned != NULL && i->versioned->deleter != NULL)
        i->versioned->deleter(i->versioned);
    if (i->plain != NULL && i->plain->deleter != NULL)
        i->plain->deleter(i->plain);
}

/* The owner may give the memory to anybody: queued work that uses it has to be over. What a device says of a
 * failure it says once, to whoever waits for it. */
static void release_import(void *user)
{
    imported *i = user;
    if (i->dev.kind != TERN_KIND_CPU && !core_cuda_left(i->dev.kind)) {
        const tern_backend *b = core_backend_of(i->dev.kind);
        const tern_status_t code = b->stream->synchronize(b->context, i->dev.index);
        if (code != TERN_OK)
            (void)core_backend_failed(core_self(), NULL, code, "from_dlpack");
    }
    call_deleter(i);
    free(i);
}

static bool refuse(tern_site_t site, tern_status_t code, const char *text)
{
    tern_fail_at(site, code, "from_dlpack", "%s", text);
    return false;
}

static bool device_of(tern_site_t site, const dlpack_tensor *d, tern_dev_t *out_dev)
{
    *out_dev = TERN_CPU;
    if (d->device_type == DLPACK_CPU || d->device_type == DLPACK_CUDA_HOST)
        return true;
    if (d->device_type == DLPACK_CUDA && d->device_id >= 0 &&
        d->device_id < tern_dev_count(TERN_KIND_CUDA)) {
        *out_dev = TERN_CUDA(d->device_id);
        return true;
    }
    tern_fail_at(
        site, TERN_ERR_DEVICE, "from_dlpack",
        "the tensor lies on device type %d, number %d: the CPU (1), CUDA's page-locked memory (3) "
        "and the %d CUDA devices (2) here can be used",
        (int)d->device_type, (int)d->device_id, tern_dev_count(TERN_KIND_CUDA));
    return false;
}

/* Shape, strides (into `strides`) and how many elements the memory spans. */
static bool layout_of(tern_site_t site, const dlpack_tensor *d, int64_t *strides, int64_t *out_span)
{
    if (d->ndim < 0 || d->ndim > TERN_MAX_DIMS) {
        tern_fail_at(site, TERN_ERR_SHAPE, "from_dlpack",
                     "the tensor has %d dimensions, and one of tern at most %d", (int)d->ndim,
                     TERN_MAX_DIMS);
        return false;
    }
    if (d->ndim > 0 && d->shape == NULL)
        return refuse(site, TERN_ERR_SHAPE, "the tensor's extents are NULL");
    const int64_t numel = core_numel(d->ndim, d->shape);
    if (numel < 0)
        return refuse(site, TERN_ERR_SHAPE,
                      "an extent is negative, or there are too many elements");
    core_row_major(d->ndim, d->shape, strides);
    *out_span = numel > 0;
    for (int i = 0; i < d->ndim; i++) {
        int64_t steps;
        if (d->strides != NULL)
            strides[i] = d->strides[i];
        if (numel == 0 || d->shape[i] == 1)
            continue;
        if (strides[i] < 0)
            return refuse(site, TERN_ERR_SHAPE,
                          "a stride is negative\n  try numpy.ascontiguousarray, which copies");
        if (__builtin_mul_overflow(d->shape[i] - 1, strides[i], &steps) ||
            __builtin_add_overflow(*out_span, steps, out_span))
            return refuse(site, TERN_ERR_SHAPE, "the strides span more than 2^63 elements");
    }
    return true;
}

static bool check_data(tern_site_t site, const dlpack_tensor *d, int64_t size, int64_t span)
{
    const uintptr_t at = (uintptr_t)d->data + (uintptr_t)d->byte_offset;
    if (span > 0 && d->data == NULL)
        return refuse(site, TERN_ERR_ARGUMENT, "the data is NULL");
    if (span > 0 && at % (uintptr_t)size != 0)
        return refuse(site, TERN_ERR_ARGUMENT,
                      "the data does not begin at a multiple of its elements' size\n"
                      "  try a copy of it");
    return true;
}

/* A tensor of the scope over d's memory; the import is the storage's from then on. */
static tern_tensor *adopt(tern_site_t site, const dlpack_tensor *d, imported *import)
{
    int64_t strides[TERN_MAX_DIMS], span, bytes;
    const tern_dtype_t dtype = dtype_of(d);
    if (dtype == TERN_DTYPE_NONE) {
        tern_fail_at(site, TERN_ERR_DTYPE, "from_dlpack",
                     "type code %d of %d bits and %d lanes is no dtype of tern", (int)d->code,
                     (int)d->bits, (int)d->lanes);
        return NULL;
    }
    const int64_t size = tern_dtype_size(dtype);
    if (!device_of(site, d, &import->dev) || !layout_of(site, d, strides, &span) ||
        !check_data(site, d, size, span))
        return NULL;
    if (__builtin_mul_overflow(span, size, &bytes)) {
        (void)refuse(site, TERN_ERR_SHAPE, "the strides span more than 2^63 bytes");
        return NULL;
    }
    tern_thread *self = core_self();
    char *data = span > 0 ? (char *)d->data + d->byte_offset : NULL;
    core_storage *storage = core_storage_foreign(self, data, bytes, NULL, import);
    if (storage != NULL)
        storage->dev = import->dev;
    tern_tensor *t = storage != NULL ? core_tensor_adopt(self, core_site(self, site), storage,
                                                         dtype, d->ndim, d->shape)
                                     : NULL;
    if (t == NULL) {
        if (storage != NULL)
            core_storage_release(self, storage);
        (void)refuse(site, TERN_ERR_OOM, "no host memory for a tensor");
        return NULL;
    }
    storage->release = release_import;
    for (int i = 0; i < d->ndim; i++)
        t->view.stride[i] = strides[i];
    core_view_update(&t->view);
    return core_scope_add(self, t);
}

static tern_tensor *import_or_delete(tern_site_t site, const dlpack_tensor *d, imported managed)
{
    imported *import = malloc(sizeof *import);
    tern_tensor *t = NULL;
    if (import == NULL)
        (void)refuse(site, TERN_ERR_OOM, "no host memory");
    else if (!tern_failed()) {
        *import = managed;
        t = adopt(site, d, import);
    }
    if (t != NULL)
        return t;
    free(import);
    call_deleter(&managed);
    return NULL;
}

tern_tensor *tern_from_dlpack_at(tern_site_t site, struct DLManagedTensorVersioned *managed)
{
    if (managed == NULL) {
        (void)refuse(site, TERN_ERR_ARGUMENT, "the managed tensor is NULL");
        return NULL;
    }
    const imported import = { .versioned = managed };
    if (managed->major != DLPACK_MAJOR) { /* all else may lie elsewhere */
        tern_fail_at(site, TERN_ERR_FORMAT, "from_dlpack",
                     "DLPack %u.%u, not %d: its layout is unknown", (unsigned)managed->major,
                     (unsigned)managed->minor, DLPACK_MAJOR);
        call_deleter(&import);
        return NULL;
    }
    const bool read_only = (managed->flags & DLPACK_READ_ONLY) != 0;
    tern_tensor *t = import_or_delete(site, &managed->tensor, import);
    if (t == NULL || !read_only)
        return t;
    tern_tensor *copy = tern_clone_at(site, t);
    if (core_self()->owned_mode)
        tern_release(t); /* the reference is ours, not a scope's */
    else
        tern_drop(t);
    return copy;
}

tern_tensor *tern_from_dlpack_unversioned_at(tern_site_t site, struct DLManagedTensor *managed)
{
    if (managed == NULL) {
        (void)refuse(site, TERN_ERR_ARGUMENT, "the managed tensor is NULL");
        return NULL;
    }
    return import_or_delete(site, &managed->tensor, (imported){ .plain = managed });
}

/* ---- capsules ---------------------------------------------------------------------------------- */

/* ISO C knows no conversion of a data pointer to a function; the bytes are the same (POSIX). */
#define FIND(function, name)                             \
    do {                                                 \
        void *const symbol_ = dlsym(RTLD_DEFAULT, name); \
        memcpy(&(function), &symbol_, sizeof symbol_);   \
    } while (0)

void tern_dlpack_capsule_end(void *capsule)
{
    const char *(*name_of)(void *capsule);
    void *(*pointer_of)(void *capsule, const char *name);
    FIND(name_of, "PyCapsule_GetName");
    FIND(pointer_of, "PyCapsule_GetPointer");
    if (capsule == NULL || name_of == NULL || pointer_of == NULL)
        return;
    const char *name = name_of(capsule);
    if (name == NULL)
        return;
    if (strcmp(name, "dltensor_versioned") == 0)
        call_deleter(&(imported){ .versioned = pointer_of(capsule, name) });
    else if (strcmp(name, "dltensor") == 0)
        call_deleter(&(imported){ .plain = pointer_of(capsule, name) });
}
