/* See core/owner.h. */
#include "core/owner.h"

#include <stdio.h>

#include "core/device_memory.h"
#include "core/tensor.h"

typedef struct search {
    tern_dev_t dev;
    const char *address;
    const tern_tensor *found;
} search;

/* Bytes from the first element to the end of the last. */
static int64_t extent(const tern_view *v)
{
    int64_t last = 0;
    for (int d = 0; d < v->ndim && d < TERN_MAX_DIMS; d++)
        last += v->stride[d] > 0 ? (v->shape[d] - 1) * v->stride[d] : 0;
    return v->numel > 0 ? (last + 1) * tern_dtype_size((tern_dtype_t)v->dtype) : 0;
}

/* The tensor that made the memory is the better answer than a view of it. */
static void look_at(void *object, void *user)
{
    const tern_tensor *t = object;
    search *s = user;
    if (atomic_load_explicit(&t->refs, memory_order_acquire) == 0 ||
        !tern_dev_equal(t->view.dev, s->dev))
        return;
    const char *data = t->view.data;
    if (data == NULL || s->address < data || s->address >= data + extent(&t->view))
        return;
    if (s->found == NULL || (s->found->base != NULL && t->base == NULL))
        s->found = t;
}

static void look_in(tern_thread *thread, void *user)
{
    core_pool_each_tensor(&thread->pool, look_at, user);
}

static void describe_tensor(const tern_tensor *t, const char *address, tern_owner *out)
{
    char shape[96];
    (void)snprintf(out->what, sizeof out->what, "tensor %s %s",
                   tern_dtype_name((tern_dtype_t)t->view.dtype),
                   core_shape_text(t->view.ndim, t->view.shape, shape, sizeof shape));
    out->is_tensor = true;
    out->offset = address - (const char *)t->view.data;
    out->bytes = extent(&t->view);
    out->site = t->site;
}

static bool describe_block(tern_dev_t dev, const char *address, tern_owner *out)
{
    core_alloc *a = core_device_allocator_of(dev);
    core_alloc_block_info block;
    if (a == NULL || !core_alloc_look(a, address, &block))
        return false;
    if (block.state == CORE_ALLOC_STATE_ALLOCATED)
        (void)snprintf(out->what, sizeof out->what, "memory of %lld bytes",
                       (long long)block.requested);
    else
        (void)snprintf(out->what, sizeof out->what, "memory that no tensor holds any more");
    out->is_tensor = false;
    out->offset = address - block.data;
    out->bytes = block.state == CORE_ALLOC_STATE_ALLOCATED ? block.requested : block.size;
    out->site = block.site;
    return true;
}

static const tern_tensor *find_tensor(tern_dev_t dev, const char *address)
{
    search s = { dev, address, NULL };
    core_thread_each(look_in, &s);
    return s.found;
}

bool core_owner_of(tern_dev_t dev, const void *address, tern_owner *out_owner)
{
    const tern_tensor *t = find_tensor(dev, address);
    if (t == NULL && !describe_block(dev, address, out_owner))
        return false;
    if (t == NULL && out_owner->offset >= out_owner->bytes) /* past the end of its block's tensor */
        t = find_tensor(dev, (const char *)address - out_owner->offset);
    if (t != NULL)
        describe_tensor(t, address, out_owner);
    return true;
}
