/* For tests of programs and of the library itself. */
#ifndef TERN_DEBUG_H
#define TERN_DEBUG_H

#include "tern/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The k-th allocation from now (1: the next) of tensors, data or tape fails as if memory were used
 * up, in whichever thread makes it; 0 switches it off. */
TERN_API void tern_debug_fail_allocation(int64_t k);
/* What is left of the countdown: 0 off or never set, negative counts on after the failure. */
TERN_API int64_t tern_debug_allocations_left(void);

#ifdef __cplusplus
}
#endif
#endif
