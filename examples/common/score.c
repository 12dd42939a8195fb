/* How good a model is on data that it was not trained on. */
#include <math.h>
#include <stdio.h>

#include "common.h"

enum { IMAGE_BATCH = 512, TEXT_BATCH = 64 };

/* Mean loss of a symbol over the windows of a text; scores [N, length, symbols]. */
static double mean_loss(const example *run, tern_module *net, tern_dataset *test)
{
    TERN_NO_GRAD;
    tern_loader *batches = tern_loader_open(test, .batch = TEXT_BATCH, .device = run->device);
    tern_tensor *sum = tern_zeros(TERN_SCALAR_SHAPE, .device = run->device);
    int64_t count = 0;
    tern_batch b;
    tern_eval(net);
    while (tern_loader_next(batches, &b)) {
        TERN_SCOPE;
        tern_tensor *scores = tern_flatten(tern_forward(net, b.x), 0, 1);
        tern_add_(sum, tern_cross_entropy(scores, tern_flatten(b.y, 0, 1), .reduction = TERN_SUM));
        count += tern_numel(b.y);
    }
    tern_train(net);
    tern_loader_close(batches);
    const double mean = tern_item(sum) / (double)count;
    return isnan(mean) ? NAN : mean; /* printf would show its sign: -nan */
}

double example_score(const example *run, tern_module *net, tern_dataset *test)
{
    TERN_SCOPE;
    return run->kind == EXAMPLE_TEXT ? mean_loss(run, net, test)
                                     : tern_accuracy(net, test, .batch = IMAGE_BATCH);
}

void example_score_text(const example *run, char *text, size_t bytes)
{
    if (run->kind == EXAMPLE_TEXT)
        snprintf(text, bytes, "loss %.4f", run->score);
    else
        snprintf(text, bytes, "accuracy %.2f %%", 100 * run->score);
}
