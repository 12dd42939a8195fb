/* Images moved and mirrored by the loader. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "data/augment.h"
#include "tern/tern.h"
#include "tests/support/between.h"

enum { IMAGES = 40, CHANNELS = 2, HEIGHT = 5, WIDTH = 7, PLANE = HEIGHT * WIDTH };
enum { IMAGE = CHANNELS * PLANE };

/* Pixel p of image i is (i + 1) + p, so that a pixel says where it was; none is 0. */
static tern_dataset *images(void)
{
    TERN_SCOPE;
    static uint8_t pixels[IMAGES * IMAGE];
    int64_t numbers[IMAGES];
    for (int i = 0; i < IMAGES; i++) {
        numbers[i] = i;
        for (int p = 0; p < IMAGE; p++)
            pixels[i * IMAGE + p] = (uint8_t)(i + 1 + p);
    }
    tern_dataset *d = tern_dataset_from_tensors(
        tern_from_data(pixels, TERN_SHAPE(IMAGES, CHANNELS, HEIGHT, WIDTH), .dtype = TERN_U8),
        tern_from_data(numbers, TERN_SHAPE(IMAGES), .dtype = TERN_I64));
    return tern_dataset_normalize(d, .scale = 1, .mean = { 1, 1 }, .deviation = { 2, 2 });
}

/* What the pixel of a moved image should be, by the definition. */
static float expected(int64_t image, int c, int64_t y, int64_t x, const data_move *move)
{
    const int64_t sx = (move->flip ? WIDTH - 1 - x : x) - move->right, sy = y - move->down;
    const bool is_in = sx >= 0 && sx < WIDTH && sy >= 0 && sy < HEIGHT;
    const int64_t value = is_in ? image + 1 + c * PLANE + sy * WIDTH + sx : 0;
    return ((float)value - 1) / 2;
}

static void check_image(const float *x, int64_t image, const data_move *move)
{
    for (int c = 0; c < CHANNELS; c++)
        for (int y = 0; y < HEIGHT; y++)
            for (int i = 0; i < WIDTH; i++)
                assert_true(x[c * PLANE + y * WIDTH + i] == expected(image, c, y, i, move));
}

/* All batches of a pass; returns how many of its images were mirrored. */
static int check_pass(tern_loader *loader, const data_augment *augment, int *out_places)
{
    tern_batch b;
    int flipped = 0, places = 0;
    while (tern_loader_next(loader, &b)) {
        for (int64_t i = 0; i < b.size; i++) {
            const int64_t image = ((const int64_t *)tern_data(b.y))[i];
            const data_move move = data_augment_draw(augment, image);
            check_image((const float *)tern_data(b.x) + i * IMAGE, image, &move);
            assert_between(move.down + augment->crop, 0, 2 * augment->crop);
            assert_between(move.right + augment->crop, 0, 2 * augment->crop);
            places |= 1 << (move.down + augment->crop) % 8; /* all of a crop of 2 or 3 */
            places |= 1 << ((move.right + augment->crop) % 8 + 8);
            flipped += move.flip;
        }
    }
    assert_false(tern_failed());
    *out_places = places;
    return flipped;
}

static void test_images_move_as_the_key_says(void **state)
{
    (void)state;
    for (int workers = 0; workers <= 3; workers += 3) {
        int places;
        const data_augment augment = { .crop = 2, .flip = true, .seed = 5 };
        tern_loader *loader =
            tern_loader_open(images(), .batch = 7, .seed = 5, .shuffle = true, .workers = workers,
                             .augment = { .crop = 2, .flip = true });
        const int flipped = check_pass(loader, &augment, &places);
        tern_loader_close(loader);
        assert_between(flipped, IMAGES / 4, 3 * IMAGES / 4);
        assert_int_equal(places, 0x1f1f);
    }
}

static void test_images_may_leave_altogether(void **state)
{
    (void)state;
    int places;
    const data_augment augment = { .crop = 3 * WIDTH, .seed = 9 };
    tern_loader *loader = tern_loader_open(images(), .seed = 9, .augment = { .crop = 3 * WIDTH });
    assert_int_equal(check_pass(loader, &augment, &places), 0);
    tern_loader_close(loader);
}

/* Without a seed a pass takes a key from the generator, shuffled or not, and the next takes another. */
static void test_passes_differ_and_repeat(void **state)
{
    (void)state;
    float first[IMAGES * IMAGE], second[IMAGES * IMAGE], again[IMAGES * IMAGE];
    float *const all[] = { first, second, again };
    tern_dataset *d = images();
    for (int pass = 0; pass < 3; pass++) {
        tern_batch b;
        if (pass != 1)
            tern_seed(3);
        tern_loader *loader = tern_loader_open(d, .batch = IMAGES, .augment = { .crop = 1 });
        assert_true(tern_loader_next(loader, &b));
        memcpy(all[pass], tern_data(b.x), sizeof first);
        tern_loader_close(loader);
    }
    assert_memory_equal(first, again, sizeof first);
    assert_memory_not_equal(first, second, sizeof first);
}

static void expect_error(tern_loader *loader, const char *words)
{
    assert_null(loader);
    assert_non_null(strstr(tern_error_text(), words));
    tern_error_clear();
}

static bool fetch_nothing(void *user, int64_t index, void *x, void *y)
{
    (void)user, (void)index, (void)x, (void)y;
    return false;
}

static void test_other_data_are_refused(void **state)
{
    (void)state;
    tern_dataset *numbers = tern_dataset_from_tensors(tern_zeros(TERN_SHAPE(4, 1, 2, 2)));
    expect_error(tern_loader_open(numbers, .augment = { .flip = true }),
                 "augment is for u8 images [channels, height, width]");
    tern_dataset *flat = tern_dataset_from_tensors(tern_zeros(TERN_SHAPE(4, 9), .dtype = TERN_U8));
    expect_error(tern_loader_open(flat, .augment = { .crop = 1 }), "augment is for u8 images");
    tern_dataset *many =
        tern_dataset_from_tensors(tern_zeros(TERN_SHAPE(4, 9, 2, 2), .dtype = TERN_U8));
    expect_error(tern_loader_open(many, .augment = { .crop = 1 }), "at most 8 channels");
    expect_error(tern_loader_open(images(), .augment = { .crop = -1 }), "augment.crop is -1");
    tern_dataset *own =
        tern_dataset_from_callback(4, fetch_nothing, TERN_SHAPE(1, 2, 2), .x_dtype = TERN_U8);
    expect_error(tern_loader_open(own, .augment = { .crop = 1 }), "and not for a callback's");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_images_move_as_the_key_says),
        cmocka_unit_test(test_images_may_leave_altogether),
        cmocka_unit_test(test_passes_differ_and_repeat),
        cmocka_unit_test(test_other_data_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
