/* Kernels for the simulator's own tests, good ones and broken ones. Launchers return what the launch
 * returned; everything is f32 or int. */
#ifndef TESTS_SIM_KERNELS_H
#define TESTS_SIM_KERNELS_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* out[i] = a x[i] + out[i], grid-stride */
cudaError_t launch_axpy(float *out, const float *x, float a, int n, cudaStream_t stream);
/* out[block] = sum of its 256 elements: shuffles and static shared memory */
cudaError_t launch_block_sum(float *out, const float *x, int n, cudaStream_t stream);
/* the same as a tree in dynamic shared memory */
cudaError_t launch_tree_sum(float *out, const float *x, int n, cudaStream_t stream);
/* out[0] += number of threads, in as many blocks; what each warp votes on goes to out[1] */
cudaError_t launch_count(int *out, int blocks, int threads, cudaStream_t stream);
/* out[i] = table.rows[i][0]: pointers in an argument passed by value */
typedef struct kernel_rows {
    const float *rows[4];
} kernel_rows;
cudaError_t launch_rows(float *out, kernel_rows table, cudaStream_t stream);
/* out[i] = value for i < n: an argument whose first word is a number and what padding may hold */
typedef struct kernel_number {
    int n;
    unsigned beside;
    double value;
} kernel_number;
cudaError_t launch_number(float *out, kernel_number number, cudaStream_t stream);
/* *out = **slot: a pointer stored in device memory */
cudaError_t launch_indirect(float *out, float *const *slot, cudaStream_t stream);

typedef enum broken_kernel {
    BROKEN_DIVERGENT_BARRIER, /* half of the block waits elsewhere */
    BROKEN_ABSENT_LANE,       /* a shuffle from a lane that has ended */
    BROKEN_NOT_IN_MASK,       /* a lane that its own mask does not name */
    BROKEN_DEADLOCK,          /* lane 0 at a barrier, the others in a shuffle */
    BROKEN_PAST_END,          /* writes a page past the end */
    BROKEN_OFF_BY_ONE,        /* writes one element past the end */
    BROKEN_BEFORE,            /* writes the element before the first */
    BROKEN_NULL,
    BROKEN_MISALIGNED,      /* 16 bytes at once where 4 are aligned */
    BROKEN_MISSING_BARRIER, /* a tree sum without its barriers */
    BROKEN_DEEP             /* uses up its stack */
} broken_kernel;
cudaError_t launch_broken(broken_kernel which, float *out, int n, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
