/* The CPU's lists and caching allocator under a limit of 1 MiB (TERN_CPU_CACHE). */
#include <pthread.h>
#include <stdlib.h>

#include "core/pool.h"
#include "tests/support/check.h"

static int64_t reserved(void)
{
    return tern_memory_stat(TERN_CPU, "reserved_bytes.all.current");
}

static void make_and_end(int64_t bytes)
{
    TERN_SCOPE;
    assert_non_null(tern_empty(TERN_SHAPE(bytes), .dtype = TERN_U8));
}

static void test_a_limit_holds(void **state)
{
    (void)state;
    {
        TERN_SCOPE; /* the pool's first slab */
        (void)tern_empty(TERN_SHAPE(1));
    }
    const int64_t before = reserved();
    make_and_end(4 << 20);
    assert_int_equal(reserved(), before);
#ifndef CORE_POOL_BYPASS
    make_and_end(512 << 10);
    assert_int_equal(reserved(), before + (2 << 20)); /* one small segment */
    const int64_t taken = tern_memory(TERN_CPU).system_alloc_count;
    make_and_end(512 << 10);
    assert_int_equal(tern_memory(TERN_CPU).system_alloc_count, taken);
    {
        TERN_SCOPE;
        for (int i = 0; i < 8; i++)
            (void)tern_empty(TERN_SHAPE(640 << 10), .dtype = TERN_U8);
    }
    assert_true(reserved() <= before + (2 << 20)); /* a list's block holds its segment */
#endif
    tern_empty_cache(TERN_CPU);
    assert_int_equal(reserved(), before);
}

static void *end_it(void *tensor)
{
    tern_release(tensor);
    return NULL;
}

static void test_blocks_of_other_threads_come_home_within_it(void **state)
{
    (void)state;
    const int64_t before = reserved();
    for (int i = 0; i < 8; i++) {
        tern_tensor *t;
        {
            TERN_SCOPE;
            t = tern_retain(tern_empty(TERN_SHAPE(600 << 10), .dtype = TERN_U8));
        }
        pthread_t other;
        assert_int_equal(pthread_create(&other, NULL, end_it, t), 0);
        assert_int_equal(pthread_join(other, NULL), 0);
    }
    tern_empty_cache(TERN_CPU);
    assert_int_equal(reserved(), before);
}

int main(void)
{
    (void)setenv("TERN_CPU_CACHE", "1", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_limit_holds),
        cmocka_unit_test(test_blocks_of_other_threads_come_home_within_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
