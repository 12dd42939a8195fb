/* A child of a process whose threads are in the middle of taking and giving back CPU memory. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/check.h"

static const int64_t mib = 1 << 20;

static tern_tensor *bytes_of(int64_t bytes)
{
    return tern_empty(TERN_SHAPE(bytes), .dtype = TERN_U8);
}

static void *work_until(void *user)
{
    while (!atomic_load((atomic_bool *)user)) {
        TERN_SCOPE;
        (void)bytes_of(40 * mib); /* the engine's locks, all the time */
        (void)bytes_of(700);
        tern_empty_cache(TERN_CPU);
    }
    return NULL;
}

static int child(void)
{
    {
        TERN_SCOPE;
        (void)bytes_of(50 * mib);
        (void)bytes_of(3000);
    }
    tern_empty_cache(TERN_CPU);
    return tern_failed() ? 1 : 0;
}

static void test_a_child_of_a_busy_process_goes_on(void **state)
{
    (void)state;
    atomic_bool ended = false;
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, work_until, &ended), 0);
    for (int i = 0; i < 20; i++) {
        const pid_t id = fork();
        if (id == 0) {
            (void)alarm(20);
            _exit(child());
        }
        int status = 0;
        assert_int_equal(waitpid(id, &status, 0), id);
        assert_int_equal(status, 0);
    }
    atomic_store(&ended, true);
    assert_int_equal(pthread_join(other, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_a_child_of_a_busy_process_goes_on) };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
