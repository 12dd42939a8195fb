/* The decisions of backend_cpu/gemm_way.h and gemm.h, at the sizes where they change their answer. */
#include "backend_cpu/gemm_way.h"
#include "tests/support/check.h"
#include "tests/support/kernel.h"
#include "tests/support/product.h"
#include "tests/support/sanitizer.h"

/* A decision at its edge, of f32. */
typedef struct edge_case {
    const char *why;
    char op[3];
    int64_t m, k, n;
    int threads;
    bool yes;
} edge_case;

static cpu_product product_of(const edge_case *c)
{
    cpu_product g = { .m = c->m,
                      .k = c->k,
                      .n = c->n,
                      .a_row = c->k,
                      .a_col = 1,
                      .b_row = c->n,
                      .b_col = 1,
                      .c_row = c->n };
    if (c->op[0] == 'T')
        g.a_row = 1, g.a_col = c->m;
    if (c->op[1] == 'T')
        g.b_row = 1, g.b_col = c->k;
    if (c->op[1] == 'b')
        g.bias = c;
    return g;
}

static void expect_edge(const edge_case *c, bool decided)
{
    if (decided != c->yes)
        fail_msg("%s: %lldx%lldx%lld %s, %d threads: %d", c->why, (long long)c->m, (long long)c->k,
                 (long long)c->n, c->op, c->threads, decided);
}

/* clang-format off */
/* What the fitted table of Intel is asked; its own limits are measurements (python/fit_gemm), so these lie far from them. */
static const edge_case intel_cases[] = {
    { "shallow", "NN", 200, 30, 402, 1, false },
    { "deep", "NN", 200, 200, 400, 1, true },
    { "a far B against some rows", "NN", 80, 1000, 1000, 1, false },
    { "a near B against few", "NN", 16, 300, 390, 1, true },
    { "of two threads", "NN", 80, 1000, 1000, 2, false },
    { "a near B", "NN", 80, 500, 60, 2, true },
    { "NT", "NT", 200, 200, 200, 1, true },
    { "of two threads", "NT", 200, 200, 200, 2, true },
    { "TN", "TN", 100, 100, 100, 2, true },
    { "few columns against a transposed A: turned", "TN", 1800, 200, 12, 2, true },
    { "so many", "TN", 1800, 200, 24, 1, true },
    { "more, of the table", "TN", 1800, 200, 27, 1, true },
    { "more than those", "TN", 1800, 200, 28, 1, false },
    { "few rows", "TN", 31, 2000, 11, 1, true },
    { "widths of a network", "TN", 120, 64, 400, 1, true },
    { "A's rows are no half lines", "TN", 121, 64, 400, 1, false },
    { "C's and B's are not", "TN", 120, 64, 401, 1, false },
    { "shallow", "TN", 240, 32, 400, 1, false },
    { "a small batch, a narrow C", "TN", 400, 15, 160, 1, true },
    { "a wider one", "TN", 400, 15, 161, 1, false },
    { "more of a batch", "TN", 60, 20, 801, 1, true },
    { "less", "TN", 60, 19, 801, 1, false },
    { "30 of a batch", "TN", 300, 30, 100, 1, true },
    { "31", "TN", 300, 31, 100, 1, false },
    { "2 MFLOP", "TN", 400, 20, 125, 1, true },
    { "more", "TN", 400, 20, 126, 1, false },
    { "of two threads, 4 MFLOP", "TN", 1000, 20, 100, 2, true },
    { "more", "TN", 1000, 20, 101, 2, false },
    { "dot products along whole lines", "NT", 64, 1024, 10, 1, true },
    { "along others", "NT", 64, 1020, 10, 1, false },
    { "one row", "NT", 1, 1024, 1000, 1, false },
    { "300 million", "TN", 1000, 1200, 249, 1, false },
    { "more", "TN", 1704, 1461, 148, 1, true },
    { "a bias, shallow", "Nb", 200, 30, 400, 1, true },
    { "3 GFLOP", "NT", 100, 15000, 1000, 1, true },
    { "more than was measured", "NT", 100, 15001, 1000, 1, false },
    { "few classes", "NN", 128, 10, 512, 1, true },
    { "32, 6 MFLOP", "NN", 182, 32, 512, 1, true },
    { "more", "NN", 184, 32, 512, 1, false },
    { "33", "NN", 150, 33, 512, 1, false },
    { "C's and B's rows are no half lines", "NN", 182, 32, 514, 1, false },
    { "7 rows: not by the table", "NN", 7, 1000, 1000, 1, true },
    { "8", "NN", 8, 1000, 1000, 1, false },
    { "9 columns", "NN", 500, 200, 9, 1, false },
    { "10", "NN", 500, 200, 10, 1, true },
    { "1 MFLOP: too small for it", "NT", 30, 617, 27, 1, true },
    { "more", "NT", 30, 618, 27, 1, false },
};
/* On Zen 4: limits of small products and of those that the table does not have, and what that is asked. */
static const edge_case zen4_edges[] = {
    { "small: a rest of 8 columns", "NN", 100, 100, 40, 1, false },
    { "of 9", "NN", 100, 100, 41, 1, true },
    { "many columns", "TN", 40, 100, 104, 1, false },
    { "more", "TN", 40, 100, 113, 1, true },
    { "1 MFLOP", "NN", 128, 10, 390, 1, true },
    { "more", "NN", 128, 10, 512, 1, false },
    { "a depth of 33", "NN", 300, 33, 40, 1, false },
    { "of 32", "NN", 300, 32, 40, 1, true },
    { "7 rows", "NN", 7, 1000, 40, 1, true },
    { "8", "NN", 8, 1000, 40, 1, false },
    { "NT of 12 columns", "NT", 300, 130, 12, 1, false },
    { "of 13", "NT", 300, 120, 13, 1, true },
    { "of 16", "NT", 300, 100, 16, 1, true },
    { "of 17", "NT", 300, 90, 17, 1, false },
    { "of 12, a depth of 63", "NT", 300, 63, 12, 1, true },
    { "the table", "NN", 400, 333, 401, 1, false },
    { "NT", "NT", 400, 333, 401, 1, true },
    { "NT of a shallow depth", "NT", 1000, 9, 401, 1, false },
    { "NT, of two threads", "NT", 400, 333, 401, 2, true },
    { "NT, deep, of two threads", "NT", 400, 2000, 401, 2, false },
    { "TN", "TN", 333, 333, 401, 1, false },
    { "TN of two threads", "TN", 200, 50, 117, 2, true },
    { "few rows", "NN", 9, 500, 401, 1, true },
    { "widths of a network", "NN", 400, 328, 400, 1, true },
    { "that end with half a vector", "NN", 400, 328, 40, 1, false },
    { "turned", "NT", 400, 328, 40, 1, true },
    { "a bias, shallow", "Nb", 400, 333, 401, 1, true },
    { "a bias, half a vector", "Nb", 400, 333, 39, 1, false },
    { "a bias, deep", "Nb", 400, 513, 401, 1, false },
    { "3 GFLOP, turned", "NT", 2000, 1250, 600, 1, true },
    { "more than was measured", "NT", 2000, 1251, 600, 1, false },
};
/* On Zen 5: each limit of its table, and what comes before it. */
static const edge_case zen5_edges[] = {
    { "a small B, a rest of 7 columns", "NN", 1000, 66, 39, 1, true },
    { "of 8", "NN", 1000, 66, 40, 1, false },
    { "almost as small", "NN", 1000, 50, 73, 1, false },
    { "not small", "NN", 1000, 58, 63, 1, true },
    { "a near B", "NN", 300, 1242, 401, 1, true },
    { "not near", "NN", 300, 1243, 401, 1, false },
    { "of two threads", "NN", 300, 1935, 401, 2, true },
    { "a far B", "NN", 300, 1936, 401, 2, false },
    { "NT", "NT", 400, 333, 401, 1, true },
    { "NT of two threads", "NT", 400, 333, 401, 2, true },
    { "8 columns", "NT", 500, 200, 8, 1, true },
    { "7: not by the table", "NT", 500, 200, 7, 1, false },
    { "few columns beside a vector", "NN", 60, 500, 33, 1, true },
    { "little work", "NN", 50, 300, 33, 1, false },
    { "TN", "TN", 568, 333, 401, 1, true },
    { "more work", "TN", 569, 333, 401, 1, false },
    { "a depth of 13", "TN", 1000, 13, 99, 1, true },
    { "of 12", "TN", 1000, 12, 99, 1, false },
    { "TN of two threads", "TN", 14, 385, 401, 2, true },
    { "a larger B", "TN", 14, 386, 401, 2, false },
    { "for few rows", "TN", 13, 386, 401, 2, true },
    { "almost a large C", "TN", 848, 42, 401, 2, true },
    { "a large C", "TN", 849, 42, 401, 2, false },
    { "a large C, little work", "TN", 900, 42, 401, 2, false },
    { "more", "TN", 900, 43, 401, 2, true },
    { "almost a large B, few rows", "TN", 21, 581, 401, 2, false },
    { "a large B, few rows", "TN", 21, 582, 401, 2, true },
    { "more", "TN", 22, 600, 401, 2, false },
    { "widths of a network", "TN", 200, 400, 400, 2, true },
    { "others", "TN", 200, 400, 401, 2, false },
    { "3 GFLOP, turned", "NT", 2000, 1250, 600, 1, true },
    { "more than was measured", "NT", 2000, 1251, 600, 1, false },
};
/* Does a strip of a transposed A get packed, of f32 and tiles of 48 columns? */
static const edge_case packing_edges[] = {
    { "all in half of the second level", "TN", 512, 64, 398, 1, false },
    { "in more", "TN", 512, 64, 400, 1, true },
    { "not transposed", "NN", 512, 64, 400, 1, false },
    { "shallow", "TN", 512, 32, 400, 1, false },
    { "shallow, and C is beyond it", "TN", 1024, 32, 512, 1, true },
    { "two panels", "TN", 2048, 128, 96, 1, false },
    { "three", "TN", 2048, 128, 97, 1, true },
    { "two, beyond the second level", "TN", 2048, 256, 96, 1, true },
    { "one", "TN", 4096, 256, 48, 1, false },
};
/* Is B read where it lies, of many rows of A? */
static const edge_case lying_edges[] = {
    { "whole lines", "NN", 600, 48, 624, 1, true },
    { "while a large C passes", "NN", 640, 48, 624, 1, false },
    { "rows that share sets of the first level, few", "NN", 120, 32, 256, 1, true },
    { "more", "NN", 120, 33, 256, 1, false },
};
/* Is a product of two operands that are contiguous along k made by dot products? */
static const edge_case dots_intel_edges[] = {
    { "12 rows that are no whole lines", "NT", 12, 300, 100, 1, true },
    { "more", "NT", 13, 300, 100, 1, false },
    { "half lines", "NT", 13, 504, 100, 1, false },
    { "8 rows of whole lines", "NT", 8, 48, 100, 1, true },
    { "9", "NT", 9, 48, 100, 1, false },
    { "9 columns", "NT", 100, 48, 9, 1, false },
    { "10 rows", "NT", 10, 64, 100, 1, true },
    { "more", "NT", 11, 80, 100, 1, false },
    { "9 columns", "NT", 100, 64, 9, 1, true },
    { "more", "NT", 100, 80, 10, 1, false },
    { "14 rows", "NT", 14, 96, 100, 1, true },
    { "more", "NT", 15, 112, 100, 1, false },
    { "12 columns", "NT", 100, 96, 12, 1, true },
    { "more", "NT", 100, 112, 13, 1, false },
    { "18", "NT", 100, 96, 18, 1, true },
    { "more", "NT", 100, 112, 19, 1, false },
    { "33", "NT", 100, 112, 33, 1, false },
    { "18 rows", "NT", 18, 128, 100, 1, true },
    { "more", "NT", 19, 176, 100, 1, false },
    { "12 columns", "NT", 100, 128, 12, 1, true },
    { "more", "NT", 100, 176, 13, 1, false },
    { "20", "NT", 100, 128, 20, 1, true },
    { "more", "NT", 100, 176, 21, 1, false },
    { "33", "NT", 100, 176, 33, 1, false },
    { "26 rows", "NT", 26, 192, 100, 1, true },
    { "more", "NT", 27, 240, 100, 1, false },
    { "14 columns", "NT", 100, 192, 14, 1, true },
    { "more", "NT", 100, 240, 15, 1, false },
    { "24", "NT", 100, 192, 24, 1, true },
    { "more", "NT", 100, 240, 25, 1, false },
    { "34", "NT", 100, 192, 34, 1, true },
    { "more", "NT", 100, 240, 35, 1, false },
    { "30 rows", "NT", 30, 256, 100, 1, true },
    { "more", "NT", 31, 368, 100, 1, false },
    { "15 columns", "NT", 100, 256, 15, 1, true },
    { "more", "NT", 100, 368, 16, 1, false },
    { "24", "NT", 100, 256, 24, 1, true },
    { "more", "NT", 100, 368, 25, 1, false },
    { "34", "NT", 100, 256, 34, 1, true },
    { "more", "NT", 100, 368, 35, 1, false },
    { "36 rows", "NT", 36, 384, 100, 1, true },
    { "more", "NT", 37, 2048, 100, 1, false },
    { "15 columns", "NT", 100, 384, 15, 1, true },
    { "more", "NT", 100, 2048, 16, 1, false },
    { "26", "NT", 100, 384, 26, 1, true },
    { "more", "NT", 100, 2048, 27, 1, false },
    { "37", "NT", 100, 384, 37, 1, true },
    { "more", "NT", 100, 2048, 38, 1, false },
    { "9, no whole lines", "NT", 100, 300, 9, 1, true },
    { "10", "NT", 100, 300, 10, 1, false },
    { "9, not deep", "NT", 100, 250, 9, 1, false },
    { "9 rows, not deep", "NT", 9, 250, 100, 1, false },
    { "not contiguous along k", "NN", 12, 512, 100, 1, false },
};
static const edge_case dots_zen5_edges[] = {
    { "32 rows, no whole lines", "NT", 32, 300, 100, 1, true },
    { "more", "NT", 33, 300, 100, 1, false },
    { "12 columns", "NT", 100, 300, 12, 1, true },
    { "more, as deep as they get", "NT", 100, 512, 14, 1, false },
    { "20", "NT", 100, 300, 20, 1, true },
    { "more", "NT", 100, 512, 21, 1, false },
};
/* By AVX2, on a CPU that has no more: what is own, what of a transposed A is packed, which B is read where it lies. */
static const edge_case avx2_own_edges[] = {
    { "1.4 MFLOP", "NN", 100, 100, 70, 1, true },
    { "more: the table", "NN", 100, 101, 70, 1, false },
    { "31 columns", "NN", 500, 300, 31, 1, true },
    { "32", "NN", 500, 300, 32, 1, false },
    { "NT of 108 columns", "NT", 200, 333, 108, 1, true },
    { "of 109", "NT", 200, 333, 109, 1, false },
    { "of a small C", "NT", 69, 333, 109, 1, true },
    { "of more", "NT", 70, 333, 109, 1, false },
    { "of a large A", "NT", 345, 333, 109, 1, true },
    { "of less", "NT", 344, 333, 109, 1, false },
    { "TN of 24 columns", "TN", 500, 300, 24, 1, true },
    { "of 25", "TN", 500, 300, 25, 1, false },
    { "two threads: a small B, little work", "NN", 290, 209, 99, 2, true },
    { "more work", "NN", 294, 209, 99, 2, false },
    { "a larger B of few columns", "NN", 300, 404, 54, 2, true },
    { "of more", "NN", 300, 404, 55, 2, false },
    { "NT of 124 columns", "NT", 200, 333, 124, 2, true },
    { "of 125", "NT", 200, 333, 125, 2, false },
    { "of little work", "NT", 26, 333, 125, 2, true },
    { "of more", "NT", 27, 333, 125, 2, false },
    { "a depth of 24", "NT", 500, 24, 333, 2, true },
    { "of 25", "NT", 500, 25, 333, 2, false },
    { "TN of little work", "TN", 103, 100, 100, 2, true },
    { "of more", "TN", 104, 100, 100, 2, false },
    { "of 24 columns", "TN", 500, 333, 24, 2, true },
    { "of 25", "TN", 500, 333, 25, 2, false },
    { "widths of a network", "NT", 64, 784, 128, 1, true },
    { "few rows", "NN", 35, 400, 400, 1, false },
    { "36", "NN", 36, 400, 400, 1, true },
    { "a large B", "NN", 40, 784, 512, 1, false },
    { "a transposed one", "NT", 40, 784, 512, 1, true },
    { "a larger one", "NT", 40, 1048, 512, 1, false },
    { "a bias, shallow", "Nb", 400, 333, 401, 1, true },
    { "a bias, deep", "Nb", 400, 513, 401, 1, false },
    { "a vector", "NN", 1, 700, 900, 1, false },
    { "a vector", "NT", 900, 700, 1, 1, false },
    { "few rows", "NN", 7, 700, 900, 1, false },
    { "few rows, along k", "NT", 7, 700, 900, 1, true },
    { "few columns", "NN", 900, 700, 9, 1, false },
    { "few columns, little", "NN", 90, 700, 9, 1, false },
    { "against a transposed A", "TN", 900, 700, 9, 1, true },
    { "along k", "NT", 900, 700, 9, 1, true },
    { "more than was measured, along k", "NT", 2000, 1256, 600, 1, false },
    { "against B's rows", "NN", 2000, 1256, 600, 1, false },
};
static const edge_case avx2_packing_edges[] = {
    { "all operands near", "TN", 256, 256, 128, 1, false },
    { "not", "TN", 256, 257, 128, 1, true },
    { "shallow", "TN", 800, 32, 200, 1, false },
    { "shallow, and not near", "TN", 1200, 32, 200, 1, true },
    { "not transposed", "NN", 256, 257, 128, 1, false },
    { "deep, and across lines", "TN", 50, 192, 65, 1, true },
    { "not so deep", "TN", 50, 191, 65, 1, false },
    { "in whole lines", "TN", 64, 192, 65, 1, false },
    { "four panels", "TN", 50, 192, 64, 1, false },
};
static const edge_case avx2_lying_edges[] = {
    { "a near B", "NN", 96, 192, 376, 1, true },
    { "not near", "NN", 96, 192, 392, 1, false },
    { "for more rows", "NN", 97, 192, 376, 1, false },
    { "half as near, for fewer", "NN", 48, 192, 760, 1, true },
    { "for more", "NN", 49, 192, 760, 1, false },
    { "not half as near", "NN", 48, 192, 776, 1, false },
    { "rows that share sets", "NN", 96, 64, 384, 1, true },
    { "more of them", "NN", 96, 65, 384, 1, false },
    { "rows 1 KiB apart", "NN", 96, 32, 256, 1, true },
    { "more of them", "NN", 96, 33, 256, 1, false },
    { "a panel of rows that share 32 sets", "NN", 96, 257, 160, 1, true },
    { "rows that begin inside a vector", "NN", 32, 60, 250, 1, true },
    { "more rows of A", "NN", 33, 60, 250, 1, false },
    { "few rows of A, not near", "NN", 24, 256, 2000, 1, true },
    { "more of them", "NN", 25, 256, 2000, 1, false },
    { "beyond a second level", "NN", 24, 264, 2000, 1, false },
    { "few, that share sets", "NN", 24, 256, 512, 1, true },
    { "few, that begin inside a vector", "NN", 18, 100, 777, 1, true },
    { "more of those", "NN", 19, 100, 777, 1, false },
    { "turned", "NT", 16, 60, 248, 1, false },
};
/* Against a transposed B: is A what is turned? */
static const edge_case avx2_turning_edges[] = {
    { "few rows", "NT", 24, 80, 400, 1, true },
    { "shallow", "NT", 24, 79, 400, 1, false },
    { "lanes that are idle", "NT", 22, 80, 400, 1, true },
    { "more of them", "NT", 21, 80, 400, 1, false },
    { "a vector", "NT", 8, 80, 400, 1, true },
    { "less", "NT", 7, 80, 400, 1, false },
    { "64 rows", "NT", 64, 128, 400, 1, true },
    { "64 shallow ones", "NT", 64, 127, 400, 1, false },
    { "half a pair of vectors", "NT", 56, 128, 400, 1, false },
    { "more rows", "NT", 80, 128, 400, 1, false },
    { "not many fewer than columns", "NT", 64, 128, 96, 1, true },
    { "not enough", "NT", 64, 128, 95, 1, false },
    { "C is half of a second level", "NT", 64, 128, 1024, 1, true },
    { "more", "NT", 64, 128, 1025, 1, false },
    { "not transposed", "NN", 24, 80, 400, 1, false },
    { "a transposed A", "TN", 24, 80, 400, 1, false },
};
/* clang-format on */

typedef struct edge_table {
    int isa, tuning;
    bool (*decide)(const cpu_product *g, int threads);
    const edge_case *edges;
    size_t count;
} edge_table;

static bool own_is_best(const cpu_product *g, int threads)
{
    return cpu_product_own_is_best(TERN_F32, g, threads);
}

static bool packs_a(const cpu_product *g, int threads)
{
    (void)threads;
    return cpu_gemm_packs_a(g, sizeof(float), cpu_isa() == CPU_ISA_AVX512 ? 48 : 16);
}

static bool turns(const cpu_product *g, int threads)
{
    (void)threads;
    return cpu_product_turns(TERN_F32, g);
}

static bool reads_b(const cpu_product *g, int threads)
{
    (void)threads;
    return cpu_gemm_reads_b(g, sizeof(float), cpu_isa());
}

static bool makes_dots(const cpu_product *g, int threads)
{
    (void)threads;
    return cpu_product_prefers_dots(g);
}

#define EDGES(edges) edges, sizeof(edges) / sizeof(edges)[0]
static const edge_table tables[] = {
    { CPU_ISA_AVX512, CPU_INTEL, own_is_best, EDGES(intel_cases) },
    { CPU_ISA_AVX512, CPU_ZEN4, own_is_best, EDGES(zen4_edges) },
    { CPU_ISA_AVX512, CPU_ZEN5, own_is_best, EDGES(zen5_edges) },
    { CPU_ISA_AVX512, CPU_INTEL, packs_a, EDGES(packing_edges) },
    { CPU_ISA_AVX512, CPU_INTEL, reads_b, EDGES(lying_edges) },
    { CPU_ISA_AVX512, CPU_INTEL, makes_dots, EDGES(dots_intel_edges) },
    { CPU_ISA_AVX512, CPU_ZEN5, makes_dots, EDGES(dots_zen5_edges) },
    { CPU_ISA_AVX2, CPU_AVX2, own_is_best, EDGES(avx2_own_edges) },
    { CPU_ISA_AVX2, CPU_AVX2, packs_a, EDGES(avx2_packing_edges) },
    { CPU_ISA_AVX2, CPU_AVX2, reads_b, EDGES(avx2_lying_edges) },
    { CPU_ISA_AVX2, CPU_AVX2, turns, EDGES(avx2_turning_edges) },
};

/* They are made from sizes, the instruction set and the tuning alone, so that a CPU can try those of all tunings and of
 * each instruction set that it has. */
static void decisions(void *context)
{
    (void)context;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (size_t i = 0;
             cpu_tuned_for(tables[t].tuning) && cpu_isa() == tables[t].isa && i < tables[t].count;
             i++) {
            const edge_case *e = &tables[t].edges[i];
            const cpu_product g = product_of(e);
            expect_edge(e, tables[t].decide(&g, e->threads));
        }
}

static void decisions_of_each_tuning(void *context)
{
    kernel_each_tuning(decisions, context);
}

static void test_a_cpu_without_avx512_has_that_tuning(void **state)
{
    (void)state;
    if (getenv("TERN_CPU_TUNING") != NULL || getenv("TERN_CPU_ISA") != NULL) {
        print_message("skipped: a variable says what the CPU shall be\n");
        skip();
    }
    assert_int_equal(cpu_tuning() == CPU_AVX2, cpu_isa() != CPU_ISA_AVX512);
}

/* The layers of the networks whose start bench_start measures: oneDNN's first product takes 40 to 60 ms (Intel), of 30
 * that a process may take to the end of its first step. On Zen 4 some are OpenBLAS's, which opens in 5. */
static const struct {
    int64_t batch, in, out;
    bool is_first; /* nobody wants the gradient of its input */
} layers[] = {
    { 64, 784, 128, true },   { 64, 128, 10, false },  { 128, 784, 512, true },
    { 128, 512, 512, false }, { 128, 512, 10, false }, { 64, 400, 120, false },
    { 64, 120, 84, false },   { 64, 84, 10, false },
};

static void small_networks(void *context)
{
    (void)context;
    if (cpu_tuned_for(CPU_ZEN4) || cpu_isa() == CPU_ISA_BASE ||
        (cpu_isa() == CPU_ISA_AVX2 && !cpu_tuned_for(CPU_AVX2)))
        return;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        for (int threads = 1; threads <= 2; threads++) {
            const int64_t batch = layers[i].batch, in = layers[i].in, out = layers[i].out;
            const edge_case products[] = {
                { "forward", "NT", batch, in, out, threads, true },
                { "gradient of the weight", "TN", out, batch, in, threads, true },
                { "gradient of the input", "NN", batch, out, in, threads, true },
            };
            for (size_t k = 0; k < sizeof products / sizeof *products - layers[i].is_first; k++) {
                cpu_product g = product_of(&products[k]);
                g.bias = k == 0 ? products : NULL;
                expect_edge(&products[k], own_is_best(&g, threads));
            }
        }
}

static void small_networks_of_each_tuning(void *context)
{
    kernel_each_tuning(small_networks, context);
}

static void test_small_networks_wait_for_no_library(void **state)
{
    (void)state;
    kernel_each_isa(small_networks_of_each_tuning, NULL);
}

static void test_decisions_at_their_edges(void **state)
{
    (void)state;
    if (cpu_isa() != CPU_ISA_AVX512)
        print_message("without AVX-512: its decisions are left out\n");
    kernel_each_isa(decisions_of_each_tuning, NULL);
}

/* The products on both sides of the edges are right, whoever makes them. */
static void edge_products(void *context)
{
    (void)context;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (size_t i = 0; i < tables[t].count; i++) {
            const edge_case *e = &tables[t].edges[i];
            const int64_t most = RUNS_ARE_SHORT ? 1000000 : 8000000; /* by double loops */
            if (e->m * e->k * e->n <= most)
                product_check(&(product_case){
                    TERN_F32, .m = e->m, .k = e->k, .n = e->n, .threads = e->threads,
                    .a_layout = e->op[0] == 'T' ? KARRAY_SWAPPED : KARRAY_ROW_MAJOR,
                    .b_layout = e->op[1] == 'T' ? KARRAY_SWAPPED : KARRAY_ROW_MAJOR });
        }
}

static void test_products_at_those_edges(void **state)
{
    (void)state;
    kernel_each_isa(edge_products, NULL);
    kernel_each_tuning(edge_products, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decisions_at_their_edges),
        cmocka_unit_test(test_a_cpu_without_avx512_has_that_tuning),
        cmocka_unit_test(test_small_networks_wait_for_no_library),
        cmocka_unit_test(test_products_at_those_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
