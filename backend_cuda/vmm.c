/* Virtual memory for expandable segments: the driver's calls, which the runtime hands out by name, so that
 * nothing is linked with the driver. The driver's numbers of errors are the runtime's. */
#include <cuda.h>
#include <pthread.h>
#include <string.h>

#include "backend_cuda/cuda.h"

/* X(name, parameters): as in cuda.h, since CUDA 10.2. */
#define DRIVER_CALLS(X)                                                                          \
    X(cuMemGetAllocationGranularity,                                                             \
      (size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags))                 \
    X(cuMemAddressReserve, (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long))     \
    X(cuMemAddressFree, (CUdeviceptr, size_t))                                                   \
    X(cuMemCreate,                                                                               \
      (CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long)) \
    X(cuMemRelease, (CUmemGenericAllocationHandle))                                              \
    X(cuMemMap, (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long)) \
    X(cuMemSetAccess, (CUdeviceptr, size_t, const CUmemAccessDesc *, size_t))                    \
    X(cuMemUnmap, (CUdeviceptr, size_t))

enum { SINCE_CUDA = 10020, USUAL_GRANULARITY = 2 << 20, MOST_DEVICES = 64 };

typedef struct driver_calls {
#define X(name, parameters) CUresult(*name) parameters;
    DRIVER_CALLS(X)
#undef X
} driver_calls;

static driver_calls driver;
static const char *missing; /* the first call that the driver does not have */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void *find(const char *name)
{
    void *call = NULL;
    enum cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t code =
        cudaGetDriverEntryPointByVersion(name, &call, SINCE_CUDA, cudaEnableDefault, &result);
    if (code == cudaSuccess && result == cudaDriverEntryPointSuccess && call != NULL)
        return call;
    (void)cudaGetLastError();
    if (missing == NULL)
        missing = name;
    return NULL;
}

static void find_calls(void)
{
#define X(name, parameters)                              \
    do {                                                 \
        void *call = find(#name);                        \
        memcpy(&driver.name, &call, sizeof driver.name); \
    } while (0);
    DRIVER_CALLS(X)
#undef X
}

/* The device is current and the calls are there. */
static tern_status_t enter(int index)
{
    if (cuda_device_enter(index) == NULL)
        return TERN_ERR_BACKEND;
    (void)pthread_once(&once, find_calls);
    if (missing == NULL)
        return TERN_OK;
    return cuda_host->fail(TERN_ERR_UNSUPPORTED,
                           "expandable segments: the driver of cuda:%d has no %s\n  try "
                           "TERN_ALLOC_CONF without expandable_segments",
                           index, missing);
}

static tern_status_t check(int index, CUresult code, const char *what)
{
    if (code == CUDA_ERROR_OUT_OF_MEMORY)
        return TERN_ERR_OOM; /* no error yet: the allocator has more to try */
    return cuda_check(index, (cudaError_t)code, what);
}

static CUmemAllocationProp memory_of(int index)
{
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = index;
    return prop;
}

static CUdeviceptr pointer(const void *address)
{
    return (CUdeviceptr)(uintptr_t)address;
}

/* A device that does not answer fails at the reservation, with its error. */
static int64_t granularity(void *context, int index)
{
    (void)context;
    const CUmemAllocationProp prop = memory_of(index);
    size_t bytes = 0;
    if (enter(index) != TERN_OK ||
        driver.cuMemGetAllocationGranularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) !=
            CUDA_SUCCESS ||
        bytes == 0)
        return USUAL_GRANULARITY;
    return (int64_t)bytes;
}

static tern_status_t reserve(void *context, int index, int64_t bytes, void **out_address)
{
    (void)context;
    CUdeviceptr at = 0;
    CUDA_TRY(enter(index));
    CUDA_TRY(check(index, driver.cuMemAddressReserve(&at, (size_t)bytes, 0, 0, 0),
                   "cuMemAddressReserve"));
    cuda_peers_end(); /* before anything is mapped there */
    *out_address = (void *)(uintptr_t)at;
    return TERN_OK;
}

static tern_status_t unreserve(void *context, int index, void *address, int64_t bytes)
{
    (void)context;
    CUDA_TRY(enter(index));
    return check(index, driver.cuMemAddressFree(pointer(address), (size_t)bytes),
                 "cuMemAddressFree");
}

static tern_status_t create(void *context, int index, int64_t bytes, uint64_t *out_handle)
{
    (void)context;
    const CUmemAllocationProp prop = memory_of(index);
    CUmemGenericAllocationHandle handle = 0;
    CUDA_TRY(enter(index));
    CUDA_TRY(check(index, driver.cuMemCreate(&handle, (size_t)bytes, &prop, 0), "cuMemCreate"));
    *out_handle = handle;
    return TERN_OK;
}

static tern_status_t release(void *context, int index, uint64_t handle)
{
    (void)context;
    CUDA_TRY(enter(index));
    return check(index, driver.cuMemRelease(handle), "cuMemRelease");
}

static tern_status_t unmap(void *context, int index, void *address, int64_t bytes)
{
    (void)context;
    CUDA_TRY(enter(index));
    return check(index, driver.cuMemUnmap(pointer(address), (size_t)bytes), "cuMemUnmap");
}

/* The device's own, and those that were its peers before anything was reserved. */
static size_t who_reaches(int index, CUmemAccessDesc access[MOST_DEVICES])
{
    size_t count = 0;
    memset(access, 0, MOST_DEVICES * sizeof *access);
    for (int i = 0; i < MOST_DEVICES; i++)
        if (i == index || cuda_peer_reaches(i, index)) {
            access[count].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
            access[count].location.id = i;
            access[count++].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        }
    return count;
}

/* Mapped and of use, or not mapped. */
static tern_status_t map(void *context, int index, void *address, int64_t bytes, uint64_t handle)
{
    CUmemAccessDesc access[MOST_DEVICES];
    (void)context;
    CUDA_TRY(enter(index));
    CUDA_TRY(
        check(index, driver.cuMemMap(pointer(address), (size_t)bytes, 0, handle, 0), "cuMemMap"));
    const size_t count = who_reaches(index, access);
    const tern_status_t code =
        check(index, driver.cuMemSetAccess(pointer(address), (size_t)bytes, access, count),
              "cuMemSetAccess");
    if (code != TERN_OK)
        (void)driver.cuMemUnmap(pointer(address), (size_t)bytes);
    return code;
}

const tern_backend_vmm cuda_vmm = { .size = sizeof cuda_vmm,
                                    .granularity = granularity,
                                    .reserve = reserve,
                                    .unreserve = unreserve,
                                    .create = create,
                                    .map = map,
                                    .unmap = unmap,
                                    .release = release };
