/* The networks that benchmarks train, with their optimizers and batches.
 *   mlp1  784-128-10, batch 64, SGD          mlp2  784-512-512-10, batch 128, Adam
 *   lenet LeNet-5, batch 64, SGD momentum    cnn   the network of examples/cnn_mnist.c, batch 64, Adam
 *   tiny  4-16-4, batch 8, SGD               wide  1024-1024-1024-1024, batch 256, SGD
 *   resnet20  that of examples/resnet_cifar.c, batch 128, SGD momentum
 *   gpt   that of examples/char_gpt.c: 4 blocks, 4 heads, width 128, 64 of 65 symbols, batch 16, AdamW
 *   gpt1024  the same with 16 heads, width 1024, 256 symbols: for devices
 *   lstm, gru  two layers of 256 over 64 steps of 128, batch 32, the last step's classes, Adam
 *   regression  that of examples/regression.c: 1-32-1 with tanh, 200 points, squared error, Adam */
#ifndef TERN_BENCH_MODELS_H
#define TERN_BENCH_MODELS_H

#include "tern/tern.h"

typedef struct bench_model {
    const char *name;
    tern_module *(*make)(void);
    tern_optimizer *(*optimizer)(tern_module *net);
    tern_shape_t input;
    int64_t classes;
} bench_model;

/* By name; NULL for others. */
const bench_model *bench_model_of(const char *name);

/* A model at work on one batch that stays where it is; what it owns is freed by bench_training_free, the
 * batch belongs to the scope that is open. */
typedef struct bench_training {
    const bench_model *model;
    tern_module *net;
    tern_optimizer *opt;
    tern_tensor *x, *y;
} bench_training;
bench_training bench_training_start(const bench_model *model);
void bench_training_free(bench_training *training);

/* forward, loss, backward, step, zero_grad: a bench_body on a bench_training. */
void bench_training_steps(void *training, int64_t repeats);

#endif
