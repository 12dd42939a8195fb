/* Every op of table.def at three sizes: small (the cost of a call), in the cache, in memory.
 * A work is called name/size or name/size/grad; peers/torch_table.py knows the same names. Variant
 * `limit` is the time that the bytes take at the rate of the best streams of that size (on a device: of
 * its own copies) and the operations at that of the library's own product of 1024^3. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arguments.h"
#include "common/bench.h"
#include "common/streams.h"
#include "tern/tern.h"

typedef struct inputs {
    tern_shape_t shape; /* of x */
    double s;
    tern_tensor *x, *y, *z, *u, *v, *w, *b, *k, *q, *i, *t;
} inputs;

enum input_set { FLAT, ROWS, IMAGE, SQUARE, HEADS };

typedef tern_tensor *(*call_fn)(const inputs *in);
typedef struct row {
    const char *name;
    enum input_set set;
    bool grad;
    double moved;             /* bytes per element */
    double (*work)(double s); /* operations per element */
    call_fn call;
} row;

/* ---- the rows ---- */

#define LIST(...)   \
    {               \
        __VA_ARGS__ \
    }
#define NAMES_                                                                                    \
    tern_shape_t shape = in->shape;                                                               \
    tern_tensor *x = in->x, *y = in->y, *z = in->z, *u = in->u, *v = in->v, *w = in->w,           \
                *b = in->b, *k = in->k, *q = in->q, *i = in->i, *t = in->t;                       \
    (void)shape, (void)x, (void)y, (void)z, (void)u, (void)v, (void)w, (void)b, (void)k, (void)q, \
        (void)i, (void)t;
#define ROW(name, set, moved, work, call, torch)      \
    static double work_##name(double s)               \
    {                                                 \
        (void)s;                                      \
        return work;                                  \
    }                                                 \
    static tern_tensor *call_##name(const inputs *in) \
    {                                                 \
        NAMES_                                        \
        return call;                                  \
    }
#define GRAD ROW
#include "table.def"
#undef ROW
#undef GRAD
#define ROW(name, set, moved, work, call, torch) \
    { #name, set, false, moved, work_##name, call_##name },
#define GRAD(name, set, moved, work, call, torch) \
    { #name, set, true, moved, work_##name, call_##name },
static const row table[] = {
#include "table.def"
};
enum { COUNT = sizeof table / sizeof *table };

static const struct {
    const char *name;
    int64_t elements;
} sizes[] = { { "small", 1 << 10 }, { "cache", 1 << 16 }, { "memory", 1 << 24 } };
enum { SMALL, CACHE, MEMORY, SIZES };

/* ---- inputs ---- */

static tern_tensor *whole(tern_shape_t shape, double low, double count)
{
    return tern_cast(tern_add(tern_mul(tern_rand(shape), count), low), TERN_I64);
}

static tern_tensor *fraction(tern_shape_t shape)
{
    return tern_add(tern_mul(tern_rand(shape), 0.8), 0.1);
}

static int64_t root_of(int64_t n)
{
    int64_t s = 1;
    while ((s + 1) * (s + 1) <= n && s < 2048)
        s++;
    return s;
}

static int64_t at_least_one(int64_t n)
{
    return n > 0 ? n : 1;
}

static tern_shape_t shape_of(enum input_set set, int64_t n)
{
    const int64_t s = root_of(n);
    switch (set) {
    case FLAT:
        return TERN_SHAPE(n);
    case ROWS:
        return TERN_SHAPE(n / 256, 256);
    case IMAGE:
        return TERN_SHAPE(at_least_one(n / 8192), 32, 16, 16);
    case SQUARE:
        return TERN_SHAPE(s, s);
    case HEADS:
        break;
    }
    return TERN_SHAPE(at_least_one(n / 32768), 8, 64, 64);
}

static inputs make(enum input_set set, int64_t n)
{
    const tern_shape_t shape = shape_of(set, n);
    const int64_t width = set == SQUARE ? root_of(n) : set == IMAGE ? 32 : 256;
    inputs in = { shape,
                  (double)root_of(n),
                  fraction(shape),
                  fraction(shape),
                  fraction(shape),
                  fraction(TERN_SHAPE(width)),
                  fraction(TERN_SHAPE(width)),
                  NULL,
                  NULL,
                  NULL,
                  NULL,
                  NULL,
                  NULL };
    in.w = set == IMAGE ? fraction(TERN_SHAPE(32, 32, 3, 3)) : fraction(TERN_SHAPE(width));
    if (set == FLAT || set == ROWS) {
        in.b = tern_gt(in.x, 0.5);
        in.k = whole(shape, 1, 100);
        in.q = whole(shape, 1, 100);
    }
    if (set == ROWS) {
        in.i = whole(shape, 0, 256);
        in.t = whole(TERN_SHAPE(n / 256), 0, (double)(n / 256 < 256 ? n / 256 : 256));
    }
    bench_check();
    return in;
}

/* ---- limits ---- */

static double bytes_per_second[SIZES], operations_per_second;
static tern_dev_t device = { TERN_KIND_CPU, 0 };
static double block_seconds = 0.02;
static int blocks = 7;

/* What was queued is part of the time. */
static void wait_for_device(void)
{
    if (device.kind != TERN_KIND_CPU)
        (void)tern_dev_synchronize(device);
}

typedef struct pass {
    bench_streams streams;
    int variant;
} pass;
static void copy_once(void *user, int64_t repeats)
{
    const pass *p = user;
    for (int64_t r = 0; r < repeats; r++)
        bench_streams_pass(&p->streams, p->variant, tern_num_threads());
}

static void multiply(void *user, int64_t repeats)
{
    tern_tensor *const *m = user;
    for (int64_t r = 0; r < repeats; r++) {
        TERN_SCOPE;
        (void)tern_matmul(m[0], m[1]);
    }
    wait_for_device();
}

static void copy_on_device(void *user, int64_t repeats)
{
    for (int64_t r = 0; r < repeats; r++) {
        TERN_SCOPE;
        (void)tern_clone(user);
    }
    wait_for_device();
}

static double best_stream(int64_t n)
{
    tern_tensor *x = tern_ones(TERN_SHAPE(n));
    if (device.kind != TERN_KIND_CPU)
        return bench_run(copy_on_device, x, 0.01, 11).low;
    pass p = { .streams = { 1, 0, 1, { tern_data(x), tern_data(tern_ones(TERN_SHAPE(n))) }, n } };
    double best = 1;
    for (p.variant = 0; p.variant < BENCH_STREAM_VARIANTS; p.variant++) {
        const double seconds = bench_run(copy_once, &p, 0.01, 11).low;
        best = seconds < best ? seconds : best;
    }
    return best;
}

static void measure_limits(void)
{
    for (int size = CACHE; size < SIZES; size++) {
        TERN_SCOPE;
        const int64_t n = sizes[size].elements;
        bytes_per_second[size] = 8 * (double)n / best_stream(n);
    }
    TERN_SCOPE;
    tern_tensor *m[] = { fraction(TERN_SHAPE(1024, 1024)), fraction(TERN_SHAPE(1024, 1024)) };
    operations_per_second = 2.0 * 1024 * 1024 * 1024 / bench_run(multiply, m, 0.05, 5).low;
}

static double limit_of(const row *r, int size, const inputs *in)
{
    const double elements = (double)tern_numel(in->x);
    const double memory = r->moved * elements / bytes_per_second[size];
    const double arithmetic = r->work(in->s) * elements / operations_per_second;
    return memory > arithmetic ? memory : arithmetic;
}

/* ---- running ---- */

typedef struct job {
    const row *row;
    inputs in;
    tern_tensor *gradient;
} job;

static void forward(void *user, int64_t repeats)
{
    const job *j = user;
    for (int64_t r = 0; r < repeats; r++) {
        TERN_SCOPE;
        TERN_NO_GRAD;
        (void)j->row->call(&j->in);
    }
    wait_for_device();
}

static void with_backward(void *user, int64_t repeats)
{
    const job *j = user;
    for (int64_t r = 0; r < repeats; r++) {
        TERN_SCOPE;
        (void)tern_backward(j->row->call(&j->in), .gradient = j->gradient);
        (void)tern_set_grad(j->in.x, NULL);
    }
    wait_for_device();
}

static void measure(const char *work, bench_body body, job *j)
{
    if (bench_works(work, body, j))
        bench_print(work, "tern", bench_run(body, j, block_seconds, blocks));
}

static void run_grad(const row *r, int size, job *j)
{
    char work[96];
    (void)snprintf(work, sizeof work, "%s/%s/grad", r->name, sizes[size].name);
    if (!r->grad || !bench_wanted(work))
        return;
    if (!bench_works(work, forward, j))
        return;
    tern_tensor *y = r->call(&j->in);
    j->gradient = tern_ones(tern_shape(y));
    (void)tern_set_requires_grad(j->in.x, true);
    measure(work, with_backward, j);
}

static void run_row(const row *r, int size)
{
    TERN_SCOPE;
    char work[96];
    (void)snprintf(work, sizeof work, "%s/%s", r->name, sizes[size].name);
    job j = { .row = r };
    char grad[112];
    (void)snprintf(grad, sizeof grad, "%s/grad", work);
    if (!bench_wanted(work) && !(r->grad && bench_wanted(grad)))
        return;
    j.in = make(r->set, sizes[size].elements);
    if (bench_wanted(work)) {
        measure(work, forward, &j);
        if (size != SMALL) {
            const double limit = limit_of(r, size, &j.in);
            bench_print(work, "limit", (bench_result){ limit, limit, limit });
        }
    }
    run_grad(r, size, &j);
}

int main(int argc, char **argv)
{
    bool quick = false;
    const bench_option options[] = { { .name = "quick", .flag = &quick }, { .name = NULL } };
    (void)bench_begin(argc, argv,
                      "[--threads N] [--device D] [--quick (shorter blocks)] "
                      "[name, name/size, name/size/grad or /size ...]",
                      options);
    device = tern_default_device();
    if (quick)
        block_seconds = 0.004, blocks = 5;
    if (device.kind == TERN_KIND_CPU)
        bench_streams_pin(tern_num_threads());
    measure_limits();
    for (int size = 0; size < SIZES; size++)
        for (int r = 0; r < COUNT; r++)
            run_row(&table[r], size);
    return bench_end();
}
