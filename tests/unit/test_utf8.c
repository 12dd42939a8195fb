/* What is a character of UTF-8: each code point, and what only looks like one. */
#include "core/utf8.h"
#include "tests/support/check.h"

static size_t encode(uint32_t code, char out[4])
{
    const size_t bytes = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char first[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    for (size_t i = bytes; i-- > 1; code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(first[bytes] | code);
    return bytes;
}

static void test_each_code_point(void **state)
{
    (void)state;
    char text[4];
    for (uint32_t code = 0; code < 0x200000; code++) {
        const size_t bytes = encode(code, text);
        const bool is_one = code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
        if (core_utf8_bytes(text, sizeof text) != (is_one ? bytes : 0))
            fail_msg("U+%04X", code);
        if (core_utf8_bytes(text, bytes - 1) != 0)
            fail_msg("U+%04X without its last byte", code);
    }
}

static void test_what_is_none(void **state)
{
    (void)state;
    static const char *const none[] = { "\x80",
                                        "\xbf",
                                        "\xc0\x80",
                                        "\xc1\xbf",
                                        "\xe0\x9f\xbf",
                                        "\xf0\x8f\xbf\xbf",
                                        "\xf8\x88\x80\x80",
                                        "\xff",
                                        "\xc3(",
                                        "\xe2\x82(",
                                        "\xf0\x9f\x98(" };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (core_utf8_bytes(none[i], strlen(none[i])) != 0)
            fail_msg("text %d", (int)i);
    assert_int_equal(core_utf8_bytes("", 0), 0);
}

static void test_what_is_shown(void **state)
{
    (void)state;
    static const char *const pairs[][2] = { { "a", "a" },
                                            { "\r", "\\r" },
                                            { "\n", "\\n" },
                                            { "\t", "\\t" },
                                            { "\x1b", "\\x1b" },
                                            { "\x7f", "\\x7f" },
                                            { "\xff", "\\xff" },
                                            { "\xc3(", "\\xc3" },
                                            { "\xc3\xa4!", "\xc3\xa4" },
                                            { "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80" } };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char shown[CORE_UTF8_SHOWN];
        const size_t bytes = core_utf8_show(pairs[i][0], shown),
                     own = core_utf8_bytes(pairs[i][0], strlen(pairs[i][0]));
        assert_int_equal(bytes, own > 0 ? own : 1);
        assert_string_equal(shown, pairs[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_code_point),
        cmocka_unit_test(test_what_is_none),
        cmocka_unit_test(test_what_is_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
