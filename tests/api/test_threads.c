/* Threads that use the library at once. What belongs to a thread (errors, modes, scopes, random state)
 * is its own; what they share (memory that another one frees, the list of plugins, the log, the JSON
 * parser) is safe. The thread sanitizer runs this file. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/check.h"
#include "tests/support/child.h"
#include "tests/support/files.h"
#include "tests/support/sanitizer.h"
#include "tests/support/second_backend.h"

enum { THREADS = 3, STEPS = 12 };

/* Runs `body` on THREADS threads at once; each gets its number. */
typedef struct team_member {
    void (*body)(int number, void *shared);
    void *shared;
    int number;
    pthread_barrier_t *start;
} team_member;

static void *run_member(void *argument)
{
    const team_member *member = argument;
    (void)pthread_barrier_wait(member->start);
    (void)check_device_ready(); /* the default device is each thread's own */
    member->body(member->number, member->shared);
    return NULL;
}

static void run_team(void (*body)(int number, void *shared), void *shared)
{
    pthread_t threads[THREADS];
    team_member members[THREADS];
    pthread_barrier_t start;
    assert_int_equal(pthread_barrier_init(&start, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++) {
        members[i] = (team_member){ body, shared, i, &start };
        assert_int_equal(pthread_create(&threads[i], NULL, run_member, &members[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    (void)pthread_barrier_destroy(&start);
}

/* ---- a thread ends -------------------------------------------------------------------------------- */

/* More than one thread's work. */
static void *sum_two_millions(void *out_sum)
{
    TERN_SCOPE;
    *(double *)out_sum =
        tern_item(tern_sum(tern_add(tern_ones(TERN_SHAPE(1000, 2000), .device = TERN_CPU), 1)));
    return NULL;
}

static void end_a_thread_without_files(void)
{
    enum { FILES = 64 };
    const struct rlimit few = { FILES, FILES };
    int taken[FILES], count = 0;
    double sum = 0;
    pthread_t thread;
    tern_set_num_threads(2);
    (void)sum_two_millions(&sum); /* OpenMP's runtime begins, which may open what it likes */
    EXPECT(setrlimit(RLIMIT_NOFILE, &few) == 0);
    while (count < FILES && (taken[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        count++;
    sum = 0;
    EXPECT(pthread_create(&thread, NULL, sum_two_millions, &sum) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    while (count > 0)
        (void)close(taken[--count]);
    EXPECT(sum == 4e6);
}

/* As it does, so do the threads of its team: glibc opens what it ends them with, and aborts where it cannot. */
static void test_a_thread_ends_where_no_file_can_be_opened(void **state)
{
    (void)state;
    assert_in_child(end_a_thread_without_files, .quiet = false);
}

/* ---- independent models ------------------------------------------------------------------------- */

typedef struct training {
    double losses[STEPS];
    bool failed;
} training;

static tern_module *make_net(int number)
{
    if (number == 0)
        return tern_sequential(tern_flatten_layer(), tern_linear_layer(64, 32), tern_relu_layer(),
                               tern_dropout_layer(0.3), tern_linear_layer(32, 4));
    if (number == 1)
        return tern_sequential(tern_conv2d_layer(1, 4, 3, .padding = 1), tern_batch_norm2d_layer(4),
                               tern_relu_layer(), tern_max_pool2d_layer(2), tern_flatten_layer(),
                               tern_linear_layer(64, 4));
    return tern_sequential(tern_flatten_layer(), tern_layer_norm_layer(64),
                           tern_linear_layer(64, 16), tern_gelu_layer(), tern_linear_layer(16, 4));
}

/* Trains the model of that number from a seed of its own, out of a loader of its own. */
static void train(int number, void *shared)
{
    training *all = shared, *mine = &all[number];
    tern_seed(100 + (uint64_t)number);
    TERN_SCOPE;
    tern_module *net = make_net(number);
    tern_optimizer *opt = tern_adam(tern_parameters(net), 1e-2);
    tern_tensor *x = tern_randn(TERN_SHAPE(96, 1, 8, 8));
    tern_tensor *y = tern_argmax(tern_randn(TERN_SHAPE(96, 4)), 1);
    tern_dataset *data = tern_dataset_from_tensors(x, y);
    tern_loader *batches = tern_loader_open(data, 8, true, .workers = number);
    tern_batch b;
    for (int i = 0; i < STEPS && tern_loader_next(batches, &b); i++) {
        TERN_SCOPE;
        tern_tensor *loss = tern_cross_entropy(tern_forward(net, b.x), b.y);
        tern_backward(loss);
        tern_step(opt);
        tern_zero_grad(opt);
        mine->losses[i] = tern_item(loss);
    }
    tern_loader_close(batches);
    mine->failed = tern_failed();
    tern_optimizer_free(opt);
    tern_module_free(net);
    tern_dataset_free(data);
}

static void test_independent_models_train_as_if_alone(void **state)
{
    (void)state;
    static training alone[THREADS], together[THREADS];
    const int before = tern_num_threads();
    const bool repeats = tern_cudnn_deterministic();
    tern_cudnn_set_deterministic(true); /* on a GPU: losses are compared bit by bit */
    for (int threads = 1; threads <= 2; threads++) {
        tern_set_num_threads(threads);
        for (int i = 0; i < THREADS; i++)
            train(i, alone);
        run_team(train, together);
        for (int i = 0; i < THREADS; i++) {
            assert_false(alone[i].failed || together[i].failed);
            assert_true(alone[i].losses[STEPS - 1] > 0);
            assert_true(alone[i].losses[STEPS - 1] != alone[i].losses[0]);
            assert_memory_equal(alone[i].losses, together[i].losses, sizeof alone[i].losses);
        }
    }
    tern_cudnn_set_deterministic(repeats);
    tern_set_num_threads(before);
}

/* One sets the number, others compute with it. */
static void change_number_or_compute(int number, void *shared)
{
    atomic_int *wrong = shared;
    for (int i = 0; i < 100; i++) {
        TERN_SCOPE;
        if (number == 0)
            tern_set_num_threads(1 + i % 2);
        else
            atomic_fetch_add(wrong, tern_item(tern_sum(tern_ones(TERN_SHAPE(300, 300)))) != 90000);
        if (tern_num_threads() < 1 || tern_num_threads() > 2)
            atomic_fetch_add(wrong, 1);
    }
}

static void test_the_number_of_threads_may_change_while_others_compute(void **state)
{
    (void)state;
    atomic_int wrong = 0;
    const int before = tern_num_threads();
    tern_set_num_threads(2);
    run_team(change_number_or_compute, &wrong);
    tern_set_num_threads(before);
    assert_int_equal(atomic_load(&wrong), 0);
}

/* ---- what one thread makes and another frees ------------------------------------------------------- */

enum { HANDED = 64, ROUNDS = 20 };
typedef struct ring {
    _Atomic(tern_tensor *) slots[THREADS][HANDED];
    atomic_bool wrong;
} ring;

/* Fills the next thread's slots and empties its own: small tensors, large ones, graphs. */
static void hand_on(int number, void *shared)
{
    ring *r = shared;
    for (int round = 0; round < ROUNDS; round++) {
        TERN_SCOPE;
        for (int i = 0; i < HANDED; i++) {
            const int64_t n = i % 3 == 0 ? 4 : i % 3 == 1 ? 300 : 5000;
            tern_tensor *t = tern_full(number + 1, TERN_SHAPE(n), .requires_grad = i % 2 == 0);
            t = tern_retain(tern_mul(t, 2));
            t = atomic_exchange(&r->slots[(number + 1) % THREADS][i], t);
            tern_release(t); /* nobody had taken it */
            t = atomic_exchange(&r->slots[number][i], NULL);
            if (t != NULL && tern_item(tern_amax(t)) != 2 * ((number + THREADS - 1) % THREADS + 1))
                atomic_store(&r->wrong, true);
            tern_release(t);
        }
    }
}

static void test_memory_may_be_freed_by_another_thread(void **state)
{
    (void)state;
    static ring r;
    const int64_t live = tern_live_tensors();
    run_team(hand_on, &r);
    for (int k = 0; k < THREADS; k++)
        for (int i = 0; i < HANDED; i++)
            tern_release(atomic_load(&r.slots[k][i]));
    assert_false(atomic_load(&r.wrong));
    assert_int_equal(tern_live_tensors(), live);
}

/* ---- what belongs to a thread ---------------------------------------------------------------------- */

static void use_own_state(int number, void *shared)
{
    atomic_int *right = shared;
    tern_set_default_dtype(number == 0 ? TERN_F64 : TERN_F32);
    tern_set_grad_enabled(number != 1);
    for (int i = 0; i < 50; i++) {
        TERN_SCOPE;
        tern_tensor *x = tern_ones(TERN_SHAPE(2), .requires_grad = true);
        tern_tensor *y = tern_mul(x, x);
        const bool fine = tern_dtype(x) == (number == 0 ? TERN_F64 : TERN_F32) &&
                          tern_requires_grad(y) == (number != 1);
        const bool fails = number == 2;
        if (fails)
            tern_add(x, tern_ones(TERN_SHAPE(3)));
        atomic_fetch_add(right, fine && tern_failed() == fails);
        tern_error_clear();
    }
}

static void test_errors_and_modes_are_the_thread_s_own(void **state)
{
    (void)state;
    atomic_int right = 0;
    run_team(use_own_state, &right);
    assert_int_equal(atomic_load(&right), THREADS * 50);
    assert_false(tern_failed());
    assert_int_equal(tern_default_dtype(), TERN_F32);
}

static void *ask_a_product_for_its_gradient(void *shared)
{
    (void)shared;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(2), .requires_grad = true);
    (void)tern_grad_of(tern_mul(x, x));
    return NULL;
}

static void *use_null(void *out_said)
{
    (void)tern_add(tern_ones(TERN_SHAPE(2)), (tern_tensor *)NULL);
    *(bool *)out_said = strstr(tern_error_text(), "tern_grad_of has no gradient") != NULL;
    tern_error_clear();
    return NULL;
}

/* The state of an ended thread is the next one's. */
static void test_a_thread_hears_nothing_of_an_ended_one(void **state)
{
    (void)state;
    bool said = true;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, ask_a_product_for_its_gradient, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, use_null, &said), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(said);
}

static void leave_the_thread(void *user)
{
    (void)user;
    pthread_exit(NULL);
}

/* Ends amid the release of a graph: the memory that a node saved is the program's. */
static void *leave_in_a_release(void *buffer)
{
    tern_tensor *saved = tern_from_memory((float *)buffer, leave_the_thread, NULL, TERN_SHAPE(2));
    tern_tensor *x = tern_ones(TERN_SHAPE(2), .requires_grad = true, .device = TERN_CPU);
    tern_tensor *y = tern_mul(x, saved);
    tern_drop(saved);
    tern_drop(y);
    return NULL;
}

static void *make_graphs(void *out_left)
{
    const int64_t live = tern_live_tensors();
    for (int i = 0; i < 10; i++) {
        TERN_SCOPE;
        tern_tensor *x = tern_ones(TERN_SHAPE(2), .requires_grad = true);
        (void)tern_mul(x, tern_ones(TERN_SHAPE(2)));
    }
    *(int64_t *)out_left = tern_live_tensors() - live;
    return NULL;
}

static void test_a_thread_releases_graphs_after_one_that_ended_amid_a_release(void **state)
{
    (void)state;
    static float buffer[2];
    int64_t left = -1;
    pthread_t thread;
    if (HAS_ADDRESS_SANITIZER) {
        print_message("skipped: what the ended release did not come to is a leak\n");
        skip();
    }
    assert_int_equal(pthread_create(&thread, NULL, leave_in_a_release, buffer), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, make_graphs, &left), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(left, 0);
}

/* ---- files, devices, plugins, the log ---------------------------------------------------------------- */

static void save_and_load(int number, void *shared)
{
    atomic_int *right = shared;
    char path[FILE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/threads-%d", file_folder(), number);
    for (int i = 0; i < 10; i++) {
        TERN_SCOPE;
        int64_t value = 0;
        tern_state *out = tern_state_create();
        tern_state_set_int(out, "value", 10 * number + i);
        tern_state_set(out, "tensor", tern_ones(TERN_SHAPE(100)));
        tern_state_save(out, path);
        tern_state *in = tern_state_load(path);
        tern_state_get_int(in, "value", &value);
        atomic_fetch_add(right, !tern_failed() && value == 10 * number + i);
        tern_state_free(in);
        tern_state_free(out);
    }
}

static void test_states_are_saved_and_loaded_at_once(void **state)
{
    (void)state;
    atomic_int right = 0;
    assert_non_null(file_folder()); /* made by one thread */
    run_team(save_and_load, &right);
    assert_int_equal(atomic_load(&right), THREADS * 10);
}

typedef struct arrival {
    atomic_int loaded, refused, other;
} arrival;

/* All ask for the same plugin; others look at its devices and compute on the CPU meanwhile. */
static void load_plugin(int number, void *shared)
{
    arrival *a = shared;
    (void)number;
    TERN_SCOPE;
    (void)tern_dev_count(TERN_KIND_EXT);
    (void)tern_item(tern_sum(tern_ones(TERN_SHAPE(10))));
    if (second_backend_load() == TERN_OK)
        atomic_fetch_add(&a->loaded, 1);
    else if (strstr(tern_error_text(), "another backend brought devices of that kind") != NULL)
        atomic_fetch_add(&a->refused, 1);
    tern_error_clear();
    if (tern_dev_count(TERN_KIND_EXT) != 2 || !tern_dev_available(TERN_EXT(1)))
        atomic_fetch_add(&a->other, 1);
}

static void test_a_plugin_is_registered_once(void **state)
{
    (void)state;
    arrival a = { 0 };
    run_team(load_plugin, &a);
    assert_int_equal(atomic_load(&a.loaded), 1);
    assert_int_equal(atomic_load(&a.refused), THREADS - 1);
    assert_int_equal(atomic_load(&a.other), 0);
}

static void count_event(tern_log_level_t level, tern_site_t site, const char *text, void *user)
{
    (void)level, (void)site;
    atomic_fetch_add((atomic_int *)user, strstr(text, "from a thread") != NULL);
}

static void log_events(int number, void *shared)
{
    tern_log_set_callback(count_event, shared);
    for (int i = 0; i < 20; i++) {
        tern_log_write(TERN_LOG_WARNING, TERN_HERE, "from a thread: %d", number);
        (void)tern_dev_auto();
        tern_set_device_policy(TERN_PREFER);
    }
}

static void test_the_log_takes_events_of_all_threads(void **state)
{
    (void)state;
    static atomic_int events;
    run_team(log_events, &events);
    tern_log_set_callback(NULL, NULL);
    assert_int_equal(atomic_load(&events), THREADS * 20);
}

/* ---- what a thread makes and another one frees ----------------------------------------------------- */

typedef struct handed {
    tern_module *module, *child;
    tern_optimizer *optimizer;
    tern_dataset *dataset;
    tern_loader *loader;
    tern_ema *ema;
    int status;
} handed;

static void make_them(handed *h)
{
    TERN_SCOPE;
    h->module = tern_linear_layer(3, 2);
    h->child = tern_linear_layer(2, 2);
    h->optimizer = tern_sgd(tern_parameters(h->module), .lr = 0.1);
    h->ema = tern_ema_create(tern_parameters(h->module));
    h->dataset = tern_dataset_from_tensors(tern_zeros(TERN_SHAPE(4, 3)), NULL);
    h->loader = tern_loader_open(.dataset = h->dataset, .batch = 2);
}

/* This thread's own list knows none of them: what stayed in their maker's would be freed again. */
static void *free_them(void *argument)
{
    handed *h = argument;
    tern_loader_close(h->loader);
    tern_dataset_free(h->dataset);
    tern_ema_free(h->ema);
    tern_optimizer_free(h->optimizer);
    tern_module_free(h->module);
    return NULL;
}

static void *hand_over(void *argument)
{
    handed *h = argument;
    pthread_t other;
    make_them(h);
    if (pthread_create(&other, NULL, free_them, h) == 0)
        (void)pthread_join(other, NULL);
    h->status = tern_finish(); /* frees the child, and nothing that is gone */
    return NULL;
}

static void test_objects_may_be_freed_by_another_thread(void **state)
{
    (void)state;
    const int64_t live = tern_live_tensors();
    handed h = { .status = -1 };
    pthread_t maker;
    assert_int_equal(pthread_create(&maker, NULL, hand_over, &h), 0);
    assert_int_equal(pthread_join(maker, NULL), 0);
    assert_int_equal(h.status, 0);
    assert_int_equal(tern_live_tensors(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_thread_ends_where_no_file_can_be_opened), /* first: forks */
        cmocka_unit_test(test_independent_models_train_as_if_alone),
        cmocka_unit_test(test_the_number_of_threads_may_change_while_others_compute),
        cmocka_unit_test(test_memory_may_be_freed_by_another_thread),
        cmocka_unit_test(test_errors_and_modes_are_the_thread_s_own),
        cmocka_unit_test(test_a_thread_hears_nothing_of_an_ended_one),
        cmocka_unit_test(test_a_thread_releases_graphs_after_one_that_ended_amid_a_release),
        cmocka_unit_test(test_states_are_saved_and_loaded_at_once),
        cmocka_unit_test(test_a_plugin_is_registered_once),
        cmocka_unit_test(test_the_log_takes_events_of_all_threads),
        cmocka_unit_test(test_objects_may_be_freed_by_another_thread),
    };
    const int failed = check_run(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
