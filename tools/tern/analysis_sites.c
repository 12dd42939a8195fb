/* Who holds memory now, and who held it at the peak. For the peak the trace is played again up to it;
 * a block that lives now and was not allocated within the trace was there at the peak, too. What is
 * still missing then was allocated before the trace and freed within it: nobody knows its site. */
#include "tools/tern/analysis_sites.h"

#include <stdlib.h>
#include <string.h>

/* ---- addresses -------------------------------------------------------------------------------- */

typedef struct held {
    uint64_t address;
    int64_t size;
    int32_t place;
    bool used, live;
} held;

typedef struct heap {
    held *slots;
    uint64_t mask;
} heap;

/* Half full at most with one slot for each address that the trace can name. */
static bool heap_make(heap *h, int64_t addresses)
{
    uint64_t slots = 64;
    while (slots < 2 * (uint64_t)addresses)
        slots *= 2;
    h->mask = slots - 1;
    h->slots = calloc(slots, sizeof *h->slots);
    return h->slots != NULL;
}

static held *heap_at(const heap *h, uint64_t address)
{
    uint64_t slot = (address * 0x9e3779b97f4a7c15u >> 20) & h->mask;
    while (h->slots[slot].used && h->slots[slot].address != address)
        slot = (slot + 1) & h->mask;
    return &h->slots[slot];
}

static bool heap_replay(heap *h, const snapshot_device *d, int64_t peak)
{
    if (!heap_make(h, d->event_count))
        return false;
    for (int64_t i = 0; i < d->event_count; i++) {
        const snapshot_event *e = &d->events[i];
        if (e->action != SNAPSHOT_ALLOC && e->action != SNAPSHOT_FREE_REQUESTED)
            continue;
        held *slot = heap_at(h, e->address);
        const bool is_alloc = e->action == SNAPSHOT_ALLOC;
        if (!slot->used && !is_alloc)
            continue;
        /* after the peak only the address counts: its block was allocated within the trace */
        const bool live = i <= peak ? is_alloc : slot->live;
        if (i <= peak && is_alloc)
            *slot = (held){ e->address, e->size, e->place, true, live };
        slot->address = e->address;
        slot->used = true;
        slot->live = live;
    }
    return true;
}

/* ---- sums by site ----------------------------------------------------------------------------- */

static void add_live(analysis_site *site, int64_t bytes)
{
    site->live_bytes += bytes;
    site->live_blocks++;
}

static void add_peak(analysis_site *site, int64_t bytes)
{
    site->peak_bytes += bytes;
    site->peak_blocks++;
}

static void add_segments(const snapshot *s, int32_t device, const heap *h, analysis_site *sums)
{
    for (int64_t i = 0; i < s->segment_count; i++) {
        const snapshot_segment *segment = &s->segments[i];
        for (int64_t j = 0; segment->device == device && j < segment->block_count; j++) {
            const snapshot_block *b = &s->blocks[segment->first_block + j];
            if (b->state != SNAPSHOT_ACTIVE)
                continue;
            analysis_site *sum = &sums[s->site_of[b->place]];
            add_live(sum, b->size);
            if (!heap_at(h, b->address)->used)
                add_peak(sum, b->size);
        }
    }
}

static void add_heap(const snapshot *s, const heap *h, analysis_site *sums)
{
    for (uint64_t i = 0; i <= h->mask; i++)
        if (h->slots[i].live)
            add_peak(&sums[s->site_of[h->slots[i].place]], h->slots[i].size);
}

static int by_bytes(const void *left, const void *right)
{
    const analysis_site *a = left, *b = right;
    if (a->live_bytes != b->live_bytes)
        return a->live_bytes < b->live_bytes ? 1 : -1;
    if (a->peak_bytes != b->peak_bytes)
        return a->peak_bytes < b->peak_bytes ? 1 : -1;
    return a->site < b->site ? -1 : a->site > b->site;
}

/* Keeps the sites that hold or held something, and adds what nobody knows the site of. */
static void finish(analysis *a, analysis_site *sums, int64_t sites)
{
    int64_t known = 0;
    a->sites = sums;
    for (int64_t i = 0; i < sites; i++) {
        if (sums[i].live_blocks == 0 && sums[i].peak_blocks == 0)
            continue;
        known += sums[i].peak_bytes;
        sums[i].site = (int32_t)i;
        sums[a->site_count++] = sums[i];
    }
    if (known < a->peak_allocated)
        sums[a->site_count++] =
            (analysis_site){ .site = -1, .peak_bytes = a->peak_allocated - known };
    qsort(sums, (size_t)a->site_count, sizeof *sums, by_bytes);
}

bool analysis_make_sites(const snapshot *s, analysis *a)
{
    heap h = { 0 };
    const bool played = heap_replay(&h, &s->devices[a->device], a->peak_event);
    analysis_site *sums = calloc((size_t)s->sites.count + 1, sizeof *sums);
    if (played && sums != NULL) {
        add_segments(s, a->device, &h, sums);
        add_heap(s, &h, sums);
        finish(a, sums, s->sites.count);
    } else {
        free(sums);
    }
    free(h.slots);
    return a->sites != NULL;
}
