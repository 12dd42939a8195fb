/* How batch_norm lies in memory and is cut into blocks (isa/batch_norm.c):
 *   planes   [N, C, S] row-major with S > 1: a channel is N pieces of S elements; threads share
 *            channels, and what was just read is still in a cache when it is normalised;
 *   columns  [N, C] and channels_last: rows of C elements. Few channels are folded: `fold` rows
 *            are taken as one of fold * C columns, so that vectors are full. Threads share slabs of
 *            rows. */
#ifndef TERN_BACKEND_CPU_BATCH_NORM_H
#define TERN_BACKEND_CPU_BATCH_NORM_H

#include "backend_cpu/rows.h"
#include "tern/op_attr.h"

typedef struct cpu_norm_job {
    const tern_call *call;
    const tern_attr_norm *attr;
    const void *x;
    const void *grad; /* lies as x does */
    void *out;
    int dtype;
    bool stream;                       /* the result leaves the caches anyway */
    int64_t size;                      /* of an element */
    int64_t channels, count;           /* count: values per channel */
    int64_t images, plane;             /* planes: N and S; 0 and 0: columns */
    int64_t fold, columns, rows, left; /* columns == fold * channels; left: rows beside the folds */
    int64_t slab, slabs;               /* rows in one; how many, the rows left are one more */
    char *partial;                     /* by slab: two stat per column */
    double *sums;                      /* what partial adds up to: two per channel */
    void *mean, *scale, *shift, *slope; /* stat, by channel repeated `fold` times */
    const void *weight, *bias, *rstd;   /* stat by channel */
} cpu_norm_job;

/* From the call and x; read: arrays like x that are read. count 0: nothing else is set. */
void cpu_norm_set_geometry(cpu_norm_job *job, const tern_view *x, int read);
/* Scratch for sums, statistics and partial. False: no memory, recorded. */
bool cpu_norm_get_arrays(cpu_norm_job *job);
/* Runs `planes` over channels or `columns` over slabs, whichever applies; streams: arrays read and
 * written. */
void cpu_norm_run(cpu_norm_job *job, int streams, cpu_range_fn planes, cpu_range_fn columns);

/* Where element i of an array of stat is. */
void *cpu_norm_place(const cpu_norm_job *job, void *stat, int64_t i);
/* Sets a channel's number wherever folding repeats it. */
void cpu_norm_set_stat(const cpu_norm_job *job, void *stat, int64_t channel, double value);

/* Columns: the rows of a slab; of slab number `slabs` those that folding leaves. */
cpu_norm_block cpu_norm_slab(const cpu_norm_job *job, int64_t slab);
char *cpu_norm_partial(const cpu_norm_job *job, int64_t slab);
/* Planes: all of a channel; and its pieces in turn, whole planes while they are small, else
 * parts of one. *at counts elements of the channel, from 0. */
cpu_norm_block cpu_norm_channel(const cpu_norm_job *job, int64_t channel);
bool cpu_norm_next_piece(const cpu_norm_job *job, int64_t channel, int64_t *at,
                         cpu_norm_block *block);

#endif
