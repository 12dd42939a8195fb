/* A training step in f32, bf16, f16, and f16 with the gradient scaler: time, peak memory, casts.
 * The models are those of bench/common/models.h.
 * bench_amp [--threads N] [mlp2 wide cnn resnet20 gpt] */
#include <stdio.h>

#include "common/bench.h"
#include "common/models.h"

typedef struct workload {
    bench_training training;
    tern_dtype_t dtype; /* NONE: f32 */
    tern_grad_scaler *scaler;
} workload;

static void steps(void *user, int64_t repeats)
{
    workload *w = user;
    const bench_training *t = &w->training;
    for (int64_t i = 0; i < repeats; i++) {
        TERN_SCOPE;
        tern_tensor *loss;
        {
            TERN_AUTOCAST(TERN_CPU, w->dtype, .disabled = w->dtype == TERN_DTYPE_NONE);
            loss = tern_cross_entropy(tern_forward(t->net, t->x), t->y);
        }
        tern_backward(tern_scaler_scale(w->scaler, loss));
        tern_scaler_step(w->scaler, t->opt);
        tern_scaler_update(w->scaler);
        tern_zero_grad(t->opt);
    }
}

static const struct {
    const char *name;
    tern_dtype_t dtype;
    bool scales;
} modes[] = {
    { "f32", TERN_DTYPE_NONE, false },
    { "bf16", TERN_BF16, false },
    { "f16", TERN_F16, false },
    { "f16 and scaler", TERN_F16, true },
};

static void print_counts(const char *work, const char *mode, int64_t bytes)
{
    const tern_amp_counts c = tern_amp_counted();
    printf("{\"work\": \"%s\", \"variant\": \"%s\", \"peak_bytes\": %lld, \"casts\": %lld, "
           "\"cast_bytes\": %lld}\n",
           work, mode, (long long)bytes, (long long)c.casts, (long long)c.cast_bytes);
}

static void run_mode(size_t m, workload *w)
{
    const char *work = w->training.model->name;
    w->dtype = modes[m].dtype;
    w->scaler = tern_grad_scaler_create(.disabled = !modes[m].scales, .init_scale = 256);
    steps(w, 2);
    bench_check();
    tern_amp_reset();
    tern_memory_reset_peak(TERN_CPU);
    const int64_t before = tern_memory(TERN_CPU).allocated_bytes;
    steps(w, 1);
    print_counts(work, modes[m].name, tern_memory(TERN_CPU).peak_allocated_bytes - before);
    bench_print(work, modes[m].name, bench_run(steps, w, 0.05, 11));
    tern_grad_scaler_free(w->scaler);
}

static void run(const char *name)
{
    TERN_SCOPE;
    workload w = { .training = bench_training_start(bench_model_of(name)) };
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++)
        run_mode(m, &w);
    bench_training_free(&w.training);
}

int main(int argc, char **argv)
{
    static const char *const works[] = { "mlp2", "wide", "cnn", "resnet20", "gpt" };
    return bench_main(argc, argv, works, 5, run);
}
