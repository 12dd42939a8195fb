/* Expandable segments (M079-M083): a wide range of addresses per stream and pool kind, backed by pages
 * that are mapped where they are wanted. A block is mapped or unmapped as a whole; unmapped ones start
 * and end at pages. */
#include "core/alloc/engine.h"

#include <stdlib.h>

enum { UNKNOWN_TOTAL_SHIFT = 38 }; /* 256 GiB of addresses where the device's size is not known */

static int64_t round_up(int64_t bytes, int64_t step)
{
    return (bytes + step - 1) / step * step;
}

/* ---- pages ----------------------------------------------------------------------------------------- */

static tern_status_t page_map(core_alloc *a, segment *seg, int64_t page)
{
    uint64_t handle = 0;
    tern_status_t code = a->vmm.create(a->raw.context, seg->page_bytes, &handle);
    if (code != TERN_OK)
        return code;
    code = a->vmm.map(a->raw.context, seg->data + page * seg->page_bytes, seg->page_bytes, handle);
    if (code != TERN_OK) {
        (void)a->vmm.release(a->raw.context, handle);
        return code;
    }
    seg->handles[page] = handle;
    seg->mapped[page] = true;
    return TERN_OK;
}

static tern_status_t page_unmap(core_alloc *a, segment *seg, int64_t page)
{
    char *address = seg->data + page * seg->page_bytes;
    seg->mapped[page] = false;
    const tern_status_t code = a->vmm.unmap(a->raw.context, address, seg->page_bytes);
    const tern_status_t released = a->vmm.release(a->raw.context, seg->handles[page]);
    return code != TERN_OK ? code : released;
}

static tern_status_t pages_map(core_alloc *a, segment *seg, int64_t first, int64_t end)
{
    for (int64_t page = first; page < end; page++) {
        const tern_status_t code = page_map(a, seg, page);
        if (code == TERN_OK)
            continue;
        while (page-- > first)
            (void)page_unmap(a, seg, page);
        return code;
    }
    return TERN_OK;
}

/* ---- segments --------------------------------------------------------------------------------------- */

int64_t expandable_page(core_alloc *a, int kind)
{
    return round_up(kind == SMALL ? SMALL_SEGMENT : a->settings.large_segment_bytes,
                    a->vmm.granularity(a->raw.context));
}

static tern_status_t new_segment(core_alloc *a, shard *s, int kind, int64_t size, block **out_block)
{
    const int64_t page = expandable_page(a, kind);
    const int64_t device = device_total(a);
    const int64_t memory = device > 0 ? device / 8 * 9 : INT64_C(1) << UNKNOWN_TOTAL_SHIFT;
    const int64_t pages = round_up(memory, page) / page;
    if (size > pages * page) /* its addresses would be kept, and be of use to no other request */
        return TERN_ERR_OOM;
    if (!shard_reserve(s, 2) || !segment_reserve(s))
        return TERN_ERR_OOM;
    uint64_t *handles = host_calloc((size_t)pages, sizeof *handles);
    bool *mapped = host_calloc((size_t)pages, sizeof *mapped);
    void *address = NULL;
    const tern_status_t code = handles == NULL || mapped == NULL
                                   ? TERN_ERR_OOM
                                   : a->vmm.reserve(a->raw.context, pages * page, &address);
    if (code != TERN_OK) {
        a->no_addresses = code == TERN_ERR_OOM && mapped != NULL && handles != NULL;
        free(handles);
        free(mapped);
        return code;
    }
    segment *seg = segment_add(s, kind, address, pages * page);
    seg->page_bytes = page;
    seg->page_count = pages;
    seg->handles = handles;
    seg->mapped = mapped;
    seg->first->mapped = false;
    seg->first->expandable = true;
    *out_block = seg->first;
    return TERN_OK;
}

static tern_status_t segment_unreserve(core_alloc *a, segment *seg)
{
    void *address = seg->data;
    const int64_t bytes = seg->total;
    segment_remove(seg);
    return a->vmm.unreserve(a->raw.context, address, bytes);
}

void expandable_destroy(core_alloc *a, segment *seg)
{
    for (int64_t page = 0; page < seg->page_count; page++)
        if (seg->mapped[page])
            (void)page_unmap(a, seg, page);
    while (seg->first->next != NULL) { /* records go with their slabs */
        seg->first = seg->first->next;
    }
    (void)segment_unreserve(a, seg);
}

/* ---- growing ----------------------------------------------------------------------------------------- */

/* Free and unmapped blocks from b on: enough for `size`? */
static bool has_room(const block *b, int64_t size)
{
    int64_t bytes = 0;
    while (bytes < size && b != NULL && is_free(b)) {
        bytes += b->pub.size;
        b = b->next;
    }
    return bytes >= size;
}

/* The lowest place; a free mapped block just before it is used, too. */
static block *find_room(const shard *s, int kind, int64_t size)
{
    for (segment *seg = s->segments; seg != NULL; seg = seg->next) {
        if (seg->page_bytes == 0 || seg->kind != kind)
            continue;
        for (block *b = seg->first; b != NULL; b = b->next) {
            if (b->mapped)
                continue;
            block *from = b->prev != NULL && is_free(b->prev) ? b->prev : b;
            if (has_room(from, size))
                return from;
        }
    }
    return NULL;
}

/* Maps at least `bytes` from the front of an unmapped block, merges it with free neighbours and puts
 * the result into its list. */
static tern_status_t map_front(core_alloc *a, block *b, int64_t bytes, tern_site_t site)
{
    segment *seg = b->segment;
    if (!shard_reserve(seg->shard, 2))
        return TERN_ERR_OOM;
    const int64_t first = (b->pub.data - seg->data) / seg->page_bytes;
    const int64_t mapped = round_up(bytes, seg->page_bytes);
    const tern_status_t code = pages_map(a, seg, first, first + mapped / seg->page_bytes);
    if (code != TERN_OK)
        return code;
    char *data = b->pub.data;
    if (mapped < b->pub.size)
        block_insert_after(b, data + mapped, b->pub.size - mapped)->mapped = false;
    b->pub.size = mapped;
    b->mapped = true;
    (void)block_merge(b, b->prev);
    (void)block_merge(b, b->next);
    free_insert(a, b);
    count_segment(a, b->kind, 0, mapped);
    a->cold.num_device_alloc++;
    trace(a, CORE_ALLOC_TRACE_SEGMENT_MAP, seg->shard, data, mapped, site);
    return TERN_OK;
}

tern_status_t expandable_alloc(core_alloc *a, shard *s, int kind, int64_t size, tern_site_t site,
                               block **out_block)
{
    block *b = find_room(s, kind, size);
    a->no_addresses = false;
    tern_status_t code = b != NULL ? TERN_OK : new_segment(a, s, kind, size, &b);
    if (code != TERN_OK)
        return code;
    if (!b->mapped)
        code = map_front(a, b, b->pub.size < size ? b->pub.size : size, site);
    while (code == TERN_OK && b->pub.size < size) {
        block *next = b->next;
        const int64_t missing = size - b->pub.size;
        code = map_front(a, next, next->pub.size < missing ? next->pub.size : missing, site);
        b = next; /* it took b in */
    }
    if (code != TERN_OK)
        return code;
    list_erase(&s->list[kind], b);
    *out_block = b;
    return TERN_OK;
}

int64_t expandable_wanted(core_alloc *a, const shard *s, int kind, int64_t size)
{
    const block *b = find_room(s, kind, size);
    if (b == NULL)
        return round_up(size, expandable_page(a, kind));
    int64_t bytes = 0;
    for (; size > 0; size -= b->pub.size, b = b->next)
        if (!b->mapped)
            bytes += size < b->pub.size ? round_up(size, b->segment->page_bytes) : b->pub.size;
    return bytes;
}

/* ---- shrinking --------------------------------------------------------------------------------------- */

/* Cuts the parts before and behind [from, from + bytes) off as free blocks. */
static void cut_out(core_alloc *a, block *b, char *from, int64_t bytes)
{
    char *data = b->pub.data, *end = data + b->pub.size, *to = from + bytes;
    list_erase(&b->shard->list[b->kind], b);
    b->pub.data = from;
    b->pub.size = bytes;
    if (data < from)
        free_insert(a, block_insert_before(b, data, from - data));
    if (to < end)
        free_insert(a, block_insert_after(b, to, end - to));
}

tern_status_t expandable_trim(core_alloc *a, block *b, bool *out_gone)
{
    segment *seg = b->segment;
    shard *s = seg->shard;
    const int64_t page = seg->page_bytes;
    const int64_t first = round_up(b->pub.data - seg->data, page) / page;
    const int64_t end = (b->pub.data + b->pub.size - seg->data) / page;
    if (first >= end || !shard_reserve(s, 2))
        return TERN_OK;
    tern_status_t code = TERN_OK; /* unmapping waits for nothing by itself */
    if (a->raw.stream_synchronize != NULL)
        code = a->raw.stream_synchronize(a->raw.context, s->stream);
    if (code != TERN_OK)
        return code;
    for (int64_t i = first; i < end; i++) {
        const tern_status_t unmapped = page_unmap(a, seg, i);
        code = code != TERN_OK ? code : unmapped;
    }
    const int64_t bytes = (end - first) * page;
    char *from = seg->data + first * page;
    cut_out(a, b, from, bytes);
    b->mapped = false;
    (void)block_merge(b, b->prev);
    (void)block_merge(b, b->next);
    count_segment(a, seg->kind, 0, -bytes);
    a->cold.num_device_free++;
    trace(a, CORE_ALLOC_TRACE_SEGMENT_UNMAP, s, from, bytes, NULL);
    *out_gone = !is_split(b);
    if (!*out_gone)
        return code;
    const tern_status_t unreserved = segment_unreserve(a, seg);
    return code != TERN_OK ? code : unreserved;
}
