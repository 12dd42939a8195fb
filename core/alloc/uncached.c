/* Without a cache each request is a raw call and statistics stay 0 (M062). */
#include <stdlib.h>

#include "core/alloc/engine.h"

core_alloc_block *uncached_alloc(core_alloc *a, void *stream, int64_t bytes, tern_site_t site,
                                 core_alloc_failure *out_failure)
{
    block *b = host_calloc(1, sizeof *b);
    void *data = NULL;
    const tern_status_t code =
        b == NULL ? TERN_ERR_OOM : a->raw.alloc(a->raw.context, bytes, stream, &data);
    if (code != TERN_OK) {
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
    b->streams = stream; /* there are no others: the device's free waits for all of them */
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
    const tern_status_t code =
        a->raw.free(a->raw.context, b->pub.data, b->pub.size, (void *)b->streams);
    free(b);
    return code;
}

void uncached_destroy(core_alloc *a)
{
    while (a->uncached != NULL)
        (void)uncached_free(a, a->uncached);
}
