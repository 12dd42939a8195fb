/* Random graphs of ops, drawn from core/ops.def: f64 and f32 on the device under test against f64 on the
 * CPU, values and gradients; in half types each step on its own, from operands that the dtype holds. TERN_TEST_SEED=n draws graph n alone; TERN_TEST_GRAPHS=n so many;
 * TERN_TEST_EXPORT=FILE writes them as text, with the values in f64, for bench/peers/graphs.py. */
#include <stdio.h>
#include <stdlib.h>

#include "core/call.h"
#include "tests/ops/random_graph.h"
#include "tests/support/check.h"

enum { GRAPHS = 300 };

static FILE *export;
static int64_t used[TERN_OP_COUNT], kinds[GRAPH_KINDS], in_half;

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

/* By how many roundings a result in a half type may be off: its own, and those of what it is made of in
 * between, each of which moves it by up to four (graph_run_step). */
static const double HALF_STEP = 16;

static void compare_step(const graph *g, int k, const char *what, tern_dtype_t dtype,
                         tern_tensor *t, tern_tensor *wanted)
{
    if (t == NULL && wanted == NULL)
        return;
    value got = value_of(t), want = value_of(wanted);
    const double d = value_distance(&got, &want, 1), allowed = HALF_STEP * dtype_epsilon(dtype);
    value_free(&got);
    value_free(&want);
    if (!(d <= allowed))
        fail_msg("step %d, %s in %s: the %s is off by %.3g, %.3g allowed (TERN_TEST_SEED=%llu)", k,
                 graph_step_name(&g->steps[k]), tern_dtype_name(dtype), what, d, allowed,
                 (unsigned long long)g->seed);
}

/* The gradients of var and std subtract a mean that was rounded from values close by, as in PyTorch: their
 * errors have no bound. */
static bool has_good_gradients(const graph_step *s)
{
    return s->kind != GRAPH_REDUCE || (s->id != TERN_OP_std && s->id != TERN_OP_var);
}

static void run_steps_as(const graph *g, tern_dtype_t dtype, tern_tensor *const *tensors)
{
    static const char *const names[] = { "gradient of operand 0", "gradient of operand 1",
                                         "gradient of operand 2" };
    for (int k = 0; k < g->count; k++) {
        TERN_SCOPE;
        graph_pair both;
        if (!graph_run_step(g, k, tensors, tern_default_device(), dtype, &both)) {
            assert_no_error();
            continue;
        }
        compare_step(g, k, "result", dtype, both.value[0], both.value[1]);
        for (int i = 0; i < 3 && has_good_gradients(&g->steps[k]); i++)
            compare_step(g, k, names[i], dtype, both.grads[0][i], both.grads[1][i]);
        in_half += 1;
    }
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
    run_steps_as(&g, seed % 2 == 0 ? TERN_F16 : TERN_BF16, tensors);
    if (export != NULL)
        graph_write(export, &g, tensors, grads);
    for (int k = 0; k < g.count; k++) {
        used[g.steps[k].id]++;
        kinds[g.steps[k].kind]++;
    }
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
    int ways = 0;
    for (int kind = GRAPH_SWAP; kind < GRAPH_KINDS; kind++)
        ways += kinds[kind] > 0;
    print_message(
        "seeds 1 to %llu; %d elementwise rows, reductions and scans took part, and %d other "
        "kinds of steps; %lld steps in half types\n",
        (unsigned long long)n, rows, ways, (long long)in_half);
    if (n >= GRAPHS && seed == NULL)
        assert_int_equal(ways, GRAPH_KINDS - GRAPH_SWAP);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_graphs_agree) };
    return check_run(tests, NULL, NULL);
}
