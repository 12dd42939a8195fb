/* Whose an address is, for messages: the library knows tensors and source lines, where the simulator is
 * part of its plugin; else there are allocations only. */
#include <stdio.h>

#include "backend_cuda/sim/sim.h"

/* The backend's; not there in the simulator's own tests. */
extern const tern_host *cuda_host __attribute__((weak));
const char *cuda_say_stream(void *stream, char *text) __attribute__((weak));
void cuda_on_launch(void (*listener)(const char *name)) __attribute__((weak));

void sim_owner_listen(void)
{
    if (cuda_on_launch != NULL)
        cuda_on_launch(sim_order_name);
}

void sim_describe_stream(const struct CUstream_st *stream, char *text, size_t size)
{
    char name[64];
    if (cuda_say_stream == NULL)
        (void)snprintf(text, size, "stream %d", stream->slot);
    else if (stream == sim_devices[stream->device].null_stream)
        (void)snprintf(text, size, "the default stream of cuda:%d", stream->device);
    else
        (void)snprintf(text, size, "%s", cuda_say_stream((void *)(uintptr_t)stream, name));
}

bool sim_owner_of(const void *view, int device, tern_owner *out_owner)
{
    return &cuda_host != NULL && cuda_host != NULL &&
           cuda_host->size >= offsetof(tern_host, owner_of) + sizeof cuda_host->owner_of &&
           cuda_host->owner_of(device < 0 ? TERN_CPU : TERN_CUDA(device), view, out_owner);
}

bool sim_describe(const sim_allocation *x, const void *view, char *text, size_t size)
{
    tern_owner owner;
    char where[32] = "in pinned memory";
    if (!sim_owner_of(view, x->device, &owner)) {
        sim_memory_describe(x, text, size);
        return false;
    }
    if (x->device >= 0)
        (void)snprintf(where, sizeof where, "on cuda:%d (simulated)", x->device);
    (void)snprintf(text, size, "%s %s%s%s", owner.what, where,
                   owner.site != NULL ? ", made at " : "", owner.site != NULL ? owner.site : "");
    return true;
}
