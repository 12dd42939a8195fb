/* UTF-8: texts of others (the environment, paths) need not be it, JSON has to. */
#ifndef TERN_CORE_UTF8_H
#define TERN_CORE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
