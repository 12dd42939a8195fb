/* Tensors made from numbers, ranges, draws and memory of the caller's, as a user meets them. */
#include <math.h>
#include <string.h>

#include "tests/support/check.h"

static void test_ranges(void **state)
{
    (void)state;
    TERN_SCOPE;
    assert_int_equal(tern_dtype(tern_arange(0, 3)), TERN_I64);
    check_elements(tern_arange(5, 0, -2), (const float[]){ 5, 3, 1 }, 3);
    check_elements(tern_arange(0, 1, 0.25), (const float[]){ 0, 0.25f, 0.5f, 0.75f }, 4);
    assert_int_equal(tern_numel(tern_arange(3, 3)), 0);
    assert_null(tern_arange(0, 3, -1));
    assert_error(TERN_ERR_ARGUMENT, "arange: a step of -1 does not lead from 0 to 3");
    assert_null(tern_arange(0, (double)INFINITY));
    assert_error(TERN_ERR_ARGUMENT, "finite");
}

/* A double holds every second, fourth, ... of these. */
static void test_ranges_and_fills_of_large_integers(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_arange(.start = 1e16, .end = 1e16 + 4);
    assert_int_equal(tern_dtype(x), TERN_I64);
    assert_int_equal(tern_numel(x), 4);
    assert_int_equal(tern_item_int(tern_select(x, 0, 3)), 10000000000000003);
    x = tern_arange(.end = 4e18, .step = 1e18);
    assert_int_equal(tern_item_int(tern_select(x, 0, 3)), 3000000000000000000);
    x = tern_arange(.start = -1e17, .end = -1e17 + 64, .step = 16);
    assert_int_equal(tern_item_int(tern_select(x, 0, 1)), -99999999999999984);
    check_refusal(tern_arange(.start = 1e19, .end = 1e19 + 4096, .step = 2048, .dtype = TERN_I64) !=
                      NULL,
                  "beyond what i64 can be");
    check_refusal(tern_arange(.end = 1e-200, .step = -1e-200) != NULL, "does not lead from");
    assert_int_equal(tern_item_int(tern_full((double)INT64_MAX, TERN_SCALAR_SHAPE, TERN_I64)),
                     INT64_MAX);
    assert_int_equal(tern_item_int(tern_full(0x1p62, TERN_SCALAR_SHAPE, TERN_I64)), 1ll << 62);
    assert_no_error();
}

/* What fills may be a number of any type; a whole one of 64 bits is not rounded to a double. */
static void test_fills_keep_whole_numbers(void **state)
{
    (void)state;
    TERN_SCOPE;
    const int64_t odd = (INT64_C(1) << 53) + 1;
    tern_tensor *x = tern_full(odd, TERN_SHAPE(3), .dtype = TERN_I64);
    assert_int_equal(tern_item_int(tern_select(x, 0, 2)), odd);
    assert_int_equal(tern_item_int(tern_select(tern_full_like(x, -odd), 0, 1)), -odd);
    assert_int_equal(tern_item_int(tern_select(tern_fill(x, INT64_MIN + 1), 0, 0)), INT64_MIN + 1);
    assert_int_equal(tern_item_int(tern_select(tern_fill(x, (size_t)odd), 0, 0)), odd);
    assert_int_equal(tern_item_int(tern_select(tern_fill(x, true), 0, 0)), 1);
    assert_int_equal(tern_item_int(tern_select(tern_fill(x, 2.5f), 0, 0)), 2);
    assert_int_equal(tern_item_int(tern_full(-1, TERN_SCALAR_SHAPE, .dtype = TERN_U8)), 255);
    assert_int_equal(tern_dtype(tern_full(3, TERN_SHAPE(2))), TERN_F32);
    assert_no_error();
    check_refusal(tern_full(INT64_C(1) << 31, TERN_SHAPE(2), .dtype = TERN_I32) != NULL,
                  "full: 2147483648 is beyond what i32 can be");
    check_refusal(tern_fill(x, UINT64_MAX) != NULL, "fill: 1.84467e+19 is beyond what i64 can be");
    tern_tensor *number = tern_full(7, TERN_SCALAR_SHAPE, .dtype = TERN_I64);
    check_refusal(tern_fill(x, number) != NULL, "try tern_copy(t, value)");
    assert_int_equal(tern_item_int(tern_select(tern_copy(x, number), 0, 2)), 7);
    assert_no_error();
}

static void test_creation_checks_its_arguments(void **state)
{
    (void)state;
    TERN_SCOPE;
    assert_null(tern_empty(TERN_SHAPE(2, -1)));
    assert_error(TERN_ERR_SHAPE, "[2, -1]");
    assert_null(tern_zeros(TERN_SHAPE(1LL << 40, 1LL << 40)));
    assert_error(TERN_ERR_SHAPE, "cannot have the shape");
    assert_null(tern_zeros(.dtype = TERN_F32));
    assert_error(TERN_ERR_ARGUMENT, "zeros: no shape was given");
    assert_null(tern_zeros(.shape = { 2, 3, { 0 } })); /* as tern_zeros(2, 3) */
    assert_error(TERN_ERR_ARGUMENT, "zeros: bare numbers are no shape\n  try TERN_SHAPE(2, 3)");
    assert_null(tern_zeros(.shape = { 0, 3, { 0 } }));
    assert_error(TERN_ERR_ARGUMENT, "bare numbers");
    assert_null(tern_ones(TERN_SHAPE(2), .dtype = TERN_I64, .requires_grad = true));
    assert_error(TERN_ERR_GRAD, "only floats");
    assert_null(tern_rand(TERN_SHAPE(2), .dtype = TERN_I64));
    assert_non_null(
        strstr(tern_error_text(), "try .dtype = TERN_F32, and tern_cast of the result"));
    assert_error(TERN_ERR_DTYPE, "rand: does not make i64");
    assert_null(tern_from_data(NULL, TERN_SHAPE(2)));
    assert_error(TERN_ERR_ARGUMENT, "from_data: the data is NULL");
    assert_int_equal(tern_live_tensors(), 0);
}

static void test_as_another_tensor(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_cast(tern_arange(0, 6), TERN_F64);
    x = tern_set_requires_grad(tern_view(x, TERN_SHAPE(2, 3)), true);
    tern_tensor *y = tern_zeros_like(x);
    assert_int_equal(tern_dtype(y), TERN_F64);
    assert_false(tern_requires_grad(y));
    assert_true(tern_dev_equal(tern_device(y), tern_device(x)));
    check_elements(y, (const float[]){ 0, 0, 0, 0, 0, 0 }, 6);
    check_elements(tern_ones_like(x, .dtype = TERN_I16), (const float[]){ 1, 1, 1, 1, 1, 1 }, 6);
    assert_int_equal(tern_dtype(tern_ones_like(x, .dtype = TERN_I16)), TERN_I16);
    assert_true(tern_requires_grad(tern_full_like(x, 2.5, .requires_grad = true)));
    check_elements(tern_full_like(tern_cast(x, TERN_U8), 7), (const float[]){ 7, 7, 7, 7, 7, 7 },
                   6);
    assert_int_equal(tern_numel(tern_rand(TERN_SHAPE(5), .like = x)), 5);
    assert_int_equal(tern_dtype(tern_randn_like(x)), TERN_F64);
    assert_int_equal(tern_dtype(tern_randint_like(x, 0, 9)), TERN_F64);
    assert_int_equal(tern_ndim(tern_empty_like(tern_sum(x))), 0);
    assert_no_error();
    check_refusal(tern_rand_like(tern_arange(0, 3)) != NULL, "rand: does not make i64");
    tern_tensor *here =
        tern_ones(TERN_SHAPE(2), .device = TERN_CPU); /* not on the default device */
    assert_int_equal(tern_device(tern_randn_like(here)).kind, TERN_KIND_CPU);
    tern_dev_t there = tern_default_device();
    assert_true(tern_dev_equal(tern_device(tern_zeros_like(here, .device = there)), there));
    tern_tensor *none = NULL;
    check_refusal(tern_zeros_like(none) != NULL, ".like = a tensor that is not NULL");
}

/* Laid out as PyTorch's preserve_format says (T009). */
static void test_as_another_tensor_lies(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *image = tern_empty(TERN_SHAPE(2, 3, 4, 5), .format = TERN_FORMAT_CHANNELS_LAST);
    assert_true(tern_is_channels_last(tern_zeros_like(image)));
    assert_true(tern_is_contiguous(tern_zeros_like(image, .format = TERN_FORMAT_CONTIGUOUS)));
    assert_true(tern_is_contiguous(tern_zeros(TERN_SHAPE(2, 3, 4, 5), .like = image)));
    tern_tensor *turned = tern_transpose(tern_empty(TERN_SHAPE(4, 6)), 0, 1);
    tern_tensor *gaps = tern_slice(turned, 0, 0, 6, 2), *drawn = tern_rand_like(gaps);
    assert_int_equal(tern_size(drawn, 0), 3);
    assert_int_equal(tern_stride(drawn, 0), 1);
    assert_int_equal(tern_stride(drawn, 1), 3);
    tern_tensor *wide = tern_expand(tern_ones(TERN_SHAPE(1, 3)), TERN_SHAPE(4, 3));
    assert_false(tern_overlaps_itself(tern_empty_like(wide)));
    assert_no_error();
}

static void count_release(void *user)
{
    ++*(int *)user;
}

static void test_memory_of_the_caller_is_released_once(void **state)
{
    (void)state;
    float values[] = { 1, 2, 3 };
    int released = 0;
    {
        TERN_SCOPE;
        tern_tensor *x = tern_from_memory(values, count_release, &released, TERN_SHAPE(3));
        tern_mul_(tern_slice(x, 0, 1), 10);
        assert_ptr_equal(tern_data(x), values);
        assert_int_equal(released, 0);
    }
    assert_int_equal(released, 1);
    assert_close((double)values[2], 30.0, 0);
}

/* A product that is not rounded before it is added (fma) gives -1 + 4e-16 for the 90th of them. */
static void test_linspace_cuts_whole_numbers_to_themselves(void **state)
{
    (void)state;
    TERN_SCOPE;
    int32_t got[201];
    tern_tensor *x = tern_linspace(-10, 10, 201, TERN_I32);
    assert_no_error();
    assert_int_equal(tern_read(x, TERN_I32, got, sizeof got), TERN_OK);
    for (int i = 0; i < 201; i++)
        assert_int_equal(got[i], (i - 100) / 10);
}

static void test_linspace_and_eye(void **state)
{
    (void)state;
    TERN_SCOPE;
    check_elements(tern_linspace(0, 1, 5), (const float[]){ 0, 0.25f, 0.5f, 0.75f, 1 }, 5);
    check_elements(tern_linspace(0, 10, 4, TERN_I32), (const float[]){ 0, 3, 6, 10 }, 4);
    assert_int_equal(tern_numel(tern_linspace(0, 1, 0)), 0);
    assert_true(tern_requires_grad(tern_linspace(0, 1, 3, .requires_grad = true)));
    check_elements(tern_eye(2), (const float[]){ 1, 0, 0, 1 }, 4);
    check_elements(tern_eye(2, 3, TERN_BOOL), (const float[]){ 1, 0, 0, 0, 1, 0 }, 6);
    assert_int_equal(tern_size(tern_eye(3, TERN_ZERO), 0), 3);
    assert_int_equal(tern_numel(tern_eye(0)), 0);
    assert_int_equal(tern_size(tern_eye(TERN_ZERO), 1), 0);
    assert_int_equal(tern_size(tern_eye(TERN_ZERO, 3), 1), 3);
    assert_int_equal(tern_size(tern_eye(TERN_ZERO, TERN_ZERO), 0), 0);
    check_refusal(tern_linspace(0, 1, -1) != NULL, "-1");
    check_refusal(tern_linspace(0, 1, 3, TERN_BOOL) != NULL, "bool");
    check_refusal(tern_linspace(0, 1e300, 3, TERN_I64) != NULL, "holds");
    check_refusal(tern_eye(-1) != NULL, "-1");
    check_refusal(tern_eye(2, .dtype = TERN_I64, .requires_grad = true) != NULL, "only floats");
}

static void test_randint(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_randint(-3, 5, TERN_SHAPE(1000));
    assert_int_equal(tern_dtype(x), TERN_I64);
    assert_close(tern_item(tern_amax(x)), 4, 0);
    assert_close(tern_item(tern_amax(tern_neg(x))), 3, 0);
    assert_int_equal(tern_numel(tern_randint(INT64_MIN, INT64_MAX, TERN_SHAPE(2, 2))), 4);
    assert_non_null(tern_randint(0, 256, TERN_SHAPE(3), TERN_U8));
    check_refusal(tern_randint(5, 5, TERN_SHAPE(3)) != NULL, "from 5 to below 5");
    check_refusal(tern_randint(0, 257, TERN_SHAPE(3), TERN_U8) != NULL, "numbers of u8");
    check_refusal(tern_randint(-1, 2, TERN_SHAPE(3), TERN_BOOL) != NULL, "numbers of bool");
    check_refusal(tern_randint(0, 65506, TERN_SHAPE(3), TERN_F16) != NULL, "numbers of f16");
}

static void test_randperm_gives_each_once(void **state)
{
    (void)state;
    TERN_SCOPE;
    static const struct {
        tern_dtype_t dtype;
        int64_t most; /* PyTorch's, too */
        const char *says;
    } cases[] = { { TERN_U8, 256, "n is 257, but u8 tells at most 256" },
                  { TERN_I8, 128, "n is 129, but i8 tells at most 128" },
                  { TERN_I16, 32768, "n is 32769, but i16" },
                  { TERN_F16, 2049, "n is 2050, but f16 tells at most 2049" },
                  { TERN_BF16, 257, "n is 258, but bf16 tells at most 257" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tern_tensor *p = tern_randperm(cases[i].most, .dtype = cases[i].dtype);
        assert_int_equal(tern_numel(tern_unique(p, NULL, NULL)), cases[i].most);
        check_refusal(tern_randperm(cases[i].most + 1, .dtype = cases[i].dtype) != NULL,
                      cases[i].says);
    }
    check_refusal(tern_randperm((1 << 24) + 2, .dtype = TERN_F32) != NULL, "at most 16777217");
    assert_int_equal(tern_numel(tern_randperm(0, .dtype = TERN_U8)), 0);
    assert_no_error();
}

static double sign_of(tern_tensor *t)
{
    double values[8] = { 0 };
    assert_no_error();
    (void)tern_read(t, TERN_F64, values, tern_numel(t) * (int64_t)sizeof *values);
    return values[0] == 0 && signbit(values[0]) ? -1 : 1;
}

static void test_a_negative_zero_stays_one(void **state)
{
    (void)state;
    static const tern_dtype_t floats[] = { TERN_F16, TERN_BF16, TERN_F32, TERN_F64 };
    TERN_SCOPE;
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
        tern_tensor *x = tern_full(-0.0, TERN_SHAPE(2), .dtype = floats[i]);
        assert_close(sign_of(x), -1, 0);
        assert_close(sign_of(tern_fill(tern_ones(TERN_SHAPE(2), .dtype = floats[i]), -0.0)), -1, 0);
        assert_close(sign_of(tern_pad(x, { 1, 0 }, .value = -0.0)), -1, 0);
        assert_close(sign_of(tern_pad(x, { 1, 0 })), 1, 0);
    }
    assert_true(tern_item(tern_full(-0.0, TERN_SCALAR_SHAPE, .dtype = TERN_I64)) == 0);
    assert_true(tern_item(tern_full(-0.0, TERN_SCALAR_SHAPE, .dtype = TERN_BOOL)) == 0);
}

/* A bool of the caller's may be any byte. */
static void test_bools_from_data_are_0_or_1(void **state)
{
    (void)state;
    const uint8_t bytes[] = { 7, 0, 255, 1 };
    TERN_SCOPE;
    tern_tensor *x = tern_from_data(bytes, TERN_SHAPE(4), .dtype = TERN_BOOL);
    check_elements(tern_sum(x), (const float[]){ 3 }, 1);
    check_elements(tern_eq(x, true), (const float[]){ 1, 0, 1, 1 }, 4);
    check_elements(tern_logical_not(x), (const float[]){ 0, 1, 0, 0 }, 4);
    tern_tensor *image = tern_from_data(bytes, TERN_SHAPE(1, 2, 1, 2), .dtype = TERN_BOOL,
                                        .format = TERN_FORMAT_CHANNELS_LAST);
    check_elements(tern_sum(image), (const float[]){ 3 }, 1);
}

#define MADE_OF(ctype, NAME)                                                        \
    do {                                                                            \
        ctype row[3] = { 1, 0, 1 };                                                 \
        const ctype table[2][2] = { { 1, 0 }, { 0, 1 } };                           \
        const ctype *at = row;                                                      \
        check_made(tern_from_data(row, TERN_SHAPE(3)), NAME, 2);                    \
        check_made(tern_from_data(at, TERN_SHAPE(3)), NAME, 2);                     \
        check_made(tern_from_data(table, TERN_SHAPE(2, 2)), NAME, 2);               \
        check_made(tern_from_data(&row[1], TERN_SCALAR_SHAPE), NAME, 0);            \
        check_made(tern_from_memory(row, NULL, NULL, TERN_SHAPE(3)), NAME, 2);      \
        check_made(tern_from_data(row, TERN_SHAPE(3), .dtype = NAME), NAME, 2);     \
        check_made(tern_from_data((const void *)at, TERN_SHAPE(3), NAME), NAME, 2); \
    } while (0)

static void check_made(tern_tensor *t, tern_dtype_t dtype, double sum)
{
    assert_no_error();
    assert_int_equal(tern_dtype(t), dtype);
    assert_close(tern_item(tern_sum(t)), sum, 0);
}

static void test_data_have_the_dtype_of_their_array(void **state)
{
    (void)state;
    TERN_SCOPE;
    MADE_OF(bool, TERN_BOOL);
    MADE_OF(uint8_t, TERN_U8);
    MADE_OF(int8_t, TERN_I8);
    MADE_OF(int16_t, TERN_I16);
    MADE_OF(int32_t, TERN_I32);
    MADE_OF(int64_t, TERN_I64);
    MADE_OF(long long, TERN_I64);
    MADE_OF(float, TERN_F32);
    MADE_OF(double, TERN_F64);
    check_made(tern_from_data(NULL, TERN_SHAPE(0)), TERN_F32, 0);
}

static void check_no_data(const tern_tensor *t, const char *says)
{
    assert_null(t);
    assert_error(TERN_ERR_DTYPE, says);
}

static void test_data_are_not_converted(void **state)
{
    (void)state;
    TERN_SCOPE;
    double values[2] = { 1, 2 };
    uint16_t bits[2] = { 0x3c00, 0 };
    tern_tensor *single = tern_ones(TERN_SHAPE(2));
    const char *differs = "the data are f64 by their type, and f32 is asked for";
    check_no_data(tern_from_data(values, TERN_SHAPE(2), .dtype = TERN_F32), differs);
    check_no_data(tern_from_data(values, .like = single), differs);
    check_no_data(tern_from_memory(values, NULL, NULL, TERN_SHAPE(2), TERN_F32), differs);
    /* what the type does not say, the call has to */
    check_no_data(tern_from_data((void *)values, TERN_SHAPE(2)), "does not say which dtype");
    check_no_data(tern_from_data(bits, TERN_SHAPE(2)), "does not say which dtype");
    check_made(tern_from_data(bits, TERN_SHAPE(2), .dtype = TERN_F16), TERN_F16, 1);
    check_made(tern_from_data((void *)values, TERN_SHAPE(1), .like = single), TERN_F32, 0);
    /* bytes may be anything */
    check_made(tern_from_data((const uint8_t *)values, TERN_SHAPE(2), .dtype = TERN_F64), TERN_F64,
               3);
    const tern_new_args pair = { .size_ = sizeof pair, .shape = TERN_SHAPE(2) };
    check_no_data(tern_from_data_at(TERN_HERE, values, TERN_DTYPES, &pair), "none of tern's");
}

static void test_reading_agrees_with_the_type_of_the_memory(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(2));
    double wide[2] = { 7, 7 };
    _Alignas(float) uint8_t bytes[8];
    assert_int_equal(tern_read(x, TERN_F32, wide, sizeof wide), TERN_ERR_DTYPE);
    assert_error(TERN_ERR_DTYPE,
                 "the memory is for f64 by its type, and elements of f32 are asked for");
    assert_close(wide[0], 7, 0);
    assert_int_equal(tern_read(x, TERN_F64, wide, sizeof wide), TERN_OK);
    assert_close(wide[1], 1, 0);
    assert_int_equal(tern_read(x, TERN_F32, bytes, sizeof bytes), TERN_OK);
    assert_int_equal(tern_read(x, TERN_F32, (void *)wide, sizeof wide), TERN_OK);
    assert_int_equal(tern_read_at(TERN_HERE, x, TERN_F32, bytes, TERN_DTYPES, 8), TERN_ERR_DTYPE);
    assert_error(TERN_ERR_DTYPE, "is no dtype");
}

static void test_a_pointer_is_to_what_the_elements_are(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(2), .device = TERN_CPU);
    const float *single = tern_data_as(float, x);
    assert_ptr_equal(single, tern_data(x));
    assert_ptr_equal(tern_data_as(const float, x), single);
    assert_ptr_equal(tern_data_as(uint16_t, x), single);
    assert_null(tern_data_as(double, x));
    assert_error(TERN_ERR_DTYPE, "the elements are f32, and a pointer to f64 is asked for");
    assert_null(tern_data_as(uint8_t, x));
    assert_error(TERN_ERR_DTYPE, "a pointer to u8");
}

static void test_bernoulli(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *p = tern_set_requires_grad(tern_full(0.25, TERN_SHAPE(10000)), true);
    tern_tensor *x = tern_bernoulli(p, NULL);
    assert_close(tern_item(tern_mean(x)), 0.25, 0.02);
    tern_backward(tern_sum(x));
    assert_close(tern_item(tern_amax(tern_abs(tern_grad_of(p)))), 0, 0);
    check_elements(tern_bernoulli(tern_arange(0, 2, .dtype = TERN_F32), NULL),
                   (const float[]){ 0, 1 }, 2);
    assert_refused(tern_bernoulli(tern_full(1.5, TERN_SHAPE(3)), NULL));
    assert_non_null(strstr(tern_error_text(), "1.5 at position"));
    tern_error_clear();
    assert_refused(tern_bernoulli(tern_full((double)NAN, TERN_SHAPE(3), TERN_F64), NULL));
    tern_error_clear();
    check_refusal(tern_bernoulli(tern_arange(0, 2), NULL) != NULL, "accepted are: f16");
    tern_generator *g = tern_generator_create(3), *h = tern_generator_create(3);
    tern_tensor *same =
        tern_eq(tern_bernoulli(tern_detach(p), g), tern_bernoulli(tern_detach(p), h));
    assert_close(tern_item(tern_sum(same)), 10000, 0);
    tern_generator_free(g);
    tern_generator_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_ranges_and_fills_of_large_integers),
        cmocka_unit_test(test_fills_keep_whole_numbers),
        cmocka_unit_test(test_creation_checks_its_arguments),
        cmocka_unit_test(test_as_another_tensor),
        cmocka_unit_test(test_as_another_tensor_lies),
        cmocka_unit_test(test_memory_of_the_caller_is_released_once),
        cmocka_unit_test(test_linspace_cuts_whole_numbers_to_themselves),
        cmocka_unit_test(test_linspace_and_eye),
        cmocka_unit_test(test_randint),
        cmocka_unit_test(test_randperm_gives_each_once),
        cmocka_unit_test(test_a_negative_zero_stays_one),
        cmocka_unit_test(test_bools_from_data_are_0_or_1),
        cmocka_unit_test(test_data_have_the_dtype_of_their_array),
        cmocka_unit_test(test_data_are_not_converted),
        cmocka_unit_test(test_reading_agrees_with_the_type_of_the_memory),
        cmocka_unit_test(test_a_pointer_is_to_what_the_elements_are),
        cmocka_unit_test(test_bernoulli),
    };
    return check_run(tests, NULL, NULL);
}
