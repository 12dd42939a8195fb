/* Who restores from a file wants all of what is kept there: a tensor of a dtype that tern does not have is
 * an error that names it, whichever it is. */
#include "tests/support/check.h"

#include <stdio.h>

#include "tests/support/files.h"

enum { NAME_BYTES = 128 };

/* What states are made of here. */
static struct {
    tern_module *net;
    tern_optimizer *opt;
    tern_schedule *schedule;
    tern_ema *ema;
    tern_grad_scaler *scaler;
    tern_generator *generator;
    tern_position_t position;
} made;

typedef struct keeper {
    void (*store)(tern_state *state);
    tern_status_t (*restore)(const tern_state *state);
} keeper;

#define KEEPER(type, object)                                     \
    static void store_##type(tern_state *state)                  \
    {                                                            \
        tern_##type##_store(object, state, "kept");              \
    }                                                            \
    static tern_status_t restore_##type(const tern_state *state) \
    {                                                            \
        return tern_##type##_restore(object, state, "kept");     \
    }                                                            \
    static const keeper type##_keeper = { store_##type, restore_##type };
KEEPER(module, made.net)
KEEPER(optimizer, made.opt)
KEEPER(schedule, made.schedule)
KEEPER(ema, made.ema)
KEEPER(scaler, made.scaler)
KEEPER(generator, made.generator)
KEEPER(position, &made.position)

/* The file "kept", where all entries, or the one of a name, are of dtypes that tern does not have. */
static void make_foreign(const char *name)
{
    static const char mark[] = ":{\"dtype\":\"";
    file_bytes bytes = file_read(file_path("kept"));
    char wanted[NAME_BYTES];
    int changed = 0;
    (void)snprintf(wanted, sizeof wanted, "\"%s\"", name == NULL ? "" : name);
    const size_t before = name == NULL ? 0 : strlen(wanted);
    for (size_t i = before; i + sizeof mark + 3 < bytes.count; i++) {
        char *at = (char *)bytes.data + i;
        if (memcmp(at, mark, sizeof mark - 1) != 0 || memcmp(at - before, wanted, before) != 0)
            continue;
        at[sizeof mark - 1] = 'C'; /* C32, C64: torch's complex numbers */
        changed++;
    }
    assert_true(name == NULL ? changed > 0 : changed == 1);
    (void)file_write("foreign", bytes);
}

static void expect_refused(const keeper *k, const char *name)
{
    make_foreign(name);
    tern_state *state = tern_state_load(file_path("foreign"));
    assert_no_error();
    if (k->restore(state) != TERN_ERR_DTYPE)
        fail_msg("without '%s': %s", name == NULL ? "all" : name, tern_error_text());
    if (name != NULL && strstr(tern_error_text(), name) == NULL)
        fail_msg("'%s' is not named: %s", name, tern_error_text());
    assert_error(TERN_ERR_DTYPE, ", which tern does not have");
    tern_state_free(state);
}

/* Each entry of what is kept is foreign once, and all are. */
static void refuse_each(const keeper *k)
{
    tern_state *state = tern_state_create();
    k->store(state);
    const tern_tensors_t all = tern_state_tensors(state);
    assert_true(all.count > 0);
    assert_int_equal(tern_state_save(state, file_path("kept")), TERN_OK);
    for (int64_t i = 0; i < all.count; i++)
        expect_refused(k, all.names[i]);
    expect_refused(k, NULL);
    assert_int_equal(k->restore(state), TERN_OK);
    tern_state_free(state);
}

static void refuse_optimizer(tern_optimizer *opt)
{
    assert_non_null(opt);
    made.opt = opt;
    tern_backward(tern_sum(tern_forward(made.net, tern_ones(TERN_SHAPE(1, 3)))));
    tern_step(opt);
    refuse_each(&optimizer_keeper);
    tern_optimizer_free(opt);
}

static void test_optimizers_want_all_of_their_state(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    made.net = tern_linear_layer(3, 2);
    const tern_tensors_t params = tern_parameters(made.net);
    refuse_optimizer(tern_sgd(params, .lr = 0.1, .momentum = 0.9));
    refuse_optimizer(tern_adamw(params));
    refuse_optimizer(tern_rmsprop(params, .centered = true, .momentum = 0.5));
    refuse_optimizer(tern_adagrad(params, .lr_decay = 0.1));
    tern_module_free(made.net);
}

/* Neither may what belongs to no parameter be lost because it cannot be read. */
static void test_state_of_no_parameter_is_found_where_it_cannot_be_read(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *p = tern_zeros(TERN_SHAPE(2), .requires_grad = true);
    made.opt = tern_sgd(TERN_TENSORS(p));
    tern_state *state = tern_state_create();
    store_optimizer(state);
    tern_state_set_int(state, "kept.state.lost.step", 3);
    assert_int_equal(tern_state_save(state, file_path("kept")), TERN_OK);
    tern_state_free(state);
    make_foreign("kept.state.lost.step");
    state = tern_state_load(file_path("foreign"));
    restore_optimizer(state);
    assert_error(TERN_ERR_STATE, "1 entries of 'kept.state.' belong to no parameter");
    tern_state_free(state);
    tern_optimizer_free(made.opt);
}

static void test_modules_and_averages_want_all_tensors(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    made.net = tern_linear_layer(3, 2);
    made.ema = tern_ema_create(tern_parameters(made.net));
    refuse_each(&module_keeper);
    refuse_each(&ema_keeper);
    tern_ema_free(made.ema);
    tern_module_free(made.net);
}

static void test_numbers_are_wanted(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *p = tern_zeros(TERN_SHAPE(2), .requires_grad = true);
    made.opt = tern_sgd(TERN_TENSORS(p), .lr = 0.1);
    made.scaler = tern_grad_scaler_create(TERN_CPU);
    made.generator = tern_generator_create(1);
    made.position = (tern_position_t){ .step = 3, .reports = { { "loss", 1, 2 } } };
    refuse_each(&scaler_keeper);
    refuse_each(&generator_keeper);
    refuse_each(&position_keeper);
    made.schedule = tern_cosine_schedule(made.opt, 3);
    refuse_each(&schedule_keeper);
    tern_schedule_free(made.schedule);
    made.schedule = tern_plateau_schedule(made.opt);
    refuse_each(&schedule_keeper);
    tern_schedule_free(made.schedule);
    tern_generator_free(made.generator);
    tern_grad_scaler_free(made.scaler);
    tern_optimizer_free(made.opt);
}

/* A shared tensor under its second name is unread, not missing under its first. */
static void test_a_shared_tensor_is_named_as_it_is_stored(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_module *layer = tern_linear_layer(2, 2, .no_bias = true);
    made.net = tern_sequential(layer, layer);
    tern_names_t missing;
    tern_state *state = tern_state_create();
    tern_state_set(state, "1.weight", tern_ones(TERN_SHAPE(2, 2)));
    assert_int_equal(tern_module_restore(made.net, state), TERN_OK);
    assert_int_equal(tern_state_save(state, file_path("kept")), TERN_OK);
    tern_state_free(state);
    make_foreign("1.weight");
    tern_module_load(made.net, file_path("foreign"), .out_missing = &missing);
    assert_error(TERN_ERR_DTYPE, "'1.weight' is of C32, which tern does not have");
    assert_int_equal(missing.count, 0);
    tern_module_free(made.net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optimizers_want_all_of_their_state),
        cmocka_unit_test(test_state_of_no_parameter_is_found_where_it_cannot_be_read),
        cmocka_unit_test(test_modules_and_averages_want_all_tensors),
        cmocka_unit_test(test_numbers_are_wanted),
        cmocka_unit_test(test_a_shared_tensor_is_named_as_it_is_stored),
    };
    const int failed = check_run(tests, NULL, NULL);
    return failed + tern_finish();
}
