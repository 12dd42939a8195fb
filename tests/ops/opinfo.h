/* One description per op row: inputs, call, scalar reference. tests/ops/test_conformance.c runs each
 * over dtypes and layouts, compares with the reference in double precision, and checks gradients of
 * first and second order against differences. To test a new op add one entry; the lint fails for a row
 * without one. */
#ifndef TESTS_OPS_OPINFO_H
#define TESTS_OPS_OPINFO_H

#include "tests/support/value.h"

enum { MAX_IN = 5 };

typedef enum input_kind {
    INPUT_NONE,  /* an optional input that is not given */
    INPUT_REAL,  /* the dtype under test, uniform in [low, high) */
    INPUT_INDEX, /* i64, whole numbers in [low, high) */
    INPUT_BOOL,
    INPUT_F32 /* f32 (f64 when that is under test): statistics */
} input_kind;

typedef struct input_spec {
    input_kind kind;
    int ndim;
    int64_t dims[5];
    double low, high; /* both 0: [-2, 2) */
} input_spec;

typedef struct opinfo {
    const char *op;    /* the row's name */
    const char *label; /* which case of it */
    input_spec in[MAX_IN];
    tern_tensor *(*run)(tern_tensor **in);
    value (*ref)(const value *in); /* NULL elements (data) for inputs not given */
    uint32_t differentiable;       /* bit i: gradients of input i are checked */
    int order;                     /* 0: no gradients, 1, 2 */
    bool keep_layout;              /* run row-major only (the case is about layout itself) */
    double floor;                  /* errors are relative to max(floor, |reference|); default 1 */
    uint32_t skip_dtypes;          /* taken by the row, without agreeing with this reference; a
                                    * skip that would pass fails */
    const char *why;               /* reason of skip_dtypes or of order < 2 */
} opinfo;

/* All cases, one after the other; NULL behind the last. */
const opinfo *opinfo_at(int i);
/* The row of that name, or NULL. */
const tern_op *opinfo_row(const char *name);
/* A case's inputs (MAX_IN), quantised to the dtype; value_free each. Numbers depend on the seed. */
extern uint64_t opinfo_seed;
void opinfo_values(const opinfo *info, tern_dtype_t dtype, value *values);
/* For LAYOUT_EXPANDED: each input repeats along one dimension, another one at each turn. */
void opinfo_repeat(const opinfo *info, int turn, value *values);
/* Whether some input of the case lies otherwise in that layout than row-major. */
bool opinfo_has_layout(const opinfo *info, layout l);
/* The same as tensors of the innermost scope; NULL for those that are not given. */
void opinfo_tensors(const opinfo *info, tern_dtype_t dtype, layout l, const value *values,
                    tern_tensor **in);
/* The case with nothing in it: the first dimension of the input of most dimensions, and of each input
 * that is as long there, has extent 0. False for a case of numbers, and where an extent is 0 already. */
bool opinfo_empty(const opinfo *info, opinfo *empty);
bool opinfo_has_nothing(const opinfo *info);
/* Why that form does not pass (not_empty.def), or NULL; how many lines there are. */
const char *opinfo_not_empty(const opinfo *info);
extern const int opinfo_not_empty_count;
/* The error that a result of the row may have in a dtype. */
double opinfo_allowed(const tern_op *row, tern_dtype_t dtype);

/* Makes the row's name searchable by the lint. */
#define OPINFO(name) .op = #name

/* The files opinfo_<family>.c, each with an array of cases and its length. */
/* clang-format off */
#define OPINFO_FAMILIES(X) \
    X(elementwise) X(unary) X(shape) X(moves) X(indexing) X(reduce) X(fold) X(order) X(product) \
    X(norm) X(loss) X(binary) X(einsum) X(attention) X(optim) X(recurrent) X(image)
#define OPINFO_DECLARED(family)            \
    extern const opinfo opinfo_##family[]; \
    extern const int opinfo_##family##_count;
OPINFO_FAMILIES(OPINFO_DECLARED)
#undef OPINFO_DECLARED
/* clang-format on */

#endif
