/* A tree of modules as text:
 *
 *   sequential(
 *     (0): linear(in=784, out=128)
 *     (1): relu()
 *   )
 *   parameters: 100480 */
#include <stdarg.h>
#include <stdio.h>

#include "nn/internal.h"

typedef struct text {
    char *buffer;
    size_t bytes, length;
} text;

static void add(text *t, const char *format, ...) TERN_PRINTF(2, 3);
static void add(text *t, const char *format, ...)
{
    if (t->length + 1 >= t->bytes)
        return;
    va_list values;
    va_start(values, format);
    const int wrote = vsnprintf(t->buffer + t->length, t->bytes - t->length, format, values);
    va_end(values);
    const size_t room = t->bytes - t->length - 1;
    if (wrote > 0)
        t->length += (size_t)wrote < room ? (size_t)wrote : room;
}

void nn_describe_more(char *buffer, size_t bytes, const char *format, ...)
{
    const size_t used = strlen(buffer);
    if (used >= bytes)
        return;
    va_list values;
    va_start(values, format);
    (void)vsnprintf(buffer + used, bytes - used, format, values);
    va_end(values);
}

static void add_module(text *t, const tern_module *m, int depth)
{
    char options[256] = "";
    if (m->describe)
        m->describe(m, options, sizeof options);
    add(t, "%s(%s", m->type, options);
    const int64_t children = m->members_->child_count;
    for (int64_t i = 0; i < children; i++) {
        add(t, "\n%*s(%s): ", 2 * depth + 2, "", m->members_->children[i].name);
        add_module(t, m->members_->children[i].module, depth + 1);
    }
    if (children > 0)
        add(t, "\n%*s", 2 * depth, "");
    add(t, ")");
}

const char *tern_module_describe(tern_module *m, char *buffer, size_t bytes)
{
    if (!buffer || bytes == 0)
        return "";
    text t = { buffer, bytes, 0 };
    buffer[0] = '\0';
    if (m) {
        add_module(&t, m, 0);
        add(&t, "\nparameters: %lld\n", (long long)tern_module_count(m));
    }
    return buffer;
}
