/* Loaders and page-locked memory on a simulated device (T067): the host does not wait for batches, their
 * memory is not used again before the device has read it, the second device's batches are its own, and a full
 * device loses none. */
#include <stdlib.h>

#include "tests/support/check.h"

enum { SAMPLES = 96, WIDTH = 50, BATCH = 8 };

static tern_dataset *numbers(void)
{
    tern_tensor *x = tern_reshape(tern_arange(0, (double)SAMPLES * WIDTH, .dtype = TERN_F32),
                                  TERN_SHAPE(SAMPLES, WIDTH));
    return tern_dataset_from_tensors(x, tern_arange(0, SAMPLES, .dtype = TERN_I64));
}

static int reset(void **state)
{
    (void)state;
    tern_error_clear();
    tern_set_sync_debug_mode(TERN_SYNC_DEFAULT);
    return 0;
}

/* Sums that stay on the device until all batches have been asked for. */
static void check_pass(tern_dev_t dev, int workers)
{
    TERN_SCOPE;
    tern_dataset *data = numbers();
    tern_tensor *total = tern_zeros(TERN_SHAPE(WIDTH), .device = dev);
    tern_tensor *labels = tern_zeros(TERN_SHAPE(BATCH), .dtype = TERN_I64, .device = dev);
    tern_set_sync_debug_mode(TERN_SYNC_ERROR);
    tern_loader *loader =
        tern_loader_open(data, .batch = BATCH, .device = dev, .workers = workers, .shuffle = true);
    tern_batch b;
    int batches = 0;
    while (batches < SAMPLES / BATCH && tern_loader_next(loader, &b)) {
        TERN_SCOPE;
        assert_true(tern_dev_equal(tern_device(b.x), dev));
        tern_add_(total, tern_sum(b.x, .dims = TERN_DIMS(0)));
        tern_add_(labels, b.y);
        batches++;
    }
    tern_set_sync_debug_mode(TERN_SYNC_DEFAULT);
    assert_no_error();
    assert_int_equal(batches, SAMPLES / BATCH);
    tern_loader_close(loader);
    const double n = (double)SAMPLES * WIDTH;
    assert_close(tern_item(tern_sum(total, .dtype = TERN_F64)), n * (n - 1) / 2, 1e-6);
    assert_int_equal(tern_item_int(tern_sum(labels)), SAMPLES * (SAMPLES - 1) / 2);
    tern_dataset_free(data);
}

static void test_batches_arrive_without_waiting(void **state)
{
    (void)state;
    check_pass(TERN_CUDA(0), 0);
    check_pass(TERN_CUDA(0), 2);
    check_pass(TERN_CUDA(1), 1);
    assert_true(tern_host_memory_stat("allocated_bytes.peak") > 0);
}

static void test_batches_on_the_cpu_are_pinned_when_asked(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_dataset *data = numbers();
    for (int pins = 0; pins < 2; pins++) {
        tern_loader *loader =
            tern_loader_open(data, .batch = BATCH, .device = TERN_CPU, .pin_memory = pins == 1);
        tern_batch b;
        while (tern_loader_next(loader, &b)) {
            assert_true(tern_is_pinned(b.x) == (pins == 1));
            assert_true(tern_is_pinned(b.y) == (pins == 1));
            assert_close(tern_item(tern_select(tern_select(b.x, 0, 0), 0, 0)),
                         (double)b.index * BATCH * WIDTH, 0);
        }
        tern_loader_close(loader);
        assert_no_error();
    }
    tern_dataset_free(data);
}

/* A device that is full for a while loses no batch (docs/guide/memory.md). */
static void test_batches_go_on_after_a_full_device(void **state)
{
    (void)state;
    TERN_SCOPE;
    const tern_dev_t dev = TERN_CUDA(1);
    tern_empty_cache(dev);
    tern_dataset *data = tern_dataset_from_tensors(tern_ones(TERN_SHAPE(8, 1 << 18)));
    for (int workers = 0; workers < 3; workers++) {
        tern_scope full = tern_scope_begin();
        assert_non_null(tern_empty(TERN_SHAPE(62 << 18), .device = dev));
        tern_loader *loader = tern_loader_open(data, .batch = 2, .device = dev, .workers = workers);
        tern_batch b;
        assert_false(tern_loader_next(loader, &b));
        assert_error(TERN_ERR_OOM, "");
        tern_scope_end(&full);
        tern_empty_cache(dev);
        for (int64_t step = 0; step < 4; step++) {
            assert_true(tern_loader_next(loader, &b));
            assert_int_equal(b.index, step);
        }
        assert_false(tern_loader_next(loader, &b));
        assert_no_error();
        tern_loader_close(loader);
        tern_empty_cache(dev);
    }
    tern_dataset_free(data);
}

/* What was reported waits on the device until it can be read: not while an error is pending. */
static void test_reports_outlive_a_pending_error(void **state)
{
    (void)state;
    TERN_SCOPE;
    const tern_dev_t dev = TERN_CUDA(0);
    tern_dataset *data = tern_dataset_from_tensors(tern_ones(TERN_SHAPE(8, 4)));
    tern_loader *loader = tern_loader_open(data, .batch = 1, .device = dev);
    tern_batch b;
    while (tern_loader_next(loader, &b)) {
        TERN_SCOPE;
        const double value = b.index < 4 ? 100 : 0;
        tern_loader_report(loader, "loss", tern_full(value, TERN_SCALAR_SHAPE, .device = dev));
        if (b.index == 3) {
            (void)tern_matmul(b.x, b.x);
            assert_true(tern_failed());
            (void)tern_loader_mean(loader, "loss");
            tern_error_clear();
        }
    }
    assert_close(tern_loader_mean(loader, "loss"), 50, 0);
    tern_loader_close(loader);
    tern_dataset_free(data);
}

/* A number that is written in place from step to step counts with what it was when it was reported. */
static void test_reports_of_what_is_written_in_place(void **state)
{
    (void)state;
    const tern_dev_t devices[] = { TERN_CPU, TERN_CUDA(0) };
    for (int i = 0; i < 2; i++) {
        TERN_SCOPE;
        tern_dataset *data = tern_dataset_from_tensors(tern_ones(TERN_SHAPE(4, 2)));
        tern_loader *loader = tern_loader_open(data, .device = devices[i]);
        tern_tensor *sum = tern_zeros(TERN_SHAPE(1), .device = devices[i]);
        tern_batch b;
        while (tern_loader_next(loader, &b)) {
            TERN_SCOPE;
            tern_add_(sum, 1.0);
            tern_loader_report(loader, "sum", sum);
        }
        assert_close(tern_loader_mean(loader, "sum"), (1 + 2 + 3 + 4) / 4.0, 0);
        tern_loader_close(loader);
        tern_dataset_free(data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_batches_arrive_without_waiting, reset),
        cmocka_unit_test_setup(test_batches_on_the_cpu_are_pinned_when_asked, reset),
        cmocka_unit_test_setup(test_batches_go_on_after_a_full_device, reset),
        cmocka_unit_test_setup(test_reports_outlive_a_pending_error, reset),
        cmocka_unit_test_setup(test_reports_of_what_is_written_in_place, reset),
    };
    (void)setenv("TERN_SIM_DEVICES", "2", 1);
    (void)setenv("TERN_SIM_MEMORY", "64M", 1);
    return check_run(tests, NULL, NULL);
}
