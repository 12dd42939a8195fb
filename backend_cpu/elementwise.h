/* Between the elementwise kernels (elementwise.c) and their inner loops (isa/elementwise_*.c). */
#ifndef TERN_BACKEND_CPU_ELEMENTWISE_H
#define TERN_BACKEND_CPU_ELEMENTWISE_H

#include "backend_cpu/cpu.h"

#define ELEMENT(name, ...) CPU_ELEMENT_##name,
typedef enum cpu_element {
#include "backend_cpu/elementwise.def"
    CPU_ELEMENT_COUNT
} cpu_element;
#undef ELEMENT

/* Operands without gaps; operand i is one element instead where bit i of `scalars` is set. `out`
 * may be exactly one of the operands but not overlap one otherwise (a scalar may lie anywhere in
 * it). PLAIN1, TEST and CURVE loops take scalars = 0 only. n > 0. Operands that the op has not are not
 * read. `numbers`: p and q in the type that is computed in; not read by an op without attributes. */
typedef void (*cpu_loop)(void *out, const void *a, const void *b, const void *c, int64_t n,
                         int scalars, const void *numbers);

/* Loops by element; NULL where the dtype is not the op's. bool uses bytes. */
CPU_ISA_DECLARE_TABLE(const cpu_loop, cpu_loops_f32, CPU_ELEMENT_COUNT);
CPU_ISA_DECLARE_TABLE(const cpu_loop, cpu_loops_f64, CPU_ELEMENT_COUNT);
CPU_ISA_DECLARE_TABLE(const cpu_loop, cpu_loops_bool_, CPU_ELEMENT_COUNT);
CPU_ISA_DECLARE_TABLE(const cpu_loop, cpu_loops_u8, CPU_ELEMENT_COUNT);
CPU_ISA_DECLARE_TABLE(const cpu_loop, cpu_loops_i8, CPU_ELEMENT_COUNT);
CPU_ISA_DECLARE_TABLE(const cpu_loop, cpu_loops_i16, CPU_ELEMENT_COUNT);
CPU_ISA_DECLARE_TABLE(const cpu_loop, cpu_loops_i32, CPU_ELEMENT_COUNT);
CPU_ISA_DECLARE_TABLE(const cpu_loop, cpu_loops_i64, CPU_ELEMENT_COUNT);

/* f32 loops of PLAIN and LANES1 ops that write past the caches (cpu_stream_end afterwards), NULL for
 * others; scalars as above. */
CPU_ISA_DECLARE_TABLE(const cpu_loop, cpu_streams_f32, CPU_ELEMENT_COUNT);

/* out = a (bool) ? b : c, by log2 of the element's bytes. Only b and c may be scalars. */
CPU_ISA_DECLARE_TABLE(const cpu_loop, cpu_loops_where, 4);

#endif
