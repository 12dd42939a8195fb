/* Products and convolutions of half types by every way that TERN_CPU_HALF names, against f64, over
 * layouts, several blocks of images and of weights and threads; what convolutions and interpolation need
 * beside their tensors. */
#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend_cpu/bridge.h"
#include "backend_cpu/half.h"
#include "tests/support/check.h"
#include "tests/support/sanitizer.h"
#include "tests/support/value.h"
#include "tern/system.h"

typedef struct conv_case {
    int64_t images, in, out, pixels, kernel, stride, groups;
} conv_case;

static const conv_case cases[] = {
    { 3, 16, 24, 9, 3, 1, 1 },
    { 2, 32, 16, 8, 1, 2, 1 },
    { 5, 3, 16, 11, 3, 2, 1 },
    { 2, 32, 32, 7, 3, 1, 32 },
    { 2, 48, 48, 6, 5, 1, 2 },
    { 70, 16, 24, 16, 3, 1, 1 },
    /* more weights than are converted at a time: of one group, of each, of all */
    { 3, 270, 273, 4, 3, 1, 1 },
    { 2, 520, 544, 4, 3, 1, 2 },
    { 2, 640, 640, 3, 3, 2, 5 },
    { 2, 12, 5000, 3, 3, 1, 1 },
};

static double largest(tern_tensor *t)
{
    return tern_item(tern_amax(tern_abs(tern_cast(t, TERN_F64))));
}

/* Sums of products of half operands in f32, rounded once: half a unit of the largest result. */
static double error_of(tern_tensor *half, tern_tensor *wide, tern_dtype_t dtype)
{
    const double unit = dtype == TERN_BF16 ? 0x1p-8 : 0x1p-11;
    const double off = largest(tern_sub(tern_cast(half, TERN_F64), wide));
    return off / (largest(wide) * (unit + 0x1p-18));
}

typedef struct results {
    tern_tensor *y, *grads[3];
} results;

static results run(const conv_case *c, tern_tensor *const *in, tern_dtype_t dtype, bool last)
{
    results r;
    tern_tensor *t[4];
    for (int i = 0; i < 4; i++) {
        t[i] = tern_cast(in[i], dtype);
        if (last && i != 2)
            t[i] = tern_to(t[i], .format = TERN_FORMAT_CHANNELS_LAST);
        t[i] = tern_detach(t[i]);
    }
    for (int i = 0; i < 3; i++)
        tern_set_requires_grad(t[i], true);
    r.y = tern_conv2d(t[0], t[1], t[2], .stride = { c->stride, c->stride },
                      .padding = { c->kernel / 2, c->kernel / 2 }, .groups = c->groups);
    tern_grad(r.y, t, 3, r.grads, .gradient = t[3]);
    return r;
}

static double worst_of(const conv_case *c, tern_dtype_t dtype, bool last)
{
    TERN_SCOPE;
    const int64_t out = (c->pixels - 1) / c->stride + 1;
    tern_tensor *in[] = { tern_randn(TERN_SHAPE(c->images, c->in, c->pixels, c->pixels)),
                          tern_randn(TERN_SHAPE(c->out, c->in / c->groups, c->kernel, c->kernel)),
                          tern_randn(TERN_SHAPE(c->out)),
                          tern_randn(TERN_SHAPE(c->images, c->out, out, out)) };
    for (int i = 0; i < 4; i++)
        in[i] = tern_cast(in[i], dtype);
    const results half = run(c, in, dtype, last), wide = run(c, in, TERN_F64, false);
    double worst = error_of(half.y, wide.y, dtype);
    for (int i = 0; i < 3; i++)
        worst = value_worse(worst, error_of(half.grads[i], wide.grads[i], dtype));
    return tern_failed() ? INFINITY : worst;
}

/* x W^T + bias and x^T y, some of it through transposed views. */
static double worst_product(int64_t m, int64_t k, int64_t n, tern_dtype_t dtype)
{
    TERN_SCOPE;
    tern_tensor *x = tern_cast(tern_randn(TERN_SHAPE(m, k)), dtype);
    tern_tensor *w = tern_cast(tern_randn(TERN_SHAPE(n, k)), dtype);
    tern_tensor *bias = tern_cast(tern_randn(TERN_SHAPE(n)), dtype);
    tern_tensor *wide[] = { tern_cast(x, TERN_F64), tern_cast(w, TERN_F64),
                            tern_cast(bias, TERN_F64) };
    const double forward =
        error_of(tern_linear(x, w, bias), tern_linear(wide[0], wide[1], wide[2]), dtype);
    tern_tensor *turned = tern_transpose(x, 0, 1);
    const double back = error_of(
        tern_matmul(turned, tern_slice(x, 1, 0, k, 2)),
        tern_matmul(tern_cast(turned, TERN_F64), tern_cast(tern_slice(x, 1, 0, k, 2), TERN_F64)),
        dtype);
    return tern_failed() ? INFINITY : value_worse(forward, back);
}

static int wrong_products(const char *setting)
{
    static const int64_t sizes[][3] = { { 1, 1, 1 },     { 3, 7, 5 },       { 8, 64, 33 },
                                        { 65, 300, 10 }, { 130, 515, 490 }, { 300, 784, 512 } };
    int wrong = 0;
    for (int i = 0; i < 12; i++) {
        const int64_t *s = sizes[i / 2];
        tern_set_num_threads(1 + i % 4 / 2);
        const double worst = worst_product(s[0], s[1], s[2], i & 1 ? TERN_BF16 : TERN_F16);
        if (worst > 1)
            (void)fprintf(stderr, "%s: product %d: %.3g\n", setting, i, worst);
        wrong += worst > 1;
    }
    return wrong;
}

/* ---- gradients of weights that oneDNN 2.6.3 gets wrong --------------------------------------- */

typedef struct weight_case {
    int64_t x[4], weight[4], stride[2], padding[2], dilation[2], groups;
} weight_case;

static const weight_case weight_cases[] = {
    { { 2, 32, 28, 56 }, { 32, 1, 3, 3 }, { 1, 1 }, { 2, 2 }, { 2, 2 }, 32 },
    { { 2, 33, 28, 64 }, { 17, 33, 1, 1 }, { 1, 2 }, { 0, 0 }, { 2, 1 }, 1 },
    { { 2, 33, 20, 100 }, { 33, 33, 3, 3 }, { 1, 1 }, { 3, 3 }, { 3, 3 }, 1 },
    { { 2, 33, 20, 40 }, { 33, 33, 3, 3 }, { 1, 1 }, { 0, 2 }, { 1, 2 }, 1 },
    { { 2, 33, 8, 1 }, { 33, 1, 2, 4 }, { 3, 3 }, { 0, 2 }, { 1, 1 }, 33 },
    { { 2, 33, 9, 50 }, { 33, 1, 3, 3 }, { 1, 2 }, { 1, 1 }, { 1, 1 }, 33 },
};

static tern_tensor *weight_gradient(const weight_case *c, tern_tensor *x, tern_tensor *slope,
                                    tern_dtype_t dtype)
{
    tern_tensor *grad = NULL;
    tern_tensor *w =
        tern_zeros(TERN_SHAPE(c->weight[0], c->weight[1], c->weight[2], c->weight[3]), dtype);
    tern_set_requires_grad(w, true);
    tern_tensor *y =
        tern_conv2d(tern_cast(x, dtype), w, .stride = { c->stride[0], c->stride[1] },
                    .padding = { c->padding[0], c->padding[1] },
                    .dilation = { c->dilation[0], c->dilation[1] }, .groups = c->groups);
    tern_grad(y, &w, 1, &grad, .gradient = tern_cast(slope, dtype));
    return grad;
}

static int64_t out_pixels(const weight_case *c, int d)
{
    const int64_t kernel = c->dilation[d] * (c->weight[2 + d] - 1) + 1;
    return (c->x[2 + d] + 2 * c->padding[d] - kernel) / c->stride[d] + 1;
}

static double worst_weights(const weight_case *c, tern_dtype_t dtype, bool last)
{
    TERN_SCOPE;
    tern_tensor *x = tern_randn(TERN_SHAPE(c->x[0], c->x[1], c->x[2], c->x[3]), .dtype = dtype);
    tern_tensor *slope = tern_randn(
        TERN_SHAPE(c->x[0], c->weight[0], out_pixels(c, 0), out_pixels(c, 1)), .dtype = dtype);
    if (last)
        x = tern_to(x, .format = TERN_FORMAT_CHANNELS_LAST);
    const double error = error_of(weight_gradient(c, x, slope, dtype),
                                  weight_gradient(c, x, slope, TERN_F64), dtype);
    return tern_failed() ? INFINITY : value_worse(0, error);
}

static int wrong_weights(const char *setting)
{
    int wrong = 0;
    for (int i = 0; i < (int)(sizeof weight_cases / sizeof *weight_cases); i++)
        for (int way = 0; way < 4; way++) {
            const tern_dtype_t dtype = way & 1 ? TERN_BF16 : TERN_F16;
            const double worst = worst_weights(&weight_cases[i], dtype, way & 2);
            if (worst > 1)
                (void)fprintf(stderr, "%s: weights %d, %s, layout %d: %.3g\n", setting, i,
                              tern_dtype_name(dtype), way / 2, worst);
            wrong += worst > 1;
        }
    return wrong;
}

/* ---- what is not there in f32 ---------------------------------------------------------------- */

/* Bytes beyond what is there now and the result, which is left behind. */
static int64_t extra_of(tern_tensor *(*pass)(tern_tensor *const *in), tern_tensor *const *in)
{
    TERN_SCOPE;
    tern_memory_reset_peak(TERN_CPU);
    const int64_t before = tern_memory(TERN_CPU).allocated_bytes;
    tern_tensor *out = pass(in);
    const int64_t peak = tern_memory(TERN_CPU).peak_allocated_bytes;
    return tern_failed() ? INT64_MAX : peak - before - tern_numel(out) * 2;
}

static tern_tensor *gradient(tern_tensor *const *in, tern_tensor *of)
{
    tern_tensor *grad = NULL;
    tern_grad(in[2], &of, 1, &grad, .gradient = in[3], .retain_graph = true);
    return grad;
}

static tern_tensor *convolve(tern_tensor *const *in)
{
    return tern_conv2d(tern_detach(in[0]), tern_detach(in[1]), .padding = { 1, 1 });
}

static tern_tensor *grad_input(tern_tensor *const *in)
{
    return gradient(in, in[0]);
}

static tern_tensor *grad_weight(tern_tensor *const *in)
{
    return gradient(in, in[1]);
}

typedef struct peak_case {
    int64_t images, in, out, pixels;
    int64_t most; /* bytes */
} peak_case;

/* A block of weights takes at most 2 MiB in f32, sums of gradients two blocks. */
static const peak_case peaks[] = {
    { 2, 512, 1024, 5, 8 << 20 }, /* all of them: 18 MiB */
    { 1, 3426, 34, 3, 7 << 20 },  /* 17 outputs fit into a block, 16 are taken, not 32 */
};

static int wrong_peaks(const peak_case *p, bool last)
{
    static tern_tensor *(*const passes[])(tern_tensor *const *in) = { convolve, grad_input,
                                                                      grad_weight };
    TERN_SCOPE;
    tern_set_num_threads(1);
    const tern_memory_format_t format = last ? TERN_FORMAT_CHANNELS_LAST : TERN_FORMAT_CONTIGUOUS;
    tern_tensor *in[4] = { tern_randn(TERN_SHAPE(p->images, p->in, p->pixels, p->pixels),
                                      .dtype = TERN_F16),
                           tern_randn(TERN_SHAPE(p->out, p->in, 3, 3), .dtype = TERN_F16) };
    for (int i = 0; i < 2; i++)
        in[i] = tern_set_requires_grad(tern_detach(tern_to(in[i], .format = format)), true);
    in[2] = tern_conv2d(in[0], in[1], .padding = { 1, 1 });
    in[3] = tern_detach(in[2]);
    int wrong = 0;
    for (int i = 0; i < 3; i++) {
        const int64_t extra = extra_of(passes[i], in);
        if (extra >= p->most)
            (void)fprintf(stderr, "%lld to %lld channels, pass %d, layout %d: %lld bytes more\n",
                          (long long)p->in, (long long)p->out, i, last, (long long)extra);
        wrong += extra >= p->most;
    }
    return wrong;
}

/* ---- every way ------------------------------------------------------------------------------- */

/* In a process of its own, since the choice is made once: how many cases are wrong. */
static int wrong_cases(const char *setting, bool must_take_library)
{
    tern_cpu_half_t half;
    if (setenv("TERN_CPU_HALF", setting, 1) != 0)
        return 99;
    int wrong = wrong_products(setting) + wrong_weights(setting);
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++)
        for (int way = 0; way < 4; way++) {
            const tern_dtype_t dtype = way & 1 ? TERN_BF16 : TERN_F16;
            tern_set_num_threads(1 + (i + way) % 2);
            const double worst = worst_of(&cases[i], dtype, way & 2);
            if (worst > 1)
                (void)fprintf(stderr, "%s: case %d, %s, layout %d: %.3g\n", setting, i,
                              tern_dtype_name(dtype), way / 2, worst);
            wrong += worst > 1;
        }
    if (strcmp(setting, "f32") == 0)
        for (int i = 0; i < 4; i++)
            wrong += wrong_peaks(&peaks[i / 2], i % 2);
    tern_cpu_half(&half);
    if (half.widened == 0 || (half.library > 0) != must_take_library) {
        (void)fprintf(stderr, "%s: %lld by the library, %lld in f32\n", setting,
                      (long long)half.library, (long long)half.widened);
        wrong++;
    }
    return wrong;
}

static bool library_is_there(void)
{
    const cpu_blas_table *blas = cpu_blas();
    cpu_blas_info info = { 0 };
    if (blas != NULL)
        blas->info(&info);
    return info.onednn_version != NULL && strstr(info.onednn_isa, "avx512_core") != NULL;
}

static void expect_setting(const char *setting, bool must_take_library)
{
    (void)fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(wrong_cases(setting, must_take_library));
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_each_way_agrees_with_f64(void **state)
{
    (void)state;
    const bool has_bf16 = (cpu_half_this().features & CPU_HAS_BF16) != 0;
    expect_setting("f32", false);
    expect_setting("library", library_is_there());
    expect_setting("native", library_is_there() && has_bf16);
}

/* x and y are 26 MB each in f32; beside y, half as large, a call takes blocks of images. */
static void test_no_activation_is_there_in_f32(void **state)
{
    (void)state;
    static const tern_dtype_t dtypes[] = { TERN_BF16, TERN_F16 };
    tern_set_num_threads(1);
    for (int i = 0; i < 4; i++) {
        TERN_SCOPE;
        const tern_dtype_t dtype = dtypes[i % 2];
        const int64_t extra = 6 << 20, bytes = 128 * 16 * 56 * 56 * 2;
        tern_tensor *x = tern_randn(TERN_SHAPE(128, 16, 56, 56), .dtype = dtype);
        tern_tensor *w = tern_randn(TERN_SHAPE(16, 16, 3, 3), .dtype = dtype), *grads[2];
        if (i / 2)
            x = tern_to(x, .format = TERN_FORMAT_CHANNELS_LAST);
        tern_tensor *of[] = { tern_set_requires_grad(x, true), tern_set_requires_grad(w, true) };
        tern_memory_reset_peak(TERN_CPU);
        int64_t before = tern_memory(TERN_CPU).allocated_bytes;
        tern_tensor *y = tern_conv2d(x, w, .padding = { 1, 1 });
        assert_true(tern_memory(TERN_CPU).peak_allocated_bytes - before < bytes + extra);
        tern_memory_reset_peak(TERN_CPU);
        before = tern_memory(TERN_CPU).allocated_bytes;
        (void)tern_max_pool2d(tern_detach(x), { 2, 2 });
        assert_true(tern_memory(TERN_CPU).peak_allocated_bytes - before < extra);
        tern_memory_reset_peak(TERN_CPU);
        before = tern_memory(TERN_CPU).allocated_bytes;
        (void)tern_interpolate(tern_detach(x), { 42, 42 }, .mode = TERN_BILINEAR);
        assert_true(tern_memory(TERN_CPU).peak_allocated_bytes - before <
                    bytes * 9 / 16 + (1 << 20));
        tern_tensor *slope = tern_contiguous(tern_detach(y));
        tern_memory_reset_peak(TERN_CPU);
        before = tern_memory(TERN_CPU).allocated_bytes;
        tern_grad(y, of, 2, grads, .gradient = slope);
        assert_true(tern_memory(TERN_CPU).peak_allocated_bytes - before < bytes + extra);
        assert_no_error();
    }
}

static tern_tensor *enlarge(tern_tensor *const *in)
{
    return tern_interpolate(tern_detach(in[0]), { 14, 14 }, .mode = TERN_BILINEAR);
}

/* x and y are 2 MB in f32, the rows of a part 0.46. */
static void test_rooms_of_wide_rows_are_few(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 16; threads *= 2) {
        TERN_SCOPE;
        tern_set_num_threads(threads);
        tern_tensor *x = tern_randn(TERN_SHAPE(1, 2048, 7, 7), .dtype = TERN_F16);
        x = tern_to(x, .format = TERN_FORMAT_CHANNELS_LAST);
        const int64_t extra = extra_of(enlarge, &x);
        assert_true(extra < (threads > 2 ? 2 << 20 : 1 << 20));
    }
}

/* ---- resampling ------------------------------------------------------------------------------ */

static tern_tensor *resampled(tern_tensor *x, int mode, const int64_t *size)
{
    return mode == 0 ? tern_adaptive_avg_pool2d(x, { size[0], size[1] })
                     : tern_interpolate(x, { size[0], size[1] }, .mode = mode);
}

/* Half of x beside x in f32: results and gradients differ by the rounding of results. */
static void expect_same_resampling(tern_tensor *half, int mode, const int64_t *size)
{
    const tern_dtype_t dtype = tern_dtype(half);
    tern_tensor *wide = tern_detach(tern_cast(half, TERN_F32)), *grads[2];
    tern_set_requires_grad(half, true);
    tern_set_requires_grad(wide, true);
    tern_tensor *y[] = { resampled(half, mode, size), resampled(wide, mode, size) };
    assert_true(error_of(y[0], tern_cast(y[1], TERN_F64), dtype) <= 1);
    tern_tensor *slope = tern_mul(tern_detach(y[0]), 64.0); /* no denormals */
    tern_grad(y[0], &half, 1, &grads[0], .gradient = slope);
    tern_grad(y[1], &wide, 1, &grads[1], .gradient = tern_cast(slope, TERN_F32));
    assert_true(error_of(grads[0], tern_cast(grads[1], TERN_F64), dtype) <= 1);
    assert_no_error();
}

/* Several blocks of rows, and results that are made of more rows than a block has. */
static void test_half_types_are_resampled_as_f32(void **state)
{
    (void)state;
    static const int64_t shapes[][4] = { { 3, 5, 150, 70 }, { 2, 70, 23, 300 }, { 4, 7, 9, 8 } };
    static const int64_t sizes[][2] = { { 190, 33 }, { 7, 100 }, { 2, 3 }, { 46, 40 } };
    static const int modes[] = { 0, TERN_NEAREST, TERN_NEAREST_EXACT, TERN_BILINEAR };
    for (int i = 0; i < 3 * 4 * 4 * 4; i += RUNS_ARE_SHORT ? 5 : 1) {
        TERN_SCOPE;
        const int64_t *s = shapes[i % 3];
        const tern_dtype_t dtype = i / 48 % 2 ? TERN_BF16 : TERN_F16;
        tern_tensor *x = tern_randn(TERN_SHAPE(s[0], s[1], s[2], s[3]), .dtype = dtype);
        if (i / 96)
            x = tern_to(x, .format = TERN_FORMAT_CHANNELS_LAST);
        tern_set_num_threads(1 + i % 2);
        expect_same_resampling(tern_detach(x), modes[i / 3 % 4], sizes[i / 12 % 4]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_way_agrees_with_f64), /* first: before any choice or thread */
        cmocka_unit_test(test_no_activation_is_there_in_f32),
        cmocka_unit_test(test_rooms_of_wide_rows_are_few),
        cmocka_unit_test(test_half_types_are_resampled_as_f32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
