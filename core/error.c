/* The sticky error of a thread, sites and module paths. */
#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/device_memory.h"
#include "core/log.h"

const char *tern_status_name(tern_status_t status)
{
    static const char *const names[] = { "ok",     "argument", "shape",         "dtype",
                                         "device", "index",    "out-of-memory", "gradient",
                                         "io",     "format",   "unsupported",   "state",
                                         "backend" };
    const size_t i = (size_t)status;
    return i < sizeof names / sizeof *names ? names[i] : "?";
}

bool tern_failed(void)
{
    return core_self()->error_code != TERN_OK;
}
tern_status_t tern_error_code(void)
{
    return (tern_status_t)core_self()->error_code;
}

const char *tern_error_text(void)
{
    const tern_thread *self = core_self();
    return self->error_code == TERN_OK ? "" : self->error_text;
}

tern_site_t tern_error_site(void)
{
    const tern_thread *self = core_self();
    return self->error_code == TERN_OK ? NULL : self->error_site;
}

void tern_error_clear(void)
{
    tern_thread *self = core_self();
    self->error_code = TERN_OK;
    self->error_text[0] = '\0';
    self->error_site = NULL;
}

void core_text_add(core_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    core_text_addv(text, format, arguments);
    va_end(arguments);
}

void core_text_addv(core_text *text, const char *format, va_list arguments)
{
    if (text->length + 1 >= text->bytes)
        return;
    const size_t room = text->bytes - text->length;
    const int wrote = vsnprintf(text->buffer + text->length, room, format, arguments);
    if (wrote > 0)
        text->length += (size_t)wrote < room ? (size_t)wrote : room - 1;
}

void core_text_add_bytes(core_text *text, double bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    int unit = 0;
    for (; bytes >= 1000 && unit < 4; unit++)
        bytes /= 1024;
    core_text_add(text, "%.*f %s", unit == 0 || bytes >= 100 ? 0 : 1, bytes, units[unit]);
}

/* "train.c:42: linear (in blocks.2.up): " */
static void add_head(core_text *text, const tern_thread *self, tern_site_t site, const char *what)
{
    if (site != NULL)
        core_text_add(text, "%s: ", site);
    if (what != NULL)
        core_text_add(text, "%s", what);
    const int depth = self->path_depth < CORE_PATH_DEPTH ? self->path_depth : CORE_PATH_DEPTH;
    for (int i = 0; i < depth; i++)
        core_text_add(text, "%s%s", i == 0 ? " (in " : ".", self->path[i]);
    if (depth > 0)
        core_text_add(text, ")");
    if (what != NULL || depth > 0)
        core_text_add(text, ": ");
}

/* The same inside a function made of others, which comes first. */
static void add_heads(core_text *text, const tern_thread *self, tern_site_t site, const char *what)
{
    const char *calling = self->calling != NULL ? self->calling : what;
    add_head(text, self, site, calling);
    if (calling != NULL && what != NULL && strcmp(calling, what) != 0)
        core_text_add(text, "in %s: ", what);
}

core_text core_error_begin(tern_thread *self, tern_site_t site, tern_status_t code,
                           const char *what)
{
    self->error_code = code == TERN_OK ? TERN_ERR_STATE : (int32_t)code;
    self->error_site = site;
    core_text text = { self->error_text, sizeof self->error_text - 2, 0 };
    self->error_text[0] = '\0';
    add_heads(&text, self, site, what);
    return text;
}

/* Once per error; what a device's backend reports comes with the state of the allocators. (That memory
 * is used up says so itself.) */
static void write_log(tern_thread *self)
{
    char with_memory[CORE_ERROR_BYTES + 1024];
    core_text text = { with_memory, sizeof with_memory, 0 };
    const int32_t code = self->error_code;
    const tern_site_t site = self->error_site;
    core_text_add(&text, "%s", self->error_text);
    const size_t length = text.length;
    if (code == TERN_ERR_BACKEND)
        core_device_memory_text(&text);
    core_log_text(TERN_LOG_ERROR, NULL, with_memory);
    if (self->error_code != TERN_OK)
        return;
    /* a callback cleared it, and the call that failed has not ended */
    self->error_code = code;
    self->error_site = site;
    memcpy(self->error_text, with_memory, length);
    self->error_text[length] = '\0';
}

static void end_line(core_text *text)
{
    if (text->length == 0 || text->buffer[text->length - 1] != '\n') {
        text->buffer[text->length++] = '\n';
        text->buffer[text->length] = '\0';
    }
}

void core_error_end(tern_thread *self, core_text *text)
{
    end_line(text);
    if (self->backward_site != NULL && self->backward_site != self->error_site) {
        core_text_add(text, "  in the backward that %s began", self->backward_site);
        end_line(text);
    }
    if (core_log_wants(TERN_LOG_ERROR))
        write_log(self);
}

const char *core_why_null(tern_thread *self, char out_text[CORE_WHY_NULL_BYTES])
{
    out_text[0] = '\0';
    if (self->not_leaf[0] != '\0')
        (void)snprintf(out_text, CORE_WHY_NULL_BYTES,
                       ": tern_grad_of has no gradient of the tensor that a recorded %s; only "
                       "leaves keep theirs\n"
                       "  try to make the tensor where it shall be, with .device and "
                       ".requires_grad, or tern_grad, which gives gradients of any tensor",
                       self->not_leaf);
    self->not_leaf[0] = '\0';
    return out_text;
}

core_text core_error_more(tern_thread *self)
{
    core_text text = { self->error_text, sizeof self->error_text - 2, strlen(self->error_text) };
    if (text.length > 0 && text.buffer[text.length - 1] == '\n')
        text.buffer[--text.length] = '\0';
    return text;
}

tern_status_t core_error_pair(tern_thread *self, tern_site_t site, tern_status_t code,
                              const char *what, const char *problem, const char *first_name,
                              const tern_tensor *first, const char *second_name,
                              const tern_tensor *second)
{
    if (self->error_code != TERN_OK)
        return (tern_status_t)self->error_code;
    core_text text = core_error_begin(self, core_site(self, site), code, what);
    core_text_add(&text, "%s", problem);
    core_text_add_tensor(&text, first_name, 8, first);
    core_text_add_tensor(&text, second_name, 8, second);
    core_error_end(self, &text);
    return (tern_status_t)self->error_code;
}

/* Records what no error precedes. */
static void record(tern_thread *self, tern_site_t site, tern_status_t code, const char *what,
                   const char *format, va_list arguments)
{
    if (self->error_code != TERN_OK)
        return;
    core_text text = core_error_begin(self, core_site(self, site), code, what);
    if (format != NULL)
        core_text_addv(&text, format, arguments);
    core_error_end(self, &text);
}

tern_status_t core_error(tern_thread *self, tern_site_t site, tern_status_t code, const char *what,
                         const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    record(self, site, code, what, format, arguments);
    va_end(arguments);
    return (tern_status_t)self->error_code;
}

tern_status_t tern_fail_at(tern_site_t site, tern_status_t code, const char *what,
                           const char *format, ...)
{
    tern_thread *self = core_self();
    va_list arguments;
    va_start(arguments, format);
    record(self, site, code, what, format, arguments);
    va_end(arguments);
    return (tern_status_t)self->error_code;
}

tern_site_t tern_site_begin(tern_site_t site)
{
    tern_thread *self = core_self();
    const tern_site_t previous = self->site;
    if (previous == NULL)
        self->site = site;
    return previous;
}

void tern_site_end(tern_site_t previous)
{
    core_self()->site = previous;
}
const char *tern_calling_begin(const char *name)
{
    return core_calling_begin(core_self(), name);
}

void tern_calling_end(const char *previous)
{
    core_calling_end(core_self(), previous);
}

tern_site_t tern_site_current(tern_site_t fallback)
{
    return core_site(core_self(), fallback);
}

void tern_path_push(const char *name)
{
    tern_thread *self = core_self();
    if (self->path_depth < CORE_PATH_DEPTH)
        self->path[self->path_depth] = name;
    self->path_depth++;
}

void tern_path_pop(void)
{
    tern_thread *self = core_self();
    if (self->path_depth > 0)
        self->path_depth--;
}
