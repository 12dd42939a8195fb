/* See core/workspace.h. */
#include "core/workspace.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/backend.h"
#include "core/device_memory.h"
#include "core/error.h"

typedef struct workspace {
    struct workspace *next;
    tern_dev_t dev;
    void *stream;
    core_alloc_block *block; /* NULL: given back */
} workspace;

/* A handful: devices times streams that multiply. */
static workspace *list;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* With the lock. */
static workspace *find(tern_dev_t dev, void *stream)
{
    for (workspace *w = list; w != NULL; w = w->next)
        if (tern_dev_equal(w->dev, dev) && w->stream == stream)
            return w;
    workspace *fresh = calloc(1, sizeof *fresh);
    if (fresh == NULL)
        return NULL;
    *fresh = (workspace){ list, dev, stream, NULL };
    list = fresh;
    return fresh;
}

static void give_back(workspace *w)
{
    if (w->block != NULL)
        core_device_free(core_self(), w->dev, w->block);
    w->block = NULL;
}

/* With the lock. What there is, if it is large enough. */
static void *present(const workspace *w, int64_t bytes)
{
    return w != NULL && w->block != NULL && w->block->size >= bytes ? w->block->data : NULL;
}

/* Not with the lock: running out of memory calls the user. */
static core_alloc_block *take(const tern_call *call, int64_t bytes)
{
    /* not at the user's line: whoever multiplies next uses the same piece */
    return core_device_malloc(core_self(), "workspace of cuBLAS", call->dev, bytes, call->stream);
}

void *core_workspace(const tern_call *call, int64_t bytes)
{
    (void)pthread_mutex_lock(&lock);
    workspace *w = find(call->dev, call->stream);
    void *data = present(w, bytes);
    (void)pthread_mutex_unlock(&lock);
    core_alloc_block *block = data == NULL && w != NULL ? take(call, bytes) : NULL;
    if (block != NULL) {
        (void)pthread_mutex_lock(&lock);
        data = present(w, bytes);
        if (data == NULL) {
            give_back(w);
            w->block = block;
            data = block->data;
            block = NULL;
        }
        (void)pthread_mutex_unlock(&lock);
        if (block != NULL) /* another thread was faster */
            core_device_free(core_self(), call->dev, block);
    }
    if (data == NULL)
        (void)call->host->fail(TERN_ERR_OOM, "no memory for %lld bytes of work space of cuBLAS",
                               (long long)bytes);
    return data;
}

void tern_clear_workspaces(tern_dev_t dev)
{
    (void)pthread_mutex_lock(&lock);
    for (workspace *w = list; w != NULL; w = w->next)
        if (w->dev.kind == dev.kind && (dev.index < 0 || w->dev.index == dev.index))
            give_back(w);
    (void)pthread_mutex_unlock(&lock);
}
