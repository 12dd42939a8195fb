/* Trains a small transformer to go on with a text, character by character, then writes some: 4 blocks
 * of 4 heads, 128 wide, 64 characters at a time; AdamW with a cosine. Options: --help. */
#include <math.h>
#include <stdio.h>

#include "common/common.h"

enum { BLOCKS = 4, HEADS = 4, WIDTH = 128, LENGTH = 64, EPOCH_STEPS = 1000, SYMBOLS_MAX = 256 };

/* ---- the model -------------------------------------------------------------------------------- */

typedef struct block {
    tern_module base;
    tern_module *norm1, *qkv, *out, *norm2, *up, *down;
} block;

/* Each character attends to itself and to those before it. x [N, T, WIDTH] */
static tern_tensor *attend(const block *b, tern_tensor *x)
{
    const int64_t n = tern_size(x, 0), t = tern_size(x, 1), size = WIDTH / HEADS;
    tern_tensor *qkv = tern_view(tern_forward(b->qkv, x), TERN_SHAPE(n, t, 3, HEADS, size));
    qkv = tern_permute(qkv, TERN_DIMS(2, 0, 3, 1, 4)); /* [3, N, HEADS, T, size] */
    tern_tensor *q = tern_select(qkv, 0, 0);
    tern_tensor *k = tern_select(qkv, 0, 1);
    tern_tensor *v = tern_select(qkv, 0, 2);
    tern_tensor *y = tern_scaled_dot_product_attention(q, k, v, .causal = true);
    return tern_forward(b->out, tern_reshape(tern_transpose(y, 1, 2), TERN_SHAPE(n, t, WIDTH)));
}

static tern_tensor *block_forward(tern_module *self, tern_tensor *x)
{
    const block *b = (const block *)self;
    x = tern_add(x, attend(b, tern_forward(b->norm1, x)));
    tern_tensor *hidden = tern_gelu(tern_forward(b->up, tern_forward(b->norm2, x)));
    return tern_add(x, tern_forward(b->down, hidden));
}

static tern_module *make_block(void)
{
    block *b = TERN_MODULE(block, block_forward);
    TERN_CHILD(b, norm1, tern_layer_norm_layer(WIDTH));
    TERN_CHILD(b, qkv, tern_linear_layer(WIDTH, 3 * WIDTH));
    TERN_CHILD(b, out, tern_linear_layer(WIDTH, WIDTH));
    TERN_CHILD(b, norm2, tern_layer_norm_layer(WIDTH));
    TERN_CHILD(b, up, tern_linear_layer(WIDTH, 4 * WIDTH));
    TERN_CHILD(b, down, tern_linear_layer(4 * WIDTH, WIDTH));
    return b ? &b->base : NULL;
}

typedef struct gpt {
    tern_module base;
    tern_module *symbols, *blocks, *norm, *head;
    tern_tensor *places;
} gpt;

/* x [N, T], T up to LENGTH -> scores [N, T, symbols] of what follows each character */
static tern_tensor *gpt_forward(tern_module *self, tern_tensor *x)
{
    const gpt *g = (const gpt *)self;
    tern_tensor *places = tern_slice(g->places, 0, 0, tern_size(x, 1));
    tern_tensor *y = tern_add(tern_forward(g->symbols, x), places);
    return tern_forward(g->head, tern_forward(g->norm, tern_forward(g->blocks, y)));
}

static tern_module *make_net(int64_t symbols)
{
    TERN_SCOPE;
    gpt *g = TERN_MODULE(gpt, gpt_forward);
    TERN_CHILD(g, symbols, tern_embedding_layer(symbols, WIDTH));
    TERN_PARAM(g, places, tern_randn(TERN_SHAPE(LENGTH, WIDTH)));
    TERN_CHILD(g, blocks, tern_sequential());
    for (int i = 0; g && i < BLOCKS; i++)
        tern_sequential_add(g->blocks, NULL, make_block());
    TERN_CHILD(g, norm, tern_layer_norm_layer(WIDTH));
    TERN_CHILD(g, head, tern_linear_layer(WIDTH, symbols, .no_bias = true));
    tern_module *net = g ? &g->base : NULL;
    const tern_tensors_t all = tern_parameters(net);
    for (int64_t i = 0; i < all.count; i++) /* GPT-2's start: matrices from N(0, 0.02) */
        if (tern_ndim(all.tensors[i]) == 2)
            tern_init_normal(all.tensors[i], 0, 0.02);
    return net;
}

/* ---- writing ---------------------------------------------------------------------------------- */

/* One symbol by its score: softmax of scores / temperature over the top_k largest. */
static int64_t choose(const example *run, const float *scores, int64_t symbols, double chance)
{
    double weight[SYMBOLS_MAX], sum = 0;
    for (int64_t i = 0; i < symbols; i++) {
        int64_t better = 0;
        double top = scores[i];
        for (int64_t j = 0; j < symbols; j++) {
            better += scores[j] > scores[i];
            top = fmax(top, scores[j]);
        }
        const bool counts = run->top_k == 0 || better < run->top_k;
        weight[i] = counts ? exp((scores[i] - top) / run->temperature) : 0;
        sum += weight[i];
    }
    int64_t choice = 0;
    for (double rest = chance * sum - weight[0]; rest >= 0 && choice < symbols - 1;)
        rest -= weight[++choice];
    return choice;
}

/* Prints run->sample characters, each from the scores that the model gives after the last ones. */
static void write_text(const example *run, tern_module *net, const tern_text *text)
{
    TERN_NO_GRAD;
    TERN_SCOPE;
    int64_t last[LENGTH] = { 0 }, count = 0; /* without a prompt: from the first symbol on */
    for (const char *c = run->prompt; c && *c; c++) {
        const int64_t symbol = tern_text_symbol(text, *c);
        for (int i = 1; count == LENGTH && i < LENGTH; i++)
            last[i - 1] = last[i];
        count -= count == LENGTH;
        last[count++] = symbol < 0 ? 0 : symbol; /* example_text has said so */
    }
    count += count == 0;
    printf("%s", run->prompt ? run->prompt : "");
    tern_generator *chances = tern_generator_create((uint64_t)run->seed);
    tern_eval(net);
    for (int64_t i = 0; i < run->sample && !tern_failed(); i++) {
        TERN_SCOPE;
        float scores[SYMBOLS_MAX];
        const int64_t symbols = tern_text_symbols(text);
        tern_tensor *x = tern_from_data(last, TERN_SHAPE(1, count), .dtype = TERN_I64);
        tern_tensor *y = tern_forward(net, tern_to(x, run->device));
        const int64_t bytes = symbols * (int64_t)sizeof *scores;
        if (tern_read(tern_select(y, 1, -1), TERN_F32, scores, bytes) != TERN_OK)
            break;
        const double chance = tern_item(tern_rand(TERN_SCALAR_SHAPE, .generator = chances));
        const int64_t choice = choose(run, scores, symbols, chance);
        putchar(tern_text_byte(text, choice));
        for (int j = 1; count == LENGTH && j < LENGTH; j++)
            last[j - 1] = last[j];
        count -= count == LENGTH;
        last[count++] = choice;
    }
    putchar('\n');
    tern_generator_free(chances);
    tern_train(net);
}

int main(int argc, char **argv)
{
    example run = example_start(argc, argv, .kind = EXAMPLE_TEXT, .epochs = 8, .batch = 16,
                                .lr = 1e-3, .epoch_steps = EPOCH_STEPS);
    tern_text *text = example_text(&run);
    tern_dataset *train = tern_text_windows(text, LENGTH, .split = TERN_TRAIN);
    tern_dataset *test = example_held_out(&run, text, LENGTH);

    tern_module *net = make_net(tern_text_symbols(text));
    tern_module_to(net, run.device);
    tern_optimizer *opt = tern_adamw(tern_parameters(net), .lr = run.lr);
    int64_t steps = example_planned_steps(&run, train);
    tern_schedule *rate = tern_cosine_schedule(opt, .steps = steps, .min_lr = run.lr / 10);
    example_resume(&run, net, opt, rate); /* --load: goes on where --save stopped */

    while (example_next_epoch(&run)) {
        tern_loader *batches =
            tern_loader_open(train, .batch = run.batch, .shuffle = true, .device = run.device,
                             .epoch_steps = run.epoch_steps, .progress = true, .quiet = run.quiet,
                             .label = run.label);
        example_resume_epoch(&run, batches);
        tern_batch b;
        while (tern_loader_next(batches, &b)) {
            TERN_SCOPE;
            tern_tensor *loss;
            {
                TERN_SCOPE; /* the scores go before the gradients come */
                TERN_AUTOCAST(tern_device(b.x), run.low, .disabled = run.full);
                tern_tensor *scores = tern_flatten(tern_forward(net, b.x), 0, 1);
                loss = tern_keep(tern_cross_entropy(scores, tern_flatten(b.y, 0, 1)));
            }
            tern_backward(tern_scaler_scale(run.scaler, loss));
            tern_scaler_step(run.scaler, opt); /* --amp fp16 scales, else these only step */
            tern_scaler_update(run.scaler);
            tern_schedule_step(rate);
            tern_zero_grad(opt);
            tern_loader_report(batches, "loss", loss);
        }
        example_end_epoch(&run, batches, net, test);
    }
    if (run.sample > 0 && !tern_failed())
        write_text(&run, net, text);
    return example_finish(&run, net, test);
}
