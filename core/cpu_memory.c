/* See core/cpu_memory.h. */
#include "core/cpu_memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/control_group.h"
#include "core/device_memory.h"
#include "core/log.h"
#include "core/tally.h"
#include "core/thread_cache.h"

static _Atomic(core_alloc *) engine;
static _Atomic int64_t cache_limit = INT64_MAX;
static const char *misread; /* what TERN_CPU_CACHE says, if that means nothing */

/* ---- raw memory ------------------------------------------------------------------------------- */

enum { HUGE_BYTES = 2 << 20 };

static size_t whole_pages(int64_t bytes)
{
    return ((size_t)bytes + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES;
}

static void advise(void *data, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    (void)madvise(data, bytes, MADV_HUGEPAGE);
#else
    (void)data, (void)bytes;
#endif
}

/* A segment begins at a huge page, because a fault costs a microsecond and more. The system maps
 * anywhere: what is too much before and behind goes back. Most programs never fill the first small
 * segment; to clear a huge page for it would cost more than their faults. No MAP_NORESERVE: what the
 * system would never have it refuses here, where that is an error, and not later by a signal. */
static tern_status_t segment_alloc(void *context, int64_t bytes, void *stream, void **out_data)
{
    (void)context, (void)stream;
    static atomic_bool is_not_first;
    const size_t size = whole_pages(bytes);
    const bool first = !atomic_exchange_explicit(&is_not_first, true, memory_order_relaxed);
    char *data =
        mmap(NULL, size + HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        return TERN_ERR_OOM;
    const size_t before = (HUGE_BYTES - (uintptr_t)data % HUGE_BYTES) % HUGE_BYTES;
    if (before > 0)
        (void)munmap(data, before);
    (void)munmap(data + before + size, HUGE_BYTES - before);
    if (!first || size > HUGE_BYTES)
        advise(data + before, size);
    *out_data = data + before;
    return TERN_OK;
}

static tern_status_t segment_free(void *context, void *data, int64_t bytes, void *stream)
{
    (void)context, (void)stream;
    return munmap(data, whole_pages(bytes)) == 0 ? TERN_OK : TERN_ERR_BACKEND;
}

/* Without a cache each request is one of the C library's: tools that watch it see every block. */
static tern_status_t plain_alloc(int64_t bytes, void **out_data)
{
    const size_t alignment = bytes >= HUGE_BYTES ? (size_t)HUGE_BYTES : 64;
    const size_t size = ((size_t)bytes + alignment - 1) / alignment * alignment;
    *out_data = aligned_alloc(alignment, size);
    if (*out_data == NULL)
        return TERN_ERR_OOM;
    if (bytes >= HUGE_BYTES)
        advise(*out_data, size);
    return TERN_OK;
}

static tern_status_t raw_alloc(void *context, int64_t bytes, void *stream, void **out_data)
{
    if (atomic_load_explicit(&cache_limit, memory_order_relaxed) == 0)
        return plain_alloc(bytes, out_data);
    return segment_alloc(context, bytes, stream, out_data);
}

static tern_status_t raw_free(void *context, void *data, int64_t bytes, void *stream)
{
    if (atomic_load_explicit(&cache_limit, memory_order_relaxed) != 0)
        return segment_free(context, data, bytes, stream);
    free(data);
    return TERN_OK;
}

/* What programs can still have: the system's own count takes no cache of files in, which it gives up for
 * them. Without memory of the C library: it may be asked because there is none. -1: unknown. */
static int64_t available_bytes(void)
{
    static const char key[] = "\nMemAvailable:";
    char text[512]; /* it is the third line */
    const int file = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    const ssize_t length = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    if (file >= 0)
        (void)close(file);
    text[length > 0 ? length : 0] = '\0';
    const char *at = strstr(text, key);
    return at != NULL ? strtoll(at + sizeof key - 1, NULL, 10) * 1024 : -1;
}

tern_status_t core_cpu_info(int64_t *out_free, int64_t *out_total)
{
    const int64_t page = sysconf(_SC_PAGESIZE), total = sysconf(_SC_PHYS_PAGES);
    int64_t available = available_bytes();
    if (available < 0 && sysconf(_SC_AVPHYS_PAGES) >= 0)
        available = sysconf(_SC_AVPHYS_PAGES) * page;
    if (page <= 0 || total <= 0 || available < 0)
        return TERN_ERR_UNSUPPORTED;
    int64_t limit, left;
    const bool limited = core_group_memory(&limit, &left);
    *out_total = limited && limit < total * page ? limit : total * page;
    *out_free = available < *out_total ? available : *out_total;
    if (limited && left < *out_free)
        *out_free = left;
    return TERN_OK;
}

static tern_status_t raw_info(void *context, int64_t *out_free, int64_t *out_total)
{
    (void)context;
    return core_cpu_info(out_free, out_total);
}

core_alloc_raw core_cpu_raw(void)
{
    return (core_alloc_raw){ .alloc = raw_alloc, .free = raw_free, .info = raw_info };
}

/* ---- settings --------------------------------------------------------------------------------- */

/* TERN_CPU_CACHE: "off", or the MiB that a thread may keep; without it there is no limit. */
static int64_t limit_of_environment(void)
{
    const char *text = getenv("TERN_CPU_CACHE");
    if (core_alloc_environment(NULL)->no_cache)
        return 0;
    if (text == NULL || strcmp(text, "on") == 0)
        return INT64_MAX;
    char *end;
    const long long mib = strtoll(text, &end, 10);
    if (strcmp(text, "off") == 0)
        return 0;
    if (end != text && *end == '\0' && mib >= 0 && mib < INT64_C(1) << 40)
        return (int64_t)mib << 20;
    misread = text;
    return INT64_MAX;
}

void core_cpu_complain(void)
{
    if (misread != NULL)
        core_log_warn("TERN_CPU_CACHE: '%s' is not on, off or a number of MiB", misread);
}

/* ---- the allocator ---------------------------------------------------------------------------- */

/* Before raw memory is asked for: what rests in lists of ended threads may do. Not those of the caller:
 * a step that takes its first blocks would empty them again and again, and settle late. */
static bool reclaim(void *user)
{
    (void)user;
    return core_cache_reclaim_parked();
}

void core_cpu_configure(core_alloc *a, bool uncached)
{
    const int64_t limit = uncached ? 0 : limit_of_environment();
    core_alloc_settings settings = core_alloc_settings_of(a);
    settings.no_cache = limit == 0;
#ifdef CORE_POOL_BYPASS
    settings.no_cache = true;
#endif
    atomic_store_explicit(&cache_limit, settings.no_cache ? 0 : limit, memory_order_relaxed);
    (void)core_alloc_configure(a, &settings);
    core_alloc_set_reclaim(a, reclaim, NULL);
    atomic_store_explicit(&engine, a, memory_order_release);
}

core_alloc *core_cpu_engine(void)
{
    return atomic_load_explicit(&engine, memory_order_acquire);
}

/* A raw free of the user's own may fail: the block has ended all the same. */
void core_cpu_return(core_alloc_block *block)
{
    (void)core_alloc_free(core_cpu_engine(), block);
}

int64_t core_cpu_cache_limit(void)
{
    tern_status_t code;
    const char *why;
    if (core_device_allocator(TERN_CPU, &code, &why) == NULL)
        return INT64_MAX; /* the request that asks will fail */
    return atomic_load_explicit(&cache_limit, memory_order_relaxed);
}

void core_cpu_empty_cache(tern_thread *self)
{
    core_alloc *a = core_cpu_engine();
    if (a == NULL)
        return;
    core_cache_call_empty();
    (void)core_cache_sync(self);
    (void)core_cache_reclaim_parked();
    const tern_status_t code = core_alloc_empty_cache(a);
    if (code != TERN_OK)
        tern_log_write(TERN_LOG_ERROR, NULL, "empty_cache: %s", tern_status_name(code));
}

/* ---- statistics ------------------------------------------------------------------------------- */

static void add_segments(core_alloc_stats *stats, int column, int64_t slabs)
{
    core_alloc_stat *segments = &stats->family[CORE_ALLOC_SEGMENT][column];
    core_alloc_stat *reserved = &stats->family[CORE_ALLOC_RESERVED_BYTES][column];
    segments->current += slabs;
    segments->peak += slabs;
    reserved->current += slabs * CORE_SLAB_BYTES;
    reserved->peak += slabs * CORE_SLAB_BYTES;
}

/* What tensors have is counted in front; blocks that rest in lists are in use for the engine. */
core_alloc_stats core_cpu_stats(void)
{
    core_alloc *a = core_cpu_engine();
    core_alloc_stats stats = { .max_split_size = -1 };
    if (a != NULL)
        stats = core_alloc_stats_of(a);
    core_tally_read(&stats);
    if (atomic_load_explicit(&cache_limit, memory_order_relaxed) == 0)
        memcpy(stats.family[CORE_ALLOC_RESERVED_BYTES], stats.family[CORE_ALLOC_ALLOCATED_BYTES],
               sizeof stats.family[CORE_ALLOC_RESERVED_BYTES]);
    const int64_t slabs = core_pool_slab_count(); /* never returned */
    add_segments(&stats, CORE_ALLOC_ALL, slabs);
    add_segments(&stats, CORE_ALLOC_SMALL, slabs);
    return stats;
}

void core_cpu_reset_peaks(tern_thread *self)
{
    core_alloc *a = core_cpu_engine();
    if (a != NULL)
        core_alloc_reset_peaks(a);
    core_cache_call(); /* other threads give their room back, too */
    core_tally_reset_peaks(&self->blocks.tally);
}

void core_cpu_reset_totals(void)
{
    core_alloc *a = core_cpu_engine();
    if (a != NULL)
        core_alloc_reset_accumulated(a);
    core_tally_reset_totals();
}
