/* Elementwise ops, made of backend_cpu/elementwise.def like the CPU's. C and C++. */
#ifndef TERN_BACKEND_CUDA_ELEMENTWISE_H
#define TERN_BACKEND_CUDA_ELEMENTWISE_H

#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "backend_cuda/walk.h"
#include "tern/op_attr.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A 0-dim operand of the host, read when the op is called. Its dtype may be another than the
 * tensors': a number beside a half type keeps the precision that is computed in. */
typedef struct cuda_number {
    bool given;
    bool whole; /* i holds it, else f */
    double f;
    int64_t i;
} cuda_number;
cuda_number cuda_number_of(const tern_view *view);

/* One launch; in[k] is NULL where number[k] is given. */
typedef struct cuda_elements {
    void *out;
    const void *in[3];
    cuda_number number[3];
    tern_attr_numbers attr; /* p and q, where the op has them */
    const cuda_walk *walk;
    bool linear; /* all lie alike without gaps: the walk's strides are not needed */
    int singles; /* then bit k: but of in[k] (k < 2) one element serves all */
    int dtype;   /* of the inputs */
} cuda_elements;

#define ELEMENT(name, shape, kinds, real, integer) \
    cudaError_t cuda_launch_##name(const cuda_elements *e, cudaStream_t stream);
#include "backend_cpu/elementwise.def"
#undef ELEMENT

/* out = condition ? a : b; operands: condition, a, b. */
typedef struct cuda_where_args {
    void *out;
    const void *in[3];
    cuda_number number[3];
    const cuda_walk *walk;
    bool linear; /* as above */
    int dtype;   /* of a, b and out */
} cuda_where_args;
cudaError_t cuda_launch_where(const cuda_where_args *w, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
