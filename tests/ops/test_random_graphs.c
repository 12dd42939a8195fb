/* Random graphs of ops, drawn from core/ops.def: f64 and f32 on the device under test against f64 on the
 * CPU, values and gradients. TERN_TEST_SEED=n draws graph n alone; TERN_TEST_GRAPHS=n so many;
 * TERN_TEST_EXPORT=FILE writes them as text, with the values in f64, for bench/peers/graphs.py. */
#include <stdio.h>
#include <stdlib.h>

#include "core/call.h"
#include "tests/ops/random_graph.h"
#include "tests/support/check.h"

enum { GRAPHS = 300 };

static FILE *export;
static int64_t used[TERN_OP_COUNT];

static void compare(const graph *g, const char *what, int i, tern_tensor *t, tern_tensor *wanted,
                    double allowed)
{
    assert_true((t == NULL) == (wanted == NULL));
    if (t == NULL)
        return;
    value got = value_of(t), want = value_of(wanted);
    const double d = value_distance(&got, &want, 1);
    value_free(&got);
    value_free(&want);
    if (d <= allowed)
        return;
    graph_write(stderr, g, (tern_tensor *[GRAPH_TENSORS]){ NULL },
                (tern_tensor *[GRAPH_LEAVES]){ NULL });
    fail_msg("%s %d in %s is off by %.3g (TERN_TEST_SEED=%llu)", what, i,
             tern_dtype_name(tern_dtype(t)), d, (unsigned long long)g->seed);
}

static void run_as(const graph *g, tern_dtype_t dtype, double allowed, tern_tensor **wanted,
                   tern_tensor **wanted_grads)
{
    TERN_SCOPE;
    tern_tensor *tensors[GRAPH_TENSORS] = { NULL }, *grads[GRAPH_LEAVES] = { NULL };
    if (!graph_run(g, tern_default_device(), dtype, tensors, grads))
        fail_msg("%s (TERN_TEST_SEED=%llu)", tern_error_text(), (unsigned long long)g->seed);
    for (int i = 0; i < GRAPH_LEAVES + g->count; i++)
        compare(g, "tensor", i, tensors[i], wanted[i], allowed);
    for (int i = 0; i < GRAPH_LEAVES; i++)
        compare(g, "gradient", i, grads[i], wanted_grads[i], allowed);
}

static void check_graph(uint64_t seed)
{
    TERN_SCOPE;
    graph g = graph_random(seed);
    tern_tensor *tensors[GRAPH_TENSORS] = { NULL }, *grads[GRAPH_LEAVES] = { NULL };
    if (!graph_run(&g, TERN_CPU, TERN_F64, tensors, grads))
        fail_msg("%s (TERN_TEST_SEED=%llu)", tern_error_text(), (unsigned long long)seed);
    /* each of 16 steps may move its result by sixteen times what its operands move */
    run_as(&g, TERN_F64, 1e-9, tensors, grads);
    run_as(&g, TERN_F32, 1e-2, tensors, grads);
    if (export != NULL)
        graph_write(export, &g, tensors, grads);
    for (int k = 0; k < g.count; k++)
        used[g.steps[k].id]++;
    assert_int_equal(g.count, GRAPH_STEPS);
    graph_free(&g);
}

static void test_graphs_agree(void **state)
{
    (void)state;
    const char *seed = getenv("TERN_TEST_SEED"), *count = getenv("TERN_TEST_GRAPHS");
    const char *path = getenv("TERN_TEST_EXPORT");
    const uint64_t n = count != NULL ? strtoull(count, NULL, 10) : GRAPHS;
    if (path != NULL)
        assert_non_null(export = fopen(path, "w"));
    if (seed != NULL)
        check_graph(strtoull(seed, NULL, 10));
    for (uint64_t i = 1; seed == NULL && i <= n; i++)
        check_graph(i);
    if (export != NULL)
        fclose(export);
    int rows = 0;
    for (int id = 1; id < TERN_OP_COUNT; id++)
        rows += used[id] > 0;
    print_message("seeds 1 to %llu; %d elementwise rows, reductions and scans took part\n",
                  (unsigned long long)n, rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_graphs_agree) };
    return check_run(tests, NULL, NULL);
}
