/* Walks over golden vectors: a test lists its cases as rows, and each is run in f64 and f32, forward
 * and, where the file has gradients, backward. */
#ifndef TESTS_SUPPORT_GOLDEN_ROWS_H
#define TESTS_SUPPORT_GOLDEN_ROWS_H

#include "tests/support/golden.h"

enum { GOLDEN_MOST_INPUTS = 8 };

/* Makes the result of a case from its inputs, in the order in which the row names them. */
typedef tern_tensor *(*golden_fn)(tern_tensor **in);

/* A case: inputs are names parted by spaces; `error` is in units of the dtype's epsilon, relative to
 * the larger of 1 and the wanted value. */
typedef struct golden_row {
    const char *test;
    const char *inputs;
    golden_fn run;
    double error;
} golden_row;

/* Defines run_<name>; the expression uses in[0], in[1], ... */
#define GOLDEN_OP(name, expression)                  \
    static tern_tensor *run_##name(tern_tensor **in) \
    {                                                \
        return expression;                           \
    }

typedef struct golden_inputs {
    int count;
    char names[GOLDEN_MOST_INPUTS][16];
    tern_tensor *tensors[GOLDEN_MOST_INPUTS];
} golden_inputs;

/* Floats in that dtype, integers as i64; those with a gradient in the file require one. */
golden_inputs golden_make_inputs(const golden_row *r, tern_dtype_t dtype);
/* Fails the test where t is further from `want` than the row allows. */
void golden_check(const golden_row *r, tern_dtype_t dtype, const char *name, tern_tensor *t,
                  const golden_array *want);
void golden_check_row(const golden_row *r, tern_dtype_t dtype);
void golden_check_rows(const golden_row *rows, int count);
/* Gradients of gradients of a case made by Golden.second, in f64. */
void golden_check_second_order(const char *test, golden_fn run);
/* Fails when a case of the file is in no row and begins with none of `elsewhere` (ends in NULL). */
void golden_check_complete(const golden_row *rows, int count, const char *const *elsewhere);
/* golden_open for cmocka's group setup: 0, or 1 after saying why on stderr. */
int golden_open_or_say(const char *family);

#endif
