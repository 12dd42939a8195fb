/* copy, fill, arange and random numbers: every pair of dtypes, layouts on both sides, large and
 * overlapping copies, and the values that docs/design/random.md promises. */
#include <math.h>
#include <stdlib.h>

#include "backend_cpu/cpu.h"
#include "tern/op_attr.h"
#include "tests/support/between.h"
#include "tests/support/check.h"
#include "tests/support/karray_layout.h"

static tern_status_t copy(const karray *out, const karray *in, int threads)
{
    const kernel_run run = {
        .kernel = cpu_copy, .threads = threads, .in = { in }, .n_in = 1, .out = { out }, .n_out = 1
    };
    return kernel_call(&run);
}

/* ---- between dtypes -------------------------------------------------------------------------- */

typedef struct pair {
    karray in, out;
} pair;

static void check_pair(void *context)
{
    pair *p = context;
    assert_int_equal(copy(&p->out, &p->in, 1), TERN_OK);
    for (int64_t i = 0; i < p->in.view.numel; i++) {
        const int to = p->out.view.dtype;
        const double v = p->in.values[i];
        const double whole = tern_dtype_is_float((tern_dtype_t)to) ? v : trunc(v);
        kernel_expect(tern_dtype_name((tern_dtype_t)to), i, karray_at(&p->out, i),
                      to == TERN_BOOL ? (double)(v != 0) : whole,
                      kernel_tolerance((tern_dtype_t)to, 1e-7));
    }
}

static void test_every_dtype_to_every_dtype(void **state)
{
    (void)state;
    const int64_t n = 1037;
    for (int from = TERN_BOOL; from < TERN_DTYPES; from++) {
        for (int to = TERN_BOOL; to < TERN_DTYPES; to++) {
            pair p = { karray_random((tern_dtype_t)from, 1, &n, 0, 100, 1),
                       karray_filled((tern_dtype_t)to, 1, &n, 1) };
            kernel_each_isa(check_pair, &p);
            karray_free(&p.in);
            karray_free(&p.out);
        }
    }
}

static void test_half_types_round_to_even_and_keep_special_values(void **state)
{
    (void)state;
    static const float values[] = { 1.00048828125f, 1.00146484375f, 65519.0f,  65520.0f, 5.9e-8f,
                                    2.9e-8f,        INFINITY,       -INFINITY, NAN,      -0.0f,
                                    6.1e-5f,        3.389e38f };
    enum { N = sizeof values / sizeof values[0] };
    static const double f16[N] = { 1,
                                   1.001953125,
                                   65504,
                                   INFINITY,
                                   0x1p-24,
                                   0,
                                   INFINITY,
                                   -INFINITY,
                                   NAN,
                                   -0.0,
                                   6.0975551605224609e-05,
                                   INFINITY };
    for (int i = 0; i < N; i++) {
        kernel_expect("f16", i, (double)cpu_f16_to_f32(cpu_f32_to_f16(values[i])), f16[i], 0);
        assert_true(isnan(values[i]) ||
                    cpu_f32_to_bf16(cpu_bf16_to_f32(cpu_f32_to_bf16(values[i]))) ==
                        cpu_f32_to_bf16(values[i]));
    }
    assert_int_equal(cpu_f32_to_bf16(1.00390625f), 0x3F80); /* a tie goes to even */
    assert_int_equal(cpu_f32_to_bf16(1.01171875f), 0x3F82);
    assert_true(isinf(cpu_bf16_to_f32(cpu_f32_to_bf16(3.3999e38f))));
}

/* The vector conversions agree with the scalar ones for all f16 and a spread of f32. */
static void check_half_bits(void *context)
{
    enum { N = 1 << 16 };
    uint16_t *half = context;
    float *wide = malloc(N * sizeof *wide);
    uint16_t *back = malloc(N * sizeof *back);
    cpu_to_f32(wide, half, TERN_F16, N);
    cpu_from_f32(back, TERN_F16, wide, N);
    for (int i = 0; i < N; i++) {
        const float scalar = cpu_f16_to_f32(half[i]);
        assert_true(isnan(scalar) ? isnan(wide[i]) : scalar == wide[i]);
        assert_true(isnan(scalar) || back[i] == half[i]);
    }
    for (uint32_t i = 0; i < N; i++)
        wide[i] = cpu_bits_float(i * 65519u);
    cpu_from_f32(back, TERN_F16, wide, N);
    for (int i = 0; i < N; i++)
        assert_true(isnan(wide[i]) || back[i] == cpu_f32_to_f16(wide[i]));
    free(wide);
    free(back);
}

static void test_all_halfs_convert_alike_on_all_instruction_sets(void **state)
{
    (void)state;
    uint16_t *half = malloc((1 << 16) * sizeof *half);
    for (int i = 0; i < 1 << 16; i++)
        half[i] = (uint16_t)i;
    kernel_each_isa(check_half_bits, half);
    free(half);
}

static void check_out_of_range(void *context)
{
    (void)context;
    enum { N = 20 };
    static const double values[5] = { NAN, 1e30, -1e30, 4294967296.0, -1.5 };
    static const int64_t as_i32[5] = { INT32_MIN, INT32_MIN, INT32_MIN, INT32_MIN, -1 };
    static const int64_t as_i64[5] = { INT64_MIN, INT64_MIN, INT64_MIN, 4294967296, -1 };
    for (int from = TERN_F32; from <= TERN_F64; from++) {
        double in[N];
        int32_t i32[N];
        int64_t i64[N];
        uint8_t truth[N];
        for (int i = 0; i < N; i++)
            cpu_store_f64((char *)in + i * cpu_dtype_size(from), from, values[i % 5]);
        cpu_converter(TERN_I32, from)(i32, in, N);
        cpu_converter(TERN_I64, from)(i64, in, N);
        cpu_converter(TERN_BOOL, from)(truth, in, N);
        for (int i = 0; i < N; i++) {
            assert_int_equal(i32[i], as_i32[i % 5]);
            assert_int_equal(i64[i], as_i64[i % 5]);
            assert_int_equal(truth[i], 1);
        }
    }
}

static void test_values_out_of_range_become_the_least(void **state)
{
    (void)state;
    kernel_each_isa(check_out_of_range, NULL);
}

/* ---- layouts --------------------------------------------------------------------------------- */

static void check_layout(void *context)
{
    pair *p = context;
    assert_int_equal(copy(&p->out, &p->in, 1), TERN_OK);
    for (int64_t i = 0; i < p->in.view.numel; i++)
        kernel_expect("copy", i, karray_at_place(&p->out, i), p->in.values[i], 0);
}

static void check_layout_pair(tern_dtype_t from, tern_dtype_t to, int in, int out,
                              const int64_t *dims)
{
    pair p = { karray_random(from, 3, dims, 0, 100, 1), karray_filled(to, 3, dims, 1) };
    karray_relayout(&p.in, (karray_layout)in);
    karray_relayout(&p.out, (karray_layout)out);
    for (int64_t i = 0; to == TERN_BOOL && i < p.in.view.numel; i++)
        p.in.values[i] = p.in.values[i] != 0;
    kernel_each_isa(check_layout, &p);
    karray_free(&p.in);
    karray_free(&p.out);
}

static void test_layouts_of_both_sides(void **state)
{
    (void)state;
    static const tern_dtype_t dtypes[][2] = { { TERN_U8, TERN_U8 },   { TERN_BF16, TERN_BF16 },
                                              { TERN_F32, TERN_F32 }, { TERN_F64, TERN_F64 },
                                              { TERN_U8, TERN_F32 },  { TERN_I16, TERN_I64 } };
    static const int64_t dims[][3] = { { 2, 70, 131 }, { 5, 3, 64 }, { 1, 8, 8 }, { 33, 1, 17 } };
    for (int t = 0; t < 6; t++) {
        for (int layout = 0; layout < KARRAY_LAYOUTS * KARRAY_LAYOUTS; layout++) {
            for (int d = 0; d < 4; d++)
                check_layout_pair(dtypes[t][0], dtypes[t][1], layout % KARRAY_LAYOUTS,
                                  layout / KARRAY_LAYOUTS, dims[d]);
        }
    }
}

static void test_channels_last_both_ways(void **state)
{
    (void)state;
    const int64_t dims[4] = { 3, 20, 9, 14 };
    for (int way = 0; way < 3; way++) {
        pair p = { karray_random(TERN_F32, 4, dims, -1, 1, 5),
                   karray_filled(TERN_F32, 4, dims, 9) };
        if (way != 0)
            karray_to_channels_last(&p.in);
        if (way != 1)
            karray_to_channels_last(&p.out);
        kernel_each_isa(check_layout, &p);
        karray_free(&p.in);
        karray_free(&p.out);
    }
}

static void test_repeated_and_single_inputs(void **state)
{
    (void)state;
    const int64_t dims[3] = { 4, 6, 50 };
    for (int dim = 0; dim < 3; dim++) {
        pair p = { karray_random(TERN_F32, 3, dims, -1, 1, 5),
                   karray_filled(TERN_F32, 3, dims, 9) };
        karray_repeat(&p.in, dim);
        kernel_each_isa(check_layout, &p);
        karray_free(&p.in);
        karray_free(&p.out);
    }
    karray one = karray_filled(TERN_I32, 0, NULL, 7), out = karray_filled(TERN_F64, 3, dims, 0);
    assert_int_equal(copy(&out, &one, 1), TERN_OK);
    assert_close(karray_at(&out, 1199), 7, 0);
    karray_free(&one);
    karray_free(&out);
}

static void test_large_copies_with_threads(void **state)
{
    (void)state;
    const int64_t dims[2] = { 2051, 2049 };
    for (int way = 0; way < 3; way++) {
        pair p = { karray_random(TERN_F32, 2, dims, -1, 1, 5),
                   karray_filled(way == 2 ? TERN_F64 : TERN_F32, 2, dims, 9) };
        if (way == 1)
            karray_relayout(&p.in, KARRAY_REVERSED);
        assert_int_equal(copy(&p.out, &p.in, 2), TERN_OK);
        for (int64_t i = 0; i < p.in.view.numel; i++)
            assert_true(karray_at(&p.out, i) == p.in.values[i]);
        karray_free(&p.in);
        karray_free(&p.out);
    }
}

static void test_overlapping_copies_read_before_they_write(void **state)
{
    (void)state;
    const int64_t dims[2] = { 60, 60 };
    karray x = karray_random(TERN_F32, 2, dims, -1, 1, 3), turned = x;
    turned.view.stride[0] = 1;
    turned.view.stride[1] = 60;
    turned.view.flags = TERN_VIEW_DENSE;
    assert_int_equal(copy(&x, &turned, 1), TERN_OK);
    for (int64_t i = 0; i < 3600; i++)
        kernel_expect("transposed onto itself", i, karray_at(&x, i), x.values[i % 60 * 60 + i / 60],
                      0);
    karray_free(&x);
    for (int64_t n = 10; n < 100000; n *= 20) {
        const int64_t longer = n + 1;
        karray y = karray_random(TERN_F32, 1, &longer, -1, 1, 3), to = y;
        to.view.data = (float *)y.view.data + 1;
        to.view.numel = to.view.shape[0] = y.view.numel = y.view.shape[0] = n;
        assert_int_equal(copy(&to, &y, 2), TERN_OK);
        for (int64_t i = 0; i < n; i++)
            kernel_expect("moved by one", i, karray_at(&to, i), y.values[i], 0);
        karray_free(&y);
    }
}

/* ---- fill, arange ---------------------------------------------------------------------------- */

static void test_fill(void **state)
{
    (void)state;
    const int64_t dims[2] = { 37, 11 };
    for (int dtype = TERN_BOOL; dtype < TERN_DTYPES; dtype++) {
        for (int layout = 0; layout < KARRAY_LAYOUTS; layout++) {
            const tern_attr_fill attr = { { .kind = TERN_NUMBER_FLOAT, .f = 3.0 } };
            karray out = karray_filled((tern_dtype_t)dtype, 2, dims, 0);
            karray_relayout(&out, (karray_layout)layout);
            const kernel_run run = {
                .kernel = cpu_fill, .attr = &attr, .out = { &out }, .n_out = 1
            };
            assert_int_equal(kernel_call(&run), TERN_OK);
            for (int64_t i = 0; i < out.view.numel; i++)
                kernel_expect("fill", i, karray_at_place(&out, i), dtype == TERN_BOOL ? 1 : 3, 0);
            karray_free(&out);
        }
    }
}

static void test_fill_keeps_large_integers(void **state)
{
    (void)state;
    const int64_t n = (3 << 20) + 1, big = INT64_MAX - 1;
    const tern_attr_fill attr = { { .kind = TERN_NUMBER_INT, .f = (double)big, .i = big } };
    karray out = karray_filled(TERN_I64, 1, &n, 0);
    const kernel_run run = {
        .kernel = cpu_fill, .attr = &attr, .threads = 2, .out = { &out }, .n_out = 1
    };
    assert_int_equal(kernel_call(&run), TERN_OK);
    for (int64_t i = 0; i < n; i++)
        assert_true(((int64_t *)out.view.data)[i] == big);
    karray_free(&out);
}

static void test_arange(void **state)
{
    (void)state;
    const int64_t n = 5000;
    const tern_attr_arange attr = { .f_start = 0.5, .f_step = 0.25, .i_start = -7, .i_step = 3 };
    for (int dtype = TERN_I32; dtype < TERN_DTYPES; dtype++) {
        const bool real = tern_dtype_is_float((tern_dtype_t)dtype);
        karray out = karray_filled((tern_dtype_t)dtype, 1, &n, 0);
        const kernel_run run = { .kernel = cpu_arange, .attr = &attr, .out = { &out }, .n_out = 1 };
        assert_int_equal(kernel_call(&run), TERN_OK);
        for (int64_t i = 0; i < n; i++)
            kernel_expect("arange", i, karray_at(&out, i),
                          real ? 0.5 + 0.25 * (double)i : (double)(-7 + 3 * i),
                          real ? kernel_tolerance((tern_dtype_t)dtype, 0) : 0);
        karray_free(&out);
    }
}

/* ---- random numbers -------------------------------------------------------------------------- */

/* From the authors' kat_vectors. */
static void test_philox_known_answers(void **state)
{
    (void)state;
    uint32_t bits[4];
    tern_philox(0, 0, 0, bits);
    const uint32_t zeros[4] = { 0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8 };
    assert_memory_equal(bits, zeros, sizeof bits);
    tern_philox(UINT64_MAX, UINT64_MAX, UINT64_MAX, bits);
    const uint32_t ones[4] = { 0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD };
    assert_memory_equal(bits, ones, sizeof bits);
    tern_philox(0x299F31D0A4093822u, 0x0370734413198A2Eu, 0x85A308D3243F6A88u, bits);
    const uint32_t pi[4] = { 0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1 };
    assert_memory_equal(bits, pi, sizeof bits);
}

typedef struct draw {
    tern_kernel kernel;
    tern_dtype_t dtype;
    int threads;
    karray out;
} draw;

static const tern_attr_random random_attr = { .seed = 0x123456789u, .call = 5 };

static void check_uniform(void *context)
{
    draw *d = context;
    const kernel_run run = { .kernel = cpu_rand,
                             .attr = &random_attr,
                             .threads = d->threads,
                             .out = { &d->out },
                             .n_out = 1 };
    assert_int_equal(kernel_call(&run), TERN_OK);
    for (int64_t i = 0; i < d->out.view.numel; i++) {
        uint32_t bits[4];
        const bool wide = d->dtype == TERN_F64;
        tern_philox(random_attr.seed, random_attr.call, (uint64_t)i / (wide ? 2 : 4), bits);
        const uint64_t both = (uint64_t)bits[2 * (i % 2) + 1] << 32 | bits[2 * (i % 2)];
        const double want = wide                   ? (double)(both >> 11) * 0x1p-53
                            : d->dtype == TERN_F32 ? (bits[i % 4] >> 8) * 0x1p-24
                            : d->dtype == TERN_F16 ? (bits[i % 4] >> 21) * 0x1p-11
                                                   : (bits[i % 4] >> 24) * 0x1p-8;
        kernel_expect("rand", i, karray_at_place(&d->out, i), want, 0);
    }
}

static void test_uniforms_are_the_documented_bits(void **state)
{
    (void)state;
    for (int dtype = TERN_F16; dtype <= TERN_F64; dtype++) {
        const int64_t sizes[3][2] = { { 1, 1 }, { 37, 11 }, { 500, 611 } };
        for (int size = 0; size < 3; size++) {
            draw d = { .dtype = (tern_dtype_t)dtype, .threads = size == 2 ? 2 : 1 };
            d.out = karray_filled(d.dtype, 2, sizes[size], 0);
            karray_relayout(&d.out, size == 1 ? KARRAY_REVERSED : KARRAY_ROW_MAJOR);
            kernel_each_isa(check_uniform, &d);
            karray_free(&d.out);
        }
    }
}

static void check_normal(void *context)
{
    draw *d = context;
    const kernel_run run = { .kernel = cpu_randn,
                             .attr = &random_attr,
                             .threads = d->threads,
                             .out = { &d->out },
                             .n_out = 1 };
    assert_int_equal(kernel_call(&run), TERN_OK);
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < d->out.view.numel; i++) {
        uint32_t bits[4];
        const int pair_at = (int)(i / 2 % 2) * 2;
        tern_philox(random_attr.seed, random_attr.call, (uint64_t)i / 4, bits);
        const double r = sqrt(-2 * log((bits[pair_at] + 0.5) * 0x1p-32));
        const double w = 2 * acos(-1) * (bits[pair_at + 1] * 0x1p-32);
        const double want = i % 2 ? r * sin(w) : r * cos(w), got = karray_at(&d->out, i);
        if (d->dtype == TERN_F32) /* 2 ulp */
            assert_true(fabs(got - want) <= 2.4e-7 * fabs(want) + 1e-11);
        sum += got;
        squares += got * got;
    }
    const double n = (double)d->out.view.numel;
    assert_true(n < 1e5 || (fabs(sum / n) < 0.01 && fabs(squares / n - 1) < 0.01));
}

static void test_normals_are_the_documented_ones(void **state)
{
    (void)state;
    for (int dtype = TERN_F16; dtype <= TERN_F64; dtype++) {
        const int64_t sizes[3] = { 1, 407, 305500 };
        for (int size = 0; size < 3; size++) {
            draw d = { .dtype = (tern_dtype_t)dtype, .threads = size == 2 ? 2 : 1 };
            d.out = karray_filled(d.dtype, 1, &sizes[size], 0);
            kernel_each_isa(check_normal, &d);
            karray_free(&d.out);
        }
    }
}

static void test_parts_of_a_draw(void **state)
{
    (void)state;
    float whole[1000], part[1000];
    cpu_uniform_f32(whole, 1, 2, 0, 1000);
    for (int64_t first = 0; first < 200; first += 13) {
        for (int64_t n = 0; n < 300; n += 37) {
            cpu_uniform_f32(part, 1, 2, first, n);
            assert_memory_equal(part, whole + first, (size_t)n * sizeof *part);
        }
    }
}

static void test_randperm(void **state)
{
    (void)state;
    const int64_t sizes[4] = { 0, 1, 100, 60000 };
    for (int k = 0; k < 4; k++) {
        const tern_dtype_t dtype = k == 2 ? TERN_I16 : TERN_I64;
        const int64_t n = sizes[k];
        karray out = karray_filled(dtype, 1, &n, 0);
        const kernel_run run = {
            .kernel = cpu_randperm, .attr = &random_attr, .out = { &out }, .n_out = 1
        };
        assert_int_equal(kernel_call(&run), TERN_OK);
        int64_t moved = 0;
        for (int64_t i = 0; i < n; i++) {
            const int64_t value = (int64_t)karray_at(&out, i);
            assert_between(value, 0, n - 1);
            assert_true(out.values[value] == 0);
            out.values[value] = 1;
            moved += value != i;
        }
        assert_true(n < 2 || moved > n / 2);
        karray_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_dtype_to_every_dtype),
        cmocka_unit_test(test_half_types_round_to_even_and_keep_special_values),
        cmocka_unit_test(test_all_halfs_convert_alike_on_all_instruction_sets),
        cmocka_unit_test(test_values_out_of_range_become_the_least),
        cmocka_unit_test(test_layouts_of_both_sides),
        cmocka_unit_test(test_channels_last_both_ways),
        cmocka_unit_test(test_repeated_and_single_inputs),
        cmocka_unit_test(test_large_copies_with_threads),
        cmocka_unit_test(test_overlapping_copies_read_before_they_write),
        cmocka_unit_test(test_fill),
        cmocka_unit_test(test_fill_keeps_large_integers),
        cmocka_unit_test(test_arange),
        cmocka_unit_test(test_philox_known_answers),
        cmocka_unit_test(test_uniforms_are_the_documented_bits),
        cmocka_unit_test(test_normals_are_the_documented_ones),
        cmocka_unit_test(test_parts_of_a_draw),
        cmocka_unit_test(test_randperm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
