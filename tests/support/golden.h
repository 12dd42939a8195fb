/* Golden vectors: what PyTorch computes, from tests/golden/<family>.txt (made by make_<family>.py). */
#ifndef TESTS_SUPPORT_GOLDEN_H
#define TESTS_SUPPORT_GOLDEN_H

#include "tests/support/value.h"

typedef struct golden_array {
    char test[32]; /* name of the case */
    char name[48];
    bool is_integer;
    value v;
} golden_array;

/* Reads a family's file of the source tree (TERN_TEST_SOURCE, or the tree that this was compiled in).
 * A text that says what is wrong, or NULL. */
const char *golden_open(const char *family);
void golden_close(void);
/* An array of a case, or NULL. */
const golden_array *golden_find(const char *test, const char *name);
/* The i-th array of the file, NULL after the last. */
const golden_array *golden_at(int64_t i);

#endif
