/* The training examples on simulated devices: their first loss is the CPU's within 1e-5, the twentieth
 * within 1e-3. On what is drawn or made up, and on MNIST where it is. Not built where there are no simulated
 * devices. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/check.h"
#include "tests/support/files.h"
#include "tests/support/sanitizer.h"

enum { COMMAND = 4096 };

/* One stretch of a run, that ends at step `steps`: from the beginning, or from where the last ended. The
 * mean of the losses so far, all steps of the pass together. */
static double mean_loss(const char *program, const char *options, int steps, bool go_on)
{
    const char *examples = getenv("TERN_TEST_EXAMPLES");
    char command[COMMAND], line[512];
    double loss = NAN;
    bool on_device = strstr(options, "--device cuda") == NULL;
    assert_non_null(examples);
    (void)snprintf(
        command, sizeof command,
        "cd '%s' && TERN_SIM_DEVICES=2 '%s/%s' %s --steps %d %s --save run --no-test --quiet "
        "--json /dev/stdout",
        file_folder(), examples, program, options, steps, go_on ? "--load run" : "");
    FILE *results = popen(command, "r");
    assert_non_null(results);
    while (fgets(line, sizeof line, results) != NULL) {
        const char *at = strstr(line, "\"loss\":");
        if (at != NULL)
            loss = strtod(at + strlen("\"loss\":"), NULL);
        on_device = on_device || strstr(line, "\"cuda:") != NULL;
    }
    assert_int_equal(pclose(results), 0);
    assert_true(on_device);
    return loss;
}

typedef struct losses {
    double first, last; /* of 20, or of 6 */
} losses;

static losses train(const char *program, const char *device, const char *data, const char *rest)
{
    char options[COMMAND / 2];
    (void)snprintf(options, sizeof options, "--device %s --data '%s' %s", device, data, rest);
    losses l;
    const int steps = RUNS_ARE_SHORT ? 6 : 20;
    l.first = mean_loss(program, options, 1, false);
    const double before = mean_loss(program, options, steps - 1, true);
    l.last = steps * mean_loss(program, options, steps, true) - (steps - 1) * before;
    return l;
}

static void check_close(const char *what, const char *device, double there, double here,
                        double bound)
{
    if (!(fabs(there - here) <= bound * here))
        fail_msg("%s: %.9g on %s, %.9g on the CPU", what, there, device, here);
}

static void check_example(const char *program, const char *data, const char *rest, int count)
{
    static const char *const devices[] = { "cuda", "cuda:1" };
    const losses cpu = train(program, "cpu", data, rest);
    for (int i = 0; i < (RUNS_ARE_SHORT ? 1 : count); i++) {
        const losses there = train(program, devices[i], data, rest);
        check_close("the first loss", devices[i], there.first, cpu.first, 1e-5);
        check_close("the last loss", devices[i], there.last, cpu.last, 1e-3);
    }
}

static void test_mlp_trains_as_on_the_cpu(void **state)
{
    (void)state;
    check_example("mlp_mnist", "digits", "--batch 32", 2);
}

static void test_cnn_trains_as_on_the_cpu(void **state)
{
    (void)state;
    check_example("cnn_mnist", "digits", "--batch 4", 2);
}

static void test_resnet_trains_as_on_the_cpu(void **state)
{
    (void)state;
    if (HAS_ADDRESS_SANITIZER) {
        print_message("skipped: a sanitizer is at work\n");
        skip();
    }
    /* at the rate of the whole run, rounding errors of the first steps have grown past 1e-3 by then */
    check_example("resnet_cifar", "pictures", "--batch 4 --lr 1e-5", 1);
}

static void test_transformer_trains_as_on_the_cpu(void **state)
{
    (void)state;
    check_example("char_gpt", "tales", "--batch 2", 1);
}

static void test_mnist_trains_as_on_the_cpu(void **state)
{
    (void)state;
    if (RUNS_ARE_SHORT) {
        print_message("skipped: a sanitizer is at work\n");
        skip();
    }
    const char *folder = file_test_data("mnist");
    if (folder == NULL) {
        print_message("skipped: no MNIST in TERN_TEST_DATA or ../shared/data\n");
        skip();
    }
    char path[FILE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s", folder);
    check_example("mlp_mnist", path, "--batch 32", 1);
    check_example("cnn_mnist", path, "--batch 4", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_mlp_trains_as_on_the_cpu),
                                        cmocka_unit_test(test_cnn_trains_as_on_the_cpu),
                                        cmocka_unit_test(test_transformer_trains_as_on_the_cpu),
                                        cmocka_unit_test(test_resnet_trains_as_on_the_cpu),
                                        cmocka_unit_test(test_mnist_trains_as_on_the_cpu) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
