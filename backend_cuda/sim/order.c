/* Which work is ordered after which: vector clocks, compared when work is asked for, so that finding
 * a missing wait needs no bad luck. One clock stands for all host threads: it may miss a race
 * between them, and never makes one up. */
#include <stdlib.h>
#include <string.h>

#include "backend_cuda/sim/sim.h"

enum { SEGMENT_BYTES = 2 << 20 };

typedef struct mark {
    uint32_t seq; /* 0: none */
    const char *what;
} mark;

/* Accesses to what begins at one address. */
typedef struct sim_spot {
    const char *view;
    mark write;
    int write_slot;
    mark read[SIM_CLOCKS];
} sim_spot;

static uint32_t host[SIM_CLOCKS], newest[SIM_CLOCKS];
static bool taken[SIM_CLOCKS];

int sim_order_slot(void)
{
    for (int i = 0; i < SIM_CLOCKS; i++)
        if (!taken[i]) {
            taken[i] = true;
            return i;
        }
    return -1;
}

void sim_order_slot_free(int slot)
{
    if (slot >= 0)
        taken[slot] = false;
}

static void merge(uint32_t *clock, const uint32_t *other)
{
    for (int i = 0; i < SIM_CLOCKS; i++)
        if (other[i] > clock[i])
            clock[i] = other[i];
}

void sim_order_start(sim_op *op, const sim_op *previous)
{
    memcpy(op->clock, host, sizeof host);
    if (previous != NULL)
        merge(op->clock, previous->clock);
    const int slot = op->stream->slot;
    if (slot >= 0)
        op->clock[slot] = ++newest[slot];
}

void sim_order_after(sim_op *op, const sim_op *other)
{
    merge(op->clock, other->clock);
}

void sim_order_host_saw(const sim_op *op)
{
    merge(host, op->clock);
}

static sim_spot *spot_of(sim_allocation *x, const char *view)
{
    const char *key = x->bytes < SEGMENT_BYTES ? x->view : view;
    for (int i = 0; i < x->spot_count; i++)
        if (x->spots[i].view == key)
            return &x->spots[i];
    sim_spot *more = realloc(x->spots, (size_t)(x->spot_count + 1) * sizeof *more);
    if (more == NULL)
        return NULL;
    x->spots = more;
    sim_spot *fresh = &more[x->spot_count++];
    memset(fresh, 0, sizeof *fresh);
    fresh->view = key;
    return fresh;
}

/* An access to `view` that nothing orders after `other`. */
static bool race(const sim_op *op, const sim_allocation *x, const void *view, bool writes,
                 const mark *other, bool other_wrote, int slot)
{
    char text[400];
    const bool known = sim_describe(x, view, text, sizeof text);
    sim_report(cudaErrorUnknown,
               "stream race (%s after %s) on %s: '%s' on stream %d is not ordered after '%s' on "
               "stream %d: a cudaStreamWaitEvent is missing%s",
               writes ? "write" : "read", other_wrote ? "write" : "read", text, op->what,
               op->stream->slot, other->what, slot,
               known ? " (tern_stream_wait_stream, or an event)" : "");
    return false;
}

bool sim_order_access(const sim_op *op, sim_allocation *x, const void *view, bool writes)
{
    const int slot = op->stream->slot;
    sim_spot *spot = sim_config.races && slot >= 0 ? spot_of(x, view) : NULL;
    if (spot == NULL)
        return true;
    if (op->clock[spot->write_slot] < spot->write.seq)
        return race(op, x, view, writes, &spot->write, true, spot->write_slot);
    for (int i = 0; writes && i < SIM_CLOCKS; i++)
        if (op->clock[i] < spot->read[i].seq)
            return race(op, x, view, writes, &spot->read[i], false, i);
    const mark now = { op->clock[slot], op->what };
    if (!writes) {
        spot->read[slot] = now;
        return true;
    }
    spot->write = now;
    spot->write_slot = slot;
    return true;
}

void sim_order_forget(sim_allocation *x)
{
    free(x->spots);
    x->spots = NULL;
    x->spot_count = 0;
}

void sim_order_reset(void)
{
    memset(host, 0, sizeof host);
    memset(newest, 0, sizeof newest);
    memset(taken, 0, sizeof taken);
}
