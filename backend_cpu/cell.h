/* Between recurrent cells (cell.c) and their inner loops (isa/cell.c). */
#ifndef TERN_BACKEND_CPU_CELL_H
#define TERN_BACKEND_CPU_CELL_H

#include "backend_cpu/cpu.h"

enum { CPU_CELL_MOST_IN = 9, CPU_CELL_MOST_OUT = 7 };

/* n elements of each: in and out are the parts of cell.c's tables; an output may be an input's memory. */
typedef void (*cpu_cell_fn)(const void *const *in, void *const *out, int64_t n);

enum { CPU_CELL_LSTM, CPU_CELL_LSTM_GRAD, CPU_CELL_GRU, CPU_CELL_GRU_GRAD, CPU_CELLS };
CPU_ISA_DECLARE_TABLE(const cpu_cell_fn, cpu_cells_f32, CPU_CELLS);
CPU_ISA_DECLARE_TABLE(const cpu_cell_fn, cpu_cells_f64, CPU_CELLS);

#endif
