/* The examples as a user runs them: results, stopping and going on. What mistakes say:
 * test_example_mistakes.c; what a loaded run refuses: test_example_loads.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tern/tern.h>

#include "tests/support/between.h"
#include "tests/support/examples.h"
#include "tests/support/files.h"
#include "tests/support/sanitizer.h"

static void test_hello_prints_a_product(void **state)
{
    (void)state;
    example_expect(0, "hello", "");
    example_says(example_out, "1000, 1000");
}

static void test_custom_op_agrees_with_the_library(void **state)
{
    (void)state;
    example_expect(0, "custom_op", "");
    example_says(example_out, "agree with differences");
}

static void test_regression_draws_its_fit(void **state)
{
    (void)state;
    example_expect(0, "regression", "");
    const char *last = strstr(example_out, "step 600: loss ");
    assert_non_null(last);
    /* the noise's variance is 0.01, and the straight line's loss 0.6 */
    assert_true(atof(last + strlen("step 600: loss ")) < 0.015);
    example_says(example_out, "|");
    example_says(example_out, "oo");
}

static void test_weights_of_pytorch_give_its_logits(void **state)
{
    (void)state;
    const char *source = getenv("TERN_TEST_SOURCE");
    char options[4 * FILE_PATH_BYTES];
    assert_non_null(source);
    (void)snprintf(options, sizeof options,
                   "'%s/tests/golden/pytorch_net.safetensors' "
                   "'%s/tests/golden/pytorch_sample.safetensors'",
                   source, source);
    example_expect(0, "load_from_pytorch", options);
    example_says(example_out, "largest difference from PyTorch's logits: ");
    const char *full = "sh -c 'exec \"$@\" >/dev/full' sh";
    assert_int_equal(example_run(full, "load_from_pytorch", options), 1);
    example_expect(2, "load_from_pytorch", "");
    example_expect(1, "load_from_pytorch", "nowhere.safetensors nowhere.safetensors");
    example_says(example_err, "nowhere.safetensors");
}

static void test_training_prints_epochs_and_accuracy(void **state)
{
    (void)state;
    example_expect(0, "mlp_mnist", "--data . --epochs 3 --batch 20 --seed 4 --threads 1");
    example_says(example_out, "data: MNIST in .\n");
    example_says(example_out, "epoch 3/3: loss ");
    example_says(example_out, "test accuracy 100.00 % after 90 steps");
    example_says(example_err, "epoch 1/3: 10%, step 3 of 30, loss ");
}

/* Too high a rate; what is no number has a sign, too, which says nothing. */
static void test_loss_that_is_no_number_has_no_sign(void **state)
{
    (void)state;
    example_expect(0, "mlp_mnist", "--data . --lr 1e30 --epochs 1 --batch 20 --device cpu");
    example_says(example_out, "epoch 1/1: loss nan, accuracy ");
    example_says(example_err, ", loss nan, ");
    example_expect(0, "char_gpt", "--data rhyme.txt --lr 1e30 --steps 4 --batch 4 --device cpu");
    example_says(example_out, ": loss nan, test loss nan, ");
}

static cJSON *results_of(const char *name)
{
    char text[EXAMPLE_TEXT_BYTES];
    example_read(name, text);
    cJSON *results = cJSON_Parse(text);
    assert_non_null(results);
    return results;
}

static const char *text_of(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    assert_non_null(text);
    return text;
}

static double figure_of(const cJSON *object, const char *key)
{
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(object, key);
    assert_true(cJSON_IsNumber(number));
    return cJSON_GetNumberValue(number);
}

static void test_json_holds_what_was_promised(void **state)
{
    (void)state;
    example_expect(0, "mlp_mnist",
                   "--data . --device cpu --steps 40 --batch 20 --json r.json --quiet "
                   "--seed 9223372036854775807");
    assert_string_equal(example_err, "");
    cJSON *results = results_of("r.json");
    assert_int_equal(cJSON_GetArraySize(results), 8);
    assert_string_equal(text_of(results, "device"), "cpu");
    assert_string_equal(text_of(results, "device_reason"), "the CPU was asked for");
    assert_string_equal(text_of(results, "amp"), "off");
    assert_true(figure_of(results, "skipped_steps") == 0);
    assert_true(figure_of(results, "peak_allocated_bytes") > 784 * 512 * 4);
    const double accuracy = figure_of(results, "test_accuracy");
    assert_true(accuracy >= 0 && accuracy <= 1);
    assert_true(cJSON_HasObjectItem(results, "seed"));
    char text[EXAMPLE_TEXT_BYTES];
    example_read("r.json", text);
    example_says(text, "\"seed\":\t9223372036854775807"); /* more than cJSON's doubles hold */
    const cJSON *epochs = cJSON_GetObjectItemCaseSensitive(results, "epochs"), *entry;
    assert_int_equal(cJSON_GetArraySize(epochs), 2); /* one of 30 steps, and one cut after 10 */
    cJSON_ArrayForEach(entry, epochs)
    {
        assert_int_equal(cJSON_GetArraySize(entry), 3);
        assert_true(figure_of(entry, "loss") > 0);
        assert_true(figure_of(entry, "train_seconds") > 0);
        assert_true(figure_of(entry, "samples_per_second") > 0);
    }
    cJSON_Delete(results);
}

/* A loss that is no number is null, the one thing that JSON has for it. */
static void test_json_of_a_run_that_diverged(void **state)
{
    (void)state;
    example_expect(0, "mlp_mnist",
                   "--data . --device cpu --epochs 1 --batch 20 --json r.json --quiet --lr 1e30");
    cJSON *results = results_of("r.json");
    const cJSON *epochs = cJSON_GetObjectItemCaseSensitive(results, "epochs");
    const cJSON *entry = cJSON_GetArrayItem(epochs, 0);
    assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(entry, "loss")));
    assert_true(figure_of(entry, "train_seconds") > 0);
    assert_true(isfinite(figure_of(results, "test_accuracy")));
    cJSON_Delete(results);
}

/* ---- text ---- */

static double number_of(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    assert_non_null(at);
    return strtod(at + strlen(key), NULL);
}

static void test_text_is_learnt_and_gone_on_with(void **state)
{
    (void)state;
    const char *common = "--data rhyme.txt --device cpu --quiet";
    char options[256], first[EXAMPLE_TEXT_BYTES], results[EXAMPLE_TEXT_BYTES];
    snprintf(options, sizeof options,
             "%s %s --save g.run --json r.json --prompt '4 green' --sample 60 --top-k 3", common,
             RUNS_ARE_SHORT ? "--epochs 1 --steps 12" : "--epochs 3");
    example_expect(0, "char_gpt", options);
    assert_memory_equal(example_out, "4 green", 7);
    assert_true(strstr(example_out, "\ntest loss ") - example_out >= 7 + 60);
    example_read("r.json", results);
    const double loss = number_of(results, "\"test_loss\":");
    assert_true(loss > 0 && loss < (RUNS_ARE_SHORT ? 3 : 1.5)); /* it begins with log 31 = 3.4 */

    memcpy(first, example_out,
           sizeof first); /* what is written depends on the model and the seed */
    snprintf(options, sizeof options, "--load g.run --quiet --prompt '4 green' --sample 60%s",
             RUNS_ARE_SHORT ? " --steps 12" : "");
    example_expect(0, "char_gpt", options);
    assert_string_not_equal(example_out, first);
    assert_null(strstr(example_err, "of the prompt"));
    strcat(options, " --top-k 3");
    example_expect(0, "char_gpt", options);
    assert_string_equal(example_out, first);
    strcat(options, " --temperature 1e-6"); /* the likeliest each time, as with --top-k 1 */
    example_expect(0, "char_gpt", options);
    memcpy(first, example_out, sizeof first);
    strcat(options, " --temperature 5 --top-k 1");
    example_expect(0, "char_gpt", options);
    assert_string_equal(example_out, first);
}

/* mlp_mnist and resnet_cifar: see the tests of runs that go on bit for bit. */
static void test_text_and_digits_take_half_types(void **state)
{
    (void)state;
    static const char *const modes[] = { "bf16", "fp16" };
    for (int i = 0; i < 2; i++) {
        char options[256];
        snprintf(options, sizeof options, "--data rhyme.txt --device cpu --steps 2 --amp %s",
                 modes[i]);
        example_expect(0, "char_gpt", options);
        example_says(example_out, "after 2 steps");
        snprintf(options, sizeof options, "--data . --steps 2 --batch 16 --amp %s", modes[i]);
        example_expect(0, "cnn_mnist", options);
        example_says(example_out, "after 2 steps");
    }
}

static void test_text_programs_have_options_of_their_own(void **state)
{
    (void)state;
    example_expect(2, "char_gpt", "--show 3");
    example_says(example_err, "--top-k N");
    example_expect(2, "mlp_mnist", "--sample 3");
    example_says(example_err, "--show N");
    example_expect(2, "char_gpt", "--temperature 0");
    example_says(example_err, "--temperature wants a number above 0, not '0'");
    example_expect(1, "char_gpt", "--data nowhere.txt --quiet");
    example_says(example_err, "nowhere.txt");
    example_expect(1, "char_gpt", "--data nowhere.txt --quiet --prompt 'a cat' --sample 3");
    assert_string_equal(example_out, ""); /* what was not written has no beginning */
    example_expect(0, "char_gpt",
                   "--data rhyme.txt --steps 1 --quiet --prompt '9 Zebras' --sample 3");
    example_says(example_err, "characters of the prompt, first in 'Zebras': its first symbol");
    example_expect(0, "char_gpt", "--help");
    example_says(example_out, "below 1: likelier choices");
    example_put("short.txt", "a line of a text\n", 30);
    example_expect(1, "char_gpt", "--data short.txt --quiet"); /* its last tenth */
    example_says(example_err, "'short.txt' holds too little to test on: 51 characters");
    const int status = example_run("env -u TERN_DATA -u XDG_CACHE_HOME HOME=.", "char_gpt",
                                   "--steps 1 --no-test --batch 2");
    assert_int_equal(status, 0);
    example_says(example_err, "using made-up tales");
    example_says(example_out, "data: the built-in made-up tales");
}

/* ---- stopping and going on ---- */

static bool is_timing(const char *name)
{
    return strcmp(name, "run.entries") == 0 || strstr(name, "seconds") != NULL;
}

static void expect_same_bytes(const char *name, tern_tensor *a, tern_tensor *b)
{
    if (!b || tern_numel(a) != tern_numel(b) || tern_dtype(a) != tern_dtype(b))
        fail_msg("'%s' is not alike in both runs", name);
    const size_t bytes = (size_t)(tern_numel(a) * tern_dtype_size(tern_dtype(a)));
    if (bytes > 0 && memcmp(tern_data(a), tern_data(b), bytes) != 0)
        fail_msg("'%s' has other values in the second run", name);
}

static void expect_same_losses(tern_state *a, tern_state *b)
{
    tern_tensor *first = tern_state_get(a, "run.entries"),
                *second = tern_state_get(b, "run.entries");
    assert_int_equal(tern_numel(first), tern_numel(second));
    const double *x = tern_data(first), *y = tern_data(second);
    for (int64_t i = 0; i < tern_size(first, 0); i++)
        assert_memory_equal(&x[3 * i], &y[3 * i], sizeof *x);
}

/* Everything in the files but the times is the same, bit for bit. */
static void expect_same_runs(const char *one, const char *other)
{
    tern_state *a = example_load(one), *b = example_load(other);
    const tern_tensors_t list = tern_state_tensors(a);
    assert_true(list.count > 20);
    assert_int_equal(tern_state_tensors(b).count, list.count);
    for (int64_t i = 0; i < list.count; i++)
        if (!is_timing(list.names[i]))
            expect_same_bytes(list.names[i], list.tensors[i], tern_state_get(b, list.names[i]));
    expect_same_losses(a, b);
    tern_state_free(a);
    tern_state_free(b);
}

static void test_same_seed_gives_the_same_run(void **state)
{
    (void)state;
    example_expect(0, "mlp_mnist",
                   "--data . --epochs 2 --batch 20 --threads 2 --quiet --save a.run");
    example_expect(0, "mlp_mnist",
                   "--data . --epochs 2 --batch 20 --threads 2 --quiet --save b.run");
    expect_same_runs("a.run", "b.run");
}

/* Convolutions on two threads, on the drawn digits: each step writes all weights, in the same bits. */
static void test_convolutions_on_two_threads_repeat(void **state)
{
    (void)state;
    const char *common = "--device cpu --threads 2 --no-test --quiet";
    /* with a sanitizer in it drawing takes longer than the steps */
    const char *data = RUNS_ARE_SHORT ? "." : "digits";
    const int all = RUNS_ARE_SHORT ? 5 : 12;
    const struct {
        int steps;
        const char *rest;
    } parts[] = { { all, "--save a.run" },
                  { all, "--save b.run" },
                  { all / 2, "--save part.run" },
                  { all, "--load part.run --save rest.run" } };
    for (int i = 0; i < 4; i++) {
        char options[256];
        snprintf(options, sizeof options, "--data %s %s --steps %d %s", data, common,
                 parts[i].steps, parts[i].rest);
        example_expect(0, "cnn_mnist", options);
    }
    expect_same_runs("a.run", "b.run");
    expect_same_runs("a.run", "rest.run");
}

/* `end`: where all of it ends, if not after two epochs. */
static void stop_and_go_on(const char *program, const char *data, int threads, const char *stop,
                           const char *end)
{
    char options[256], common[64];
    snprintf(common, sizeof common, "--epochs 2 --batch 30 --threads %d --quiet", threads);
    snprintf(options, sizeof options, "--data %s %s %s --save whole.run", data, common, end);
    example_expect(0, program, options);
    snprintf(options, sizeof options, "--data %s %s --steps %s --save part.run", data, common,
             stop);
    example_expect(0, program, options);
    snprintf(options, sizeof options, "--load part.run --threads %d --quiet %s --save rest.run",
             threads, end);
    example_expect(0, program, options);
    expect_same_runs("whole.run", "rest.run");
}

static void test_run_cut_in_an_epoch_goes_on_bit_for_bit(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        stop_and_go_on("mlp_mnist", ".", threads, "7", "");
        if (RUNS_ARE_SHORT)
            stop_and_go_on("cnn_mnist", ".", threads, "5", "--steps 9");
        else
            stop_and_go_on("cnn_mnist", ".", threads, "27", "");
    }
    if (RUNS_ARE_SHORT)
        stop_and_go_on("char_gpt", "rhyme.txt", 1, "2", "--steps 4");
    else
        stop_and_go_on("char_gpt", "rhyme.txt", 1, "5", "");
}

static void test_images_that_are_moved_go_on_bit_for_bit(void **state)
{
    (void)state;
    const char *const modes[] = { "off", "bf16" };
    for (int i = 0; i < 2; i++) {
        char whole[256], part[256];
        const char *common = "--data . --augment --epochs 2 --batch 16 --threads 1";
        snprintf(whole, sizeof whole, "%s --amp %s --save whole.run", common, modes[i]);
        snprintf(part, sizeof part, "%s --amp %s --steps 4 --save part.run", common, modes[i]);
        example_expect(0, "resnet_cifar", whole);
        example_says(example_out, "data: CIFAR-10 in .\n");
        example_expect(0, "resnet_cifar", part);
        example_expect(0, "resnet_cifar", "--load part.run --threads 1 --quiet --save rest.run");
        expect_same_runs("whole.run", "rest.run");
    }
    example_expect(0, "resnet_cifar", "--data . --steps 1 --batch 16 --quiet --save plain.run");
    example_expect(2, "resnet_cifar", "--load plain.run --augment");
    example_says(example_err, "--augment, but the run in 'plain.run' was without");
}

static void test_half_precision_goes_on_bit_for_bit(void **state)
{
    (void)state;
    static const char *const modes[] = { "bf16", "fp16" };
    for (int i = 0; i < 2; i++) {
        char whole[256], part[256];
        const char *common = "--data . --epochs 2 --batch 30 --threads 1 --quiet";
        snprintf(whole, sizeof whole, "%s --amp %s --save whole.run --json r.json", common,
                 modes[i]);
        snprintf(part, sizeof part, "%s --amp %s --steps 7 --save part.run", common, modes[i]);
        example_expect(0, "mlp_mnist", whole);
        example_expect(0, "mlp_mnist", part);
        example_expect(0, "mlp_mnist", "--load part.run --threads 1 --quiet --save rest.run");
        expect_same_runs("whole.run", "rest.run");
    }
    tern_state *run = example_load("whole.run");
    assert_string_equal(tern_state_text(run, "run.amp"), "fp16");
    int64_t tracker = 0, steps = 0;
    double scale = 0;
    tern_state_get_int(run, "scaler._growth_tracker", &tracker);
    tern_state_get_number(run, "scaler.scale", &scale);
    tern_state_get_int(run, "run.steps_done", &steps);
    tern_state_free(run);
    assert_true(tracker > 0 && tracker <= steps && scale > 0);
    example_expect(2, "mlp_mnist", "--load part.run --amp off");
    example_says(example_err, "--amp off differs from the fp16 of the run in 'part.run'");
}

/* A rate that overflows f16 at the second step; the scaler counts its own session's alone. */
static void test_skipped_steps_are_those_of_the_whole_run(void **state)
{
    (void)state;
    char text[EXAMPLE_TEXT_BYTES];
    example_expect(0, "mlp_mnist",
                   "--data . --amp fp16 --lr 1e30 --epochs 1 --batch 30 --steps 4 --save part.run");
    example_says(example_out, "3 steps were skipped, the last for ");
    example_expect(0, "mlp_mnist", "--load part.run --steps 4 --json none.json");
    example_says(example_out, "3 steps were skipped\n");
    example_expect(0, "mlp_mnist", "--load part.run --steps 6 --json r.json");
    example_says(example_out, "5 steps were skipped, the last for ");
    example_read("r.json", text);
    example_says(text, "\"skipped_steps\":\t5");
}

static void test_run_cut_between_epochs_goes_on_bit_for_bit(void **state)
{
    (void)state;
    stop_and_go_on("mlp_mnist", ".", 1, "20", "");
}

/* Its first line is said before anything was measured. */
static void test_run_that_goes_on_has_no_speed_at_first(void **state)
{
    (void)state;
    example_expect(0, "mlp_mnist", "--data . --epochs 1 --batch 30 --steps 7 --quiet --save f.run");
    example_expect(0, "mlp_mnist", "--load f.run");
    example_says(example_err, "epoch 1/1: 35%, step 7 of 20, loss ");
    example_says(example_err, " samples/s, ");
    assert_null(strstr(example_err, " 0 samples/s"));
}

static void test_run_may_be_cut_twice_in_one_epoch(void **state)
{
    (void)state;
    const char *common = "--threads 1 --quiet";
    char options[256];
    snprintf(options, sizeof options, "--data . --epochs 1 --batch 30 %s --save whole.run", common);
    example_expect(0, "mlp_mnist", options);
    snprintf(options, sizeof options, "--data . --epochs 1 --batch 30 --steps 5 %s --save 1.run",
             common);
    example_expect(0, "mlp_mnist", options);
    snprintf(options, sizeof options, "--load 1.run --steps 11 %s --save 2.run", common);
    example_expect(0, "mlp_mnist", options);
    snprintf(options, sizeof options, "--load 2.run %s --save rest.run", common);
    example_expect(0, "mlp_mnist", options);
    expect_same_runs("whole.run", "rest.run");
}

/* Stopped without a word as soon as there is a file: it is whole, and of the end of an epoch. */
static void test_killed_run_goes_on_bit_for_bit(void **state)
{
    (void)state;
    const int planned = RUNS_ARE_SHORT ? 8 : 30;
    char plan[128];
    snprintf(plan, sizeof plan, "--data . --epochs %d --batch 30 --threads 1 --quiet", planned);
    const char *killed = "sh -c '\"$@\" & while ! test -e k.run; do sleep 0.01; done; "
                         "kill -9 $!; wait $!' sh";
    char options[256];
    snprintf(options, sizeof options, "%s --save k.run", plan);
    (void)example_run(killed, "mlp_mnist", options);
    int64_t epochs = 0;
    tern_state *stopped = example_load("k.run");
    assert_int_equal(tern_state_get_int(stopped, "run.epoch", &epochs), TERN_OK);
    tern_state_free(stopped);
    assert_between(epochs, 1, planned - 1);
    example_expect(0, "mlp_mnist", "--load k.run --threads 1 --quiet --save rest.run");
    snprintf(options, sizeof options, "%s --save whole.run", plan);
    example_expect(0, "mlp_mnist", options);
    expect_same_runs("whole.run", "rest.run");
}

static void test_show_prints_digits_with_answers(void **state)
{
    (void)state;
    example_expect(0, "mlp_mnist", "--data . --epochs 3 --batch 20 --quiet --show 4");
    assert_true(strlen(example_out) > 4 * 28);
    const int status = example_run("LC_ALL=C", "mlp_mnist", "--data . --steps 1 --quiet --show 2");
    assert_int_equal(status, 0);
    example_says(example_out, "@@@@@");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hello_prints_a_product),
        cmocka_unit_test(test_custom_op_agrees_with_the_library),
        cmocka_unit_test(test_regression_draws_its_fit),
        cmocka_unit_test(test_weights_of_pytorch_give_its_logits),
        cmocka_unit_test(test_training_prints_epochs_and_accuracy),
        cmocka_unit_test(test_loss_that_is_no_number_has_no_sign),
        cmocka_unit_test(test_json_holds_what_was_promised),
        cmocka_unit_test(test_json_of_a_run_that_diverged),
        cmocka_unit_test(test_text_is_learnt_and_gone_on_with),
        cmocka_unit_test(test_text_and_digits_take_half_types),
        cmocka_unit_test(test_text_programs_have_options_of_their_own),
        cmocka_unit_test(test_same_seed_gives_the_same_run),
        cmocka_unit_test(test_convolutions_on_two_threads_repeat),
        cmocka_unit_test(test_run_cut_in_an_epoch_goes_on_bit_for_bit),
        cmocka_unit_test(test_images_that_are_moved_go_on_bit_for_bit),
        cmocka_unit_test(test_half_precision_goes_on_bit_for_bit),
        cmocka_unit_test(test_skipped_steps_are_those_of_the_whole_run),
        cmocka_unit_test(test_run_cut_between_epochs_goes_on_bit_for_bit),
        cmocka_unit_test(test_run_that_goes_on_has_no_speed_at_first),
        cmocka_unit_test(test_run_may_be_cut_twice_in_one_epoch),
        cmocka_unit_test(test_killed_run_goes_on_bit_for_bit),
        cmocka_unit_test(test_show_prints_digits_with_answers),
    };
    return cmocka_run_group_tests(tests, example_make_data, NULL);
}
