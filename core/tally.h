/* How much CPU memory tensors have: counted per thread, with the peaks of the sum.
 *
 * Small requests (as the engine's small pool) touch the calling thread's numbers alone. `bound - made` is
 * the room that a thread may use up before the sum of all threads could rise: an end adds to it, so a
 * peak is looked at only when it may be a new one. A thread with more than CORE_TALLY_SLACK of room gives
 * it back, so peaks are exact for one thread and at most that much too high for each further one. Large
 * requests change the sum at once. */
#ifndef TERN_CORE_TALLY_H
#define TERN_CORE_TALLY_H

#include "core/alloc/alloc.h"
#include "core/thread.h"

enum { CORE_TALLY_SLACK = 4 << 20, CORE_TALLY_LARGE = 1 << 20 };

/* The sum rises; room goes back. */
void core_tally_rise(core_tally *t);
void core_tally_fall(core_tally *t);
void core_tally_large(core_tally *t, int64_t size, int64_t bytes);
void core_tally_large_end(int64_t size, int64_t bytes);

/* Only the owner writes; others read meanwhile. */
static inline void core_tally_set(int64_t *at, int64_t value)
{
    __atomic_store_n(at, value, __ATOMIC_RELAXED);
}

/* A block of `size` bytes for a request of `bytes`. */
static inline void core_tally_small(core_tally *t, int64_t size, int64_t bytes)
{
    const int64_t count = t->made[CORE_TALLY_COUNT] + 1;
    const int64_t sizes = t->made[CORE_TALLY_BYTES] + size;
    const int64_t requested = t->made[CORE_TALLY_REQUESTED] + bytes;
    core_tally_set(&t->made[CORE_TALLY_COUNT], count);
    core_tally_set(&t->made[CORE_TALLY_BYTES], sizes);
    core_tally_set(&t->made[CORE_TALLY_REQUESTED], requested);
    const int64_t left = (t->bound[CORE_TALLY_COUNT] - count) |
                         (t->bound[CORE_TALLY_BYTES] - sizes) |
                         (t->bound[CORE_TALLY_REQUESTED] - requested);
    if (__builtin_expect(left < 0, 0))
        core_tally_rise(t);
}

static inline void core_tally_small_end(core_tally *t, int64_t size, int64_t bytes)
{
    const int64_t sizes = t->bound[CORE_TALLY_BYTES] + size;
    core_tally_set(&t->bound[CORE_TALLY_COUNT], t->bound[CORE_TALLY_COUNT] + 1);
    core_tally_set(&t->bound[CORE_TALLY_BYTES], sizes);
    core_tally_set(&t->bound[CORE_TALLY_REQUESTED], t->bound[CORE_TALLY_REQUESTED] + bytes);
    if (__builtin_expect(sizes - t->made[CORE_TALLY_BYTES] > CORE_TALLY_SLACK, 0))
        core_tally_fall(t);
}

static inline void core_tally_add(core_tally *t, int64_t size, int64_t bytes)
{
    if (size <= CORE_TALLY_LARGE)
        core_tally_small(t, size, bytes);
    else
        core_tally_large(t, size, bytes);
}

static inline void core_tally_end(core_tally *t, int64_t size, int64_t bytes)
{
    if (size <= CORE_TALLY_LARGE)
        core_tally_small_end(t, size, bytes);
    else
        core_tally_large_end(size, bytes);
}

/* Fills the families that are counted here: allocation, active, and their bytes. */
void core_tally_read(core_alloc_stats *stats);
/* What tensors have now. */
int64_t core_tally_bytes(void);
/* Every peak becomes its current value; every total 0. */
void core_tally_reset_peaks(core_tally *own);
void core_tally_reset_totals(void);

#endif
