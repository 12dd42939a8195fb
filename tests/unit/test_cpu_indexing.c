/* embedding, gather and dropout kernels against plain loops, for every instruction set. */
#include <math.h>
#include <stdlib.h>

#include "tests/support/check.h"
#include "tests/support/kernel.h"

/* ---- embedding ------------------------------------------------------------------------------- */

typedef struct embedding_case {
    tern_dtype_t dtype, index_dtype;
    int64_t rows, n, count;
    int threads;
} embedding_case;

static tern_status_t embedding_run(const embedding_case *c, tern_kernel kernel, const karray *from,
                                   const karray *indices, karray *to)
{
    const tern_attr_dim attr = { .size = c->rows };
    const kernel_run run = { .kernel = kernel,
                             .attr = &attr,
                             .threads = c->threads,
                             .in = { from, indices },
                             .n_in = 2,
                             .out = { to },
                             .n_out = 1 };
    return kernel_call(&run);
}

static void check_embedding(void *context)
{
    const embedding_case *c = context;
    karray table = karray_random(c->dtype, 2, (int64_t[]){ c->rows, c->n }, -100, 100, 1);
    karray indices = karray_random(c->index_dtype, 1, &c->count, 0, (double)c->rows, 2);
    karray out = karray_filled(c->dtype, 2, (int64_t[]){ c->count, c->n }, 7);
    assert_int_equal(embedding_run(c, cpu_embedding, &table, &indices, &out), TERN_OK);
    for (int64_t i = 0; i < c->count * c->n; i++) {
        const int64_t row = (int64_t)indices.values[i / c->n];
        assert_true(karray_at(&out, i) == table.values[row * c->n + i % c->n]);
    }
    karray_free(&table);
    karray_free(&indices);
    karray_free(&out);
}

static void check_embedding_grad(void *context)
{
    const embedding_case *c = context;
    karray grad = karray_random(c->dtype, 2, (int64_t[]){ c->count, c->n }, -1, 1, 1);
    karray indices = karray_random(c->index_dtype, 1, &c->count, 0, (double)c->rows, 2);
    karray out = karray_filled(c->dtype, 2, (int64_t[]){ c->rows, c->n }, 7);
    assert_int_equal(embedding_run(c, cpu_embedding_grad, &grad, &indices, &out), TERN_OK);
    double *want = calloc((size_t)(c->rows * c->n), sizeof *want);
    for (int64_t i = 0; i < c->count * c->n; i++)
        want[(int64_t)indices.values[i / c->n] * c->n + i % c->n] += grad.values[i];
    for (int64_t i = 0; i < c->rows * c->n; i++)
        kernel_expect("table's gradient", i, karray_at(&out, i), want[i],
                      kernel_tolerance(c->dtype, 1e-6));
    free(want);
    karray_free(&grad);
    karray_free(&indices);
    karray_free(&out);
}

static void test_embedding_copies_rows_of_any_dtype(void **state)
{
    (void)state;
    const tern_dtype_t dtypes[] = { TERN_BOOL, TERN_I8, TERN_F16, TERN_I32, TERN_F32, TERN_F64 };
    const int64_t widths[] = { 1, 2, 3, 8, 64 };
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 5; k++) {
            embedding_case c = { dtypes[i], k % 2 ? TERN_I32 : TERN_I64, 10, widths[k], 25, 1 };
            check_embedding(&c);
        }
    embedding_case large = { TERN_F32, TERN_I64, 100, 64, 5000, 2 };
    check_embedding(&large);
}

static void test_embedding_grad_adds_rows(void **state)
{
    (void)state;
    const tern_dtype_t floats[] = { TERN_F32, TERN_F64, TERN_F16, TERN_BF16 };
    const int64_t widths[] = { 1, 2, 5, 16, 17, 63, 64, 65, 200 };
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 9; k++) {
            embedding_case c = { floats[i], k % 2 ? TERN_I32 : TERN_I64, 7, widths[k], 25, 1 };
            kernel_each_isa(check_embedding_grad, &c);
        }
    embedding_case large = { TERN_F32, TERN_I64, 3000, 64, 9000, 2 };
    kernel_each_isa(check_embedding_grad, &large);
    embedding_case empty = { TERN_F32, TERN_I64, 3, 4, 0, 1 };
    kernel_each_isa(check_embedding_grad, &empty);
}

static void test_an_index_outside_the_table_is_named(void **state)
{
    (void)state;
    const embedding_case c = { TERN_F32, TERN_I64, 10, 4, 6, 1 };
    karray table = karray_filled(TERN_F32, 2, (int64_t[]){ 10, 4 }, 1);
    karray indices = karray_filled(TERN_I64, 1, &c.count, 0);
    karray out = karray_filled(TERN_F32, 2, (int64_t[]){ 6, 4 }, 7);
    const double bad[] = { 10, -1 };
    for (int i = 0; i < 2; i++) {
        karray_set(&indices, 5, bad[i]);
        assert_int_equal(embedding_run(&c, cpu_embedding, &table, &indices, &out), TERN_ERR_INDEX);
        assert_non_null(
            strstr(kernel_message(), i == 0 ? "index 10 at position 5" : "index -1 at position 5"));
        assert_true(karray_at(&out, 0) == 7);
        assert_int_equal(embedding_run(&c, cpu_embedding_grad, &out, &indices, &table),
                         TERN_ERR_INDEX);
    }
    karray_free(&table);
    karray_free(&indices);
    karray_free(&out);
}

/* ---- gather ---------------------------------------------------------------------------------- */

typedef struct gather_case {
    tern_dtype_t dtype;
    int ndim, dim;
    int64_t x[3], index[3];
    bool reversed; /* x and the index have reversed strides */
    int threads;
} gather_case;

/* The same elements; strides of reversed order. */
static void reverse_strides(karray *a)
{
    int64_t stride = 1;
    for (int d = 0; d < a->view.ndim; d++) {
        a->view.stride[d] = stride;
        stride *= a->view.shape[d];
    }
    a->view.flags = TERN_VIEW_DENSE;
    const int64_t size = tern_dtype_size((tern_dtype_t)a->view.dtype);
    char *moved = malloc((size_t)(a->view.numel * size) + 1);
    for (int64_t i = 0; i < a->view.numel; i++) {
        int64_t place = 0, rest = i;
        for (int d = a->view.ndim - 1; d >= 0; d--) {
            place += rest % a->view.shape[d] * a->view.stride[d];
            rest /= a->view.shape[d];
        }
        memcpy(moved + place * size, (char *)a->view.data + i * size, (size_t)size);
    }
    memcpy(a->view.data, moved, (size_t)(a->view.numel * size));
    free(moved);
}

/* Row-major number, in x, of what element i of the index points to. */
static int64_t source_of(const gather_case *c, int64_t i, int64_t k)
{
    int64_t source = 0, stride = 1;
    for (int d = c->ndim - 1; d >= 0; d--) {
        source += (d == c->dim ? k : i % c->index[d]) * stride;
        i /= c->index[d];
        stride *= c->x[d];
    }
    return source;
}

/* Numbers for the case, each of a place along `dim`. */
static karray random_index(const gather_case *c)
{
    const double extent = c->ndim > 0 ? (double)c->x[c->dim] : 1;
    return karray_random(TERN_I64, c->ndim, c->index, 0, extent, 2);
}

/* third: NULL, of two operands. */
static void run_gather(const gather_case *c, tern_kernel kernel, const void *attr, karray *first,
                       karray *index, karray *third, karray *out)
{
    const kernel_run run = { .kernel = kernel,
                             .attr = attr,
                             .threads = c->threads,
                             .in = { first, index, third },
                             .n_in = third != NULL ? 3 : 2,
                             .out = { out },
                             .n_out = 1 };
    assert_int_equal(kernel_call(&run), TERN_OK);
}

static void check_gather(void *context)
{
    const gather_case *c = context;
    const tern_attr_dim attr = { .dim = c->dim };
    karray x = karray_random(c->dtype, c->ndim, c->x, -100, 100, 1);
    karray index = random_index(c);
    karray out = karray_filled(c->dtype, c->ndim, c->index, 7);
    if (c->reversed) {
        reverse_strides(&x);
        reverse_strides(&index);
    }
    run_gather(c, cpu_gather, &attr, &x, &index, NULL, &out);
    for (int64_t i = 0; i < out.view.numel; i++)
        assert_true(karray_at(&out, i) == x.values[source_of(c, i, (int64_t)index.values[i])]);
    karray_free(&x);
    karray_free(&index);
    karray_free(&out);
}

static void check_gather_grad(void *context)
{
    const gather_case *c = context;
    tern_attr_gather_grad attr = { .dim = c->dim, .ndim = c->ndim };
    karray g = karray_random(c->dtype, c->ndim, c->index, -1, 1, 1);
    karray index = random_index(c);
    karray out = karray_filled(c->dtype, c->ndim, c->x, 7);
    double *want = calloc((size_t)out.view.numel + 1, sizeof *want);
    for (int64_t i = 0; i < g.view.numel; i++)
        want[source_of(c, i, (int64_t)index.values[i])] += g.values[i];
    if (c->reversed) {
        reverse_strides(&g);
        reverse_strides(&index);
    }
    run_gather(c, cpu_gather_grad, &attr, &g, &index, NULL, &out);
    for (int64_t i = 0; i < out.view.numel; i++)
        kernel_expect("gather's gradient", i, karray_at(&out, i), want[i],
                      kernel_tolerance(c->dtype, 1e-6));
    free(want);
    karray_free(&g);
    karray_free(&index);
    karray_free(&out);
}

/* Of sources for one place the last along `dim` stays. */
static void check_scatter(void *context)
{
    const gather_case *c = context;
    const tern_attr_dim attr = { .dim = c->dim };
    karray x = karray_random(c->dtype, c->ndim, c->x, 0, 100, 1);
    karray index = random_index(c);
    karray src = karray_random(c->dtype, c->ndim, c->index, 0, 100, 3);
    karray out = karray_filled(c->dtype, c->ndim, c->x, 7);
    double *want = calloc((size_t)x.view.numel + 1, sizeof *want);
    for (int64_t i = 0; i < x.view.numel; i++)
        want[i] = x.values[i];
    for (int64_t i = 0; i < src.view.numel; i++)
        want[source_of(c, i, (int64_t)index.values[i])] = src.values[i];
    if (c->reversed) {
        reverse_strides(&src);
        reverse_strides(&index);
    }
    run_gather(c, cpu_scatter, &attr, &x, &index, &src, &out);
    for (int64_t i = 0; i < out.view.numel; i++)
        assert_true(karray_at(&out, i) == want[i]);
    free(want);
    karray_free(&x);
    karray_free(&index);
    karray_free(&src);
    karray_free(&out);
}

static const gather_case gather_cases[] = {
    { .ndim = 0, .dim = 0 },
    { .ndim = 1, .dim = 0, .x = { 9 }, .index = { 40 } },
    { .ndim = 2, .dim = 0, .x = { 4, 9 }, .index = { 30, 5 } },
    { .ndim = 2, .dim = 1, .x = { 30, 9 }, .index = { 20, 1 } },
    { .ndim = 2, .dim = 1, .x = { 3, 50 }, .index = { 3, 90 } },
    { .ndim = 3, .dim = 1, .x = { 5, 6, 7 }, .index = { 4, 11, 7 } },
    { .ndim = 3, .dim = 2, .x = { 5, 6, 7 }, .index = { 5, 2, 3 } },
    { .ndim = 3, .dim = 0, .x = { 5, 6, 7 }, .index = { 0, 2, 3 } },
    { .ndim = 1, .dim = 0, .x = { 300 }, .index = { 5000 } }, /* more than a piece of a line */
    { .ndim = 2, .dim = 0, .x = { 9, 5000 }, .index = { 2, 5000 } },
    { .ndim = 2, .dim = 1, .x = { 4000, 30 }, .index = { 4000, 40 }, .threads = 2 },
    { .ndim = 2, .dim = 0, .x = { 30, 4000 }, .index = { 40, 3000 }, .threads = 2 },
};

static void test_gather_along_any_dimension_and_strides(void **state)
{
    (void)state;
    const tern_dtype_t dtypes[] = { TERN_U8, TERN_BF16, TERN_F32, TERN_I64 };
    for (size_t i = 0; i < sizeof gather_cases / sizeof *gather_cases; i++)
        for (int k = 0; k < 8; k++) {
            gather_case c = gather_cases[i];
            c.dtype = dtypes[k % 4];
            c.reversed = k >= 4;
            check_gather(&c);
        }
}

static void test_gather_grad_adds_along_any_dimension_and_strides(void **state)
{
    (void)state;
    const tern_dtype_t floats[] = { TERN_F32, TERN_F64, TERN_F16, TERN_BF16 };
    for (size_t i = 0; i < sizeof gather_cases / sizeof *gather_cases; i++)
        for (int k = 0; k < 8; k++) {
            gather_case c = gather_cases[i];
            c.dtype = floats[k % 4];
            c.reversed = k >= 4;
            check_gather_grad(&c);
        }
}

static void test_scatter_puts_along_any_dimension_and_strides(void **state)
{
    (void)state;
    const tern_dtype_t dtypes[] = { TERN_U8, TERN_BF16, TERN_F32, TERN_I64 };
    for (size_t i = 0; i < sizeof gather_cases / sizeof *gather_cases; i++)
        for (int k = 0; k < 8; k++) {
            gather_case c = gather_cases[i];
            c.dtype = dtypes[k % 4];
            c.reversed = k >= 4;
            check_scatter(&c);
        }
}

/* Number `bad` at `position` of 3 lines of n, into lines of 4: of x, or of what is written. */
static void check_bad_number(tern_kernel kernel, int64_t n, int64_t position, double bad)
{
    const tern_attr_dim attr = { .dim = 1 };
    const int64_t lines[] = { 3, n };
    const bool puts = kernel == cpu_scatter;
    karray x = karray_filled(TERN_F32, 2, (int64_t[]){ 3, 4 }, 1);
    karray index = karray_filled(TERN_I64, 2, lines, 3), src = karray_filled(TERN_F32, 2, lines, 5);
    karray out = karray_filled(TERN_F32, 2, puts ? (int64_t[]){ 3, 4 } : lines, 7);
    karray_set(&index, position, bad);
    const kernel_run run = { .kernel = kernel,
                             .attr = &attr,
                             .in = { &x, &index, &src },
                             .n_in = puts ? 3 : 2,
                             .out = { &out },
                             .n_out = 1 };
    char text[80];
    (void)snprintf(text, sizeof text,
                   "index %.0f at position %lld is outside dimension 1, which has 4", bad,
                   (long long)position);
    assert_int_equal(kernel_call(&run), TERN_ERR_INDEX);
    assert_non_null(strstr(kernel_message(), text));
    if (puts)
        assert_true(karray_at(&out, 3) == 1);
    karray_free(&x);
    karray_free(&index);
    karray_free(&src);
    karray_free(&out);
}

static void test_an_index_out_of_range_is_named(void **state)
{
    (void)state;
    static const int64_t places[][2] = { { 2, 3 }, { 5000, 0 }, { 5000, 4999 }, { 5000, 12000 } };
    static const double numbers[] = { 4, -1, 0x1p62, -0x1p63 };
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            check_bad_number(cpu_gather, places[i][0], places[i][1], numbers[k]);
            check_bad_number(cpu_scatter, places[i][0], places[i][1], numbers[k]);
        }
}

/* ---- dropout --------------------------------------------------------------------------------- */

typedef struct dropout_case {
    tern_dtype_t dtype;
    double p;
    int64_t n;
    int threads;
} dropout_case;

/* Uniform of element i: the top 24 bits of its 32. */
static double uniform_of(const tern_attr_dropout *attr, int64_t i)
{
    uint32_t bits[4];
    tern_philox(attr->seed, attr->call, (uint64_t)i / 4, bits);
    return (double)(bits[i % 4] >> 8) * 0x1p-24;
}

static void check_dropout(void *context)
{
    const dropout_case *c = context;
    const tern_attr_dropout attr = { .seed = 42, .call = 3, .p = c->p };
    karray x = karray_random(c->dtype, 1, &c->n, -2, 2, 1);
    karray y = karray_filled(c->dtype, 1, &c->n, 7);
    karray gx = karray_filled(c->dtype, 1, &c->n, 7);
    karray mask = karray_filled(TERN_U8, 1, &c->n, 7);
    const kernel_run forward = { .kernel = cpu_dropout,
                                 .attr = &attr,
                                 .threads = c->threads,
                                 .in = { &x },
                                 .n_in = 1,
                                 .out = { &y, &mask },
                                 .n_out = 2 };
    const kernel_run backward = { .kernel = cpu_dropout_grad,
                                  .attr = &attr,
                                  .threads = c->threads,
                                  .in = { &x, &mask },
                                  .n_in = 2,
                                  .out = { &gx },
                                  .n_out = 1 };
    assert_int_equal(kernel_call(&forward), TERN_OK);
    assert_int_equal(kernel_call(&backward), TERN_OK);
    for (int64_t i = 0; i < c->n; i++) {
        const bool kept = uniform_of(&attr, i) >= c->p;
        const double want = kept ? x.values[i] / (1 - c->p) : 0;
        assert_int_equal((int)karray_at(&mask, i), kept);
        kernel_expect("y", i, karray_at(&y, i), want, kernel_tolerance(c->dtype, 3e-7));
        assert_true(karray_at(&gx, i) == karray_at(&y, i));
    }
    karray_free(&x);
    karray_free(&y);
    karray_free(&gx);
    karray_free(&mask);
}

static void test_dropout_keeps_what_the_documented_draw_says(void **state)
{
    (void)state;
    const tern_dtype_t floats[] = { TERN_F32, TERN_F64, TERN_F16, TERN_BF16 };
    const double chances[] = { 0.1, 0.5, 0.9999, 1 };
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            dropout_case c = { floats[i], chances[k], 1301, 1 };
            kernel_each_isa(check_dropout, &c);
        }
    dropout_case large = { TERN_F32, 0.3, 100001, 2 };
    kernel_each_isa(check_dropout, &large);
    dropout_case none = { TERN_F32, 0.3, 0, 1 };
    kernel_each_isa(check_dropout, &none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embedding_copies_rows_of_any_dtype),
        cmocka_unit_test(test_embedding_grad_adds_rows),
        cmocka_unit_test(test_an_index_outside_the_table_is_named),
        cmocka_unit_test(test_gather_along_any_dimension_and_strides),
        cmocka_unit_test(test_gather_grad_adds_along_any_dimension_and_strides),
        cmocka_unit_test(test_scatter_puts_along_any_dimension_and_strides),
        cmocka_unit_test(test_an_index_out_of_range_is_named),
        cmocka_unit_test(test_dropout_keeps_what_the_documented_draw_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
