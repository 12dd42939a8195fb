/* Attention of several heads between projections. */
#include <math.h>
#include <stdio.h>

#include "nn/internal.h"
#include "tern/transformer.h"

static const char what[] = "multihead_attention_layer";

typedef struct attention_layer {
    tern_module base;
    bool is_packed;          /* not where widths differ */
    tern_tensor *packed;     /* [3 width, width], or */
    tern_tensor *weights[3]; /* those of query, key and value */
    tern_tensor *bias;       /* [3 width] or NULL */
    tern_module *out;
    int64_t width, heads;
    double dropout;
    bool causal;
    tern_generator *generator;
} attention_layer;

/* ---- projections -------------------------------------------------------------------------------- */

/* x by `count` projections from the first on, each [N, heads, T, size]. */
static void project(const attention_layer *layer, tern_tensor *x, int first, int count,
                    tern_tensor **out)
{
    const int64_t width = layer->width, begin = first * width, end = begin + count * width;
    const int64_t n = tern_size(x, 0), t = tern_size(x, 1);
    tern_tensor *weight = !layer->is_packed ? layer->weights[first]
                          : count == 3      ? layer->packed
                                            : tern_slice(layer->packed, 0, begin, end);
    tern_tensor *bias =
        layer->bias && count < 3 ? tern_slice(layer->bias, 0, begin, end) : layer->bias;
    tern_tensor *y = tern_linear(x, weight, bias);
    y = tern_view(y, TERN_SHAPE(n, t, count, layer->heads, width / layer->heads));
    y = tern_permute(y, TERN_DIMS(2, 0, 3, 1, 4));
    for (int i = 0; i < count; i++)
        out[i] = tern_select(y, 0, i);
}

/* Operands that are one tensor are projected together. */
static void project_all(const attention_layer *layer, tern_tensor *const in[3], tern_tensor **out)
{
    for (int first = 0, count; first < 3; first += count) {
        count = 1;
        while (layer->is_packed && first + count < 3 && in[first + count] == in[first])
            count++;
        project(layer, in[first], first, count, out + first);
    }
}

/* ---- masks -------------------------------------------------------------------------------------- */

/* What both let through; padding [N, S]. */
static tern_tensor *join_masks(tern_tensor *mask, tern_tensor *padding)
{
    if (!padding)
        return mask;
    tern_tensor *there = tern_unsqueeze(tern_unsqueeze(padding, 1), 1);
    if (!mask)
        return there;
    return tern_dtype(mask) == TERN_BOOL ? tern_mul(mask, there)
                                         : tern_where(there, mask, -INFINITY);
}

static bool check_operands(tern_tensor *const in[3], const tern_tensor *mask,
                           const tern_tensor *padding)
{
    static const char *const names[] = { "query", "key", "value" };
    for (int i = 0; i < 3; i++)
        if (tern_ndim(in[i]) != 3) {
            nn_fail_operand(TERN_ERR_SHAPE, "multihead_attention", names[i], in[i],
                            "the %s has %d dimensions; it has to be [batch, places, width]",
                            names[i], tern_ndim(in[i]));
            return false;
        }
    if (mask && tern_dtype(mask) != TERN_BOOL && !tern_dtype_is_float(tern_dtype(mask))) {
        nn_fail_operand(TERN_ERR_DTYPE, "multihead_attention", "mask", mask,
                        "the mask has to be bool, or a float that is added to the scores");
        return false;
    }
    if (padding && (tern_ndim(padding) != 2 || tern_dtype(padding) != TERN_BOOL ||
                    tern_size(padding, 0) != tern_size(in[1], 0) ||
                    tern_size(padding, 1) != tern_size(in[1], 1))) {
        nn_fail_operand(TERN_ERR_SHAPE, "multihead_attention", "padding", padding,
                        "the padding mask has to be bool [%lld, %lld], one for each key",
                        (long long)tern_size(in[1], 0), (long long)tern_size(in[1], 1));
        return false;
    }
    return true;
}

static void forward(tern_module *self, tern_args *args)
{
    const attention_layer *layer = (const attention_layer *)self;
    tern_tensor *in[3] = { args->in[0], args->in[1], args->in[2] };
    if (!in[0]) {
        tern_fail(TERN_ERR_ARGUMENT, "multihead_attention", "the query is NULL");
        return;
    }
    in[1] = in[1] ? in[1] : in[0];
    in[2] = in[2] ? in[2] : in[1];
    if (!check_operands(in, args->in[3], args->in[4]))
        return;
    tern_tensor *heads[3];
    project_all(layer, in, heads);
    tern_tensor *y = tern_scaled_dot_product_attention(
        heads[0], heads[1], heads[2], join_masks(args->in[3], args->in[4]), .causal = layer->causal,
        .dropout = layer->dropout, .evaluating = !self->training, .generator = layer->generator);
    const tern_shape_t shape = TERN_SHAPE(tern_size(in[0], 0), tern_size(in[0], 1), layer->width);
    args->out[0] = tern_forward(layer->out, tern_reshape(tern_transpose(y, 1, 2), shape));
}

/* ---- making ------------------------------------------------------------------------------------- */

static void describe(const tern_module *self, char *buffer, size_t bytes)
{
    const attention_layer *layer = (const attention_layer *)self;
    snprintf(buffer, bytes, "width=%lld, heads=%lld, dropout=%g%s%s", (long long)layer->width,
             (long long)layer->heads, layer->dropout, layer->causal ? ", causal" : "",
             layer->bias ? "" : ", no bias");
    if (!layer->is_packed && layer->weights[1] && layer->weights[2])
        nn_describe_more(buffer, bytes, ", key_width=%lld, value_width=%lld",
                         (long long)tern_size(layer->weights[1], 1),
                         (long long)tern_size(layer->weights[2], 1));
}

static tern_tensor *xavier(tern_module *m, const char *name, int64_t out, int64_t in,
                           nn_origin origin)
{
    const double bound = sqrt(6 / ((double)in + (double)out));
    return nn_uniform_parameter(m, name, TERN_SHAPE(out, in), origin, bound);
}

static void add_parameters(attention_layer *layer, const tern_multihead_attention_layer_args *args)
{
    static const char *const names[] = { "q_proj_weight", "k_proj_weight", "v_proj_weight" };
    tern_module *m = &layer->base;
    const nn_origin origin = { args->device, args->dtype, args->generator };
    const int64_t widths[3] = { args->width, nn_given(args->key_width, args->width),
                                nn_given(args->value_width, args->width) };
    layer->is_packed = widths[1] == args->width && widths[2] == args->width;
    if (layer->is_packed) {
        xavier(m, "in_proj_weight", nn_times(3, args->width), args->width, origin);
        nn_bind_tensor(m, "in_proj_weight", &layer->packed);
    }
    for (int i = 0; i < 3 && !layer->is_packed; i++) {
        xavier(m, names[i], args->width, widths[i], origin);
        nn_bind_tensor(m, names[i], &layer->weights[i]);
    }
    if (!args->no_bias)
        nn_constant_parameter(m, "in_proj_bias", TERN_SHAPE(nn_times(3, args->width)), origin, 0);
    nn_bind_tensor(m, "in_proj_bias", &layer->bias);
    nn_bind_child(m, "out_proj",
                  tern_linear_layer(args->width, args->width, .no_bias = args->no_bias,
                                    .device = args->device, .dtype = args->dtype,
                                    .generator = args->generator),
                  &layer->out);
    tern_tensor *bias = tern_module_tensor(m, "out_proj.bias");
    if (bias)
        tern_init_constant(bias, 0);
}

static bool check_options(tern_site_t site, const tern_multihead_attention_layer_args *args)
{
    if (!nn_require_positive(site, what, "width", args->width) ||
        !nn_require_positive(site, what, "heads", args->heads))
        return false;
    if (args->width % args->heads != 0)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "%lld heads do not divide a width of %lld",
                     (long long)args->heads, (long long)args->width);
    if (args->key_width < 0 || args->value_width < 0)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "a width is negative");
    if (!(nn_option(args->dropout, 0) >= 0 && args->dropout <= 1))
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "dropout = %g is not in [0, 1]", args->dropout);
    return !tern_failed();
}

tern_module *tern_multihead_attention_layer_at(tern_site_t site,
                                               const tern_multihead_attention_layer_args *given)
{
    NN_ARGS(site, what, tern_multihead_attention_layer_args, args, given);
    if (!args_given || !check_options(site, &args))
        return NULL;
    nn_frame frame = nn_layer_begin(site, what);
    attention_layer *layer = (attention_layer *)tern_module_create_args_at(
        site, sizeof *layer, "multihead_attention", forward);
    if (layer) {
        layer->base.describe = describe;
        layer->width = args.width;
        layer->heads = args.heads;
        layer->dropout = nn_option(args.dropout, 0);
        layer->causal = args.causal;
        layer->generator = args.generator;
        add_parameters(layer, &args);
    }
    return nn_layer_done(&frame, layer ? &layer->base : NULL);
}
