/* See onednn.h. */
#include "backend_cpu/bridge/onednn.h"

#if TERN_HAVE_ONEDNN

#include <string.h>

dnnl_data_type_t onednn_type(int64_t dtype)
{
    return dtype == CPU_BLAS_BF16 ? dnnl_bf16 : dtype == CPU_BLAS_F16 ? dnnl_f16 : dnnl_f32;
}

/* Scratch comes from the calling thread's buffer. */
dnnl_primitive_attr_t onednn_attributes(void)
{
    dnnl_primitive_attr_t attr = NULL;
    if (dnnl_primitive_attr_create(&attr) != dnnl_success)
        return NULL;
    if (dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user) == dnnl_success)
        return attr;
    dnnl_primitive_attr_destroy(attr);
    return NULL;
}

const char *onednn_name(const_dnnl_primitive_desc_t pd)
{
    const char *name = NULL;
    if (dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) != dnnl_success)
        return NULL;
    return name;
}

const char *onednn_name_of(const_dnnl_primitive_t primitive)
{
    const_dnnl_primitive_desc_t own = NULL;
    if (dnnl_primitive_get_primitive_desc(primitive, &own) != dnnl_success)
        return NULL;
    return onednn_name(own);
}

static bool is_reference(const_dnnl_primitive_desc_t pd)
{
    const char *name = onednn_name(pd);
    return !name || strncmp(name, "ref", 3) == 0 || strstr(name, ":ref") != NULL;
}

#if DNNL_VERSION_MAJOR >= 3

bool onednn_by_tag(onednn_own *out, int ndims, const dnnl_dims_t dims, dnnl_data_type_t type,
                   dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_create_with_tag(&out->desc, ndims, dims, type, tag) == dnnl_success;
}

bool onednn_by_strides(onednn_own *out, int ndims, const dnnl_dims_t dims, dnnl_data_type_t type,
                       const dnnl_dims_t strides)
{
    return dnnl_memory_desc_create_with_strides(&out->desc, ndims, dims, type, strides) ==
           dnnl_success;
}

void onednn_free(onednn_own *own)
{
    if (own->desc)
        dnnl_memory_desc_destroy(own->desc);
    own->desc = NULL;
}

static dnnl_primitive_desc_t conv_create(const onednn_conv *c, dnnl_primitive_attr_t attr,
                                         dnnl_engine_t engine, const_dnnl_primitive_desc_t hint)
{
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t status;
    if (c->pass == CPU_CONV_FORWARD)
        status = dnnl_convolution_forward_primitive_desc_create(
            &pd, engine, dnnl_forward_training, direct, c->x, c->w, c->bias, c->y, c->stride,
            c->dilation, c->pad, c->pad, attr);
    else if (c->pass == CPU_CONV_BACKWARD_DATA)
        status = dnnl_convolution_backward_data_primitive_desc_create(
            &pd, engine, direct, c->x, c->w, c->y, c->stride, c->dilation, c->pad, c->pad, hint,
            attr);
    else
        status = dnnl_convolution_backward_weights_primitive_desc_create(
            &pd, engine, direct, c->x, c->w, c->bias, c->y, c->stride, c->dilation, c->pad, c->pad,
            hint, attr);
    return status == dnnl_success ? pd : NULL;
}

/* Goes on from the implementation that `pd` is at; NULL and `pd` freed where all that follow are
 * reference ones. */
static dnnl_primitive_desc_t first_fast(dnnl_primitive_desc_t pd)
{
    while (pd && is_reference(pd)) {
        if (dnnl_primitive_desc_next_impl(pd) != dnnl_success) {
            dnnl_primitive_desc_destroy(pd);
            pd = NULL;
        }
    }
    return pd;
}

dnnl_primitive_desc_t onednn_conv_first(const onednn_conv *conv, dnnl_engine_t engine,
                                        const_dnnl_primitive_desc_t hint)
{
    return conv_create(conv, NULL, engine, hint);
}

dnnl_primitive_desc_t onednn_conv_first_fast(const onednn_conv *conv, dnnl_primitive_attr_t attr,
                                             dnnl_engine_t engine, const_dnnl_primitive_desc_t hint)
{
    return first_fast(conv_create(conv, attr, engine, hint));
}

dnnl_primitive_desc_t onednn_matmul_first_fast(onednn_layout a, onednn_layout b, onednn_layout bias,
                                               onednn_layout c, dnnl_primitive_attr_t attr,
                                               dnnl_engine_t engine)
{
    dnnl_primitive_desc_t pd = NULL;
    if (dnnl_matmul_primitive_desc_create(&pd, engine, a, b, bias, c, attr) != dnnl_success)
        return NULL;
    return first_fast(pd);
}

#else /* oneDNN 2 */

bool onednn_by_tag(onednn_own *out, int ndims, const dnnl_dims_t dims, dnnl_data_type_t type,
                   dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_init_by_tag(&out->desc, ndims, dims, type, tag) == dnnl_success;
}

bool onednn_by_strides(onednn_own *out, int ndims, const dnnl_dims_t dims, dnnl_data_type_t type,
                       const dnnl_dims_t strides)
{
    return dnnl_memory_desc_init_by_strides(&out->desc, ndims, dims, type, strides) == dnnl_success;
}

void onednn_free(onednn_own *own)
{
    (void)own;
}

static bool describe_conv(const onednn_conv *c, dnnl_convolution_desc_t *out)
{
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    dnnl_status_t status;
    if (c->pass == CPU_CONV_FORWARD)
        status = dnnl_dilated_convolution_forward_desc_init(out, dnnl_forward_training, direct,
                                                            c->x, c->w, c->bias, c->y, c->stride,
                                                            c->dilation, c->pad, c->pad);
    else if (c->pass == CPU_CONV_BACKWARD_DATA)
        status = dnnl_dilated_convolution_backward_data_desc_init(
            out, direct, c->x, c->w, c->y, c->stride, c->dilation, c->pad, c->pad);
    else
        status = dnnl_dilated_convolution_backward_weights_desc_init(
            out, direct, c->x, c->w, c->bias, c->y, c->stride, c->dilation, c->pad, c->pad);
    return status == dnnl_success;
}

static dnnl_primitive_desc_t first_fast(const_dnnl_op_desc_t op, dnnl_primitive_attr_t attr,
                                        dnnl_engine_t engine, const_dnnl_primitive_desc_t hint)
{
    dnnl_primitive_desc_iterator_t it = NULL;
    if (dnnl_primitive_desc_iterator_create(&it, op, attr, engine, hint) != dnnl_success)
        return NULL;
    dnnl_primitive_desc_t found = NULL;
    do {
        dnnl_primitive_desc_t pd = dnnl_primitive_desc_iterator_fetch(it);
        if (pd && !is_reference(pd))
            found = pd;
        else if (pd)
            dnnl_primitive_desc_destroy(pd);
    } while (!found && dnnl_primitive_desc_iterator_next(it) == dnnl_success);
    dnnl_primitive_desc_iterator_destroy(it);
    return found;
}

dnnl_primitive_desc_t onednn_conv_first(const onednn_conv *conv, dnnl_engine_t engine,
                                        const_dnnl_primitive_desc_t hint)
{
    dnnl_convolution_desc_t op;
    dnnl_primitive_desc_t pd = NULL;
    if (!describe_conv(conv, &op) ||
        dnnl_primitive_desc_create(&pd, &op, NULL, engine, hint) != dnnl_success)
        return NULL;
    return pd;
}

dnnl_primitive_desc_t onednn_conv_first_fast(const onednn_conv *conv, dnnl_primitive_attr_t attr,
                                             dnnl_engine_t engine, const_dnnl_primitive_desc_t hint)
{
    dnnl_convolution_desc_t op;
    return describe_conv(conv, &op) ? first_fast(&op, attr, engine, hint) : NULL;
}

dnnl_primitive_desc_t onednn_matmul_first_fast(onednn_layout a, onednn_layout b, onednn_layout bias,
                                               onednn_layout c, dnnl_primitive_attr_t attr,
                                               dnnl_engine_t engine)
{
    dnnl_matmul_desc_t op;
    if (dnnl_matmul_desc_init(&op, a, b, bias, c) != dnnl_success)
        return NULL;
    return first_fast(&op, attr, engine, NULL);
}

#endif

#else
typedef int onednn_is_not_there;
#endif
