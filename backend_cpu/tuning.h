/* Whose measurements the CPU's kernels go by, where they have been found to want other things on one CPU than on
 * another. */
#ifndef TERN_BACKEND_CPU_TUNING_H
#define TERN_BACKEND_CPU_TUNING_H

#include <stdbool.h>

enum {
    CPU_ZEN5 = 1, /* and every CPU that is none of the others */
    CPU_ZEN4,     /* AMD's family 19h with AVX-512 */
    CPU_INTEL,    /* with AVX-512; measured on a Xeon with AMX */
    CPU_AVX2,     /* every CPU without AVX-512; measured on AMD's Zen 3 */
    CPU_TUNINGS = CPU_AVX2
};

/* That of this CPU, or what TERN_CPU_TUNING (zen5, zen4, intel, avx2) says. Decided at the first call and then constant. */
extern int cpu_tuning_chosen __attribute__((visibility("hidden"))); /* 0: not yet */
int cpu_tuning_choose(void);
static inline int cpu_tuning(void)
{
    const int tuning = __atomic_load_n(&cpu_tuning_chosen, __ATOMIC_RELAXED);
    return __builtin_expect(tuning != 0, 1) ? tuning : cpu_tuning_choose();
}
static inline bool cpu_tuned_for(int tuning)
{
    return cpu_tuning() == tuning;
}
/* "zen5", "zen4", "intel" or "avx2". */
const char *cpu_tuning_name(int tuning);

#endif
