/* From the start of a process to the end of its first training step, on tensors in memory (goal: under
 * 30 ms). The program starts itself; the other process does one step and says when it was done.
 *   mlp1   784-128-10, batch 64, SGD        mlp2   784-512-512-10, batch 128, Adam
 *   lenet  LeNet-5, batch 64, Adam          first  one tensor, no step: loading the library
 * bench_start [--threads N] [work ...] */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/bench.h"
#include "tern/tern.h"

extern char **environ;
enum { STARTS = 31 };

/* ---- the other process ------------------------------------------------------------------------ */

static tern_module *make_mlp1(void)
{
    return tern_sequential(tern_linear_layer(784, 128), tern_relu_layer(),
                           tern_linear_layer(128, 10));
}
static tern_module *make_mlp2(void)
{
    return tern_sequential(tern_linear_layer(784, 512), tern_relu_layer(),
                           tern_linear_layer(512, 512), tern_relu_layer(),
                           tern_linear_layer(512, 10));
}
static tern_module *make_lenet(void)
{
    return tern_sequential(
        tern_conv2d_layer(1, 6, 5, .padding = 2), tern_relu_layer(), tern_max_pool2d_layer(2),
        tern_conv2d_layer(6, 16, 5), tern_relu_layer(), tern_max_pool2d_layer(2),
        tern_flatten_layer(), tern_linear_layer(400, 120), tern_relu_layer(),
        tern_linear_layer(120, 84), tern_relu_layer(), tern_linear_layer(84, 10));
}

static const struct {
    const char *name;
    tern_module *(*make)(void);
    bool adam;
    tern_shape_t input;
} works[] = {
    { "first", NULL, false, { 1, 1, { 4 } } },
    { "mlp1", make_mlp1, false, { 1, 2, { 64, 784 } } },
    { "mlp2", make_mlp2, true, { 1, 2, { 128, 784 } } },
    { "lenet", make_lenet, true, { 1, 4, { 64, 1, 28, 28 } } },
};

static int step(size_t work)
{
    tern_seed(1);
    tern_tensor *x = tern_randn(works[work].input), *loss = x;
    if (works[work].make != NULL) {
        tern_tensor *y = tern_argmax(tern_randn(TERN_SHAPE(works[work].input.dims[0], 10)), 1);
        tern_module *net = works[work].make();
        tern_optimizer *opt = works[work].adam ? tern_adam(tern_parameters(net), 1e-3)
                                               : tern_sgd(tern_parameters(net), 0.01);
        loss = tern_cross_entropy(tern_forward(net, x), y);
        tern_backward(loss);
        tern_step(opt);
    }
    const double now = bench_now();
    bench_check();
    const bool told = write(STDOUT_FILENO, &now, sizeof now) == (ssize_t)sizeof now;
    return tern_finish() == 0 && told ? 0 : 1;
}

/* ---- starting it ------------------------------------------------------------------------------ */

static void give_up(const char *what)
{
    perror(what);
    exit(1);
}

/* Seconds from just before the start to the end of the first step. */
static double start(size_t work, int threads)
{
    int ends[2];
    pid_t child;
    int status = 1;
    double done = 0;
    char number[12], count[12];
    char *arguments[] = { (char *)"bench_start", (char *)"--step", number, count, NULL };
    posix_spawn_file_actions_t actions;
    (void)snprintf(number, sizeof number, "%zu", work);
    (void)snprintf(count, sizeof count, "%d", threads);
    if (pipe(ends) != 0)
        give_up("pipe");
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    const double begin = bench_now();
    if (posix_spawn(&child, "/proc/self/exe", &actions, NULL, arguments, environ) != 0)
        give_up("posix_spawn");
    (void)close(ends[1]);
    if (read(ends[0], &done, sizeof done) != (ssize_t)sizeof done)
        give_up("the started process");
    (void)close(ends[0]);
    (void)waitpid(child, &status, 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (status != 0)
        exit(1);
    return done - begin;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void run(size_t work, int threads)
{
    double seconds[STARTS];
    char name[32];
    (void)start(work, threads); /* files into the page cache */
    for (int i = 0; i < STARTS; i++)
        seconds[i] = start(work, threads);
    qsort(seconds, STARTS, sizeof *seconds, by_size);
    (void)snprintf(name, sizeof name, "start_%s", works[work].name);
    bench_print(
        name, "tern",
        (bench_result){ seconds[STARTS / 2], seconds[STARTS / 4], seconds[STARTS * 3 / 4] });
}

int main(int argc, char **argv)
{
    if (argc > 3 && strcmp(argv[1], "--step") == 0) {
        if (atoi(argv[3]) > 0)
            tern_set_num_threads(atoi(argv[3]));
        return step((size_t)atoi(argv[2]));
    }
    int threads = 0, named = 0;
    for (int a = 1; a < argc; a++)
        if (strcmp(argv[a], "--threads") == 0 && a + 1 < argc)
            tern_set_num_threads(threads = atoi(argv[++a]));
        else if (strcmp(argv[a], "--json") != 0)
            named++;
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
        bool wanted = named == 0;
        for (int a = 1; a < argc; a++)
            wanted |= strcmp(argv[a], works[i].name) == 0;
        if (wanted)
            run(i, threads);
    }
    return tern_finish();
}
