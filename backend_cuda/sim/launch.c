/* Launches: checks, translation of pointers, and what is looked at after a kernel has run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend_cuda/sim/sim.h"
#include "backend_cuda/sim/undefined.h"

/* ---- arguments ------------------------------------------------------------------------------- */

static void note_written(sim_op *op, sim_allocation *x)
{
    const int most = (int)(sizeof op->written / sizeof *op->written);
    for (int i = 0; i < op->written_count; i++)
        if (op->written[i] == x)
            return;
    if (x->live && op->written_count < most)
        op->written[op->written_count++] = x;
}

/* A kernel may not follow a pointer to the host or to a device without peer access; it faults when
 * it runs, as on a GPU. */
static void refuse_pointer(sim_op *op, int argument, const void *p, int device)
{
    char where[64] = "the host's memory";
    if (device >= 0)
        (void)snprintf(where, sizeof where, "cuda:%d (simulated), without peer access", device);
    free(op->snapshot);
    op->snapshot = NULL;
    char *why = malloc(256);
    if (why != NULL)
        (void)snprintf(why, 256, "argument %d of %s, %p, points to %s", argument, op->what, p,
                       where);
    op->snapshot = why;
    op->value = 1;
}

static bool reachable(const sim_op *op, int device)
{
    const int own = op->stream->device;
    return device < 0 || device == own || sim_devices[own].peers[device];
}

/* Word `at` of an argument: pointers become the kernel's. False: a race was reported. */
static bool translate(sim_op *op, char *at, int argument, int kind)
{
    void *p;
    int device = -1;
    memcpy(&p, at, sizeof p);
    sim_defined_mark(&p, sizeof p); /* padding of a structure is looked at, too */
    if (kind == SIM_ARG_VALUE && !sim_memory_was_given(p))
        return true; /* a number, maybe beside padding with half of an old address */
    if (!sim_memory_is_ours(p, &device)) {
        if (p != NULL)
            refuse_pointer(op, argument, p, -1);
        return true;
    }
    if (!reachable(op, device))
        refuse_pointer(op, argument, p, device);
    sim_allocation *x = sim_memory_find(p);
    void *alias = sim_memory_alias(p);
    memcpy(at, &alias, sizeof alias);
    if (x == NULL || !x->live)
        return true; /* faults when it is used */
    if (kind != SIM_ARG_READ)
        note_written(op, x);
    return sim_order_access(op, x, p, kind == SIM_ARG_WRITE);
}

static bool translate_all(sim_op *op, const sim_launch *launch, char *packed)
{
    for (int i = 0; i < launch->count; i++) {
        const sim_arg *a = &launch->args[i];
        if (a->kind != SIM_ARG_VALUE) {
            if (!translate(op, packed + a->offset, i + 1, a->kind))
                return false;
            continue;
        }
        for (size_t at = (a->offset + 7u) & ~7u; at + 8 <= (size_t)a->offset + a->size; at += 8)
            if (!translate(op, packed + at, i + 1, SIM_ARG_VALUE))
                return false;
    }
    return true;
}

/* ---- running --------------------------------------------------------------------------------- */

static void look_at_slack(sim_op *op)
{
    for (int i = 0; i < op->written_count; i++) {
        sim_allocation *x = op->written[i];
        const char *where = x->live ? sim_memory_overrun(x) : NULL;
        if (where == NULL)
            continue;
        char text[256];
        sim_memory_describe(x, text, sizeof text);
        sim_report(cudaErrorIllegalAddress, "%s wrote %s %s", op->what, where, text);
        sim_devices[op->stream->device].lost = cudaErrorIllegalAddress;
    }
}

static void run_launch(sim_op *op)
{
    char call[128];
    sim_device *d = &sim_devices[op->stream->device];
    (void)snprintf(call, sizeof call, "launch:%s", op->what);
    const cudaError_t injected = sim_fault(call);
    if (injected != cudaSuccess) {
        d->lost = injected;
        sim_report(injected, "injected into %s", op->what);
        return;
    }
    if (op->value != 0) {
        sim_report(cudaErrorIllegalAddress, "%s",
                   op->snapshot != NULL ? (const char *)op->snapshot : "a pointer of the host");
        d->lost = cudaErrorIllegalAddress;
        return;
    }
    d->lost = sim_grid_run(&op->grid);
    sim_memory_close_views();
    if (d->lost == cudaSuccess)
        look_at_slack(op);
}

static void drop_launch(sim_op *op)
{
    free(op->grid.packed);
    free(op->snapshot);
    op->grid.packed = op->snapshot = NULL;
}

static void place_launch(sim_op *op)
{
    double bytes = 0;
    for (int i = 0; i < op->written_count; i++)
        bytes += (double)op->written[i]->bytes;
    sim_clock_place(op, SIM_ENGINE_COMPUTE,
                    sim_config.clock->launch_latency + bytes / sim_config.clock->device_bytes);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static cudaError_t check_shape(const cudaLaunchConfig_t *c)
{
    const dim3 g = c->gridDim, t = c->blockDim;
    if (g.x == 0 || g.y == 0 || g.z == 0 || t.x == 0 || t.y == 0 || t.z == 0 || t.z > 64 ||
        (uint64_t)t.x * t.y * t.z > SIM_THREADS || g.x > 2147483647u || g.y > 65535u ||
        g.z > 65535u) {
        sim_report(cudaErrorInvalidConfiguration, "a grid of (%u,%u,%u) blocks of (%u,%u,%u)", g.x,
                   g.y, g.z, t.x, t.y, t.z);
        return cudaErrorInvalidConfiguration;
    }
    return c->dynamicSmemBytes <= SIM_DYNAMIC_SHARED ? cudaSuccess : cudaErrorInvalidValue;
}

static cudaError_t fill_op(sim_op *op, const cudaLaunchConfig_t *config, const sim_launch *launch)
{
    char *packed = malloc(launch->bytes);
    if (packed == NULL)
        return cudaErrorMemoryAllocation;
    memcpy(packed, launch->packed, launch->bytes);
    op->run = run_launch;
    op->drop = drop_launch;
    op->grid = (sim_grid){ config->gridDim, config->blockDim, config->dynamicSmemBytes,
                           launch->run,     packed,           op->what };
    return translate_all(op, launch, packed) ? cudaSuccess : cudaErrorUnknown;
}

static cudaError_t enqueue(const cudaLaunchConfig_t *config, const sim_launch *launch)
{
    cudaError_t code = check_shape(config);
    struct CUstream_st *s = sim_stream_of(config->stream);
    if (code != cudaSuccess)
        return code;
    if (s == NULL || s->device != sim_current_device())
        return cudaErrorInvalidResourceHandle;
    sim_op *op = sim_op_new(s, sim_symbol(launch->kernel));
    if (op == NULL)
        return cudaErrorMemoryAllocation;
    code = fill_op(op, config, launch);
    if (code != cudaSuccess) {
        drop_launch(op);
        sim_op_release(op);
        return code;
    }
    place_launch(op);
    sim_counters.launches++;
    sim_op_submit(op);
    return cudaSuccess;
}

cudaError_t sim_enqueue_kernel(const cudaLaunchConfig_t *config, const sim_launch *launch)
{
    cudaError_t code = sim_begin_device("cudaLaunchKernelEx");
    if (code == cudaSuccess)
        code = enqueue(config, launch);
    return sim_end(code);
}
