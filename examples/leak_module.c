/* A mistake, found: the model is made again in every step, and every one of them lives until the end.
 * tern_growth names the line; with the model made once nothing grows. */
#include <stdio.h>
#include <tern/tern.h>

enum { STEPS = 6 };

static tern_module *make_model(void)
{
    return tern_sequential(tern_linear_layer(64, 128), tern_relu_layer(),
                           tern_linear_layer(128, 1));
}

static void predict(tern_module *model)
{
    TERN_SCOPE;
    tern_tensor *x = tern_randn(TERN_SHAPE(32, 64));
    (void)tern_item(tern_mean(tern_forward(model, x)));
}

static void wrong_step(tern_module *unused)
{
    (void)unused;
    predict(make_model()); /* a module has no scope: it ends with tern_module_free or tern_finish */
}

static void watch(const char *name, void (*step)(tern_module *model), tern_module *model)
{
    char text[2000];
    tern_growth *growth = tern_growth_begin();
    for (int i = 0; i < STEPS; i++) {
        step(model);
        tern_growth_mark(growth);
    }
    printf("%s: %s", name, tern_growth_text(growth, text, sizeof text));
    tern_growth_end(growth);
}

int main(void)
{
    watch("made in the loop", wrong_step, NULL);
    watch("made before the loop", predict, make_model());
    return tern_finish() != 0 || fflush(stdout) != 0;
}
