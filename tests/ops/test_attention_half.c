/* Attention of half types, which devices do by tensor cores, beside the CPU's f64 of the same numbers: sizes around
 * tiles and fragments, what is hidden, shared heads, dropout, and all gradients. */
#include <math.h>

#include "tests/support/check.h"

typedef enum mask_kind { NO_MASK, BOOL_MASK, FLOAT_MASK } mask_kind;

typedef struct attention_case {
    int64_t t, s, d, e, heads, groups, offset;
    bool causal;
    mask_kind mask;
    double dropout;
} attention_case;

static tern_tensor *exact(tern_tensor *t)
{
    return tern_to(tern_detach(t), .device = TERN_CPU, .dtype = TERN_F64);
}

/* [2, heads, n, width], of memory that begins `offset` elements behind what is aligned. */
static tern_tensor *operand(int64_t heads, int64_t n, int64_t width, int64_t offset,
                            tern_dtype_t dtype)
{
    const int64_t count = 2 * heads * n * width;
    tern_tensor *memory = tern_cast(tern_randn(TERN_SHAPE(count + offset)), dtype);
    memory = tern_slice(memory, 0, offset == 0 ? TERN_ZERO : offset, count + offset);
    return tern_view(memory, TERN_SHAPE(2, heads, n, width));
}

/* One for all heads; the last query sees nothing by a mask of bools. */
static tern_tensor *mask_of(const attention_case *c, tern_dtype_t dtype)
{
    if (c->mask == NO_MASK)
        return NULL;
    tern_tensor *x = tern_randn(TERN_SHAPE(2, 1, c->t, c->s));
    if (c->mask == FLOAT_MASK)
        return tern_cast(x, dtype);
    tern_tensor *last = tern_slice(x, 2, c->t == 1 ? TERN_ZERO : c->t - 1, c->t);
    tern_fill(last, -9);
    return tern_gt(x, -0.5);
}

/* Result and gradients of q, k and v; every run draws the same for dropout. */
static void attend(const attention_case *c, tern_tensor **in, tern_tensor *mask, tern_tensor *slope,
                   tern_tensor **out)
{
    for (int i = 0; i < 3; i++)
        tern_set_requires_grad(in[i], true);
    tern_seed(7);
    out[0] = tern_scaled_dot_product_attention(in[0], in[1], in[2], mask, .causal = c->causal,
                                               .dropout = c->dropout);
    assert_no_error();
    tern_tensor *weighed = tern_mul(
        out[0], tern_to(slope, .device = tern_device(out[0]), .dtype = tern_dtype(out[0])));
    assert_int_equal(tern_grad(tern_sum(tern_cast(weighed, TERN_F32)), in, 3, out + 1), TERN_OK);
}

/* The largest difference in units of the largest number: a sum's error grows with its terms, and a half type keeps
 * 2^-8 (bf16) or 2^-11 (f16) of each weight. */
static double distance(tern_tensor *got, tern_tensor *want)
{
    const double size = tern_item(tern_amax(tern_abs(want)));
    return tern_item(tern_amax(tern_abs(tern_sub(exact(got), want)))) / fmax(size, 1e-3);
}

static void check_case(const attention_case *c, tern_dtype_t dtype)
{
    TERN_SCOPE;
    static const char *const names[] = { "result", "gradient of q", "gradient of k",
                                         "gradient of v" };
    tern_tensor *in[3] = { operand(c->heads, c->t, c->d, c->offset, dtype),
                           operand(c->groups, c->s, c->d, c->offset, dtype),
                           operand(c->groups, c->s, c->e, c->offset, dtype) };
    tern_tensor *host[3] = { exact(in[0]), exact(in[1]), exact(in[2]) };
    tern_tensor *mask = mask_of(c, dtype), *host_mask = NULL;
    if (mask != NULL)
        host_mask = c->mask == BOOL_MASK ? tern_to(mask, .device = TERN_CPU) : exact(mask);
    tern_tensor *slope = exact(operand(c->heads, c->t, c->e, 0, dtype));
    tern_tensor *got[4], *want[4];
    attend(c, in, mask, slope, got);
    attend(c, host, host_mask, slope, want);
    for (int i = 0; i < 4; i++) {
        const double off = distance(got[i], want[i]);
        if (!(off <= (dtype == TERN_F16 ? 4e-3 : 2.5e-2)))
            fail_msg("%s of t %d, s %d, d %d, e %d, causal %d, mask %d, dropout %g: off by %g",
                     names[i], (int)c->t, (int)c->s, (int)c->d, (int)c->e, c->causal, (int)c->mask,
                     c->dropout, off);
    }
    assert_no_error();
}

static void check_all(const attention_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        check_case(&cases[i], TERN_F16);
        check_case(&cases[i], TERN_BF16);
    }
}

static void test_sizes(void **state)
{
    (void)state;
    static const attention_case cases[] = {
        { 1, 1, 16, 16, 1, 1, 0, false, NO_MASK, 0 },
        { 15, 17, 8, 24, 1, 1, 0, false, NO_MASK, 0 },
        { 16, 16, 64, 64, 1, 1, 0, false, NO_MASK, 0 },
        { 17, 15, 7, 5, 1, 1, 0, false, NO_MASK, 0 },
        { 63, 65, 40, 64, 1, 1, 0, false, NO_MASK, 0 },
        { 65, 63, 64, 33, 1, 1, 1, false, NO_MASK, 0 },
        { 64, 130, 128, 128, 1, 1, 0, false, NO_MASK, 0 },
        { 130, 64, 100, 72, 1, 1, 0, false, NO_MASK, 0 },
    };
    check_all(cases, sizeof cases / sizeof *cases);
}

static void test_hidden(void **state)
{
    (void)state;
    static const attention_case cases[] = {
        { 130, 130, 32, 32, 1, 1, 0, true, NO_MASK, 0 },
        { 65, 140, 64, 16, 1, 1, 0, true, NO_MASK, 0 },
        { 140, 65, 16, 80, 1, 1, 0, true, NO_MASK, 0 },
        { 33, 70, 16, 16, 2, 2, 0, false, BOOL_MASK, 0 },
        { 70, 33, 48, 16, 2, 2, 0, false, FLOAT_MASK, 0 },
        { 70, 70, 16, 16, 2, 2, 0, true, BOOL_MASK, 0 },
    };
    check_all(cases, sizeof cases / sizeof *cases);
}

static void test_heads_and_dropout(void **state)
{
    (void)state;
    static const attention_case cases[] = {
        { 20, 35, 16, 16, 6, 2, 0, false, NO_MASK, 0 },
        { 67, 35, 24, 16, 4, 1, 0, true, FLOAT_MASK, 0 },
        { 35, 67, 16, 16, 4, 2, 0, false, NO_MASK, 0.3 },
        { 66, 66, 72, 64, 2, 1, 0, true, NO_MASK, 0.5 },
    };
    check_all(cases, sizeof cases / sizeof *cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_sizes), cmocka_unit_test(test_hidden),
                                        cmocka_unit_test(test_heads_and_dropout) };
    return check_run(tests, NULL, NULL);
}
