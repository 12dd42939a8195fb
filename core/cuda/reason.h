/* The reasons for not using CUDA, and texts for them. */
#ifndef TERN_CORE_CUDA_REASON_H
#define TERN_CORE_CUDA_REASON_H

#include "tern/device.h"

typedef enum core_reason {
    CORE_REASON_NONE, /* CUDA is usable */
#define REASON(id, code, next) CORE_REASON_##id,
#include "core/cuda/reasons.def"
#undef REASON
    CORE_REASONS
} core_reason;

enum { CORE_REASON_BYTES = 1024 };

const char *core_reason_code(core_reason reason); /* "hidden-by-empty-list"; "" for NONE */
const char *core_reason_next(core_reason reason);
/* Each character as core_utf8_show has it: a value of the environment may end with a carriage return, where the file
 * that sets it has Windows' ends of lines. */
void core_reason_escape(char text[CORE_REASON_BYTES]);

#endif
