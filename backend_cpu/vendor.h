/* Whose CPU it is, where kernels have been measured to want other things on one than on another. */
#ifndef TERN_BACKEND_CPU_VENDOR_H
#define TERN_BACKEND_CPU_VENDOR_H

#include <stdbool.h>

/* What has no function here goes the way that was measured on AMD's Zen 5. */
#if defined(__x86_64__)
#define CPU_IS_(name) __builtin_cpu_is(name)
#else
#define CPU_IS_(name) 0
#endif

/* Measured on a Xeon with AMX. */
static inline bool cpu_on_intel(void)
{
    return CPU_IS_("intel");
}

/* Measured on Zen 4. Zen 3 is of the same family (19h), with as small a first-level cache (32 KiB). */
static inline bool cpu_on_zen4(void)
{
    return CPU_IS_("amdfam19h");
}

#undef CPU_IS_

#endif
