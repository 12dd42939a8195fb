/* mlp_mnist on a simulated device: its first loss is the CPU's within 1e-5, the twentieth within 1e-3.
 * (cnn_mnist would take a quarter of a minute, most of it for its test set.) Not built where there are no
 * simulated devices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The loss of the last step of "<prefix> <program> --steps <n> ...", on the built-in digits. */
static double last_loss(const char *device, const char *program, const char *options)
{
    const char *examples = getenv("TERN_TEST_EXAMPLES");
    char command[2048], line[512];
    double loss = NAN;
    assert_non_null(examples);
    snprintf(command, sizeof command,
             "TERN_SIM_DEVICES=1 '%s/%s' --data digits --device %s --quiet --json /dev/stdout %s",
             examples, program, device, options);
    FILE *results = popen(command, "r");
    assert_non_null(results);
    bool on_device = strcmp(device, "cpu") == 0;
    while (fgets(line, sizeof line, results) != NULL) {
        const char *at = strstr(line, "\"loss\":");
        if (at != NULL)
            loss = strtod(at + strlen("\"loss\":"), NULL);
        on_device = on_device || strstr(line, "\"cuda:0\"") != NULL;
    }
    assert_int_equal(pclose(results), 0);
    assert_true(on_device);
    return loss;
}

static void assert_same_loss(const char *program, const char *options, double tolerance)
{
    const double cpu = last_loss("cpu", program, options);
    const double device = last_loss("cuda", program, options);
    if (!(fabs(device - cpu) <= tolerance * cpu))
        print_error("%s %s: %.9g on the device, %.9g on the CPU\n", program, options, device, cpu);
    assert_true(fabs(device - cpu) <= tolerance * cpu);
}

static void test_mlp_begins_as_on_the_cpu(void **state)
{
    (void)state;
    assert_same_loss("mlp_mnist", "--steps 1", 1e-5);
}

static void test_mlp_goes_on_as_on_the_cpu(void **state)
{
    (void)state;
    assert_same_loss("mlp_mnist", "--steps 20 --batch 32", 1e-3);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_mlp_begins_as_on_the_cpu),
                                        cmocka_unit_test(test_mlp_goes_on_as_on_the_cpu) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
