/* Memory calls: taking, giving back, copies and fills, checked when they are asked for. */
#include <stdlib.h>
#include <string.h>

#include "backend_cuda/sim/sim.h"
#include "backend_cuda/sim/undefined.h"

/* ---- taking and giving back ------------------------------------------------------------------ */

static cudaError_t take(void **data, int device, size_t bytes, void *caller)
{
    if (data == NULL)
        return cudaErrorInvalidValue;
    sim_allocation *x = sim_memory_alloc(device, (int64_t)bytes, caller);
    if (x == NULL)
        return sim_memory_none(device);
    *data = x->view;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **data, size_t bytes)
{
    cudaError_t code = sim_begin_device("cudaMalloc");
    if (code == cudaSuccess)
        code = take(data, sim_current_device(), bytes, __builtin_return_address(0));
    return sim_end(code);
}

cudaError_t cudaHostAlloc(void **data, size_t bytes, unsigned int flags)
{
    cudaError_t code = sim_begin_device("cudaHostAlloc");
    if (code == cudaSuccess)
        code = take(data, -1, bytes, __builtin_return_address(0));
    if (code == cudaSuccess)
        sim_memory_find(*data)->mapped = (flags & cudaHostAllocMapped) != 0;
    return sim_end(code);
}

/* Both wait for the whole device first, as CUDA's do. */
static cudaError_t give_back(void *data, bool pinned)
{
    if (data == NULL)
        return cudaSuccess;
    sim_allocation *x = sim_memory_find(data);
    if (x == NULL || x->view != data || x->pages != NULL || (x->device < 0) != pinned) {
        sim_report(cudaErrorInvalidValue, "%p is no address that %s gave", data,
                   pinned ? "cudaHostAlloc" : "cudaMalloc");
        return cudaErrorInvalidValue;
    }
    if (!x->live) {
        char text[256];
        sim_memory_describe(x, text, sizeof text);
        sim_report(cudaErrorInvalidValue, "freed twice: %s", text);
        return cudaErrorInvalidValue;
    }
    sim_device_wait(pinned ? sim_current_device() : x->device);
    sim_memory_free(x);
    return cudaSuccess;
}

cudaError_t cudaFree(void *data)
{
    cudaError_t code = sim_begin_device("cudaFree");
    if (code == cudaSuccess)
        code = give_back(data, false);
    return sim_end(code);
}

cudaError_t cudaFreeHost(void *data)
{
    cudaError_t code = sim_begin_device("cudaFreeHost");
    if (code == cudaSuccess)
        code = give_back(data, true);
    return sim_end(code);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer)
{
    int device = 0;
    const cudaError_t code = sim_begin("cudaPointerGetAttributes");
    if (code == cudaSuccess) {
        *attributes = (struct cudaPointerAttributes){ cudaMemoryTypeUnregistered, -1 };
        if (sim_memory_is_ours(pointer, &device)) {
            attributes->type = device < 0 ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
            attributes->device = device < 0 ? 0 : device;
        }
    }
    return sim_end(code);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    const cudaError_t code = sim_begin_device("cudaMemGetInfo");
    if (code == cudaSuccess) {
        *total_bytes = (size_t)sim_config.memory;
        *free_bytes = (size_t)(sim_config.memory - sim_memory_used(sim_current_device()));
    }
    return sim_end(code);
}

/* ---- one side of a copy ---------------------------------------------------------------------- */

typedef struct side {
    const void *view;
    sim_allocation *allocation; /* NULL: pageable host memory */
    bool device;
} side;

/* False after reporting: the range is not inside one live allocation. */
static bool find_side(side *s, const void *view, size_t bytes, const char *what)
{
    int device = 0;
    *s = (side){ view, NULL, false };
    if (!sim_memory_is_ours(view, &device))
        return true;
    sim_allocation *x = sim_memory_find(view);
    const int64_t from = x != NULL ? (const char *)view - x->view : 0;
    s->allocation = x;
    s->device = device >= 0;
    if (x != NULL && sim_memory_holds(x, from, (int64_t)bytes))
        return true;
    char text[256] = "no allocation";
    if (x != NULL)
        sim_memory_describe(x, text, sizeof text);
    sim_report(cudaErrorInvalidValue, "%s of %zu bytes from byte %lld on of %s", what, bytes,
               (long long)from, text);
    return false;
}

static const char *const kind_names[] = { "cudaMemcpyHostToHost", "cudaMemcpyHostToDevice",
                                          "cudaMemcpyDeviceToHost", "cudaMemcpyDeviceToDevice" };

static bool kind_fits(enum cudaMemcpyKind kind, const side *to, const side *from)
{
    const enum cudaMemcpyKind real =
        to->device ? (from->device ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice)
                   : (from->device ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost);
    if (kind == cudaMemcpyDefault || kind == real)
        return true;
    sim_report(cudaErrorInvalidValue, "a copy was called %s and is %s", kind_names[kind],
               kind_names[real]);
    return false;
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* A copy from a device to the host, of bytes that nobody wrote: the host will not know. */
static void look_at_bytes(const sim_op *op)
{
    char *view = sim_memory_view_of(op->src);
    if (view == NULL || sim_memory_view_of(op->dst) != NULL)
        return;
    const int64_t at = sim_undefined_first(op->src, op->bytes);
    const sim_allocation *x = at >= 0 ? sim_memory_find(view + at) : NULL;
    if (x == NULL)
        return;
    char text[256];
    (void)sim_describe(x, view + at, text, sizeof text);
    sim_say("tern: a copy of %llu bytes to the host: nobody wrote byte %lld of them, in %s\n",
            (unsigned long long)op->bytes, (long long)at, text);
}

static void run_copy(sim_op *op)
{
    if (sim_is_watched())
        look_at_bytes(op);
    memcpy(op->dst, op->src, op->bytes);
}

static void drop_copy(sim_op *op)
{
    free(op->snapshot);
    op->snapshot = NULL;
    if (op->pinned != NULL)
        sim_memory_unguard(op->pinned);
}

static void place_copy(sim_op *op, const side *to, const side *from)
{
    const sim_clock_model *m = sim_config.clock;
    const bool across = to->device != from->device;
    const side *host = to->device ? from : to;
    const double speed = !across                    ? m->device_bytes
                         : host->allocation != NULL ? m->pinned_bytes
                                                    : m->pageable_bytes;
    const sim_engine engine = !across      ? SIM_ENGINE_COMPUTE
                              : to->device ? SIM_ENGINE_IN
                                           : SIM_ENGINE_OUT;
    sim_clock_place(op, engine, m->copy_latency + (double)op->bytes / speed);
}

static bool note_accesses(const sim_op *op, const side *to, const side *from)
{
    return (to->allocation == NULL || sim_order_access(op, to->allocation, to->view, true)) &&
           (from->allocation == NULL || sim_order_access(op, from->allocation, from->view, false));
}

/* Pageable memory: what is copied to the device is read now (without staging: later), what comes back is
 * waited for. */
static cudaError_t prepare_host(sim_op *op, const side *to, const side *from)
{
    op->dst = to->allocation != NULL ? sim_memory_alias(to->view) : (char *)(uintptr_t)to->view;
    op->src = from->allocation != NULL ? sim_memory_alias(from->view) : from->view;
    if (from->allocation == NULL && sim_config.staging) {
        op->snapshot = malloc(op->bytes);
        if (op->snapshot == NULL)
            return cudaErrorMemoryAllocation;
        memcpy(op->snapshot, op->src, op->bytes);
        op->src = op->snapshot;
    }
    const side *pinned = to->device ? from : to;
    if (to->device != from->device && pinned->allocation != NULL) {
        op->pinned = pinned->allocation;
        sim_memory_guard(op->pinned, to->device);
    }
    return cudaSuccess;
}

static cudaError_t submit_copy(struct CUstream_st *s, const side *to, const side *from,
                               size_t bytes, bool wait)
{
    sim_op *op = sim_op_new(s, "cudaMemcpyAsync");
    if (op == NULL)
        return cudaErrorMemoryAllocation;
    op->bytes = bytes;
    op->run = run_copy;
    op->drop = drop_copy;
    cudaError_t code = note_accesses(op, to, from) ? cudaSuccess : cudaErrorUnknown;
    if (code == cudaSuccess)
        code = prepare_host(op, to, from);
    if (code != cudaSuccess) {
        sim_op_release(op);
        return code;
    }
    place_copy(op, to, from);
    sim_counters.copies++;
    op->refs++;
    sim_op_submit(op);
    if (wait || (to->allocation == NULL && from->device)) {
        sim_op_wait(op);
        code = sim_devices[s->device].lost;
    }
    sim_op_release(op);
    return code;
}

static cudaError_t copy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
                        cudaStream_t stream, bool wait)
{
    side to, from;
    struct CUstream_st *s = sim_stream_of(stream);
    if (s == NULL)
        return cudaErrorInvalidResourceHandle;
    if (bytes == 0)
        return cudaSuccess;
    if (dst == NULL || src == NULL || (unsigned)kind > cudaMemcpyDefault)
        return cudaErrorInvalidValue;
    if (!find_side(&to, dst, bytes, "write") || !find_side(&from, src, bytes, "read") ||
        !kind_fits(kind, &to, &from))
        return cudaErrorInvalidValue;
    return submit_copy(s, &to, &from, bytes, wait);
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    cudaError_t code = sim_begin_device("cudaMemcpyAsync");
    if (code == cudaSuccess)
        code = copy(dst, src, bytes, kind, stream, false);
    return sim_end(code);
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
    cudaError_t code = sim_begin_device("cudaMemcpy");
    if (code == cudaSuccess)
        code = copy(dst, src, bytes, kind, NULL, true);
    return sim_end(code);
}

/* Peer access lets the copy go straight, but does not cover what cuMemMap has mapped. */
static bool peer_reaches(const void *dst, size_t bytes)
{
    const int own = sim_current_device();
    const sim_allocation *x = sim_memory_find(dst);
    if (x == NULL || x->pages == NULL || !sim_devices[own].peers[x->device])
        return true;
    const int64_t from = (const char *)dst - x->view;
    for (int64_t i = from / SIM_GRANULARITY; i * SIM_GRANULARITY < from + (int64_t)bytes; i++)
        if (x->pages[i].open && (x->pages[i].reached & 1u << own) == 0) {
            sim_report(cudaErrorIllegalAddress,
                       "cuda:%d is a peer of cuda:%d, but cuMemSetAccess did not name it", own,
                       x->device);
            return false;
        }
    return true;
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device,
                                size_t bytes, cudaStream_t stream)
{
    int to = -1, from = -1;
    cudaError_t code = sim_begin_device("cudaMemcpyPeerAsync");
    if (code == cudaSuccess && bytes > 0 &&
        (!sim_memory_is_ours(dst, &to) || !sim_memory_is_ours(src, &from) || to != dst_device ||
         from != src_device))
        code = cudaErrorInvalidValue;
    if (code == cudaSuccess && bytes > 0 && !peer_reaches(dst, bytes))
        code = cudaErrorIllegalAddress;
    if (code == cudaSuccess)
        code = copy(dst, src, bytes, cudaMemcpyDeviceToDevice, stream, false);
    return sim_end(code);
}

/* ---- fills ----------------------------------------------------------------------------------- */

static void run_fill(sim_op *op)
{
    memset(op->dst, op->value, op->bytes);
}

static cudaError_t fill(void *data, int value, size_t bytes, cudaStream_t stream)
{
    side to;
    struct CUstream_st *s = sim_stream_of(stream);
    if (s == NULL)
        return cudaErrorInvalidResourceHandle;
    if (bytes == 0)
        return cudaSuccess;
    if (!find_side(&to, data, bytes, "fill") || to.allocation == NULL)
        return cudaErrorInvalidValue;
    sim_op *op = sim_op_new(s, "cudaMemsetAsync");
    if (op == NULL)
        return cudaErrorMemoryAllocation;
    if (!sim_order_access(op, to.allocation, data, true)) {
        sim_op_release(op);
        return cudaErrorUnknown;
    }
    op->dst = sim_memory_alias(data);
    op->bytes = bytes;
    op->value = value;
    op->run = run_fill;
    sim_clock_place(op, SIM_ENGINE_COMPUTE,
                    sim_config.clock->launch_latency +
                        (double)bytes / sim_config.clock->device_bytes);
    sim_op_submit(op);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *data, int value, size_t bytes, cudaStream_t stream)
{
    cudaError_t code = sim_begin_device("cudaMemsetAsync");
    if (code == cudaSuccess)
        code = fill(data, value, bytes, stream);
    return sim_end(code);
}
