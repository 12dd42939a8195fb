/* The ways that the CPU backend has of a product of f32, and the libraries called directly, in turns in one process: what the
 * tables of own kernels and the costs of cuts are fitted to (docs/design/backend_cpu.md, "A table for another CPU"). On a
 * machine whose speed changes from process to process, ways that have a process each say little.
 * Of --random N shapes the line of each way goes to a file of its own, PREFIX.WAY.T.txt, in bench_gemm's form, which
 * tools/fit_gemm.py reads: own and library, as tables and cuts are; on several threads T also own_rows, own_columns,
 * library_rows and library_columns. Nothing else should run. The library is in the program, so TERN_PLUGIN_PATH says where
 * libtern_blas.so is (relative folders are not searched). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend_cpu/gemm_library.h"
#include "common/arguments.h"
#include "common/bench.h"
#include "common/products.h"
#include "tern/tern.h"

enum { ROUNDS = 16, LONG_ROUNDS = 7, MOST_CALLS = 30, WAYS = 6, PATH_BYTES = 4096 };
/* Calls of a way in a round, twice, are of so much work; products beyond LONG have fewer rounds. */
static const double work_of_round = 8e6, long_product = 1e8;

typedef struct way {
    const char *name;
    bool own;
    cpu_blas_cut cut;
    FILE *file;
    double least; /* seconds, of the shape at hand */
} way;

static way ways[WAYS] = { { .name = "own", .own = true },
                          { .name = "library" },
                          { .name = "own_rows", .own = true, .cut = CPU_BLAS_ROWS },
                          { .name = "own_columns", .own = true, .cut = CPU_BLAS_COLUMNS },
                          { .name = "library_rows", .cut = CPU_BLAS_ROWS },
                          { .name = "library_columns", .cut = CPU_BLAS_COLUMNS } };
static int way_count, threads;
static double least_by_library[PRODUCT_LIBRARIES];

typedef struct job {
    product_shape shape;
    cpu_product product;
    tern_call call;
} job;

/* The host's scratch, for one call at a time. */
static void *scratch(const tern_call *call, int64_t bytes)
{
    static char *room;
    static int64_t have;
    (void)call;
    if (bytes > have) {
        free(room);
        have = (bytes / 4096 + 1) * 4096;
        room = aligned_alloc(4096, (size_t)have);
    }
    return room;
}
static const tern_host host = { .scratch = scratch };

static void by_way(const job *j, const way *w)
{
    const cpu_gemm_choice choice = { .own = w->own, .cut = w->cut, .threads = threads };
    cpu_room room = { 0 };
    if (!cpu_product_run_way(&j->call, TERN_F32, &j->product, &choice, &room)) {
        (void)fprintf(stderr, "bench_ways: no memory\n");
        exit(1);
    }
}

static void by_contender(const job *j, int i)
{
    if (i < way_count)
        by_way(j, &ways[i]);
    else
        product_by_library((product_library)(i - way_count), j->shape, j->product.a, j->product.b,
                           j->product.c);
}

/* Of the second half of the calls: the first finds operands where the one before has left them. */
static double seconds_of(const job *j, int i, int calls)
{
    for (int n = 0; n < calls; n++)
        by_contender(j, i);
    const double begin = bench_now();
    for (int n = 0; n < calls; n++)
        by_contender(j, i);
    return (bench_now() - begin) / calls;
}

static double *least_of(int i)
{
    return i < way_count ? &ways[i].least : &least_by_library[i - way_count];
}

static void measure(const job *j)
{
    const double work = 2.0 * j->shape.m * j->shape.k * j->shape.n;
    const int rounds = work > long_product ? LONG_ROUNDS : ROUNDS,
              all = way_count + PRODUCT_LIBRARIES;
    const int calls = 1 + (int)fmin(MOST_CALLS - 1, work_of_round / work);
    for (int i = 0; i < all; i++)
        *least_of(i) = INFINITY;
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < all; i++) {
            const bool openblas = i == way_count + PRODUCT_OPENBLAS;
            product_library_threads(PRODUCT_OPENBLAS, openblas ? threads : 1);
            product_library_threads(PRODUCT_ONEDNN, threads);
            *least_of(i) = fmin(*least_of(i), seconds_of(j, i, calls));
        }
}

static void compare(product_shape shape)
{
    TERN_SCOPE;
    const int64_t m = shape.m, k = shape.k, n = shape.n;
    job j = { .shape = shape, .call = { .host = &host } };
    j.product = (cpu_product){ .m = m,
                               .n = n,
                               .k = k,
                               .a = tern_data(tern_rand(TERN_SHAPE(m * k))),
                               .b = tern_data(tern_rand(TERN_SHAPE(k * n))),
                               .c = tern_data(tern_empty(TERN_SHAPE(m * n))),
                               .a_row = shape.ta ? 1 : k,
                               .a_col = shape.ta ? m : 1,
                               .b_row = shape.tb ? 1 : n,
                               .b_col = shape.tb ? k : 1,
                               .c_row = n };
    bench_check();
    measure(&j);
    char name[PRODUCT_NAME_BYTES];
    product_name(shape, name);
    for (int w = 0; w < way_count; w++)
        (void)fprintf(ways[w].file, "%-20s  tern %9.2f us  openblas %9.2f us  onednn %9.2f us\n",
                      name, 1e6 * ways[w].least, 1e6 * least_by_library[PRODUCT_OPENBLAS],
                      1e6 * least_by_library[PRODUCT_ONEDNN]);
}

static void open_files(const char *prefix)
{
    for (int w = 0; w < way_count; w++) {
        char path[PATH_BYTES];
        (void)snprintf(path, sizeof path, "%s.%s.%d.txt", prefix, ways[w].name, threads);
        ways[w].file = fopen(path, "w");
        if (ways[w].file == NULL)
            bench_refuse("no file can be written there:", path);
    }
}

/* 0: all is written. */
static int close_files(void)
{
    int failed = 0;
    for (int w = 0; w < way_count; w++)
        failed |= fclose(ways[w].file);
    if (failed)
        (void)fprintf(stderr, "bench_ways: not all could be written\n");
    return failed;
}

int main(int argc, char **argv)
{
    product_range range = { .least = 1, .most = 300, .align = 1 };
    int64_t count = 700, seed = 1;
    const char *prefix = "ways";
    const bench_option options[] = { { .name = "random", .number = &count },
                                     { .name = "seed", .number = &seed },
                                     { .name = "least", .number = &range.least },
                                     { .name = "most", .number = &range.most },
                                     { .name = "align", .number = &range.align },
                                     { .name = "prefix", .text = &prefix },
                                     { .name = NULL } };
    (void)bench_begin(argc, argv,
                      "[--threads N] [--prefix PATH] [--random N] [--seed S]\n"
                      "[--least MFLOP] [--most MFLOP] [--align N]",
                      options);
    product_check_range(&range);
    threads = tern_num_threads();
    way_count = threads > 1 ? WAYS : 2;
    product_find_libraries();
    for (int l = 0; l < PRODUCT_LIBRARIES; l++)
        if (!product_has_library((product_library)l))
            bench_refuse("not in this build, or not in TERN_PLUGIN_PATH:",
                         l == PRODUCT_OPENBLAS ? "OpenBLAS" : "oneDNN");
    open_files(prefix);
    uint64_t state = (uint64_t)seed;
    for (int64_t i = 0; i < count; i++)
        compare(product_draw(&state, &range));
    return close_files() != 0 ? 1 : bench_end();
}
