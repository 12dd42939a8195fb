/* Matrix products of tern against the libraries that it may use, called directly, in turns.
 * One line per shape: microseconds (fastest of short rounds, which a busy neighbour disturbs least)
 * and tern's share of the speed of the fastest library. Then the median of the shares, what a tenth
 * of them is below and how many are below the goal, of shapes that take the library 5 us and more.
 * Random shapes: extents of 8 to 2048, evenly by their logarithms, of --least to --most MFLOP; at most 10,000.
 * --benchmark 1: tern measures its ways for each shape first (tern_cpu_set_benchmark).
 * --control 1: in tern's place stands the faster library, measured once more beside itself: the shares that one
 * would have who always chose right, which tells how far off the measurement is.
 * tools/fit_gemm.py makes a table of ways from what it prints under TERN_CPU_GEMM=own and =library.
 * The libraries run as a program that links them would run them, with their own threads, but with
 * the OpenBLAS kernels that tern has chosen. */
#include <dlfcn.h>
#include <link.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arguments.h"
#include "common/bench.h"
#include "tern/tern.h"

enum {
    MOST_ROUNDS = 25,
    MOST_LEAST = 4000,
    MOST_SHARES = 10000,
    MEASURED_CALLS = 320, /* after which a way is found for every shape (tern_cpu_set_benchmark) */
    ROW_MAJOR = 101,
    NO_TRANS = 111,
    TRANS = 112
};

/* The libraries' own signatures (cblas.h, dnnl.h, omp.h); NULL where they are absent. */
static struct {
    void (*sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                  int lda, const float *b, int ldb, float beta, float *c, int ldc);
    void (*openblas_threads)(int count);
    int (*dnnl_sgemm)(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha,
                      const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
                      float *c, int64_t ldc);
    void (*omp_threads)(int count);
} libraries;

typedef struct product {
    int m, k, n;
    bool ta, tb;
    tern_tensor *a, *b; /* as stored */
    float *
        c; /* of a library's own, as tern's results are: one that the other has written is in a cache */
} product;

typedef struct loaded {
    const char *name; /* what its file's name begins with: versions differ between systems */
    void *handle;
} loaded;

static int is_loaded(struct dl_phdr_info *info, size_t bytes, void *user)
{
    (void)bytes;
    loaded *library = user;
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *file = slash != NULL ? slash + 1 : info->dlpi_name;
    if (strncmp(file, library->name, strlen(library->name)) != 0)
        return 0;
    library->handle = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    return library->handle != NULL;
}

static void find(void *out_function, const char *file, const char *name)
{
    loaded library = { file, NULL };
    dl_iterate_phdr(is_loaded, &library);
    void *symbol = library.handle != NULL ? dlsym(library.handle, name) : NULL;
    memcpy(out_function, &symbol, sizeof symbol);
}

/* A product of doubles makes tern open its libraries, with the kernels that fit the CPU; those of
 * floats are its own up to a size. */
static void find_libraries(void)
{
    TERN_SCOPE;
    tern_tensor *a = tern_ones(TERN_SHAPE(256, 256), .dtype = TERN_F64);
    (void)tern_matmul(a, a);
    find(&libraries.sgemm, "libopenblas", "cblas_sgemm");
    find(&libraries.openblas_threads, "libopenblas", "openblas_set_num_threads");
    find(&libraries.dnnl_sgemm, "libdnnl.so", "dnnl_sgemm");
    find(&libraries.omp_threads, "libgomp.so", "omp_set_num_threads");
}

static void by_tern(void *user, int64_t repeats)
{
    product *p = user;
    for (int64_t i = 0; i < repeats; i++) {
        TERN_SCOPE;
        tern_tensor *a = p->ta ? tern_transpose(p->a, 0, 1) : p->a;
        tern_tensor *b = p->tb ? tern_transpose(p->b, 0, 1) : p->b;
        (void)tern_matmul(a, b);
    }
}

static void by_openblas(void *user, int64_t repeats)
{
    product *p = user;
    const float *a = tern_data(p->a), *b = tern_data(p->b);
    for (int64_t i = 0; i < repeats; i++)
        libraries.sgemm(ROW_MAJOR, p->ta ? TRANS : NO_TRANS, p->tb ? TRANS : NO_TRANS, p->m, p->n,
                        p->k, 1, a, p->ta ? p->m : p->k, b, p->tb ? p->k : p->n, 0, p->c, p->n);
}

static void by_onednn(void *user, int64_t repeats)
{
    product *p = user;
    const float *a = tern_data(p->a), *b = tern_data(p->b);
    for (int64_t i = 0; i < repeats; i++)
        (void)libraries.dnnl_sgemm(p->ta ? 'T' : 'N', p->tb ? 'T' : 'N', p->m, p->n, p->k, 1, a,
                                   p->ta ? p->m : p->k, b, p->tb ? p->k : p->n, 0, p->c, p->n);
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

static int fastest_library(const contender *c, int count)
{
    int best = 1;
    for (int i = 2; i < count; i++)
        best = fastest(&c[i]) < fastest(&c[best]) ? i : best;
    return best;
}

/* tern's speed over that of the fastest library. */
static double share(const contender *c, int count)
{
    const double best = fastest(&c[fastest_library(c, count)]);
    if (best >= least && share_count < MOST_SHARES)
        shares[share_count++] = best / fastest(&c[0]);
    return best / fastest(&c[0]);
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
}

static void report(const char *work, const contender *c, int count, bool json)
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
    if (!json)
        printf(count > 1 ? "  share %.2f\n" : "\n", share(c, count));
}

/* OpenBLAS is given its own threads only while it is asked: tern splits products itself. */
static void run_rounds(contender *c, int count)
{
    for (int r = 0; r < rounds; r++) {
        for (int i = 0; i < count; i++) {
            const bool openblas = c[i].body == by_openblas && libraries.openblas_threads != NULL;
            if (openblas)
                libraries.openblas_threads(tern_num_threads());
            if (libraries.omp_threads != NULL)
                libraries.omp_threads(tern_num_threads());
            c[i].samples[r] = bench_run(c[i].body, &c[i].product, 0.001, 1).low;
            if (openblas)
                libraries.openblas_threads(1);
        }
    }
}

/* The libraries in turns with themselves, whose second times come after the others. */
static void run_control(contender *c, int count)
{
    contender *second = &c[count - 1];
    for (int i = 1; i < count; i++) {
        second[i] = c[i];
        second[i].product.c = tern_data(tern_empty(TERN_SHAPE(c[i].product.m, c[i].product.n)));
    }
    run_rounds(&c[1], 2 * (count - 1));
    c[0] = second[fastest_library(c, count)];
    c[0].name = "again";
}

static bool control;

static void compare(const char *work, product p, bool json)
{
    TERN_SCOPE;
    contender c[5] = { { .name = "tern", .body = by_tern } };
    int count = 1;
    if (libraries.sgemm != NULL)
        c[count++] = (contender){ .name = "openblas", .body = by_openblas };
    if (libraries.dnnl_sgemm != NULL)
        c[count++] = (contender){ .name = "onednn", .body = by_onednn };
    p.a = tern_randn(TERN_SHAPE(p.ta ? p.k : p.m, p.ta ? p.m : p.k));
    p.b = tern_randn(TERN_SHAPE(p.tb ? p.n : p.k, p.tb ? p.k : p.n));
    for (int i = 0; i < count; i++) {
        c[i].product = p;
        if (i > 0)
            c[i].product.c = tern_data(tern_empty(TERN_SHAPE(p.m, p.n)));
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
    report(work, c, count, json);
}

static bool parse(const char *text, product *out)
{
    char ta, tb;
    if (sscanf(text, "%dx%dx%d:%c%c", &out->m, &out->k, &out->n, &ta, &tb) != 5)
        return false;
    out->ta = ta == 'T';
    out->tb = tb == 'T';
    return out->m > 0 && out->k > 0 && out->n > 0;
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

typedef struct random_options {
    int64_t count, seed, least, most; /* of MFLOP */
    int64_t align;                    /* extents are its multiples */
} random_options;

/* 0 to 1, the same for a seed on every machine. */
static double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

static int rounded_up(double extent, int64_t align)
{
    return (int)((lround(extent) + align - 1) / align * align);
}

static product random_product(uint64_t *state, const random_options *o)
{
    for (;;) {
        int extent[3];
        for (int d = 0; d < 3; d++)
            extent[d] = rounded_up(8 * pow(2048 / 8, uniform(state)), o->align);
        const double mflop = 2e-6 * extent[0] * extent[1] * extent[2];
        const int op = (int)(3 * uniform(state));
        if (mflop >= (double)o->least && mflop <= (double)o->most)
            return (product){
                .m = extent[0], .k = extent[1], .n = extent[2], .ta = op == 2, .tb = op == 1
            };
    }
}

static void compare_random(const random_options *o, bool json)
{
    uint64_t seed = (uint64_t)o->seed;
    for (int64_t i = 0; i < o->count && i < MOST_SHARES; i++) {
        const product p = random_product(&seed, o);
        char work[64];
        (void)snprintf(work, sizeof work, "%dx%dx%d:%c%c", p.m, p.k, p.n, p.ta ? 'T' : 'N',
                       p.tb ? 'T' : 'N');
        compare(work, p, json);
    }
}

static void check_options(const random_options *random)
{
    if (rounds < 1 || rounds > MOST_ROUNDS)
        bench_refuse("outside of 1 to 25:", "--rounds");
    if (random->least < 1 || random->least > MOST_LEAST || random->most < 2 * random->least)
        bench_refuse("outside of 1 to 4000, or more than half of --most:", "--least");
    if (random->align < 1 || random->align > 256)
        bench_refuse("outside of 1 to 256:", "--align");
}

int main(int argc, char **argv)
{
    random_options random = { .seed = 1, .least = 1, .most = 3000, .align = 1 };
    int64_t benchmark = 0, again = 0;
    const bench_option options[] = { { .name = "random", .number = &random.count },
                                     { .name = "seed", .number = &random.seed },
                                     { .name = "least", .number = &random.least },
                                     { .name = "most", .number = &random.most },
                                     { .name = "align", .number = &random.align },
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
    check_options(&random);
    if (benchmark < 0 || benchmark > 1)
        bench_refuse("neither 0 nor 1:", "--benchmark");
    if (again < 0 || again > 1)
        bench_refuse("neither 0 nor 1:", "--control");
    control = again == 1;
    if (benchmark == 1)
        tern_cpu_set_benchmark(true);
    product p = { 0 };
    const char *name;
    for (int i = 0; (name = bench_name(i)) != NULL; i++)
        if (!parse(name, &p))
            bench_refuse("no product is called", name);
    find_libraries();
    for (int i = 0; (name = bench_name(i)) != NULL; i++)
        if (parse(name, &p))
            compare(name, p, json);
    compare_random(&random, json);
    for (size_t i = 0;
         i < sizeof shapes / sizeof *shapes && bench_name(0) == NULL && random.count == 0; i++)
        if (parse(shapes[i], &p))
            compare(shapes[i], p, json);
    if (!json)
        summarise();
    return bench_end();
}
