/* Options, parameters and groups that optimizers refuse. */
#include "tests/support/check.h"

#include <math.h>

static tern_tensor *new_parameter(void)
{
    return tern_ones(TERN_SHAPE(4), TERN_F64, .requires_grad = true);
}

static void test_options_and_parameters_are_checked(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *p = new_parameter();
    assert_null(tern_sgd(TERN_TENSORS(p), -1));
    assert_error(TERN_ERR_ARGUMENT, "lr = -1");
    assert_null(tern_sgd(TERN_TENSORS(p), NAN));
    assert_error(TERN_ERR_ARGUMENT, "lr");
    assert_null(tern_sgd(TERN_TENSORS(p), .beta1 = 0.9));
    assert_error(TERN_ERR_ARGUMENT, "beta1, beta2 and eps are Adam's");
    assert_null(tern_adam(TERN_TENSORS(p), .momentum = 0.9));
    assert_error(TERN_ERR_ARGUMENT, "momentum, dampening and nesterov are SGD's");
    assert_null(tern_adam(TERN_TENSORS(p), .alpha = 0.5));
    assert_error(TERN_ERR_ARGUMENT, "alpha and centered are RMSprop's");
    assert_null(tern_sgd(TERN_TENSORS(p), .lr_decay = 0.5));
    assert_error(TERN_ERR_ARGUMENT, "lr_decay and initial_accumulator_value are Adagrad's");
    assert_null(tern_lion(TERN_TENSORS(p), .eps = 0.5));
    assert_error(TERN_ERR_ARGUMENT, "eps is not an option of this optimizer");
    assert_null(tern_rmsprop(TERN_TENSORS(p), .nesterov = true));
    assert_error(TERN_ERR_ARGUMENT, "dampening and nesterov are SGD's");
    assert_null(tern_adam(TERN_TENSORS(p), .beta1 = 1));
    assert_error(TERN_ERR_ARGUMENT, "beta1 = 1 is not in [0, 1)");
    assert_null(tern_sgd(TERN_TENSORS(p), .nesterov = true));
    assert_error(TERN_ERR_ARGUMENT, "nesterov needs a momentum");
    assert_null(tern_sgd(TERN_TENSORS(p, p)));
    assert_error(TERN_ERR_ARGUMENT, "parameter 1 is there twice");
    assert_null(tern_sgd(TERN_TENSORS(NULL)));
    assert_error(TERN_ERR_ARGUMENT, "parameter 0 is NULL");
    assert_null(tern_sgd(TERN_TENSORS(tern_mul(p, 2))));
    assert_error(TERN_ERR_GRAD, "not a leaf");
    assert_null(tern_sgd((tern_tensors_t){ NULL, NULL, 0 }));
    assert_error(TERN_ERR_ARGUMENT, "list of parameters is empty");
    tern_optimizer *opt = tern_sgd(TERN_TENSORS(p));
    tern_add_group(opt, TERN_TENSORS(p));
    assert_error(TERN_ERR_ARGUMENT, "add_group: parameter 0 is there twice");
    const char *const names[] = { "0.weight" };
    tern_add_group(opt, (tern_tensors_t){ &p, names, 1 });
    assert_error(TERN_ERR_ARGUMENT, "add_group: parameter '0.weight' is there twice");
    tern_add_group(opt, TERN_TENSORS(tern_ones_like(p)), .weight_decay = -1);
    assert_error(TERN_ERR_ARGUMENT, "add_group: weight_decay = -1");
    tern_set_lr(opt, 1, 0.1);
    assert_error(TERN_ERR_INDEX, "group 1 of 1");
    tern_set_lr(opt, 0, INFINITY);
    assert_error(TERN_ERR_ARGUMENT, "lr = inf");
    assert_int_equal(tern_group_count(opt), 1);
    assert_int_equal(tern_set_lr(opt, 0, TERN_ZERO), TERN_OK);
    assert_true(tern_get_lr(opt, 0) == 0);
    tern_optimizer_free(opt);
}

typedef tern_optimizer *(*make_fn)(tern_site_t site, const tern_optimizer_args *args);

static const struct {
    make_fn make;
    tern_optimizer_args wrong;
    const char *text;
} cases[] = {
#define EACH(make)                                                  \
    { make, { .lr = -0.1 }, "lr = -0.1 is not in" },                \
        { make, { .lr = NAN }, "lr = nan is not in" },              \
    {                                                               \
        make, { .weight_decay = -1 }, "weight_decay = -1 is not in" \
    }
#define BETAS(make)                                            \
    { make, { .beta1 = 1 }, "beta1 = 1 is not in [0, 1)" },    \
        { make, { .beta1 = -0.5 }, "beta1 = -0.5 is not in" }, \
    {                                                          \
        make, { .beta2 = 1.5 }, "beta2 = 1.5 is not in [0, 1)" \
    }
#define EPS(make)                                        \
    {                                                    \
        make, { .eps = -1e-8 }, "eps = -1e-08 is not in" \
    }
    EACH(tern_sgd_at),
    EACH(tern_adam_at),
    EACH(tern_adamw_at),
    EACH(tern_rmsprop_at),
    EACH(tern_adagrad_at),
    EACH(tern_lion_at),
    BETAS(tern_adam_at),
    BETAS(tern_adamw_at),
    BETAS(tern_lion_at),
    EPS(tern_adam_at),
    EPS(tern_adamw_at),
    EPS(tern_rmsprop_at),
    EPS(tern_adagrad_at),
    { tern_sgd_at, { .momentum = -1 }, "momentum = -1 is not in" },
    { tern_sgd_at, { .nesterov = true }, "nesterov needs a momentum above 0" },
    { tern_sgd_at, { .nesterov = true, .momentum = 0.9, .dampening = 0.1 }, "a dampening of 0" },
    { tern_rmsprop_at, { .momentum = -1 }, "momentum = -1 is not in" },
    { tern_rmsprop_at, { .alpha = -1 }, "alpha = -1 is not in" },
    { tern_adagrad_at, { .lr_decay = -1 }, "lr_decay = -1 is not in" },
    { tern_adagrad_at, { .initial_accumulator_value = -1 }, "initial_accumulator_value = -1" },
};

/* What PyTorch's constructors refuse, here of groups that come later, too. */
/* A step would write each element several times. */
static void test_parameters_that_overlap_themselves_are_refused(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *p =
        tern_set_requires_grad(tern_expand(tern_full(2, TERN_SHAPE(1)), TERN_SHAPE(3)), true);
    tern_optimizer *opt = tern_sgd(TERN_TENSORS(p), .lr = 0.5);
    assert_non_null(opt);
    tern_backward(tern_sum(p));
    assert_no_error();
    assert_int_not_equal(tern_step(opt), TERN_OK);
    assert_error(TERN_ERR_ARGUMENT, "share one place in memory");
    assert_close(tern_item(tern_select(tern_detach(p), 0, 0)), 2, 0);
    tern_optimizer_free(opt);
}

static void test_every_optimizer_refuses_what_is_out_of_range(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        TERN_SCOPE;
        tern_tensor *p = new_parameter(), *q = new_parameter();
        tern_optimizer_args args = cases[i].wrong;
        args.size_ = sizeof args;
        args.params = TERN_TENSORS(p);
        assert_null(cases[i].make(TERN_HERE, &args));
        assert_error(TERN_ERR_ARGUMENT, cases[i].text);
        const tern_optimizer_args fine = { .size_ = sizeof fine, .params = TERN_TENSORS(q) };
        tern_optimizer *opt = cases[i].make(TERN_HERE, &fine);
        assert_no_error();
        tern_add_group_at(TERN_HERE, opt, &args);
        assert_error(TERN_ERR_ARGUMENT, cases[i].text);
        assert_int_equal(tern_group_count(opt), 1);
        tern_set_lr(opt, 0, cases[i].wrong.lr < 0 ? -1 : (double)NAN);
        assert_error(TERN_ERR_ARGUMENT, "lr = ");
        tern_optimizer_free(opt);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_and_parameters_are_checked),
        cmocka_unit_test(test_parameters_that_overlap_themselves_are_refused),
        cmocka_unit_test(test_every_optimizer_refuses_what_is_out_of_range),
    };
    const int failed = check_run(tests, NULL, NULL);
    return failed + tern_finish();
}
