/* Which sanitizer a test is built with, for what it cannot do there. */
#ifndef TESTS_SUPPORT_SANITIZER_H
#define TESTS_SUPPORT_SANITIZER_H

#include <stdlib.h>

#if defined(__has_feature) /* clang; in #if alone, and gcc knows none */
#if __has_feature(address_sanitizer)
#define HAS_ADDRESS_SANITIZER 1
#endif
#if __has_feature(thread_sanitizer)
#define HAS_THREAD_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define HAS_ADDRESS_SANITIZER 1
#endif
#if defined(__SANITIZE_THREAD__)
#define HAS_THREAD_SANITIZER 1
#endif

#ifndef HAS_ADDRESS_SANITIZER
#define HAS_ADDRESS_SANITIZER 0
#endif
#ifndef HAS_THREAD_SANITIZER
#define HAS_THREAD_SANITIZER 0
#endif
#define HAS_SANITIZER (HAS_ADDRESS_SANITIZER || HAS_THREAD_SANITIZER)

/* Runs that show a sanitizer all of it in their first steps end with these, but for the full run. */
#define RUNS_ARE_SHORT (HAS_SANITIZER && getenv("TERN_TEST_FULL") == NULL)

/* The sanitizers do not hold the locks of their own malloc over a fork: a child whose parent's other thread was
 * in malloc hangs in it. For a cmocka test that leaves no such moment to chance. */
#define NEED_MALLOC_THAT_FORKS()                                                             \
    do {                                                                                     \
        if (HAS_SANITIZER) {                                                                 \
            print_message("skipped: a sanitizer's malloc may be taken in a fork's child\n"); \
            skip();                                                                          \
        }                                                                                    \
    } while (0)

#endif
