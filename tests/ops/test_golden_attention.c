/* Attention and the layers made of it against golden vectors of PyTorch. */
#include <stdio.h>

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
    { "attention_five", "q k v", run_plain, 32 }, /* keys collect from three batches */
};
/* ---- layers ------------------------------------------------------------------------------------- */

static void check_grad(const char *test, const char *name, tern_tensor *t)
{
    char key[64];
    (void)snprintf(key, sizeof key, "g%s", name);
    golden_check(test, key, tern_grad_of(t), 1e-11);
}

/* The module with the state dictionary of the case: result, and gradients of inputs and parameters. */
static void check_layer(const char *test, tern_module *m, tern_args args)
{
    static const char *const inputs[] = { "x", "z", "w" };
    tern_state *state = tern_state_create();
    const tern_tensors_t all = tern_parameters(m);
    assert_no_error();
    for (int64_t i = 0; i < all.count; i++)
        tern_state_set(state, all.names[i], golden_tensor(test, all.names[i], TERN_F64));
    tern_module_restore(m, state);
    tern_state_free(state);
    tern_train(m);
    for (int i = 0; i < 3 && golden_find(test, inputs[i]) != NULL; i++)
        args.in[i] = tern_set_requires_grad(golden_tensor(test, inputs[i], TERN_F64), true);
    tern_tensor *y = tern_forward_args(m, &args);
    golden_check(test, "y", y, 1e-11);
    tern_backward(y, golden_tensor(test, "gy", TERN_F64));
    for (int i = 0; i < 3 && golden_find(test, inputs[i]) != NULL; i++)
        check_grad(test, inputs[i], args.in[i]);
    for (int64_t i = 0; i < all.count; i++)
        check_grad(test, all.names[i], all.tensors[i]);
    tern_module_free(m);
}

/* True where there is a key, the opposite of PyTorch's. */
static tern_tensor *padding(void)
{
    const bool there[2][4] = { { true, true, false, true }, { true, false, false, true } };
    return tern_from_data(there, TERN_SHAPE(2, 4), .dtype = TERN_BOOL);
}

static void test_layers_take_state_dictionaries(void **state)
{
    (void)state;
    TERN_SCOPE;
    check_layer("layer_self", tern_multihead_attention_layer(6, 2, .dtype = TERN_F64),
                TERN_ARGS(NULL));
    tern_args cross = TERN_ARGS(NULL, NULL, NULL, NULL, padding());
    check_layer("layer_cross", tern_multihead_attention_layer(6, 2, .dtype = TERN_F64), cross);
    check_layer(
        "layer_widths",
        tern_multihead_attention_layer(6, 3, .key_width = 4, .value_width = 5, .dtype = TERN_F64),
        TERN_ARGS(NULL));
    check_layer("layer_encoder", tern_transformer_encoder_layer(6, 2, 5, -0.0, .dtype = TERN_F64),
                TERN_ARGS(NULL));
    check_layer("layer_encoder_first",
                tern_transformer_encoder_layer(6, 2, 5, -0.0, .norm_first = true, .gelu = true,
                                               .causal = true, .dtype = TERN_F64),
                TERN_ARGS(NULL));
    tern_args memory = TERN_ARGS(NULL, NULL, NULL, NULL, NULL, padding());
    check_layer("layer_decoder",
                tern_transformer_decoder_layer(6, 2, 5, -0.0, .causal = true, .dtype = TERN_F64),
                memory);
    check_layer(
        "layer_decoder_first",
        tern_transformer_decoder_layer(6, 2, 5, -0.0, .norm_first = true, .dtype = TERN_F64),
        TERN_ARGS(NULL));
}

int main(void)
{
    golden_use("attention", rows, sizeof rows / sizeof *rows, "layer_");
    const struct CMUnitTest tests[] = {
        GOLDEN_TESTS,
        cmocka_unit_test(test_layers_take_state_dictionaries),
    };
    return check_run(tests, golden_setup, golden_teardown);
}
