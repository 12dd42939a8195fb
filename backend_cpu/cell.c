/* lstm_cell, gru_cell and their gradients: one pass over [N, k H] operands without gaps, a part of which
 * is one gate of a row. Half types are computed in f32, a block at a time. Elements are independent, so threads do
 * not change bits. */
#include "backend_cpu/cell.h"

#include "backend_cpu/kernels.h"

/* A gate: which operand, and the how many-th H of its rows. */
typedef struct part {
    uint8_t operand, gate;
} part;

typedef struct cell {
    int n_in, n_out;
    part in[CPU_CELL_MOST_IN], out[CPU_CELL_MOST_OUT];
} cell;

static const cell cells[CPU_CELLS] = {
    [CPU_CELL_LSTM] = { 9,
                        6,
                        { { 0, 0 },
                          { 0, 1 },
                          { 0, 2 },
                          { 0, 3 },
                          { 1, 0 },
                          { 1, 1 },
                          { 1, 2 },
                          { 1, 3 },
                          { 2, 0 } },
                        { { 0, 0 }, { 0, 1 }, { 0, 2 }, { 0, 3 }, { 3, 0 }, { 4, 0 } } },
    [CPU_CELL_LSTM_GRAD] = { 8,
                             5,
                             { { 0, 0 },
                               { 0, 1 },
                               { 0, 2 },
                               { 0, 3 },
                               { 1, 0 },
                               { 2, 0 },
                               { 3, 0 },
                               { 4, 0 } },
                             { { 5, 0 }, { 5, 1 }, { 5, 2 }, { 5, 3 }, { 4, 0 } } },
    [CPU_CELL_GRU] = { 7,
                       5,
                       { { 0, 0 }, { 0, 1 }, { 0, 2 }, { 1, 0 }, { 1, 1 }, { 1, 2 }, { 2, 0 } },
                       { { 3, 0 }, { 3, 1 }, { 3, 2 }, { 3, 3 }, { 4, 0 } } },
    [CPU_CELL_GRU_GRAD] = { 6,
                            7,
                            { { 0, 0 }, { 0, 1 }, { 0, 2 }, { 0, 3 }, { 1, 0 }, { 2, 0 } },
                            { { 3, 0 },
                              { 3, 1 },
                              { 3, 2 },
                              { 4, 0 },
                              { 4, 1 },
                              { 4, 2 },
                              { 2, 0 } } },
};

typedef struct job {
    const cell *cell;
    cpu_cell_fn run;
    const tern_call *call;
    int64_t hidden, size;         /* H, bytes of an element */
    cpu_convert_fn widen, narrow; /* half types */
} job;

static char *place(const job *j, part p, int64_t row, int64_t first)
{
    const tern_view *v = j->call->in[p.operand];
    return (char *)v->data + (row * v->shape[1] + p.gate * j->hidden + first) * j->size;
}

/* At most CPU_BLOCK elements of half types. */
static void run_wide(const job *j, int64_t row, int64_t first, int64_t n)
{
    _Alignas(64) float in_block[CPU_CELL_MOST_IN][CPU_BLOCK];
    _Alignas(64) float out_block[CPU_CELL_MOST_OUT][CPU_BLOCK];
    const void *in[CPU_CELL_MOST_IN];
    void *out[CPU_CELL_MOST_OUT];
    for (int k = 0; k < j->cell->n_in; k++) {
        j->widen(in_block[k], place(j, j->cell->in[k], row, first), n);
        in[k] = in_block[k];
    }
    for (int k = 0; k < j->cell->n_out; k++)
        out[k] = out_block[k];
    j->run(in, out, n);
    for (int k = 0; k < j->cell->n_out; k++)
        j->narrow(place(j, j->cell->out[k], row, first), out_block[k], n);
}

static void run_row(const job *j, int64_t row)
{
    const void *in[CPU_CELL_MOST_IN];
    void *out[CPU_CELL_MOST_OUT];
    for (int k = 0; k < j->cell->n_in; k++)
        in[k] = place(j, j->cell->in[k], row, 0);
    for (int k = 0; k < j->cell->n_out; k++)
        out[k] = place(j, j->cell->out[k], row, 0);
    j->run(in, out, j->hidden);
}

static void run_rows(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    for (int64_t row = begin; row < end; row++) {
        for (int64_t first = 0; j->widen != NULL && first < j->hidden; first += CPU_BLOCK)
            run_wide(j, row, first, j->hidden - first < CPU_BLOCK ? j->hidden - first : CPU_BLOCK);
        if (j->widen == NULL)
            run_row(j, row);
    }
}

/* The narrowest operand, which is [N, H], is `plain`. */
static tern_status_t run(const tern_call *call, int which, int plain)
{
    enum { FLOPS = 60 };
    const tern_view *v = call->in[plain];
    const bool half = v->dtype == TERN_F16 || v->dtype == TERN_BF16;
    job j = {
        .cell = &cells[which], .call = call, .hidden = v->shape[1], .size = cpu_dtype_size(v->dtype)
    };
    if (v->numel == 0)
        return TERN_OK;
    j.run = v->dtype == TERN_F64 ? CPU_ISA_PICK(cpu_cells_f64)[which]
                                 : CPU_ISA_PICK(cpu_cells_f32)[which];
    j.widen = half ? cpu_converter(TERN_F32, v->dtype) : NULL;
    j.narrow = half ? cpu_converter(v->dtype, TERN_F32) : NULL;
    const int parts = j.cell->n_in + j.cell->n_out;
    const int threads = cpu_threads(call, v->numel * j.size * parts, v->numel * FLOPS);
    cpu_parallel(threads, v->shape[0], 1, run_rows, &j);
    return TERN_OK;
}

tern_status_t cpu_lstm_cell(const tern_call *call)
{
    return run(call, CPU_CELL_LSTM, 2);
}

tern_status_t cpu_lstm_cell_grad(const tern_call *call)
{
    return run(call, CPU_CELL_LSTM_GRAD, 1);
}

tern_status_t cpu_gru_cell(const tern_call *call)
{
    return run(call, CPU_CELL_GRU, 2);
}

tern_status_t cpu_gru_cell_grad(const tern_call *call)
{
    return run(call, CPU_CELL_GRU_GRAD, 1);
}
