/* Strided iteration, planned on the host, walked by kernels: the dimensions of one call, those that
 * can be one merged, for up to five operands. C and C++. */
#ifndef TERN_BACKEND_CUDA_WALK_H
#define TERN_BACKEND_CUDA_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "tern/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CUDA_WALK_OPERANDS = 5 };

/* A number that many threads divide by: dividends below 2^31 by a multiplication (Granlund and Montgomery 1994), which
 * is several times faster. */
typedef struct cuda_divisor {
    int64_t number;
    uint32_t magic; /* (high(n magic) + n) >> shift */
    int32_t shift;  /* below 0: there are larger dividends */
} cuda_divisor;
/* most: the largest dividend. */
cuda_divisor cuda_divisor_of(int64_t number, int64_t most);

/* Dimension 0 is the innermost. Fewer than 2^31 elements. */
typedef struct cuda_walk {
    uint32_t numel;
    int32_t ndim;
    uint32_t shape[TERN_MAX_DIMS];
    uint32_t magic[TERN_MAX_DIMS]; /* division by shape[d]: (high(n magic) + n) >> shift */
    uint32_t shift[TERN_MAX_DIMS];
    int64_t stride[TERN_MAX_DIMS][CUDA_WALK_OPERANDS]; /* in elements */
} cuda_walk;

/* One launch of a walk that may need several: where the operands begin. */
typedef struct cuda_walk_part {
    cuda_walk walk;
    int64_t offset[CUDA_WALK_OPERANDS]; /* in elements */
} cuda_walk_part;

/* Plans operands of one shape (views[0] is written); 0-dim operands of the host have stride 0.
 * Returns how many parts there are, which hold each element once; 0 when there are no elements. */
int64_t cuda_walk_parts(int operands, const tern_view *const *views);
/* Part `i` of the same. */
void cuda_walk_plan(int operands, const tern_view *const *views, int64_t i,
                    cuda_walk_part *out_part);

/* Whether one operand's elements, as a walk goes over them, are *out_stride apart: then no walk is needed, however
 * many there are. */
bool cuda_walk_is_line(const tern_view *view, int64_t *out_stride);

#ifdef __cplusplus
}
#endif
#endif
