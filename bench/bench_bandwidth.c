/* Ops that only memory should limit, against streams: the best of plain loops and loops that store
 * past the caches, with as many arrays read and written, of the same size, on as many threads, in
 * turns with the op. One line per op, size and number of threads:
 *     {"work": "add_8m", "threads": 1, "variant": "tern", "us": ..., "low": ..., "high": ...,
 *      "ratio": ..., "ratio_low": ..., "ratio_high": ..., "ratio_fastest": ...,
 *      "plain_us": ..., "plain_ahead_us": ..., "past_us": ..., "past_ahead_us": ...}
 * ratio: the streams' time over the op's, median and quartiles over the rounds; ratio_fastest: the
 * fastest round of any streams over that of the op, which a busy neighbour disturbs least. Sizes are
 * bytes of one array of f32. One thread is timed by its CPU time, which other processes change
 * little. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/arguments.h"
#include "common/bench.h"
#include "common/streams.h"
#include "tern/tern.h"

enum { COLUMNS = 1024, MAX_ROUNDS = 101 };

typedef struct operands {
    tern_tensor *a, *b, *c, *d; /* [rows, COLUMNS] */
    tern_tensor *weight, *bias; /* [COLUMNS] */
    tern_tensor *target;        /* [rows] */
    tern_tensor *recorded;      /* what a backward starts from */
    tern_tensor *inputs[3];     /* and what it is for */
    int64_t count;
} operands;

/* ---- the ops --------------------------------------------------------------------------------- */

#define BODY(name, call)          \
    static void name(operands *o) \
    {                             \
        TERN_SCOPE;               \
        (void)(call);             \
    }
BODY(add, tern_add(o->a, o->b))
BODY(add_in_place, tern_add_(o->c, o->a))
BODY(mul_number, tern_mul(o->a, 1.5))
BODY(relu, tern_relu(o->a))
BODY(exp_, tern_exp(o->a))
BODY(copy, tern_copy(o->c, o->a))
BODY(sum, tern_sum(o->a))
BODY(softmax, tern_softmax(o->a, -1))
BODY(log_softmax, tern_log_softmax(o->a, -1))
BODY(layer_norm, tern_layer_norm(o->a, 1, o->weight, o->bias))
BODY(cross_entropy, tern_cross_entropy(o->a, o->target))
BODY(sgd, tern_sgd_step_at(TERN_HERE, o->c, o->a, NULL, &(tern_attr_sgd){ .lr = 1e-9 }))
BODY(sgd_momentum,
     tern_sgd_step_at(TERN_HERE, o->c, o->a, o->d, &(tern_attr_sgd){ .lr = 1e-9, .momentum = 0.9 }))

static void adam_step(operands *o, double decay, bool decoupled)
{
    const tern_attr_adam options = { .lr = 1e-9,
                                     .beta1 = 0.9,
                                     .beta2 = 0.999,
                                     .eps = 1e-8,
                                     .weight_decay = decay,
                                     .step = 9,
                                     .decoupled = decoupled };
    (void)tern_adam_step_at(TERN_HERE, o->c, o->a, o->b, o->d, &options);
}
static void adam(operands *o)
{
    adam_step(o, 0, false);
}
static void adamw(operands *o)
{
    adam_step(o, 0.01, true);
}

/* The backward of what setup_* recorded. */
static void backward(operands *o)
{
    TERN_SCOPE;
    tern_tensor *grads[3];
    (void)tern_grad(o->recorded, o->inputs, o->count, grads,
                    .gradient = tern_numel(o->recorded) == 1 ? NULL : o->b, .retain_graph = true);
}
static void setup_inputs(operands *o)
{
    o->inputs[0] = tern_set_requires_grad(o->a, true);
    o->count = 1;
}
static void setup_softmax(operands *o)
{
    setup_inputs(o);
    o->recorded = tern_softmax(o->a, -1);
}
static void setup_log_softmax(operands *o)
{
    setup_inputs(o);
    o->recorded = tern_log_softmax(o->a, -1);
}
static void setup_layer_norm(operands *o)
{
    setup_inputs(o);
    o->inputs[1] = tern_set_requires_grad(o->weight, true);
    o->inputs[2] = tern_set_requires_grad(o->bias, true);
    o->count = 3;
    o->recorded = tern_layer_norm(o->a, 1, o->weight, o->bias);
}
static void setup_cross_entropy(operands *o)
{
    setup_inputs(o);
    o->recorded = tern_cross_entropy(o->a, o->target);
}

typedef struct work {
    const char *name;
    void (*run)(operands *o);
    int read, update, write; /* arrays that it must move */
    void (*setup)(operands *o);
} work;

static const work works[] = {
    { "add", add, 2, 0, 1, NULL },
    { "add_in_place", add_in_place, 1, 1, 0, NULL },
    { "mul_number", mul_number, 1, 0, 1, NULL },
    { "relu", relu, 1, 0, 1, NULL },
    { "exp", exp_, 1, 0, 1, NULL },
    { "copy", copy, 1, 0, 1, NULL },
    { "sum", sum, 1, 0, 0, NULL },
    { "softmax", softmax, 1, 0, 1, NULL },
    { "softmax_backward", backward, 2, 0, 1, setup_softmax },
    { "log_softmax", log_softmax, 1, 0, 1, NULL },
    { "log_softmax_backward", backward, 2, 0, 1, setup_log_softmax },
    { "layer_norm", layer_norm, 1, 0, 1, NULL },
    { "layer_norm_backward", backward, 2, 0, 1, setup_layer_norm },
    { "cross_entropy", cross_entropy, 1, 0, 0, NULL },
    { "cross_entropy_backward", backward, 1, 0, 1, setup_cross_entropy },
    { "sgd", sgd, 1, 1, 0, NULL },
    { "sgd_momentum", sgd_momentum, 1, 2, 0, NULL },
    { "adam", adam, 1, 3, 0, NULL },
    { "adamw", adamw, 1, 3, 0, NULL },
};

/* ---- timing ---------------------------------------------------------------------------------- */

enum { CONTENDERS = BENCH_STREAM_VARIANTS + 1 }; /* the op comes last */

typedef struct match {
    const work *work;
    operands *operands;
    bench_streams streams;
    int threads, rounds;
    double samples[CONTENDERS][MAX_ROUNDS]; /* seconds per call */
} match;

static double now(const match *m)
{
    if (m->threads > 1)
        return bench_now();
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void call(match *m, int contender)
{
    if (contender < BENCH_STREAM_VARIANTS)
        bench_streams_pass(&m->streams, contender, m->threads);
    else
        m->work->run(m->operands);
}

/* Arrays that fit in the last cache come back to it over about ten passes after they were written past the caches (Xeon,
 * 480 MB, 64 MB in place: 6.5 ms in the first pass, 4.6 in the tenth). Others are where they will be after one. */
static int passes_to_settle(const match *m)
{
    enum { SETTLING = 20 };
#if defined(_SC_LEVEL3_CACHE_SIZE)
    const bench_streams *s = &m->streams;
    const int64_t bytes = (s->read + s->update + s->write) * s->n * (int64_t)sizeof(float);
    return bytes <= sysconf(_SC_LEVEL3_CACHE_SIZE) ? SETTLING : 1;
#else
    (void)m;
    return 1;
#endif
}

/* Seconds per call; calls before bring the arrays to where the contender leaves them. */
static double timed(match *m, int contender, int64_t repeats)
{
    for (int i = passes_to_settle(m); i > 0; i--)
        call(m, contender);
    const double start = now(m);
    for (int64_t i = 0; i < repeats; i++)
        call(m, contender);
    return (now(m) - start) / (double)repeats;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bench_result quartiles(const double *samples, int count)
{
    double sorted[MAX_ROUNDS];
    memcpy(sorted, samples, (size_t)count * sizeof *samples);
    qsort(sorted, (size_t)count, sizeof *sorted, by_value);
    return (bench_result){ sorted[count / 2], sorted[count / 4], sorted[count - 1 - count / 4] };
}

static double fastest(const match *m, int contender)
{
    double best = m->samples[contender][0];
    for (int r = 1; r < m->rounds; r++)
        best = m->samples[contender][r] < best ? m->samples[contender][r] : best;
    return best;
}

/* The fastest round of any streams over that of the op. */
static double ratio_fastest(const match *m)
{
    double best = fastest(m, 0);
    for (int c = 1; c < BENCH_STREAM_VARIANTS; c++)
        best = fastest(m, c) < best ? fastest(m, c) : best;
    return best / fastest(m, BENCH_STREAM_VARIANTS);
}

static void report(const match *m, const char *size)
{
    int best = 0;
    double streams[BENCH_STREAM_VARIANTS], ratios[MAX_ROUNDS];
    for (int c = 0; c < BENCH_STREAM_VARIANTS; c++) {
        streams[c] = quartiles(m->samples[c], m->rounds).median;
        best = streams[c] < streams[best] ? c : best;
    }
    for (int r = 0; r < m->rounds; r++)
        ratios[r] = m->samples[best][r] / m->samples[BENCH_STREAM_VARIANTS][r];
    const bench_result op = quartiles(m->samples[BENCH_STREAM_VARIANTS], m->rounds);
    const bench_result ratio = quartiles(ratios, m->rounds);
    printf("{\"work\": \"%s_%s\", \"threads\": %d, \"variant\": \"tern\", \"us\": %.5g, "
           "\"low\": %.5g, \"high\": %.5g, \"ratio\": %.3f, \"ratio_low\": %.3f, "
           "\"ratio_high\": %.3f, \"ratio_fastest\": %.3f",
           m->work->name, size, m->threads, 1e6 * op.median, 1e6 * op.low, 1e6 * op.high,
           ratio.median, ratio.low, ratio.high, ratio_fastest(m));
    for (int c = 0; c < BENCH_STREAM_VARIANTS; c++)
        printf(", \"%s_us\": %.5g", bench_streams_name(c), 1e6 * streams[c]);
    puts("}");
    fflush(stdout);
}

static void compare(match *m, const char *size)
{
    const double block = 0.002;
    int64_t repeats = 1;
    double each = timed(m, BENCH_PLAIN, repeats);
    if (each < block)
        each = timed(m, BENCH_PLAIN, repeats = (int64_t)(block / (each + 1e-7)) + 1);
    if (each < block)
        repeats = (int64_t)(block / each) + 1;
    /* No stores past the caches between plain streams and the op, each of which goes first in every other round. */
    static const int orders[2][CONTENDERS] = {
        { BENCH_PAST, BENCH_PAST_AHEAD, BENCH_PLAIN, BENCH_PLAIN_AHEAD, BENCH_STREAM_VARIANTS },
        { BENCH_PAST, BENCH_PAST_AHEAD, BENCH_STREAM_VARIANTS, BENCH_PLAIN_AHEAD, BENCH_PLAIN }
    };
    for (int r = 0; r < m->rounds; r++)
        for (int i = 0; i < CONTENDERS; i++) {
            const int c = orders[r % 2][i];
            m->samples[c][r] = timed(m, c, repeats);
        }
    bench_check();
    report(m, size);
}

/* ---- choosing -------------------------------------------------------------------------------- */

typedef struct options {
    int64_t rounds;
    const char *size; /* NULL: all */
} options;

static void make_operands(operands *o, int64_t rows)
{
    *o = (operands){ .a = tern_randn(TERN_SHAPE(rows, COLUMNS)),
                     .b = tern_randn(TERN_SHAPE(rows, COLUMNS)),
                     .c = tern_zeros(TERN_SHAPE(rows, COLUMNS)),
                     .d = tern_ones(TERN_SHAPE(rows, COLUMNS)),
                     .weight = tern_rand(TERN_SHAPE(COLUMNS)),
                     .bias = tern_rand(TERN_SHAPE(COLUMNS)) };
    o->target = tern_argmax(o->a, 1);
    bench_check();
}

static void run_work(const work *w, const options *plan, const char *size, int64_t bytes)
{
    TERN_SCOPE;
    operands o;
    make_operands(&o, bytes / (COLUMNS * (int64_t)sizeof(float)));
    if (w->setup != NULL)
        w->setup(&o);
    bench_check();
    static match m;
    m = (match){ .work = w,
                 .operands = &o,
                 .threads = tern_num_threads(),
                 .rounds = (int)plan->rounds,
                 .streams = { w->read, w->update, w->write, { 0 }, bytes / 4 } };
    float *const read[] = { tern_data(o.a), tern_data(o.b) };
    float *const written[] = { tern_data(o.c), tern_data(o.d), tern_data(o.b) };
    for (int i = 0; i < w->read + w->update + w->write; i++)
        m.streams.array[i] = i < w->read ? read[i] : written[i - w->read];
    compare(&m, size);
}

/* "8m": 8 << 20. */
static int64_t bytes_of(const char *size)
{
    char *unit;
    const int64_t count = strtoll(size, &unit, 10);
    if (count < 1 || count > 1 << 20 || (strcmp(unit, "k") != 0 && strcmp(unit, "m") != 0))
        bench_refuse("--size wants a number and k or m, not", size);
    return count << (*unit == 'k' ? 10 : 20);
}

static void run_all(const options *plan, int threads)
{
    static const char *const sizes[] = { "256k", "1m", "8m", "64m", "256m" };
    tern_set_num_threads(threads);
    bench_streams_pin(threads);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const char *size = plan->size != NULL ? plan->size : sizes[s];
        for (size_t w = 0; w < sizeof works / sizeof *works; w++)
            if (bench_wanted(works[w].name))
                run_work(&works[w], plan, size, bytes_of(size));
        if (plan->size != NULL)
            break;
    }
}

int main(int argc, char **argv)
{
    options plan = { .rounds = 11 };
    const bench_option own[] = { { .name = "size", .text = &plan.size },
                                 { .name = "rounds", .number = &plan.rounds },
                                 { .name = NULL } };
    const bench_asked asked = bench_begin(
        argc, argv, "[--threads N (1, then 2)] [--size 256k|1m|8m|64m|256m] [--rounds N] [op ...]",
        own);
    if (plan.rounds < 1 || plan.rounds > MAX_ROUNDS)
        plan.rounds = 11;
    if (plan.size != NULL)
        (void)bytes_of(plan.size);
    for (int threads = 1; threads <= 2; threads++)
        if (asked.threads == 0 || threads == 1)
            run_all(&plan, asked.threads != 0 ? asked.threads : threads);
    return bench_end();
}
