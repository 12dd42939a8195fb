/* Small helps for the rest of nn/: option structs, memory. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "nn/internal.h"
#include "tern/device.h"

bool nn_take_args(tern_site_t site, const char *what, void *out, const void *args, size_t bytes)
{
    size_t given = 0;
    if (!args)
        return true;
    memcpy(&given, args, sizeof given);
    if (given < sizeof given) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the options are without their size_");
        return false;
    }
    memcpy(out, args, given < bytes ? given : bytes);
    return true;
}

double nn_option(double given, double fallback)
{
    if (given == (double)TERN_ZERO || (given == 0 && signbit(given)))
        return 0;
    return given != 0 ? given : fallback;
}

void *nn_alloc(tern_site_t site, const char *what, int64_t count, size_t bytes)
{
    void *memory = count < 0 ? NULL : calloc(count ? (size_t)count : 1, bytes);
    if (!memory)
        tern_fail_at(site, TERN_ERR_OOM, what, "no memory for %lld times %zu bytes",
                     (long long)count, bytes);
    return memory;
}

char *nn_copy_text(tern_site_t site, const char *what, const char *text)
{
    const size_t bytes = strlen(text) + 1;
    char *copy = nn_alloc(site, what, 1, bytes);
    if (copy)
        memcpy(copy, text, bytes);
    return copy;
}

const char *nn_param_text(tern_tensors_t params, int64_t i, char text[NN_PARAM_BYTES])
{
    const char *name = params.names ? params.names[i] : NULL;
    if (name)
        (void)snprintf(text, NN_PARAM_BYTES, "'%s'", name);
    else
        (void)snprintf(text, NN_PARAM_BYTES, "%lld", (long long)i);
    return text;
}

bool nn_check_written_grad(tern_site_t site, const char *what, tern_tensors_t params, int64_t i)
{
    const tern_tensor *grad = tern_grad_of(params.tensors[i]);
    char name[NN_PARAM_BYTES];
    const bool fine = !grad || !tern_overlaps_itself(grad);
    if (!fine)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                     "elements of the gradient of parameter %s, which is written, share one place "
                     "in memory\n  try tern_contiguous first",
                     nn_param_text(params, i, name));
    return fine;
}

bool nn_same_shape(const tern_tensor *a, const tern_tensor *b)
{
    bool same = tern_ndim(a) == tern_ndim(b);
    for (int d = 0; same && d < tern_ndim(a); d++)
        same = tern_size(a, d) == tern_size(b, d);
    return same;
}

const char *nn_summary(const tern_tensor *t, char *text, size_t bytes)
{
    const tern_shape_t shape = tern_shape(t);
    char dims[128] = "", name[TERN_DEV_NAME_BYTES];
    size_t used = 0;
    for (int d = 0; d < shape.ndim && used < sizeof dims - 24; d++)
        used += (size_t)snprintf(dims + used, sizeof dims - used, d == 0 ? "%lld" : ", %lld",
                                 (long long)shape.dims[d]);
    (void)snprintf(text, bytes, "%s [%s] on %s, made at %s", tern_dtype_name(tern_dtype(t)), dims,
                   tern_dev_name(tern_device(t), name), tern_site(t) ? tern_site(t) : "?");
    return text;
}

void nn_fail_operand(tern_status_t code, const char *what, const char *name, const tern_tensor *t,
                     const char *format, ...)
{
    char problem[512], operand[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(problem, sizeof problem, format, arguments);
    va_end(arguments);
    tern_fail(code, what, "%s\n    %-9s  %s", problem, name,
              nn_summary(t, operand, sizeof operand));
}
