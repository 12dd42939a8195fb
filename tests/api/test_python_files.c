/* safetensors files of the Python library (tests/golden/make_safetensors.py wrote them) are read bit for
 * bit, and what is written here the Python library reads so, where it is installed. */
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tests/support/files.h"

enum { PATH = 1024, ELEMENTS = 6 };

static const struct {
    const char *name;
    tern_dtype_t dtype;
} dtypes[] = {
    { "bool", TERN_BOOL },   { "uint8", TERN_U8 },      { "int8", TERN_I8 },
    { "int16", TERN_I16 },   { "int32", TERN_I32 },     { "int64", TERN_I64 },
    { "float16", TERN_F16 }, { "bfloat16", TERN_BF16 }, { "float32", TERN_F32 },
    { "float64", TERN_F64 },
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

static const char *golden_path(const char *name)
{
    static char path[PATH];
    const char *source = getenv("TERN_TEST_SOURCE");
    if (source == NULL) {
        print_message("skipped: TERN_TEST_SOURCE does not say where the source tree is\n");
        skip();
    }
    (void)snprintf(path, sizeof path, "%s/tests/golden/%s", source, name);
    return path;
}

static void check_bits(tern_tensor *t, tern_dtype_t dtype)
{
    unsigned char expected[ELEMENTS * 8] = { 1, 0, 1, 1, 0, 0 };
    const size_t bytes = ELEMENTS * (size_t)tern_dtype_size(dtype);
    for (size_t i = 0; dtype != TERN_BOOL && i < bytes; i++)
        expected[i] = (unsigned char)(251 - 5 * i);
    assert_int_equal(tern_dtype(t), dtype);
    assert_int_equal(tern_ndim(t), 2);
    assert_int_equal(tern_size(t, 0), 2);
    assert_memory_equal(tern_data(t), expected, bytes);
}

static void check_state(const tern_state *state)
{
    for (int d = 0; d < DTYPES; d++) {
        tern_tensor *t = tern_state_get(state, dtypes[d].name);
        assert_non_null(t);
        check_bits(t, dtypes[d].dtype);
    }
    tern_tensor *scalar = tern_state_get(state, "scalar"), *empty = tern_state_get(state, "empty");
    assert_int_equal(tern_ndim(scalar), 0);
    assert_true(tern_item(scalar) == 2.5);
    assert_int_equal(tern_ndim(empty), 3);
    assert_int_equal(tern_size(empty, 2), 2);
    assert_int_equal(tern_dtype(empty), TERN_F64);
    assert_int_equal(tern_state_tensors(state).count, DTYPES + 2);
    assert_string_equal(tern_state_text(state, "format"), "pt");
    assert_string_equal(tern_state_text(state, "quote"), "\"back\\slash");
    assert_string_equal(tern_state_text(state, "bird"), "\xf0\x9f\x90\xa6\n");
}

static void test_every_dtype_of_python_is_read_bit_for_bit(void **unused)
{
    (void)unused;
    tern_state *state = tern_state_load(golden_path("python_dtypes.safetensors"));
    assert_no_error();
    check_state(state);
    tern_state_free(state);
}

/* The script's exit status; 77: Python or its package is not there, and why is on its output. */
static int compare_by_python(const char *here, const char *there)
{
    const char *python = getenv("TERN_TEST_PYTHON");
    char command[4 * PATH];
    if (system("command -v \"${TERN_TEST_PYTHON:-python3}\" >/dev/null 2>&1") != 0) {
        print_message("there is no %s\n", python != NULL ? python : "python3");
        return 77;
    }
    (void)snprintf(command, sizeof command, "'%s' '%s' check '%s' '%s'",
                   python != NULL ? python : "python3", golden_path("make_safetensors.py"), here,
                   there);
    const int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_what_is_written_here_python_reads(void **unused)
{
    (void)unused;
    char there[PATH];
    (void)snprintf(there, sizeof there, "%s", golden_path("python_dtypes.safetensors"));
    tern_state *state = tern_state_load(there);
    assert_int_equal(tern_state_save(state, file_path("back.safetensors")), TERN_OK);
    tern_state_free(state);
    tern_state *again = tern_state_load(file_path("back.safetensors"));
    check_state(again);
    tern_state_free(again);
    const int status = compare_by_python(file_path("back.safetensors"), there);
    if (status == 77) {
        print_message("skipped: the Python library safetensors is not installed "
                      "(TERN_TEST_PYTHON names another interpreter)\n");
        skip();
    }
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_dtype_of_python_is_read_bit_for_bit),
        cmocka_unit_test(test_what_is_written_here_python_reads),
    };
    return check_run(tests, NULL, NULL);
}
