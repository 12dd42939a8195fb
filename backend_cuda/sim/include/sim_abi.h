/* Between kernels compiled for simulated devices and the simulator: plain C. */
#ifndef TERN_SIM_ABI_H
#define TERN_SIM_ABI_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SIM_HIDDEN __attribute__((visibility("hidden")))

/* A place in a kernel where threads wait for each other. */
typedef struct sim_site {
    const char *file;
    int line;
    int number; /* apart on one line */
} sim_site;

enum { SIM_SYNC, SIM_SHFL, SIM_SHFL_UP, SIM_SHFL_DOWN, SIM_SHFL_XOR, SIM_BALLOT, SIM_ANY, SIM_ALL };

SIM_HIDDEN void sim_barrier(const sim_site *site);
/* `operand`: source lane, distance or mask of the shuffles. Returns the lane's result. */
SIM_HIDDEN uint64_t sim_warp(const sim_site *site, int kind, uint32_t mask, uint64_t value,
                             int operand, int width);

/* Told by atomicCAS and __threadfence_system, for tests. */
SIM_HIDDEN void sim_compared(void *at);
SIM_HIDDEN void sim_system_fence(void);

enum { SIM_ARG_READ, SIM_ARG_WRITE, SIM_ARG_VALUE };

/* One argument of a launch, in the packed copy of all. */
typedef struct sim_arg {
    uint16_t offset;
    uint16_t size;
    uint16_t kind;
} sim_arg;

typedef struct sim_launch {
    const void *kernel;
    void (*run)(void *packed); /* one thread */
    const void *packed;
    size_t bytes;
    const sim_arg *args;
    int count;
} sim_launch;

SIM_HIDDEN cudaError_t sim_enqueue_kernel(const cudaLaunchConfig_t *config,
                                          const sim_launch *launch);

#ifdef __cplusplus
}
#endif
#endif
