/* Sizes at which kernels that move elements change their way, against the CPU, bit for bit: lines that are shorter than
 * what a thread moves, or end within it, elements of every size, addresses that are no multiples of 16 bytes. */
#include "tests/support/check.h"

enum { PLANES = 2, ROWS = 5 };

static tern_tensor *host_of(tern_tensor *t)
{
    return tern_to(tern_detach(t), .device = TERN_CPU);
}

static void assert_same(const char *name, tern_tensor *got, tern_tensor *want)
{
    assert_no_error();
    if (!tern_equal(host_of(got), want))
        fail_msg("%s of %d bytes, width %d: differs", name, (int)tern_dtype_size(tern_dtype(want)),
                 (int)tern_size(want, -1));
}

/* Distinct numbers as [PLANES, ROWS, width], `offset` elements behind what is aligned. */
static tern_tensor *numbers(int64_t width, int64_t offset, tern_dtype_t dtype)
{
    const int64_t n = PLANES * ROWS * width;
    tern_tensor *t = tern_cast(tern_arange(.end = (double)(n + offset)), dtype);
    return tern_view(tern_slice(t, 0, offset == 0 ? TERN_ZERO : offset, n + offset),
                     TERN_SHAPE(PLANES, ROWS, width));
}

#define BOTH(what)                              \
    do {                                        \
        tern_tensor *x = device, *got = (what); \
        x = host;                               \
        assert_same(#what, got, host_of(what)); \
    } while (0)

static void check_moves(tern_tensor *device)
{
    tern_tensor *host = host_of(device);
    for (int d = 0; d < 3; d++) {
        BOTH(tern_flip(x, TERN_DIMS(d)));
        BOTH(tern_roll(x, TERN_SHAPE(1), TERN_DIMS(d)));
    }
    BOTH(tern_flip(x, TERN_DIMS(0, 1, 2)));
    for (int mode = TERN_PAD_CONSTANT; mode <= TERN_PAD_CIRCULAR; mode++)
        if (tern_size(device, 2) > 2) {
            BOTH(tern_pad(x, .pad = { 2, 1 }, .mode = mode, .value = 7));
            BOTH(tern_pad(x, .pad = { 0, 2, 1, 1 }, .mode = mode, .value = 7));
            BOTH(tern_pad(x, .pad = { -1, 1 }, .mode = mode));
        }
    for (int diagonal = -2; diagonal <= 3; diagonal++) {
        BOTH(tern_triu(x, diagonal));
        BOTH(tern_tril(x, diagonal));
    }
    BOTH(tern_repeat(x, TERN_SHAPE(2, 1, 3)));
    BOTH(tern_contiguous(tern_expand(tern_slice(x, 2, TERN_ZERO, 1), tern_shape(x))));
    BOTH(tern_contiguous(tern_transpose(x, 0, 1)));
    BOTH(tern_contiguous(tern_slice(x, 1, 1, 4)));
}

/* Into what has gaps: nothing beside it is written. */
static void check_written_parts(tern_tensor *device)
{
    tern_tensor *host = host_of(device), *results[2];
    for (int k = 0; k < 2; k++) {
        tern_tensor *x = k == 0 ? device : host;
        const int64_t width = tern_size(x, 2);
        tern_tensor *frame = tern_pad(x, .pad = { 1, 2, 1, 0 }, .value = 9);
        assert_non_null(
            tern_copy(tern_slice(tern_slice(frame, 2, 1, width + 1), 1, 1, ROWS + 1), x));
        results[k] = frame;
    }
    assert_same("copy into a part", results[0], results[1]);
}

static void check_rows(tern_tensor *device)
{
    tern_tensor *host = host_of(device);
    const int64_t width = tern_size(device, 2);
    tern_tensor *at = tern_cast(tern_randint(0, ROWS, TERN_SHAPE(7), .device = TERN_CPU), TERN_I64);
    tern_tensor *far = tern_randint(0, ROWS, tern_shape(host), .device = TERN_CPU);
    tern_tensor *some = tern_arange(.end = 3, .device = TERN_CPU);
#define THERE(index) tern_to(index, .device = tern_device(x))
    BOTH(tern_index_select(x, 1, THERE(at)));
    BOTH(tern_index_select(tern_transpose(x, 0, 1), 0, THERE(at)));
    BOTH(tern_index(x, NULL, THERE(at)));
    if (width > 1) /* one row, of which a rest is left */
        BOTH(tern_index_select(tern_slice(tern_select(x, 0, 1), 1, TERN_ZERO, width - 1), 0,
                               THERE(tern_slice(at, 0, 1, 2))));
    BOTH(tern_gather(x, 1, THERE(far)));
    BOTH(tern_index_put(tern_select(x, 0, 0), tern_slice(tern_select(x, 0, 1), 0, 1, 4), false,
                        THERE(some)));
    BOTH(tern_scatter(
        x, 1,
        THERE(tern_expand(tern_view(some, TERN_SHAPE(1, 3, 1)), TERN_SHAPE(PLANES, 3, width))),
        tern_slice(tern_flip(x, TERN_DIMS(2)), 1, 2, 5)));
}

static void check_images(tern_tensor *device)
{
    tern_tensor *host = host_of(device);
    for (int mode = TERN_NEAREST; mode <= TERN_NEAREST_EXACT; mode++) {
        BOTH(tern_interpolate(tern_unsqueeze(x, 0), .scale = { 2, 2 }, .mode = mode));
        BOTH(tern_interpolate(tern_unsqueeze(x, 0), .size = { 3, 7 }, .mode = mode));
    }
}

static const int64_t widths[] = { 1, 2, 3, 4, 5, 8, 15, 16, 17, 20 };

static void test_moves(void **state)
{
    (void)state;
    const tern_dtype_t dtypes[] = { TERN_U8, TERN_F16, TERN_F32, TERN_I64 };
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (int d = 0; d < 4; d++)
            for (int64_t offset = 0; offset < 2; offset++) {
                TERN_SCOPE;
                tern_tensor *x = numbers(widths[i], offset, dtypes[d]);
                check_moves(x);
                check_written_parts(x);
                check_rows(x);
            }
}

static void test_images(void **state)
{
    (void)state;
    const tern_dtype_t dtypes[] = { TERN_BF16, TERN_F16, TERN_F32, TERN_F64 };
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (int d = 0; d < 4; d++)
            for (int64_t offset = 0; offset < 2; offset++) {
                TERN_SCOPE;
                check_images(numbers(widths[i], offset, dtypes[d]));
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moves),
        cmocka_unit_test(test_images),
    };
    return check_run(tests, NULL, NULL);
}
