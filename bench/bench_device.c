/* Large ops and training steps on a device, beside the bandwidth of its own copies. What the host waits
 * for is part of the time, once per block of repeats.
 *   copy add relu gelu sum sum_rows softmax layer_norm cross_entropy matmul_f32 matmul_f16 matmul_bf16
 *   mlp1 mlp2 lenet cnn wide tiny resnet20 gpt    (bench/common/models.h)
 * What fails is a line with its error; the others go on.
 * bench/peers/torch_device.py does the same work in PyTorch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arguments.h"
#include "common/bench.h"
#include "common/models.h"

enum { ROW = 1024 };

typedef struct operands {
    tern_tensor *a, *b, *row, *classes;
    bench_training *training;
} operands;

static tern_dev_t device;
static int64_t elements = 1 << 26;

/* ---- works ------------------------------------------------------------------------------------ */

#define WORK(name, call)                          \
    static void name(void *user, int64_t repeats) \
    {                                             \
        operands *o = user;                       \
        for (int64_t i = 0; i < repeats; i++) {   \
            TERN_SCOPE;                           \
            (void)(call);                         \
        }                                         \
        (void)tern_dev_synchronize(device);       \
    }
WORK(copy, tern_clone(o->a))
WORK(add, tern_add(o->a, o->b))
WORK(relu, tern_relu(o->a))
WORK(gelu, tern_gelu(o->a))
WORK(sum, tern_sum(o->a))
WORK(sum_rows, tern_sum(o->a, .dims = TERN_DIMS(1)))
WORK(softmax, tern_softmax(o->a, -1))
WORK(layer_norm, tern_layer_norm(o->a, 1, o->row, o->row))
WORK(cross_entropy, tern_cross_entropy(o->a, o->classes))
WORK(matmul, tern_matmul(o->a, o->b))

static void training(void *user, int64_t repeats)
{
    bench_training_steps(((operands *)user)->training, repeats);
    (void)tern_dev_synchronize(device);
}

/* bytes: passes over `elements` floats that the work needs at least; 0: a product of side^3. */
static const struct {
    const char *name;
    bench_body body;
    int passes;
    int64_t side;
    tern_dtype_t dtype;
} works[] = {
    { "copy", copy, 2, 0, TERN_F32 },
    { "add", add, 3, 0, TERN_F32 },
    { "relu", relu, 2, 0, TERN_F32 },
    { "gelu", gelu, 2, 0, TERN_F32 },
    { "sum", sum, 1, 0, TERN_F32 },
    { "sum_rows", sum_rows, 1, 0, TERN_F32 },
    { "softmax", softmax, 2, 0, TERN_F32 },
    { "layer_norm", layer_norm, 2, 0, TERN_F32 },
    { "cross_entropy", cross_entropy, 1, 0, TERN_F32 },
    { "matmul_f32", matmul, 0, 4096, TERN_F32 },
    { "matmul_f16", matmul, 0, 8192, TERN_F16 },
    { "matmul_bf16", matmul, 0, 8192, TERN_BF16 },
};

static void print(const char *work, bench_result r, double bytes, double flops)
{
    printf("{\"work\": \"%s\", \"variant\": \"tern\", \"us\": %.5g, \"low\": %.5g, \"high\": %.5g, "
           "\"gb_per_s\": %.5g, \"tflop_per_s\": %.5g}\n",
           work, 1e6 * r.median, 1e6 * r.low, 1e6 * r.high, 1e-9 * bytes / r.median,
           1e-12 * flops / r.median);
    fflush(stdout);
}

static void run_op(size_t i)
{
    TERN_SCOPE;
    const int64_t side =
        works[i].side != 0 && works[i].side * works[i].side > elements ? ROW : works[i].side;
    const int64_t rows = side != 0 ? side : elements / ROW, columns = side != 0 ? side : ROW;
    tern_seed(1);
    tern_tensor *classes = tern_zeros(TERN_SHAPE(rows), .dtype = TERN_I64);
    operands o = { .a = tern_cast(tern_randn(TERN_SHAPE(rows, columns)), works[i].dtype),
                   .b = tern_cast(tern_randn(TERN_SHAPE(rows, columns)), works[i].dtype),
                   .row = tern_ones(TERN_SHAPE(columns)),
                   .classes = classes };
    if (!bench_works(works[i].name, works[i].body, &o))
        return;
    const bench_result r = bench_run(works[i].body, &o, 0.02, 11);
    const double size = (double)rows * (double)columns;
    print(works[i].name, r, 4.0 * size * works[i].passes,
          side != 0 ? 2.0 * size * (double)side : 0);
}

static void run_model(const char *name)
{
    TERN_SCOPE;
    bench_training t = bench_training_start(bench_model_of(name));
    operands o = { .training = &t };
    if (bench_works(name, training, &o))
        print(name, bench_run(training, &o, 0.05, 11), 0, 0);
    bench_training_free(&t);
}

static void run(const char *name)
{
    for (size_t i = 0; i < sizeof works / sizeof *works; i++)
        if (strcmp(works[i].name, name) == 0) {
            run_op(i);
            return;
        }
    run_model(name);
}

int main(int argc, char **argv)
{
    static const char *const names[] = { "copy",       "add",        "relu",
                                         "gelu",       "sum",        "sum_rows",
                                         "softmax",    "layer_norm", "cross_entropy",
                                         "matmul_f32", "matmul_f16", "matmul_bf16",
                                         "mlp1",       "mlp2",       "lenet",
                                         "cnn",        "wide",       "tiny",
                                         "resnet20",   "gpt",        NULL };
    const bench_option options[] = { { .name = "elements", .number = &elements },
                                     { .name = NULL } };
    const bench_asked asked = bench_begin(
        argc, argv,
        "[--device D (cuda)] [--elements N] [copy add relu gelu sum sum_rows softmax layer_norm\n"
        "cross_entropy matmul_f32 matmul_f16 matmul_bf16 mlp1 mlp2 lenet cnn wide tiny resnet20 "
        "gpt]",
        options);
    if (asked.device == NULL)
        bench_set_device("cuda");
    device = tern_default_device();
    elements = elements / ROW * ROW;
    bench_run_works(names, run);
    return bench_end();
}
