#include "data/prefetch.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

int64_t data_plan_rows(const data_plan *plan, int64_t step)
{
    int64_t left = plan->samples - step * plan->batch;
    return left < plan->batch ? left : plan->batch;
}

data_buffer *data_plan_gather(const data_plan *plan, data_pool *pool, int64_t step)
{
    data_buffer *buffer = data_pool_take(pool);
    if (buffer) {
        int64_t first = step * plan->batch;
        buffer->failed_sample =
            data_gather(plan->dataset, plan->order ? plan->order + first : NULL, first,
                        data_plan_rows(plan, step), plan->augments ? &plan->augment : NULL,
                        buffer->x, buffer->y);
    }
    return buffer;
}

typedef struct prefetch_slot {
    data_buffer *buffer;
    bool done;
} prefetch_slot;

/* Batch s lies in slot s % depth. Workers take batches in order while a slot is free. */
struct data_prefetch {
    const data_plan *plan;
    data_pool *pool;
    pthread_mutex_t lock;
    pthread_cond_t has_room, has_batch;
    int64_t taken;     /* next batch for a worker */
    int64_t delivered; /* next batch for the loop */
    bool stopping;
    pid_t process; /* that the workers belong to */
    int workers;
    int depth;
    pthread_t *threads;
    prefetch_slot *slots;
};

static bool has_work(const data_prefetch *p)
{
    return p->taken < p->plan->steps && p->taken < p->delivered + p->depth;
}

static void *work(void *argument)
{
    data_prefetch *p = argument;
    pthread_mutex_lock(&p->lock);
    while (!p->stopping) {
        if (!has_work(p)) {
            pthread_cond_wait(&p->has_room, &p->lock);
            continue;
        }
        int64_t step = p->taken++;
        pthread_mutex_unlock(&p->lock);
        data_buffer *buffer = data_plan_gather(p->plan, p->pool, step);
        pthread_mutex_lock(&p->lock);
        p->slots[step % p->depth] = (prefetch_slot){ buffer, true };
        pthread_cond_signal(&p->has_batch);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Signals are the program's: its handlers must not run on threads that it does not know of. */
static void start_threads(data_prefetch *p, int workers)
{
    sigset_t all, previous;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous);
    while (p->workers < workers && pthread_create(&p->threads[p->workers], NULL, work, p) == 0) {
        p->workers++;
    }
    pthread_sigmask(SIG_SETMASK, &previous, NULL);
}

static void free_prefetch(data_prefetch *p)
{
    if (p) {
        free(p->threads);
        free(p->slots);
        free(p);
    }
}

data_prefetch *data_prefetch_start(const data_plan *plan, data_pool *pool, int workers,
                                   int64_t first)
{
    data_prefetch *p = calloc(1, sizeof *p);
    if (p) {
        p->depth = workers + 1;
        p->threads = calloc((size_t)workers, sizeof *p->threads);
        p->slots = calloc((size_t)p->depth, sizeof *p->slots);
    }
    if (!p || !p->threads || !p->slots) {
        free_prefetch(p);
        return NULL;
    }
    p->plan = plan;
    p->pool = pool;
    p->taken = p->delivered = first;
    p->process = getpid();
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->has_room, NULL);
    pthread_cond_init(&p->has_batch, NULL);
    start_threads(p, workers);
    if (p->workers == 0) {
        data_prefetch_stop(p);
        return NULL;
    }
    return p;
}

data_buffer *data_prefetch_next(data_prefetch *p)
{
    pthread_mutex_lock(&p->lock);
    prefetch_slot *slot = &p->slots[p->delivered % p->depth];
    while (!slot->done) {
        pthread_cond_wait(&p->has_batch, &p->lock);
    }
    data_buffer *buffer = slot->buffer;
    *slot = (prefetch_slot){ NULL, false };
    p->delivered++;
    pthread_cond_signal(&p->has_room);
    pthread_mutex_unlock(&p->lock);
    return buffer;
}

bool data_prefetch_is_here(const data_prefetch *p)
{
    return p->process == getpid();
}

static void end_workers(data_prefetch *p)
{
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_cond_broadcast(&p->has_room);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->workers; i++) {
        pthread_join(p->threads[i], NULL);
    }
    pthread_cond_destroy(&p->has_room);
    pthread_cond_destroy(&p->has_batch);
    pthread_mutex_destroy(&p->lock);
}

void data_prefetch_stop(data_prefetch *p)
{
    if (data_prefetch_is_here(p)) {
        end_workers(p);
    }
    for (int i = 0; i < p->depth; i++) {
        if (p->slots[i].buffer) {
            data_buffer_let_go(p->slots[i].buffer);
        }
    }
    free_prefetch(p);
}
