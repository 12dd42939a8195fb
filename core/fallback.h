/* What happens when CUDA is asked for and there is none. */
#ifndef TERN_CORE_FALLBACK_H
#define TERN_CORE_FALLBACK_H

#include "core/cuda/reason.h"
#include "core/thread.h"

/* Why a request for CUDA cannot be met now, NONE when it can: policy and switches first, then what
 * the search found, which the first call without such a switch starts. */
core_reason core_cuda_reason(void);

/* A CUDA device was asked for and none is usable: true under `prefer` and `cpu` (said once per
 * process under `prefer`), false with an error under `require` and in a child forked after CUDA
 * was started. */
bool core_fall_back(tern_thread *self, tern_site_t site, const char *what);
/* The same for a reason that only this request has. */
bool core_fall_back_for(tern_thread *self, tern_site_t site, const char *what,
                        const tern_fallback_t *why);

#endif
