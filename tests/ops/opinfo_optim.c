/* Steps of the optimizers, and the gradient scaler. */
#include <math.h>

#include "core/call.h"
#include "tests/ops/opinfo.h"

/* clang-format off */

#define REAL(...) { INPUT_REAL, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ } }
#define SQUARES { INPUT_REAL, 1, { 37 }, 1, 4 }
#define SMALL { INPUT_REAL, 1, { 37 }, -0.5, 0.5 } /* a mean whose square is below them */

/* ---- optimizer steps, second one, so that states matter ---- */

static tern_tensor *run_sgd_step(tern_tensor **in)
{
    tern_tensor *p = tern_clone(in[0]), *buffer = tern_clone(in[2]);
    tern_attr_sgd o = { .lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = 1 };
    (void)tern_sgd_step_at(TERN_HERE, p, in[1], buffer, &o);
    return tern_stack(0, p, buffer);
}
static value ref_sgd_step(const value *in)
{
    value out = value_new(2, (int64_t[]){ 2, in[0].numel });
    for (int64_t i = 0; i < in[0].numel; i++) {
        const double g = in[1].data[i] + 0.01 * in[0].data[i], b = 0.9 * in[2].data[i] + g;
        out.data[i] = in[0].data[i] - 0.1 * (g + 0.9 * b);
        out.data[in[0].numel + i] = b;
    }
    return out;
}
static tern_tensor *run_unscale(tern_tensor **in)
{
    tern_tensor *g = tern_clone(in[0]);
    tern_tensor *inverse = tern_cast(in[1], TERN_F32), *found = tern_cast(in[2], TERN_F32);
    return tern_unscale(g, inverse, found) == TERN_OK ? g : NULL;
}
static value ref_unscale(const value *in)
{
    value out = value_new(in[0].ndim, in[0].dims);
    for (int64_t i = 0; i < in[0].numel; i++)
        out.data[i] = in[0].data[i] * (double)(float)in[1].data[0];
    return out;
}
/* one step before the scale grows, and one where it backs off */
static tern_tensor *run_scale_update(tern_tensor **in)
{
    tern_tensor *scale = tern_clone(in[0]), *shrunk = tern_clone(in[0]);
    const tern_dev_t dev = tern_device(scale);
    tern_tensor *tracker = tern_full(2, TERN_SCALAR_SHAPE, .dtype = TERN_I32, .device = dev);
    const tern_attr_scale o = { .growth = 2, .backoff = 0.5, .interval = 3 };
    (void)tern_scale_update(scale, tracker, tern_zeros(TERN_SCALAR_SHAPE, .device = dev), &o);
    (void)tern_scale_update(shrunk, tracker, tern_ones(TERN_SCALAR_SHAPE, .device = dev), &o);
    return tern_stack(0, scale, shrunk);
}
static value ref_scale_update(const value *in)
{
    value out = value_new(1, (int64_t[]){ 2 });
    out.data[0] = 2 * in[0].data[0];
    out.data[1] = in[0].data[0] / 2;
    return out;
}
static tern_tensor *run_adam_step(tern_tensor **in)
{
    tern_tensor *p = tern_clone(in[0]), *m = tern_clone(in[2]), *v = tern_clone(in[3]);
    tern_attr_adam o = { .lr = 0.1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01,
                         .step = 3, .decoupled = 1 };
    (void)tern_adam_step_at(TERN_HERE, p, in[1], m, v, &o);
    return tern_stack(0, p, m, v);
}
/* Scale 4; one step that is left out, then the third one (two are done), by the count on the device. */
static tern_step_scaling scaling_for(const tern_tensor *p, double found, double done)
{
    const tern_dev_t dev = tern_device(p);
    return (tern_step_scaling){
        tern_full(4, TERN_SCALAR_SHAPE, .dtype = TERN_F32, .device = dev),
        tern_full(found, TERN_SCALAR_SHAPE, .dtype = TERN_F32, .device = dev),
        tern_full(done, TERN_SHAPE(2), .dtype = TERN_I64, .device = dev),
    };
}
static tern_tensor *run_sgd_step_scaled(tern_tensor **in)
{
    tern_tensor *p = tern_clone(in[0]), *buffer = tern_clone(in[2]), *g = tern_clone(in[1]);
    tern_attr_sgd o = { .lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = 1, .first = 1 };
    const tern_step_scaling out = scaling_for(p, 1, 1), step = scaling_for(p, 0, 1);
    (void)tern_sgd_step_scaled_at(TERN_HERE, p, g, buffer, &out, &o);
    o.turn = 1;
    (void)tern_sgd_step_scaled_at(TERN_HERE, p, g, buffer, &step, &o);
    return tern_stack(0, p, buffer, g);
}
static value ref_sgd_step_scaled(const value *in)
{
    value out = value_new(2, (int64_t[]){ 3, in[0].numel });
    for (int64_t i = 0; i < in[0].numel; i++) {
        const double g = in[1].data[i] / 4 + 0.01 * in[0].data[i], b = 0.9 * in[2].data[i] + g;
        out.data[i] = in[0].data[i] - 0.1 * (g + 0.9 * b);
        out.data[in[0].numel + i] = b;
        out.data[2 * in[0].numel + i] = in[1].data[i] / 4;
    }
    return out;
}
static tern_tensor *run_adam_step_scaled(tern_tensor **in)
{
    tern_tensor *p = tern_clone(in[0]), *m = tern_clone(in[2]), *v = tern_clone(in[3]);
    tern_tensor *g = tern_mul(in[1], 4.0);
    tern_attr_adam o = { .lr = 0.1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01,
                         .step = 100, .decoupled = 1 };
    tern_step_scaling s = scaling_for(p, 1, 2);
    (void)tern_adam_step_scaled_at(TERN_HERE, p, g, m, v, &s, &o);
    s.found = NULL;
    o.turn = 1;
    (void)tern_adam_step_scaled_at(TERN_HERE, p, g, m, v, &s, &o);
    return tern_stack(0, p, m, v);
}
static value ref_adam_step(const value *in)
{
    const int64_t n = in[0].numel;
    value out = value_new(2, (int64_t[]){ 3, n });
    for (int64_t i = 0; i < n; i++) {
        const double g = in[1].data[i], m = 0.9 * in[2].data[i] + 0.1 * g;
        const double v = 0.999 * in[3].data[i] + 0.001 * g * g;
        const double step = m / (1 - pow(0.9, 3)) / (sqrt(v / (1 - pow(0.999, 3))) + 1e-8);
        out.data[i] = in[0].data[i] * (1 - 0.1 * 0.01) - 0.1 * step;
        out.data[n + i] = m;
        out.data[2 * n + i] = v;
    }
    return out;
}

/* RMSprop with momentum and mean, Adagrad's third step, Lion. */
static const tern_attr_rmsprop rmsprop_options = {
    .lr = 0.1, .alpha = 0.9, .momentum = 0.8, .eps = 0.01, .weight_decay = 0.01
};
static tern_tensor *run_rmsprop_step(tern_tensor **in)
{
    tern_tensor *p = tern_clone(in[0]), *s = tern_clone(in[2]), *b = tern_clone(in[3]);
    tern_tensor *m = tern_clone(in[4]);
    (void)tern_rmsprop_step_at(TERN_HERE, p, in[1], s, b, m, NULL, &rmsprop_options);
    return tern_stack(0, p, s, b, m);
}
static tern_tensor *run_rmsprop_plain(tern_tensor **in)
{
    tern_tensor *p = tern_clone(in[0]), *s = tern_clone(in[2]);
    (void)tern_rmsprop_step_at(TERN_HERE, p, in[1], s, NULL, NULL, NULL, &rmsprop_options);
    return tern_stack(0, p, s);
}
static tern_tensor *run_rmsprop_centered(tern_tensor **in)
{
    tern_tensor *p = tern_clone(in[0]), *s = tern_clone(in[2]), *m = tern_clone(in[3]);
    (void)tern_rmsprop_step_at(TERN_HERE, p, in[1], s, NULL, m, NULL, &rmsprop_options);
    return tern_stack(0, p, s, m);
}
static tern_tensor *run_rmsprop_step_scaled(tern_tensor **in)
{
    tern_tensor *p = tern_clone(in[0]), *s = tern_clone(in[2]), *b = tern_clone(in[3]);
    tern_tensor *m = tern_clone(in[4]), *g = tern_mul(in[1], 4.0);
    tern_attr_rmsprop o = rmsprop_options;
    const tern_step_scaling out = scaling_for(p, 1, 1), step = scaling_for(p, 0, 1);
    (void)tern_rmsprop_step_at(TERN_HERE, p, g, s, b, m, &out, &o);
    o.turn = 1;
    (void)tern_rmsprop_step_at(TERN_HERE, p, g, s, b, m, &step, &o);
    return tern_stack(0, p, s, b, m);
}
/* Rows of the result: parameter, square, then buffer and mean where they are. */
static value rmsprop_result(const value *in, const value *buffer, const value *mean)
{
    const tern_attr_rmsprop *o = &rmsprop_options;
    const int64_t n = in[0].numel;
    value out = value_new(2, (int64_t[]){ 2 + (buffer != NULL) + (mean != NULL), n });
    for (int64_t i = 0; i < n; i++) {
        int64_t row = 1;
        const double g = in[1].data[i] + o->weight_decay * in[0].data[i];
        double spread = o->alpha * in[2].data[i] + (1 - o->alpha) * g * g;
        out.data[row++ * n + i] = spread;
        const double m = mean != NULL ? o->alpha * mean->data[i] + (1 - o->alpha) * g : 0;
        double move = g / (sqrt(spread - m * m) + o->eps);
        if (buffer != NULL)
            out.data[row++ * n + i] = move = o->momentum * buffer->data[i] + move;
        if (mean != NULL)
            out.data[row++ * n + i] = m;
        out.data[i] = in[0].data[i] - o->lr * move;
    }
    return out;
}
static value ref_rmsprop_step(const value *in) { return rmsprop_result(in, &in[3], &in[4]); }
static value ref_rmsprop_plain(const value *in) { return rmsprop_result(in, NULL, NULL); }
static value ref_rmsprop_centered(const value *in) { return rmsprop_result(in, NULL, &in[3]); }

static tern_tensor *run_adagrad_step(tern_tensor **in)
{
    tern_tensor *p = tern_clone(in[0]), *s = tern_clone(in[2]);
    const tern_attr_adagrad o = { .lr = 0.1, .lr_decay = 0.5, .eps = 0.01, .weight_decay = 0.01,
                                  .step = 3 };
    (void)tern_adagrad_step_at(TERN_HERE, p, in[1], s, NULL, &o);
    return tern_stack(0, p, s);
}
static tern_tensor *run_adagrad_step_scaled(tern_tensor **in)
{
    tern_tensor *p = tern_clone(in[0]), *s = tern_clone(in[2]), *g = tern_mul(in[1], 4.0);
    tern_attr_adagrad o = { .lr = 0.1, .lr_decay = 0.5, .eps = 0.01, .weight_decay = 0.01,
                            .step = 100 };
    tern_step_scaling scaling = scaling_for(p, 1, 2);
    (void)tern_adagrad_step_at(TERN_HERE, p, g, s, &scaling, &o);
    scaling.found = NULL;
    o.turn = 1;
    (void)tern_adagrad_step_at(TERN_HERE, p, g, s, &scaling, &o);
    return tern_stack(0, p, s);
}
static value ref_adagrad_step(const value *in)
{
    const int64_t n = in[0].numel;
    value out = value_new(2, (int64_t[]){ 2, n });
    for (int64_t i = 0; i < n; i++) {
        const double g = in[1].data[i] + 0.01 * in[0].data[i], s = in[2].data[i] + g * g;
        out.data[i] = in[0].data[i] - 0.1 / (1 + 2 * 0.5) * g / (sqrt(s) + 0.01);
        out.data[n + i] = s;
    }
    return out;
}

static const tern_attr_lion lion_options = { .lr = 0.1, .beta1 = 0.9, .beta2 = 0.99,
                                             .weight_decay = 0.01 };
static tern_tensor *run_lion_step(tern_tensor **in)
{
    tern_tensor *p = tern_clone(in[0]), *m = tern_clone(in[2]);
    (void)tern_lion_step_at(TERN_HERE, p, in[1], m, NULL, &lion_options);
    return tern_stack(0, p, m);
}
static tern_tensor *run_lion_step_scaled(tern_tensor **in)
{
    tern_tensor *p = tern_clone(in[0]), *m = tern_clone(in[2]), *g = tern_mul(in[1], 4.0);
    tern_attr_lion o = lion_options;
    const tern_step_scaling out = scaling_for(p, 1, 1), step = scaling_for(p, 0, 1);
    (void)tern_lion_step_at(TERN_HERE, p, g, m, &out, &o);
    o.turn = 1;
    (void)tern_lion_step_at(TERN_HERE, p, g, m, &step, &o);
    return tern_stack(0, p, m);
}
static value ref_lion_step(const value *in)
{
    const tern_attr_lion *o = &lion_options;
    const int64_t n = in[0].numel;
    value out = value_new(2, (int64_t[]){ 2, n });
    for (int64_t i = 0; i < n; i++) {
        const double g = in[1].data[i], m = in[2].data[i], blend = o->beta1 * m + (1 - o->beta1) * g;
        const double way = (blend > 0) - (blend < 0);
        out.data[i] = in[0].data[i] - o->lr * (way + o->weight_decay * in[0].data[i]);
        out.data[n + i] = o->beta2 * m + (1 - o->beta2) * g;
    }
    return out;
}

const opinfo opinfo_optim[] = {
    { OPINFO(sgd_step), .label = "nesterov", .in = { REAL(37), REAL(37), REAL(37) },
      .run = run_sgd_step, .ref = ref_sgd_step },
    { OPINFO(adam_step), .label = "decoupled",
      .in = { REAL(37), REAL(37), REAL(37), { INPUT_REAL, 1, { 37 }, 0.1, 2 } },
      .run = run_adam_step, .ref = ref_adam_step },
    { OPINFO(sgd_step_scaled), .label = "left out, then second", .in = { REAL(37), REAL(37), REAL(37) },
      .run = run_sgd_step_scaled, .ref = ref_sgd_step_scaled },
    { OPINFO(adam_step_scaled), .label = "left out, then third",
      .in = { REAL(37), REAL(37), REAL(37), { INPUT_REAL, 1, { 37 }, 0.1, 2 } },
      .run = run_adam_step_scaled, .ref = ref_adam_step },
    { OPINFO(rmsprop_step), .label = "momentum, centered",
      .in = { REAL(37), REAL(37), SQUARES, REAL(37), SMALL },
      .run = run_rmsprop_step, .ref = ref_rmsprop_step },
    { OPINFO(rmsprop_step), .label = "plain", .in = { REAL(37), REAL(37), SQUARES },
      .run = run_rmsprop_plain, .ref = ref_rmsprop_plain },
    { OPINFO(rmsprop_step), .label = "centered", .in = { REAL(37), REAL(37), SQUARES, SMALL },
      .run = run_rmsprop_centered, .ref = ref_rmsprop_centered },
    { OPINFO(rmsprop_step_scaled), .label = "left out, then done",
      .in = { REAL(37), REAL(37), SQUARES, REAL(37), SMALL },
      .run = run_rmsprop_step_scaled, .ref = ref_rmsprop_step },
    { OPINFO(adagrad_step), .label = "third", .in = { REAL(37), REAL(37), SQUARES },
      .run = run_adagrad_step, .ref = ref_adagrad_step },
    { OPINFO(adagrad_step_scaled), .label = "left out, then third",
      .in = { REAL(37), REAL(37), SQUARES }, .run = run_adagrad_step_scaled, .ref = ref_adagrad_step },
    { OPINFO(lion_step), .label = "", .in = { REAL(37), REAL(37), REAL(37) }, .run = run_lion_step,
      .ref = ref_lion_step },
    { OPINFO(lion_step_scaled), .label = "left out, then done",
      .in = { REAL(37), REAL(37), REAL(37) }, .run = run_lion_step_scaled, .ref = ref_lion_step },
    { OPINFO(unscale), .label = "2-D", .in = { REAL(5, 7), { INPUT_F32, 0, { 0 }, 0.1, 2 },
      { INPUT_F32, 0, { 0 }, 0, 0.5 } }, .run = run_unscale, .ref = ref_unscale },
    { OPINFO(scale_update), .label = "grows and backs off", .in = { { INPUT_REAL, 0, { 0 }, 1, 2 } },
      .run = run_scale_update, .ref = ref_scale_update },
};
const int opinfo_optim_count = sizeof opinfo_optim / sizeof *opinfo_optim;
