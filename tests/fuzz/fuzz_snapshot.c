/* Memory snapshots: one that is read gives a page whose parts agree; one that is not says why. */
#include <stdlib.h>
#include <string.h>

#include "tools/tern/page.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_totals(const snapshot *s)
{
    for (int32_t d = 0; d < s->device_count; d++) {
        analysis a;
        if (!analysis_make(s, d, &a))
            abort();
        const analysis_totals *n = &a.now;
        if (n->allocated + n->pending + n->free_bytes > n->reserved ||
            n->requested > n->allocated || n->whole_bytes + n->split_bytes != n->free_bytes)
            abort();
        int64_t live = 0, peak = 0;
        for (int64_t i = 0; i < a.site_count; i++) {
            live += a.sites[i].live_bytes;
            peak += a.sites[i].peak_bytes;
        }
        if (live != n->allocated || peak < a.peak_allocated)
            abort();
        analysis_free(&a);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[SNAPSHOT_ERROR_BYTES] = "";
    snapshot s;
    if (!snapshot_parse((const char *)data, (int64_t)size, &s, error)) {
        if (error[0] == '\0')
            abort();
        return 0;
    }
    check_totals(&s);
    page p;
    if (!page_make(&s, "fuzz", &p))
        abort();
    page_free(&p);
    snapshot_free(&s);
    return 0;
}
