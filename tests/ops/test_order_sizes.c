/* Sizes at which sorting changes its way on a GPU: tiles, passes by digits, rows. Each against the CPU, bit for bit. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check.h"

typedef enum numbers_kind {
    WIDE,   /* every digit of the keys differs */
    FEW,    /* equal ones, NaN, infinity and both zeros among them */
    ALMOST, /* all the same but the last */
    HIGH,   /* the highest digit alone differs, of integers */
    APART,  /* the second by one bit, and the last, of integers of several bytes */
    NUMBERS_KINDS
} numbers_kind;

static double number_of(numbers_kind kind, int bits, uint64_t random)
{
    static const double few[] = { 0, -0.0, 1, -3, 7, 2, NAN, INFINITY, -INFINITY, 5, -NAN, 100 };
    const double place = (double)(int64_t)random - 0x1p31, small = (double)(random & 15);
    if (kind == WIDE)
        return bits > 0 ? ldexp(place, bits - 32) : ldexp(place, (int)(random % 60) - 60);
    if (kind == FEW)
        return bits > 0 ? small : few[random % (sizeof few / sizeof *few)];
    if (kind == HIGH)
        return ldexp(small - 8, bits > 0 ? bits - 4 : 0);
    if (kind == APART && bits > 8)
        return ldexp(small - 8, bits < 48 ? bits - 4 : 44) + 256 * (double)(random >> 8 & 1);
    return 42;
}

static tern_tensor *numbers(numbers_kind kind, int64_t n, tern_dtype_t dtype)
{
    static const int bits[] = { [TERN_I8] = 8, [TERN_I16] = 16, [TERN_I32] = 32, [TERN_I64] = 64 };
    const int wide = (size_t)dtype < sizeof bits / sizeof *bits ? bits[dtype] : 0;
    uint64_t random = 12345;
    double *data = malloc((size_t)n * sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i < n; i++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        data[i] = number_of(kind, dtype == TERN_U8 ? 8 : wide, random >> 32);
        if (kind == ALMOST && i == n - 1)
            data[i] = 0;
        if (dtype == TERN_U8 || dtype == TERN_BOOL)
            data[i] = fmod(fabs(data[i]), dtype == TERN_U8 ? 256 : 2);
    }
    tern_tensor *t = tern_cast(tern_from_data(data, TERN_SHAPE(n), .dtype = TERN_F64), dtype);
    free(data);
    return t;
}

static void assert_same_bits(const char *what, tern_tensor *got, tern_tensor *want)
{
    const int64_t bytes = tern_numel(want) * tern_dtype_size(tern_dtype(want));
    char *data[2] = { malloc((size_t)bytes), malloc((size_t)bytes) };
    assert_true(data[0] != NULL && data[1] != NULL);
    tern_read(got, tern_dtype(want), data[0], bytes);
    tern_read(want, tern_dtype(want), data[1], bytes);
    assert_no_error();
    if (memcmp(data[0], data[1], (size_t)bytes) != 0)
        fail_msg("%s of %s differ", what, tern_dtype_name(tern_dtype(want)));
    free(data[0]);
    free(data[1]);
}

/* The `count` first; -1: the median. Values keep their bits, equal ones their order. */
static void check_order(tern_tensor *x, int dim, int64_t count, bool descending)
{
    tern_tensor *places[2], *values[2], *on[2] = { x, tern_cpu(x) };
    for (int k = 0; k < 2; k++)
        values[k] = count < 0 ? tern_median(on[k], dim, &places[k])
                    : count == tern_size(x, dim)
                        ? tern_sort(on[k], dim, descending, &places[k])
                        : tern_topk(on[k], count, dim, descending, &places[k]);
    assert_no_error();
    assert_same_bits("places", places[0], places[1]);
    assert_same_bits("values", values[0], values[1]);
}

static void check_orders(tern_tensor *x, int dim)
{
    const int64_t n = tern_size(x, dim);
    check_order(x, dim, n, false);
    check_order(x, dim, n, true);
    check_order(x, dim, 1024, true);
    check_order(x, dim, 1025, true);
    check_order(x, dim, n - 3, false);
    if (tern_dtype(x) != TERN_BOOL)
        check_order(x, dim, -1, false);
}

static const tern_dtype_t ordered[] = { TERN_BOOL, TERN_U8,  TERN_I8,   TERN_I16, TERN_I32,
                                        TERN_I64,  TERN_F16, TERN_BF16, TERN_F32, TERN_F64 };
enum { ORDERED = sizeof ordered / sizeof *ordered };

static void test_order(void **state)
{
    (void)state;
    const int64_t lengths[] = { 4095, 4096, 4097, 8191, 8192, 8193, 12289, 41003 };
    for (int i = 0; i < (int)(sizeof lengths / sizeof *lengths); i++)
        for (int d = 0; d < ORDERED; d++) {
            TERN_SCOPE;
            check_orders(numbers((numbers_kind)((i + d) % NUMBERS_KINDS), lengths[i], ordered[d]),
                         0);
        }
    for (int kind = 0; kind < NUMBERS_KINDS; kind++)
        for (int d = 0; d < ORDERED; d++) {
            TERN_SCOPE;
            check_orders(numbers((numbers_kind)kind, 8200, ordered[d]), 0);
        }
}

/* So many tiles that their counts are scanned in several steps. */
static void test_order_of_many_tiles(void **state)
{
    (void)state;
    TERN_SCOPE;
    const int64_t n = 129 * 4096 + 5;
    check_order(numbers(APART, n, TERN_I64), 0, n, false);
}

/* The last element alone asks for a pass, after rows of which none was asked for. */
static void test_order_of_one_that_differs(void **state)
{
    (void)state;
    for (int d = 0; d < ORDERED; d++) {
        TERN_SCOPE;
        const int64_t n = ordered[d] == TERN_I64 ? 33 * 4096 + 9 : 8000;
        tern_tensor *x = tern_ones(TERN_SHAPE(n), .dtype = ordered[d]);
        check_order(x, 0, n, false);
        /* of i64 not in the lowest digit: the first counting, of a later tile, has to be waited for */
        tern_fill(tern_slice(x, 0, n - 1, n), ordered[d] == TERN_I64 ? 1 - 0x1p20 : 0);
        check_order(x, 0, n, false);
    }
}

static void test_order_of_several_rows(void **state)
{
    (void)state;
    for (int d = 0; d < ORDERED; d++)
        for (int64_t n = 4099; n < 9000; n += 4201) {
            TERN_SCOPE;
            tern_tensor *x = numbers(d % 2 == 0 ? WIDE : FEW, 4 * n, ordered[d]);
            check_orders(tern_reshape(x, TERN_SHAPE(4, n)), 1);
            check_orders(tern_reshape(x, TERN_SHAPE(n, 4)), 0);
            check_orders(tern_reshape(x, TERN_SHAPE(2, n, 2)), 1);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_order_of_many_tiles),
        cmocka_unit_test(test_order_of_one_that_differs),
        cmocka_unit_test(test_order_of_several_rows),
    };
    return check_run(tests, NULL, NULL);
}
