/* The gradient of one row of an embedding table: a sum of rows, held in registers. */
#include "backend_cpu/isa/lanes.h"
#include "backend_cpu/rows.h"

enum { ROW_TILE = 4 }; /* vectors */

#define KIND_FILE "backend_cpu/isa/embedding.inc"
#include "backend_cpu/isa/kinds.inc"

void CPU_ISA_NAME(cpu_rows_gather_sum)(int dtype, void *out, const void *table, int64_t n,
                                       const int64_t *rows, int64_t count)
{
    KIND_CALL(dtype, gather_sum, out, table, n, rows, count);
}
