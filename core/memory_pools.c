/* Limits, settings, bytes for others, and private pools (M061, M063, M076, M084-M088). */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend.h"
#include "core/cuda/cuda.h"
#include "core/device_memory.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/option.h"
#include "core/stream.h"

/* NULL after recording an error. */
static core_alloc *allocator_for(tern_thread *self, tern_site_t site, const char *what,
                                 tern_dev_t dev, tern_dev_t *out_dev)
{
    if (!core_dev_resolve(self, site, what, dev, out_dev))
        return NULL;
    tern_status_t code = TERN_OK;
    const char *why = NULL;
    core_alloc *a = core_device_allocator(*out_dev, &code, &why);
    if (a == NULL)
        core_error(self, site, code, what, "%s", why);
    return a;
}

/* ---- limits and settings -------------------------------------------------------------------------- */

bool core_one_device(tern_thread *self, tern_site_t site, const char *what, tern_dev_t dev)
{
    if (dev.kind == TERN_KIND_NONE)
        core_error(self, site, TERN_ERR_ARGUMENT, what,
                   "TERN_ALL_DEVICES is no device\n  try it for each, or tern_default_device()");
    return dev.kind != TERN_KIND_NONE;
}

bool core_setting_is_anothers(tern_site_t site, const char *what, tern_dev_t asked, tern_dev_t got)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    char name[TERN_DEV_NAME_BYTES];
    if (asked.kind == TERN_KIND_CPU || got.kind != TERN_KIND_CPU)
        return false;
    if (!atomic_flag_test_and_set(&said))
        tern_log_write(TERN_LOG_WARNING, site,
                       "%s: %s is the CPU here, whose memory stays as it is set", what,
                       tern_dev_name(asked, name));
    return true;
}

tern_status_t tern_set_memory_fraction_at(tern_site_t site, tern_dev_t dev, double fraction)
{
    tern_thread *self = core_self();
    tern_dev_t real;
    const char *what = "set_memory_fraction";
    core_alloc *a =
        core_one_device(self, site, what, dev) ? allocator_for(self, site, what, dev, &real) : NULL;
    if (a == NULL)
        return (tern_status_t)self->error_code;
    if (!(fraction >= 0 && fraction <= 1))
        return core_error(self, site, TERN_ERR_ARGUMENT, what, "%g is not between 0 and 1",
                          fraction);
    if (core_setting_is_anothers(site, what, dev, real))
        return TERN_OK;
    const tern_status_t code = core_alloc_set_fraction(a, fraction);
    if (code != TERN_OK)
        return core_error(self, site, code, what, "the device does not say how much memory it has");
    return TERN_OK;
}

double tern_memory_fraction(tern_dev_t dev)
{
    core_alloc *a = core_device_allocator_of(dev);
    return a != NULL ? core_alloc_settings_of(a).memory_fraction : 1;
}

tern_status_t tern_set_memory_settings_at(tern_site_t site, tern_dev_t dev, const char *text)
{
    tern_thread *self = core_self();
    tern_dev_t real;
    const char *what = "set_memory_settings";
    core_alloc *a =
        core_one_device(self, site, what, dev) ? allocator_for(self, site, what, dev, &real) : NULL;
    if (a == NULL)
        return (tern_status_t)self->error_code;
    core_alloc_settings settings = core_alloc_settings_of(a);
    core_pinned_settings_read(&settings); /* the process has them, not the device */
    char why[CORE_ALLOC_WHY_BYTES];
    tern_status_t code = core_alloc_settings_parse(&settings, text != NULL ? text : "", true, why);
    if (code != TERN_OK)
        return core_error(self, site, code, what, "%s", why);
    if (core_setting_is_anothers(site, what, dev, real))
        return TERN_OK;
    code = core_alloc_configure(a, &settings);
    if (code != TERN_OK)
        return core_error(self, site, code, what, "the device does not say how much memory it has");
    core_pinned_settings_write(&settings);
    return TERN_OK;
}

/* ---- bytes for other libraries ---------------------------------------------------------------------- */

void *tern_memory_alloc_at(tern_site_t site, tern_dev_t dev, int64_t bytes, void *stream)
{
    tern_thread *self = core_self();
    const char *what = "memory_alloc";
    if (allocator_for(self, site, what, dev, &dev) == NULL)
        return NULL;
    if (bytes < 0)
        core_error(self, site, TERN_ERR_ARGUMENT, what, "%lld bytes", (long long)bytes);
    tern_stream_t on = { dev, stream };
    if (bytes <= 0 || !core_stream_name(self, site, what, &on))
        return NULL;
    core_alloc_block *block =
        core_device_malloc(self, core_site(self, site), dev, bytes, on.handle);
    if (block != NULL) {
        block->lent = true;
        return block->data;
    }
    const char *outer = tern_calling_begin(what);
    (void)core_oom_error(self, site, dev, bytes);
    tern_calling_end(outer);
    return NULL;
}

/* Others than those that were lent are tensors'. */
static bool take_back(tern_thread *self, tern_dev_t dev, core_alloc *a, void *data)
{
    core_alloc_block *block = a != NULL && data != NULL ? core_alloc_find(a, data) : NULL;
    if (block == NULL || !block->lent)
        return false;
    block->lent = false;
    core_device_free(self, dev, block);
    return true;
}

/* The memory may have been given before CUDA was switched off, or since, by the CPU in its place. */
tern_status_t tern_memory_free_at(tern_site_t site, tern_dev_t dev, void *data)
{
    tern_thread *self = core_self();
    tern_dev_t there;
    if (core_device_allocator_of(dev) != NULL &&
        core_dev_resolve_there(self, site, "memory_free", dev, &there) &&
        take_back(self, there, core_device_allocator_of(there), data))
        return TERN_OK;
    core_alloc *a = allocator_for(self, site, "memory_free", dev, &dev);
    if (a == NULL)
        return (tern_status_t)self->error_code;
    if (data == NULL || take_back(self, dev, a, data))
        return TERN_OK;
    return core_error(self, site, TERN_ERR_ARGUMENT, "memory_free",
                      "invalid device pointer: %p was not given by tern_memory_alloc, or is free",
                      data);
}

/* ---- pools --------------------------------------------------------------------------------------------- */

/* Released between a begin and its end, it lasts until the last end: that names it. */
struct tern_memory_pool {
    core_alloc *allocator;
    uint64_t id;
    int16_t kind;            /* of its device */
    _Atomic int64_t holders; /* the program, until the release, and each begin, until its end */
};

/* A begin of the thread's that has not ended. */
struct core_pool_visit {
    tern_memory_pool *pool;
    core_pool_visit *outer;
};

static void let_go(tern_memory_pool *pool)
{
    if (atomic_fetch_sub_explicit(&pool->holders, 1, memory_order_acq_rel) != 1)
        return;
    if (!core_cuda_left(pool->kind))
        (void)core_alloc_empty_pools(pool->allocator);
    free(pool);
}

/* In a pool the CPU's requests go past the thread's lists. */
static void count_pool(tern_thread *self, const tern_memory_pool *pool, int change)
{
    core_block_cache *cache = &self->blocks;
    if (pool->kind != TERN_KIND_CPU)
        return;
    cache->pools += change;
    cache->epoch = cache->small_epoch = 0;
}

tern_memory_pool *tern_memory_pool_create_at(tern_site_t site, const tern_memory_pool_args *args)
{
    tern_thread *self = core_self();
    tern_dev_t dev;
    args = core_options(args);
    core_alloc *a = allocator_for(self, site, "memory_pool_create", args->device, &dev);
    if (a == NULL)
        return NULL;
    tern_memory_pool *pool = malloc(sizeof *pool);
    const uint64_t id = pool != NULL ? core_alloc_pool_new(a, args->use_on_oom) : 0;
    if (id == 0) {
        free(pool);
        core_error(self, site, TERN_ERR_OOM, "memory_pool_create", "no host memory for a pool");
        return NULL;
    }
    *pool = (tern_memory_pool){ a, id, dev.kind, 1 };
    return pool;
}

void tern_memory_pool_release(tern_memory_pool *pool)
{
    if (pool == NULL)
        return;
    if (!core_cuda_left(pool->kind))
        (void)core_alloc_pool_release(pool->allocator, pool->id);
    let_go(pool);
}

/* A pool of a parent's device is left as it is: an error at the beginning, nothing to do at the end. */
tern_status_t tern_memory_pool_begin_at(tern_site_t site, tern_memory_pool *pool)
{
    tern_thread *self = core_self();
    if (pool == NULL)
        return core_error(self, site, TERN_ERR_ARGUMENT, "memory_pool_begin", "the pool is NULL");
    if (core_cuda_left(pool->kind))
        return core_error(self, site, TERN_ERR_STATE, "memory_pool_begin", "%s",
                          core_cuda_left_words());
    core_pool_visit *visit = core_fault() ? NULL : malloc(sizeof *visit);
    const tern_status_t code =
        visit == NULL
            ? TERN_ERR_OOM
            : core_alloc_route_begin(pool->allocator, pool->id, CORE_ALLOC_ROUTE_THREAD, NULL);
    if (code != TERN_OK) {
        free(visit);
        return core_error(self, site, code, "memory_pool_begin", "no host memory");
    }
    *visit = (core_pool_visit){ pool, self->visits };
    self->visits = visit;
    atomic_fetch_add_explicit(&pool->holders, 1, memory_order_relaxed);
    count_pool(self, pool, 1);
    return TERN_OK;
}

/* The visit that *at leads to. */
static void end_visit(tern_thread *self, core_pool_visit **at)
{
    core_pool_visit *visit = *at;
    tern_memory_pool *pool = visit->pool;
    *at = visit->outer;
    free(visit);
    if (!core_cuda_left(pool->kind))
        (void)core_alloc_route_end(pool->allocator, pool->id);
    count_pool(self, pool, -1);
    let_go(pool);
}

tern_status_t tern_memory_pool_end_at(tern_site_t site, tern_memory_pool *pool)
{
    tern_thread *self = core_self();
    if (pool == NULL)
        return core_error(self, site, TERN_ERR_ARGUMENT, "memory_pool_end", "the pool is NULL");
    core_pool_visit **at = &self->visits;
    while (*at != NULL && (*at)->pool != pool)
        at = &(*at)->outer;
    if (*at == NULL && core_cuda_left(pool->kind))
        return TERN_OK;
    if (*at == NULL)
        return core_error(self, site, TERN_ERR_STATE, "memory_pool_end",
                          "no tern_memory_pool_begin of this pool is open on this thread");
    end_visit(self, at);
    return TERN_OK;
}

void core_pools_leave(tern_thread *self)
{
    while (self->visits != NULL)
        end_visit(self, &self->visits);
}

int64_t tern_memory_pool_users(const tern_memory_pool *pool)
{
    return pool != NULL && !core_cuda_left(pool->kind)
               ? core_alloc_pool_users(pool->allocator, pool->id)
               : 0;
}

uint64_t tern_memory_pool_id(const tern_memory_pool *pool)
{
    return pool != NULL ? pool->id : 0;
}
