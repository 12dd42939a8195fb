/* Between cpu_converter, copies and their inner loops (isa/convert.c, isa/stream.c). */
#ifndef TERN_BACKEND_CPU_CONVERT_H
#define TERN_BACKEND_CPU_CONVERT_H

#include "backend_cpu/cpu.h"

/* [TERN_DTYPES * from + to] */
CPU_ISA_DECLARE_TABLE(const cpu_convert_fn, cpu_converters, TERN_DTYPES *TERN_DTYPES);

/* memcpy past the caches (plain memcpy where there are no such stores). Writes of a range become
 * visible to other threads after cpu_stream_end. */
CPU_ISA_DECLARE(void, cpu_stream_copy, void *out, const void *in, int64_t bytes);
void cpu_stream_end(void);

/* Ops that read and write this many bytes in all write past the caches: ordinary stores first read
 * each line, and the output would push out all else. Below, the next op finds it in the last level
 * cache. Measured on an AMD with 32 MB of that (a copy gains from 32 MB on, loses below: 88 against
 * 128 GB/s at 16 MB) and an Intel with 260 MB (gains from 32 MB on, too). */
enum { CPU_STREAM_BYTES = 32 << 20 };
/* A fill reads nothing that it could push out, and gains later. */
enum { CPU_STREAM_FILL_BYTES = 64 << 20 };

/* Sets n elements of `size` (1, 2, 4, 8) bytes to the one at `value`; value may lie in out. */
void cpu_set(void *out, const void *value, int64_t size, int64_t n);
CPU_ISA_DECLARE(void, cpu_set_loop, void *out, const void *value, int64_t size, int64_t n);

#endif
