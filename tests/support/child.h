/* Cases that need a process of their own, because a library is opened once in each: run in a child with
 * TERN_SIM_* set, their log kept. The parent may not have used a device before. */
#ifndef TESTS_SUPPORT_CHILD_H
#define TESTS_SUPPORT_CHILD_H

#include <stdlib.h>

#include "tests/support/check.h"

/* TERN_SIM_FAIL and TERN_SIM_ABSENT; NULL: unset. */
typedef struct child_machine {
    const char *fail, *absent;
    bool quiet; /* it may well fail */
} child_machine;

/* Did the body come to its end in a child? It uses EXPECT, nothing of cmocka's. */
bool child_holds(void (*body)(void), child_machine machine);
#define assert_in_child(body, ...) assert_true(child_holds(body, (child_machine){ __VA_ARGS__ }))

/* The same without a machine's settings, for children of a program in the middle of something: did it end well, and
 * within 20 seconds, where a lock may be taken for ever? The body may end it by _exit. */
bool child_ends_well(void (*body)(void *context), void *context);

/* In a child: ends it as failed, saying why. */
void child_fail(const char *file, int line, const char *what) __attribute__((noreturn));
#define EXPECT(condition)                               \
    do {                                                \
        if (!(condition))                               \
            child_fail(__FILE__, __LINE__, #condition); \
    } while (0)

/* How often these words are in what the child's log said so far, all levels. */
int child_said(const char *words);
/* The largest distance of two results, in units of the second's largest value. */
double child_distance(tern_tensor *there, tern_tensor *here);

#endif
