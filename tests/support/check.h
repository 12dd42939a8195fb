/* What every test program includes: cmocka and its needs, and checks of tern's errors. */
#ifndef TESTS_SUPPORT_CHECK_H
#define TESTS_SUPPORT_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "tern/tern.h"

/* Fails with tern's own text when an error is pending. */
#define assert_no_error()                      \
    do {                                       \
        if (tern_failed())                     \
            fail_msg("%s", tern_error_text()); \
    } while (0)

/* The pending error has this code and its text contains these words; clears it. */
#define assert_error(code, words)                                                        \
    do {                                                                                 \
        if (tern_error_code() != (code) || strstr(tern_error_text(), words) == NULL)     \
            fail_msg("expected %s with '%s', got %s: %s", tern_status_name(code), words, \
                     tern_status_name(tern_error_code()), tern_error_text());            \
        tern_error_clear();                                                              \
    } while (0)

#define assert_close(a, b, tolerance)                                                 \
    do {                                                                              \
        const double a_ = (a), b_ = (b);                                              \
        if (!(a_ - b_ <= (tolerance) && b_ - a_ <= (tolerance)))                      \
            fail_msg("%.10g is not within %g of %.10g", a_, (double)(tolerance), b_); \
    } while (0)

#endif
