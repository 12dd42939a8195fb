/* IDX files and gzip: what is read, and what is said about files that are wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/bytes.h"
#include "data/idx.h"
#include "tern/tern.h"
#include "tests/support/files.h"

static const uint8_t six[6] = { 1, 2, 3, 4, 5, 6 };

static file_bytes two_by_three(void)
{
    return file_idx(0x08, 2, (const uint32_t[]){ 2, 3 }, six, sizeof six);
}

static tern_tensor *parse(file_bytes bytes)
{
    tern_tensor *t = data_idx_from_bytes("a.idx", bytes.data, bytes.count);
    file_bytes_free(&bytes);
    return t;
}

/* The bytes must be refused, with `words` in the message, and leave no tensor behind. */
static void expect_refused(file_bytes bytes, const char *words)
{
    const int64_t live = tern_live_tensors();
    {
        TERN_SCOPE;
        assert_null(parse(bytes));
    }
    if (!strstr(tern_error_text(), words))
        fail_msg("'%s' does not say '%s'", tern_error_text(), words);
    assert_non_null(strstr(tern_error_text(), "'a.idx'"));
    assert_int_equal(tern_error_code(), TERN_ERR_FORMAT);
    assert_int_equal(tern_live_tensors(), live);
    tern_error_clear();
}

static void test_idx_gives_bytes_in_their_shape(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *t = parse(two_by_three());
    assert_non_null(t);
    assert_int_equal(tern_dtype(t), TERN_U8);
    assert_int_equal(tern_ndim(t), 2);
    assert_int_equal(tern_size(t, 0), 2);
    assert_int_equal(tern_size(t, 1), 3);
    assert_memory_equal(tern_data(t), six, sizeof six);
}

static void test_idx_swaps_big_endian_elements(void **state)
{
    (void)state;
    TERN_SCOPE;
    const uint8_t shorts[4] = { 0x01, 0x02, 0xff, 0xfe };
    tern_tensor *i16 = parse(file_idx(0x0b, 1, (const uint32_t[]){ 2 }, shorts, sizeof shorts));
    assert_int_equal(((int16_t *)tern_data(i16))[0], 0x0102);
    assert_int_equal(((int16_t *)tern_data(i16))[1], -2);
    const uint8_t whole[4] = { 0xff, 0xff, 0xff, 0xfb };
    tern_tensor *i32 = parse(file_idx(0x0c, 1, (const uint32_t[]){ 1 }, whole, sizeof whole));
    assert_int_equal(*(int32_t *)tern_data(i32), -5);
    const uint8_t half[4] = { 0x3f, 0, 0, 0 };
    tern_tensor *f32 = parse(file_idx(0x0d, 1, (const uint32_t[]){ 1 }, half, sizeof half));
    assert_true(*(float *)tern_data(f32) == 0.5F);
    const uint8_t two[8] = { 0xc0, 0, 0, 0, 0, 0, 0, 0 };
    tern_tensor *f64 = parse(file_idx(0x0e, 1, (const uint32_t[]){ 1 }, two, sizeof two));
    assert_true(*(double *)tern_data(f64) == -2.0);
    const uint8_t minus = 0x80;
    tern_tensor *i8 = parse(file_idx(0x09, 1, (const uint32_t[]){ 1 }, &minus, 1));
    assert_int_equal(*(int8_t *)tern_data(i8), -128);
}

static void test_idx_may_be_empty(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *t = parse(file_idx(0x08, 3, (const uint32_t[]){ 0, 28, 28 }, NULL, 0));
    assert_non_null(t);
    assert_int_equal(tern_numel(t), 0);
}

static void test_gzip_gives_the_same_array(void **state)
{
    (void)state;
    TERN_SCOPE;
    file_bytes plain = two_by_three();
    file_bytes packed = file_gzip(&plain);
    file_bytes_free(&plain);
    file_bytes_add(&packed, "\0\0\0", 3); /* padding of tapes */
    tern_tensor *t = parse(packed);
    assert_non_null(t);
    assert_memory_equal(tern_data(t), six, sizeof six);
}

static void test_gzip_members_follow_each_other(void **state)
{
    (void)state;
    TERN_SCOPE;
    file_bytes plain = two_by_three();
    file_bytes head = { plain.data, 9 };
    file_bytes tail = { plain.data + 9, plain.count - 9 };
    file_bytes packed = file_gzip(&head);
    file_bytes more = file_gzip(&tail);
    file_bytes_add(&packed, more.data, more.count);
    file_bytes_free(&more);
    file_bytes_free(&plain);
    tern_tensor *t = parse(packed);
    assert_non_null(t);
    assert_memory_equal(tern_data(t), six, sizeof six);
}

static void test_wrong_headers_are_refused(void **state)
{
    (void)state;
    expect_refused((file_bytes){ NULL, 0 }, "too short");
    file_bytes png = { NULL, 0 };
    file_bytes_add(&png, "\x89PNG\r\n", 6);
    expect_refused(png, "begins with 89 50");
    expect_refused(file_idx(0x0a, 1, (const uint32_t[]){ 1 }, six, 1), "element type 0x0a");
    expect_refused(file_idx(0x08, 0, NULL, six, 1), "0 dimensions");
    const uint32_t nine[9] = { 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    expect_refused(file_idx(0x08, 9, nine, six, 1), "9 dimensions");
    expect_refused(file_idx(0x08, 2, (const uint32_t[]){ 1, 1 }, six, 0), "cut off: 0 of 1 bytes");
}

static void test_sizes_that_overflow_are_refused(void **state)
{
    (void)state;
    const uint32_t most = 0xffffffffu;
    expect_refused(file_idx(0x0e, 3, (const uint32_t[]){ most, most, most }, six, 6), "overflow");
    expect_refused(file_idx(0x08, 4, (const uint32_t[]){ most, 0, most, most }, six, 6),
                   "overflow");
    expect_refused(file_idx(0x08, 1, (const uint32_t[]){ most }, six, 6), "cannot hold");
}

static void test_wrong_lengths_are_refused(void **state)
{
    (void)state;
    expect_refused(file_idx(0x08, 2, (const uint32_t[]){ 2, 4 }, six, 6), "cut off: 6 of 8 bytes");
    expect_refused(file_idx(0x08, 1, (const uint32_t[]){ 5 }, six, 6), "longer than its header");
    file_bytes cut = two_by_three();
    cut.count = 6;
    expect_refused(cut, "header");
}

static file_bytes packed_cut_to(size_t count)
{
    file_bytes plain = two_by_three();
    file_bytes packed = file_gzip(&plain);
    file_bytes_free(&plain);
    packed.count = count < packed.count ? count : packed.count;
    return packed;
}

static void test_cut_gzip_is_refused_at_every_length(void **state)
{
    (void)state;
    file_bytes whole = packed_cut_to(SIZE_MAX);
    const size_t count = whole.count;
    file_bytes_free(&whole);
    for (size_t i = 2; i < count; i++)
        expect_refused(packed_cut_to(i), "cut off");
}

static void test_corrupt_gzip_is_refused(void **state)
{
    (void)state;
    file_bytes sum = packed_cut_to(SIZE_MAX);
    sum.data[sum.count - 8] ^= 1; /* checksum */
    expect_refused(sum, "corrupt");
    file_bytes length = packed_cut_to(SIZE_MAX);
    length.data[length.count - 1] ^= 1;
    expect_refused(length, "corrupt");
    file_bytes after = packed_cut_to(SIZE_MAX);
    file_bytes_add(&after, "x", 1);
    expect_refused(after, "something else follows");
}

static void test_gzip_that_unpacks_to_more_is_refused(void **state)
{
    (void)state;
    file_bytes plain = file_idx(0x08, 1, (const uint32_t[]){ 4 }, six, 6);
    file_bytes packed = file_gzip(&plain);
    file_bytes_free(&plain);
    expect_refused(packed, "longer than its header");
    plain = file_idx(0x08, 1, (const uint32_t[]){ 1u << 30 }, six, 6);
    packed = file_gzip(&plain);
    file_bytes_free(&plain);
    expect_refused(packed, "cannot hold"); /* before a gigabyte is asked for */
}

static void test_files_that_cannot_be_read_are_errors(void **state)
{
    (void)state;
    assert_null(tern_idx_read("/nowhere/a.idx"));
    assert_int_equal(tern_error_code(), TERN_ERR_IO);
    assert_non_null(strstr(tern_error_text(), "'/nowhere/a.idx': No such file"));
    assert_non_null(strstr(tern_error_text(), "test_data_idx.c:"));
    assert_null(tern_idx_read(file_folder())); /* keeps the first error */
    assert_non_null(strstr(tern_error_text(), "nowhere"));
    tern_error_clear();
    assert_null(tern_idx_read(file_folder()));
    assert_non_null(strstr(tern_error_text(), "not a regular file"));
    tern_error_clear();
    assert_null(tern_idx_read(NULL));
    assert_int_equal(tern_error_code(), TERN_ERR_ARGUMENT);
    tern_error_clear();
}

/* Without waiting for somebody who writes into it. */
static void test_pipes_are_refused(void **state)
{
    (void)state;
    char path[FILE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s", file_path("pipe"));
    assert_int_equal(mkfifo(path, 0600), 0);
    (void)alarm(20);
    assert_null(tern_idx_read(path));
    assert_non_null(strstr(tern_error_text(), "pipe' is not a regular file"));
    tern_error_clear();
    assert_null(tern_text_read(path));
    (void)alarm(0);
    assert_non_null(strstr(tern_error_text(), "pipe' is not a regular file"));
    tern_error_clear();
}

static void test_idx_read_reads_a_file(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *t = tern_idx_read(file_write("a.idx", two_by_three()));
    assert_non_null(t);
    assert_memory_equal(tern_data(t), six, sizeof six);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idx_gives_bytes_in_their_shape),
        cmocka_unit_test(test_idx_swaps_big_endian_elements),
        cmocka_unit_test(test_idx_may_be_empty),
        cmocka_unit_test(test_gzip_gives_the_same_array),
        cmocka_unit_test(test_gzip_members_follow_each_other),
        cmocka_unit_test(test_wrong_headers_are_refused),
        cmocka_unit_test(test_sizes_that_overflow_are_refused),
        cmocka_unit_test(test_wrong_lengths_are_refused),
        cmocka_unit_test(test_cut_gzip_is_refused_at_every_length),
        cmocka_unit_test(test_corrupt_gzip_is_refused),
        cmocka_unit_test(test_gzip_that_unpacks_to_more_is_refused),
        cmocka_unit_test(test_files_that_cannot_be_read_are_errors),
        cmocka_unit_test(test_pipes_are_refused),
        cmocka_unit_test(test_idx_read_reads_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
