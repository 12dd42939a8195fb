/* From the start of a process to the end of its first training step, on tensors in memory (goal: under
 * 30 ms). The program starts itself; the other process does one step and says when it was done.
 *   first  one tensor, no step: loading the library; the others: bench/common/models.h */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/arguments.h"
#include "common/bench.h"
#include "common/models.h"

extern char **environ;
enum { STARTS = 31 };

/* ---- the other process ------------------------------------------------------------------------ */

static int step(const char *work)
{
    const bench_model *model = bench_model_of(work);
    double now;
    if (model != NULL) {
        TERN_SCOPE;
        bench_training t = bench_training_start(model);
        bench_training_steps(&t, 1);
        now = bench_now();
        bench_training_free(&t);
    } else {
        (void)tern_randn(TERN_SHAPE(4));
        now = bench_now();
    }
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
static double start(const char *work)
{
    int ends[2];
    pid_t child;
    int status = 1;
    double done = 0;
    char count[12];
    char *arguments[] = { (char *)"bench_start", (char *)"--step", (char *)work, count, NULL };
    posix_spawn_file_actions_t actions;
    (void)snprintf(count, sizeof count, "%d", tern_num_threads());
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

static void run(const char *work)
{
    double seconds[STARTS];
    char name[32];
    (void)start(work); /* files into the page cache */
    for (int i = 0; i < STARTS; i++)
        seconds[i] = start(work);
    qsort(seconds, STARTS, sizeof *seconds, by_size);
    (void)snprintf(name, sizeof name, "start_%s", work);
    bench_print(
        name, "tern",
        (bench_result){ seconds[STARTS / 2], seconds[STARTS / 4], seconds[STARTS * 3 / 4] });
}

int main(int argc, char **argv)
{
    static const char *const works[] = { "first", "mlp1", "mlp2", "lenet", NULL };
    if (argc > 3 && strcmp(argv[1], "--step") == 0) {
        tern_set_num_threads(atoi(argv[3]));
        return step(argv[2]);
    }
    return bench_main(argc, argv, "[--threads N] [first mlp1 mlp2 lenet]", works, run);
}
