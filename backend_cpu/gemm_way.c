/* The decisions of gemm_way.h, measured with bench_gemm. */
#include "backend_cpu/gemm_way.h"

#include "backend_cpu/gemm_rest.h"

enum {
    /* On Intel, where B is not turned: from 400 MFLOP on own tiles take 0.85 to 1.04 of the libraries' time. */
    OWN_LARGE = 2000000000,
    LARGE_DEPTH = 64,
    /* On Zen 4, where B is turned (0.8 to 0.98 of the time, of a depth of 190 and 250 1.04 to 1.15). */
    LARGE_DEPTH_TURNED = 300,
    /* On Zen 4, with operands and C beyond 2 MiB, own tiles wait for what is not in its second-level cache of 1: 0.75 to
     * 0.98 of the time by a library, but for few rows of A, a small B in rows, or a B that is turned. */
    FAR_BYTES = 2 << 20,
    FAR_B_BYTES = 1 << 20,
    FAR_ROWS = 13,
    FAR_COLUMNS = 49, /* against a transposed A */
    /* Narrow products leave tiles half empty, or do little with what was packed: the libraries have kernels
     * for them (they take 0.2 to 0.9 of the time). f32 on AVX-512: one vector of columns, or rows. */
    NARROW = 24, /* columns, or rows against a transposed B */
    ONE_VECTOR = 16,
    MANY_ROWS = 48,
    /* Up to four columns beyond one or two full vectors cost tiles a vector. OpenBLAS's kernels without packing,
     * for m n k up to a million, make them alone (0.73 to 0.97 of the time). */
    FEW_COLUMNS = 4,
    UNPACKED_FLOPS = 2000000,
    /* On Intel, of a transposed A also beyond more vectors (0.77 to 0.95 of the time). */
    UNPACKED_TURNED = 164,
    UNPACKED_TURNED_DEPTH = 128,
    SHALLOW = 10, /* below it little but writing of C: 1.0 to 1.2 times the libraries' time */
    /* On Intel, of shallow products whose C fits the second-level cache oneDNN writes C better: 0.91 to 0.99 of the
     * time; of several threads not against a transposed B (0.97 to 1.05). */
    SHALLOW_MOST = 32,
    SHALLOW_LEAST_BYTES = 1 << 17, /* of one thread's C, or of each thread's */
    SHALLOW_LEAST_SHARE = 5 << 15,
    SHALLOW_MOST_BYTES = 1 << 21,
    /* On Intel, several threads: each packs a part of B of which few rows of A make use, or reads one that is
     * beyond its second-level cache. oneDNN takes 0.85 to 0.97 of the time. */
    SHARED_LEAST_ROWS = 15,
    SHARED_FEWER_ROWS = 9, /* of a B that is far */
    SHARED_SOME_ROWS = 32,
    SHARED_MOST_ROWS = 100,
    SHARED_LEAST_COLUMNS = 250, /* of a thread */
    SHARED_MOST_COLUMNS = 450,
    SHARED_MOST_OF_SOME = 560,
    SHARED_DEPTH = 600,
    /* Dot products along rows of both are as good as tiles, while A stays in a cache. */
    LONG_DEPTH = 256,
    LONG_ROWS = 256,
    VECTOR = 16,
    VECTOR_BYTES = 64,
    /* How threads cut a product. */
    WIDE_PART = 48,
    TURNED_ROWS = 5, /* of work that turning a row of B while it is packed costs */
    TURNED_A = 3, /* halves of a multiplication of a vector, to pack an element of a transposed A */
    /* Where two parts write the same rows of C, the lines on both sides of the cut move between cores, as the
     * CPU fetches ahead of what is written (inferred): 15 ns for each row and block of k on Intel. */
    CUT_ROW = 180
};

/* Beside full vectors a few columns. */
static bool is_for_unpacked(const cpu_product *g)
{
    const bool is_tn = g->a_row == 1 && g->a_col != 1;
    const int64_t most = is_tn && g->k <= UNPACKED_TURNED_DEPTH && cpu_tuned_for(CPU_INTEL)
                             ? UNPACKED_TURNED
                             : 2 * ONE_VECTOR + FEW_COLUMNS;
    return g->b_col == 1 && g->n > ONE_VECTOR && g->n <= most &&
           (g->n - 1) % ONE_VECTOR < FEW_COLUMNS && cpu_product_flops(g) <= UNPACKED_FLOPS;
}

static bool has_small_rest(const cpu_product *g)
{
    return cpu_tuned_for(CPU_ZEN4) && cpu_product_has_small_rest(g->m, g->n, g->k, g->b_col != 1);
}

static bool is_narrow(const cpu_product *g, bool fast)
{
    const bool is_nt = g->a_col == 1 && g->b_col != 1;
    const int64_t few = fast ? ONE_VECTOR : NARROW;
    if (fast && cpu_tuned_for(CPU_ZEN4) && is_nt && g->n >= CPU_REST_LEAST && g->m > few)
        return has_small_rest(g);
    if (is_nt && g->k >= LONG_DEPTH && g->m > 1 && g->n > 1 && g->m <= LONG_ROWS)
        return false;
    if (fast && is_for_unpacked(g))
        return true;
    if (fast && g->n > few && has_small_rest(g))
        return true;
    return (g->n <= few && g->m >= MANY_ROWS) || g->m == 1 || g->n == 1 || (is_nt && g->m <= few);
}

static bool is_shallow_in_cache(const cpu_product *g, int threads)
{
    const int64_t bytes = g->m * g->n * (int64_t)sizeof(float) / threads;
    return (threads == 1 || g->b_col == 1) && g->k >= SHALLOW && g->k <= SHALLOW_MOST &&
           bytes >= (threads == 1 ? SHALLOW_LEAST_BYTES : SHALLOW_LEAST_SHARE) &&
           bytes <= SHALLOW_MOST_BYTES && cpu_product_flops(g) > CPU_PRODUCT_SMALL &&
           !g->accumulate && g->bias == NULL;
}

static bool is_few_rows_shared(const cpu_product *g, int threads)
{
    const int64_t size = (int64_t)sizeof(float), columns = g->n / threads;
    const bool far =
        g->b_row * size % VECTOR_BYTES != 0 && columns * g->k * size > CPU_GEMM_SECOND_LEVEL;
    return threads > 1 && g->b_col == 1 && g->k >= SHARED_DEPTH &&
           g->m >= (far ? SHARED_FEWER_ROWS : SHARED_LEAST_ROWS) && g->m <= SHARED_MOST_ROWS &&
           columns >= SHARED_LEAST_COLUMNS &&
           columns <= (g->m > SHARED_SOME_ROWS ? SHARED_MOST_COLUMNS : SHARED_MOST_OF_SOME);
}

/* See FAR_BYTES. */
static bool is_far(const cpu_product *g)
{
    const int64_t size = (int64_t)sizeof(float), b_bytes = g->k * g->n * size;
    const bool is_tn = g->a_row == 1 && g->a_col != 1;
    return g->b_col == 1 && g->k > SHALLOW_MOST && g->m >= FAR_ROWS &&
           (g->m * g->k + g->m * g->n) * size + b_bytes > FAR_BYTES &&
           (is_tn ? g->n >= FAR_COLUMNS : b_bytes > FAR_B_BYTES);
}

/* Of f32 by AVX-512 (`fast`), and of others. */
static int64_t most_own_flops(const cpu_product *g, bool fast)
{
    if (!fast || g->k < SHALLOW)
        return CPU_PRODUCT_SMALL;
    const bool large = g->b_col == 1 ? cpu_tuned_for(CPU_INTEL) && g->k >= LARGE_DEPTH
                                     : cpu_tuned_for(CPU_ZEN4) && g->k >= LARGE_DEPTH_TURNED;
    return large ? OWN_LARGE : CPU_PRODUCT_OWN;
}

static bool is_for_library(const cpu_product *g, int threads)
{
    if (cpu_tuned_for(CPU_INTEL))
        return is_shallow_in_cache(g, threads) || is_few_rows_shared(g, threads);
    return cpu_tuned_for(CPU_ZEN4) && is_far(g);
}

bool cpu_product_own_is_best(int dtype, const cpu_product *g, int threads)
{
    const int64_t flops = cpu_product_flops(g);
    if (flops <= CPU_PRODUCT_NARROW)
        return true;
    const bool fast = dtype == TERN_F32 && cpu_isa() == CPU_ISA_AVX512;
    return flops <= most_own_flops(g, fast) && !(fast && is_for_library(g, threads)) &&
           !is_narrow(g, fast);
}

cpu_gemm_far cpu_product_far(int dtype, const cpu_product *g)
{
    const int64_t size = cpu_dtype_size(dtype);
    if (cpu_is_half(dtype) || cpu_isa() != CPU_ISA_AVX512 || !cpu_tuned_for(CPU_INTEL) ||
        g->k <= CPU_GEMM_FAR_KC)
        return CPU_GEMM_NEAR;
    if (g->b_col == 1 && g->b_row == g->n && g->m > CPU_GEMM_FEW && g->m <= CPU_GEMM_FAR_ROWS &&
        g->n > CPU_GEMM_FAR_COLUMNS && g->n * g->k * size > CPU_GEMM_SECOND_LEVEL)
        return CPU_GEMM_FAR_B;
    return g->a_row == 1 && g->a_col != 1 && g->n <= CPU_GEMM_FAR_COLUMNS &&
                   g->m * g->k * size > CPU_GEMM_SECOND_LEVEL
               ? CPU_GEMM_FAR_A
               : CPU_GEMM_NEAR;
}

/* What the thread with the largest share multiplies, packs, fetches for each strip of A and writes, in halves of a
 * multiplication of a vector for each step of k. Each part packs the columns of B that it reads, and its rows of
 * a transposed A. Of 220 random shapes timed both ways on Intel the choice costs 0.1 % of the time. */
static int64_t largest_share(const cpu_product *g, int threads, bool by_rows)
{
    const int64_t vectors = (g->n + VECTOR - 1) / VECTOR;
    const int64_t m = by_rows ? (g->m + threads - 1) / threads : g->m;
    const int64_t n = by_rows ? vectors : (vectors + threads - 1) / threads;
    const bool turned = g->b_col != 1;
    const bool tall = !turned && cpu_gemm_goes_tall(m, n * VECTOR_BYTES);
    const int64_t tile = tall ? CPU_GEMM_TALL : CPU_GEMM_WIDE;
    const int64_t strips = (m + tile - 1) / tile;
    const int64_t blocks = (g->k + CPU_GEMM_KC - 1) / CPU_GEMM_KC;
    return (2 * (m + (turned ? TURNED_ROWS : 1)) + strips) * n +
           (g->a_col != 1 ? TURNED_A * m : 0) + (by_rows ? 0 : g->m * blocks * CUT_ROW / g->k);
}

/* Each part of rows packs all of B, which has to be converted for half types: those have few. */
bool cpu_product_parts_are_rows(int dtype, const cpu_product *g, int threads)
{
    if (threads < 2 || g->k == 0) /* of depth 0 all are written, and nothing is multiplied */
        return false;
    if (cpu_is_half(dtype))
        return g->n < WIDE_PART * threads && g->m >= 4 * g->n;
    return largest_share(g, threads, true) < largest_share(g, threads, false);
}
