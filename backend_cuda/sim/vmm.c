/* The driver's calls for virtual memory. A reservation is one allocation of the arena, closed but where
 * memory is mapped and access was given; a piece of memory is a number of bytes of its device, which are
 * the arena's own at the place where it is mapped: what it held is lost when it is unmapped. */
#include <cuda.h>
#include <stdlib.h>
#include <string.h>

#include "backend_cuda/sim/sim.h"

typedef struct piece {
    struct piece *next;
    uint64_t handle;
    int64_t bytes;
    int device;
    bool mapped, released;
} piece;

static piece *pieces;
static uint64_t handles;

static CUresult refuse(const char *call, const char *why)
{
    sim_report(cudaErrorInvalidValue, "%s: %s", call, why);
    return CUDA_ERROR_INVALID_VALUE;
}

/* The driver keeps no error for later. */
static CUresult end(CUresult code)
{
    (void)sim_end(cudaSuccess);
    return code;
}

static CUresult begin(const char *call)
{
    return (CUresult)sim_begin_device(call);
}

static piece *find_piece(uint64_t handle)
{
    piece *p = pieces;
    while (p != NULL && p->handle != handle)
        p = p->next;
    return p;
}

/* Released and mapped nowhere: its bytes are the device's again. */
static void drop_if_done(piece *p)
{
    if (!p->released || p->mapped)
        return;
    sim_memory_use(p->device, -p->bytes);
    piece **at = &pieces;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    free(p);
}

static bool whole(int64_t bytes)
{
    return bytes > 0 && bytes % SIM_GRANULARITY == 0;
}

/* The reservation that holds the range; NULL: none does. */
static sim_allocation *reservation_of(CUdeviceptr address, size_t bytes)
{
    sim_allocation *x = sim_memory_find((const void *)(uintptr_t)address);
    const int64_t from = x != NULL ? (int64_t)(address - (uintptr_t)x->view) : 0;
    return x != NULL && x->live && x->pages != NULL && from % SIM_GRANULARITY == 0 &&
                   whole((int64_t)bytes) && from + (int64_t)bytes <= x->bytes
               ? x
               : NULL;
}

static int64_t page_of(const sim_allocation *x, CUdeviceptr address)
{
    return (int64_t)(address - (uintptr_t)x->view) / SIM_GRANULARITY;
}

/* ---- addresses ------------------------------------------------------------------------------- */

static CUresult get_granularity(size_t *out, const CUmemAllocationProp *prop,
                                CUmemAllocationGranularity_flags flags)
{
    (void)prop, (void)flags;
    const CUresult code = begin("cuMemGetAllocationGranularity");
    if (code == CUDA_SUCCESS)
        *out = SIM_GRANULARITY;
    return end(code);
}

static CUresult address_reserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr wish,
                                unsigned long long flags)
{
    (void)alignment, (void)wish, (void)flags;
    CUresult code = begin("cuMemAddressReserve");
    if (code == CUDA_SUCCESS && !whole((int64_t)bytes))
        code = refuse("cuMemAddressReserve", "the size is no multiple of the granularity");
    if (code == CUDA_SUCCESS) {
        const sim_allocation *x =
            sim_memory_reserve(sim_current_device(), (int64_t)bytes, __builtin_return_address(0));
        *out = x != NULL ? (CUdeviceptr)(uintptr_t)x->view : 0;
        code = x != NULL ? CUDA_SUCCESS : (CUresult)sim_memory_none(sim_current_device());
    }
    return end(code);
}

static CUresult address_free(CUdeviceptr address, size_t bytes)
{
    CUresult code = begin("cuMemAddressFree");
    sim_allocation *x = code == CUDA_SUCCESS ? reservation_of(address, bytes) : NULL;
    if (code == CUDA_SUCCESS &&
        (x == NULL || x->bytes != (int64_t)bytes || (uintptr_t)x->view != address))
        code = refuse("cuMemAddressFree", "no reservation of that size begins there");
    for (int64_t i = 0; code == CUDA_SUCCESS && i < x->bytes / SIM_GRANULARITY; i++)
        if (x->pages[i].handle != 0)
            code = refuse("cuMemAddressFree", "memory is still mapped there");
    if (code == CUDA_SUCCESS)
        sim_memory_unreserve(x);
    return end(code);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static CUresult create(CUmemGenericAllocationHandle *out, size_t bytes,
                       const CUmemAllocationProp *prop, unsigned long long flags)
{
    (void)flags;
    CUresult code = begin("cuMemCreate");
    if (code == CUDA_SUCCESS &&
        (!whole((int64_t)bytes) || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
         prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || prop->location.id < 0 ||
         prop->location.id >= sim_config.devices))
        code = refuse("cuMemCreate", "a multiple of the granularity on a device is needed");
    if (code == CUDA_SUCCESS &&
        (int64_t)bytes > sim_config.memory - sim_memory_used(prop->location.id))
        code = CUDA_ERROR_OUT_OF_MEMORY;
    piece *p = code == CUDA_SUCCESS ? calloc(1, sizeof *p) : NULL;
    if (code == CUDA_SUCCESS && p == NULL)
        code = CUDA_ERROR_OUT_OF_MEMORY;
    if (code == CUDA_SUCCESS) {
        *p = (piece){ pieces, ++handles, (int64_t)bytes, prop->location.id, false, false };
        pieces = p;
        sim_memory_use(p->device, p->bytes);
        *out = p->handle;
    }
    return end(code);
}

static CUresult release(CUmemGenericAllocationHandle handle)
{
    CUresult code = begin("cuMemRelease");
    piece *p = code == CUDA_SUCCESS ? find_piece(handle) : NULL;
    if (code == CUDA_SUCCESS && (p == NULL || p->released))
        code = refuse("cuMemRelease", "no memory has that handle");
    if (code == CUDA_SUCCESS) {
        p->released = true;
        drop_if_done(p);
    }
    return end(code);
}

static bool is_free_range(const sim_allocation *x, int64_t first, int64_t count)
{
    for (int64_t i = first; i < first + count; i++)
        if (x->pages[i].handle != 0)
            return false;
    return true;
}

static CUresult map(CUdeviceptr address, size_t bytes, size_t offset,
                    CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    (void)flags;
    CUresult code = begin("cuMemMap");
    piece *p = code == CUDA_SUCCESS ? find_piece(handle) : NULL;
    sim_allocation *x = code == CUDA_SUCCESS ? reservation_of(address, bytes) : NULL;
    const int64_t count = (int64_t)bytes / SIM_GRANULARITY;
    if (code == CUDA_SUCCESS &&
        (p == NULL || p->released || p->mapped || offset != 0 || p->bytes != (int64_t)bytes))
        code = refuse("cuMemMap", "the handle's memory is not there, mapped, or of another size");
    if (code == CUDA_SUCCESS && (x == NULL || !is_free_range(x, page_of(x, address), count)))
        code = refuse("cuMemMap", "the range is not reserved, or not free");
    if (code == CUDA_SUCCESS) {
        for (int64_t i = 0; i < count; i++)
            x->pages[page_of(x, address) + i] = (sim_page){ handle, false, 0 };
        p->mapped = true;
    }
    return end(code);
}

/* Bits of those who may read and write; 0: the list is not right. */
static unsigned devices_of(const CUmemAccessDesc *access, size_t count)
{
    unsigned bits = 0;
    for (size_t i = 0; i < count; i++) {
        const int id = access[i].location.id;
        if (access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE || id < 0 ||
            id >= sim_config.devices)
            return 0;
        bits |= 1u << id;
    }
    return bits;
}

static CUresult set_access(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access,
                           size_t count)
{
    unsigned reached = 0;
    CUresult code = begin("cuMemSetAccess");
    sim_allocation *x = code == CUDA_SUCCESS ? reservation_of(address, bytes) : NULL;
    if (code == CUDA_SUCCESS &&
        (x == NULL || ((reached = devices_of(access, count)) & 1u << x->device) == 0))
        code = refuse("cuMemSetAccess", "no reservation of the device's, or no access to it");
    const int64_t first = x != NULL ? page_of(x, address) : 0;
    const int64_t end_page = first + (int64_t)bytes / SIM_GRANULARITY;
    for (int64_t i = first; code == CUDA_SUCCESS && i < end_page; i++)
        if (x->pages[i].handle == 0)
            code = refuse("cuMemSetAccess", "nothing is mapped there");
    if (code == CUDA_SUCCESS && !sim_memory_open_pages(x, first, end_page - first))
        code = CUDA_ERROR_OUT_OF_MEMORY;
    for (int64_t i = first; code == CUDA_SUCCESS && i < end_page; i++)
        x->pages[i].reached = reached;
    return end(code);
}

/* Waits for the device: what its work still uses must not go. */
static CUresult unmap(CUdeviceptr address, size_t bytes)
{
    CUresult code = begin("cuMemUnmap");
    sim_allocation *x = code == CUDA_SUCCESS ? reservation_of(address, bytes) : NULL;
    const int64_t first = x != NULL ? page_of(x, address) : 0;
    piece *p = x != NULL ? find_piece(x->pages[first].handle) : NULL;
    if (code == CUDA_SUCCESS && (p == NULL || p->bytes != (int64_t)bytes ||
                                 (first > 0 && x->pages[first - 1].handle == p->handle)))
        code = refuse("cuMemUnmap", "the range is not what one cuMemMap has mapped");
    if (code == CUDA_SUCCESS) {
        sim_device_wait(x->device);
        sim_memory_close_pages(x, first, (int64_t)bytes / SIM_GRANULARITY);
        p->mapped = false;
        drop_if_done(p);
    }
    return end(code);
}

/* ---- by name --------------------------------------------------------------------------------- */

#define ENTRY(name, call)            \
    {                                \
        name, (void (*)(void))(call) \
    }

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **call, unsigned int version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *result)
{
    static const struct {
        const char *name;
        void (*call)(void);
    } entries[] = { ENTRY("cuMemGetAllocationGranularity", get_granularity),
                    ENTRY("cuMemAddressReserve", address_reserve),
                    ENTRY("cuMemAddressFree", address_free),
                    ENTRY("cuMemCreate", create),
                    ENTRY("cuMemRelease", release),
                    ENTRY("cuMemMap", map),
                    ENTRY("cuMemSetAccess", set_access),
                    ENTRY("cuMemUnmap", unmap) };
    (void)version, (void)flags;
    const cudaError_t code = sim_begin("cudaGetDriverEntryPointByVersion");
    *call = NULL;
    *result = cudaDriverEntryPointSymbolNotFound;
    for (size_t i = 0; code == cudaSuccess && i < sizeof entries / sizeof *entries; i++)
        if (strcmp(entries[i].name, symbol) == 0) {
            memcpy(call, &entries[i].call, sizeof *call);
            *result = cudaDriverEntryPointSuccess;
        }
    return sim_end(code);
}
