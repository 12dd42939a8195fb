/* Counting with exact peaks over shards: see "Exact peaks" in docs/design/allocator.md. */
#include "core/alloc/engine.h"

#include <string.h>

static int64_t credit_sum(const core_alloc *a, int column, int index)
{
    int64_t sum = 0;
    for (const shard *s = a->shards; s != NULL; s = s->next)
        sum += s->ledger.credit[column][index];
    return sum;
}

int64_t hot_current(const core_alloc *a, int column, int index)
{
    return a->peak[column][index] - credit_sum(a, column, index);
}

/* A shard in debt takes from the others, half of what each has left at least, so that two shards near
 * the peak do not come here in turns. */
static void pay(core_alloc *a, shard *debtor, int column, int index)
{
    int64_t *debt = &debtor->ledger.credit[column][index];
    for (shard *s = a->shards; s != NULL && *debt < 0; s = s->next) {
        int64_t *credit = &s->ledger.credit[column][index];
        if (*credit <= 0)
            continue;
        const int64_t need = *credit < -*debt ? *credit : -*debt;
        const int64_t taken = need + (*credit - need) / 2;
        *credit -= taken;
        *debt += taken;
    }
}

void ledger_settle(core_alloc *a)
{
    for (int column = 0; column < CORE_ALLOC_COLUMNS; column++)
        for (int i = 0; i < HOT; i++) {
            shard *debtor = a->shards;
            while (debtor != NULL && debtor->ledger.credit[column][i] >= 0)
                debtor = debtor->next;
            if (debtor == NULL)
                continue;
            const int64_t sum = credit_sum(a, column, i);
            if (sum < 0) {
                a->peak[column][i] -= sum;
                debtor->ledger.credit[column][i] -= sum;
            }
            for (shard *s = debtor; s != NULL; s = s->next)
                if (s->ledger.credit[column][i] < 0)
                    pay(a, s, column, i);
        }
}

void ledger_settle_alone(core_alloc *a, shard *s)
{
    for (int column = 0; column < CORE_ALLOC_COLUMNS; column++)
        for (int i = 0; i < HOT; i++) {
            int64_t *credit = &s->ledger.credit[column][i];
            if (*credit < 0) {
                a->peak[column][i] -= *credit;
                *credit = 0;
            }
        }
}

void stat_change(core_alloc_stat *stat, int64_t amount)
{
    stat->current += amount;
    if (stat->current > stat->peak)
        stat->peak = stat->current;
    if (amount > 0)
        stat->allocated += amount;
    else
        stat->freed -= amount;
}

void count_segment(core_alloc *a, int kind, int64_t count, int64_t bytes)
{
    core_alloc_stat(*family)[CORE_ALLOC_COLUMNS] = a->cold.family;
    if (count != 0) {
        stat_change(&family[CORE_ALLOC_SEGMENT][CORE_ALLOC_ALL], count);
        stat_change(&family[CORE_ALLOC_SEGMENT][CORE_ALLOC_SMALL + kind], count);
    }
    stat_change(&family[CORE_ALLOC_RESERVED_BYTES][CORE_ALLOC_ALL], bytes);
    stat_change(&family[CORE_ALLOC_RESERVED_BYTES][CORE_ALLOC_SMALL + kind], bytes);
}

/* ---- reading and resetting ---------------------------------------------------------------------- */

static const struct {
    core_alloc_family family;
    int index;
    int increased; /* whose increases these are */
} hot_families[] = {
    { CORE_ALLOC_ALLOCATION, HOT_ALLOCATION, HOT_ALLOCATION },
    { CORE_ALLOC_ACTIVE, HOT_ACTIVE, HOT_ALLOCATION },
    { CORE_ALLOC_INACTIVE_SPLIT, HOT_INACTIVE_SPLIT, HOT_INACTIVE_SPLIT },
    { CORE_ALLOC_ALLOCATED_BYTES, HOT_ALLOCATED_BYTES, HOT_ALLOCATED_BYTES },
    { CORE_ALLOC_ACTIVE_BYTES, HOT_ACTIVE_BYTES, HOT_ALLOCATED_BYTES },
    { CORE_ALLOC_INACTIVE_SPLIT_BYTES, HOT_INACTIVE_SPLIT_BYTES, HOT_INACTIVE_SPLIT_BYTES },
    { CORE_ALLOC_REQUESTED_BYTES, HOT_REQUESTED_BYTES, HOT_REQUESTED_BYTES },
};
enum { HOT_FAMILIES = sizeof hot_families / sizeof *hot_families };

static int64_t increased_sum(const core_alloc *a, int column, int index)
{
    int64_t sum = 0;
    for (const shard *s = a->shards; s != NULL; s = s->next) {
        if (column != CORE_ALLOC_LARGE)
            sum += s->ledger.increased[SMALL][index];
        if (column != CORE_ALLOC_SMALL)
            sum += s->ledger.increased[LARGE][index];
    }
    return sum;
}

core_alloc_stats core_alloc_stats_of(core_alloc *a)
{
    world_lock(a);
    ledger_settle(a); /* a request of another thread may be about to */
    core_alloc_stats stats = a->cold;
    stats.max_split_size =
        a->settings.max_split_bytes == INT64_MAX ? -1 : a->settings.max_split_bytes;
    for (int f = 0; f < HOT_FAMILIES; f++)
        for (int column = 0; column < CORE_ALLOC_COLUMNS; column++) {
            const int i = hot_families[f].index;
            core_alloc_stat *stat = &stats.family[hot_families[f].family][column];
            stat->current = hot_current(a, column, i);
            stat->peak = a->peak[column][i];
            stat->allocated = increased_sum(a, column, hot_families[f].increased);
            stat->freed = stat->allocated - (stat->current - a->at_reset[column][i]);
        }
    world_unlock(a);
    return stats;
}

int64_t core_alloc_allocated(core_alloc *a)
{
    world_lock(a);
    const int64_t bytes = hot_current(a, CORE_ALLOC_ALL, HOT_ALLOCATED_BYTES);
    world_unlock(a);
    return bytes;
}

/* The stats of `cold`: all but the families that are hot. */
static void each_cold(core_alloc *a, void (*visit)(core_alloc_stat *stat))
{
    for (int column = 0; column < CORE_ALLOC_COLUMNS; column++) {
        visit(&a->cold.family[CORE_ALLOC_SEGMENT][column]);
        visit(&a->cold.family[CORE_ALLOC_RESERVED_BYTES][column]);
    }
    visit(&a->cold.oversize_allocations);
    visit(&a->cold.oversize_segments);
}

static void reset_peak(core_alloc_stat *stat)
{
    stat->peak = stat->current;
}
static void reset_totals(core_alloc_stat *stat)
{
    stat->allocated = stat->freed = 0;
}

void core_alloc_reset_peaks(core_alloc *a)
{
    world_lock(a);
    for (int column = 0; column < CORE_ALLOC_COLUMNS; column++)
        for (int i = 0; i < HOT; i++)
            a->peak[column][i] = hot_current(a, column, i);
    for (shard *s = a->shards; s != NULL; s = s->next)
        memset(s->ledger.credit, 0, sizeof s->ledger.credit);
    each_cold(a, reset_peak);
    world_unlock(a);
}

void core_alloc_reset_accumulated(core_alloc *a)
{
    world_lock(a);
    for (int column = 0; column < CORE_ALLOC_COLUMNS; column++)
        for (int i = 0; i < HOT; i++)
            a->at_reset[column][i] = hot_current(a, column, i);
    for (shard *s = a->shards; s != NULL; s = s->next)
        memset(s->ledger.increased, 0, sizeof s->ledger.increased);
    each_cold(a, reset_totals);
    core_alloc_stats *c = &a->cold;
    c->num_alloc_retries = c->num_ooms = c->num_sync_all_streams = 0;
    c->num_device_alloc = c->num_device_free = c->num_oom_rejections = 0;
    world_unlock(a);
}
