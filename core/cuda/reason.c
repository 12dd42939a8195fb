/* Codes and next steps: one row of reasons.def each. */
#include "core/cuda/reason.h"

#include <string.h>

#include "core/error.h"
#include "core/utf8.h"
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

void core_reason_escape(char text[CORE_REASON_BYTES])
{
    char raw[CORE_REASON_BYTES], shown[CORE_UTF8_SHOWN];
    memcpy(raw, text, sizeof raw);
    core_text out = { text, CORE_REASON_BYTES, 0 };
    text[0] = '\0';
    for (const char *at = raw; *at != '\0' && out.length + sizeof shown <= out.bytes;) {
        at += core_utf8_show(at, shown);
        core_text_add(&out, "%s", shown);
    }
}
