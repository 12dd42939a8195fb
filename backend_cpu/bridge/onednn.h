#ifndef TERN_BACKEND_CPU_ONEDNN_H
#define TERN_BACKEND_CPU_ONEDNN_H
/* What oneDNN 2 and 3 do differently, once for both: in 2 a layout ("memory descriptor") is a struct and an
 * implementation comes from an operation's descriptor; in 3 layouts are objects that must be freed and an
 * implementation is made at once. The rest of the bridge calls oneDNN itself. */

#include "backend_cpu/bridge/bridge_private.h"

#if TERN_HAVE_ONEDNN
#include <oneapi/dnnl/dnnl.h>

/* A layout as oneDNN's calls take it; whoever has it from a query does not own it. */
#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t onednn_layout;
#else
typedef const dnnl_memory_desc_t *onednn_layout;
#endif

/* A layout of ours. Zeroed it is none, and freeing it does nothing. */
typedef struct onednn_own {
    dnnl_memory_desc_t desc;
} onednn_own;

bool onednn_by_tag(onednn_own *out, int ndims, const dnnl_dims_t dims, dnnl_data_type_t type,
                   dnnl_format_tag_t tag);
bool onednn_by_strides(onednn_own *out, int ndims, const dnnl_dims_t dims, dnnl_data_type_t type,
                       const dnnl_dims_t strides);
void onednn_free(onednn_own *own);

static inline onednn_layout onednn_layout_of(const onednn_own *own)
{
#if DNNL_VERSION_MAJOR >= 3
    return own->desc;
#else
    return &own->desc;
#endif
}

/* One pass (CPU_CONV_*) of a convolution. bias NULL: none; data's gradient takes none. */
typedef struct onednn_conv {
    int pass;
    onednn_layout x, w, bias, y;
    const dnnl_dim_t *stride, *dilation, *pad;
} onednn_conv;

/* The first implementation, NULL: none. `hint`: one of the forward pass, for the others. */
dnnl_primitive_desc_t onednn_conv_first(const onednn_conv *conv, dnnl_engine_t engine,
                                        const_dnnl_primitive_desc_t hint);
/* The first that is not a reference one, with the attributes `attr`. */
dnnl_primitive_desc_t onednn_conv_first_fast(const onednn_conv *conv, dnnl_primitive_attr_t attr,
                                             dnnl_engine_t engine,
                                             const_dnnl_primitive_desc_t hint);
/* The same of a product c = a b + bias (NULL: none). */
dnnl_primitive_desc_t onednn_matmul_first_fast(onednn_layout a, onednn_layout b, onednn_layout bias,
                                               onednn_layout c, dnnl_primitive_attr_t attr,
                                               dnnl_engine_t engine);

/* Attributes that let oneDNN allocate nothing while it runs; NULL: out of memory. */
dnnl_primitive_attr_t onednn_attributes(void);
/* oneDNN's name of an implementation, which belongs to its descriptor; NULL: it has none. */
const char *onednn_name(const_dnnl_primitive_desc_t pd);
/* The same, which lives as long as the primitive. */
const char *onednn_name_of(const_dnnl_primitive_t primitive);
/* oneDNN's name of a cpu_blas_dtype: f32, bf16 or f16. */
dnnl_data_type_t onednn_type(int64_t dtype);

#endif
#endif
