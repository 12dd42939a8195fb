/* A program on two simulated devices of which one CUDA call fails, for each call in turn: the failure is a
 * tern error that names the device, or the results are right all the same; nothing is left allocated; and
 * unless the device is lost the program then runs as if nothing had been. Each run is a child of its own,
 * since the simulator reads TERN_SIM_FAIL once. Not built where there are no simulated devices. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/check.h"

/* ---- the program --------------------------------------------------------------------------------- */

/* Parts that make their inputs from seeds of their own; sums that are the same on every device. */

static double loss_of_a_net(tern_dev_t dev)
{
    tern_seed(1);
    tern_tensor *x = tern_to(tern_randn(TERN_SHAPE(4, 2, 6, 6)), dev);
    tern_tensor *w = tern_to(tern_randn(TERN_SHAPE(3, 2, 3, 3)), dev);
    tern_tensor *v = tern_to(tern_randn(TERN_SHAPE(5, 12)), dev);
    tern_tensor *target = tern_to(tern_arange(0, 4), dev);
    tern_set_requires_grad(w, true);
    tern_set_requires_grad(v, true);
    tern_tensor *y = tern_max_pool2d(tern_relu(tern_conv2d(x, w)), { 2, 2 });
    tern_tensor *loss = tern_cross_entropy(tern_linear(tern_flatten(y, 1, -1), v, NULL), target);
    tern_backward(loss);
    return tern_item(tern_add(
        loss, tern_add(tern_sum(tern_abs(tern_grad_of(w))), tern_sum(tern_abs(tern_grad_of(v))))));
}

static double norms_and_rows(tern_dev_t dev)
{
    tern_seed(2);
    tern_tensor *table = tern_to(tern_randn(TERN_SHAPE(6, 4)), dev, TERN_F16);
    tern_tensor *rows = tern_to(tern_arange(1, 5), dev);
    tern_set_requires_grad(table, true);
    tern_tensor *y = tern_layer_norm(tern_embedding(table, rows), 1);
    tern_tensor *z =
        tern_batch_norm(tern_cast(y, TERN_F32), NULL, NULL, NULL, NULL, .training = true);
    tern_tensor *picked = tern_gather(tern_softmax(z, 1), 1, tern_unsqueeze(tern_argmax(z, 1), 1));
    tern_backward(tern_sum(tern_mul(tern_gelu(picked), 8)));
    return tern_item(tern_sum(tern_abs(tern_cast(tern_grad_of(table), TERN_F32))));
}

static double reductions_and_copies(tern_dev_t dev)
{
    tern_seed(3);
    tern_tensor *x = tern_rand(TERN_SHAPE(5, 7), .device = dev);
    tern_tensor *turned = tern_contiguous(tern_transpose(x, 0, 1));
    tern_tensor *order = tern_randperm(5, .device = dev);
    tern_tensor *sums = tern_cat(0, tern_sum(turned, TERN_DIMS(0)), tern_var(x, TERN_DIMS(1)),
                                 tern_amax(x, TERN_DIMS(1)), tern_cast(order, TERN_F32));
    tern_tensor *wide =
        tern_where(tern_gt(sums, 0.5), sums, tern_full(2, TERN_SHAPE(20), .device = dev));
    return tern_item(tern_sum(tern_mul(wide, tern_arange(0, 20, .device = dev))));
}

static double pinned_and_peer(tern_dev_t dev)
{
    tern_seed(4);
    tern_tensor *x = tern_randn(TERN_SHAPE(300));
    if (dev.kind == TERN_KIND_CUDA)
        x = tern_to(tern_to(tern_pin(x), TERN_CUDA(0), .non_blocking = true), TERN_CUDA(1));
    return tern_item(tern_sum(tern_dropout(x, 0.25)));
}

static double a_step(tern_dev_t dev)
{
    tern_seed(5);
    tern_tensor *p = tern_full(0.5, TERN_SHAPE(9), .device = dev, .requires_grad = true);
    tern_optimizer *opt = tern_adam(TERN_TENSORS(p), .lr = 0.1);
    tern_grad_scaler *scaler = tern_grad_scaler_create(.device = dev, .init_scale = 4);
    tern_backward(tern_scaler_scale(scaler, tern_sum(tern_mul(p, p))));
    tern_scaler_step(scaler, opt);
    tern_scaler_update(scaler);
    const double sum = tern_item(tern_sum(p));
    tern_grad_scaler_free(scaler);
    tern_optimizer_free(opt);
    return sum;
}

static double (*const parts[])(tern_dev_t) = { loss_of_a_net, norms_and_rows, reductions_and_copies,
                                               pinned_and_peer, a_step };
enum { PARTS = sizeof parts / sizeof *parts };

/* ---- one run ------------------------------------------------------------------------------------- */

enum { UNSEEN = 0, REPORTED = 1, BROKEN = 2 };

static int broken(const char *what, int part)
{
    (void)fprintf(stderr, "part %d: %s: %s\n", part, what, tern_error_text());
    return BROKEN;
}

static double run_part(int part, tern_dev_t dev)
{
    TERN_SCOPE;
    return parts[part](dev);
}

/* Devices are counted once: a process whose count failed has none. */
static bool has_no_devices(void)
{
    const char *text = tern_error_text();
    return strstr(text, "[init-failed]") != NULL || strstr(text, "[no-device]") != NULL;
}

static bool says_what_failed(void)
{
    return strstr(tern_error_text(), "cuda:") != NULL || has_no_devices();
}

/* All parts on a device, whose results are compared; at the first error it is looked at. */
static int run_parts(const double *expected, tern_dev_t dev)
{
    for (int i = 0; i < PARTS; i++) {
        const double got = run_part(i, dev);
        if (tern_failed())
            return says_what_failed() ? REPORTED : broken("names no device", i);
        if (!(fabs(got - expected[i]) <= 2e-3 * fabs(expected[i])))
            return broken("a wrong result without an error", i);
    }
    return UNSEEN;
}

static bool is_lost(void)
{
    return strstr(tern_error_text(), "lost") != NULL || has_no_devices();
}

static int leftover(int before)
{
    tern_host_empty_cache();
    for (int i = 0; i < 2; i++) {
        tern_clear_workspaces(TERN_CUDA(i));
        tern_empty_cache(TERN_CUDA(i));
        if (tern_memory(TERN_CUDA(i)).allocated_bytes != 0)
            return broken("memory is left", -1);
    }
    return tern_live_tensors() == before ? UNSEEN : broken("tensors are left", -1);
}

static int all_parts(void)
{
    double expected[PARTS];
    tern_set_num_threads(1);
    tern_set_device_policy(TERN_REQUIRE);
    for (int i = 0; i < PARTS; i++)
        expected[i] = run_part(i, TERN_CPU);
    int status = run_parts(expected, TERN_CUDA(1));
    const bool lost = status == REPORTED && is_lost();
    tern_error_clear();
    if (status != BROKEN && !lost && leftover(0) == BROKEN)
        return BROKEN;
    const int again = status == REPORTED && !lost ? run_parts(expected, TERN_CUDA(1)) : UNSEEN;
    if (again == REPORTED && !is_lost())
        return broken("fails once more", -1);
    return again == BROKEN ? BROKEN : status;
}

/* What `body` gives in a process of its own, where one call fails. */
static int run_child(const char *fail, int (*body)(void))
{
    int status = 0;
    (void)fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        (void)setenv("TERN_SIM_FAIL", fail, 1);
        (void)setenv("TERN_SIM_DEVICES", "2", 1);
        exit(body());
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) > REPORTED)
        print_error("TERN_SIM_FAIL=%s: status %x\n", fail, (unsigned)status);
    return WIFEXITED(status) ? WEXITSTATUS(status) : BROKEN;
}

/* ---- sweeps -------------------------------------------------------------------------------------- */

/* QUIET calls in a row whose failure nobody sees: the program has made all of its calls. Of a convolution's plan, which
 * is made once more where one call lacks memory, nobody sees 27. */
enum { QUIET = 50, STRIDE = 5 };

static void sweep(int code)
{
    const int stride = getenv("TERN_TEST_FULL") != NULL ? 1 : STRIDE;
    int reported = 0, wrong = 0;
    for (int k = 1, quiet = 0; quiet < QUIET && wrong < 5; k += stride) {
        char fail[64];
        (void)snprintf(fail, sizeof fail, "*@%d=%d", k, code);
        const int status = run_child(fail, all_parts);
        quiet = status == UNSEEN ? quiet + stride : 0;
        reported += status == REPORTED;
        wrong += status > REPORTED;
    }
    print_message("code %d: %d calls whose failure is reported\n", code, reported);
    assert_int_equal(wrong, 0);
    assert_true(reported > 150 / stride);
}

static void test_it_runs_when_nothing_fails(void **state)
{
    (void)state;
    assert_int_equal(run_child("", all_parts), UNSEEN);
}

/* With a wait after each launch the fault is its launch's; the text says what was lost and what to do. */
static int lost_in_a_launch(void)
{
    tern_set_num_threads(1);
    (void)run_part(1, TERN_CUDA(1));
    static const char *const words[] = {
        "layer_norm on cuda:1 (simulated), default stream: cudaErrorIllegalAddress (700)",
        "injected into k_layer_norm", "launched last: layer_norm, embedding",
        "the device is lost to this process"
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(tern_error_text(), words[i]) == NULL)
            return broken(words[i], 1);
    tern_error_clear();
    (void)run_part(0,
                   TERN_CUDA(1)); /* the error is sticky; the other device is not touched by it */
    if (!is_lost())
        return broken("a lost device works", 0);
    tern_error_clear();
    (void)run_part(0, TERN_CUDA(0));
    return tern_failed() ? broken("the other device fails", 0) : REPORTED;
}

static void test_a_fault_is_that_of_its_launch(void **state)
{
    (void)state;
    (void)setenv("TERN_CUDA_SYNC", "1", 1);
    assert_int_equal(run_child("launch:k_layer_norm@1=700", lost_in_a_launch), REPORTED);
    (void)unsetenv("TERN_CUDA_SYNC");
}

static void test_each_call_may_be_out_of_memory(void **state)
{
    (void)state;
    sweep(2);
}

static void test_each_call_may_lose_the_device(void **state)
{
    (void)state;
    sweep(700);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_it_runs_when_nothing_fails),
                                        cmocka_unit_test(test_a_fault_is_that_of_its_launch),
                                        cmocka_unit_test(test_each_call_may_be_out_of_memory),
                                        cmocka_unit_test(test_each_call_may_lose_the_device) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
