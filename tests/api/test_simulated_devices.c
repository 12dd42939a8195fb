/* Current and default devices with devices there. Rows D007, D014-D016, D020-D025, D065-D070, T004, R004, R008. */
#include <pthread.h>
#include <stdlib.h>

#include "tests/support/child.h"
#include "tests/support/files.h"
#include "tests/support/simulator.h"

static const tern_dev_t dev0 = { TERN_KIND_CUDA, 0 }, dev1 = { TERN_KIND_CUDA, 1 };

static void switch_on(void)
{
    tern_cuda_set_enabled(true);
    tern_set_device_policy(TERN_PREFER);
}

static int clear(void **state)
{
    (void)state;
    switch_on();
    tern_error_clear();
    tern_dev_set(dev0);
    tern_set_default_device(TERN_CPU);
    return 0;
}

/* ---- calls of no device, and of two: each in a child, since a device is lost or a pair's first copy fails -- */

static void *pin(void *out)
{
    TERN_SCOPE;
    tern_tensor *x = tern_pin(tern_ones(TERN_SHAPE(1000)));
    *(bool *)out = x != NULL && tern_is_pinned(x);
    tern_error_clear();
    return NULL;
}

/* A new thread's device in CUDA is 0, which does not answer; whoever uses cuda:1 alone does not mind. */
static void page_locked_memory_is_of_the_device_in_use(void)
{
    pthread_t thread;
    bool pinned = false;
    {
        TERN_SCOPE;
        EXPECT(tern_item(tern_sum(tern_ones(TERN_SHAPE(4), .device = dev1))) == 4);
        simulator_set("FAIL", "launch:k_fill@1=700");
        (void)tern_ones(TERN_SHAPE(4), .device = dev0);
        EXPECT(tern_dev_synchronize(dev0) != TERN_OK);
        tern_error_clear();
    }
    EXPECT(pthread_create(&thread, NULL, pin, &pinned) == 0 && pthread_join(thread, NULL) == 0);
    EXPECT(pinned);
    exit(0); /* without tern_finish, which cannot finish cuda:0 */
}

static void a_short_way_that_cannot_be_opened(void)
{
    TERN_SCOPE;
    tern_tensor *x = tern_full(3, TERN_SHAPE(1000), .device = dev0);
    for (int i = 0; i < 2; i++)
        EXPECT(tern_item(tern_sum(tern_to(x, dev1))) == 3000);
    EXPECT(!tern_failed());
}

static void copies_reach_what_is_mapped(void)
{
    TERN_SCOPE;
    const bool peers_first = getenv("TERN_ALLOC_CONF") == NULL;
    if (peers_first) {
        tern_tensor *x = tern_ones(TERN_SHAPE(10), .device = dev0);
        EXPECT(tern_item(tern_sum(tern_to(x, dev1))) == 10);
        EXPECT(tern_set_memory_settings(dev1, "expandable_segments:True") == TERN_OK);
        EXPECT(tern_set_memory_settings(dev0, "expandable_segments:True") == TERN_OK);
    }
    tern_tensor *x = tern_full(3, TERN_SHAPE(1 << 20), .device = dev0);
    for (int i = 0; i < 2; i++) {
        tern_tensor *there = tern_to(x, dev1);
        EXPECT(!tern_failed() && tern_item(tern_sum(tern_to(there, dev0))) == 3 << 20);
    }
    EXPECT(!tern_failed());
}

static void test_peers_and_expandable_segments(void **state)
{
    (void)state;
    assert_in_child(copies_reach_what_is_mapped, .fail = NULL);
    (void)setenv("TERN_ALLOC_CONF", "expandable_segments:True", 1);
    assert_in_child(copies_reach_what_is_mapped, .fail = NULL);
    (void)unsetenv("TERN_ALLOC_CONF");
}

static void test_devices_that_are_not_asked_for(void **state)
{
    (void)state;
    assert_in_child(page_locked_memory_is_of_the_device_in_use, .fail = NULL);
    assert_in_child(a_short_way_that_cannot_be_opened, .fail = "cudaDeviceEnablePeerAccess@1=711");
}

static void test_a_seed_starts_nothing(void **state) /* D065 */
{
    (void)state;
    tern_seed(7);
    assert_false(simulator_is_loaded());
    assert_int_equal(tern_dev_count(TERN_KIND_CUDA), 2);
    assert_true(simulator_is_loaded());
}

static void test_choosing_a_device_calls_no_driver(void **state) /* D020 D022 */
{
    (void)state;
    const int64_t calls = simulator_calls();
    assert_int_equal(tern_dev_set(dev1), TERN_OK);
    assert_int_equal(tern_dev_set(dev1), TERN_OK);
    {
        TERN_DEVICE(dev0);
        TERN_STREAM(tern_default_stream(dev1));
        assert_int_equal(tern_dev_current(TERN_KIND_CUDA).index, 1);
    }
    assert_int_equal(simulator_calls(), calls);
}

static void test_a_device_guard_restores(void **state) /* D021 D023 D024 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *there = tern_ones(TERN_SHAPE(2), .device = dev1);
    tern_tensor *here = tern_ones(TERN_SHAPE(2));
    {
        TERN_DEVICE(tern_device(there));
        assert_int_equal(tern_dev_current(TERN_KIND_CUDA).index, 1);
        {
            TERN_DEVICE(TERN_CUDA(-1)); /* no index: a guard of nothing */
            TERN_DEVICE(tern_device(here));
            assert_int_equal(tern_dev_current(TERN_KIND_CUDA).index, 1);
            tern_tensor *made = tern_ones(TERN_SHAPE(2), .device = TERN_CUDA(-1));
            assert_true(tern_dev_equal(tern_device(made), dev1));
        }
        assert_int_equal(tern_dev_current(TERN_KIND_CUDA).index, 1);
    }
    assert_int_equal(tern_dev_current(TERN_KIND_CUDA).index, 0);
    assert_no_error();
    {
        TERN_DEVICE(TERN_CUDA(2));
        assert_error(TERN_ERR_DEVICE, "there is no device cuda:2: 2 are visible");
        assert_null(tern_zeros(TERN_SHAPE(2), .device = TERN_CUDA(-3)));
        assert_error(TERN_ERR_DEVICE, "there is no device of index -3");
        assert_int_equal(tern_dev_synchronize(TERN_CUDA(-2)), TERN_ERR_DEVICE);
        assert_error(TERN_ERR_DEVICE, "synchronize: there is no device of index -2");
        assert_int_equal(tern_dev_current(TERN_KIND_CUDA).index, 0);
    }
}

/* Wherever the current device is. D025 */
static void test_results_lie_where_the_operands_do(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(2, 2), .device = dev1);
    assert_int_equal(tern_dev_current(TERN_KIND_CUDA).index, 0);
    tern_tensor *made[] = { tern_add(x, 1), tern_matmul(x, x), tern_sum(x), tern_clone(x),
                            tern_to(x, .dtype = TERN_F64) };
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        assert_true(tern_dev_equal(tern_device(made[i]), dev1));
    assert_int_equal(tern_dev_current(TERN_KIND_CUDA).index, 0);
    assert_no_error();
}

static void assert_row(tern_tensor *t, double a, double b, double c)
{
    float v[3];
    assert_true(tern_dev_equal(tern_device(t), dev1));
    assert_int_equal(tern_read(t, TERN_F32, v, sizeof v), TERN_OK);
    assert_true(v[0] == a && v[1] == b && v[2] == c);
}

/* Numbers of both dtypes, masks and 0-dim values; what those need of gradients goes back to the CPU. T043 */
static void test_indices_of_the_cpu_come_to_a_device(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_arange(0, 3, .dtype = TERN_F32, .device = dev1);
    tern_tensor *two = tern_full(2, TERN_SHAPE(1), .dtype = TERN_I32);
    tern_tensor *back = tern_arange(-1, -4, .step = -1), *mask = tern_lt(tern_arange(0, 3), 2);
    assert_row(tern_index(x, back), 2, 1, 0);
    assert_row(tern_index(x, tern_expand(two, TERN_SHAPE(3))), 2, 2, 2);
    assert_row(tern_index_put(x, 7, false, mask), 7, 7, 2);
    tern_tensor *square = tern_zeros(TERN_SHAPE(3, 3), .device = dev1);
    tern_index_put_(square, x, false, two, tern_to(back, dev1)); /* one here, one there */
    assert_row(tern_select(square, 0, 2), 2, 1, 0);
    tern_tensor *one = tern_ones(TERN_SCALAR_SHAPE, .requires_grad = true);
    tern_tensor *put = tern_index_put(x, one, true, mask);
    assert_row(put, 1, 2, 2);
    assert_int_equal(tern_backward(tern_sum(put)), TERN_OK);
    assert_true(tern_dev_equal(tern_device(tern_grad_of(one)), TERN_CPU));
    assert_close(tern_item(tern_grad_of(one)), 2, 0);
    assert_row(tern_index_put_(tern_clone(x), tern_detach(one), false, two), 0, 1, 1);
    assert_no_error();
}

static void test_a_device_without_index_is_the_current_one(void **state) /* T004 D014 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(3), .device = dev0);
    TERN_DEVICE(dev1);
    assert_true(tern_to(x, TERN_CUDA(0)) == x);
    tern_tensor *moved = tern_cuda(x);
    assert_true(tern_dev_equal(tern_device(moved), dev1));
    assert_true(tern_dev_equal(tern_device(tern_cpu(moved)), TERN_CPU));
    assert_no_error();
}

static void test_a_default_without_index_follows(void **state) /* D007 D069 */
{
    (void)state;
    TERN_SCOPE;
    assert_int_equal(tern_set_default_device(TERN_CUDA(-1)), TERN_OK);
    for (int i = 1; i >= 0; i--) {
        assert_int_equal(tern_dev_set(TERN_CUDA(i)), TERN_OK);
        assert_true(tern_dev_equal(tern_device(tern_ones(TERN_SHAPE(2))), TERN_CUDA(i)));
        assert_true(tern_dev_equal(tern_default_device(), TERN_CUDA(i)));
        assert_int_equal(tern_set_default_device(TERN_DEV_(TERN_KIND_NONE, 0)),
                         TERN_OK); /* not given */
    }
}

static void test_the_default_device_is_for_factories(void **state) /* D015 D066 D067 D068 */
{
    (void)state;
    TERN_SCOPE;
    static float values[3] = { 1, 2, 3 };
    tern_tensor *cpu = tern_ones(TERN_SHAPE(3));
    assert_int_equal(tern_set_default_device(dev1), TERN_OK);
    tern_tensor *made[] = { tern_empty(TERN_SHAPE(3)),
                            tern_zeros(TERN_SHAPE(3)),
                            tern_ones(TERN_SHAPE(3)),
                            tern_full(2, TERN_SHAPE(3)),
                            tern_rand(TERN_SHAPE(3)),
                            tern_randn(TERN_SHAPE(3)),
                            tern_arange(0, 3),
                            tern_linspace(0, 1, 3),
                            tern_eye(3),
                            tern_randint(0, 9, TERN_SHAPE(3)),
                            tern_randperm(3),
                            tern_from_data(values, TERN_SHAPE(3)) };
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        assert_true(tern_dev_equal(tern_device(made[i]), dev1));
    assert_int_equal(tern_dev_current(TERN_KIND_CUDA).index, 0); /* another thing */
    tern_tensor *follow[] = { tern_clone(cpu),
                              tern_add(cpu, 1),
                              tern_bernoulli(cpu, NULL),
                              tern_one_hot(tern_to(cpu, .dtype = TERN_I64), 3),
                              tern_ones(TERN_SHAPE(3), .device = TERN_CPU),
                              tern_from_memory(values, NULL, NULL, TERN_SHAPE(3)) };
    for (size_t i = 0; i < sizeof follow / sizeof *follow; i++)
        assert_true(tern_dev_equal(tern_device(follow[i]), TERN_CPU));
    assert_no_error();
}

static void count_release(void *user)
{
    ++*(int *)user;
}

static void test_memory_of_the_host_is_no_devices(void **state)
{
    (void)state;
    TERN_SCOPE;
    float values[3] = { 1, 2, 3 };
    int released = 0;
    assert_null(tern_from_memory(values, count_release, &released, TERN_SHAPE(3), .device = dev1));
    assert_error(TERN_ERR_DEVICE, "the memory is the host's\n  try tern_from_data, which copies");
    assert_int_equal(released, 0); /* still the caller's */
}

static void *devices_of_a_thread(void *out)
{
    tern_dev_t *theirs = out;
    theirs[0] = tern_default_device();
    theirs[1] = tern_dev_current(TERN_KIND_CUDA);
    return NULL;
}

static void test_threads_have_their_own_devices(void **state) /* D016 D070 */
{
    (void)state;
    pthread_t thread;
    tern_dev_t theirs[2] = { dev1, dev1 };
    assert_int_equal(tern_set_default_device(dev1), TERN_OK);
    assert_int_equal(tern_dev_set(dev1), TERN_OK);
    assert_int_equal(pthread_create(&thread, NULL, devices_of_a_thread, theirs), 0);
    pthread_join(thread, NULL);
    assert_true(tern_dev_equal(theirs[0], TERN_CPU));
    assert_true(tern_dev_equal(theirs[1], dev0));
    assert_true(tern_dev_equal(tern_default_device(), dev1));
    assert_true(tern_dev_equal(tern_dev_current(TERN_KIND_CUDA), dev1));
}

static void test_a_seed_draws_the_same_everywhere(void **state) /* R004 R008 */
{
    (void)state;
    TERN_SCOPE;
    tern_seed(7);
    tern_tensor *here = tern_rand(TERN_SHAPE(1000));
    for (int i = 0; i < 2; i++) {
        tern_seed(7);
        tern_tensor *there = tern_rand(TERN_SHAPE(1000), .device = TERN_CUDA(i));
        assert_close(tern_item(tern_sum(tern_ne(tern_cpu(there), here))), 0, 0);
    }
    tern_seed(8);
    assert_true(tern_item(tern_sum(tern_ne(tern_rand(TERN_SHAPE(1000)), here))) > 900);
    assert_no_error();
}

static void test_a_region_for_bf16_names_a_missing_device(void **state)
{
    (void)state;
    tern_autocast_region region = tern_autocast_begin(TERN_CUDA(77), TERN_BF16);
    assert_error(TERN_ERR_DEVICE, "autocast: there is no device cuda:77: 2 are visible");
    assert_false(tern_autocast_enabled(dev0));
    tern_autocast_end(&region);
}

/* A step of training: dropout, a mask, places that are counted up, a cat and a sum of none, and Adam. */
static void train(tern_tensor *p, tern_optimizer *opt, tern_grad_scaler *scaler)
{
    tern_tensor *heads = tern_view(p, TERN_SHAPE(1, 1, 4, 4));
    tern_tensor *y = tern_scaled_dot_product_attention(heads, heads, heads, .causal = true);
    y = tern_cat(0, tern_dropout(tern_view(y, TERN_SHAPE(4, 4)), 0.5), tern_cumsum(p, 0));
    y = tern_mul(y,
                 tern_repeat_interleave(tern_zeros_like(y),
                                        tern_ones(TERN_SHAPE(8), .like = y, .dtype = TERN_I64), 0));
    tern_backward(tern_scaler_scale(scaler, tern_sum(tern_add(tern_sum(y), tern_sum(p)))));
    tern_scaler_step(scaler, opt);
    tern_scaler_update(scaler);
}

static void switch_off(int how)
{
    if (how == 0)
        tern_cuda_set_enabled(false);
    else
        tern_set_device_policy(TERN_CPU_ONLY);
}

/* What is made beside a tensor, and state of it, is where it is: only requests resolve to the CPU. */
static void test_tensors_stay_where_cuda_is_switched_off(void **state)
{
    (void)state;
    for (int how = 0; how < 2; how++) {
        TERN_SCOPE;
        tern_tensor *x = tern_ones(TERN_SHAPE(4, 4), .device = dev1, .requires_grad = true);
        tern_tensor *y = tern_mul(tern_cpu(x), 2), *host = tern_zeros(TERN_SHAPE(2));
        tern_optimizer *opt = tern_adam(((tern_tensors_t){ &x, NULL, 1 }), .lr = 0.1);
        tern_grad_scaler *scaler = tern_grad_scaler_create();
        switch_off(how);
        tern_tensor *const there[] = {
            tern_zeros_like(x),
            tern_rand_like(x),
            tern_to(x, dev1),
            tern_to(x, .dtype = TERN_F64),
            tern_full(1, TERN_SHAPE(3), .like = x),
        };
        for (size_t i = 0; i < sizeof there / sizeof *there; i++)
            assert_true(there[i] != NULL && tern_dev_equal(tern_device(there[i]), dev1));
        assert_true(tern_dev_equal(tern_device(tern_to(x, dev0)), TERN_CPU));
        assert_true(tern_dev_equal(tern_device(tern_zeros_like(x, .device = dev1)), TERN_CPU));
        assert_true(tern_dev_equal(tern_device(tern_to(host, dev1)), TERN_CPU));
        tern_backward(tern_sum(y)); /* from the CPU to where x lives */
        assert_no_error();
        train(x, opt, scaler);
        assert_no_error();
        assert_true(tern_dev_equal(tern_device(tern_optimizer_state(opt, x, "exp_avg")), dev1));
        assert_close(tern_item(tern_amax(x)), 0.9, 1e-4);
        switch_on();
        tern_optimizer_free(opt);
        tern_grad_scaler_free(scaler);
    }
}

/* A copy that is under way, memory that was lent, and what is there: none of them is a request. */
static void test_work_is_waited_for_where_cuda_is_switched_off(void **state)
{
    (void)state;
    for (int how = 0; how < 2; how++) {
        TERN_SCOPE;
        tern_tensor *x = tern_ones(TERN_SHAPE(1000), .device = dev1);
        void *lent = tern_memory_alloc(dev1, 4096, NULL);
        switch_off(how);
        tern_tensor *host = tern_to(tern_add(x, 1), TERN_CPU, .non_blocking = true);
        assert_int_equal(tern_dev_synchronize(dev1), TERN_OK);
        assert_close(tern_data_as(float, host)[999], 2, 0); /* the simulator ends who reads early */
        void *cpus = tern_memory_alloc(dev1, 4096, NULL);   /* a request: the CPU's */
        assert_int_equal(tern_memory_free(dev1, cpus), TERN_OK);
        assert_int_equal(tern_memory_free(dev1, lent), TERN_OK);
        assert_int_equal(tern_memory_free(dev1, lent), TERN_ERR_ARGUMENT); /* once */
        tern_error_clear();
        assert_int_equal(tern_memory_snapshot(dev1, file_path("there.json")), TERN_OK);
        file_bytes text = file_read(file_path("there.json"));
        file_bytes_add(&text, "", 1);
        assert_non_null(strstr((const char *)text.data, "\"device_name\": \"cuda:1\""));
        file_bytes_free(&text);
        switch_on();
        assert_no_error();
    }
}

/* Streams are the device's, too: where its work goes, and what orders it. */
static void test_streams_stay_where_cuda_is_switched_off(void **state)
{
    (void)state;
    for (int how = 0; how < 2; how++) {
        TERN_SCOPE;
        tern_tensor *x = tern_ones(TERN_SHAPE(1000), .device = dev1);
        switch_off(how);
        const tern_stream_t side = tern_stream_from_pool(dev1);
        assert_true(tern_dev_equal(side.device, dev1));
        assert_true(tern_dev_equal(tern_default_stream(dev1).device, dev1));
        assert_ptr_equal(tern_stream_external(dev1, side.handle).handle, side.handle);
        tern_stream_wait_stream(side, tern_current_stream(dev1));
        TERN_STREAM(side);
        tern_tensor *host = tern_to(tern_add(x, 1), TERN_CPU, .non_blocking = true);
        assert_true(tern_stream_equal(tern_current_stream(dev1), side));
        assert_int_equal(tern_stream_synchronize(tern_current_stream(dev1)), TERN_OK);
        assert_close(tern_data_as(float, host)[999], 2, 0); /* the simulator ends who reads early */
        switch_on();
        assert_no_error();
    }
}

/* Under TERN_REQUIRE requests are errors now; a layer that lives on a device asks for none. */
static void test_a_recurrent_layer_goes_on_where_cuda_is_switched_off(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_module *m = tern_lstm_layer(3, 2, .device = dev1);
    tern_tensor *x = tern_ones(TERN_SHAPE(4, 1, 3), .device = dev1);
    const double before = tern_item(tern_sum(tern_forward(m, x)));
    tern_set_device_policy(TERN_REQUIRE);
    tern_cuda_set_enabled(false);
    assert_close(tern_item(tern_sum(tern_forward(m, x))), before, 1e-6);
    switch_on();
    assert_no_error();
    tern_module_free(m);
}

int main(void)
{
    (void)setenv("TERN_SIM_DEVICES", "2", 1);
#define TEST(name) cmocka_unit_test_teardown(name, clear)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices_that_are_not_asked_for),
        cmocka_unit_test(test_peers_and_expandable_segments),
        cmocka_unit_test(test_a_seed_starts_nothing), /* first: nothing has asked for a device */
        TEST(test_choosing_a_device_calls_no_driver),
        TEST(test_a_device_guard_restores),
        TEST(test_results_lie_where_the_operands_do),
        TEST(test_indices_of_the_cpu_come_to_a_device),
        TEST(test_a_device_without_index_is_the_current_one),
        TEST(test_a_default_without_index_follows),
        TEST(test_the_default_device_is_for_factories),
        TEST(test_memory_of_the_host_is_no_devices),
        TEST(test_threads_have_their_own_devices),
        TEST(test_a_seed_draws_the_same_everywhere),
        TEST(test_a_region_for_bf16_names_a_missing_device),
        TEST(test_tensors_stay_where_cuda_is_switched_off),
        TEST(test_work_is_waited_for_where_cuda_is_switched_off),
        TEST(test_streams_stay_where_cuda_is_switched_off),
        TEST(test_a_recurrent_layer_goes_on_where_cuda_is_switched_off),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
