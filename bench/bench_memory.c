/* The memory of a steady training step at its peak, as the counters of the device's allocator have it: the
 * weights, the optimizer's state, the batch, gradients, what is saved for backward, and the work memory
 * of kernels; as asked for (tern), and in the blocks that hold it (blocks). The models are those of
 * bench/common/models.h, each an example's.
 *   mlp2 (mlp_mnist)  cnn (cnn_mnist)  resnet20 (resnet_cifar)  gpt (char_gpt)  regression
 * bench/peers/torch_memory.py takes the same of PyTorch. */
#include <stdio.h>

#include "common/arguments.h"
#include "common/bench.h"
#include "common/models.h"

static tern_dev_t device;

static void print(const char *work, const char *variant, int64_t bytes)
{
    printf("{\"work\": \"%s\", \"threads\": %d, \"variant\": \"%s\", \"kib\": %.8g}\n", work,
           tern_num_threads(), variant, (double)bytes / 1024);
    fflush(stdout);
}

static void run(const char *name)
{
    TERN_SCOPE;
    bench_training t = bench_training_start(bench_model_of(name));
    bench_training_steps(&t, 3);
    (void)tern_dev_synchronize(device);
    tern_memory_reset_peak(device);
    bench_training_steps(&t, 1);
    (void)tern_dev_synchronize(device);
    bench_check();
    const tern_memory_stats_t stats = tern_memory_stats(device);
    print(name, "tern", stats.requested_bytes.peak);
    print(name, "blocks", stats.allocated_bytes.peak);
    bench_training_free(&t);
}

int main(int argc, char **argv)
{
    static const char *const works[] = { "mlp2", "cnn", "resnet20", "gpt", "regression", NULL };
    (void)bench_begin(argc, argv, "[--device D] [--threads N] [mlp2 cnn resnet20 gpt regression]",
                      NULL);
    device = tern_default_device();
    bench_run_works(works, run);
    return bench_end();
}
