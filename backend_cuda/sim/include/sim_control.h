/* What tests and teachers ask of simulated devices beyond CUDA's own calls. */
#ifndef TERN_SIM_CONTROL_H
#define TERN_SIM_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The next report of a fault, a race or a misuse: one text, newest first; "" when there is none. */
const char *sim_last_report(void);
/* Reports since the start. */
int64_t sim_report_count(void);

/* Sets what the environment variable TERN_SIM_<name> sets ("ORDER", "ASYNC", "FAIL", "MEMORY",
 * "CLOCK", "RACES", "PEER", "ABSENT", "DEVICES"), for calls from now on; DEVICES and MEMORY before the
 * first use of a device. 0, or -1 for a name or value that there is not. */
int sim_set(const char *name, const char *value);

/* Back to the state before the first call: memory, streams and faults of all devices go. Handles
 * from before are invalid. */
void sim_reset(void);

typedef struct sim_counts {
    int64_t launches, copies, threads, suspensions, allocations;
} sim_counts;
sim_counts sim_get_counts(void);

#ifdef __cplusplus
}
#endif
#endif
