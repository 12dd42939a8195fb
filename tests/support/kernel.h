/* Running one CPU kernel on hand-made views, without tensors, tape or dispatcher. */
#ifndef TESTS_SUPPORT_KERNEL_H
#define TESTS_SUPPORT_KERNEL_H

#include "backend_cpu/kernels.h"
#include "tern/tern.h"

/* A row-major array on the heap; `values` holds what it was filled with, as the dtype rounds it. */
typedef struct karray {
    tern_view view;
    double *values;
} karray;

/* Filled with uniforms of [low, high) from a generator seeded by `seed`. */
karray karray_random(tern_dtype_t dtype, int ndim, const int64_t *dims, double low, double high,
                     uint64_t seed);
karray karray_filled(tern_dtype_t dtype, int ndim, const int64_t *dims, double value);
void karray_free(karray *a);
void karray_set(karray *a, int64_t i, double value);
/* Element i as it is in memory now. */
double karray_at(const karray *a, int64_t i);
/* The same elements with 4-D strides in N, H, W, C order. */
void karray_to_channels_last(karray *a);
/* Where element i in row-major numbering lies, in elements. */
int64_t karray_place(const tern_view *view, int64_t i);
/* Element (n, c, s) of [N, C, ...] in row-major numbering, wherever it lies. */
double karray_at_place(const karray *a, int64_t i);
/* All of them, for what reads each often; to be freed. */
double *karray_in_order(const karray *a);

enum { KERNEL_MOST = 5 };
typedef struct kernel_run {
    tern_kernel kernel;
    const void *attr;
    int threads;                   /* 0: one */
    const karray *in[KERNEL_MOST]; /* NULL: not given */
    const karray *out[KERNEL_MOST];
    int n_in, n_out;
} kernel_run;
tern_status_t kernel_call(const kernel_run *run);
/* What the kernel said when it failed. */
const char *kernel_message(void);
/* The scratch that it asked for, of all its requests. */
int64_t kernel_scratch_bytes(void);

/* The TERN_NUMERICS_* bits that kernels see, none at first; returns those before. */
uint32_t kernel_set_numerics(uint32_t bits);
/* Lines that kernels have sent to the log so far. */
int kernel_events(void);

/* Calls `body(context)` once per tuning (backend_cpu/tuning.h), whatever CPU this is. */
void kernel_each_tuning(void (*body)(void *context), void *context);
/* Calls `body(context)` once per instruction set that this CPU has. */
void kernel_each_isa(void (*body)(void *context), void *context);

/* Fails the test unless |got - want| <= tolerance max(1, |want|); NaN wants NaN. `what` and i are
 * printed. */
void kernel_expect(const char *what, int64_t i, double got, double want, double tolerance);
/* A tolerance for a result stored in `dtype`: the given one, or what rounding to a half type
 * costs. */
double kernel_tolerance(tern_dtype_t dtype, double f32_tolerance);
/* What a product of few terms may be off by; none of integers. */
double kernel_product_limit(tern_dtype_t dtype);
/* Numbers for products, random: up to 1, of integers up to 3. */
karray kernel_operand(tern_dtype_t dtype, int ndim, const int64_t *dims, uint64_t seed);

#endif
