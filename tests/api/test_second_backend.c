/* A backend from its own shared object: memory that the host cannot read, work that runs only when
 * the host synchronises. Shows that the library's walls hold. Rows T013, T016, T033-T038, T045, T046.
 * TERN_TEST_DEVICE=cuda takes two (simulated) CUDA devices in its place. */
#include <math.h>
#include <stdlib.h>

#include "tests/support/check.h"
#include "tests/support/second_backend.h"

static tern_dev_t dev0 = { TERN_KIND_EXT, 0 }, dev1 = { TERN_KIND_EXT, 1 };
static char name0[TERN_DEV_NAME_BYTES], name1[TERN_DEV_NAME_BYTES];

static int load(void **state)
{
    (void)state;
    if (getenv("TERN_TEST_DEVICE") != NULL)
        dev0.kind = dev1.kind = TERN_KIND_CUDA;
    else
        (void)second_backend_load();
    (void)tern_dev_name(dev0, name0);
    (void)tern_dev_name(dev1, name1);
    if (tern_dev_count(dev0.kind) == 2)
        return 0;
    print_error("there are no two devices: %s\n", tern_error_text());
    return -1;
}

static int clear(void **state)
{
    (void)state;
    tern_error_clear();
    return 0;
}

static void test_its_devices_have_names(void **state)
{
    (void)state;
    tern_dev_t dev;
    const bool cuda = dev0.kind == TERN_KIND_CUDA;
    assert_string_equal(name1, cuda ? "cuda:1" : "test:1");
    assert_int_equal(tern_dev_parse(name1, &dev), TERN_OK);
    assert_true(tern_dev_equal(dev, dev1));
    tern_dev_t none;
    assert_int_equal(tern_dev_parse("gpu", &none), TERN_ERR_DEVICE);
    assert_error(TERN_ERR_DEVICE, cuda ? "one of cpu, cuda at" : "one of cpu, cuda, test at");
    dev.index = 2;
    assert_null(tern_zeros(TERN_SHAPE(1), .device = dev));
    assert_error(TERN_ERR_DEVICE, cuda ? "cuda:2" : "no device test:2: 2 are visible");
}

static void test_a_tensor_goes_there_and_back(void **state) /* T013 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_arange(0, 6, .dtype = TERN_F32);
    tern_tensor *there = tern_to(tern_view(x, TERN_SHAPE(2, 3)), dev0);
    tern_tensor *back = tern_cpu(tern_add(tern_transpose(there, 0, 1), 1));
    float got[6];
    assert_int_equal(tern_read(back, TERN_F32, got, sizeof got), TERN_OK);
    assert_no_error();
    const float expected[6] = { 1, 4, 2, 5, 3, 6 };
    assert_memory_equal(got, expected, sizeof got);
    assert_ptr_equal(tern_to(there, dev0), there); /* T001 */
    tern_tensor *other = tern_to(there, dev1);
    assert_true(tern_dev_equal(tern_device(other), dev1));
    assert_close(tern_item(tern_sum(other)), 15, 1e-6);
}

/* A backend that cannot copy between its devices goes through the host's memory, which waits. */
static void test_a_copy_over_the_host_is_a_wait(void **state) /* T030 */
{
    (void)state;
    TERN_SCOPE;
    if (dev0.kind == TERN_KIND_CUDA)
        return; /* it can */
    tern_tensor *t = tern_ones(TERN_SHAPE(4), .device = dev0);
    tern_set_sync_debug_mode(TERN_SYNC_ERROR);
    const tern_tensor *refused = tern_to(t, dev1);
    tern_set_sync_debug_mode(TERN_SYNC_DEFAULT);
    assert_null(refused);
    assert_error(TERN_ERR_STATE, "called a synchronizing operation");
    assert_non_null(tern_to(t, dev1));
    assert_no_error();
}

/* Host memory is not page-locked: the source may be changed at once, the result read at once. */
static void test_non_blocking_changes_no_value(void **state) /* T002, T019, T022 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_arange(0, 6, .dtype = TERN_F32);
    tern_tensor *there = tern_to(x, dev0, .non_blocking = true);
    tern_fill(x, -1);
    assert_close(tern_item(tern_sum(there)), 15, 0);
    assert_ptr_equal(tern_to(there, dev0, .non_blocking = true), there);
    tern_tensor *back = tern_to(tern_add(there, 1), TERN_CPU, .non_blocking = true);
    assert_no_error();
    if (dev0.kind ==
        TERN_KIND_CUDA) /* there a copy to the host is on its way, into pinned memory */
        assert_int_equal(tern_dev_synchronize(dev0), TERN_OK);
    assert_close((double)((const float *)tern_data(back))[5], 6, 0);
    tern_tensor *twin = tern_to(there, dev0, .non_blocking = true, .copy = true);
    tern_tensor *other = tern_to(there, dev1, .non_blocking = true, .dtype = TERN_F64);
    tern_fill(there, 0);
    assert_close(tern_item(tern_sum(twin)), 15, 0);
    assert_close(tern_item(tern_sum(other)), 15, 0);
    assert_no_error();
}

static void test_host_pointers_are_refused(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *t = tern_ones(TERN_SHAPE(4), .device = dev0);
    assert_null(tern_data(t));
    assert_error(TERN_ERR_DEVICE, "tern_cpu");
}

static void test_mixed_devices_name_both(void **state) /* T033, T034, T037, T040, T041 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *a = tern_ones(TERN_SHAPE(64, 784));
    tern_tensor *b = tern_ones(TERN_SHAPE(784, 128), .device = dev0);
    assert_null(tern_matmul(a, b));
    const char *text = tern_error_text();
    assert_non_null(strstr(text, ": matmul: operands are on different devices\n    a "));
    assert_non_null(strstr(text, "[64, 784]"));
    assert_non_null(strstr(text, "cpu"));
    assert_non_null(strstr(text, name0));
    assert_non_null(strstr(text, "test_second_backend.c"));
    assert_non_null(strstr(text, "196 KiB"));
    tern_error_clear();
    assert_null(tern_add(tern_ones(TERN_SHAPE(1)), tern_ones(TERN_SHAPE(3), .device = dev0)));
    tern_error_clear();
    assert_null(tern_add(tern_ones(TERN_SHAPE(3), .device = dev0),
                         tern_ones(TERN_SHAPE(3), .device = dev1)));
    assert_error(TERN_ERR_DEVICE, name1);
    tern_tensor *many = tern_expand(tern_ones(TERN_SHAPE(1), .dtype = TERN_F64),
                                    TERN_SHAPE(INT64_C(1) << 62)); /* bytes beyond i64 */
    assert_null(tern_add(many, tern_ones(TERN_SHAPE(1), .device = dev0)));
    assert_error(TERN_ERR_DEVICE, "would move 9007199254740991 KiB each time");
}

static void test_a_host_scalar_may_meet_a_device_tensor(void **state) /* T035, T038 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *scalar = tern_full(2.5, TERN_SCALAR_SHAPE);
    tern_tensor *t = tern_ones(TERN_SHAPE(3), .device = dev0);
    tern_tensor *sum = tern_add(scalar, t);
    assert_no_error();
    assert_true(tern_dev_equal(tern_device(sum), dev0));
    assert_close(tern_item(tern_sum(sum)), 10.5, 1e-6);
    assert_null(tern_add(tern_ones(TERN_SCALAR_SHAPE, .device = dev0), tern_ones(TERN_SHAPE(3))));
    tern_error_clear();
}

static void test_missing_kernels_are_reported(void **state)
{
    (void)state;
    TERN_SCOPE;
    if (dev0.kind == TERN_KIND_CUDA)
        return; /* it has all: ops/conformance */
    assert_null(tern_silu(tern_ones(TERN_SHAPE(3), .device = dev0)));
    assert_error(TERN_ERR_UNSUPPORTED, "test:0 has no kernel");
}

/* A small net, some steps of Adam; returns the loss after them. */
static double train(tern_dev_t dev, double *out_first)
{
    double loss_value = 0;
    tern_seed(3);
    tern_module *net =
        tern_sequential(tern_linear_layer(8, 16), tern_relu_layer(), tern_linear_layer(16, 4));
    tern_module_to(net, dev);
    tern_optimizer *opt = tern_adam(tern_parameters(net), .lr = 0.05);
    tern_tensor *x = tern_retain(tern_to(tern_randn(TERN_SHAPE(32, 8)), dev));
    tern_tensor *y = tern_retain(tern_to(tern_argmax(tern_cpu(tern_slice(x, 1, 0, 4)), 1), dev));
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

static void test_it_trains_as_the_cpu_does(void **state) /* T045, T046 */
{
    (void)state;
    TERN_SCOPE;
    double first_cpu = 0, first_dev = 0;
    const double last_cpu = train(TERN_CPU, &first_cpu), last_dev = train(dev0, &first_dev);
    assert_no_error();
    assert_close(first_dev, first_cpu, 1e-5 * first_cpu);
    assert_close(last_dev, last_cpu, 1e-3 * last_cpu);
    assert_true(last_cpu < 0.7 * first_cpu);
}

/* Else a loader's seconds would be those of asking for the work, not of doing it. */
static void test_a_pass_ends_when_the_devices_work_does(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_dataset *dataset = tern_dataset_from_tensors(tern_ones(TERN_SHAPE(8, 4)),
                                                      tern_zeros(TERN_SHAPE(8), .dtype = TERN_I64));
    tern_loader *loader = tern_loader_open(dataset, .batch = 4, .device = dev0);
    tern_batch b;
    int64_t before = 0;
    while (tern_loader_next(loader, &b)) {
        (void)tern_mul(b.x, b.x);
        before = tern_transfers_total().syncs;
    }
    assert_int_equal(tern_transfers_total().syncs, before + 1);
    assert_false(tern_loader_next(loader, &b));
    assert_int_equal(tern_transfers_total().syncs, before + 1); /* once */
    tern_loader_close(loader);
    tern_dataset_free(dataset);
    assert_no_error();
}

static void test_gradients_live_where_their_tensor_lives(void **state) /* T013, T057 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *w = tern_ones(TERN_SHAPE(3), .requires_grad = true);
    tern_tensor *moved = tern_to(w, dev0);
    assert_false(tern_is_leaf(moved));
    tern_backward(tern_sum(tern_mul(moved, moved)));
    assert_no_error();
    assert_null(tern_grad_of(moved));
    assert_int_equal(tern_device(tern_grad_of(w)).kind, TERN_KIND_CPU);
    assert_close(tern_item(tern_sum(tern_grad_of(w))), 6, 1e-6);
}

static void test_memory_is_counted_and_comes_back(void **state)
{
    (void)state;
    const int64_t before = tern_memory(dev1).allocated_bytes;
    {
        TERN_SCOPE;
        (void)tern_zeros(TERN_SHAPE(1024), .device = dev1);
        assert_int_equal(tern_memory(dev1).allocated_bytes - before, 4096);
    }
    assert_int_equal(tern_memory(dev1).allocated_bytes, before);
    TERN_SCOPE;
    assert_null(tern_empty(TERN_SHAPE(1LL << 40), .device = dev1));
    assert_error(TERN_ERR_OOM, "out of memory on ");
    assert_null(tern_empty(TERN_SHAPE(1LL << 40), .device = dev1));
    assert_error(TERN_ERR_OOM, name1);
    assert_non_null(tern_empty(TERN_SHAPE(16), .device = dev1));
}

static void test_the_caches_of_all_devices_are_emptied(void **state) /* M045 */
{
    (void)state;
    const tern_dev_t all = { 0, 0 }, devs[] = { dev0, dev1 };
    int64_t before[2];
    for (int i = 0; i < 2; i++) {
        TERN_SCOPE;
        tern_empty_cache(devs[i]);
        before[i] = tern_memory(devs[i]).reserved_bytes;
        (void)tern_empty(TERN_SHAPE(11 << 20), .dtype = TERN_U8, .device = devs[i]);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(tern_memory(devs[i]).reserved_bytes, before[i] + (12 << 20));
    tern_empty_cache(all);
    for (int i = 0; i < 2; i++)
        assert_int_equal(tern_memory(devs[i]).reserved_bytes, before[i]);
}

/* In a region of f16. A030 */
static void check_scattering_promotes(tern_tensor *x, tern_tensor *low)
{
    tern_tensor *at = tern_to(tern_zeros(TERN_SHAPE(2, 2), TERN_I64), dev0);
    tern_tensor *row = tern_select(at, 0, 0);
    assert_int_equal(tern_dtype(tern_scatter_add(x, 0, at, low)), TERN_F32);
    assert_int_equal(tern_dtype(tern_scatter_add(low, 0, at, x)), TERN_F32);
    assert_int_equal(tern_dtype(tern_index_put(low, x, true, row)), TERN_F32);
    assert_int_equal(tern_dtype(tern_index_put(x, low, true, row)), TERN_F32);
    tern_tensor *other = tern_cast(x, TERN_BF16); /* several indices are put in a copy */
    assert_non_null(tern_index_put_(tern_clone(other), tern_select(other, 0, 0), true, row, row));
    assert_no_error();
    tern_index_put_(tern_clone(x), low, true, row); /* written as it is */
    assert_error(TERN_ERR_DTYPE, "x is f32 and the values are f16");
}

/* Devices that are not the CPU follow CUDA's column. A011, A016, A019, A037 */
static void test_autocast_there_is_cudas(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_to(tern_ones(TERN_SHAPE(2, 2)), dev0),
                *host = tern_ones(TERN_SHAPE(2, 2));
    tern_tensor *w = tern_set_requires_grad(tern_to(host, dev0), true), *y;
    {
        TERN_AUTOCAST(dev0);
        assert_int_equal(tern_autocast_dtype(dev0), TERN_F16);
        assert_false(tern_autocast_enabled(TERN_CPU));
        y = tern_matmul(x, w);
        assert_int_equal(tern_dtype(y), TERN_F16);
        assert_int_equal(tern_dtype(tern_matmul(host, host)), TERN_F32);
        assert_int_equal(tern_dtype(tern_relu(y)), TERN_F16);
        assert_int_equal(tern_dtype(tern_exp(y)), TERN_F32);
        assert_int_equal(tern_dtype(tern_sum(y)), TERN_F32);
        assert_int_equal(tern_dtype(tern_sum(y, .dtype = TERN_F16)), TERN_F16);
        assert_int_equal(tern_dtype(tern_mean(y)), TERN_F16);
        assert_int_equal(tern_dtype(tern_einsum("ij,ij->ij", x, x)), TERN_F16); /* A027 */
        assert_int_equal(tern_dtype(tern_einsum("ij,jk->ik", x, y)), TERN_F16);
        if (dev0.kind == TERN_KIND_CUDA) { /* the plugin does neither */
            check_scattering_promotes(x, y);
            assert_int_equal(tern_dtype(tern_norm(y)), TERN_F32); /* A020 */
            assert_int_equal(tern_dtype(tern_norm(x)), TERN_F32);
        }
        tern_tensor *z = tern_clone(y); /* A016: in place nothing is cast */
        const int64_t calls = tern_amp_counted().calls;
        assert_ptr_equal(tern_exp_(z), z);
        assert_int_equal(tern_dtype(z), TERN_F16);
        assert_int_equal(tern_amp_counted().calls, calls);
        y = tern_sum(tern_exp(y));
    }
    {
        TERN_AUTOCAST(TERN_CPU, TERN_BF16);
        assert_int_equal(tern_dtype(tern_matmul(x, w)), TERN_F32);
    }
    tern_backward(y);
    assert_no_error();
    assert_int_equal(tern_dtype(tern_grad_of(w)), TERN_F32);
    assert_close(tern_item(tern_select(tern_select(tern_grad_of(w), 0, 0), 0, 0)), 2 * exp(2),
                 0.02);
    char text[2048];
    const bool cuda = dev0.kind == TERN_KIND_CUDA;
    tern_amp_explain(text, sizeof text);
    assert_non_null(strstr(text, cuda ? "exp                cuda  f32   f32 "
                                      : "exp                ext   f32   f32 "));
    assert_non_null(strstr(text, cuda ? "sum                cuda  f32   f32 by dtype"
                                      : "sum                ext   f32   f32 by dtype"));
}

/* Scale and flags lie with the loss; flags of all devices count. A044, A053-A056, A061 */
static void test_the_scaler_works_across_devices(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_grad_scaler *s = tern_grad_scaler_create(.device = dev0, .init_scale = 8);
    tern_tensor *p[2] = { tern_ones(TERN_SHAPE(2), .device = dev0, .requires_grad = true),
                          tern_ones(TERN_SHAPE(2), .device = dev1, .requires_grad = true) };
    static const char *const names[] = { "near", "far" };
    tern_optimizer *opt = tern_sgd(((tern_tensors_t){ p, names, 2 }), .lr = 0.5);
    for (int i = 0; i < 2; i++) {
        tern_tensor *far = tern_to(tern_mul(p[1], i == 0 ? INFINITY : 1.0), dev0);
        tern_tensor *scaled = tern_scaler_scale(s, tern_sum(tern_add(p[0], far)));
        assert_true(tern_dev_equal(tern_device(scaled), dev0));
        tern_backward(scaled);
        tern_scaler_step(s, opt);
        assert_no_error();
        assert_int_equal(tern_scaler_skipped(s, opt), i == 0);
        tern_scaler_update(s);
        tern_zero_grad(opt);
    }
    assert_string_equal(tern_scaler_overflowed(s), "far");
    tern_scaler_event events[2];
    assert_int_equal(tern_scaler_history(s, events, 2), 2);
    assert_close(events[1].scale, 4, 0); /* known without asking the device */
    assert_close(tern_scaler_get_scale(s), 4, 0);
    for (int i = 0; i < 2; i++)
        assert_close(tern_item(tern_sum(p[i])), 1, 0);
    assert_no_error();
    tern_optimizer_free(opt);
    tern_grad_scaler_free(s);
}

/* What comes to the CPU is there before a kernel reads it: with the loss on either side, and after a start on the CPU. */
static void test_the_scaler_works_beside_the_cpu(void **state)
{
    (void)state;
    for (int loss_here = 0; loss_here < 4; loss_here++) {
        TERN_SCOPE;
        const tern_dev_t dev = loss_here & 1 ? TERN_CPU : dev0;
        tern_grad_scaler *s = tern_grad_scaler_create(.device = dev, .init_scale = 8);
        tern_tensor *p[2] = { tern_ones(TERN_SHAPE(100), .requires_grad = true),
                              tern_ones(TERN_SHAPE(100), .device = dev0, .requires_grad = true) };
        tern_optimizer *opt = tern_sgd(((tern_tensors_t){ p, NULL, 2 }), .lr = 0.5);
        for (int i = 0; i < 2; i++) {
            tern_tensor *here = tern_sum(tern_to(p[0], dev));
            tern_tensor *there = tern_mul(tern_sum(tern_to(p[1], dev)), i == 0 ? INFINITY : 1.0);
            tern_backward(tern_scaler_scale(s, tern_add(here, there)));
            if (loss_here & 2)
                tern_scaler_unscale(s, opt);
            tern_scaler_step(s, opt);
            tern_scaler_update(s);
            tern_zero_grad(opt);
        }
        assert_no_error();
        tern_tensor *far_loss = tern_ones(TERN_SCALAR_SHAPE, .device = dev0);
        assert_close(tern_item(tern_scaler_scale(s, far_loss)), 4, 0);
        assert_close(tern_item(tern_scaler_scale(s, tern_ones(TERN_SCALAR_SHAPE))), 4, 0);
        for (int i = 0; i < 2; i++)
            assert_close(tern_item(tern_sum(p[i])), 50, 0);
        assert_int_equal(tern_scaler_skip_count(s), 1);
        tern_optimizer_free(opt);
        tern_grad_scaler_free(s);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, clear)
    const struct CMUnitTest tests[] = {
        TEST(test_its_devices_have_names),
        TEST(test_a_tensor_goes_there_and_back),
        TEST(test_a_copy_over_the_host_is_a_wait),
        TEST(test_non_blocking_changes_no_value),
        TEST(test_host_pointers_are_refused),
        TEST(test_mixed_devices_name_both),
        TEST(test_a_host_scalar_may_meet_a_device_tensor),
        TEST(test_missing_kernels_are_reported),
        TEST(test_it_trains_as_the_cpu_does),
        TEST(test_a_pass_ends_when_the_devices_work_does),
        TEST(test_gradients_live_where_their_tensor_lives),
        TEST(test_autocast_there_is_cudas),
        TEST(test_the_scaler_works_across_devices),
        TEST(test_the_scaler_works_beside_the_cpu),
        TEST(test_memory_is_counted_and_comes_back),
        TEST(test_the_caches_of_all_devices_are_emptied),
    };
    const int failed = cmocka_run_group_tests(tests, load, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
