/* What every test program includes: cmocka and its needs, and checks of tern's errors. */
#ifndef TESTS_SUPPORT_CHECK_H
#define TESTS_SUPPORT_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
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

/* The elements of t, row-major, at most 64, are exactly these. */
void check_elements(tern_tensor *t, const float *want, int64_t n);
/* Nothing was made, and the pending error says so; clears it. */
void check_refusal(bool made, const char *says);

/* ---- devices --------------------------------------------------------------------------------------
 * A suite that runs with check_run makes its tensors on the device that TERN_TEST_DEVICE names
 * ("cuda", "cuda:1"), which becomes the default device; without it on the CPU. */

/* Chooses the device; false, with the reason printed, when there is none. */
bool check_device_ready(void);
bool check_on_cpu(void);
/* Waits for the device; an error that no test has asked for counts as one failure more. */
int check_device_done(int failed);

#define check_run(tests, setup, teardown) \
    (check_device_ready() ? check_device_done(cmocka_run_group_tests(tests, setup, teardown)) : 1)

/* Bad values are an error at once on the CPU, and elsewhere at the next wait. */
#define assert_refused(tensor)                                                          \
    do {                                                                                \
        const tern_tensor *t_ = (tensor);                                               \
        if (check_on_cpu())                                                             \
            assert_null(t_);                                                            \
        else                                                                            \
            assert_int_not_equal(tern_dev_synchronize(tern_default_device()), TERN_OK); \
    } while (0)

/* In a test that is about the CPU, or about what another device's suite holds. */
#define check_cpu_only(why)                        \
    do {                                           \
        if (!check_on_cpu()) {                     \
            print_message("skipped: %s\n", (why)); \
            skip();                                \
        }                                          \
    } while (0)

#endif
