/* Matrix products and convolutions of half types on the CPU: f32 arithmetic on half storage against
 * instructions of their own, by tern's kernels and by oneDNN. backend_cpu/half_routes.def is made from it.
 * Each way runs in processes of its own, in turns, since the choice is made once per process. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "common/arguments.h"
#include "common/bench.h"
#include "tern/tern.h"

typedef struct shape {
    const char *class; /* as half_routes.def names it */
    char op[3];        /* what is transposed as stored; CV, CX, CW: a convolution, its gradients */
    int m, k, n;       /* convolutions: images, channels in and out */
    int pixels, taps, stride;
} shape;

#define PRODUCT(class, op, m, k, n) \
    {                               \
        class, op, m, k, n, 0, 0, 0 \
    }
#define CONVOLUTIONS(class, op)                                                     \
    { class, op, 64, 32, 64, 14, 3, 1 }, { class, op, 128, 16, 16, 32, 3, 1 },      \
        { class, op, 128, 16, 32, 32, 3, 2 }, { class, op, 128, 32, 32, 16, 3, 1 }, \
        { class, op, 128, 64, 64, 8, 3, 1 }, { class, op, 128, 16, 32, 32, 1, 2 },  \
        { class, op, 8, 128, 128, 28, 3, 1 },                                       \
    {                                                                               \
        class, op, 8, 256, 256, 14, 1, 1                                            \
    }

static const shape shapes[] = {
    PRODUCT("SMALL", "NN", 16, 16, 16),      PRODUCT("SMALL", "NT", 32, 32, 32),
    PRODUCT("SMALL", "TN", 8, 64, 48),       PRODUCT("SMALL", "NT", 64, 24, 16),
    PRODUCT("FEW_ROWS", "NT", 1, 512, 512),  PRODUCT("FEW_ROWS", "NT", 4, 784, 512),
    PRODUCT("FEW_ROWS", "NN", 2, 1024, 256), PRODUCT("FEW_ROWS", "NN", 7, 300, 300),
    PRODUCT("NARROW", "NT", 128, 512, 10),   PRODUCT("NARROW", "TN", 512, 128, 10),
    PRODUCT("NARROW", "NN", 256, 1024, 16),  PRODUCT("NARROW", "NN", 1000, 64, 8),
    PRODUCT("WIDE", "NN", 64, 64, 64),       PRODUCT("WIDE", "NT", 128, 784, 512),
    PRODUCT("WIDE", "NN", 128, 512, 784),    PRODUCT("WIDE", "TN", 512, 128, 784),
    PRODUCT("WIDE", "TN", 10, 128, 512),     PRODUCT("WIDE", "NN", 128, 10, 512),
    PRODUCT("WIDE", "NT", 256, 1024, 1024),  PRODUCT("WIDE", "NN", 512, 512, 512),
    PRODUCT("WIDE", "TN", 1024, 256, 1024),  CONVOLUTIONS("CONV", "CV"),
    CONVOLUTIONS("CONV_INPUT", "CX"),        CONVOLUTIONS("CONV_WEIGHT", "CW"),
};
static const char *const ways[] = { "f32", "native", "library" };
static const tern_dtype_t dtypes[] = { TERN_BF16, TERN_F16 };
enum { SHAPES = sizeof shapes / sizeof *shapes, WAYS = 3, DTYPES = 2, MOST_ROUNDS = 50 };

/* Seconds of a call; 0 where the way does not compute the shape. */
typedef double seconds[DTYPES][SHAPES];

/* ---- one call -------------------------------------------------------------------------------- */

typedef struct product {
    tern_tensor *a, *b, *y, *slope; /* y and slope: of a convolution whose gradient is measured */
    int stride, padding;
} product;

static bool is_convolution(const shape *s)
{
    return s->op[0] == 'C';
}

static void multiply(void *user, int64_t repeats)
{
    const product *p = user;
    for (int64_t i = 0; i < repeats; i++) {
        TERN_SCOPE;
        (void)tern_matmul(p->a, p->b);
    }
}

static void convolve(void *user, int64_t repeats)
{
    const product *p = user;
    for (int64_t i = 0; i < repeats; i++) {
        TERN_SCOPE;
        (void)tern_conv2d(p->a, p->b, .stride = { p->stride, p->stride },
                          .padding = { p->padding, p->padding });
    }
}

static void differentiate(void *user, int64_t repeats)
{
    const product *p = user;
    tern_tensor *of = tern_requires_grad(p->a) ? p->a : p->b;
    for (int64_t i = 0; i < repeats; i++) {
        TERN_SCOPE;
        tern_tensor *grad;
        tern_grad(p->y, &of, 1, &grad, .gradient = p->slope, .retain_graph = true);
    }
}

static tern_tensor *operand(tern_dtype_t dtype, int rows, int columns, bool transposed)
{
    tern_tensor *t =
        transposed ? tern_randn(TERN_SHAPE(columns, rows)) : tern_randn(TERN_SHAPE(rows, columns));
    t = tern_cast(t, dtype);
    return transposed ? tern_transpose(t, 0, 1) : t;
}

/* Activations as they are between layers: as a convolution leaves them. */
static double time_convolution(tern_dtype_t dtype, const shape *s)
{
    product p = { .stride = s->stride, .padding = s->taps / 2 };
    p.a = tern_cast(tern_randn(TERN_SHAPE(s->m, s->k, s->pixels, s->pixels)), dtype);
    p.b = tern_cast(tern_randn(TERN_SHAPE(s->n, s->k, s->taps, s->taps)), dtype);
    tern_tensor *same = tern_cast(tern_randn(TERN_SHAPE(s->k, s->k, 1, 1)), dtype);
    p.a = tern_conv2d(p.a, same);
    if (s->op[1] == 'V')
        return bench_run(convolve, &p, 0.004, 5).low;
    tern_set_requires_grad(s->op[1] == 'X' ? p.a : p.b, true);
    p.y = tern_conv2d(p.a, p.b, .stride = { p.stride, p.stride },
                      .padding = { p.padding, p.padding });
    p.slope = tern_mul(tern_detach(p.y), 0.5);
    return bench_run(differentiate, &p, 0.004, 5).low;
}

static double time_call(tern_dtype_t dtype, const shape *s)
{
    TERN_SCOPE;
    if (is_convolution(s))
        return time_convolution(dtype, s);
    product p = { operand(dtype, s->m, s->k, s->op[0] == 'T'),
                  operand(dtype, s->k, s->n, s->op[1] == 'T'),
                  NULL,
                  NULL,
                  0,
                  0 };
    return bench_run(multiply, &p, 0.004, 5).low;
}

/* Calls that went another way than the one that was asked for count as not computed. */
static void measure(int way, seconds out)
{
    tern_set_num_threads(1);
    for (int d = 0; d < DTYPES; d++)
        for (int i = 0; i < SHAPES; i++) {
            tern_cpu_half_t before, after;
            tern_cpu_half(&before);
            out[d][i] = time_call(dtypes[d], &shapes[i]);
            tern_cpu_half(&after);
            bench_check();
            if (way > 0 && after.widened != before.widened)
                out[d][i] = 0;
        }
}

/* One round of a way in a process of its own; `best` keeps the least time of each shape. */
static bool run_way(int way, seconds best)
{
    static seconds got;
    int ends[2];
    if (pipe(ends) != 0)
        return false;
    const pid_t child = fork();
    if (child == 0) {
        (void)setenv("TERN_CPU_HALF", ways[way], 1);
        measure(way, got);
        _exit(write(ends[1], got, sizeof got) == (ssize_t)sizeof got ? 0 : 1);
    }
    (void)close(ends[1]);
    const bool ok = child > 0 && read(ends[0], got, sizeof got) == (ssize_t)sizeof got;
    (void)close(ends[0]);
    (void)waitpid(child, NULL, 0);
    for (int d = 0; ok && d < DTYPES; d++)
        for (int i = 0; i < SHAPES; i++)
            best[d][i] = best[d][i] == 0 || got[d][i] < best[d][i] ? got[d][i] : best[d][i];
    return ok;
}

/* ---- what it printed ------------------------------------------------------------------------- */

static void print_shapes(seconds *best)
{
    for (int d = 0; d < DTYPES; d++)
        for (int i = 0; i < SHAPES; i++) {
            const shape *s = &shapes[i];
            double flops = 2e-9 * s->m * s->n * s->k;
            const int out = s->stride > 0 ? (s->pixels - 1) / s->stride + 1 : 1;
            flops *= is_convolution(s) ? (double)out * out * s->taps * s->taps : 1;
            printf("%-11s %-4s %s %4dx%4dx%4d", s->class, tern_dtype_name(dtypes[d]), s->op, s->m,
                   s->k, s->n);
            if (is_convolution(s))
                printf(" %2d^2 by %d^2 /%d", s->pixels, s->taps, s->stride);
            for (int w = 0; w < WAYS; w++)
                if (best[w][d][i] > 0)
                    printf("  %s %6.1f GFLOP/s (%.2f)", ways[w], flops / best[w][d][i],
                           best[0][d][i] / best[w][d][i]);
            printf("\n");
        }
}

/* The speed of a way over f32, geometric mean of the shapes [first, next); 0: it does not do them. */
static double speed(seconds *best, int way, int dtype, int first, int next)
{
    double sum = 0;
    for (int i = first; i < next; i++) {
        if (best[way][dtype][i] == 0)
            return 0;
        sum += log(best[0][dtype][i] / best[way][dtype][i]);
    }
    return exp(sum / (next - first));
}

/* tern's own kernels need no library: a program that has no other use for one starts 20 ms earlier. */
static const double library_gain = 1.5;

static void print_class(seconds *best, const char *cpu, int dtype, int first, int next)
{
    const char *name = dtypes[dtype] == TERN_BF16 ? "BF16" : "F16";
    const double native = speed(best, 1, dtype, first, next);
    const double library = speed(best, 2, dtype, first, next);
    const bool own =
        !is_convolution(&shapes[first]) && native > 0 && library < library_gain * native;
    const double most = own || native > library ? native : library;
    if (most > 0)
        printf("HALF_ROUTE(%s, %s, %s, %s, %.2f, MEASURED)\n", cpu, name, shapes[first].class,
               most < 1.1 ? "F32"
               : own      ? "OWN"
                          : "LIBRARY",
               most);
}

#if defined(__x86_64__)
static void put_feature(bool has, const char *name, const char **between)
{
    if (has)
        printf("%s%s", *between, name);
    *between = has ? " | " : *between;
}

/* As backend_cpu/half.c reads it. */
static void print_cpu(const char *cpu)
{
    unsigned a = 0, b = 0, c = 0, d = 0, a1 = 0, vendor = 0, low = 0, high = 0;
    const char *between = "";
    (void)__get_cpuid(0, &a, &vendor, &c, &d);
    (void)__get_cpuid(1, &a, &b, &c, &d);
    const unsigned base = a >> 8 & 15, family = base == 15 ? base + (a >> 20 & 255) : base;
    const unsigned model = (a >> 4 & 15) | (a >> 12 & 0xF0);
    if (c & bit_OSXSAVE)
        __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    (void)__get_cpuid_count(7, 1, &a1, &b, &c, &d);
    (void)__get_cpuid_count(7, 0, &a, &b, &c, &d);
    const bool tiles = (d >> 24 & 1) && (low >> 17 & 3) == 3;
    printf("HALF_CPU(%s, %s, 0x%X, 0x%X, ", cpu,
           vendor == signature_AMD_ebx     ? "AMD"
           : vendor == signature_INTEL_ebx ? "INTEL"
                                           : "OTHER",
           family, model);
    put_feature(a1 >> 5 & 1, "CPU_HAS_BF16", &between);
    put_feature(d >> 23 & 1, "CPU_HAS_FP16", &between);
    put_feature(tiles && (d >> 22 & 1), "CPU_HAS_AMX", &between);
    put_feature(tiles && (a1 >> 21 & 1), "CPU_HAS_AMX_FP16", &between);
}
#else
static void print_cpu(const char *cpu)
{
    printf("HALF_CPU(%s, OTHER, 0, 0, ", cpu);
}
#endif

static void print_table(seconds *best)
{
    tern_cpu_report_t report;
    tern_cpu_report(&report);
    printf("/* %s, one thread, %s */\n", report.model, report.dnn);
    print_cpu("THIS_CPU");
    printf(", \"%s\")\n", report.model);
    for (int d = 0; d < DTYPES; d++)
        for (int first = 0, next; first < SHAPES; first = next) {
            for (next = first; next < SHAPES && !strcmp(shapes[next].class, shapes[first].class);)
                next++;
            print_class(best, "THIS_CPU", d, first, next);
        }
}

int main(int argc, char **argv)
{
    static seconds best[WAYS];
    bool table = false;
    int64_t rounds = 5;
    const bench_option options[] = { { .name = "table", .flag = &table },
                                     { .name = "rounds", .number = &rounds },
                                     { .name = NULL } };
    (void)bench_begin(argc, argv,
                      "[--rounds N] [--table]\n"
                      "one line per shape and dtype; --table: the lines of half_routes.def",
                      options);
    for (int64_t round = 0; round < rounds && round < MOST_ROUNDS; round++)
        for (int w = 0; w < WAYS; w++)
            if (!run_way(w, best[w]))
                return 1;
    if (table)
        print_table(best);
    else
        print_shapes(best);
    return bench_end();
}
