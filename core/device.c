/* Device values, strings, the current device, and what a request for CUDA resolves to. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend.h"
#include "core/cuda/cuda.h"
#include "core/error.h"
#include "core/fallback.h"
#include "core/transfers.h"

enum { MAX_INDEX = 511 };

/* ---- text ------------------------------------------------------------------------------------- */

static const char *kind_name(int kind)
{
    const tern_backend *ext = core_backend_of(TERN_KIND_EXT);
    switch (kind) {
    case TERN_KIND_CPU:
        return "cpu";
    case TERN_KIND_CUDA:
        return "cuda";
    case TERN_KIND_EXT:
        return ext != NULL ? ext->name : "ext";
    default:
        return "none";
    }
}

const char *tern_dev_name(tern_dev_t dev, char buffer[TERN_DEV_NAME_BYTES])
{
    if (buffer == NULL)
        return "";
    if (dev.index < 0)
        (void)snprintf(buffer, TERN_DEV_NAME_BYTES, "%.20s", kind_name(dev.kind));
    else
        (void)snprintf(buffer, TERN_DEV_NAME_BYTES, "%.20s:%d", kind_name(dev.kind), dev.index);
    return buffer;
}

/* Length of the type at the start of a well-formed device string, else 0 (row D001). */
static size_t well_formed(const char *text)
{
    size_t type = 0;
    while (isalpha((unsigned char)text[type]) || text[type] == '_')
        type++;
    if (type == 0 || text[type] == '\0')
        return type;
    const char *digits = text + type + 1;
    const size_t n = strspn(digits, "0123456789");
    const bool leading_zero = n > 1 && digits[0] == '0';
    return text[type] == ':' && n > 0 && digits[n] == '\0' && !leading_zero ? type : 0;
}

static int kind_of(const char *text, size_t length)
{
    for (int kind = TERN_KIND_CPU; kind < TERN_KINDS; kind++) {
        const char *name = kind_name(kind);
        if (kind == TERN_KIND_EXT && core_backend_of(kind) == NULL)
            continue;
        if (strlen(name) == length && memcmp(name, text, length) == 0)
            return kind;
    }
    return TERN_KIND_NONE;
}

static tern_status_t parse_fails(tern_site_t site, const char *format, const char *a, const char *b)
{
    char text[256];
    core_text out = { text, sizeof text, 0 };
    text[0] = '\0';
    for (; *format != '\0'; format++)
        if (format[0] == '%') {
            core_text_add(&out, "%s", a);
            a = b;
        } else {
            core_text_add(&out, "%c", *format);
        }
    return core_error(core_self(), site, TERN_ERR_DEVICE, "device", "%s", text);
}

tern_status_t tern_dev_parse_at(tern_site_t site, const char *text, tern_dev_t *out_dev)
{
    if (out_dev == NULL)
        return core_error(core_self(), site, TERN_ERR_ARGUMENT, "device", "out_dev is NULL");
    *out_dev = TERN_DEV_(TERN_KIND_NONE, 0);
    if (text == NULL)
        return core_error(core_self(), site, TERN_ERR_ARGUMENT, "device", "the text is NULL");
    if (text[0] == '\0')
        return parse_fails(site, "device string must not be empty", "", "");
    const size_t length = well_formed(text);
    if (length == 0)
        return parse_fails(
            site, "invalid device string: '%'\n  try \"cpu\", \"cuda\" or \"cuda:0\"", text, "");
    long index = -1;
    if (text[length] == ':') {
        errno = 0;
        index = strtol(text + length + 1, NULL, 10);
        if (errno != 0 || index > MAX_INDEX)
            return parse_fails(site, "could not parse device index '%' in device string '%'",
                               text + length + 1, text);
    }
    const int kind = kind_of(text, length);
    if (kind == TERN_KIND_NONE) {
        const tern_backend *ext = core_backend_of(TERN_KIND_EXT);
        char other[TERN_DEV_NAME_BYTES + 2] = "";
        if (ext != NULL)
            (void)snprintf(other, sizeof other, ", %s", ext->name);
        return parse_fails(site, "expected one of cpu, cuda% at the start of device string: '%'",
                           other, text);
    }
    *out_dev = TERN_DEV_(kind, index);
    return TERN_OK;
}

/* ---- what there is ------------------------------------------------------------------------------ */

/* The search for CUDA comes first: it may register a backend. */
static int count_of(int kind)
{
    if (kind == TERN_KIND_CPU)
        return 1;
    if (kind == TERN_KIND_CUDA && core_cuda_reason() != CORE_REASON_NONE)
        return 0;
    const tern_backend *b = core_backend_of(kind);
    return b != NULL ? b->device_count : 0;
}

/* Where the search begins at this question, the log has the line of the call that is open. */
static int count_for(tern_site_t site, int kind)
{
    const tern_site_t outer = tern_site_begin(site);
    const int count = count_of(kind);
    tern_site_end(outer);
    return count;
}

int tern_dev_count(int kind)
{
    if (kind == TERN_KIND_CUDA)
        core_cuda_check_visible();
    return count_of(kind);
}

bool tern_dev_available(tern_dev_t dev)
{
    const int count = tern_dev_count(dev.kind);
    if (dev.kind == TERN_KIND_CPU)
        return true;                       /* its index means nothing */
    return count > 0 && dev.index < count; /* -1: the current one, if there is any */
}

/* ---- resolving ---------------------------------------------------------------------------------- */

enum { NO_INDEX = -1 };

static bool bad_index(tern_thread *self, tern_site_t site, const char *what, tern_dev_t dev)
{
    char name[TERN_DEV_NAME_BYTES];
    const int count = count_of(dev.kind);
    const char *list = dev.kind == TERN_KIND_CUDA ? core_cuda()->visible : NULL;
    core_error(self, site, TERN_ERR_DEVICE, what, "there is no device %s: %d %s visible%s%.200s%s",
               tern_dev_name(dev, name), count, count == 1 ? "is" : "are",
               list != NULL ? "; of CUDA_VISIBLE_DEVICES=" : "", list != NULL ? list : "",
               list != NULL ? " the first is cuda:0" : "");
    return false;
}

bool core_dev_resolve(tern_thread *self, tern_site_t site, const char *what, tern_dev_t dev,
                      tern_dev_t *out_dev)
{
    if (dev.kind == TERN_KIND_NONE)
        dev = self->default_device;
    if (dev.kind == TERN_KIND_CPU) {
        *out_dev = TERN_CPU;
        return true;
    }
    if (dev.kind == TERN_KIND_CUDA && count_for(site, TERN_KIND_CUDA) == 0) {
        *out_dev = TERN_CPU;
        return core_fall_back(self, site, what);
    }
    if (dev.kind < 0 || dev.kind >= TERN_KINDS) {
        core_error(self, site, TERN_ERR_DEVICE, what, "%d is no device kind", dev.kind);
        return false;
    }
    if (dev.index < NO_INDEX) {
        core_error(
            self, site, TERN_ERR_DEVICE, what,
            "there is no device of index %d: they are counted from 0, and -1 is the current one",
            dev.index);
        return false;
    }
    if (dev.index < 0)
        dev.index = self->current_index[dev.kind];
    if (dev.index >= count_of(dev.kind))
        return bad_index(self, site, what, dev);
    *out_dev = dev;
    return true;
}

bool core_dev_resolve_there(tern_thread *self, tern_site_t site, const char *what, tern_dev_t dev,
                            tern_dev_t *out_dev)
{
    const tern_dev_t given = dev.kind == TERN_KIND_NONE ? self->default_device : dev;
    const tern_backend *b = core_backend_of(given.kind);
    if (b == NULL || core_cuda_left(given.kind))
        return core_dev_resolve(self, site, what, dev, out_dev);
    const int index = given.index < 0 ? self->current_index[given.kind] : given.index;
    if (index >= b->device_count || given.index < NO_INDEX)
        return core_dev_resolve(self, site, what, dev, out_dev);
    *out_dev = TERN_DEV_(given.kind, index);
    return true;
}

tern_status_t tern_dev_synchronize_at(tern_site_t site, tern_dev_t dev)
{
    tern_thread *self = core_self();
    tern_dev_t real;
    if (!core_dev_resolve_there(self, site, "synchronize", dev, &real))
        return (tern_status_t)self->error_code;
    const tern_backend *b = core_backend_of(real.kind);
    if (b == NULL || b->stream == NULL || b->stream->synchronize == NULL)
        return TERN_OK;
    const tern_status_t code = b->stream->synchronize(b->context, real.index);
    core_transfer_note_sync(core_site(self, site));
    return code == TERN_OK ? TERN_OK : core_backend_failed(self, site, code, "synchronize");
}

tern_status_t tern_dev_set_at(tern_site_t site, tern_dev_t dev)
{
    tern_thread *self = core_self();
    static const char what[] = "tern_dev_set";
    tern_dev_t real;
    if (dev.kind == TERN_KIND_NONE || (dev.kind > TERN_KIND_CPU && dev.index < 0))
        return core_error(self, site, TERN_ERR_DEVICE, what, "an explicit device index is needed");
    if (!core_dev_resolve(self, site, what, dev, &real))
        return (tern_status_t)self->error_code;
    if (dev.kind != TERN_KIND_CPU)
        self->current_index[dev.kind] = dev.index;
    return TERN_OK;
}

tern_dev_t tern_dev_current(int kind)
{
    if (kind <= TERN_KIND_CPU || kind >= TERN_KINDS)
        return TERN_CPU;
    return TERN_DEV_(kind, core_self()->current_index[kind]);
}

tern_status_t tern_set_default_device_at(tern_site_t site, tern_dev_t dev)
{
    tern_thread *self = core_self();
    tern_dev_t real;
    if (dev.kind == TERN_KIND_NONE)
        return TERN_OK;
    if (!core_dev_resolve(self, site, "default device", dev, &real))
        return (tern_status_t)self->error_code;
    self->default_device = TERN_DEV_(real.kind, dev.index < 0 ? -1 : real.index); /* D069 */
    return TERN_OK;
}

tern_dev_t tern_default_device(void)
{
    const tern_dev_t dev = core_self()->default_device;
    return dev.index < 0 ? tern_dev_current(dev.kind) : dev;
}

tern_status_t tern_set_default_dtype_at(tern_site_t site, tern_dtype_t dtype)
{
    if (!tern_dtype_is_float(dtype))
        return core_error(core_self(), site, TERN_ERR_DTYPE, "default dtype",
                          "%s is no float: only f16, bf16, f32 and f64 can be the default",
                          tern_dtype_name(dtype));
    core_self()->default_dtype = (int32_t)dtype;
    return TERN_OK;
}

tern_dtype_t tern_default_dtype(void)
{
    return (tern_dtype_t)core_self()->default_dtype;
}
