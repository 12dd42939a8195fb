/* See bench.h. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tern/tern.h"

double bench_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void bench_check(void)
{
    if (!tern_failed())
        return;
    fputs(tern_error_text(), stderr);
    exit(1);
}

bool bench_works(const char *work, bench_body body, void *user)
{
    body(user, 1);
    if (!tern_failed())
        return true;
    printf("{\"work\": \"%s\", \"variant\": \"tern\", \"error\": \"", work);
    for (const char *c = tern_error_text(); *c != '\0'; c++)
        putchar(*c == '"' || *c == '\\' || (unsigned char)*c < ' ' ? ' ' : *c);
    puts("\"}");
    (void)fflush(stdout);
    tern_error_clear();
    return false;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double timed(bench_body body, void *user, int64_t repeats)
{
    const double start = bench_now();
    body(user, repeats);
    return bench_now() - start;
}

bench_result bench_run(bench_body body, void *user, double block_seconds, int blocks)
{
    int64_t repeats = 1;
    double spent = timed(body, user, 1);
    while (spent < block_seconds / 2) {
        repeats =
            spent > 1e-7 ? (int64_t)((double)repeats * block_seconds / spent) + 1 : repeats * 16;
        spent = timed(body, user, repeats);
    }
    double *samples = malloc((size_t)blocks * sizeof *samples);
    bench_result result = { 0, 0, 0 };
    if (samples == NULL)
        return result;
    for (int b = 0; b < blocks; b++)
        samples[b] = timed(body, user, repeats) / (double)repeats;
    qsort(samples, (size_t)blocks, sizeof *samples, by_value);
    result.median = samples[blocks / 2];
    result.low = samples[blocks / 4];
    result.high = samples[blocks - 1 - blocks / 4];
    free(samples);
    bench_check();
    return result;
}

void bench_print(const char *work, const char *variant, bench_result r)
{
    printf("{\"work\": \"%s\", \"threads\": %d, \"variant\": \"%s\", \"us\": %.5g, \"low\": %.5g, "
           "\"high\": %.5g}\n",
           work, tern_num_threads(), variant, 1e6 * r.median, 1e6 * r.low, 1e6 * r.high);
    fflush(stdout);
}

void bench(const char *work, bench_body body, void *user)
{
    bench_print(work, "tern", bench_run(body, user, 0.02, 11));
}
