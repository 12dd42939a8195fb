/* Autocast: regions, rules, the cache of casts, backward, ops of one's own. Rows A001-A040. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/call.h"
#include "core/op_id.h"
#include "tests/support/check.h"

static int clear(void **state)
{
    (void)state;
    tern_error_clear();
    tern_amp_reset();
    return 0;
}

static tern_tensor *filled(tern_dtype_t dtype)
{
    return tern_mul(tern_ones(TERN_SHAPE(4, 4), .dtype = dtype), 0.5);
}

static tern_tensor *weight(void)
{
    return tern_set_requires_grad(tern_mul(tern_ones(TERN_SHAPE(4, 4)), 0.25), true);
}

/* ---- the table ----------------------------------------------------------------------------------- */

static int class_of(const char *name)
{
    static const char *const names[] = { "none", "low", "f32", "dtype", "promote", "banned" };
    for (int i = 0; i < 6; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

static const tern_op *row_of(const char *name)
{
    for (int id = 1; id < TERN_OP_COUNT; id++)
        if (strcmp(core_op_table[id].name, name) == 0)
            return &core_op_table[id];
    return NULL;
}

static void test_rows_have_the_classes_of_pytorchs_lists(void **state) /* A027-A037 */
{
    (void)state;
    const char *source = getenv("TERN_TEST_SOURCE");
    char path[512], line[256], name[64], cuda[16], cpu[16];
    bool listed[TERN_OP_COUNT] = { false };
    (void)snprintf(path, sizeof path, "%s/tests/golden/autocast.txt", source ? source : ".");
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%63s %15s %15s", name, cuda, cpu) != 3 || name[0] == '#')
            continue;
        const tern_op *op = row_of(name);
        if (op == NULL || op->cast_cuda != class_of(cuda) || op->cast_cpu != class_of(cpu))
            fail_msg("%s: PyTorch has %s on CUDA and %s on the CPU", name, cuda, cpu);
        listed[op->id_] = true;
    }
    (void)fclose(file);
    for (int id = 1; id < TERN_OP_COUNT; id++) /* gradients, copies and the like have no class */
        if (!listed[id] && (core_op_table[id].cast_cuda | core_op_table[id].cast_cpu) != 0)
            fail_msg("%s has a class, but is not in the table", core_op_table[id].name);
}

/* ---- regions ------------------------------------------------------------------------------------- */

static void test_defaults_are_per_kind_and_can_be_changed(void **state) /* A002, A003 */
{
    (void)state;
    assert_int_equal(tern_autocast_dtype(TERN_CPU), TERN_BF16);
    assert_int_equal(tern_autocast_dtype(TERN_CUDA(0)), TERN_F16);
    assert_true(tern_autocast_cache_enabled());
    assert_false(tern_autocast_enabled(TERN_CPU));
    tern_set_autocast_dtype(TERN_CPU, TERN_F16);
    {
        TERN_AUTOCAST(TERN_CPU);
        assert_int_equal(tern_autocast_dtype(TERN_CPU), TERN_F16);
        assert_true(tern_autocast_cache_enabled());
    }
    tern_set_autocast_dtype(TERN_CPU, TERN_BF16);
    assert_true(tern_set_autocast_cache_enabled(false));
    {
        TERN_AUTOCAST(TERN_CPU);
        assert_false(tern_autocast_cache_enabled());
        TERN_AUTOCAST(TERN_CPU, .cache = TERN_CACHE_ON);
        assert_true(tern_autocast_cache_enabled());
    }
    assert_false(tern_set_autocast_cache_enabled(true));
    tern_set_autocast_dtype(TERN_CPU, TERN_F32);
    assert_error(TERN_ERR_ARGUMENT, "f32 is neither f16 nor bf16");
}

static void test_a_region_needs_a_device_that_there_is(void **state) /* A001 */
{
    (void)state;
    tern_autocast_region region = tern_autocast_begin(.dtype = TERN_BF16);
    assert_error(TERN_ERR_ARGUMENT, "the device is missing");
    tern_autocast_end(&region);
    region = tern_autocast_begin(TERN_EXT(0));
    assert_error(TERN_ERR_DEVICE, "unsupported device");
    tern_autocast_end(&region);
    region = tern_autocast_begin(TERN_CPU, .cache = 7);
    assert_error(TERN_ERR_ARGUMENT, "cache = 7");
    tern_autocast_end(&region);
    tern_autocast_end(NULL);
    assert_no_error();
}

static char last_warning[256];

static void listen(tern_log_level_t level, tern_site_t site, const char *text, void *user)
{
    (void)site, (void)user;
    if (level == TERN_LOG_WARNING)
        (void)snprintf(last_warning, sizeof last_warning, "%s", text);
}

static void test_what_cannot_be_on_is_off_with_a_warning(void **state) /* A004, A006, A007 */
{
    (void)state;
    tern_log_set_callback(listen, NULL);
    last_warning[0] = '\0';
    {
        TERN_AUTOCAST(TERN_CUDA(0), TERN_F16);
        assert_false(tern_autocast_enabled(TERN_CUDA(0)));
        assert_non_null(strstr(last_warning, "no CUDA device"));
    }
    {
        TERN_AUTOCAST(TERN_CPU, TERN_F32);
        assert_false(tern_autocast_enabled(TERN_CPU));
        assert_non_null(strstr(last_warning, "not f32"));
    }
    last_warning[0] = '\0';
    {
        TERN_AUTOCAST(TERN_CUDA(0), .disabled = true);
        assert_string_equal(last_warning, "");
    }
    tern_log_set_callback(NULL, NULL);
}

static void test_regions_nest_and_put_back(void **state) /* A007, A009 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *a = filled(TERN_F32), *low;
    {
        TERN_AUTOCAST(TERN_CPU, TERN_BF16);
        low = tern_matmul(a, a);
        assert_int_equal(tern_dtype(low), TERN_BF16);
        {
            TERN_AUTOCAST(TERN_CPU, TERN_F16);
            assert_int_equal(tern_dtype(tern_matmul(a, a)), TERN_F16);
            TERN_AUTOCAST(TERN_CPU, TERN_BF16, .disabled = true);
            assert_int_equal(tern_autocast_dtype(TERN_CPU), TERN_BF16);
            assert_int_equal(tern_dtype(tern_matmul(a, a)), TERN_F32);
            tern_matmul(a, low); /* made by autocast: the user casts it */
            assert_error(TERN_ERR_DTYPE, "different dtypes");
        }
        assert_int_equal(tern_dtype(tern_matmul(a, a)), TERN_BF16);
        assert_int_equal(tern_autocast_dtype(TERN_CPU), TERN_BF16);
    }
    assert_int_equal(tern_dtype(tern_matmul(a, a)), TERN_F32);
    assert_false(tern_autocast_enabled(TERN_CPU));
    assert_no_error();
}

static void *in_a_thread(void *out)
{
    TERN_SCOPE;
    bool *fine = out;
    *fine = !tern_autocast_enabled(TERN_CPU) && tern_autocast_cache_enabled() &&
            tern_dtype(tern_matmul(filled(TERN_F32), filled(TERN_F32))) == TERN_F32;
    tern_autocast_region open = tern_autocast_begin(TERN_CPU); /* never ended: the next is fresh */
    tern_matmul(weight(), weight());
    (void)open;
    return NULL;
}

static void test_a_new_thread_starts_outside(void **state) /* A010 */
{
    (void)state;
    TERN_AUTOCAST(TERN_CPU, TERN_BF16);
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        bool fine = false;
        assert_int_equal(pthread_create(&thread, NULL, in_a_thread, &fine), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(fine);
    }
}

/* ---- rules --------------------------------------------------------------------------------------- */

static void test_products_are_low_and_what_is_not_listed_stays(void **state) /* A017, A031, A037 */
{
    (void)state;
    TERN_SCOPE;
    TERN_AUTOCAST(TERN_CPU, TERN_BF16);
    tern_tensor *a = filled(TERN_F32), *bias = tern_ones(TERN_SHAPE(4));
    tern_tensor *low = tern_matmul(a, a);
    assert_int_equal(tern_dtype(low), TERN_BF16);
    assert_int_equal(tern_dtype(tern_matmul(a, low)), TERN_BF16);
    assert_int_equal(tern_dtype(tern_matmul(tern_select(a, 0, 0), low)), TERN_BF16);
    assert_int_equal(tern_dtype(tern_linear(a, a, bias)), TERN_BF16);
    tern_tensor *deep = tern_reshape(a, TERN_SHAPE(2, 2, 4));
    assert_int_equal(tern_dtype(tern_linear(deep, a, bias)), TERN_BF16);
    tern_tensor *image = tern_ones(TERN_SHAPE(1, 1, 4, 4));
    assert_int_equal(tern_dtype(tern_conv2d(image, tern_ones(TERN_SHAPE(1, 1, 3, 3)))), TERN_BF16);
    assert_int_equal(tern_dtype(tern_exp(low)), TERN_BF16);
    assert_int_equal(tern_dtype(tern_softmax(low, 1)), TERN_BF16);
    assert_int_equal(tern_dtype(tern_sum(low)), TERN_BF16);
    assert_int_equal(tern_dtype(tern_relu(a)), TERN_F32);
    assert_int_equal(tern_dtype(tern_add(a, low)), TERN_F32);
    tern_tensor *target = tern_zeros(TERN_SHAPE(4), .dtype = TERN_I64);
    assert_int_equal(tern_dtype(tern_cross_entropy(low, target)), TERN_F32); /* A018 */
    assert_int_equal(tern_dtype(tern_mse_loss(low, a, 0)), TERN_F32);
    assert_int_equal(tern_dtype(tern_mse_loss(low, low, TERN_NONE)), TERN_F32);
    assert_no_error();
}

static void test_a_weight_of_the_positive_class_meets_logits_in_f32(void **state) /* A034 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_full(-3.3, TERN_SHAPE(1), TERN_BF16), *one = tern_ones(TERN_SHAPE(1));
    tern_tensor *weight = tern_full(258, TERN_SHAPE(1), TERN_BF16);
    tern_set_requires_grad(x, true);
    TERN_AUTOCAST(TERN_CPU, TERN_BF16);
    tern_tensor *y =
        tern_binary_cross_entropy_with_logits(x, one, .pos_weight = tern_full(100, TERN_SHAPE(1)));
    assert_close(tern_item(y), 333.32058, 1e-3);
    assert_int_equal(tern_dtype(y), TERN_F32);
    tern_backward(y);
    assert_close(tern_item(tern_grad_of(x)), -96.43, 0.5);
    y = tern_binary_cross_entropy_with_logits(x, one, .pos_weight = weight); /* 257 is no bf16 */
    assert_close(tern_item(y), 2.58 * 333.32058, 1e-2);
    assert_no_error();
}

static void test_einsum_is_low_where_it_multiplies_and_sums(void **state) /* A031 */
{
    (void)state;
    TERN_SCOPE;
    TERN_AUTOCAST(TERN_CPU, TERN_BF16);
    tern_tensor *a = filled(TERN_F32), *low = filled(TERN_BF16);
    assert_int_equal(tern_dtype(tern_einsum("ij,kj->ik", low, a)), TERN_BF16);
    assert_int_equal(tern_dtype(tern_einsum("ij,kj->ik", a, a)), TERN_BF16);
    assert_int_equal(tern_dtype(tern_einsum("ij,ij->ij", a, low)), TERN_F32);
    assert_int_equal(tern_dtype(tern_einsum("ij,ij->ij", low, low)), TERN_BF16);
    assert_int_equal(tern_dtype(tern_einsum("ij->i", a)), TERN_F32);
    assert_no_error();
    tern_einsum("ij,kj->ik", filled(TERN_F64), low);
    assert_error(TERN_ERR_DTYPE, "have different dtypes: f64 and bf16");
    assert_close(tern_item(tern_amax(tern_einsum("ij,kj->ik", low, weight()))), 0.5, 0);
}

static void test_mirrored_and_repeated_ends_are_f32(void **state) /* A035 */
{
    (void)state;
    TERN_SCOPE;
    TERN_AUTOCAST(TERN_CPU, TERN_BF16);
    tern_tensor *low = tern_ones(TERN_SHAPE(1, 2, 4, 4, 4), TERN_BF16, .requires_grad = true);
    tern_tensor *f64 = tern_ones(TERN_SHAPE(2, 4), TERN_F64);
    static const struct {
        int mode, flat, deep; /* the result's dtype: two dimensions, three */
    } want[] = { { TERN_PAD_CONSTANT, TERN_BF16, TERN_BF16 },
                 { TERN_PAD_REFLECT, TERN_F32, TERN_BF16 },
                 { TERN_PAD_REPLICATE, TERN_F32, TERN_F32 },
                 { TERN_PAD_CIRCULAR, TERN_BF16, TERN_BF16 } };
    for (size_t k = 0; k < sizeof want / sizeof *want; k++) {
        tern_tensor *flat = tern_pad(low, { 1, 1, 1, 1 }, .mode = want[k].mode);
        tern_tensor *deep = tern_pad(low, { 1, 1, 1, 1, 1, 1 }, .mode = want[k].mode);
        assert_int_equal(tern_dtype(flat), want[k].flat);
        assert_int_equal(tern_dtype(deep), want[k].deep);
        assert_int_equal(tern_dtype(tern_pad(f64, { 1, 1 }, .mode = want[k].mode)), TERN_F64);
        tern_backward(tern_sum(flat));
        assert_no_error();
    }
    assert_int_equal(tern_dtype(tern_grad_of(low)), TERN_BF16);
}

static void test_losses_cast_their_weights(void **state) /* A034 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_randn(TERN_SHAPE(2, 3)), *low = tern_cast(x, TERN_BF16);
    tern_tensor *target = tern_softmax(x, 1), *w = tern_full(2, TERN_SHAPE(3));
    tern_tensor *want = tern_cross_entropy(tern_cast(low, TERN_F32), target, w);
    TERN_AUTOCAST(TERN_CPU, TERN_BF16);
    assert_close(tern_item(tern_cross_entropy(low, target, w)), tern_item(want), 0);
    assert_close(tern_item(tern_cross_entropy(low, target, tern_cast(w, TERN_BF16))),
                 tern_item(want), 0);
    tern_tensor *half = tern_cross_entropy(x, tern_cast(target, TERN_BF16), w);
    assert_no_error();
    assert_int_equal(tern_dtype(half), TERN_F32);
}

static void test_batch_norm_takes_low_inputs_beside_f32_statistics(void **state) /* A032 */
{
    (void)state;
    TERN_SCOPE;
    TERN_AUTOCAST(TERN_CPU, TERN_BF16);
    tern_tensor *x = filled(TERN_BF16), *one = tern_ones(TERN_SHAPE(4));
    tern_tensor *mean = tern_zeros(TERN_SHAPE(4)), *var = tern_ones(TERN_SHAPE(4));
    tern_tensor *y = tern_batch_norm(x, one, one, mean, var, .training = true);
    assert_int_equal(tern_dtype(y), TERN_BF16);
    assert_int_equal(tern_dtype(mean), TERN_F32);
    assert_no_error();
}

static void test_only_three_float_dtypes_are_cast(void **state) /* A015, A011 */
{
    (void)state;
    TERN_SCOPE;
    TERN_AUTOCAST(TERN_CPU, TERN_BF16);
    tern_tensor *wide = filled(TERN_F64), *whole = tern_ones(TERN_SHAPE(4, 4), .dtype = TERN_I32);
    assert_int_equal(tern_dtype(tern_matmul(wide, wide)), TERN_F64);
    assert_int_equal(tern_dtype(tern_matmul(whole, whole)), TERN_I32);
    assert_int_equal(tern_dtype(tern_matmul(filled(TERN_F16), filled(TERN_F32))), TERN_BF16);
    tern_matmul(wide, filled(TERN_F32));
    assert_error(TERN_ERR_DTYPE, "different dtypes");
}

static void test_in_place_and_given_outputs_stay(void **state) /* A016 */
{
    (void)state;
    TERN_SCOPE;
    TERN_AUTOCAST(TERN_CPU, TERN_BF16);
    tern_tensor *a = filled(TERN_F32), *low = filled(TERN_BF16);
    tern_add_(a, low);
    tern_copy(low, a);
    assert_int_equal(tern_dtype(a), TERN_F32);
    assert_close(tern_item(tern_amax(a)), 1, 0);
    assert_close(tern_item(tern_amax(low)), 1, 0);
    assert_int_equal(tern_dtype(tern_sum(low, .dtype = TERN_F64)), TERN_F64);
    assert_no_error();
}

static void test_joined_tensors_meet_as_in_prioritize(void **state) /* A021, A036 */
{
    (void)state;
    TERN_SCOPE;
    TERN_AUTOCAST(TERN_CPU, TERN_BF16);
    tern_tensor *a = filled(TERN_F32), *low = filled(TERN_BF16), *other = filled(TERN_F16);
    assert_int_equal(tern_dtype(tern_cat(0, low, low)), TERN_BF16);
    assert_int_equal(tern_dtype(tern_cat(0, low, a)), TERN_F32);
    assert_int_equal(tern_dtype(tern_stack(0, a, other)), TERN_F32); /* f32 came first */
    assert_int_equal(tern_dtype(tern_cat(0, low, filled(TERN_F64))), TERN_F64);
    assert_no_error();
    assert_null(tern_stack(0, other, a));
    assert_error(TERN_ERR_DTYPE, "unexpected floating dtype f16 in an autocast region of bf16");
}

/* ---- gradients ----------------------------------------------------------------------------------- */

static void test_gradients_return_in_the_parameters_dtype(void **state) /* A013, A022 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *w = weight(), *x = filled(TERN_F32), *loss;
    {
        TERN_AUTOCAST(TERN_CPU, TERN_BF16);
        tern_tensor *y = tern_matmul(x, w);
        tern_tensor *hidden = tern_matmul(y, w);
        loss = tern_sum(tern_cast(hidden, TERN_F32));
    }
    tern_backward(loss);
    assert_no_error();
    assert_int_equal(tern_dtype(tern_grad_of(w)), TERN_F32);
    /* of sum(x w w): (x w)^T 1 is 2 everywhere, and so is x^T (1 w^T) */
    assert_close(tern_item(tern_amax(tern_grad_of(w))), 4, 0);
    assert_close(tern_item(tern_mean(tern_grad_of(w))), 4, 0);
    const int64_t calls = tern_amp_counted().calls;
    {
        TERN_AUTOCAST(TERN_CPU, TERN_BF16); /* backward inside runs as it does outside */
        loss = tern_sum(tern_matmul(x, w), .dtype = TERN_F32);
        const int64_t forward = tern_amp_counted().calls;
        assert_true(forward > calls);
        tern_backward(loss);
        assert_int_equal(tern_amp_counted().calls, forward);
        assert_true(tern_autocast_enabled(TERN_CPU));
    }
    assert_no_error();
}

static void test_a_weight_is_cast_once_per_outermost_region(void **state) /* A008, A023 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *w = weight(), *x = filled(TERN_BF16);
    {
        TERN_AUTOCAST(TERN_CPU, TERN_BF16);
        tern_matmul(x, w);
        {
            TERN_AUTOCAST(TERN_CPU, TERN_BF16);
            tern_matmul(x, w);
        }
        tern_matmul(x, w);
        assert_int_equal(tern_amp_counted().casts, 1);
        assert_int_equal(tern_amp_counted().cached, 2);
        assert_int_equal(tern_amp_counted().cast_bytes, 16 * (4 + 2));
        tern_autocast_clear_cache();
        tern_matmul(x, w);
        assert_int_equal(tern_amp_counted().casts, 2);
    }
    TERN_AUTOCAST(TERN_CPU, TERN_BF16);
    tern_matmul(x, w);
    assert_int_equal(tern_amp_counted().casts, 3);
    tern_matmul(x, tern_transpose(w, 0, 1)); /* a view: not kept */
    tern_matmul(x, tern_transpose(w, 0, 1));
    assert_int_equal(tern_amp_counted().casts, 5);
    tern_tensor *plain = filled(TERN_F32); /* gets no gradient: not kept */
    tern_matmul(x, plain);
    tern_matmul(x, plain);
    assert_int_equal(tern_amp_counted().casts, 7);
    TERN_AUTOCAST(TERN_CPU, TERN_BF16, .cache = TERN_CACHE_OFF);
    tern_matmul(x, w);
    assert_int_equal(tern_amp_counted().casts, 8);
    assert_no_error();
}

static void test_a_changed_weight_is_cast_anew(void **state) /* A025: here it is noticed */
{
    (void)state;
    TERN_SCOPE;
    TERN_AUTOCAST(TERN_CPU, TERN_BF16);
    tern_tensor *w = weight(), *x = tern_ones(TERN_SHAPE(4, 4));
    assert_close(tern_item(tern_amax(tern_matmul(x, w))), 1, 0);
    {
        TERN_NO_GRAD;
        tern_mul_(w, 2);
    }
    assert_close(tern_item(tern_amax(tern_matmul(x, w))), 2, 0);
    assert_no_error();
}

static void test_a_first_use_without_gradients_keeps_later_ones(void **state) /* A026, A024 */
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *w = weight(), *x = filled(TERN_F32);
    {
        TERN_AUTOCAST(TERN_CPU, TERN_BF16);
        {
            TERN_NO_GRAD;
            assert_false(tern_requires_grad(tern_matmul(x, w)));
        }
        tern_backward(tern_sum(tern_matmul(x, w)));
        tern_backward(tern_sum(tern_matmul(x, w))); /* the kept cast is walked twice */
        assert_int_equal(tern_amp_counted().cached, 2);
    }
    assert_no_error();
    assert_close(tern_item(tern_amax(tern_grad_of(w))), 4, 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, clear, clear)
    const struct CMUnitTest tests[] = {
        CASE(test_rows_have_the_classes_of_pytorchs_lists),
        CASE(test_defaults_are_per_kind_and_can_be_changed),
        CASE(test_a_region_needs_a_device_that_there_is),
        CASE(test_what_cannot_be_on_is_off_with_a_warning),
        CASE(test_regions_nest_and_put_back),
        CASE(test_a_new_thread_starts_outside),
        CASE(test_products_are_low_and_what_is_not_listed_stays),
        CASE(test_a_weight_of_the_positive_class_meets_logits_in_f32),
        CASE(test_einsum_is_low_where_it_multiplies_and_sums),
        CASE(test_mirrored_and_repeated_ends_are_f32),
        CASE(test_losses_cast_their_weights),
        CASE(test_batch_norm_takes_low_inputs_beside_f32_statistics),
        CASE(test_only_three_float_dtypes_are_cast),
        CASE(test_in_place_and_given_outputs_stay),
        CASE(test_joined_tensors_meet_as_in_prioritize),
        CASE(test_gradients_return_in_the_parameters_dtype),
        CASE(test_a_weight_is_cast_once_per_outermost_region),
        CASE(test_a_changed_weight_is_cast_anew),
        CASE(test_a_first_use_without_gradients_keeps_later_ones),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 || failed;
}
