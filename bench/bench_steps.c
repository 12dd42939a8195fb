/* Whole training steps: forward, loss, backward, optimizer, zero_grad, on resident data; the models are
 * those of bench/common/models.h. */
#include "common/arguments.h"
#include "common/bench.h"
#include "common/models.h"

static void run(const char *name)
{
    TERN_SCOPE;
    bench_training t = bench_training_start(bench_model_of(name));
    bench_training_steps(&t, 3);
    bench_check();
    const int64_t before = tern_memory(TERN_CPU).system_alloc_count;
    bench_print(name, "tern", bench_run(bench_training_steps, &t, 0.05, 11));
    if (tern_memory(TERN_CPU).system_alloc_count != before)
        bench_print(name, "takes memory from the system", (bench_result){ 0, 0, 0 });
    bench_training_free(&t);
}

int main(int argc, char **argv)
{
    static const char *const works[] = { "mlp1",     "mlp2", "lenet", "cnn", "tiny",
                                         "resnet20", "gpt",  "lstm",  "gru", NULL };
    return bench_main(argc, argv, "[--threads N] [mlp1 mlp2 lenet cnn tiny resnet20 gpt lstm gru]",
                      works, run);
}
