/* The simulated devices that a program runs on, as far as tests steer and ask them
 * (backend_cuda/sim/include/sim_control.h). */
#ifndef TESTS_SUPPORT_SIMULATOR_H
#define TESTS_SUPPORT_SIMULATOR_H

#include <stdbool.h>
#include <stdint.h>

/* False while no plugin with simulated devices is loaded; the calls below are for when there is one. */
bool simulator_is_loaded(void);
/* What TERN_SIM_<name> sets, from now on. */
void simulator_set(const char *name, const char *value);
/* Calls of CUDA's interface so far. */
int64_t simulator_calls(void);
/* atomicCAS of kernels so far. */
int64_t simulator_compares(void);
/* look(where the last atomicCAS was) at each __threadfence_system of a kernel; NULL: no more. */
void simulator_watch_fences(void (*look)(void *compared));
/* The newest report of a fault, a race or a misuse. */
const char *simulator_report(void);

#endif
