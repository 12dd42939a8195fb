/* The conformance cases on the tests' second backend, against the CPU: forward and gradients, every
 * dtype, several layouts. Whatever has a kernel there agrees; what is missing is reported as unsupported,
 * with op, dtype and device. TERN_TEST_OP=name runs the cases of one op alone. */
#include <stdio.h>
#include <stdlib.h>

#include "core/backend.h"
#include "core/call.h"
#include "tests/ops/opinfo.h"
#include "tests/support/check.h"
#include "tests/support/second_backend.h"

static const tern_dev_t device = { TERN_KIND_EXT, 0 };
static int failures, agreed, gradients, missing;

static void complain(const opinfo *info, const char *where, const char *what)
{
    if (failures++ < 40)
        print_error("%s/%s %s: %s (TERN_TEST_OP=%s)\n", info->op, info->label, where, what,
                    info->op);
}

/* ---- what is missing --------------------------------------------------------------------------- */

/* The one dtype that the backend has not. */
static bool is_absent(tern_dtype_t dtype)
{
    return dtype == TERN_I16;
}

static bool has_kernel(const tern_op *row)
{
    return core_kernels[TERN_KIND_EXT][row->id_] != NULL;
}

/* "file:line: OP: test:0 has no kernel for this op in DTYPE": OP is a row that has none, or none for
 * that dtype. */
static bool names_what_is_missing(const char *text)
{
    char op[48] = "", dtype[8] = "";
    const char *said = strstr(text, ": test:0 has no kernel for this op in ");
    if (said == NULL || tern_error_code() != TERN_ERR_UNSUPPORTED)
        return false;
    const char *start = said;
    while (start > text && start[-1] != ' ')
        start--;
    (void)snprintf(op, sizeof op, "%.*s", (int)(said - start), start);
    (void)sscanf(said, ": test:0 has no kernel for this op in %7[a-z0-9]", dtype);
    const tern_op *row = opinfo_row(op);
    const tern_dtype_t named = tern_dtype_parse(dtype);
    /* a copy has a second dtype, which is not named */
    const bool absent = named == TERN_I16 || strcmp(op, "copy") == 0;
    return row != NULL && named != TERN_DTYPE_NONE && (!has_kernel(row) || absent);
}

/* After a failed run: a message that says enough, for an op that may be missing. */
static void check_missing(const opinfo *info, const char *where, bool may_be_missing)
{
    if (!names_what_is_missing(tern_error_text()) || !may_be_missing)
        complain(info, where, tern_error_text());
    missing++;
    tern_error_clear();
}

static void begin_here(void)
{
    assert_int_equal(tern_set_default_device(TERN_CPU), TERN_OK);
}

/* ---- comparing --------------------------------------------------------------------------------- */

/* Inputs, and what a case makes itself, lie on the device from here on. */
static void move(tern_tensor **in)
{
    for (int i = 0; i < MAX_IN; i++)
        in[i] = in[i] == NULL ? NULL : tern_to(in[i], device);
    tern_set_default_device(device);
}

static void compare(const opinfo *info, const char *where, tern_tensor *there, tern_tensor *here,
                    double bound)
{
    char what[160];
    if (!tern_dev_equal(tern_device(there), device) || tern_dtype(there) != tern_dtype(here)) {
        complain(info, where, "device or dtype of the result");
        return;
    }
    value got = value_of(tern_cpu(there)), expected = value_of(here);
    if (tern_failed()) { /* packing a view is a copy, which it has not */
        check_missing(info, where, is_absent(tern_dtype(there)));
        value_free(&expected);
        return;
    }
    const double d = value_distance(&got, &expected, info->floor > 0 ? info->floor : 1);
    (void)snprintf(what, sizeof what, "off by %.3g, allowed %.3g", d, bound);
    if (!(d <= bound))
        complain(info, where, what);
    value_free(&got);
    value_free(&expected);
}

static void check_forward(const opinfo *info, const tern_op *row, tern_dtype_t dtype, layout l)
{
    TERN_SCOPE;
    char where[64];
    value values[MAX_IN];
    tern_tensor *in[MAX_IN];
    (void)snprintf(where, sizeof where, "%s %s", tern_dtype_name(dtype), layout_name(l));
    begin_here();
    opinfo_values(info, dtype, values);
    if (l == LAYOUT_EXPANDED)
        opinfo_repeat(info, (int)dtype, values);
    opinfo_tensors(info, dtype, l, values, in);
    tern_tensor *here = info->run(in);
    opinfo_tensors(info, dtype, l, values, in); /* the case may have written its inputs */
    move(in);
    tern_tensor *there = here == NULL || tern_failed() ? NULL : info->run(in);
    if (there == NULL)
        check_missing(info, where, is_absent(dtype) || !has_kernel(row));
    else
        compare(info, where, there, here, 2 * opinfo_allowed(row, tern_dtype(here)));
    agreed += there != NULL;
    for (int i = 0; i < MAX_IN; i++)
        value_free(&values[i]);
}

/* The gradient of input `wanted`, with ones flowing in; NULL after an error or where there is none. */
static tern_tensor *gradient(const opinfo *info, tern_tensor **in, int wanted)
{
    tern_tensor *grad = NULL;
    in[wanted] = tern_set_requires_grad(tern_detach(in[wanted]), true);
    tern_tensor *out = info->run(in);
    if (out == NULL)
        return NULL;
    tern_tensor *ones = tern_ones(tern_shape(out), tern_dtype(out), tern_device(out));
    (void)tern_grad(out, &in[wanted], 1, &grad, .gradient = ones, .allow_unused = true);
    return grad;
}

static void check_gradient(const opinfo *info, const tern_op *row, tern_dtype_t dtype, int i)
{
    TERN_SCOPE;
    char where[64];
    value values[MAX_IN];
    tern_tensor *in[MAX_IN];
    (void)snprintf(where, sizeof where, "gradient of input %d in %s", i, tern_dtype_name(dtype));
    begin_here();
    opinfo_values(info, dtype, values);
    opinfo_tensors(info, dtype, LAYOUT_ROW_MAJOR, values, in);
    tern_tensor *here = gradient(info, in, i);
    opinfo_tensors(info, dtype, LAYOUT_ROW_MAJOR, values, in);
    move(in);
    tern_tensor *there = tern_failed() ? NULL : gradient(info, in, i);
    if (tern_failed())
        check_missing(info, where, true); /* a row of the backward may be missing */
    else if ((here == NULL) != (there == NULL))
        complain(info, where, "there is one on one of the devices alone");
    else if (here != NULL)
        compare(info, where, there, here,
                8 * opinfo_allowed(row, dtype) + 8 * dtype_epsilon(dtype));
    gradients += there != NULL;
    for (int k = 0; k < MAX_IN; k++)
        value_free(&values[k]);
}

/* ---- all ----------------------------------------------------------------------------------------- */

static void check_case(const opinfo *info)
{
    const tern_op *row = opinfo_row(info->op);
    const uint32_t dtypes = row->dtypes;
    for (int dtype = 1; dtype < TERN_DTYPES; dtype++)
        for (int l = 0; l < LAYOUTS; l++)
            if ((dtypes & ~info->skip_dtypes & B(dtype)) && opinfo_has_layout(info, (layout)l))
                check_forward(info, row, (tern_dtype_t)dtype, (layout)l);
    if (info->order == 0)
        return;
    for (int i = 0; i < MAX_IN; i++)
        if (info->differentiable & B(i)) {
            check_gradient(info, row, TERN_F32, i);
            check_gradient(info, row, TERN_F64, i);
            check_gradient(info, row, TERN_F16, i);
        }
}

static void test_the_second_backend_agrees_with_the_cpu(void **state)
{
    (void)state;
    const char *only = getenv("TERN_TEST_OP");
    for (int i = 0; opinfo_at(i) != NULL; i++)
        if (only == NULL || strcmp(only, opinfo_at(i)->op) == 0)
            check_case(opinfo_at(i));
    print_message("%d results and %d gradients agree, %d are reported as missing\n", agreed,
                  gradients, missing);
    assert_int_equal(failures, 0);
    assert_true(only != NULL || (agreed > 500 && gradients > 50 && missing > 100));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(
        test_the_second_backend_agrees_with_the_cpu) };
    const int failed = cmocka_run_group_tests(tests, second_backend_setup, NULL);
    (void)tern_finish();
    return failed;
}
