/* Files that are written beside their place, without a name where the file system can, and take it at the end. */
#ifndef TERN_CORE_TARGET_H
#define TERN_CORE_TARGET_H

#include <stdbool.h>
#include <stdio.h>

#include "tern/base.h"

/* A file that replaces another as a whole. Writes after a failure do nothing; commit reports it. */
typedef struct core_target {
    FILE *stream;
    char *path, *temporary;
    bool named; /* `temporary` is a file's name by now */
    tern_site_t site;
    const char *what; /* the call, for messages */
    bool failed;
} core_target;
/* False with an error of `what`, which outlives the target. A link is written through: what it leads to is
 * replaced, or made, with the mode that it had. */
bool core_target_open(tern_site_t site, const char *what, core_target *target, const char *path);
void core_target_write(core_target *target, const void *data, size_t bytes);
/* Flushes to the disk and renames; false, with an error, when anything failed: then the old file is
 * still there and the temporary one is not. Frees the target. */
bool core_target_commit(core_target *target);
/* Removes what was written, for a failure of the caller's. */
void core_target_abandon(core_target *target);

#endif
