/* See core/alloc/pinned.h. One lock; free blocks by power of two, last in first out. */
#include "core/alloc/pinned.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/alloc/engine.h"

enum { CLASSES = 63 };

typedef struct pinned_event {
    void *event;
    void *stream;
} pinned_event;

typedef struct pinned {
    core_pinned_block pub;
    struct pinned *next; /* free list, queue of waiting ones */
    struct pinned *next_all, **link_all;
    bool in_use, lost;                   /* lost: in use for ever */
    int32_t event_count, event_capacity; /* events: of the freed; before that only their streams */
    pinned_event *events;
} pinned;

struct core_pinned {
    core_alloc_raw raw;
    core_alloc_settings settings;
    pthread_mutex_t lock;
    pinned *all;
    pinned *free[CLASSES];
    pinned *waiting, **last_waiting; /* oldest first */
    core_pinned_stats stats;
};

core_pinned *core_pinned_new(const core_alloc_raw *raw, const core_alloc_settings *settings)
{
    core_pinned *p = host_calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    p->raw = *raw;
    p->settings = *settings;
    p->last_waiting = &p->waiting;
    pthread_mutex_init(&p->lock, NULL);
    return p;
}

void core_pinned_configure(core_pinned *p, const core_alloc_settings *settings)
{
    pthread_mutex_lock(&p->lock);
    p->settings.pinned_max_round_bytes = settings->pinned_max_round_bytes;
    p->settings.pinned_max_cached_bytes = settings->pinned_max_cached_bytes;
    pthread_mutex_unlock(&p->lock);
}

void core_pinned_settings_of(core_pinned *p, core_alloc_settings *settings)
{
    pthread_mutex_lock(&p->lock);
    settings->pinned_max_round_bytes = p->settings.pinned_max_round_bytes;
    settings->pinned_max_cached_bytes = p->settings.pinned_max_cached_bytes;
    pthread_mutex_unlock(&p->lock);
}

/* M090: a power of two, up to the threshold; beyond it whole pages. */
static int64_t rounded(const core_pinned *p, int64_t bytes)
{
    enum { PAGE = 4096 };
    const int64_t threshold = p->settings.pinned_max_round_bytes;
    if (threshold > 0 && bytes > threshold)
        return (bytes + PAGE - 1) / PAGE * PAGE;
    int64_t size = 1;
    while (size < bytes)
        size *= 2;
    return size;
}
static int class_of(int64_t size)
{
    return 63 - __builtin_clzll((uint64_t)size);
}

static int64_t now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void count_time(core_pinned_timing *timing, int64_t us)
{
    if (timing->count == 0 || us < timing->min_us)
        timing->min_us = us;
    if (us > timing->max_us)
        timing->max_us = us;
    timing->total_us += us;
    timing->count++;
}

/* ---- raw memory ------------------------------------------------------------------------------------ */

static tern_status_t make(core_pinned *p, int64_t size, pinned **out_block)
{
    pinned *b = host_calloc(1, sizeof *b);
    void *data = NULL;
    if (b == NULL)
        return TERN_ERR_OOM;
    const int64_t start = now_us();
    const tern_status_t code = p->raw.alloc(p->raw.context, size, NULL, &data);
    if (code != TERN_OK) {
        free(b);
        return code;
    }
    count_time(&p->stats.host_alloc_time, now_us() - start);
    p->stats.num_host_alloc++;
    stat_change(&p->stats.segment, 1);
    stat_change(&p->stats.reserved_bytes, size);
    b->pub.data = data;
    b->pub.size = size;
    b->next_all = p->all;
    b->link_all = &p->all;
    if (p->all != NULL)
        p->all->link_all = &b->next_all;
    p->all = b;
    *out_block = b;
    return TERN_OK;
}

static tern_status_t unmake(core_pinned *p, pinned *b)
{
    *b->link_all = b->next_all;
    if (b->next_all != NULL)
        b->next_all->link_all = b->link_all;
    p->stats.num_host_free++;
    stat_change(&p->stats.segment, -1);
    stat_change(&p->stats.reserved_bytes, -b->pub.size);
    const int64_t start = now_us();
    const tern_status_t code = p->raw.free(p->raw.context, b->pub.data, b->pub.size, NULL);
    count_time(&p->stats.host_free_time, now_us() - start);
    free(b->events);
    free(b);
    return code;
}

/* ---- from in use to free ------------------------------------------------------------------------------ */

static tern_status_t become_free(core_pinned *p, pinned *b)
{
    stat_change(&p->stats.active, -1);
    stat_change(&p->stats.active_bytes, -b->pub.size);
    b->event_count = 0;
    const int64_t limit = p->settings.pinned_max_cached_bytes;
    const int64_t cached =
        p->stats.reserved_bytes.current - p->stats.active_bytes.current - b->pub.size;
    if (limit > 0 && cached + b->pub.size > limit)
        return unmake(p, b);
    const int c = class_of(b->pub.size);
    b->next = p->free[c];
    p->free[c] = b;
    return TERN_OK;
}

static tern_status_t drop_event(core_pinned *p, pinned *b, int32_t i)
{
    void *event = b->events[i].event;
    b->events[i] = b->events[--b->event_count];
    return event != NULL ? p->raw.event_destroy(p->raw.context, event) : TERN_OK;
}

static tern_status_t wait_stream(core_pinned *p, void *stream)
{
    if (p->raw.stream_synchronize != NULL)
        return p->raw.stream_synchronize(p->raw.context, stream);
    return p->raw.event_create == NULL ? TERN_OK : TERN_ERR_UNSUPPORTED;
}

/* Behind the stream's work; false when there is no event for it. */
static bool record_event(core_pinned *p, pinned_event *e)
{
    if (p->raw.event_create == NULL || p->raw.event_create(p->raw.context, &e->event) != TERN_OK)
        return false;
    if (p->raw.event_record(p->raw.context, e->event, e->stream) == TERN_OK)
        return true;
    (void)p->raw.event_destroy(p->raw.context, e->event);
    e->event = NULL;
    return false;
}

/* An event on each stream that used the block; a stream that cannot get one is waited for, at the next
 * poll again when that fails, too. */
static tern_status_t record_events(core_pinned *p, pinned *b)
{
    tern_status_t code = TERN_OK;
    int32_t kept = 0;
    for (int32_t i = 0; i < b->event_count; i++) {
        pinned_event e = { NULL, b->events[i].stream };
        const tern_status_t waited = record_event(p, &e) ? TERN_OK : wait_stream(p, e.stream);
        if (e.event != NULL || waited != TERN_OK)
            b->events[kept++] = e;
        code = code != TERN_OK ? code : waited;
    }
    b->event_count = kept;
    return code;
}

/* Oldest first, up to the first that is not done (M091). */
static tern_status_t poll_events(core_pinned *p)
{
    while (p->waiting != NULL) {
        pinned *b = p->waiting;
        while (b->event_count > 0) {
            const pinned_event e = b->events[b->event_count - 1];
            bool done = e.event == NULL;
            const tern_status_t code = done ? wait_stream(p, e.stream)
                                            : p->raw.event_query(p->raw.context, e.event, &done);
            if (code != TERN_OK || !done)
                return code;
            (void)drop_event(p, b, b->event_count - 1);
        }
        p->waiting = b->next;
        if (p->waiting == NULL)
            p->last_waiting = &p->waiting;
        (void)become_free(p, b);
    }
    return TERN_OK;
}

/* ---- calls ---------------------------------------------------------------------------------------------- */

static pinned *take_free(core_pinned *p, int64_t size)
{
    pinned **at = &p->free[class_of(size)];
    while (*at != NULL && (*at)->pub.size != size)
        at = &(*at)->next;
    pinned *b = *at;
    if (b != NULL)
        *at = b->next;
    return b;
}

static tern_status_t empty(core_pinned *p)
{
    tern_status_t code = TERN_OK;
    for (int c = 0; c < CLASSES; c++)
        while (p->free[c] != NULL) {
            pinned *b = p->free[c];
            p->free[c] = b->next;
            const tern_status_t freed = unmake(p, b);
            code = code != TERN_OK ? code : freed;
        }
    return code;
}

static pinned *obtain(core_pinned *p, int64_t bytes, tern_status_t *out_status)
{
    *out_status = poll_events(p);
    if (*out_status != TERN_OK)
        return NULL;
    const int64_t size = rounded(p, bytes);
    pinned *b = take_free(p, size);
    if (b != NULL)
        return b;
    *out_status = make(p, size, &b);
    if (*out_status == TERN_ERR_OOM && empty(p) == TERN_OK)
        *out_status = make(p, size, &b);
    return b;
}

core_pinned_block *core_pinned_malloc(core_pinned *p, int64_t bytes, tern_site_t site,
                                      tern_status_t *out_status)
{
    *out_status = bytes <= 0 ? TERN_OK : TERN_ERR_OOM;
    if (bytes <= 0 || bytes >= INT64_C(1) << 60)
        return NULL;
    pthread_mutex_lock(&p->lock);
    pinned *b = obtain(p, bytes, out_status);
    if (b != NULL) {
        b->in_use = true;
        b->pub.requested = bytes;
        b->pub.site = site;
        stat_change(&p->stats.allocation, 1);
        stat_change(&p->stats.allocated_bytes, b->pub.size);
        stat_change(&p->stats.active, 1);
        stat_change(&p->stats.active_bytes, b->pub.size);
    }
    pthread_mutex_unlock(&p->lock);
    return b != NULL ? &b->pub : NULL;
}

tern_status_t core_pinned_free(core_pinned *p, core_pinned_block *given)
{
    if (given == NULL)
        return TERN_OK;
    pinned *b = (pinned *)given;
    pthread_mutex_lock(&p->lock);
    tern_status_t code = b->lost ? TERN_OK : TERN_ERR_ARGUMENT;
    if (b->in_use && !b->lost) {
        b->in_use = false;
        stat_change(&p->stats.allocation, -1);
        stat_change(&p->stats.allocated_bytes, -b->pub.size);
        code = record_events(p, b);
        if (b->event_count == 0) {
            const tern_status_t freed = become_free(p, b);
            code = code != TERN_OK ? code : freed;
        } else {
            b->next = NULL;
            *p->last_waiting = b;
            p->last_waiting = &b->next;
        }
    }
    pthread_mutex_unlock(&p->lock);
    return code;
}

static tern_status_t add_stream(pinned *b, void *stream)
{
    for (int32_t i = 0; i < b->event_count; i++)
        if (b->events[i].stream == stream)
            return TERN_OK;
    int64_t capacity = b->event_capacity;
    if (!host_grow((void **)&b->events, b->event_count, &capacity, sizeof *b->events))
        return TERN_ERR_OOM;
    b->event_capacity = (int32_t)capacity;
    b->events[b->event_count++] = (pinned_event){ NULL, stream };
    return TERN_OK;
}

tern_status_t core_pinned_record_stream(core_pinned *p, core_pinned_block *given, void *stream)
{
    if (given == NULL)
        return TERN_OK;
    pinned *b = (pinned *)given;
    pthread_mutex_lock(&p->lock);
    const tern_status_t code = b->in_use ? add_stream(b, stream) : TERN_ERR_ARGUMENT;
    pthread_mutex_unlock(&p->lock);
    return code;
}

void core_pinned_lose(core_pinned *p, core_pinned_block *given)
{
    pthread_mutex_lock(&p->lock);
    ((pinned *)given)->lost = true;
    pthread_mutex_unlock(&p->lock);
}

tern_status_t core_pinned_empty_cache(core_pinned *p)
{
    pthread_mutex_lock(&p->lock);
    tern_status_t code = poll_events(p);
    const tern_status_t emptied = empty(p);
    code = code != TERN_OK ? code : emptied;
    pthread_mutex_unlock(&p->lock);
    return code;
}

void core_pinned_delete(core_pinned *p)
{
    if (p == NULL)
        return;
    for (pinned *b = p->waiting; b != NULL; b = b->next)
        while (b->event_count > 0) {
            void *event = b->events[b->event_count - 1].event;
            if (event != NULL)
                (void)p->raw.event_synchronize(p->raw.context, event);
            (void)drop_event(p, b, b->event_count - 1);
        }
    while (p->all != NULL)
        (void)unmake(p, p->all);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* ---- statistics -------------------------------------------------------------------------------------------- */

core_pinned_stats core_pinned_stats_of(core_pinned *p)
{
    pthread_mutex_lock(&p->lock);
    const core_pinned_stats stats = p->stats;
    pthread_mutex_unlock(&p->lock);
    return stats;
}

static void each_stat(core_pinned *p, void (*visit)(core_alloc_stat *stat))
{
    core_pinned_stats *s = &p->stats;
    core_alloc_stat *all[] = { &s->allocation,     &s->allocated_bytes, &s->segment,
                               &s->reserved_bytes, &s->active,          &s->active_bytes };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        visit(all[i]);
}
static void reset_peak(core_alloc_stat *stat)
{
    stat->peak = stat->current;
}
static void reset_totals(core_alloc_stat *stat)
{
    stat->allocated = stat->freed = 0;
}

void core_pinned_reset_peaks(core_pinned *p)
{
    pthread_mutex_lock(&p->lock);
    each_stat(p, reset_peak);
    pthread_mutex_unlock(&p->lock);
}

void core_pinned_reset_accumulated(core_pinned *p)
{
    pthread_mutex_lock(&p->lock);
    each_stat(p, reset_totals);
    p->stats.num_host_alloc = p->stats.num_host_free = 0;
    p->stats.host_alloc_time = p->stats.host_free_time = (core_pinned_timing){ 0 };
    pthread_mutex_unlock(&p->lock);
}

bool core_pinned_check(core_pinned *p, char why[CORE_ALLOC_WHY_BYTES])
{
    int64_t blocks = 0, bytes = 0, in_use = 0, listed = 0, waits = 0;
    why[0] = '\0';
    pthread_mutex_lock(&p->lock);
    for (const pinned *b = p->all; b != NULL; b = b->next_all) {
        blocks++;
        bytes += b->pub.size;
        in_use += b->in_use;
    }
    for (int c = 0; c < CLASSES; c++)
        for (const pinned *b = p->free[c]; b != NULL; b = b->next)
            listed++;
    for (const pinned *b = p->waiting; b != NULL; b = b->next)
        waits++;
    const core_pinned_stats *s = &p->stats;
    const bool good = blocks == in_use + listed + waits && s->segment.current == blocks &&
                      s->reserved_bytes.current == bytes && s->allocation.current == in_use &&
                      s->active.current == in_use + waits;
    pthread_mutex_unlock(&p->lock);
    if (!good)
        (void)snprintf(why, CORE_ALLOC_WHY_BYTES,
                       "%lld blocks: %lld in use, %lld free, %lld waiting do not add up",
                       (long long)blocks, (long long)in_use, (long long)listed, (long long)waits);
    return good;
}
