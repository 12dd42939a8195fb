/* The least that a backend is: one device whose memory is the heap, copies, no kernels. Everything
 * that needs a kernel is reported as unsupported, with op and device. A start for a new backend. */
#include <stdlib.h>
#include <string.h>

#include "tern/plugin.h"

static void *null_alloc(void *context, int index, int64_t bytes, void *stream)
{
    (void)context, (void)index, (void)stream;
    return aligned_alloc(64, ((size_t)bytes + 63) / 64 * 64);
}

static void null_free(void *context, int index, void *data, int64_t bytes, void *stream)
{
    (void)context, (void)index, (void)bytes, (void)stream;
    free(data);
}

static tern_status_t null_copy(void *context, int index, void *dst, const void *src, int64_t bytes,
                               void *stream)
{
    (void)context, (void)index, (void)stream;
    memcpy(dst, src, (size_t)bytes);
    return TERN_OK;
}

static const tern_backend_memory memory = { .size = sizeof memory,
                                            .alloc = null_alloc,
                                            .free = null_free };
static const tern_backend_copy copy = {
    .size = sizeof copy, .from_host = null_copy, .to_host = null_copy, .on_device = null_copy
};
static const tern_backend backend = { .size = sizeof backend,
                                      .version = TERN_PLUGIN_VERSION,
                                      .name = "null",
                                      .kind = TERN_KIND_EXT,
                                      .device_count = 1,
                                      .host_readable = true,
                                      .memory = &memory,
                                      .copy = &copy };

TERN_API const tern_backend *tern_backend_get(const tern_host *host, uint32_t version,
                                              const char **out_why);
const tern_backend *tern_backend_get(const tern_host *host, uint32_t version, const char **out_why)
{
    (void)host;
    if (version == TERN_PLUGIN_VERSION)
        return &backend;
    *out_why = "the null backend speaks another version of the plugin interface";
    return NULL;
}
