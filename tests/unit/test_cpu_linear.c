/* The linear kernel against double loops: every float type, with and without a bias, any layout. */
#include <stdlib.h>

#include "backend_cpu/cpu.h"
#include "tests/support/check.h"
#include "tests/support/karray_layout.h"
#include "tests/support/kernel.h"

typedef struct linear_case {
    tern_dtype_t dtype;
    int64_t rows, in, out;
    bool bias;
    karray_layout x_layout, weight_layout, bias_layout;
} linear_case;

static void check_linear(const linear_case *c)
{
    const int64_t x_dims[2] = { c->rows, c->in }, w_dims[2] = { c->out, c->in };
    const int64_t out_dims[2] = { c->rows, c->out };
    karray x = kernel_operand(c->dtype, 2, x_dims, 1), w = kernel_operand(c->dtype, 2, w_dims, 2);
    karray b = kernel_operand(c->dtype, 1, &c->out, 3),
           out = karray_filled(c->dtype, 2, out_dims, 7);
    karray_relayout(&x, c->x_layout);
    karray_relayout(&w, c->weight_layout);
    karray_relayout(&b, c->bias_layout);
    const kernel_run run = { .kernel = cpu_linear,
                             .threads = 2,
                             .in = { &x, &w, c->bias ? &b : NULL },
                             .out = { &out },
                             .n_in = 3,
                             .n_out = 1 };
    if (kernel_call(&run) != TERN_OK)
        fail_msg("linear: %s", kernel_message());
    double *rows = karray_in_order(&x), *weights = karray_in_order(&w);
    for (int64_t i = 0; i < c->rows * c->out; i++) {
        const double *row = rows + i / c->out * c->in, *weight = weights + i % c->out * c->in;
        double sum = c->bias ? karray_at_place(&b, i % c->out) : 0;
        for (int64_t k = 0; k < c->in; k++)
            sum += row[k] * weight[k];
        kernel_expect("linear", i, karray_at(&out, i), sum,
                      kernel_product_limit(c->dtype) * (1 + (double)c->in / 64));
    }
    free(rows);
    free(weights);
    karray_free(&x);
    karray_free(&w);
    karray_free(&b);
    karray_free(&out);
}

static void linears(void *context)
{
    (void)context;
    static const int64_t sizes[][3] = { { 8, 4, 16 },     { 8, 16, 4 }, { 64, 128, 10 },
                                        { 1, 50, 30 },    { 3, 7, 5 },  { 70, 90, 33 },
                                        { 64, 300, 120 }, { 5, 0, 3 },  { 50, 64, 6 } };
    static const tern_dtype_t dtypes[] = { TERN_F32, TERN_F64, TERN_F16, TERN_BF16, TERN_I16 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int d = 0; d < 5; d++)
            for (int way = 0; way < 4; way++) {
                const linear_case c = { dtypes[d],
                                        sizes[i][0],
                                        sizes[i][1],
                                        sizes[i][2],
                                        .bias = way != 1,
                                        .x_layout = way == 2 ? KARRAY_SWAPPED : 0,
                                        .weight_layout = way == 3 ? KARRAY_SWAPPED : 0,
                                        .bias_layout = way == 2 ? KARRAY_GAPS : 0 };
                check_linear(&c);
            }
}

static void test_linear(void **state)
{
    (void)state;
    kernel_each_isa(linears, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_linear) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
