/* Worker threads that gather batches ahead of the loop. They touch raw memory only: tensors are made
 * by the thread that asks for a batch. */
#ifndef DATA_PREFETCH_H
#define DATA_PREFETCH_H

#include "data/pool.h"

typedef struct data_prefetch data_prefetch;

/* What there is to gather: batch s is samples s * batch .. of the order. Borrowed, and constant
 * while the workers run. */
typedef struct data_plan {
    const tern_dataset *dataset;
    const int64_t *order; /* NULL: as they are numbered */
    int64_t samples;      /* of the order */
    int64_t batch;
    int64_t steps;
    bool augments; /* then by this */
    data_augment augment;
} data_plan;

int64_t data_plan_rows(const data_plan *plan, int64_t step);
/* Gathers a batch on the calling thread; NULL without memory. */
data_buffer *data_plan_gather(const data_plan *plan, data_pool *pool, int64_t step);

/* Starts up to `workers` threads at batch `first`; NULL when not one can be started. */
data_prefetch *data_prefetch_start(const data_plan *plan, data_pool *pool, int workers,
                                   int64_t first);
/* The next batch in order, waiting for it; NULL when its worker found no memory. */
data_buffer *data_prefetch_next(data_prefetch *prefetch);
/* Are the workers threads of this process? They do not follow it into the child of a fork. */
bool data_prefetch_is_here(const data_prefetch *prefetch);
/* Ends the threads and lets go of what they gathered; in the child of a fork, of what was gathered by then. */
void data_prefetch_stop(data_prefetch *prefetch);

#endif
