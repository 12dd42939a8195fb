/* The decisions of gemm_way.h, measured with bench_gemm. */
#include "backend_cpu/gemm_way.h"

#include <stdlib.h>
#include <string.h>

#include "backend_cpu/gemm_own_avx2.h"
#include "backend_cpu/gemm_own_intel.h"
#include "backend_cpu/gemm_own_zen4.h"
#include "backend_cpu/gemm_own_zen5.h"
#include "backend_cpu/gemm_rest.h"

enum {
    /* Narrow products leave tiles half empty, or do little with what was packed: the libraries have kernels
     * for them (they take 0.2 to 0.9 of the time). f32 on AVX-512: one vector of columns, or rows. */
    NARROW = 24, /* columns, or rows against a transposed B */
    ONE_VECTOR = 16,
    MANY_ROWS = 48,
    /* Up to four columns beyond one or two full vectors cost tiles a vector. OpenBLAS's kernels without packing,
     * for m n k up to a million, make them alone (0.73 to 0.97 of the time; not on Zen 5, whose table has them). */
    FEW_COLUMNS = 4,
    FEW_COLUMNS_INTEL = 2,
    UNPACKED_FLOPS = 2000000,
    SHALLOW = 10,      /* below it little but writing of C: 1.0 to 1.2 times the libraries' time */
    SHALLOW_MOST = 32, /* depth up to which writing C takes a good part of the time */
    /* What the table of a tuning was measured with: extents, and 1 MFLOP to 3 GFLOP. Own kernels make half of the NN and
     * TN between that and CPU_PRODUCT_SMALL on Zen 4 below 0.95 of the library's speed, on one thread, on Intel a
     * third; by the table it is one in ten. */
    TABLE_ROWS = 8,
    TABLE_COLUMNS = 10,
    TABLE_COLUMNS_ZEN5 = 8,
    TABLE_LEAST = 1000000,
    /* Where all rows are half lines, as most networks' widths are, own kernels make deeper products of a near B at
     * 0.96 to 1.06 of the library's speed, but on Zen 4 where a vector is left half full (0.94 with AVX2). Small networks need no
     * library, then, which takes 20 ms to open. */
    PLAIN_ROW = 8,
    PLAIN_B = 1 << 18,
    PLAIN_FLOPS = 120000000,
    PLAIN_ROWS_AVX2 = 36,   /* with AVX2 fewer rows make 0.85 of it */
    PLAIN_B_AVX2 = 1 << 19, /* a transposed B: 0.97 to 1.03 on one thread, 0.95 to 0.98 on two */
    /* The gradient of what an output layer was given is as deep as there are classes. There a library wins up to a microsecond
     * or two (Intel), and oneDNN's first product takes 40 to 60 ms, in which it writes code. */
    CLASSES = 32,
    CLASSES_FLOPS = 6000000,
    /* The gradient of weights is as deep as a batch is large. 125 such products of a batch of 8 to 30 are by this rule at 0.94
     * of the faster library's speed in the mean, by the table and its routes at 0.91 (OpenBLAS's kernels without packing fall to
     * 0.53 where C has many rows). On two threads, of 172, 22 are below 0.95, and 40 by the table. */
    BATCH = 30,
    BATCH_ROWS = 20,     /* of the batch; of fewer, where C is narrow */
    BATCH_COLUMNS = 160, /* of C */
    BATCH_FLOPS = 4000000,
    /* Up to this depth a bias, which a library wants in C beforehand, costs more than the library wins. */
    BIASED_DEPTH = 512,
    /* Dot products along rows of both are as good as tiles, while A stays in a cache. */
    LONG_DEPTH = 256,
    LONG_ROWS = 256,
    VECTOR = 16,
    VECTOR_BYTES = 64,
    /* See turns_avx2. */
    TURNED_LANES = 8,
    TURNED_IDLE = 2,
    TURNED_FEW = 32, /* rows, from a depth on; more of them, from another */
    TURNED_DEPTH = 80,
    TURNED_ROWS = 64,
    TURNED_DEPTH_MORE = 128,
    TURNED_C = 1 << 16, /* elements */
    /* How threads cut a product. */
    WIDE_PART = 48,
    /* A line of another core's cache, in halves of a multiplication of a vector. Of a B of up to so many elements, half of
     * a second-level cache of 1 MiB, it still lies there (Zen 4); Intel's has 2 MiB, and no limit was found. */
    FETCHED_DEPTH = 128,
    FETCHED_LINE = 40,
    FETCHED_B = 1 << 17,
    /* Bytes of B from which on AVX2's tiles wait for it as they pack it. */
    CUT_FAR = 1 << 18
};

static const int64_t table_flops = 3000000000;

/* What cuts for threads are weighed by, in halves of a multiplication of a vector of 16. */
typedef struct cut_costs {
    int64_t strip; /* rows of C that are made at a time; 0: as cpu_gemm_goes_tall says */
    int64_t packed_b, packed_far; /* packing a vector of B, and of one of more than CUT_FAR bytes */
    int64_t turned_b;             /* of a transposed one */
    int64_t turned_a;             /* packing an element of a transposed A */
    /* Where two parts write the same rows of C, the lines on both sides of the cut move between cores, as the
     * CPU fetches ahead of what is written (inferred): 15 ns for each row and block of k on Intel. */
    int64_t cut_row;
} cut_costs;
static const cut_costs avx512_costs = { 0, 2, 2, 10, 3, 180 };
/* Fitted to both cuts of 2065 drawn NN and TN, each in turns with the other, on two idle cores of a Zen 3: the choice costs 0.9 %
 * of the time, and a tenth and more for 61 of them (1.5 % and 128 where packing costs 8 whatever B's size). */
static const cut_costs avx2_costs = { 6, 8, 48, 28, 0, 1500 };

/* Two cores of a Zen 5 share a last-level cache or do not, in a virtual machine by the minute: 140 ns for each row if not.
 * For shallow products of some rows this is in the middle: 0.7 to 0.9 of the time far apart, else 1.01 to 1.06. Others
 * would take up to 1.2. */
enum { CUT_ROW_ZEN5 = 600 };
static int64_t cost_of_a_cut(const cpu_product *g, const cut_costs *costs)
{
    const bool far = cpu_tuned_for(CPU_ZEN5) && g->m >= MANY_ROWS && g->k <= CPU_GEMM_FETCHED_DEPTH;
    return far ? CUT_ROW_ZEN5 : costs->cut_row;
}

/* Beside full vectors a few columns. */
static bool is_for_unpacked(const cpu_product *g)
{
    const int64_t few = cpu_tuned_for(CPU_INTEL) ? FEW_COLUMNS_INTEL : FEW_COLUMNS;
    return g->b_col == 1 && g->n > ONE_VECTOR && g->n <= 2 * ONE_VECTOR + few &&
           (g->n - 1) % ONE_VECTOR < few && cpu_product_flops(g) <= UNPACKED_FLOPS;
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

/* Of f32 by AVX-512 (`fast`), and of others. */
static int64_t most_own_flops(const cpu_product *g, bool fast)
{
    return fast && g->k >= SHALLOW ? CPU_PRODUCT_OWN : CPU_PRODUCT_SMALL;
}

/* See PLAIN_ROW. */
static bool is_plain(const cpu_product *g)
{
    const int64_t a_row = g->a_col == 1 ? g->a_row : g->a_col;
    const int64_t b_row = g->b_col == 1 ? g->b_row : g->b_col;
    const bool avx2 = cpu_tuned_for(CPU_AVX2);
    if (avx2 && g->m < PLAIN_ROWS_AVX2)
        return false;
    return (a_row | b_row | g->c_row) % PLAIN_ROW == 0 && g->k > SHALLOW_MOST &&
           g->k * g->n <= (avx2 && g->b_col != 1 ? PLAIN_B_AVX2 : PLAIN_B) &&
           cpu_product_flops(g) <= PLAIN_FLOPS && (g->b_col != 1 || !has_small_rest(g));
}

/* See CLASSES. On Zen 4 OpenBLAS has these, which opens in 5 ms. */
static bool is_of_few_classes(const cpu_product *g)
{
    return cpu_tuned_for(CPU_INTEL) && g->a_col == 1 && g->b_col == 1 && g->k <= CLASSES &&
           (g->b_row | g->c_row) % PLAIN_ROW == 0 && g->k * g->n <= PLAIN_B &&
           cpu_product_flops(g) <= CLASSES_FLOPS;
}

/* See BATCH. On one thread as far as libraries do without packing; oneDNN makes others at 0.98. */
static bool is_of_small_batch(const cpu_product *g, int threads)
{
    if (!cpu_tuned_for(CPU_INTEL) || g->a_row != 1 || g->a_col == 1 || g->b_col != 1 ||
        g->k > BATCH)
        return false;
    if (threads > 1)
        return cpu_product_flops(g) <= BATCH_FLOPS;
    return cpu_product_flops(g) <= UNPACKED_FLOPS && (g->k >= BATCH_ROWS || g->n <= BATCH_COLUMNS);
}

/* Tables that were fitted to measurements, on one thread and on two. */
static const cpu_gemm_owns (*const fitted[CPU_TUNINGS + 1])[3] = {
    [CPU_ZEN5] = zen5_owns, [CPU_ZEN4] = zen4_owns, [CPU_INTEL] = intel_owns, [CPU_AVX2] = avx2_owns
};

static bool table_owns_it(const cpu_product *g, int threads)
{
    const cpu_gemm_size size = { .m = g->m,
                                 .n = g->n,
                                 .k = g->k,
                                 .a = g->m * g->k,
                                 .b = g->k * g->n,
                                 .c = g->m * g->n,
                                 .work = g->m * g->k * g->n,
                                 .rest = (g->n - 1) % VECTOR + 1 };
    const int op = g->b_col != 1 ? 1 : g->a_row == 1 && g->a_col != 1 ? 2 : 0;
    return is_plain(g) || is_of_few_classes(g) || is_of_small_batch(g, threads) ||
           (g->bias != NULL && g->k <= BIASED_DEPTH && !has_small_rest(g)) ||
           fitted[cpu_tuning()][threads > 1][op](&size);
}

static bool fits_table(const cpu_product *g)
{
    const int64_t flops = cpu_product_flops(g);
    const int64_t columns = cpu_tuned_for(CPU_ZEN5) ? TABLE_COLUMNS_ZEN5 : TABLE_COLUMNS;
    return g->m >= TABLE_ROWS && g->n >= columns && flops > TABLE_LEAST && flops <= table_flops;
}

/* By AVX2, of f32. Of products that the table does not have libraries make those of a vector, and with a B that is not
 * transposed large ones of few columns, or of few rows (Zen 3: own kernels 0.5 to 0.95 of their speed). */
static bool avx2_owns_it(const cpu_product *g, int threads)
{
    const int64_t flops = cpu_product_flops(g);
    if (flops > CPU_PRODUCT_SMALL && fits_table(g))
        return table_owns_it(g, threads);
    if (g->m == 1 || g->n == 1)
        return false;
    const bool is_tn = g->a_col != 1, is_nt = !is_tn && g->b_col != 1;
    if (is_nt || (is_tn && g->n < TABLE_COLUMNS))
        return flops <= table_flops;
    return flops <= CPU_PRODUCT_SMALL && (g->n >= TABLE_COLUMNS || g->m < MANY_ROWS);
}

/* Products of f32 go as TERN_CPU_GEMM says, for measurements. The bridge knows which library is meant. */
enum { FORCED_OWN = 1, FORCED_LIBRARY, UNFORCED };
static int named_way(const char *name)
{
    static const char *const libraries[] = { "library", "openblas", "onednn", "tiles" };
    if (name != NULL && strcmp(name, "own") == 0)
        return FORCED_OWN;
    for (size_t i = 0; name != NULL && i < sizeof libraries / sizeof *libraries; i++)
        if (strcmp(name, libraries[i]) == 0)
            return FORCED_LIBRARY;
    return UNFORCED;
}
static int forced_way(void)
{
    static int decided; /* threads that come here at the same time find the same */
    int way = __atomic_load_n(&decided, __ATOMIC_RELAXED);
    if (__builtin_expect(way == 0, 0)) {
        way = named_way(getenv("TERN_CPU_GEMM"));
        __atomic_store_n(&decided, way, __ATOMIC_RELAXED);
    }
    return way;
}

bool cpu_product_is_forced(void)
{
    return forced_way() != UNFORCED;
}

/* 0.93 to 1.9 times the libraries' speed on Intel, by AVX-512. */
static bool has_fast_dots(const cpu_product *g)
{
    return g->m > 1 && g->n > 1 && cpu_product_has_whole_lines(g) && cpu_product_prefers_dots(g);
}

bool cpu_product_own_is_best(int dtype, const cpu_product *g, int threads)
{
    const int64_t flops = cpu_product_flops(g);
    if (flops <= CPU_PRODUCT_NARROW)
        return true;
    const int forced = forced_way();
    if (forced != UNFORCED && dtype == TERN_F32)
        return forced == FORCED_OWN;
    if (dtype == TERN_F32 && cpu_isa() == CPU_ISA_AVX2 && cpu_tuned_for(CPU_AVX2))
        return avx2_owns_it(g, threads);
    const bool fast = dtype == TERN_F32 && cpu_isa() == CPU_ISA_AVX512;
    if (fast && cpu_tuned_for(CPU_INTEL) && /* not measured elsewhere */
        (cpu_product_prefers_turning(g) || has_fast_dots(g)))
        return flops <= table_flops;
    if (fast && !cpu_tuned_for(CPU_AVX2) && fits_table(g) &&
        (cpu_tuned_for(CPU_ZEN5) || !is_for_unpacked(g)))
        return table_owns_it(g, threads);
    return flops <= most_own_flops(g, fast) && !is_narrow(g, fast);
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

/* With AVX2, of a transposed B: own kernels turn B, or, for the transposed product, A. That is less where A has fewer rows,
 * which are its lanes then, and for few of them C, which is turned back, is little, too. Measured on Zen 3, parts of the
 * time: 16 to 24 rows 0.7 to 0.85, 32, 48 and 64 0.86 to 1.0, 40 and 56 0.98 to 1.02, more 0.96 to 1.15; where lanes are
 * idle 0.92 to 1.24; where C is more than half of a second-level cache, or shallow, up to 1.6. */
static bool turns_avx2(const cpu_product *g)
{
    const int64_t idle = TURNED_LANES - 1 - (g->m - 1) % TURNED_LANES;
    const bool few =
        g->m >= TURNED_LANES && g->m <= TURNED_FEW && g->k >= TURNED_DEPTH && idle <= TURNED_IDLE;
    const bool more = g->m <= TURNED_ROWS && g->k >= TURNED_DEPTH_MORE && g->m % VECTOR == 0;
    return g->b_row == 1 && g->b_col != 1 && g->a_col == 1 && !g->by_dots && !g->accumulate &&
           (few || more) && 2 * g->n >= 3 * g->m && g->m * g->n <= TURNED_C;
}

bool cpu_product_turns(int dtype, const cpu_product *g)
{
    if (dtype != TERN_F32 || cpu_isa() == CPU_ISA_BASE)
        return false;
    return cpu_isa() == CPU_ISA_AVX512 ? cpu_product_prefers_turning(g)
                                       : cpu_tuned_for(CPU_AVX2) && turns_avx2(g);
}

/* Against a transposed B: a layer's weights, of which an optimizer has just written each thread's rows. Parts of rows read
 * them all, most out of another core's cache; parts of columns read their own, and all of A. In a chain of equal products
 * it does not show: there all cores have copies. Shallow products spend their time on C. */
static int64_t fetched_share(const cpu_product *g, int threads, bool by_rows)
{
    if (g->b_col == 1 || g->k < FETCHED_DEPTH)
        return 0;
    if (g->k * g->n > FETCHED_B && !cpu_tuned_for(CPU_INTEL))
        return 0;
    return FETCHED_LINE * (by_rows ? g->n : g->m) * (threads - 1) / (threads * VECTOR);
}

/* Of a part of m rows and n columns that AVX2 turns: its lanes are rows of C, which is turned back in the end. */
static int64_t turned_share(const cpu_product *part)
{
    const int64_t halves = (part->m + TURNED_LANES - 1) / TURNED_LANES; /* of a vector of 16 */
    const int64_t strips = (part->n + avx2_costs.strip - 1) / avx2_costs.strip;
    return (2 * part->n + avx2_costs.turned_b + strips) * halves / 2 +
           avx2_costs.turned_b * part->m * part->n / (VECTOR * part->k);
}

/* What the thread with the largest share multiplies, packs, fetches for each strip of A and writes, in halves of a
 * multiplication of a vector for each step of k. Each part packs the columns of B that it reads, and its rows of
 * a transposed A. Of 220 random shapes timed both ways on Intel the choice costs 0.1 % of the time. */
static int64_t largest_share(int dtype, const cpu_product *g, int threads, bool by_rows)
{
    const int64_t vectors = (g->n + VECTOR - 1) / VECTOR;
    const int64_t m = by_rows ? (g->m + threads - 1) / threads : g->m;
    const int64_t n = by_rows ? vectors : (vectors + threads - 1) / threads;
    const bool turned = g->b_col != 1;
    const cut_costs *costs = cpu_tuned_for(CPU_AVX2) ? &avx2_costs : &avx512_costs;
    const bool tall = !turned && cpu_gemm_goes_tall(m, n * VECTOR_BYTES);
    const int64_t strip = costs->strip > 0 ? costs->strip : tall ? CPU_GEMM_TALL : CPU_GEMM_WIDE;
    const int64_t strips = (m + strip - 1) / strip;
    const int64_t blocks = (g->k + CPU_GEMM_KC - 1) / CPU_GEMM_KC;
    const bool far = g->n * g->k * cpu_dtype_size(dtype) > CUT_FAR;
    const int64_t packed = turned ? costs->turned_b : far ? costs->packed_far : costs->packed_b;
    cpu_product part = *g;
    part.m = m;
    part.n = by_rows ? g->n : (g->n + threads - 1) / threads;
    if (cpu_isa() == CPU_ISA_AVX2 && cpu_product_turns(dtype, &part))
        return turned_share(&part) + (by_rows ? 0 : g->m * costs->cut_row / g->k) +
               fetched_share(g, threads, by_rows);
    return (2 * m + packed + strips) * n + (g->a_col != 1 ? costs->turned_a * m : 0) +
           (by_rows ? 0 : g->m * blocks * cost_of_a_cut(g, costs) / g->k) +
           fetched_share(g, threads, by_rows);
}

/* Each part of rows packs all of B, which has to be converted for half types: those have few. */
bool cpu_product_parts_are_rows(int dtype, const cpu_product *g, int threads)
{
    if (threads < 2 || g->k == 0) /* of depth 0 all are written, and nothing is multiplied */
        return false;
    if (cpu_is_half(dtype))
        return g->n < WIDE_PART * threads && g->m >= 4 * g->n;
    return largest_share(dtype, g, threads, true) < largest_share(dtype, g, threads, false);
}
