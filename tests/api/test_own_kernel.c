/* An op of one's own with a rule and a kernel, on the public headers alone: raw pointers in, history out. */
#include <stdio.h>

#include "tests/support/check.h"

typedef struct scale_attr {
    float factor;
} scale_attr;

/* Rows of x [N, D] times v [D] and a number. */
static bool scale_rule(tern_op_call *call)
{
    tern_tensor *x = tern_rule_input(call, 0), *v = tern_rule_input(call, 1);
    if (tern_ndim(x) != 2 || tern_ndim(v) != 1 || tern_size(x, 1) != tern_size(v, 0))
        return tern_fail(TERN_ERR_SHAPE, "scale_rows", "expected [N, D] and [D]") == TERN_OK;
    return tern_rule_attr(call) != NULL && tern_rule_output(call, 0, tern_dtype(x), tern_shape(x));
}

static tern_status_t scale_kernel(const tern_call *call)
{
    const tern_view *x = call->in[0], *v = call->in[1];
    const float *from = x->data, *by = v->data;
    float *to = call->out[0]->data;
    for (int64_t i = 0; i < x->numel; i++)
        to[i] = from[i] * by[i % v->numel] * ((const scale_attr *)call->attr)->factor;
    return TERN_OK;
}

static void scale_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const float factor = ((const scale_attr *)tern_op_attr(ctx))->factor;
    tern_tensor *g = tern_mul(grad, factor);
    grad_in[0] = tern_mul(g, tern_saved(ctx, 1));
    grad_in[1] = tern_sum(tern_mul(g, tern_saved(ctx, 0)), TERN_DIMS(0));
}

static const tern_op scale_rows = { "scale_rows",
                                    .inputs = 2,
                                    .rule = scale_rule,
                                    .backward = scale_backward,
                                    .save = 3,
                                    .attr_size = sizeof(scale_attr),
                                    .layout = TERN_LAYOUT_CONTIGUOUS,
                                    .dtypes = 1U << TERN_F32,
                                    .kernels = { [TERN_KIND_CPU] = scale_kernel } };

static tern_tensor *scale(tern_tensor *x, tern_tensor *v)
{
    const scale_attr attr = { 2 };
    return tern_apply_at(TERN_HERE, &scale_rows, (tern_tensor *const[]){ x, v }, &attr);
}

static void test_a_kernel_gets_rows_and_gives_gradients(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_view(tern_arange(0, 6, .dtype = TERN_F32), TERN_SHAPE(3, 2));
    tern_tensor *v = tern_full(3, TERN_SHAPE(3), .requires_grad = true);
    tern_tensor *turned = tern_set_requires_grad(tern_transpose(x, 0, 1), true); /* is copied */
    tern_tensor *y = scale(turned, v);
    assert_no_error();
    assert_true(tern_is_contiguous(y));
    const float *values = tern_data(y), wanted[6] = { 0, 12, 24, 6, 18, 30 };
    assert_memory_equal(values, wanted, sizeof wanted);
    tern_backward(tern_sum(y));
    assert_no_error();
    assert_close(tern_item(tern_sum(tern_grad_of(v))), 2 * 15, 0);
    assert_close(tern_item(tern_sum(tern_grad_of(turned))), 2 * 3 * 6, 0);
}

static bool no_output(tern_op_call *call)
{
    return tern_rule_input(call, 7) == NULL && tern_rule_attr(call) == NULL;
}
static bool twice(tern_op_call *call)
{
    const tern_shape_t shape = tern_shape(tern_rule_input(call, 0));
    return tern_rule_output(call, 0, TERN_F32, shape) && tern_rule_output(call, 0, TERN_F32, shape);
}
static bool no_dtype(tern_op_call *call)
{
    return tern_rule_output(call, 0, TERN_DTYPE_NONE, TERN_SHAPE(1));
}

static bool false_without_error(tern_op_call *call)
{
    (void)call;
    return false;
}
static bool true_with_error(tern_op_call *call)
{
    tern_fail(TERN_ERR_SHAPE, "mine", "too long");
    return tern_rule_output(call, 0, TERN_F32, TERN_SHAPE(1));
}
static bool one_output(tern_op_call *call)
{
    return tern_rule_output(call, 0, TERN_F32, tern_shape(tern_rule_input(call, 0)));
}
static tern_status_t leaves_as_it_is(const tern_call *call)
{
    (void)call;
    return TERN_OK;
}

static void test_what_rules_answer_is_checked(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(2, 3));
    tern_op op = { "mine", .inputs = 1, .rule = false_without_error, .dtypes = 1U << TERN_F32 };
    op.kernels[TERN_KIND_CPU] = leaves_as_it_is;
    assert_null(tern_apply(&op, x));
    assert_error(TERN_ERR_STATE, "mine: the op's rule was false without an error");
    op.rule = true_with_error;
    char here[200];
    (void)snprintf(here, sizeof here, "%s:%d: mine: too long", __FILE__, __LINE__ + 1);
    assert_null(tern_apply(&op, x));
    assert_error(TERN_ERR_SHAPE, here); /* the call's line, not the rule's */
    op.rule = no_output;
    op.mutates = 1;
    op.inputs = 2;
    op.backward = scale_backward;
    assert_null(tern_apply(&op, x, tern_ones(TERN_SHAPE(1), .requires_grad = true)));
    assert_error(TERN_ERR_ARGUMENT, "mine: the op's rule made no output 0");
}

static void refuse(const tern_op *row, tern_tensor *x, const char *text)
{
    tern_op op = *row;
    op.name = "mine";
    op.rule = one_output;
    op.dtypes = 1U << TERN_F32;
    op.kernels[TERN_KIND_CPU] = leaves_as_it_is;
    assert_null(tern_apply(&op, x));
    assert_error(TERN_ERR_ARGUMENT, text);
}

static void test_rows_that_contradict_themselves_are_refused(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(2, 3), .requires_grad = true);
    static const char save[] = "mine: `save` or `save_out` names what the op does not have";
    refuse(&(tern_op){ .inputs = 1, .save = 2 }, x, save);
    refuse(&(tern_op){ .inputs = 1, .save_out = 2 }, x, save);
    refuse(&(tern_op){ .inputs = 1, .save_out = 8 }, x, save);
    refuse(&(tern_op){ .inputs = 1, .save_cross = 1 }, x, "mine: save_cross is for two inputs");
    refuse(&(tern_op){ .inputs = 1, .is_view = true }, x, "mine: a view is made by a forward");
    refuse(&(tern_op){ .inputs = 1, .optional = 1 }, NULL, "mine: an op with kernels needs its");
    tern_tensor *turned = tern_transpose(tern_detach(x), 0, 1);
    const tern_op writes = { .inputs = 1, .mutates = 1, .layout = TERN_LAYOUT_CONTIGUOUS };
    refuse(&writes, turned, "mine: input 0 is written and has to be contiguous");
}

/* ---- inputs that are written ------------------------------------------------------------------------- */

static tern_status_t doubles(const tern_call *call)
{
    float *x = call->in[0]->data;
    for (int64_t i = 0; i < call->in[0]->numel; i++)
        x[i] *= 2;
    return TERN_OK;
}
static bool empty_output(tern_op_call *call)
{
    return tern_rule_output(call, 0, TERN_F32, TERN_SHAPE(0));
}
static const tern_op doubled = { "doubled",
                                 .inputs = 1,
                                 .mutates = 1,
                                 .rule = empty_output,
                                 .cast_cpu = TERN_CAST_LOW,
                                 .dtypes = 1U << TERN_F32,
                                 .kernels = { [TERN_KIND_CPU] = doubles } };

/* Nothing is recorded of it: the gradient of what reads x afterwards would be that of what was there before. */
static void test_what_requires_a_gradient_is_not_written(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const char text[] =
        "doubled: input 0 is written, which is not recorded, and requires a gradient";
    tern_tensor *leaf = tern_ones(TERN_SHAPE(3), .requires_grad = true), *y = tern_mul(leaf, 3);
    assert_null(tern_apply(&doubled, leaf));
    assert_error(TERN_ERR_GRAD, text);
    assert_null(tern_apply(&doubled, y));
    assert_error(TERN_ERR_GRAD, text);
    tern_tensor *part;
    {
        TERN_NO_GRAD;
        part = tern_slice(leaf, 0, 1, 2);
        assert_non_null(tern_apply(&doubled, leaf));
    }
    assert_null(tern_apply(&doubled, part)); /* the leaf's memory */
    assert_error(TERN_ERR_GRAD, text);
    assert_non_null(tern_apply(&doubled, tern_detach(y)));
    assert_no_error();
    assert_close(tern_item(tern_sum(leaf)), 6, 0);
    assert_close(tern_item(tern_sum(y)), 18, 0);
}

static void test_what_lies_in_one_place_is_not_written(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(1));
    assert_null(tern_apply(&doubled, tern_expand(x, TERN_SHAPE(3))));
    assert_error(TERN_ERR_ARGUMENT, "doubled: input 0 is written, and several of its elements");
    assert_close(tern_item(x), 1, 0);
}

/* Of a cast the write would be lost. */
static void test_what_is_written_is_not_cast(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(3));
    for (int i = 0; i < 2; i++) {
        tern_op op = doubled;
        op.cast_cpu = i == 0 ? TERN_CAST_LOW : TERN_CAST_PROMOTE;
        TERN_AUTOCAST(TERN_CPU, TERN_BF16);
        assert_non_null(tern_apply(&op, x));
        assert_no_error();
    }
    assert_close(tern_item(tern_sum(x)), 12, 0);
}

static void asks_for_too_much(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    grad_in[0] = tern_mul(grad, tern_saved(ctx, 2));
}

static void test_what_the_row_does_not_save_is_named(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_op op = { "mine",
                   .inputs = 1,
                   .save = 1,
                   .save_out = 1,
                   .rule = one_output,
                   .backward = asks_for_too_much,
                   .dtypes = 1U << TERN_F32 };
    op.kernels[TERN_KIND_CPU] = leaves_as_it_is;
    tern_tensor *x = tern_ones(TERN_SHAPE(2), .requires_grad = true);
    tern_backward(tern_sum(tern_apply(&op, x)));
    assert_error(TERN_ERR_ARGUMENT, "mine: backward asks for saved tensor 2; the row saves 2");
}

static int64_t seen[2];
static tern_status_t sees_attr(const tern_call *call)
{
    seen[0] = *(const int64_t *)call->attr;
    return TERN_OK;
}
static void sees_attr_again(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    seen[1] = *(const int64_t *)tern_op_attr(ctx);
    grad_in[0] = grad;
}

static void test_attributes_that_are_not_given_are_zeros(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_op op = { "mine",
                   .inputs = 1,
                   .rule = one_output,
                   .backward = sees_attr_again,
                   .attr_size = sizeof(int64_t),
                   .dtypes = 1U << TERN_F32,
                   .kernels = { [TERN_KIND_CPU] = sees_attr } };
    seen[0] = seen[1] = 1;
    tern_backward(tern_sum(tern_apply(&op, tern_ones(TERN_SHAPE(2), .requires_grad = true))));
    assert_no_error();
    assert_int_equal(seen[0], 0);
    assert_int_equal(seen[1], 0);
}

static void test_mistakes_are_named(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(2, 3)), *v = tern_ones(TERN_SHAPE(3));
    assert_null(scale(x, x));
    assert_error(TERN_ERR_SHAPE, "scale_rows: expected [N, D] and [D]");
    assert_null(scale(tern_cast(x, TERN_F64), v));
    assert_error(TERN_ERR_DTYPE, "scale_rows: ");
    tern_op op = { "mine", .inputs = 1, .rule = no_output, .dtypes = 1U << TERN_F32 };
    assert_null(tern_apply(&op, x));
    assert_error(TERN_ERR_ARGUMENT, "mine: the op's rule made no output 0");
    op.rule = twice;
    assert_null(tern_apply(&op, x));
    assert_error(TERN_ERR_ARGUMENT, "mine: the rule makes output 0 of 1");
    op.rule = no_dtype;
    assert_null(tern_apply(&op, x));
    assert_error(TERN_ERR_ARGUMENT, "mine: the rule gives output 0 a dtype or a shape");
    assert_null(tern_rule_input(NULL, 0));
    assert_null(tern_rule_attr(NULL));
    assert_false(tern_rule_output(NULL, 0, TERN_F32, TERN_SHAPE(1)));
    assert_error(TERN_ERR_ARGUMENT, "rule_output: the call is NULL");
    op = scale_rows;
    op.kernels[TERN_KIND_CPU] = NULL;
    const scale_attr attr = { 1 };
    assert_null(tern_apply_at(TERN_HERE, &op, (tern_tensor *const[]){ x, v }, &attr));
    assert_error(TERN_ERR_UNSUPPORTED, "scale_rows: cpu has no kernel for this op in f32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_kernel_gets_rows_and_gives_gradients),
        cmocka_unit_test(test_mistakes_are_named),
        cmocka_unit_test(test_what_rules_answer_is_checked),
        cmocka_unit_test(test_rows_that_contradict_themselves_are_refused),
        cmocka_unit_test(test_what_requires_a_gradient_is_not_written),
        cmocka_unit_test(test_what_lies_in_one_place_is_not_written),
        cmocka_unit_test(test_what_is_written_is_not_cast),
        cmocka_unit_test(test_what_the_row_does_not_save_is_named),
        cmocka_unit_test(test_attributes_that_are_not_given_are_zeros),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 || tern_live_tensors() != 0 ? 1 : failed;
}
