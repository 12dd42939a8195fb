/* The system's words for an errno, in a thread's own memory. */
#ifndef TERN_CORE_ERRNO_TEXT_H
#define TERN_CORE_ERRNO_TEXT_H

#include <stdio.h>
#include <string.h>

enum { CORE_ERRNO_TEXT = 128 };

/* "No such file or directory"; returns `text` or a text of the system's. glibc's strerror_r is not POSIX's, which
 * musl has. */
static inline const char *core_errno_text(int code, char text[CORE_ERRNO_TEXT])
{
#if defined(__GLIBC__)
    return strerror_r(code, text, CORE_ERRNO_TEXT);
#else
    if (strerror_r(code, text, CORE_ERRNO_TEXT) != 0)
        (void)snprintf(text, CORE_ERRNO_TEXT, "error %d", code);
    return text;
#endif
}

#endif
