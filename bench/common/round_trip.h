/* How far apart two cores are. A virtual machine's may share a last-level cache in one minute and not in the next
 * (docs/performance-ledger.md, "Zen 5: two cores near or far"): figures of two threads are compared where this is alike. */
#ifndef TERN_BENCH_ROUND_TRIP_H
#define TERN_BENCH_ROUND_TRIP_H

/* Seconds in which a line of memory goes to the core of another thread and comes back: the least mean of `rounds` times a
 * thousand, each some 0.1 to 0.4 ms. 0: there was no thread to be had. */
double bench_round_trip(int rounds);

#endif
