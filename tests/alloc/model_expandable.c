/* Expandable segments of the model (M079-M083, M017, M055): one range of addresses per pool kind and
 * stream, whole pages mapped where a request needs them. A range is tiled by blocks, mapped or not. */
#include <stddef.h>

#include "tests/alloc/model_parts.h"

static int64_t page_of(const model *m, bool small)
{
    return small ? 2 * MODEL_MIB : m->settings.large_segment;
}

/* The first block of the range. */
static model_block *front(model *m, const model_block *b)
{
    model_block *first = model_at(m, b->address);
    for (model_block *p = first; p != NULL; p = model_previous(m, p))
        first = p;
    return first;
}

/* Maps whole pages for `bytes` from the start of an unmapped block on. */
static bool map_pages(model *m, model_block *b, int64_t bytes)
{
    const int64_t page = b->page, pages = (bytes + page - 1) / page;
    uint32_t handles[MODEL_ROOM];
    int64_t made = 0;
    while (made < pages && (handles[made] = raw_handle(m->raw, page)) != 0)
        made++;
    for (int64_t i = 0; i < made; i++) {
        if (made == pages)
            raw_map(m->raw, b->address + (uint64_t)(i * page), page, handles[i]);
        raw_release(m->raw, handles[i]); /* the mapping keeps it */
    }
    if (made < pages)
        return false;
    if (b->size > pages * page) {
        model_block rest = *b;
        rest.address += (uint64_t)(pages * page);
        rest.size -= pages * page;
        model_add_block(m, &rest);
        b->size = pages * page;
    }
    b->mapped = true;
    model_trace_add(&m->trace, MODEL_TRACE_SEGMENT_MAP, b->address, b->size);
    m->stats.device_allocs++;
    model_count(m, MODEL_RESERVED_BYTES, b->small, pages * page);
    model_merge(m, b, model_previous(m, b));
    model_merge(m, b, model_next(m, b));
    model_mark_born(m, b);
    return true;
}

static bool has_room(model *m, const model_block *b, int64_t size)
{
    int64_t room = 0;
    for (; b != NULL && model_is_idle(b) && room < size; b = model_next(m, b))
        room += b->size;
    return room >= size;
}

/* The lowest unmapped block after `after` of the request's pool and stream. */
static model_block *lowest_unmapped(model *m, const model_request *r, uint64_t after)
{
    model_block *lowest = NULL;
    for (int i = 0; i < m->block_end; i++) {
        model_block *b = &m->blocks[i];
        if (b->used && !b->mapped && b->pool == r->pool && b->small == r->small &&
            b->stream == r->stream && b->address > after &&
            (lowest == NULL || b->address < lowest->address))
            lowest = b;
    }
    return lowest;
}

static model_block *new_range(model *m, const model_request *r)
{
    const int64_t page = page_of(m, r->small);
    const int64_t bytes = (m->total + m->total / 8 + page - 1) / page * page;
    const uint64_t address = r->size > bytes ? 0 : raw_reserve(m->raw, bytes);
    if (address == 0)
        return NULL;
    const model_block all = { .expandable = true,
                              .small = r->small,
                              .pool = r->pool,
                              .stream = r->stream,
                              .segment = ++m->last_segment,
                              .address = address,
                              .size = bytes,
                              .page = page };
    return model_add_block(m, &all);
}

/* Where the request may grow: unmapped, or free before unmapped. */
static model_block *place(model *m, const model_request *r)
{
    model_block *u = lowest_unmapped(m, r, 0);
    for (; u != NULL; u = lowest_unmapped(m, r, u->address)) {
        model_block *before = model_previous(m, u);
        model_block *b = before != NULL && model_is_idle(before) ? before : u;
        if (has_room(m, b, r->size))
            return b;
    }
    return new_range(m, r);
}

model_block *model_expand(model *m, const model_request *r)
{
    model_block *b = place(m, r);
    if (b == NULL)
        return NULL;
    if (!b->mapped && !map_pages(m, b, b->size < r->size ? b->size : r->size))
        return NULL;
    while (b->size < r->size) {
        const int64_t missing = r->size - b->size;
        model_block *next = model_next(m, b);
        if (next == NULL || next->mapped ||
            !map_pages(m, next, next->size < missing ? next->size : missing))
            return NULL;
        m->paths[MODEL_GREW]++;
        b = next; /* it took in what lay before it */
    }
    return b;
}

/* Cuts what lies outside [from, from + bytes) off the block. */
static void keep_middle(model *m, model_block *b, uint64_t from, int64_t bytes)
{
    const uint64_t end = b->address + (uint64_t)b->size;
    model_block part = *b;
    part.size = (int64_t)(from - b->address);
    if (part.size > 0)
        model_mark_born(m, model_add_block(m, &part));
    part.address = from + (uint64_t)bytes;
    part.size = (int64_t)(end - part.address);
    if (part.size > 0)
        model_mark_born(m, model_add_block(m, &part));
    b->address = from;
    b->size = bytes;
}

int64_t model_whole_pages(model *m, const model_block *b, uint64_t *out_from)
{
    const uint64_t start = front(m, b)->address, page = (uint64_t)b->page;
    const uint64_t to = start + (b->address + (uint64_t)b->size - start) / page * page;
    *out_from = start + (b->address - start + page - 1) / page * page;
    return *out_from < to ? (int64_t)(to - *out_from) : 0;
}

void model_shrink(model *m, model_block *b)
{
    uint64_t from;
    const int64_t bytes = model_whole_pages(m, b, &from);
    if (bytes == 0)
        return;
    m->paths[MODEL_SHRANK] += bytes < b->size;
    raw_unmap(m->raw, from, bytes);
    model_trace_add(&m->trace, MODEL_TRACE_SEGMENT_UNMAP, from, bytes);
    keep_middle(m, b, from, bytes);
    b->mapped = false;
    model_merge(m, b, model_previous(m, b));
    model_merge(m, b, model_next(m, b));
    m->stats.device_frees++;
    model_count(m, MODEL_RESERVED_BYTES, b->small, -bytes);
    if (!model_is_split(m, b)) {
        raw_unreserve(m->raw, b->address, b->size);
        b->used = false;
    }
}
