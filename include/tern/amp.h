/* Mixed precision: autocast regions and the gradient scaler. docs/guide/mixed-precision.md shows loops.
 *
 *     {
 *         TERN_AUTOCAST(dev, TERN_BF16);
 *         loss = tern_cross_entropy(tern_forward(net, x), y);
 *     }
 *     tern_backward(loss); */
#ifndef TERN_AMP_H
#define TERN_AMP_H

#include "tern/base.h"
#include "tern/optim.h"
#include "tern/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- autocast ----------------------------------------------------------------------------------
 * Inside a region ops on tensors of one kind of device cast their inputs as docs/ops.md says: matrix
 * products and convolutions to the region's dtype, what loses too much there to f32, the rest not at
 * all. Only f16, bf16 and f32 are cast; f64 and integers stay. In-place calls stay as they are.
 * Parameters keep their dtype and get gradients in it. Backward runs in the dtypes that forward chose,
 * in a region or not. Casts of parameters are kept until the thread's outermost region ends.
 * Regions are per thread and nest; those of different kinds of devices do not touch each other. */

enum { TERN_CACHE_ON = 1, TERN_CACHE_OFF = 2 };

typedef struct tern_autocast_args {
    size_t size_;
    tern_dev_t device; /* its kind counts. A CUDA device where there is none: off, with a warning */
    tern_dtype_t
        dtype;     /* TERN_F16 or TERN_BF16, others: off, with a warning. Default: the thread's */
    bool disabled; /* casts nothing until the region ends; what is low already stays low */
    int cache;     /* TERN_CACHE_ON, TERN_CACHE_OFF; default: as around the region */
} tern_autocast_args;

typedef struct tern_autocast_region { /* what the region's end puts back */
    int16_t kind_;                    /* TERN_KIND_NONE: nothing was begun */
    bool enabled_, cache_;
    tern_dtype_t dtype_;
} tern_autocast_region;

/* An error for a device that is not given or of a kind that this process does not have. */
TERN_API tern_autocast_region tern_autocast_begin_at(tern_site_t site,
                                                     const tern_autocast_args *args);
#define tern_autocast_begin(...) \
    tern_autocast_begin_at(      \
        TERN_HERE, &(tern_autocast_args){ .size_ = sizeof(tern_autocast_args), __VA_ARGS__ })
/* Ends a region, once; those inside it have to be ended first. */
TERN_API void tern_autocast_end(tern_autocast_region *region);
#if defined(__GNUC__)
/* To the end of the block: TERN_AUTOCAST(dev, TERN_F16); or TERN_AUTOCAST(dev, .disabled = true); */
#define TERN_AUTOCAST(...)                                   \
    tern_autocast_region TERN_JOIN(tern_autocast_, __LINE__) \
        __attribute__((cleanup(tern_autocast_end), unused)) = tern_autocast_begin(__VA_ARGS__)
#endif

/* Of the calling thread, for the device's kind. */
TERN_API bool tern_autocast_enabled(tern_dev_t dev);
/* What a region takes when it is given no dtype: bf16 on the CPU, f16 elsewhere, unless changed. */
TERN_API tern_dtype_t tern_autocast_dtype(tern_dev_t dev);
TERN_API tern_status_t tern_set_autocast_dtype_at(tern_site_t site, tern_dev_t dev,
                                                  tern_dtype_t dtype);
#define tern_set_autocast_dtype(dev, dtype) tern_set_autocast_dtype_at(TERN_HERE, dev, dtype)
TERN_API bool tern_autocast_cache_enabled(void);
/* Returns the previous setting; on when a thread starts. */
TERN_API bool tern_set_autocast_cache_enabled(bool on);
/* Lets go of cached casts now. A parameter that was changed in place is cast anew by itself. */
TERN_API void tern_autocast_clear_cache(void);

/* ---- what autocast did -------------------------------------------------------------------------- */

typedef struct tern_amp_counts {
    int64_t calls;      /* of ops in regions, views and in-place calls not among them */
    int64_t casts;      /* tensors that were converted */
    int64_t cast_bytes; /* read and written by them */
    int64_t cached;     /* casts that the cache saved */
} tern_amp_counts;

/* Of the calling thread since the last reset. */
TERN_API tern_amp_counts tern_amp_counted(void);
TERN_API void tern_amp_reset(void);
/* A table as text: per op and dtype how often, by which rule, casts and their bytes, saved casts, and
 * how the low dtypes are computed. NUL-terminated and cut to `bytes`; returns how long it is in whole
 * (as snprintf). */
TERN_API int64_t tern_amp_explain(char *out_text, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
