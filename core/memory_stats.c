/* Statistics of a device's memory under PyTorch's names (M047-M060). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend.h"
#include "core/cpu_memory.h"
#include "core/device_memory.h"
#include "core/error.h"
#include "core/lock.h"

/* ---- numbers ------------------------------------------------------------------------------------------ */

/* False for a device that does not exist. */
static bool stats_of(tern_dev_t dev, core_alloc_stats *out_stats)
{
    *out_stats = (core_alloc_stats){ .max_split_size = -1 };
    if (dev.kind == TERN_KIND_CPU) {
        *out_stats = core_cpu_stats();
        return true;
    }
    core_alloc *a = core_device_allocator_of(dev);
    if (a != NULL)
        *out_stats = core_alloc_stats_of(a);
    const tern_backend *b = core_backend_of(dev.kind);
    return b != NULL && dev.index < b->device_count;
}

tern_memory_t tern_memory(tern_dev_t dev)
{
    tern_memory_t m = { 0 };
    core_alloc_stats stats;
    (void)stats_of(dev, &stats);
    const core_alloc_stat *allocated = &stats.family[CORE_ALLOC_ALLOCATED_BYTES][CORE_ALLOC_ALL];
    const core_alloc_stat *reserved = &stats.family[CORE_ALLOC_RESERVED_BYTES][CORE_ALLOC_ALL];
    m.allocated_bytes = allocated->current;
    m.peak_allocated_bytes = allocated->peak;
    m.reserved_bytes = reserved->current;
    m.peak_reserved_bytes = reserved->peak;
    m.alloc_count = stats.family[CORE_ALLOC_ALLOCATION][CORE_ALLOC_ALL].allocated;
    m.system_alloc_count = stats.num_device_alloc;
    return m;
}

static tern_memory_stat_t public_stat(const core_alloc_stats *stats, core_alloc_family family)
{
    const core_alloc_stat *s = &stats->family[family][CORE_ALLOC_ALL];
    return (tern_memory_stat_t){ s->current, s->peak, s->allocated, s->freed };
}

tern_memory_stats_t tern_memory_stats(tern_dev_t dev)
{
    core_alloc_stats s;
    (void)stats_of(dev, &s);
    return (tern_memory_stats_t){
        .allocation = public_stat(&s, CORE_ALLOC_ALLOCATION),
        .segment = public_stat(&s, CORE_ALLOC_SEGMENT),
        .active = public_stat(&s, CORE_ALLOC_ACTIVE),
        .inactive_split = public_stat(&s, CORE_ALLOC_INACTIVE_SPLIT),
        .allocated_bytes = public_stat(&s, CORE_ALLOC_ALLOCATED_BYTES),
        .reserved_bytes = public_stat(&s, CORE_ALLOC_RESERVED_BYTES),
        .active_bytes = public_stat(&s, CORE_ALLOC_ACTIVE_BYTES),
        .inactive_split_bytes = public_stat(&s, CORE_ALLOC_INACTIVE_SPLIT_BYTES),
        .requested_bytes = public_stat(&s, CORE_ALLOC_REQUESTED_BYTES),
        .num_alloc_retries = s.num_alloc_retries,
        .num_ooms = s.num_ooms,
        .num_sync_all_streams = s.num_sync_all_streams,
        .num_device_alloc = s.num_device_alloc,
        .num_device_free = s.num_device_free,
    };
}

void tern_memory_reset_peak(tern_dev_t dev)
{
    core_alloc *a = core_device_allocator_of(dev);
    if (dev.kind == TERN_KIND_CPU)
        core_cpu_reset_peaks(core_self());
    else if (a != NULL)
        core_alloc_reset_peaks(a);
}

void tern_memory_reset_accumulated(tern_dev_t dev)
{
    core_alloc *a = core_device_allocator_of(dev);
    if (dev.kind == TERN_KIND_CPU)
        core_cpu_reset_totals();
    else if (a != NULL)
        core_alloc_reset_accumulated(a);
}

/* ---- by key ------------------------------------------------------------------------------------------- */

enum { KEY_BYTES = 48, MAX_KEYS = 160 };
typedef struct stat_key {
    char name[KEY_BYTES];
    size_t offset; /* of an int64_t in core_alloc_stats */
} stat_key;

static stat_key keys[MAX_KEYS];
static int64_t key_count;
static atomic_bool keys_made;

static const char *const family_names[CORE_ALLOC_FAMILIES] = {
    "allocation",      "segment",        "active",       "inactive_split",
    "allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes",
    "requested_bytes"
};
static const char *const column_names[CORE_ALLOC_COLUMNS] = { ".all", ".small_pool",
                                                              ".large_pool" };
static const struct {
    const char *name;
    size_t offset;
} members[] = { { "current", offsetof(core_alloc_stat, current) },
                { "peak", offsetof(core_alloc_stat, peak) },
                { "allocated", offsetof(core_alloc_stat, allocated) },
                { "freed", offsetof(core_alloc_stat, freed) } },
  scalars[] = { { "num_alloc_retries", offsetof(core_alloc_stats, num_alloc_retries) },
                { "num_device_alloc", offsetof(core_alloc_stats, num_device_alloc) },
                { "num_device_free", offsetof(core_alloc_stats, num_device_free) },
                { "num_oom_rejections", offsetof(core_alloc_stats, num_oom_rejections) },
                { "num_ooms", offsetof(core_alloc_stats, num_ooms) },
                { "num_sync_all_streams", offsetof(core_alloc_stats, num_sync_all_streams) },
                { "max_split_size", offsetof(core_alloc_stats, max_split_size) } };

static void add_stat(const char *family, const char *column, size_t offset)
{
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        stat_key *key = &keys[key_count++];
        (void)snprintf(key->name, KEY_BYTES, "%s%s.%s", family, column, members[i].name);
        key->offset = offset + members[i].offset;
    }
}

static int by_name(const void *left, const void *right)
{
    return strcmp(((const stat_key *)left)->name, ((const stat_key *)right)->name);
}

static void make_keys(void)
{
    for (size_t f = 0; f < CORE_ALLOC_FAMILIES; f++)
        for (size_t c = 0; c < CORE_ALLOC_COLUMNS; c++)
            add_stat(family_names[f], column_names[c],
                     offsetof(core_alloc_stats, family) +
                         (f * CORE_ALLOC_COLUMNS + c) * sizeof(core_alloc_stat));
    add_stat("oversize_allocations", "", offsetof(core_alloc_stats, oversize_allocations));
    add_stat("oversize_segments", "", offsetof(core_alloc_stats, oversize_segments));
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++) {
        stat_key *key = &keys[key_count++];
        (void)snprintf(key->name, KEY_BYTES, "%s", scalars[i].name);
        key->offset = scalars[i].offset;
    }
    qsort(keys, (size_t)key_count, sizeof *keys, by_name);
}

const char *tern_memory_stat_key(int64_t i)
{
    core_once(CORE_LOCK_SETTINGS, &keys_made, make_keys);
    return i >= 0 && i < key_count ? keys[i].name : NULL;
}

int64_t tern_memory_stat(tern_dev_t dev, const char *key)
{
    core_once(CORE_LOCK_SETTINGS, &keys_made, make_keys);
    stat_key wanted;
    (void)snprintf(wanted.name, sizeof wanted.name, "%s", key);
    const stat_key *found = bsearch(&wanted, keys, (size_t)key_count, sizeof *keys, by_name);
    core_alloc_stats stats;
    if (found == NULL || !stats_of(dev, &stats))
        return -1;
    int64_t value;
    memcpy(&value, (const char *)&stats + found->offset, sizeof value);
    return value;
}

/* ---- the table ------------------------------------------------------------------------------------------ */

typedef struct table {
    char *buffer;
    int64_t bytes, length;
} table;

static void say(table *t, const char *format, ...) TERN_PRINTF(2, 3);
static void say(table *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int64_t room = t->bytes > t->length ? t->bytes - t->length : 0;
    char *at = room > 0 ? t->buffer + t->length : NULL;
    const int wrote = vsnprintf(at, (size_t)room, format, arguments);
    t->length += wrote > 0 ? wrote : 0;
    va_end(arguments);
}

enum { INSIDE = 75 };

static void say_line(table *t, char c)
{
    char line[INSIDE + 1];
    memset(line, c, INSIDE);
    line[INSIDE] = '\0';
    say(t, "|%s|\n", line);
}

/* M059: the unit is chosen once per family. */
static void say_value(table *t, int64_t value, int64_t chooser, bool bytes)
{
    static const char *const byte_units[] = { "B  ", "KiB", "MiB", "GiB", "TiB", "PiB" };
    static const char *const count_units[] = { " ", "K", "M" };
    const int64_t step = bytes ? 1024 : 1000, limit = bytes ? 768 * 1024 : 750 * 1000;
    int unit = 0;
    for (const int last = bytes ? 5 : 2; unit < last && chooser >= limit; unit++) {
        value /= step;
        chooser /= step;
    }
    if (bytes)
        say(t, "| %6lld %s ", (long long)value, byte_units[unit]);
    else
        say(t, "| %7lld %s  ", (long long)value, count_units[unit]);
}

static void say_row(table *t, const char *name, const core_alloc_stat *s,
                    const core_alloc_stat *chooser, bool bytes)
{
    say(t, "| %-21s ", name);
    say_value(t, s->current, chooser->current, bytes);
    say_value(t, s->peak, chooser->peak, bytes);
    say_value(t, s->allocated, chooser->allocated, bytes);
    say_value(t, s->freed, chooser->freed, bytes);
    say(t, "|\n");
}

/* PyTorch's names say GPU. */
static const char *name_on(tern_dev_t dev, const char *name, char buffer[INSIDE])
{
    (void)snprintf(buffer, INSIDE, "%s", name);
    char *at = dev.kind == TERN_KIND_CPU ? strstr(buffer, "GPU") : NULL;
    if (at != NULL)
        *at = 'C';
    return buffer;
}

static void say_families(table *t, tern_dev_t dev, const core_alloc_stats *stats, bool abbreviated)
{
    char name[INSIDE];
    static const struct {
        core_alloc_family family;
        const char *name;
        bool bytes;
    } rows[] = { { CORE_ALLOC_ALLOCATED_BYTES, "Allocated memory", true },
                 { CORE_ALLOC_ACTIVE_BYTES, "Active memory", true },
                 { CORE_ALLOC_REQUESTED_BYTES, "Requested memory", true },
                 { CORE_ALLOC_RESERVED_BYTES, "GPU reserved memory", true },
                 { CORE_ALLOC_INACTIVE_SPLIT_BYTES, "Non-releasable memory", true },
                 { CORE_ALLOC_ALLOCATION, "Allocations", false },
                 { CORE_ALLOC_ACTIVE, "Active allocs", false },
                 { CORE_ALLOC_SEGMENT, "GPU reserved segments", false },
                 { CORE_ALLOC_INACTIVE_SPLIT, "Non-releasable allocs", false } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const core_alloc_stat *s = stats->family[rows[i].family];
        const core_alloc_stat *all = &s[CORE_ALLOC_ALL];
        say_line(t, '-');
        say_row(t, name_on(dev, rows[i].name, name), all, all, rows[i].bytes);
        if (abbreviated)
            continue;
        say_row(t, "      from large pool", &s[CORE_ALLOC_LARGE], all, rows[i].bytes);
        say_row(t, "      from small pool", &s[CORE_ALLOC_SMALL], all, rows[i].bytes);
    }
}

int64_t tern_memory_summary(tern_dev_t dev, bool abbreviated, char *buffer, int64_t bytes)
{
    core_alloc_stats stats;
    char name[TERN_DEV_NAME_BYTES], row[INSIDE];
    (void)stats_of(dev, &stats);
    table t = { buffer, buffer != NULL ? bytes : 0, 0 };
    say_line(&t, '=');
    say(&t, "|%20stern memory summary, device %-*s|\n", "", INSIDE - 48, tern_dev_name(dev, name));
    say_line(&t, '-');
    say(&t, "|%14sOOMs: %-16lld|%9scudaMalloc retries: %-9lld|\n", "", (long long)stats.num_ooms,
        "", (long long)stats.num_alloc_retries);
    say_line(&t, '=');
    say(&t, "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |\n");
    say_families(&t, dev, &stats, abbreviated);
    const core_alloc_stat *over[] = { &stats.oversize_allocations, &stats.oversize_segments };
    say_line(&t, '-');
    say_row(&t, "Oversize allocations", over[0], over[0], false);
    say_line(&t, '-');
    say_row(&t, name_on(dev, "Oversize GPU segments", row), over[1], over[1], false);
    say_line(&t, '=');
    return t.length;
}

/* ---- the device's own --------------------------------------------------------------------------------- */

tern_status_t tern_memory_info_at(tern_site_t site, tern_dev_t dev, int64_t *out_free,
                                  int64_t *out_total)
{
    tern_thread *self = core_self();
    tern_dev_t real;
    if (out_free == NULL || out_total == NULL)
        return core_error(self, site, TERN_ERR_ARGUMENT, "memory_info",
                          "out_free or out_total is NULL");
    if (!core_dev_resolve(self, site, "memory_info", dev, &real))
        return (tern_status_t)self->error_code;
    const tern_backend *b = core_backend_of(real.kind);
    if (real.kind != TERN_KIND_CPU && (b == NULL || b->memory->info == NULL))
        return core_error(self, site, TERN_ERR_UNSUPPORTED, "memory_info",
                          "the device does not say how much memory it has");
    const tern_status_t code = real.kind == TERN_KIND_CPU
                                   ? core_cpu_info(out_free, out_total)
                                   : b->memory->info(b->context, real.index, out_free, out_total);
    if (code == TERN_OK)
        return TERN_OK;
    return core_backend_failed(self, site, code, "memory_info");
}

static void empty(tern_dev_t dev, core_alloc *a, void *user)
{
    (void)user;
    if (dev.kind == TERN_KIND_CPU) {
        core_cpu_empty_cache(core_self());
        return;
    }
    const tern_status_t code = core_alloc_empty_cache(a);
    const char *words = core_backend_words(core_self());
    if (code != TERN_OK)
        tern_log_write(TERN_LOG_ERROR, NULL, "empty_cache: %s: %s", tern_status_name(code), words);
}

void tern_empty_cache(tern_dev_t dev)
{
    core_alloc *a = core_device_allocator_of(dev);
    if (dev.kind == TERN_KIND_NONE)
        core_device_each(empty, NULL);
    else if (a != NULL)
        empty(dev, a, NULL);
}
