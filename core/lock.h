/* The library's own locks that a child of a fork may want: all are free in the child, whatever other
 * threads were doing when it was made.
 *
 * A fork takes them, and the engine of CPU memory, in the order in which they stand here; so does a
 * thread that needs two. Locks of single devices are not among them: devices cannot follow a fork. */
#ifndef TERN_CORE_LOCK_H
#define TERN_CORE_LOCK_H

typedef enum core_lock {
    CORE_LOCK_ALLOCATORS, /* which device has one, and how it is made */
    CORE_LOCK_THREADS,    /* their list, and who is parked */
    CORE_LOCK_TENSORS,    /* their list in builds that check addresses */
    CORE_LOCK_TOTALS,     /* what counters of CPU memory count from */
    CORE_LOCK_NUMERICS,
    CORE_LOCK_LOG,
    CORE_LOCKS
} core_lock;

void core_lock_take(core_lock lock);
void core_lock_end(core_lock lock);

#endif
