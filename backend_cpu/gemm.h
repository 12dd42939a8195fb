/* tern's own matrix product: what is used up to the size where a library's call pays, and everywhere
 * when there is no library. cpu_product_run (gemm.c) chooses. */
#ifndef TERN_BACKEND_CPU_GEMM_H
#define TERN_BACKEND_CPU_GEMM_H

#include "backend_cpu/cpu.h"
#include "backend_cpu/half.h"
#include "backend_cpu/tuning.h"

/* An operand beyond the second-level cache of which each element meets few of the other's takes as long to read
 * as to multiply (10 bytes a cycle from the third level of an Intel server, whose second has 2 MiB). Its next
 * rows are fetched in order during all products of a block, not when the first tile asks: 0.8 to 0.95 of the
 * time. */
typedef enum cpu_gemm_far {
    CPU_GEMM_NEAR,
    CPU_GEMM_FAR_B, /* whole, against at most CPU_GEMM_FAR_ROWS rows of A */
    CPU_GEMM_FAR_A  /* transposed, against at most CPU_GEMM_FAR_COLUMNS columns of B */
} cpu_gemm_far;

/* C [m, n] = A [m, k] B [k, n] (+ bias [n] in each row, or + C). All of one dtype, f32 or f64.
 * A and B have any strides, in elements; the columns of C are adjacent. C overlaps nothing. */
typedef struct cpu_product {
    int64_t m, n, k;
    const void *a, *b;
    const void *bias; /* NULL: none */
    void *c;
    int64_t a_row, a_col, b_row, b_col, c_row;
    bool accumulate; /* C is added to; then there is no bias */
    bool native;     /* bf16: by instructions of its own, as cpu_half_product_way has said */
    cpu_gemm_far far;
    bool by_dots; /* of the whole product, so that its parts sum in the same order */
    bool alone;   /* the whole product is one sum */
    bool turned;  /* made as the transposed product: the same sums in the same order */
    bool beside;  /* rows of a C of which another thread makes other rows */
} cpu_product;

/* AVX2's tiles of one vector have 12 rows, and of three 24 columns: few lanes of theirs are idle. Measured on Zen 3. */
static inline bool cpu_product_prefers_dots_avx2(const cpu_product *g)
{
    const int64_t rows = g->k < 128 ? 1 : g->k < 256 ? 6 : g->k < 512 ? 12 : 32;
    return g->m <= rows || g->n <= 4 || (g->k >= 512 && g->n <= 12 && g->n != 8);
}

/* Products by AVX-512 that dot products make better than tiles: from a depth on, those of so few rows, or of so few columns
 * in one vector, in a second or in a third, where most lanes of tiles are idle. */
typedef struct cpu_dots_limit {
    int64_t depth, rows, columns[3];
} cpu_dots_limit;

/* Are rows of A and of a transposed B whole lines (of f32, two of f64)? On Intel other rows take dot products 1.1 to 1.7 times
 * as long, for their vectors across two lines (tiles 1.03 to 1.16 times). */
static inline bool cpu_product_has_whole_lines(const cpu_product *g)
{
    return (g->a_row | g->b_col) % 16 == 0;
}

static inline const cpu_dots_limit *cpu_product_dots_limit(const cpu_product *g)
{
    static const cpu_dots_limit common[] = { { 256, 32, { 12, 20, 0 } }, { 32, 8, { 8, 0, 0 } } };
    static const cpu_dots_limit across_lines[] = { { 256, 12, { 9, 0, 0 } },
                                                   { 32, 8, { 8, 0, 0 } } };
    /* 0.65 to 1.0 of the time of tiles, up to 1.07 where C has 512 rows */
    static const cpu_dots_limit whole_lines[] = {
        { 384, 36, { 15, 26, 37 } }, { 256, 30, { 15, 24, 34 } }, { 192, 26, { 14, 24, 34 } },
        { 128, 18, { 12, 20, 0 } },  { 96, 14, { 12, 18, 0 } },   { 64, 10, { 9, 0, 0 } },
        { 32, 8, { 8, 0, 0 } },
    };
    const cpu_dots_limit *limit = !cpu_tuned_for(CPU_INTEL)        ? common
                                  : cpu_product_has_whole_lines(g) ? whole_lines
                                                                   : across_lines;
    while (g->k < limit->depth)
        limit++;
    return limit;
}

/* Rows of A and columns of B that are both contiguous can be multiplied along k. That is better than
 * transposing B for a few rows of A, or than tiles whose lanes are mostly idle; a total over lanes costs as much
 * as some 16 steps. */
static inline bool cpu_product_prefers_dots(const cpu_product *g)
{
    if (g->b_row != 1 || g->a_col != 1 || g->k < 32)
        return false;
    if (cpu_tuned_for(CPU_AVX2))
        return cpu_product_prefers_dots_avx2(g);
    const cpu_dots_limit *limit = cpu_product_dots_limit(g);
    const int64_t vector = (g->n - 1) / 16;
    return g->m <= limit->rows || (vector < 3 && g->n <= limit->columns[vector]);
}

/* Few columns, or few beside full vectors, leave lanes of tiles idle. Against a transposed A, whose rows of C are
 * adjacent, those are the lanes: the transposed product is made in scratch, and its rows become columns of C (0.4 to
 * 0.8 of the time on Intel, with AVX-512; 25 to 32 columns 0.9 to 1.1). */
static inline bool cpu_product_prefers_turning(const cpu_product *g)
{
    const bool idle_lanes = (g->n >= 8 && g->n <= 24) || (g->n > 32 && g->n <= 36);
    return g->a_row == 1 && g->a_col != 1 && g->b_col == 1 && idle_lanes && g->m >= 32 &&
           g->k >= 32 && g->bias == NULL && !g->accumulate;
}

/* The transposed product of m rows of C, which `a` begins, into c. */
static inline cpu_product cpu_product_turned(const cpu_product *g, const void *a, int64_t m,
                                             void *c)
{
    return (cpu_product){ .m = g->n,
                          .n = m,
                          .k = g->k,
                          .a = g->b,
                          .b = a,
                          .c = c,
                          .a_row = g->b_col,
                          .a_col = g->b_row,
                          .b_row = g->a_col,
                          .b_col = g->a_row,
                          .c_row = m };
}

/* Scratch that a call has taken so far and later products may use again; zero at first. */
typedef struct cpu_room {
    void *data;
    int64_t bytes;
} cpu_room;

/* Runs one product of `dtype` (f32, f64) on up to `threads` threads, by the library or by own
 * kernels. False: no scratch. */
bool cpu_product_run(const tern_call *call, int dtype, const cpu_product *product, int threads,
                     cpu_room *room);
/* The same for every dtype of numbers: half types are summed in f32 and rounded once (they do not
 * accumulate), integers wrap. */
bool cpu_product_any(const tern_call *call, int dtype, const cpu_product *product, int threads,
                     cpu_room *room);
bool cpu_product_half(const tern_call *call, int dtype, const cpu_product *product, int threads,
                      cpu_room *room);
/* One product by own kernels on the calling thread. Dtypes f32, f64, f16, bf16. */
void cpu_product_alone(int dtype, const cpu_product *product, void *piece);
int64_t cpu_product_piece_bytes(int dtype, const cpu_product *product);
/* How many threads `count` such products should use. */
int cpu_product_threads(const tern_call *call, int dtype, const cpu_product *product,
                        int64_t count);

/* Own kernels, one thread. `scratch`: cpu_gemm_scratch(...) bytes, aligned to 64. */
CPU_ISA_DECLARE(void, cpu_gemm_f32, const cpu_product *product, void *scratch);
CPU_ISA_DECLARE(void, cpu_gemm_f64, const cpu_product *product, void *scratch);
/* i64, which wraps; without scratch. */
void cpu_gemm_i64(const cpu_product *product, void *scratch);
/* Half types; `scratch`: cpu_half_sizes_of(...).floats floats. By f32 arithmetic (step 1), or bf16 by
 * AVX512-BF16 (pairs, step 2), where cpu_half_product_way says so. */
CPU_ISA_DECLARE(void, cpu_gemm_f16, const cpu_product *product, void *scratch);
CPU_ISA_DECLARE(void, cpu_gemm_bf16, const cpu_product *product, void *scratch);
CPU_ISA_DECLARE(void, cpu_gemm_bf16_pairs, const cpu_product *product, void *scratch);

/* Block sizes: a packed block of B (KC x NC) fills half of a 1 MiB second-level cache. All
 * instruction sets' tiles (9 x 48 elements and less) divide them. */
enum {
    CPU_GEMM_KC = 256,
    CPU_GEMM_NC = 480,
    /* AVX-512's tiles, the largest: rows by three vectors, and by two. */
    CPU_GEMM_WIDE = 9,
    CPU_GEMM_TALL = 14,
    CPU_GEMM_STRIP = CPU_GEMM_TALL, /* rows of A that are packed at a time, at most */
    CPU_GEMM_TALL_ROWS = 22,        /* for each strip that tall tiles save */
    CPU_GEMM_PANEL = 3 * 64,        /* bytes of a row of B */
    /* Rows of A up to which no instruction set packs a B of adjacent columns, and AVX-512 seldom. */
    CPU_GEMM_FEW = 8,
    CPU_GEMM_REREAD = 128,
    CPU_GEMM_REREAD_SPLIT = 32,
    CPU_GEMM_REREAD_FEW = 24, /* without AVX-512: four strips, of half lines, three of others */
    CPU_GEMM_REREAD_SPLIT_FEW = 18,
    CPU_GEMM_REREAD_SOME = 48,
    CPU_GEMM_REREAD_NEAR = 96,
    CPU_GEMM_ALIGN = 48,
    CPU_GEMM_PACKED = 4096, /* elements of B from which on packing may pay */
    CPU_GEMM_SECOND_LEVEL = 2 << 20,
    /* Without AVX-512: of all operands, of a B that is read where it lies, and of one that lies badly. */
    CPU_GEMM_NEAR_ALL = 1 << 20,
    CPU_GEMM_NEAR_B = 9 << 15,
    CPU_GEMM_NEAR_B_SPLIT = 1 << 16,
    CPU_GEMM_WRITTEN_FAR = 3 << 19, /* of C, from which on it drives B out of that cache */
    CPU_GEMM_SHALLOW = 32, /* depth of a panel of B, or a transposed A, that lies well as it is */
    CPU_GEMM_DEEP = 192,
    CPU_GEMM_FETCHED_DEPTH = 80, /* k up to which tiles may fetch their C */
    CPU_GEMM_FAR_KC = 64,   /* two blocks of a far operand, or a panel and A, stay in a cache */
    CPU_GEMM_FAR_ROWS = 40, /* of A against a far B, and columns of B against a far A: one panel */
    CPU_GEMM_FAR_COLUMNS = 48,
    /* Rows of C that are turned at a time: 18 KiB of 24 columns, which stay in a first-level cache. */
    CPU_GEMM_TURNED = 192
};

/* Blocks of at most `most`, a multiple of `align`, and as even as that allows: a small rest would
 * pack A anew for little work. */
static inline int64_t cpu_gemm_even(int64_t extent, int64_t most, int64_t align)
{
    const int64_t count = extent > most ? (extent + most - 1) / most : 1;
    const int64_t even = (extent + count - 1) / count;
    return even < 1 ? align : (even + align - 1) / align * align;
}
/* Rows and columns of B's blocks; a shallow block is so much the wider. */
static inline int64_t cpu_gemm_depth(const cpu_product *g)
{
    return cpu_gemm_even(g->k, g->far == CPU_GEMM_NEAR ? CPU_GEMM_KC : CPU_GEMM_FAR_KC, 1);
}
static inline int64_t cpu_gemm_columns(int64_t n, int64_t kc)
{
    const int64_t most = (int64_t)CPU_GEMM_KC * CPU_GEMM_NC / kc;
    return cpu_gemm_even(n, most / CPU_GEMM_ALIGN * CPU_GEMM_ALIGN, CPU_GEMM_ALIGN);
}

/* Do AVX-512's tall tiles multiply m rows by a B that is not packed, `bytes` of each of its rows? They cut A into
 * fewer strips, each of which fetches all of B from the second-level cache, but read A more often. 0.82 to 0.98 of
 * the time where they are taken; for a packed B 1.0 to 1.03, for one panel of it 1.06. */
static inline bool cpu_gemm_goes_tall(int64_t m, int64_t bytes)
{
    const int64_t wide = (m + CPU_GEMM_WIDE - 1) / CPU_GEMM_WIDE;
    const int64_t tall = (m + CPU_GEMM_TALL - 1) / CPU_GEMM_TALL;
    return bytes > CPU_GEMM_PANEL && m < CPU_GEMM_TALL_ROWS * (wide - tall);
}

/* Do AVX-512's tiles read B where it lies as fast as from a packed copy? Few rows of A do, for which B is
 * read a few times only: fewer where vectors across two lines cost, unless tall tiles save strips and B stays
 * in the second-level cache (37 to 56 rows, 0.94 to 0.97 of the time). For many a tile reads at most 24 KiB
 * (half of a first-level cache of 48), and rows begin on lines where the first one does. Rows are no
 * multiple of 1 KiB, but of shallow products: those share 12 of a cache's 64 sets (widths of 256, 512, 1024
 * floats are packed). Odd multiples of 512 bytes share 24 of them, and it does not show: 384 columns, depth 64
 * and 128, take 0.98 to 1.01 of the packed time on Zen 5. While a large C passes through the second-level
 * cache, a packed B comes back to it sooner (0.86 to 0.98 of the time on Intel). */
static inline bool cpu_gemm_lies_well(const cpu_product *g, int64_t size)
{
    const int64_t row = g->b_row * size;
    const bool whole = row % 64 == 0;
    const bool fits =
        cpu_gemm_goes_tall(g->m, g->n * size) && g->n * g->k * size <= CPU_GEMM_SECOND_LEVEL / 2;
    const int64_t most =
        whole || !cpu_tuned_for(CPU_INTEL) || fits ? CPU_GEMM_REREAD : CPU_GEMM_REREAD_SPLIT;
    const bool stays = !cpu_tuned_for(CPU_INTEL) || g->m * g->n * size < CPU_GEMM_WRITTEN_FAR;
    return g->b_col == 1 && (row % 1024 != 0 || g->k <= CPU_GEMM_SHALLOW) &&
           (g->m <= most || (g->k <= 128 && whole && stays));
}

/* Lines of a first-level cache of 64 sets of 8 in which rows so many bytes apart may lie; 0 apart: in one, for all. */
static inline int64_t cpu_gemm_lines_of_rows(int64_t row)
{
    const int64_t lines = row / 64, even = lines & -lines;
    return row % 64 != 0 || even == 0 ? 512 : even > 64 ? 8 : 512 / even;
}

/* The same of AVX2's tiles, as measured on Zen 3 (half a MiB of second-level cache; 920 products both ways, of which the
 * choice costs 0.8 %). Few rows of A read B where it lies (down to 0.75 of the time), others where it stays near, up to
 * 96 of them, or twice as near 48; more pack it. Vectors across two lines cost, and a panel whose rows share few sets of the first-level cache
 * does not stay there from strip to strip (1024x128x384: 0.92 of the time packed). */
static inline bool cpu_gemm_lies_well_avx2(const cpu_product *g, int64_t size)
{
    const int64_t row = g->b_row * size, bytes = g->n * g->k * size;
    const int64_t depth = g->k < CPU_GEMM_KC ? g->k : CPU_GEMM_KC;
    const bool whole = row % 32 == 0;
    if (g->b_col != 1)
        return false;
    if (g->m <= (whole ? CPU_GEMM_REREAD_FEW : CPU_GEMM_REREAD_SPLIT_FEW))
        return bytes <= CPU_GEMM_SECOND_LEVEL;
    const int64_t near = g->m <= CPU_GEMM_REREAD_SOME ? 2 * CPU_GEMM_NEAR_B : CPU_GEMM_NEAR_B;
    return whole ? g->m <= CPU_GEMM_REREAD_NEAR && bytes <= near &&
                       depth <= cpu_gemm_lines_of_rows(row)
                 : g->m <= CPU_GEMM_REREAD_SPLIT && bytes <= CPU_GEMM_NEAR_B_SPLIT;
}

static inline bool cpu_gemm_reads_b(const cpu_product *g, int64_t size, int isa)
{
    return isa == CPU_ISA_AVX512 ? cpu_gemm_lies_well(g, size)
                                 : isa == CPU_ISA_AVX2 && cpu_gemm_lies_well_avx2(g, size);
}

/* Does a strip of a transposed A get packed by the first of its tiles, of `panel` columns? On Intel, and with AVX2, while
 * all operands stay near copying costs more than it saves (0.91 to 0.99 of the time without; Zen 3 0.9 to 1.0). But with AVX2
 * a deep strip whose steps lie across lines fills a first-level cache (packed: 0.8 to 0.9, five panels and more). */
static inline bool cpu_gemm_packs_a(const cpu_product *g, int64_t size, int64_t panel)
{
    if (g->a_row != 1 || g->a_col == 1 || g->n <= panel)
        return false;
    const bool shallow = g->k <= CPU_GEMM_SHALLOW;
    if (cpu_tuned_for(CPU_AVX2) && g->k >= CPU_GEMM_DEEP && g->n > 4 * panel &&
        g->a_col * size % 64 != 0)
        return true;
    const int64_t bytes = (g->m * g->k + g->k * g->n + g->m * g->n) * size;
    const int64_t near = cpu_tuned_for(CPU_INTEL)  ? CPU_GEMM_SECOND_LEVEL
                         : cpu_tuned_for(CPU_AVX2) ? CPU_GEMM_NEAR_ALL
                                                   : 0;
    return near > 0 ? bytes > near / (shallow || g->n <= 2 * panel ? 1 : 2) : !shallow;
}

/* Does a tile fetch its rows of C before it multiplies? Where writing them takes a good part of the time: of shallow
 * products. On Zen 5 where another thread makes other rows, since both cores may be far apart (0.8 to 0.95 of the time
 * then, else 1.0 to 1.02). On Intel where C is no longer in the second-level cache when its turn comes, and vectors of it
 * lie across two lines (0.95 to 0.98 of the time; of smaller ones 1.0 to 1.02, of whole lines 1.02 to 1.07). */
static inline bool cpu_gemm_fetches_c(const cpu_product *g, int64_t size)
{
    if (g->k > CPU_GEMM_FETCHED_DEPTH)
        return false;
    return (cpu_tuned_for(CPU_ZEN5) && g->beside) ||
           (cpu_tuned_for(CPU_INTEL) && g->c_row * size % 64 != 0 &&
            g->m * g->n * size >= CPU_GEMM_SECOND_LEVEL / 2);
}

static inline int64_t cpu_gemm_turned_rows(const cpu_product *g)
{
    return cpu_gemm_even(g->m, CPU_GEMM_TURNED, 16);
}

/* Elements of scratch for a product of these sizes; a packed row is whole vectors of at most 16. */
static inline int64_t cpu_gemm_scratch(int64_t m, int64_t n, int64_t k, bool packs_b)
{
    const int64_t kc = cpu_gemm_even(k, CPU_GEMM_KC, 1), nc = cpu_gemm_columns(n, kc),
                  all = (n + 15) / 16 * 16;
    const int64_t mc = m < CPU_GEMM_STRIP ? m : CPU_GEMM_STRIP;
    return kc * ((packs_b ? (all < nc ? all : nc) : 0) + mc) + 16;
}
/* For any product of at most n columns and depth k. */
static inline int64_t cpu_gemm_scratch_most(int64_t n, int64_t k)
{
    const int64_t whole = k * ((n + CPU_GEMM_ALIGN - 1) / CPU_GEMM_ALIGN * CPU_GEMM_ALIGN);
    const int64_t block = (int64_t)CPU_GEMM_KC * CPU_GEMM_NC;
    return (whole < block ? whole : block) + (k < CPU_GEMM_KC ? k : CPU_GEMM_KC) * CPU_GEMM_STRIP +
           16;
}

/* How a product of half types is cut. */
typedef struct cpu_half_sizes {
    int64_t kc, columns; /* of a packed block of B, in elements of 4 bytes */
    int64_t range;       /* rows of A whose sums wait for the next block of k */
    bool waits;
    int64_t floats; /* of scratch */
} cpu_half_sizes;
enum { CPU_HALF_SUMS = 1 << 17, CPU_HALF_STRIP = CPU_GEMM_WIDE, CPU_HALF_KC = 288 };

static inline cpu_half_sizes cpu_half_sizes_of(int64_t m, int64_t n, int64_t k, int64_t step)
{
    const int64_t deep = (k + step - 1) / step;
    cpu_half_sizes s = { .range = m, .waits = deep > CPU_HALF_KC };
    s.kc = cpu_gemm_even(deep, CPU_HALF_KC, 1);
    s.columns = cpu_gemm_even(n, CPU_GEMM_NC, CPU_GEMM_ALIGN);
    const int64_t most = CPU_HALF_SUMS / (s.columns + 1) / CPU_HALF_STRIP * CPU_HALF_STRIP;
    if (s.waits && m > most)
        s.range = most;
    const int64_t rows = s.waits ? s.range : CPU_HALF_STRIP;
    s.floats = s.kc * (s.columns + CPU_HALF_STRIP) + (rows + 1) * s.columns + 16;
    return s;
}

#endif
