/* layer_norm, batch_norm, softmax and dropout as a user meets them. */
#include <math.h>

#include "tests/support/check.h"

/* ---- batch_norm ------------------------------------------------------------------------------ */

static const float columns[] = { 1, 10, 2, 20, 3, 30, 6, 60 }; /* means 3, 30; variances 3.5, 350 */

static tern_tensor *samples(void)
{
    return tern_from_data(columns, .shape = TERN_SHAPE(4, 2));
}

static void test_training_normalises_and_updates_running_statistics(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *mean = tern_zeros(TERN_SHAPE(2)), *var = tern_ones(TERN_SHAPE(2));
    const uint32_t version = tern_version(mean);
    tern_tensor *y = tern_batch_norm(samples(), .running_mean = mean, .running_var = var,
                                     .training = true, .momentum = 0.25);
    assert_no_error();
    assert_close(tern_item(tern_select(tern_select(y, 0, 3), 0, 0)), 3 / sqrt(3.5 + 1e-5), 1e-6);
    assert_close(tern_item(tern_select(mean, 0, 1)), 0.25 * 30, 1e-5);
    assert_close(tern_item(tern_select(var, 0, 1)), 0.75 + 0.25 * 350 * 4 / 3, 1e-3);
    assert_true(tern_version(mean) > version);
    tern_batch_norm(samples(), .running_mean = mean, .running_var = var, .training = true);
    assert_close(tern_item(tern_select(mean, 0, 1)), 0.9 * 7.5 + 0.1 * 30, 1e-5);
}

static void test_evaluating_uses_running_statistics_and_keeps_them(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *mean = tern_full(2, TERN_SHAPE(2)), *var = tern_full(4, TERN_SHAPE(2));
    tern_tensor *weight = tern_full(3, TERN_SHAPE(2)), *bias = tern_ones(TERN_SHAPE(2));
    tern_tensor *y = tern_batch_norm(samples(), weight, bias, mean, var);
    assert_close(tern_item(tern_select(tern_select(y, 0, 3), 0, 0)), 3 * (6 - 2) / 2.0 + 1, 1e-4);
    assert_close(tern_item(tern_select(mean, 0, 0)), 2, 0);
    assert_no_error();
}

/* What saved them before may go back after. */
static void test_evaluating_leaves_the_versions_of_running_statistics(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *mean = tern_full(2, TERN_SHAPE(2)), *var = tern_full(4, TERN_SHAPE(2));
    tern_tensor *x = tern_set_requires_grad(samples(), true);
    const uint32_t version = tern_version(mean);
    tern_tensor *away = tern_sum(tern_div(tern_square(tern_sub(x, mean)), var));
    tern_tensor *y = tern_batch_norm(x, .running_mean = mean, .running_var = var);
    assert_int_equal(tern_version(mean), version);
    tern_backward(tern_add(away, tern_sum(y)));
    assert_no_error();
    assert_close(tern_item(tern_select(tern_select(tern_grad_of(x), 0, 3), 0, 0)),
                 2 * (6 - 2) / 4.0 + 0.5, 1e-5);
}

/* Evaluating, one x or gradient that is not finite leaves the others alone: of columns and of planes. */
static void test_evaluating_gradients_do_not_look_at_x(void **state)
{
    (void)state;
    TERN_SCOPE;
    const float xs[] = { 1, 2, INFINITY, 3, NAN, -1 }, gs[] = { 1, 2, 3, INFINITY, -0.0f, -4 };
    const tern_shape_t shapes[] = { TERN_SHAPE(3, 2), TERN_SHAPE(1, 2, 3) };
    for (int k = 0; k < 2; k++) {
        tern_tensor *x = tern_from_data(xs, shapes[k], .requires_grad = true);
        tern_tensor *y =
            tern_batch_norm(x, .running_mean = tern_zeros(TERN_SHAPE(2)),
                            .running_var = tern_full(4, TERN_SHAPE(2)), .eps = TERN_ZERO);
        tern_backward(y, .gradient = tern_from_data(gs, shapes[k]));
        float got[6];
        tern_read(tern_grad_of(x), TERN_F32, got, sizeof got);
        assert_no_error();
        for (int i = 0; i < 6; i++)
            assert_true(got[i] == gs[i] / 2 && signbit(got[i]) == signbit(gs[i]));
    }
}

static void test_images_keep_their_memory_format(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_randn(TERN_SHAPE(2, 3, 4, 5));
    tern_tensor *last = tern_to(x, .format = TERN_FORMAT_CHANNELS_LAST);
    tern_set_requires_grad(last, true);
    tern_tensor *y = tern_batch_norm(x, .training = true);
    tern_tensor *z = tern_batch_norm(last, .training = true);
    assert_true(tern_is_contiguous(y));
    assert_true(tern_is_channels_last(z));
    assert_close(tern_item(tern_amax(tern_abs(tern_sub(y, z)))), 0, 1e-6);
    tern_backward(tern_sum(tern_mul(z, y)));
    assert_no_error();
    assert_true(tern_is_channels_last(tern_grad_of(last)));
    tern_tensor *even = tern_to(tern_randn(TERN_SHAPE(2, 4, 3, 5)), .dtype = TERN_BF16);
    tern_tensor *turned = tern_to(even, .format = TERN_FORMAT_CHANNELS_LAST);
    tern_tensor *grouped = tern_group_norm(turned, 2), *each = tern_instance_norm(turned);
    assert_true(tern_is_channels_last(grouped) && tern_is_channels_last(each));
    assert_true(tern_is_contiguous(tern_group_norm(even, 2)));
    assert_close(tern_item(tern_amax(tern_abs(tern_sub(grouped, tern_group_norm(even, 2))))), 0, 0);
    assert_close(tern_item(tern_amax(tern_abs(tern_sub(each, tern_instance_norm(even))))), 0, 0);
}

/* So many rows that devices cut their sums: [N, C], or [N, C, H, W] in either memory format. */
typedef struct many {
    tern_tensor *x, *slope;
    int64_t rows, channels;
} many;

static many many_rows(tern_tensor *x, tern_memory_format_t format)
{
    const int64_t channels = tern_size(x, 1);
    many m = { tern_to(x, .format = format), NULL, tern_numel(x) / channels, channels };
    m.slope = tern_to(tern_randn(tern_shape(x), TERN_F64), .format = format);
    return m;
}

static const double *values_of(tern_tensor *t)
{
    const int64_t channels = tern_size(t, 1);
    return tern_data(tern_cpu(tern_contiguous(
        tern_reshape(tern_transpose(t, 1, -1), TERN_SHAPE(tern_numel(t) / channels, channels)))));
}

/* y has weights of 1 and biases of 0: their gradients are sums of the slope times y, and of the slope. */
static void expect_sums(const many *m, tern_tensor *y, tern_tensor *w, tern_tensor *b, bool unit)
{
    tern_backward(y, .gradient = m->slope);
    assert_no_error();
    const double *normal = values_of(tern_detach(y)), *slope = values_of(m->slope);
    const double *of_w = tern_data(tern_cpu(tern_grad_of(w)));
    const double *of_b = tern_data(tern_cpu(tern_grad_of(b)));
    for (int64_t c = 0; c < m->channels; c++) {
        double sum = 0, product = 0, total = 0, squares = 0;
        for (int64_t k = c; k < m->rows * m->channels; k += m->channels) {
            sum += slope[k];
            product += slope[k] * normal[k];
            total += normal[k];
            squares += normal[k] * normal[k];
        }
        assert_close(of_b[c], sum, 1e-10);
        assert_close(of_w[c], product, 1e-10);
        assert_close(unit ? total / (double)m->rows : 0, 0, 1e-10);
        assert_close(unit ? squares / (double)m->rows : 1, 1, 1e-4);
    }
}

static void test_sums_over_many_rows(void **state)
{
    (void)state;
    tern_seed(3);
    for (int way = 0; way < 4; way++) {
        TERN_SCOPE;
        tern_tensor *rows = tern_add(tern_randn(TERN_SHAPE(331, 7), TERN_F64), 3);
        tern_tensor *images = tern_add(tern_randn(TERN_SHAPE(3, 7, 5, 21), TERN_F64), 3);
        const many m = many_rows(way < 2 ? rows : images,
                                 way == 3 ? TERN_FORMAT_CHANNELS_LAST : TERN_FORMAT_CONTIGUOUS);
        tern_tensor *w = tern_ones(TERN_SHAPE(7), TERN_F64, .requires_grad = true);
        tern_tensor *b = tern_zeros(TERN_SHAPE(7), TERN_F64, .requires_grad = true);
        tern_tensor *y =
            way == 0 ? tern_layer_norm(m.x, 1, w, b) : tern_batch_norm(m.x, w, b, .training = true);
        expect_sums(&m, y, w, b, way > 0);
    }
}

/* Where torch.nn.functional.group_norm 2.15 raises, and where it does not: the batch counts. */
static void test_group_norm_needs_two_values_of_a_group(void **state)
{
    (void)state;
    TERN_SCOPE;
    assert_null(tern_group_norm(tern_ones(TERN_SHAPE(1, 4)), 4));
    assert_error(TERN_ERR_SHAPE,
                 "expected more than one value per group, but got [1, 4] and groups=4");
    assert_null(tern_group_norm(tern_ones(TERN_SHAPE(1, 4, 1, 1)), 4));
    assert_error(TERN_ERR_SHAPE, "more than one value per group");
    tern_module *layer = tern_group_norm_layer(1, 1);
    tern_eval(layer);
    assert_null(tern_forward(layer, tern_ones(TERN_SHAPE(1, 1))));
    assert_error(TERN_ERR_SHAPE, "more than one value per group");
    tern_module_free(layer);
    assert_non_null(tern_group_norm(tern_ones(TERN_SHAPE(2, 4)), 4));
    assert_non_null(tern_group_norm(tern_ones(TERN_SHAPE(1, 4)), 2));
    assert_non_null(tern_group_norm(tern_ones(TERN_SHAPE(1, 4, 2)), 4));
    assert_non_null(tern_group_norm(tern_ones(TERN_SHAPE(0, 4)), 4));
    assert_no_error();
}

static void test_batch_norm_explains_mistakes(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = samples(), *two = tern_ones(TERN_SHAPE(2)), *three = tern_ones(TERN_SHAPE(3));
    assert_null(tern_batch_norm(tern_slice(x, .end = 1), .training = true));
    assert_error(TERN_ERR_SHAPE, "more than one value per channel");
    assert_null(tern_batch_norm(x));
    assert_error(TERN_ERR_ARGUMENT, "evaluating needs running_mean and running_var");
    assert_null(tern_batch_norm(x, .running_mean = two, .training = true));
    assert_error(TERN_ERR_ARGUMENT, "belong together");
    assert_null(tern_batch_norm(x, three, .training = true));
    assert_error(TERN_ERR_SHAPE, "the weight has to be [2]");
    assert_null(tern_batch_norm(x, two, tern_ones(TERN_SHAPE(2), TERN_F64), .training = true));
    assert_error(TERN_ERR_DTYPE, "x and bias have different dtypes: f32 and f64");
    assert_null(tern_batch_norm(two, .training = true));
    assert_error(TERN_ERR_SHAPE, "[N, C]");
    tern_tensor *gaps = tern_slice(tern_ones(TERN_SHAPE(4)), .step = 2);
    assert_null(tern_batch_norm(x, .running_mean = gaps, .running_var = two, .training = true));
    assert_error(TERN_ERR_ARGUMENT, "running_mean has gaps");
    assert_null(tern_batch_norm(x, .training = true, .momentum = 2));
    assert_error(TERN_ERR_ARGUMENT, "momentum");
    assert_null(tern_batch_norm(.training = true));
    assert_error(TERN_ERR_ARGUMENT, "x is NULL");
}

/* ---- layer_norm ------------------------------------------------------------------------------ */

static void test_layer_norm_over_last_dimensions(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_mul(tern_randn(TERN_SHAPE(3, 4, 5)), 7);
    tern_tensor *y = tern_layer_norm(x, .dims = 2);
    tern_tensor *each = tern_var(y, TERN_DIMS(1, 2), .no_correction = true);
    assert_close(tern_item(tern_amax(tern_mean(y, TERN_DIMS(1, 2)))), 0, 1e-6);
    assert_close(tern_item(tern_amax(each)), 1, 1e-5);
    assert_no_error();
}

static double largest(tern_tensor *t)
{
    return tern_item(tern_amax(tern_abs(t)));
}

/* x is the mean of its row everywhere: results are 0, not what rounding leaves times 1 / sqrt(eps). */
static void expect_zeros(tern_tensor *x)
{
    tern_tensor *weight = tern_ones(TERN_SHAPE(tern_size(x, 1)), tern_dtype(x));
    tern_set_requires_grad(weight, true);
    tern_tensor *y = tern_layer_norm(x, .weight = weight), *grad = NULL;
    assert_close(largest(y), 0, 0);
    tern_tensor *slope = tern_randn(TERN_SHAPE(tern_size(x, 0), tern_size(x, 1)), tern_dtype(x));
    tern_grad(y, &weight, 1, &grad, .gradient = slope);
    assert_no_error();
    assert_close(largest(grad), 0, 0);
    assert_close(largest(tern_group_norm(tern_unsqueeze(x, 2), 1)), 0, 0);
}

static void test_rows_of_equal_elements_become_zeros(void **state)
{
    (void)state;
    static const tern_dtype_t dtypes[] = { TERN_F32, TERN_F64, TERN_F16, TERN_BF16 };
    static const int64_t widths[] = { 768, 3001, 4096,
                                      9999 }; /* so many make sums that are rounded */
    for (int i = 0; i < 4; i++) {
        TERN_SCOPE;
        expect_zeros(tern_full(500, TERN_SHAPE(5, 768), dtypes[i]));
        expect_zeros(tern_full(1e4, TERN_SHAPE(3, 64), dtypes[i]));
        expect_zeros(tern_full(77.5, TERN_SHAPE(2, 31), dtypes[i]));
        expect_zeros(tern_full(3, TERN_SHAPE(2, 20000), dtypes[i]));
        tern_tensor *rows = tern_mul(tern_randn(TERN_SHAPE(40, 1), dtypes[i]), 1000);
        expect_zeros(rows);
        for (int k = 0; k < 4; k++)
            expect_zeros(tern_mul(rows, tern_ones(TERN_SHAPE(1, widths[k]), dtypes[i])));
    }
}

static void test_layer_norm_explains_mistakes(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = samples();
    assert_null(tern_layer_norm(x, .dims = 3));
    assert_error(TERN_ERR_SHAPE, "the last 3 dimensions of 2");
    assert_null(tern_layer_norm(x, .dims = -1));
    assert_error(TERN_ERR_ARGUMENT, "dims is negative");
    assert_null(tern_layer_norm(x, .weight = tern_ones(TERN_SHAPE(4))));
    assert_error(TERN_ERR_SHAPE, "the weight has to be [2]");
    assert_null(tern_layer_norm(x, .bias = tern_ones(TERN_SHAPE(4, 2)), .dims = 1));
    assert_error(TERN_ERR_SHAPE, "the bias has to be [2]");
    assert_null(tern_layer_norm(x, .eps = -1));
    assert_error(TERN_ERR_ARGUMENT, "eps");
    assert_null(tern_layer_norm(tern_cast(x, TERN_I32)));
    assert_error(TERN_ERR_DTYPE, "layer_norm");
}

/* ---- options ----------------------------------------------------------------------------------- */

static double first_of(tern_tensor *t)
{
    assert_no_error();
    return tern_item(tern_select(tern_reshape(t, TERN_SHAPE(-1)), 0, 0));
}

/* Rows so small that the default would show. */
static void expect_an_eps_of_zero(double zero)
{
    TERN_SCOPE;
    const double small[] = { 1e-4, 2e-4, 3e-4, 4e-4 }, normal = -1.3416407864998738;
    tern_tensor *row = tern_from_data(small, TERN_SHAPE(1, 4), .dtype = TERN_F64);
    tern_tensor *column = tern_reshape(row, TERN_SHAPE(4, 1));
    tern_tensor *mean = tern_zeros(TERN_SHAPE(1), .dtype = TERN_F64);
    tern_tensor *var = tern_full(4e-6, TERN_SHAPE(1), .dtype = TERN_F64);
    assert_close(first_of(tern_layer_norm(row, .eps = zero)), normal, 1e-9);
    assert_close(first_of(tern_group_norm(row, 1, .eps = zero)), normal, 1e-9);
    assert_close(first_of(tern_batch_norm(column, .training = true, .eps = zero)), normal, 1e-9);
    assert_close(first_of(tern_batch_norm(column, NULL, NULL, mean, var, .eps = zero)), 0.05, 1e-9);
    tern_tensor *image = tern_reshape(row, TERN_SHAPE(1, 1, 4));
    assert_close(first_of(tern_instance_norm(image, .eps = zero)), normal, 1e-9);
    tern_tensor *smaller = tern_mul(row, 1e-6);
    assert_close(first_of(tern_rms_norm(smaller, .eps = zero)), 0.3651483716701107, 1e-9);
    assert_close(first_of(tern_var(row, .correction = zero)), 1.25e-8, 1e-18);
    assert_close(first_of(tern_norm(row, .p = zero)), 4, 0);
    const double tiny = first_of(tern_cosine_similarity(smaller, column, 0, zero));
    assert_true(tiny > 0.3);
}

static void test_an_eps_of_zero(void **state)
{
    (void)state;
    expect_an_eps_of_zero(-0.0);
    expect_an_eps_of_zero(TERN_ZERO);
}

static void test_a_momentum_of_zero_keeps_the_statistics(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *mean = tern_full(7, TERN_SHAPE(2)), *var = tern_full(8, TERN_SHAPE(2));
    tern_batch_norm(samples(), .running_mean = mean, .running_var = var, .training = true,
                    .momentum = -0.0);
    tern_tensor *image = tern_reshape(tern_transpose(samples(), 0, 1), TERN_SHAPE(1, 2, 4));
    tern_instance_norm(image, .running_mean = mean, .running_var = var, .momentum = -0.0);
    assert_close(first_of(mean), 7, 0);
    assert_close(first_of(var), 8, 0);
}

static void test_layers_pass_zeros_on(void **state)
{
    (void)state;
    tern_module *norm = tern_batch_norm1d_layer(2, .momentum = TERN_ZERO, .eps = -0.0);
    tern_module *layer = tern_layer_norm_layer(2, .eps = TERN_ZERO);
    tern_module *images = tern_instance_norm_layer(2, .momentum = TERN_ZERO, .running = true);
    tern_module *groups = tern_group_norm_layer(1, 2, .eps = -0.0);
    tern_module *const all[] = { norm, layer, images, groups };
    {
        TERN_SCOPE;
        tern_tensor *tiny = tern_mul(samples(), 1e-6f);
        tern_forward(norm, samples());
        assert_close(first_of(tern_module_tensor(norm, "running_mean")), 0, 0);
        tern_forward(images, tern_reshape(samples(), TERN_SHAPE(1, 2, 4)));
        assert_close(first_of(tern_module_tensor(images, "running_var")), 1, 0);
        assert_close(first_of(tern_forward(layer, tiny)), -1, 1e-4);
        assert_close(first_of(tern_forward(groups, tiny)), -1, 1e-4);
    }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tern_module_free(all[i]);
}

/* ---- derivatives ----------------------------------------------------------------------------- */

/* Half x and f32 parameters, as under autocast: each parameter gets a gradient of its own dtype. */
static void check_parameter_gradients(bool batch, tern_tensor *w, tern_tensor *b)
{
    static const tern_dtype_t halves[] = { TERN_F16, TERN_BF16 };
    for (int i = 0; i < 2; i++) {
        tern_tensor *x = tern_cast(samples(), halves[i]);
        tern_tensor *y =
            batch ? tern_batch_norm(x, w, b, .training = true) : tern_layer_norm(x, 1, w, b);
        tern_backward(tern_sum(tern_mul(y, y)));
        assert_no_error();
        assert_int_equal(tern_dtype(y), halves[i]);
        tern_tensor *const parameters[] = { w, b };
        for (int k = 0; k < 2; k++) {
            if (!parameters[k])
                continue;
            assert_int_equal(tern_dtype(tern_grad_of(parameters[k])), TERN_F32);
            tern_set_grad(parameters[k], NULL);
        }
    }
}

static void test_f32_parameters_beside_half_x_get_f32_gradients(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *w = tern_ones(TERN_SHAPE(2), .requires_grad = true);
    tern_tensor *b = tern_ones(TERN_SHAPE(2), .requires_grad = true);
    for (int batch = 0; batch < 2; batch++) {
        check_parameter_gradients(batch, w, b);
        check_parameter_gradients(batch, w, NULL);
        check_parameter_gradients(batch, NULL, b);
    }
}

typedef struct norm_options {
    bool batch, training, weighted;
} norm_options;

static tern_tensor *norm_of(tern_tensor *const *in, void *user)
{
    const norm_options *o = user;
    tern_tensor *w = o->weighted ? in[1] : NULL, *b = o->weighted ? in[2] : NULL;
    if (!o->batch)
        return tern_layer_norm(in[0], .weight = w, .bias = b);
    tern_tensor *mean = tern_full(0.3, TERN_SHAPE(3), TERN_F64);
    tern_tensor *var = tern_full(1.7, TERN_SHAPE(3), TERN_F64);
    return tern_batch_norm(in[0], w, b, mean, var, .training = o->training);
}

static void check_derivatives(tern_shape_t shape)
{
    tern_tensor *in[3] = { tern_randn(shape, TERN_F64), tern_randn(TERN_SHAPE(3), TERN_F64),
                           tern_randn(TERN_SHAPE(3), TERN_F64) };
    for (int i = 0; i < 3; i++)
        tern_set_requires_grad(in[i], true);
    for (int way = 0; way < 6; way++) {
        norm_options o = { way < 4, way % 2 == 0, way == 0 || way == 3 || way == 4 };
        if (!o.batch && shape.ndim > 2)
            continue;
        tern_gradcheck(norm_of, in, o.weighted ? 3 : 1, &o, .order = 2);
        assert_no_error();
    }
}

static void test_first_and_second_derivatives_agree_with_differences(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_seed(5);
    check_derivatives(TERN_SHAPE(4, 3));
    check_derivatives(TERN_SHAPE(2, 3, 2, 2));
}

/* The third derivative of y = norm(x) along x needs the history of the statistics in the second. */
static tern_tensor *second_derivative(tern_tensor *const *in, void *user)
{
    (void)user;
    tern_tensor *y = tern_layer_norm(in[0]), *first = NULL, *second = NULL;
    tern_grad(tern_sum(tern_mul(y, tern_mul(y, y))), &in[0], 1, &first, .create_graph = true);
    tern_grad(tern_sum(tern_mul(first, first)), &in[0], 1, &second, .create_graph = true);
    return second;
}

static void test_third_derivatives_agree_with_differences(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_seed(6);
    tern_tensor *x = tern_set_requires_grad(tern_randn(TERN_SHAPE(2, 4), TERN_F64), true);
    tern_gradcheck(second_derivative, &x, 1, .tolerance = 1e-4);
    assert_no_error();
}

/* ---- softmax --------------------------------------------------------------------------------- */

static void test_softmax_along_any_dimension(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_randn(TERN_SHAPE(3, 4, 5));
    for (int dim = -3; dim < 3; dim++) {
        tern_tensor *sum = tern_sum(tern_softmax(x, dim), TERN_DIMS(dim));
        assert_close(tern_item(tern_amax(tern_abs(tern_sub(sum, 1)))), 0, 1e-6);
        tern_tensor *same = tern_exp(tern_log_softmax(tern_transpose(x, 0, 2), dim));
        tern_tensor *other = tern_softmax(tern_transpose(x, 0, 2), dim);
        assert_close(tern_item(tern_amax(tern_abs(tern_sub(same, other)))), 0, 1e-6);
    }
    assert_close(tern_item(tern_softmax(tern_full(3, TERN_SCALAR_SHAPE), -1)), 1, 0);
    assert_int_equal(tern_numel(tern_softmax(tern_ones(TERN_SHAPE(0, 3)), 0)), 0);
    assert_no_error();
    assert_null(tern_softmax(x, 3));
    assert_error(TERN_ERR_ARGUMENT, "dimension 3 is outside -3 .. 2");
    assert_null(tern_softmax(tern_ones(TERN_SHAPE(2), TERN_I64), 0));
    assert_error(TERN_ERR_DTYPE, "x is i64");
}

/* ---- dropout --------------------------------------------------------------------------------- */

static void test_dropout_is_the_same_draw_for_the_same_seed(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_set_requires_grad(tern_ones(TERN_SHAPE(1000)), true);
    tern_seed(9);
    tern_tensor *a = tern_dropout(x, 0.25), *b = tern_dropout(x, 0.25);
    tern_seed(9);
    tern_tensor *c = tern_dropout(x, 0.25);
    assert_close(tern_item(tern_amax(tern_abs(tern_sub(a, c)))), 0, 0);
    assert_true(tern_item(tern_amax(tern_abs(tern_sub(a, b)))) > 1);
    assert_close(tern_item(tern_mean(a)), 1, 0.1);
    tern_backward(tern_sum(a));
    assert_close(tern_item(tern_amax(tern_abs(tern_sub(tern_grad_of(x), a)))), 0, 0);
    assert_no_error();
}

static void test_dropout_that_drops_nothing_is_x_itself(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(5));
    assert_ptr_equal(tern_dropout(x, 0), x);
    assert_ptr_equal(tern_dropout(x, 0.5, .evaluating = true), x);
    assert_close(tern_item(tern_sum(tern_dropout(x, 1))), 0, 0);
    assert_no_error();
}

static void test_dropout_explains_mistakes_and_spends_no_draw(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_generator *generator = tern_generator_create(1);
    tern_tensor *x = tern_ones(TERN_SHAPE(5));
    assert_null(tern_dropout(x, 1.5, .generator = generator));
    assert_error(TERN_ERR_ARGUMENT, "p is 1.5");
    assert_null(tern_dropout(x, NAN, .generator = generator));
    assert_error(TERN_ERR_ARGUMENT, "p is nan");
    assert_null(tern_dropout(.p = 0.5, .generator = generator));
    assert_error(TERN_ERR_ARGUMENT, "x is missing");
    assert_null(tern_dropout(tern_cast(x, TERN_I64), 0.5, .generator = generator));
    assert_error(TERN_ERR_DTYPE, "dropout");
    assert_null(tern_scaled_dot_product_attention(x, x, x, .dropout = 0.5, .generator = generator));
    assert_error(TERN_ERR_SHAPE, "scaled_dot_product_attention");
    uint64_t seed = 0, call = 7;
    tern_generator_state(generator, &seed, &call);
    assert_int_equal(call, 0);
    tern_dropout(x, 0.5, .generator = generator);
    tern_generator_state(generator, &seed, &call);
    assert_int_equal(call, 1);
    tern_generator_free(generator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training_normalises_and_updates_running_statistics),
        cmocka_unit_test(test_evaluating_uses_running_statistics_and_keeps_them),
        cmocka_unit_test(test_evaluating_leaves_the_versions_of_running_statistics),
        cmocka_unit_test(test_evaluating_gradients_do_not_look_at_x),
        cmocka_unit_test(test_images_keep_their_memory_format),
        cmocka_unit_test(test_sums_over_many_rows),
        cmocka_unit_test(test_group_norm_needs_two_values_of_a_group),
        cmocka_unit_test(test_batch_norm_explains_mistakes),
        cmocka_unit_test(test_layer_norm_over_last_dimensions),
        cmocka_unit_test(test_rows_of_equal_elements_become_zeros),
        cmocka_unit_test(test_layer_norm_explains_mistakes),
        cmocka_unit_test(test_an_eps_of_zero),
        cmocka_unit_test(test_a_momentum_of_zero_keeps_the_statistics),
        cmocka_unit_test(test_layers_pass_zeros_on),
        cmocka_unit_test(test_f32_parameters_beside_half_x_get_f32_gradients),
        cmocka_unit_test(test_first_and_second_derivatives_agree_with_differences),
        cmocka_unit_test(test_third_derivatives_agree_with_differences),
        cmocka_unit_test(test_softmax_along_any_dimension),
        cmocka_unit_test(test_dropout_is_the_same_draw_for_the_same_seed),
        cmocka_unit_test(test_dropout_that_drops_nothing_is_x_itself),
        cmocka_unit_test(test_dropout_explains_mistakes_and_spends_no_draw),
    };
    return check_run(tests, NULL, NULL);
}
