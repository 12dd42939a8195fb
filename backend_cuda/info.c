/* What reports show of devices, and what this plugin needs of a driver. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backend_cuda/blas.h"
#include "backend_cuda/cudnn.h"
#include "backend_cuda/nvml.h"

/* As nvidia-smi writes it, and NVML wants it. Of a part of a GPU the driver gives the part's own, and only
 * the name tells: "NVIDIA A100-SXM4-40GB MIG 1g.5gb". */
static void write_uuid(const struct cudaDeviceProp *prop, char *text, size_t size)
{
    unsigned char b[16];
    memcpy(b, prop->uuid.bytes, sizeof b);
    (void)snprintf(text, size,
                   "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                   strstr(prop->name, " MIG ") != NULL ? "MIG" : "GPU", b[0], b[1], b[2], b[3],
                   b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

/* "cuBLAS 13.1, cuDNN 9.19.0": of what is opened for that. */
static char libraries[96];

static void name_libraries(void)
{
    const char *blas = cuda_blas_version(), *dnn = cuda_dnn_version();
    (void)snprintf(libraries, sizeof libraries, "%s%s%s", blas,
                   blas[0] != '\0' && dnn[0] != '\0' ? ", " : "", dnn);
}

/* Properties are read without a context. */
static tern_status_t describe(void *context, int index, tern_backend_device *out_device)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct cudaDeviceProp prop;
    (void)context;
    (void)cuda_blas_open(), (void)cuda_dnn_version(); /* not in there, since both may log */
    (void)pthread_once(&once, name_libraries);
    CUDA_TRY(cuda_check(index, cudaGetDeviceProperties(&prop, index), "reading its properties"));
    out_device->capability = 10 * prop.major + prop.minor;
    out_device->multiprocessors = prop.multiProcessorCount;
    out_device->simulated = cuda_is_simulated();
    (void)snprintf(out_device->name, sizeof out_device->name, "%.100s", prop.name);
    (void)snprintf(out_device->pci, sizeof out_device->pci, "%04x:%02x:%02x.0",
                   (unsigned)prop.pciDomainID & 0xFFFFu, (unsigned)prop.pciBusID & 0xFFu,
                   (unsigned)prop.pciDeviceID & 0xFFu);
    out_device->warp_size = prop.warpSize;
    out_device->threads_per_multiprocessor = prop.maxThreadsPerMultiProcessor;
    out_device->shared_bytes = (int64_t)prop.sharedMemPerBlock;
    out_device->l2_bytes = prop.l2CacheSize;
    write_uuid(&prop, out_device->uuid, sizeof out_device->uuid);
    cuda_nvml_describe(out_device);
    return TERN_OK;
}

bool cuda_uuid(int index, char text[CUDA_UUID_BYTES])
{
    struct cudaDeviceProp prop;
    const bool known = cudaGetDeviceProperties(&prop, index) == cudaSuccess;
    if (known)
        write_uuid(&prop, text, CUDA_UUID_BYTES);
    else
        (void)cudaGetLastError();
    return known;
}

static int list_processes(void *context, int index, tern_backend_process *out, int most)
{
    char uuid[CUDA_UUID_BYTES];
    (void)context;
    return cuda_uuid(index, uuid) ? cuda_nvml_processes(uuid, out, most) : -1;
}

const tern_backend_info *cuda_info(void)
{
    static tern_backend_info info = {
        .size = sizeof info, .libraries = libraries, .device = describe, .processes = list_processes
    };
    int driver = 0, runtime = 0;
    if (cudaDriverGetVersion(&driver) == cudaSuccess)
        info.driver_version = driver;
    if (cudaRuntimeGetVersion(&runtime) == cudaSuccess)
        info.runtime_version = runtime;
    return &info;
}

/* Simulated devices need nothing. The build says which machine code and which PTX there is. */
#ifdef TERN_CUDA_ARCH_LIST
TERN_API const tern_backend_needs *tern_backend_needs_get(void);
const tern_backend_needs *tern_backend_needs_get(void)
{
    static const int32_t code[] = { TERN_CUDA_ARCH_LIST };
    static const tern_backend_needs needs = { .size = sizeof needs,
                                              .driver_version = CUDART_VERSION / 1000 * 1000,
                                              .ptx = TERN_CUDA_PTX,
                                              .code_count = sizeof code / sizeof *code,
                                              .code = code,
                                              .ptx_driver_version = CUDART_VERSION };
    return &needs;
}
#endif
