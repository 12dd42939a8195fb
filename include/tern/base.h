/* Values that everything else is made of: status, device, dtype, shape, call site.
 *
 * Conventions of the whole API, said once here:
 * - value types end in _t and are passed by value; objects do not and are passed by pointer;
 * - a public call is a macro over an `_at` function that also takes the caller's site, but for simple ones
 *   (getters, switches, what frees), which are functions; bindings call the `_at` functions, options by pointer in a
 *   struct that begins with its size; NULL is a struct of zeros;
 * - C++ (17 and up) takes options in the order of the struct's members, not by name: tern_zeros(TERN_SHAPE(2), TERN_I64);
 * - in options 0 means "not given", so enums start at 1; where 0 differs from the default, write TERN_ZERO
 *   (in a double -0.0 works, too); a number that is no value of its enum is an error;
 * - NULL for what a call needs is an error (TERN_ERR_ARGUMENT); a call without a site does nothing then;
 * - a call that returns a tensor returns NULL on failure and records the error (tern/error.h); the
 *   tensor belongs to the innermost open scope (tern/tensor.h);
 * - sizes and counts are int64_t; strides count elements, never bytes. */
#ifndef TERN_BASE_H
#define TERN_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tern/cxx.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_VERSION_MAJOR 0
#define TERN_VERSION_MINOR 1
#define TERN_VERSION_PATCH 0

#if defined(__GNUC__)
#define TERN_API __attribute__((visibility("default")))
#define TERN_PRINTF(text, args) __attribute__((format(printf, text, args)))
#else
#define TERN_API
#define TERN_PRINTF(text, args)
#endif

#if defined(__GNUC__)
#define TERN_USE_RESULT __attribute__((warn_unused_result)) /* nothing else tells of the call */
#else
#define TERN_USE_RESULT
#endif

/* The caller's place, "file:line": one literal, so a site costs one register per call. */
#define TERN_STRING_(x) #x
#define TERN_STRING(x) TERN_STRING_(x)
#define TERN_HERE __FILE__ ":" TERN_STRING(__LINE__)
typedef const char *tern_site_t;

/* Arguments by name, as macros of calls pass them: size_ says which members the caller knows. And arrays of pointers.
 * C++ has its own (tern/cxx.h). */
#ifndef __cplusplus
/* clang-format off */
#define TERN_OPTIONS_(type, ...) &(type){ .size_ = sizeof(type), __VA_ARGS__ }
#define TERN_ARRAY_(item, ...) ((item const[]){ __VA_ARGS__ })
#define TERN_ARRAY_COUNT_(item, ...) \
    ((int64_t)(sizeof TERN_ARRAY_(item, __VA_ARGS__) / sizeof(item)))
/* clang-format on */
#endif

/* What went wrong, by kind; the text of an error says the rest. */
typedef enum tern_status {
    TERN_OK = 0,
    TERN_ERR_ARGUMENT,    /* a value that the call does not take, NULL, a missing member */
    TERN_ERR_SHAPE,       /* sizes that do not fit together, or overflow */
    TERN_ERR_DTYPE,       /* a dtype that the op does not take */
    TERN_ERR_DEVICE,      /* mixed devices, a device that does not exist, a bad device string */
    TERN_ERR_INDEX,       /* an index outside its tensor */
    TERN_ERR_OOM,         /* memory of the host or of a device is used up */
    TERN_ERR_GRAD,        /* a graph that cannot be differentiated as asked */
    TERN_ERR_IO,          /* the system refused a file */
    TERN_ERR_FORMAT,      /* a file whose content is not what it should be */
    TERN_ERR_UNSUPPORTED, /* the backend has no kernel for this op and dtype */
    TERN_ERR_STATE,       /* a call at the wrong time */
    TERN_ERR_BACKEND      /* a backend's own failure: driver, library, plugin */
} tern_status_t;

/* "ok", "shape", "out-of-memory", ...: stable names for logs and JSON. Never NULL. */
TERN_API const char *tern_status_name(tern_status_t status);

/* ---- devices (rows D001-D015 of PyTorch's behaviour) ------------------------------------------ */

enum {
    TERN_KIND_NONE = 0,
    TERN_KIND_CPU = 1,
    TERN_KIND_CUDA = 2,
    TERN_KIND_EXT = 3,
    TERN_KINDS = 4
};

/* A device is a value: making one touches no hardware. index -1 is "unset": the current device of
 * that kind when it is used; below that there is none. {0, 0} is "not given". Equal means kind and index alike. */
typedef struct tern_dev {
    int16_t kind;
    int16_t index;
} tern_dev_t;

#ifdef __cplusplus
#define TERN_DEV_(kind, index) (tern_dev_t{ (int16_t)(kind), (int16_t)(index) })
#else
#define TERN_DEV_(kind, index) ((tern_dev_t){ (int16_t)(kind), (int16_t)(index) })
#endif
#define TERN_CPU TERN_DEV_(TERN_KIND_CPU, -1)
#define TERN_CUDA(n) TERN_DEV_(TERN_KIND_CUDA, n)
#define TERN_EXT(n) TERN_DEV_(TERN_KIND_EXT, n) /* devices of a backend that a plugin brought */
#define TERN_ALL_DEVICES TERN_DEV_(TERN_KIND_NONE, 0) /* where a call says that it takes it */

static inline bool tern_dev_equal(tern_dev_t a, tern_dev_t b)
{
    return a.kind == b.kind && a.index == b.index;
}

/* ---- dtypes ----------------------------------------------------------------------------------- */

typedef enum tern_dtype {
    TERN_DTYPE_NONE = 0,
    TERN_BOOL = 1, /* one byte, 0 or 1 */
    TERN_U8,
    TERN_I8,
    TERN_I16,
    TERN_I32,
    TERN_I64,
    TERN_F16,
    TERN_BF16,
    TERN_F32,
    TERN_F64,
    TERN_DTYPES
} tern_dtype_t;

/* Bytes per element; 0 for a value that is no dtype. */
TERN_API int64_t tern_dtype_size(tern_dtype_t dtype);
/* "f32", "bf16", ...; "?" for a value that is no dtype. */
TERN_API const char *tern_dtype_name(tern_dtype_t dtype);
/* The dtype of a name as tern_dtype_name prints it; TERN_DTYPE_NONE for any other text. */
TERN_API tern_dtype_t tern_dtype_parse(const char *name);
static inline bool tern_dtype_is_float(tern_dtype_t dtype)
{
    return dtype >= TERN_F16 && dtype <= TERN_F64;
}
static inline bool tern_dtype_is_int(tern_dtype_t dtype)
{
    return dtype >= TERN_U8 && dtype <= TERN_I64;
}
/* The dtype in which two tensors meet: PyTorch's lattice (torch.promote_types). */
TERN_API tern_dtype_t tern_promote(tern_dtype_t a, tern_dtype_t b);

/* A number of an option struct that is given, and 0: .padding = { 1, TERN_ZERO }, .eps = TERN_ZERO. */
#define TERN_ZERO INT64_MIN

/* ---- shapes ----------------------------------------------------------------------------------- */

#define TERN_MAX_DIMS 8

/* A shape is TERN_SHAPE(2, 3), dimensions are TERN_DIMS(0, 1). C takes bare numbers for the members of this
 * struct: tern_zeros(2, 3) and tern_sum(x, 1) compile (-Wmissing-braces warns), and are errors, but for a single 0,
 * which is not given: tern_sum(x, 0) sums everything. */
typedef struct tern_shape_t {
    int32_t set_; /* TERN_GIVEN_: a 0-dim shape is not a missing one */
    int32_t ndim;
    int64_t dims[TERN_MAX_DIMS];
} tern_shape_t;
#define TERN_GIVEN_ 0x5E7D1A5 /* no size that stands here by mistake */
/* Neither made by these macros nor left out. */
static inline bool tern_shape_is_bare_(const tern_shape_t *shape)
{
    return shape->set_ != TERN_GIVEN_ && (shape->set_ != 0 || shape->ndim != 0);
}

#ifdef __cplusplus
extern "C++" {
template <typename... Sizes> constexpr tern_shape_t tern_shape_of_(Sizes... sizes)
{
    return tern_shape_t{ TERN_GIVEN_,
                         static_cast<int32_t>(sizeof...(Sizes)),
                         { static_cast<int64_t>(sizes)... } };
}
}
#define TERN_SHAPE(...) tern_shape_of_(__VA_ARGS__)
#define TERN_SCALAR_SHAPE tern_shape_of_()
#else
#define TERN_COUNT_(...) (sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t))
#define TERN_SHAPE(...) \
    ((tern_shape_t){ TERN_GIVEN_, (int32_t)TERN_COUNT_(__VA_ARGS__), { __VA_ARGS__ } })
#define TERN_SCALAR_SHAPE \
    ((tern_shape_t){ TERN_GIVEN_, 0, { 0 } }) /* its ndim and dims may be set */
#endif

/* A list of dimensions, for reductions and the like; (tern_dims_t){ 0 } is one that is not given. Same layout. */
typedef tern_shape_t tern_dims_t;
#define TERN_DIMS(...) TERN_SHAPE(__VA_ARGS__)

typedef struct tern_tensor tern_tensor;
typedef struct tern_op tern_op;

#ifdef __cplusplus
}
#endif
#endif
