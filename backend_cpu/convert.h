/* Between cpu_converter, copies and their inner loops (isa/convert.c, isa/stream.c). */
#ifndef TERN_BACKEND_CPU_CONVERT_H
#define TERN_BACKEND_CPU_CONVERT_H

#include "backend_cpu/cpu.h"

/* [TERN_DTYPES * from + to] */
CPU_ISA_DECLARE_TABLE(const cpu_convert_fn, cpu_converters, TERN_DTYPES *TERN_DTYPES);

/* memcpy past the caches (plain memcpy where there are no such stores). Writes of a range become
 * visible to other threads after cpu_stream_end. Whether to: cpu_writes_past (caches.h). */
CPU_ISA_DECLARE(void, cpu_stream_copy, void *out, const void *in, int64_t bytes);
void cpu_stream_end(void);

/* Sets n elements of `size` (1, 2, 4, 8) bytes to the one at `value`; value may lie in out. */
void cpu_set(void *out, const void *value, int64_t size, int64_t n);
CPU_ISA_DECLARE(void, cpu_set_loop, void *out, const void *value, int64_t size, int64_t n);

/* n elements of `size` bytes (1, 2, 4, 8) that lie `step` bytes apart, any number; no overlap. */
CPU_ISA_DECLARE(void, cpu_take_loop, void *out, const void *in, int64_t step, int64_t size,
                int64_t n);

#endif
