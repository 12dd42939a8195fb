/* Tensors: making, looking at, moving, owning.
 *
 * A tensor is a view (shape, strides, offset, dtype) on a counted storage on one device. Ownership:
 * every tensor that a call returns belongs to the calling thread's innermost open scope and is
 * released when that scope ends; TERN_SCOPE; opens one to the end of the block. Its use afterwards is a mistake, which
 * TERN_CHECK_RELEASED=1 in the environment tells (docs/guide/memory.md). */
#ifndef TERN_TENSOR_H
#define TERN_TENSOR_H

#include "tern/base.h"
#include "tern/dtype_of.h"
#include "tern/operand.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tern_memory_format {
    TERN_FORMAT_PRESERVE = 0,
    TERN_FORMAT_CONTIGUOUS = 1, /* row-major; PyTorch's to() takes what is transposed for it, too */
    TERN_FORMAT_CHANNELS_LAST = 2 /* 4-D N,C,H,W whose strides run N,H,W,C */
} tern_memory_format_t;

/* ---- making ---------------------------------------------------------------------------------- */

typedef struct tern_new_args {
    size_t size_;
    tern_shape_t shape; /* required without `like` */
    tern_dtype_t dtype; /* default: the thread's default float; of randint and randperm i64 */
    tern_dev_t device;  /* default: the thread's default device */
    bool requires_grad; /* floats only */
    tern_memory_format_t format;
    struct tern_generator *generator; /* rand, randn, randperm: default the thread's */
    /* Its shape, dtype and device are the defaults; where neither shape nor format is given, results are
     * laid out as its clone would be. Only looked at: results are no part of its graph. */
    tern_tensor *like;
} tern_new_args;

/* Uninitialised memory (debug builds fill floats with NaN). */
TERN_API tern_tensor *tern_empty_at(tern_site_t site, const tern_new_args *args);
/* Filled with 0, with 1. */
TERN_API tern_tensor *tern_zeros_at(tern_site_t site, const tern_new_args *args);
TERN_API tern_tensor *tern_ones_at(tern_site_t site, const tern_new_args *args);
/* Uniform in [0, 1); floats only. */
TERN_API tern_tensor *tern_rand_at(tern_site_t site, const tern_new_args *args);
/* Normal with mean 0 and deviation 1; floats only. */
TERN_API tern_tensor *tern_randn_at(tern_site_t site, const tern_new_args *args);
#define tern_empty(...) tern_empty_at(TERN_HERE, TERN_OPTIONS_(tern_new_args, __VA_ARGS__))
#define tern_zeros(...) tern_zeros_at(TERN_HERE, TERN_OPTIONS_(tern_new_args, __VA_ARGS__))
#define tern_ones(...) tern_ones_at(TERN_HERE, TERN_OPTIONS_(tern_new_args, __VA_ARGS__))
#define tern_rand(...) tern_rand_at(TERN_HERE, TERN_OPTIONS_(tern_new_args, __VA_ARGS__))
#define tern_randn(...) tern_randn_at(TERN_HERE, TERN_OPTIONS_(tern_new_args, __VA_ARGS__))

/* Every element `value`, a number of any type (TERN_OPERAND); dtype default: the default float, also of whole
 * numbers, where PyTorch makes i64. An error for a value that no element of the dtype can be (300 in u8, NaN among
 * integers), as in PyTorch; 2.5 becomes 2 there, and -1 becomes 255 in u8. */
TERN_API tern_tensor *tern_full_at(tern_site_t site, tern_operand value, const tern_new_args *args);
#define tern_full(value, ...) \
    tern_full_at(TERN_HERE, TERN_OPERAND(value), TERN_OPTIONS_(tern_new_args, __VA_ARGS__))

typedef struct tern_range_args {
    size_t size_;
    double start, end, step; /* step default 1 */
    tern_dtype_t dtype; /* default i64 when all three are whole numbers, else the default float */
    tern_dev_t device;
} tern_range_args;
/* start, start + step, ... while below end (above, for a negative step). 1-D. An integer dtype cuts all three to
 * whole numbers first, where PyTorch counts with the fractions: -3 to 8.5 by 1.5 as i64 are 11 numbers, 8 there.
 * Start, end and step are doubles: beyond 2^53 an odd number is the even one beside it. */
TERN_API tern_tensor *tern_arange_at(tern_site_t site, const tern_range_args *args);
#define tern_arange(...) tern_arange_at(TERN_HERE, TERN_OPTIONS_(tern_range_args, __VA_ARGS__))

typedef struct tern_linspace_args {
    size_t size_;
    double start, end;
    int64_t steps;
    tern_dtype_t dtype; /* default: the default float */
    tern_dev_t device;
    bool requires_grad;
} tern_linspace_args;
/* `steps` values from start to end, both included, equally far apart; integers are cut towards zero. Both have to
 * be numbers for tern_full.
 * Products are rounded before they are added, on every device: linspace(-10, 10, 201) as i32 has -1 at 90, where
 * PyTorch has 0 on processors with FMA. 1-D. */
TERN_API tern_tensor *tern_linspace_at(tern_site_t site, const tern_linspace_args *args);
#define tern_linspace(...) \
    tern_linspace_at(TERN_HERE, TERN_OPTIONS_(tern_linspace_args, __VA_ARGS__))

typedef struct tern_eye_args {
    size_t size_;
    int64_t rows, columns; /* columns: as many as rows when not given; TERN_ZERO: 0 */
    tern_dtype_t dtype;    /* default: the default float */
    tern_dev_t device;
    bool requires_grad;
} tern_eye_args;
/* Ones on the main diagonal of a matrix of zeros. */
TERN_API tern_tensor *tern_eye_at(tern_site_t site, const tern_eye_args *args);
#define tern_eye(...) tern_eye_at(TERN_HERE, TERN_OPTIONS_(tern_eye_args, __VA_ARGS__))

/* Whole numbers from low to high - 1, each as likely as any other; i64 unless a dtype is given. */
TERN_API tern_tensor *tern_randint_at(tern_site_t site, int64_t low, int64_t high,
                                      const tern_new_args *args);
#define tern_randint(low, high, ...) \
    tern_randint_at(TERN_HERE, low, high, TERN_OPTIONS_(tern_new_args, __VA_ARGS__))

/* As another tensor is: tern_zeros_like(t) is tern_zeros(.like = t), and options behind t count before what t is:
 * tern_randn_like(t, .dtype = TERN_F32). Integers need a dtype for rand and randn. */
#define tern_empty_like(...) TERN_LIKE_(tern_empty, __VA_ARGS__, )
#define tern_zeros_like(...) TERN_LIKE_(tern_zeros, __VA_ARGS__, )
#define tern_ones_like(...) TERN_LIKE_(tern_ones, __VA_ARGS__, )
#define tern_rand_like(...) TERN_LIKE_(tern_rand, __VA_ARGS__, )
#define tern_randn_like(...) TERN_LIKE_(tern_randn, __VA_ARGS__, )
#define TERN_LIKE_(maker, t, ...) maker(TERN_AS_(t), __VA_ARGS__)
/* tern_full_like(t, value), tern_randint_like(t, low, high) */
#define tern_full_like(...) tern_full_like_(__VA_ARGS__, )
#define tern_full_like_(t, value, ...) tern_full(value, TERN_AS_(t), __VA_ARGS__)
#define tern_randint_like(...) tern_randint_like_(__VA_ARGS__, )
#define tern_randint_like_(t, low, high, ...) tern_randint(low, high, TERN_AS_(t), __VA_ARGS__)
#ifndef __cplusplus
#define TERN_AS_(t) .like = t
#else /* all in front of it is left open; nothing may follow */
#define TERN_AS_(t) {}, {}, {}, {}, {}, {}, t
#endif

/* 1 with the probability that p says, else 0, for each element of p: floats in [0, 1]. The gradient
 * is 0. generator: NULL is the thread's. */
struct tern_generator;
TERN_API tern_tensor *tern_bernoulli_at(tern_site_t site, tern_tensor *p,
                                        struct tern_generator *generator);
#define tern_bernoulli(p, generator) tern_bernoulli_at(TERN_HERE, p, generator)

/* A random order of 0 .. n-1, i64 unless a dtype is given, which has to hold each of them. */
TERN_API tern_tensor *tern_randperm_at(tern_site_t site, int64_t n, const tern_new_args *args);
#define tern_randperm(...) tern_randperm_(__VA_ARGS__, )
#define tern_randperm_(n, ...) \
    tern_randperm_at(TERN_HERE, n, TERN_OPTIONS_(tern_new_args, TERN_SHAPE(0), __VA_ARGS__))

/* Copies numel elements from `data`, row-major; bools are 0 or not 0. They are of the type that the pointer has: a
 * double[] makes an f64 tensor (TERN_DTYPE_OF). Nothing is converted: another .dtype is an error, but for arrays of
 * bytes, which may hold anything. A pointer whose type says no dtype (void, uint16_t) wants a .dtype or .like; an
 * error without. An array that is written on the spot wants parentheses around it, for its commas:
 * tern_from_data(((float[]){ 1, 2 }), TERN_SHAPE(2)). `of`: TERN_DTYPE_OF(data), TERN_DTYPE_NONE for bytes. */
TERN_API tern_tensor *tern_from_data_at(tern_site_t site, const void *data, tern_dtype_t of,
                                        const tern_new_args *args);
#define tern_from_data(data, ...)                           \
    tern_from_data_at(TERN_HERE, data, TERN_DTYPE_OF(data), \
                      TERN_OPTIONS_(tern_new_args, __VA_ARGS__))

/* A CPU tensor over the caller's memory, which must outlive it, of the pointer's dtype as above; `release(user)` is
 * called once when nothing refers to it any more (NULL: nothing to do), and never when this call fails. Its bools have
 * to be 0 or 1. */
TERN_API tern_tensor *tern_from_memory_at(tern_site_t site, void *data, tern_dtype_t of,
                                          void (*release)(void *user), void *user,
                                          const tern_new_args *args);
#define tern_from_memory(data, release, user, ...)                           \
    tern_from_memory_at(TERN_HERE, data, TERN_DTYPE_OF(data), release, user, \
                        TERN_OPTIONS_(tern_new_args, __VA_ARGS__))

/* ---- looking --------------------------------------------------------------------------------- */

/* How many dimensions; -1 for NULL, which may be asked all of these: -1, no shape, no dtype, false. None of
 * them waits for a device. */
TERN_API int tern_ndim(const tern_tensor *t);
/* Extent of a dimension; negative counts from the end. -1 for NULL or a dimension there is not. */
TERN_API int64_t tern_size(const tern_tensor *t, int dim);
TERN_API int64_t tern_stride(const tern_tensor *t, int dim);
TERN_API int64_t tern_numel(const tern_tensor *t);
TERN_API tern_shape_t tern_shape(const tern_tensor *t);
TERN_API tern_dtype_t tern_dtype(const tern_tensor *t);
/* A CUDA tensor's device always has an index, a CPU tensor's has none (D014). */
TERN_API tern_dev_t tern_device(const tern_tensor *t);
/* Row-major without gaps; 4-D with channels innermost. */
TERN_API bool tern_is_contiguous(const tern_tensor *t);
TERN_API bool tern_is_channels_last(const tern_tensor *t);
/* Do several elements lie in one place (of expanded tensors, of windows of tern_unfold)? Such a tensor is
 * not written. Strides decide: some that cross each other without meeting count, too. */
TERN_API bool tern_overlaps_itself(const tern_tensor *t);
/* Is there one storage below both? */
TERN_API bool tern_shares_storage(const tern_tensor *a, const tern_tensor *b);
/* Grows with every in-place change of the storage, and when the tensor is given another (tern_tensor_replace). */
TERN_API uint32_t tern_version(const tern_tensor *t);
/* Where the tensor was made. */
TERN_API tern_site_t tern_site(const tern_tensor *t);

/* The one element of a tensor as a double; waits for the device. NaN and an error when there is
 * not exactly one, NaN while an error is pending. */
TERN_API double tern_item_at(tern_site_t site, tern_tensor *t);
#define tern_item(t) tern_item_at(TERN_HERE, t)
/* The same as an integer, floats cut towards zero; 0 where tern_item is NaN. */
TERN_API int64_t tern_item_int_at(tern_site_t site, tern_tensor *t);
#define tern_item_int(t) tern_item_int_at(TERN_HERE, t)
/* First element of a CPU tensor; the others lie in the order of its strides: tern_contiguous(t) first, or
 * tern_read, for row-major. NULL with an error that names tern_cpu for one on a device. What is written
 * through it does not count as an in-place change: backward will not notice that a tensor it needs was
 * changed so. */
TERN_API void *tern_data_at(tern_site_t site, tern_tensor *t);
#define tern_data(t) tern_data_at(TERN_HERE, t)
/* The same as a pointer to what the elements are, tern_data_as(float, t): NULL with an error where they are of another
 * dtype (C++ libtorch's data_ptr<float>()). A type that says no dtype (TERN_DTYPE_OF), as uint16_t for f16, is taken. */
TERN_API void *tern_data_as_at(tern_site_t site, tern_tensor *t, tern_dtype_t of);
#define tern_data_as(type, t) ((type *)tern_data_as_at(TERN_HERE, t, TERN_DTYPE_OF((type *)NULL)))
/* Address of the first element where the tensor lies, for kernels and libraries of one's own; work on it
 * goes behind what is queued on the device. Of a tensor on a device the host must not read it. NULL for
 * an empty one, and while an error is pending. */
TERN_API void *tern_data_ptr_at(tern_site_t site, tern_tensor *t);
#define tern_data_ptr(t) tern_data_ptr_at(TERN_HERE, t)
/* Copies all elements, row-major, converted to `dtype`, to host memory of `bytes` bytes. An error where out_data's
 * type says another dtype (TERN_F32 into a double[]); bytes take any. `of`: TERN_DTYPE_OF(out_data). */
TERN_API tern_status_t tern_read_at(tern_site_t site, tern_tensor *t, tern_dtype_t dtype,
                                    void *out_data, tern_dtype_t of, int64_t bytes);
#define tern_read(t, dtype, out_data, bytes) \
    tern_read_at(TERN_HERE, t, dtype, out_data, TERN_DTYPE_OF(out_data), bytes)
/* Shape, dtype, device and a few values on stdout, or as text (NUL-terminated, cut to `bytes`). */
TERN_API void tern_print_at(tern_site_t site, tern_tensor *t);
#define tern_print(t) tern_print_at(TERN_HERE, t)
TERN_API const char *tern_describe_at(tern_site_t site, tern_tensor *t, char *buffer, size_t bytes);
#define tern_describe(t, buffer, bytes) tern_describe_at(TERN_HERE, t, buffer, bytes)

/* ---- moving ---------------------------------------------------------------------------------- */

typedef struct tern_to_args {
    size_t size_;
    tern_dev_t device;  /* default: stays */
    bool non_blocking;  /* a wish, see below */
    bool copy;          /* a copy even when nothing changes */
    tern_dtype_t dtype; /* default: stays */
    tern_memory_format_t format;
} tern_to_args;
/* t stays where it is: the result is what moved, and a compiler warns when nobody takes it.
 * `t` itself when device, dtype and format are what they should be, else a copy (T rows).
 * Differentiable. A copy between the CPU and a device is on the device's current stream, and the host
 * waits for that stream (T017). non_blocking: it does not. Then page-locked memory (tern_pin) must not
 * be written, or read, before the copy is done: wait for the stream or an event (T020, T021). What
 * comes to the CPU is page-locked by itself (T010); a source that is not page-locked may be overwritten
 * when the call returns (T019). Between devices, and on one, the host never waits (T022). */
TERN_API tern_tensor *tern_to_at(tern_site_t site, tern_tensor *t,
                                 const tern_to_args *args) TERN_USE_RESULT;
#define tern_to(t, ...) tern_to_at(TERN_HERE, t, TERN_OPTIONS_(tern_to_args, __VA_ARGS__))
#define tern_cpu(t) tern_to(t, TERN_CPU)
#define tern_cuda(t) tern_to(t, TERN_CUDA(-1))
#define tern_cast(t, to_dtype) tern_to(t, .dtype = to_dtype)
typedef struct tern_copy_args {
    size_t size_;
    tern_tensor *dst, *src; /* required */
    bool non_blocking;
} tern_copy_args;
/* tern_copy(dst, src) or tern_copy(dst, src, .non_blocking = true) writes src into dst (broadcast,
 * converted, across devices); returns dst. Differentiable in src; what dst was made of
 * has a gradient of zeros, as in PyTorch: dst keeps that history, too. A buffer that each step of a loop
 * writes goes on without it as buffer = tern_detach(buffer), or is made in a scope of each step. */
TERN_API tern_tensor *tern_copy_at(tern_site_t site, const tern_copy_args *args);
#define tern_copy(...) tern_copy_at(TERN_HERE, TERN_OPTIONS_(tern_copy_args, __VA_ARGS__))
/* A copy with a storage of its own, laid out as t where t has no gaps; differentiable. */
TERN_API tern_tensor *tern_clone_at(tern_site_t site, tern_tensor *t);
#define tern_clone(t) tern_clone_at(TERN_HERE, t)
/* `t` itself when contiguous, else a copy that is. */
TERN_API tern_tensor *tern_contiguous_at(tern_site_t site, tern_tensor *t);
#define tern_contiguous(t) tern_contiguous_at(TERN_HERE, t)
/* Every element becomes `value`, which has to be one for tern_full; in place; returns t. For the value of a
 * tensor there is tern_copy. */
TERN_API tern_tensor *tern_fill_at(tern_site_t site, tern_tensor *t, tern_operand value);
#define tern_fill(t, value) tern_fill_at(TERN_HERE, t, TERN_OPERAND(value))

/* ---- owning ---------------------------------------------------------------------------------- */

TERN_API tern_tensor *tern_retain(tern_tensor *t); /* one more owner; returns t; NULL is fine */
TERN_API void tern_release(tern_tensor *t);        /* one owner less; NULL is fine */
/* When the innermost scope ends, a tensor of it goes to the enclosing one instead of being released, and with each
 * further call one scope further out; returns t. One that belongs further out, or to no scope, stays. */
TERN_API tern_tensor *tern_keep(tern_tensor *t);
/* The scope that owns t, whichever it is, owns it no more: it is released at once, unless something else holds it. One
 * of no scope stays; NULL is fine. */
TERN_API void tern_drop(tern_tensor *t);
/* Does the calling thread's innermost scope own t? */
TERN_API bool tern_in_scope(const tern_tensor *t);

typedef struct tern_scope {
    int64_t mark_, outer_, depth_;
} tern_scope;
/* Opens a scope of the calling thread, for tern_scope_end; TERN_SCOPE does both. */
TERN_API tern_scope tern_scope_begin(void);
/* Ends a scope, and those opened inside it. One that has ended already, by itself or with an outer one, ends nothing. */
TERN_API void tern_scope_end(tern_scope *scope);
#define TERN_JOIN_(a, b) a##b
#define TERN_JOIN(a, b) TERN_JOIN_(a, b)
#if defined(__GNUC__)
#define TERN_SCOPE                                                                                 \
    tern_scope TERN_JOIN(tern_scope_, __LINE__) __attribute__((cleanup(tern_scope_end), unused)) = \
        tern_scope_begin()
#endif
/* Bindings: while on, results belong to the caller alone (one reference) and no scope. Returns the
 * previous setting. Per thread. A call that writes its argument (add_, copy_) gives that back, and no reference
 * more; another that gives back its argument (contiguous of a contiguous tensor) gives one more. */
TERN_API bool tern_set_owned_mode(bool on);
/* Tensors alive that this process holds, in scopes, retained or saved for backward. */
TERN_API int64_t tern_live_tensors(void);

/* t takes over with's storage, shape, dtype and device and stays the same object (torch's set_data):
 * a module moves so, and optimizers made before keep their parameters. Leaves only; a gradient is
 * dropped when shape, dtype or device change. A backward that needs what t, or with, was before is an error. */
TERN_API tern_status_t tern_tensor_replace_at(tern_site_t site, tern_tensor *t, tern_tensor *with);
#define tern_tensor_replace(t, with) tern_tensor_replace_at(TERN_HERE, t, with)

/* Calls release(object) in tern_finish of the calling thread, newest first; for objects that programs
 * rarely free by hand (modules, optimizers, datasets). False without memory. */
TERN_API bool tern_at_finish(void (*release)(void *object), void *object);
/* The object is gone already: do not call. Any thread, while that which called tern_at_finish is not in
 * tern_finish. */
TERN_API void tern_at_finish_cancel(void *object);

/* Releases what the calling thread's scopes hold, prints a pending error to stderr and returns the
 * program's exit status: 0 fine, 1 an error was pending. Call it last in main. */
TERN_API int tern_finish(void);

/* ---- random numbers --------------------------------------------------------------------------
 * Philox 4x32-10; a draw is keyed by (seed, call number, element), so the same program draws the
 * same numbers on every device and with any number of threads. One default generator per thread: without
 * tern_seed each begins with seed 0, so every run, and every thread, draws the same numbers. (PyTorch begins
 * with a random seed, and its threads share one generator.) C gives the arguments of a call no order: two draws, or
 * two training forwards (dropout, batch norm), in one expression come in either, so give each a statement. */
typedef struct tern_generator tern_generator;
/* The calling thread's default generator, no other's; call number 0. */
TERN_API void tern_seed(uint64_t seed);
/* NULL without memory; the caller's, for tern_generator_free, which takes NULL. */
TERN_API tern_generator *tern_generator_create(uint64_t seed);
TERN_API void tern_generator_free(tern_generator *generator);
/* NULL is the calling thread's default generator. */
TERN_API void tern_generator_state(const tern_generator *generator, uint64_t *out_seed,
                                   uint64_t *out_call);
TERN_API void tern_generator_set_state(tern_generator *generator, uint64_t seed, uint64_t call);
/* Takes the next call number, for draws that a caller makes itself. */
TERN_API uint64_t tern_generator_next(tern_generator *generator);
/* The 128 random bits of (seed, call, element / 4): the draw that all kernels make. */
TERN_API void tern_philox(uint64_t seed, uint64_t call, uint64_t block, uint32_t out_bits[4]);

#ifdef __cplusplus
}
#endif
#endif
