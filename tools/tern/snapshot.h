/* A memory snapshot as read from JSON: what tern writes, and what PyTorch's
 * torch.cuda.memory._snapshot() (or memory_snapshot(), the segments alone) gives through json.dump.
 *
 * After snapshot_read everything is checked: sizes are not negative, blocks lie in their segments in
 * order, what was asked for is not more than what was given, every place and device index is valid.
 * No sum can overflow: all segments, and all events, together have less than 2^60 bytes. */
#ifndef TOOLS_TERN_SNAPSHOT_H
#define TOOLS_TERN_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/tern/names.h"

enum { SNAPSHOT_ERROR_BYTES = 512, SNAPSHOT_NAME_BYTES = 32, SNAPSHOT_DEVICES = 64 };
/* A parsed file takes about ten times its size in memory. */
#define SNAPSHOT_FILE_LIMIT (256LL << 20)

typedef enum snapshot_state { SNAPSHOT_INACTIVE, SNAPSHOT_ACTIVE, SNAPSHOT_PENDING } snapshot_state;

typedef enum snapshot_action {
    SNAPSHOT_ALLOC,
    SNAPSHOT_FREE_REQUESTED, /* the program let go */
    SNAPSHOT_FREE_COMPLETED, /* streams that used it are done */
    SNAPSHOT_SEGMENT_ALLOC,
    SNAPSHOT_SEGMENT_FREE,
    SNAPSHOT_SEGMENT_MAP,
    SNAPSHOT_SEGMENT_UNMAP,
    SNAPSHOT_OOM,
    SNAPSHOT_TAKEN,
    SNAPSHOT_OTHER /* an action that a newer writer knows: counted, not drawn */
} snapshot_action;

typedef struct snapshot_block {
    uint64_t address;
    int64_t size, requested;
    int32_t place;
    snapshot_state state;
} snapshot_block;

typedef struct snapshot_segment {
    uint64_t address;
    int64_t size, stream;
    int32_t device;
    bool small, private_pool;
    int64_t page_bytes; /* of an expandable one, else 0 */
    int64_t first_block, block_count;
} snapshot_segment;

typedef struct snapshot_event {
    uint64_t address;              /* of an OOM: what the device had free; 0: not known */
    int64_t size, stream, time_us; /* time_us -1: not known */
    int32_t place;
    snapshot_action action;
} snapshot_event;

typedef struct snapshot_device {
    char name[SNAPSHOT_NAME_BYTES];
    snapshot_event *events; /* oldest first */
    int64_t event_count;
} snapshot_device;

typedef struct snapshot {
    snapshot_segment *segments; /* in the order of the file */
    int64_t segment_count;
    snapshot_block *blocks;
    int64_t block_count;
    snapshot_device devices[SNAPSHOT_DEVICES];
    int32_t device_count;
    /* Places: a stack of at most eight frames, one a line, innermost first. Place 0 is "nothing was
     * recorded". A place's site is its first frame in the user's own code. */
    names stacks, sites;
    int32_t *site_of; /* by place */
    int32_t site_capacity;
} snapshot;

/* Reads a file ("-": standard input). False: *out is empty and error says what is wrong, without the
 * path. */
bool snapshot_read(const char *path, snapshot *out, char error[SNAPSHOT_ERROR_BYTES]);
/* The same from text in memory. */
bool snapshot_parse(const char *text, int64_t bytes, snapshot *out,
                    char error[SNAPSHOT_ERROR_BYTES]);
void snapshot_free(snapshot *s);

#endif
