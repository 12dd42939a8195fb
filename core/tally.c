/* See core/tally.h. */
#include "core/tally.h"

#include <stdatomic.h>

#include "core/lock.h"

/* Of small ones what is live and the room of all threads; of large ones what is live. */
static _Atomic int64_t small_top[CORE_TALLIES], large_now[CORE_TALLIES];
static _Atomic int64_t peaks[CORE_ALLOC_COLUMNS][CORE_TALLIES];

static void note_peak(int column, int i, int64_t value)
{
    _Atomic int64_t *peak = &peaks[column][i];
    int64_t seen = atomic_load_explicit(peak, memory_order_relaxed);
    while (seen < value && !atomic_compare_exchange_weak_explicit(
                               peak, &seen, value, memory_order_relaxed, memory_order_relaxed))
        ;
}

static int64_t change(_Atomic int64_t *sum, int64_t amount)
{
    return atomic_fetch_add_explicit(sum, amount, memory_order_relaxed) + amount;
}

void core_tally_rise(core_tally *t)
{
    for (int i = 0; i < CORE_TALLIES; i++) {
        const int64_t debt = t->made[i] - t->bound[i];
        if (debt <= 0)
            continue;
        core_tally_set(&t->bound[i], t->made[i]);
        const int64_t top = change(&small_top[i], debt);
        note_peak(CORE_ALLOC_SMALL, i, top);
        note_peak(CORE_ALLOC_ALL, i,
                  top + atomic_load_explicit(&large_now[i], memory_order_relaxed));
    }
}

void core_tally_fall(core_tally *t)
{
    for (int i = 0; i < CORE_TALLIES; i++) {
        const int64_t room = t->bound[i] - t->made[i];
        core_tally_set(&t->bound[i], t->made[i]);
        (void)change(&small_top[i], -room);
    }
}

/* Room of small ones goes back first: it is no part of the common peak. */
void core_tally_large(core_tally *t, int64_t size, int64_t bytes)
{
    const int64_t amounts[CORE_TALLIES] = { 1, size, bytes };
    core_tally_fall(t);
    for (int i = 0; i < CORE_TALLIES; i++) {
        core_tally_set(&t->large[i], t->large[i] + amounts[i]);
        const int64_t now = change(&large_now[i], amounts[i]);
        note_peak(CORE_ALLOC_LARGE, i, now);
        note_peak(CORE_ALLOC_ALL, i,
                  now + atomic_load_explicit(&small_top[i], memory_order_relaxed));
    }
}

void core_tally_large_end(int64_t size, int64_t bytes)
{
    (void)change(&large_now[CORE_TALLY_COUNT], -1);
    (void)change(&large_now[CORE_TALLY_BYTES], -size);
    (void)change(&large_now[CORE_TALLY_REQUESTED], -bytes);
}

/* ---- reading ---------------------------------------------------------------------------------- */

typedef struct sums {
    int64_t made[CORE_ALLOC_COLUMNS][CORE_TALLIES], now[CORE_ALLOC_COLUMNS][CORE_TALLIES];
} sums;

static void add_thread(tern_thread *thread, void *user)
{
    sums *sum = user;
    const core_tally *t = &thread->blocks.tally;
    for (int i = 0; i < CORE_TALLIES; i++) {
        const int64_t made = __atomic_load_n(&t->made[i], __ATOMIC_RELAXED);
        sum->made[CORE_ALLOC_SMALL][i] += made;
        sum->made[CORE_ALLOC_LARGE][i] += __atomic_load_n(&t->large[i], __ATOMIC_RELAXED);
        sum->now[CORE_ALLOC_SMALL][i] += made - __atomic_load_n(&t->bound[i], __ATOMIC_RELAXED);
    }
}

static sums add_up(void)
{
    sums sum = { 0 };
    core_thread_each(add_thread, &sum);
    for (int i = 0; i < CORE_TALLIES; i++) {
        sum.now[CORE_ALLOC_SMALL][i] += atomic_load_explicit(&small_top[i], memory_order_relaxed);
        sum.now[CORE_ALLOC_LARGE][i] = atomic_load_explicit(&large_now[i], memory_order_relaxed);
        sum.made[CORE_ALLOC_ALL][i] = sum.made[CORE_ALLOC_SMALL][i] + sum.made[CORE_ALLOC_LARGE][i];
        sum.now[CORE_ALLOC_ALL][i] = sum.now[CORE_ALLOC_SMALL][i] + sum.now[CORE_ALLOC_LARGE][i];
    }
    return sum;
}

/* What the totals count from. */
static sums at_reset;

void core_tally_read(core_alloc_stats *stats)
{
    static const struct {
        core_alloc_family family;
        int index;
    } families[] = { { CORE_ALLOC_ALLOCATION, CORE_TALLY_COUNT },
                     { CORE_ALLOC_ACTIVE, CORE_TALLY_COUNT },
                     { CORE_ALLOC_ALLOCATED_BYTES, CORE_TALLY_BYTES },
                     { CORE_ALLOC_ACTIVE_BYTES, CORE_TALLY_BYTES },
                     { CORE_ALLOC_REQUESTED_BYTES, CORE_TALLY_REQUESTED } };
    core_lock_take(CORE_LOCK_TOTALS);
    const sums sum = add_up();
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (int column = 0; column < CORE_ALLOC_COLUMNS; column++) {
            core_alloc_stat *stat = &stats->family[families[f].family][column];
            const int i = families[f].index;
            const int64_t peak = atomic_load_explicit(&peaks[column][i], memory_order_relaxed);
            stat->current = sum.now[column][i];
            stat->peak = peak > stat->current ? peak : stat->current;
            stat->allocated = sum.made[column][i] - at_reset.made[column][i];
            stat->freed = stat->allocated - (stat->current - at_reset.now[column][i]);
        }
    core_lock_end(CORE_LOCK_TOTALS);
}

int64_t core_tally_bytes(void)
{
    return add_up().now[CORE_ALLOC_ALL][CORE_TALLY_BYTES];
}

void core_tally_reset_peaks(core_tally *own)
{
    core_tally_fall(own);
    const sums sum = add_up();
    for (int column = 0; column < CORE_ALLOC_COLUMNS; column++)
        for (int i = 0; i < CORE_TALLIES; i++)
            atomic_store_explicit(&peaks[column][i], sum.now[column][i], memory_order_relaxed);
}

void core_tally_reset_totals(void)
{
    core_lock_take(CORE_LOCK_TOTALS);
    at_reset = add_up();
    core_lock_end(CORE_LOCK_TOTALS);
}
