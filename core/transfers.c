/* See core/transfers.h. */
#include "core/transfers.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

enum { TO_DEVICE, TO_HOST, BETWEEN, READS, KINDS };
enum { SLOTS = 4096, TRIES = 64 };

typedef struct slot {
    _Atomic(tern_site_t) site; /* set once */
    _Atomic int64_t count[KINDS], bytes[KINDS], syncs;
} slot;

/* Pages that no site falls on are never touched. */
static slot slots[SLOTS];
static slot siteless; /* calls without a site, and those that found no room */

/* ---- counting ---------------------------------------------------------------------------------- */

/* The slot of a site; one that has none gets a free one, or, unless `insert`, the shared one. */
static slot *slot_of(tern_site_t site, bool insert)
{
    if (site == NULL)
        return &siteless;
    const uint64_t hash = (uint64_t)(uintptr_t)site * UINT64_C(0x9e3779b97f4a7c15);
    for (uint64_t try = 0; try < TRIES; try++) {
        slot *s = &slots[((hash >> 40) + try) % SLOTS];
        tern_site_t there = atomic_load_explicit(&s->site, memory_order_relaxed);
        if (there == NULL && !insert)
            break;
        if (there == NULL)
            (void)atomic_compare_exchange_strong_explicit(
                &s->site, &there, site, memory_order_release, memory_order_relaxed);
        if (there == NULL || there == site)
            return s;
    }
    return &siteless;
}

static void add(_Atomic int64_t *number, int64_t more)
{
    atomic_fetch_add_explicit(number, more, memory_order_relaxed);
}

static void note(tern_site_t site, int kind, int64_t bytes, bool waited)
{
    slot *s = slot_of(site, true);
    add(&s->count[kind], 1);
    add(&s->bytes[kind], bytes);
    if (waited)
        add(&s->syncs, 1);
}

void core_transfer_note(tern_site_t site, tern_dev_t to, tern_dev_t from, int64_t bytes,
                        bool waited)
{
    const bool to_host = to.kind == TERN_KIND_CPU, from_host = from.kind == TERN_KIND_CPU;
    if (!to_host || !from_host)
        note(site, to_host ? TO_HOST : from_host ? TO_DEVICE : BETWEEN, bytes, waited);
}

bool core_transfer_was_to_device(tern_site_t site)
{
    const slot *s = slot_of(site, false);
    return s != &siteless &&
           (atomic_load_explicit(&s->count[TO_DEVICE], memory_order_relaxed) > 0 ||
            atomic_load_explicit(&s->count[BETWEEN], memory_order_relaxed) > 0);
}

void core_transfer_note_read(tern_site_t site, int64_t bytes)
{
    note(site, READS, bytes, true);
}

void core_transfer_note_sync(tern_site_t site)
{
    add(&slot_of(site, true)->syncs, 1);
}

/* ---- reading ----------------------------------------------------------------------------------- */

static void sum_up(tern_transfers_t *sum, slot *s)
{
    tern_moved_t *const moved[KINDS] = { &sum->to_device, &sum->to_host, &sum->between,
                                         &sum->reads };
    for (int kind = 0; kind < KINDS; kind++) {
        moved[kind]->count += atomic_load_explicit(&s->count[kind], memory_order_relaxed);
        moved[kind]->bytes += atomic_load_explicit(&s->bytes[kind], memory_order_relaxed);
    }
    sum->syncs += atomic_load_explicit(&s->syncs, memory_order_relaxed);
}

static int64_t bytes_of(const tern_transfers_t *t)
{
    return t->to_device.bytes + t->to_host.bytes + t->between.bytes + t->reads.bytes;
}

static int64_t times_of(const tern_transfers_t *t)
{
    return t->to_device.count + t->to_host.count + t->between.count + t->reads.count + t->syncs;
}

static int by_site(const void *left, const void *right)
{
    const tern_transfers_t *a = left, *b = right;
    return strcmp(a->site == NULL ? "" : a->site, b->site == NULL ? "" : b->site);
}

static int by_weight(const void *left, const void *right)
{
    const tern_transfers_t *a = left, *b = right;
    if (bytes_of(a) != bytes_of(b))
        return bytes_of(a) < bytes_of(b) ? 1 : -1;
    if (times_of(a) != times_of(b))
        return times_of(a) < times_of(b) ? 1 : -1;
    return by_site(a, b);
}

static void merge(tern_transfers_t *into, const tern_transfers_t *more)
{
    into->to_device.count += more->to_device.count;
    into->to_device.bytes += more->to_device.bytes;
    into->to_host.count += more->to_host.count;
    into->to_host.bytes += more->to_host.bytes;
    into->between.count += more->between.count;
    into->between.bytes += more->between.bytes;
    into->reads.count += more->reads.count;
    into->reads.bytes += more->reads.bytes;
    into->syncs += more->syncs;
}

/* One line of a program may be several literals, one per place that a header's macro was used. */
static int64_t merge_same_sites(tern_transfers_t *items, int64_t count)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++)
        if (kept > 0 && by_site(&items[kept - 1], &items[i]) == 0)
            merge(&items[kept - 1], &items[i]);
        else
            items[kept++] = items[i];
    return kept;
}

/* The sites that have counts, sorted, in memory that the caller frees; -1 without memory. */
static int64_t collect(tern_transfers_t **out_items)
{
    tern_transfers_t *items = calloc(SLOTS + 1, sizeof *items);
    *out_items = items;
    if (items == NULL)
        return -1;
    int64_t count = 0;
    for (int i = 0; i <= SLOTS; i++) {
        slot *s = i < SLOTS ? &slots[i] : &siteless;
        const tern_site_t site = atomic_load_explicit(&s->site, memory_order_acquire);
        if (i < SLOTS && site == NULL)
            continue;
        items[count] = (tern_transfers_t){ .site = site };
        sum_up(&items[count], s);
        count += times_of(&items[count]) != 0;
    }
    qsort(items, (size_t)count, sizeof *items, by_site);
    count = merge_same_sites(items, count);
    qsort(items, (size_t)count, sizeof *items, by_weight);
    return count;
}

static int64_t no_memory(tern_site_t site, const char *what)
{
    (void)core_error(core_self(), site, TERN_ERR_OOM, what, "no host memory for the counts");
    return -1;
}

int64_t tern_transfers_at(tern_site_t site, tern_transfers_t *out, int64_t capacity)
{
    tern_transfers_t *items;
    const int64_t count = collect(&items), given = count < capacity ? count : capacity;
    if (count < 0)
        return no_memory(site, "transfers");
    if (out != NULL && given > 0)
        memcpy(out, items, (size_t)given * sizeof *out);
    free(items);
    return count;
}

tern_transfers_t tern_transfers_total(void)
{
    tern_transfers_t sum = { .site = NULL };
    for (int i = 0; i < SLOTS; i++)
        if (atomic_load_explicit(&slots[i].site, memory_order_relaxed) != NULL)
            sum_up(&sum, &slots[i]);
    sum_up(&sum, &siteless);
    return sum;
}

static void clear(slot *s)
{
    for (int kind = 0; kind < KINDS; kind++) {
        atomic_store_explicit(&s->count[kind], 0, memory_order_relaxed);
        atomic_store_explicit(&s->bytes[kind], 0, memory_order_relaxed);
    }
    atomic_store_explicit(&s->syncs, 0, memory_order_relaxed);
}

void tern_transfers_reset(void)
{
    for (int i = 0; i < SLOTS; i++)
        if (atomic_load_explicit(&slots[i].site, memory_order_relaxed) != NULL)
            clear(&slots[i]);
    clear(&siteless);
}

/* ---- text -------------------------------------------------------------------------------------- */

static const char *add_moved(core_text *text, const char *between, const tern_moved_t *moved,
                             const char *what)
{
    if (moved->count == 0)
        return between;
    core_text_add(text, "%s%lld %s (", between, (long long)moved->count, what);
    core_text_add_bytes(text, (double)moved->bytes);
    core_text_add(text, ")");
    return ", ";
}

static void add_counts(core_text *text, const tern_transfers_t *t)
{
    const char *between = add_moved(text, "", &t->to_device, "to devices");
    between = add_moved(text, between, &t->to_host, "to the host");
    between = add_moved(text, between, &t->between, "between devices");
    between = add_moved(text, between, &t->reads, t->reads.count == 1 ? "read" : "reads");
    if (t->syncs > 0)
        core_text_add(text, "%sthe host waited %lld %s", between, (long long)t->syncs,
                      t->syncs == 1 ? "time" : "times");
    else if (times_of(t) == 0)
        core_text_add(text, "none");
    core_text_add(text, "\n");
}

const char *tern_transfers_text_at(tern_site_t site, char *buffer, size_t bytes)
{
    core_text text = { buffer, bytes, 0 };
    tern_transfers_t *items;
    if (buffer == NULL || bytes == 0)
        return "";
    const int64_t count = collect(&items);
    const tern_transfers_t total = tern_transfers_total();
    buffer[0] = '\0';
    if (count < 0) {
        (void)no_memory(site, "transfers_text");
        return buffer;
    }
    core_text_add(&text, "transfers: ");
    add_counts(&text, &total);
    for (int64_t i = 0; i < count && text.length + 1 < text.bytes; i++) {
        core_text_add(&text, "    %-24s ", items[i].site == NULL ? "(no site)" : items[i].site);
        add_counts(&text, &items[i]);
    }
    free(items);
    return buffer;
}
