/* Copies: clone, contiguous, to, copy, fill. All data moves through the copy row, which takes any
 * strides and dtypes and crosses devices. */
#include "core/backend.h"
#include "core/device_memory.h"
#include "core/compose.h"
#include "core/op_table.h"
#include "core/option.h"
#include "core/promote.h"
#include "core/rules.h"
#include "core/tape.h"

/* Above 0: d lies further in than e. 0: nothing says so, as of dimensions without a stride. */
static int outer_first(const tern_view *v, int e, int d)
{
    const int64_t a = v->stride[e], b = v->stride[d];
    if (a == 0 || b == 0)
        return 0;
    return a != b ? (a > b) - (a < b) : v->shape[e] > v->shape[d];
}

void core_dense_strides(const tern_view *v, int64_t *out_strides)
{
    int order
        [TERN_MAX_DIMS]; /* from the smallest stride; dimensions without one stay in place (T009) */
    for (int i = 0; i < v->ndim; i++) {
        int at = i;
        order[i] = v->ndim - 1 - i;
        for (int j = i - 1; j >= 0; j--) {
            const int d = order[at], compared = outer_first(v, order[j], d);
            if (compared < 0)
                break;
            if (compared == 0)
                continue;
            order[at] = order[j];
            order[j] = d;
            at = j;
        }
    }
    int64_t stride = 1;
    for (int i = 0; i < v->ndim; i++) {
        out_strides[order[i]] = stride;
        stride *= v->shape[order[i]] > 1 ? v->shape[order[i]] : 1;
    }
}

tern_tensor *core_copied(tern_thread *self, tern_site_t site, const char *what, tern_tensor *t,
                         tern_dev_t dev, tern_dtype_t dtype, int ndim, const int64_t *dims,
                         const int64_t *strides)
{
    site = core_site(self, site);
    const char *outer = core_calling_begin(self, what);
    tern_tensor *out = strides == NULL
                           ? core_tensor_new(self, site, dev, dtype, ndim, dims)
                           : core_tensor_new_strided(self, site, dev, dtype, ndim, dims, strides);
    core_calling_end(self, outer);
    if (out == NULL || core_op_into(TERN_OP_copy, site, NULL, out, t) == TERN_OK)
        return out;
    core_release(self, out);
    return NULL;
}

/* False when a call must not run: an error is pending, or t is NULL (recorded). */
static bool may_run(tern_thread *self, tern_site_t site, const char *what, const tern_tensor *t)
{
    if (self->error_code != TERN_OK)
        return false;
    char why[CORE_WHY_NULL_BYTES];
    if (t == NULL)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the tensor is NULL%s",
                     core_why_null(self, why));
    return t != NULL && core_is_there(self, site, what, t);
}

tern_tensor *tern_clone_at(tern_site_t site, tern_tensor *t)
{
    tern_thread *self = core_self();
    if (!may_run(self, site, "clone", t))
        return NULL;
    const tern_view *v = &t->view;
    int64_t strides[TERN_MAX_DIMS];
    const bool row_major = (v->flags & TERN_VIEW_CONTIGUOUS) != 0;
    if (!row_major)
        core_dense_strides(v, strides);
    return core_scope_add(self, core_copied(self, site, "clone", t, v->dev, (tern_dtype_t)v->dtype,
                                            v->ndim, v->shape, row_major ? NULL : strides));
}

tern_tensor *tern_contiguous_at(tern_site_t site, tern_tensor *t)
{
    tern_thread *self = core_self();
    if (!may_run(self, site, "contiguous", t))
        return NULL;
    const tern_view *v = &t->view;
    if (v->flags & TERN_VIEW_CONTIGUOUS)
        return core_same(self, t);
    return core_scope_add(self, core_copied(self, site, "contiguous", t, v->dev,
                                            (tern_dtype_t)v->dtype, v->ndim, v->shape, NULL));
}

/* ---- to ---------------------------------------------------------------------------------------- */

static bool has_format(const tern_view *v, tern_memory_format_t format)
{
    return format == TERN_FORMAT_PRESERVE ||
           (format == TERN_FORMAT_CONTIGUOUS ? (v->flags & TERN_VIEW_CONTIGUOUS) != 0
                                             : core_view_channels_last(v));
}

static void format_strides(const tern_view *v, tern_memory_format_t format, int64_t *out_strides)
{
    if (format == TERN_FORMAT_CONTIGUOUS) {
        core_row_major(v->ndim, v->shape, out_strides);
    } else if (format == TERN_FORMAT_CHANNELS_LAST) {
        const int64_t *s = v->shape;
        out_strides[0] = s[1] * s[2] * s[3];
        out_strides[1] = 1;
        out_strides[2] = s[1] * s[3];
        out_strides[3] = s[1];
    } else {
        core_dense_strides(v, out_strides);
    }
}

static bool check_to(tern_site_t site, const tern_view *v, const tern_to_args *args)
{
    if ((int)args->dtype < 0 || args->dtype >= TERN_DTYPES)
        return tern_fail_at(site, TERN_ERR_DTYPE, "to", "%d is no dtype", (int)args->dtype) ==
               TERN_OK;
    if ((unsigned)args->format > TERN_FORMAT_CHANNELS_LAST)
        return tern_fail_at(site, TERN_ERR_ARGUMENT, "to", "%d is no memory format",
                            (int)args->format) == TERN_OK;
    if (args->format == TERN_FORMAT_CHANNELS_LAST && v->ndim != 4)
        return tern_fail_at(site, TERN_ERR_SHAPE, "to",
                            "channels_last is for 4 dimensions; this tensor has %d",
                            v->ndim) == TERN_OK;
    return true;
}

/* Without waiting, what comes to the CPU comes to page-locked memory (T010). */
static tern_tensor *moved_later(tern_thread *self, tern_site_t site, tern_tensor *t, tern_dev_t dev,
                                tern_dtype_t dtype, const int64_t *strides)
{
    const tern_view *v = &t->view;
    tern_attr_copy attr = { .non_blocking = true };
    tern_tensor *out = NULL;
    site = core_site(self, site);
    const char *outer = core_calling_begin(self, "to");
    if (dev.kind == TERN_KIND_CPU)
        out = core_tensor_new_pinned(self, site, dtype, v->ndim, v->shape, strides);
    if (out == NULL)
        out = core_tensor_new_strided(self, site, dev, dtype, v->ndim, v->shape, strides);
    core_calling_end(self, outer);
    if (out == NULL || core_op_into(TERN_OP_copy, site, &attr, out, t) == TERN_OK)
        return out;
    core_release(self, out);
    return NULL;
}

static tern_tensor *moved(tern_thread *self, tern_site_t site, tern_tensor *t, tern_dev_t dev,
                          tern_dtype_t dtype, const tern_to_args *args)
{
    const tern_view *v = &t->view;
    int64_t strides[TERN_MAX_DIMS];
    format_strides(v, args->format, strides);
    if (args->non_blocking && !tern_dev_equal(dev, v->dev))
        return moved_later(self, site, t, dev, dtype, strides);
    return core_copied(self, site, "to", t, dev, dtype, v->ndim, v->shape, strides);
}

/* To a device that a tensor can have. */
static tern_tensor *brought(tern_thread *self, tern_site_t site, tern_tensor *t, tern_dev_t dev,
                            const tern_to_args *args)
{
    const tern_view *v = &t->view;
    const tern_dtype_t dtype =
        args->dtype != TERN_DTYPE_NONE ? args->dtype : (tern_dtype_t)v->dtype;
    if (!args->copy && tern_dev_equal(dev, v->dev) && dtype == v->dtype &&
        has_format(v, args->format))
        return core_same(self, t);
    tern_tensor *result = moved(self, site, t, dev, dtype, args);
    if (result == NULL && core_oom_to_cpu(self, site, "to", dev))
        result = moved(self, site, t, TERN_CPU, dtype, args);
    return core_scope_add(self, result);
}

/* No request: a tensor stays on a device that cannot be asked for any more. */
static bool lives_there(const tern_thread *self, const tern_view *v, tern_dev_t dev)
{
    return dev.kind == v->dev.kind &&
           v->dev.index == (dev.index < 0 ? self->current_index[dev.kind] : dev.index);
}

tern_tensor *tern_to_at(tern_site_t site, tern_tensor *t, const tern_to_args *args)
{
    tern_thread *self = core_self();
    args = core_options(args);
    if (!may_run(self, site, "to", t) || !check_to(site, &t->view, args))
        return NULL;
    tern_dev_t dev = t->view.dev;
    if (args->device.kind != TERN_KIND_NONE && !lives_there(self, &t->view, args->device) &&
        !core_dev_resolve(self, core_site(self, site), "to", args->device, &dev))
        return NULL;
    return brought(self, site, t, dev, args);
}

void back_copy(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    const tern_view *x = core_input_view(ctx, 0);
    const tern_to_args args = { .size_ = sizeof args, .dtype = (tern_dtype_t)x->dtype };
    if (grad != NULL && !tern_failed())
        grad_in[0] = brought(core_self(), TERN_HERE, grad, x->dev, &args);
}

/* ---- into a tensor ----------------------------------------------------------------------------- */

tern_tensor *tern_copy_at(tern_site_t site, const tern_copy_args *args)
{
    tern_thread *self = core_self();
    args = core_options(args);
    tern_tensor *dst = args->dst, *src = args->src;
    if (self->error_code == TERN_OK && src == NULL)
        tern_fail_at(site, TERN_ERR_ARGUMENT, "copy", "src is NULL");
    if (self->error_code != TERN_OK)
        return NULL;
    tern_attr_copy attr = { .non_blocking = args->non_blocking, .replaces = true };
    return core_op_into(TERN_OP_copy, site, &attr, dst, src) == TERN_OK ? dst : NULL;
}

tern_tensor *tern_fill_at(tern_site_t site, tern_tensor *t, tern_operand value)
{
    tern_thread *self = core_self();
    tern_attr_fill attr;
    if (!may_run(self, site, "fill", t) ||
        !core_fill_attr_of(self, site, "fill", value, tern_dtype(t), &attr))
        return NULL;
    return core_op_into(TERN_OP_fill, site, &attr, t, NULL) == TERN_OK ? t : NULL;
}
