/* Programs on simulated CUDA devices beyond what every backend shows (test_second_backend.c runs there
 * too): dtypes, random numbers, bad indices, training. Not built where there are none. Rows T013, T045,
 * T046. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tern/plugin.h"
#include "tests/support/check.h"
#include "tests/support/simulator.h"

static int setup(void **state)
{
    (void)state;
    if (tern_dev_count(TERN_KIND_CUDA) == 2)
        return 0;
    tern_fallback_t why = { "", "", "" };
    (void)tern_dev_fallback(&why);
    print_error("no simulated devices: %s\n", why.text);
    return -1;
}

static int clear(void **state)
{
    (void)state;
    tern_error_clear();
    return 0;
}

static void test_every_dtype_survives_the_way(void **state) /* T013 */
{
    (void)state;
    TERN_SCOPE;
    for (int dtype = TERN_BOOL; dtype < TERN_DTYPES; dtype++) {
        tern_tensor *x = tern_to(tern_arange(0, 100), .dtype = (tern_dtype_t)dtype);
        tern_tensor *there = tern_to(x, TERN_CUDA(0));
        assert_close(tern_item(tern_sum(tern_cast(tern_ne(tern_cpu(there), x), TERN_I64))), 0, 0);
    }
    assert_no_error();
}

/* Bit for bit, whatever is left over behind whole packs, wherever a slice begins. */
static void test_casts_without_gaps_are_the_cpus(void **state)
{
    (void)state;
    static const tern_dtype_t dtypes[] = { TERN_F32, TERN_F16, TERN_BF16 };
    for (int pair = 0; pair < 9; pair++) {
        TERN_SCOPE;
        const tern_dtype_t from = dtypes[pair / 3], to = dtypes[pair % 3];
        tern_tensor *x = tern_cast(tern_mul(tern_randn(TERN_SHAPE(1000)), 3e4), from);
        tern_tensor *there = tern_to(x, TERN_CUDA(0));
        for (int64_t begin = 0; begin < 5; begin++)
            for (int64_t end = 990; end < 1000; end += 3) {
                tern_tensor *want = tern_cast(tern_slice(x, 0, begin, end), to);
                tern_tensor *got = tern_cpu(tern_cast(tern_slice(there, 0, begin, end), to));
                assert_close(tern_item(tern_sum(tern_cast(tern_ne(got, want), TERN_I64))), 0, 0);
            }
        for (int64_t n = 5; n < 8; n++) { /* nothing behind the end is written */
            tern_tensor *room = tern_full(7, TERN_SHAPE(16), to, TERN_CUDA(0));
            tern_copy(tern_slice(room, 0, 4, 4 + n), tern_slice(there, 0, 0, n));
            assert_close(tern_item(tern_select(room, 0, 4 + n)), 7, 0);
            assert_close(tern_item(tern_select(room, 0, 3)), 7, 0);
        }
        tern_tensor *column =
            tern_select(tern_view(there, TERN_SHAPE(500, 2)), 1, 1); /* has gaps */
        tern_tensor *same = tern_select(tern_view(x, TERN_SHAPE(500, 2)), 1, 1);
        assert_close(tern_item(tern_sum(tern_cast(
                         tern_ne(tern_cpu(tern_cast(column, to)), tern_cast(same, to)), TERN_I64))),
                     0, 0);
        assert_no_error();
    }
}

/* 16384 elements are a block's; the cells of more than 32 blocks are merged by one. */
static void test_totals_of_many_blocks(void **state)
{
    (void)state;
    TERN_SCOPE;
    enum { N = 40 * 16384 + 77 };
    tern_tensor *x = tern_randn(TERN_SHAPE(N)), *there = tern_to(x, TERN_CUDA(0));
    assert_close(tern_item(tern_sum(there)), tern_item(tern_sum(tern_cast(x, TERN_F64))), 2e-2);
    assert_close(tern_item(tern_std(there)), tern_item(tern_std(x)), 1e-5);
    assert_close(tern_item(tern_norm(there)), tern_item(tern_norm(x)), 1e-3);
    assert_close(tern_item(tern_amax(there)), tern_item(tern_amax(x)), 0);
    tern_tensor *where = tern_argmax(there, 0);
    assert_int_equal(tern_item_int(where), tern_item_int(tern_argmax(x, 0)));
    tern_tensor *rows = tern_cat(0, tern_zeros(TERN_SHAPE(1, N)), tern_view(x, TERN_SHAPE(1, N)));
    assert_close(tern_item(tern_select(tern_sum(tern_to(rows, TERN_CUDA(0)), TERN_DIMS(1)), 0, 1)),
                 tern_item(tern_sum(there)), 0); /* the same order for each output */
    assert_no_error();
}

static void test_random_numbers_are_the_cpus(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_seed(5);
    tern_tensor *here = tern_rand(TERN_SHAPE(1001));
    tern_seed(5);
    tern_tensor *there = tern_rand(TERN_SHAPE(1001), .device = TERN_CUDA(0));
    assert_no_error();
    assert_close(tern_item(tern_sum(tern_abs(tern_sub(tern_cpu(there), here)))), 0, 0);
}

static void test_a_bad_index_is_reported_at_the_next_wait(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *table = tern_ones(TERN_SHAPE(10, 4), .device = TERN_CUDA(0));
    tern_tensor *bad = tern_full(12, TERN_SHAPE(3), .dtype = TERN_I64, .device = TERN_CUDA(0));
    assert_non_null(tern_embedding(table, bad));
    assert_int_equal(tern_dev_synchronize(TERN_CUDA(0)), TERN_ERR_INDEX);
    assert_error(TERN_ERR_INDEX, "index 12 at position 0 is outside the table, which has 10 rows");
    assert_int_equal(tern_dev_synchronize(TERN_CUDA(0)), TERN_OK);
    assert_close(tern_item(tern_sum(table)), 40, 0);
}

/* A number of what a region computes in f32 is one of f32, too. Row A028. */
static void test_numbers_beside_what_autocast_widens(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_full(2, TERN_SHAPE(1), .dtype = TERN_F16, .device = TERN_CUDA(0));
    tern_tensor *ones = tern_ones(TERN_SHAPE(1), .dtype = TERN_F16, .device = TERN_CUDA(0));
    assert_null(tern_pow(ones, 1e5));
    assert_error(TERN_ERR_ARGUMENT, "pow: 100000 is beyond what f16 can be");
    TERN_AUTOCAST(TERN_CUDA(0), TERN_F16);
    tern_tensor *far = tern_pow(ones, 1e5);
    assert_no_error();
    assert_int_equal(tern_dtype(far), TERN_F32);
    assert_close(tern_item(far), 1, 0);
    assert_close(tern_item(tern_pow(x, 0.1)), 1.0717734625, 1e-6);
    assert_close(tern_item(tern_pow(1.1, x)), 1.21, 1e-6);
    assert_null(tern_pow_(ones, 1e5)); /* stays f16 */
    assert_error(TERN_ERR_ARGUMENT, "pow: 100000 is beyond what f16 can be");
    tern_tensor *square = tern_square(tern_mul(x, 150.0)); /* PyTorch's is a power */
    assert_no_error();
    assert_int_equal(tern_dtype(square), TERN_F32);
    assert_close(tern_item(square), 90000, 0);
}

static void test_empty_batches_have_results(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *w = tern_ones(TERN_SHAPE(3), .device = TERN_CUDA(0), .requires_grad = true);
    tern_tensor *images = tern_zeros(TERN_SHAPE(0, 3, 4, 4), .device = TERN_CUDA(0));
    tern_tensor *rows = tern_zeros(TERN_SHAPE(0, 3), .device = TERN_CUDA(0), .requires_grad = true);
    tern_backward(tern_sum(tern_batch_norm(images, w, w, NULL, NULL, .training = true)));
    tern_backward(tern_sum(tern_layer_norm(rows, 1, w, w)));
    assert_no_error();
    assert_close(tern_item(tern_sum(tern_abs(tern_grad_of(w)))), 0, 0);
    assert_int_equal(tern_numel(tern_grad_of(rows)), 0);
    assert_int_equal(tern_numel(tern_randn(TERN_SHAPE(0), .device = TERN_CUDA(0))), 0);
    assert_int_equal(tern_numel(tern_arange(0, 0, .device = TERN_CUDA(0))), 0);
    assert_no_error();
}

/* A number of the host beside a tensor of the device is read when the op is called, in its own dtype. */
static void test_host_numbers_of_every_dtype(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(3), .device = TERN_CUDA(0), .dtype = TERN_F64);
    for (int dtype = TERN_U8; dtype < TERN_DTYPES; dtype++) {
        tern_tensor *number = tern_full(100, TERN_SCALAR_SHAPE, (tern_dtype_t)dtype);
        assert_close(tern_item(tern_sum(tern_mul(x, number))), 300, 0);
    }
    static const double odd[] = {
        0, -0.0, 0x1p-24, -0x1p-20, 1.5, -65504, INFINITY, -INFINITY, NAN
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        tern_tensor *number = tern_full(odd[i], TERN_SCALAR_SHAPE, TERN_F16);
        const double got = tern_item(tern_amax(tern_mul(x, number)));
        assert_true(got == odd[i] || (got != got && odd[i] != odd[i]));
    }
    assert_no_error();
}

static void test_what_is_too_large_is_said(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x =
        tern_expand(tern_ones(TERN_SHAPE(1, 2), .device = TERN_CUDA(0)), TERN_SHAPE(1LL << 32, 2));
    assert_null(tern_sum(x));
    assert_error(TERN_ERR_UNSUPPORTED, "a result of 2^31 elements and more that lie in several ");
    tern_tensor *wide = tern_ones(TERN_SHAPE(1, 1, 2, 1 << 14), .device = TERN_CUDA(0));
    assert_null(tern_scaled_dot_product_attention(wide, wide, wide));
    assert_error(TERN_ERR_UNSUPPORTED,
                 "heads of 16384 and 16384 features do not fit in a block's memory");
    tern_cudnn_set_enabled(false); /* the limit is the own kernel's */
    tern_tensor *many = tern_ones(TERN_SHAPE(1, 1 << 16, 1, 1), .device = TERN_CUDA(0));
    tern_tensor *filters = tern_ones(TERN_SHAPE(1 << 16, 1, 1, 1), .device = TERN_CUDA(0));
    assert_null(tern_conv2d(many, filters, .groups = 1 << 16));
    assert_error(TERN_ERR_UNSUPPORTED, "the convolution has more than 65535 groups");
    tern_cudnn_set_enabled(true);
}

/* More tiles than a grid's y has; of depth 0, since each tile's threads run one after the other here. */
static void test_products_of_many_rows_or_columns(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_zeros(TERN_SHAPE(65536 * 64 + 1, 0), .device = TERN_CUDA(0));
    tern_tensor *w = tern_zeros(TERN_SHAPE(1, 0), .device = TERN_CUDA(0));
    tern_tensor *y = tern_linear(x, w, tern_ones(TERN_SHAPE(1), .device = TERN_CUDA(0)));
    assert_no_error();
    assert_close(tern_item(tern_sum(tern_ne(y, 1))), 0, 0);
    y = tern_linear(w, x, tern_full(2, TERN_SHAPE(65536 * 64 + 1), .device = TERN_CUDA(0)));
    assert_no_error();
    assert_close(tern_item(tern_sum(tern_ne(y, 2))), 0, 0);
}

static void assert_same(tern_tensor *there, tern_tensor *here)
{
    assert_int_equal(tern_numel(there), tern_numel(here));
    assert_close(tern_item(tern_sum(tern_ne(tern_cpu(there), here))), 0, 0);
}

/* Threads of a block in other orders: a barrier that is missing shows in one of them. */
static void test_threads_may_run_in_any_order(void **state)
{
    (void)state;
    static const char *const orders[] = { "reverse", "random:1", "random:2", "random:3" };
    TERN_SCOPE;
    tern_seed(4);
    tern_tensor *x = tern_randint(0, 3, TERN_SHAPE(5000)), *there = tern_to(x, TERN_CUDA(0));
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        simulator_set("ORDER", orders[i]);
        assert_same(tern_nonzero(there), tern_nonzero(x));
        assert_same(tern_cumsum(there, 0), tern_cumsum(x, 0));
        assert_same(tern_argsort(there, 0, false), tern_argsort(x, 0, false));
        assert_same(tern_sum(there), tern_sum(x));
    }
    simulator_set("ORDER", "forward");
    assert_no_error();
}

static void test_another_version_of_the_interface_is_refused(void **state)
{
    (void)state;
    typedef const tern_backend *(*getter)(const tern_host *, uint32_t, const char **);
    const char *folder = getenv("TERN_PLUGIN_PATH"), *why = "";
    char path[512];
    (void)snprintf(path, sizeof path, "%s/libtern_sim.so", folder != NULL ? folder : ".");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    getter get;
    *(void **)&get = dlsym(library, "tern_backend_get");
    assert_null(get(NULL, TERN_PLUGIN_VERSION + 1, &why));
    assert_string_equal(why, "it was built for another version of the plugin interface");
    assert_int_equal(dlclose(library), 0);
}

static tern_module *linear_net(void)
{
    return tern_sequential(tern_flatten_layer(), tern_linear_layer(64, 32), tern_relu_layer(),
                           tern_dropout_layer(0.1), tern_linear_layer(32, 10));
}

static tern_module *conv_net(void)
{
    return tern_sequential(tern_conv2d_layer(1, 6, 3, .padding = 1), tern_batch_norm2d_layer(6),
                           tern_relu_layer(), tern_max_pool2d_layer(2), tern_conv2d_layer(6, 8, 3),
                           tern_flatten_layer(), tern_linear_layer(32, 10));
}

/* Some steps of Adam; returns the loss after them. */
static double train(tern_module *(*make)(void), tern_dev_t dev, double *out_first)
{
    double loss_value = 0;
    tern_seed(3);
    tern_module *net = make();
    tern_module_to(net, dev);
    tern_optimizer *opt = tern_adam(tern_parameters(net), .lr = 0.02);
    tern_tensor *images = tern_randn(TERN_SHAPE(96, 1, 8, 8));
    tern_tensor *classes = tern_argmax(tern_view(images, TERN_SHAPE(96, 64)), 1);
    tern_tensor *x = tern_retain(tern_to(images, dev));
    tern_tensor *y =
        tern_retain(tern_to(tern_cast(tern_div(classes, 7), TERN_I64), dev)); /* 0 to 9 */
    for (int step = 0; step < 20; step++) {
        TERN_SCOPE;
        tern_tensor *loss = tern_cross_entropy(tern_forward(net, x), y);
        tern_backward(loss);
        tern_step(opt);
        tern_zero_grad(opt);
        loss_value = tern_item(loss);
        if (step == 0)
            *out_first = loss_value;
    }
    tern_release(x);
    tern_release(y);
    return loss_value;
}

static void assert_trains_alike(tern_module *(*make)(void))
{
    TERN_SCOPE;
    double first_cpu = 0, first_dev = 0;
    const double last_cpu = train(make, TERN_CPU, &first_cpu);
    for (int i = 0; i < 2; i++) {
        const double last_dev = train(make, TERN_CUDA(i), &first_dev);
        assert_no_error();
        assert_close(first_dev, first_cpu, 1e-5 * first_cpu);
        assert_close(last_dev, last_cpu, 1e-3 * last_cpu);
    }
    assert_true(last_cpu < 0.7 * first_cpu);
}

static void test_it_trains_as_the_cpu_does(void **state) /* T045, T046 */
{
    (void)state;
    assert_trains_alike(linear_net);
}

static void test_convolutions_train_as_on_the_cpu(void **state)
{
    (void)state;
    assert_trains_alike(conv_net);
}

int main(void)
{
    (void)setenv("TERN_SIM_DEVICES", "2", 1);
#define TEST(name) cmocka_unit_test_teardown(name, clear)
    const struct CMUnitTest tests[] = {
        TEST(test_every_dtype_survives_the_way),
        TEST(test_casts_without_gaps_are_the_cpus),
        TEST(test_totals_of_many_blocks),
        TEST(test_random_numbers_are_the_cpus),
        TEST(test_a_bad_index_is_reported_at_the_next_wait),
        TEST(test_numbers_beside_what_autocast_widens),
        TEST(test_empty_batches_have_results),
        TEST(test_host_numbers_of_every_dtype),
        TEST(test_what_is_too_large_is_said),
        TEST(test_products_of_many_rows_or_columns),
        TEST(test_threads_may_run_in_any_order),
        TEST(test_another_version_of_the_interface_is_refused),
        TEST(test_it_trains_as_the_cpu_does),
        TEST(test_convolutions_train_as_on_the_cpu),
    };
    const int failed = cmocka_run_group_tests(tests, setup, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
