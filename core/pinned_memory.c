/* Page-locked host memory for tensors (T064, T065, M090-M094), from the first backend that has it. */
#include <stdlib.h>
#include <string.h>

#include "core/alloc/pinned.h"
#include "core/backend.h"
#include "core/call.h"
#include "core/compose.h"
#include "core/cuda/cuda.h"
#include "core/device_memory.h"
#include "core/error.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/rules.h"

static core_pinned *cache;

/* ---- raw calls ---------------------------------------------------------------------------------- */

static tern_status_t raw_alloc(void *context, int64_t bytes, void *stream, void **out_data)
{
    (void)stream;
    const tern_backend *b = context;
    tern_thread *self = core_self();
    self->message_code = TERN_OK;
    *out_data = b->memory->host_alloc(b->context, bytes);
    if (*out_data != NULL)
        return TERN_OK;
    const tern_status_t code = (tern_status_t)self->message_code;
    return code != TERN_OK ? code : TERN_ERR_OOM;
}
static tern_status_t raw_free(void *context, void *data, int64_t bytes, void *stream)
{
    (void)stream;
    const tern_backend *b = context;
    b->memory->host_free(b->context, data, bytes);
    return TERN_OK;
}
/* Streams of several devices use one cache, whose records are made on the stream's device: what the
 * cache gets as a stream is one of these, as an event the other. */
typedef struct user_stream {
    tern_stream_t stream;
    struct user_stream *next;
} user_stream;

typedef struct user_event {
    int index;
    void *native; /* NULL before the record */
} user_event;

static user_stream *users; /* all that ever used pinned memory */

static user_stream *user_of(tern_stream_t stream)
{
    core_lock_take(CORE_LOCK_PINNED);
    user_stream *user = users;
    while (user != NULL && !tern_stream_equal(user->stream, stream))
        user = user->next;
    if (user == NULL && !core_fault()) {
        user = malloc(sizeof *user);
        if (user != NULL)
            *user = (user_stream){ stream, users };
        users = user != NULL ? user : users;
    }
    core_lock_end(CORE_LOCK_PINNED);
    return user;
}

static tern_status_t event_create(void *context, void **out_event)
{
    (void)context;
    *out_event = calloc(1, sizeof(user_event));
    return *out_event != NULL ? TERN_OK : TERN_ERR_OOM;
}
static tern_status_t event_record(void *context, void *event, void *stream)
{
    const tern_backend *b = context;
    const user_stream *user = stream;
    user_event *e = event;
    tern_status_t code = TERN_OK;
    e->index = user->stream.device.index;
    if (e->native == NULL)
        code = b->event->create(b->context, e->index, &e->native);
    if (code == TERN_OK)
        code = b->event->record(b->context, e->index, e->native, user->stream.handle);
    return code;
}
static tern_status_t event_query(void *context, void *event, bool *out_done)
{
    const tern_backend *b = context;
    const user_event *e = event;
    return b->event->query(b->context, e->index, e->native, out_done);
}
static tern_status_t event_synchronize(void *context, void *event)
{
    const tern_backend *b = context;
    const user_event *e = event;
    return b->event->synchronize(b->context, e->index, e->native);
}
static tern_status_t event_destroy(void *context, void *event)
{
    const tern_backend *b = context;
    user_event *e = event;
    const tern_status_t code =
        e->native != NULL ? b->event->destroy(b->context, e->index, e->native) : TERN_OK;
    free(e);
    return code;
}
static tern_status_t stream_synchronize(void *context, void *stream)
{
    const user_stream *user = stream;
    const tern_backend *b = context;
    return b->stream->synchronize(b->context, user->stream.device.index);
}

static bool can_pin(const tern_backend *b)
{
    return b != NULL && CORE_HAS(b->memory, tern_backend_memory, host_alloc) &&
           CORE_HAS(b->memory, tern_backend_memory, host_free);
}

/* NULL where no backend copies from such memory, and where it is a parent's (core_cuda_left). */
static core_pinned *pinned_cache(void)
{
    if (core_cuda_left(TERN_KIND_CUDA))
        return NULL;
    const core_alloc_settings *settings = core_alloc_environment(NULL);
    core_lock_take(CORE_LOCK_PINNED);
    for (int kind = TERN_KIND_CPU + 1; kind < TERN_KINDS && cache == NULL; kind++) {
        const tern_backend *b = core_backend_of(kind);
        if (!can_pin(b))
            continue;
        core_alloc_raw raw = { .context = (void *)(uintptr_t)b,
                               .alloc = raw_alloc,
                               .free = raw_free };
        if (b->event != NULL) {
            raw.event_create = event_create;
            raw.event_record = event_record;
            raw.event_query = event_query;
            raw.event_synchronize = event_synchronize;
            raw.event_destroy = event_destroy;
        }
        if (b->stream != NULL && b->stream->synchronize != NULL)
            raw.stream_synchronize = stream_synchronize;
        cache = core_pinned_new(&raw, settings);
    }
    core_pinned *found = cache;
    core_lock_end(CORE_LOCK_PINNED);
    return found;
}

void core_pinned_settings_read(core_alloc_settings *settings)
{
    core_pinned *p = pinned_cache();
    if (p != NULL)
        core_pinned_settings_of(p, settings);
}

void core_pinned_settings_write(const core_alloc_settings *settings)
{
    core_pinned *p = pinned_cache();
    if (p != NULL)
        core_pinned_configure(p, settings);
}

void core_pinned_storage_free(core_storage *s)
{
    if (!core_cuda_left(TERN_KIND_CUDA)) /* as blocks of devices */
        (void)core_pinned_free(cache, s->user);
}

tern_status_t core_pinned_storage_record(const core_storage *s, tern_stream_t stream)
{
    user_stream *user = user_of(stream);
    return user != NULL ? core_pinned_record_stream(cache, s->user, user) : TERN_ERR_OOM;
}

void core_pinned_storage_lose(const core_storage *s)
{
    core_pinned_lose(cache, s->user);
}

/* ---- tensors --------------------------------------------------------------------------------------- */

static core_storage *pinned_storage(tern_thread *self, core_pinned *p, tern_site_t site,
                                    int64_t bytes, tern_status_t *out_code)
{
    *out_code = TERN_ERR_OOM;
    core_storage *s = core_pool_alloc(&self->pool, sizeof *s);
    core_pinned_block *block =
        s != NULL && !core_fault() ? core_pinned_malloc(p, bytes, site, out_code) : NULL;
    if (block == NULL) {
        if (s != NULL)
            core_pool_free(&self->pool, s, sizeof *s);
        return NULL;
    }
    core_storage_init(s, site, TERN_CPU, bytes, CORE_CACHE_PINNED);
    s->data = block->data;
    s->user = block;
    return s;
}

bool tern_is_pinned(const tern_tensor *t)
{
    return t != NULL && !core_tensor_is_gone(t) && t->storage->cache_class == CORE_CACHE_PINNED;
}

static tern_tensor *new_pinned(tern_thread *self, core_pinned *p, tern_site_t site,
                               tern_dtype_t dtype, int ndim, const int64_t *dims,
                               const int64_t *strides, tern_status_t *out_code)
{
    int64_t bytes;
    *out_code = TERN_ERR_OOM;
    if (__builtin_mul_overflow(core_numel(ndim, dims), tern_dtype_size(dtype), &bytes))
        return NULL;
    core_storage *s = pinned_storage(self, p, site, bytes, out_code);
    tern_tensor *t = s == NULL ? NULL : core_tensor_adopt(self, site, s, dtype, ndim, dims);
    if (t == NULL) {
        if (s != NULL)
            core_storage_release(self, s);
        return NULL;
    }
    memcpy(t->view.stride, strides, (size_t)ndim * sizeof *strides);
    core_view_update(&t->view);
    return t;
}

tern_tensor *core_tensor_new_pinned(tern_thread *self, tern_site_t site, tern_dtype_t dtype,
                                    int ndim, const int64_t *dims, const int64_t *strides)
{
    core_pinned *p = core_numel(ndim, dims) > 0 ? pinned_cache() : NULL;
    tern_status_t code;
    tern_tensor *t =
        p == NULL ? NULL : new_pinned(self, p, site, dtype, ndim, dims, strides, &code);
    if (t == NULL) {
        tern_error_clear(); /* memory of the usual kind may do */
        self->message_code = TERN_OK;
    }
    return t;
}

/* A copy over pinned memory, laid out as a clone; reference count 1. */
static tern_tensor *pinned_copy(tern_thread *self, core_pinned *p, tern_site_t site, tern_tensor *t)
{
    const tern_view *v = &t->view;
    int64_t strides[TERN_MAX_DIMS];
    tern_status_t code;
    core_dense_strides(v, strides);
    tern_tensor *copy =
        new_pinned(self, p, site, (tern_dtype_t)v->dtype, v->ndim, v->shape, strides, &code);
    if (copy == NULL) {
        if (!tern_failed() && code != TERN_ERR_OOM)
            (void)core_backend_failed(self, site, code, "pin");
        else if (!tern_failed())
            core_error(self, site, TERN_ERR_OOM, "pin", "no page-locked memory for %lld bytes",
                       (long long)core_view_bytes(v));
        self->message_code = TERN_OK;
        return NULL;
    }
    if (core_op_into(TERN_OP_copy, site, NULL, copy, t) == TERN_OK)
        return copy;
    core_release(self, copy);
    return NULL;
}

tern_tensor *tern_pin_at(tern_site_t site, tern_tensor *t)
{
    tern_thread *self = core_self();
    site = core_site(self, site);
    if (self->error_code != TERN_OK)
        return NULL;
    if (t == NULL || t->view.dev.kind != TERN_KIND_CPU) {
        core_error(self, site, TERN_ERR_ARGUMENT, "pin",
                   t == NULL ? "the tensor is NULL" : "only a CPU tensor can be pinned");
        return NULL;
    }
    (void)tern_dev_count(TERN_KIND_CUDA); /* may be the program's first question for CUDA */
    core_pinned *p = pinned_cache();
    if (p == NULL) {
        if (core_cuda_left(TERN_KIND_CUDA))
            core_error(self, site, TERN_ERR_STATE, "pin", "%s", core_cuda_left_words());
        else
            core_error(self, site, TERN_ERR_DEVICE, "pin",
                       "no device here copies from page-locked memory");
        return NULL;
    }
    if (tern_is_pinned(t) || t->view.numel == 0)
        return core_same(self, t);
    return core_scope_add(self, pinned_copy(self, p, site, t));
}

/* ---- statistics -------------------------------------------------------------------------------------- */

#define STAT(key, member)                                                    \
    { key ".current", offsetof(core_pinned_stats, member.current) },         \
        { key ".peak", offsetof(core_pinned_stats, member.peak) },           \
        { key ".allocated", offsetof(core_pinned_stats, member.allocated) }, \
    {                                                                        \
        key ".freed", offsetof(core_pinned_stats, member.freed)              \
    }
#define TIMING(key, member)                                         \
    { key ".total", offsetof(core_pinned_stats, member.total_us) }, \
        { key ".max", offsetof(core_pinned_stats, member.max_us) }, \
        { key ".min", offsetof(core_pinned_stats, member.min_us) }, \
    {                                                               \
        key ".count", offsetof(core_pinned_stats, member.count)     \
    }

static const struct {
    const char *name;
    size_t offset;
} host_keys[] = {
    STAT("allocation", allocation),
    STAT("allocated_bytes", allocated_bytes),
    STAT("segment", segment),
    STAT("reserved_bytes", reserved_bytes),
    STAT("active", active),
    STAT("active_bytes", active_bytes),
    { "num_host_alloc", offsetof(core_pinned_stats, num_host_alloc) },
    { "num_host_free", offsetof(core_pinned_stats, num_host_free) },
    TIMING("host_alloc_time", host_alloc_time),
    TIMING("host_free_time", host_free_time),
};

int64_t tern_host_memory_stat(const char *key)
{
    if (key == NULL)
        return -1;
    core_pinned *p = pinned_cache();
    const core_pinned_stats stats = p != NULL ? core_pinned_stats_of(p) : (core_pinned_stats){ 0 };
    for (size_t i = 0; i < sizeof host_keys / sizeof *host_keys; i++)
        if (strcmp(host_keys[i].name, key) == 0) {
            int64_t value;
            memcpy(&value, (const char *)&stats + host_keys[i].offset, sizeof value);
            return value;
        }
    const core_pinned_timing *t = strcmp(key, "host_alloc_time.avg") == 0  ? &stats.host_alloc_time
                                  : strcmp(key, "host_free_time.avg") == 0 ? &stats.host_free_time
                                                                           : NULL;
    if (t != NULL)
        return t->count > 0 ? t->total_us / t->count : 0;
    return -1;
}

void tern_host_empty_cache(void)
{
    core_pinned *p = pinned_cache();
    if (p != NULL)
        (void)core_pinned_empty_cache(p);
}
