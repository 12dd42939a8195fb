/* Ops of one's own: gradients of other shapes than the inputs', the largest op, questions at the wrong time. */
#include "tests/support/leaves.h"

/* ---- gradients of other shapes ----------------------------------------------------------------------- */

static tern_tensor *sum_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    (void)ctx;
    return tern_add(tern_add(in[0], in[1]), in[2]);
}
static void grad_to_all(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    for (int i = 0; i < 3; i++)
        if (tern_needs_grad(ctx, i))
            grad_in[i] = grad;
}

/* As PyTorch's engine sums it: what an input is repeated along, in the forward that is not its own. */
static void test_a_gradient_in_the_shape_of_the_broadcast_is_summed(void **state)
{
    (void)state;
    static const tern_op op = { "meets", .inputs = 3, .forward = sum_forward,
                                .backward = grad_to_all };
    const tern_shape_t shapes[] = { TERN_SHAPE(2, 1, 3), TERN_SHAPE(4, 1), TERN_SCALAR_SHAPE };
    const int counts[] = { 6, 4, 1 };
    for (int i = 0; i < 9; i++) { /* each input in each place; leaves and not, both floats */
        TERN_SCOPE;
        tern_tensor *x[3], *in[3], *grads[3];
        for (int k = 0; k < 3; k++) {
            const int which = (i + k) % 3;
            x[k] = tern_ones(shapes[which], .dtype = i < 6 ? TERN_F64 : TERN_F32,
                             .requires_grad = true);
            in[k] = i < 3 ? x[k] : tern_mul(x[k], 1);
        }
        tern_tensor *g = tern_reshape(tern_arange(0, 24, .dtype = TERN_F64), TERN_SHAPE(2, 4, 3));
        tern_tensor *sum = tern_sum(tern_mul(tern_apply(&op, in[0], in[1], in[2]), g));
        assert_int_equal(tern_grad(sum, x, 3, grads), TERN_OK);
        for (int k = 0; k < 3; k++) {
            double v[6];
            const int which = (i + k) % 3;
            assert_int_equal(tern_numel(grads[k]), counts[which]);
            assert_int_equal(tern_dtype(grads[k]), tern_dtype(x[k]));
            assert_int_equal(tern_read(grads[k], TERN_F64, v, sizeof v), TERN_OK);
            for (int at = 0; at < counts[which]; at++) /* sums of 0..23 over the other dimensions */
                assert_close(v[at],
                             which == 0   ? 4 * (12 * (at / 3) + at % 3) + 3 * (0 + 1 + 2 + 3)
                             : which == 1 ? 2 * (3 * 3 * at + 3) + 3 * 12
                                          : 276,
                             0);
        }
    }
}

/* The sum is recorded, as the gradient is. */
static void test_a_summed_gradient_has_a_history(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const tern_op op = { "meets", .inputs = 3, .forward = sum_forward,
                                .backward = grad_to_all };
    tern_tensor *x = leaf(2), *zero = tern_zeros(TERN_SHAPE(3, 2), TERN_F64), *first_order, *second;
    tern_tensor *y = tern_apply(&op, x, zero, zero); /* [3, 2], each x */
    assert_int_equal(
        tern_grad(tern_sum(tern_mul(y, tern_mul(y, y))), &x, 1, &first_order, .create_graph = true),
        TERN_OK);
    assert_close(first(first_order), 3 * 3 * 2 * 2, 0); /* three rows of 3 x^2 */
    assert_int_equal(tern_grad(tern_sum(first_order), &x, 1, &second), TERN_OK);
    assert_close(first(second), 3 * 6 * 2, 0);
}

static void own_shape_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    (void)grad;
    grad_in[0] = tern_ones(*(const tern_shape_t *)tern_op_attr(ctx));
}

static tern_tensor *same_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    (void)ctx;
    return tern_mul(in[0], 1);
}

static void test_what_the_input_does_not_expand_to_is_an_error(void **state)
{
    (void)state;
    static const tern_op op = { "apart", .inputs = 1, .forward = same_forward,
                                .backward = own_shape_backward, .attr_size = sizeof(tern_shape_t) };
    const tern_shape_t given[] = { TERN_SHAPE(2),    TERN_SHAPE(1),       TERN_SCALAR_SHAPE,
                                   TERN_SHAPE(2, 1), TERN_SHAPE(2, 2, 2), TERN_SHAPE(3, 0) };
    for (int i = 0; i < 6; i++) {
        TERN_SCOPE;
        tern_tensor *x = tern_ones(TERN_SHAPE(1, 2), .requires_grad = true);
        tern_backward(tern_sum(tern_apply_at(TERN_HERE, &op, &x, &given[i])));
        if (i == 4) { /* [1, 2] expands to it */
            assert_no_error();
            assert_close(first(tern_grad_of(x)), 4, 0);
            continue;
        }
        assert_error(TERN_ERR_GRAD, "apart: backward returned a gradient [");
        assert_null(tern_grad_of(x));
    }
}

/* Eight inputs of eight dimensions, the largest attributes and all that can be saved: no node is larger. */
typedef struct largest_attr {
    int64_t wrong; /* whose gradient is */
    char rest[312];
} largest_attr;

static tern_tensor *first_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    for (int i = 0; i < 16; i++)
        tern_save(ctx, in[i % 8]);
    return tern_mul(in[0], 1);
}

static void largest_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const largest_attr *attr = tern_op_attr(ctx);
    for (int i = 0; i < 8; i++)
        grad_in[i] = attr->wrong == i ? tern_ones(TERN_SHAPE(3)) : grad;
    for (int i = 0; i < 16; i++)
        if (tern_saved(ctx, i) == NULL)
            grad_in[0] = NULL;
}

static void test_the_largest_node_is_checked(void **state)
{
    (void)state;
    static const tern_op op = { "largest", .inputs = 8, .forward = first_forward,
                                .backward = largest_backward, .attr_size = sizeof(largest_attr) };
    for (int wrong = 0; wrong < 9; wrong++) {
        TERN_SCOPE;
        tern_tensor *x = leaf(1), *in[8];
        for (int i = 0; i < 8; i++)
            in[i] = tern_view(tern_mul(x, 1), TERN_SHAPE(1, 1, 1, 1, 1, 1, 1, 2));
        const largest_attr attr = { .wrong = wrong };
        tern_tensor *y = tern_apply_at(TERN_HERE, &op, in, &attr);
        assert_no_error();
        tern_backward(tern_sum(y));
        if (wrong < 8) {
            assert_error(TERN_ERR_GRAD, "largest: backward returned a gradient [3] on c");
            assert_null(tern_grad_of(x));
            continue;
        }
        assert_no_error();
        assert_close(first(tern_grad_of(x)), 8, 0);
    }
}

/* ---- questions without an answer ------------------------------------------------------------------ */

static tern_tensor *asks_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    const bool which = *(const bool *)tern_op_attr(ctx);
    assert_null(which ? tern_saved(ctx, 0) : tern_output_grad(ctx, 0));
    return in[0];
}

static void test_contexts_that_have_no_answer(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = leaf(1);
    tern_save(NULL, x);
    assert_error(TERN_ERR_ARGUMENT, "save: the context is NULL");
    assert_null(tern_saved(NULL, 0));
    assert_error(TERN_ERR_ARGUMENT, "saved: the context is NULL");
    assert_false(tern_needs_grad(NULL, 0));
    assert_error(TERN_ERR_ARGUMENT, "needs_grad: the context is NULL");
    assert_null(tern_op_attr(NULL));
    assert_error(TERN_ERR_ARGUMENT, "op_attr: the context is NULL");
    assert_null(tern_output_grad(NULL, 0));
    assert_error(TERN_ERR_ARGUMENT, "output_grad: the context is NULL");
    static const tern_op op = { "asks", .inputs = 1, .forward = asks_forward,
                                .attr_size = sizeof(bool) };
    for (int which = 0; which < 2; which++) {
        const bool saved = which != 0;
        assert_null(tern_apply_at(TERN_HERE, &op, &x, &saved));
        assert_error(TERN_ERR_STATE, saved ? "saved: only a backward function may ask"
                                           : "output_grad: only a backward function may ask");
    }
}

static tern_tensor *failing_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    const bool backward = *(const bool *)tern_op_attr(ctx);
    return backward ? tern_exp(in[0]) : tern_add(in[0], tern_ones(TERN_SHAPE(7)));
}
static void failing_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    (void)ctx;
    grad_in[0] = tern_add(grad, tern_ones(TERN_SHAPE(7)));
}

static void test_what_fails_inside_names_the_op(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const tern_op op = { "mine", .inputs = 1, .forward = failing_forward,
                                .backward = failing_backward, .attr_size = sizeof(bool) };
    for (int i = 0; i < 2; i++) {
        const bool backward = i != 0;
        tern_tensor *x = tern_ones(TERN_SHAPE(2), .requires_grad = true);
        tern_tensor *y = tern_apply_at(TERN_HERE, &op, &x, &backward);
        if (backward)
            tern_backward(tern_sum(y));
        assert_error(TERN_ERR_SHAPE, "mine: in add: shapes [2] and [7] do not broadcast");
        assert_null(tern_add(x, tern_ones(TERN_SHAPE(7)))); /* the name does not stay */
        assert_error(TERN_ERR_SHAPE, ": add: shapes [2] and [7] do not broadcast");
    }
}

/* Saves what the gradient of the other input reads, where there will be one. */
static tern_tensor *thrifty_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    for (int i = 0; i < 2; i++)
        if (tern_needs_grad(ctx, i))
            tern_save(ctx, in[1 - i]);
    assert_false(tern_needs_grad(ctx, 2) || tern_needs_grad(ctx, -1));
    return tern_mul(in[0], in[1]);
}
static void thrifty_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    int saved = 0;
    for (int i = 0; i < 2; i++)
        if (tern_needs_grad(ctx, i))
            grad_in[i] = tern_mul(grad, tern_saved(ctx, saved++));
}
static tern_tensor *thrifty(tern_tensor *const *in, int64_t count, void *user)
{
    (void)count;
    return tern_apply_at(TERN_HERE, user, in, NULL);
}

static void test_forward_knows_which_gradients_will_be_wanted(void **state)
{
    (void)state;
    tern_op op = { "thrifty", .inputs = 2, .forward = thrifty_forward,
                   .backward = thrifty_backward };
    for (int which = 1; which < 4; which++) {
        TERN_SCOPE;
        tern_tensor *in[2] = { tern_full(2, TERN_SHAPE(3), .requires_grad = (which & 1) != 0),
                               tern_full(5, TERN_SHAPE(3), .requires_grad = (which & 2) != 0) };
        TERN_AUTOCAST(tern_default_device(), TERN_BF16, .disabled = which != 3);
        tern_backward(tern_sum(thrifty(in, 2, &op)));
        tern_backward(
            tern_sum(tern_checkpoint(.fn = thrifty, .inputs = in, .count = 2, .user = &op)));
        assert_no_error();
        for (int i = 0; i < 2; i++)
            if (which & (1 << i))
                assert_close(tern_item(tern_sum(tern_grad_of(in[i]))), 2 * 3 * (i == 0 ? 5 : 2), 0);
    }
    TERN_SCOPE;
    tern_tensor *in[2] = { leaf(1), leaf(1) };
    const int64_t live = tern_live_tensors();
    TERN_NO_GRAD;
    tern_drop(thrifty(in, 2, &op));
    assert_no_error();
    assert_int_equal(tern_live_tensors(), live);
}

static tern_tensor *saving_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    for (int i = 0; i < *(const int *)tern_op_attr(ctx); i++)
        tern_save(ctx, in[0]);
    return tern_exp(in[0]);
}
static void asking_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = tern_mul(grad, tern_saved(ctx, *(const int *)tern_op_attr(ctx)));
}
static void asking_before_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = tern_mul(grad, tern_saved(ctx, -1));
}

static void test_what_was_not_saved_is_named(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "asks: backward asks for saved tensor 0; forward saved none",
        "asks: backward asks for saved tensor 1; forward saved 1",
        "asks: backward asks for saved tensor -1; forward saved 1",
    };
    for (int i = 0; i < 6; i++) {
        TERN_SCOPE;
        const bool cast = i >= 3; /* the node of a region keeps its setting, too */
        const tern_op op = { "asks", .inputs = 1, .forward = saving_forward,
                             .backward = i % 3 == 2 ? asking_before_backward : asking_backward,
                             .attr_size = sizeof(int) };
        const int count = i % 3 > 0;
        tern_tensor *x = tern_ones(TERN_SHAPE(2), .requires_grad = true);
        tern_autocast_region region = tern_autocast_begin(TERN_CPU, TERN_BF16, .disabled = !cast);
        tern_tensor *y = tern_apply_at(TERN_HERE, &op, &x, &count);
        tern_autocast_end(&region);
        tern_backward(tern_sum(y));
        assert_error(TERN_ERR_ARGUMENT, texts[i % 3]);
        assert_null(tern_grad_of(x));
    }
}

static void test_members_for_rules_are_refused_beside_a_forward(void **state)
{
    (void)state;
    const tern_op rows[] = { { .save = 1 },    { .save_out = 1 }, { .save_cross = 1 },
                             { .mutates = 1 }, { .layout = 1 },   { .outputs = 2 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        TERN_SCOPE;
        tern_op op = rows[i];
        op.name = "own";
        op.inputs = 1;
        op.forward = same_forward;
        assert_null(tern_apply(&op, leaf(1)));
        assert_error(TERN_ERR_ARGUMENT, "own: save, save_out, save_cross, mutates, layout and");
    }
}

/* ---- what a forward's scopes own ------------------------------------------------------------------- */

static tern_tensor *scoped_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    TERN_SCOPE;
    tern_tensor *e = tern_exp(in[0]);
    tern_save(ctx, e);
    return tern_keep(tern_mul(e, 3));
}
static void scoped_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = tern_mul(tern_mul(grad, tern_saved(ctx, 0)), 3);
}

static void test_what_is_saved_outlives_the_forwards_scope(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const tern_op op = { "exp3", .inputs = 1, .forward = scoped_forward,
                                .backward = scoped_backward };
    tern_tensor *x = tern_full(1, TERN_SHAPE(4), .requires_grad = true);
    tern_tensor *y =
        tern_add(tern_apply(&op, x), 1000); /* would take the place of what was saved */
    assert_int_equal(tern_backward(tern_sum(y)), TERN_OK);
    assert_close(tern_item(tern_amin(tern_grad_of(x))), 3 * 2.718281828, 1e-6);
    assert_close(tern_item(tern_amax(tern_grad_of(x))), 3 * 2.718281828, 1e-6);
}

static tern_tensor *table;
static tern_tensor *table_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    (void)ctx;
    (void)in;
    return table;
}
static void no_gradient(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    (void)ctx;
    grad_in[0] = tern_mul(grad, 0.0);
}

static void test_a_result_of_an_outer_scope_stays_its_own(void **state)
{
    (void)state;
    static const tern_op op = { "lookup", .inputs = 1, .forward = table_forward,
                                .backward = no_gradient };
    TERN_SCOPE;
    {
        TERN_SCOPE;
        table = tern_full(5, TERN_SHAPE(4));
        tern_tensor *x = tern_ones(TERN_SHAPE(4), .requires_grad = true);
        {
            TERN_SCOPE;
            tern_tensor *y = tern_apply(&op, x);
            assert_true(y != table && tern_requires_grad(y));
        }
        assert_false(tern_requires_grad(table));
        tern_keep(table);
    }
    assert_close(tern_item(tern_sum(table)), 20, 0);
}

static tern_tensor *input_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    (void)ctx;
    return in[0];
}
static void input_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    (void)ctx;
    grad_in[0] = tern_mul(grad, 10);
}
static tern_tensor *row_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    (void)ctx;
    return tern_select(in[0], 0, 0);
}
static void row_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    (void)ctx;
    grad_in[0] = tern_zeros(TERN_SHAPE(2, 3));
    tern_copy(tern_select(grad_in[0], 0, 0), tern_mul(grad, 10));
}
static const tern_op returning[] = {
    { "input", .inputs = 1, .forward = input_forward, .backward = input_backward },
    { "row", .inputs = 1, .forward = row_forward, .backward = row_backward },
};
#define CHANGED "what an op of one's own returned of its input"

/* PyTorch's rule: the op's backward would not be asked about what becomes of the memory. */
static void test_what_is_returned_of_an_input_is_not_changed(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        TERN_SCOPE;
        tern_tensor *x = tern_ones(TERN_SHAPE(2, 3), .requires_grad = true), *y = tern_mul(x, 2);
        tern_tensor *z = tern_apply(&returning[i], y), *part = tern_slice(z, 0, 0, 1);
        assert_true(tern_shares_storage(y, z));
        assert_null(tern_mul_(z, 5));
        assert_error(TERN_ERR_GRAD, CHANGED);
        assert_null(tern_mul_(part, 5));
        assert_error(TERN_ERR_GRAD, CHANGED);
        assert_null(tern_mul_(tern_apply(&returning[i], x), 5)); /* a leaf's memory */
        assert_error(TERN_ERR_GRAD, "a view of a leaf");
        tern_backward(tern_sum(tern_mul_(tern_clone(z), 5)));
        assert_no_error();
        assert_close(tern_item(tern_sum(tern_grad_of(x))), i == 0 ? 600 : 300, 0);
        assert_close(tern_item(tern_sum(y)), 12, 0);
        tern_mul_(y, 5);
        assert_no_error();
        assert_true(tern_requires_grad(z) && !tern_is_leaf(z)); /* asking is no use */
        assert_null(tern_sum(z));
        assert_error(TERN_ERR_GRAD, CHANGED);
        assert_null(tern_mul(part, 2));
        assert_error(TERN_ERR_GRAD, CHANGED);
        tern_backward(part, .gradient = tern_detach(part));
        assert_error(TERN_ERR_GRAD, CHANGED);
        {
            TERN_NO_GRAD; /* values are values */
            assert_close(tern_item(tern_sum(z)), i == 0 ? 60 : 30, 0);
            tern_mul_(z, 2);
        }
        assert_no_error();
        assert_close(tern_item(tern_sum(tern_detach(y))), i == 0 ? 120 : 90, 0);
    }
}

/* Nothing is recorded: a view like others. And what a region casts is not the caller's memory. */
static void test_what_is_returned_of_an_input_without_a_record(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        TERN_SCOPE;
        tern_tensor *x = tern_ones(TERN_SHAPE(2, 3));
        tern_tensor *two = tern_full(2, TERN_SCALAR_SHAPE, .requires_grad = true);
        tern_tensor *z = tern_apply(&returning[i], x);
        tern_mul_(z, two);
        tern_backward(tern_sum(x));
        assert_no_error();
        assert_close(tern_item(tern_grad_of(two)), i == 0 ? 6 : 3, 0);
        x = tern_ones(TERN_SHAPE(2, 3), .requires_grad = true);
        tern_op low = returning[i];
        low.cast_cpu = low.cast_cuda = TERN_CAST_LOW;
        {
            TERN_AUTOCAST(tern_default_device(), TERN_BF16);
            z = tern_apply(&low, x);
        }
        assert_int_equal(tern_dtype(z), TERN_BF16);
        tern_mul_(z, 2);
        tern_backward(tern_sum(z));
        assert_no_error();
        assert_close(tern_item(tern_sum(tern_grad_of(x))), i == 0 ? 120 : 60, 0);
    }
}

#define TEST(name) cmocka_unit_test_teardown(name, clear)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_gradient_in_the_shape_of_the_broadcast_is_summed),
        TEST(test_a_summed_gradient_has_a_history),
        TEST(test_what_the_input_does_not_expand_to_is_an_error),
        TEST(test_the_largest_node_is_checked),
        TEST(test_contexts_that_have_no_answer),
        TEST(test_what_fails_inside_names_the_op),
        TEST(test_forward_knows_which_gradients_will_be_wanted),
        TEST(test_what_was_not_saved_is_named),
        TEST(test_members_for_rules_are_refused_beside_a_forward),
        TEST(test_what_is_saved_outlives_the_forwards_scope),
        TEST(test_a_result_of_an_outer_scope_stays_its_own),
        TEST(test_what_is_returned_of_an_input_is_not_changed),
        TEST(test_what_is_returned_of_an_input_without_a_record),
    };
    const int failed = check_run(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
