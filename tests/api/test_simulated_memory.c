/* The peak memory of a training step on a device, against a formula of its sizes (docs/design/allocator.md,
 * "Memory of a training step"): a tensor that is saved or kept for longer than backward needs it, a
 * gradient that lives too long or work memory that is kept shows here. */
#include <stdlib.h>

#include "tests/support/check.h"

static const tern_dev_t device = { TERN_KIND_CUDA, 0 };

/* ---- what a step takes --------------------------------------------------------------------------- */

/* Bytes of n elements, rounded as the allocator does. */
static int64_t block(int64_t n, int64_t size)
{
    return (n * size + 511) / 512 * 512;
}

static int64_t floats(int64_t n)
{
    return block(n, 4);
}

/* A part of the network, in the order of forward, in bytes: what it saves beside what others have saved or
 * hold anyway, the gradients of its weights; and, while its backward runs, gradients of its result and its
 * inputs and what else there is. */
typedef struct stage {
    const char *name;
    int64_t saved, weights, result, inputs, others;
} stage;

/* What lasts longer than a step, and at the busiest stage: all that is saved up to it, all gradients of weights
 * from it on, and what its backward works with. */
static int64_t formula(int64_t lasting, const stage *stages, int count)
{
    int64_t saved = 0, gradients = 0, most = 0;
    for (int i = 0; i < count; i++)
        gradients += stages[i].weights;
    for (int i = 0; i < count; i++) {
        const stage *s = &stages[i];
        saved += s->saved;
        const int64_t here = saved + gradients + s->result + s->inputs + s->others;
        most = here > most ? here : most;
        gradients -= s->weights;
    }
    return lasting + most;
}

/* ---- what it took -------------------------------------------------------------------------------- */

typedef struct training {
    tern_module *net;
    tern_optimizer *opt;
    tern_tensor *x, *y;
    int64_t before;
} training;

/* What a stream's products keep is there before anything is compared. */
static int64_t begin(void)
{
    TERN_SCOPE;
    assert_int_equal(tern_set_default_device(device), TERN_OK);
    (void)tern_matmul(tern_ones(TERN_SHAPE(64, 64)), tern_ones(TERN_SHAPE(64, 64)));
    (void)tern_dev_synchronize(device);
    tern_seed(1);
    assert_no_error();
    return tern_memory(device).allocated_bytes;
}

static void steps(const training *t, int count)
{
    for (int i = 0; i < count; i++) {
        TERN_SCOPE;
        tern_backward(tern_cross_entropy(tern_forward(t->net, t->x), t->y));
        tern_step(t->opt);
        tern_zero_grad(t->opt);
    }
    (void)tern_dev_synchronize(device);
    assert_no_error();
}

/* A step that follows three others takes no more than the formula says, which is not much too high. */
static void compare(const training *t, int64_t wanted)
{
    steps(t, 3);
    tern_memory_reset_peak(device);
    steps(t, 1);
    const int64_t peak = tern_memory(device).peak_allocated_bytes - t->before;
    tern_optimizer_free(t->opt);
    tern_module_free(t->net);
    if (peak > wanted || peak < wanted - wanted / 16)
        fail_msg("the step took %lld bytes at its peak, by the formula %lld", (long long)peak,
                 (long long)wanted);
}

static int64_t linear_bytes(int64_t in, int64_t out)
{
    return floats(in * out) + floats(out);
}

/* logits [n, classes]: they belong to the step's scope, their gradient to backward. */
static stage loss_stage(int64_t n, int64_t classes)
{
    const int64_t logits = floats(n * classes);
    return (stage){ "cross_entropy", logits + floats(n) + floats(1), 0, floats(1), logits, 0 };
}

/* ---- networks ------------------------------------------------------------------------------------- */

enum { BATCH = 128, IN = 100, WIDE = 300, MIDDLE = 200, CLASSES = 10 };

static void test_perceptron(void **state)
{
    (void)state;
    TERN_SCOPE;
    training t = { .before = begin() };
    t.net = tern_sequential(tern_linear_layer(IN, WIDE), tern_relu_layer(),
                            tern_linear_layer(WIDE, MIDDLE), tern_relu_layer(),
                            tern_linear_layer(MIDDLE, CLASSES));
    t.opt = tern_adam(tern_parameters(t.net), .lr = 1e-3);
    t.x = tern_rand(TERN_SHAPE(BATCH, IN));
    t.y = tern_zeros(TERN_SHAPE(BATCH), .dtype = TERN_I64);
    const int64_t first = linear_bytes(IN, WIDE), second = linear_bytes(WIDE, MIDDLE),
                  third = linear_bytes(MIDDLE, CLASSES), wide = floats(BATCH * WIDE),
                  middle = floats(BATCH * MIDDLE), logits = floats(BATCH * CLASSES);
    const stage stages[] = {
        { "linear", 0, first, wide, 0, 0 },
        { "relu", wide, 0, wide, 0, 0 }, /* in the gradient's own memory */
        { "linear", 0, second, middle, wide, 0 },
        { "relu", middle, 0, middle, 0, 0 },
        { "linear", 0, third, logits, middle, 0 },
        loss_stage(BATCH, CLASSES),
    };
    const int64_t batch = floats(BATCH * IN) + block(BATCH, 8);
    compare(&t, formula(batch + 3 * (first + second + third), stages, 6));
}

enum { IMAGES = 16, SIDE = 16, FEW = 8, MANY = 16 };

/* As a block of a residual network without its shortcut: convolution, batch norm, relu. */
static void test_convolutions(void **state)
{
    (void)state;
    TERN_SCOPE;
    training t = { .before = begin() };
    t.net = tern_sequential(
        tern_conv2d_layer(3, FEW, 3, .padding = 1, .no_bias = true), tern_batch_norm2d_layer(FEW),
        tern_relu_layer(), tern_conv2d_layer(FEW, MANY, 3, .padding = 1, .no_bias = true),
        tern_batch_norm2d_layer(MANY), tern_relu_layer(), tern_avg_pool2d_layer(SIDE),
        tern_flatten_layer(), tern_linear_layer(MANY, CLASSES));
    t.opt = tern_sgd(tern_parameters(t.net), .lr = 0.1, .momentum = 0.9);
    t.x = tern_rand(TERN_SHAPE(IMAGES, 3, SIDE, SIDE));
    t.y = tern_zeros(TERN_SHAPE(IMAGES), .dtype = TERN_I64);
    const int64_t pixels = (int64_t)IMAGES * SIDE * SIDE, few = floats(pixels * FEW),
                  many = floats(pixels * MANY), pooled = floats(IMAGES * MANY),
                  first = floats(3 * FEW * 9), second = floats(FEW * MANY * 9),
                  norms[2] = { 2 * floats(FEW), 2 * floats(MANY) },
                  last = linear_bytes(MANY, CLASSES), logits = floats(IMAGES * CLASSES);
    const stage stages[] = {
        { "conv2d", 0, first, few, 0, 0 },
        { "batch_norm", few + norms[0], norms[0], few, few, 0 },
        { "relu", few, 0, few, 0, 0 },
        { "conv2d", 0, second, many, few, 0 },
        { "batch_norm", many + norms[1], norms[1], many, many, 0 },
        { "relu", many, 0, many, 0, 0 },
        { "avg_pool2d", 0, 0, pooled, many, 0 },
        { "linear", pooled, last, logits, pooled, 0 },
        loss_stage(IMAGES, CLASSES),
    };
    const int64_t weights = first + second + norms[0] + norms[1] + last;
    /* averages of batch norm, and how often they were written */
    const int64_t buffers = norms[0] + norms[1] + 2 * block(1, 8);
    const int64_t batch = floats(pixels * 3) + block(IMAGES, 8);
    compare(&t, formula(batch + buffers + 2 * weights, stages, 9));
}

enum { TEXTS = 4, LENGTH = 16, TOKENS = TEXTS * LENGTH, WIDTH = 64, HEADS = 4, SYMBOLS = 50 };

typedef struct transformer {
    tern_module base;
    tern_module *symbols, *block, *norm, *head;
} transformer;

static tern_tensor *transformer_forward(tern_module *self, tern_tensor *x)
{
    const transformer *m = (const transformer *)self;
    tern_tensor *y = tern_forward(m->block, tern_forward(m->symbols, x));
    return tern_flatten(tern_forward(m->head, tern_forward(m->norm, y)), 0, 1);
}

static tern_module *transformer_new(void)
{
    transformer *m = TERN_MODULE(transformer, transformer_forward);
    TERN_CHILD(m, symbols, tern_embedding_layer(SYMBOLS, WIDTH));
    TERN_CHILD(m, block,
               tern_transformer_encoder_layer(WIDTH, HEADS, 4 * WIDTH, .dropout = -0.0,
                                              .gelu = true, .norm_first = true, .causal = true));
    TERN_CHILD(m, norm, tern_layer_norm_layer(WIDTH));
    TERN_CHILD(m, head, tern_linear_layer(WIDTH, SYMBOLS, .no_bias = true));
    return m != NULL ? &m->base : NULL;
}

static void test_transformer(void **state)
{
    (void)state;
    TERN_SCOPE;
    training t = { .before = begin() };
    t.net = transformer_new();
    t.opt = tern_adamw(tern_parameters(t.net), .lr = 1e-3);
    t.x = tern_zeros(TERN_SHAPE(TEXTS, LENGTH), .dtype = TERN_I64);
    t.y = tern_zeros(TERN_SHAPE(TOKENS), .dtype = TERN_I64);
    const int64_t e = floats(TOKENS * WIDTH), rows = 2 * floats(TOKENS), norm = 2 * floats(WIDTH),
                  table = floats(SYMBOLS * WIDTH), qkv = linear_bytes(WIDTH, 3 * WIDTH),
                  out = linear_bytes(WIDTH, WIDTH), up = linear_bytes(WIDTH, 4 * WIDTH),
                  down = linear_bytes(4 * WIDTH, WIDTH), logits = floats(TOKENS * SYMBOLS),
                  sums = floats(TEXTS * HEADS * LENGTH);
    /* what a linear layer alone has saved goes before the gradient of its input, as large, is made;
     * the gradient that goes past a branch, by the addition behind it, is one of the others */
    const stage stages[] = {
        { "embedding", 0, table, e, 0, 0 }, { "layer_norm", e + rows, norm, e, e, e },
        { "qkv", e, qkv, 3 * e, 0, e },     { "attention", 4 * e + sums, 0, e, 3 * e, e },
        { "out", 0, out, e, e, e },         { "layer_norm", e + rows, norm, e, e, e },
        { "up", e, up, 4 * e, 0, e },       { "gelu", 4 * e, 0, 4 * e, 0, e },
        { "down", 4 * e, down, e, 0, 0 },   { "layer_norm", e + rows, norm, e, e, 0 },
        { "head", e, table, logits, 0, 0 }, loss_stage(TOKENS, SYMBOLS),
    };
    const int64_t weights = 2 * table + 3 * norm + qkv + out + up + down;
    const int64_t batch = 2 * block(TOKENS, 8);
    compare(&t, formula(batch + 3 * weights, stages, 12));
}

/* The parameters' gradients are summed in chunks of rows, of which few rows make one, without memory of its own. */
static void test_the_gradient_of_few_wide_rows(void **state)
{
    (void)state;
    TERN_SCOPE;
    enum { COLUMNS = 1 << 18 };
    tern_tensor *inputs[3], *grads[3];
    tern_tensor *slope = tern_ones(TERN_SHAPE(4, COLUMNS), .device = device);
    for (int i = 0; i < 3; i++)
        inputs[i] =
            tern_set_requires_grad(i == 0 ? tern_rand(TERN_SHAPE(4, COLUMNS), .device = device)
                                          : tern_rand(TERN_SHAPE(COLUMNS), .device = device),
                                   true);
    tern_tensor *y = tern_layer_norm(inputs[0], 1, inputs[1], inputs[2]);
    const int64_t before = tern_memory(device).allocated_bytes;
    tern_memory_reset_peak(device);
    tern_grad(y, inputs, 3, grads, .gradient = slope);
    assert_no_error();
    assert_int_equal(tern_memory(device).peak_allocated_bytes - before, floats(6 * COLUMNS));
}

int main(void)
{
    (void)setenv("TERN_SIM_DEVICES", "1", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_perceptron),
        cmocka_unit_test(test_convolutions),
        cmocka_unit_test(test_transformer),
        cmocka_unit_test(test_the_gradient_of_few_wide_rows),
    };
    return check_run(tests, NULL, NULL);
}
