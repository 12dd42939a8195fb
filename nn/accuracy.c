/* Share of right answers of a model over a data set. */
#include <math.h>

#include "nn/internal.h"
#include "tern/data.h"

/* Adds the batch's right answers to `sum`, on the device. */
static bool count_batch(tern_module *module, const tern_batch *b, tern_tensor *sum)
{
    TERN_SCOPE;
    tern_tensor *scores = tern_forward(module, b->x);
    tern_tensor *right = tern_eq(tern_argmax(scores, 1), b->y);
    return tern_add_(sum, tern_sum(right)) != NULL;
}

static double count_all(const tern_accuracy_args *args, tern_dev_t dev)
{
    TERN_SCOPE;
    TERN_NO_GRAD;
    tern_tensor *sum = tern_zeros(TERN_SCALAR_SHAPE, TERN_I64, dev);
    tern_loader *batches = tern_loader_open(args->dataset, .batch = args->batch > 0 ? args->batch : 256,
                                            .device = dev, .workers = args->workers, .seed = 1);
    tern_batch b;
    int64_t samples = 0;
    bool fine = sum != NULL && batches != NULL;
    while (fine && tern_loader_next(batches, &b)) {
        samples += b.size;
        fine = count_batch(args->module, &b, sum);
    }
    tern_loader_close(batches);
    const double right = tern_item(sum);
    return samples > 0 ? right / (double)samples : NAN;
}

double tern_accuracy_at(tern_site_t site, const tern_accuracy_args *args)
{
    if (tern_failed())
        return NAN;
    if (!args || args->size_ < sizeof *args || !args->module || !args->dataset) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, "accuracy", "a module and a dataset are needed");
        return NAN;
    }
    const tern_site_t outer = tern_site_begin(site);
    tern_dev_t dev = args->device;
    if (dev.kind == TERN_KIND_NONE) {
        const tern_tensors_t parameters = tern_parameters(args->module);
        dev = parameters.count > 0 ? tern_device(parameters.tensors[0]) : TERN_CPU;
    }
    const bool training = args->module->training;
    tern_eval(args->module);
    const double share = count_all(args, dev);
    if (training)
        tern_train(args->module);
    tern_site_end(outer);
    return tern_failed() ? NAN : share;
}
