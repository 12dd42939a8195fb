/* What the files of libtern_blas.so share. TERN_HAVE_BLAS and TERN_HAVE_ONEDNN are 0 or 1. */
#ifndef TERN_BACKEND_CPU_BRIDGE_PRIVATE_H
#define TERN_BACKEND_CPU_BRIDGE_PRIVATE_H

#include <stdbool.h>

#include "backend_cpu/bridge.h"

#ifndef TERN_HAVE_BLAS
#define TERN_HAVE_BLAS 1
#endif
#ifndef TERN_HAVE_ONEDNN
#define TERN_HAVE_ONEDNN 1
#endif

/* gemm_routes.def says what they are. */
typedef enum gemm_way { GEMM_NONE, GEMM_OPENBLAS, GEMM_TILES, GEMM_ONEDNN, GEMM_MATMUL } gemm_way;

/* Written by `configure` only. */
typedef struct bridge_setup {
    const cpu_blas_host *host;
    /* A table holds for OpenBLAS's AVX-512 kernels, that of CPU_AVX2 for its AVX2 kernels. With others it makes the
     * products up to this m * n * k, where a call of oneDNN costs too much, and oneDNN the rest. 0: the table. */
    int64_t openblas_most;
    int tuning;      /* of tuning.h: which table */
    gemm_way forced; /* the way of all blocks of f32; GEMM_NONE: by the table */
} bridge_setup;

extern bridge_setup bridge_state;

/* threads.c */

/* Runs the parts: itself where there is one, else by the host. */
void bridge_run_parts(int64_t parts, cpu_blas_part run, void *context);
/* How many threads oneDNN starts from the calling thread until the matching end, which takes
 * begin's result. */
int bridge_threads_begin(int threads);
void bridge_threads_end(int saved);
/* Inside a team: oneDNN could not start threads here. */
bool bridge_inside_team(void);

/* gemm_route.c */

/* How a product is cut: grid_m x grid_n blocks, each a part, made in calls of tile_m x tile_n x tile_k
 * at most. */
typedef struct gemm_plan {
    int64_t parts;
    int64_t grid_m, grid_n;
    int64_t block_m, block_n;
    int64_t tile_m, tile_n, tile_k;
    gemm_way way;
} gemm_plan;

gemm_plan gemm_plan_for(const cpu_gemm_call *call);

/* One call of a library: sizes and where it begins. */
typedef struct gemm_block {
    int64_t m, n, k;
    const char *a;
    const char *b;
    char *c;
    const char *bias; /* half types only */
    double beta;
} gemm_block;

/* matmul.c */

/* A block of half types by oneDNN's primitive. False: only a reference kernel, or a failure. */
bool bridge_matmul(const cpu_gemm_call *call, const gemm_block *g);

/* gemm.c */
cpu_blas_status bridge_gemm(const cpu_gemm_call *call);
const char *bridge_gemm_route(const cpu_gemm_call *call, int64_t *out_parts);

/* conv_parts.c */
cpu_blas_status bridge_conv2d(const cpu_conv2d_call *call);

/* conv.c */
const char *bridge_conv2d_kernel(const cpu_conv2d_call *call);

/* conv_cache.c */
void bridge_stats(cpu_blas_stats *out_stats);
void bridge_release_thread(void);

#endif
