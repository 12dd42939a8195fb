/* Looks for a zero among whole numbers: what integers are divided by. */
#ifndef TERN_BACKEND_CPU_HAS_ZERO_H
#define TERN_BACKEND_CPU_HAS_ZERO_H

#include "backend_cpu/cpu.h"

/* On the threads that are worth it. An element that repeats is looked at once. */
bool cpu_has_zero(const tern_call *call, const tern_view *divisor);

#endif
