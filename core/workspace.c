/* See core/workspace.h. */
#include "core/workspace.h"

#include <stdlib.h>

#include "core/backend.h"
#include "core/device_memory.h"
#include "core/error.h"
#include "core/lock.h"

typedef struct workspace {
    struct workspace *next;
    tern_dev_t dev;
    void *stream;
    core_alloc_block *block; /* NULL: given back */
} workspace;

/* A handful: devices times streams that multiply. */
static workspace *list;

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

/* Not with the lock: the device's allocator may wait for the device. */
static void give_back(tern_dev_t dev, core_alloc_block *block)
{
    if (block != NULL)
        core_device_free(core_self(), dev, block);
}

/* With the lock. What there is, if it is large enough. */
static void *present(const workspace *w, int64_t bytes)
{
    return w != NULL && w->block != NULL && w->block->size >= bytes ? w->block->data : NULL;
}

static core_alloc_block *part_with(workspace *w)
{
    core_lock_take(CORE_LOCK_WORKSPACES);
    core_alloc_block *block = w->block;
    w->block = NULL;
    core_lock_end(CORE_LOCK_WORKSPACES);
    return block;
}

/* Not with the lock: running out of memory calls the user. */
static core_alloc_block *take(const tern_call *call, int64_t bytes)
{
    /* not at the user's line: whoever multiplies next uses the same piece */
    return core_device_malloc(core_self(), "workspace of cuBLAS", call->dev, bytes, call->stream);
}

/* The dispatcher says for which op. */
static void *refuse(const tern_call *call, int64_t bytes, bool asked)
{
    const char *why = "";
    const tern_status_t code = asked ? core_oom_take(&why) : TERN_ERR_OOM;
    if (code != TERN_ERR_OOM)
        (void)call->host->fail(code, "%s", why);
    else
        (void)call->host->fail(TERN_ERR_OOM,
                               "no memory for %lld bytes of work space of cuBLAS; less will "
                               "do, slower: CUBLAS_WORKSPACE_CONFIG=:16:8; nvidia-smi lists who "
                               "holds the GPU's memory",
                               (long long)bytes);
    return NULL;
}

void *core_workspace(const tern_call *call, int64_t bytes)
{
    core_lock_take(CORE_LOCK_WORKSPACES);
    workspace *w = find(call->dev, call->stream);
    void *data = present(w, bytes);
    core_lock_end(CORE_LOCK_WORKSPACES);
    core_alloc_block *block = data == NULL && w != NULL ? take(call, bytes) : NULL;
    if (block != NULL) {
        core_lock_take(CORE_LOCK_WORKSPACES);
        data = present(w, bytes);
        if (data == NULL) {
            core_alloc_block *smaller = w->block;
            w->block = block;
            data = block->data;
            block = smaller;
        } /* else another thread was faster */
        core_lock_end(CORE_LOCK_WORKSPACES);
        give_back(call->dev, block);
    }
    return data != NULL ? data : refuse(call, bytes, w != NULL);
}

void tern_clear_workspaces(tern_dev_t dev)
{
    core_lock_take(CORE_LOCK_WORKSPACES);
    workspace *first = list; /* which only grows, before it */
    core_lock_end(CORE_LOCK_WORKSPACES);
    for (workspace *w = first; w != NULL; w = w->next)
        if (w->dev.kind == dev.kind && (dev.index < 0 || w->dev.index == dev.index))
            give_back(w->dev, part_with(w));
}
