/* States: names, numbers, texts and bytes. */
#include "tests/support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/files.h"

static tern_state *round_trip(const tern_state *state, const char *name)
{
    assert_int_equal(tern_state_save(state, file_path(name)), TERN_OK);
    tern_state *back = tern_state_load(file_path(name));
    assert_no_error();
    return back;
}

/* ---- what a state holds ----------------------------------------------------------------------- */

static void test_numbers_come_back_bit_for_bit(void **unused)
{
    (void)unused;
    tern_state *state = tern_state_create();
    tern_state_set_number(state, "third", 1.0 / 3);
    tern_state_set_number(state, "zero", -0.0);
    tern_state_set_number(state, "endless", INFINITY);
    tern_state_set_int(state, "least", INT64_MIN);
    tern_state_set_int(state, "odd", INT64_C(9007199254740993));
    tern_state *back = round_trip(state, "numbers");
    double third = 0, zero = 1, endless = 0;
    int64_t least = 0, odd = 0;
    tern_state_get_number(back, "third", &third);
    tern_state_get_number(back, "zero", &zero);
    tern_state_get_number(back, "endless", &endless);
    tern_state_get_int(back, "least", &least);
    tern_state_get_int(back, "odd", &odd);
    assert_no_error();
    assert_true(third == 1.0 / 3 && zero == 0 && signbit(zero) && isinf(endless));
    assert_true(least == INT64_MIN && odd == INT64_C(9007199254740993));
    assert_int_equal(tern_ndim(tern_state_get(back, "third")), 0);
    tern_state_free(state);
    tern_state_free(back);
}

static void test_bytes_and_texts_come_back(void **unused)
{
    (void)unused;
    const unsigned char bytes[5] = { 0, 255, 1, 0, 7 };
    unsigned char there[5] = { 0 };
    tern_state *state = tern_state_create();
    tern_state_set_bytes(state, "position", bytes, sizeof bytes);
    tern_state_set_bytes(state, "nothing", NULL, 0);
    tern_state_set_text(state, "position", "its own names");
    tern_state_set_text(state, "empty", "");
    tern_state *back = round_trip(state, "bytes");
    tern_state_get_bytes(back, "position", there, sizeof there);
    tern_state_get_bytes(back, "nothing", NULL, 0);
    assert_no_error();
    assert_memory_equal(there, bytes, sizeof bytes);
    assert_string_equal(tern_state_text(back, "position"), "its own names");
    assert_string_equal(tern_state_text(back, "empty"), "");
    tern_state_free(state);
    tern_state_free(back);
}

static void test_setting_a_name_again_replaces_in_place(void **unused)
{
    (void)unused;
    const int64_t before = tern_live_tensors();
    tern_state *state = tern_state_create();
    int64_t value = 0;
    tern_state_set_int(state, "a", 1);
    tern_state_set_int(state, "b", 2);
    tern_state_set_int(state, "a", 3);
    tern_state_set_text(state, "t", "old");
    tern_state_set_text(state, "t", "new");
    tern_state_get_int(state, "a", &value);
    assert_int_equal(value, 3);
    assert_int_equal(tern_state_tensors(state).count, 2);
    assert_string_equal(tern_state_tensors(state).names[0], "a");
    assert_int_equal(tern_state_text_keys(state).count, 1);
    assert_string_equal(tern_state_text(state, "t"), "new");
    assert_string_equal(tern_state_source(state), "state");
    assert_int_equal(tern_live_tensors(), before + 2);
    tern_state_free(state);
    assert_int_equal(tern_live_tensors(), before);
}

/* Shared, not copied: the file holds what the tensor is at the save. */
static void test_a_tensor_is_shared_until_the_save(void **unused)
{
    (void)unused;
    tern_state *state = tern_state_create();
    tern_tensor *t;
    {
        TERN_SCOPE;
        t = tern_zeros(TERN_SHAPE(2));
        tern_state_set(state, "t", t);
        tern_fill(t, 7);
    }
    assert_ptr_equal(tern_state_get(state, "t"), t);
    tern_state *back = round_trip(state, "shared");
    float values[2];
    tern_read(tern_state_get(back, "t"), TERN_F32, values, sizeof values);
    assert_true(values[0] == 7 && values[1] == 7);
    tern_state_free(state);
    tern_state_free(back);
}

static void test_a_clone_keeps_the_values_of_its_moment(void **unused)
{
    (void)unused;
    const int64_t before = tern_live_tensors();
    tern_state *state = tern_state_create();
    {
        TERN_SCOPE;
        tern_tensor *t = tern_set_requires_grad(tern_ones(TERN_SHAPE(2)), true);
        tern_state_set(state, "t", t);
        tern_state_set(state, "turned", tern_transpose(tern_ones(TERN_SHAPE(2, 3)), 0, 1));
        tern_state_set_int(state, "step", 4);
        tern_state_set_text(state, "who", "tern");
    }
    tern_state *copy = tern_state_clone(state);
    assert_no_error();
    TERN_NO_GRAD;
    tern_fill(tern_state_get(state, "t"), 7);
    tern_state_set_int(state, "step", 5);
    tern_state_set_text(state, "who", "another");
    tern_tensor *kept = tern_state_get(copy, "t");
    check_elements(kept, (const float[]){ 1, 1 }, 2);
    assert_false(tern_requires_grad(kept));
    assert_true(tern_dev_equal(tern_device(kept), tern_device(tern_state_get(state, "t"))));
    int64_t step = 0;
    tern_state_get_int(copy, "step", &step);
    assert_int_equal(step, 4);
    assert_string_equal(tern_state_text(copy, "who"), "tern");
    for (int i = 0; i < 3; i++)
        assert_string_equal(tern_state_tensors(copy).names[i], tern_state_tensors(state).names[i]);
    tern_state_free(state);
    tern_state_free(copy);
    assert_int_equal(tern_live_tensors(), before);
    assert_null(tern_state_clone(NULL));
    assert_error(TERN_ERR_ARGUMENT, "state_clone: the state is NULL");
}

static void test_a_clone_of_a_file_is_as_the_file(void **unused)
{
    (void)unused;
    static const char header[] =
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
        "\"w\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[1,2]}}";
    file_bytes bytes = { NULL, 0 };
    file_bytes_add(&bytes, (const char[8]){ (char)(sizeof header - 1) }, 8);
    file_bytes_add(&bytes, header, sizeof header - 1);
    file_bytes_add(&bytes, "\1\2", 2);
    const int64_t before = tern_live_tensors();
    const bool owned = tern_set_owned_mode(true);
    tern_state *state = tern_state_load(file_write("eight", bytes));
    tern_state *copy = tern_state_clone(state);
    tern_set_owned_mode(owned);
    assert_no_error();
    assert_string_equal(tern_state_source(copy), tern_state_source(state));
    tern_state_free(state);
    assert_string_equal(tern_state_unread_dtype(copy, "w"), "F8_E4M3");
    assert_int_equal(tern_live_tensors(), before + 1);
    tern_state_free(copy);
    assert_int_equal(tern_live_tensors(), before);
}

static void test_many_names_are_found(void **unused)
{
    (void)unused;
    enum { COUNT = 500 };
    char name[32];
    tern_state *state = tern_state_create();
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "layers.%d.weight", i);
        tern_state_set_int(state, name, i);
    }
    tern_state *back = round_trip(state, "many");
    for (int i = 0; i < COUNT; i++) {
        int64_t value = -1;
        snprintf(name, sizeof name, "layers.%d.weight", i);
        tern_state_get_int(back, name, &value);
        assert_int_equal(value, i);
    }
    assert_null(tern_state_get(back, "layers.500.weight"));
    tern_state_free(state);
    tern_state_free(back);
}

/* ---- what a state refuses --------------------------------------------------------------------- */

static void test_names_and_values_are_checked(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_state *state = tern_state_create();
    tern_tensor *t = tern_ones(TERN_SHAPE(1));
    assert_int_equal(tern_state_set(state, "", t), TERN_ERR_ARGUMENT);
    assert_error(TERN_ERR_ARGUMENT, "state_set: the name is empty");
    tern_state_set(state, "\xff", t);
    assert_error(TERN_ERR_ARGUMENT, "state_set: the name '\xff' is not UTF-8");
    tern_state_set(state, NULL, t);
    assert_error(TERN_ERR_ARGUMENT, "state_set: the name is NULL");
    tern_state_set(NULL, "a", t);
    assert_error(TERN_ERR_ARGUMENT, "state_set: the state is NULL");
    tern_state_set(state, "a", NULL);
    assert_error(TERN_ERR_ARGUMENT, "state_set: the tensor for 'a' is NULL");
    tern_state_set_int(state, "", 1);
    assert_error(TERN_ERR_ARGUMENT, "state_set_int: the name is empty");
    tern_state_set_number(state, "\xff", 1);
    assert_error(TERN_ERR_ARGUMENT, "state_set_number: the name '\xff' is not UTF-8");
    tern_state_set_text(state, "a", "\xc3(");
    assert_error(TERN_ERR_ARGUMENT, "state_set_text: the text of 'a' is not UTF-8");
    tern_state_set_text(state, "a", NULL);
    assert_error(TERN_ERR_ARGUMENT, "state_set_text: the text of 'a' is NULL");
    tern_state_set_text(state, NULL, "a");
    assert_error(TERN_ERR_ARGUMENT, "state_set_text: the name is NULL");
    tern_state_set_bytes(state, "a", NULL, 4);
    assert_error(TERN_ERR_ARGUMENT, "state_set_bytes: the bytes for 'a' are NULL");
    tern_state_set_bytes(state, "a", "x", -1);
    assert_error(TERN_ERR_ARGUMENT, "state_set_bytes: -1 bytes for 'a'");
    assert_int_equal(tern_state_tensors(state).count, 0);
    assert_int_equal(tern_state_text_keys(state).count, 0);
    tern_state_free(state);
}

/* Not the setter within them. */
static void test_what_stores_itself_names_itself(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_state *state = tern_state_create();
    tern_module *net = tern_linear_layer(2, 2);
    tern_optimizer *opt = tern_adam(tern_parameters(net));
    tern_schedule *rate = tern_cosine_schedule(opt, .steps = 3);
    tern_grad_scaler *scaler = tern_grad_scaler_create(.device = TERN_CPU);
    tern_ema *average = tern_ema_create(tern_parameters(net));
    const tern_position_t position = { .step = 0 };
    tern_module_store(net, state, "\xff");
    assert_error(TERN_ERR_ARGUMENT, "module_store: the name '\xff.weight' is not UTF-8");
    tern_optimizer_store(opt, state, "\xff");
    assert_error(TERN_ERR_ARGUMENT, "optimizer_store: the name '");
    tern_schedule_store(rate, state, "\xff");
    assert_error(TERN_ERR_ARGUMENT, "schedule_store: the name '");
    tern_scaler_store(scaler, state, "\xff");
    assert_error(TERN_ERR_ARGUMENT, "scaler_store: the name '");
    tern_ema_store(average, state, "\xff");
    assert_error(TERN_ERR_ARGUMENT, "ema_store: the name '");
    tern_generator_store(NULL, state, "\xff");
    assert_error(TERN_ERR_ARGUMENT, "generator_store: the name '");
    tern_position_store(&position, state, "\xff");
    assert_error(TERN_ERR_ARGUMENT, "position_store: the name '");
    assert_int_equal(tern_state_tensors(state).count, 0);
    tern_ema_free(average);
    tern_grad_scaler_free(scaler);
    tern_schedule_free(rate);
    tern_optimizer_free(opt);
    tern_module_free(net);
    tern_state_free(state);
}

static void test_what_is_taken_out_must_be_what_is_there(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_state *state = tern_state_create();
    tern_state_set_number(state, "number", 0.5);
    tern_state_set(state, "pair", tern_zeros(TERN_SHAPE(2), TERN_I64));
    tern_state_set(state, "flag", tern_zeros(TERN_SHAPE(1), TERN_BOOL));
    int64_t whole = 11;
    double number = 11;
    unsigned char bytes[4] = { 11 };
    assert_int_equal(tern_state_get_int(state, "none", &whole), TERN_ERR_FORMAT);
    assert_error(TERN_ERR_FORMAT, "state: 'none' is missing");
    tern_state_get_int(state, "number", &whole);
    assert_error(TERN_ERR_FORMAT, "'number' is not one whole number");
    tern_state_get_int(state, "pair", &whole);
    assert_error(TERN_ERR_FORMAT, "'pair' is not one whole number");
    tern_state_get_number(state, "flag", &number);
    assert_error(TERN_ERR_FORMAT, "'flag' is not one number");
    tern_state_get_bytes(state, "number", bytes, 8);
    assert_error(TERN_ERR_FORMAT, "'number' is not as many bytes");
    tern_state_get_count(state, "pair", &whole);
    assert_error(TERN_ERR_FORMAT, "state_get_count: state: 'pair' is not one whole number");
    const int64_t most = (int64_t)1 << 53, bad[] = { -1, INT64_MIN, most + 1, INT64_MAX };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tern_state_set_int(state, "count", bad[i]);
        tern_state_get_count(state, "count", &whole);
        assert_error(TERN_ERR_FORMAT, ", not a count from 0 to 2^53");
    }
    assert_true(whole == 11 && number == 11 && bytes[0] == 11);
    tern_state_set_int(state, "count", most);
    assert_int_equal(tern_state_get_count(state, "count", &whole), TERN_OK);
    assert_true(whole == most);
    assert_null(tern_state_get(state, "none"));
    assert_null(tern_state_get(NULL, "none"));
    assert_int_equal(tern_state_tensors(NULL).count, 0);
    assert_no_error();
    tern_state_free(state);
    tern_state_free(NULL);
}

/* ---- generators ------------------------------------------------------------------------------- */

static void test_a_generator_goes_on_where_it_was(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_generator *generator = tern_generator_create(UINT64_MAX - 4);
    tern_rand(TERN_SHAPE(3), .generator = generator);
    tern_state *state = tern_state_create();
    tern_generator_store(generator, state, "rng");
    tern_generator_store(generator, state, NULL);
    const double expected = tern_item(tern_rand(TERN_SCALAR_SHAPE, .generator = generator));
    tern_state *back = round_trip(state, "generator");
    assert_non_null(tern_state_get(back, "rng.seed"));
    assert_non_null(tern_state_get(back, "seed"));
    tern_generator_restore(generator, back, "rng");
    assert_no_error();
    assert_true(tern_item(tern_rand(TERN_SCALAR_SHAPE, .generator = generator)) == expected);
    tern_generator_restore(generator, back, "other");
    assert_error(TERN_ERR_FORMAT, "'other.seed' is missing");
    tern_state_free(state);
    tern_state_free(back);
    tern_generator_free(generator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_come_back_bit_for_bit),
        cmocka_unit_test(test_bytes_and_texts_come_back),
        cmocka_unit_test(test_setting_a_name_again_replaces_in_place),
        cmocka_unit_test(test_a_tensor_is_shared_until_the_save),
        cmocka_unit_test(test_a_clone_keeps_the_values_of_its_moment),
        cmocka_unit_test(test_a_clone_of_a_file_is_as_the_file),
        cmocka_unit_test(test_many_names_are_found),
        cmocka_unit_test(test_names_and_values_are_checked),
        cmocka_unit_test(test_what_stores_itself_names_itself),
        cmocka_unit_test(test_what_is_taken_out_must_be_what_is_there),
        cmocka_unit_test(test_a_generator_goes_on_where_it_was),
    };
    const int failed = check_run(tests, NULL, NULL);
    return failed + tern_finish();
}
