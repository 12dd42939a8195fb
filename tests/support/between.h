/* A number within limits, which are included. cmocka 2 deprecates assert_in_range in favour of names that 1 lacks.
 * The includer has cmocka. */
#ifndef TESTS_SUPPORT_BETWEEN_H
#define TESTS_SUPPORT_BETWEEN_H

#include <inttypes.h>
#include <stdint.h>

#define assert_between(value, low, high)                                                     \
    do {                                                                                     \
        const int64_t value_ = (int64_t)(value);                                             \
        const int64_t low_ = (int64_t)(low), high_ = (int64_t)(high);                        \
        if (value_ < low_ || value_ > high_)                                                 \
            fail_msg("%s is %" PRId64 ", not %" PRId64 " to %" PRId64, #value, value_, low_, \
                     high_);                                                                 \
    } while (0)

#endif
