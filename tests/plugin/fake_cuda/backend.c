/* A CUDA plugin with two devices whose memory is the heap. It needs CUDA 12 and has code for 8.0 and 9.0;
 * in a folder "newer" it needs CUDA 13, and FAKE_NEEDS=none makes it say nothing of that. FAKE_PTX=13000 makes it name PTX for 7.5 and for drivers from that on, too. FAKE_BACKEND=refuse: it brings nothing,
 * and "cudaErrorNoDevice (100): ..." the same in these words. FAKE_FREE is what device 0 has free, device 1 has twice
 * that; FAKE_DEVICE=75: their capability. FAKE_SAYS: what its start logs. FAKE_PAUSE: a file that its start makes, and
 * then waits until it is removed; so does it as a libtern_blas.so, which it is not. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tern/error.h"
#include "tern/plugin.h"

static void *fake_alloc(void *context, int index, int64_t bytes, void *stream)
{
    (void)context, (void)index, (void)stream;
    return aligned_alloc(64, ((size_t)bytes + 63) / 64 * 64);
}

static void fake_free(void *context, int index, void *data, int64_t bytes, void *stream)
{
    (void)context, (void)index, (void)bytes, (void)stream;
    free(data);
}

static tern_status_t fake_memory_info(void *context, int index, int64_t *out_free,
                                      int64_t *out_total)
{
    const char *value = getenv("FAKE_FREE");
    (void)context;
    *out_free = (value != NULL ? atoll(value) : 1000) * (index + 1);
    *out_total = 1 << 20;
    return TERN_OK;
}

static tern_status_t fake_copy(void *context, int index, void *dst, const void *src, int64_t bytes,
                               void *stream)
{
    (void)context, (void)index, (void)stream;
    memcpy(dst, src, (size_t)bytes);
    return TERN_OK;
}

static tern_status_t fake_device(void *context, int index, tern_backend_device *out)
{
    (void)context;
    const char *capability = getenv("FAKE_DEVICE");
    out->capability = capability != NULL ? atoi(capability) : 90;
    out->multiprocessors = 7;
    (void)snprintf(out->name, sizeof out->name, "Fake GPU %d", index);
    (void)snprintf(out->uuid, sizeof out->uuid, "GPU-fake-%d", index);
    return TERN_OK;
}

static const tern_backend_memory memory = {
    .size = sizeof memory, .alloc = fake_alloc, .free = fake_free, .info = fake_memory_info
};
static const tern_backend_copy copy = {
    .size = sizeof copy, .from_host = fake_copy, .to_host = fake_copy, .on_device = fake_copy
};
static const tern_backend_info info = { .size = sizeof info,
                                        .driver_version = 13000,
                                        .runtime_version = 12090,
                                        .libraries = "fakeBLAS 1.0",
                                        .device = fake_device };
static const tern_backend backend = { .size = sizeof backend,
                                      .version = TERN_PLUGIN_VERSION,
                                      .name = "cuda",
                                      .kind = TERN_KIND_CUDA,
                                      .device_count = 2,
                                      .host_readable = true,
                                      .memory = &memory,
                                      .copy = &copy,
                                      .info = &info };

/* Ten seconds at most. */
static void make_a_pause(void)
{
    const char *path = getenv("FAKE_PAUSE");
    const int fd = path != NULL ? open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600) : -1;
    if (fd < 0)
        return;
    (void)close(fd);
    for (int i = 0; i < 10000 && access(path, F_OK) == 0; i++)
        (void)usleep(1000);
}

static const int32_t code[] = { 80, 90 };

TERN_API const tern_backend_needs *tern_backend_needs_get(void);
const tern_backend_needs *tern_backend_needs_get(void)
{
    static tern_backend_needs needs = {
        .size = sizeof needs, .driver_version = 12000, .code_count = 2, .code = code
    };
    const char *ptx = getenv("FAKE_PTX"); /* the driver that it is for */
    Dl_info own;
    if (getenv("FAKE_NEEDS") != NULL)
        return NULL;
    if (dladdr(code, &own) != 0 && strstr(own.dli_fname, "/newer/") != NULL)
        needs.driver_version = 13000;
    if (ptx != NULL) {
        needs.ptx = 75;
        needs.ptx_driver_version = atoi(ptx);
    }
    return &needs;
}

TERN_API const tern_backend *tern_backend_get(const tern_host *host, uint32_t version,
                                              const char **out_why);
const tern_backend *tern_backend_get(const tern_host *host, uint32_t version, const char **out_why)
{
    const char *wish = getenv("FAKE_BACKEND"), *says = getenv("FAKE_SAYS");
    if (says != NULL)
        host->event(TERN_LOG_WARNING, "%s", says);
    const bool with_code = wish != NULL && strncmp(wish, "cudaError", 9) == 0;
    *out_why = with_code ? wish : "the fake backend was told to refuse";
    make_a_pause();
    return version != TERN_PLUGIN_VERSION || with_code ||
                   (wish != NULL && strcmp(wish, "refuse") == 0)
               ? NULL
               : &backend;
}

TERN_API const void *tern_blas_get(const char *name, uint32_t version);
const void *tern_blas_get(const char *name, uint32_t version)
{
    (void)name, (void)version;
    make_a_pause();
    return NULL;
}
