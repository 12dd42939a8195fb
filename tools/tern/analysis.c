/* Totals and the course of memory. A trace is a window: it may begin when much is allocated already,
 * so it is anchored at its end, where the segments say what there is. */
#include "tools/tern/analysis.h"

#include <stdlib.h>

#include "tools/tern/analysis_sites.h"

static int64_t allocated_delta(const snapshot_event *e)
{
    if (e->action == SNAPSHOT_ALLOC)
        return e->size;
    return e->action == SNAPSHOT_FREE_REQUESTED ? -e->size : 0;
}

/* Let go, and not yet free. */
static int64_t pending_delta(const snapshot_event *e)
{
    if (e->action == SNAPSHOT_FREE_REQUESTED)
        return e->size;
    return e->action == SNAPSHOT_FREE_COMPLETED ? -e->size : 0;
}

static int64_t reserved_delta(const snapshot_event *e)
{
    switch (e->action) {
    case SNAPSHOT_SEGMENT_ALLOC:
    case SNAPSHOT_SEGMENT_MAP:
        return e->size;
    case SNAPSHOT_SEGMENT_FREE:
    case SNAPSHOT_SEGMENT_UNMAP:
        return -e->size;
    default:
        return 0;
    }
}

/* ---- totals ----------------------------------------------------------------------------------- */

static void add_block(analysis_totals *now, const snapshot_block *b)
{
    now->blocks++;
    if (b->state == SNAPSHOT_ACTIVE) {
        now->allocated += b->size;
        now->requested += b->requested;
    } else if (b->state == SNAPSHOT_PENDING) {
        now->pending += b->size;
    } else {
        now->free_bytes += b->size;
        if (b->size > now->largest_free)
            now->largest_free = b->size;
    }
}

/* Bytes of the whole pages between two places of an expandable segment. */
static int64_t whole_pages(int64_t page, int64_t from, int64_t to)
{
    const int64_t first = (from + page - 1) / page, end = to / page;
    return end > first ? (end - first) * page : 0;
}

/* Of the pages in an expandable segment in which no block is in use. */
static int64_t free_pages(const snapshot *s, const snapshot_segment *segment)
{
    int64_t from = 0, sum = 0;
    for (int64_t i = 0; i < segment->block_count; i++) {
        const snapshot_block *b = &s->blocks[segment->first_block + i];
        if (b->state == SNAPSHOT_INACTIVE)
            continue;
        const int64_t at = (int64_t)(b->address - segment->address);
        sum += whole_pages(segment->page_bytes, from, at);
        from = at + b->size;
    }
    return sum + whole_pages(segment->page_bytes, from, segment->size);
}

static void add_segment(const snapshot *s, const snapshot_segment *segment, analysis_totals *now)
{
    const int64_t free_before = now->free_bytes;
    bool in_use = false;
    for (int64_t i = 0; i < segment->block_count; i++) {
        const snapshot_block *b = &s->blocks[segment->first_block + i];
        add_block(now, b);
        in_use = in_use || b->state != SNAPSHOT_INACTIVE;
    }
    const int64_t free_here = now->free_bytes - free_before;
    now->reserved += segment->size;
    now->segments++;
    const int64_t pages = in_use && segment->page_bytes != 0 ? free_pages(s, segment) : 0;
    const int64_t returned = !in_use ? free_here : pages < free_here ? pages : free_here;
    now->whole_segments += !in_use || returned > 0;
    now->whole_bytes += returned;
    now->split_segments += free_here > returned;
    now->split_bytes += free_here - returned;
}

static void make_totals(const snapshot *s, analysis *a)
{
    for (int64_t i = 0; i < s->segment_count; i++)
        if (s->segments[i].device == a->device)
            add_segment(s, &s->segments[i], &a->now);
}

/* ---- the course of memory --------------------------------------------------------------------- */

typedef struct course {
    int64_t allocated, reserved, pending;
} course;

static void step(course *c, const snapshot_event *e)
{
    c->allocated += allocated_delta(e);
    c->reserved += reserved_delta(e);
    c->pending += pending_delta(e);
}

static int64_t not_negative(int64_t bytes)
{
    return bytes > 0 ? bytes : 0;
}

/* What was allocated, reserved and pending before the first event; not under 0, whatever a file says. */
static course course_start(const snapshot_device *d, const analysis *a)
{
    course sum = { 0 };
    for (int64_t i = 0; i < d->event_count; i++)
        step(&sum, &d->events[i]);
    const int64_t allocated = a->counts_requested ? a->now.requested : a->now.allocated;
    return (course){ .allocated = not_negative(allocated - sum.allocated),
                     .reserved = not_negative(a->now.reserved - sum.reserved),
                     .pending = not_negative(a->now.pending - sum.pending) };
}

/* Allocators round to 512 bytes, so that any other size is one that was asked for. */
static bool has_odd_sizes(const snapshot_device *d)
{
    for (int64_t i = 0; i < d->event_count; i++)
        if (d->events[i].action == SNAPSHOT_ALLOC && d->events[i].size % 512 != 0)
            return true;
    return false;
}

static bool times_rise(const snapshot_device *d)
{
    for (int64_t i = 0; i < d->event_count; i++)
        if (d->events[i].time_us < 0 || (i > 0 && d->events[i].time_us < d->events[i - 1].time_us))
            return false;
    return d->event_count > 1 && d->events[d->event_count - 1].time_us > d->events[0].time_us;
}

/* The pixel that an event belongs to: by time where there are times, else by order. */
static int64_t column_of(const analysis *a, const snapshot_device *d, int64_t event)
{
    double at = (double)event / (double)d->event_count * (double)a->columns;
    if (a->has_times)
        at = (double)(d->events[event].time_us - a->start_us) / (double)(a->end_us - a->start_us) *
             (double)(a->columns - 1);
    return (int64_t)at;
}

static void open_bucket(analysis *a, int64_t event, int64_t column, course c)
{
    a->buckets[a->bucket_count++] = (analysis_bucket){ .column = column,
                                                       .first = event,
                                                       .low = c.allocated,
                                                       .high = c.allocated,
                                                       .reserved_high = c.reserved,
                                                       .largest = -1 };
}

static void note_peaks(analysis *a, int64_t event, course c)
{
    if (c.reserved > a->peak_reserved)
        a->peak_reserved = c.reserved;
    if (c.allocated > a->peak_allocated) {
        a->peak_allocated = c.allocated;
        a->peak_event = event;
        a->peak_bucket = a->bucket_count - 1;
    }
}

static void add_to_bucket(analysis *a, const snapshot_device *d, int64_t event, course c)
{
    analysis_bucket *b = &a->buckets[a->bucket_count - 1];
    const snapshot_event *e = &d->events[event];
    b->last = event;
    b->low = c.allocated < b->low ? c.allocated : b->low;
    b->high = c.allocated > b->high ? c.allocated : b->high;
    b->reserved_high = c.reserved > b->reserved_high ? c.reserved : b->reserved_high;
    b->end = c.allocated;
    b->reserved_end = c.reserved;
    if (e->action == SNAPSHOT_ALLOC && (b->largest < 0 || e->size > d->events[b->largest].size))
        b->largest = event;
    if (e->action == SNAPSHOT_OOM && a->oom_count++ < ANALYSIS_OOMS)
        a->ooms[a->oom_count - 1] = (analysis_oom){ event, a->bucket_count - 1, c.allocated,
                                                    c.reserved, not_negative(c.pending) };
    note_peaks(a, event, c);
}

static void describe_trace(const snapshot_device *d, analysis *a)
{
    a->counts_requested = has_odd_sizes(d);
    a->has_times = times_rise(d);
    a->columns = ANALYSIS_BUCKETS;
    if (a->has_times) {
        a->start_us = d->events[0].time_us;
        a->end_us = d->events[d->event_count - 1].time_us;
    } else if (d->event_count < ANALYSIS_BUCKETS) {
        a->columns = d->event_count;
    }
}

static bool make_course(const snapshot_device *d, analysis *a)
{
    describe_trace(d, a);
    a->buckets = calloc(ANALYSIS_BUCKETS + 1, sizeof *a->buckets);
    if (a->buckets == NULL)
        return false;
    course c = course_start(d, a);
    a->start_allocated = a->peak_allocated = c.allocated;
    a->start_reserved = a->peak_reserved = c.reserved;
    a->peak_event = -1;
    int64_t column = -1;
    for (int64_t i = 0; i < d->event_count; i++) {
        const int64_t own = column_of(a, d, i);
        if (own != column)
            open_bucket(a, i, own, c);
        column = own;
        step(&c, &d->events[i]);
        add_to_bucket(a, d, i, c);
    }
    return true;
}

bool analysis_make(const snapshot *s, int32_t device, analysis *out)
{
    *out = (analysis){ .device = device };
    make_totals(s, out);
    return make_course(&s->devices[device], out) && analysis_make_sites(s, out);
}

void analysis_free(analysis *a)
{
    free(a->buckets);
    free(a->sites);
    *a = (analysis){ 0 };
}
