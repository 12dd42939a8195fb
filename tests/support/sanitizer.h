/* Which sanitizer a test is built with, for what it cannot do there. */
#ifndef TESTS_SUPPORT_SANITIZER_H
#define TESTS_SUPPORT_SANITIZER_H

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

#endif
