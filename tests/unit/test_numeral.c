/* Numbers with a point in a program whose locale has a comma. */
#include "core/numeral.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/alloc/alloc.h"
#include "tests/support/check.h"
#include "tests/support/files.h"

/* A German locale is made where none is installed. False: its sources are not here. */
static bool make_comma(void)
{
    char command[2 * FILE_PATH_BYTES];
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8") != NULL)
        return true;
    (void)snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 '%s/de_DE.UTF-8' 2>&1",
                   file_folder());
    FILE *said = popen(command, "re");
    char line[256];
    while (said != NULL && fgets(line, sizeof line, said) != NULL)
        ;
    return said != NULL && pclose(said) == 0 && setenv("LOCPATH", file_folder(), 1) == 0 &&
           setlocale(LC_NUMERIC, "de_DE.UTF-8") != NULL;
}

static int begin(void **state)
{
    *state = make_comma() ? "a comma" : NULL;
    return 0;
}

static int end(void **state)
{
    (void)state;
    char command[2 * FILE_PATH_BYTES];
    (void)setlocale(LC_NUMERIC, "C");
    (void)snprintf(command, sizeof command, "rm -rf '%s/de_DE.UTF-8'", file_folder());
    return system(command);
}

static void need_comma(void **state)
{
    char text[8];
    if (*state == NULL) {
        print_message("skipped: no German locale is installed, nor can one be made\n");
        skip();
    }
    (void)snprintf(text, sizeof text, "%.1f", 1.5);
    assert_string_equal(text, "1,5");
}

static void test_points_are_read_and_written(void **state)
{
    need_comma(state);
    char *rest, text[CORE_REAL_BYTES];
    assert_true(core_parse_real("0.75:", &rest) == 0.75);
    assert_string_equal(rest, ":");
    assert_true(core_parse_real("-1e3", &rest) == -1000 && *rest == '\0');
    assert_true(core_parse_real("0,5", &rest) == 0);
    assert_string_equal(rest, ",5");
    assert_true(core_parse_real("x", &rest) == 0);
    assert_string_equal(rest, "x");
    assert_string_equal(core_real_text(0.75, text), "0.75");
    assert_string_equal(core_real_text(-1e300, text), "-1e+300");
    (void)snprintf(text, sizeof text, "%.1f", 1.5); /* the program's is as it was */
    assert_string_equal(text, "1,5");
}

static void test_the_allocator_takes_pytorchs_configuration(void **state)
{
    need_comma(state);
    core_alloc_settings settings;
    char why[CORE_ALLOC_WHY_BYTES];
    core_alloc_settings_init(&settings);
    assert_int_equal(
        core_alloc_settings_parse(
            &settings, "garbage_collection_threshold:0.8,max_split_size_mb:64", true, why),
        TERN_OK);
    assert_true(settings.gc_threshold == 0.8);
}

/* "0.8" in JSON, not "0,8", which is two things. */
static void test_a_snapshot_is_json(void **state)
{
    need_comma(state);
    assert_int_equal(tern_memory_snapshot(TERN_CPU, file_path("snapshot")), TERN_OK);
    file_bytes bytes = file_read(file_path("snapshot"));
    file_bytes_add(&bytes, "", 1);
    assert_non_null(strstr((const char *)bytes.data, "\"garbage_collection_threshold\": 0.8,"));
    file_bytes_free(&bytes);
}

int main(void)
{
    (void)setenv("TERN_ALLOC_CONF", "garbage_collection_threshold:0.8", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_points_are_read_and_written),
        cmocka_unit_test(test_the_allocator_takes_pytorchs_configuration),
        cmocka_unit_test(test_a_snapshot_is_json),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
