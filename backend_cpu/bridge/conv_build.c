/* Makes a oneDNN convolution primitive for one shape and pass.
 *
 * oneDNN takes a reference kernel, several hundred times slower, whenever no fast kernel exists for
 * the exact layouts that it is given. Hence two layout plans, tried in an order that depends on the
 * shape, and in each plan the implementations one after the other:
 *
 *     AS_GIVEN  x and y as the caller has them, w in any layout (reordered, it is small)
 *     ANY       all three in any layout, reordered where that differs from the caller's
 *
 * A backward primitive never gets the layouts that the forward one chose: it has its own plan, and
 * the forward descriptor is a hint only. What has no kernel but a reference one is unsupported. */
#include "backend_cpu/bridge/conv_private.h"

#if TERN_HAVE_ONEDNN

#include <stdlib.h>
#include <string.h>

typedef enum conv_layouts { LAYOUTS_AS_GIVEN, LAYOUTS_ANY } conv_layouts;

typedef struct conv_geometry {
    dnnl_dims_t x, w, y, bias;
    dnnl_dims_t stride, dilation, pad;
    int w_ndims;
} conv_geometry;

int64_t conv_out_size(int64_t in, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation)
{
    return (in + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
}

static void set_pair(dnnl_dim_t *dims, int64_t h, int64_t w)
{
    dims[0] = h;
    dims[1] = w;
}

static void set_four(dnnl_dim_t *dims, int64_t a, int64_t b, int64_t c, int64_t d)
{
    dims[0] = a;
    dims[1] = b;
    set_pair(dims + 2, c, d);
}

static void describe(const cpu_conv2d_shape *s, conv_geometry *g)
{
    int64_t out_h = conv_out_size(s->in_h, s->kernel_h, s->stride_h, s->pad_h, s->dilation_h);
    int64_t out_w = conv_out_size(s->in_w, s->kernel_w, s->stride_w, s->pad_w, s->dilation_w);
    memset(g, 0, sizeof *g);
    set_four(g->x, s->batch, s->in_channels, s->in_h, s->in_w);
    set_four(g->y, s->batch, s->out_channels, out_h, out_w);
    g->bias[0] = s->out_channels;
    int64_t in = s->in_channels / s->groups;
    if (s->groups > 1) {
        g->w[0] = s->groups;
        set_four(g->w + 1, s->out_channels / s->groups, in, s->kernel_h, s->kernel_w);
        g->w_ndims = 5;
    } else {
        set_four(g->w, s->out_channels, in, s->kernel_h, s->kernel_w);
        g->w_ndims = 4;
    }
    set_pair(g->stride, s->stride_h, s->stride_w);
    set_pair(g->dilation, s->dilation_h - 1, s->dilation_w - 1);
    set_pair(g->pad, s->pad_h, s->pad_w);
}

static dnnl_format_tag_t tag_x(const cpu_conv2d_shape *s)
{
    return s->format == CPU_CONV_NHWC ? dnnl_nhwc : dnnl_nchw;
}

static dnnl_format_tag_t tag_w(const cpu_conv2d_shape *s)
{
    if (s->groups > 1)
        return s->weights == CPU_CONV_OHWI ? dnnl_gohwi : dnnl_goihw;
    return s->weights == CPU_CONV_OHWI ? dnnl_ohwi : dnnl_oihw;
}

/* All tensors in the caller's layouts or in one plan's. */
typedef struct conv_descs {
    onednn_own x, w, y, bias;
} conv_descs;

static void free_descs(conv_descs *d)
{
    onednn_free(&d->x);
    onednn_free(&d->w);
    onednn_free(&d->y);
    onednn_free(&d->bias);
}

/* free_descs ends what it gives, on failure too. */
static bool describe_tensors(const conv_key *key, const conv_geometry *g, dnnl_format_tag_t x,
                             dnnl_format_tag_t w, conv_descs *out)
{
    dnnl_data_type_t type = onednn_type(key->shape.dtype);
    /* Sums over images and parts: rounded once, by who called. */
    dnnl_data_type_t w_type = key->pass == CPU_CONV_BACKWARD_WEIGHTS ? dnnl_f32 : type;
    memset(out, 0, sizeof *out);
    return onednn_by_tag(&out->x, 4, g->x, type, x) && onednn_by_tag(&out->y, 4, g->y, type, x) &&
           onednn_by_tag(&out->w, g->w_ndims, g->w, w_type, w) &&
           onednn_by_tag(&out->bias, 1, g->bias, w_type, dnnl_x);
}

static onednn_conv describe_conv(int pass, const conv_descs *d, bool has_bias,
                                 const conv_geometry *g)
{
    return (onednn_conv){ .pass = pass,
                          .x = onednn_layout_of(&d->x),
                          .w = onednn_layout_of(&d->w),
                          .bias = has_bias ? onednn_layout_of(&d->bias) : NULL,
                          .y = onednn_layout_of(&d->y),
                          .stride = g->stride,
                          .dilation = g->dilation,
                          .pad = g->pad };
}

/* A forward descriptor over free layouts: the hint that backward descriptors ask for. */
static dnnl_primitive_desc_t forward_hint(const conv_key *backward, const conv_geometry *g,
                                          dnnl_engine_t engine)
{
    conv_key key = *backward;
    conv_descs d;
    dnnl_primitive_desc_t hint = NULL;
    key.pass = CPU_CONV_FORWARD;
    if (describe_tensors(&key, g, dnnl_format_tag_any, dnnl_format_tag_any, &d)) {
        const onednn_conv conv = describe_conv(CPU_CONV_FORWARD, &d, false, g);
        hint = onednn_conv_first(&conv, engine, NULL);
    }
    free_descs(&d);
    return hint;
}

static dnnl_primitive_desc_t find_fast(const conv_key *key, const conv_geometry *g,
                                       const conv_descs *d, dnnl_engine_t engine)
{
    const bool forward = key->pass == CPU_CONV_FORWARD;
    const onednn_conv conv = describe_conv(key->pass, d, key->has_bias != 0, g);
    dnnl_primitive_attr_t attr = onednn_attributes();
    dnnl_primitive_desc_t hint = forward ? NULL : forward_hint(key, g, engine);
    dnnl_primitive_desc_t pd = NULL;
    if (attr && (hint || forward))
        pd = onednn_conv_first_fast(&conv, attr, engine, hint);
    if (hint)
        dnnl_primitive_desc_destroy(hint);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return pd;
}

static dnnl_primitive_desc_t try_layouts(const conv_key *key, const conv_geometry *g,
                                         conv_layouts layouts, dnnl_engine_t engine)
{
    conv_descs d;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_format_tag_t x = layouts == LAYOUTS_AS_GIVEN ? tag_x(&key->shape) : dnnl_format_tag_any;
    if (describe_tensors(key, g, x, dnnl_format_tag_any, &d))
        pd = find_fast(key, g, &d, engine);
    free_descs(&d);
    return pd;
}

static bool is_gemm(const_dnnl_primitive_desc_t pd)
{
    return pd && strncmp(onednn_name(pd), "gemm", 4) == 0;
}

/* NHWC kernels are the fastest on every layer of bench_conv, and free of reorders, but for the
 * gradient of weights with one or two input channels: 250 us against 357 for LeNet's first layer.
 * NCHW as given runs as im2col, 2 to 5 times slower than blocked kernels with their reorders. */
static bool prefers_any(const conv_key *key)
{
    return key->shape.format == CPU_CONV_NCHW ||
           (key->pass == CPU_CONV_BACKWARD_WEIGHTS && key->shape.in_channels <= 2);
}

static dnnl_primitive_desc_t choose(const conv_key *key, const conv_geometry *g,
                                    dnnl_engine_t engine)
{
    conv_layouts best = prefers_any(key) ? LAYOUTS_ANY : LAYOUTS_AS_GIVEN;
    conv_layouts other = best == LAYOUTS_ANY ? LAYOUTS_AS_GIVEN : LAYOUTS_ANY;
    dnnl_primitive_desc_t first = try_layouts(key, g, best, engine);
    if (first && !is_gemm(first))
        return first;
    dnnl_primitive_desc_t second = try_layouts(key, g, other, engine);
    bool keep_first = first && (!second || is_gemm(second));
    dnnl_primitive_desc_t rejected = keep_first ? second : first;
    if (rejected)
        dnnl_primitive_desc_destroy(rejected);
    return keep_first ? first : second;
}

static bool make_reorder(conv_tensor *t, onednn_layout outer, onednn_layout inner, bool is_output,
                         dnnl_engine_t engine)
{
    const onednn_layout from = is_output ? inner : outer;
    const onednn_layout to = is_output ? outer : inner;
    dnnl_primitive_desc_t pd = NULL;
    t->inner_bytes = dnnl_memory_desc_get_size(inner);
    bool ok =
        dnnl_memory_create(&t->inner, inner, engine, NULL) == dnnl_success &&
        dnnl_reorder_primitive_desc_create(&pd, from, engine, to, engine, NULL) == dnnl_success &&
        dnnl_primitive_create(&t->reorder, pd) == dnnl_success;
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    return ok;
}

static bool make_tensor(conv_tensor *t, onednn_layout outer, onednn_layout inner, bool is_output,
                        dnnl_engine_t engine)
{
    if (!inner || dnnl_memory_create(&t->outer, outer, engine, NULL) != dnnl_success)
        return false;
    if (dnnl_memory_desc_equal(outer, inner))
        return true;
    return make_reorder(t, outer, inner, is_output, engine);
}

static onednn_layout layout_of(const_dnnl_primitive_desc_t pd, dnnl_query_t plain,
                               dnnl_query_t gradient, bool is_gradient)
{
    return dnnl_primitive_desc_query_md(pd, is_gradient ? gradient : plain, 0);
}

static bool make_scratch(conv_entry *e, const_dnnl_primitive_desc_t pd, dnnl_engine_t engine)
{
    const onednn_layout scratch = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    e->scratch_bytes = scratch ? dnnl_memory_desc_get_size(scratch) : 0;
    return e->scratch_bytes == 0 ||
           dnnl_memory_create(&e->scratch, scratch, engine, NULL) == dnnl_success;
}

static bool make_from(conv_entry *e, const conv_descs *d, const_dnnl_primitive_desc_t pd,
                      dnnl_engine_t engine)
{
    const int pass = e->key.pass;
    const bool writes_x = pass == CPU_CONV_BACKWARD_DATA;
    const bool writes_w = pass == CPU_CONV_BACKWARD_WEIGHTS;
    const bool writes_y = pass == CPU_CONV_FORWARD;
    const onednn_layout x = layout_of(pd, dnnl_query_src_md, dnnl_query_diff_src_md, writes_x);
    const onednn_layout w =
        layout_of(pd, dnnl_query_weights_md, dnnl_query_diff_weights_md, writes_w);
    const onednn_layout y = layout_of(pd, dnnl_query_dst_md, dnnl_query_diff_dst_md, !writes_y);
    if (e->key.has_bias &&
        dnnl_memory_create(&e->bias, onednn_layout_of(&d->bias), engine, NULL) != dnnl_success)
        return false;
    return make_tensor(&e->tensor[SLOT_X], onednn_layout_of(&d->x), x, writes_x, engine) &&
           make_tensor(&e->tensor[SLOT_W], onednn_layout_of(&d->w), w, writes_w, engine) &&
           make_tensor(&e->tensor[SLOT_Y], onednn_layout_of(&d->y), y, writes_y, engine);
}

static bool make_tensors(conv_entry *e, const conv_geometry *g, const_dnnl_primitive_desc_t pd,
                         dnnl_engine_t engine)
{
    const cpu_conv2d_shape *s = &e->key.shape;
    conv_descs d;
    const bool ok = describe_tensors(&e->key, g, tag_x(s), tag_w(s), &d) &&
                    make_scratch(e, pd, engine) && make_from(e, &d, pd, engine);
    free_descs(&d);
    return ok;
}

bool conv_entry_build(conv_entry *e, dnnl_engine_t engine)
{
    conv_geometry g;
    describe(&e->key.shape, &g);
    dnnl_primitive_desc_t pd = choose(&e->key, &g, engine);
    if (is_gemm(pd) && e->key.shape.dtype != CPU_BLAS_F32) { /* slower than f32's own kernels */
        dnnl_primitive_desc_destroy(pd);
        pd = NULL;
    }
    if (!pd)
        return true;
    bool ok =
        dnnl_primitive_create(&e->primitive, pd) == dnnl_success && make_tensors(e, &g, pd, engine);
    e->kernel = ok ? onednn_name_of(e->primitive) : NULL;
    dnnl_primitive_desc_destroy(pd);
    return ok;
}

static void free_tensor(conv_tensor *t)
{
    dnnl_memory_destroy(t->outer);
    dnnl_memory_destroy(t->inner);
    dnnl_primitive_destroy(t->reorder);
    free(t->own);
}

void conv_entry_free(conv_entry *e)
{
    if (!e)
        return;
    for (int i = 0; i < SLOT_COUNT; i++)
        free_tensor(&e->tensor[i]);
    dnnl_memory_destroy(e->bias);
    dnnl_memory_destroy(e->scratch);
    dnnl_primitive_destroy(e->primitive);
    free(e);
}

#else
typedef int conv_build_without_onednn;
#endif
