/* Page-locked memory as a user sees it, of the tests' devices. Rows T064, T065, M076, M090, M093, M094. */
#include "tests/support/check.h"
#include "tests/support/second_backend.h"

static const tern_dev_t dev0 = { TERN_KIND_EXT, 0 }, dev1 = { TERN_KIND_EXT, 1 };
static const int64_t mib = 1 << 20;

static int clear(void **state)
{
    (void)state;
    tern_error_clear();
    return 0;
}

static void test_pinned_memory(void **state) /* T064 T065 M090 M093 M094 */
{
    (void)state;
    {
        TERN_SCOPE;
        tern_tensor *x = tern_arange(0, 1000, .dtype = TERN_F32);
        assert_false(tern_is_pinned(x));
        tern_tensor *p = tern_pin(x);
        assert_no_error();
        assert_true(tern_is_pinned(p));
        assert_ptr_equal(tern_pin(p), p);
        assert_close(tern_item(tern_sum(p)), 499500, 0);
        assert_int_equal(tern_host_memory_stat("allocated_bytes.current"), 4096);
        assert_null(tern_pin(tern_to(x, dev0)));
        assert_error(TERN_ERR_ARGUMENT, "only a CPU tensor can be pinned");
    }
    assert_int_equal(tern_host_memory_stat("allocated_bytes.current"), 0);
    assert_int_equal(tern_host_memory_stat("reserved_bytes.current"), 4096);
    assert_int_equal(tern_host_memory_stat("num_host_alloc"), 1);
    tern_host_empty_cache();
    assert_int_equal(tern_host_memory_stat("reserved_bytes.current"), 0);
    assert_int_equal(tern_host_memory_stat("no_such_key"), -1);
    assert_int_equal(tern_host_memory_stat("x_time.avg"), -1);
}

static void test_all_of_pytorchs_names_of_pinned_memory(void **state) /* M094 */
{
    (void)state;
    static const char *const keys[] = {
        "allocation.current",   "allocated_bytes.peak", "segment.allocated",
        "reserved_bytes.freed", "active.current",       "active_bytes.current",
        "num_host_alloc",       "num_host_free",        "host_alloc_time.total",
        "host_alloc_time.max",  "host_alloc_time.min",  "host_alloc_time.count",
        "host_alloc_time.avg",  "host_free_time.total", "host_free_time.max",
        "host_free_time.min",   "host_free_time.count", "host_free_time.avg"
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (tern_host_memory_stat(keys[i]) < 0)
            fail_msg("no %s", keys[i]);
}

static void test_pinned_memory_keeps_the_layout(void **state) /* T064 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_view(tern_arange(0, 24, .dtype = TERN_F32), TERN_SHAPE(1, 2, 3, 4));
    tern_tensor *p = tern_pin(tern_to(x, .format = TERN_FORMAT_CHANNELS_LAST));
    assert_true(tern_is_pinned(p));
    assert_true(tern_is_channels_last(p));
    assert_close(tern_item(tern_sum(tern_ne(p, x))), 0, 0);
    tern_tensor *gaps = tern_pin(tern_slice(x, 3, 0, 4, 2)); /* without them */
    assert_true(tern_is_contiguous(gaps));
    assert_close(tern_item(tern_sum(gaps)), 132, 0);
    assert_no_error();
}

static void test_a_pinned_tensor_keeps_its_scope(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *p;
    {
        TERN_SCOPE;
        p = tern_pin(tern_full(5, TERN_SHAPE(1000)));
        {
            TERN_SCOPE;
            assert_ptr_equal(tern_pin(p), p);
        }
        assert_true(tern_in_scope(p));
        tern_keep(p);
    }
    assert_close(tern_item(tern_sum(p)), 5000, 0);
    tern_set_owned_mode(true);
    tern_tensor *again = tern_pin(p); /* one reference more */
    tern_set_owned_mode(false);
    assert_ptr_equal(again, p);
    tern_release(again);
    assert_close(tern_item(tern_sum(p)), 5000, 0);
}

/* 2^61 + 512 elements of 8 bytes are 4096 bytes modulo 2^64. */
static void test_more_bytes_than_there_are_numbers_for(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *one = tern_ones(TERN_SHAPE(1), .dtype = TERN_F64);
    assert_null(tern_pin(tern_expand(one, TERN_SHAPE((INT64_C(1) << 61) + 512))));
    assert_error(TERN_ERR_OOM, "pin: no page-locked memory for 9223372036854775807 bytes");
}

static void test_a_backend_says_why_it_pins_nothing(void **state)
{
    (void)state;
    TERN_SCOPE;
    assert_null(tern_pin(tern_empty(TERN_SHAPE(65 * mib), .dtype = TERN_U8)));
    assert_error(TERN_ERR_BACKEND, "the tests' device pins no more than it has");
}

static int64_t pinned_left_of(int64_t bytes)
{
    tern_host_empty_cache();
    {
        TERN_SCOPE;
        assert_non_null(tern_pin(tern_empty(TERN_SHAPE(bytes), .dtype = TERN_U8)));
    }
    return tern_host_memory_stat("reserved_bytes.current");
}

static void test_settings_of_pinned_memory_hold_at_once(void **state) /* M076 M094 */
{
    (void)state;
    assert_int_equal(pinned_left_of(3 * mib), 4 * mib);
    assert_int_equal(tern_set_memory_settings(dev0, "pinned_max_cached_size_mb:1"), TERN_OK);
    assert_int_equal(tern_set_memory_settings(dev1, "max_split_size_mb:30"), TERN_OK); /* apart */
    assert_int_equal(pinned_left_of(3 * mib), 0);
    assert_int_equal(pinned_left_of(mib / 2), mib / 2);
    assert_int_equal(tern_set_memory_settings(dev1, "pinned_max_cached_size_mb:16,"
                                                    "pinned_max_round_threshold_mb:1"),
                     TERN_OK);
    assert_int_equal(pinned_left_of(3 * mib), 3 * mib);
    tern_host_empty_cache();
    assert_no_error();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, clear)
    const struct CMUnitTest tests[] = {
        TEST(test_pinned_memory),
        TEST(test_all_of_pytorchs_names_of_pinned_memory),
        TEST(test_pinned_memory_keeps_the_layout),
        TEST(test_a_pinned_tensor_keeps_its_scope),
        TEST(test_more_bytes_than_there_are_numbers_for),
        TEST(test_a_backend_says_why_it_pins_nothing),
        TEST(test_settings_of_pinned_memory_hold_at_once),
    };
    const int failed = cmocka_run_group_tests(tests, second_backend_setup, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
