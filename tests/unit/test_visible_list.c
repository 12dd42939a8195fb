/* CUDA_VISIBLE_DEVICES: rows D041-D057, with their golden vectors. */
#include <stdio.h>

#include "core/visible/list.h"
#include "tests/support/check.h"

enum { MOST = 8 };
typedef struct vector {
    const char *text;
    int devices, count, index[MOST];
    core_visible_end end;
} vector;

static const char *const uuids[] = { "GPU-aa11", "GPU-aa22", "GPU-bb11", "GPU-cc11" };

static void expect(const vector *v, const char *const *names)
{
    core_visible_list list;
    core_visible_end end;
    int index[CORE_VISIBLE_MOST];
    core_visible_parse(v->text, &list);
    const int count = core_visible_resolve(&list, v->devices, names, index, &end);
    if (count != v->count || end != v->end)
        fail_msg("'%s' with %d devices: %d visible (end %d), not %d (end %d)",
                 v->text ? v->text : "(unset)", v->devices, count, (int)end, v->count, (int)v->end);
    for (int i = 0; i < count; i++)
        if (index[i] != v->index[i])
            fail_msg("'%s': entry %d is device %d, not %d", v->text, i, index[i], v->index[i]);
}

#define EXPECT(names, ...)                                     \
    do {                                                       \
        const vector v_[] = { __VA_ARGS__ };                   \
        for (size_t i_ = 0; i_ < sizeof v_ / sizeof *v_; i_++) \
            expect(&v_[i_], names);                            \
    } while (0)

#define TEXT CORE_VISIBLE_END_OF_TEXT
#define NEGATIVE CORE_VISIBLE_END_NEGATIVE
#define GARBAGE CORE_VISIBLE_END_GARBAGE
#define REPEATED CORE_VISIBLE_END_REPEATED
#define LARGE CORE_VISIBLE_END_TOO_LARGE
#define UNKNOWN CORE_VISIBLE_END_UNKNOWN

static void test_unset_shows_all_up_to_64(void **state) /* D041 */
{
    (void)state;
    EXPECT(NULL, { NULL, 3, 3, { 0, 1, 2 }, TEXT }, { NULL, 0, 0, { 0 }, TEXT });
    core_visible_list list;
    core_visible_end end;
    int index[CORE_VISIBLE_MOST];
    core_visible_parse(NULL, &list);
    assert_int_equal(core_visible_resolve(&list, 100, NULL, index, &end), 64);
    assert_false(core_visible_hides_all(&list));
}

static void test_empty_blank_and_minus_one_hide_all(void **state) /* D042 */
{
    (void)state;
    const char *const texts[] = { "", " ", " \t\n", "-1", " -1 " };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        core_visible_list list;
        core_visible_parse(texts[i], &list);
        assert_int_equal(list.form, CORE_VISIBLE_NONE);
        assert_true(core_visible_hides_all(&list));
    }
    EXPECT(NULL, { "", 4, 0, { 0 }, TEXT }, { "-1", 4, 0, { 0 }, TEXT });
}

static void test_leading_digits_count(void **state) /* D043 */
{
    (void)state;
    EXPECT(NULL, { "1gpu2,2ampere", 4, 2, { 1, 2 }, TEXT }, { "0x1", 4, 1, { 0 }, TEXT },
           { "0;1", 4, 1, { 0 }, TEXT }, { " 2 ,\t1 ", 4, 2, { 2, 1 }, TEXT });
}

static void test_a_negative_number_ends_the_list(void **state) /* D044 */
{
    (void)state;
    EXPECT(NULL, { "0, 1, 2, -1, 3", 8, 3, { 0, 1, 2 }, NEGATIVE },
           { "-2,0", 8, 0, { 0 }, NEGATIVE });
}

static void test_a_repeated_number_hides_all(void **state) /* D045 */
{
    (void)state;
    EXPECT(NULL, { "0, 1, 2, 1", 8, 0, { 0 }, REPEATED }, { "1,01", 8, 0, { 0 }, REPEATED },
           { "0,-0", 8, 0, { 0 }, REPEATED });
}

static void test_signs(void **state) /* D046, D048 */
{
    (void)state;
    EXPECT(NULL, { "2, +3, -0, 5", 8, 4, { 2, 3, 0, 5 }, TEXT }, { "+", 8, 0, { 0 }, GARBAGE },
           { "1,-,2", 8, 1, { 1 }, GARBAGE }, { "+-1", 8, 0, { 0 }, GARBAGE });
}

static void test_garbage_ends_the_list(void **state) /* D047 */
{
    (void)state;
    EXPECT(NULL, { "one,two,3,4", 8, 0, { 0 }, GARBAGE },
           { "4,3,two,one", 8, 2, { 4, 3 }, GARBAGE }, { "0,1,", 8, 2, { 0, 1 }, GARBAGE },
           { "'0'", 8, 0, { 0 }, GARBAGE }, { "NoDevFiles", 8, 0, { 0 }, GARBAGE },
           { ",0", 8, 0, { 0 }, GARBAGE });
    core_visible_list list;
    core_visible_parse("4, tw\to ,1", &list);
    assert_int_equal(list.ended_by.length, 4);
    assert_memory_equal(list.ended_by.text, "tw\to", 4);
}

static void test_an_index_past_the_hardware_ends_the_list(void **state) /* D049 */
{
    (void)state;
    EXPECT(NULL, { "0,5,1", 2, 1, { 0 }, LARGE }, { "5,0", 2, 0, { 0 }, LARGE },
           { "1,99999999999999999999,0", 2, 1, { 1 }, LARGE },
           { "1,99999999999,88888888888", 2, 1, { 1 }, LARGE },
           { "1,99999999999,99999999999", 2, 0, { 0 }, REPEATED });
}

static void test_the_order_given_numbers_the_devices(void **state) /* D050 */
{
    (void)state;
    EXPECT(NULL, { "3,1", 4, 2, { 3, 1 }, TEXT }, { "2,0,1", 4, 3, { 2, 0, 1 }, TEXT });
}

static void test_uuids(void **state) /* D051, D052 */
{
    (void)state;
    EXPECT(uuids, { "GPU-bb11,GPU-aa11", 4, 2, { 2, 0 }, TEXT },
           { "GPU-bb11, GPU-aa11", 4, 1, { 2 }, GARBAGE }, { "GPU-b,GPU-c", 4, 2, { 2, 3 }, TEXT },
           { "GPU-b,1", 4, 1, { 2 }, GARBAGE }, { "GPU-aa", 4, 0, { 0 }, UNKNOWN },
           { "GPU-cc11,GPU-zz,GPU-bb11", 4, 1, { 3 }, UNKNOWN },
           { "GPU-bb11,GPU-bb11", 4, 0, { 0 }, REPEATED },
           { "GPU-bb11,GPU-bb", 4, 0, { 0 }, REPEATED }, { "0,GPU-bb11", 4, 1, { 0 }, GARBAGE },
           { "gpu-bb11", 4, 0, { 0 }, GARBAGE }, { " GPU-bb11", 4, 0, { 0 }, GARBAGE });
    EXPECT(NULL, { "GPU-bb11", 4, -1, { 0 }, TEXT }, { "GPU-b,GPU-b", 4, 0, { 0 }, REPEATED });
}

static void test_mig_is_the_drivers_business(void **state) /* D053 */
{
    (void)state;
    EXPECT(uuids, { "MIG-1,MIG-2", 4, -1, { 0 }, TEXT }, { "MIG-1,0", 4, -1, { 0 }, GARBAGE },
           { "MIG-1,MIG-1", 4, 0, { 0 }, REPEATED });
}

static void test_a_long_list_is_cut(void **state)
{
    (void)state;
    char text[1024] = "";
    for (int i = 0; i < 70; i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", i > 0 ? "," : "",
                       i);
    core_visible_list list;
    core_visible_parse(text, &list);
    assert_int_equal(list.count, CORE_VISIBLE_MOST);
    assert_int_equal(list.end, CORE_VISIBLE_END_TOO_MANY);
}

static void test_device_order(void **state) /* D057 */
{
    (void)state;
    assert_true(core_visible_by_bus("PCI_BUS_ID"));
    assert_false(core_visible_by_bus("FASTEST_FIRST"));
    assert_false(core_visible_by_bus("pci_bus_id"));
    assert_false(core_visible_by_bus(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unset_shows_all_up_to_64),
        cmocka_unit_test(test_empty_blank_and_minus_one_hide_all),
        cmocka_unit_test(test_leading_digits_count),
        cmocka_unit_test(test_a_negative_number_ends_the_list),
        cmocka_unit_test(test_a_repeated_number_hides_all),
        cmocka_unit_test(test_signs),
        cmocka_unit_test(test_garbage_ends_the_list),
        cmocka_unit_test(test_an_index_past_the_hardware_ends_the_list),
        cmocka_unit_test(test_the_order_given_numbers_the_devices),
        cmocka_unit_test(test_uuids),
        cmocka_unit_test(test_mig_is_the_drivers_business),
        cmocka_unit_test(test_a_long_list_is_cut),
        cmocka_unit_test(test_device_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
