/* Runs the threads of a block as fibers of one host thread.
 *
 * A fiber takes one thread after the other as long as none of them waits, so that kernels without
 * barriers never switch. A thread that waits keeps its fiber, and another takes the next thread.
 * Whoever makes others ready is known at once: when nothing is ready and nothing is left to start,
 * the block is done or can never be. */
#include <stdio.h>
#include <string.h>

#include "backend_cuda/sim/sim.h"
#include "backend_cuda/sim/undefined.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;
_Thread_local unsigned char dyn_smem[SIM_DYNAMIC_SHARED] __attribute__((aligned(256)));
extern SIM_HIDDEN uint3 threadIdx, blockIdx;
extern SIM_HIDDEN dim3 blockDim, gridDim;

sim_counts sim_counters;

typedef enum lane_state { LANE_NEW, LANE_RUNS, LANE_BARRIER, LANE_WARP, LANE_DONE } lane_state;

/* One CUDA thread. */
typedef struct lane {
    lane_state state;
    sim_fiber *fiber;
    const sim_site *site;
    uint3 index;
    uint32_t mask;
    int kind, operand, width;
    uint64_t value, result;
} lane;

static struct {
    lane lanes[SIM_THREADS];
    int order[SIM_THREADS];
    int threads, next_new, alive, at_barrier, in_warp;
    int stopped[SIM_THREADS /
                32];        /* of each warp: lanes that wait for others of it, or have ended */
    int ready[SIM_THREADS]; /* a ring */
    int ready_first, ready_count;
    lane *current;
    sim_fiber host;
    sim_fiber *running;
    sim_fiber fibers[SIM_THREADS];
    int fibers_made;
    sim_fiber *idle[SIM_THREADS];
    int idle_count;
    const sim_grid *grid;
    cudaError_t failed;
    unsigned uses; /* of memory that nobody wrote, until the current thread was picked */
} b;

static _Thread_local bool inside; /* of this host thread: others may fault at the same time */

bool sim_in_kernel(void)
{
    return inside;
}

void sim_where(char *text, size_t size)
{
    const uint3 t = threadIdx;
    (void)snprintf(text, size, "thread (%u,%u,%u) of block (%u,%u,%u) in %s", t.x, t.y, t.z,
                   blockIdx.x, blockIdx.y, blockIdx.z, b.grid != NULL ? b.grid->name : "?");
}

/* The current thread stops running: did it use memory that nobody wrote? */
static void look_at_uses(void)
{
    if (sim_undefined_uses() == b.uses || b.failed != cudaSuccess)
        return;
    char where[160];
    sim_where(where, sizeof where);
    sim_report(cudaErrorLaunchFailure,
               "%s: a branch or an address depends on memory that nobody wrote (valgrind's report "
               "has the line)",
               where);
    sim_say("tern: %s depends on device memory that nobody wrote\n", where);
    b.failed = cudaErrorLaunchFailure;
}

/* ---- who runs next --------------------------------------------------------------------------- */

static void worker(void *user);

static void make_ready(lane *l)
{
    l->state = LANE_RUNS;
    b.ready[(b.ready_first + b.ready_count++) % SIM_THREADS] = (int)(l - b.lanes);
}

/* A fiber that takes new threads; NULL when there is no memory for one. */
static sim_fiber *free_fiber(void)
{
    if (b.idle_count > 0)
        return b.idle[--b.idle_count];
    if (b.fibers_made == SIM_THREADS)
        return NULL;
    sim_fiber *fiber = &b.fibers[b.fibers_made];
    if (fiber->stack == NULL && !sim_fiber_create(fiber))
        return NULL;
    b.fibers_made++;
    sim_fiber_prepare(fiber, worker, fiber);
    return fiber;
}

static sim_fiber *pick(void)
{
    if (b.failed != cudaSuccess)
        return &b.host;
    if (b.ready_count > 0) {
        lane *l = &b.lanes[b.ready[b.ready_first]];
        b.ready_first = (b.ready_first + 1) % SIM_THREADS;
        b.ready_count--;
        b.current = l;
        threadIdx = l->index;
        return l->fiber;
    }
    sim_fiber *fiber = b.next_new < b.threads ? free_fiber() : &b.host;
    if (fiber == NULL) {
        sim_report(cudaErrorLaunchFailure,
                   "the simulator has no memory for another thread's stack");
        b.failed = cudaErrorLaunchFailure;
        fiber = &b.host;
    }
    return fiber;
}

/* Lets others run until this fiber is picked again. */
static void leave(sim_fiber *from)
{
    sim_fiber *to = pick();
    if (to == from)
        return;
    sim_counters.suspensions++;
    b.running = to;
    sim_fiber_switch(from, to);
}

void sim_grid_fail(cudaError_t code)
{
    b.failed = code;
    for (;;) /* nobody comes back to this stack */
        leave(b.running);
}

/* ---- barriers -------------------------------------------------------------------------------- */

static int count_at(const sim_site *site)
{
    int n = 0;
    for (int t = 0; t < b.threads; t++)
        n += b.lanes[t].state == LANE_BARRIER && b.lanes[t].site == site;
    return n;
}

static void divergent_barrier(const lane *one, const lane *other)
{
    sim_report(cudaErrorLaunchFailure,
               "divergent __syncthreads in %s: %d threads wait at %s:%d, %d at %s:%d (block "
               "(%u,%u,%u))",
               b.grid->name, count_at(one->site), one->site->file, one->site->line,
               count_at(other->site), other->site->file, other->site->line, blockIdx.x, blockIdx.y,
               blockIdx.z);
    b.failed = cudaErrorLaunchFailure;
}

/* All threads that are left have come. */
static void release_barrier(void)
{
    const lane *first = NULL;
    for (int i = 0; i < b.threads; i++) {
        lane *l = &b.lanes[b.order[i]];
        if (l->state != LANE_BARRIER)
            continue;
        if (first == NULL)
            first = l;
        if (l->site != first->site) {
            divergent_barrier(first, l);
            return;
        }
    }
    for (int i = 0; i < b.threads; i++)
        if (b.lanes[b.order[i]].state == LANE_BARRIER)
            make_ready(&b.lanes[b.order[i]]);
    b.at_barrier = 0;
}

static void wait_as(lane_state state, const sim_site *site)
{
    look_at_uses();
    lane *l = b.current;
    l->state = state;
    l->site = site;
    l->fiber = b.running;
}

void sim_barrier(const sim_site *site)
{
    wait_as(LANE_BARRIER, site);
    if (++b.at_barrier == b.alive)
        release_barrier();
    leave(b.running);
}

/* ---- warps ----------------------------------------------------------------------------------- */

static bool waits_with(const lane *l, const lane *group)
{
    return l->state == LANE_WARP && l->mask == group->mask && l->kind == group->kind;
}

/* The lane that a shuffle reads, or its own where the source lies outside its part of the warp. */
static int source_of(const lane *l, int own)
{
    const int start = own & ~(l->width - 1);
    int source = own;
    if (l->kind == SIM_SHFL)
        source = start | (l->operand & (l->width - 1));
    else if (l->kind == SIM_SHFL_UP)
        source = own - l->operand;
    else if (l->kind == SIM_SHFL_DOWN)
        source = own + l->operand;
    else if (l->kind == SIM_SHFL_XOR)
        source = own ^ l->operand;
    return source < start || source >= start + l->width ? own : source;
}

static bool absent_source(const lane *l, int own, int source)
{
    sim_report(cudaErrorLaunchFailure,
               "shuffle in %s at %s:%d: lane %d reads lane %d, which does not take part (mask "
               "%08x): undefined on a GPU",
               b.grid->name, l->site->file, l->site->line, own, source, l->mask);
    b.failed = cudaErrorLaunchFailure;
    return false;
}

/* Results of a group whose lanes have all come. */
static bool finish_group(lane *warp, int lanes, const lane *group)
{
    uint32_t votes = 0, members = 0;
    for (int i = 0; i < lanes; i++)
        if (waits_with(&warp[i], group)) {
            members |= 1u << i;
            votes |= (warp[i].value != 0 ? 1u : 0u) << i;
        }
    for (int i = 0; i < lanes; i++) {
        lane *l = &warp[i];
        if (!(members >> i & 1u))
            continue;
        const int source = l->kind == SIM_SYNC ? i : source_of(l, i);
        if (l->kind >= SIM_SHFL && l->kind <= SIM_SHFL_XOR && !(members >> source & 1u))
            return absent_source(l, i, source);
        l->result = l->kind == SIM_BALLOT ? votes
                    : l->kind == SIM_ANY  ? votes != 0
                    : l->kind == SIM_ALL  ? votes == members
                                          : warp[source].value;
    }
    return true;
}

/* Lets a group of the warp go on if each lane of its mask has come or has ended. Each lane that comes
 * asks; the count spares all but the last a look at every other. */
static void try_group(lane *warp, int lanes, const lane *group)
{
    int *stopped = &b.stopped[(warp - b.lanes) / 32];
    if (*stopped < __builtin_popcount(group->mask & (uint32_t)(((uint64_t)1 << lanes) - 1)))
        return;
    for (int i = 0; i < lanes; i++)
        if ((group->mask >> i & 1u) && warp[i].state != LANE_DONE && !waits_with(&warp[i], group))
            return;
    if (!finish_group(warp, lanes, group))
        return;
    const lane members = *group;
    for (int i = 0; i < lanes; i++)
        if ((members.mask >> i & 1u) && waits_with(&warp[i], &members)) {
            b.in_warp--;
            (*stopped)--;
            make_ready(&warp[i]);
        }
}

static int lanes_of(int first)
{
    return b.threads - first < 32 ? b.threads - first : 32;
}

uint64_t sim_warp(const sim_site *site, int kind, uint32_t mask, uint64_t value, int operand,
                  int width)
{
    lane *l = b.current;
    const int own = (int)(l - b.lanes), first = own & ~31;
    if (!(mask >> (own - first) & 1u)) {
        char where[160];
        sim_where(where, sizeof where);
        sim_report(cudaErrorLaunchFailure, "%s:%d: %s is not in the mask %08x that it names",
                   site->file, site->line, where, mask);
        sim_grid_fail(cudaErrorLaunchFailure);
    }
    l->kind = kind;
    l->mask = mask;
    l->value = value;
    l->operand = operand;
    l->width = width;
    wait_as(LANE_WARP, site);
    b.in_warp++;
    b.stopped[first / 32]++;
    try_group(&b.lanes[first], lanes_of(first), l);
    leave(b.running);
    return l->result;
}

/* ---- threads --------------------------------------------------------------------------------- */

static void thread_ends(lane *l)
{
    look_at_uses();
    l->state = LANE_DONE;
    b.stopped[(l - b.lanes) / 32]++;
    b.alive--;
    if (b.at_barrier > 0 && b.at_barrier == b.alive)
        release_barrier();
    if (b.in_warp == 0)
        return;
    const int first = (int)(l - b.lanes) & ~31;
    for (int i = 0; i < lanes_of(first); i++)
        if (b.lanes[first + i].state == LANE_WARP)
            try_group(&b.lanes[first], lanes_of(first), &b.lanes[first + i]);
}

static void worker(void *user)
{
    sim_fiber *self = user;
    for (;;) {
        while (b.next_new < b.threads && b.failed == cudaSuccess) {
            lane *l = &b.lanes[b.order[b.next_new++]];
            b.current = l;
            l->state = LANE_RUNS;
            threadIdx = l->index;
            b.grid->run(b.grid->packed);
            thread_ends(b.current);
        }
        b.idle[b.idle_count++] = self;
        leave(self);
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void deadlock(void)
{
    char text[400];
    size_t used = 0;
    text[0] = '\0';
    for (int t = 0; t < b.threads; t++) {
        const lane *l = &b.lanes[t];
        bool seen = l->state == LANE_DONE;
        for (int s = 0; s < t && !seen; s++)
            seen = b.lanes[s].state == l->state && b.lanes[s].site == l->site;
        if (seen || used >= sizeof text)
            continue;
        int n = 0;
        for (int s = t; s < b.threads; s++)
            n += b.lanes[s].state == l->state && b.lanes[s].site == l->site;
        const int wrote = snprintf(text + used, sizeof text - used, "; %d in %s at %s:%d", n,
                                   l->state == LANE_BARRIER ? "__syncthreads" : "a warp operation",
                                   l->site->file, l->site->line);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    sim_report(cudaErrorLaunchFailure, "deadlock in %s, block (%u,%u,%u): %d of %d threads wait%s",
               b.grid->name, blockIdx.x, blockIdx.y, blockIdx.z, b.alive, b.threads, text);
    b.failed = cudaErrorLaunchFailure;
}

static void run_block(void)
{
    for (int t = 0; t < b.threads; t++)
        b.lanes[t].state = LANE_NEW;
    b.uses = sim_undefined_uses();
    b.next_new = b.at_barrier = b.in_warp = b.ready_count = 0;
    memset(b.stopped, 0, sizeof b.stopped);
    b.alive = b.threads;
    if (b.grid->dynamic_bytes > 0) {
        memset(dyn_smem, 0xFF, b.grid->dynamic_bytes); /* NaN: nobody wrote it */
        sim_undefined_mark(dyn_smem, b.grid->dynamic_bytes);
    }
    leave(&b.host);
    if (b.failed == cudaSuccess && b.alive > 0)
        deadlock();
}

static void set_lanes(const sim_grid *grid)
{
    const dim3 d = grid->block;
    b.threads = (int)(d.x * d.y * d.z);
    for (int t = 0; t < b.threads; t++) {
        const unsigned i = (unsigned)t;
        b.lanes[t].index = (uint3){ i % d.x, i / d.x % d.y, i / d.x / d.y };
        b.order[t] = sim_config.order == SIM_REVERSE ? b.threads - 1 - t : t;
    }
    if (sim_config.order != SIM_SHUFFLED)
        return;
    for (int t = b.threads - 1; t > 0; t--) {
        const int other = (int)(sim_random(&sim_config.order_seed) % (uint64_t)(t + 1));
        const int kept = b.order[t];
        b.order[t] = b.order[other];
        b.order[other] = kept;
    }
}

cudaError_t sim_grid_run(const sim_grid *grid)
{
    const uint64_t blocks = (uint64_t)grid->grid.x * grid->grid.y * grid->grid.z;
    b.grid = grid;
    b.failed = cudaSuccess;
    blockDim = grid->block;
    gridDim = grid->grid;
    set_lanes(grid);
    inside = true;
    for (uint64_t i = 0; i < blocks && b.failed == cudaSuccess; i++) {
        const uint64_t k = sim_config.order == SIM_REVERSE ? blocks - 1 - i : i;
        blockIdx =
            (uint3){ (unsigned)(k % grid->grid.x), (unsigned)(k / grid->grid.x % grid->grid.y),
                     (unsigned)(k / grid->grid.x / grid->grid.y) };
        run_block();
    }
    inside = false;
    b.grid = NULL;
    sim_counters.threads += (int64_t)blocks * b.threads;
    if (b.failed != cudaSuccess) /* stacks hold threads that never end */
        b.fibers_made = b.idle_count = 0;
    return b.failed;
}
