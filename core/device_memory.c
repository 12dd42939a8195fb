/* See core/device_memory.h. */
#include "core/device_memory.h"

#include <string.h>

#include "core/backend.h"
#include "core/cpu_memory.h"
#include "core/cuda/cuda.h"
#include "core/environment.h"
#include "core/error.h"
#include "core/lock.h"
#include "core/numerics.h"
#include "core/option.h"
#include "core/tally.h"
#include "core/thread_cache.h"

/* What the raw calls of one device get as context. */
typedef struct device_slot {
    const tern_backend *backend; /* NULL: the CPU */
    int index;
    tern_raw_allocator_t user; /* alloc is NULL: the backend's */
    int makers;                /* threads that make the allocator now */
    _Atomic(core_alloc *) allocator;
    core_alloc *left; /* the parent's, in the child of a fork: its lock may be taken for ever */
} device_slot;

static device_slot slots[TERN_KINDS][CORE_MAX_DEVICES];

static device_slot *slot_of(tern_dev_t dev)
{
    return &slots[dev.kind][dev.kind == TERN_KIND_CPU ? 0 : dev.index];
}

/* ---- raw calls -------------------------------------------------------------------------------------- */

static tern_status_t raw_alloc(void *context, int64_t bytes, void *stream, void **out_data)
{
    const device_slot *d = context;
    tern_thread *self = core_self();
    self->message_code = TERN_OK;
    *out_data = d->user.alloc != NULL
                    ? d->user.alloc(bytes, d->index, stream, d->user.user)
                    : d->backend->memory->alloc(d->backend->context, d->index, bytes, stream);
    if (*out_data != NULL)
        return TERN_OK;
    const tern_status_t code = (tern_status_t)self->message_code;
    return code != TERN_OK ? code : TERN_ERR_OOM;
}

static tern_status_t raw_free(void *context, void *data, int64_t bytes, void *stream)
{
    const device_slot *d = context;
    if (d->user.free != NULL)
        d->user.free(data, bytes, d->index, stream, d->user.user);
    else
        d->backend->memory->free(d->backend->context, d->index, data, bytes, stream);
    return TERN_OK;
}

static tern_status_t raw_info(void *context, int64_t *out_free, int64_t *out_total)
{
    const device_slot *d = context;
    if (d->backend == NULL)
        return core_cpu_info(out_free, out_total);
    return d->backend->memory->info(d->backend->context, d->index, out_free, out_total);
}

static tern_status_t raw_event_create(void *context, void **out_event)
{
    const device_slot *d = context;
    return d->backend->event->create(d->backend->context, d->index, out_event);
}
static tern_status_t raw_event_record(void *context, void *event, void *stream)
{
    const device_slot *d = context;
    return d->backend->event->record(d->backend->context, d->index, event, stream);
}
static tern_status_t raw_event_query(void *context, void *event, bool *out_done)
{
    const device_slot *d = context;
    return d->backend->event->query(d->backend->context, d->index, event, out_done);
}
static tern_status_t raw_event_synchronize(void *context, void *event)
{
    const device_slot *d = context;
    return d->backend->event->synchronize(d->backend->context, d->index, event);
}
static tern_status_t raw_event_destroy(void *context, void *event)
{
    const device_slot *d = context;
    return d->backend->event->destroy(d->backend->context, d->index, event);
}

static tern_status_t wait_for_mark(const device_slot *d, void *stream)
{
    const tern_backend_event *e = d->backend->event;
    void *mark = NULL;
    tern_status_t code = e->create(d->backend->context, d->index, &mark);
    if (code != TERN_OK)
        return code;
    code = e->record(d->backend->context, d->index, mark, stream);
    if (code == TERN_OK)
        code = e->synchronize(d->backend->context, d->index, mark);
    (void)e->destroy(d->backend->context, d->index, mark);
    return code;
}

/* By an event where there are any: the backend's wait for a stream also tells, once, what kernels found
 * wrong, which is for the user's own wait to say. A stream that cannot be waited for may be gone, with
 * its work still there: all of the device then. */
static tern_status_t raw_stream_synchronize(void *context, void *stream)
{
    const device_slot *d = context;
    const tern_backend_stream *s = d->backend->stream;
    tern_status_t code = TERN_ERR_UNSUPPORTED;
    if (d->backend->event != NULL)
        code = wait_for_mark(d, stream);
    else if (CORE_HAS(s, tern_backend_stream, synchronize_stream))
        code = s->synchronize_stream(d->backend->context, d->index, stream);
    return code == TERN_OK ? TERN_OK : s->synchronize(d->backend->context, d->index);
}

static int64_t vmm_granularity(void *context)
{
    const device_slot *d = context;
    return d->backend->vmm->granularity(d->backend->context, d->index);
}
static tern_status_t vmm_reserve(void *context, int64_t bytes, void **out_address)
{
    const device_slot *d = context;
    return d->backend->vmm->reserve(d->backend->context, d->index, bytes, out_address);
}
static tern_status_t vmm_unreserve(void *context, void *address, int64_t bytes)
{
    const device_slot *d = context;
    return d->backend->vmm->unreserve(d->backend->context, d->index, address, bytes);
}
static tern_status_t vmm_create(void *context, int64_t bytes, uint64_t *out_handle)
{
    const device_slot *d = context;
    return d->backend->vmm->create(d->backend->context, d->index, bytes, out_handle);
}
static tern_status_t vmm_map(void *context, void *address, int64_t bytes, uint64_t handle)
{
    const device_slot *d = context;
    return d->backend->vmm->map(d->backend->context, d->index, address, bytes, handle);
}
static tern_status_t vmm_unmap(void *context, void *address, int64_t bytes)
{
    const device_slot *d = context;
    return d->backend->vmm->unmap(d->backend->context, d->index, address, bytes);
}
static tern_status_t vmm_release(void *context, uint64_t handle)
{
    const device_slot *d = context;
    return d->backend->vmm->release(d->backend->context, d->index, handle);
}

static core_alloc_raw raw_of(device_slot *d)
{
    static const core_alloc_vmm vmm = { vmm_granularity, vmm_reserve, vmm_unreserve, vmm_create,
                                        vmm_map,         vmm_unmap,   vmm_release };
    const tern_backend *b = d->backend;
    core_alloc_raw raw = { .context = d, .alloc = raw_alloc, .free = raw_free };
    if (b == NULL) { /* its work is done when a call returns */
        raw.info = raw_info;
        return d->user.alloc != NULL ? raw : core_cpu_raw();
    }
    if (CORE_HAS(b->memory, tern_backend_memory, info))
        raw.info = raw_info;
    if (b->event != NULL) {
        raw.event_create = raw_event_create;
        raw.event_record = raw_event_record;
        raw.event_query = raw_event_query;
        raw.event_synchronize = raw_event_synchronize;
        raw.event_destroy = raw_event_destroy;
    }
    if (CORE_HAS(b->stream, tern_backend_stream, synchronize))
        raw.stream_synchronize = raw_stream_synchronize;
    if (b->vmm != NULL && d->user.alloc == NULL)
        raw.vmm = &vmm;
    return raw;
}

/* ---- allocators -------------------------------------------------------------------------------------- */

/* What a device cannot do is left out. */
typedef struct left_out {
    bool segments, fraction;
} left_out;

static left_out configure(core_alloc *a, const device_slot *d, const core_alloc_settings *wanted)
{
    core_alloc_settings settings = *wanted;
    left_out out = { .segments = settings.expandable_segments && d->backend->vmm == NULL };
    if (d->user.alloc != NULL && !d->user.cached)
        settings.no_cache = true;
    out.fraction = core_alloc_configure(a, &settings) == TERN_ERR_STATE;
    if (out.fraction) {
        settings.has_fraction = false;
        (void)core_alloc_configure(a, &settings);
    }
    return out;
}

/* Once the device has its allocator, and without locks: a callback of the log may ask for memory. */
static void complain(const char *name, left_out out)
{
    if (out.segments)
        tern_log_write(TERN_LOG_WARNING, NULL,
                       "expandable_segments has no effect: backend %s has no virtual memory", name);
    if (out.fraction)
        tern_log_write(TERN_LOG_WARNING, NULL,
                       "per_process_memory_fraction has no effect: backend %s does not say how "
                       "much memory it has",
                       name);
}

static core_alloc *new_allocator(device_slot *d, tern_status_t *out_code, const char **out_why)
{
    const core_alloc_raw raw = raw_of(d);
    core_alloc *a = core_alloc_new(&raw);
    if (a == NULL) {
        *out_code = TERN_ERR_OOM;
        *out_why = "no host memory for the device's allocator";
    }
    return a;
}

static core_alloc *for_cpu(device_slot *d, tern_status_t *out_code, const char **out_why)
{
    (void)core_alloc_environment(NULL); /* which may log */
    core_lock_take(CORE_LOCK_ALLOCATORS);
    core_alloc *a = atomic_load_explicit(&d->allocator, memory_order_relaxed);
    const bool first = a == NULL;
    if (first) {
        a = new_allocator(d, out_code, out_why);
        if (a != NULL)
            core_cpu_configure(a, d->user.alloc != NULL && !d->user.cached);
        atomic_store_explicit(&d->allocator, a, memory_order_release);
    }
    core_lock_end(CORE_LOCK_ALLOCATORS);
    if (first && a != NULL) {
        core_cpu_complain();
        core_environment_complain();
        core_numerics_environment();
    }
    return a;
}

/* Made without the lock, since the device is asked: of threads that come at once one's is taken. */
static core_alloc *for_device(device_slot *d, int kind, tern_status_t *out_code,
                              const char **out_why)
{
    if (core_cuda_left(kind)) {
        *out_code = TERN_ERR_STATE;
        *out_why = core_cuda_left_words();
        return NULL;
    }
    const core_alloc_settings *settings = core_alloc_environment(out_why);
    *out_code = TERN_ERR_ARGUMENT;
    if (*out_why != NULL)
        return NULL;
    core_lock_take(CORE_LOCK_ALLOCATORS);
    d->makers++; /* the user's raw calls stay as they are */
    if (d->backend == NULL) {
        d->backend = core_backend_of(kind);
        d->index = (int)(d - slots[kind]);
    }
    core_lock_end(CORE_LOCK_ALLOCATORS);
    core_alloc *fresh = new_allocator(d, out_code, out_why);
    const left_out out = fresh != NULL ? configure(fresh, d, settings) : (left_out){ 0 };
    core_lock_take(CORE_LOCK_ALLOCATORS);
    d->makers--;
    core_alloc *a = atomic_load_explicit(&d->allocator, memory_order_relaxed);
    const bool first = a == NULL;
    if (first)
        atomic_store_explicit(&d->allocator, a = fresh, memory_order_release);
    core_lock_end(CORE_LOCK_ALLOCATORS);
    if (first) {
        complain(d->backend->name, out);
        core_environment_complain();
    } else if (fresh != NULL) {
        core_alloc_delete(fresh);
    }
    return a;
}

core_alloc *core_device_allocator(tern_dev_t dev, tern_status_t *out_code, const char **out_why)
{
    device_slot *d = slot_of(dev);
    core_alloc *a = atomic_load_explicit(&d->allocator, memory_order_acquire);
    if (__builtin_expect(a != NULL, 1))
        return a;
    return dev.kind == TERN_KIND_CPU ? for_cpu(d, out_code, out_why)
                                     : for_device(d, dev.kind, out_code, out_why);
}

core_alloc *core_device_allocator_of(tern_dev_t dev)
{
    if (dev.kind != TERN_KIND_CPU && core_backend_of(dev.kind) == NULL)
        return NULL;
    if (dev.index < 0 && dev.kind != TERN_KIND_CPU)
        dev.index = core_self()->current_index[dev.kind];
    if (dev.index >= CORE_MAX_DEVICES)
        return NULL;
    return atomic_load_explicit(&slot_of(dev)->allocator, memory_order_acquire);
}

/* Not one of theirs is looked at again, so that what reads statistics and empties caches needs no care. */
void core_device_memory_in_child(void)
{
    for (int i = 0; i < CORE_MAX_DEVICES && core_cuda_left(TERN_KIND_CUDA); i++) {
        device_slot *d = &slots[TERN_KIND_CUDA][i];
        core_alloc *a = atomic_load_explicit(&d->allocator, memory_order_relaxed);
        if (a != NULL)
            d->left = a;
        atomic_store_explicit(&d->allocator, NULL, memory_order_relaxed);
    }
}

void core_device_each(void (*visit)(tern_dev_t dev, core_alloc *a, void *user), void *user)
{
    for (int kind = TERN_KIND_CPU + 1; kind < TERN_KINDS; kind++)
        for (int i = 0; i < CORE_MAX_DEVICES; i++) {
            core_alloc *a = atomic_load_explicit(&slots[kind][i].allocator, memory_order_acquire);
            if (a != NULL)
                visit(TERN_DEV_(kind, i), a, user);
        }
    core_alloc *cpu = core_device_allocator_of(TERN_CPU);
    if (cpu != NULL)
        visit(TERN_CPU, cpu, user);
}

static void add_line(tern_dev_t dev, core_alloc *a, void *text)
{
    char name[TERN_DEV_NAME_BYTES];
    const core_alloc_stats s = core_alloc_stats_of(a);
    const core_alloc_stat *allocated = &s.family[CORE_ALLOC_ALLOCATED_BYTES][CORE_ALLOC_ALL];
    core_text_add(text, "    memory of %s: ", tern_dev_name(dev, name));
    core_text_add_bytes(text, (double)allocated->current);
    core_text_add(text, " allocated (peak ");
    core_text_add_bytes(text, (double)allocated->peak);
    core_text_add(text, "), ");
    core_text_add_bytes(text, (double)s.family[CORE_ALLOC_RESERVED_BYTES][CORE_ALLOC_ALL].current);
    core_text_add(text, " reserved, %lld blocks, out of memory %lld times\n",
                  (long long)s.family[CORE_ALLOC_ACTIVE][CORE_ALLOC_ALL].current,
                  (long long)s.num_ooms);
}

void core_device_memory_text(core_text *text)
{
    core_device_each(add_line, text);
}

/* ---- requests ------------------------------------------------------------------------------------------ */

/* The whole request; `asked` is what the user wants to read in an error. */
static core_alloc_block *try_request(tern_thread *self, tern_site_t site, tern_dev_t dev,
                                     int64_t bytes, int64_t asked, void *stream)
{
    tern_status_t code;
    const char *why = NULL;
    core_alloc *a = core_device_allocator(dev, &code, &why);
    if (__builtin_expect(a == NULL, 0)) {
        core_oom_note_code(code, why);
        return NULL;
    }
    core_alloc_failure failure;
    for (int attempt = 0;; attempt++) {
        core_alloc_block *block = core_alloc_malloc(a, stream, bytes, site, &failure);
        if (__builtin_expect(block != NULL, 1))
            return block;
        if (failure.status != TERN_ERR_OOM) {
            core_oom_note_code(failure.status,
                               self->message_code != TERN_OK ? self->message : NULL);
            return NULL;
        }
        if (dev.kind == TERN_KIND_CPU && core_cache_reclaim_own(self))
            continue;
        failure.requested = asked;
        core_oom_note(site, dev, a, &failure);
        if (!core_oom_retry(attempt))
            return NULL;
    }
}

/* Words of calls that failed on the way are read here, or by nobody. */
static core_alloc_block *request(tern_thread *self, tern_site_t site, tern_dev_t dev, int64_t bytes,
                                 int64_t asked, void *stream)
{
    core_alloc_block *block = try_request(self, site, dev, bytes, asked, stream);
    self->message_code = TERN_OK;
    return block;
}

core_alloc_block *core_device_request(tern_thread *self, tern_site_t site, tern_dev_t dev,
                                      int64_t bytes, int64_t asked)
{
    return request(self, site, dev, bytes, asked, NULL);
}

core_alloc_block *core_device_malloc(tern_thread *self, tern_site_t site, tern_dev_t dev,
                                     int64_t bytes, void *stream)
{
    core_alloc_block *block = request(self, site, dev, bytes, bytes, stream);
    if (dev.kind == TERN_KIND_CPU && block != NULL)
        core_tally_add(&self->blocks.tally, block->size, bytes);
    return block;
}

void core_device_free(tern_thread *self, tern_dev_t dev, core_alloc_block *block)
{
    core_alloc *a = slot_of(dev)->allocator;
    if (__builtin_expect(a == NULL, 0)) /* a parent's, which has it on */
        return;
    if (dev.kind == TERN_KIND_CPU)
        core_tally_end(&self->blocks.tally, block->size, block->requested);
    const int32_t kernels = self->message_code; /* whose scratch may end before it is read */
    self->message_code = TERN_OK;
    const tern_status_t code = core_alloc_free(a, block);
    if (__builtin_expect(code != TERN_OK, 0))
        tern_log_write(TERN_LOG_ERROR, NULL, "freeing memory of a device failed: %s: %s",
                       tern_status_name(code), core_backend_words(self));
    self->message_code = kernels;
}

/* ---- what the user may put in its place ------------------------------------------------------------------ */

tern_status_t tern_set_raw_allocator_at(tern_site_t site, tern_dev_t dev,
                                        const tern_raw_allocator_t *raw)
{
    tern_thread *self = core_self();
    const char *what = "set_raw_allocator";
    tern_dev_t real;
    raw = core_options(raw);
    if (!core_one_device(self, site, what, dev) || !core_dev_resolve(self, site, what, dev, &real))
        return (tern_status_t)self->error_code;
    if (raw->alloc == NULL || raw->free == NULL)
        return core_error(self, site, TERN_ERR_ARGUMENT, what, "both alloc and free are needed");
    if (core_setting_is_anothers(site, what, dev, real))
        return TERN_OK;
    device_slot *d = slot_of(real);
    core_lock_take(CORE_LOCK_ALLOCATORS);
    const bool fresh = atomic_load(&d->allocator) == NULL && d->makers == 0;
    if (fresh) {
        d->user = (tern_raw_allocator_t){ 0 };
        memcpy(&d->user, raw, raw->size_ < sizeof d->user ? raw->size_ : sizeof d->user);
    }
    core_lock_end(CORE_LOCK_ALLOCATORS);
    if (fresh)
        return TERN_OK;
    return core_error(self, site, TERN_ERR_STATE, what,
                      "the device has given memory already; set it before the first tensor");
}
