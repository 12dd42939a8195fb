/* What the two halves of a pair are compared by. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/alloc/model_parts.h"
#include "tests/alloc/pair.h"

static const char *const column_names[MODEL_COLUMNS] = { "all", "small_pool", "large_pool" };

/* The model's and the allocator's families stand in the same order. */
_Static_assert((int)MODEL_REQUESTED_BYTES == (int)CORE_ALLOC_REQUESTED_BYTES &&
                   (int)MODEL_FAMILIES == (int)CORE_ALLOC_FAMILIES &&
                   (int)MODEL_LARGE == (int)CORE_ALLOC_LARGE,
               "ORDER MODEL_FAMILY");

static bool same_number(pair *p, const char *family, const char *column, const char *what,
                        int64_t mine, int64_t theirs)
{
    if (mine == theirs)
        return true;
    if (p->text[0] == '\0')
        snprintf(p->text, sizeof p->text, "%s.%s.%s: model %" PRId64 ", allocator %" PRId64, family,
                 column, what, mine, theirs);
    return false;
}

static void compare_stat(pair *p, const char *family, const char *column, const model_stat *mine,
                         const core_alloc_stat *theirs)
{
    (void)(same_number(p, family, column, "current", mine->current, theirs->current) &&
           same_number(p, family, column, "peak", mine->peak, theirs->peak) &&
           same_number(p, family, column, "allocated", mine->allocated, theirs->allocated) &&
           same_number(p, family, column, "freed", mine->freed, theirs->freed));
}

static void compare_stats(pair *p)
{
    const model_stats *mine = &p->model->stats;
    const core_alloc_stats theirs = core_alloc_stats_of(p->engine);
    for (int f = 0; f < MODEL_FAMILIES; f++) {
        for (int c = 0; c < MODEL_COLUMNS; c++)
            compare_stat(p, model_family_name((model_family)f), column_names[c], &mine->of[f][c],
                         &theirs.family[f][c]);
    }
    compare_stat(p, "oversize_allocations", "", &mine->oversize_allocations,
                 &theirs.oversize_allocations);
    compare_stat(p, "oversize_segments", "", &mine->oversize_segments, &theirs.oversize_segments);
    same_number(p, "num", "alloc", "retries", mine->retries, theirs.num_alloc_retries);
    same_number(p, "num", "", "ooms", mine->ooms, theirs.num_ooms);
    same_number(p, "num", "oom", "rejections", mine->rejections, theirs.num_oom_rejections);
    same_number(p, "num", "sync", "all_streams", mine->syncs, theirs.num_sync_all_streams);
    same_number(p, "num", "device", "alloc", mine->device_allocs, theirs.num_device_alloc);
    same_number(p, "num", "device", "free", mine->device_frees, theirs.num_device_free);
    same_number(p, "allocated", "alone", "", mine->of[MODEL_ALLOCATED_BYTES][MODEL_ALL].current,
                core_alloc_allocated(p->engine));
}

const char *pair_difference(pair *p)
{
    char text[200];
    compare_stats(p);
    const char *ranges = raw_difference(p->raw_model, p->raw_engine, text, sizeof text);
    const char *misuse = raw_misuse(p->raw_engine);
    if (misuse == NULL)
        misuse = raw_misuse(p->raw_model);
    if (p->text[0] == '\0' && (ranges != NULL || misuse != NULL))
        snprintf(p->text, sizeof p->text, "raw memory: %.200s", misuse != NULL ? misuse : ranges);
    return p->text[0] != '\0' ? p->text : NULL;
}

static core_alloc_state state_of(const model_block *b)
{
    if (b->allocated)
        return CORE_ALLOC_STATE_ALLOCATED;
    return b->events > 0 || b->user_count != 0 ? CORE_ALLOC_STATE_AWAITING
                                               : CORE_ALLOC_STATE_INACTIVE;
}

/* Each mapped block of the model is one of the snapshot, and there are no more. */
static void compare_blocks(pair *p, const core_alloc_snapshot *snapshot)
{
    int64_t blocks = 0;
    for (int i = 0; i < p->model->block_end; i++)
        blocks += p->model->blocks[i].used && p->model->blocks[i].mapped;
    same_number(p, "snapshot", "", "blocks", blocks, snapshot->block_count);
    for (int64_t s = 0; s < snapshot->segment_count; s++) {
        const core_alloc_segment_info *segment = &snapshot->segments[s];
        for (int64_t i = 0; i < segment->block_count; i++) {
            const core_alloc_block_info *theirs = &snapshot->blocks[segment->first_block + i];
            const uint64_t address = (uint64_t)(uintptr_t)theirs->data;
            const model_block *b = model_find(p->model, address);
            const bool same = b != NULL && b->mapped && b->size == theirs->size &&
                              state_of(b) == theirs->state && b->small == segment->small &&
                              b->stream == (int)(uintptr_t)segment->stream &&
                              b->expandable == segment->expandable;
            if (!same && p->text[0] == '\0')
                snprintf(p->text, sizeof p->text,
                         "block 0x%" PRIx64 ": model %" PRId64 " bytes in state %d, allocator "
                         "%" PRId64 " in %d",
                         address, b != NULL ? b->size : 0, b != NULL ? (int)state_of(b) : -1,
                         theirs->size, (int)theirs->state);
        }
    }
}

const char *pair_deep_difference(pair *p)
{
    char why[CORE_ALLOC_WHY_BYTES] = "";
    core_alloc_snapshot snapshot;
    const char *wrong = model_check(p->model);
    if (wrong != NULL && p->text[0] == '\0')
        snprintf(p->text, sizeof p->text, "the model by itself: %s", wrong);
    if (!core_alloc_check(p->engine, why) && p->text[0] == '\0')
        snprintf(p->text, sizeof p->text, "the allocator by itself: %.500s", why);
    if (core_alloc_snapshot_init(p->engine, &snapshot) == TERN_OK) {
        compare_blocks(p, &snapshot);
        core_alloc_snapshot_deinit(&snapshot);
    } else if (p->text[0] == '\0')
        snprintf(p->text, sizeof p->text, "no snapshot");
    return pair_difference(p);
}
