/* Tensor and storage as the library sees them.
 *
 * tern_tensor = a view (what kernels see) + a counted storage + its place in the tape. Invariants:
 * - view.data == storage->data + offset (on a device NULL when numel is 0);
 * - view.flags says CONTIGUOUS exactly when the strides are row-major (core_view_update keeps it);
 * - a leaf has node == NULL; a tensor that a recorded op made has node != NULL and requires_grad. */
#ifndef TERN_CORE_TENSOR_H
#define TERN_CORE_TENSOR_H

#include <stdatomic.h>
#include <string.h>

#include "core/thread.h"
#include "tern/plugin.h"
#include "tern/tensor.h"

struct core_node;
struct core_hooks; /* core/tape.h */

/* The first two words change when small data goes back to its pool, the rest stays readable: refs is 0
 * then. */
typedef struct core_storage {
    void *data;
    void *
        user; /* the thread that a block goes home to, the block itself, or the release's argument */
    _Atomic uint32_t refs;
    _Atomic uint32_t version;
    int64_t bytes;
    tern_site_t site;               /* of the request */
    struct core_alloc_block *block; /* of CPU memory from a thread's lists */
    tern_dev_t dev;
    uint16_t cache_class;        /* which cache `data` goes back to (core/memory.c) */
    bool crossed;                /* gradients: another stream than the owner's may still read it */
    void (*release)(void *user); /* the caller's memory: called instead of freeing */
} core_storage;

struct tern_tensor {
    tern_view view;
    _Atomic uint32_t refs;
    bool requires_grad;
    uint8_t output_index; /* which output of node it is */
    bool no_grad_view;    /* made while nothing was recorded, or of such a view */
    bool own_view;        /* what an op of one's own returned of its inputs, or a view of that */
    uint32_t
        rebases; /* how often the memory's history was written anew; views: when node was made */
    int64_t scope_slot; /* place in its thread's scope stack, -1 when no scope owns it */
    core_storage *storage;
    struct core_node *node;
    tern_tensor *grad; /* leaves; owned */
    tern_tensor *base; /* views: the tensor that owns the storage's first view; owned; else NULL */
    struct core_hooks *hooks;
    tern_site_t site;
};
_Static_assert(sizeof(tern_tensor) <= CORE_TENSOR_BYTES, "a tensor fits its place in the pool");

/* Ends what belongs to the tensor and returns its memory; called at the last release. */
void core_tensor_free(tern_thread *self, tern_tensor *t);
void core_storage_free(tern_thread *self, core_storage *s);

/* INT64_MAX where there are more than numbers for them. */
static inline int64_t core_bytes(int64_t numel, int64_t size)
{
    int64_t bytes;
    return __builtin_mul_overflow(numel, size, &bytes) ? INT64_MAX : bytes;
}

/* Of all elements, as dense memory would hold them; of expanded ones there may be too many. */
static inline int64_t core_view_bytes(const tern_view *view)
{
    return core_bytes(view->numel, tern_dtype_size((tern_dtype_t)view->dtype));
}

static inline tern_tensor *core_retain(tern_tensor *t)
{
    atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
    return t;
}
static inline void core_release(tern_thread *self, tern_tensor *t)
{
    /* no locked instruction for the last owner; valid because there are no weak references */
    if (__builtin_expect(atomic_load_explicit(&t->refs, memory_order_acquire) == 1, 1) ||
        atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) == 1)
        core_tensor_free(self, t);
}
static inline void core_storage_release(tern_thread *self, core_storage *s)
{
    if (atomic_load_explicit(&s->refs, memory_order_acquire) == 1 ||
        atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1)
        core_storage_free(self, s);
}

/* A new tensor over a new storage: row-major, reference count 1, owned by no scope. NULL with an
 * out-of-memory error recorded. */
tern_tensor *core_tensor_new(tern_thread *self, tern_site_t site, tern_dev_t dev,
                             tern_dtype_t dtype, int ndim, const int64_t *dims);
/* The birth of most small results, with the shape of a view that is row-major: a tensor and data that are on the
 * lists. NULL without an error where there is more to do: core_tensor_new does it. */
tern_tensor *core_tensor_new_like(tern_thread *self, tern_site_t site, tern_dev_t dev,
                                  tern_dtype_t dtype, const tern_view *like);
/* The same with given strides (dense, in any order). */
tern_tensor *core_tensor_new_strided(tern_thread *self, tern_site_t site, tern_dev_t dev,
                                     tern_dtype_t dtype, int ndim, const int64_t *dims,
                                     const int64_t *strides);
/* Dense, with given strides, in page-locked memory; NULL without an error: there is none to have. */
tern_tensor *core_tensor_new_pinned(tern_thread *self, tern_site_t site, tern_dtype_t dtype,
                                    int ndim, const int64_t *dims, const int64_t *strides);
/* A new tensor over t's storage with t's geometry; no history, no base. Reference count 1. */
tern_tensor *core_tensor_alias(tern_thread *self, tern_site_t site, tern_tensor *t);

/* t, a view or not, is none any more. */
static inline void core_tensor_leave_base(tern_thread *self, tern_tensor *t)
{
    tern_tensor *base = t->base;
    t->base = NULL;
    t->no_grad_view = t->own_view = false;
    if (base != NULL)
        core_release(self, base);
}

/* A new row-major tensor that takes over the caller's reference to a storage of enough bytes. On
 * failure the reference stays the caller's. */
tern_tensor *core_tensor_adopt(tern_thread *self, tern_site_t site, core_storage *storage,
                               tern_dtype_t dtype, int ndim, const int64_t *dims);

/* Makes room for one more in the innermost scope. False: no memory; t is released and an error
 * recorded. Debug builds ask each time, and may warn of many. */
bool core_scope_room(tern_thread *self, tern_tensor *t);
#ifdef NDEBUG
enum { CORE_SCOPE_ASKS = 0 };
#else
enum { CORE_SCOPE_ASKS = 1 };
#endif
/* Hands a tensor (reference count 1) to the innermost scope; returns it. NULL passes through; in
 * owned mode it stays the caller's. */
static inline tern_tensor *core_scope_add(tern_thread *self, tern_tensor *t)
{
    core_scope_stack *scope = &self->scope;
    if (t == NULL || self->owned_mode)
        return t;
    if (__builtin_expect(CORE_SCOPE_ASKS || scope->top == scope->capacity, 0) &&
        !core_scope_room(self, t))
        return NULL;
    t->scope_slot = scope->top;
    scope->slots[scope->top++] = (uintptr_t)t;
    return t;
}
/* Releases all that scopes opened since `mark` hold. */
void core_scope_unwind(tern_thread *self, int64_t mark);
/* The end of all scopes: releases what is to move further out, too. */
void core_scope_clear(tern_thread *self);

/* Recomputes CONTIGUOUS and DENSE after shape or strides changed. */
void core_view_update(tern_view *view);
/* Row-major strides. */
void core_row_major(int ndim, const int64_t *dims, int64_t *out_strides);
/* 4-D, dense, strides in N,H,W,C order. */
bool core_view_channels_last(const tern_view *view);
/* Of one dtype and shape, without gaps, and laid out alike: a copy is one of plain bytes. */
bool core_view_same_bytes(const tern_view *a, const tern_view *b);
/* numel of a shape, or -1 when it overflows or an extent is negative. */
int64_t core_numel(int ndim, const int64_t *dims);
/* "f32 [64, 784]" and the like into buffer; returns it. */
const char *core_shape_text(int ndim, const int64_t *dims, char *buffer, size_t bytes);

/* A device as a word that is equal when the device is; never 0. */
static inline uint32_t core_dev_word(tern_dev_t dev)
{
    uint32_t word;
    _Static_assert(sizeof dev == sizeof word, "a device is one word");
    memcpy(&word, &dev, sizeof word);
    return word;
}
/* The device of a tensor that was released, in a run that keeps the places of such (TERN_CHECK_RELEASED): who uses it
 * all the same is told. */
#define CORE_DEV_GONE ((tern_dev_t){ 0, -1 })
static inline bool core_tensor_is_gone(const tern_tensor *t)
{
    return core_dev_word(t->view.dev) == core_dev_word(CORE_DEV_GONE);
}
/* False, with the error recorded, for a released tensor that is no operand of a row (those: core_gone_input). */
void core_say_gone(tern_thread *self, tern_site_t site, const char *what, const tern_tensor *t);
static inline bool core_is_there(tern_thread *self, tern_site_t site, const char *what,
                                 const tern_tensor *t)
{
    const bool gone = core_tensor_is_gone(t);
    if (__builtin_expect(gone, 0))
        core_say_gone(self, site, what, t);
    return !gone;
}

/* A 0-dim tensor of the CPU, which elementwise rows take beside tensors of a device. */
static inline bool core_is_host_scalar(const tern_tensor *t)
{
    return t->view.ndim == 0 && t->view.dev.kind == TERN_KIND_CPU;
}

static inline bool core_view_same_shape(const tern_view *a, const tern_view *b)
{
    if (a->ndim != b->ndim || a->numel != b->numel)
        return false;
    for (int d = 0; d < a->ndim; d++)
        if (a->shape[d] != b->shape[d])
            return false;
    return true;
}

#endif
