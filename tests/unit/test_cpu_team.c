/* cpu_parallel hands out each element of a range once, however many threads it is asked for and gets. */
#include "backend_cpu/cpu.h"
#include "backend_cpu/crowd.h"
#include "tests/support/check.h"

enum { MOST = 1000 };

typedef struct counted {
    int64_t count, grain;
    int times[MOST];
    int ragged; /* ranges that begin or end within a grain */
} counted;

static void count_range(void *context, int64_t begin, int64_t end)
{
    counted *c = context;
    if (begin % c->grain != 0 || (end % c->grain != 0 && end != c->count))
        __atomic_fetch_add(&c->ragged, 1, __ATOMIC_RELAXED);
    for (int64_t i = begin; i < end; i++)
        __atomic_fetch_add(&c->times[i], 1, __ATOMIC_RELAXED);
}

static int wrong_counts(int threads, int64_t count, int64_t grain)
{
    counted c = { .count = count, .grain = grain };
    cpu_parallel(threads, count, grain, count_range, &c);
    int wrong = c.ragged;
    for (int64_t i = 0; i < count; i++)
        wrong += c.times[i] != 1;
    return wrong;
}

static int wrong_everywhere(void)
{
    static const int64_t counts[] = { 0, 1, 2, 3, 7, 8, 9, 31, 64, 65, 999, 1000 };
    static const int64_t grains[] = { 1, 2, 3, 16, 64, 2000 };
    static const int threads[] = { 1, 2, 3, 4, 7, 130 };
    int wrong = 0;
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++)
        for (size_t n = 0; n < sizeof counts / sizeof *counts; n++)
            for (size_t g = 0; g < sizeof grains / sizeof *grains; g++)
                wrong += wrong_counts(threads[t], counts[n], grains[g]);
    return wrong;
}

static void test_each_element_once(void **state)
{
    (void)state;
    cpu_crowd_here()->alone_until = 0;
    assert_int_equal(wrong_everywhere(), 0);
}

static void test_each_element_once_beside_others(void **state)
{
    (void)state;
    cpu_crowd_here()->alone_until = INT64_MAX;
    const int wrong = wrong_everywhere();
    cpu_crowd_here()->alone_until = 0;
    assert_int_equal(wrong, 0);
}

static void check_inside(void *context, int64_t begin, int64_t end)
{
    cpu_crowd_here()->alone_until = 0;
    for (int64_t i = begin; i < end; i++)
        __atomic_fetch_add((int *)context, wrong_everywhere(), __ATOMIC_RELAXED);
}

/* A team inside a team has one thread, whatever it asked for, as with OMP_THREAD_LIMIT or OMP_DYNAMIC. */
static void test_fewer_threads_than_asked_for(void **state)
{
    (void)state;
    int wrong = 0;
    cpu_crowd_here()->alone_until = 0;
    cpu_parallel(2, 2, 1, check_inside, &wrong);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_element_once),
        cmocka_unit_test(test_each_element_once_beside_others),
        cmocka_unit_test(test_fewer_threads_than_asked_for),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
