/* Memory streams without a library: what an op that moves the same arrays is measured against. */
#ifndef TERN_BENCH_STREAMS_H
#define TERN_BENCH_STREAMS_H

#include <stdint.h>

/* `read` arrays are only read, `update` ones read and written in place, `write` ones only written;
 * n floats each, on 64-byte lines, in that order. */
enum { BENCH_STREAMS_MAX = 4 };
typedef struct bench_streams {
    int read, update, write;
    float *array[BENCH_STREAMS_MAX];
    int64_t n;
} bench_streams;

/* With the widest registers of this CPU. past: stores past the caches; ahead: with prefetches. */
enum { BENCH_PLAIN, BENCH_PLAIN_AHEAD, BENCH_PAST, BENCH_PAST_AHEAD, BENCH_STREAM_VARIANTS };
const char *bench_streams_name(int variant);

/* One pass over all arrays, a consecutive part for each thread. Updated arrays keep their values.
 * Combinations that no op has (see streams.c) do nothing. */
void bench_streams_pass(const bench_streams *s, int variant, int threads);

/* Ties each of the threads to a core of its own, where there are as many: also the library's, which
 * shares the team. Beside other work the scheduler may else leave two threads on one core. */
void bench_streams_pin(int threads);

#endif
