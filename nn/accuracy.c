/* Share of right answers of a model over a data set. */
#include <math.h>
#include <stdlib.h>

#include "nn/internal.h"

static const char what[] = "accuracy";

/* ---- the mode that each module was in --------------------------------------------------------- */

/* Modules of one tree may be in different modes: a frozen batch norm stays in evaluation. */
typedef struct modes {
    bool *training; /* in the order of tern_module_apply */
    int64_t count, place;
} modes;

static void count_module(tern_module *m, void *user)
{
    (void)m;
    ((modes *)user)->count++;
}

static void note_mode(tern_module *m, void *user)
{
    modes *all = user;
    all->training[all->place++] = m->training;
}

static void put_back(tern_module *m, void *user)
{
    modes *all = user;
    m->training = all->training[all->place++];
}

static bool modes_save(tern_site_t site, tern_module *m, modes *out)
{
    *out = (modes){ NULL, 0, 0 };
    tern_module_apply(m, count_module, out);
    out->training = nn_alloc(site, what, out->count, sizeof *out->training);
    if (!out->training)
        return false;
    tern_module_apply(m, note_mode, out);
    return true;
}

static void modes_restore(tern_module *m, modes *all)
{
    all->place = 0;
    tern_module_apply(m, put_back, all);
    free(all->training);
}

/* ---- counting --------------------------------------------------------------------------------- */

/* Scores of another shape would broadcast against the classes and count too much. */
static bool check_shapes(tern_tensor *scores, tern_tensor *classes)
{
    if (tern_failed())
        return false;
    if (classes && tern_ndim(scores) == 2 && tern_ndim(classes) == 1 &&
        tern_size(scores, 0) == tern_size(classes, 0))
        return true;
    char there[512], wanted[512];
    tern_fail(TERN_ERR_SHAPE, what,
              "scores [N, classes] and classes [N] are needed\n    scores   %s\n    classes  %s",
              nn_summary(scores, there, sizeof there),
              classes ? nn_summary(classes, wanted, sizeof wanted) : "none");
    return false;
}

/* Adds the batch's right answers to `sum`, on the device. */
static bool count_batch(tern_module *module, const tern_batch *b, tern_tensor *sum)
{
    TERN_SCOPE;
    tern_tensor *scores = tern_forward(module, b->x);
    if (!check_shapes(scores, b->y))
        return false;
    return tern_add_(sum, tern_sum(tern_eq(tern_argmax(scores, 1), b->y))) != NULL;
}

static double count_all(const tern_accuracy_args *args)
{
    tern_tensor *sum = tern_zeros(TERN_SCALAR_SHAPE, TERN_I64, args->device);
    tern_loader *batches = tern_loader_open(args->dataset, args->batch, .device = args->device,
                                            .workers = args->workers);
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

/* In evaluation mode, without a record, on the device that was asked for or the model's. */
static double measure(tern_site_t site, tern_accuracy_args *args)
{
    modes before;
    if (!modes_save(site, args->module, &before))
        return NAN;
    if (args->device.kind == TERN_KIND_NONE) {
        const tern_tensors_t parameters = tern_parameters_at(site, args->module);
        args->device = parameters.count > 0 ? tern_device(parameters.tensors[0]) : TERN_CPU;
    }
    nn_frame frame = nn_enter(site);
    const bool recording = tern_set_grad_enabled(false);
    tern_eval(args->module);
    const double share = count_all(args);
    modes_restore(args->module, &before);
    tern_set_grad_enabled(recording);
    nn_leave(&frame);
    return tern_failed() ? NAN : share;
}

double tern_accuracy_at(tern_site_t site, const tern_accuracy_args *given)
{
    NN_ARGS(site, what, tern_accuracy_args, args, given);
    if (!args_given || tern_failed())
        return NAN;
    if (!args.module || !args.dataset || args.batch < 0) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                     args.batch < 0 ? "the batch is negative"
                                    : "a module and a dataset are needed");
        return NAN;
    }
    if (args.batch == 0)
        args.batch = 256;
    return measure(site, &args);
}
