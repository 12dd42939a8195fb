#include "data/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { ALIGN_BYTES = 64 };

struct data_pool {
    pthread_mutex_t lock;
    _Atomic pid_t process; /* whose lock it is */
    data_buffer *free;
    int64_t taken; /* buffers that are held */
    bool closed;
    size_t head_bytes, x_bytes, y_bytes;
    bool has_y;
};

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

/* Bytes of `rows` rows, aligned; false when that overflows. */
static bool part_bytes(const data_part *part, int64_t rows, size_t *out_bytes)
{
    int64_t bytes;
    if (__builtin_mul_overflow(part->row_bytes, rows, &bytes) || bytes > INT64_MAX / 4) {
        return false;
    }
    *out_bytes = aligned((size_t)bytes);
    return true;
}

data_pool *data_pool_create(const tern_dataset *dataset, int64_t rows)
{
    data_pool *pool = calloc(1, sizeof *pool);
    if (!pool || !part_bytes(&dataset->x, rows, &pool->x_bytes) ||
        (dataset->has_y && !part_bytes(&dataset->y, rows, &pool->y_bytes))) {
        free(pool);
        return NULL;
    }
    pool->has_y = dataset->has_y;
    pool->head_bytes = aligned(sizeof(data_buffer));
    pthread_mutex_init(&pool->lock, NULL);
    atomic_store(&pool->process, getpid());
    return pool;
}

/* In the child of a fork nobody gives back what a thread of the parent had taken: the first one there, which is the
 * thread that forked as a rule, makes the lock anew. What that thread was at with the list costs a buffer at most. */
static void take_lock(data_pool *pool)
{
    const pid_t here = getpid();
    pid_t owner = atomic_load(&pool->process);
    if (owner != here && atomic_compare_exchange_strong(&pool->process, &owner, here)) {
        pthread_mutex_init(&pool->lock, NULL);
    }
    pthread_mutex_lock(&pool->lock);
}

static data_buffer *new_buffer(data_pool *pool)
{
    size_t bytes = pool->head_bytes + pool->x_bytes + pool->y_bytes;
    data_buffer *buffer = aligned_alloc(ALIGN_BYTES, bytes);
    if (buffer) {
        uint8_t *at = (uint8_t *)buffer + pool->head_bytes;
        *buffer = (data_buffer){ .pool = pool, .x = at };
        buffer->y = pool->has_y ? at + pool->x_bytes : NULL;
    }
    return buffer;
}

data_buffer *data_pool_take(data_pool *pool)
{
    take_lock(pool);
    data_buffer *buffer = pool->free;
    if (buffer) {
        pool->free = buffer->next;
    } else {
        buffer = new_buffer(pool);
    }
    pool->taken += buffer != NULL;
    pthread_mutex_unlock(&pool->lock);
    if (buffer) {
        atomic_store(&buffer->holders, 1);
    }
    return buffer;
}

int data_buffer_hold(data_buffer *buffer)
{
    return atomic_fetch_add(&buffer->holders, 1);
}

int data_buffer_holders(const data_buffer *buffer)
{
    return atomic_load(&buffer->holders);
}

static void free_pool(data_pool *pool)
{
    while (pool->free) {
        data_buffer *buffer = pool->free;
        pool->free = buffer->next;
        free(buffer);
    }
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

void data_buffer_let_go(data_buffer *buffer)
{
    if (atomic_fetch_sub(&buffer->holders, 1) != 1) {
        return;
    }
    data_pool *pool = buffer->pool;
    take_lock(pool);
    buffer->next = pool->free;
    pool->free = buffer;
    pool->taken--;
    bool is_last = pool->closed && pool->taken == 0;
    pthread_mutex_unlock(&pool->lock);
    if (is_last) {
        free_pool(pool);
    }
}

void data_pool_close(data_pool *pool)
{
    take_lock(pool);
    pool->closed = true;
    bool is_last = pool->taken == 0;
    pthread_mutex_unlock(&pool->lock);
    if (is_last) {
        free_pool(pool);
    }
}
