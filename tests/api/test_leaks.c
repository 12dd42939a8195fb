/* Leak help: what lives by site, what grows with every step, and the warning at the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tern/tern.h>

#include "tests/support/between.h"

enum { TEXT = 4000, LIST = 256 };

/* The sum of a site's entries; a line is "test_leaks.c:NN" at its end. */
static tern_live_t live_at(int line)
{
    tern_live_t list[LIST], sum = { 0 };
    char end[32];
    snprintf(end, sizeof end, "test_leaks.c:%d", line);
    const int64_t count = tern_live_sites(list, LIST);
    assert_between(count, 0, LIST);
    for (int64_t i = 0; i < count; i++) {
        if (list[i].site == NULL || strstr(list[i].site, end) == NULL)
            continue;
        sum.tensors += list[i].tensors;
        sum.bytes += list[i].bytes;
        sum.parameters += list[i].parameters;
        sum.nodes += list[i].nodes;
    }
    return sum;
}

static void expect_live(int line, int64_t tensors, int64_t bytes)
{
    const tern_live_t live = live_at(line);
    if (live.tensors != tensors || live.bytes != bytes)
        fail_msg("line %d: %lld tensors of %lld bytes, not %lld of %lld", line,
                 (long long)live.tensors, (long long)live.bytes, (long long)tensors,
                 (long long)bytes);
}

static void test_tensors_are_counted_by_the_line_that_made_them(void **state)
{
    (void)state;
    int line = 0;
    {
        TERN_SCOPE;
        for (int i = 0; i < 1000; i++)
            (void)tern_zeros(TERN_SHAPE(25)), line = __LINE__;
        expect_live(line, 1000, 100000);
        tern_tensor *large = tern_zeros(TERN_SHAPE(1 << 20));
        const int other = __LINE__ - 1;
        expect_live(other, 1, 4 << 20);
        tern_drop(large);
        expect_live(other, 0, 0);
        expect_live(line, 1000, 100000);
    }
    expect_live(line, 0, 0);
}

static void test_the_greatest_comes_first_and_all_are_counted(void **state)
{
    (void)state;
    TERN_SCOPE;
    (void)tern_zeros(TERN_SHAPE(10));
    (void)tern_zeros(TERN_SHAPE(3000000));
    const int line = __LINE__ - 1;
    char end[32];
    snprintf(end, sizeof end, "test_leaks.c:%d", line);
    tern_live_t first;
    assert_true(tern_live_sites(&first, 1) >= 2);
    assert_non_null(strstr(first.site, end));
    assert_true(tern_dev_equal(first.device, TERN_CPU));
    assert_int_equal(first.bytes, 12000000);
    assert_true(tern_live_sites(NULL, 0) >= 2);
}

static void test_shared_memory_counts_once_for_its_owner(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *t = tern_zeros(TERN_SHAPE(8, 100));
    const int owner = __LINE__ - 1;
    (void)tern_transpose(t, 0, 1);
    const int view = __LINE__ - 1;
    expect_live(owner, 1, 3200);
    expect_live(view, 1, 0);
    (void)tern_retain(t);
    expect_live(owner, 1, 3200); /* references are not tensors */
    tern_release(t);
}

static void test_graphs_are_counted_with_their_nodes(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *w = tern_ones(TERN_SHAPE(10), .requires_grad = true);
    const int leaf = __LINE__ - 1;
    tern_tensor *kept = NULL;
    int line = 0;
    {
        TERN_SCOPE;
        tern_tensor *t = w;
        for (int i = 0; i < 500; i++)
            t = tern_mul(t, w), line = __LINE__;
        kept = tern_keep(t);
    }
    assert_int_equal(live_at(leaf).parameters, 1);
    assert_int_equal(live_at(line).nodes, 500);
    assert_int_equal(live_at(line).tensors, 500); /* each but the last saved by the next */
    tern_drop(kept);
    assert_int_equal(live_at(line).nodes, 0);
    assert_int_equal(live_at(line).tensors, 0);
}

static void *make_elsewhere(void *out)
{
    const tern_new_args args = { .size_ = sizeof args, .shape = TERN_SHAPE(7) };
    *(tern_tensor **)out = tern_retain(tern_zeros_at("elsewhere:1", &args));
    return NULL;
}

static void test_a_tensor_of_another_thread_is_seen(void **state)
{
    (void)state;
    pthread_t thread;
    tern_tensor *t = NULL;
    assert_int_equal(pthread_create(&thread, NULL, make_elsewhere, &t), 0);
    pthread_join(thread, NULL);
    char text[TEXT];
    assert_non_null(strstr(tern_live_text(text, sizeof text), "elsewhere:1"));
    tern_release(t); /* goes home to a thread that has ended */
    assert_null(strstr(tern_live_text(text, sizeof text), "elsewhere:1"));
}

static atomic_bool training_ends;

static void *train(void *unused)
{
    while (!training_ends) {
        TERN_SCOPE;
        tern_tensor *x = tern_ones(TERN_SHAPE(4, 4), .requires_grad = true), *y = x;
        for (int i = 0; i < 30; i++)
            y = tern_tanh(tern_add(tern_mul(y, x), tern_matmul(y, x)));
        tern_backward(tern_sum(y));
        for (int i = 0; i < 200; i++)
            tern_drop(tern_empty(TERN_SHAPE(200)));
    }
    return unused;
}

/* Storages and nodes that go and become something else were followed. */
static void test_others_may_train_while_tensors_are_counted(void **state)
{
    (void)state;
    enum { THREADS = 2, COUNTS = 30000 };
    pthread_t threads[THREADS];
    TERN_SCOPE;
    tern_tensor *w = tern_ones(TERN_SHAPE(10), .requires_grad = true);
    (void)tern_mul(w, w);
    const int line = __LINE__ - 1;
    training_ends = false;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, train, NULL), 0);
    for (int i = 0; i < COUNTS; i++)
        assert_true(tern_live_sites(NULL, 0) > 0);
    assert_int_equal(live_at(line).nodes, 1); /* the calling thread's own graph counts */
    training_ends = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void test_text_has_a_sum_and_a_line_per_site(void **state)
{
    (void)state;
    TERN_SCOPE;
    const tern_new_args args = { .size_ = sizeof args,
                                 .shape = TERN_SHAPE(1024, 1024),
                                 .requires_grad = true };
    (void)tern_zeros_at("model.c:7", &args);
    (void)tern_zeros_at("model.c:7", &args);
    char text[TEXT], small[40];
    tern_live_text(text, sizeof text);
    assert_memory_equal(text, "live: ", 6);
    assert_non_null(
        strstr(text, "    model.c:7                2 tensors, 8.0 MiB (2 of them parameters)\n"));
    tern_live_text(small, sizeof small);
    assert_memory_equal(small, text, sizeof small - 1);
    assert_int_equal(small[sizeof small - 1], '\0');
}

static void test_out_of_memory_on_the_cpu_names_who_holds_it(void **state)
{
    (void)state;
    TERN_SCOPE;
    const tern_new_args args = { .size_ = sizeof args, .shape = TERN_SHAPE(5000, 1000) };
    (void)tern_transpose(tern_zeros_at("holder.c:8", &args), 0, 1);
    assert_null(tern_empty(TERN_SHAPE(INT64_C(1) << 50)));
    assert_int_equal(tern_error_code(), TERN_ERR_OOM);
    assert_non_null(strstr(tern_error_text(), "19.07 MiB in 1 block made at holder.c:8\n"));
    tern_oom_info_t info;
    assert_true(tern_oom_info(&info));
    assert_true(info.site_count >= 1);
    assert_string_equal(info.sites[0].site, "holder.c:8");
    assert_int_equal(info.sites[0].bytes, 20000000);
    tern_error_clear();
    assert_non_null(tern_empty(TERN_SHAPE(100))); /* and the next one succeeds */
}

/* ---- growth ---- */

static tern_tensor *kept[64];
static int kept_count;

static void keep(tern_tensor *t)
{
    kept[kept_count++] = tern_retain(t);
}

static void let_go(void)
{
    while (kept_count > 0)
        tern_release(kept[--kept_count]);
}

static const char *watch(void (*step)(int i), int steps, char text[TEXT])
{
    tern_growth *growth = tern_growth_begin();
    assert_non_null(growth);
    for (int i = 0; i < steps; i++) {
        step(i);
        assert_int_equal(tern_growth_mark(growth), TERN_OK);
    }
    tern_growth_text(growth, text, TEXT);
    tern_growth_end(growth);
    return text;
}

static void step_that_keeps(int i)
{
    (void)i;
    TERN_SCOPE;
    keep(tern_zeros(TERN_SHAPE(256)));
}

static void step_that_warms_up(int i)
{
    TERN_SCOPE;
    (void)tern_zeros(TERN_SHAPE(256));
    if (i < 2)
        keep(tern_zeros(TERN_SHAPE(100))); /* what an optimizer makes at first */
}

static void step_with_a_ring(int i)
{
    static tern_tensor *ring[3];
    TERN_SCOPE;
    if (ring[i % 3] != NULL)
        tern_release(ring[i % 3]);
    ring[i % 3] = tern_retain(tern_zeros(TERN_SHAPE(256)));
    if (i == 19)
        for (int k = 0; k < 3; k++)
            tern_release(ring[k]);
}

static void step_that_concatenates(int i)
{
    TERN_SCOPE;
    tern_tensor *more = tern_zeros(TERN_SHAPE(i + 1, 256));
    if (kept_count > 0)
        tern_release(kept[--kept_count]);
    keep(more);
}

static void test_what_a_step_keeps_grows(void **state)
{
    (void)state;
    char text[TEXT];
    watch(step_that_keeps, 5, text);
    assert_non_null(strstr(text, "every step leaves more behind: 1 tensor, 1.0 KiB\n"));
    assert_non_null(strstr(text, "test_leaks.c:"));
    assert_non_null(
        strstr(text, "a tern_retain without its tern_release, for a tern_state that gets"));
    let_go();
}

static void test_one_tensor_that_gets_larger_grows(void **state)
{
    (void)state;
    char text[TEXT];
    watch(step_that_concatenates, 5, text);
    assert_non_null(strstr(text, "every step leaves more behind: 1.0 KiB\n"));
    let_go();
}

static void test_warming_up_and_rings_do_not_grow(void **state)
{
    (void)state;
    char text[TEXT];
    assert_string_equal(watch(step_that_warms_up, 6, text), "nothing grows in 6 steps\n");
    let_go();
    assert_string_equal(watch(step_with_a_ring, 20, text), "nothing grows in 20 steps\n");
}

static void test_report_gives_numbers(void **state)
{
    (void)state;
    tern_growth *growth = tern_growth_begin();
    tern_growth_t sites[4];
    for (int i = 0; i < 4; i++) {
        if (i < 3)
            assert_int_equal(tern_growth_report(growth, sites, 4), 0); /* too early to say */
        TERN_SCOPE;
        keep(tern_zeros(TERN_SHAPE(2, 256)));
        keep(tern_zeros(TERN_SHAPE(256)));
        tern_growth_mark(growth);
    }
    assert_int_equal(tern_growth_report(growth, sites, 4), 2);
    assert_true(sites[0].bytes == 2048 && sites[0].tensors == 1 && sites[0].parameters == 0);
    assert_int_equal(sites[0].now.tensors, 4);
    assert_true(sites[1].bytes == 1024);
    memset(sites, 0, sizeof sites);
    assert_int_equal(tern_growth_report(growth, sites, 1), 2);
    assert_true(sites[0].bytes == 2048 && sites[1].bytes == 0);
    assert_int_equal(tern_growth_report(growth, NULL, 0), 2);
    tern_growth_end(growth);
    let_go();
}

static void test_fewer_than_three_marks_say_nothing(void **state)
{
    (void)state;
    char text[TEXT];
    assert_string_equal(watch(step_that_keeps, 2, text),
                        "growth: three marks at least are needed\n");
    let_go();
    assert_int_equal(tern_growth_mark(NULL), TERN_OK);
    assert_int_equal(tern_growth_report(NULL, NULL, 0), 0);
    tern_growth_end(NULL);
}

/* ---- the end ---- */

static char logged[TEXT];

static void take_log(tern_log_level_t level, tern_site_t site, const char *text, void *user)
{
    (void)site;
    (void)user;
    if (level == TERN_LOG_WARNING && strstr(text, "retained at the end") != NULL)
        snprintf(logged, sizeof logged, "%s", text);
}

static void test_finish_logs_what_is_still_retained(void **state)
{
    (void)state;
    const tern_new_args args = { .size_ = sizeof args, .shape = TERN_SHAPE(256) };
    tern_tensor *t = tern_retain(tern_zeros_at("forgotten.c:3", &args));
    tern_log_set_callback(take_log, NULL);
    assert_int_equal(tern_finish(), 0);
    assert_memory_equal(logged, "1 tensor is still retained at the end\n", 38);
    assert_non_null(strstr(logged, "    forgotten.c:3            1 tensor, 1.0 KiB\n"));
    logged[0] = '\0';
    tern_release(t);
    assert_int_equal(tern_finish(), 0);
    assert_string_equal(logged, "");
    tern_log_set_callback(NULL, NULL);
}

/* ---- the examples ---- */

static const char *run_example(const char *name, char text[TEXT])
{
    const char *folder = getenv("TERN_TEST_EXAMPLES");
    char command[2000];
    if (folder == NULL) {
        print_message("skipped: TERN_TEST_EXAMPLES does not say where the examples are\n");
        skip();
    }
    snprintf(command, sizeof command, "'%s/%s'", folder, name);
    FILE *stream = popen(command, "r");
    assert_non_null(stream);
    text[fread(text, 1, TEXT - 1, stream)] = '\0';
    assert_int_equal(pclose(stream), 0);
    return text;
}

static void expect(const char *text, const char *words)
{
    if (strstr(text, words) == NULL)
        fail_msg("'%s' is not in:\n%s", words, text);
}

static void test_a_model_made_in_the_loop_is_found(void **state)
{
    (void)state;
    char text[TEXT];
    run_example("leak_module", text);
    expect(text, "made in the loop: every step leaves more behind: 4 tensors, 33.0 KiB\n");
    expect(text, "leak_module.c:10 ");
    expect(text, "make the module once, before the loop");
    expect(text, "made before the loop: nothing grows in 6 steps\n");
}

static void test_a_loss_kept_with_its_graph_is_found(void **state)
{
    (void)state;
    char text[TEXT];
    run_example("leak_loss", text);
    expect(text, "a tensor as sum: every step leaves more behind: 4 tensors, 7 graph nodes");
    expect(text, "leak_loss.c:15 ");
    expect(text, "holds the graph that made it: keep tern_item(t)");
    expect(text, "a number as sum: nothing grows in 6 steps\n");
}

/* ---- debug builds ------------------------------------------------------------------------------- */

typedef struct told {
    int warnings;
    bool names_line;
    int line;
} told;

static void listen(tern_log_level_t level, tern_site_t site, const char *text, void *user)
{
    told *t = user;
    char end[32];
    snprintf(end, sizeof end, "test_leaks.c:%d", t->line);
    if (level != TERN_LOG_WARNING || strstr(text, "a loop without TERN_SCOPE") == NULL)
        return;
    t->warnings++;
    t->names_line = site != NULL && strstr(site, end) != NULL;
}

static void test_a_loop_without_a_scope_is_told_of_in_debug_builds(void **state)
{
    (void)state;
    told t = { 0 };
    TERN_SCOPE;
    tern_tensor *x = tern_zeros(TERN_SHAPE(2));
    tern_log_set_callback(listen, &t);
    t.line = __LINE__ + 2;
    for (int i = 0; i < 150000; i++)
        (void)tern_detach(x);
    tern_log_set_callback(NULL, NULL);
#ifdef NDEBUG
    assert_int_equal(t.warnings, 0);
#else
    assert_int_equal(t.warnings, 1);
    assert_true(t.names_line);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* first: a walk is quick while there are few slabs */
        cmocka_unit_test(test_others_may_train_while_tensors_are_counted),
        cmocka_unit_test(test_a_loop_without_a_scope_is_told_of_in_debug_builds),
        cmocka_unit_test(test_tensors_are_counted_by_the_line_that_made_them),
        cmocka_unit_test(test_the_greatest_comes_first_and_all_are_counted),
        cmocka_unit_test(test_shared_memory_counts_once_for_its_owner),
        cmocka_unit_test(test_graphs_are_counted_with_their_nodes),
        cmocka_unit_test(test_a_tensor_of_another_thread_is_seen),
        cmocka_unit_test(test_text_has_a_sum_and_a_line_per_site),
        cmocka_unit_test(test_out_of_memory_on_the_cpu_names_who_holds_it),
        cmocka_unit_test(test_what_a_step_keeps_grows),
        cmocka_unit_test(test_one_tensor_that_gets_larger_grows),
        cmocka_unit_test(test_warming_up_and_rings_do_not_grow),
        cmocka_unit_test(test_report_gives_numbers),
        cmocka_unit_test(test_fewer_than_three_marks_say_nothing),
        cmocka_unit_test(test_finish_logs_what_is_still_retained),
        cmocka_unit_test(test_a_model_made_in_the_loop_is_found),
        cmocka_unit_test(test_a_loss_kept_with_its_graph_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
