/* Which products and convolutions of half types are computed by instructions of their own: a table of
 * measurements says so (half_routes.def), not an instruction's presence. */
#ifndef TERN_BACKEND_CPU_HALF_H
#define TERN_BACKEND_CPU_HALF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum cpu_half_way {
    CPU_HALF_F32,    /* f32 arithmetic on half storage, converted in blocks */
    CPU_HALF_OWN,    /* tern's kernels with AVX512-BF16 */
    CPU_HALF_LIBRARY /* oneDNN's, which take AMX and AVX512-FP16 by themselves */
} cpu_half_way;
enum { CPU_HALF_WAYS = 3 };

/* Classes of shapes; half_routes.def says which is which. */
typedef enum cpu_half_class {
    CPU_HALF_SMALL,
    CPU_HALF_FEW_ROWS,
    CPU_HALF_NARROW,
    CPU_HALF_WIDE,
    CPU_HALF_CONV,
    CPU_HALF_CONV_INPUT,
    CPU_HALF_CONV_WEIGHT
} cpu_half_class;
enum { CPU_HALF_CLASSES = 7 };

/* How C [m, n] = A [m, k] B [k, n] of this half type is computed, and a pass of a convolution: as the
 * table says for this CPU, or TERN_CPU_HALF=f32|native|library. A library that is not there or
 * refuses leaves its calls to f32 arithmetic. */
cpu_half_way cpu_half_product_way(int dtype, int64_t m, int64_t n, int64_t k);
cpu_half_way cpu_half_conv_way(int dtype, cpu_half_class pass);
/* Counts products and convolutions for tern_cpu_half. */
void cpu_half_count(cpu_half_way way, int64_t products);

/* ---- the table, for tests -------------------------------------------------------------------- */

enum { CPU_VENDOR_OTHER, CPU_VENDOR_AMD, CPU_VENDOR_INTEL };
/* What the CPU and the system have. */
enum {
    CPU_HAS_BF16 = 1, /* AVX512-BF16 */
    CPU_HAS_FP16 = 2, /* AVX512-FP16 */
    CPU_HAS_AMX = 4,  /* AMX-BF16 */
    CPU_HAS_AMX_FP16 = 8
};
typedef struct cpu_half_cpu {
    int vendor;
    int32_t family, model;
    unsigned features;
} cpu_half_cpu;
cpu_half_cpu cpu_half_this(void);
/* Its name in the table, NULL for a CPU without rows. */
const char *cpu_half_kind(const cpu_half_cpu *cpu);
cpu_half_way cpu_half_way_of(const cpu_half_cpu *cpu, const char *wanted, int dtype,
                             cpu_half_class class);
/* What tern_cpu_half says of it; `wanted` is TERN_CPU_HALF's value or NULL. */
void cpu_half_describe(const cpu_half_cpu *cpu, const char *wanted, char *text, size_t bytes);

#endif
