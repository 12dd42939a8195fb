/* Codes and next steps: one row of reasons.def each. */
#include "core/cuda/reason.h"

#include <ctype.h>
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

enum { LONGEST = 4 }; /* of one character: "\x1b", or UTF-8 */

void core_reason_escape(char text[CORE_REASON_BYTES])
{
    static const char control[] = "\r\n\t", letter[] = "rnt";
    char raw[CORE_REASON_BYTES];
    memcpy(raw, text, sizeof raw);
    core_text out = { text, CORE_REASON_BYTES, 0 };
    text[0] = '\0';
    for (const char *at = raw; *at != '\0' && out.length + LONGEST < out.bytes;) {
        const char *known = strchr(control, *at);
        const size_t bytes = core_utf8_bytes(at, strlen(at));
        if (known != NULL)
            core_text_add(&out, "\\%c", letter[known - control]);
        else if (bytes == 0 || iscntrl((unsigned char)*at))
            core_text_add(&out, "\\x%02x", (unsigned char)*at);
        else
            core_text_add(&out, "%.*s", (int)bytes, at);
        at += bytes > 0 ? bytes : 1;
    }
}
