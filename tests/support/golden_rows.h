/* Golden vectors as rows: a test lists the cases of a family, and each is run in f64 and f32, forward
 * and, where the file has gradients, backward. A family's program is its rows and
 *
 *   int main(void)
 *   {
 *       golden_use("order", rows, sizeof rows / sizeof *rows, "");
 *       const struct CMUnitTest tests[] = { GOLDEN_TESTS };
 *       return check_run(tests, golden_setup, golden_teardown);
 *   } */
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

/* What a run gives beside its result: where the file has y2 and y3, a run has to put them here. */
extern tern_tensor *golden_second, *golden_third;

/* A row of a case made by Golden.second: gradients of gradients, in f64. */
#define GOLDEN_SECOND_ORDER(name, run)     \
    {                                      \
        "second_" name, "x gy u", run, 256 \
    }

/* ---- a family's program ------------------------------------------------------------------------- */

/* What the functions below work on. `elsewhere`: how the cases begin that no row has, since other tests
 * use them; words parted by spaces. */
void golden_use(const char *family, const golden_row *rows, size_t count, const char *elsewhere);
void golden_rows_agree(void **state);
void golden_no_case_is_left_out(void **state);
#define GOLDEN_TESTS \
    cmocka_unit_test(golden_rows_agree), cmocka_unit_test(golden_no_case_is_left_out)
/* The group's setup and teardown: they open and close <family>.txt. */
int golden_setup(void **state);
int golden_teardown(void **state);
/* golden_open, which says on stderr why it could not: false. */
bool golden_ready(const char *family);

/* ---- for what a row cannot say ------------------------------------------------------------------ */

typedef struct golden_inputs {
    int count;
    char names[GOLDEN_MOST_INPUTS][16];
    tern_tensor *tensors[GOLDEN_MOST_INPUTS];
} golden_inputs;

/* Floats in that dtype, integers as i64; those with a gradient in the file require one. */
golden_inputs golden_make_inputs(const golden_row *r, tern_dtype_t dtype);
/* An array of a case; fails the test when there is none. */
const golden_array *golden_need(const char *test, const char *name);
/* The same as a row-major tensor. */
tern_tensor *golden_tensor(const char *test, const char *name, tern_dtype_t dtype);
/* Fails the test when an error is pending or t further from that array of the case than the tolerance,
 * relative to the larger of 1 and the wanted value. */
void golden_check(const char *test, const char *name, tern_tensor *t, double tolerance);

#endif
