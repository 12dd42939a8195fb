/* What a report says about one device of a snapshot: totals, the course of its memory, sites. */
#ifndef TOOLS_TERN_ANALYSIS_H
#define TOOLS_TERN_ANALYSIS_H

#include "tools/tern/snapshot.h"

enum { ANALYSIS_BUCKETS = 1200, ANALYSIS_OOMS = 100 };

/* Of the segments: where every reserved byte is. */
typedef struct analysis_totals {
    int64_t reserved, allocated, requested, pending, free_bytes;
    int64_t segments, blocks, largest_free;
    /* What empty_cache returns: segments that are wholly free, and of expandable ones the pages that are. */
    int64_t whole_segments, whole_bytes;
    int64_t split_segments, split_bytes; /* free beside blocks in use: stays reserved */
} analysis_totals;

/* A stretch of the trace, as wide as a pixel: the extremes in it, so that no peak is lost. */
typedef struct analysis_bucket {
    int64_t column;                      /* pixel, from 0 */
    int64_t first, last;                 /* events, last included */
    int64_t low, high, end;              /* allocated; after the last event */
    int64_t reserved_high, reserved_end; /* the same of reserved */
    int64_t largest;                     /* event: the largest alloc in the bucket, -1: none */
} analysis_bucket;

typedef struct analysis_site {
    int32_t site; /* in snapshot.sites; -1: allocated before the trace begins */
    int64_t live_bytes, live_blocks;
    int64_t peak_bytes, peak_blocks; /* at the moment when most was allocated */
} analysis_site;

typedef struct analysis_oom {
    int64_t event, bucket;
    int64_t allocated, reserved, pending; /* when it happened */
} analysis_oom;

typedef struct analysis {
    int32_t device;
    analysis_totals now;
    bool has_times;        /* every event has a time, and they do not go back */
    bool counts_requested; /* the trace has sizes as asked for, not as rounded */
    int64_t start_us, end_us;
    int64_t start_allocated, start_reserved; /* before the first event */
    int64_t columns;                         /* pixels that the trace takes */
    int64_t bucket_count;
    analysis_bucket *buckets;
    int64_t peak_allocated, peak_reserved, peak_event, peak_bucket; /* event -1: before the first */
    int64_t oom_count; /* those above ANALYSIS_OOMS are counted alone */
    analysis_oom ooms[ANALYSIS_OOMS];
    analysis_site *sites; /* most live bytes first, then most at the peak */
    int64_t site_count;
} analysis;

/* False without memory; to be freed in any case. */
bool analysis_make(const snapshot *s, int32_t device, analysis *out);
void analysis_free(analysis *a);

#endif
