/* Sizes at which the kernels of a GPU change their way, each against the same work of the CPU in f64: rows that a
 * thread, a warp or a block has, that are held or read again, tails of 16 bytes, addresses that are no multiples of
 * it, tiles of attention, chunks of scans. On the CPU they show its f32. */
#include <math.h>

#include "tests/support/check.h"
#include "tests/support/sanitizer.h"

enum { MOST_OPERANDS = 3 };

typedef struct operands {
    tern_tensor *t[MOST_OPERANDS];
    int64_t count;
    int32_t option[2];
} operands;
typedef tern_tensor *(*work)(const operands *o);

static tern_tensor *exact(tern_tensor *t)
{
    return tern_to(tern_detach(t), .device = TERN_CPU, .dtype = TERN_F64);
}

/* The largest difference, of numbers beyond 1 in units of them. */
static double distance(tern_tensor *got, tern_tensor *want)
{
    if (tern_numel(want) == 0)
        return 0;
    tern_tensor *size = tern_maximum(tern_abs(want), 1.0);
    return tern_item(tern_amax(tern_div(tern_abs(tern_sub(exact(got), want)), size)));
}

static void results(work run, operands *o, tern_tensor *slope, tern_tensor **out,
                    tern_tensor **grads)
{
    for (int64_t i = 0; i < o->count; i++)
        tern_set_requires_grad(o->t[i], true);
    *out = run(o);
    assert_no_error();
    tern_tensor *root = tern_sum(
        tern_mul(*out, tern_to(slope, .device = tern_device(*out), .dtype = tern_dtype(*out))));
    assert_int_equal(tern_grad(root, o->t, o->count, grads), TERN_OK);
}

static void check_work(const char *name, work run, const operands *o, double tolerance)
{
    TERN_SCOPE;
    operands device = *o, host = *o;
    tern_tensor *got, *want, *got_grads[MOST_OPERANDS], *want_grads[MOST_OPERANDS];
    for (int64_t i = 0; i < o->count; i++) {
        device.t[i] = tern_detach(o->t[i]);
        host.t[i] = exact(o->t[i]);
    }
    tern_tensor *slope = tern_rand(tern_shape(run(&host)), .device = TERN_CPU, .dtype = TERN_F64);
    results(run, &device, slope, &got, got_grads);
    results(run, &host, slope, &want, want_grads);
    if (!(distance(got, want) <= tolerance))
        fail_msg("%s: off by %g", name, distance(got, want));
    for (int64_t i = 0; i < o->count; i++)
        if (!(distance(got_grads[i], want_grads[i]) <= tolerance))
            fail_msg("%s: gradient %d off by %g", name, (int)i,
                     distance(got_grads[i], want_grads[i]));
    assert_no_error();
}

static tern_tensor *rows(int64_t m, int64_t n, tern_dtype_t dtype)
{
    return tern_cast(tern_randn(TERN_SHAPE(m, n)), dtype);
}

/* ---- reductions ----------------------------------------------------------------------------------- */

static tern_tensor *sum(const operands *o)
{
    return tern_sum(o->t[0], .dims = TERN_DIMS(o->option[0]));
}
static tern_tensor *variance(const operands *o)
{
    return tern_var(o->t[0], .dims = TERN_DIMS(o->option[0]));
}
static tern_tensor *greatest(const operands *o)
{
    return tern_amax(o->t[0], .dims = TERN_DIMS(o->option[0]));
}
static tern_tensor *least(const operands *o)
{
    return tern_amin(o->t[0], .dims = TERN_DIMS(o->option[0]));
}
static tern_tensor *first_greatest(const operands *o)
{
    return tern_max(o->t[0], o->option[0], NULL);
}
static tern_tensor *sum_of_all(const operands *o)
{
    return tern_sum(o->t[0]);
}

static void check_reductions(tern_tensor *x, int32_t dim)
{
    const operands o = { { x }, 1, { dim } };
    check_work("sum", sum, &o, 1e-4);
    check_work("var", variance, &o, 1e-4);
    check_work("amax", greatest, &o, 1e-6);
    check_work("amin", least, &o, 1e-6);
    check_work("max", first_greatest, &o, 1e-6);
    check_work("sum of all", sum_of_all, &o, 1e-4);
    tern_tensor *at = tern_argmax(x, dim), *want = tern_argmax(exact(x), dim);
    assert_int_equal(tern_item_int(tern_sum(tern_ne(tern_cpu(at), want))), 0);
}

static void test_reductions(void **state)
{
    (void)state;
    const int64_t shapes[][2] = { { 3, 63 },   { 3, 65 },    { 5, 256 },   { 5, 257 },
                                  { 600, 70 }, { 600, 300 }, { 2, 40001 }, { 520, 4097 } };
    const size_t count = sizeof shapes / sizeof *shapes;
    for (size_t i = 0; i < (RUNS_ARE_SHORT ? count - 1 : count); i++) {
        TERN_SCOPE;
        tern_tensor *x = rows(shapes[i][0], shapes[i][1], TERN_F32);
        check_reductions(x, 1);
        check_reductions(x, 0);
        check_reductions(tern_slice(x, 1, 1, shapes[i][1]), 1);
    }
    TERN_SCOPE;
    tern_tensor *block = tern_transpose(tern_randn(TERN_SHAPE(7, 40, 9)), 0, 1);
    const operands o = { { block }, 1, { 0 } };
    check_work("sum of a transposed block", sum_of_all, &o, 1e-4);
}

/* Equal numbers have no variance, whole numbers of every size have extremes, and NaN is one. */
static void test_extremes(void **state)
{
    (void)state;
    const tern_dtype_t whole[] = { TERN_U8, TERN_I8, TERN_I16, TERN_I32, TERN_I64 };
    const int64_t lengths[] = { 1, 8, 255, 256, 257, 2100 };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        TERN_SCOPE;
        const int64_t n = lengths[i];
        if (n > 1)
            assert_close(tern_item(tern_amax(
                             tern_var(tern_full(1e30F, TERN_SHAPE(3, n)), .dims = TERN_DIMS(1)))),
                         0, 0);
        for (int d = 0; d < 5; d++) {
            tern_tensor *x = tern_cast(tern_randint(0, 100, TERN_SHAPE(3, n)), whole[d]);
            x = d > 0 ? tern_sub(x, 120) : x;
            for (int32_t dim = 0; dim < 2; dim++) {
                const operands o = { { x }, 1, { dim } };
                assert_close(
                    distance(greatest(&o), greatest(&(operands){ { exact(x) }, 1, { dim } })), 0,
                    0);
                assert_close(distance(least(&o), least(&(operands){ { exact(x) }, 1, { dim } })), 0,
                             0);
            }
        }
        tern_tensor *x = tern_zeros(TERN_SHAPE(3, n));
        assert_false(tern_item(tern_any(x)) != 0);
        tern_fill(tern_select(tern_select(x, 0, 1), 0, (int)(n - 1)), -2);
        assert_close(tern_item(tern_sum(tern_cast(tern_any(x, .dims = TERN_DIMS(1)), TERN_F32))), 1,
                     0);
        tern_fill(tern_select(tern_select(x, 0, 1), 0, (int)(n / 2)), NAN);
        assert_true(isnan(tern_item(tern_amax(x))) && isnan(tern_item(tern_amin(x))));
    }
}

/* ---- rows ----------------------------------------------------------------------------------------- */

static tern_tensor *softmax(const operands *o)
{
    return tern_softmax(o->t[0], o->option[0]);
}
static tern_tensor *log_softmax(const operands *o)
{
    return tern_log_softmax(o->t[0], o->option[0]);
}
static tern_tensor *layer_norm(const operands *o)
{
    return tern_layer_norm(o->t[0], .weight = o->t[1], .bias = o->t[2]);
}

static void test_rows(void **state)
{
    (void)state;
    const int64_t lengths[] = { 1, 31, 33, 255, 257, 1000, 1025, 3001 };
    tern_seed(0); /* numbers of its own, whatever the tests before have drawn */
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int half = 0; half < 2; half++) {
            TERN_SCOPE;
            const tern_dtype_t dtype = half ? TERN_F16 : TERN_F32;
            const double tolerance = half ? 4e-3 : 1e-5;
            const int64_t n = lengths[i], m = n < 100 ? 40 : 3;
            const operands o = { { rows(m, n, dtype) }, 1, { 1 } };
            check_work("softmax", softmax, &o, tolerance);
            check_work("log_softmax", log_softmax, &o, tolerance);
            const operands across = { { o.t[0] }, 1, { 0 } };
            check_work("softmax across", softmax, &across, tolerance);
            const operands norm = { { o.t[0], tern_cast(tern_rand(TERN_SHAPE(n)), dtype),
                                      tern_cast(tern_rand(TERN_SHAPE(n)), dtype) },
                                    3,
                                    { 0 } };
            if (n > 1)
                check_work("layer_norm", layer_norm, &norm, half ? 1e-2 : 1e-4);
        }
}

/* ---- attention ------------------------------------------------------------------------------------ */

static tern_tensor *attention(const operands *o)
{
    return tern_scaled_dot_product_attention(o->t[0], o->t[1], o->t[2],
                                             .causal = o->option[0] != 0);
}

/* [1, 2, n, width], of memory that begins `offset` elements behind what is aligned. */
static tern_tensor *heads(int64_t n, int64_t width, int64_t offset, tern_dtype_t dtype)
{
    tern_tensor *memory = tern_cast(tern_randn(TERN_SHAPE(2 * n * width + offset)), dtype);
    memory = tern_slice(memory, 0, offset == 0 ? TERN_ZERO : offset, 2 * n * width + offset);
    return tern_view(memory, TERN_SHAPE(1, 2, n, width));
}

static void test_attention(void **state)
{
    (void)state;
    static const struct {
        int64_t t, s, d, e, offset;
    } cases[] = { { 1, 1, 4, 4, 0 },     { 33, 70, 64, 64, 0 },   { 70, 33, 64, 32, 0 },
                  { 33, 33, 64, 64, 1 }, { 40, 40, 7, 5, 0 },     { 20, 35, 128, 128, 0 },
                  { 9, 40, 60, 28, 0 },  { 18, 20, 300, 260, 0 }, { 6, 5, 600, 590, 0 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int causal = 0; causal < 2; causal++)
            for (int half = 0; half < 2; half++) {
                TERN_SCOPE;
                const int64_t offset = cases[i].offset;
                const tern_dtype_t dtype = half ? TERN_BF16 : TERN_F32;
                const operands o = { { heads(cases[i].t, cases[i].d, offset, dtype),
                                       heads(cases[i].s, cases[i].d, offset, dtype),
                                       heads(cases[i].s, cases[i].e, offset, dtype) },
                                     3,
                                     { causal } };
                check_work("attention", attention, &o, half ? 3e-2 : 2e-5);
            }
}

/* ---- elements ------------------------------------------------------------------------------------- */

static tern_tensor *chosen(const operands *o)
{
    return tern_where(tern_gt(tern_detach(o->t[0]), 0.0), o->t[0], o->t[1]);
}
static tern_tensor *scaled(const operands *o)
{
    return tern_div(tern_mul(o->t[0], tern_sum(o->t[1])), tern_add(tern_amax(o->t[0]), 9.0));
}

static void test_elements(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 19; n++)
        for (int64_t offset = 0; offset < 2; offset++) {
            TERN_SCOPE;
            tern_tensor *x = tern_randn(TERN_SHAPE(n + 1)), *y = tern_randn(TERN_SHAPE(n + 1));
            const operands o = { { tern_slice(x, 0, offset == 0 ? TERN_ZERO : offset, n + offset),
                                   tern_slice(y, 0, 1, n + 1) },
                                 2,
                                 { 0 } };
            check_work("where", chosen, &o, 1e-6);
            check_work("numbers of the device", scaled, &o, 1e-5);
            tern_tensor *part = tern_slice(x, 0, offset == 0 ? TERN_ZERO : offset, n + offset);
            tern_fill(part, 3);
            assert_close(tern_item(tern_sum(part)), 3.0 * (double)n, 0);
            assert_true(tern_item(tern_select(x, 0, offset == 0 ? n : 0)) != 3.0);
        }
}

/* Every device draws the same numbers, a block of them or the first of a block. */
static void test_draws(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 11; n++)
        for (int d = 0; d < 4; d++) {
            TERN_SCOPE;
            static const tern_dtype_t dtypes[] = { TERN_F32, TERN_F64, TERN_F16, TERN_BF16 };
            tern_tensor *made[2][4];
            for (int host = 0; host < 2; host++) {
                const tern_dev_t dev = host ? TERN_CPU : tern_default_device();
                tern_seed((uint64_t)n);
                tern_tensor *p = tern_rand(TERN_SHAPE(n), dtypes[d], dev);
                made[host][0] = p;
                made[host][1] = tern_bernoulli(tern_full(0.5, TERN_SHAPE(n), dtypes[d], dev), NULL);
                made[host][2] = tern_dropout(tern_full(1, TERN_SHAPE(n), dtypes[d], dev), 0.5);
                made[host][3] = tern_randint(5, 90, TERN_SHAPE(n), .device = dev);
            }
            for (int k = 0; k < 4; k++)
                assert_close(distance(made[0][k], exact(made[1][k])), 0, 0);
        }
}

/* ---- windows -------------------------------------------------------------------------------------- */

static tern_tensor *pool(const operands *o)
{
    const int64_t size = o->option[0] & 15, stride = o->option[0] >> 4 & 15;
    const int64_t padding = o->option[0] >> 8 & 15, dilation = o->option[0] >> 12;
    return o->option[1] == 0
               ? tern_max_pool2d(o->t[0], { size, size }, { stride, stride }, { padding, padding },
                                 { dilation, dilation })
               : tern_avg_pool2d(o->t[0], { size, size }, { stride, stride }, { padding, padding });
}

static void test_windows(void **state)
{
    (void)state;
    const int32_t kinds[] = { 0x1022, 0x1123, 0x1113, 0x1032, 0x1213, 0x2012, 0x2123 };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int32_t average = 0; average < 2; average++) {
            TERN_SCOPE;
            const operands o = { { tern_randn(TERN_SHAPE(2, 3, 9, 8)) }, 1, { kinds[i], average } };
            if ((kinds[i] >> 8 & 15) * 2 <= (kinds[i] & 15))
                check_work("pool2d", pool, &o, 1e-5);
        }
}

/* ---- scans ---------------------------------------------------------------------------------------- */

static tern_tensor *running_sum(const operands *o)
{
    return tern_cumsum(o->t[0], o->option[0]);
}
static tern_tensor *running_product(const operands *o)
{
    return tern_cumprod(o->t[0], o->option[0]);
}

static void check_scans(tern_tensor *x, int32_t dim, double tolerance)
{
    const operands sums = { { x }, 1, { dim } };
    check_work("cumsum", running_sum, &sums, tolerance);
    const operands factors = { { tern_add(tern_mul(x, 0.0625), 0.96875) }, 1, { dim } };
    if (tolerance < 1e-3) /* thousands of f16's factors leave it */
        check_work("cumprod", running_product, &factors, tolerance * 10);
}

static void test_scans(void **state)
{
    (void)state;
    const int64_t lengths[] = { 65, 1023, 1025, 2047, 2048, 2050, 4095, 4096, 4097, 6147, 9229 };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int d = 0; d < 3; d++) {
            TERN_SCOPE;
            static const tern_dtype_t dtypes[] = { TERN_F32, TERN_F64, TERN_F16 };
            static const double tolerances[] = { 1e-5, 1e-12, 4e-3 };
            const int64_t n = lengths[i];
            tern_tensor *x = tern_cast(tern_rand(TERN_SHAPE(3, n)), dtypes[d]);
            check_scans(x, 1, tolerances[d]);
            check_scans(tern_reshape(x, TERN_SHAPE(n, 3)), 0, tolerances[d]);
            check_scans(tern_slice(tern_reshape(x, TERN_SHAPE(3 * n)), 0, 1, n + 1), 0,
                        tolerances[d]);
        }
}

/* So many chunks that their parts are scanned in several steps, too; of integers, exactly. */
static void test_scan_of_many_chunks(void **state)
{
    (void)state;
    TERN_SCOPE;
    const int64_t n = (INT64_C(1) << 22) + (1 << 14) + 3;
    tern_tensor *x = tern_sub(tern_arange(.end = (double)n, .dtype = TERN_I64), 77);
    tern_tensor *got = tern_cpu(tern_cumsum(x, 0)), *want = tern_cumsum(tern_cpu(x), 0);
    assert_int_equal(tern_item_int(tern_sum(tern_ne(got, want))), 0);
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_elements),
        cmocka_unit_test(test_draws),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_scans),
        cmocka_unit_test(test_scan_of_many_chunks),
    };
    return check_run(tests, NULL, NULL);
}
