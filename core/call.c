/* Filling records, making outputs, failing. See core/call.h. */
#include "core/call.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"

/* ---- outputs ---------------------------------------------------------------------------------- */

static void add_operands(core_text *text, const core_call *call);

/* Too many elements: the error shows what they come from. */
static __attribute__((noinline)) bool not_made(const core_call *call)
{
    if (call->self->error_code == TERN_ERR_SHAPE) {
        core_text text = core_error_more(call->self);
        add_operands(&text, call);
        core_text_add(&text, "\n");
    }
    return false;
}

bool core_out(core_call *call, int i, tern_dtype_t dtype, int ndim, const int64_t *dims)
{
    if (call->preset)
        return true;
    const char *outer = core_calling_begin(call->self, call->op->name);
    call->out[i] = core_tensor_new(call->self, call->site, call->dev, dtype, ndim, dims);
    core_calling_end(call->self, outer);
    return __builtin_expect(call->out[i] != NULL, 1) || not_made(call);
}

bool core_out_strided(core_call *call, int i, tern_dtype_t dtype, int ndim, const int64_t *dims,
                      const int64_t *strides)
{
    const char *outer = core_calling_begin(call->self, call->op->name);
    call->out[i] =
        core_tensor_new_strided(call->self, call->site, call->dev, dtype, ndim, dims, strides);
    core_calling_end(call->self, outer);
    return call->out[i] != NULL;
}

bool core_out_like_other(core_call *call, int i, const tern_view *like, tern_dtype_t dtype)
{
    if (call->preset)
        return true;
    if (!(like->flags & TERN_VIEW_DENSE) || (like->flags & TERN_VIEW_CONTIGUOUS))
        return core_out(call, i, dtype, like->ndim, like->shape);
    return core_out_strided(call, i, dtype, like->ndim, like->shape, like->stride);
}

bool core_out_image(core_call *call, int i, tern_dtype_t dtype, const int64_t dims[4],
                    bool channels_last)
{
    if (!channels_last)
        return core_out(call, i, dtype, 4, dims);
    if (call->preset)
        return true;
    const int64_t strides[4] = { dims[1] * dims[2] * dims[3], 1, dims[1] * dims[3], dims[1] };
    if (core_numel(4, dims) < 0)
        return core_out(call, i, dtype, 4, dims); /* says that the shape overflows */
    return core_out_strided(call, i, dtype, 4, dims, strides);
}

bool core_out_view(core_call *call, int64_t offset, int ndim, const int64_t *dims,
                   const int64_t *strides)
{
    tern_tensor *base = call->in[0];
    tern_tensor *view = core_tensor_alias(call->self, call->site, base);
    if (view == NULL)
        return false;
    view->view.ndim = (uint8_t)ndim;
    view->view.flags = 0;
    for (int d = 0; d < ndim; d++) {
        view->view.shape[d] = dims[d];
        view->view.stride[d] = strides[d];
    }
    view->view.numel = core_numel(ndim, dims);
    if (view->view.numel > 0)
        view->view.data =
            (char *)base->view.data + offset * tern_dtype_size((tern_dtype_t)base->view.dtype);
    core_view_update(&view->view);
    view->base = core_retain(base->base != NULL ? base->base : base);
    view->rebases = view->base->rebases;
    view->no_grad_view = !call->self->grad_mode || base->no_grad_view;
    view->own_view = base->own_view;
    call->out[0] = view;
    return true;
}

/* ---- failing ---------------------------------------------------------------------------------- */

const char *core_operand_name(const tern_op *op, int i, char out[CORE_OPERAND_BYTES])
{
    const char *name = op->names;
    if (name == NULL && op->id_ != 0 && op->inputs <= 2)
        name = op->inputs == 2 ? "a b" : "x";
    for (int left = i; name != NULL; name = strchr(name, ' ') + 1, left--) {
        const int length = (int)strcspn(name, " ");
        const bool list = length > 2 && name[length - 1] == ']';
        if (left == 0 && !list)
            (void)snprintf(out, CORE_OPERAND_BYTES, "%.*s", length, name);
        else if (list)
            (void)snprintf(out, CORE_OPERAND_BYTES, "%.*s[%d]", length - 2, name, left);
        if (left == 0 || list)
            return out;
        if (name[length] == '\0')
            break;
    }
    (void)snprintf(out, CORE_OPERAND_BYTES, "input %d", i);
    return out;
}

void core_text_add_tensor(core_text *text, const char *name_of_it, int width, const tern_tensor *t)
{
    char shape[160], name[TERN_DEV_NAME_BYTES];
    core_text_add(text, "\n    %-*s  %-4s %-16s %-8s made at %s", width, name_of_it,
                  tern_dtype_name((tern_dtype_t)t->view.dtype),
                  core_shape_text(t->view.ndim, t->view.shape, shape, sizeof shape),
                  tern_dev_name(t->view.dev, name), t->site != NULL ? t->site : "?");
}

/* What a call writes that is none of its inputs: the destination of a copy. */
static const tern_tensor *destination(const core_call *call)
{
    const tern_tensor *t = call->preset && call->n_out > 0 ? call->out[0] : NULL;
    for (int i = 0; t != NULL && i < call->n_in; i++)
        if (call->in[i] == t)
            t = NULL;
    return t;
}

static void add_operands(core_text *text, const core_call *call)
{
    char name[CORE_OPERAND_BYTES];
    const tern_tensor *written = destination(call);
    int width = 8;
    for (int i = 0; i < call->n_in; i++) {
        const int length = (int)strlen(core_operand_name(call->op, i, name));
        width = call->in[i] != NULL && length > width ? length : width;
    }
    if (written != NULL)
        core_text_add_tensor(text, "dst", width, written);
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i] != NULL)
            core_text_add_tensor(text, core_operand_name(call->op, i, name), width, call->in[i]);
}

bool core_fail(core_call *call, tern_status_t code, const char *advice, const char *format, ...)
{
    tern_thread *self = call->self;
    if (self->error_code != TERN_OK)
        return false;
    core_text text = core_error_begin(self, call->site, code, call->op->name);
    va_list arguments;
    va_start(arguments, format);
    core_text_addv(&text, format, arguments);
    va_end(arguments);
    add_operands(&text, call);
    if (advice != NULL)
        core_text_add(&text, "\n  try %s", advice);
    core_error_end(self, &text);
    return false;
}

bool core_missing_input(core_call *call, int i)
{
    char name[CORE_OPERAND_BYTES], why[CORE_WHY_NULL_BYTES];
    return core_fail(call, TERN_ERR_ARGUMENT, NULL, "%s is NULL%s",
                     core_operand_name(call->op, i, name), core_why_null(call->self, why));
}

bool core_gone_input(core_call *call, int i)
{
    char name[CORE_OPERAND_BYTES];
    return core_fail(
        call, TERN_ERR_ARGUMENT,
        "tern_keep or tern_retain where it is made, or a scope that lasts longer",
        "%s was released: its scope has ended, or tern_release was called, or it was a "
        "gradient that was cleared",
        core_operand_name(call->op, i, name));
}

void core_say_gone(tern_thread *self, tern_site_t site, const char *what, const tern_tensor *t)
{
    core_error(self, core_site(self, site), TERN_ERR_ARGUMENT, what,
               "the tensor made at %s was released: its scope has ended, or tern_release was "
               "called, or it was a gradient that was cleared\n  try tern_keep or tern_retain "
               "where it is made",
               t->site != NULL ? t->site : "?");
}

bool core_normalise_dim(core_call *call, int32_t *dim, int ndim)
{
    const int32_t range = ndim > 0 ? ndim : 1;
    if (*dim < -range || *dim >= range)
        return core_fail(call, TERN_ERR_ARGUMENT, NULL, "dimension %d is outside -%d .. %d", *dim,
                         range, range - 1);
    if (*dim < 0)
        *dim += range;
    return true;
}

bool core_check_dtype(core_call *call, int i, uint32_t accepted)
{
    const tern_dtype_t dtype = (tern_dtype_t)call->in[i]->view.dtype;
    if (accepted & B(dtype))
        return true;
    char list[96];
    core_text text = { list, sizeof list, 0 };
    list[0] = '\0';
    for (int d = 1; d < TERN_DTYPES; d++)
        if (accepted & B(d))
            core_text_add(&text, "%s%s", text.length > 0 ? " " : "",
                          tern_dtype_name((tern_dtype_t)d));
    char name[CORE_OPERAND_BYTES], advice[80];
    core_operand_name(call->op, i, name);
    const bool takes_f32 = (accepted & B(TERN_F32)) != 0;
    if (accepted == B(TERN_BOOL))
        (void)snprintf(advice, sizeof advice, "tern_ne(%s, 0)", name);
    else
        (void)snprintf(advice, sizeof advice, "tern_cast(%s, TERN_%s)", name,
                       takes_f32 ? "F32" : "I64");
    const bool helps = accepted == B(TERN_BOOL) ||
                       (takes_f32 ? !tern_dtype_is_float(dtype) : (accepted & B(TERN_I64)) != 0);
    return core_fail(call, TERN_ERR_DTYPE, helps ? advice : NULL, "%s is %s; accepted are: %s",
                     name, tern_dtype_name(dtype), list);
}

/* "F32" of TERN_F32. */
static void constant_of(tern_dtype_t dtype, char out[16])
{
    const char *name = tern_dtype_name(dtype);
    size_t n = 0;
    for (; name[n] != '\0' && n < 15; n++)
        out[n] = (char)toupper((unsigned char)name[n]);
    out[n] = '\0';
}

/* The advice is to cast x for its weight, which is a parameter, and what comes later for both. */
bool core_check_same_dtype(core_call *call, int i, int as)
{
    const tern_dtype_t mine = (tern_dtype_t)core_view(call, i)->dtype;
    const tern_dtype_t other = (tern_dtype_t)core_view(call, as)->dtype;
    if (mine == other)
        return true;
    char name[CORE_OPERAND_BYTES], other_name[CORE_OPERAND_BYTES], constant[16], advice[120];
    core_operand_name(call->op, i, name);
    const bool cast_other = i == 1 && strcmp(name, "weight") == 0 && tern_dtype_is_float(mine);
    core_operand_name(call->op, as, other_name);
    constant_of(cast_other ? mine : other, constant);
    (void)snprintf(advice, sizeof advice, "tern_cast(%s, TERN_%s)", cast_other ? other_name : name,
                   constant);
    return core_fail(call, TERN_ERR_DTYPE, advice, "%s and %s have different dtypes: %s and %s",
                     other_name, name, tern_dtype_name(other), tern_dtype_name(mine));
}

bool core_input_needs_grad(const core_call *call, int i)
{
    return call->self->grad_mode && i < call->n_in && call->in[i] != NULL &&
           call->in[i]->requires_grad;
}

/* ---- replacing inputs ------------------------------------------------------------------------- */

bool core_replace_input(core_call *call, int i, tern_tensor *t)
{
    if (t == NULL)
        return false;
    if (call->owned & B(i))
        core_release(call->self, call->in[i]);
    call->in[i] = t;
    call->owned |= (uint8_t)B(i);
    return true;
}

/* Runs a one-input row and returns output 0 with the caller's reference. */
static tern_tensor *run_one(core_call *outer, tern_op_id id, void *attr, tern_tensor *in)
{
    core_call call;
    core_fill(&call, outer->self, id, outer->site, attr);
    call.n_in = 1;
    call.in[0] = in;
    const char *name = core_calling_begin(outer->self, outer->op->name);
    const bool ok = core_dispatch(&call);
    core_calling_end(outer->self, name);
    return ok ? call.out[0] : NULL;
}

/* A recorded copy of t in another dtype, with the caller's reference. */
static tern_tensor *cast(core_call *outer, tern_tensor *t, tern_dtype_t dtype)
{
    core_call call;
    core_fill(&call, outer->self, TERN_OP_copy, outer->site, NULL);
    call.preset = true;
    call.n_in = 1;
    call.in[0] = t;
    const tern_view *v = &t->view;
    const bool keep_strides = (v->flags & TERN_VIEW_DENSE) && !(v->flags & TERN_VIEW_CONTIGUOUS);
    const char *name = core_calling_begin(outer->self, outer->op->name);
    tern_tensor *out =
        keep_strides ? core_tensor_new_strided(outer->self, outer->site, v->dev, dtype, v->ndim,
                                               v->shape, v->stride)
                     : core_tensor_new(outer->self, outer->site, v->dev, dtype, v->ndim, v->shape);
    call.out[0] = out;
    const bool ok = out != NULL && core_dispatch(&call);
    core_calling_end(outer->self, name);
    if (out == NULL)
        return NULL;
    if (ok)
        return out;
    core_release(outer->self, out);
    return NULL;
}

bool core_cast_input(core_call *call, int i, tern_dtype_t dtype)
{
    return call->in[i]->view.dtype == dtype ||
           core_replace_input(call, i, cast(call, call->in[i], dtype));
}

bool core_expand_input(core_call *call, int i, int ndim, const int64_t *dims)
{
    const tern_view *v = &call->in[i]->view;
    bool same = v->ndim == ndim;
    for (int d = 0; d < ndim && same; d++)
        same = v->shape[d] == dims[d];
    if (same)
        return true;
    tern_attr_shape attr;
    attr.ndim = ndim;
    for (int d = 0; d < ndim; d++)
        attr.dims[d] = dims[d];
    return core_replace_input(call, i, run_one(call, TERN_OP_expand, &attr, call->in[i]));
}

/* ---- the ways in ------------------------------------------------------------------------------ */

tern_tensor *core_op0(tern_op_id id, tern_site_t site, void *attr, tern_dev_t dev,
                      tern_dtype_t dtype, int ndim, const int64_t *dims)
{
    tern_thread *self = core_self();
    if (self->error_code != TERN_OK)
        return NULL;
    core_call call;
    core_fill(&call, self, id, site, attr);
    call.preset = true;
    call.dev = dev;
    call.n_in = 0;
    tern_tensor *out = core_tensor_new(self, core_site(self, site), dev, dtype, ndim, dims);
    call.out[0] = out;
    if (out == NULL)
        return NULL;
    if (core_dispatch(&call))
        return core_scope_add(self, out);
    core_release(self, out);
    return NULL;
}

bool core_opn(tern_op_id id, tern_site_t site, void *attr, int n_in, tern_tensor *const *in,
              int n_out, tern_tensor ***out)
{
    core_call call;
    core_fill(&call, core_self(), id, site, attr);
    call.n_in = (uint8_t)n_in;
    for (int i = 0; i < n_in; i++)
        call.in[i] = in[i];
    bool ok = core_dispatch(&call);
    for (int i = 0; i < n_out; i++) {
        tern_tensor *t = ok && i < call.n_out ? call.out[i] : NULL;
        if (out[i] != NULL)
            *out[i] = core_scope_add(call.self, t);
        else if (t != NULL)
            core_release(call.self, t);
    }
    for (int i = n_out; ok && i < call.n_out; i++)
        core_release(call.self, call.out[i]);
    return ok;
}

tern_status_t core_op_into(tern_op_id id, tern_site_t site, void *attr, tern_tensor *out,
                           tern_tensor *a)
{
    core_call call;
    core_fill(&call, core_self(), id, site, attr);
    call.preset = true;
    call.n_in = a != NULL;
    call.in[0] = a;
    call.n_out = 1;
    call.out[0] = out;
    if (out == NULL)
        return core_error(call.self, site, TERN_ERR_ARGUMENT, call.op->name,
                          "the destination is NULL");
    if (!core_is_there(call.self, site, call.op->name, out))
        return (tern_status_t)call.self->error_code;
    call.dev = out->view.dev;
    return core_dispatch(&call) ? TERN_OK : (tern_status_t)call.self->error_code;
}

tern_tensor *core_op_inplace(tern_op_id id, tern_site_t site, void *attr, tern_tensor *a,
                             tern_tensor *b)
{
    return core_opn_inplace(id, site, attr, 2, (tern_tensor *const[]){ a, b });
}

tern_tensor *core_opn_inplace(tern_op_id id, tern_site_t site, void *attr, int n_in,
                              tern_tensor *const *in)
{
    core_call call;
    core_fill(&call, core_self(), id, site, attr);
    call.preset = true;
    call.n_in = (uint8_t)n_in;
    for (int i = 0; i < n_in; i++)
        call.in[i] = in[i];
    call.out[0] = in[0];
    if (in[0] == NULL) {
        char name[CORE_OPERAND_BYTES], why[CORE_WHY_NULL_BYTES];
        core_error(call.self, site, TERN_ERR_ARGUMENT, call.op->name, "%s is NULL%s",
                   core_operand_name(call.op, 0, name), core_why_null(call.self, why));
        return NULL;
    }
    return core_dispatch(&call) ? in[0] : NULL;
}

tern_tensor *core_op1_inplace(tern_op_id id, tern_site_t site, void *attr, tern_tensor *a)
{
    return core_opn_inplace(id, site, attr, 1, &a);
}
