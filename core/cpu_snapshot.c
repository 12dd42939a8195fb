/* Small data in a snapshot: each slab of the pools is a segment, each place of small data a block. */
#include <stdlib.h>
#include <string.h>

#include "core/cpu_memory.h"
#include "core/memory.h"

typedef struct gathering {
    core_alloc_snapshot *out;
    int64_t segment_room, block_room;
    bool failed;
} gathering;

static bool make_room(void **array, int64_t count, int64_t *room, size_t size)
{
    if (count < *room)
        return true;
    const int64_t wanted = 2 * (count + 32);
    void *grown = core_fault() ? NULL : realloc(*array, (size_t)wanted * size);
    if (grown == NULL)
        return false;
    *array = grown;
    *room = wanted;
    return true;
}

static void add_block(gathering *g, core_alloc_block_info block)
{
    core_alloc_snapshot *out = g->out;
    if (block.size == 0 || g->failed)
        return;
    if (!make_room((void **)&out->blocks, out->block_count, &g->block_room, sizeof block)) {
        g->failed = true;
        return;
    }
    core_alloc_segment_info *segment = &out->segments[out->segment_count];
    out->blocks[out->block_count++] = block;
    segment->block_count++;
    const bool live = block.state == CORE_ALLOC_STATE_ALLOCATED;
    segment->allocated += live ? block.size : 0;
    segment->active = segment->allocated;
    segment->requested += block.requested;
}

static void add_objects(gathering *g, char *from, char *to)
{
    add_block(g, (core_alloc_block_info){
                     .data = from, .size = to - from, .state = CORE_ALLOC_STATE_OBJECTS });
}

/* One that was used keeps its size: its place serves no other. */
static core_alloc_block_info describe(char *place)
{
    const core_storage *s = (const core_storage *)place;
    const bool live = atomic_load_explicit(&s->refs, memory_order_acquire) != 0;
    const int64_t bytes = __atomic_load_n(&s->bytes, __ATOMIC_RELAXED);
    return (core_alloc_block_info){
        .data = place + CORE_STORAGE_HEAD,
        .size = core_inline_size(bytes),
        .requested = live ? bytes : 0,
        .state = live ? CORE_ALLOC_STATE_ALLOCATED : CORE_ALLOC_STATE_RESTING,
        .site = live ? __atomic_load_n(&s->site, __ATOMIC_RELAXED) : NULL
    };
}

static void add_slab(core_slab *slab, void *user)
{
    gathering *g = user;
    core_alloc_snapshot *out = g->out;
    if (g->failed || !make_room((void **)&out->segments, out->segment_count, &g->segment_room,
                                sizeof *out->segments)) {
        g->failed = true;
        return;
    }
    char *at = (char *)slab, *end = at + CORE_SLAB_BYTES;
    out->segments[out->segment_count] = (core_alloc_segment_info){
        .data = at, .total = CORE_SLAB_BYTES, .small = true, .first_block = out->block_count
    };
    for (size_t word = 0; word < CORE_SLAB_WORDS; word++) {
        uint64_t bits = atomic_load_explicit(&slab->data[word], memory_order_acquire);
        for (; bits != 0; bits &= bits - 1) {
            const size_t step = 64 * word + (size_t)__builtin_ctzll(bits);
            const core_alloc_block_info block = describe((char *)slab + step * CORE_POOL_STEP);
            add_objects(g, at, block.data);
            add_block(g, block);
            at = block.data + block.size;
        }
    }
    add_objects(g, at, end);
    out->segment_count++;
}

static void add_thread(tern_thread *thread, void *user)
{
    core_pool_each_slab(&thread->pool, add_slab, user);
}

static int by_address(const void *left, const void *right)
{
    const char *x = ((const core_alloc_segment_info *)left)->data;
    const char *y = ((const core_alloc_segment_info *)right)->data;
    return (x > y) - (x < y);
}

tern_status_t core_cpu_add_slabs(core_alloc_snapshot *snapshot)
{
    gathering g = { snapshot, snapshot->segment_count, snapshot->block_count, false };
    core_thread_each(add_thread, &g);
    if (g.failed)
        return TERN_ERR_OOM;
    if (snapshot->segment_count > 0)
        qsort(snapshot->segments, (size_t)snapshot->segment_count, sizeof *snapshot->segments,
              by_address);
    return TERN_OK;
}
