/* The examples as a user runs them: results, stopping and going on, and what mistakes say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tern/tern.h>

#include "tests/support/files.h"

enum { TRAIN = 600, TEST = 100, SIDE = 28, IMAGE = SIDE * SIDE, TEXT_BYTES = 1 << 16 };

static char out_text[TEXT_BYTES], err_text[TEXT_BYTES];

static void read_text(const char *name, char text[TEXT_BYTES])
{
    char path[2 * FILE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", file_folder(), name);
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    text[fread(text, 1, TEXT_BYTES - 1, stream)] = '\0';
    fclose(stream);
}

/* Runs "<prefix> <examples>/<program> <options>" in the test's folder; returns the exit status. */
static int run(const char *prefix, const char *program, const char *options)
{
    const char *examples = getenv("TERN_TEST_EXAMPLES");
    char command[8 * FILE_PATH_BYTES];
    if (!examples) {
        print_message("skipped: TERN_TEST_EXAMPLES does not say where the examples are\n");
        skip();
    }
    snprintf(command, sizeof command, "cd '%s' && %s '%s/%s' %s >out.txt 2>err.txt", file_folder(),
             prefix, examples, program, options);
    const int status = system(command);
    read_text("out.txt", out_text);
    read_text("err.txt", err_text);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect_run(int wanted, const char *program, const char *options)
{
    const int status = run("", program, options);
    if (status != wanted)
        fail_msg("%s %s ended with %d, not %d:\n%s%s", program, options, status, wanted, out_text,
                 err_text);
}

static void expect_text(const char *text, const char *words)
{
    if (!strstr(text, words))
        fail_msg("'%s' is not in:\n%s", words, text);
}

/* Images whose class is a bright row: small enough for a test, and a model learns them at once. */
static void write_images(const char *prefix, uint32_t count)
{
    char name[64];
    uint8_t *pixels = calloc(count, IMAGE), *labels = malloc(count);
    assert_true(pixels && labels);
    for (uint32_t i = 0; i < count; i++) {
        labels[i] = (uint8_t)(i * 7 % 10);
        memset(pixels + i * IMAGE + (2 * labels[i] + 4) * SIDE, 100 + (int)(i % 100), 2 * SIDE);
    }
    snprintf(name, sizeof name, "%s-images-idx3-ubyte", prefix);
    file_write(name, file_idx(0x08, 3, (const uint32_t[]){ count, SIDE, SIDE }, pixels,
                              (size_t)count * IMAGE));
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte", prefix);
    file_write(name, file_idx(0x08, 1, &count, labels, count));
    free(pixels);
    free(labels);
}

/* Twenty-one windows of the training part fill a batch, one of the last tenth the test. */
static void write_text(void)
{
    char line[64], text[TEXT_BYTES];
    int used = 0;
    for (int i = 0; i < 24; i++) {
        snprintf(line, sizeof line, "%d green bottles hang on wall %d.\n", 99 - i, i * i % 7);
        used += snprintf(text + used, sizeof text - (size_t)used, "%s", line);
    }
    char path[2 * FILE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/rhyme.txt", file_folder());
    FILE *stream = fopen(path, "wb");
    assert_non_null(stream);
    assert_int_equal(fwrite(text, 1, (size_t)used, stream), used);
    fclose(stream);
}

/* Files in colour, as CIFAR-10's: `count` records of a label and an image whose red is the label's. */
static void write_colours(const char *name, int count)
{
    enum { RECORD = 1 + 3 * 32 * 32 };
    file_bytes bytes = { NULL, 0 };
    uint8_t record[RECORD];
    for (int i = 0; i < count; i++) {
        record[0] = (uint8_t)(i % 10);
        memset(record + 1, 25 * (i % 10), 32 * 32);
        memset(record + 1 + 32 * 32, i, 2 * 32 * 32);
        file_bytes_add(&bytes, record, RECORD);
    }
    file_write(name, bytes);
}

static int make_data(void **state)
{
    (void)state;
    write_images("train", TRAIN);
    write_images("t10k", TEST);
    write_text();
    for (int i = 1; i <= 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "data_batch_%d.bin", i);
        write_colours(name, 8);
    }
    write_colours("test_batch.bin", 10);
    return 0;
}

static void test_hello_prints_a_product(void **state)
{
    (void)state;
    expect_run(0, "hello", "");
    expect_text(out_text, "1000, 1000");
}

static void test_custom_op_agrees_with_the_library(void **state)
{
    (void)state;
    expect_run(0, "custom_op", "");
    expect_text(out_text, "agree with differences");
}

static void test_regression_draws_its_fit(void **state)
{
    (void)state;
    expect_run(0, "regression", "");
    const char *last = strstr(out_text, "step 600: loss ");
    assert_non_null(last);
    /* the noise's variance is 0.01, and the straight line's loss 0.6 */
    assert_true(atof(last + strlen("step 600: loss ")) < 0.015);
    expect_text(out_text, "|");
    expect_text(out_text, "oo");
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
    expect_run(0, "load_from_pytorch", options);
    expect_text(out_text, "largest difference from PyTorch's logits: ");
    expect_run(2, "load_from_pytorch", "");
    expect_run(1, "load_from_pytorch", "nowhere.safetensors nowhere.safetensors");
    expect_text(err_text, "nowhere.safetensors");
}

static void test_training_prints_epochs_and_accuracy(void **state)
{
    (void)state;
    expect_run(0, "mlp_mnist", "--data . --epochs 3 --batch 20 --seed 4 --threads 1");
    expect_text(out_text, "data: MNIST in .\n");
    expect_text(out_text, "epoch 3/3: loss ");
    expect_text(out_text, "test accuracy 100.00 % after 90 steps");
    expect_text(err_text, "epoch 1/3: 10%, step 3 of 30, loss ");
}

static void test_json_holds_what_was_promised(void **state)
{
    (void)state;
    expect_run(0, "mlp_mnist", "--data . --device cpu --steps 40 --batch 20 --json r.json --quiet");
    assert_string_equal(err_text, "");
    char text[TEXT_BYTES];
    read_text("r.json", text);
    const char *keys[] = { "\"device\":\t\"cpu\"", "\"device_reason\":\t\"the CPU was asked for\"",
                           "\"epochs\":\t[{",      "\"loss\":\t",
                           "\"train_seconds\":\t", "\"samples_per_second\":\t",
                           "\"test_accuracy\":\t", "\"peak_allocated_bytes\":\t",
                           "\"seed\":\t1" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        expect_text(text, keys[i]);
    int entries = 0;
    for (const char *at = text; (at = strstr(at, "\"loss\"")) != NULL; at++)
        entries++;
    assert_int_equal(entries, 2); /* a whole epoch of 30 steps, and one cut after 10 */
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
    char options[256], first[TEXT_BYTES], results[TEXT_BYTES];
    snprintf(options, sizeof options,
             "%s --epochs 3 --save g.run --json r.json --prompt '4 green' --sample 60 --top-k 3",
             common);
    expect_run(0, "char_gpt", options);
    assert_memory_equal(out_text, "4 green", 7);
    assert_true(strstr(out_text, "\ntest loss ") - out_text >= 7 + 60);
    read_text("r.json", results);
    const double loss = number_of(results, "\"test_loss\":");
    assert_true(loss > 0 && loss < 1.5); /* it begins with log 31 = 3.4 */

    memcpy(first, out_text, sizeof first); /* what is written depends on the model and the seed */
    snprintf(options, sizeof options, "--load g.run --quiet --prompt '4 green' --sample 60");
    expect_run(0, "char_gpt", options);
    assert_string_not_equal(out_text, first);
    strcat(options, " --top-k 3");
    expect_run(0, "char_gpt", options);
    assert_string_equal(out_text, first);
    strcat(options, " --temperature 1e-6"); /* the likeliest each time, as with --top-k 1 */
    expect_run(0, "char_gpt", options);
    memcpy(first, out_text, sizeof first);
    strcat(options, " --temperature 5 --top-k 1");
    expect_run(0, "char_gpt", options);
    assert_string_equal(out_text, first);
}

static void test_text_programs_have_options_of_their_own(void **state)
{
    (void)state;
    expect_run(2, "char_gpt", "--show 3");
    expect_text(err_text, "--top-k N");
    expect_run(2, "mlp_mnist", "--sample 3");
    expect_text(err_text, "--show N");
    expect_run(2, "char_gpt", "--temperature 0");
    expect_text(err_text, "--temperature wants a number above 0, not '0'");
    expect_run(1, "char_gpt", "--data nowhere.txt --quiet");
    expect_text(err_text, "nowhere.txt");
    expect_run(1, "char_gpt", "--data r.json --quiet");
    expect_text(err_text, "do not fit in");
    const int status = run("env -u TERN_DATA -u XDG_CACHE_HOME HOME=.", "char_gpt",
                           "--steps 1 --no-test --batch 2");
    assert_int_equal(status, 0);
    expect_text(err_text, "using made-up tales");
    expect_text(out_text, "data: the built-in made-up tales");
}

/* ---- stopping and going on ---- */

static tern_state *load(const char *name)
{
    char path[2 * FILE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", file_folder(), name);
    tern_state *state = tern_state_load(path);
    assert_non_null(state);
    return state;
}

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
    tern_state *a = load(one), *b = load(other);
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
    expect_run(0, "mlp_mnist", "--data . --epochs 2 --batch 20 --threads 2 --quiet --save a.run");
    expect_run(0, "mlp_mnist", "--data . --epochs 2 --batch 20 --threads 2 --quiet --save b.run");
    expect_same_runs("a.run", "b.run");
}

static void stop_and_go_on(const char *program, const char *data, const char *stop)
{
    char options[256];
    const char *common = "--epochs 2 --batch 30 --threads 1 --quiet";
    snprintf(options, sizeof options, "--data %s %s --save whole.run", data, common);
    expect_run(0, program, options);
    snprintf(options, sizeof options, "--data %s %s --steps %s --save part.run", data, common,
             stop);
    expect_run(0, program, options);
    expect_run(0, program, "--load part.run --threads 1 --quiet --save rest.run");
    expect_same_runs("whole.run", "rest.run");
}

static void test_run_cut_in_an_epoch_goes_on_bit_for_bit(void **state)
{
    (void)state;
    stop_and_go_on("mlp_mnist", ".", "7");
    stop_and_go_on("cnn_mnist", ".", "27");
    stop_and_go_on("char_gpt", "rhyme.txt", "5");
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
        expect_run(0, "resnet_cifar", whole);
        expect_text(out_text, "data: CIFAR-10 in .\n");
        expect_run(0, "resnet_cifar", part);
        expect_run(0, "resnet_cifar", "--load part.run --threads 1 --quiet --save rest.run");
        expect_same_runs("whole.run", "rest.run");
    }
    expect_run(0, "resnet_cifar", "--data . --steps 1 --batch 16 --quiet --save plain.run");
    expect_run(2, "resnet_cifar", "--load plain.run --augment");
    expect_text(err_text, "--augment, but the run in 'plain.run' was without");
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
        expect_run(0, "mlp_mnist", whole);
        expect_run(0, "mlp_mnist", part);
        expect_run(0, "mlp_mnist", "--load part.run --threads 1 --quiet --save rest.run");
        expect_same_runs("whole.run", "rest.run");
    }
    tern_state *run = load("whole.run");
    assert_string_equal(tern_state_text(run, "run.amp"), "fp16");
    int64_t tracker = 0, steps = 0;
    double scale = 0;
    tern_state_get_int(run, "scaler._growth_tracker", &tracker);
    tern_state_get_number(run, "scaler.scale", &scale);
    tern_state_get_int(run, "run.steps_done", &steps);
    tern_state_free(run);
    assert_true(tracker > 0 && tracker <= steps && scale > 0);
    expect_run(2, "mlp_mnist", "--load part.run --amp off");
    expect_text(err_text, "--amp off differs from the fp16 of the run in 'part.run'");
}

static void test_run_cut_between_epochs_goes_on_bit_for_bit(void **state)
{
    (void)state;
    stop_and_go_on("mlp_mnist", ".", "20");
}

static void test_run_may_be_cut_twice_in_one_epoch(void **state)
{
    (void)state;
    const char *common = "--threads 1 --quiet";
    char options[256];
    snprintf(options, sizeof options, "--data . --epochs 1 --batch 30 %s --save whole.run", common);
    expect_run(0, "mlp_mnist", options);
    snprintf(options, sizeof options, "--data . --epochs 1 --batch 30 --steps 5 %s --save 1.run",
             common);
    expect_run(0, "mlp_mnist", options);
    snprintf(options, sizeof options, "--load 1.run --steps 11 %s --save 2.run", common);
    expect_run(0, "mlp_mnist", options);
    snprintf(options, sizeof options, "--load 2.run %s --save rest.run", common);
    expect_run(0, "mlp_mnist", options);
    expect_same_runs("whole.run", "rest.run");
}

static void test_loaded_run_refuses_other_options(void **state)
{
    (void)state;
    expect_run(0, "mlp_mnist", "--data . --epochs 1 --batch 30 --steps 2 --quiet --save c.run");
    expect_run(2, "mlp_mnist", "--load c.run --batch 40");
    expect_text(err_text, "--batch 40 differs from the 30 of the run in 'c.run'");
    expect_run(2, "mlp_mnist", "--load c.run --lr 0.5");
    expect_text(err_text, "--lr 0.5 differs");
    expect_run(1, "cnn_mnist", "--load c.run --quiet"); /* another model's */
    expect_text(err_text, "c.run");
}

/* ---- mistakes ---- */

static void test_bad_options_end_with_2(void **state)
{
    (void)state;
    const char *bad[][2] = {
        { "--epochs x", "--epochs wants a whole number from 1 to 1000, not 'x'" },
        { "--epochs 0", "not '0'" },
        { "--batch 3x", "not '3x'" },
        { "--lr -1", "--lr wants a number above 0, not '-1'" },
        { "--lr nan", "not 'nan'" },
        { "--seed -3", "--seed wants" },
        { "--amp f16", "--amp wants off, bf16 or fp16, not 'f16'" },
        { "--steps 99999999999999999999", "--steps wants" },
        { "--device gpu", "gpu" },
        { "--nonsense", "usage: " },
        { "--data", "usage: " },
        { "mnist", "'mnist' is no option" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        expect_run(2, "cnn_mnist", bad[i][0]);
        expect_text(err_text, bad[i][1]);
    }
}

static void test_help_is_no_mistake(void **state)
{
    (void)state;
    expect_run(0, "cnn_mnist", "--help");
    expect_text(out_text, "--threads N");
}

static void in_folder(const char *command)
{
    char line[2 * FILE_PATH_BYTES];
    (void)snprintf(line, sizeof line, "cd '%s' && %s", file_folder(), command);
    assert_int_equal(system(line), 0);
}

static void test_bad_files_end_with_1_and_their_path(void **state)
{
    (void)state;
    expect_run(1, "mlp_mnist", "--data nowhere --quiet");
    expect_text(err_text, "'nowhere' holds neither train-images-idx3-ubyte nor");
    expect_text(err_text, "try the folder with MNIST's four files");
    expect_run(1, "mlp_mnist", "--data . --load nowhere.run --quiet");
    expect_text(err_text, "nowhere.run");
    expect_run(1, "mlp_mnist", "--data . --load err.txt --quiet");
    expect_text(err_text, "err.txt");
    in_folder("mkdir cut && head -c 100 train-images-idx3-ubyte >cut/train-images-idx3-ubyte");
    expect_run(1, "mlp_mnist", "--data cut --quiet");
    expect_text(err_text, "'cut/train-images-idx3-ubyte': its header promises");
    expect_text(err_text, "try to fetch it again");
    in_folder("rm -r cut");
}

/* Before the run, not at its end. */
static void test_what_cannot_be_written_is_found_out_first(void **state)
{
    (void)state;
    expect_run(2, "mlp_mnist", "--data . --save nowhere/a.run");
    expect_text(err_text,
                "--save wants a file in a folder that can be written, not 'nowhere/a.run'");
    expect_run(2, "mlp_mnist", "--data . --json nowhere/a.json");
    expect_text(err_text, "--json wants a file in a folder that can be written");
    expect_run(2, "cnn_mnist", "--data . --save .");
    expect_text(err_text, "--save wants a file");
    expect_run(2, "cnn_mnist", "--data . --device gpu");
    expect_text(err_text, "--device wants auto, cpu, cuda or cuda:N, not 'gpu'");
}

static void test_without_mnist_digits_are_drawn_and_said(void **state)
{
    (void)state;
    const int status = run("env -u TERN_DATA -u XDG_CACHE_HOME HOME=.", "mlp_mnist", "--steps 2");
    assert_int_equal(status, 0);
    expect_text(err_text, "no MNIST in data/mnist, $TERN_DATA/mnist or ~/.cache/tern/mnist");
    expect_text(err_text, "try --data DIR; ./run demo --fetch gets the files");
    expect_text(out_text, "data: the built-in drawn digits");
}

static void test_without_cifar_pictures_are_drawn_and_said(void **state)
{
    (void)state;
    const int status = run("env -u TERN_DATA -u XDG_CACHE_HOME HOME=.", "resnet_cifar",
                           "--steps 2 --batch 4 --no-test");
    assert_int_equal(status, 0);
    expect_text(err_text, "no CIFAR-10 in data/cifar10, $TERN_DATA/cifar10 or");
    expect_text(out_text, "data: the built-in drawn pictures");
    expect_run(2, "resnet_cifar", "--show 3");
    expect_text(err_text, "usage: ");
    expect_run(2, "mlp_mnist", "--augment");
    expect_text(err_text, "usage: ");
    expect_run(0, "resnet_cifar", "--help");
    expect_text(out_text, "--augment  ");
}

static void test_show_prints_digits_with_answers(void **state)
{
    (void)state;
    expect_run(0, "mlp_mnist", "--data . --epochs 3 --batch 20 --quiet --show 4");
    assert_true(strlen(out_text) > 4 * SIDE);
    const int status = run("LC_ALL=C", "mlp_mnist", "--data . --steps 1 --quiet --show 2");
    assert_int_equal(status, 0);
    expect_text(out_text, "@@@@@");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hello_prints_a_product),
        cmocka_unit_test(test_custom_op_agrees_with_the_library),
        cmocka_unit_test(test_regression_draws_its_fit),
        cmocka_unit_test(test_weights_of_pytorch_give_its_logits),
        cmocka_unit_test(test_training_prints_epochs_and_accuracy),
        cmocka_unit_test(test_json_holds_what_was_promised),
        cmocka_unit_test(test_text_is_learnt_and_gone_on_with),
        cmocka_unit_test(test_text_programs_have_options_of_their_own),
        cmocka_unit_test(test_same_seed_gives_the_same_run),
        cmocka_unit_test(test_run_cut_in_an_epoch_goes_on_bit_for_bit),
        cmocka_unit_test(test_images_that_are_moved_go_on_bit_for_bit),
        cmocka_unit_test(test_half_precision_goes_on_bit_for_bit),
        cmocka_unit_test(test_run_cut_between_epochs_goes_on_bit_for_bit),
        cmocka_unit_test(test_run_may_be_cut_twice_in_one_epoch),
        cmocka_unit_test(test_loaded_run_refuses_other_options),
        cmocka_unit_test(test_bad_options_end_with_2),
        cmocka_unit_test(test_help_is_no_mistake),
        cmocka_unit_test(test_bad_files_end_with_1_and_their_path),
        cmocka_unit_test(test_what_cannot_be_written_is_found_out_first),
        cmocka_unit_test(test_without_mnist_digits_are_drawn_and_said),
        cmocka_unit_test(test_without_cifar_pictures_are_drawn_and_said),
        cmocka_unit_test(test_show_prints_digits_with_answers),
    };
    return cmocka_run_group_tests(tests, make_data, NULL);
}
