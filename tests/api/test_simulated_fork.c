/* A child of a fork whose parent uses a simulated device (D062): it goes on with the CPU, whatever other threads were
 * doing with the device's memory, calls on the parent's tensors end with an error, and the parent's memory
 * stays as it was. Each child says by its exit status at which line it failed. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/child.h"
#include "tests/support/sanitizer.h"

static const tern_dev_t dev = { TERN_KIND_CUDA, 0 };

/* ---- children --------------------------------------------------------------------------------- */

#define REQUIRE(condition)                                                                     \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            print_error("%s:%d: %s\n%s\n", __FILE__, __LINE__, #condition, tern_error_text()); \
            _exit(1);                                                                          \
        }                                                                                      \
    } while (0)

/* The pending error is that of a device that is the parent's; clears it. */
#define REQUIRE_LEFT(call)                                                  \
    do {                                                                    \
        (void)(call);                                                       \
        REQUIRE(tern_error_code() == TERN_ERR_STATE);                       \
        REQUIRE(strstr(tern_error_text(), "[forked-after-start]") != NULL); \
        tern_error_clear();                                                 \
    } while (0)

typedef struct inherited {
    tern_tensor *x, *pinned;
    tern_event *event;
    tern_stream_t stream;
    tern_memory_pool *pool;
} inherited;

/* What a program that had the device holds; nothing of it is in the thread's scope. */
static inherited make_inherited(void)
{
    inherited i = { .x = tern_retain(tern_full(3, TERN_SHAPE(4), .dtype = TERN_F32, .device = dev)),
                    .pinned = tern_retain(tern_pin(tern_ones(TERN_SHAPE(4)))),
                    .event = tern_event_create(),
                    .stream = tern_stream_from_pool(.device = dev),
                    .pool = tern_memory_pool_create(.device = dev) };
    assert_int_equal(tern_event_record(i.event, i.stream), TERN_OK);
    assert_int_equal(tern_dev_synchronize(dev), TERN_OK);
    assert_no_error();
    return i;
}

static void release_inherited(inherited *i)
{
    tern_release(i->x);
    tern_release(i->pinned);
    tern_event_release(i->event);
    tern_memory_pool_release(i->pool);
}

static void assert_as_before(const inherited *i)
{
    check_elements(i->x, (const float[]){ 3, 3, 3, 3 }, 4);
    check_elements(i->pinned, (const float[]){ 1, 1, 1, 1 }, 4);
    assert_no_error();
}

/* ---- beside a thread that has the memory's lock ------------------------------------------------- */

static void *take_and_give_back(void *user)
{
    while (!atomic_load((atomic_bool *)user)) {
        tern_drop(tern_empty(TERN_SHAPE(1000), .device = dev));
        (void)tern_memory(dev);
        tern_empty_cache(dev);
    }
    return NULL;
}

static void release_and_finish(void *context)
{
    const inherited *i = context;
    REQUIRE(tern_item(tern_sum(tern_ones(TERN_SHAPE(10)))) == 10);
    tern_empty_cache(dev);
    tern_empty_cache(TERN_ALL_DEVICES);
    REQUIRE(tern_memory(dev).reserved_bytes == 0);
    REQUIRE(tern_memory_fraction(dev) == 1 && tern_memory_pool_users(i->pool) == 0);
    tern_memory_reset_peak(dev);
    tern_clear_workspaces(dev);
    tern_log_set_level(TERN_LOG_ERROR); /* an error of a device brings the state of the memory */
    inherited mine = *i;
    release_inherited(&mine);
    REQUIRE(!tern_failed() && tern_finish() == 0);
}

static void test_a_child_goes_on_with_the_cpu(void **state)
{
    (void)state;
    NEED_MALLOC_THAT_FORKS();
    atomic_bool ended = false;
    bool good = true;
    pthread_t other;
    inherited i = make_inherited();
    assert_int_equal(pthread_create(&other, NULL, take_and_give_back, &ended), 0);
    for (int k = 0; k < 40 && good; k++)
        good = child_ends_well(release_and_finish, &i);
    atomic_store(&ended, true);
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_true(good);
    assert_as_before(&i);
    release_inherited(&i);
}

/* ---- what a child is told ------------------------------------------------------------------------ */

static void compute(void *context)
{
    const inherited *i = context;
    tern_tensor *here = tern_ones(TERN_SHAPE(4));
    REQUIRE_LEFT(tern_mul(i->x, 2));
    REQUIRE_LEFT(tern_add_(i->x, 1));
    REQUIRE_LEFT(tern_fill(i->x, 5));
    REQUIRE_LEFT(tern_sum(i->x));
    REQUIRE_LEFT(tern_cpu(i->x) == NULL);
    REQUIRE_LEFT(tern_copy(i->x, here));
    REQUIRE_LEFT(tern_copy(here, i->x));
    REQUIRE_LEFT(tern_pin(here));
    REQUIRE_LEFT(tern_ones(TERN_SHAPE(4), .device = dev));
    REQUIRE_LEFT(tern_memory_alloc(dev, 8, NULL));
    REQUIRE(tern_is_pinned(i->pinned) && tern_item(tern_sum(i->pinned)) == 4);
}

static void order(void *context)
{
    const inherited *i = context;
    REQUIRE_LEFT(tern_event_record(i->event, i->stream));
    REQUIRE_LEFT(tern_event_synchronize(i->event));
    REQUIRE_LEFT(tern_event_query(i->event));
    REQUIRE_LEFT(tern_stream_wait_event(i->stream, i->event));
    REQUIRE_LEFT(tern_stream_synchronize(i->stream));
    REQUIRE_LEFT(tern_set_stream(i->stream));
    REQUIRE_LEFT(tern_record_stream(i->x, i->stream));
    REQUIRE_LEFT(tern_dev_synchronize(dev));
    REQUIRE_LEFT(tern_memory_pool_begin(i->pool));
    REQUIRE(tern_memory_pool_end(i->pool) == TERN_OK);
}

static void test_calls_on_a_parents_tensor_fail(void **state)
{
    (void)state;
    inherited i = make_inherited();
    assert_true(child_ends_well(compute, &i));
    assert_true(child_ends_well(order, &i));
    assert_as_before(&i);
    release_inherited(&i);
}

/* ---- the parent's memory ------------------------------------------------------------------------- */

static void write_pinned(void *context)
{
    const inherited *i = context;
    (void)tern_fill(i->pinned, 7);
    REQUIRE(!tern_failed() && tern_item(tern_sum(i->pinned)) == 28);
    release_and_finish(context);
}

/* Work is queued at the fork: it runs in the parent alone. */
static void test_a_parents_memory_stays_as_it_was(void **state)
{
    (void)state;
    inherited i = make_inherited();
    assert_true(child_ends_well(write_pinned, &i));
    assert_as_before(&i);
    for (int k = 0; k < 5; k++)
        (void)tern_add_(i.x, 1);
    assert_true(child_ends_well(compute, &i));
    check_elements(i.x, (const float[]){ 8, 8, 8, 8 }, 4);
    release_inherited(&i);
}

int main(void)
{
    (void)setenv("TERN_SIM_DEVICES", "1", 1);
    (void)setenv("TERN_LOG_FILE", "/dev/null", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_child_goes_on_with_the_cpu),
        cmocka_unit_test(test_calls_on_a_parents_tensor_fail),
        cmocka_unit_test(test_a_parents_memory_stays_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
