/* Every allocation of ops that are made of others fails in turn, forward and backward: each failure is an
 * error, nothing is leaked or read that is not there, and the next call works. */
#include <math.h>

#include "tern/debug.h"
#include "tests/support/check.h"

enum { ROWS = 5, COLUMNS = 3, MOST = 200 };

typedef struct op_case {
    const char *name;
    tern_tensor *(*run)(tern_tensor *x);
} op_case;

/* x [5, 3] is not row-major, so that what reshapes it copies. */
#define CASE(name, expression)                     \
    static tern_tensor *run_##name(tern_tensor *x) \
    {                                              \
        return expression;                         \
    }
CASE(unique, tern_unique(x, NULL, NULL))
CASE(unique_dim, tern_unique_dim(x, 0, NULL, NULL))
CASE(nonzero, tern_nonzero(x))
CASE(median_all, tern_median_all(x))
CASE(median, tern_median(x, 0, NULL))
CASE(amax, tern_amax(x))
CASE(amin, tern_amin(x, .dims = TERN_DIMS(0)))
CASE(norm, tern_norm(x))
CASE(largest, tern_norm(x, .p = (double)INFINITY))
CASE(prod, tern_prod(x))
CASE(cumprod, tern_cumprod(x, 0))
CASE(logsumexp, tern_logsumexp(x, .dims = TERN_DIMS(0)))
CASE(std, tern_std(x))
CASE(einsum, tern_einsum("ij,kj->ik", x, x))
CASE(cosine, tern_cosine_similarity(x, x, 1, 0))
CASE(softmax, tern_softmax(x, 0))
CASE(maximum, tern_maximum(x, tern_slice(x, 0, 0, 1)))
CASE(matmul, tern_matmul(x, tern_transpose(x, 0, 1)))
CASE(sort, tern_sort(x, 0, false, NULL))
CASE(reflect, tern_pad(x, { 1, 1 }, .mode = TERN_PAD_REFLECT))
CASE(clamped, tern_clamp_(tern_clone(x), tern_neg(x), x))
#undef CASE

#define CASE(name)        \
    {                     \
#name, run_##name \
    }
static const op_case cases[] = { CASE(unique),  CASE(unique_dim), CASE(nonzero), CASE(median_all),
                                 CASE(median),  CASE(amax),       CASE(amin),    CASE(norm),
                                 CASE(largest), CASE(prod),       CASE(cumprod), CASE(logsumexp),
                                 CASE(std),     CASE(einsum),     CASE(cosine),  CASE(softmax),
                                 CASE(maximum), CASE(matmul),     CASE(sort),    CASE(reflect),
                                 CASE(clamped) };
#undef CASE

/* Allocation k of the op, or of its backward; false when it has fewer. */
static bool fail_at(const op_case *c, tern_tensor *x, int64_t k, bool backward)
{
    TERN_SCOPE;
    tern_tensor *turned = tern_transpose(x, 0, 1), *y = NULL, *loss = NULL;
    if (backward) {
        y = c->run(turned);
        if (!tern_requires_grad(y))
            return false;
        loss = tern_sum(y);
        assert_no_error();
    }
    tern_debug_fail_allocation(k);
    const bool fine = backward ? tern_backward(loss) == TERN_OK : c->run(turned) != NULL;
    const bool reached = tern_debug_allocations_left() <= 0;
    tern_debug_fail_allocation(0);
    if (fine != (tern_error_code() == TERN_OK) ||
        (!fine && (!reached || tern_error_code() != TERN_ERR_OOM)))
        fail_msg("%s: after allocation %lld of %s: %s", c->name, (long long)k,
                 backward ? "backward" : "the op", tern_error_text());
    tern_error_clear();
    tern_set_grad(x, NULL);
    return reached;
}

static void test_every_allocation_of_an_op_fails(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_seed(3);
    tern_tensor *x = tern_rand(TERN_SHAPE(COLUMNS, ROWS), .requires_grad = true);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int backward = 0; backward < 2; backward++) {
            int64_t k = 1;
            while (k < MOST && fail_at(&cases[i], x, k, backward == 1))
                k++;
            assert_true(k < MOST);
        }
        const int64_t live = tern_live_tensors();
        for (int64_t k = 1; k < 4; k++)
            (void)fail_at(&cases[i], x, k, false);
        assert_int_equal(tern_live_tensors(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_every_allocation_of_an_op_fails) };
    return check_run(tests, NULL, NULL);
}
