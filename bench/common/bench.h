/* Timing for benchmarks: medians of blocks, one JSON line per measurement:
 *     {"work": "mlp1", "threads": 1, "variant": "tern", "us": 112.3, "low": ..., "high": ...}
 * Ratios against peers measured in the same run are made by bench/peers/compare.py. */
#ifndef TERN_BENCH_BENCH_H
#define TERN_BENCH_BENCH_H

#include <stdbool.h>
#include <stdint.h>

double bench_now(void); /* seconds, monotonic */

typedef void (*bench_body)(void *user, int64_t repeats);
typedef struct bench_result {
    double median, low, high; /* seconds per repeat; low and high are quartiles */
} bench_result;
/* Runs body in blocks that last about `block_seconds` each, `blocks` times after a warm-up. */
bench_result bench_run(bench_body body, void *user, double block_seconds, int blocks);
void bench_print(const char *work, const char *variant, bench_result result);
/* Times and prints in one go: 11 blocks of 20 ms. */
void bench(const char *work, bench_body body, void *user);
/* Runs body once. False: it failed; a line {"work": ..., "error": ...} says why, and the error is gone. */
bool bench_works(const char *work, bench_body body, void *user);
/* Exits with the library's error text when one is pending. */
void bench_check(void);

#endif
