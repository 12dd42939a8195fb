/* safetensors files: what is written comes back, and what is no such file is refused. */
#include "tests/support/check.h"

#include <stdio.h>
#include <unistd.h>

#include "tests/support/files.h"

/* A file of this header, length first, and `data_bytes` zeros behind it. */
static file_bytes with_header(const char *header, size_t data_bytes)
{
    file_bytes bytes = { NULL, 0 };
    const uint64_t length = strlen(header);
    unsigned char head[8];
    for (int i = 0; i < 8; i++)
        head[i] = (unsigned char)(length >> 8 * i);
    file_bytes_add(&bytes, head, sizeof head);
    file_bytes_add(&bytes, header, length);
    for (size_t i = 0; i < data_bytes; i++)
        file_bytes_add(&bytes, "", 1);
    return bytes;
}

/* Opening these bytes is a format error that names the file and says `words`. */
static void expect_refused(file_bytes bytes, const char *words)
{
    tern_safetensors *file =
        tern_safetensors_open_memory(bytes.data, bytes.count, "bad.safetensors");
    if (file)
        fail_msg("a file was accepted that should have been refused: %s", words);
    assert_non_null(strstr(tern_error_text(), "bad.safetensors"));
    assert_error(TERN_ERR_FORMAT, words);
    file_bytes_free(&bytes);
}

static void refuse(const char *header, size_t data_bytes, const char *words)
{
    expect_refused(with_header(header, data_bytes), words);
}

/* ---- files ------------------------------------------------------------------------------------ */

/* Bits, not values: NaNs with a payload and negative zeros come back, too. */
static void test_every_dtype_comes_back_bit_for_bit(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    unsigned char bits[6 * 8];
    for (size_t i = 0; i < sizeof bits; i++)
        bits[i] = (unsigned char)(251 - 5 * i);
    tern_state *state = tern_state_create();
    for (tern_dtype_t d = TERN_BOOL; d < TERN_DTYPES; d++) {
        const unsigned char bools[6] = { 1, 0, 1, 1, 0, 0 };
        const void *data = d == TERN_BOOL ? bools : bits;
        tern_state_set(state, tern_dtype_name(d), tern_from_data(data, TERN_SHAPE(2, 3), d));
    }
    assert_int_equal(tern_state_save(state, file_path("dtypes")), TERN_OK);
    tern_state *back = tern_state_load(file_path("dtypes"));
    assert_no_error();
    assert_string_equal(tern_state_source(back), file_path("dtypes"));
    for (tern_dtype_t d = TERN_BOOL; d < TERN_DTYPES; d++) {
        tern_tensor *there = tern_state_get(back, tern_dtype_name(d));
        tern_tensor *here = tern_state_get(state, tern_dtype_name(d));
        assert_int_equal(tern_dtype(there), d);
        assert_int_equal(tern_ndim(there), 2);
        assert_memory_equal(tern_data(there), tern_data(here), 6 * (size_t)tern_dtype_size(d));
    }
    tern_state_free(state);
    tern_state_free(back);
}

static void test_shapes_without_dimensions_or_elements_come_back(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_state *state = tern_state_create();
    tern_state_set(state, "scalar", tern_full(2.5, TERN_SCALAR_SHAPE));
    tern_state_set(state, "empty", tern_zeros(TERN_SHAPE(3, 0, 2), TERN_F64));
    tern_state_set(state, "eight", tern_ones(TERN_SHAPE(1, 1, 2, 1, 1, 1, 1, 3)));
    tern_state_save(state, file_path("shapes"));
    tern_state *back = tern_state_load(file_path("shapes"));
    assert_no_error();
    assert_int_equal(tern_ndim(tern_state_get(back, "scalar")), 0);
    assert_true(tern_item(tern_state_get(back, "scalar")) == 2.5);
    tern_tensor *empty = tern_state_get(back, "empty");
    assert_int_equal(tern_ndim(empty), 3);
    assert_int_equal(tern_size(empty, 2), 2);
    assert_int_equal(tern_numel(empty), 0);
    assert_int_equal(tern_ndim(tern_state_get(back, "eight")), 8);
    tern_state_free(state);
    tern_state_free(back);
}

static void test_views_are_written_row_major(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *turned = tern_transpose(
        tern_reshape(tern_arange(.end = 6, .dtype = TERN_F32), TERN_SHAPE(2, 3)), 0, 1);
    const float expected[6] = { 0, 3, 1, 4, 2, 5 };
    assert_int_equal(tern_safetensors_save(TERN_TENSORS(turned), file_path("view")), TERN_OK);
    tern_safetensors *file = tern_safetensors_open(file_path("view"));
    assert_int_equal(tern_safetensors_count(file), 1);
    assert_string_equal(tern_safetensors_entry(file, 0)->name, "0");
    assert_null(tern_safetensors_entry(file, 1));
    tern_tensor *back = tern_safetensors_read(file, 0);
    assert_int_equal(tern_size(back, 0), 3);
    assert_memory_equal(tern_data(back), expected, sizeof expected);
    assert_null(tern_safetensors_read(file, 1));
    assert_error(TERN_ERR_ARGUMENT, "no tensor 1");
    tern_safetensors_close(file);
}

static void test_names_and_texts_keep_order_and_characters(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    static const char *const names[] = { "z.weight", "a b", "quote\"back\\slash", "\xc3\xa4\n\t",
                                         "\xf0\x9f\x90\xa6" };
    enum { COUNT = sizeof names / sizeof *names };
    tern_state *state = tern_state_create();
    for (int i = 0; i < COUNT; i++) {
        tern_state_set(state, names[i], tern_full(i, TERN_SHAPE(1)));
        tern_state_set_text(state, names[i], names[COUNT - 1 - i]);
    }
    tern_state_save(state, file_path("names"));
    tern_state *back = tern_state_load(file_path("names"));
    assert_no_error();
    const tern_tensors_t all = tern_state_tensors(back);
    const tern_names_t keys = tern_state_text_keys(back);
    assert_int_equal(all.count, COUNT);
    assert_int_equal(keys.count, COUNT);
    for (int i = 0; i < COUNT; i++) {
        assert_string_equal(all.names[i], names[i]);
        assert_string_equal(keys.names[i], names[i]);
        assert_string_equal(tern_state_text(back, names[i]), names[COUNT - 1 - i]);
        assert_true(tern_item(all.tensors[i]) == i);
    }
    assert_null(tern_state_text(back, "none"));
    tern_state_free(state);
    tern_state_free(back);
}

static void test_data_starts_at_a_multiple_of_eight(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    char name[12] = "n";
    for (int extra = 0; extra < 9; extra++, strcat(name, "n")) {
        tern_state *state = tern_state_create();
        tern_state_set(state, name, tern_ones(TERN_SHAPE(1)));
        tern_state_save(state, file_path("aligned"));
        assert_no_error();
        file_bytes bytes = file_read(file_path("aligned"));
        assert_int_equal(bytes.data[0] % 8, 0);
        assert_int_equal(bytes.count, 8 + bytes.data[0] + 4);
        assert_int_equal(bytes.data[8], '{');
        file_bytes_free(&bytes);
        tern_state_free(state);
    }
}

/* The layout that Python's safetensors writes: blanks behind the header, offsets in any order. */
static void test_a_foreign_file_is_read(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    file_bytes bytes =
        with_header("{ \"b\": {\"data_offsets\":[4,4],\"shape\":[0],\"dtype\":\"F32\"},\n"
                    "\"a\":{\"dtype\":\"U8\",\"shape\":[2,2],\"data_offsets\":[0,4],\"more\":1},"
                    "\"__metadata__\":{\"format\":\"pt\"}}   ",
                    0);
    const unsigned char data[4] = { 1, 2, 3, 4 };
    file_bytes_add(&bytes, data, sizeof data);
    tern_safetensors *file = tern_safetensors_open_memory(bytes.data, bytes.count, "foreign");
    assert_no_error();
    assert_int_equal(tern_safetensors_find(file, "a"), 1);
    assert_int_equal(tern_safetensors_find(file, "c"), -1);
    assert_string_equal(tern_safetensors_text(file, "format"), "pt");
    assert_null(tern_safetensors_text(file, "a"));
    assert_memory_equal(tern_data(tern_safetensors_read(file, 1)), data, sizeof data);
    tern_safetensors_close(file);
    file_bytes_free(&bytes);
}

/* Texts that Python's library reads, too: a key may be empty, and null stands for none. */
static void test_foreign_texts_are_read(void **unused)
{
    (void)unused;
    file_write("texts", with_header("{\"__metadata__\":{\"\":\"x\",\"k\":\"\"}}", 0));
    tern_state *state = tern_state_load(file_path("texts"));
    assert_no_error();
    assert_int_equal(tern_state_save(state, file_path("texts")), TERN_OK);
    tern_state_free(state);
    state = tern_state_load(file_path("texts"));
    assert_no_error();
    assert_string_equal(tern_state_text(state, ""), "x");
    assert_string_equal(tern_state_text(state, "k"), "");
    tern_state_free(state);
    file_write("texts", with_header("{\"__metadata__\":null}", 0));
    state = tern_state_load(file_path("texts"));
    assert_no_error();
    assert_int_equal(tern_state_text_keys(state).count, 0);
    tern_state_free(state);
}

/* A state knows the name, and is whole once there is a tensor. */
static void check_foreign_state(const char *path)
{
    tern_state *state = tern_state_load(path);
    assert_no_error();
    assert_int_equal(tern_state_tensors(state).count, 1);
    assert_int_equal(tern_state_unread(state).count, 1);
    assert_string_equal(tern_state_unread(state).names[0], "w");
    assert_string_equal(tern_state_unread_dtype(state, "w"), "F8_E4M3");
    assert_null(tern_state_unread_dtype(state, "ok"));
    assert_null(tern_state_get(state, "w"));
    assert_int_equal(tern_state_save(state, file_path("less")), TERN_ERR_DTYPE);
    assert_error(TERN_ERR_DTYPE,
                 "is of F8_E4M3, which tern does not have: the new file would lack");
    assert_int_equal(tern_state_set_int(state, "w", 3), TERN_OK);
    assert_int_equal(tern_state_unread(state).count, 0);
    assert_null(tern_state_unread_dtype(state, "w"));
    assert_int_equal(tern_state_save(state, file_path("less")), TERN_OK);
    tern_state_free(state);
}

/* One tensor of a dtype that tern does not have leaves the others. */
static void test_a_foreign_dtype_is_listed_and_not_read(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    file_bytes bytes =
        with_header("{\"w\":{\"dtype\":\"F8_E4M3\",\"shape\":[3],\"data_offsets\":[0,3]},"
                    "\"ok\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[3,5]}}\r\n\t ",
                    5);
    tern_safetensors *file = tern_safetensors_open_memory(bytes.data, bytes.count, "eight");
    assert_no_error();
    assert_int_equal(tern_safetensors_count(file), 2);
    const tern_safetensors_info_t *info = tern_safetensors_entry(file, 0);
    assert_string_equal(info->name, "w");
    assert_int_equal(info->dtype, TERN_DTYPE_NONE);
    assert_string_equal(info->dtype_text, "F8_E4M3");
    assert_string_equal(tern_safetensors_entry(file, 1)->dtype_text, "U8");
    assert_int_equal(info->size_bytes, 3);
    assert_int_equal(tern_numel(tern_safetensors_read(file, 1)), 2);
    assert_null(tern_safetensors_read(file, 0));
    assert_error(TERN_ERR_DTYPE, "eight: the tensor 'w' is of F8_E4M3, which tern does not have");
    tern_safetensors_close(file);
    FILE *out = fopen(file_path("eight"), "wb");
    assert_int_equal(fwrite(bytes.data, 1, bytes.count, out), bytes.count);
    (void)fclose(out);
    check_foreign_state(file_path("eight"));
    file_bytes_free(&bytes);
    refuse("{\"w\":{\"dtype\":\"U16\",\"shape\":[2],\"data_offsets\":[0,4]}}", 3,
           "outside the file");
    refuse("{\"w\":{\"dtype\":\"U16\",\"shape\":[1],\"data_offsets\":[0,2]}}", 3,
           "behind the last");
}

static void test_bools_of_a_file_are_zero_or_one(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    file_bytes bytes =
        with_header("{\"m\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[0,2]}}", 0);
    file_bytes_add(&bytes, "\xff\0", 2);
    tern_safetensors *file = tern_safetensors_open_memory(bytes.data, bytes.count, "bools");
    assert_memory_equal(tern_data(tern_safetensors_read(file, 0)), "\1\0", 2);
    tern_safetensors_close(file);
    file_bytes_free(&bytes);
}

/* ---- files that are refused ------------------------------------------------------------------- */

static void test_a_file_that_is_cut_short_is_refused(void **unused)
{
    (void)unused;
    file_bytes bytes = with_header("{}", 0);
    for (bytes.count = 0; bytes.count < 8; bytes.count++) {
        file_bytes copy = { NULL, 0 };
        file_bytes_add(&copy, "\2\0\0\0\0\0\0\0", bytes.count + (bytes.count == 0));
        copy.count = bytes.count;
        expect_refused(copy, "too short");
    }
    for (; bytes.count < 10; bytes.count++) {
        file_bytes copy = { NULL, 0 };
        file_bytes_add(&copy, bytes.data, bytes.count);
        expect_refused(copy, "cut short");
    }
    tern_safetensors *file = tern_safetensors_open_memory(bytes.data, bytes.count, "whole");
    assert_no_error();
    assert_int_equal(tern_safetensors_count(file), 0);
    tern_safetensors_close(file);
    file_bytes_free(&bytes);
}

/* After it was opened: the error is one of the call that wanted the bytes. */
static void test_a_file_that_is_cut_later_fails_the_read(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_safetensors_save(TERN_TENSORS(tern_ones(TERN_SHAPE(4))), file_path("later"));
    tern_safetensors *file = tern_safetensors_open(file_path("later"));
    assert_no_error();
    assert_int_equal(truncate(file_path("later"), 0), 0);
    assert_null(tern_safetensors_read(file, 0));
    assert_error(TERN_ERR_IO, "safetensors_read: ");
    assert_null(tern_safetensors_read(file, 0));
    assert_error(TERN_ERR_IO, "later: 16 bytes are missing at its end");
    assert_null(tern_safetensors_read(file, 1));
    assert_error(TERN_ERR_ARGUMENT, "safetensors_read: there is no tensor 1");
    tern_safetensors_close(file);
}

static void test_a_giant_header_is_refused_before_memory_is_asked_for(void **unused)
{
    (void)unused;
    file_bytes giant = { NULL, 0 };
    file_bytes_add(&giant, "\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10);
    expect_refused(giant, "length of the header");
    file_bytes most = { NULL, 0 };
    file_bytes_add(&most, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    expect_refused(most, "length of the header");
    refuse("", 0, "not JSON");
}

static void test_headers_that_are_not_json_are_refused(void **unused)
{
    (void)unused;
    refuse("[]", 0, "not JSON");
    refuse("{", 0, "not JSON");
    refuse("{\"a\":}", 0, "not JSON");
    refuse(" {}", 0, "not JSON");
    refuse("{}x", 0, "not JSON");
    refuse("{} {}", 0, "not JSON");
    refuse("{\"\xff\":{}}", 0, "not JSON in UTF-8");
    refuse("{\"\xc0\xaf\":{}}", 0, "not JSON in UTF-8");         /* overlong */
    refuse("{\"\xed\xa0\x80\":{}}", 0, "not JSON in UTF-8");     /* a surrogate */
    refuse("{\"\xf4\x90\x80\x80\":{}}", 0, "not JSON in UTF-8"); /* above U+10FFFF */
    refuse("{\"\xe2\x82\":{}}", 0, "not JSON in UTF-8");
    file_bytes zero = with_header("{\"a?\":{}}", 0);
    zero.data[11] = '\0';
    expect_refused(zero, "not JSON in UTF-8");
}

/* The first entry of a file that is read. */
static void expect_name(const char *header, const char *name)
{
    file_bytes fine = with_header(header, 0);
    tern_safetensors *file = tern_safetensors_open_memory(fine.data, fine.count, "fine");
    assert_no_error();
    assert_string_equal(tern_safetensors_entry(file, 0)->name, name);
    tern_safetensors_close(file);
    file_bytes_free(&fine);
}

/* JSON has them escaped; what the escapes and numbers of other members are is theirs. */
static void test_control_characters_are_refused(void **unused)
{
    (void)unused;
    static const char rest[] = "{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]";
    char header[160];
    for (char c = 1; c < ' '; c++) {
        snprintf(header, sizeof header, "{\"a%cb\":%s}}", c, rest);
        refuse(header, 0, "not JSON");
    }
    snprintf(header, sizeof header, "{\"\\u0001\\\"\\\\\x7f\":\t%s,\r\n\"more\":[-1.5e+3,0.25]}}",
             rest);
    expect_name(header, "\x01\"\\\x7f");
}

/* The parser would end the text there, and "a\u0000b" be the same as "a". */
static void test_escapes_that_are_no_characters_are_refused(void **unused)
{
    (void)unused;
    refuse("{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0,
           "not JSON");
    refuse("{\"a\\uZZZZ\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "not JSON");
    refuse("{\"a\\udc00\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "not JSON");
    expect_name("{\"\\\\u0000\\u00e4\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
                "\\u0000\xc3\xa4");
}

static void test_names_that_are_empty_or_twice_are_refused(void **unused)
{
    (void)unused;
    refuse("{\"\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "empty or twice");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
           "\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
           0, "twice there: 'a'");
    refuse("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "two __metadata__");
    refuse("{\"__metadata__\":null,\"__metadata__\":{}}", 0, "two __metadata__");
    refuse("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, "key twice: 'k'");
    refuse("{\"__metadata__\":{\"k\":1}}", 0, "no text under: 'k'");
    refuse("{\"__metadata__\":\"k\"}", 0, "not an object");
}

static void test_entries_that_lack_something_are_refused(void **unused)
{
    (void)unused;
    refuse("{\"a\":3}", 0, "no dtype for the tensor: 'a'");
    refuse("{\"a\":{\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "no dtype");
    refuse("{\"a\":{\"dtype\":1,\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "no dtype");
    refuse("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"I8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0,
           "dtype is there twice for: 'a'");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0],\"shape\":[0]}}", 0,
           "shape is there twice for: 'a'");
    refuse("{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,0]}}", 0, "no shape");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[0]}}", 0, "no pair of data_offsets");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0]}}", 0, "no pair");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0,0]}}", 0, "no pair");
}

static void test_numbers_that_are_not_whole_or_too_large_are_refused(void **unused)
{
    (void)unused;
    static const char *const shapes[] = { "-1",
                                          "-0",
                                          "1.0",
                                          "1e0",
                                          "10E-1",
                                          "1.5",
                                          "\"1\"",
                                          "null",
                                          "1e300",
                                          "9007199254740993",
                                          "[1]",
                                          "4000000000,4000000000,4000000000",
                                          "1,1,1,1,1,1,1,1,1",
                                          "0,9007199254740991,9007199254740991" };
    char header[160];
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        snprintf(header, sizeof header,
                 "{\"a\":{\"dtype\":\"U8\",\"shape\":[%s],\"data_offsets\":[0,1]}}", shapes[i]);
        refuse(header, 1, "no shape of at most 8 whole numbers for: 'a'");
    }
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[-1,0]}}", 1, "no pair");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1.5]}}", 1, "no pair");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1.0]}}", 1, "no pair");
    static const char *const no_json[] = {
        "01", "00", "1.", "-", "-01", "1e", "1.e0", "1e+", "1\f"
    };
    for (size_t i = 0; i < sizeof no_json / sizeof *no_json; i++) {
        snprintf(header, sizeof header,
                 "{\"a\":{\"dtype\":\"U8\",\"shape\":[%s],\"data_offsets\":[0,1]}}", no_json[i]);
        refuse(header, 1, "not JSON");
    }
}

static void test_data_that_does_not_add_up_is_refused(void **unused)
{
    (void)unused;
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "do not agree");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 3,
           "outside the file");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[1,0]}}", 1, "outside");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 2, "behind the last");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", 2,
           "gap or an overlap");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
           "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
           3, "overlap before the tensor: 'b'");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
           "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
           3, "gap or an overlap before the tensor: 'b'");
    refuse("{}", 1, "behind the last");
}

/* ---- lists that cannot be written ------------------------------------------------------------- */

static void expect_unsaved(const char *const *names, const char *words)
{
    TERN_SCOPE;
    tern_tensor *const tensors[2] = { tern_ones(TERN_SHAPE(1)), tern_ones(TERN_SHAPE(1)) };
    const char *path = file_path("unsaved");
    const tern_tensors_t list = { tensors, names, 2 };
    assert_int_equal(tern_safetensors_save(list, path), TERN_ERR_ARGUMENT);
    assert_error(TERN_ERR_ARGUMENT, words);
    assert_null(fopen(path, "rb"));
}

static void test_names_that_no_reader_would_take_are_not_written(void **unused)
{
    (void)unused;
    expect_unsaved((const char *const[]){ "a", "a" }, "'a' is there twice");
    expect_unsaved((const char *const[]){ "a", "" }, "empty or not UTF-8");
    expect_unsaved((const char *const[]){ "\xff", "b" }, "empty or not UTF-8");
    expect_unsaved((const char *const[]){ "a", "__metadata__" }, "is the file's own");
    expect_unsaved((const char *const[]){ "a", NULL }, "tensor 1 or its name is NULL");
    const tern_tensors_t none = { NULL, NULL, 1 };
    tern_safetensors_save(none, file_path("unsaved"));
    assert_error(TERN_ERR_ARGUMENT, "list of tensors is NULL");
}

/* The file that was there stays. */
static void test_lists_that_no_file_holds_are_not_written(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *const one[] = { tern_ones(TERN_SHAPE(1)) };
    const tern_tensors_t list = { one, NULL, 1 }, fewer = { one, NULL, -1 };
    assert_int_equal(tern_safetensors_save(list, file_path("kept")), TERN_OK);
    assert_int_equal(tern_safetensors_save(fewer, file_path("kept")), TERN_ERR_ARGUMENT);
    assert_error(TERN_ERR_ARGUMENT, "safetensors_save: the list has -1 tensors");
    const int64_t limit = (int64_t)1 << 53;
    tern_tensor *fits = tern_zeros(TERN_SHAPE(0, limit - 1));
    tern_tensor *large = tern_zeros(TERN_SHAPE(0, limit));
    tern_tensor *const both[] = { one[0], large };
    const tern_tensors_t two = { both, NULL, 2 };
    assert_int_equal(tern_safetensors_save(two, file_path("kept")), TERN_ERR_SHAPE);
    assert_error(TERN_ERR_SHAPE, "'1' has an extent of 9007199254740992; a file's are below 2^53");
    tern_state *state = tern_state_load(file_path("kept"));
    assert_int_equal(tern_state_tensors(state).count, 1);
    tern_state_set(state, "fits", fits);
    assert_int_equal(tern_state_save(state, file_path("kept")), TERN_OK);
    tern_state *back = tern_state_load(file_path("kept"));
    assert_int_equal(tern_size(tern_state_get(back, "fits"), 1), limit - 1);
    tern_state_set(state, "large", large);
    tern_state_save(state, file_path("kept"));
    assert_error(TERN_ERR_SHAPE, "state_save: 'large' has an extent of 9007199254740992");
    tern_state_free(state);
    tern_state_free(back);
}

/* Bindings own results one by one; a tensor that nobody releases shows here. */
static void test_owned_mode_leaves_nothing_behind(void **unused)
{
    (void)unused;
    {
        TERN_SCOPE;
        tern_safetensors_save(TERN_TENSORS(tern_ones(TERN_SHAPE(3))), file_path("owned"));
    }
    const int64_t before = tern_live_tensors();
    tern_set_owned_mode(true);
    tern_state *state = tern_state_load(file_path("owned"));
    tern_state_set_number(state, "n", 1);
    tern_state_free(state);
    tern_safetensors *file = tern_safetensors_open(file_path("owned"));
    tern_tensor *mine = tern_safetensors_read(file, 0);
    tern_safetensors_close(file);
    tern_set_owned_mode(false);
    assert_no_error();
    assert_int_equal(tern_live_tensors(), before + 1);
    tern_release(mine);
    assert_int_equal(tern_live_tensors(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_dtype_comes_back_bit_for_bit),
        cmocka_unit_test(test_shapes_without_dimensions_or_elements_come_back),
        cmocka_unit_test(test_views_are_written_row_major),
        cmocka_unit_test(test_names_and_texts_keep_order_and_characters),
        cmocka_unit_test(test_data_starts_at_a_multiple_of_eight),
        cmocka_unit_test(test_a_foreign_file_is_read),
        cmocka_unit_test(test_foreign_texts_are_read),
        cmocka_unit_test(test_a_foreign_dtype_is_listed_and_not_read),
        cmocka_unit_test(test_bools_of_a_file_are_zero_or_one),
        cmocka_unit_test(test_a_file_that_is_cut_short_is_refused),
        cmocka_unit_test(test_a_file_that_is_cut_later_fails_the_read),
        cmocka_unit_test(test_a_giant_header_is_refused_before_memory_is_asked_for),
        cmocka_unit_test(test_headers_that_are_not_json_are_refused),
        cmocka_unit_test(test_control_characters_are_refused),
        cmocka_unit_test(test_escapes_that_are_no_characters_are_refused),
        cmocka_unit_test(test_names_that_are_empty_or_twice_are_refused),
        cmocka_unit_test(test_entries_that_lack_something_are_refused),
        cmocka_unit_test(test_numbers_that_are_not_whole_or_too_large_are_refused),
        cmocka_unit_test(test_data_that_does_not_add_up_is_refused),
        cmocka_unit_test(test_names_that_no_reader_would_take_are_not_written),
        cmocka_unit_test(test_lists_that_no_file_holds_are_not_written),
        cmocka_unit_test(test_owned_mode_leaves_nothing_behind),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + tern_finish();
}
