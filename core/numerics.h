/* Settings of precision and repetition for those who run ops (tern/numerics.h). */
#ifndef TERN_CORE_NUMERICS_H
#define TERN_CORE_NUMERICS_H

#include "tern/plugin.h"

/* TERN_NUMERICS_* bits. */
uint32_t core_numerics(void);
/* TERN_CPU_GEMM=benchmark, where the program has not said anything else; once. */
void core_numerics_environment(void);

#endif
