/* The plugin's one exported function: the table of the CUDA backend, real (libtern_cuda.so) or with
 * simulated devices (libtern_sim.so). */
#include "backend_cuda/cuda.h"

static tern_backend backend;

TERN_API const tern_backend *tern_backend_get(const tern_host *host, uint32_t version,
                                              const char **out_why);
const tern_backend *tern_backend_get(const tern_host *host, uint32_t version, const char **out_why)
{
    if (version != TERN_PLUGIN_VERSION) {
        *out_why = "it was built for another version of the plugin interface";
        return NULL;
    }
    cuda_host = host;
    const int count = cuda_device_count(out_why);
    if (count == 0)
        return NULL;
    backend = (tern_backend){ .size = sizeof backend,
                              .version = TERN_PLUGIN_VERSION,
                              .name = "cuda",
                              .kind = TERN_KIND_CUDA,
                              .device_count = (int16_t)count,
                              .memory = &cuda_memory,
                              .copy = &cuda_copy_table,
                              .stream = &cuda_stream_table,
                              .kernels = cuda_kernels,
                              .kernel_count = cuda_kernel_count,
                              .event = &cuda_event_table,
                              .vmm = &cuda_vmm,
                              .info = cuda_info() };
    return &backend;
}
