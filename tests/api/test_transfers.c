/* Transfers and waits by line, on the tests' backend: two devices whose memory the host cannot read. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/check.h"
#include "tests/support/second_backend.h"

static const tern_dev_t dev0 = { TERN_KIND_EXT, 0 }, dev1 = { TERN_KIND_EXT, 1 };

static int reset(void **state)
{
    (void)state;
    tern_error_clear();
    tern_transfers_reset();
    return 0;
}

#define assert_moved(moved, times, size)          \
    do {                                          \
        assert_int_equal((moved).count, (times)); \
        assert_int_equal((moved).bytes, (size));  \
    } while (0)

static void test_the_cpu_alone_counts_nowhere(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(4));
    assert_non_null(tern_to(tern_to(x, .dtype = TERN_F64), .copy = true));
    assert_close(tern_item(tern_sum(x)), 4, 0);
    assert_int_equal(tern_dev_synchronize(TERN_CPU), TERN_OK);
    assert_int_equal(tern_transfers(NULL, 0), 0);
    char text[200];
    assert_string_equal(tern_transfers_text(text, sizeof text), "transfers: none\n");
}

static void test_each_kind_counts_its_bytes(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(10));
    tern_tensor *there = tern_to(x, dev0);
    tern_tensor *other = tern_to(there, dev1, .dtype = TERN_F64); /* converted before it goes */
    tern_copy(x, there);
    (void)tern_item(tern_sum(other));
    assert_int_equal(tern_dev_synchronize(dev1), TERN_OK);
    assert_no_error();
    const tern_transfers_t total = tern_transfers_total();
    assert_moved(total.to_device, 1, 40);
    assert_moved(total.between, 1, 80);
    assert_moved(total.to_host, 1, 40);
    assert_moved(total.reads, 1, 8);
    assert_int_equal(total.syncs, 4); /* all but the copy to the device */
    assert_null(total.site);
}

static void test_reading_in_other_ways(void **state)
{
    (void)state;
    TERN_SCOPE;
    char text[200];
    float got[3];
    tern_tensor *x = tern_full(2, TERN_SHAPE(3), .device = dev0);
    (void)tern_describe(x, text, sizeof text);
    assert_int_equal(tern_read(x, TERN_F32, got, sizeof got), TERN_OK);
    (void)tern_item_int(tern_to(tern_sum(x), .dtype = TERN_I32));
    assert_non_null(
        tern_cpu(tern_zeros(TERN_SHAPE(0), .device = dev0))); /* no bytes, no transfer */
    assert_no_error();
    assert_moved(tern_transfers_total().to_host, 2, 24);
    assert_moved(tern_transfers_total().reads, 1, 4);
    assert_int_equal(tern_transfers_total().syncs, 3);
}

static void test_lines_are_told_apart_and_sorted(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_transfers_t lines[3];
    char text[400], few[12], here[64];
    tern_tensor *x = tern_ones(TERN_SHAPE(1000));
    for (int i = 0; i < 3; i++)
        (void)tern_item(tern_sum(tern_to(x, dev0)));
    (void)snprintf(here, sizeof here, "test_transfers.c:%d", __LINE__ - 1);
    assert_non_null(tern_to(x, dev1));
    assert_int_equal(tern_transfers(lines, 3), 2);
    assert_non_null(strstr(lines[0].site, here));
    assert_moved(lines[0].to_device, 3, 12000);
    assert_moved(lines[0].reads, 3, 12);
    assert_int_equal(lines[0].syncs, 3);
    assert_moved(lines[1].to_device, 1, 4000);
    assert_int_equal(tern_transfers(lines + 2, 1), 2);
    assert_ptr_equal(lines[2].site, lines[0].site);
    (void)tern_transfers_text(text, sizeof text);
    assert_non_null(strstr(
        text, "transfers: 4 to devices (15.6 KiB), 3 reads (12 B), the host waited 3 times\n    "));
    assert_non_null(strstr(text, " 3 to devices (11.7 KiB), 3 reads (12 B), the host waited 3"));
    assert_string_equal(tern_transfers_text(few, sizeof few), "transfers: ");
}

/* What the library calls inside counts for the user's line; backward for the line of the forward. */
static void test_calls_inside_count_outside(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_module *net = tern_linear_layer(4, 2);
    tern_transfers_t line;
    assert_int_equal(tern_module_to(net, dev0), TERN_OK);
    assert_int_equal(tern_transfers(&line, 1), 1);
    assert_moved(line.to_device, 2, 40);
    assert_non_null(strstr(line.site, "test_transfers.c:"));
    tern_transfers_reset();

    tern_tensor *x = tern_ones(TERN_SHAPE(2), .requires_grad = true);
    tern_tensor *there = tern_to(x, dev0);
    const tern_site_t site = tern_site(there);
    tern_backward(tern_sum(there));
    assert_no_error();
    assert_int_equal(tern_transfers(&line, 1), 1);
    assert_string_equal(line.site, site);
    assert_moved(line.to_device, 1, 8);
    assert_moved(line.to_host, 1, 8);
}

/* A copy that was thrown away, beside operands that do not fit together because of it. */
static void test_mixed_devices_name_a_copy_that_was_thrown_away(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *w = tern_ones(TERN_SHAPE(3), .device = dev0);
    tern_tensor *x = tern_ones(TERN_SHAPE(3));
    assert_null(tern_add(x, w));
    assert_null(strstr(tern_error_text(), "the copy")); /* w is none */
    tern_error_clear();
    tern_tensor *lost = tern_to(x, dev0);
    assert_null(tern_add(x, w));
    const char *text = strstr(tern_error_text(), "try the copy on test:0 that ");
    assert_non_null(text);
    assert_non_null(strstr(text, tern_site(lost)));
    assert_non_null(strstr(text, " made: tern_to returns it, its argument stays where it is\n"));
    tern_error_clear();
    assert_null(tern_add(x, tern_to(x, dev1))); /* on another device, or an operand itself: none */
    assert_error(TERN_ERR_DEVICE, "try tern_to(a, TERN_EXT(1)) before the loop\n");
}

static void *move_often(void *user)
{
    (void)user;
    for (int i = 0; i < 200; i++) {
        TERN_SCOPE;
        tern_tensor *back = tern_cpu(tern_to(tern_ones(TERN_SHAPE(8)), dev0));
        if (back == NULL)
            break;
    }
    return NULL;
}

static void test_threads_lose_no_count(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, move_often, NULL), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_moved(tern_transfers_total().to_device, 800, 800 * 32);
    assert_moved(tern_transfers_total().to_host, 800, 800 * 32);
}

/* More lines than there is room for: nothing is lost, the rest counts without a name. */
static void test_too_many_lines_share_one(void **state)
{
    (void)state;
    enum { LINES = 6000 };
    static char names[LINES][16];
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(1), .device = dev0);
    tern_transfers_reset();
    for (int i = 0; i < LINES; i++) {
        (void)snprintf(names[i], sizeof names[i], "x.c:%d", i);
        (void)tern_item_at(names[i], x);
    }
    assert_int_equal(tern_transfers_total().reads.count, LINES);
    tern_transfers_t most;
    const int64_t lines = tern_transfers(&most, 1);
    assert_true(lines > 3000 && lines < LINES);
    assert_null(most.site);
    char *text = malloc(1 << 20);
    assert_non_null(text);
    assert_non_null(strstr(tern_transfers_text(text, 1 << 20), "    (no site)"));
    free(text);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, reset, reset)
    const struct CMUnitTest tests[] = {
        TEST(test_the_cpu_alone_counts_nowhere),
        TEST(test_each_kind_counts_its_bytes),
        TEST(test_reading_in_other_ways),
        TEST(test_lines_are_told_apart_and_sorted),
        TEST(test_calls_inside_count_outside),
        TEST(test_mixed_devices_name_a_copy_that_was_thrown_away),
        TEST(test_threads_lose_no_count),
        TEST(test_too_many_lines_share_one),
    };
    const int failed = cmocka_run_group_tests(tests, second_backend_setup, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
