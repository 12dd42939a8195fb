/* What the model gives back: events that passed, garbage, oversize blocks, the whole cache. */
#include <stddef.h>

#include "tests/alloc/model_parts.h"

bool model_capturing(const model *m)
{
    for (int i = 0; i < m->route_count; i++) {
        if (m->routes[i].capture)
            return true;
    }
    return false;
}

static void add_stream(model *m, int stream)
{
    for (int i = 0; i < m->stream_count; i++) {
        if (m->streams[i] == stream)
            return;
    }
    m->streams[m->stream_count++] = stream;
}

void model_record_users(model *m, model_block *b)
{
    for (int i = 0; i < b->user_count; i++) {
        const int s = b->users[i];
        if (m->without_events) {
            raw_wait_all(m->raw, s);
            continue;
        }
        add_stream(m, s);
        b->events++;
        m->marks[m->mark_count++] =
            (model_mark){ .stream = s, .mark = raw_record(m->raw, s), .address = b->address };
    }
    b->user_count = 0;
    if (b->events == 0)
        model_become_free(m, b);
}

static void record_deferred(model *m)
{
    for (int i = 0; i < m->deferred_count; i++)
        model_record_users(m, model_at(m, m->deferred[i]));
    m->deferred_count = 0;
}

static void take_mark(model *m, int i)
{
    model_block *b = model_at(m, m->marks[i].address);
    m->mark_count--;
    for (; i < m->mark_count; i++)
        m->marks[i] = m->marks[i + 1];
    if (--b->events == 0)
        model_become_free(m, b);
}

/* M085: not during a capture. Per stream, oldest first, up to the first that has not passed. The order
 * of streams is the reference's hash table's; here it is that of their first mark, since peaks of what
 * is freed on the way depend on it. */
void model_poll(model *m)
{
    if (model_capturing(m))
        return;
    record_deferred(m);
    for (int n = 0; n < m->stream_count; n++) {
        const int s = m->streams[n];
        for (int i = 0; i < m->mark_count;) {
            if (m->marks[i].stream != s) {
                i++;
                continue;
            }
            if (!raw_passed(m->raw, s, m->marks[i].mark)) {
                m->paths[MODEL_WAITED_FOR_EVENT]++;
                break;
            }
            take_mark(m, i);
        }
    }
}

static void wait_for_all(model *m)
{
    m->stats.syncs++;
    record_deferred(m);
    for (int n = 0; n < m->stream_count; n++) {
        const int s = m->streams[n];
        for (int i = 0; i < m->mark_count;) {
            if (m->marks[i].stream != s) {
                i++;
                continue;
            }
            raw_wait(m->raw, s, m->marks[i].mark);
            take_mark(m, i);
        }
    }
}

static void release_block(model *m, model_block *b)
{
    raw_free(m->raw, b->address, b->size);
    model_trace_add(&m->trace, MODEL_TRACE_SEGMENT_FREE, b->address, b->size);
    m->stats.device_frees++;
    model_count(m, MODEL_SEGMENT, b->small, -1);
    model_count(m, MODEL_RESERVED_BYTES, b->small, -b->size);
    if (b->size >= m->settings.max_split)
        model_add(&m->stats.oversize_segments, -1);
    b->used = false;
}

/* A free block that is a whole segment of its own. */
static bool is_whole(model *m, const model_block *b)
{
    return b->used && model_is_idle(b) && !b->expandable && !model_is_split(m, b);
}

static int64_t age(const model *m, const model_block *b)
{
    return m->pools[b->pool].searches[b->small] - b->born;
}

/* M041-M044. */
void model_collect_garbage(model *m)
{
    if (m->settings.gc_threshold <= 0 || m->allowed < 0)
        return;
    const int64_t limit = (int64_t)(m->settings.gc_threshold * (double)m->allowed);
    const int64_t excess = model_reserved(m) - limit;
    int64_t reclaimed = 0;
    bool freed = excess > 0;
    while (freed && reclaimed < excess) {
        int64_t ages = 0, count = 0;
        for (int i = 0; i < m->block_end; i++) {
            const model_block *b = &m->blocks[i];
            if (b->pool == 0 && !b->small && is_whole(m, b)) {
                ages += age(m, b);
                count++;
            }
        }
        freed = false;
        for (int i = 0; i < m->block_end; i++) {
            model_block *b = &m->blocks[i];
            if (b->pool != 0 || b->small || !is_whole(m, b) ||
                (double)age(m, b) < (double)ages / (double)count)
                continue;
            reclaimed += b->size;
            freed = true;
            m->paths[MODEL_GARBAGE]++;
            release_block(m, b);
        }
    }
}

/* The greatest whole oversize block of the request's pool and stream below `limit` (NULL: any). */
static model_block *greatest_oversize(model *m, const model_request *r, const model_block *limit)
{
    model_block *greatest = NULL;
    for (model_block *b = model_least(m, r, NULL, m->settings.max_split); b != NULL && b != limit;
         b = model_least(m, r, b, m->settings.max_split)) {
        if (is_whole(m, b))
            greatest = b;
    }
    return greatest;
}

/* M030: the smallest that suffices; when there is none or it cannot be released (it is expandable),
 * several from the largest below it on. */
bool model_release_oversize(model *m, const model_request *r)
{
    if (m->settings.max_split == INT64_MAX)
        return false;
    const int64_t wanted = r->size < m->settings.max_split ? m->settings.max_split : r->size;
    model_block *const enough = model_least(m, r, NULL, wanted);
    if (enough != NULL && is_whole(m, enough)) {
        m->paths[MODEL_OVERSIZE_ONE]++;
        release_block(m, enough);
        return true;
    }
    int64_t released = 0;
    while (released < wanted) {
        model_block *b = greatest_oversize(m, r, enough);
        if (b == NULL)
            return false;
        released += b->size;
        release_block(m, b);
    }
    m->paths[MODEL_OVERSIZE_SEVERAL]++;
    return true;
}

static void release_pool(model *m, int pool)
{
    for (int i = 0; i < m->block_end; i++) {
        model_block *b = &m->blocks[i];
        if (b->pool == pool && is_whole(m, b))
            release_block(m, b);
    }
    const int end = m->block_end; /* what shrinking adds has no whole page */
    for (int i = 0; i < end; i++) {
        model_block *b = &m->blocks[i];
        if (b->used && b->pool == pool && b->expandable && b->mapped && model_is_idle(b))
            model_shrink(m, b);
    }
}

static bool is_unused(const model_block *b)
{
    return b != NULL && b->used && b->mapped && !b->allocated;
}

/* Blocks that wait for events are free by then: what counts are runs of blocks that nobody holds. */
int64_t model_returnable(const model *constant)
{
    model *m = (model *)constant;
    int64_t sum = 0;
    for (int i = 0; i < m->block_end; i++) {
        const model_block *b = &m->blocks[i];
        if (!is_unused(b) || is_unused(model_previous(m, b)) ||
            (b->pool != 0 && m->pools[b->pool].uses > 0))
            continue;
        model_block run = *b;
        for (b = model_next(m, b); is_unused(b); b = model_next(m, b))
            run.size += b->size;
        uint64_t from;
        if (run.expandable)
            sum += model_whole_pages(m, &run, &from);
        else if (!model_is_split(m, &run))
            sum += run.size;
    }
    return sum;
}

void model_release_cached(model *m)
{
    wait_for_all(m);
    release_pool(m, 0);
    for (int p = 1; p < m->pool_count; p++) {
        if (m->pools[p].uses == 0)
            release_pool(m, p);
    }
}
