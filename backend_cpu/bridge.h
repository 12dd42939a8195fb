#ifndef TERN_BACKEND_CPU_BRIDGE_H
#define TERN_BACKEND_CPU_BRIDGE_H
/*
 * The boundary between libtern and libtern_blas.so, a thin bridge linked with OpenBLAS and oneDNN.
 *
 * libtern links neither library. It opens libtern_blas.so at the first op that wants it and asks
 * `tern_blas_get("blas", CPU_BLAS_VERSION)` for one table. The bridge imports no libtern symbol.
 * Without the bridge every function of the table has a portable kernel in backend_cpu/ to take its
 * place, so a caller always writes
 *
 *     const cpu_blas_table *blas = cpu_blas();
 *     if (!blas || blas->gemm(&call) != CPU_BLAS_OK)
 *         portable_gemm(&call);
 *
 * Rules of every entry:
 * - Pointers are host memory, sizes and leading dimensions count elements, nothing is kept after
 *   the call returns, and outputs do not overlap inputs. Calls block.
 * - Any thread may call at any time. State (primitive caches, scratch) is per thread.
 * - `threads` decides into how many parts work is cut, 1 or more; fewer where more do not pay, by
 *   tables committed in bridge/ and never by timing. The same call with the same `threads` gives
 *   the same bits, whoever runs the parts. The libraries themselves never start threads: parts go
 *   to cpu_blas_host.run_parts, so the process has one team.
 * - After any other answer than CPU_BLAS_OK the caller runs its own kernel: gemm has left C as it
 *   was (CPU_BLAS_FAILED in a build without OpenBLAS may have applied beta to a part of it), conv2d
 *   may have written to its outputs, which a pass overwrites anyway.
 * - Denormals: kernels run under the floating-point modes of the thread they run on. Flushing is
 *   the business of the caller and of run_parts.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CPU_BLAS_VERSION 4u
#define CPU_BLAS_SYMBOL "tern_blas_get"

typedef enum cpu_blas_status {
    CPU_BLAS_OK = 0,
    CPU_BLAS_UNSUPPORTED = 1, /* no kernel, or only a reference one: run tern's own */
    CPU_BLAS_FAILED = 2       /* out of memory or a library error: run tern's own */
} cpu_blas_status;

typedef enum cpu_blas_dtype {
    CPU_BLAS_F32 = 1,
    CPU_BLAS_F64 = 2,
    CPU_BLAS_BF16 = 3,
    CPU_BLAS_F16 = 4
} cpu_blas_dtype;

/* Whose kernels make a product; where that library is not there, or does not have the dtype, the other one's. */
typedef enum cpu_blas_maker {
    CPU_BLAS_BY_TABLE,
    CPU_BLAS_OPENBLAS,
    CPU_BLAS_ONEDNN,
    CPU_BLAS_TILES, /* OpenBLAS's for small matrices, called on pieces */
    CPU_BLAS_MAKERS
} cpu_blas_maker;

/* What parts of a product share out. */
typedef enum cpu_blas_cut {
    CPU_BLAS_AS_PLANNED, /* rows, columns or both */
    CPU_BLAS_ROWS,
    CPU_BLAS_COLUMNS,
    CPU_BLAS_CUTS
} cpu_blas_cut;

/* C = op(A) * op(B) + beta * C, row-major. op(A) is [m, k], op(B) is [k, n], C is [m, n].
 * A is stored [m, k] (trans_a 0) or [k, m] (trans_a 1) with `lda` elements between rows; B alike.
 * beta == 0 never reads C; then C may be uninitialised. k == 0 gives beta * C.
 * F32 and F64: A, B and C are of `dtype`, beta any, no bias. BF16 and F16: C = A B (+ bias in each
 * row), all of `dtype`, summed in f32 and rounded once; beta 0. They are oneDNN's; UNSUPPORTED where it
 * has nothing but a reference kernel.
 * `maker` and `cut` 0: as the committed tables say. Else what the caller wants, of products of f32 and f64. */
typedef struct cpu_gemm_call {
    cpu_blas_dtype dtype;
    int trans_a, trans_b;
    int threads;
    cpu_blas_maker maker;
    cpu_blas_cut cut;
    int64_t m, n, k;
    const void *a;
    const void *b;
    void *c;
    int64_t lda, ldb, ldc;
    double beta;
    const void *bias; /* [n]; NULL: none */
} cpu_gemm_call;

/* How x and y lie in memory, both in the same way: dense, no padding between rows. */
typedef enum cpu_conv_format {
    CPU_CONV_NHWC = 1, /* channels_last: [N][H][W][C] */
    CPU_CONV_NCHW = 2  /* contiguous:    [N][C][H][W] */
} cpu_conv_format;

/* How w (and its gradient) lies in memory, dense. I is channels / groups. */
typedef enum cpu_conv_weights {
    CPU_CONV_OIHW = 1, /* contiguous:    [O][I][KH][KW] */
    CPU_CONV_OHWI = 2  /* channels_last: [O][KH][KW][I] */
} cpu_conv_weights;

typedef enum cpu_conv_pass {
    CPU_CONV_FORWARD = 1,         /* reads x, w, bias; writes y */
    CPU_CONV_BACKWARD_DATA = 2,   /* reads y (the gradient of y) and w; writes x (that of x) */
    CPU_CONV_BACKWARD_WEIGHTS = 3 /* reads x and y (its gradient); writes w and bias (gradients) */
} cpu_conv_pass;

/* Geometry of a 2-D convolution; all of it keys the primitive cache, so it has no padding.
 * out_h = (in_h + 2 * pad_h - dilation_h * (kernel_h - 1) - 1) / stride_h + 1, and w alike;
 * the bridge computes it. dilation 1 is a plain kernel (oneDNN's 0). groups divides both channel
 * counts; groups == in_channels is a depthwise convolution. */
typedef struct cpu_conv2d_shape {
    int64_t format;  /* cpu_conv_format */
    int64_t weights; /* cpu_conv_weights */
    int64_t dtype;   /* cpu_blas_dtype of x, w, y and a forward bias, not F64; of gradients of w
                      * and bias F32 */
    int64_t batch, in_channels, in_h, in_w;
    int64_t out_channels, kernel_h, kernel_w;
    int64_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
    int64_t groups;
} cpu_conv2d_shape;

/* One pass. Each pass overwrites its outputs (nothing is accumulated). `bias` [out_channels] may be
 * NULL: no bias forward, no bias gradient backward; BACKWARD_DATA ignores it.
 * `weights_key` lets inference skip the reorder of w: not 0, and equal to that of the call before
 * with the same shape and w, says that w has not changed since. 0: reorder w, always right. */
typedef struct cpu_conv2d_call {
    cpu_conv2d_shape shape;
    cpu_conv_pass pass;
    int threads;
    void *x;
    void *w;
    void *bias;
    void *y;
    uint64_t weights_key;
} cpu_conv2d_call;

/* What was found and chosen. Strings live as long as the process. */
typedef struct cpu_blas_info {
    const char *openblas_corename; /* kernels in use: "SkylakeX", "Haswell", ... */
    const char *openblas_config;   /* version and build options */
    const char *onednn_version;    /* "2.6.3" */
    const char *onednn_isa;        /* "avx512_core_bf16", ... */
    int openblas_threading;        /* 0 none, 1 pthreads, 2 OpenMP */
    int openblas_shared;           /* 1: it was in the process before the bridge; left as it is */
    int onednn_major, onednn_minor, onednn_patch;
} cpu_blas_info;

typedef struct cpu_blas_stats {
    /* Of the calling thread; parts that other threads ran count there. */
    uint64_t primitives_created;
    uint64_t primitives_cached; /* now */
    uint64_t weight_reorders;
    size_t scratch_bytes; /* held: scratch, reordered copies */
} cpu_blas_stats;

/* Runs part i of `context`. */
typedef void (*cpu_blas_part)(void *context, int64_t part);

/* What libtern gives to the bridge. */
typedef struct cpu_blas_host {
    uint32_t size;
    /* OpenBLAS was in the process before the bridge: its kernels and its thread count are somebody
     * else's. Otherwise the bridge puts OpenBLAS's own threads to sleep for good. */
    int32_t openblas_shared;
    int32_t tuning; /* whose measurements routes go by (tuning.h) */
    /* Runs parts 0 to parts - 1, each once, on as many threads as it likes; returns when all are
     * done. Called from a thread of such a team, it runs them all itself. */
    void (*run_parts)(int64_t parts, cpu_blas_part run, void *context);
} cpu_blas_host;

typedef struct cpu_blas_table {
    uint32_t version; /* CPU_BLAS_VERSION */
    uint32_t size;    /* of this struct as the bridge knows it; a longer one has more entries */

    /* Called once, before any other entry. `host` lives as long as the process. */
    void (*configure)(const cpu_blas_host *host);
    void (*info)(cpu_blas_info *out_info);

    /* UNSUPPORTED: a dtype without kernels here, or sizes that do not fit the library. */
    cpu_blas_status (*gemm)(const cpu_gemm_call *call);
    /* The route that `gemm` would take: "openblas", "onednn" or "none"; and into how many parts it
     * is cut. */
    const char *(*gemm_route)(const cpu_gemm_call *call, int64_t *out_parts);

    /* UNSUPPORTED: oneDNN has only a reference kernel (hundreds of times too slow), or refuses. */
    cpu_blas_status (*conv2d)(const cpu_conv2d_call *call);
    /* Name of the kernel that `conv2d` would take ("brgconv:avx512_core", "jit:avx512_core", ...),
     * or NULL where it answers UNSUPPORTED. Reads shape, pass, threads and whether bias is NULL.
     * With several threads it names the kernel of the first part. The text is valid until this thread's next call. */
    const char *(*conv2d_kernel)(const cpu_conv2d_call *call);

    void (*stats)(cpu_blas_stats *out_stats);
    /* Frees the calling thread's primitives and scratch; the next call makes them anew. Those of a
     * thread that ends are freed then. */
    void (*release_thread)(void);
} cpu_blas_table;

/* ------------------------------------------------------------------ libtern's side (bridge.c) */

/* The table, or NULL when there is no usable bridge. The first call anywhere looks for it, sets
 * the kernel choice of OpenBLAS (see cpu_blas_report) and opens it; later ones are one atomic
 * load. Never fails in any other way, prints nothing.
 *
 * Searched in this order: the folders in TERN_PLUGIN_PATH (separated by ':'), the folder of the
 * object that holds this code, the folder it was configured to be installed in. Never the working
 * directory: relative folders are skipped. TERN_CPU_BLAS=off looks for nothing. */
const cpu_blas_table *cpu_blas(void);

typedef struct cpu_blas_report {
    int loaded;
    const char *path; /* of the bridge in use, or NULL */
    const char
        *core_wanted; /* kernels that fit this CPU ("SKYLAKEX"), NULL: OpenBLAS's own choice */
    const char *core_reason; /* why that choice, one sentence */
    int reason_count;        /* why candidates were not loaded, in the order tried */
    const char *const *reasons;
    const char *missing; /* the same as one text, cut; "" where loaded */
    cpu_blas_info info;  /* zero where not loaded */
} cpu_blas_report;

/* Loads the bridge if nobody has and says what happened. Strings live as long as the process. */
void cpu_blas_get_report(cpu_blas_report *out_report);

#ifdef __cplusplus
}
#endif
#endif
