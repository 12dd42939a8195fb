/* Reading tensors: one element, all of them, a pointer, a text. Waits for the device. */
#include <math.h>
#include <stdio.h>

#include "core/backend.h"
#include "core/call.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/promote.h"
#include "core/rules.h"
#include "core/transfers.h"

static bool may_read(tern_thread *self, tern_site_t site, const char *what, const tern_tensor *t)
{
    if (self->error_code != TERN_OK)
        return false;
    char why[CORE_WHY_NULL_BYTES];
    if (t == NULL)
        core_error(self, core_site(self, site), TERN_ERR_ARGUMENT, what, "the tensor is NULL%s",
                   core_why_null(self, why));
    return t != NULL && core_is_there(self, site, what, t);
}

/* ---- one element -------------------------------------------------------------------------------- */

/* Copies the element to the host; false with the error recorded. */
static bool fetch(tern_site_t site, const char *what, tern_tensor *t, char out_bytes[8])
{
    tern_thread *self = core_self();
    char shape[160];
    if (!may_read(self, site, what, t))
        return false;
    if (t->view.numel != 1) {
        core_error(self, core_site(self, site), TERN_ERR_SHAPE, what,
                   "a tensor of shape %s has not one element but %lld\n"
                   "  try tern_mean or tern_sum of it first, or tern_read for all elements",
                   core_shape_text(t->view.ndim, t->view.shape, shape, sizeof shape),
                   (long long)t->view.numel);
        return false;
    }
    const int64_t bytes = tern_dtype_size((tern_dtype_t)t->view.dtype);
    if (t->view.dev.kind == TERN_KIND_CPU) {
        memcpy(out_bytes, t->view.data, (size_t)bytes);
        return true;
    }
    const tern_status_t code = core_copy_bytes(core_site(self, site), TERN_CPU, out_bytes,
                                               t->view.dev, t->view.data, bytes);
    if (code == TERN_OK) {
        core_transfer_note_read(core_site(self, site), bytes);
        return true;
    }
    const char *why =
        self->message_code != TERN_OK ? self->message : "the element could not be copied";
    self->message_code = TERN_OK;
    core_error(self, core_site(self, site), code, what, "%s", why);
    return false;
}

double tern_item_at(tern_site_t site, tern_tensor *t)
{
    char bytes[8];
    return fetch(site, "item", t, bytes) ? core_load_double(bytes, (tern_dtype_t)t->view.dtype)
                                         : (double)NAN;
}

int64_t tern_item_int_at(tern_site_t site, tern_tensor *t)
{
    char bytes[8];
    return fetch(site, "item_int", t, bytes) ? core_load_int(bytes, (tern_dtype_t)t->view.dtype)
                                             : 0;
}

/* ---- all elements ------------------------------------------------------------------------------- */

static void *data_of(tern_thread *self, tern_site_t site, const char *what, tern_tensor *t)
{
    char name[TERN_DEV_NAME_BYTES];
    if (!may_read(self, site, what, t))
        return NULL;
    if (t->view.dev.kind == TERN_KIND_CPU)
        return t->view.data;
    core_error(self, core_site(self, site), TERN_ERR_DEVICE, what,
               "the tensor's elements lie on %s, where the host cannot reach them\n"
               "  try tern_data(tern_cpu(t)), or tern_read",
               tern_dev_name(t->view.dev, name));
    return NULL;
}

void *tern_data_at(tern_site_t site, tern_tensor *t)
{
    return data_of(core_self(), site, "data", t);
}

void *tern_data_as_at(tern_site_t site, tern_tensor *t, tern_dtype_t of)
{
    tern_thread *self = core_self();
    void *data = data_of(self, site, "data_as", t);
    if (data == NULL || of == TERN_DTYPE_NONE || of == (tern_dtype_t)t->view.dtype)
        return data;
    core_error(self, core_site(self, site), TERN_ERR_DTYPE, "data_as",
               "the elements are %s, and a pointer to %s is asked for\n"
               "  try a pointer of that type, or tern_data_as of tern_cast(t, dtype)",
               tern_dtype_name((tern_dtype_t)t->view.dtype), tern_dtype_name(of));
    return NULL;
}

void *tern_data_ptr_at(tern_site_t site, tern_tensor *t)
{
    return may_read(core_self(), site, "data_ptr", t) && t->view.numel > 0 ? t->view.data : NULL;
}

static void not_released(void *user)
{
    (void)user;
}

/* Row-major into `data`, by the copy row, unrecorded. */
static bool copy_out(tern_thread *self, tern_site_t site, tern_tensor *t, tern_dtype_t dtype,
                     void *data, int64_t bytes)
{
    core_storage *storage = core_storage_foreign(self, data, bytes, not_released, NULL);
    tern_tensor *target = storage == NULL ? NULL
                                          : core_tensor_adopt(self, site, storage, dtype,
                                                              t->view.ndim, t->view.shape);
    if (target == NULL) {
        if (storage != NULL)
            core_storage_release(self, storage);
        core_error(self, site, TERN_ERR_OOM, "read", "no host memory for a tensor");
        return false;
    }
    const bool grad_mode = self->grad_mode;
    self->grad_mode = false;
    const bool ok = core_op_into(TERN_OP_copy, site, NULL, target, t) == TERN_OK;
    self->grad_mode = grad_mode;
    core_release(self, target);
    return ok;
}

tern_status_t tern_read_at(tern_site_t site, tern_tensor *t, tern_dtype_t dtype, void *out_data,
                           tern_dtype_t of, int64_t bytes)
{
    tern_thread *self = core_self();
    if (!may_read(self, site, "read", t))
        return (tern_status_t)self->error_code;
    site = core_site(self, site);
    int64_t needed;
    if (tern_dtype_size(dtype) == 0)
        return core_error(self, site, TERN_ERR_DTYPE, "read", "%d is no dtype", (int)dtype);
    if (of < TERN_DTYPE_NONE || of >= TERN_DTYPES)
        return core_error(self, site, TERN_ERR_DTYPE, "read", "%d is no dtype", (int)of);
    if (of != dtype && tern_dtype_size(of) > 1)
        return core_error(self, site, TERN_ERR_DTYPE, "read",
                          "the memory is for %s by its type, and elements of %s are asked for\n"
                          "  try %s, which reading converts to, or memory of the other type",
                          tern_dtype_name(of), tern_dtype_name(dtype), tern_dtype_name(of));
    /* an expanded tensor has more elements than memory can hold */
    if (__builtin_mul_overflow(t->view.numel, (int64_t)tern_dtype_size(dtype), &needed))
        needed = INT64_MAX;
    if (bytes < needed)
        return core_error(self, site, TERN_ERR_ARGUMENT, "read",
                          "%lld elements of %s take %lld bytes; the memory has %lld",
                          (long long)t->view.numel, tern_dtype_name(dtype), (long long)needed,
                          (long long)bytes);
    if (t->view.numel == 0)
        return TERN_OK;
    if (out_data == NULL)
        return core_error(self, site, TERN_ERR_ARGUMENT, "read", "the memory is NULL");
    return copy_out(self, site, t, dtype, out_data, needed) ? TERN_OK
                                                            : (tern_status_t)self->error_code;
}

/* ---- as text ------------------------------------------------------------------------------------ */

enum { SHOWN_EDGE = 3 }; /* longer dimensions show so many at either end */

static void add_element(core_text *text, const tern_view *v, int64_t offset)
{
    const char *data = (const char *)v->data + offset;
    const tern_dtype_t dtype = (tern_dtype_t)v->dtype;
    if (dtype == TERN_BOOL)
        core_text_add(text, "%s", *data ? "true" : "false");
    else if (tern_dtype_is_float(dtype))
        core_text_add(text, "%.5g", core_load_double(data, dtype));
    else
        core_text_add(text, "%lld", (long long)core_load_int(data, dtype));
}

/* At most 8 levels deep; `offset` is in bytes. */
static void add_level(core_text *text, const tern_view *v, int d, int64_t offset)
{
    if (d == v->ndim) {
        add_element(text, v, offset);
        return;
    }
    const int64_t step = v->stride[d] * tern_dtype_size((tern_dtype_t)v->dtype);
    core_text_add(text, "[");
    for (int64_t i = 0; i < v->shape[d]; i++) {
        if (i > 0)
            core_text_add(text, d == v->ndim - 1 ? ", " : ",\n %*s", d + 2, "");
        if (v->shape[d] > 2 * SHOWN_EDGE + 1 && i == SHOWN_EDGE) {
            core_text_add(text, "...");
            i = v->shape[d] - SHOWN_EDGE - 1;
            continue;
        }
        add_level(text, v, d + 1, offset + i * step);
    }
    core_text_add(text, "]");
}

/* A copy on the host where t itself is not; reference count 1. */
static tern_tensor *on_host(tern_thread *self, tern_site_t site, const char *what, tern_tensor *t)
{
    if (t->view.dev.kind == TERN_KIND_CPU)
        return core_retain(t);
    const bool grad_mode = self->grad_mode;
    self->grad_mode = false;
    tern_tensor *copy = core_copied(self, site, what, t, TERN_CPU, (tern_dtype_t)t->view.dtype,
                                    t->view.ndim, t->view.shape, NULL);
    self->grad_mode = grad_mode;
    return copy;
}

/* The text for `what`, which errors name. */
static const char *describe(tern_site_t site, const char *what, tern_tensor *t, char *buffer,
                            size_t bytes)
{
    tern_thread *self = core_self();
    char shape[160], name[TERN_DEV_NAME_BYTES];
    if (buffer == NULL || bytes == 0)
        return "";
    core_text text = { buffer, bytes, 0 };
    buffer[0] = '\0';
    if (!may_read(self, site, what, t)) {
        core_text_add(&text, "no tensor: an error is pending");
        return buffer;
    }
    core_text_add(&text, "%s %s %s%s", tern_dtype_name((tern_dtype_t)t->view.dtype),
                  core_shape_text(t->view.ndim, t->view.shape, shape, sizeof shape),
                  tern_dev_name(t->view.dev, name), tern_requires_grad(t) ? " requires_grad" : "");
    tern_tensor *host = on_host(self, core_site(self, site), what, t);
    if (host == NULL)
        return buffer;
    core_text_add(&text, "\n  ");
    add_level(&text, &host->view, 0, 0);
    core_release(self, host);
    return buffer;
}

const char *tern_describe_at(tern_site_t site, tern_tensor *t, char *buffer, size_t bytes)
{
    return describe(site, "describe", t, buffer, bytes);
}

void tern_print_at(tern_site_t site, tern_tensor *t)
{
    char text[4096];
    (void)printf("%s\n", describe(site, "print", t, text, sizeof text));
}
