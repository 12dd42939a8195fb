#include "models.h"

#include "bench.h"

#include <stdlib.h>
#include <string.h>

static tern_module *make_mlp1(void)
{
    return tern_sequential(tern_linear_layer(784, 128), tern_relu_layer(),
                           tern_linear_layer(128, 10));
}
static tern_module *make_mlp2(void)
{
    return tern_sequential(tern_linear_layer(784, 512), tern_relu_layer(),
                           tern_linear_layer(512, 512), tern_relu_layer(),
                           tern_linear_layer(512, 10));
}
static tern_module *make_lenet(void)
{
    return tern_sequential(
        tern_conv2d_layer(1, 6, 5, .padding = 2), tern_relu_layer(), tern_max_pool2d_layer(2),
        tern_conv2d_layer(6, 16, 5), tern_relu_layer(), tern_max_pool2d_layer(2),
        tern_flatten_layer(), tern_linear_layer(400, 120), tern_relu_layer(),
        tern_linear_layer(120, 84), tern_relu_layer(), tern_linear_layer(84, 10));
}
static tern_module *make_cnn(void)
{
    return tern_sequential(tern_conv2d_layer(1, 32, 3, .padding = 1), tern_relu_layer(),
                           tern_max_pool2d_layer(2), tern_conv2d_layer(32, 64, 3, .padding = 1),
                           tern_relu_layer(), tern_max_pool2d_layer(2), tern_flatten_layer(),
                           tern_linear_layer(3136, 128), tern_relu_layer(),
                           tern_linear_layer(128, 10));
}
static tern_module *make_tiny(void)
{
    return tern_sequential(tern_linear_layer(4, 16), tern_relu_layer(), tern_linear_layer(16, 4));
}
static tern_module *make_wide(void)
{
    return tern_sequential(tern_linear_layer(1024, 1024), tern_relu_layer(),
                           tern_linear_layer(1024, 1024), tern_relu_layer(),
                           tern_linear_layer(1024, 1024));
}

static tern_module *make_regression(void)
{
    return tern_sequential(tern_linear_layer(1, 32), tern_tanh_layer(), tern_linear_layer(32, 1));
}

/* ---- resnet20 --------------------------------------------------------------------------------- */

typedef struct residual {
    tern_module base;
    tern_module *body, *shortcut; /* shortcut NULL: the input itself */
} residual;

static tern_tensor *residual_forward(tern_module *self, tern_tensor *x)
{
    const residual *r = (const residual *)self;
    tern_tensor *past = r->shortcut ? tern_forward(r->shortcut, x) : x;
    return tern_relu(tern_add(tern_forward(r->body, x), past));
}

static tern_module *conv3(int64_t in, int64_t out, int64_t stride)
{
    return tern_conv2d_layer(in, out, 3, .stride = stride, .padding = 1, .no_bias = true);
}

static tern_module *make_residual(int64_t in, int64_t out, int64_t stride)
{
    residual *r = TERN_MODULE(residual, residual_forward);
    TERN_CHILD(r, body,
               tern_sequential(conv3(in, out, stride), tern_batch_norm2d_layer(out),
                               tern_relu_layer(), conv3(out, out, 1),
                               tern_batch_norm2d_layer(out)));
    if (in != out)
        TERN_CHILD(r, shortcut,
                   tern_sequential(tern_conv2d_layer(in, out, 1, .stride = stride, .no_bias = true),
                                   tern_batch_norm2d_layer(out)));
    return r ? &r->base : NULL;
}

static tern_module *make_resnet20(void)
{
    tern_module *net =
        tern_sequential(conv3(3, 16, 1), tern_batch_norm2d_layer(16), tern_relu_layer());
    int64_t in = 16;
    for (int64_t out = 16; out <= 64; out *= 2)
        for (int i = 0; i < 3; i++, in = out)
            tern_sequential_add(net, NULL, make_residual(in, out, in == out ? 1 : 2));
    tern_sequential_add(net, NULL, tern_avg_pool2d_layer(8));
    tern_sequential_add(net, NULL, tern_flatten_layer());
    tern_sequential_add(net, NULL, tern_linear_layer(64, 10));
    return net;
}

/* ---- lstm, gru -------------------------------------------------------------------------------- */

typedef struct recurrent {
    tern_module base;
    tern_module *layers, *head;
} recurrent;

/* What the last step of a sequence says. */
static tern_tensor *recurrent_forward(tern_module *self, tern_tensor *x)
{
    const recurrent *r = (const recurrent *)self;
    return tern_forward(r->head, tern_select(tern_forward(r->layers, x), 1, -1));
}

static tern_module *make_recurrent(tern_module *layers)
{
    recurrent *r = TERN_MODULE(recurrent, recurrent_forward);
    TERN_CHILD(r, layers, layers);
    TERN_CHILD(r, head, tern_linear_layer(256, 10));
    return r ? &r->base : NULL;
}

static tern_module *make_lstm(void)
{
    return make_recurrent(tern_lstm_layer(128, 256, .layers = 2, .batch_first = true));
}

static tern_module *make_gru(void)
{
    return make_recurrent(tern_gru_layer(128, 256, .layers = 2, .batch_first = true));
}

/* ---- all of them ------------------------------------------------------------------------------ */

typedef struct gpt {
    tern_module base;
    tern_module *symbols, *blocks, *norm, *head;
    tern_tensor *places;
} gpt;

enum { GPT_LENGTH = 64, GPT_SYMBOLS = 65, GPT_BLOCKS = 4, LARGE_LENGTH = 256 };

static tern_tensor *gpt_forward(tern_module *self, tern_tensor *x)
{
    const gpt *g = (const gpt *)self;
    tern_tensor *y = tern_add(tern_forward(g->symbols, x), g->places);
    y = tern_forward(g->norm, tern_forward(g->blocks, y));
    return tern_flatten(tern_forward(g->head, y), 0, 1);
}

static tern_module *gpt_of(int64_t width, int64_t length, int64_t heads)
{
    TERN_SCOPE;
    gpt *g = TERN_MODULE(gpt, gpt_forward);
    TERN_CHILD(g, symbols, tern_embedding_layer(GPT_SYMBOLS, width));
    TERN_PARAM(g, places, tern_randn(TERN_SHAPE(length, width)));
    TERN_CHILD(g, blocks, tern_sequential());
    for (int i = 0; g != NULL && i < GPT_BLOCKS; i++)
        tern_sequential_add(g->blocks, NULL,
                            tern_transformer_encoder_layer(width, heads, 4 * width, .dropout = -0.0,
                                                           .gelu = true, .norm_first = true,
                                                           .causal = true));
    TERN_CHILD(g, norm, tern_layer_norm_layer(width));
    TERN_CHILD(g, head, tern_linear_layer(width, GPT_SYMBOLS, .no_bias = true));
    return g != NULL ? &g->base : NULL;
}

static tern_module *make_gpt(void)
{
    return gpt_of(128, GPT_LENGTH, 4);
}
static tern_module *make_gpt1024(void)
{
    return gpt_of(1024, LARGE_LENGTH, 16);
}

static tern_optimizer *sgd(tern_module *net)
{
    return tern_sgd(tern_parameters(net), .lr = 0.01);
}
static tern_optimizer *momentum(tern_module *net)
{
    return tern_sgd(tern_parameters(net), .lr = 0.01, .momentum = 0.9);
}
static tern_optimizer *adam(tern_module *net)
{
    return tern_adam(tern_parameters(net), .lr = 1e-3);
}

static tern_optimizer *adamw(tern_module *net)
{
    return tern_adamw(tern_parameters(net), .lr = 1e-3);
}

static const bench_model models[] = {
    { "mlp1", make_mlp1, sgd, { TERN_GIVEN_, 2, { 64, 784 } }, 10 },
    { "mlp2", make_mlp2, adam, { TERN_GIVEN_, 2, { 128, 784 } }, 10 },
    { "lenet", make_lenet, momentum, { TERN_GIVEN_, 4, { 64, 1, 28, 28 } }, 10 },
    { "cnn", make_cnn, adam, { TERN_GIVEN_, 4, { 64, 1, 28, 28 } }, 10 },
    { "tiny", make_tiny, sgd, { TERN_GIVEN_, 2, { 8, 4 } }, 4 },
    { "resnet20", make_resnet20, momentum, { TERN_GIVEN_, 4, { 128, 3, 32, 32 } }, 10 },
    { "gpt", make_gpt, adamw, { TERN_GIVEN_, 2, { 16, GPT_LENGTH } }, GPT_SYMBOLS },
    { "gpt1024", make_gpt1024, adamw, { TERN_GIVEN_, 2, { 16, LARGE_LENGTH } }, GPT_SYMBOLS },
    { "wide", make_wide, sgd, { TERN_GIVEN_, 2, { 256, 1024 } }, 1024 },
    { "lstm", make_lstm, adam, { TERN_GIVEN_, 3, { 32, 64, 128 } }, 10 },
    { "gru", make_gru, adam, { TERN_GIVEN_, 3, { 32, 64, 128 } }, 10 },
    { "regression", make_regression, adam, { TERN_GIVEN_, 2, { 200, 1 } }, 1 },
};

const bench_model *bench_model_of(const char *name)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strcmp(models[i].name, name) == 0)
            return &models[i];
    return NULL;
}

static bool is_gpt(const bench_model *model)
{
    return model->make == make_gpt || model->make == make_gpt1024;
}

/* Numbers of symbols for gpt, each with a target of its own. */
static tern_tensor *inputs_of(const bench_model *model)
{
    tern_tensor *x = tern_randn(model->input);
    if (!is_gpt(model))
        return x;
    return tern_cast(tern_mul(tern_rand(model->input), model->classes), TERN_I64);
}

static tern_tensor *targets_of(const bench_model *model)
{
    const int64_t *dims = model->input.dims;
    const int64_t targets = dims[0] * (is_gpt(model) ? dims[1] : 1);
    tern_tensor *y = tern_randn(TERN_SHAPE(targets, model->classes));
    return model->make == make_regression ? y : tern_argmax(y, 1);
}

bench_training bench_training_start(const bench_model *model)
{
    tern_seed(1);
    bench_training t = { .model = model, .net = model->make() };
    t.opt = model->optimizer(t.net);
    TERN_SCOPE;
    t.x = tern_retain(inputs_of(model));
    t.y = tern_retain(targets_of(model));
    return t;
}

void bench_training_free(bench_training *t)
{
    tern_optimizer_free(t->opt);
    tern_module_free(t->net);
    tern_release(t->x);
    tern_release(t->y);
}

/* What the model gives goes with the scope, unless it is saved for backward. */
static tern_tensor *loss_of(const bench_training *t)
{
    TERN_SCOPE;
    tern_tensor *y = tern_forward(t->net, t->x);
    if (t->model->make == make_regression)
        return tern_keep(tern_mse_loss(y, t->y, TERN_MEAN));
    return tern_keep(tern_cross_entropy(y, t->y));
}

void bench_training_steps(void *training, int64_t repeats)
{
    bench_training *t = training;
    for (int64_t i = 0; i < repeats; i++) {
        TERN_SCOPE;
        tern_backward(loss_of(t));
        tern_step(t->opt);
        tern_zero_grad(t->opt);
    }
}
