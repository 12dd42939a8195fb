/* Matrix products of tern against the libraries that it may use, called directly, in turns.
 * One line per shape: microseconds (fastest of short rounds, which a busy neighbour disturbs least)
 * and tern's share of the speed of the fastest library. Then the median of the shares, what a tenth
 * of them is below and how many are below the goal, of shapes that take the library 5 us and more.
 * Random shapes: extents of 8 to 2048, evenly by their logarithms, of --least to --most MFLOP; at most 10,000.
 * --benchmark 1: tern measures its ways for each shape first (tern_cpu_set_benchmark).
 * --control 1: in tern's place stands the faster library, measured once more beside itself: the shares that one
 * would have who always chose right, which tells how far off the measurement is.
 * tools/fit_gemm.py makes a table of ways from what it prints under TERN_CPU_GEMM=own and =library; bench_ways has both
 * in one process.
 * The libraries run as a program that links them would run them, with their own threads, but with
 * the OpenBLAS kernels that tern has chosen. */
#include <stdio.h>
#include <stdlib.h>

#include "common/arguments.h"
#include "common/bench.h"
#include "common/products.h"
#include "common/round_trip.h"
#include "tern/tern.h"

enum {
    MOST_ROUNDS = 25,
    MOST_SHARES = 10000,
    MEASURED_CALLS = 320 /* after which a way is found for every shape (tern_cpu_set_benchmark) */
};

typedef struct product {
    product_shape shape;
    tern_tensor *a, *b; /* as stored */
    float *
        c; /* of a library's own, as tern's results are: one that the other has written is in a cache */
} product;

static void by_tern(void *user, int64_t repeats)
{
    product *p = user;
    for (int64_t i = 0; i < repeats; i++) {
        TERN_SCOPE;
        tern_tensor *a = p->shape.ta ? tern_transpose(p->a, 0, 1) : p->a;
        tern_tensor *b = p->shape.tb ? tern_transpose(p->b, 0, 1) : p->b;
        (void)tern_matmul(a, b);
    }
}

static void by_library(product_library library, product *p, int64_t repeats)
{
    const float *a = tern_data(p->a), *b = tern_data(p->b);
    for (int64_t i = 0; i < repeats; i++)
        product_by_library(library, p->shape, a, b, p->c);
}

static void by_openblas(void *user, int64_t repeats)
{
    by_library(PRODUCT_OPENBLAS, user, repeats);
}

static void by_onednn(void *user, int64_t repeats)
{
    by_library(PRODUCT_ONEDNN, user, repeats);
}

typedef struct contender {
    const char *name;
    bench_body body;
    product product;
    double samples[MOST_ROUNDS];
} contender;

static int64_t rounds = MOST_ROUNDS;

static double fastest(const contender *c)
{
    double best = c->samples[0];
    for (int r = 1; r < rounds; r++)
        best = c->samples[r] < best ? c->samples[r] : best;
    return best;
}

#define GOAL 0.95

/* Shares of shapes that take the fastest library `least` seconds and more. */
static const double least = 5e-6;
static double shares[MOST_SHARES];
static int share_count;

/* Seconds from which on both cores count as far apart. Zen 5: 0.08 us near, 0.36 far. */
static const double far_trip = 0.2e-6;
enum { TRIP_ROUNDS = 3 };
static int far_count, far_below;

static int fastest_library(const contender *c, int count)
{
    int best = 1;
    for (int i = 2; i < count; i++)
        best = fastest(&c[i]) < fastest(&c[best]) ? i : best;
    return best;
}

/* tern's speed over that of the fastest library. */
static double share(const contender *c, int count, double trip)
{
    const double best = fastest(&c[fastest_library(c, count)]);
    const double of_best = best / fastest(&c[0]);
    if (best >= least && share_count < MOST_SHARES) {
        shares[share_count++] = of_best;
        far_count += trip >= far_trip;
        far_below += trip >= far_trip && of_best < GOAL;
    }
    return of_best;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void summarise(void)
{
    if (share_count == 0)
        return;
    qsort(shares, (size_t)share_count, sizeof *shares, by_value);
    int below = 0;
    while (below < share_count && shares[below] < GOAL)
        below++;
    printf(
        "%d shapes of 5 us and more: median %.2f, a tenth below %.2f, least %.2f, %d below %.2f\n",
        share_count, shares[share_count / 2], shares[share_count / 10], shares[0], below, GOAL);
    if (far_count > 0)
        printf("%d of them while both cores were far apart: %d below %.2f\n", far_count, far_below,
               GOAL);
}

/* `trip`: of a line between two cores, 0 for one thread. */
static void report(const char *work, const contender *c, int count, double trip, bool json)
{
    if (!json)
        printf("%-20s", work);
    for (int i = 0; i < count; i++) {
        const double t = fastest(&c[i]);
        if (json)
            bench_print(work, c[i].name, (bench_result){ t, t, t });
        else
            printf("  %s %9.2f us", c[i].name, 1e6 * t);
    }
    if (json)
        return;
    if (trip > 0)
        printf("  trip %.2f us", 1e6 * trip);
    printf(count > 1 ? "  share %.2f\n" : "\n", share(c, count, trip));
}

/* OpenBLAS is given its own threads only while it is asked: tern splits products itself. */
static void run_rounds(contender *c, int count)
{
    for (int r = 0; r < rounds; r++) {
        for (int i = 0; i < count; i++) {
            const bool openblas = c[i].body == by_openblas;
            if (openblas)
                product_library_threads(PRODUCT_OPENBLAS, tern_num_threads());
            product_library_threads(PRODUCT_ONEDNN, tern_num_threads());
            c[i].samples[r] = bench_run(c[i].body, &c[i].product, 0.001, 1).low;
            if (openblas)
                product_library_threads(PRODUCT_OPENBLAS, 1);
        }
    }
}

static float *empty_result(product_shape shape)
{
    return tern_data(tern_empty(TERN_SHAPE(shape.m, shape.n)));
}

/* The libraries in turns with themselves, whose second times come after the others. */
static void run_control(contender *c, int count)
{
    contender *second = &c[count - 1];
    for (int i = 1; i < count; i++) {
        second[i] = c[i];
        second[i].product.c = empty_result(c[i].product.shape);
    }
    run_rounds(&c[1], 2 * (count - 1));
    c[0] = second[fastest_library(c, count)];
    c[0].name = "again";
}

static bool control;

static void compare(const char *work, product_shape shape, bool json)
{
    TERN_SCOPE;
    contender c[5] = { { .name = "tern", .body = by_tern } };
    int count = 1;
    if (product_has_library(PRODUCT_OPENBLAS))
        c[count++] = (contender){ .name = "openblas", .body = by_openblas };
    if (product_has_library(PRODUCT_ONEDNN))
        c[count++] = (contender){ .name = "onednn", .body = by_onednn };
    product p = { .shape = shape };
    p.a = tern_randn(TERN_SHAPE(shape.ta ? shape.k : shape.m, shape.ta ? shape.m : shape.k));
    p.b = tern_randn(TERN_SHAPE(shape.tb ? shape.n : shape.k, shape.tb ? shape.k : shape.n));
    for (int i = 0; i < count; i++) {
        c[i].product = p;
        if (i > 0)
            c[i].product.c = empty_result(shape);
    }
    if (tern_failed())
        return;
    if (control && count > 1) {
        run_control(c, count);
    } else {
        if (tern_cpu_benchmark())
            by_tern(&c[0].product, MEASURED_CALLS);
        run_rounds(c, count);
    }
    const double trip = tern_num_threads() > 1 ? bench_round_trip(TRIP_ROUNDS) : 0;
    report(work, c, count, trip, json);
}

/* Layers of small networks forward and backward, narrow and square products; 5 us and more. */
static const char *const shapes[] = {
    "64x784x128:NT",   "128x64x784:TN",     "64x128x784:NN",  "128x784x512:NT", "512x128x784:TN",
    "128x512x784:NN",  "128x512x512:NT",    "512x128x512:TN", "128x512x512:NN", "128x512x10:NT",
    "10x128x512:TN",   "128x10x512:NN",     "64x3136x128:NT", "128x64x3136:TN", "64x128x3136:NN",
    "1024x128x384:NN", "1024x512x128:NT",   "100x100x100:NN", "128x128x128:NN", "128x128x128:NT",
    "128x128x128:TN",  "256x256x256:NN",    "256x256x256:NT", "256x256x256:TN", "512x512x512:NN",
    "512x512x512:NT",  "1024x1024x1024:NN", "1x2048x2048:NN", "1x2048x2048:NT", "2048x2048x1:NN",
};

static void compare_drawn(int64_t count, int64_t seed, const product_range *range, bool json)
{
    uint64_t state = (uint64_t)seed;
    for (int64_t i = 0; i < count && i < MOST_SHARES; i++) {
        char work[PRODUCT_NAME_BYTES];
        const product_shape shape = product_draw(&state, range);
        product_name(shape, work);
        compare(work, shape, json);
    }
}

int main(int argc, char **argv)
{
    product_range range = { .least = 1, .most = 3000, .align = 1 };
    int64_t drawn = 0, seed = 1, benchmark = 0, again = 0;
    const bench_option options[] = { { .name = "random", .number = &drawn },
                                     { .name = "seed", .number = &seed },
                                     { .name = "least", .number = &range.least },
                                     { .name = "most", .number = &range.most },
                                     { .name = "align", .number = &range.align },
                                     { .name = "rounds", .number = &rounds },
                                     { .name = "benchmark", .number = &benchmark },
                                     { .name = "control", .number = &again },
                                     { .name = NULL } };
    const bool json =
        bench_begin(argc, argv,
                    "[--threads N] [--json] [--rounds 1..25] [--benchmark 0|1] [--control 0|1]\n"
                    "[--random N [--seed S] [--least MFLOP] [--most MFLOP] [--align N]]\n"
                    "[MxKxN:OP ...]\n"
                    "OP: NN, NT or TN (what is transposed)",
                    options)
            .json;
    if (rounds < 1 || rounds > MOST_ROUNDS)
        bench_refuse("outside of 1 to 25:", "--rounds");
    product_check_range(&range);
    if (benchmark < 0 || benchmark > 1)
        bench_refuse("neither 0 nor 1:", "--benchmark");
    if (again < 0 || again > 1)
        bench_refuse("neither 0 nor 1:", "--control");
    control = again == 1;
    if (benchmark == 1)
        tern_cpu_set_benchmark(true);
    product_shape shape = { 0 };
    const char *name;
    for (int i = 0; (name = bench_name(i)) != NULL; i++)
        if (!product_parse(name, &shape))
            bench_refuse("no product is called", name);
    product_find_libraries();
    for (int i = 0; (name = bench_name(i)) != NULL; i++)
        if (product_parse(name, &shape))
            compare(name, shape, json);
    compare_drawn(drawn, seed, &range, json);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes && bench_name(0) == NULL && drawn == 0;
         i++)
        if (product_parse(shapes[i], &shape))
            compare(shapes[i], shape, json);
    if (!json)
        summarise();
    return bench_end();
}
