/* Between the random kernels (random.c) and their inner loops (isa/random.c). docs/design/random.md
 * says which bits make which element. */
#ifndef TERN_BACKEND_CPU_RANDOM_H
#define TERN_BACKEND_CPU_RANDOM_H

#include "backend_cpu/cpu.h"

/* Loops work on whole groups of blocks. */
enum { CPU_RANDOM_BLOCKS = 16, CPU_RANDOM_GROUP = 4 * CPU_RANDOM_BLOCKS };

/* Writes `groups` groups of CPU_RANDOM_GROUP numbers, from element group * CPU_RANDOM_GROUP on. */
CPU_ISA_DECLARE(void, cpu_random_bits, uint32_t *out, uint64_t seed, uint64_t draw, int64_t group,
                int64_t groups);
CPU_ISA_DECLARE(void, cpu_random_uniforms, float *out, uint64_t seed, uint64_t draw, int64_t group,
                int64_t groups);
CPU_ISA_DECLARE(void, cpu_random_normals, float *out, uint64_t seed, uint64_t draw, int64_t group,
                int64_t groups);

#endif
