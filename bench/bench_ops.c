/* Single ops. Small ones show the cost of a call, large ones bandwidth.
 *   add1 add1_recorded backward_mul_node   1-element tensors; per op or node
 *   add relu exp tanh gelu softmax layer_norm cross_entropy sgd adam   large; see sizes below */
#include <string.h>

#include "common/arguments.h"
#include "common/bench.h"
#include "tern/tern.h"

typedef struct operands {
    tern_tensor *a, *b, *c, *d;
} operands;

/* ---- the cost of a call: 1,000 ops to a scope, as in a training step ---- */

static void add1(void *user, int64_t repeats)
{
    operands *o = user;
    for (int64_t i = 0; i < repeats; i += 1000) {
        TERN_SCOPE;
        for (int k = 0; k < 1000; k++)
            (void)tern_add(o->a, o->b);
    }
}
static void mul1_chain_backward(operands *o, int64_t length, double *backward_seconds)
{
    TERN_SCOPE;
    tern_tensor *t = o->c;
    for (int64_t k = 0; k < length; k++)
        t = tern_mul(t, o->b);
    const double start = bench_now();
    (void)tern_backward(t);
    *backward_seconds += bench_now() - start;
    (void)tern_set_grad(o->c, NULL);
}
static void add1_recorded(void *user, int64_t repeats)
{
    operands *o = user;
    for (int64_t i = 0; i < repeats; i += 1000) {
        TERN_SCOPE;
        for (int k = 0; k < 1000; k++)
            (void)tern_add(o->c, o->b);
    }
}

static void backward_mul_node(operands *o)
{
    double samples[21];
    for (int s = 0; s < 21; s++) {
        double seconds = 0;
        for (int r = 0; r < 20; r++)
            mul1_chain_backward(o, 1000, &seconds);
        samples[s] = seconds / 20000;
    }
    for (int i = 1; i < 21; i++) /* insertion sort: 21 values */
        for (int j = i; j > 0 && samples[j - 1] > samples[j]; j--) {
            const double t = samples[j];
            samples[j] = samples[j - 1];
            samples[j - 1] = t;
        }
    bench_print("backward_mul_node", "tern",
                (bench_result){ samples[10], samples[5], samples[15] });
}

/* ---- large ---- */

#define LARGE(name, call)                         \
    static void name(void *user, int64_t repeats) \
    {                                             \
        operands *o = user;                       \
        (void)o;                                  \
        for (int64_t i = 0; i < repeats; i++) {   \
            TERN_SCOPE;                           \
            (void)(call);                         \
        }                                         \
    }
LARGE(add, tern_add(o->a, o->b))
LARGE(relu, tern_relu(o->a))
LARGE(exp_, tern_exp(o->a))
LARGE(tanh_, tern_tanh(o->a))
LARGE(gelu, tern_gelu(o->a))
LARGE(sum, tern_sum(o->a))
LARGE(softmax, tern_softmax(o->a, -1))
LARGE(layer_norm, tern_layer_norm(o->a, 1, o->b, o->c))
LARGE(sgd_step, tern_sgd_step_at(TERN_HERE, o->a, o->b, NULL, &(tern_attr_sgd){ .lr = 1e-9 }))
LARGE(adam_step,
      tern_adam_step_at(TERN_HERE, o->a, o->b, o->c, o->d,
                        &(tern_attr_adam){
                            .lr = 1e-9, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .step = 9 }))
LARGE(matmul, tern_matmul(o->a, o->b))

static void cross_entropy(void *user, int64_t repeats)
{
    operands *o = user;
    for (int64_t i = 0; i < repeats; i++) {
        TERN_SCOPE;
        (void)tern_backward(tern_cross_entropy(o->c, o->b));
        (void)tern_set_grad(o->c, NULL);
    }
}

static void one(const char *work, bench_body body, operands *o)
{
    if (bench_wanted(work))
        bench(work, body, o);
}

static void small_calls(void)
{
    TERN_SCOPE;
    operands o = { tern_ones(TERN_SHAPE(1)), tern_ones(TERN_SHAPE(1)),
                   tern_ones(TERN_SHAPE(1), .requires_grad = true), NULL };
    one("add1", add1, &o);
    one("add1_recorded", add1_recorded, &o);
    if (bench_wanted("backward_mul_node"))
        backward_mul_node(&o);
}

static void elementwise(int64_t n, const char *suffix)
{
    TERN_SCOPE;
    static const struct {
        const char *name;
        bench_body body;
    } works[] = { { "add", add },    { "relu", relu }, { "exp", exp_ },
                  { "tanh", tanh_ }, { "gelu", gelu }, { "sum", sum } };
    operands o = { NULL, NULL, NULL, NULL };
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
        char name[32] = "";
        strcat(strcat(name, works[i].name), suffix);
        if (o.a == NULL && bench_wanted(name)) {
            o.a = tern_randn(TERN_SHAPE(n));
            o.b = tern_randn(TERN_SHAPE(n));
        }
        one(name, works[i].body, &o);
    }
}

static void rows(void)
{
    TERN_SCOPE;
    operands o = { tern_randn(TERN_SHAPE(1024, 1024)), tern_randn(TERN_SHAPE(1024)),
                   tern_randn(TERN_SHAPE(1024)), NULL };
    one("softmax_1024x1024", softmax, &o);
    one("layer_norm_1024x1024", layer_norm, &o);
    o.c = tern_set_requires_grad(tern_randn(TERN_SHAPE(1024, 1024)), true);
    o.b = tern_argmax(tern_randn(TERN_SHAPE(1024, 1024)), 1);
    one("cross_entropy_1024x1024", cross_entropy, &o);
    o.c = tern_set_requires_grad(tern_randn(TERN_SHAPE(64, 10)), true);
    o.b = tern_argmax(tern_randn(TERN_SHAPE(64, 10)), 1);
    one("cross_entropy_64x10", cross_entropy, &o);
}

static void optimizers(void)
{
    TERN_SCOPE;
    TERN_NO_GRAD;
    operands o = { tern_randn(TERN_SHAPE(669706)), tern_randn(TERN_SHAPE(669706)),
                   tern_zeros(TERN_SHAPE(669706)), tern_ones(TERN_SHAPE(669706)) };
    one("sgd_669706", sgd_step, &o);
    one("adam_669706", adam_step, &o);
}

static void products(void)
{
    static const struct {
        const char *name;
        int64_t m, k, n;
    } shapes[] = { { "matmul_64x784x128", 64, 784, 128 },
                   { "matmul_128x784x512", 128, 784, 512 },
                   { "matmul_64x128x10", 64, 128, 10 },
                   { "matmul_256", 256, 256, 256 },
                   { "matmul_1024", 1024, 1024, 1024 } };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        TERN_SCOPE;
        operands o = { tern_randn(TERN_SHAPE(shapes[i].m, shapes[i].k)),
                       tern_randn(TERN_SHAPE(shapes[i].k, shapes[i].n)), NULL, NULL };
        one(shapes[i].name, matmul, &o);
    }
}

int main(int argc, char **argv)
{
    (void)bench_begin(argc, argv, "[--threads N] [work ...]", NULL);
    small_calls();
    elementwise(4096, "_4k");
    elementwise(1 << 20, "_1m");
    elementwise(1 << 24, "_16m");
    rows();
    optimizers();
    products();
    return bench_end();
}
