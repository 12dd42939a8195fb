/* Tensors: geometry, birth, death. */
#include "core/tensor.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/device_memory.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/tape.h"

int64_t core_numel(int ndim, const int64_t *dims)
{
    int64_t numel = 1;
    bool empty = false;
    for (int d = 0; d < ndim; d++) {
        if (dims[d] < 0)
            return -1;
        if (dims[d] == 0)
            empty = true;
        else if (__builtin_mul_overflow(numel, dims[d], &numel))
            return -1;
    }
    return empty ? 0 : numel;
}

void core_row_major(int ndim, const int64_t *dims, int64_t *out_strides)
{
    int64_t stride = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        out_strides[d] = stride;
        stride *= dims[d] > 1 ? dims[d] : 1;
    }
}

/* Dense: sorted by stride, each dimension starts where the smaller ones end. */
static bool is_dense(const tern_view *view)
{
    int order[TERN_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < view->ndim; d++) {
        if (view->shape[d] == 1)
            continue;
        int i = n++;
        for (; i > 0 && view->stride[order[i - 1]] > view->stride[d]; i--)
            order[i] = order[i - 1];
        order[i] = d;
    }
    int64_t expected = 1;
    for (int i = 0; i < n; i++) {
        if (view->stride[order[i]] != expected)
            return false;
        expected *= view->shape[order[i]];
    }
    return true;
}

void core_view_update(tern_view *view)
{
    const uint8_t number = view->flags & TERN_VIEW_NUMBER;
    view->flags = number;
    if (view->numel == 0) {
        view->flags |= TERN_VIEW_CONTIGUOUS | TERN_VIEW_DENSE;
        return;
    }
    int64_t expected = 1;
    bool row_major = true;
    for (int d = view->ndim - 1; d >= 0 && row_major; d--) {
        if (view->shape[d] == 1)
            continue;
        row_major = view->stride[d] == expected;
        expected *= view->shape[d];
    }
    if (row_major)
        view->flags |= TERN_VIEW_CONTIGUOUS | TERN_VIEW_DENSE;
    else if (is_dense(view))
        view->flags |= TERN_VIEW_DENSE;
}

bool core_view_same_bytes(const tern_view *a, const tern_view *b)
{
    if (a->dtype != b->dtype || (a->flags & b->flags & TERN_VIEW_DENSE) == 0 ||
        !core_view_same_shape(a, b))
        return false;
    for (int d = 0; d < a->ndim; d++)
        if (a->shape[d] > 1 && a->stride[d] != b->stride[d])
            return false;
    return true;
}

bool core_view_channels_last(const tern_view *view)
{
    if (view->ndim != 4)
        return false;
    static const int order[] = { 1, 3, 2, 0 };
    int64_t expected = 1;
    for (int i = 0; i < 4; i++) {
        const int d = order[i];
        if (view->shape[d] == 1)
            continue;
        if (view->stride[d] != expected)
            return false;
        expected *= view->shape[d];
    }
    return true;
}

const char *core_shape_text(int ndim, const int64_t *dims, char *buffer, size_t bytes)
{
    core_text text = { buffer, bytes, 0 };
    buffer[0] = '\0';
    core_text_add(&text, "[");
    for (int d = 0; d < ndim; d++)
        core_text_add(&text, d == 0 ? "%lld" : ", %lld", (long long)dims[d]);
    core_text_add(&text, "]");
    return buffer;
}

/* Only the owner writes its count; core_live_tensors reads it meanwhile. */
static inline void count_live(tern_thread *self, int64_t more)
{
    __atomic_store_n(&self->live_tensors, self->live_tensors + more, __ATOMIC_RELAXED);
}

static inline void header_begin(tern_thread *self, tern_tensor *t, tern_site_t site)
{
    atomic_store_explicit(&t->refs, 1, memory_order_relaxed);
    t->requires_grad = false;
    t->output_index = 0;
    t->no_grad_view = false; /* with its neighbours one store */
    t->own_view = false;
    t->rebases = 0;
    t->scope_slot = -1;
    t->storage = NULL;
    t->node = NULL;
    t->grad = NULL;
    t->base = NULL;
    t->hooks = NULL;
    t->site = site;
    count_live(self, 1);
}

/* A header without storage and geometry; reference count 1. */
static inline tern_tensor *header_new(tern_thread *self, tern_site_t site)
{
    tern_tensor *t = core_pool_alloc_tensor(&self->pool);
    if (__builtin_expect(t == NULL, 0)) {
        core_error(self, site, TERN_ERR_OOM, NULL, "no host memory for a tensor");
        return NULL;
    }
    header_begin(self, t, site);
    return t;
}

static tern_tensor *overflow(tern_thread *self, tern_site_t site, int ndim, const int64_t *dims)
{
    char shape[160];
    core_error(self, site, TERN_ERR_SHAPE, NULL, "a tensor cannot have the shape %s",
               core_shape_text(ndim, dims, shape, sizeof shape));
    return NULL;
}

/* tern_dtype_size without a call */
static const uint8_t element_bytes[TERN_DTYPES] = {
    [TERN_BOOL] = 1, [TERN_U8] = 1,  [TERN_I8] = 1,   [TERN_I16] = 2, [TERN_I32] = 4,
    [TERN_I64] = 8,  [TERN_F16] = 2, [TERN_BF16] = 2, [TERN_F32] = 4, [TERN_F64] = 8
};

static inline void set_type(tern_view *view, tern_dev_t dev, tern_dtype_t dtype)
{
    view->dtype = (uint8_t)dtype;
    view->dev = dev;
    view->reserved = 0;
}

/* Of a tensor that is released its place is kept, so that who still uses it is told (TERN_CHECK_RELEASED=1). */
static bool keeps_released(void)
{
    static atomic_int wish; /* 0: not read, 1: no, 2: yes */
    int now = atomic_load_explicit(&wish, memory_order_relaxed);
    if (__builtin_expect(now == 0, 0)) {
        const char *text = getenv("TERN_CHECK_RELEASED");
        now = text != NULL && text[0] != '\0' && strcmp(text, "0") != 0 ? 2 : 1;
        atomic_store_explicit(&wish, now, memory_order_relaxed);
    }
    return now == 2;
}

/* Shape must be set and numel known; attaches a fresh storage. */
static tern_tensor *attach_storage(tern_thread *self, tern_tensor *t, tern_dev_t dev,
                                   tern_dtype_t dtype)
{
    const tern_site_t site = t->site;
    const int64_t bytes = core_bytes(t->view.numel, element_bytes[dtype]);
    set_type(&t->view, dev, dtype);
    /* inline storage shares its tensor's end (free_tensor) */
    t->storage = dev.kind == TERN_KIND_CPU && bytes <= CORE_INLINE_BYTES && !keeps_released()
                     ? core_storage_new_inline(self, site, bytes)
                     : core_storage_new(self, site, dev, bytes);
    if (__builtin_expect(t->storage == NULL, 0)) {
        core_release(self, t);
        (void)core_oom_error(self, site, dev, bytes);
        return NULL;
    }
    t->view.data = t->storage->data;
    return t;
}

static inline void set_row_major(tern_view *view, int ndim, const int64_t *dims)
{
    int64_t stride = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        view->shape[d] = dims[d];
        view->stride[d] = stride;
        stride *= dims[d] > 1 ? dims[d] : 1;
    }
}

tern_tensor *core_tensor_new(tern_thread *self, tern_site_t site, tern_dev_t dev,
                             tern_dtype_t dtype, int ndim, const int64_t *dims)
{
    const int64_t numel = core_numel(ndim, dims);
    if (__builtin_expect(numel < 0, 0))
        return overflow(self, site, ndim, dims);
    tern_tensor *t = header_new(self, site);
    if (t == NULL)
        return NULL;
    t->view.ndim = (uint8_t)ndim;
    t->view.numel = numel;
    t->view.flags = TERN_VIEW_CONTIGUOUS | TERN_VIEW_DENSE;
    set_row_major(&t->view, ndim, dims);
    return attach_storage(self, t, dev, dtype);
}

/* Nothing is called on the way, so no registers are saved. */
tern_tensor *core_tensor_new_like(tern_thread *self, tern_site_t site, tern_dev_t dev,
                                  tern_dtype_t dtype, const tern_view *like)
{
    void *header, *data;
    const int64_t bytes = core_bytes(like->numel, element_bytes[dtype]);
    if (__builtin_expect(!tern_dev_equal(dev, TERN_CPU) || bytes <= 0 ||
                             bytes > CORE_INLINE_BYTES ||
                             self->blocks.small_epoch != core_cache_epoch() ||
                             !core_pool_take_both(&self->pool, CORE_STORAGE_HEAD + (size_t)bytes,
                                                  &header, &data),
                         0))
        return NULL;
    tern_tensor *t = header;
    header_begin(self, t, site);
    t->view.ndim = like->ndim;
    t->view.numel = like->numel;
    t->view.flags = TERN_VIEW_CONTIGUOUS | TERN_VIEW_DENSE;
    set_row_major(&t->view, like->ndim, like->shape);
    set_type(&t->view, TERN_CPU, dtype);
    t->storage = core_storage_init_inline(self, data, site, bytes);
    t->view.data = t->storage->data;
    return t;
}

tern_tensor *core_tensor_new_strided(tern_thread *self, tern_site_t site, tern_dev_t dev,
                                     tern_dtype_t dtype, int ndim, const int64_t *dims,
                                     const int64_t *strides)
{
    const int64_t numel = core_numel(ndim, dims);
    if (numel < 0)
        return overflow(self, site, ndim, dims);
    tern_tensor *t = header_new(self, site);
    if (t == NULL)
        return NULL;
    t->view.ndim = (uint8_t)ndim;
    t->view.numel = numel;
    t->view.flags = 0;
    for (int d = 0; d < ndim; d++) {
        t->view.shape[d] = dims[d];
        t->view.stride[d] = strides[d];
    }
    core_view_update(&t->view);
    return attach_storage(self, t, dev, dtype);
}

tern_tensor *core_tensor_alias(tern_thread *self, tern_site_t site, tern_tensor *t)
{
    tern_tensor *alias = header_new(self, site);
    if (alias == NULL)
        return NULL;
    alias->view = t->view;
    alias->storage = t->storage;
    atomic_fetch_add_explicit(&t->storage->refs, 1, memory_order_relaxed);
    return alias;
}

tern_tensor *core_tensor_adopt(tern_thread *self, tern_site_t site, core_storage *storage,
                               tern_dtype_t dtype, int ndim, const int64_t *dims)
{
    tern_tensor *t = header_new(self, site);
    if (t == NULL)
        return NULL;
    t->view.ndim = (uint8_t)ndim;
    t->view.numel = core_numel(ndim, dims);
    t->view.dtype = (uint8_t)dtype;
    t->view.dev = storage->dev;
    t->view.reserved = 0;
    t->view.flags = TERN_VIEW_CONTIGUOUS | TERN_VIEW_DENSE;
    memcpy(t->view.shape, dims, (size_t)ndim * sizeof *dims);
    core_row_major(ndim, dims, t->view.stride);
    t->view.data = storage->data;
    t->storage = storage;
    return t;
}

/* Shape, dtype and line stay, for the message. A list through their data, so that no tool takes them for lost. */
static void bury(tern_tensor *t)
{
    static _Atomic(void *) buried;
    t->storage = NULL;
    t->node = NULL;
    t->grad = NULL;
    t->base = NULL;
    t->hooks = NULL;
    t->requires_grad = false;
    t->view.dev = CORE_DEV_GONE;
    void *last = atomic_load_explicit(&buried, memory_order_relaxed);
    do
        t->view.data = last;
    while (!atomic_compare_exchange_weak(&buried, &last, t));
}

static __attribute__((noinline)) void free_by_parts(tern_thread *self, tern_tensor *t)
{
    if (core_tensor_is_gone(t))
        return;
    count_live(self, -1);
    if (t->grad != NULL)
        core_release(self, t->grad);
    if (t->base != NULL)
        core_release(self, t->base);
    if (t->hooks != NULL)
        core_hooks_free(self, t->hooks);
    if (t->storage != NULL)
        core_storage_release(self, t->storage);
    atomic_store_explicit(&t->refs, 0, memory_order_relaxed); /* core/live.c: no tensor any more */
    if (keeps_released())
        bury(t);
    else
        core_pool_free_tensor(&self->pool, t);
}

/* The end of most small results, as their birth: nothing is called but at the very end. Snapshots and
 * core/live.c know by refs what is free. */
__attribute__((always_inline)) static inline void free_tensor(tern_thread *self, tern_tensor *t)
{
    core_storage *s = t->storage;
    const bool parts = ((uintptr_t)t->grad | (uintptr_t)t->base | (uintptr_t)t->hooks) != 0;
    if (__builtin_expect(parts || s == NULL || s->cache_class != CORE_CACHE_INLINE, 0) ||
        atomic_load_explicit(&s->refs, memory_order_acquire) != 1 ||
        __builtin_expect(s->bytes == 0 || !core_pool_has_lists(&self->pool, t, s), 0)) {
        free_by_parts(self, t);
        return;
    }
    const int64_t bytes = s->bytes;
    count_live(self, -1);
    atomic_store_explicit(&t->refs, 0, memory_order_relaxed);
    atomic_store_explicit(&s->refs, 0, memory_order_relaxed);
    core_pool_give_both(&self->pool, t, s, CORE_STORAGE_HEAD + (size_t)bytes);
    core_tally_small_end(&self->blocks.tally, core_inline_size(bytes), bytes);
}

static __attribute__((noinline)) void free_recorded(tern_thread *self, tern_tensor *t)
{
    core_node_release(self, t->node);
    free_tensor(self, t);
}

void core_tensor_free(tern_thread *self, tern_tensor *t)
{
    if (__builtin_expect(t->node != NULL, 0))
        free_recorded(self, t);
    else
        free_tensor(self, t);
}
