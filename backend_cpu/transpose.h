/* Transposing tiles in registers. */
#ifndef TERN_BACKEND_CPU_TRANSPOSE_H
#define TERN_BACKEND_CPU_TRANSPOSE_H

#include "backend_cpu/cpu.h"

/* Element j, i of out (rows of ni, `out_stride` bytes apart) = element i, j of in (rows of nj,
 * `in_stride` bytes apart). size: 1, 2, 4 or 8 bytes. No overlap. */
typedef void (*cpu_transpose_fn)(char *out, int64_t out_stride, const char *in, int64_t in_stride,
                                 int64_t ni, int64_t nj);
/* by log2 of the size */
CPU_ISA_DECLARE_TABLE(const cpu_transpose_fn, cpu_transposes, 4);

static inline void cpu_transpose(char *out, int64_t out_stride, const char *in, int64_t in_stride,
                                 int64_t ni, int64_t nj, int64_t size)
{
    CPU_ISA_PICK(cpu_transposes)
    [__builtin_ctzll((unsigned long long)size)](out, out_stride, in, in_stride, ni, nj);
}

#endif
