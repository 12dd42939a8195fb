/* What lives, by site: the count behind tern_live_sites, tern_growth and the warning of tern_finish.
 *
 * A walk over the tensors' slabs finds the tensors: one with a reference count of 0 is free. Graphs are
 * walked from the calling thread's tensors along their nodes; of other threads' tensors the header alone
 * is read. Nothing of it costs anything while nobody asks. */
#ifndef TERN_CORE_LIVE_H
#define TERN_CORE_LIVE_H

#include "core/error.h"
#include "tern/debug.h"

typedef struct core_live_list { /* all zero: empty */
    tern_live_t *items;         /* most bytes first, then most tensors, then by site */
    int64_t count, capacity;
} core_live_list;

/* Counts anew. False without memory: nothing is recorded, and the list is empty. */
bool core_live_count(core_live_list *out);
void core_live_free(core_live_list *list);
/* Same text and device; sites of different files may be different pointers to one text. */
bool core_live_same(const tern_live_t *a, const tern_live_t *b);
/* Appends "12 tensors, 3 graph nodes, 1.2 MiB". */
void core_live_add(core_text *text, double tensors, double nodes, double bytes);
/* The whole list as text. */
void core_live_describe(const core_live_list *list, core_text *text);

#endif
