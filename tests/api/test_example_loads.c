/* What a loaded run refuses: other options, other data, and values that no run could have stored. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tern/tern.h>

#include "tests/support/check.h"
#include "tests/support/examples.h"
#include "tests/support/files.h"

static void test_loaded_run_refuses_other_options(void **state)
{
    (void)state;
    example_expect(0, "mlp_mnist", "--data . --epochs 1 --batch 30 --steps 2 --quiet --save c.run");
    example_expect(2, "mlp_mnist", "--load c.run --batch 40");
    example_says(example_err, "--batch 40 differs from the 30 of the run in 'c.run'");
    example_expect(2, "mlp_mnist", "--load c.run --lr 0.5");
    example_says(example_err, "--lr 0.5 differs");
    example_expect(2, "mlp_mnist", "--load c.run --epochs 3"); /* the plan is the schedule's */
    example_says(example_err, "--epochs 3 differs from the 1 of the run in 'c.run'");
    example_expect(0, "mlp_mnist", "--load c.run --epochs 1 --quiet");
    example_expect(2, "mlp_mnist", "--load c.run --data digits --quiet");
    example_says(example_err, "'digits' has 60000 samples, the data of the run in 'c.run' ");
    example_expect(1, "cnn_mnist", "--load c.run --quiet"); /* another model's */
    example_says(example_err, "cnn_mnist: the run in 'c.run' is one of mlp_mnist\n");
    example_expect(2, "char_gpt", "--load c.run --quiet");
    example_says(example_err, "the run in 'c.run' is one on images; this program's are on text");
}

/* Its rows stand for other symbols, and its place in the data is none. */
static void test_loaded_run_refuses_another_text(void **state)
{
    (void)state;
    example_put("one.txt", "a cat sat\n", 100);
    example_put("same.txt", "a cat sat\n", 100);
    example_put("order.txt", "a sat cat\n", 100);
    example_put("longer.txt", "a cat sat\n", 200);
    example_put("kinds.txt", "a dog sat\n", 100);
    example_put("other.txt", "a bat sat\n", 100);
    example_expect(0, "char_gpt", "--data one.txt --steps 1 --batch 2 --quiet --save t.run");
    example_expect(2, "char_gpt", "--load t.run --data order.txt --quiet");
    example_says(example_err, "'order.txt' is another text than that of the run in 't.run': 1000 "
                              "characters of 6 kinds, and that had 1000 of 6");
    example_expect(2, "char_gpt", "--load t.run --data longer.txt --quiet");
    example_says(example_err, ": 2000 characters of 6 kinds, and that had 1000 of 6");
    example_expect(2, "char_gpt", "--load t.run --data kinds.txt --quiet");
    example_says(example_err, "of 8 kinds, which the model does not know, and that had 1000 of 6");
    example_expect(2, "char_gpt", "--load t.run --data other.txt --quiet");
    example_says(example_err, "of 6 kinds, which the model does not know, and that had 1000 of 6");
    example_expect(0, "char_gpt", "--load t.run --data same.txt --steps 2 --quiet"); /* moved */
}

static void save(tern_state *run, const char *name)
{
    char path[2 * FILE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/%s", file_folder(), name);
    assert_int_equal(tern_state_save(run, path), TERN_OK);
    tern_state_free(run);
}

/* Copies of the images under another name, in which one byte of a file is another. */
static void make_other(const char *folder, const char *file, int place)
{
    char command[4 * FILE_PATH_BYTES];
    (void)snprintf(command, sizeof command,
                   "cd '%s' && mkdir %s && cp *-ubyte *.bin %s && printf '\\5' | "
                   "dd of=%s/%s bs=1 seek=%d conv=notrunc 2>dd.txt",
                   file_folder(), folder, folder, folder, file, place);
    assert_int_equal(system(command), 0);
}

/* The same number of samples is not the same data. */
static void test_loaded_run_refuses_other_images(void **state)
{
    (void)state;
    make_other("pixels", "train-images-idx3-ubyte", 16);
    make_other("labels", "train-labels-idx1-ubyte", 8 + 599);
    make_other("colours", "data_batch_5.bin", 0);
    make_other("tests", "t10k-images-idx3-ubyte", 16); /* the run has no place in these */
    example_expect(0, "mlp_mnist", "--data . --batch 30 --steps 2 --quiet --save i.run");
    example_expect(2, "mlp_mnist", "--load i.run --data pixels --quiet");
    example_says(example_err, "'pixels' has other images or labels than the data of the run in "
                              "'i.run'");
    example_expect(2, "mlp_mnist", "--load i.run --data labels --quiet");
    example_expect(0, "mlp_mnist", "--load i.run --data tests --steps 3 --quiet");
    example_expect(0, "resnet_cifar", "--data . --batch 8 --steps 1 --quiet --save c.run");
    example_expect(2, "resnet_cifar", "--load c.run --data colours --quiet");
    example_expect(0, "resnet_cifar", "--load c.run --data pixels --steps 2 --quiet");
}

/* Files of before have nothing to compare with. */
static void test_runs_without_a_sum_of_images_go_on(void **state)
{
    (void)state;
    example_expect(0, "mlp_mnist", "--data . --batch 30 --steps 2 --quiet --save new.run");
    tern_state *run = example_load("new.run"), *old = tern_state_create();
    const tern_tensors_t list = tern_state_tensors(run);
    const tern_names_t keys = tern_state_text_keys(run);
    int left_out = 0;
    for (int64_t i = 0; i < list.count; i++) {
        if (strcmp(list.names[i], "run.images_sum") == 0)
            left_out++;
        else
            tern_state_set(old, list.names[i], list.tensors[i]);
    }
    for (int64_t i = 0; i < keys.count; i++)
        tern_state_set_text(old, keys.names[i], tern_state_text(run, keys.names[i]));
    assert_int_equal(left_out, 1);
    save(old, "old.run");
    tern_state_free(run);
    example_expect(0, "mlp_mnist", "--load old.run --steps 3 --quiet --save again.run");
    run = example_load("again.run");
    assert_non_null(tern_state_get(run, "run.images_sum"));
    tern_state_free(run);
}

/* a.run with one value of another, as bad.run. */
static void expect_unsound(const char *program, tern_state *bad, const char *words)
{
    save(bad, "bad.run");
    example_expect(1, program, "--load bad.run --quiet --no-test");
    example_says(example_err, words);
    assert_string_equal(example_out, "");
}

/* They were replaced by the program's own, or counted with. */
static void test_values_that_no_run_has_are_refused(void **state)
{
    (void)state;
    const struct {
        const char *name;
        int64_t value;
        const char *words;
    } bad[] = { { "run.batch", 0, "'bad.run' holds no sound run: run.batch is 0, not 1 to" },
                { "run.batch", -1, "run.batch is -1, not 1 to" },
                { "run.seed", -2, "run.seed is -2, not 0 to" },
                { "run.epochs", 0, "run.epochs is 0, not 1 to 1000" },
                { "run.epochs", -5, "run.epochs is -5, not 1 to 1000" },
                { "run.epoch", INT64_MAX, "run.epoch is 9223372036854775807, not 0 to 1" },
                { "run.epoch", 2, "run.epoch is 2, not 0 to 1" },
                { "run.is_cut", INT64_MIN, "run.is_cut is -9223372036854775808, not 0 to 1" },
                { "run.steps_done", -1, "run.steps_done is -1, not 0 to" },
                { "run.steps_done", 3, "run.steps_done is 3, with 0 epochs of 20 steps and 2 of" },
                { "run.skipped", 3, "run.skipped is 3, not 0 to 2" },
                { "loader.step", 21, "with 0 epochs of 20 steps and 21 of" },
                { "loader.step", INT64_MAX, "'loader.step' is 9223372036854775807, not a count" },
                { "schedule.step", 1, "schedule.step is 1, after 2 steps" } };
    const double rates[] = { 0, -1, (double)NAN, (double)INFINITY };
    example_expect(0, "mlp_mnist", "--data . --epochs 2 --batch 30 --steps 2 --quiet --save a.run");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tern_state *run = example_load("a.run");
        tern_state_set_int(run, bad[i].name, bad[i].value);
        expect_unsound("mlp_mnist", run, bad[i].words);
    }
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        tern_state *run = example_load("a.run");
        tern_state_set_number(run, "run.lr", rates[i]);
        expect_unsound("mlp_mnist", run, "'bad.run' holds no sound run: run.lr is ");
    }
    tern_state *run = example_load("a.run");
    tern_state_set_text(run, "run.amp", "int4");
    expect_unsound("mlp_mnist", run, "run.amp is 'int4', not off, bf16 or fp16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loaded_run_refuses_other_options),
        cmocka_unit_test(test_loaded_run_refuses_another_text),
        cmocka_unit_test(test_loaded_run_refuses_other_images),
        cmocka_unit_test(test_runs_without_a_sum_of_images_go_on),
        cmocka_unit_test(test_values_that_no_run_has_are_refused),
    };
    return cmocka_run_group_tests(tests, example_make_data, NULL);
}
