/* Casts of parameters, kept to the end of the thread's outermost region, and the per-thread state. */
#include <stdlib.h>

#include "amp/autocast.h"
#include "core/stream.h"

enum { FIRST_CAPACITY = 64 };

struct core_autocast *amp_state(tern_thread *self)
{
    if (self->amp == NULL && !core_fault())
        self->amp = calloc(1, sizeof *self->amp);
    return self->amp;
}

static amp_cached *place_of(const struct core_autocast *amp, const tern_tensor *source,
                            const void *stream)
{
    const uint64_t mask = (uint64_t)amp->cache_capacity - 1;
    const uint64_t key = ((uint64_t)(uintptr_t)source >> 4) + (uint64_t)(uintptr_t)stream;
    uint64_t at = key * 0x9E3779B97F4A7C15u >> 20;
    for (;; at++) {
        amp_cached *place = &amp->cache[at & mask];
        if (place->source == NULL || (place->source == source && place->stream == stream))
            return place;
    }
}

static bool grow(struct core_autocast *amp)
{
    const int64_t capacity = amp->cache_capacity == 0 ? FIRST_CAPACITY : 2 * amp->cache_capacity;
    struct core_autocast larger = *amp;
    larger.cache = core_fault() ? NULL : calloc((size_t)capacity, sizeof *larger.cache);
    larger.cache_capacity = capacity;
    if (larger.cache == NULL)
        return false;
    for (int64_t i = 0; i < amp->cache_capacity; i++)
        if (amp->cache[i].source != NULL)
            *place_of(&larger, amp->cache[i].source, amp->cache[i].stream) = amp->cache[i];
    free(amp->cache);
    *amp = larger;
    return true;
}

static void let_go_of_cast(tern_thread *self, amp_cached *place)
{
    core_release(self, place->cast);
    core_storage_release(self, place->storage);
}

void amp_cache_clear(tern_thread *self)
{
    struct core_autocast *amp = self->amp;
    if (amp == NULL || amp->cache_count == 0)
        return;
    for (int64_t i = 0; i < amp->cache_capacity; i++)
        if (amp->cache[i].source != NULL) {
            let_go_of_cast(self, &amp->cache[i]);
            core_release(self, amp->cache[i].source);
            amp->cache[i].source = NULL;
        }
    amp->cache_count = 0;
}

/* First uses under TERN_NO_GRAD are recorded too: later ones in the region need the history. */
static bool cast_recorded(core_call *call, int i, tern_dtype_t dtype)
{
    const bool grad_mode = call->self->grad_mode;
    call->self->grad_mode = true;
    const bool done = core_cast_input(call, i, dtype);
    call->self->grad_mode = grad_mode;
    return done;
}

static uint32_t version_of(const tern_tensor *t)
{
    return atomic_load_explicit(&t->storage->version, memory_order_relaxed);
}

/* Was it cast from what the weight holds now? */
static bool is_current(const amp_cached *place, const tern_tensor *weight)
{
    const tern_view *then = &place->view, *now = &weight->view;
    return place->storage == weight->storage && place->version == version_of(weight) &&
           then->data == now->data && core_view_same_shape(then, now) &&
           memcmp(then->stride, now->stride, sizeof *now->stride * now->ndim) == 0;
}

/* The weight's place on a stream; NULL without memory for the table, when nothing is kept. */
static amp_cached *find_place(tern_thread *self, const tern_tensor *weight, const void *stream)
{
    struct core_autocast *amp = amp_state(self);
    if (amp == NULL || (2 * amp->cache_count >= amp->cache_capacity && !grow(amp)))
        return NULL;
    return place_of(amp, weight, stream);
}

bool amp_cast_weight(core_call *call, int i, tern_dtype_t dtype, bool *out_made)
{
    tern_thread *self = call->self;
    tern_tensor *weight = call->in[i];
    void *stream = core_stream_on(self, weight->view.dev);
    amp_cached *place = find_place(self, weight, stream);
    const bool known = place != NULL && place->source != NULL;
    *out_made = !(known && is_current(place, weight) && place->cast->view.dtype == dtype);
    if (!*out_made)
        return core_replace_input(call, i, core_retain(place->cast));
    if (!cast_recorded(call, i, dtype))
        return false;
    /* again: running out of memory asks the program, which may have emptied the cache */
    place = find_place(self, weight, stream);
    if (place == NULL)
        return true;
    if (place->source != NULL) {
        let_go_of_cast(self, place);
    } else {
        place->source = core_retain(weight);
        place->stream = stream;
        self->amp->cache_count++;
    }
    place->cast = core_retain(call->in[i]);
    atomic_fetch_add_explicit(&weight->storage->refs, 1, memory_order_relaxed);
    place->storage = weight->storage;
    place->view = weight->view;
    place->version = version_of(weight);
    return true;
}

void core_autocast_reset(tern_thread *self)
{
    self->autocast = 0;
    self->autocast_depth = 0;
    self->autocast_cache = true;
    for (int kind = 0; kind < TERN_KINDS; kind++)
        self->autocast_dtype[kind] = kind == TERN_KIND_CPU ? TERN_BF16 : TERN_F16;
    amp_cache_clear(self);
    if (self->amp == NULL)
        return;
    free(self->amp->cache);
    free(self->amp->lines);
    free(self->amp);
    self->amp = NULL;
}
