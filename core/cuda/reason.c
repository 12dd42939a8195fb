/* Codes and next steps: one row of reasons.def each. */
#include "core/cuda/reason.h"

#include "tern/system.h"

static const struct {
    const char *code, *next;
} rows[CORE_REASONS] = {
    { "", "" },
#define REASON(id, code, next) { code, next },
#include "core/cuda/reasons.def"
#undef REASON
};

const char *core_reason_code(core_reason reason)
{
    return rows[reason].code;
}

const char *core_reason_next(core_reason reason)
{
    return rows[reason].next;
}

const char *tern_reason_code(int i)
{
    return i >= 0 && i + 1 < CORE_REASONS ? rows[i + 1].code : NULL;
}
