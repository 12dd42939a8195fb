/* See gemm_trial.h. Rounds, each of more calls than the one before, after which the slower ways are dropped (successive
 * halving, Karnin, Koren and Somekh 2013, with the least time in place of the mean: what disturbs a call only adds). */
#include "backend_cpu/gemm_trial.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "tern/error.h"

struct cpu_gemm_trial {
    cpu_gemm_key key;
    cpu_gemm_choice ways[CPU_GEMM_TRIALS];
    double least[CPU_GEMM_TRIALS];
    int count;       /* of ways that are still tried, the first ones; 0: the place is free */
    int round, call; /* calls of this round so far */
};

typedef struct trial_table {
    int count;
    cpu_gemm_trial places[2 * CPU_GEMM_SHAPES]; /* found by hash, then one after the other */
} trial_table;

/* Calls of each way in a round, one after the other, and how much longer than the fastest a way may have taken to stay. The
 * first one may open a library or write code, and finds operands in the caches of the cores that the way before gave them
 * to: in turns small products of two threads took up to 1.7 times as long as later (Intel), and a wrong way was taken. */
static const struct {
    int calls;
    double stays;
} rounds[] = { { 3, 1.25 }, { 6, 1.06 }, { 12, 1 } };
enum { ROUNDS = sizeof rounds / sizeof *rounds };
/* Of a product that takes so long one round says enough, and more would be noticed. */
static const double long_call = 5e-3;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t exit_key;
static bool exit_key_made;
static _Thread_local trial_table *here;

static void make_exit_key(void)
{
    exit_key_made = pthread_key_create(&exit_key, free) == 0;
}

static trial_table *table_here(void)
{
    if (here != NULL)
        return here;
    pthread_once(&once, make_exit_key);
    trial_table *table = exit_key_made ? calloc(1, sizeof *table) : NULL;
    if (table != NULL && pthread_setspecific(exit_key, table) != 0) {
        free(table);
        table = NULL;
    }
    return here = table;
}

static void add(cpu_gemm_trial *trial, cpu_gemm_choice way)
{
    trial->ways[trial->count] = way;
    trial->least[trial->count++] = INFINITY;
}

/* Own kernels and each library: with rows and with columns shared, a library's also in a grid, and on one thread. Of f64
 * OpenBLAS alone. */
static void begin(cpu_gemm_trial *trial, const cpu_gemm_key *key, bool libraries)
{
    trial->key = *key;
    const int makers = !libraries               ? 0
                       : key->dtype == TERN_F32 ? CPU_BLAS_MAKERS - 1
                                                : CPU_BLAS_OPENBLAS;
    for (int maker = 0; maker <= makers; maker++) {
        const bool own = maker == 0;
        const int first = own || key->threads == 2 ? CPU_BLAS_ROWS : CPU_BLAS_AS_PLANNED;
        for (int cut = first; cut < CPU_BLAS_CUTS && key->threads > 1; cut++)
            add(trial,
                (cpu_gemm_choice){ own, (cpu_blas_maker)maker, (cpu_blas_cut)cut, key->threads });
        add(trial, (cpu_gemm_choice){ own, (cpu_blas_maker)maker, CPU_BLAS_AS_PLANNED, 1 });
    }
}

cpu_gemm_trial *cpu_gemm_trial_of(int dtype, const cpu_product *g, int threads, bool libraries)
{
    trial_table *table = table_here();
    if (table == NULL)
        return NULL;
    const cpu_gemm_key key = cpu_gemm_key_of(dtype, g, threads);
    const uint64_t places = sizeof table->places / sizeof *table->places;
    uint64_t at = cpu_gemm_key_hash(&key) % places;
    while (table->places[at].count > 0 && !cpu_gemm_key_is(&table->places[at].key, &key))
        at = (at + 1) % places;
    cpu_gemm_trial *trial = &table->places[at];
    if (trial->count > 0)
        return trial;
    if (table->count == CPU_GEMM_SHAPES)
        return NULL;
    table->count++;
    begin(trial, &key, libraries);
    return trial;
}

static int place_of(const cpu_gemm_trial *trial)
{
    return trial->count == 1 ? 0 : trial->call / rounds[trial->round].calls;
}

cpu_gemm_choice cpu_gemm_trial_next(const cpu_gemm_trial *trial, bool *out_decided)
{
    *out_decided = trial->count == 1;
    return trial->ways[place_of(trial)];
}

static double least_of(const cpu_gemm_trial *trial)
{
    double least = INFINITY;
    for (int i = 0; i < trial->count; i++)
        least = fmin(least, trial->least[i]);
    return least;
}

/* Keeps what took no longer than `most`, in its order. */
static void drop(cpu_gemm_trial *trial, double most)
{
    int kept = 0;
    for (int i = 0; i < trial->count; i++)
        if (trial->least[i] <= most) {
            const cpu_gemm_choice way = trial->ways[i];
            const double least = trial->least[i];
            trial->ways[i] = trial->ways[kept];
            trial->least[i] = trial->least[kept];
            trial->ways[kept] = way;
            trial->least[kept++] = least;
        }
    trial->count = kept;
}

const cpu_gemm_key *cpu_gemm_trial_key(const cpu_gemm_trial *trial)
{
    return &trial->key;
}

bool cpu_gemm_trial_took(cpu_gemm_trial *trial, double seconds)
{
    double *least = &trial->least[place_of(trial)];
    *least = fmin(*least, seconds);
    if (++trial->call < rounds[trial->round].calls * trial->count)
        return false;
    const double best = least_of(trial);
    const bool last = trial->round == ROUNDS - 1 || best > long_call;
    drop(trial, best * (last ? 1 : rounds[trial->round].stays));
    if (last)
        trial->count = 1; /* of equals the first */
    trial->round++;
    trial->call = 0;
    return trial->count == 1;
}

double cpu_gemm_trial_seconds(const cpu_gemm_trial *trial, bool own, cpu_blas_maker maker)
{
    double least = INFINITY;
    for (int i = 0; i < CPU_GEMM_TRIALS && trial->ways[i].threads > 0; i++)
        if (trial->ways[i].own == own && trial->ways[i].maker == maker)
            least = fmin(least, trial->least[i]);
    return least;
}

void cpu_gemm_trial_tell(const cpu_gemm_trial *trial, const tern_host *host)
{
    static const char *const makers[] = { "own kernels", "OpenBLAS", "oneDNN",
                                          "OpenBLAS in tiles" };
    static const char *const cuts[] = { "", ", rows shared", ", columns shared" };
    const cpu_gemm_key *g = &trial->key;
    const cpu_gemm_choice *way = trial->ways;
    host->event(TERN_LOG_DEBUG,
                "benchmark: [%lld, %lld] by [%lld, %lld] goes to %s on %d thread%s%s (own kernels "
                "%.1f us, OpenBLAS %.1f, oneDNN %.1f)",
                (long long)g->m, (long long)g->k, (long long)g->k, (long long)g->n,
                makers[way->maker], way->threads, way->threads > 1 ? "s" : "", cuts[way->cut],
                1e6 * cpu_gemm_trial_seconds(trial, true, CPU_BLAS_BY_TABLE),
                1e6 * fmin(cpu_gemm_trial_seconds(trial, false, CPU_BLAS_OPENBLAS),
                           cpu_gemm_trial_seconds(trial, false, CPU_BLAS_TILES)),
                1e6 * cpu_gemm_trial_seconds(trial, false, CPU_BLAS_ONEDNN));
}
