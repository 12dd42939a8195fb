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

/* Written by `configure` only. */
typedef struct bridge_setup {
    const cpu_blas_host *host;
    bool openblas_weak; /* its kernels are older than this CPU: use it for tiny products only */
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

typedef enum gemm_library { GEMM_NONE, GEMM_OPENBLAS, GEMM_ONEDNN } gemm_library;

/* Which library multiplies an m x k by k x n block on one thread. */
gemm_library gemm_route_block(const cpu_gemm_call *call, int64_t m, int64_t n, int64_t k);

/* How each product is cut: grid_m x grid_n blocks, made in pieces of `piece_m` rows. The blocks of
 * all products of the batch are shared out as `parts`. */
typedef struct gemm_plan {
    int64_t parts;
    int64_t grid_m, grid_n;
    int64_t block_m, block_n, piece_m;
    gemm_library library;
} gemm_plan;

gemm_plan gemm_plan_for(const cpu_gemm_call *call);

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
