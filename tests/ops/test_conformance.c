/* Every op row x dtype x layout against scalar references in double precision, and gradients of first
 * and second order against differences. Describe ops in opinfo_*.c.
 * TERN_TEST_OP=name runs the cases of one op alone; TERN_TEST_SEED=n other numbers.
 * TERN_TEST_DEVICE=cuda runs them there. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/backend.h"
#include "core/call.h"
#include "tests/ops/opinfo.h"
#include "tests/support/check.h"
#include "tests/support/sanitizer.h"

static int failures, checks, refusals;
static bool expecting; /* failures, which are counted as met and not printed */
static int met;
static tern_dev_t device = { TERN_KIND_CPU, -1 };

static void complain(const opinfo *info, const char *where, const char *what)
{
    if (expecting)
        met++;
    else if (failures++ < 40)
        print_error("%s/%s %s: %s (TERN_TEST_OP=%s TERN_TEST_SEED=%llu)\n", info->op, info->label,
                    where, what, info->op, (unsigned long long)opinfo_seed);
}

/* ---- forward -------------------------------------------------------------------------------------- */

/* What rounding leaves of the variance of equal numbers, norms divide by the root of eps. */
static double allowed_in(const tern_op *row, tern_dtype_t dtype, layout l)
{
    return opinfo_allowed(row, dtype) * (l == LAYOUT_EXPANDED && dtype == TERN_F32 ? 4 : 1);
}

/* Whether the result is the reference's; if not, `what` says how. */
static bool agrees(const opinfo *info, const tern_op *row, tern_tensor *out, const value *values,
                   layout l, char *what, size_t size)
{
    if (out == NULL || tern_failed()) {
        snprintf(what, size, "%s", tern_error_text());
        tern_error_clear();
        return false;
    }
    value got = value_of(out), expected = info->ref(values);
    value_quantise(&expected, tern_dtype(out));
    const double d = value_distance(&got, &expected, info->floor > 0 ? info->floor : 1);
    const double allowed = allowed_in(row, tern_dtype(out), l);
    snprintf(what, size, "off by %.3g, allowed %.3g", d, allowed);
    value_free(&got);
    value_free(&expected);
    return d <= allowed;
}

static void check_forward(const opinfo *info, const tern_op *row, tern_dtype_t dtype, layout l)
{
    TERN_SCOPE;
    char where[64], what[600];
    const bool skipped = (info->skip_dtypes & B(dtype)) != 0;
    snprintf(where, sizeof where, "%s %s", tern_dtype_name(dtype), layout_name(l));
    value values[MAX_IN];
    opinfo_values(info, dtype, values);
    if (l == LAYOUT_EXPANDED)
        opinfo_repeat(info, (int)dtype, values);
    tern_tensor *in[MAX_IN];
    opinfo_tensors(info, dtype, l, values, in);
    tern_tensor *out = info->run(in);
    const bool refused = device.kind != TERN_KIND_CPU && (row->dtypes_cpu & B(dtype)) != 0 &&
                         tern_error_code() == TERN_ERR_UNSUPPORTED;
    refusals += refused;
    const bool passes = agrees(info, row, out, values, l, what, sizeof what);
    checks++;
    if (passes && skipped)
        complain(info, where, "is skipped and would pass");
    else if (!passes && !skipped && !refused)
        complain(info, where, what);
    for (int i = 0; i < MAX_IN; i++)
        value_free(&values[i]);
}

/* ---- gradients ------------------------------------------------------------------------------------- */

typedef struct grad_case {
    const opinfo *info;
} grad_case;

static tern_tensor *run_case(tern_tensor *const *in, void *user)
{
    const opinfo *info = ((const grad_case *)user)->info;
    tern_tensor *copy[MAX_IN];
    for (int i = 0, k = 0; i < MAX_IN; i++)
        copy[i] = info->in[i].kind == INPUT_NONE ? NULL : in[k++];
    return info->run(copy);
}

/* Of larger inputs not each element, but all of them along one direction. Simulated devices are slow. */
static bool is_large(int64_t elements)
{
    const bool slow = device.kind != TERN_KIND_CPU || HAS_SANITIZER;
    return elements > (slow ? 16 : 256) && getenv("TERN_TEST_FULL") == NULL;
}

static void check_gradients(const opinfo *info, layout l)
{
    TERN_SCOPE;
    value values[MAX_IN];
    opinfo_values(info, TERN_F64, values);
    tern_tensor *all[MAX_IN], *in[MAX_IN];
    opinfo_tensors(info, TERN_F64, l, values, all);
    int64_t n = 0, elements = 0;
    for (int i = 0; i < MAX_IN; i++) {
        value_free(&values[i]);
        if (all[i] == NULL)
            continue;
        if (info->differentiable & (1u << i))
            elements += tern_numel(tern_set_requires_grad(all[i], true));
        in[n++] = all[i];
    }
    grad_case user = { info };
    checks++;
    if (tern_gradcheck(run_case, in, n, &user, .order = info->order, .tolerance = 2e-5,
                       .fast_mode = is_large(elements)) != TERN_OK) {
        complain(info, layout_name(l), tern_error_text());
        tern_error_clear();
    }
}

/* Gradients in the lower dtypes and of expanded inputs, which have no differences of their own,
 * against those of row-major inputs in f64, which differences have confirmed. */
static tern_tensor *gradient_sum(const opinfo *info, tern_dtype_t dtype, const value *values,
                                 int wanted, layout l, bool dense)
{
    tern_tensor *in[MAX_IN];
    opinfo_tensors(info, dtype, l, values, in);
    tern_set_requires_grad(in[wanted], true);
    tern_tensor *out = info->run(in), *grad = NULL;
    if (out == NULL)
        return NULL;
    tern_tensor *ones = tern_ones(dense ? tern_shape(out) : TERN_SCALAR_SHAPE, tern_dtype(out));
    ones = tern_expand(ones, tern_shape(out)); /* of one element: stride 0, as sums give it */
    (void)tern_grad(out, &in[wanted], 1, &grad, .gradient = ones, .allow_unused = true);
    return grad;
}

static void check_gradient(const opinfo *info, const tern_op *row, tern_dtype_t dtype, int i,
                           layout l, int turn)
{
    TERN_SCOPE;
    value values[MAX_IN];
    opinfo_values(info, dtype, values); /* quantised: both runs start from the same numbers */
    if (l == LAYOUT_EXPANDED)
        opinfo_repeat(info, turn, values);
    tern_tensor *low = gradient_sum(info, dtype, values, i, l, false);
    tern_tensor *high = gradient_sum(info, TERN_F64, values, i, LAYOUT_ROW_MAJOR, true);
    checks++;
    char where[64], what[160];
    snprintf(where, sizeof where, "gradient of input %d in %s %s", i, tern_dtype_name(dtype),
             layout_name(l));
    if (tern_failed()) {
        complain(info, where, tern_error_text());
        tern_error_clear();
    } else if (low != NULL && high != NULL) {
        value got = value_of(low), expected = value_of(high);
        const double d = value_distance(&got, &expected, 1);
        /* saved values were rounded to the dtype once more on the way */
        const double bound = 8 * opinfo_allowed(row, dtype) + 8 * dtype_epsilon(dtype);
        snprintf(what, sizeof what, "off by %.3g, allowed %.3g", d, bound);
        if (!(d <= bound))
            complain(info, where, what);
        value_free(&got);
        value_free(&expected);
    }
    for (int k = 0; k < MAX_IN; k++)
        value_free(&values[k]);
}

static void check_gradient_shape(const opinfo *info, int i)
{
    TERN_SCOPE;
    value values[MAX_IN];
    opinfo_values(info, TERN_F64, values);
    tern_tensor *grad = gradient_sum(info, TERN_F64, values, i, LAYOUT_ROW_MAJOR, true);
    char where[64];
    snprintf(where, sizeof where, "gradient of input %d", i);
    value got = value_of(grad);
    if (grad == NULL || !isfinite(value_distance(&got, &values[i], 1)))
        complain(info, where, grad == NULL ? "there is none" : "has another shape");
    tern_error_clear();
    value_free(&got);
    for (int k = 0; k < MAX_IN; k++)
        value_free(&values[k]);
}

static void check_other_gradients(const opinfo *info, const tern_op *row)
{
    static const tern_dtype_t low[] = { TERN_F32, TERN_F16, TERN_BF16 };
    for (int i = 0; i < MAX_IN; i++) {
        if (!(info->differentiable & B(i)))
            continue;
        for (int k = 0; k < 3; k++)
            if (row->dtypes & ~info->skip_dtypes & B(low[k]))
                check_gradient(info, row, low[k], i, LAYOUT_ROW_MAJOR, 0);
        for (int turn = 0; turn < info->in[i].ndim && !info->keep_layout; turn++)
            check_gradient(info, row, TERN_F64, i, LAYOUT_EXPANDED, turn);
    }
}

/* ---- all -------------------------------------------------------------------------------------------- */

/* What is skipped runs once, to see that it still has to be. */
static bool runs(const opinfo *info, int dtype, layout l)
{
    return info->skip_dtypes & B(dtype) ? l == LAYOUT_ROW_MAJOR : opinfo_has_layout(info, l);
}

static void check_case(const opinfo *info)
{
    const tern_op *row = opinfo_row(info->op);
    if (row == NULL) {
        complain(info, "", "is no row of ops.def");
        return;
    }
    const uint32_t dtypes = row->dtypes | row->dtypes_cpu;
    for (int dtype = 1; dtype < TERN_DTYPES; dtype++)
        for (int l = 0; l < LAYOUTS; l++)
            if ((dtypes & B(dtype)) && runs(info, dtype, (layout)l))
                check_forward(info, row, (tern_dtype_t)dtype, (layout)l);
    if (info->order == 0)
        return;
    check_gradients(info, LAYOUT_ROW_MAJOR);
    /* simulated devices are slow; the CPU's run has shown that gradients do not depend on layouts */
    for (int l = LAYOUT_TRANSPOSED; l < LAYOUT_EXPANDED && device.kind == TERN_KIND_CPU; l++)
        if (l != LAYOUT_SLICED && opinfo_has_layout(info, (layout)l))
            check_gradients(info, (layout)l);
    check_other_gradients(info, row);
}

/* Nothing in a dtype gives nothing, or NaN, in the dtype that something gives. */
static void check_empty_dtype(const opinfo *info, const opinfo *empty, tern_dtype_t dtype)
{
    TERN_SCOPE;
    tern_dtype_t made[2];
    for (int k = 0; k < 2; k++) {
        value values[MAX_IN];
        tern_tensor *in[MAX_IN];
        opinfo_values(k == 0 ? info : empty, dtype, values);
        opinfo_tensors(k == 0 ? info : empty, dtype, LAYOUT_ROW_MAJOR, values, in);
        made[k] = tern_dtype(info->run(in));
        for (int i = 0; i < MAX_IN; i++)
            value_free(&values[i]);
    }
    tern_error_clear();
    if (made[0] != made[1])
        complain(empty, tern_dtype_name(dtype), "gives another dtype than something does");
}

static void check_empty_form(const opinfo *info, const opinfo *empty)
{
    const tern_op *row = opinfo_row(info->op);
    for (int dtype = 1; dtype < TERN_DTYPES; dtype++)
        if (row->dtypes & ~info->skip_dtypes & B(dtype)) {
            check_forward(empty, row, (tern_dtype_t)dtype, LAYOUT_ROW_MAJOR);
            check_empty_dtype(info, empty, (tern_dtype_t)dtype);
        }
    if (info->order > 0)
        check_gradients(empty, LAYOUT_ROW_MAJOR);
    for (int i = 0; i < MAX_IN && info->order > 0; i++)
        if (info->differentiable & B(i))
            check_gradient_shape(empty, i);
}

/* The case with nothing in it: shapes and dtypes, gradients that are there, zeros in what is left. */
static void check_empty(const opinfo *info)
{
    opinfo empty;
    char label[80];
    if (!opinfo_empty(info, &empty))
        return;
    snprintf(label, sizeof label, "%s, of nothing", info->label);
    empty.label = label;
    /* a device says later that an index is outside: the reference would read there */
    if (opinfo_not_empty(info) != NULL && device.kind != TERN_KIND_CPU)
        return;
    expecting = opinfo_not_empty(info) != NULL;
    met = 0;
    check_empty_form(info, &empty);
    const bool passes = expecting && met == 0;
    expecting = false;
    if (passes)
        complain(&empty, "not_empty.def", "passes");
}

static tern_dtype_t any_dtype(const tern_op *row)
{
    int dtype = TERN_F32;
    while (!(row->dtypes & B(dtype)))
        dtype = dtype % (TERN_DTYPES - 1) + 1;
    return (tern_dtype_t)dtype;
}

/* NULL in place of an operand is an error, or stands for none where the op can do without. */
static void check_null_operands(const opinfo *info)
{
    const tern_op *row = opinfo_row(info->op);
    for (int i = 0; i < MAX_IN; i++) {
        TERN_SCOPE;
        value values[MAX_IN];
        tern_tensor *in[MAX_IN];
        opinfo_values(info, any_dtype(row), values);
        opinfo_tensors(info, any_dtype(row), LAYOUT_ROW_MAJOR, values, in);
        for (int k = 0; k < MAX_IN; k++)
            value_free(&values[k]);
        if (in[i] == NULL)
            continue;
        in[i] = NULL;
        checks++;
        if (info->run(in) == NULL && !tern_failed())
            complain(info, "NULL for an operand", "gives nothing and no error");
        tern_error_clear();
    }
}

static void test_every_row_agrees_with_its_reference(void **state)
{
    (void)state;
    const char *only = getenv("TERN_TEST_OP");
    for (int i = 0; opinfo_at(i) != NULL; i++)
        if (only == NULL || strcmp(only, opinfo_at(i)->op) == 0) {
            check_case(opinfo_at(i));
            check_empty(opinfo_at(i));
            check_null_operands(opinfo_at(i));
        }
    print_message("%d checks, %d of them refused: the CPU's dtypes\n", checks, refusals);
    assert_int_equal(failures, 0);
    assert_true(checks > 0);
}

static void test_every_row_has_a_case(void **state)
{
    (void)state;
    for (int id = 1; id < TERN_OP_COUNT; id++) {
        int found = 0;
        for (int i = 0; opinfo_at(i) != NULL; i++)
            found += strcmp(core_op_table[id].name, opinfo_at(i)->op) == 0;
        if (found == 0)
            print_error("no case for %s\n", core_op_table[id].name);
        assert_true(found > 0);
    }
}

static bool has_empty_case(const char *name)
{
    opinfo empty;
    for (int i = 0; opinfo_at(i) != NULL; i++) {
        const opinfo *info = opinfo_at(i);
        if (strcmp(name, info->op) == 0 &&
            (opinfo_has_nothing(info) ||
             (opinfo_empty(info, &empty) && opinfo_not_empty(info) == NULL)))
            return true;
    }
    return false;
}

static void test_every_row_has_an_empty_case(void **state)
{
    (void)state;
    for (int id = 1; id < TERN_OP_COUNT; id++) /* the scaler's state is numbers */
        if (id != TERN_OP_scale_update && !has_empty_case(core_op_table[id].name))
            fail_msg("no empty case for %s", core_op_table[id].name);
    int named = 0;
    for (int i = 0; opinfo_at(i) != NULL; i++)
        named += opinfo_not_empty(opinfo_at(i)) != NULL;
    assert_int_equal(named, opinfo_not_empty_count); /* a line of no case is old */
}

static bool has_checked_gradient(const tern_op *row)
{
    for (int i = 0; opinfo_at(i) != NULL; i++)
        if (strcmp(row->name, opinfo_at(i)->op) == 0 && opinfo_at(i)->order > 0)
            return true;
    return false;
}

/* Nothing but the docs reads whether a composed row has one, so a wrong word would stay. */
static void test_composed_rows_say_what_has_a_gradient(void **state)
{
    (void)state;
    for (int id = 1; id < TERN_OP_COUNT; id++) {
        const tern_op *row = &core_op_table[id];
        assert_int_not_equal(row->dtypes, 0);
        if (row->is_view || row->rule != NULL)
            continue;
        const bool said = row->inputs > 0 && row->frozen == 0;
        if (said != has_checked_gradient(row))
            fail_msg("%s: the row says %s, its cases check %s", row->name,
                     said ? "a gradient" : "none", said ? "none" : "one");
    }
}

/* Of the tests' own backend some are missing; of a device's none is. */
static void test_every_row_has_a_kernel(void **state)
{
    (void)state;
    for (int id = 1; id < TERN_OP_COUNT; id++) {
        const tern_op *row = &core_op_table[id];
        if (!row->is_view && row->rule != NULL && core_kernels[device.kind][id] == NULL)
            fail_msg("%s has no kernel", row->name);
    }
}

int main(void)
{
    const char *wish = getenv("TERN_TEST_SEED");
    if (wish != NULL)
        opinfo_seed = strtoull(wish, NULL, 10);
    if (!check_device_ready())
        return 1;
    device = tern_default_device();
    if (device.kind == TERN_KIND_CUDA) {
        const struct CMUnitTest on_device[] = { cmocka_unit_test(
                                                    test_every_row_agrees_with_its_reference),
                                                cmocka_unit_test(test_every_row_has_a_kernel) };
        const int failed = check_run(on_device, NULL, NULL);
        (void)tern_finish();
        return failed;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row_has_a_case),
        cmocka_unit_test(test_every_row_has_an_empty_case),
        cmocka_unit_test(test_composed_rows_say_what_has_a_gradient),
        cmocka_unit_test(test_every_row_agrees_with_its_reference)
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)tern_finish();
    return failed;
}
