/* Where a matrix product runs and how it is cut for threads: the rules of backend_cpu/bridge/gemm_routes.def
 * and of gemm_route.c, at the sizes where they change their answer. The bridge exports one function only,
 * so its file is compiled here, as for a bridge with both libraries. */
#include "backend_cpu/bridge/gemm_route.c"
#include "tests/support/between.h"
#include "tests/support/check.h"

bridge_setup bridge_state = { .tuning = CPU_ZEN5 };

typedef struct route_case {
    const char *why;
    char op[3];
    int64_t m, k, n;
    int threads;
    gemm_way way;
    int64_t block_m, block_n; /* 0: not cut */
} route_case;

/* clang-format off */
static const route_case cases[] = {
    /* ways: no case is cut */
    { "a vector by a matrix of 2^17", "NN", 1, 256, 512, 1, GEMM_OPENBLAS, 0, 0 },
    { "a vector by more", "NN", 1, 257, 512, 1, GEMM_ONEDNN, 0, 0 },
    { "a matrix of 2^17 by a vector", "NN", 512, 256, 1, 1, GEMM_OPENBLAS, 0, 0 },
    { "of more", "NN", 512, 257, 1, 1, GEMM_ONEDNN, 0, 0 },
    { "m n k = 10^6", "NN", 100, 100, 100, 1, GEMM_OPENBLAS, 0, 0 },
    { "more", "NN", 100, 101, 100, 1, GEMM_ONEDNN, 0, 0 },
    { "NN of 8 columns", "NN", 1000, 800, 8, 1, GEMM_TILES, 0, 0 },
    { "of 9", "NN", 1000, 800, 9, 1, GEMM_ONEDNN, 0, 0 },
    { "NN of 10 columns, m n k = 300150", "NN", 345, 87, 10, 1, GEMM_ONEDNN, 0, 0 },
    { "300000", "NN", 300, 100, 10, 1, GEMM_OPENBLAS, 0, 0 },
    { "NN of 9 columns", "NN", 500, 100, 9, 1, GEMM_ONEDNN, 0, 0 },
    { "of 8, small", "NN", 500, 100, 8, 1, GEMM_OPENBLAS, 0, 0 },
    { "of 16", "NN", 500, 100, 16, 1, GEMM_ONEDNN, 0, 0 },
    { "of 17", "NN", 500, 100, 17, 1, GEMM_OPENBLAS, 0, 0 },
    { "of 16, depth 56", "NN", 500, 56, 16, 1, GEMM_ONEDNN, 0, 0 },
    { "depth 55", "NN", 500, 55, 16, 1, GEMM_OPENBLAS, 0, 0 },
    { "NN of 21 columns, shallow", "NN", 300, 63, 21, 1, GEMM_ONEDNN, 0, 0 },
    { "of 20", "NN", 300, 63, 20, 1, GEMM_OPENBLAS, 0, 0 },
    { "of 21, deeper", "NN", 150, 64, 21, 1, GEMM_OPENBLAS, 0, 0 },
    { "TN of 21 columns, shallow", "TN", 300, 63, 21, 1, GEMM_ONEDNN, 0, 0 },
    { "large TN of 21 columns", "TN", 1000, 128, 21, 1, GEMM_ONEDNN, 0, 0 },
    { "of 20", "TN", 1000, 128, 20, 1, GEMM_TILES, 0, 0 },
    { "TN of 11 columns", "TN", 500, 500, 11, 1, GEMM_ONEDNN, 0, 0 },
    { "of 10", "TN", 500, 500, 10, 1, GEMM_TILES, 0, 0 },
    { "TN of 15 columns, small", "TN", 500, 100, 15, 1, GEMM_ONEDNN, 0, 0 },
    { "of 16", "TN", 500, 100, 16, 1, GEMM_OPENBLAS, 0, 0 },
    { "shallow", "NN", 500, 32, 60, 1, GEMM_ONEDNN, 0, 0 },
    { "deeper", "NN", 500, 33, 60, 1, GEMM_OPENBLAS, 0, 0 },
    { "shallow TN", "TN", 512, 10, 65, 1, GEMM_ONEDNN, 0, 0 },
    { "whose C is small", "TN", 512, 10, 64, 1, GEMM_OPENBLAS, 0, 0 },
    { "shallower", "TN", 500, 9, 60, 1, GEMM_OPENBLAS, 0, 0 },
    { "shallow, 31 columns but not narrow", "TT", 500, 32, 31, 1, GEMM_OPENBLAS, 0, 0 },
    { "NT of few columns", "NT", 128, 512, 10, 1, GEMM_TILES, 0, 0 },
    { "NT of 13 columns", "NT", 128, 64, 13, 1, GEMM_ONEDNN, 0, 0 },
    { "of 12", "NT", 128, 64, 12, 1, GEMM_TILES, 0, 0 },
    { "of 13, one small call", "NT", 92, 64, 13, 1, GEMM_TILES, 0, 0 },
    { "NT of 9 columns, depth 63", "NT", 200, 63, 9, 1, GEMM_ONEDNN, 0, 0 },
    { "of 8", "NT", 200, 63, 8, 1, GEMM_TILES, 0, 0 },
    { "of 9, deeper", "NT", 200, 64, 9, 1, GEMM_TILES, 0, 0 },
    { "NT of depth 31, m n = 1000", "NT", 20, 31, 50, 1, GEMM_OPENBLAS, 0, 0 },
    { "m n = 1020", "NT", 20, 31, 51, 1, GEMM_ONEDNN, 0, 0 },
    { "NT of depth 32", "NT", 40, 32, 50, 1, GEMM_ONEDNN, 0, 0 },
    { "of 33", "NT", 40, 33, 50, 1, GEMM_TILES, 0, 0 },
    { "large NT of depth 96", "NT", 102, 96, 100, 1, GEMM_TILES, 0, 0 },
    { "of 95", "NT", 102, 95, 100, 1, GEMM_ONEDNN, 0, 0 },
    { "larger NT of depth 193", "NT", 200, 193, 200, 1, GEMM_TILES, 0, 0 },
    { "of 192", "NT", 200, 192, 200, 1, GEMM_ONEDNN, 0, 0 },
    /* grids: the largest block as small as it can be, rows cut by 4, columns by 16 */
    { "half a million operations are cut", "NN", 128, 64, 32, 2, GEMM_OPENBLAS, 64, 32 },
    { "less is not", "NN", 120, 64, 32, 2, GEMM_OPENBLAS, 0, 0 },
    { "111 columns would be cut 64 to 47", "NN", 1600, 226, 111, 2, GEMM_ONEDNN, 800, 111 },
    { "10 rows would be cut 8 to 2", "NN", 10, 300, 1600, 2, GEMM_ONEDNN, 10, 800 },
    { "half of 98 rows is 49", "TN", 98, 917, 23, 2, GEMM_ONEDNN, 52, 23 },
    { "a quarter each way", "NN", 512, 512, 512, 4, GEMM_ONEDNN, 256, 256 },
    /* OpenBLAS reads a transposed A in vectors: rows are cut by 16, which 100 + 100 are not */
    { "112 and 88 rows", "TN", 200, 128, 20, 2, GEMM_OPENBLAS, 112, 20 },
    { "columns are even", "TN", 100, 300, 64, 2, GEMM_OPENBLAS, 100, 32 },
    { "not where lines of 761 rows would move", "NN", 761, 11, 350, 2, GEMM_ONEDNN, 384, 350 },
    { "350 rows would be even in columns, but their lines would move", "NN", 350, 11, 352, 2, GEMM_ONEDNN, 176, 352 },
    { "which is little of a deep product", "NN", 350, 2200, 352, 2, GEMM_ONEDNN, 350, 176 },
    { "not transposed", "NN", 200, 128, 64, 2, GEMM_OPENBLAS, 100, 64 },
};
/* Where half a vector takes half the time. The fitted rows' own limits are measurements (python/fit_gemm), so these lie
 * far from them. */
static const route_case zen4_cases[] = {
    { "NN of 17 columns", "NN", 300, 500, 17, 1, GEMM_TILES, 0, 0 },
    { "a rest of 8, many columns", "TN", 300, 500, 104, 1, GEMM_TILES, 0, 0 },
    { "more", "TN", 300, 500, 113, 1, GEMM_ONEDNN, 0, 0 },
    { "9 columns", "TN", 300, 500, 9, 1, GEMM_TILES, 0, 0 },
    { "16", "NN", 300, 500, 16, 1, GEMM_TILES, 0, 0 },
    { "NT of 12 columns", "NT", 1200, 100, 12, 1, GEMM_TILES, 0, 0 },
    { "of 13", "NT", 1200, 100, 13, 1, GEMM_ONEDNN, 0, 0 },
    { "of 17", "NT", 1200, 100, 17, 1, GEMM_TILES, 0, 0 },
    { "NT of 9 columns, depth 64", "NT", 1200, 64, 9, 1, GEMM_TILES, 0, 0 },
    { "63", "NT", 1200, 63, 9, 1, GEMM_ONEDNN, 0, 0 },
    { "8 rows", "TN", 8, 8000, 40, 1, GEMM_TILES, 0, 0 },
    { "7", "TN", 7, 8000, 40, 1, GEMM_ONEDNN, 0, 0 },
    { "a vector by a matrix of 2^17", "NN", 1, 256, 512, 1, GEMM_OPENBLAS, 0, 0 },
    { "a vector by more", "NN", 1, 257, 512, 1, GEMM_ONEDNN, 0, 0 },
    { "NN of 8 columns", "NN", 1000, 800, 8, 1, GEMM_TILES, 0, 0 },
    { "of 8, small", "NN", 500, 100, 8, 1, GEMM_OPENBLAS, 0, 0 },
    { "shallow and small", "NN", 300, 20, 60, 1, GEMM_OPENBLAS, 0, 0 },
    { "shallow", "NN", 300, 60, 300, 1, GEMM_TILES, 0, 0 },
    { "of few rows", "NN", 20, 60, 1000, 1, GEMM_ONEDNN, 0, 0 },
    { "deep", "NN", 300, 600, 300, 1, GEMM_ONEDNN, 0, 0 },
    { "shallow TN", "TN", 1000, 20, 300, 1, GEMM_TILES, 0, 0 },
    { "deep", "TN", 300, 600, 300, 1, GEMM_ONEDNN, 0, 0 },
    { "NT whose C is small", "NT", 100, 500, 100, 1, GEMM_TILES, 0, 0 },
    { "shallow NT", "NT", 300, 60, 300, 1, GEMM_ONEDNN, 0, 0 },
    { "small NT of depth 33", "NT", 40, 33, 50, 1, GEMM_TILES, 0, 0 },
    { "of 32", "NT", 40, 32, 50, 1, GEMM_ONEDNN, 0, 0 },
    { "both transposed", "TT", 100, 60, 100, 1, GEMM_ONEDNN, 0, 0 },
};
/* Where oneDNN is nearly always the faster. The fitted rows' own limits lie far from these, too. */
static const route_case intel_cases[] = {
    { "a vector by a matrix of 2^17", "NN", 1, 256, 512, 1, GEMM_OPENBLAS, 0, 0 },
    { "a vector by more", "NN", 1, 257, 512, 1, GEMM_ONEDNN, 0, 0 },
    { "a matrix of 2^17 by a vector", "NN", 512, 256, 1, 1, GEMM_OPENBLAS, 0, 0 },
    { "of more", "NN", 512, 257, 1, 1, GEMM_ONEDNN, 0, 0 },
    { "NN of 8 columns", "NN", 1000, 126, 8, 1, GEMM_TILES, 0, 0 },
    { "of 8, small", "NN", 1000, 125, 8, 1, GEMM_OPENBLAS, 0, 0 },
    { "of 9", "NN", 1000, 100, 9, 1, GEMM_ONEDNN, 0, 0 },
    { "of 16", "NN", 500, 100, 16, 1, GEMM_ONEDNN, 0, 0 },
    { "of 17", "NN", 500, 100, 17, 1, GEMM_OPENBLAS, 0, 0 },
    { "of 17, not small", "NN", 500, 200, 17, 1, GEMM_ONEDNN, 0, 0 },
    { "of 18", "NN", 500, 100, 18, 1, GEMM_OPENBLAS, 0, 0 },
    { "of 19", "NN", 500, 100, 19, 1, GEMM_ONEDNN, 0, 0 },
    { "of 33", "NN", 500, 60, 33, 1, GEMM_OPENBLAS, 0, 0 },
    { "of 34", "NN", 500, 50, 34, 1, GEMM_OPENBLAS, 0, 0 },
    { "of 35", "NN", 500, 50, 35, 1, GEMM_ONEDNN, 0, 0 },
    { "TN of 10 columns", "TN", 1000, 101, 10, 1, GEMM_TILES, 0, 0 },
    { "of 10, small", "TN", 1000, 100, 10, 1, GEMM_OPENBLAS, 0, 0 },
    { "of 11", "TN", 1000, 101, 11, 1, GEMM_ONEDNN, 0, 0 },
    { "of 20, small", "TN", 200, 250, 20, 1, GEMM_OPENBLAS, 0, 0 },
    { "of 21, small and deep", "TN", 190, 250, 21, 1, GEMM_ONEDNN, 0, 0 },
    { "TN whose C is small", "TN", 75, 66, 200, 1, GEMM_OPENBLAS, 0, 0 },
    { "larger", "TN", 76, 65, 200, 1, GEMM_ONEDNN, 0, 0 },
    { "deeper", "TN", 58, 171, 100, 1, GEMM_ONEDNN, 0, 0 },
    { "less deep", "TN", 58, 170, 100, 1, GEMM_OPENBLAS, 0, 0 },
    { "shallow TN", "TN", 100, 30, 300, 1, GEMM_OPENBLAS, 0, 0 },
    { "deeper", "TN", 100, 31, 300, 1, GEMM_ONEDNN, 0, 0 },
    { "NT of 8 columns", "NT", 2000, 33, 8, 1, GEMM_TILES, 0, 0 },
    { "shallow", "NT", 2000, 32, 8, 1, GEMM_ONEDNN, 0, 0 },
    { "of 9", "NT", 2000, 33, 9, 1, GEMM_ONEDNN, 0, 0 },
    { "NT whose C is small", "NT", 30, 1000, 30, 1, GEMM_OPENBLAS, 0, 0 },
    { "deep", "NT", 30, 1200, 30, 1, GEMM_TILES, 0, 0 },
    { "larger", "NT", 60, 1000, 60, 1, GEMM_ONEDNN, 0, 0 },
    { "NT of few rows", "NT", 10, 1000, 300, 1, GEMM_TILES, 0, 0 },
    { "shallow", "NT", 10, 60, 3000, 1, GEMM_ONEDNN, 0, 0 },
    { "small", "NN", 100, 100, 100, 1, GEMM_ONEDNN, 0, 0 },
    { "large", "TN", 1000, 1000, 1000, 1, GEMM_ONEDNN, 0, 0 },
    { "both transposed", "TT", 100, 60, 100, 1, GEMM_ONEDNN, 0, 0 },
};
/* clang-format on */

/* Without AVX-512 oneDNN is the faster, but where rows that are not read along k lie a multiple of 1 KiB apart, of a
 * transposed A of 512 bytes. */
static const route_case avx2_cases[] = {
    { "B's rows 1 KiB apart", "NN", 128, 200, 256, 1, GEMM_OPENBLAS, 0, 0 },
    { "a little more", "NN", 128, 200, 257, 1, GEMM_ONEDNN, 0, 0 },
    { "512 bytes", "NN", 128, 200, 128, 1, GEMM_ONEDNN, 0, 0 },
    { "B is read along k", "NT", 128, 256, 200, 1, GEMM_ONEDNN, 0, 0 },
    { "24 rows", "NN", 24, 800, 1024, 1, GEMM_OPENBLAS, 0, 0 },
    { "fewer", "NN", 23, 800, 1024, 1, GEMM_ONEDNN, 0, 0 },
    { "a transposed A's 512 bytes apart", "TN", 128, 200, 200, 1, GEMM_OPENBLAS, 0, 0 },
    { "256 bytes", "TN", 64, 200, 200, 1, GEMM_ONEDNN, 0, 0 },
    { "A is read along k", "NN", 200, 128, 200, 1, GEMM_ONEDNN, 0, 0 },
    { "both transposed", "TT", 128, 200, 256, 1, GEMM_OPENBLAS, 0, 0 },
    { "m n k = 2^18", "NN", 64, 64, 64, 1, GEMM_OPENBLAS, 0, 0 },
    { "more", "NN", 64, 65, 64, 1, GEMM_ONEDNN, 0, 0 },
    { "a vector by a matrix", "NN", 1, 513, 513, 1, GEMM_ONEDNN, 0, 0 },
    /* grids: lines of C that move cost nothing, and what is transposed costs more to pack */
    { "columns, though 137 rows of each are written by both", "TN", 137, 9, 1130, 2, GEMM_ONEDNN,
      137, 576 },
    { "a transposed B of 1771 rows is packed once", "NT", 101, 15, 1771, 2, GEMM_ONEDNN, 101, 896 },
    { "21 rows are made as 24, cut or not", "NN", 21, 600, 78, 2, GEMM_ONEDNN, 12, 78 },
    { "a transposed A", "TN", 340, 860, 68, 2, GEMM_ONEDNN, 172, 68 },
    { "all of a transposed A costs more to pack than twice of B", "TN", 160, 100, 320, 2,
      GEMM_ONEDNN, 80, 320 },
    { "48 of 81 columns or 52 of 104 rows", "NN", 104, 300, 81, 2, GEMM_ONEDNN, 52, 81 },
    { "deep NN", "NN", 30, 809, 39, 2, GEMM_ONEDNN, 16, 39 },
    { "B's rows 1.1 KiB apart", "NN", 128, 200, 288, 2, GEMM_ONEDNN, 128, 144 },
    { "1 KiB: OpenBLAS's rows", "NN", 128, 200, 256, 2, GEMM_OPENBLAS, 64, 256 },
};

static gemm_plan plan_of(const route_case *c, cpu_blas_dtype dtype)
{
    const cpu_gemm_call call = { .dtype = dtype,
                                 .trans_a = c->op[0] == 'T',
                                 .trans_b = c->op[1] == 'T',
                                 .m = c->m,
                                 .n = c->n,
                                 .k = c->k,
                                 .lda = c->op[0] == 'T' ? c->m : c->k,
                                 .ldb = c->op[1] == 'T' ? c->k : c->n,
                                 .threads = c->threads };
    return gemm_plan_for(&call);
}

static void expect_plans(int tuning, const route_case *wanted, size_t count)
{
    bridge_state.tuning = tuning;
    for (size_t i = 0; i < count; i++) {
        const route_case *c = &wanted[i];
        const gemm_plan plan = plan_of(c, CPU_BLAS_F32);
        const int64_t block_m = c->block_m > 0 ? c->block_m : c->m;
        const int64_t block_n = c->block_n > 0 ? c->block_n : c->n;
        if (plan.way != c->way || plan.block_m != block_m || plan.block_n != block_n)
            fail_msg("tuning %d, case %zu (%s): way %d, blocks of %lld x %lld", tuning, i, c->why,
                     (int)plan.way, (long long)plan.block_m, (long long)plan.block_n);
        assert_true(plan.grid_m * plan.block_m >= c->m && plan.grid_n * plan.block_n >= c->n);
        assert_int_equal(plan.parts, plan.grid_m * plan.grid_n);
    }
    assert_int_equal(plan_of(&wanted[0], CPU_BLAS_F64).way, GEMM_OPENBLAS);
    bridge_state.tuning = CPU_ZEN5;
}

static void test_each_rule_at_its_edge(void **state)
{
    (void)state;
    expect_plans(CPU_ZEN5, cases, sizeof cases / sizeof *cases);
}

static void expect_small_calls(const route_case *c)
{
    const gemm_plan plan = plan_of(c, CPU_BLAS_F32);
    assert_int_equal(plan.way, GEMM_TILES);
    assert_between(plan.tile_m * plan.tile_n * plan.tile_k, 1, 1000000);
    assert_between(plan.tile_k, 1, 512);
    if (strcmp(c->op, "NT") == 0)
        assert_between(plan.tile_m * plan.tile_n, 1, 1200);
}

/* A call of a tile is one that OpenBLAS makes without packing, and no deeper than pays; also of products that no
 * table makes so, wide and deep ones among them. */
static void test_tiles_are_small_calls(void **state)
{
    (void)state;
    static const route_case wide = { "wide", "NN", 100, 124, 5000, 1, GEMM_TILES, 0, 0 },
                            deep = { "deep", "TN", 9, 5000, 2048, 1, GEMM_TILES, 0, 0 };
    bridge_state.forced = GEMM_TILES;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_small_calls(&cases[i]);
    expect_small_calls(&wide);
    expect_small_calls(&deep);
    bridge_state.forced = GEMM_NONE;
}

/* For measurements: blocks of f32, and of nothing else. */
static void test_a_way_can_be_forced(void **state)
{
    (void)state;
    static const gemm_way ways[] = { GEMM_OPENBLAS, GEMM_ONEDNN, GEMM_TILES };
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            bridge_state.forced = ways[w];
            assert_int_equal(plan_of(&cases[i], CPU_BLAS_F32).way, ways[w]);
            assert_int_equal(plan_of(&cases[i], CPU_BLAS_F64).way, GEMM_OPENBLAS);
        }
    bridge_state.forced = GEMM_NONE;
}

/* What a caller asks for goes before the tables, and after what is forced. */
static void test_a_caller_chooses_maker_and_cut(void **state)
{
    (void)state;
    static const gemm_way ways[CPU_BLAS_MAKERS] = { [CPU_BLAS_OPENBLAS] = GEMM_OPENBLAS,
                                                    [CPU_BLAS_ONEDNN] = GEMM_ONEDNN,
                                                    [CPU_BLAS_TILES] = GEMM_TILES };
    cpu_gemm_call call = { .dtype = CPU_BLAS_F32, .m = 1000, .n = 1000, .k = 1000, .threads = 4 };
    const gemm_plan planned = gemm_plan_for(&call);
    for (int maker = CPU_BLAS_OPENBLAS; maker < CPU_BLAS_MAKERS; maker++) {
        call.maker = (cpu_blas_maker)maker;
        call.cut = CPU_BLAS_ROWS;
        assert_int_equal(gemm_plan_for(&call).way, ways[maker]);
        assert_int_equal(gemm_plan_for(&call).grid_m, 4);
        assert_int_equal(gemm_plan_for(&call).grid_n, 1);
        call.cut = CPU_BLAS_COLUMNS;
        assert_int_equal(gemm_plan_for(&call).grid_m, 1);
        assert_int_equal(gemm_plan_for(&call).grid_n, 4);
        call.cut = CPU_BLAS_AS_PLANNED;
        assert_int_equal(gemm_plan_for(&call).grid_m, planned.grid_m);
        assert_int_equal(gemm_plan_for(&call).grid_n, planned.grid_n);
    }
    bridge_state.forced = GEMM_OPENBLAS;
    assert_int_equal(gemm_plan_for(&call).way, GEMM_OPENBLAS);
    bridge_state.forced = GEMM_NONE;
}

/* A team of which one waits for the other's larger block takes the machine for crowded (crowd.h), and every product of the
 * caller then has one thread for a while. */
static void test_a_cut_that_would_be_uneven_is_none(void **state)
{
    (void)state;
    static const struct {
        int trans_a;
        cpu_blas_cut cut;
        int64_t m, n, parts;
    } given[] = { { 0, CPU_BLAS_COLUMNS, 1723, 34, 1 }, { 0, CPU_BLAS_COLUMNS, 1723, 47, 1 },
                  { 0, CPU_BLAS_COLUMNS, 1723, 48, 2 }, { 0, CPU_BLAS_COLUMNS, 1723, 16, 1 },
                  { 1, CPU_BLAS_ROWS, 38, 1990, 1 },    { 1, CPU_BLAS_ROWS, 48, 1990, 2 },
                  { 0, CPU_BLAS_ROWS, 38, 1990, 2 },    { 0, CPU_BLAS_AS_PLANNED, 4, 34, 2 } };
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        const cpu_gemm_call call = { .dtype = CPU_BLAS_F32,
                                     .trans_a = given[i].trans_a,
                                     .maker = CPU_BLAS_OPENBLAS,
                                     .cut = given[i].cut,
                                     .threads = 2,
                                     .m = given[i].m,
                                     .n = given[i].n,
                                     .k = 4000 };
        const gemm_plan plan = gemm_plan_for(&call);
        assert_int_equal(plan.parts, given[i].parts);
        assert_true(plan.parts > 1 || (plan.block_m == call.m && plan.block_n == call.n));
    }
}

/* Parts of a product lie as far apart as its whole rows. */
static void test_parts_crowd_a_cache_as_well(void **state)
{
    (void)state;
    const route_case even = { "", "NN", 512, 512, 1024, 2, GEMM_OPENBLAS, 0, 0 };
    const route_case odd = { "", "NN", 512, 512, 1040, 2, GEMM_ONEDNN, 0, 0 };
    bridge_state.tuning = CPU_AVX2;
    assert_int_equal(plan_of(&even, CPU_BLAS_F32).way, GEMM_OPENBLAS);
    assert_int_equal(plan_of(&even, CPU_BLAS_F32).parts, 2);
    assert_int_equal(plan_of(&odd, CPU_BLAS_F32).way, GEMM_ONEDNN);
    bridge_state.tuning = CPU_ZEN5;
}

static void test_some_dtypes_have_one_way(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(plan_of(&cases[i], CPU_BLAS_F64).way, GEMM_OPENBLAS);
        assert_int_equal(plan_of(&cases[i], CPU_BLAS_BF16).way, GEMM_MATMUL);
        assert_int_equal(plan_of(&cases[i], CPU_BLAS_F16).way, GEMM_MATMUL);
    }
}

/* With other kernels than those that the table was measured with: one limit. */
static void test_without_the_table(void **state)
{
    (void)state;
    const route_case c = { "", "NT", 100, 32, 10, 1, GEMM_OPENBLAS, 0, 0 };
    bridge_state.openblas_most = 32000;
    assert_int_equal(plan_of(&c, CPU_BLAS_F32).way, GEMM_OPENBLAS);
    bridge_state.openblas_most = 31999;
    assert_int_equal(plan_of(&c, CPU_BLAS_F32).way, GEMM_ONEDNN);
    bridge_state.openblas_most = 0;
}

static void test_plans_of_other_cpus(void **state)
{
    (void)state;
    expect_plans(CPU_ZEN4, zen4_cases, sizeof zen4_cases / sizeof *zen4_cases);
    expect_plans(CPU_INTEL, intel_cases, sizeof intel_cases / sizeof *intel_cases);
    expect_plans(CPU_AVX2, avx2_cases, sizeof avx2_cases / sizeof *avx2_cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_rule_at_its_edge),
        cmocka_unit_test(test_plans_of_other_cpus),
        cmocka_unit_test(test_tiles_are_small_calls),
        cmocka_unit_test(test_a_way_can_be_forced),
        cmocka_unit_test(test_a_caller_chooses_maker_and_cut),
        cmocka_unit_test(test_a_cut_that_would_be_uneven_is_none),
        cmocka_unit_test(test_parts_crowd_a_cache_as_well),
        cmocka_unit_test(test_some_dtypes_have_one_way),
        cmocka_unit_test(test_without_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
