/* Finding leaks, and faults for tests. */
#ifndef TERN_DEBUG_H
#define TERN_DEBUG_H

#include "tern/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The k-th allocation from now (1: the next) of tensors, data or tape fails as if memory were used
 * up, in whichever thread makes it; 0 switches it off. */
TERN_API void tern_debug_fail_allocation(int64_t k);
/* What is left of the countdown: 0 off or never set, negative counts on after the failure. */
TERN_API int64_t tern_debug_allocations_left(void);

/* ---- leaks -------------------------------------------------------------------------------------
 * What lives is found by walking memory that tensors come from anyway, so that nothing is slower when
 * nobody asks. Other threads may go on meanwhile, and what they are making or releasing may count
 * wrong; only what the calling thread made they may not release. Of tensors that other threads made,
 * those that have ended too, their number, parameters and bytes count (the elements' own, where a
 * storage has more), but not the nodes of their graphs, unless a tensor of the calling thread holds
 * them as well. tern_finish logs what is still retained (a warning). */

typedef struct tern_live_t {
    tern_site_t site; /* the line that made them; NULL: made outside of any call with a site */
    tern_dev_t device;
    int64_t tensors;    /* views, gradients and what graphs saved, too */
    int64_t bytes;      /* of their memory; what several tensors share counts once */
    int64_t parameters; /* of the tensors, leaves that require a gradient */
    int64_t nodes;      /* recorded calls made there, in graphs that this thread's tensors hold */
} tern_live_t;

/* Fills `out` with up to `capacity` sites, most bytes first, and returns how many there are; -1 with an
 * error recorded when there is no memory for the count. `out` may be NULL: only the count is wanted. */
TERN_API int64_t tern_live_sites_at(tern_site_t site, tern_live_t *out, int64_t capacity);
#define tern_live_sites(out, capacity) tern_live_sites_at(TERN_HERE, out, capacity)
/* The same as text: a line for all, then one for each site, as many as fit; returns `buffer`. */
TERN_API const char *tern_live_text_at(tern_site_t site, char *buffer, size_t bytes);
#define tern_live_text(buffer, bytes) tern_live_text_at(TERN_HERE, buffer, bytes)

/* What grows with every call of a step:
 *
 *   tern_growth *growth = tern_growth_begin();
 *   for (int i = 0; i < 6; i++) {
 *       step();
 *       tern_growth_mark(growth);
 *   }
 *   char text[2000];
 *   fputs(tern_growth_text(growth, text, sizeof text), stderr);
 *   tern_growth_end(growth);
 *
 * The first mark is where counting starts, because a first step makes things that stay (gradients, the
 * optimizer's state). A site grows when its tensors, their bytes or its nodes became more in half of
 * the later steps at least, and never fewer. */
typedef struct tern_growth tern_growth;

typedef struct tern_growth_t {
    tern_live_t now;                          /* at the last mark */
    double tensors, bytes, parameters, nodes; /* more with each step, on average */
} tern_growth_t;

/* NULL without memory, recorded. NULL is fine in the others. tern_growth_end returns its memory. */
TERN_API tern_growth *tern_growth_begin_at(tern_site_t site);
#define tern_growth_begin() tern_growth_begin_at(TERN_HERE)
TERN_API tern_status_t tern_growth_mark_at(tern_site_t site, tern_growth *growth);
#define tern_growth_mark(growth) tern_growth_mark_at(TERN_HERE, growth)
/* Fills `out` with up to `capacity` sites that grow, most bytes first, and returns how many there are:
 * 0 after fewer than three marks. */
TERN_API int64_t tern_growth_report(const tern_growth *growth, tern_growth_t *out,
                                    int64_t capacity);
/* The same as text, with what is likely the mistake; returns `buffer`. */
TERN_API const char *tern_growth_text(const tern_growth *growth, char *buffer, size_t bytes);
TERN_API void tern_growth_end(tern_growth *growth);

#ifdef __cplusplus
}
#endif
#endif
