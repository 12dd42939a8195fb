/* Elementwise ops of the CPU with scalar references in double precision, and one call against them. */
#ifndef TESTS_SUPPORT_ELEMENTWISE_H
#define TESTS_SUPPORT_ELEMENTWISE_H

#include "tests/support/kernel.h"

typedef struct op_case {
    const char *name;
    tern_kernel kernel;
    int inputs;
    double (*of1)(double);
    double (*of2)(double, double);
    uint32_t dtypes;
    double low, high; /* of inputs; integers use whole numbers of the range */
    double tolerance; /* of f32 */
    bool compares;
} op_case;

enum { ELEMENTWISE_CASES = 48 };
extern const op_case elementwise_cases[ELEMENTWISE_CASES];
const op_case *elementwise_case(const char *name);
/* Calls `body` for every op and each of its dtypes. */
void elementwise_each(void (*body)(const op_case *op, tern_dtype_t dtype));

/* A call: random operands in the op's range, an output. */
typedef struct setting {
    const op_case *op;
    tern_dtype_t dtype;
    karray in[2], out;
    int threads;
} setting;
setting make_setting(const op_case *op, tern_dtype_t dtype, int ndim, const int64_t *dims);
/* An operand of the op; integers and bool take whole numbers of the range that they can hold. */
karray setting_input(const op_case *op, tern_dtype_t dtype, int ndim, const int64_t *dims,
                     uint64_t seed);
void free_setting(setting *s);
/* The reference's element i. */
double want_at(const setting *s, int64_t i);
/* Runs a setting and compares all elements; a body for kernel_each_isa. */
void check_setting(void *context);

#endif
