/* Blocks of batch_norm, forward and gradient; backend_cpu/batch_norm.c cuts tensors into them. */
#include "backend_cpu/isa/lanes.h"
#include "backend_cpu/rows.h"

enum { ROW_STEP = 8 };

#define KIND_FILE "backend_cpu/isa/batch_norm.inc"
#include "backend_cpu/isa/kinds.inc"

#define TWO_RESULTS(name)                                                                 \
    void CPU_ISA_NAME(cpu_##name)(const cpu_norm_block *block, void *first, void *second) \
    {                                                                                     \
        KIND_CALL(block->dtype, name, block, first, second);                              \
    }
#define NO_RESULT(name)                                        \
    void CPU_ISA_NAME(cpu_##name)(const cpu_norm_block *block) \
    {                                                          \
        KIND_CALL(block->dtype, name, block);                  \
    }
TWO_RESULTS(planes_moments)
TWO_RESULTS(planes_sums)
TWO_RESULTS(columns_moments)
TWO_RESULTS(columns_sums)
NO_RESULT(planes_apply)
NO_RESULT(planes_grad)
NO_RESULT(columns_apply)
NO_RESULT(columns_grad)
