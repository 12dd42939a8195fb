/* Which products of half types are computed by instructions of their own (half_routes.def). */
#ifndef TERN_BACKEND_CPU_HALF_H
#define TERN_BACKEND_CPU_HALF_H

#include <stdbool.h>
#include <stdint.h>

/* Is C [m, n] = A [m, k] B [k, n] of this half type computed natively? As the table says for this CPU;
 * TERN_CPU_HALF=f32 never, TERN_CPU_HALF=native wherever the CPU has the instructions. */
bool cpu_half_native(int dtype, int64_t m, int64_t n, int64_t k);
/* Counts products and convolutions for tern_cpu_half. */
void cpu_half_count(bool native, int64_t products);

/* What the CPU is, for the table and tests: its name as the table has it, "OTHER" for others. */
const char *cpu_half_kind(uint32_t family, uint32_t model, bool amd);

#endif
