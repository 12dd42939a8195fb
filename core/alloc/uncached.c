/* Without a cache each request is a raw call and statistics stay 0 (M062). The first of a block's streams is
 * its own, after whose work the raw free is ordered; the others are waited for before. */
#include <stdlib.h>

#include "core/alloc/engine.h"

core_alloc_block *uncached_alloc(core_alloc *a, void *stream, int64_t bytes, tern_site_t site,
                                 core_alloc_failure *out_failure)
{
    block *b = host_calloc(1, sizeof *b);
    void *data = NULL;
    const bool ready = b != NULL && block_add_stream(b, stream);
    const tern_status_t code =
        ready ? a->raw.alloc(a->raw.context, bytes, stream, &data) : TERN_ERR_OOM;
    if (code != TERN_OK) {
        if (ready)
            free(b->streams);
        free(b);
        *out_failure = (core_alloc_failure){
            .status = code, .requested = bytes, .block = bytes, .segment = bytes
        };
        failure_fill(a, NULL, LARGE, out_failure);
        return NULL;
    }
    b->pub = (core_alloc_block){
        .data = data, .size = bytes, .requested = bytes, .site = site, .front_bytes = -1
    };
    b->in_use = true;
    b->next = a->uncached;
    if (b->next != NULL)
        b->next->prev = b;
    a->uncached = b;
    return &b->pub;
}

tern_status_t uncached_free(core_alloc *a, block *b)
{
    *(b->prev != NULL ? &b->prev->next : &a->uncached) = b->next;
    if (b->next != NULL)
        b->next->prev = b->prev;
    tern_status_t code = TERN_OK;
    for (int32_t i = 1; i < b->stream_count; i++) {
        const tern_status_t waited = stream_wait(a, b->streams[i]);
        code = code != TERN_OK ? code : waited;
    }
    const tern_status_t freed =
        a->raw.free(a->raw.context, b->pub.data, b->pub.size, b->streams[0]);
    free(b->streams);
    free(b);
    return code != TERN_OK ? code : freed;
}

void uncached_destroy(core_alloc *a)
{
    while (a->uncached != NULL)
        (void)uncached_free(a, a->uncached);
}
