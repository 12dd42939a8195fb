/* Memory of batches. A buffer holds x and y of one batch; the tensors made over it hold it, and when
 * the last of them is gone, in whichever thread, it is free for a later batch; in the child of a fork, too. */
#ifndef DATA_POOL_H
#define DATA_POOL_H

#include "data/dataset.h"

typedef struct data_pool data_pool;

typedef struct data_buffer {
    data_pool *pool;
    struct data_buffer *next; /* in the list of free ones */
    void *x, *y;              /* y: NULL when the dataset has none */
    _Atomic int holders;
    int64_t failed_sample; /* what data_gather returned */
} data_buffer;

/* Makes buffers for `rows` samples of a dataset. NULL without memory. */
data_pool *data_pool_create(const tern_dataset *dataset, int64_t rows);
/* A free buffer, or a new one, with one holder: the caller. NULL without memory. Any thread. */
data_buffer *data_pool_take(data_pool *pool);
/* One holder more; returns how many there were. */
int data_buffer_hold(data_buffer *buffer);
int data_buffer_holders(const data_buffer *buffer);
/* One holder less. Any thread. */
void data_buffer_let_go(data_buffer *buffer);
/* The owner is done; the pool ends with its last buffer that is held. */
void data_pool_close(data_pool *pool);

#endif
