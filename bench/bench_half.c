/* Matrix products of half types on the CPU, by instructions of their own against f32 arithmetic on
 * half storage: what backend_cpu/half_routes.def is made from. Each way runs in processes of its own,
 * in turns, since the choice is made once per process (TERN_CPU_HALF).
 *   bench_half [ROUNDS]      one line per shape, then one per class: geometric mean of the speeds */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/bench.h"
#include "tern/tern.h"

typedef struct shape {
    const char *class; /* as half_routes.def names it */
    char op[3];        /* what is transposed as stored */
    int m, k, n;
} shape;

static const shape shapes[] = {
    { "SMALL", "NN", 16, 16, 16 },      { "SMALL", "NT", 32, 32, 32 },
    { "SMALL", "TN", 8, 64, 48 },       { "SMALL", "NT", 64, 24, 16 },
    { "FEW_ROWS", "NT", 1, 512, 512 },  { "FEW_ROWS", "NT", 4, 784, 512 },
    { "FEW_ROWS", "NN", 2, 1024, 256 }, { "FEW_ROWS", "NN", 7, 300, 300 },
    { "NARROW", "NT", 128, 512, 10 },   { "NARROW", "TN", 512, 128, 10 },
    { "NARROW", "NN", 256, 1024, 16 },  { "NARROW", "NN", 1000, 64, 8 },
    { "WIDE", "NN", 64, 64, 64 },       { "WIDE", "NT", 128, 784, 512 },
    { "WIDE", "NN", 128, 512, 784 },    { "WIDE", "TN", 512, 128, 784 },
    { "WIDE", "TN", 10, 128, 512 },     { "WIDE", "NN", 128, 10, 512 },
    { "WIDE", "NT", 256, 1024, 1024 },  { "WIDE", "NN", 512, 512, 512 },
    { "WIDE", "TN", 1024, 256, 1024 },
};
enum { SHAPES = sizeof shapes / sizeof *shapes, WAYS = 2, MOST_ROUNDS = 50 };

typedef struct product {
    tern_tensor *a, *b;
} product;

static void multiply(void *user, int64_t repeats)
{
    const product *p = user;
    for (int64_t i = 0; i < repeats; i++) {
        TERN_SCOPE;
        (void)tern_matmul(p->a, p->b);
    }
}

static tern_tensor *operand(int rows, int columns, bool transposed)
{
    tern_tensor *t =
        transposed ? tern_randn(TERN_SHAPE(columns, rows)) : tern_randn(TERN_SHAPE(rows, columns));
    t = tern_cast(t, TERN_BF16);
    return transposed ? tern_transpose(t, 0, 1) : t;
}

static void measure(double *out_seconds)
{
    tern_set_num_threads(1);
    for (int i = 0; i < SHAPES; i++) {
        TERN_SCOPE;
        const shape *s = &shapes[i];
        product p = { operand(s->m, s->k, s->op[0] == 'T'), operand(s->k, s->n, s->op[1] == 'T') };
        out_seconds[i] = bench_run(multiply, &p, 0.004, 5).low;
        bench_check();
    }
}

/* One round of a way in a process of its own; `best` keeps the least time of each shape. */
static bool run_way(const char *way, double *best)
{
    double seconds[SHAPES];
    int ends[2];
    if (pipe(ends) != 0)
        return false;
    const pid_t child = fork();
    if (child == 0) {
        (void)setenv("TERN_CPU_HALF", way, 1);
        measure(seconds);
        _exit(write(ends[1], seconds, sizeof seconds) == (ssize_t)sizeof seconds ? 0 : 1);
    }
    (void)close(ends[1]);
    const bool ok = child > 0 && read(ends[0], seconds, sizeof seconds) == (ssize_t)sizeof seconds;
    (void)close(ends[0]);
    (void)waitpid(child, NULL, 0);
    for (int i = 0; ok && i < SHAPES; i++)
        best[i] = best[i] == 0 || seconds[i] < best[i] ? seconds[i] : best[i];
    return ok;
}

static void print_classes(double (*best)[SHAPES])
{
    for (int first = 0, next; first < SHAPES; first = next) {
        double sum = 0;
        for (next = first; next < SHAPES && !strcmp(shapes[next].class, shapes[first].class);
             next++)
            sum += log(best[0][next] / best[1][next]);
        printf("%-9s %.2f\n", shapes[first].class, exp(sum / (next - first)));
    }
}

int main(int argc, char **argv)
{
    static double best[WAYS][SHAPES]; /* f32, native */
    static const char *const ways[WAYS] = { "f32", "native" };
    const int rounds = argc > 1 ? atoi(argv[1]) : 5;
    for (int round = 0; round < rounds && round < MOST_ROUNDS; round++)
        for (int w = 0; w < WAYS; w++)
            if (!run_way(ways[w], best[w]))
                return 1;
    for (int i = 0; i < SHAPES; i++) {
        const shape *s = &shapes[i];
        const double flops = 2e-9 * s->m * s->n * s->k;
        printf("%-9s %s %4dx%4dx%4d  f32 %7.1f GFLOP/s  native %7.1f  %.2f\n", s->class, s->op,
               s->m, s->k, s->n, flops / best[0][i], flops / best[1][i], best[0][i] / best[1][i]);
    }
    print_classes(best);
    return 0;
}
