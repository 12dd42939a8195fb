#include "tests/support/karray_layout.h"

#include <stdlib.h>

#include "backend_cpu/cpu.h"
#include "tests/support/check.h"

const char *karray_layout_name(karray_layout layout)
{
    static const char *const names[] = { "row-major", "reversed", "gaps", "swapped" };
    return names[layout];
}

/* Order of dimensions from the innermost on. */
static int nth_dim(const tern_view *view, karray_layout layout, int n)
{
    if (layout == KARRAY_REVERSED)
        return n;
    if (layout == KARRAY_SWAPPED && view->ndim > 1 && n < 2)
        return view->ndim - 2 + n;
    return view->ndim - 1 - n;
}

/* In new memory of so many elements, by the strides that the view has now. */
static void move_to(karray *a, int64_t elements)
{
    tern_view *view = &a->view;
    const int64_t size = cpu_dtype_size(view->dtype);
    free(view->data);
    view->data = calloc((size_t)elements + 1, (size_t)size);
    assert_non_null(view->data);
    for (int64_t i = 0; i < view->numel; i++)
        cpu_store_f64((char *)view->data + karray_place(view, i) * size, view->dtype, a->values[i]);
}

void karray_relayout(karray *a, karray_layout layout)
{
    tern_view *view = &a->view;
    int64_t stride = layout == KARRAY_GAPS ? 2 : 1;
    for (int n = 0; n < view->ndim; n++) {
        const int d = nth_dim(view, layout, n);
        view->stride[d] = stride;
        stride *= view->shape[d] + (layout == KARRAY_GAPS);
    }
    view->flags = layout == KARRAY_GAPS        ? 0
                  : layout == KARRAY_ROW_MAJOR ? TERN_VIEW_CONTIGUOUS | TERN_VIEW_DENSE
                                               : TERN_VIEW_DENSE;
    move_to(a, stride);
}

void karray_cut(karray *a)
{
    tern_view *view = &a->view;
    int64_t stride = 1;
    for (int d = view->ndim - 1; d >= 0; d--) {
        view->stride[d] = stride;
        stride *= view->shape[d] + (d == view->ndim - 1 ? 3 : 0);
    }
    view->flags = 0;
    move_to(a, stride);
}

void karray_repeat(karray *a, int dim)
{
    tern_view *view = &a->view;
    view->stride[dim] = 0;
    view->flags = 0;
    for (int64_t i = 0; i < view->numel; i++)
        a->values[i] = cpu_load_f64(
            (char *)view->data + karray_place(view, i) * cpu_dtype_size(view->dtype), view->dtype);
}
