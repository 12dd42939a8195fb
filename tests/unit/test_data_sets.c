/* Datasets: MNIST and CIFAR-10 folders, tensors, callbacks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/cifar.h"
#include "data/dataset.h"
#include "tern/tern.h"
#include "tests/support/files.h"

static void expect_error(tern_status_t code, const char *words)
{
    if (!strstr(tern_error_text(), words))
        fail_msg("'%s' does not say '%s'", tern_error_text(), words);
    assert_int_equal(tern_error_code(), code);
    tern_error_clear();
}

static void expect_near(double value, double wanted, double tolerance)
{
    if (!(fabs(value - wanted) <= tolerance))
        fail_msg("%.9g is not %.9g", value, wanted);
}

/* One batch of a dataset from its first sample, and no more of it. */
static void first_batch(tern_dataset *dataset, int64_t count, tern_batch *batch)
{
    tern_loader *loader = tern_loader_open(dataset, .batch = count);
    assert_true(tern_loader_next(loader, batch));
    tern_retain(batch->x);
    tern_retain(batch->y);
    tern_loader_close(loader);
}

static void let_go(tern_batch *batch)
{
    tern_release(batch->x);
    tern_release(batch->y);
}

/* ---- MNIST ---- */

enum { IMAGE = 28 * 28 };

static void write_split(const char *prefix, uint32_t images, uint32_t labels, uint8_t label)
{
    char name[64];
    uint8_t *pixels = calloc(images + 1, IMAGE);
    uint8_t *numbers = malloc(labels + 1);
    assert_non_null(pixels);
    assert_non_null(numbers);
    pixels[1] = 255;
    memset(numbers, label, labels);
    snprintf(name, sizeof name, "%s-images-idx3-ubyte", prefix);
    const uint32_t extents[3] = { images, 28, 28 };
    file_write(name, file_idx(0x08, 3, extents, pixels, (size_t)images * IMAGE));
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte", prefix);
    file_write(name, file_idx(0x08, 1, &labels, numbers, labels));
    free(pixels);
    free(numbers);
}

static void test_mnist_is_normalised_and_numbered(void **state)
{
    (void)state;
    write_split("train", 3, 3, 7);
    tern_dataset *dataset = tern_mnist(file_folder(), TERN_TRAIN);
    assert_non_null(dataset);
    assert_int_equal(tern_dataset_count(dataset), 3);
    tern_shape_t shape = tern_dataset_shape(dataset);
    assert_int_equal(shape.ndim, 3);
    assert_int_equal(shape.dims[0], 1);
    assert_int_equal(shape.dims[1], 28);
    tern_batch b;
    first_batch(dataset, 2, &b);
    const float *x = tern_data(b.x);
    expect_near((double)x[0], -0.1307 / 0.3081, 1e-6);
    expect_near((double)x[1], (1 - 0.1307) / 0.3081, 1e-6);
    assert_int_equal(tern_dtype(b.y), TERN_I64);
    assert_int_equal(((int64_t *)tern_data(b.y))[1], 7);
    let_go(&b);
    tern_dataset_free(dataset);
}

static void test_mnist_reads_the_packed_file_when_there_is_no_other(void **state)
{
    (void)state;
    const uint32_t extents[3] = { 1, 28, 28 };
    uint8_t pixels[IMAGE] = { 0 };
    const uint8_t label = 3;
    file_bytes plain = file_idx(0x08, 3, extents, pixels, sizeof pixels);
    file_write("t10k-images-idx3-ubyte.gz", file_gzip(&plain));
    file_bytes_free(&plain);
    file_write("t10k-labels-idx1-ubyte", file_idx(0x08, 1, extents, &label, 1));
    tern_dataset *dataset = tern_mnist(file_folder(), TERN_TEST);
    assert_int_equal(tern_dataset_count(dataset), 1);
    tern_dataset_free(dataset);
}

static void test_mnist_says_what_is_wrong_with_a_folder(void **state)
{
    (void)state;
    assert_null(tern_mnist("/nowhere", TERN_TRAIN));
    expect_error(TERN_ERR_IO, "'/nowhere' holds neither train-images-idx3-ubyte nor "
                              "train-images-idx3-ubyte.gz (No such file or directory)");
    assert_null(tern_mnist("/dev/null", TERN_TRAIN));
    expect_error(TERN_ERR_IO, "train-images-idx3-ubyte.gz (Not a directory)");
    assert_null(tern_mnist("/", TERN_TRAIN));
    expect_error(TERN_ERR_IO, "train-images-idx3-ubyte.gz\n");
    assert_null(tern_cifar10("/nowhere", TERN_TRAIN));
    expect_error(TERN_ERR_IO, "no cifar-10-batches-bin with it (No such file or directory)");
    write_split("train", 3, 2, 7);
    assert_null(tern_mnist(file_folder(), TERN_TRAIN));
    expect_error(TERN_ERR_FORMAT, "2 labels for 3 images");
    write_split("train", 3, 3, 10);
    assert_null(tern_mnist(file_folder(), TERN_TRAIN));
    expect_error(TERN_ERR_FORMAT, "label 0 is 10");
    const uint32_t two[2] = { 28, 28 };
    uint8_t pixels[IMAGE] = { 0 };
    file_write("train-images-idx3-ubyte", file_idx(0x08, 2, two, pixels, sizeof pixels));
    assert_null(tern_mnist(file_folder(), TERN_TRAIN));
    expect_error(TERN_ERR_FORMAT, "mnist: '");
    assert_null(tern_mnist(file_folder(), TERN_TRAIN));
    expect_error(TERN_ERR_FORMAT, "u8 of 2 dimensions, not u8 of 3");
    file_bytes cut = { NULL, 0 };
    file_bytes_add(&cut, pixels, 2);
    file_write("train-images-idx3-ubyte", cut);
    assert_null(tern_mnist(file_folder(), TERN_TRAIN)); /* of a reader inside it */
    expect_error(TERN_ERR_FORMAT, "mnist: in idx_read: '");
    assert_null(tern_mnist(NULL, TERN_TRAIN));
    expect_error(TERN_ERR_ARGUMENT, "folder is NULL");
    assert_null(tern_mnist(file_folder(), (tern_split_t)0));
    expect_error(TERN_ERR_ARGUMENT, "split");
}

static void test_real_mnist_is_what_it_is_known_to_be(void **state)
{
    (void)state;
    const char *folder = file_test_data("mnist");
    if (!folder) {
        print_message("skipped: no MNIST in TERN_TEST_DATA or ../shared/data\n");
        skip();
    }
    tern_dataset *test = tern_mnist(folder, TERN_TEST);
    assert_int_equal(tern_dataset_count(test), 10000);
    tern_batch b;
    first_batch(test, 10000, &b);
    const int64_t known[5] = { 7, 2, 1, 0, 4 };
    assert_memory_equal(tern_data(b.y), known, sizeof known);
    const float *x = tern_data(b.x);
    double sum = 0;
    for (int64_t i = 0; i < tern_numel(b.x); i++)
        sum += (double)x[i];
    expect_near(sum / (double)tern_numel(b.x), (0.13251 - 0.1307) / 0.3081, 1e-3);
    let_go(&b);
    tern_dataset_free(test);
}

/* ---- CIFAR-10 ---- */

static void write_cifar(const char *name, uint8_t label)
{
    static uint8_t records[2 * CIFAR_RECORD_BYTES];
    records[0] = label;
    records[1] = 255;                         /* red of the first pixel */
    records[CIFAR_RECORD_BYTES] = 5;          /* label of the second */
    records[CIFAR_RECORD_BYTES + 1025] = 255; /* its green */
    file_bytes bytes = { NULL, 0 };
    file_bytes_add(&bytes, records, sizeof records);
    file_write(name, bytes);
}

static void test_cifar_is_split_into_planes(void **state)
{
    (void)state;
    write_cifar("test_batch.bin", 9);
    tern_dataset *dataset = tern_cifar10(file_folder(), TERN_TEST);
    assert_int_equal(tern_dataset_count(dataset), 2);
    tern_batch b;
    first_batch(dataset, 2, &b);
    const float *x = tern_data(b.x);
    expect_near((double)x[0], (1 - 0.4914) / 0.2470, 1e-5);
    expect_near((double)x[1], -0.4914 / 0.2470, 1e-5);
    expect_near((double)x[3072 + 1024], (1 - 0.4822) / 0.2435, 1e-5);
    const int64_t labels[2] = { 9, 5 };
    assert_memory_equal(tern_data(b.y), labels, sizeof labels);
    let_go(&b);
    tern_dataset_free(dataset);
}

static void test_cifar_says_what_is_wrong(void **state)
{
    (void)state;
    write_cifar("test_batch.bin", 10);
    assert_null(tern_cifar10(file_folder(), TERN_TEST));
    expect_error(TERN_ERR_FORMAT, "label 0 is 10, not 0 to 9");
    file_bytes bytes = { NULL, 0 };
    file_bytes_add(&bytes, "0123456789", 10);
    file_write("test_batch.bin", bytes);
    assert_null(tern_cifar10(file_folder(), TERN_TEST));
    expect_error(TERN_ERR_FORMAT, "10 bytes: not a whole number of 3073 byte records");
    assert_null(tern_cifar10(file_folder(), TERN_TRAIN));
    expect_error(TERN_ERR_IO, "holds no data_batch_1.bin, and no cifar-10-batches-bin with it");
    assert_null(tern_cifar10("/nowhere", TERN_TEST));
    expect_error(TERN_ERR_IO, "'/nowhere' holds no test_batch.bin");
}

static void test_cifar_to_train_on_needs_no_test(void **state)
{
    (void)state;
    char name[2 * FILE_PATH_BYTES];
    for (int i = 1; i <= 5; i++) {
        (void)snprintf(name, sizeof name, "data_batch_%d.bin", i);
        write_cifar(name, 9);
    }
    (void)snprintf(name, sizeof name, "%s/test_batch.bin", file_folder());
    (void)remove(name);
    tern_dataset *dataset = tern_cifar10(file_folder(), TERN_TRAIN);
    assert_int_equal(tern_dataset_count(dataset), 10);
    tern_dataset_free(dataset);
}

/* ---- one's own ---- */

static void test_tensors_keep_dtype_but_class_numbers_widen(void **state)
{
    (void)state;
    TERN_SCOPE;
    const double x[4] = { 1, 2, 3, 4 };
    const uint8_t y[2] = { 3, 200 };
    tern_dataset *dataset =
        tern_dataset_from_tensors(tern_from_data(x, TERN_SHAPE(2, 2), .dtype = TERN_F64),
                                  tern_from_data(y, TERN_SHAPE(2), .dtype = TERN_U8));
    tern_batch b;
    first_batch(dataset, 2, &b);
    assert_int_equal(tern_dtype(b.x), TERN_F64);
    assert_memory_equal(tern_data(b.x), x, sizeof x);
    assert_int_equal(((int64_t *)tern_data(b.y))[1], 200);
    let_go(&b);
    tern_dataset_free(dataset);
}

static void test_class_numbers_of_every_width(void **state)
{
    (void)state;
    static const tern_dtype_t dtypes[] = { TERN_I8, TERN_I16, TERN_I32, TERN_I64 };
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        TERN_SCOPE;
        const int64_t y[2] = { -100, 7 };
        tern_tensor *classes = tern_from_data(y, TERN_SHAPE(2), .dtype = TERN_I64);
        tern_dataset *dataset =
            tern_dataset_from_tensors(tern_ones(TERN_SHAPE(2, 2)), tern_cast(classes, dtypes[i]));
        tern_batch b;
        first_batch(dataset, 2, &b);
        assert_int_equal(tern_dtype(b.y), TERN_I64);
        assert_memory_equal(tern_data(b.y), y, sizeof y);
        let_go(&b);
        tern_dataset_free(dataset);
    }
}

static void test_tensors_may_be_strided_and_without_y(void **state)
{
    (void)state;
    TERN_SCOPE;
    const float x[6] = { 1, 2, 3, 4, 5, 6 };
    tern_tensor *t = tern_transpose(tern_from_data(x, TERN_SHAPE(2, 3)), 0, 1);
    tern_dataset *dataset = tern_dataset_from_tensors(t);
    tern_batch b;
    first_batch(dataset, 3, &b);
    const float turned[6] = { 1, 4, 2, 5, 3, 6 };
    assert_memory_equal(tern_data(b.x), turned, sizeof turned);
    assert_null(b.y);
    let_go(&b);
    tern_dataset_free(dataset);
}

static void test_images_are_normalised_by_channel(void **state)
{
    (void)state;
    TERN_SCOPE;
    const uint8_t x[4] = { 0, 255, 51, 102 };
    tern_dataset *dataset =
        tern_dataset_from_tensors(tern_from_data(x, TERN_SHAPE(1, 2, 2), .dtype = TERN_U8));
    assert_non_null(tern_dataset_normalize(dataset, .mean = { 0, 0.5 }, .deviation = { 1, 0.1 }));
    tern_batch b;
    first_batch(dataset, 1, &b);
    const float *v = tern_data(b.x);
    expect_near((double)v[1], 1, 1e-6);
    expect_near((double)v[2], -3, 1e-5);
    expect_near((double)v[3], -1, 1e-5);
    let_go(&b);
    assert_null(tern_dataset_normalize(dataset, .mean = { 1, 2, 3 }));
    expect_error(TERN_ERR_SHAPE, "3 means and 0 deviations for 2 channels");
    tern_dataset_free(dataset);
}

/* Zeros that are meant, whatever they are written as, are given. */
static void test_images_are_normalised_by_zeros(void **state)
{
    (void)state;
    TERN_SCOPE;
    const uint8_t x[3] = { 0, 255, 51 };
    tern_dataset *dataset =
        tern_dataset_from_tensors(tern_from_data(x, TERN_SHAPE(1, 3, 1), .dtype = TERN_U8));
    assert_non_null(tern_dataset_normalize(dataset, .mean = { 0.5, TERN_ZERO, -0.0 }));
    tern_batch b;
    first_batch(dataset, 1, &b);
    expect_near((double)((float *)tern_data(b.x))[0], -0.5, 1e-6);
    expect_near((double)((float *)tern_data(b.x))[1], 1, 1e-6);
    expect_near((double)((float *)tern_data(b.x))[2], 0.2, 1e-6);
    let_go(&b);
    assert_non_null(tern_dataset_normalize(dataset, .scale = TERN_ZERO, .mean = { -3, 1, 2 }));
    first_batch(dataset, 1, &b);
    expect_near((double)((float *)tern_data(b.x))[0], 3, 0);
    expect_near((double)((float *)tern_data(b.x))[2], -2, 0);
    let_go(&b);
    assert_null(tern_dataset_normalize(dataset, .mean = { 0, 0, 0, TERN_ZERO }));
    expect_error(TERN_ERR_SHAPE, "4 means and 0 deviations for 3 channels");
    assert_null(tern_dataset_normalize(dataset, .deviation = { 1, TERN_ZERO }));
    expect_error(TERN_ERR_ARGUMENT, "the deviation of channel 1 is 0");
    assert_null(tern_dataset_normalize(dataset, .deviation = { 1, 1, -0.5 }));
    expect_error(TERN_ERR_ARGUMENT, "the deviation of channel 2 is -0.5");
    assert_null(tern_dataset_normalize(dataset, .mean = { 0.4, 0.5 }, .deviation = { 0.2, 0.3 }));
    expect_error(TERN_ERR_SHAPE, "2 means and 2 deviations for 3 channels; one serves all");
    assert_null(tern_dataset_normalize(dataset, .mean = { 0.4 }, .deviation = { 0.2, 0.3 }));
    expect_error(TERN_ERR_SHAPE, "1 means and 2 deviations for 3 channels");
    first_batch(dataset, 1, &b);
    expect_near((double)((float *)tern_data(b.x))[0], 3, 0); /* as it was */
    let_go(&b);
    tern_dataset_free(dataset);
}

/* What is finite on its own, and makes of images what is not: nothing is changed. */
static void test_factors_that_leave_f32_are_refused(void **state)
{
    (void)state;
    TERN_SCOPE;
    const uint8_t x[2] = { 0, 255 };
    tern_dataset *dataset =
        tern_dataset_from_tensors(tern_from_data(x, TERN_SHAPE(1, 2, 1), .dtype = TERN_U8));
    assert_null(tern_dataset_normalize(dataset, .mean = { 0.5 }, .deviation = { 1, 1e-60 }));
    expect_error(TERN_ERR_ARGUMENT, "dataset_normalize: channel 1: values * inf -inf leave f32");
    assert_null(tern_dataset_normalize(dataset, .scale = 1e300));
    expect_error(TERN_ERR_ARGUMENT, "channel 0: values * inf -0 leave f32");
    assert_null(tern_dataset_normalize(dataset, .scale = 1e37, .mean = { 1e38 }));
    expect_error(TERN_ERR_ARGUMENT, "channel 0: values * 1e+37 -1e+38 leave f32");
    assert_null(tern_dataset_normalize(dataset, .mean = { -1e39 }));
    expect_error(TERN_ERR_ARGUMENT, "+inf leave f32");
    tern_batch b;
    first_batch(dataset, 1, &b);
    expect_near((double)((float *)tern_data(b.x))[1], 1, 1e-6); /* as it was */
    let_go(&b);
    assert_non_null(tern_dataset_normalize(dataset, .scale = 1e36, .deviation = { 1, 1e300 }));
    first_batch(dataset, 1, &b);
    expect_near((double)((float *)tern_data(b.x))[0], 0, 0);
    expect_near((double)((float *)tern_data(b.x))[1], 0, 0);
    let_go(&b);
    tern_dataset_free(dataset);
}

static void test_tensors_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *two = tern_zeros(TERN_SHAPE(2, 3)), *three = tern_zeros(TERN_SHAPE(3));
    assert_null(tern_dataset_from_tensors(two, three));
    expect_error(TERN_ERR_SHAPE, "x has 2 samples, y has 3");
    assert_null(tern_dataset_from_tensors(tern_zeros(TERN_SCALAR_SHAPE)));
    expect_error(TERN_ERR_SHAPE, "x has no dimensions");
    assert_null(tern_dataset_from_tensors(NULL));
    expect_error(TERN_ERR_ARGUMENT, "x is missing");
    tern_dataset *floats = tern_dataset_from_tensors(two);
    assert_null(tern_dataset_normalize(floats));
    expect_error(TERN_ERR_DTYPE, "x is f32; only u8");
    tern_dataset_free(floats);
}

static bool fetch_bytes(void *user, int64_t index, void *x, void *y)
{
    (void)user, (void)index;
    memset(x, 7, 4);
    *(int64_t *)y = 0;
    return true;
}

/* Bytes stay what the callback wrote, so that it may normalise them itself. */
static void test_bytes_of_a_callback_are_no_images(void **state)
{
    (void)state;
    tern_dataset *own =
        tern_dataset_from_callback(3, fetch_bytes, TERN_SHAPE(1, 2, 2), .x_dtype = TERN_U8);
    assert_null(tern_dataset_normalize(own));
    expect_error(TERN_ERR_DTYPE, "x, u8, comes from a callback, as it wrote it");
    tern_loader *loader = tern_loader_open(own);
    tern_batch b;
    assert_true(tern_loader_next(loader, &b));
    assert_int_equal(tern_dtype(b.x), TERN_U8);
    assert_int_equal(tern_data_as(uint8_t, b.x)[3], 7);
    tern_loader_close(loader);
    tern_dataset_free(own);
}

static bool fetch_square(void *user, int64_t index, void *x, void *y)
{
    *(float *)x = (float)(index * index);
    *(int64_t *)y = index;
    return index != *(int64_t *)user;
}

static void count_release(void *user)
{
    --*(int64_t *)user;
}

static void test_callback_makes_samples_and_is_released_once(void **state)
{
    (void)state;
    int64_t user = 100;
    tern_dataset *dataset = tern_dataset_from_callback(4, fetch_square, TERN_SCALAR_SHAPE,
                                                       .user = &user, .release = count_release);
    tern_batch b;
    first_batch(dataset, 4, &b);
    assert_true(((float *)tern_data(b.x))[3] == 9.0F);
    assert_int_equal(tern_ndim(b.x), 1);
    let_go(&b);
    tern_dataset_free(dataset);
    assert_int_equal(user, 99);
}

/* 0, 85, 170, 255: a mask as image files have it. */
static bool fetch_mask(void *user, int64_t index, void *x, void *y)
{
    (void)user;
    *(uint8_t *)x = *(uint8_t *)y = (uint8_t)(85 * index);
    return true;
}

static void test_bools_of_a_callback_are_0_or_1(void **state)
{
    (void)state;
    tern_dataset *dataset =
        tern_dataset_from_callback(4, fetch_mask, TERN_SHAPE(1), TERN_SCALAR_SHAPE,
                                   .x_dtype = TERN_BOOL, .y_dtype = TERN_BOOL);
    tern_batch b;
    first_batch(dataset, 4, &b);
    assert_memory_equal(tern_data(b.x), "\0\1\1\1", 4);
    assert_memory_equal(tern_data(b.y), "\0\1\1\1", 4);
    let_go(&b);
    tern_dataset_free(dataset);
}

/* Sample 2 fails twice, then no more. */
static bool fetch_in_vain(void *user, int64_t index, void *x, void *y)
{
    int *failures = user;
    *(float *)x = (float)index;
    *(int64_t *)y = index;
    return index != 2 || (*failures)-- <= 0;
}

static void test_failed_batch_is_the_next_one_again(void **state)
{
    (void)state;
    for (int workers = 0; workers < 3; workers++) {
        int failures = 2;
        tern_dataset *dataset =
            tern_dataset_from_callback(8, fetch_in_vain, TERN_SCALAR_SHAPE, .user = &failures);
        tern_loader *loader = tern_loader_open(dataset, .batch = 2, .workers = workers);
        tern_batch b;
        assert_true(tern_loader_next(loader, &b));
        for (int i = 0; i < 2; i++) {
            assert_false(tern_loader_next(loader, &b));
            expect_error(TERN_ERR_STATE, "callback failed on sample 2");
        }
        for (int64_t step = 1; step < 4; step++) {
            assert_true(tern_loader_next(loader, &b));
            assert_int_equal(b.index, step);
            assert_true(((float *)tern_data(b.x))[1] == (float)(2 * step + 1));
        }
        assert_false(tern_loader_next(loader, &b));
        assert_false(tern_failed());
        assert_int_equal(tern_loader_samples(loader), 8);
        tern_loader_close(loader);
        tern_dataset_free(dataset);
    }
}

static void test_bad_callbacks_are_refused(void **state)
{
    (void)state;
    assert_null(tern_dataset_from_callback(4, NULL, TERN_SHAPE(1)));
    expect_error(TERN_ERR_ARGUMENT, "fetch is missing");
    assert_null(tern_dataset_from_callback(0, fetch_square, TERN_SHAPE(1)));
    expect_error(TERN_ERR_ARGUMENT, "count is 0");
    assert_null(tern_dataset_from_callback(4, fetch_square));
    expect_error(TERN_ERR_ARGUMENT, "x_shape is missing");
    assert_null(tern_dataset_from_callback(4, fetch_square, .x_shape = { 28, 28, { 0 } }));
    expect_error(TERN_ERR_ARGUMENT, "a shape is bare numbers");
    assert_null(tern_dataset_from_callback(4, fetch_square, TERN_SHAPE(1LL << 62, 8)));
    expect_error(TERN_ERR_SHAPE, "cannot have that shape");
}

static void test_what_failed_is_passed_through(void **state)
{
    (void)state;
    tern_batch b;
    tern_loader *loader = tern_loader_open(tern_mnist("/nowhere", TERN_TRAIN), .batch = 2);
    assert_null(loader);
    assert_false(tern_loader_next(loader, &b));
    tern_loader_report(loader, "loss", NULL);
    assert_true(isnan(tern_loader_mean(loader, "loss")));
    assert_int_equal(tern_loader_seek(loader, &(tern_position_t){ .step = 0 }), TERN_ERR_IO);
    tern_loader_close(loader);
    expect_error(TERN_ERR_IO, "/nowhere");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mnist_is_normalised_and_numbered),
        cmocka_unit_test(test_mnist_reads_the_packed_file_when_there_is_no_other),
        cmocka_unit_test(test_mnist_says_what_is_wrong_with_a_folder),
        cmocka_unit_test(test_real_mnist_is_what_it_is_known_to_be),
        cmocka_unit_test(test_cifar_is_split_into_planes),
        cmocka_unit_test(test_cifar_says_what_is_wrong),
        cmocka_unit_test(test_cifar_to_train_on_needs_no_test),
        cmocka_unit_test(test_tensors_keep_dtype_but_class_numbers_widen),
        cmocka_unit_test(test_class_numbers_of_every_width),
        cmocka_unit_test(test_tensors_may_be_strided_and_without_y),
        cmocka_unit_test(test_images_are_normalised_by_channel),
        cmocka_unit_test(test_images_are_normalised_by_zeros),
        cmocka_unit_test(test_factors_that_leave_f32_are_refused),
        cmocka_unit_test(test_tensors_that_do_not_fit_are_refused),
        cmocka_unit_test(test_bytes_of_a_callback_are_no_images),
        cmocka_unit_test(test_callback_makes_samples_and_is_released_once),
        cmocka_unit_test(test_bools_of_a_callback_are_0_or_1),
        cmocka_unit_test(test_failed_batch_is_the_next_one_again),
        cmocka_unit_test(test_bad_callbacks_are_refused),
        cmocka_unit_test(test_what_failed_is_passed_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
