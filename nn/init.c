/* Initial values of parameters: torch.nn.init's formulas. */
#include <float.h>
#include <math.h>

#include "nn/internal.h"

double tern_init_gain(int activation, double slope)
{
    switch (activation) {
    case TERN_GAIN_LINEAR:
    case TERN_GAIN_SIGMOID:
        return 1;
    case TERN_GAIN_TANH:
        return 5.0 / 3;
    case TERN_GAIN_RELU:
        return sqrt(2);
    case TERN_GAIN_LEAKY_RELU:
        return sqrt(2 / (1 + slope * slope));
    case TERN_GAIN_SELU:
        return 0.75;
    default:
        return NAN;
    }
}

static bool check_target(tern_site_t site, const char *what, const tern_tensor *t)
{
    if (tern_failed())
        return false;
    if (!t) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the tensor is NULL");
        return false;
    }
    if (!tern_dtype_is_float(tern_dtype(t))) {
        tern_fail_at(site, TERN_ERR_DTYPE, what, "the tensor is %s, not a float",
                     tern_dtype_name(tern_dtype(t)));
        return false;
    }
    return true;
}

typedef tern_tensor *(*draw_fn)(tern_site_t site, const tern_new_args *args);

/* t = draw * scale + shift */
static tern_tensor *overwrite(tern_site_t site, const char *what, tern_tensor *t, draw_fn draw,
                              double scale, double shift, tern_generator *generator)
{
    if (!check_target(site, what, t))
        return NULL;
    nn_frame frame = nn_enter(site);
    const bool recording = tern_set_grad_enabled(false);
    const tern_new_args args = { .size_ = sizeof args,
                                 .shape = tern_shape(t),
                                 .dtype = tern_dtype(t),
                                 .like = t,
                                 .generator = generator };
    tern_tensor *drawn = draw(site, &args);
    if (drawn && scale != 1)
        tern_mul_(drawn, scale);
    if (drawn && shift != 0)
        tern_add_(drawn, shift);
    const tern_copy_args copy = { .size_ = sizeof copy, .dst = t, .src = drawn };
    if (!tern_failed())
        tern_copy_at(site, &copy);
    tern_set_grad_enabled(recording);
    nn_leave(&frame);
    return tern_failed() ? NULL : t;
}

/* The largest number of a float dtype. */
static double largest(tern_dtype_t dtype)
{
    switch (dtype) {
    case TERN_F16:
        return 65504;
    case TERN_BF16:
        return 0x1.FEp127;
    case TERN_F32:
        return (double)FLT_MAX;
    default:
        return DBL_MAX;
    }
}

/* NaN falls through every comparison. */
static bool check_range(tern_site_t site, const tern_tensor *t, double low, double high)
{
    static const char what[] = "init_uniform";
    if (!check_target(site, what, t))
        return false;
    const double most = largest(tern_dtype(t));
    if (!(fabs(low) <= most && fabs(high) <= most))
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the range [%g, %g) does not lie within %s",
                     low, high, tern_dtype_name(tern_dtype(t)));
    else if (low > high)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                     "low = %g is above high = %g\n  try tern_init_uniform(t, %g, %g)", low, high,
                     high, low);
    else if (!(high - low <= most))
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the range [%g, %g) is wider than %s counts",
                     low, high, tern_dtype_name(tern_dtype(t)));
    return !tern_failed();
}

tern_tensor *tern_init_uniform_at(tern_site_t site, tern_tensor *t, double low, double high,
                                  tern_generator *generator)
{
    if (!check_range(site, t, low, high))
        return NULL;
    return overwrite(site, "init_uniform", t, tern_rand_at, high - low, low, generator);
}

tern_tensor *tern_init_normal_at(tern_site_t site, tern_tensor *t, double mean, double deviation,
                                 tern_generator *generator)
{
    if (check_target(site, "init_normal", t) && !(deviation >= 0))
        tern_fail_at(site, TERN_ERR_ARGUMENT, "init_normal",
                     "the deviation is %g; it must be a number, and not negative", deviation);
    return overwrite(site, "init_normal", t, tern_randn_at, deviation, mean, generator);
}

tern_tensor *tern_init_constant_at(tern_site_t site, tern_tensor *t, double value)
{
    if (!check_target(site, "init_constant", t))
        return NULL;
    const bool recording = tern_set_grad_enabled(false);
    tern_fill_at(site, t, tern_operand_float(value));
    tern_set_grad_enabled(recording);
    return tern_failed() ? NULL : t;
}

typedef struct fans {
    double in, out; /* NaN: the tensor has none, and an error is recorded */
} fans;

static fans count_fans(tern_site_t site, const char *what, const tern_tensor *t)
{
    if (!check_target(site, what, t))
        return (fans){ NAN, NAN };
    const tern_shape_t shape = tern_shape(t);
    if (shape.ndim < 2) {
        tern_fail_at(site, TERN_ERR_SHAPE, what,
                     "a tensor of %d dimensions has no fan in and out: two are needed",
                     (int)shape.ndim);
        return (fans){ NAN, NAN };
    }
    double field = 1;
    for (int i = 2; i < shape.ndim; i++)
        field *= (double)shape.dims[i];
    return (fans){ (double)shape.dims[1] * field, (double)shape.dims[0] * field };
}

/* numerator / denominator, and 0 for an empty tensor, where there is nothing to fill */
static double ratio(double numerator, double denominator)
{
    return denominator > 0 ? numerator / denominator : 0;
}

/* A gain that is given, or `otherwise`; NaN after an error. */
static double gain_of(tern_site_t site, const char *what, double given, double otherwise)
{
    const double gain = nn_option(given, otherwise);
    if (gain >= 0 && gain <= DBL_MAX)
        return gain;
    tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                 "gain = %g: it must be a finite number, and not negative", gain);
    return NAN;
}

/* Deviation of the kaiming rule; NaN after an error. */
static double kaiming(tern_site_t site, const char *what, const tern_init_args *args)
{
    const fans fan = count_fans(site, what, args->t);
    if (isnan(fan.in))
        return NAN;
    return gain_of(site, what, args->gain, sqrt(2)) *
           sqrt(ratio(1, args->fan_out ? fan.out : fan.in));
}

static double xavier(tern_site_t site, const char *what, const tern_init_args *args)
{
    const fans fan = count_fans(site, what, args->t);
    if (isnan(fan.in))
        return NAN;
    return gain_of(site, what, args->gain, 1) * sqrt(ratio(2, fan.in + fan.out));
}

typedef double (*deviation_fn)(tern_site_t site, const char *what, const tern_init_args *args);

static tern_tensor *scaled(tern_site_t site, const char *what, const tern_init_args *given,
                           deviation_fn rule, bool uniform)
{
    NN_ARGS(site, what, tern_init_args, args, given);
    const double deviation = args_given ? rule(site, what, &args) : NAN;
    if (isnan(deviation))
        return NULL;
    const double bound = sqrt(3) * deviation;
    return uniform ? tern_init_uniform_at(site, args.t, -bound, bound, args.generator)
                   : tern_init_normal_at(site, args.t, 0, deviation, args.generator);
}

tern_tensor *tern_init_kaiming_uniform_at(tern_site_t site, const tern_init_args *args)
{
    return scaled(site, "init_kaiming_uniform", args, kaiming, true);
}

tern_tensor *tern_init_kaiming_normal_at(tern_site_t site, const tern_init_args *args)
{
    return scaled(site, "init_kaiming_normal", args, kaiming, false);
}

tern_tensor *tern_init_xavier_uniform_at(tern_site_t site, const tern_init_args *args)
{
    return scaled(site, "init_xavier_uniform", args, xavier, true);
}

tern_tensor *tern_init_xavier_normal_at(tern_site_t site, const tern_init_args *args)
{
    return scaled(site, "init_xavier_normal", args, xavier, false);
}
