/* When a team is not worth starting because other processes want its cores.
 *
 * A fork-join waits for its slowest thread. If another process computes on the core of one, that
 * thread may not run for a whole time slice (some milliseconds) while the others wait, and two
 * threads become several times slower than one; spinning waits make it worse, for a waiting thread
 * may hold the core that the other one needs. So a team is watched: when it took far longer than
 * one of its threads was at work, that thread waited, and the caller goes on without a team for a
 * while, longer each time that the next attempt fails as well. Results do not depend on it: what
 * runs, and in which pieces, is decided before. */
#ifndef TERN_BACKEND_CPU_CROWD_H
#define TERN_BACKEND_CPU_CROWD_H

#include <stdbool.h>
#include <stdint.h>

/* One per calling thread; zero at first. Times are nanoseconds of a clock that never goes back. */
typedef struct cpu_crowd {
    int64_t alone_until;
    int64_t pause; /* of the last failure, 0: none yet */
} cpu_crowd;

/* May this thread start a team now? */
bool cpu_crowd_free(const cpu_crowd *crowd, int64_t now);
/* A team worked from `begin` to `end`, the thread with the least to do for `shortest`. */
void cpu_crowd_note(cpu_crowd *crowd, int64_t begin, int64_t end, int64_t shortest);

int64_t cpu_crowd_clock(void);
/* The calling thread's own. */
cpu_crowd *cpu_crowd_here(void);

#endif
