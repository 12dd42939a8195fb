/* An allocator over a raw double of its own, for tests of single rows. */
#ifndef TESTS_ALLOC_RIG_H
#define TESTS_ALLOC_RIG_H

#include "tests/alloc/raw_table.h"

typedef struct rig {
    raw_double *d;
    raw_table table;
    core_alloc *a;
} rig;

#define KIB(n) ((int64_t)(n) << 10)
#define MIB(n) ((int64_t)(n) << 20)
#define GIB(n) ((int64_t)(n) << 30)

rig *rig_open(int64_t capacity_bytes, const char *settings);
/* Checks the invariants, ends the allocator and fails the test when the double has something left or
 * was misused. */
void rig_close(rig *r);

/* Stream s of the double as the allocator knows it. */
static inline void *rig_stream(int s)
{
    return (void *)(uintptr_t)s;
}
core_alloc_block *rig_malloc(rig *r, int64_t bytes);
void rig_free(rig *r, core_alloc_block *block);

int64_t rig_allocated(rig *r);
int64_t rig_reserved(rig *r);
int64_t rig_segments(rig *r);
core_alloc_stat rig_stat(rig *r, core_alloc_family family, core_alloc_column column);

#endif
