/* Optimizers, schedules, clipping, conversions and promotion against golden vectors. */
#include "tests/support/check.h"
#include "tests/support/golden.h"

#include <math.h>
#include <stdio.h>

static const golden_array *array(const char *test, const char *name)
{
    const golden_array *a = golden_find(test, name);
    if (a == NULL)
        fail_msg("golden.txt has no %s of %s", name, test);
    return a;
}

static tern_tensor *tensor(const char *test, const char *name)
{
    return value_tensor(&array(test, name)->v, TERN_F64, LAYOUT_ROW_MAJOR);
}

static void check(const char *test, const char *name, tern_tensor *t, double tolerance)
{
    assert_no_error();
    value got = value_of(t);
    const double distance = value_distance(&got, &array(test, name)->v, 1);
    value_free(&got);
    if (!(distance <= tolerance))
        fail_msg("%s: %s is off by %g", test, name, distance);
}

/* ---- optimizers ------------------------------------------------------------------------------- */

/* Steps through the case's gradients; y holds the parameter after each. */
static void check_optimizer(const char *test, tern_optimizer *opt, tern_tensor *p)
{
    const value *g = &array(test, "g")->v;
    const value *path = &array(test, "y")->v;
    tern_tensor *grads = tensor(test, "g");
    for (int64_t step = 0; step < g->dims[0]; step++) {
        TERN_SCOPE;
        tern_set_grad(p, tern_clone(tern_select(grads, 0, step)));
        tern_step(opt);
        assert_no_error();
        value now = value_of(p);
        for (int64_t i = 0; i < now.numel; i++)
            assert_close(now.data[i], path->data[step * now.numel + i], 1e-11);
        value_free(&now);
    }
    tern_optimizer_free(opt);
}

#define OPTIMIZER(test, kind, ...)                                        \
    do {                                                                  \
        TERN_SCOPE;                                                       \
        tern_tensor *p = tern_set_requires_grad(tensor(test, "p"), true); \
        check_optimizer(test, kind(TERN_TENSORS(p), __VA_ARGS__), p);     \
    } while (0)

static void test_optimizers_take_the_same_steps(void **state)
{
    (void)state;
    OPTIMIZER("optimizer_sgd", tern_sgd, .lr = 0.1);
    OPTIMIZER("optimizer_sgd_momentum", tern_sgd, .lr = 0.1, .momentum = 0.9, .dampening = 0.25);
    OPTIMIZER("optimizer_sgd_nesterov", tern_sgd, .lr = 0.1, .momentum = 0.9, .nesterov = true,
              .weight_decay = 0.01);
    OPTIMIZER("optimizer_sgd_maximize", tern_sgd, .lr = 0.1, .momentum = 0.5, .maximize = true,
              .weight_decay = 0.1);
    OPTIMIZER("optimizer_adam", tern_adam, .lr = 0.01);
    OPTIMIZER("optimizer_adam_decay", tern_adam, .lr = 0.01, .weight_decay = 0.1, .beta1 = 0.8,
              .beta2 = 0.95, .eps = 1e-6);
    OPTIMIZER("optimizer_adamw", tern_adamw, .lr = 0.01, .weight_decay = 0.1);
    OPTIMIZER("optimizer_adamw_maximize", tern_adamw, .lr = 0.01, .maximize = true);
}

/* ---- schedules -------------------------------------------------------------------------------- */

static tern_optimizer *rate_of_a_half(void)
{
    tern_tensor *p = tern_zeros(TERN_SHAPE(1), .requires_grad = true);
    return tern_sgd(TERN_TENSORS(p), .lr = 0.5);
}

static void check_schedule(const char *test, tern_schedule *schedule, tern_optimizer *opt)
{
    assert_no_error();
    const value *rates = &array(test, "y")->v;
    for (int64_t t = 0; t < rates->numel; t++) {
        assert_close(tern_get_lr(opt, 0), rates->data[t], 1e-11);
        tern_schedule_step(schedule);
    }
    tern_schedule_free(schedule);
    tern_optimizer_free(opt);
}

static void test_schedules_give_the_same_rates(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_optimizer *opt = rate_of_a_half();
    check_schedule("schedule_step", tern_step_schedule(opt, .steps = 3), opt);
    opt = rate_of_a_half();
    check_schedule("schedule_exponential", tern_exponential_schedule(opt, .gamma = 0.9), opt);
}

/* Beyond its last step PyTorch's cosine turns back up; tern's stays at the end. */
static void test_cosine_gives_the_same_rates(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_optimizer *opt = rate_of_a_half();
    check_schedule("schedule_cosine", tern_cosine_schedule(opt, .steps = 9, .min_lr = 0.05), opt);
}

/* ---- clipping --------------------------------------------------------------------------------- */

static void check_clip(const char *test, double norm_type)
{
    TERN_SCOPE;
    tern_tensor *a = tern_set_requires_grad(tern_clone(tensor(test, "a")), true);
    tern_tensor *b = tern_set_requires_grad(tern_clone(tensor(test, "b")), true);
    tern_set_grad(a, tensor(test, "a"));
    tern_set_grad(b, tensor(test, "b"));
    tern_tensor *norm =
        tern_clip_grad_norm(TERN_TENSORS(a, b), .max_norm = 1.5, .norm_type = norm_type);
    check(test, "y", norm, 1e-11);
    check(test, "ya", tern_grad_of(a), 1e-11);
    check(test, "yb", tern_grad_of(b), 1e-11);
}

static void test_clipping_gives_the_same_norms(void **state)
{
    (void)state;
    check_clip("clip_1", 1);
    check_clip("clip_2", 2);
    check_clip("clip_inf", INFINITY);
}

/* ---- conversions ------------------------------------------------------------------------------ */

static void check_cast(const char *test, tern_dtype_t from, tern_dtype_t to)
{
    TERN_SCOPE;
    check(test, "y", tern_cast(tern_cast(tensor(test, "x"), from), to), 1e-11);
}

static void test_conversions_round_alike(void **state)
{
    (void)state;
    check_cast("cast_float16", TERN_F32, TERN_F16);
    check_cast("cast_bfloat16", TERN_F32, TERN_BF16);
    check_cast("cast_int", TERN_F32, TERN_I32);
    check_cast("cast_bool", TERN_F32, TERN_BOOL);
    check_cast("cast_uint8", TERN_I64, TERN_U8);
    check_cast("cast_int8", TERN_I64, TERN_I8);
    check_cast("cast_int16", TERN_I64, TERN_I16);
}

/* ---- promotion -------------------------------------------------------------------------------- */

enum { DTYPES = 10 };

static tern_tensor *one(int dtype, bool is_zero_dim)
{
    tern_tensor *t = tern_ones(TERN_SHAPE(1), .dtype = (tern_dtype_t)dtype);
    return is_zero_dim ? tern_select(t, 0, 0) : t;
}

/* The dtype, or 0 for an error, which is cleared. */
static int dtype_of(tern_tensor *t)
{
    const int dtype = tern_failed() ? 0 : (int)tern_dtype(t);
    tern_error_clear();
    return dtype;
}

typedef tern_tensor *(*binary_fn)(tern_tensor *a, tern_tensor *b);
typedef tern_tensor *(*number_fn)(tern_tensor *a, int number);
typedef tern_tensor *(*unary_fn)(tern_tensor *a);

static void check_dtype(const char *test, int64_t at, int got)
{
    const int want = (int)array(test, "y")->v.data[at];
    if (got != want)
        fail_msg("%s[%lld] is %s, not %s", test, (long long)at,
                 got ? tern_dtype_name((tern_dtype_t)got) : "an error",
                 want ? tern_dtype_name((tern_dtype_t)want) : "an error");
}

static void check_binary(const char *test, binary_fn run, bool is_zero_dim)
{
    for (int a = 1; a <= DTYPES; a++) {
        for (int b = 1; b <= DTYPES; b++) {
            TERN_SCOPE;
            check_dtype(test, (a - 1) * DTYPES + b - 1,
                        dtype_of(run(one(a, false), one(b, is_zero_dim))));
        }
    }
}

/* Numbers true, 2 and 2.5, in this order. */
static void check_number(const char *test, number_fn run, bool is_zero_dim)
{
    for (int a = 1; a <= DTYPES; a++) {
        for (int number = 0; number < 3; number++) {
            TERN_SCOPE;
            check_dtype(test, (a - 1) * 3 + number, dtype_of(run(one(a, is_zero_dim), number)));
        }
    }
}

static void check_unary(const char *test, unary_fn run)
{
    for (int a = 1; a <= DTYPES; a++) {
        TERN_SCOPE;
        check_dtype(test, a - 1, dtype_of(run(one(a, false))));
    }
}

static tern_tensor *add(tern_tensor *a, tern_tensor *b)
{
    return tern_add(a, b);
}

static tern_tensor *divide(tern_tensor *a, tern_tensor *b)
{
    return tern_div(a, b);
}

static tern_tensor *power(tern_tensor *a, tern_tensor *b)
{
    return tern_pow(a, b);
}

static tern_tensor *add_number(tern_tensor *a, int number)
{
    return number == 0 ? tern_add(a, (bool)true) : number == 1 ? tern_add(a, 2) : tern_add(a, 2.5);
}

static tern_tensor *divide_number(tern_tensor *a, int number)
{
    return number == 0 ? tern_div(a, (bool)true) : number == 1 ? tern_div(a, 2) : tern_div(a, 2.5);
}

static tern_tensor *exponential(tern_tensor *a)
{
    return tern_exp(a);
}

static tern_tensor *total(tern_tensor *a)
{
    return tern_sum(a);
}

static tern_tensor *absolute(tern_tensor *a)
{
    return tern_abs(a);
}

static tern_tensor *negative(tern_tensor *a)
{
    return tern_neg(a);
}

static tern_tensor *rectified(tern_tensor *a)
{
    return tern_relu(a);
}

static void test_dtypes_meet_as_in_pytorch(void **state)
{
    (void)state;
    check_binary("promote_add", add, false);
    check_binary("promote_div", divide, false);
    check_binary("promote_pow", power, false);
    check_binary("promote_zero_dim", add, true);
    check_number("promote_number", add_number, false);
    check_number("promote_number_div", divide_number, false);
    check_number("promote_number_zero_dim", add_number, true);
    check_unary("promote_exp", exponential);
    check_unary("promote_sum", total);
    check_unary("promote_abs", absolute);
    check_unary("promote_neg", negative);
    check_unary("promote_relu", rectified);
}

static int open_golden(void **state)
{
    (void)state;
    const char *why = golden_open("golden");
    if (why != NULL)
        fprintf(stderr, "%s\n", why);
    return why != NULL;
}

static int close_golden(void **state)
{
    (void)state;
    golden_close();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optimizers_take_the_same_steps),
        cmocka_unit_test(test_schedules_give_the_same_rates),
        cmocka_unit_test(test_cosine_gives_the_same_rates),
        cmocka_unit_test(test_clipping_gives_the_same_norms),
        cmocka_unit_test(test_conversions_round_alike),
        cmocka_unit_test(test_dtypes_meet_as_in_pytorch),
    };
    return check_run(tests, open_golden, close_golden);
}
