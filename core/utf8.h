/* UTF-8: texts of others (the environment, paths) need not be it, JSON has to, and people want to read them. */
#ifndef TERN_CORE_UTF8_H
#define TERN_CORE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Bytes of the character that begins at `text`, at most `left`: 1 to 4, no overlong form, no surrogate, no NUL.
 * 0: there is none. */
static inline size_t core_utf8_bytes(const char *text, size_t left)
{
    static const uint32_t least[] = { 0, 1, 0x80, 0x800, 0x10000 };
    const unsigned char *at = (const unsigned char *)text;
    const unsigned first = left > 0 ? at[0] : 0;
    const size_t bytes = first < 0x80   ? 1
                         : first < 0xc0 ? 0
                         : first < 0xe0 ? 2
                         : first < 0xf0 ? 3
                         : first < 0xf8 ? 4
                                        : 0;
    if (bytes == 0 || bytes > left)
        return 0;
    uint32_t code = bytes == 1 ? first : first & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if ((at[i] & 0xc0u) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3fu);
    }
    const bool stands =
        code >= least[bytes] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    return stands ? bytes : 0;
}

enum { CORE_UTF8_SHOWN = 5 };

/* The character at `text`, which is not its end, as people are shown it: control characters, and bytes that are no
 * UTF-8, become what C writes for them ("\r", "\xff"). How many bytes of the text that is. */
static inline size_t core_utf8_show(const char *text, char shown[CORE_UTF8_SHOWN])
{
    static const char control[] = "\r\n\t", letter[] = "rnt";
    const char *known = strchr(control, *text);
    const size_t bytes = core_utf8_bytes(text, strlen(text));
    if (known != NULL)
        (void)snprintf(shown, CORE_UTF8_SHOWN, "\\%c", letter[known - control]);
    else if (bytes == 0 || (unsigned char)*text < 0x20 || *text == 0x7f)
        (void)snprintf(shown, CORE_UTF8_SHOWN, "\\x%02x", (unsigned char)*text);
    else
        (void)snprintf(shown, CORE_UTF8_SHOWN, "%.*s", (int)bytes, text);
    return bytes > 0 ? bytes : 1;
}

#endif
