/* Kernels over rows give a row the same bits wherever the range that it is in begins and ends, and whether results are
 * written past the caches or not, in the ways of each CPU that they are tuned for. */
#include <stdlib.h>
#include <string.h>

#include "backend_cpu/rows.h"
#include "backend_cpu/tuning.h"
#include "tests/support/check.h"
#include "tests/support/kernel.h"

enum { ROWS = 7 };

typedef struct range_case {
    int64_t n;
    bool log, affine;
} range_case;

static float *numbers(int64_t count, uint32_t seed)
{
    float *values = aligned_alloc(64, ((size_t)count * sizeof *values + 63) / 64 * 64);
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 8) * 0x1p-21f - 4;
    }
    return values;
}

static const int64_t cuts[][2] = { { 0, 1 }, { 1, 3 }, { 3, 4 }, { 4, 7 } };

static void check_softmax(void *context)
{
    const range_case *c = context;
    const size_t bytes = (size_t)(ROWS * c->n) * sizeof(float);
    float *x = numbers(ROWS * c->n, 1), *whole = numbers(ROWS * c->n, 2);
    float *parts = numbers(ROWS * c->n, 3);
    cpu_softmax_args args = { .x = x, .n = c->n, .inner = 1, .dtype = TERN_F32, .log = c->log };
    args.out = whole;
    CPU_ISA_PICK(cpu_softmax_rows)(&args, 0, ROWS);
    args.out = parts;
    for (int stream = 0; stream < 2; stream++) {
        args.stream = stream != 0;
        for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
            CPU_ISA_PICK(cpu_softmax_rows)(&args, cuts[i][0], cuts[i][1]);
        assert_memory_equal(whole, parts, bytes);
    }
    free(x), free(whole), free(parts);
}

static void check_layer_norm(void *context)
{
    const range_case *c = context;
    const size_t bytes = (size_t)(ROWS * c->n) * sizeof(float);
    float *x = numbers(ROWS * c->n, 1), *whole = numbers(ROWS * c->n, 2);
    float *parts = numbers(ROWS * c->n, 3), *parameters = numbers(2 * c->n, 4);
    float mean[ROWS], rstd[ROWS];
    cpu_layer_norm_args args = { .x = x, .n = c->n, .dtype = TERN_F32, .eps = 1e-5 };
    args.weight = parameters;
    args.bias = c->affine ? parameters + c->n : NULL;
    args.mean = mean;
    args.rstd = rstd;
    args.out = whole;
    CPU_ISA_PICK(cpu_layer_norm_rows)(&args, 0, ROWS);
    args.out = parts;
    for (int stream = 0; stream < 2; stream++) {
        args.stream = stream != 0;
        for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
            CPU_ISA_PICK(cpu_layer_norm_rows)(&args, cuts[i][0], cuts[i][1]);
        assert_memory_equal(whole, parts, bytes);
    }
    free(x), free(whole), free(parts), free(parameters);
}

/* Gradients of rows, and of the parameters, which add up over the ranges in their order. */
static void check_layer_norm_grad(void *context)
{
    const range_case *c = context;
    const size_t bytes = (size_t)(ROWS * c->n) * sizeof(float);
    const size_t few = (size_t)(2 * c->n) * sizeof(float);
    float *x = numbers(ROWS * c->n, 1), *grad = numbers(ROWS * c->n, 2);
    float *whole = numbers(ROWS * c->n, 3), *parts = numbers(ROWS * c->n, 4);
    float *weight = numbers(c->n, 5), *sums = numbers(2 * c->n, 6), *others = numbers(2 * c->n, 6);
    float mean[ROWS] = { 0.5f, -1 }, rstd[ROWS] = { 1, 2, 0.5f, 3, 0.25f, 1.5f, 0.75f };
    cpu_layer_norm_args args = { .x = x, .grad = grad, .n = c->n, .dtype = TERN_F32 };
    args.weight = c->affine ? weight : NULL;
    args.mean = mean;
    args.rstd = rstd;
    args.out = whole;
    CPU_ISA_PICK(cpu_layer_norm_grad_rows)(&args, 0, ROWS, sums, sums + c->n);
    args.out = parts;
    for (int past = 0; past < 3; past++) {
        args.stream = past > 0;
        args.outgrows = past > 1;
        float *again = numbers(2 * c->n, 6);
        memcpy(others, again, few);
        free(again);
        for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
            CPU_ISA_PICK(cpu_layer_norm_grad_rows)
        (&args, cuts[i][0], cuts[i][1], others, others + c->n);
        assert_memory_equal(whole, parts, bytes);
        assert_memory_equal(sums, others, few);
    }
    free(x), free(grad), free(whole), free(parts), free(weight), free(sums), free(others);
}

static void test_rows_have_the_same_bits_in_any_range(void **state)
{
    (void)state;
    static const int64_t lengths[] = { 1,  7,   16,   17,   31,   32,   33,   48,
                                       64, 100, 1000, 1008, 1024, 2048, 2100, 2624 };
    const int own = cpu_tuning();
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (int way = 0; way < 2 * CPU_TUNINGS; way++) {
            range_case c = { lengths[i], way % 2 != 0, way % 2 != 0 };
            cpu_tuning_chosen = 1 + way / 2;
            kernel_each_isa(check_softmax, &c);
            kernel_each_isa(check_layer_norm, &c);
            kernel_each_isa(check_layer_norm_grad, &c);
        }
    }
    cpu_tuning_chosen = own;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_have_the_same_bits_in_any_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
