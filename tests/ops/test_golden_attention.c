/* Attention against golden vectors of PyTorch. */
#include "tests/support/check.h"
#include "tests/support/golden_rows.h"

GOLDEN_OP(plain, tern_scaled_dot_product_attention(in[0], in[1], in[2]))
GOLDEN_OP(causal, tern_scaled_dot_product_attention(in[0], in[1], in[2], .causal = true))
GOLDEN_OP(scale, tern_scaled_dot_product_attention(in[0], in[1], in[2], .scale = 0.75))
GOLDEN_OP(mask, tern_scaled_dot_product_attention(in[0], in[1], in[2], tern_ne(in[3], 0)))
GOLDEN_OP(bias, tern_scaled_dot_product_attention(in[0], in[1], in[2], in[3]))

static const golden_row rows[] = {
    { "attention", "q k v", run_plain, 16 },
    { "attention_causal", "q k v", run_causal, 16 },
    { "attention_causal_more", "q k v", run_causal, 16 },
    { "attention_causal_fewer", "q k v", run_causal, 16 },
    { "attention_scale", "q k v", run_scale, 16 },
    { "attention_mask", "q k v m", run_mask, 16 },
    { "attention_bias", "q k v m", run_bias, 16 },
    { "attention_groups", "q k v", run_causal, 16 },
    { "attention_two", "q k v", run_plain, 16 },
    { "attention_three", "q k v", run_plain, 16 },
    { "attention_five", "q k v", run_plain, 16 },
};
enum { ROWS = sizeof rows / sizeof *rows };

static void test_attention_agrees_with_golden_vectors(void **state)
{
    (void)state;
    golden_check_rows(rows, ROWS);
}

static void test_every_case_has_a_test(void **state)
{
    (void)state;
    static const char *const elsewhere[] = { NULL };
    golden_check_complete(rows, ROWS, elsewhere);
}

static int open_golden(void **state)
{
    (void)state;
    return golden_open_or_say("attention");
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
        cmocka_unit_test(test_attention_agrees_with_golden_vectors),
        cmocka_unit_test(test_every_case_has_a_test),
    };
    return check_run(tests, open_golden, close_golden);
}
