#include "tests/support/product.h"

#include <stdlib.h>

#include "tests/support/check.h"
#include "tests/support/kernel.h"

static void expect_product(const product_case *c, const karray *a, const karray *b,
                           const karray *out)
{
    const int64_t batches = c->batch > 0 ? c->batch : 1;
    double *left = karray_in_order(a), *right = karray_in_order(b);
    for (int64_t i = 0; i < batches * c->m * c->n; i++) {
        const int64_t p = i / (c->m * c->n), row = i / c->n % c->m, column = i % c->n;
        const double *x = left + (p * c->m + row) * c->k, *y = right + p * c->k * c->n + column;
        double sum = 0;
        for (int64_t k = 0; k < c->k; k++)
            sum += x[k] * y[k * c->n];
        kernel_expect("gemm", i, karray_at(out, i), sum,
                      kernel_product_limit(c->dtype) * (1 + (double)c->k / 64));
    }
    free(left);
    free(right);
}

void product_check(const product_case *c)
{
    const int64_t a_dims[3] = { c->batch, c->m, c->k }, b_dims[3] = { c->batch, c->k, c->n };
    const int64_t out_dims[3] = { c->batch, c->m, c->n };
    const int skip = c->batch == 0, ndim = 3 - skip;
    karray a = kernel_operand(c->dtype, ndim, a_dims + skip, 1);
    karray b = kernel_operand(c->dtype, ndim, b_dims + skip, 2);
    karray out = karray_filled(c->dtype, ndim, out_dims + skip, 7);
    karray_relayout(&a, c->a_layout);
    karray_relayout(&b, c->b_layout);
    if (c->a_repeated)
        karray_repeat(&a, 0);
    if (c->b_repeated)
        karray_repeat(&b, 0);
    const kernel_run run = { .kernel = cpu_gemm,
                             .threads = c->threads,
                             .in = { &a, &b },
                             .out = { &out },
                             .n_in = 2,
                             .n_out = 1 };
    if (kernel_call(&run) != TERN_OK)
        fail_msg("gemm: %s", kernel_message());
    expect_product(c, &a, &b, &out);
    karray_free(&a);
    karray_free(&b);
    karray_free(&out);
}
