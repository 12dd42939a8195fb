/* The virtual clock: when each op would begin and end on the modelled machine. It orders and adds
 * up exactly and repeats to the digit; it is a model, and says nothing about a real GPU. */
#include "backend_cuda/sim/sim.h"

static double host_time;

static double later(double a, double b)
{
    return a > b ? a : b;
}

void sim_clock_place(sim_op *op, sim_engine engine, double seconds)
{
    sim_device *d = &sim_devices[op->stream->device];
    double *engines[] = { NULL, &d->copy_in_free, &d->copy_out_free, &d->compute_free };
    double begin = later(op->stream->time, host_time);
    if (op->wait != NULL)
        begin = later(begin, op->wait->end);
    /* kernels of different streams may overlap, copies of one direction may not */
    if (engine == SIM_ENGINE_IN || engine == SIM_ENGINE_OUT)
        begin = later(begin, *engines[engine]);
    op->begin = begin;
    op->end = begin + seconds;
    if (engine != SIM_ENGINE_NONE)
        *engines[engine] = later(*engines[engine], op->end);
    op->stream->time = op->end;
}

void sim_clock_host_waits(const sim_op *op)
{
    host_time = later(host_time, op->end);
}

void sim_clock_reset(void)
{
    host_time = 0;
}
