/* Which work is ordered after which: vector clocks, compared when work is asked for, so that finding
 * a missing wait needs no bad luck. One clock stands for all host threads: it may miss a race
 * between them, and never makes one up. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend_cuda/sim/sim.h"

enum { SEGMENT_BYTES = 2 << 20 };

typedef struct mark {
    uint32_t seq; /* 0: none */
    const char *what;
    const struct CUstream_st *stream;
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

/* Names of ops for the newest work of each stream: a launch is named after it was asked for. */
enum { NAMED = 32 };
static struct {
    _Atomic uint32_t seq;
    _Atomic(const char *) name;
} named[SIM_CLOCKS][NAMED];
static _Thread_local int asked_slot = -1;
static _Thread_local uint32_t asked_seq;

void sim_order_name(const char *name)
{
    if (asked_slot < 0)
        return;
    atomic_store(&named[asked_slot][asked_seq % NAMED].name, name);
    atomic_store(&named[asked_slot][asked_seq % NAMED].seq, asked_seq);
}

/* "'k_fill' (fill) on stream #1" */
static void say_work(const mark *m, int slot, char *text, size_t size)
{
    char stream[64];
    const char *name = atomic_load(&named[slot][m->seq % NAMED].name);
    const bool is_named = name != NULL && atomic_load(&named[slot][m->seq % NAMED].seq) == m->seq;
    sim_describe_stream(m->stream, stream, sizeof stream);
    (void)snprintf(text, size, "'%s'%s%s%s on %s", m->what, is_named ? " (" : "",
                   is_named ? name : "", is_named ? ")" : "", stream);
}

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

/* A spot has 1.5 KB, and a segment thousands: the room doubles when it is full. */
static bool has_room(sim_allocation *x)
{
    const int count = x->spot_count;
    if ((count & (count - 1)) != 0)
        return true;
    sim_spot *more = realloc(x->spots, (size_t)(count == 0 ? 1 : 2 * count) * sizeof *more);
    if (more != NULL)
        x->spots = more;
    return more != NULL;
}

static sim_spot *spot_of(sim_allocation *x, const char *view)
{
    const char *key = x->bytes < SEGMENT_BYTES ? x->view : view;
    for (int i = 0; i < x->spot_count; i++)
        if (x->spots[i].view == key)
            return &x->spots[i];
    if (!has_room(x))
        return NULL;
    sim_spot *fresh = &x->spots[x->spot_count++];
    memset(fresh, 0, sizeof *fresh);
    fresh->view = key;
    return fresh;
}

/* An access to `view` that nothing orders after `other`. */
static bool race(const sim_op *op, const sim_allocation *x, const void *view, bool writes,
                 const mark *other, bool other_wrote, int slot)
{
    char text[400], work[200], earlier[200];
    const bool known = sim_describe(x, view, text, sizeof text);
    const mark now = { op->clock[op->stream->slot], op->what, op->stream };
    say_work(&now, op->stream->slot, work, sizeof work);
    say_work(other, slot, earlier, sizeof earlier);
    sim_report(cudaErrorUnknown,
               "stream race (%s after %s) on %s: %s is not ordered after %s: a "
               "cudaStreamWaitEvent is missing%s",
               writes ? "write" : "read", other_wrote ? "write" : "read", text, work, earlier,
               known ? " (tern_stream_wait_stream, or an event)" : "");
    return false;
}

bool sim_order_access(const sim_op *op, sim_allocation *x, const void *view, bool writes)
{
    const int slot = op->stream->slot;
    sim_spot *spot = sim_config.races && slot >= 0 && !x->mapped ? spot_of(x, view) : NULL;
    if (spot == NULL)
        return true;
    if (op->clock[spot->write_slot] < spot->write.seq)
        return race(op, x, view, writes, &spot->write, true, spot->write_slot);
    for (int i = 0; writes && i < SIM_CLOCKS; i++)
        if (op->clock[i] < spot->read[i].seq)
            return race(op, x, view, writes, &spot->read[i], false, i);
    const mark now = { op->clock[slot], op->what, op->stream };
    asked_slot = slot;
    asked_seq = now.seq;
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
    memset(named, 0, sizeof named);
}
