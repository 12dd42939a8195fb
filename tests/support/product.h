/* A matrix product by the CPU's kernel, compared with double loops. */
#ifndef TESTS_SUPPORT_PRODUCT_H
#define TESTS_SUPPORT_PRODUCT_H

#include "tests/support/karray_layout.h"

typedef struct product_case {
    tern_dtype_t dtype;
    int64_t batch; /* 0: two dimensions */
    int64_t m, k, n;
    karray_layout a_layout, b_layout;
    bool a_repeated, b_repeated; /* dimension 0 has stride 0 */
    int threads;
} product_case;

void product_check(const product_case *c);

#endif
