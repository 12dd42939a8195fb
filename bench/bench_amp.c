/* A training step in f32, bf16, f16, and f16 with the gradient scaler: time, peak memory, casts, and what
 * the scaler costs; on CUDA devices f32 without and with TF32. Models: bench/common/models.h. */
#include <stdio.h>
#include <string.h>

#include "common/arguments.h"
#include "common/bench.h"
#include "common/models.h"

typedef struct workload {
    bench_training training;
    tern_dtype_t dtype; /* NONE: f32 */
    tern_grad_scaler *scaler;
} workload;

static tern_dev_t device;

static void steps(void *user, int64_t repeats)
{
    workload *w = user;
    const bench_training *t = &w->training;
    for (int64_t i = 0; i < repeats; i++) {
        TERN_SCOPE;
        tern_tensor *loss;
        {
            TERN_AUTOCAST(device, w->dtype, .disabled = w->dtype == TERN_DTYPE_NONE);
            loss = tern_cross_entropy(tern_forward(t->net, t->x), t->y);
        }
        tern_backward(tern_scaler_scale(w->scaler, loss));
        tern_scaler_step(w->scaler, t->opt);
        tern_scaler_update(w->scaler);
        tern_zero_grad(t->opt);
    }
    (void)tern_dev_synchronize(device);
}

static const struct {
    const char *name;
    tern_dtype_t dtype;
    bool scales, tf32;
} modes[] = {
    { "f32", TERN_DTYPE_NONE, false, false },    { "tf32", TERN_DTYPE_NONE, false, true },
    { "bf16", TERN_BF16, false, false },         { "f16", TERN_F16, false, false },
    { "f16 and scaler", TERN_F16, true, false },
};

static void print_counts(const char *work, const char *mode, int64_t bytes)
{
    const tern_amp_counts c = tern_amp_counted();
    printf("{\"work\": \"%s\", \"variant\": \"%s\", \"peak_bytes\": %lld, \"casts\": %lld, "
           "\"cast_bytes\": %lld}\n",
           work, mode, (long long)bytes, (long long)c.casts, (long long)c.cast_bytes);
}

static bool ready(size_t m, workload *w)
{
    if (modes[m].tf32 && device.kind != TERN_KIND_CUDA)
        return false;
    tern_cuda_matmul_set_allow_tf32(modes[m].tf32);
    w->dtype = modes[m].dtype;
    w->scaler =
        tern_grad_scaler_create(.disabled = !modes[m].scales, .init_scale = 256, .device = device);
    steps(w, 2);
    bench_check();
    return true;
}

static void run_mode(size_t m, workload *w)
{
    const char *work = w->training.model->name;
    if (!ready(m, w))
        return;
    tern_amp_reset();
    tern_memory_reset_peak(device);
    const int64_t before = tern_memory(device).allocated_bytes;
    steps(w, 1);
    print_counts(work, modes[m].name, tern_memory(device).peak_allocated_bytes - before);
    bench_print(work, modes[m].name, bench_run(steps, w, 0.05, 11));
    tern_grad_scaler_free(w->scaler);
}

/* f16 without and with the scaler in turns, so that both see the same machine: the median of what
 * each pair says. */
static void print_scaler(workload *w)
{
    enum { PAIRS = 15 };
    double seconds[2][PAIRS], ratios[PAIRS];
    tern_grad_scaler *scalers[2];
    w->dtype = TERN_F16;
    for (int s = 0; s < 2; s++)
        scalers[s] =
            tern_grad_scaler_create(.disabled = s == 0, .init_scale = 256, .device = device);
    for (int i = 0; i < 2 * PAIRS; i++) {
        w->scaler = scalers[(i + i / 2) % 2];
        seconds[(i + i / 2) % 2][i / 2] = bench_run(steps, w, 0.01, 5).low;
    }
    for (int i = 0; i < PAIRS; i++) {
        int at = i;
        const double ratio = seconds[1][i] / seconds[0][i];
        for (; at > 0 && ratios[at - 1] > ratio; at--)
            ratios[at] = ratios[at - 1];
        ratios[at] = ratio;
    }
    printf("{\"work\": \"%s\", \"scaler_percent\": %.2f}\n", w->training.model->name,
           100 * (ratios[PAIRS / 2] - 1));
    tern_grad_scaler_free(scalers[0]);
    tern_grad_scaler_free(scalers[1]);
}

static void run(const char *name)
{
    TERN_SCOPE;
    device = tern_default_device();
    workload w = { .training = bench_training_start(bench_model_of(name)) };
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++)
        run_mode(m, &w);
    print_scaler(&w);
    bench_training_free(&w.training);
}

int main(int argc, char **argv)
{
    static const char *const works[] = { "mlp2", "wide", "cnn", "resnet20", "gpt", NULL };
    (void)bench_begin(argc, argv,
                      "[--threads N] [--device D] [mlp2 wide cnn resnet20 gpt gpt1024]\n"
                      "gpt1024, whose step takes seconds on a CPU, runs only where it is named",
                      NULL);
    bench_run_works(works, run);
    if (bench_name(0) != NULL && bench_wanted("gpt1024"))
        run("gpt1024");
    return bench_end();
}
