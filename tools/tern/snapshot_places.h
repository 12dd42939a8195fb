/* Frames of a snapshot as places: see snapshot.h. */
#ifndef TOOLS_TERN_SNAPSHOT_PLACES_H
#define TOOLS_TERN_SNAPSHOT_PLACES_H

#include <cjson/cJSON.h>

#include "tools/tern/snapshot.h"

/* Place 0, "nothing was recorded"; false without memory. To be called before the others. */
bool snapshot_places_begin(snapshot *s);
/* The place of an array of {filename, line, name}; 0 for what is none. -1 without memory. */
int32_t snapshot_place(snapshot *s, const cJSON *frames);

#endif
