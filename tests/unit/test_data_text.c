/* Texts: vocabulary, windows, splits, the made-up tales, and what mistakes say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tern/tern.h"
#include "tests/support/files.h"

static void expect_error(tern_status_t code, const char *words)
{
    if (!strstr(tern_error_text(), words))
        fail_msg("'%s' does not say '%s'", tern_error_text(), words);
    assert_int_equal(tern_error_code(), code);
    tern_error_clear();
}

static const char *write_file(const char *name, const char *text)
{
    static char path[2 * FILE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", file_folder(), name);
    FILE *stream = fopen(path, "wb");
    assert_non_null(stream);
    assert_int_equal(fwrite(text, 1, strlen(text), stream), strlen(text));
    fclose(stream);
    return path;
}

static void test_symbols_are_the_bytes_in_order(void **state)
{
    (void)state;
    tern_text *text = tern_text_from_bytes("banana\xff", 7);
    assert_int_equal(tern_text_count(text), 7);
    assert_int_equal(tern_text_symbols(text), 4);
    assert_int_equal(tern_text_symbol(text, 'a'), 0);
    assert_int_equal(tern_text_symbol(text, 'n'), 2);
    assert_int_equal(tern_text_symbol(text, '\xff'), 3);
    assert_int_equal(tern_text_symbol(text, 'c'), -1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(tern_text_symbol(text, tern_text_byte(text, i)), i);
    assert_int_equal(tern_text_byte(text, 4), '?');
    assert_int_equal(tern_text_byte(text, -1), '?');
    tern_text_free(text);
    assert_int_equal(tern_text_count(NULL) + tern_text_symbols(NULL), 0);
    assert_int_equal(tern_text_symbol(NULL, 'a'), -1);
    tern_text_free(NULL);
}

static void expect_windows(tern_dataset *dataset, const char *const *wanted, int64_t count)
{
    TERN_SCOPE;
    tern_batch b;
    assert_int_equal(tern_dataset_count(dataset), count);
    tern_loader *loader = tern_loader_open(dataset);
    for (int64_t i = 0; i < count; i++) {
        assert_true(tern_loader_next(loader, &b));
        const int64_t length = (int64_t)strlen(wanted[i]) - 1;
        assert_int_equal(tern_numel(b.x), length);
        assert_int_equal(tern_dtype(b.x), TERN_I64);
        const int64_t *x = tern_data(b.x), *y = tern_data(b.y);
        for (int64_t j = 0; j < length; j++) {
            assert_int_equal(x[j], wanted[i][j] - 'a');
            assert_int_equal(y[j], wanted[i][j + 1] - 'a');
        }
    }
    assert_false(tern_loader_next(loader, &b));
    tern_loader_close(loader);
}

static void test_windows_walk_over_the_text(void **state)
{
    (void)state;
    tern_text *text = tern_text_from_bytes("abcdefghijklmnopqrst", 20);
    expect_windows(tern_text_windows(text, 18),
                   (const char *const[]){ "abcdefghijklmnopqrs", "bcdefghijklmnopqrst" }, 2);
    expect_windows(tern_text_windows(text, 4, .stride = 7),
                   (const char *const[]){ "abcde", "hijkl", "opqrs" }, 3);
    expect_windows(tern_text_windows(text, 17, .split = TERN_TRAIN),
                   (const char *const[]){ "abcdefghijklmnopqr" }, 1);
    tern_dataset *last = tern_text_windows(text, 1, .split = TERN_TEST);
    tern_text_free(text); /* the dataset keeps it */
    expect_windows(last, (const char *const[]){ "st" }, 1);
    tern_dataset_free(last);
    assert_int_equal(tern_error_code(), TERN_OK);
}

static void test_files_are_read_packed_or_not(void **state)
{
    (void)state;
    char command[4 * FILE_PATH_BYTES];
    const char *path = write_file("a.txt", "to be or not\n");
    tern_text *text = tern_text_read(path);
    assert_int_equal(tern_text_count(text), 13);
    assert_int_equal(tern_text_symbols(text), 8);
    snprintf(command, sizeof command, "gzip -kf '%s'", path);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "%s.gz", path);
    tern_text *packed = tern_text_read(command);
    assert_int_equal(tern_text_count(packed), 13);
    assert_int_equal(tern_text_symbols(packed), 8);
}

static void test_tales_are_the_same_for_a_seed(void **state)
{
    (void)state;
    tern_text *a = tern_text_drawn(5000, 3), *b = tern_text_drawn(5000, 3);
    tern_text *c = tern_text_drawn(5000, 4);
    assert_true(tern_text_count(a) >= 5000 && tern_text_count(a) < 5600);
    assert_int_equal(tern_text_count(a), tern_text_count(b));
    assert_true(tern_text_symbols(a) > 25 && tern_text_symbols(a) < 60);
    TERN_SCOPE;
    tern_batch x, y, z;
    assert_true(tern_loader_next(tern_loader_open(tern_text_windows(a, 4000)), &x));
    assert_true(tern_loader_next(tern_loader_open(tern_text_windows(b, 4000)), &y));
    assert_true(tern_loader_next(tern_loader_open(tern_text_windows(c, 4000)), &z));
    assert_memory_equal(tern_data(x.x), tern_data(y.x), 4000 * sizeof(int64_t));
    assert_memory_not_equal(tern_data(x.x), tern_data(z.x), 4000 * sizeof(int64_t));
}

static void test_mistakes_are_named(void **state)
{
    (void)state;
    assert_null(tern_text_read("nowhere.txt"));
    expect_error(TERN_ERR_IO, "nowhere.txt");
    assert_null(tern_text_read(NULL));
    expect_error(TERN_ERR_ARGUMENT, "path is NULL");
    assert_null(tern_text_read(write_file("empty.txt", "")));
    expect_error(TERN_ERR_FORMAT, "is empty");
    assert_null(tern_text_read(write_file("bad.gz", "\x1f\x8b\x08 this is no deflate stream")));
    expect_error(TERN_ERR_FORMAT, "bad.gz'");
    assert_null(tern_text_from_bytes(NULL, 3));
    expect_error(TERN_ERR_ARGUMENT, "bytes is NULL");
    assert_null(tern_text_from_bytes("a", 0));
    expect_error(TERN_ERR_ARGUMENT, "count is not 1 or more");
    assert_null(tern_text_drawn(0, 1));
    expect_error(TERN_ERR_ARGUMENT, "count is 0, not 1 or more");
    tern_text *text = tern_text_from_bytes("abcdefghij", 10);
    assert_null(tern_text_windows(NULL, 3));
    expect_error(TERN_ERR_ARGUMENT, "text is missing");
    assert_null(tern_text_windows(text, 0));
    expect_error(TERN_ERR_ARGUMENT, "length is 0");
    assert_null(tern_text_windows(text, 3, .stride = -2));
    expect_error(TERN_ERR_ARGUMENT, "stride -2");
    assert_null(tern_text_windows(text, 3, .split = 7));
    expect_error(TERN_ERR_ARGUMENT, "split is neither");
    assert_null(tern_text_windows(text, 1, .split = TERN_TEST));
    expect_error(TERN_ERR_SHAPE, "a window of 1 symbols and the one after do not fit in 1 bytes");
    assert_null(tern_text_windows(text, 10));
    expect_error(TERN_ERR_SHAPE, "try a longer text or a shorter window");
    tern_text_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_symbols_are_the_bytes_in_order),
        cmocka_unit_test(test_windows_walk_over_the_text),
        cmocka_unit_test(test_files_are_read_packed_or_not),
        cmocka_unit_test(test_tales_are_the_same_for_a_seed),
        cmocka_unit_test(test_mistakes_are_named),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed != 0 || tern_finish() != 0;
}
