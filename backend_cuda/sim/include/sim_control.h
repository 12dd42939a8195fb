/* What tests and teachers ask of simulated devices beyond CUDA's own calls. */
#ifndef TERN_SIM_CONTROL_H
#define TERN_SIM_CONTROL_H

#include <stddef.h>
#include <stdint.h>

/* Also found in libtern_sim.so by dlsym. */
#define SIM_CONTROL __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* The next report of a fault, a race or a misuse: one text, newest first; "" when there is none. */
SIM_CONTROL const char *sim_last_report(void);

/* Sets what the environment variable TERN_SIM_<name> sets ("ORDER", "ASYNC", "FAIL", "MEMORY",
 * "CLOCK", "RACES", "PEER", "STAGING", "ABSENT", "PROCESSES", "DEVICES", "CAPABILITY"), for calls from now on; DEVICES,
 * CAPABILITY, MEMORY and STAGING before the first use of a device. 0, or -1 for a name or value that there is not. */
SIM_CONTROL int sim_set(const char *name, const char *value);

/* Back to the state before the first call: memory, streams and faults of all devices go. Handles
 * from before are invalid. */
void sim_reset(void);

typedef struct sim_counts {
    int64_t launches, copies, threads, suspensions, allocations;
} sim_counts;
sim_counts sim_get_counts(void);
/* Calls of CUDA's interface since the start. */
SIM_CONTROL int64_t sim_call_count(void);
/* atomicCAS of kernels since the start. */
SIM_CONTROL int64_t sim_compare_count(void);
/* look(where the last atomicCAS was) at each __threadfence_system of a kernel: what the host may see by then. NULL: no
 * more. */
SIM_CONTROL void sim_watch_fences(void (*look)(void *compared));

#ifdef __cplusplus
}
#endif
#endif
