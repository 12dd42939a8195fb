/* The loader: order, batches, memory, workers, reports, positions, progress. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data/order.h"
#include "tern/tern.h"
#include "tests/support/between.h"
#include "tests/support/files.h"
#include "tests/support/sanitizer.h"

enum { SAMPLES = 103, BATCH = 10 };

/* x[i] = i, y[i] = 2 i */
static tern_dataset *numbers(void)
{
    TERN_SCOPE;
    float x[SAMPLES];
    int64_t y[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        x[i] = (float)i;
        y[i] = 2 * i;
    }
    return tern_dataset_from_tensors(tern_from_data(x, TERN_SHAPE(SAMPLES, 1)),
                                     tern_from_data(y, TERN_SHAPE(SAMPLES), .dtype = TERN_I64));
}

static void assert_refused(const char *says)
{
    assert_non_null(strstr(tern_error_text(), says));
    tern_error_clear();
}

/* Appends what a loader gives to `seen`; returns how many samples that were. */
static int64_t drain(tern_loader *loader, int64_t *seen)
{
    int64_t count = 0;
    tern_batch b;
    while (tern_loader_next(loader, &b)) {
        const float *x = tern_data(b.x);
        const int64_t *y = tern_data(b.y);
        for (int64_t i = 0; i < b.size; i++) {
            assert_int_equal(y[i], 2 * (int64_t)x[i]);
            seen[count++] = (int64_t)x[i];
        }
    }
    assert_false(tern_failed());
    return count;
}

static void test_order_is_a_permutation_of_its_key(void **state)
{
    (void)state;
    int64_t a[SAMPLES], b[SAMPLES];
    bool seen[SAMPLES] = { false };
    data_order_shuffle(a, SAMPLES, 1, 2);
    data_order_shuffle(b, SAMPLES, 1, 2);
    assert_memory_equal(a, b, sizeof a);
    for (int i = 0; i < SAMPLES; i++)
        seen[a[i]] = true;
    for (int i = 0; i < SAMPLES; i++)
        assert_true(seen[i]);
    data_order_shuffle(b, SAMPLES, 1, 3);
    assert_memory_not_equal(a, b, sizeof a);
    data_order_shuffle(b, SAMPLES, 2, 2);
    assert_memory_not_equal(a, b, sizeof a);
}

/* Each of the six orders of three comes about equally often. */
static void test_order_is_uniform(void **state)
{
    (void)state;
    int seen[27] = { 0 };
    for (uint64_t call = 0; call < 6000; call++) {
        int64_t order[3];
        data_order_shuffle(order, 3, 9, call);
        seen[order[0] * 9 + order[1] * 3 + order[2]]++;
    }
    int orders = 0;
    for (int i = 0; i < 27; i++) {
        orders += seen[i] > 0;
        if (seen[i] > 0)
            assert_between(seen[i], 880, 1120);
    }
    assert_int_equal(orders, 6);
}

static void test_batches_come_in_order_and_the_last_is_short(void **state)
{
    (void)state;
    tern_dataset *dataset = numbers();
    tern_loader *loader = tern_loader_open(dataset, .batch = BATCH);
    assert_int_equal(tern_loader_steps(loader), 11);
    tern_batch b;
    int64_t index = 0;
    for (; tern_loader_next(loader, &b); index++) {
        assert_int_equal(b.index, index);
        assert_int_equal(b.size, index < 10 ? BATCH : 3);
        assert_int_equal(tern_size(b.x, 0), b.size);
        assert_true(((float *)tern_data(b.x))[0] == (float)(index * BATCH));
    }
    assert_int_equal(index, 11);
    assert_false(tern_loader_next(loader, &b));
    assert_null(b.x);
    assert_int_equal(tern_loader_samples(loader), SAMPLES);
    tern_loader_close(loader);
    tern_dataset_free(dataset);
}

static void test_drop_last_and_epoch_steps_end_early(void **state)
{
    (void)state;
    int64_t seen[SAMPLES];
    tern_dataset *dataset = numbers();
    tern_loader *loader = tern_loader_open(dataset, .batch = BATCH, .drop_last = true);
    assert_int_equal(drain(loader, seen), 100);
    tern_loader_close(loader);
    loader = tern_loader_open(dataset, .batch = BATCH, .epoch_steps = 3);
    assert_int_equal(drain(loader, seen), 30);
    tern_loader_close(loader);
    tern_dataset_free(dataset);
}

static void test_shuffled_pass_gives_every_sample_once(void **state)
{
    (void)state;
    int64_t seen[SAMPLES], counts[SAMPLES] = { 0 };
    tern_dataset *dataset = numbers();
    tern_loader *loader = tern_loader_open(dataset, .batch = BATCH, .shuffle = true);
    assert_int_equal(drain(loader, seen), SAMPLES);
    int moved = 0;
    for (int i = 0; i < SAMPLES; i++) {
        counts[seen[i]]++;
        moved += seen[i] != i;
    }
    for (int i = 0; i < SAMPLES; i++)
        assert_int_equal(counts[i], 1);
    assert_true(moved > SAMPLES / 2);
    tern_loader_close(loader);
    tern_dataset_free(dataset);
}

static void test_order_repeats_whatever_the_workers(void **state)
{
    (void)state;
    int64_t plain[SAMPLES], ahead[SAMPLES];
    tern_dataset *dataset = numbers();
    tern_loader *loader = tern_loader_open(dataset, .batch = 7, .shuffle = true, .seed = 5);
    drain(loader, plain);
    tern_loader_close(loader);
    for (int workers = 1; workers <= 5; workers += 2) {
        loader =
            tern_loader_open(dataset, .batch = 7, .shuffle = true, .seed = 5, .workers = workers);
        assert_int_equal(drain(loader, ahead), SAMPLES);
        assert_memory_equal(plain, ahead, sizeof plain);
        tern_loader_close(loader);
    }
    tern_dataset_free(dataset);
}

static void test_epochs_differ_and_repeat_by_the_generator(void **state)
{
    (void)state;
    int64_t first[SAMPLES], second[SAMPLES], again[SAMPLES];
    tern_dataset *dataset = numbers();
    int64_t *passes[] = { first, second, again };
    tern_seed(3);
    for (int i = 0; i < 3; i++) {
        if (i == 2)
            tern_seed(3);
        tern_loader *loader = tern_loader_open(dataset, .batch = 7, .shuffle = true);
        drain(loader, passes[i]);
        tern_loader_close(loader);
    }
    assert_memory_not_equal(first, second, sizeof first);
    assert_memory_equal(first, again, sizeof first);
    tern_dataset_free(dataset);
}

static void test_workers_may_be_left_in_the_middle(void **state)
{
    (void)state;
    tern_dataset *dataset = numbers();
    tern_loader *loader = tern_loader_open(dataset, .batch = 2, .workers = 3);
    tern_batch b;
    assert_true(tern_loader_next(loader, &b));
    tern_loader_close(loader);
    loader = tern_loader_open(dataset, .batch = 2, .workers = 3);
    tern_loader_close(loader); /* not even begun */
    tern_dataset_free(dataset);
}

/* The status of a child that drains what is left of the pass, and closes it. */
static int drain_in_a_child(tern_loader *loader, const int64_t *expected, int64_t count)
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        int64_t seen[SAMPLES];
        (void)alarm(20);
        const bool same = drain(loader, seen) == count &&
                          memcmp(seen, expected, (size_t)count * sizeof *seen) == 0;
        tern_loader_close(loader);
        _exit(same ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* Workers are threads of the parent, and a fork finds them anywhere: in one of 60 with a lock that the child wants. */
static void test_a_child_goes_on_in_a_pass_with_workers(void **state)
{
    (void)state;
    NEED_MALLOC_THAT_FORKS();
    int64_t plain[SAMPLES], rest[SAMPLES];
    tern_dataset *dataset = numbers();
    tern_loader *loader = tern_loader_open(dataset, .batch = 7, .shuffle = true, .seed = 5);
    drain(loader, plain);
    tern_loader_close(loader);
    for (int round = 0; round < 100; round++) {
        loader = tern_loader_open(dataset, .batch = 7, .shuffle = true, .seed = 5, .workers = 3);
        tern_batch b;
        for (int i = 0; i < 4; i++)
            assert_true(tern_loader_next(loader, &b));
        assert_int_equal(drain_in_a_child(loader, plain + 28, SAMPLES - 28), 0);
        assert_int_equal(drain(loader, rest), SAMPLES - 28);
        assert_memory_equal(rest, plain + 28, (SAMPLES - 28) * sizeof *rest);
        tern_loader_close(loader);
    }
    tern_dataset_free(dataset);
}

/* ---- memory ---- */

static void test_batch_memory_is_used_again(void **state)
{
    (void)state;
    tern_dataset *dataset = numbers();
    tern_loader *loader = tern_loader_open(dataset, .batch = BATCH);
    tern_batch b;
    assert_true(tern_loader_next(loader, &b));
    const void *first = tern_data(b.x);
    for (int i = 0; i < 5; i++) {
        assert_true(tern_loader_next(loader, &b));
        assert_ptr_equal(tern_data(b.x), first);
    }
    tern_loader_close(loader);
    tern_dataset_free(dataset);
}

static void test_retained_batch_keeps_its_memory(void **state)
{
    (void)state;
    tern_dataset *dataset = numbers();
    tern_loader *loader = tern_loader_open(dataset, .batch = BATCH);
    tern_batch b;
    assert_true(tern_loader_next(loader, &b));
    tern_tensor *kept = tern_retain(b.x);
    assert_true(tern_loader_next(loader, &b));
    assert_ptr_not_equal(tern_data(b.x), tern_data(kept));
    while (tern_loader_next(loader, &b))
        ;
    tern_loader_close(loader);
    tern_dataset_free(dataset);
    assert_true(((float *)tern_data(kept))[9] == 9.0F);
    tern_release(kept);
}

static void test_nothing_is_left_behind(void **state)
{
    (void)state;
    const int64_t live = tern_live_tensors();
    {
        TERN_SCOPE;
        tern_dataset *dataset = numbers();
        tern_loader *loader = tern_loader_open(dataset, .batch = BATCH, .workers = 1);
        tern_batch b;
        assert_true(tern_loader_next(loader, &b));
        tern_dataset_free(dataset); /* the loader keeps it */
        assert_true(tern_loader_next(loader, &b));
        tern_loader_close(loader);
    }
    assert_int_equal(tern_live_tensors(), live);
}

static bool give_nothing(void *user, int64_t index, void *x, void *y)
{
    (void)user, (void)index, (void)x, (void)y;
    return false;
}

static void test_bad_options_are_refused(void **state)
{
    (void)state;
    tern_dataset *dataset = numbers();
    assert_null(tern_loader_open(dataset, .batch = -1));
    assert_non_null(strstr(tern_error_text(), "batch is -1"));
    tern_error_clear();
    assert_null(tern_loader_open(dataset, .workers = -1));
    assert_non_null(strstr(tern_error_text(), "workers is -1"));
    tern_error_clear();
    assert_null(tern_loader_open(NULL));
    assert_non_null(strstr(tern_error_text(), "dataset is missing"));
    assert_non_null(strstr(tern_error_text(), "test_data_loader.c:"));
    tern_error_clear();
    assert_null(tern_loader_open(dataset, .batch = INT64_MAX / 2 + 1, .epoch_steps = -1));
    tern_error_clear();
    tern_dataset_free(dataset);
    /* bytes of its order are more than a size_t counts, and would be few in it */
    dataset = tern_dataset_from_tensors(tern_zeros(TERN_SHAPE((1ll << 61) + 2, 0)), NULL);
    assert_non_null(dataset);
    assert_null(tern_loader_open(dataset, .batch = 2, .shuffle = true));
    assert_int_equal(tern_error_code(), TERN_ERR_OOM);
    assert_refused("loader_open: no memory for the order of 2305843009213693954 samples");
    tern_dataset_free(dataset);
    dataset = tern_dataset_from_callback(INT64_MAX, give_nothing, TERN_SHAPE(3));
    assert_null(tern_loader_open(dataset, .batch = INT64_MAX));
    assert_int_equal(tern_error_code(), TERN_ERR_OOM);
    assert_refused("loader_open: no memory for a batch of 9223372036854775807 samples");
    tern_dataset_free(dataset);
}

static void test_pending_error_ends_the_loop(void **state)
{
    (void)state;
    tern_dataset *dataset = numbers();
    tern_loader *loader = tern_loader_open(dataset, .batch = BATCH);
    tern_batch b;
    assert_true(tern_loader_next(loader, &b));
    tern_fail(TERN_ERR_STATE, "test", "made up");
    assert_false(tern_loader_next(loader, &b));
    tern_error_clear();
    assert_true(tern_loader_next(loader, &b));
    tern_loader_close(loader);
    tern_dataset_free(dataset);
}

static void test_nothing_to_fill_or_to_seek(void **state)
{
    (void)state;
    tern_dataset *dataset = numbers();
    tern_loader *loader = tern_loader_open(dataset, .batch = 2);
    tern_state *saved = tern_state_create();
    assert_false(tern_loader_next(loader, NULL));
    assert_refused("loader_next: the batch to fill is NULL");
    assert_int_equal(tern_loader_seek(loader, NULL), TERN_ERR_ARGUMENT);
    assert_refused("loader_seek: the position is NULL");
    assert_int_equal(tern_position_store(NULL, saved, "loader"), TERN_ERR_ARGUMENT);
    assert_refused("position_store: the position is NULL");
    assert_int_equal(tern_position_restore(NULL, saved, "loader"), TERN_ERR_ARGUMENT);
    assert_refused("position_restore: the position is NULL");
    tern_state_free(saved);
    tern_loader_close(loader);
    tern_dataset_free(dataset);
}

/* ---- reports and positions ---- */

static void test_reports_are_means_by_name(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_dataset *dataset = numbers();
    tern_loader *loader = tern_loader_open(dataset, .batch = BATCH);
    assert_true(isnan(tern_loader_mean(loader, "loss")));
    for (int i = 1; i <= 4; i++) {
        tern_loader_report(loader, "loss", tern_full(i, TERN_SCALAR_SHAPE));
        tern_loader_report(loader, "norm", tern_full(10 * i, TERN_SHAPE(1)));
    }
    assert_true(tern_loader_mean(loader, "loss") == 2.5);
    assert_true(tern_loader_mean(loader, "norm") == 25);
    tern_loader_report(loader, "c", tern_full(-(double)NAN, TERN_SCALAR_SHAPE));
    const double lost = tern_loader_mean(loader, "c");
    assert_true(isnan(lost) && !signbit(lost)); /* printf shows a sign */
    tern_loader_report(loader, "", tern_ones(TERN_SCALAR_SHAPE));
    assert_non_null(strstr(tern_error_text(), "a name has 1 to"));
    tern_error_clear();
    tern_loader_report(loader, "none", NULL);
    assert_non_null(strstr(tern_error_text(), "'none' is NULL, not one number"));
    tern_error_clear();
    tern_loader_report(loader, "many", tern_zeros(TERN_SHAPE(2)));
    assert_non_null(strstr(tern_error_text(), "'many' is a tensor of several elements"));
    tern_error_clear();
    tern_loader_report(loader, "\xff", tern_ones(TERN_SCALAR_SHAPE)); /* no file would take it */
    assert_int_equal(tern_error_code(), TERN_ERR_ARGUMENT);
    assert_refused("loader_report: the name '\xff' is not UTF-8");
    tern_tensor *one = tern_ones(TERN_SCALAR_SHAPE);
    tern_loader_report(loader, "c", one);
    tern_loader_report(loader, "d", one);
    tern_loader_report(loader, "e", one);
    assert_non_null(strstr(tern_error_text(), "'e' is one name too many"));
    tern_error_clear();
    tern_loader_close(loader);
    tern_dataset_free(dataset);
}

static void report_first(tern_loader *loader, const tern_batch *b)
{
    TERN_SCOPE;
    tern_loader_report(loader, "loss", tern_div(tern_mean(b->x), 3.0));
}

static void test_seek_goes_on_bit_for_bit(void **state)
{
    (void)state;
    tern_dataset *dataset = numbers();
    int64_t whole[SAMPLES], rest[SAMPLES];
    tern_position_t position = { .step = 0 };
    tern_batch b;
    tern_loader *loader = tern_loader_open(dataset, .batch = BATCH, .shuffle = true, .seed = 8);
    int64_t count = 0;
    while (tern_loader_next(loader, &b)) {
        report_first(loader, &b);
        for (int64_t i = 0; i < b.size; i++)
            whole[count++] = (int64_t)((float *)tern_data(b.x))[i];
        if (b.index == 3)
            position = tern_loader_position(loader);
    }
    const double mean = tern_loader_mean(loader, "loss");
    tern_loader_close(loader);
    tern_state *saved = tern_state_create();
    tern_position_store(&position, saved, "loader");
    tern_position_t restored;
    assert_int_equal(tern_position_restore(&restored, saved, "loader"), TERN_OK);
    tern_state_free(saved);
    for (int workers = 0; workers < 3; workers++) {
        loader = tern_loader_open(dataset, .batch = BATCH, .shuffle = true, .workers = workers);
        assert_true(tern_loader_next(loader, &b));
        assert_int_equal(tern_loader_seek(loader, &restored), TERN_OK);
        count = 0;
        while (tern_loader_next(loader, &b)) {
            report_first(loader, &b);
            for (int64_t i = 0; i < b.size; i++)
                rest[count++] = (int64_t)((float *)tern_data(b.x))[i];
        }
        assert_int_equal(count, SAMPLES - 40);
        assert_memory_equal(rest, whole + 40, (size_t)count * sizeof *rest);
        assert_true(tern_loader_mean(loader, "loss") == mean);
        assert_int_equal(tern_loader_samples(loader), SAMPLES);
        tern_loader_close(loader);
    }
    tern_dataset_free(dataset);
}

/* Into a state that has another position, whose reports are none of this one's. */
static void test_position_is_stored_over_another(void **state)
{
    (void)state;
    const tern_position_t first = { .step = 3,
                                    .reports = { { "loss", 3, 3 }, { "accuracy", 1, 3 } } };
    const tern_position_t second = { .step = 4, .reports = { { "loss", 8, 4 } } };
    tern_position_t restored;
    tern_state *saved = tern_state_create();
    tern_position_store(&first, saved, "loader");
    tern_position_store(&second, saved, "loader");
    assert_int_equal(tern_position_restore(&restored, saved, "loader"), TERN_OK);
    assert_memory_equal(&restored, &second, sizeof second);
    tern_state_free(saved);
}

static void test_position_needs_no_prefix(void **state)
{
    (void)state;
    const tern_position_t position = { .step = 3, .reports = { { "loss", 8, 4 } } };
    const char *const prefixes[] = { NULL, "" };
    for (int i = 0; i < 2; i++) {
        tern_position_t restored;
        tern_state *saved = tern_state_create();
        assert_int_equal(tern_position_store(&position, saved, prefixes[i]), TERN_OK);
        assert_non_null(tern_state_get(saved, "step"));
        assert_non_null(tern_state_text(saved, "reports.0.name"));
        assert_int_equal(tern_position_restore(&restored, saved, prefixes[1 - i]), TERN_OK);
        assert_memory_equal(&restored, &position, sizeof position);
        tern_state_free(saved);
    }
}

/* One of a program's own making: what follows the name is not read with it. */
static void test_position_with_a_name_without_end_is_stored(void **state)
{
    (void)state;
    tern_position_t position = { .step = 3 }, restored;
    memset(position.reports[0].name, 'n', sizeof position.reports[0].name);
    memset(&position.reports[0].sum, 's', sizeof position.reports[0].sum);
    tern_state *saved = tern_state_create();
    assert_int_equal(tern_position_store(&position, saved, "loader"), TERN_OK);
    assert_string_equal(tern_state_text(saved, "loader.reports.0.name"), "nnnnnnnnnnnnnnnnnnnnnnn");
    assert_int_equal(tern_position_restore(&restored, saved, "loader"), TERN_OK);
    position.reports[0].name[0] = '\xff';
    assert_int_equal(tern_position_store(&position, saved, "loader"), TERN_ERR_ARGUMENT);
    assert_refused("position_store: the text of 'loader.reports.0.name' is not UTF-8");
    tern_state_free(saved);
}

static void refuse_position(tern_state *saved, const char *words)
{
    tern_position_t restored = { .step = 11 };
    assert_int_equal(tern_position_restore(&restored, saved, "loader"), TERN_ERR_FORMAT);
    assert_refused(words);
    assert_int_equal(restored.step, 11);
}

static void test_positions_that_no_loader_has_are_refused(void **state)
{
    (void)state;
    const tern_position_t position = { .step = 3, .reports = { { "loss", (double)NAN, 3 } } };
    const char *const counts[] = { "loader.step", "loader.samples", "loader.reports.0.count" };
    const double seconds[] = { -1, (double)NAN, (double)INFINITY, 1e300 };
    tern_state *saved = tern_state_create();
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        tern_position_store(&position, saved, "loader");
        tern_state_set_int(saved, counts[i], -1);
        refuse_position(saved, "is -1, not a count");
        tern_state_set_int(saved, counts[i], INT64_MAX);
        refuse_position(saved, "is 9223372036854775807, not a count");
    }
    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
        tern_position_store(&position, saved, "loader");
        tern_state_set_number(saved, "loader.seconds", seconds[i]);
        refuse_position(saved, "state: 'loader.seconds' is ");
    }
    tern_position_store(&position, saved, "loader");
    tern_state_set_text(saved, "loader.reports.0.name", "four and twenty letters!");
    refuse_position(saved, "state: 'loader.reports.0.name' is longer than 23 bytes");
    tern_state_free(saved);
    saved = tern_state_create();
    refuse_position(saved, "position_restore: state: 'loader.seed' is missing");
    tern_state_free(saved);
}

static void test_seek_refuses_other_passes(void **state)
{
    (void)state;
    tern_dataset *dataset = numbers();
    tern_loader *loader = tern_loader_open(dataset, .batch = BATCH);
    tern_position_t position = { .step = 12, .samples = 110 };
    assert_int_equal(tern_loader_seek(loader, &position), TERN_ERR_ARGUMENT);
    assert_non_null(strstr(tern_error_text(), "step 12 with 110 samples"));
    tern_error_clear();
    position = (tern_position_t){ .step = 1, .samples = INT64_MAX };
    assert_int_equal(tern_loader_seek(loader, &position), TERN_ERR_ARGUMENT);
    tern_error_clear();
    position = (tern_position_t){ .step = 3, .samples = 15 }; /* of batches of 5 */
    assert_int_equal(tern_loader_seek(loader, &position), TERN_ERR_ARGUMENT);
    assert_non_null(strstr(tern_error_text(), "step 3 with 15 samples is not in a pass of 11"));
    tern_error_clear();
    const double seconds[] = { -1, (double)NAN, (double)INFINITY, 1e300 };
    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
        position = (tern_position_t){ .step = 3, .samples = 30, .seconds = seconds[i] };
        assert_int_equal(tern_loader_seek(loader, &position), TERN_ERR_ARGUMENT);
        assert_refused("loader_seek: no pass takes ");
    }
    position = (tern_position_t){ .step = 11, .samples = SAMPLES }; /* at its end */
    assert_int_equal(tern_loader_seek(loader, &position), TERN_OK);
    tern_loader_close(loader);
    tern_dataset_free(dataset);
}

/* ---- progress ---- */

/* What a whole pass writes to stderr when it is no terminal. */
static void capture_progress(bool progress, bool quiet, char *text, size_t bytes)
{
    char path[2 * FILE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/stderr", file_folder());
    fflush(stderr);
    const int kept = dup(STDERR_FILENO);
    assert_non_null(freopen(path, "w", stderr));
    tern_dataset *dataset = numbers();
    tern_loader *loader = tern_loader_open(dataset, .batch = 1, .progress = progress,
                                           .quiet = quiet, .label = "epoch 2/3");
    tern_batch b;
    while (tern_loader_next(loader, &b)) {
        TERN_SCOPE;
        tern_loader_report(loader, "loss", tern_full(0.25, TERN_SCALAR_SHAPE));
    }
    tern_loader_close(loader);
    tern_dataset_free(dataset);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    FILE *stream = fopen(path, "r");
    assert_non_null(stream);
    text[fread(text, 1, bytes - 1, stream)] = '\0';
    fclose(stream);
}

static void test_progress_is_ten_lines_off_a_terminal(void **state)
{
    (void)state;
    char text[8192];
    capture_progress(true, false, text, sizeof text);
    int lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    assert_int_equal(lines, 10);
    assert_non_null(strstr(text, "epoch 2/3: 10%, step 11 of 103, loss 0.2500, "));
    assert_non_null(strstr(text, "epoch 2/3: 100%, step 103 of 103"));
    assert_non_null(strstr(text, " samples/s, "));
    assert_non_null(strstr(text, " s left\n"));
}

static void test_nothing_is_written_unasked(void **state)
{
    (void)state;
    char text[8192];
    capture_progress(false, false, text, sizeof text);
    assert_string_equal(text, "");
    capture_progress(true, true, text, sizeof text);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_is_a_permutation_of_its_key),
        cmocka_unit_test(test_order_is_uniform),
        cmocka_unit_test(test_batches_come_in_order_and_the_last_is_short),
        cmocka_unit_test(test_drop_last_and_epoch_steps_end_early),
        cmocka_unit_test(test_shuffled_pass_gives_every_sample_once),
        cmocka_unit_test(test_order_repeats_whatever_the_workers),
        cmocka_unit_test(test_epochs_differ_and_repeat_by_the_generator),
        cmocka_unit_test(test_workers_may_be_left_in_the_middle),
        cmocka_unit_test(test_a_child_goes_on_in_a_pass_with_workers),
        cmocka_unit_test(test_batch_memory_is_used_again),
        cmocka_unit_test(test_retained_batch_keeps_its_memory),
        cmocka_unit_test(test_nothing_is_left_behind),
        cmocka_unit_test(test_bad_options_are_refused),
        cmocka_unit_test(test_nothing_to_fill_or_to_seek),
        cmocka_unit_test(test_pending_error_ends_the_loop),
        cmocka_unit_test(test_reports_are_means_by_name),
        cmocka_unit_test(test_seek_goes_on_bit_for_bit),
        cmocka_unit_test(test_position_is_stored_over_another),
        cmocka_unit_test(test_position_with_a_name_without_end_is_stored),
        cmocka_unit_test(test_position_needs_no_prefix),
        cmocka_unit_test(test_positions_that_no_loader_has_are_refused),
        cmocka_unit_test(test_seek_refuses_other_passes),
        cmocka_unit_test(test_progress_is_ten_lines_off_a_terminal),
        cmocka_unit_test(test_nothing_is_written_unasked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
