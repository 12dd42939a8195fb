/* Looking at a tensor without touching its elements. NULL has no dimensions and no dtype. */
#include "core/rules.h"
#include "core/tensor.h"

int tern_ndim(const tern_tensor *t)
{
    return t == NULL ? -1 : t->view.ndim;
}

/* The dimension counted from the front, or -1. */
static int place(const tern_tensor *t, int dim)
{
    if (t == NULL || dim < -t->view.ndim || dim >= t->view.ndim)
        return -1;
    return dim < 0 ? dim + t->view.ndim : dim;
}

int64_t tern_size(const tern_tensor *t, int dim)
{
    const int d = place(t, dim);
    return d < 0 ? -1 : t->view.shape[d];
}

int64_t tern_stride(const tern_tensor *t, int dim)
{
    const int d = place(t, dim);
    return d < 0 ? -1 : t->view.stride[d];
}

int64_t tern_numel(const tern_tensor *t)
{
    return t == NULL ? -1 : t->view.numel;
}

tern_shape_t tern_shape(const tern_tensor *t)
{
    tern_shape_t shape = { .set_ = t != NULL ? TERN_GIVEN_ : 0,
                           .ndim = t == NULL ? 0 : t->view.ndim };
    for (int d = 0; d < shape.ndim; d++)
        shape.dims[d] = t->view.shape[d];
    return shape;
}

tern_dtype_t tern_dtype(const tern_tensor *t)
{
    return t == NULL ? TERN_DTYPE_NONE : (tern_dtype_t)t->view.dtype;
}

tern_dev_t tern_device(const tern_tensor *t)
{
    return t == NULL ? TERN_DEV_(TERN_KIND_NONE, 0) : t->view.dev;
}

bool tern_is_contiguous(const tern_tensor *t)
{
    return t != NULL && (t->view.flags & TERN_VIEW_CONTIGUOUS) != 0;
}

bool tern_is_channels_last(const tern_tensor *t)
{
    return t != NULL && core_view_channels_last(&t->view);
}

bool tern_overlaps_itself(const tern_tensor *t)
{
    return t != NULL && core_view_overlaps_itself(&t->view);
}

bool tern_shares_storage(const tern_tensor *a, const tern_tensor *b)
{
    return a != NULL && b != NULL && a->storage == b->storage;
}

uint32_t tern_version(const tern_tensor *t)
{
    return t == NULL || core_tensor_is_gone(t)
               ? 0
               : atomic_load_explicit(&t->storage->version, memory_order_relaxed);
}

tern_site_t tern_site(const tern_tensor *t)
{
    return t == NULL ? NULL : t->site;
}
