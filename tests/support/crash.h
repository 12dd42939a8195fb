/* Programs that are to end by a signal: run in a process of their own. Needs no libtern, so the
 * simulator's own tests have it too. */
#ifndef TESTS_SUPPORT_CRASH_H
#define TESTS_SUPPORT_CRASH_H

#include <stdbool.h>
#include <stddef.h>

/* Runs `body` in a child; `text` becomes what it wrote to stderr, cut to `size`. Did a signal end it, or a
 * sanitizer, which exits with a status that is not 0? */
bool crash_text(void (*body)(void), char *text, size_t size);

#endif
