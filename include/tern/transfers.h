/* What moves between host and devices and how often the host waits, by line of the program.
 *
 * Always on: a transfer costs a few nanoseconds more, everything else nothing. Work that stays on the CPU
 * counts nowhere. Counted is what calls of the program ask for, not what the allocator does when memory
 * is used up (that is in tern_memory_stats). */
#ifndef TERN_TRANSFERS_H
#define TERN_TRANSFERS_H

#include "tern/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tern_moved_t {
    int64_t count, bytes;
} tern_moved_t;

typedef struct tern_transfers_t {
    tern_site_t site;       /* the line of the outermost call; NULL: of a call without one */
    tern_moved_t to_device; /* tern_to, tern_copy, tern_from_data, tern_module_to, loaders */
    tern_moved_t to_host;   /* tern_cpu, tern_read, tern_print */
    tern_moved_t between;   /* from one device to another */
    tern_moved_t reads;     /* single numbers: tern_item, and what the gradient scaler looks at */
    int64_t syncs;          /* times that the host waited until a device was done */
} tern_transfers_t;

/* Fills `out` with up to `capacity` lines, most bytes first, then most often, and returns how many there
 * are; -1 with an error recorded without memory. `out` may be NULL: only the count is wanted. Each number is
 * exact by itself; while other threads transfer, some may be newer than others. */
TERN_API int64_t tern_transfers_at(tern_site_t site, tern_transfers_t *out, int64_t capacity);
#define tern_transfers(out, capacity) tern_transfers_at(TERN_HERE, out, capacity)
/* The sums over all lines; its site is NULL. Never fails. */
TERN_API tern_transfers_t tern_transfers_total(void);
/* All counts become 0. What another thread transfers meanwhile may be counted or not. */
TERN_API void tern_transfers_reset(void);
/* As text: a line with the sums, then one for each line of the program, as many as fit; returns
 * `buffer`. */
TERN_API const char *tern_transfers_text_at(tern_site_t site, char *buffer, size_t bytes);
#define tern_transfers_text(buffer, bytes) tern_transfers_text_at(TERN_HERE, buffer, bytes)

#ifdef __cplusplus
}
#endif
#endif
