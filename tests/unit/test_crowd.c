/* When a crowded machine makes a thread work without a team (backend_cpu/crowd.h). */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend_cpu/crowd.h"

static const int64_t ms = 1000000;

/* A team at `at`, one thread of which worked 0.1 ms and waited before or after. */
static void team(cpu_crowd *crowd, int64_t at, int64_t waited)
{
    cpu_crowd_note(crowd, at, at + ms / 10 + waited, ms / 10);
}

static void test_balanced_teams_go_on(void **state)
{
    (void)state;
    cpu_crowd crowd = { 0 };
    for (int i = 0; i < 100; i++)
        team(&crowd, 1000 * ms + i * ms, ms / 10);
    assert_true(cpu_crowd_free(&crowd, 1100 * ms));
}

static void test_an_even_share_of_long_work_is_no_crowd(void **state)
{
    (void)state;
    cpu_crowd crowd = { 0 };
    cpu_crowd_note(&crowd, 1000 * ms, 1095 * ms, 50 * ms);
    assert_true(cpu_crowd_free(&crowd, 1095 * ms));
}

static void test_a_lost_time_slice_pauses_teams(void **state)
{
    (void)state;
    cpu_crowd crowd = { 0 };
    team(&crowd, 1000 * ms, 3 * ms);
    assert_false(cpu_crowd_free(&crowd, 1004 * ms));
    assert_true(cpu_crowd_free(&crowd, 1010 * ms));
}

/* With a crowd that stays, attempts get rare: one lost slice of 4 ms in more than 200 ms. */
static void test_pauses_grow_to_a_limit(void **state)
{
    (void)state;
    cpu_crowd crowd = { 0 };
    int64_t now = 1000 * ms;
    int64_t lost = 0;
    const int64_t end = now + 10000 * ms;
    while (now < end) {
        if (cpu_crowd_free(&crowd, now)) {
            team(&crowd, now, 4 * ms);
            now += 4 * ms;
            lost += 4 * ms;
        }
        now += ms / 2;
    }
    assert_true(lost < 500 * ms);
    assert_true(cpu_crowd_free(&crowd, now + 300 * ms));
}

static void test_a_good_time_forgives(void **state)
{
    (void)state;
    cpu_crowd crowd = { 0 };
    int64_t now = 1000 * ms;
    for (int i = 0; i < 7; i++) {
        team(&crowd, now, 4 * ms);
        now = crowd.alone_until;
    }
    assert_true(crowd.pause > 120 * ms);
    team(&crowd, now + 1000 * ms, 4 * ms);
    assert_true(crowd.pause < 10 * ms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_balanced_teams_go_on),
        cmocka_unit_test(test_an_even_share_of_long_work_is_no_crowd),
        cmocka_unit_test(test_a_lost_time_slice_pauses_teams),
        cmocka_unit_test(test_pauses_grow_to_a_limit),
        cmocka_unit_test(test_a_good_time_forgives),
    };
    return cmocka_run_group_tests_name("crowd", tests, NULL, NULL);
}
