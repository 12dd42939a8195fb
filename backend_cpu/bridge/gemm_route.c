/* Where a matrix product runs and how it is cut; decided from sizes, transposes and the number of
 * threads alone, so that a program repeats its results bit for bit. */
#include "backend_cpu/bridge/bridge_private.h"
#include "backend_cpu/gemm_rest.h"
#include "backend_cpu/tuning.h"

#include <math.h>

enum { OP_NN = 1, OP_NT = 2, OP_TN = 4, OP_TT = 8, OP_ANY = 15 };

typedef struct gemm_route {
    int op;
    int64_t most_mnk, most_m, least_n, most_n, most_mn, least_k, most_k;
    gemm_way way;
} gemm_route;

#define GEMM_ROUTE(op, mnk, m, n0, n1, mn, k0, k1, way) \
    { OP_##op, mnk, m, n0, n1, mn, k0, k1, GEMM_##way },
static const gemm_route zen5_routes[] = {
#include "backend_cpu/bridge/gemm_routes.def"
};
static const gemm_route zen4_routes[] = {
#include "backend_cpu/bridge/gemm_routes_zen4.def"
};
static const gemm_route intel_routes[] = {
#include "backend_cpu/bridge/gemm_routes_intel.def"
};
static const gemm_route avx2_routes[] = {
#include "backend_cpu/bridge/gemm_routes_avx2.def"
};
#undef GEMM_ROUTE
static const gemm_route *const routes[CPU_TUNINGS + 1] = {
    [CPU_ZEN5] = zen5_routes,
    [CPU_ZEN4] = zen4_routes,
    [CPU_INTEL] = intel_routes,
    [CPU_AVX2] = avx2_routes,
};

/* A part of less than this costs more than it brings (fork and join 0.8 us). */
static const double flops_per_part = 2.5e5;
/* What cuts are weighed by, in multiplications. */
typedef struct gemm_costs {
    double packed_a[2], packed_b[2]; /* packing an element, as it lies and transposed */
    double cut_row;                  /* moving the lines of a row of C between cores (15 ns) */
    int64_t strip;                   /* rows that are made at a time, of whatever they hold */
} gemm_costs;
static const gemm_costs other_costs = {
    { 8, 8 }, { 8, 8 }, 1440, 1
}; /* by AVX-512, and OpenBLAS's */
/* Fitted to rows and columns cut, each in turns with the other, of 940 drawn shapes of 1 to 150 MFLOP by oneDNN on two cores of
 * a Zen 3: 46 of them are below 0.95 of oneDNN by its own threads (79 by those above, 37 by the better of both cuts). Lines
 * that move do not show there. */
static const gemm_costs onednn_avx2_costs = { { 8, 16 }, { 6, 11 }, 0, 4 };
/* Edges of blocks fall on whole vectors of 16 floats and on multiples of 4 rows: OpenBLAS's tiles have 4,
 * oneDNN's 8, of which half may be left. OpenBLAS's kernels without packing read rows of a transposed A in
 * vectors: those are cut by 16, too. */
enum { BLOCK_ALIGN = 16, ROW_ALIGN = 4 };
/* Where OpenBLAS's kernels without packing end: m n k, and for NT also m n. */
static const int64_t small_mnk = 1000000;
static const int64_t small_mn_nt = 1200;
/* A tile's depth: longer sums gain nothing, and 150 rows of it fit a second-level cache. */
static const int64_t tile_depth = 512;
enum { TILE_ROWS = 8 };

static bool within(int64_t value, int64_t most)
{
    return most == 0 || value <= most;
}

static gemm_way only_way(const cpu_gemm_call *call)
{
    if (call->dtype == CPU_BLAS_F64)
        return TERN_HAVE_BLAS ? GEMM_OPENBLAS : GEMM_NONE;
    if (call->dtype != CPU_BLAS_F32)
        return TERN_HAVE_ONEDNN ? GEMM_MATMUL : GEMM_NONE;
    return TERN_HAVE_BLAS ? GEMM_OPENBLAS : GEMM_ONEDNN;
}

/* Of the first row that holds; the last one always does. */
static gemm_way way_of_table(const gemm_route *r, int op, int64_t m, int64_t n, int64_t k)
{
    const double mnk = (double)m * (double)n * (double)k;
    while (!((r->op & op) && (r->most_mnk == 0 || mnk <= (double)r->most_mnk) &&
             within(m, r->most_m) && n >= r->least_n && within(n, r->most_n) &&
             within(m * n, r->most_mn) && k >= r->least_k && within(k, r->most_k)))
        r++;
    return r->way;
}

static gemm_way way_of_maker(cpu_blas_maker maker)
{
    static const gemm_way ways[CPU_BLAS_MAKERS] = { [CPU_BLAS_OPENBLAS] = GEMM_OPENBLAS,
                                                    [CPU_BLAS_ONEDNN] = GEMM_ONEDNN,
                                                    [CPU_BLAS_TILES] = GEMM_TILES };
    return ways[maker];
}

/* oneDNN's AVX2 kernels read B, and a transposed A, where they lie. Rows that begin a multiple of 1 KiB apart meet in a few
 * sets of a first-level cache: OpenBLAS, which packs them, takes 0.4 to 1.0 of the time (Zen 3; 128x256x1024 NN: 0.41). For
 * few rows of A packing costs more. */
enum { CROWDED_ROW = 256, CROWDED_TURNED_ROW = 128, CROWDED_ROWS = 24 };
static bool crowds_sets(const cpu_gemm_call *call, int64_t m)
{
    return bridge_state.tuning == CPU_AVX2 && m >= CROWDED_ROWS &&
           ((!call->trans_b && call->ldb % CROWDED_ROW == 0) ||
            (call->trans_a && call->lda % CROWDED_TURNED_ROW == 0));
}

/* How a block of m x n is made on one thread. */
static gemm_way choose_way(const cpu_gemm_call *call, int64_t m, int64_t n)
{
    if (call->dtype != CPU_BLAS_F32 || !TERN_HAVE_BLAS || !TERN_HAVE_ONEDNN)
        return only_way(call);
    int64_t k = call->k;
    double mnk = (double)m * (double)n * (double)k;
    if (bridge_state.forced != GEMM_NONE)
        return bridge_state.forced;
    if (call->maker != CPU_BLAS_BY_TABLE)
        return way_of_maker(call->maker);
    if (bridge_state.openblas_most > 0)
        return mnk <= (double)bridge_state.openblas_most ? GEMM_OPENBLAS : GEMM_ONEDNN;
    if (crowds_sets(call, m))
        return GEMM_OPENBLAS;
    if (bridge_state.tuning == CPU_ZEN4 && cpu_product_has_small_rest(m, n, k, call->trans_b))
        return GEMM_TILES;
    int op = 1 << ((call->trans_a ? 2 : 0) + (call->trans_b ? 1 : 0));
    return way_of_table(routes[bridge_state.tuning], op, m, n, k);
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t aligned_part(int64_t size, int64_t parts, int64_t align)
{
    int64_t part = ceil_div(ceil_div(size, parts), align) * align;
    return parts == 1 || part > size ? size : part;
}

static int64_t worth_parts(const cpu_gemm_call *call)
{
    double flops = 2.0 * (double)call->m * (double)call->n * (double)call->k;
    int64_t parts = call->threads;
    if (parts > 1 && flops < flops_per_part * (double)parts)
        parts = (int64_t)(flops / flops_per_part);
    return parts < 1 ? 1 : parts;
}

/* May `parts` blocks lie in so many rows? */
static bool suits(cpu_blas_cut cut, int64_t rows, int64_t parts)
{
    return parts % rows == 0 && (cut != CPU_BLAS_ROWS || rows == parts) &&
           (cut != CPU_BLAS_COLUMNS || rows == 1);
}

/* Is the last block of an extent at least half of the others? Else the team that waits for those takes the machine for
 * crowded (crowd.h) and does without itself for a while. */
static bool ends_even(int64_t extent, int64_t block)
{
    const int64_t rest = extent % block;
    return rest == 0 || 2 * rest >= block;
}

/* OpenBLAS's rows, which it packs, are cut as ever. */
static const gemm_costs *costs_for(const cpu_gemm_call *call)
{
    const bool onednn = call->maker == CPU_BLAS_BY_TABLE ? !crowds_sets(call, call->m)
                                                         : call->maker == CPU_BLAS_ONEDNN;
    return bridge_state.tuning == CPU_AVX2 && call->dtype == CPU_BLAS_F32 && onednn
               ? &onednn_avx2_costs
               : &other_costs;
}

/* What a step of k of a block costs, with what it packs. Where two blocks write the same rows of C, the lines on both sides
 * of the cut move between cores (761 x 11 x 350 takes 0.37 of the time when they do not). */
static double cost_of(const cpu_gemm_call *call, int64_t m, int64_t n)
{
    const gemm_costs *costs = costs_for(call);
    const double rows = (double)(ceil_div(m, costs->strip) * costs->strip);
    const double cost = rows * (double)n + costs->packed_a[call->trans_a != 0] * (double)m +
                        costs->packed_b[call->trans_b != 0] * (double)n;
    return n == call->n ? cost : cost + costs->cut_row / (double)call->k * (double)m;
}

/* Of the grids with `parts` blocks, the one whose largest block costs least. A cut that the caller wants is left out, and
 * all made on one thread, where it is uneven. */
static void choose_grid(gemm_plan *plan, const cpu_gemm_call *call, int64_t parts,
                        int64_t row_align)
{
    double best = INFINITY;
    plan->block_m = call->m;
    plan->block_n = call->n;
    for (int64_t rows = 1; rows <= parts; rows++) {
        if (!suits(call->cut, rows, parts))
            continue;
        int64_t m = aligned_part(call->m, rows, row_align);
        int64_t n = aligned_part(call->n, parts / rows, BLOCK_ALIGN);
        if (call->cut != CPU_BLAS_AS_PLANNED && !(ends_even(call->m, m) && ends_even(call->n, n)))
            continue;
        const double cost = cost_of(call, m, n);
        if (cost < best) {
            best = cost;
            plan->block_m = m;
            plan->block_n = n;
        }
    }
    plan->grid_m = ceil_div(call->m, plan->block_m);
    plan->grid_n = ceil_div(call->n, plan->block_n);
    plan->parts = plan->grid_m * plan->grid_n;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* `extent` in pieces of at most `most`, equal but for what aligns them. */
static int64_t even_piece(int64_t extent, int64_t most)
{
    return aligned_part(extent, ceil_div(extent, most), BLOCK_ALIGN);
}

/* Even depths, whole rows of C where 8 of them are a small call, and as many rows as the kernels take. */
static void choose_tiles(gemm_plan *plan, const cpu_gemm_call *call)
{
    bool is_nt = !call->trans_a && call->trans_b;
    int64_t depths = ceil_div(call->k, tile_depth);
    plan->tile_k = ceil_div(ceil_div(call->k, depths), BLOCK_ALIGN) * BLOCK_ALIGN;
    int64_t most_n = small_mnk / (TILE_ROWS * plan->tile_k) / BLOCK_ALIGN * BLOCK_ALIGN;
    plan->tile_n = is_nt && plan->block_n > 150 ? 128 : even_piece(plan->block_n, most_n);
    int64_t rows = small_mnk / (plan->tile_n * plan->tile_k);
    if (is_nt)
        rows = smaller(rows, small_mn_nt / plan->tile_n);
    plan->tile_m =
        smaller(rows < TILE_ROWS ? TILE_ROWS : rows / TILE_ROWS * TILE_ROWS, plan->block_m);
}

gemm_plan gemm_plan_for(const cpu_gemm_call *call)
{
    gemm_plan plan = { 1, 1, 1, call->m, call->n, 0, 0, 0, GEMM_NONE };
    int64_t parts = worth_parts(call);
    if (parts > 1)
        choose_grid(&plan, call, parts, ROW_ALIGN);
    plan.way = choose_way(call, plan.block_m, plan.block_n);
    if (plan.grid_m > 1 && call->trans_a && plan.way != GEMM_ONEDNN) {
        choose_grid(&plan, call, parts, BLOCK_ALIGN);
        plan.way = choose_way(call, plan.block_m, plan.block_n);
    }
    plan.tile_m = plan.block_m;
    plan.tile_n = plan.block_n;
    plan.tile_k = call->k;
    if (plan.way == GEMM_TILES)
        choose_tiles(&plan, call);
    return plan;
}
