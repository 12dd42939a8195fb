/* Whose CPU it is, where kernels have been measured to want other things on one maker's than on another's. */
#ifndef TERN_BACKEND_CPU_VENDOR_H
#define TERN_BACKEND_CPU_VENDOR_H

#include <stdbool.h>

/* Measured on a Xeon with AMX; what is not Intel's goes the way that was measured on AMD's Zen 5. */
static inline bool cpu_on_intel(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_is("intel");
#else
    return false;
#endif
}

#endif
