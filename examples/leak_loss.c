/* A mistake, found: the mean loss of a validation is summed up as a tensor, and the sum holds the graph
 * of every batch, with all that was saved for a backward that never comes. Numbers hold nothing. */
#include <stdio.h>
#include <tern/tern.h>

enum { STEPS = 6 };

static tern_module *model;
static tern_tensor *total; /* kept from step to step */
static double total_number;

static tern_tensor *loss_of_a_batch(void)
{
    tern_tensor *x = tern_randn(TERN_SHAPE(32, 64)), *y = tern_zeros(TERN_SHAPE(32, 1));
    return tern_mse_loss(tern_forward(model, x), y, TERN_MEAN);
}

static void wrong_step(void)
{
    TERN_SCOPE;
    tern_tensor *sum = tern_retain(tern_add(total, loss_of_a_batch()));
    tern_release(total);
    total = sum; /* one number, and behind it the graphs of all batches so far */
}

static void right_step(void)
{
    TERN_SCOPE;
    TERN_NO_GRAD; /* nothing is recorded, so that nothing can be held */
    total_number += tern_item(loss_of_a_batch());
}

static void watch(const char *name, void (*step)(void))
{
    char text[2000];
    tern_growth *growth = tern_growth_begin();
    for (int i = 0; i < STEPS; i++) {
        step();
        tern_growth_mark(growth);
    }
    printf("%s: %s", name, tern_growth_text(growth, text, sizeof text));
    tern_growth_end(growth);
}

int main(void)
{
    model =
        tern_sequential(tern_linear_layer(64, 128), tern_relu_layer(), tern_linear_layer(128, 1));
    total = tern_retain(tern_zeros(TERN_SCALAR_SHAPE));
    watch("a tensor as sum", wrong_step);
    tern_release(total);
    watch("a number as sum", right_step);
    return tern_finish() != 0 || fflush(stdout) != 0;
}
