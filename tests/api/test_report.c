/* From a program that runs out of memory to the page about it: history, snapshot, tern memory-report. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tern/tern.h>

#include "tests/support/files.h"
#include "tests/support/second_backend.h"

enum { PAGE_BYTES = 1 << 20, KEPT = 64, MIB = 1 << 20 };

/* Keeps 3 MiB in every second step, until nothing is left; returns the line that fails. */
static int run_out(tern_dev_t dev, tern_tensor *kept[KEPT])
{
    int line = 0;
    for (int step = 0; step < KEPT && !tern_failed(); step++) {
        TERN_SCOPE;
        tern_tensor *x = tern_zeros(TERN_SHAPE(step % 3 + 1, MIB / 4), .device = dev);
        tern_tensor *h = tern_zeros(TERN_SHAPE(3, MIB / 4), .device = dev);
        line = __LINE__ - 1;
        if (x != NULL && h != NULL && step % 2 == 0)
            kept[step] = tern_retain(h);
    }
    return line;
}

/* Runs the command on the snapshot; the page. */
static char *page_of(const char *json)
{
    const char *tern = getenv("TERN_TEST_COMMAND");
    if (tern == NULL) {
        print_message("skipped: TERN_TEST_COMMAND does not say where the tern command is\n");
        skip();
    }
    char command[4 * FILE_PATH_BYTES];
    snprintf(command, sizeof command, "'%s' memory-report '%s' -o -", tern, json);
    FILE *stream = popen(command, "r");
    assert_non_null(stream);
    char *page = malloc(PAGE_BYTES);
    assert_non_null(page);
    page[fread(page, 1, PAGE_BYTES - 1, stream)] = '\0';
    const int status = pclose(stream);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return page;
}

static void expect(const char *page, const char *format, int64_t number)
{
    char words[200];
    snprintf(words, sizeof words, format, (long long)number);
    if (strstr(page, words) == NULL)
        fail_msg("'%s' is not in the page", words);
}

static void test_a_page_tells_who_filled_the_device(void **state)
{
    (void)state;
    const tern_dev_t dev = TERN_EXT(0);
    tern_tensor *kept[KEPT] = { NULL };
    assert_int_equal(tern_memory_record_history(dev, 10000), TERN_OK);
    const int line = run_out(dev, kept);
    assert_int_equal(tern_error_code(), TERN_ERR_OOM);
    tern_error_clear();
    const char *json = file_path("oom.json");
    assert_int_equal(tern_memory_snapshot(dev, json), TERN_OK);
    char *page = page_of(json);
    expect(page, "Out of memory: ", 0);
    expect(page, "test_report.c:%lld", line);
    expect(page, "class=\"oom\"", 0);
    expect(page, "data-v=\"%lld\"", tern_memory(dev).allocated_bytes);
    expect(page, "title=\"%lld bytes\"", tern_memory(dev).reserved_bytes);
    free(page);
    for (int i = 0; i < KEPT; i++)
        if (kept[i] != NULL)
            tern_release(kept[i]);
    tern_empty_cache(dev);
    assert_int_equal(tern_memory_record_history(dev, 0), TERN_OK);
}

static void test_a_device_that_was_never_used_gives_a_page(void **state)
{
    (void)state;
    const char *json = file_path("empty.json");
    assert_int_equal(tern_memory_snapshot(TERN_EXT(1), json), TERN_OK);
    char *page = page_of(json);
    expect(page, "The snapshot is empty", 0);
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_page_tells_who_filled_the_device),
        cmocka_unit_test(test_a_device_that_was_never_used_gives_a_page),
    };
    return cmocka_run_group_tests(tests, second_backend_setup, NULL);
}
