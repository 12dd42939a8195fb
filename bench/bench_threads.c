/* Threads beside threads and beside strangers, as ratios in one run.
 *   own_tensors     two threads, each adding its own 1-element tensors: speed of each against one alone
 *   busy_neighbour  a training step on two threads while another process computes on one core:
 *                   speed against one thread beside the same process
 *   round_trip      microseconds in which a line of memory goes to the other core and comes back. A virtual
 *                   machine's cores may share a last-level cache in one minute and not in the next
 * The second is about the rest of the machine: a team that waits for a core that it cannot have is
 * slower than no team. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/arguments.h"
#include "common/bench.h"
#include "common/round_trip.h"
#include "tern/tern.h"

enum { ROUNDS = 7, ADDS = 2000000, STEPS = 40, TRIP_ROUNDS = 200 };

static double middle(double *samples)
{
    for (int i = 1; i < ROUNDS; i++)
        for (int j = i; j > 0 && samples[j - 1] > samples[j]; j--) {
            const double t = samples[j];
            samples[j] = samples[j - 1];
            samples[j - 1] = t;
        }
    return samples[ROUNDS / 2];
}

static void print_ratio(const char *work, double *ratios)
{
    const double median = middle(ratios);
    printf("{\"work\": \"%s\", \"ratio\": %.3f, \"low\": %.3f, \"high\": %.3f}\n", work, median,
           ratios[0], ratios[ROUNDS - 1]);
    fflush(stdout);
}

/* ---- own tensors ------------------------------------------------------------------------------ */

static void *adds(void *out_seconds)
{
    TERN_SCOPE;
    tern_tensor *a = tern_ones(TERN_SHAPE(1)), *b = tern_ones(TERN_SHAPE(1));
    const double start = bench_now();
    for (int i = 0; i < ADDS; i += 1000) {
        TERN_SCOPE;
        for (int k = 0; k < 1000; k++)
            (void)tern_add(a, b);
    }
    *(double *)out_seconds = bench_now() - start;
    bench_check();
    return NULL;
}

static void own_tensors(void)
{
    double ratios[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        double alone = 0, first = 0, second = 0;
        pthread_t other;
        (void)adds(&alone);
        if (pthread_create(&other, NULL, adds, &second) != 0)
            return;
        (void)adds(&first);
        (void)pthread_join(other, NULL);
        ratios[r] = 2 * alone / (first + second);
    }
    print_ratio("own_tensors", ratios);
}

/* ---- beside a busy process -------------------------------------------------------------------- */

static pid_t start_neighbour(void)
{
    const pid_t child = fork();
    if (child == 0)
        for (;;)
            __asm__ volatile("");
    return child;
}

typedef struct model {
    tern_tensor *x, *target, *w1, *w2;
} model;

static model make_model(void)
{
    model m = { tern_randn(TERN_SHAPE(128, 784)), tern_argmax(tern_randn(TERN_SHAPE(128, 10)), 1),
                tern_randn(TERN_SHAPE(512, 784), .requires_grad = true),
                tern_randn(TERN_SHAPE(10, 512), .requires_grad = true) };
    return m;
}

static double seconds_per_step(model *m, int threads)
{
    tern_set_num_threads(threads);
    const double start = bench_now();
    for (int i = 0; i < STEPS; i++) {
        TERN_SCOPE;
        tern_tensor *hidden = tern_relu(tern_linear(m->x, m->w1, NULL));
        tern_backward(tern_cross_entropy(tern_linear(hidden, m->w2, NULL), m->target));
        (void)tern_set_grad(m->w1, NULL);
        (void)tern_set_grad(m->w2, NULL);
    }
    const double seconds = (bench_now() - start) / STEPS;
    bench_check();
    return seconds;
}

static void busy_neighbour(void)
{
    TERN_SCOPE;
    model m = make_model();
    (void)seconds_per_step(&m, 2);
    const pid_t neighbour = start_neighbour();
    if (neighbour < 0)
        return;
    double ratios[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        const double one = seconds_per_step(&m, 1);
        ratios[r] = one / seconds_per_step(&m, 2);
    }
    (void)kill(neighbour, SIGKILL);
    (void)waitpid(neighbour, NULL, 0);
    print_ratio("busy_neighbour", ratios);
}

/* ---- the other core ---------------------------------------------------------------------------- */

static void round_trip(void)
{
    const double trip = bench_round_trip(TRIP_ROUNDS);
    if (trip > 0)
        printf("{\"work\": \"round_trip\", \"us\": %.3f}\n", 1e6 * trip);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    (void)bench_begin(argc, argv, "[own_tensors busy_neighbour round_trip]", NULL);
    if (bench_wanted("own_tensors"))
        own_tensors();
    if (bench_wanted("busy_neighbour"))
        busy_neighbour();
    if (bench_wanted("round_trip"))
        round_trip();
    return bench_end();
}
