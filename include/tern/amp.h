/* Mixed precision: autocast regions and the gradient scaler. docs/guide/mixed-precision.md shows loops.
 *
 *     {
 *         TERN_AUTOCAST(dev, TERN_BF16);
 *         loss = tern_cross_entropy(tern_forward(net, x), y);
 *     }
 *     tern_backward(loss);
 *
 * "With a warning" below means in the log, which goes nowhere until TERN_LOG_FILE=/dev/stderr or a callback says
 * where (tern/error.h). */
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
 * in a region or not. Casts of parameters are kept until the thread's outermost region ends, one for each stream.
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

/* An error for a device that is not given, of a kind that this process does not have, or that does not
 * compute in the region's dtype (tern_bf16_supported). */
TERN_API tern_autocast_region tern_autocast_begin_at(tern_site_t site,
                                                     const tern_autocast_args *args);
#define tern_autocast_begin(...) \
    tern_autocast_begin_at(TERN_HERE, TERN_OPTIONS_(tern_autocast_args, __VA_ARGS__))
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
/* Lets go of cached casts now. A parameter that was changed in place, or replaced
 * (tern_tensor_replace), is cast anew by itself; memory that was cast is kept until then. */
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

/* ---- the gradient scaler -------------------------------------------------------------------------
 * Small gradients are zero in f16. The scaler multiplies the loss, so that they are not, divides the
 * gradients again before the step, leaves a step out when one is not finite, and then goes on with a
 * smaller factor. bf16 has the range of f32 and needs no scaler.
 *
 *     tern_backward(tern_scaler_scale(scaler, loss));
 *     tern_scaler_step(scaler, opt);
 *     tern_scaler_update(scaler);
 *
 * Scale, counter and flags lie where the first loss does, and the optimizer's step finds them there: the
 * host reads them only in get_scale, store, skipped and what tells what the scaler did. Losses or gradients on the
 * CPU beside others on a device make it wait where a number comes from there: a copy of a few bytes for each step.
 * torch.amp.GradScaler with fused optimizers, rows A041-A082. */

typedef struct tern_grad_scaler tern_grad_scaler;

typedef struct tern_grad_scaler_args {
    size_t size_;
    tern_dev_t device;     /* a CUDA device where there is none: disabled, with a warning */
    double init_scale;     /* default 65536 */
    double growth_factor;  /* default 2; above 1 */
    double backoff_factor; /* default 0.5; below 1; TERN_ZERO for 0 */
    int64_t
        growth_interval; /* default 2000: updates in a row without overflow, then the scale grows */
    bool disabled;       /* scale returns its argument, step steps, everything else does nothing */
} tern_grad_scaler_args;

/* Freed in tern_finish, or before by tern_grad_scaler_free. NULL on failure. */
TERN_API tern_grad_scaler *tern_grad_scaler_create_at(tern_site_t site,
                                                      const tern_grad_scaler_args *args);
#define tern_grad_scaler_create(...) \
    tern_grad_scaler_create_at(TERN_HERE, TERN_OPTIONS_(tern_grad_scaler_args, __VA_ARGS__))
TERN_API void tern_grad_scaler_free(tern_grad_scaler *scaler); /* NULL is fine */
TERN_API bool tern_scaler_enabled(const tern_grad_scaler *scaler);

/* loss * scale, recorded. A 0-dim f16 loss becomes f32, one with dimensions stays f16. */
TERN_API tern_tensor *tern_scaler_scale_at(tern_site_t site, tern_grad_scaler *scaler,
                                           tern_tensor *loss);
/* The same of each, into out_scaled, which may be the array of losses: then those that could not be scaled stay. */
TERN_API tern_status_t tern_scaler_scale_all_at(tern_site_t site, tern_grad_scaler *scaler,
                                                tern_tensors_t losses, tern_tensor **out_scaled);
/* Divides the gradients of an optimizer's parameters by the scale, in place, and checks them; for what
 * looks at gradients before the step (clipping). Once per update and optimizer, before its step. An
 * error for f16 gradients, before anything is written. */
TERN_API tern_status_t tern_scaler_unscale_at(tern_site_t site, tern_grad_scaler *scaler,
                                              tern_optimizer *opt);
/* Unscales, unless that was done, and steps, unless a gradient was not finite; then gradients stay as
 * they are. f16 gradients are fine here. Once per update and optimizer. An error when no parameter has a
 * gradient. */
TERN_API tern_status_t tern_scaler_step_at(tern_site_t site, tern_grad_scaler *scaler,
                                           tern_optimizer *opt);
/* Did the step of opt since the last update leave it as it was? Reads that, which waits for the device. */
TERN_API bool tern_scaler_skipped(const tern_grad_scaler *scaler, const tern_optimizer *opt);

typedef struct tern_scaler_update_args {
    size_t size_;
    tern_grad_scaler *scaler;
    double new_scale; /* the scale from now on, whatever was found; TERN_ZERO for 0 */
    tern_tensor
        *new_scale_tensor; /* instead of it, a tensor, copied: f32, one element, no gradient */
} tern_scaler_update_args;
/* At the end of an iteration, once for all optimizers: the scale backs off when any of them found
 * something, and grows after growth_interval updates without. With a new scale also after an error in
 * the middle of an iteration, to begin anew. */
TERN_API tern_status_t tern_scaler_update_at(tern_site_t site, const tern_scaler_update_args *args);
#define tern_scaler_scale(scaler, loss) tern_scaler_scale_at(TERN_HERE, scaler, loss)
#define tern_scaler_scale_all(scaler, losses, out_scaled) \
    tern_scaler_scale_all_at(TERN_HERE, scaler, losses, out_scaled)
#define tern_scaler_unscale(scaler, opt) tern_scaler_unscale_at(TERN_HERE, scaler, opt)
#define tern_scaler_step(scaler, opt) tern_scaler_step_at(TERN_HERE, scaler, opt)
#define tern_scaler_update(...) \
    tern_scaler_update_at(TERN_HERE, TERN_OPTIONS_(tern_scaler_update_args, __VA_ARGS__))

/* 1 when disabled, init_scale before the first loss; else read, which waits for the device. */
TERN_API double tern_scaler_get_scale_at(tern_site_t site, tern_grad_scaler *scaler);
#define tern_scaler_get_scale(scaler) tern_scaler_get_scale_at(TERN_HERE, scaler)
/* Set without a check, as in PyTorch; they count from the next update on. */
TERN_API double tern_scaler_growth_factor(const tern_grad_scaler *scaler);
TERN_API double tern_scaler_backoff_factor(const tern_grad_scaler *scaler);
TERN_API int64_t tern_scaler_growth_interval(const tern_grad_scaler *scaler);
TERN_API void tern_scaler_set_growth_factor(tern_grad_scaler *scaler, double factor);
TERN_API void tern_scaler_set_backoff_factor(tern_grad_scaler *scaler, double factor);
TERN_API void tern_scaler_set_growth_interval(tern_grad_scaler *scaler, int64_t interval);

/* "<prefix>.scale", ".growth_factor", ".backoff_factor", ".growth_interval", "._growth_tracker"; nothing
 * when disabled. After update. Restoring a disabled scaler does nothing; an enabled one needs all. */
TERN_API tern_status_t tern_scaler_store_at(tern_site_t site, tern_grad_scaler *scaler,
                                            tern_state *state, const char *prefix);
TERN_API tern_status_t tern_scaler_restore_at(tern_site_t site, tern_grad_scaler *scaler,
                                              const tern_state *state, const char *prefix,
                                              bool check_only);
#define tern_scaler_store(scaler, state, prefix) \
    tern_scaler_store_at(TERN_HERE, scaler, state, prefix)
#define tern_scaler_restore(scaler, state, prefix) \
    tern_scaler_restore_at(TERN_HERE, scaler, state, prefix, false)

/* ---- what the scaler did: read when it is asked for, which waits for the device ------------------- */

enum { TERN_SCALER_NAME_BYTES = 96, TERN_SCALER_EVENTS = 128 };

typedef struct tern_scaler_event {
    int64_t update;                         /* counts from 1 */
    double scale;                           /* after it */
    int64_t skipped;                        /* optimizers that were left as they were */
    char parameter[TERN_SCALER_NAME_BYTES]; /* the first whose gradient was not finite, else "" */
} tern_scaler_event;

/* Updates and skipped steps so far. These and those below take NULL for one that did nothing. */
TERN_API int64_t tern_scaler_update_count(const tern_grad_scaler *scaler);
TERN_API int64_t tern_scaler_skip_count(const tern_grad_scaler *scaler);
/* The name of the first parameter whose gradient made the last skipped step be skipped; NULL: none, or
 * there was no memory for names. Lives as long as the scaler. */
TERN_API const char *tern_scaler_overflowed(const tern_grad_scaler *scaler);
/* The last `count` updates at most, oldest first; returns how many. The last TERN_SCALER_EVENTS are
 * kept. */
TERN_API int64_t tern_scaler_history(const tern_grad_scaler *scaler, tern_scaler_event *out_events,
                                     int64_t count);

#ifdef __cplusplus
}
#endif
#endif
