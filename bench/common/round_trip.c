#include "round_trip.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "bench.h"

enum { TRIPS = 1000, OVER = -1 };

static _Alignas(128) _Atomic int turn; /* whose it is */

static void *partner(void *unused)
{
    (void)unused;
    for (;;) {
        const int now = atomic_load(&turn);
        if (now == OVER)
            return NULL;
        if (now == 1)
            atomic_store(&turn, 0);
    }
}

static double seconds_per_trip(void)
{
    const double start = bench_now();
    for (int i = 0; i < TRIPS; i++) {
        atomic_store(&turn, 1);
        while (atomic_load(&turn) != 0)
            ;
    }
    return (bench_now() - start) / TRIPS;
}

double bench_round_trip(int rounds)
{
    pthread_t other;
    atomic_store(&turn, 0);
    if (pthread_create(&other, NULL, partner, NULL) != 0)
        return 0;
    double least = seconds_per_trip();
    for (int r = 1; r < rounds; r++) {
        const double trip = seconds_per_trip();
        least = trip < least ? trip : least;
    }
    atomic_store(&turn, OVER);
    (void)pthread_join(other, NULL);
    return least;
}
