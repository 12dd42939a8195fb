/* Building error texts. */
#ifndef TERN_CORE_ERROR_H
#define TERN_CORE_ERROR_H

#include <stdarg.h>

#include "core/thread.h"

/* A text that grows inside a fixed buffer and is cut at its end. */
typedef struct core_text {
    char *buffer;
    size_t bytes;
    size_t length;
} core_text;
void core_text_add(core_text *text, const char *format, ...) TERN_PRINTF(2, 3);
void core_text_addv(core_text *text, const char *format, va_list arguments);
/* "512 B", "1.2 MiB". */
void core_text_add_bytes(core_text *text, double bytes);

/* "\n    weight    f32  [4, 3]           cpu      made at train.c:3", the name in at least `width` columns. */
void core_text_add_tensor(core_text *text, const char *name_of_it, int width, const tern_tensor *t);

/* Records an error unless one is pending; returns the code that stands. */
tern_status_t core_error(tern_thread *self, tern_site_t site, tern_status_t code, const char *what,
                         const char *format, ...) TERN_PRINTF(5, 6);
/* The same in steps, for texts of several lines; only when no error is pending. */
core_text core_error_begin(tern_thread *self, tern_site_t site, tern_status_t code,
                           const char *what);
void core_error_end(tern_thread *self, core_text *text);
/* One that shows two tensors which should be alike, below `problem`. */
tern_status_t core_error_pair(tern_thread *self, tern_site_t site, tern_status_t code,
                              const char *what, const char *problem, const char *first_name,
                              const tern_tensor *first, const char *second_name,
                              const tern_tensor *second);
/* For "x is NULL": behind it ": ..." where the thread has asked for the gradient of a tensor that is no leaf and
 * got NULL, else "". Says it once. */
#define CORE_WHY_NULL_BYTES 512
const char *core_why_null(tern_thread *self, char out_text[CORE_WHY_NULL_BYTES]);
/* The pending error's text, to add lines to (its last newline is gone). */
core_text core_error_more(tern_thread *self);

/* Between begin and end, errors name the function that the program called in front of the one inside that
 * fails: "conv1d: in conv2d: ...". `begin` returns what `end` wants back. */
static inline const char *core_calling_begin(tern_thread *self, const char *name)
{
    const char *outer = self->calling;
    if (outer == NULL)
        self->calling = name;
    return outer;
}
static inline void core_calling_end(tern_thread *self, const char *outer)
{
    self->calling = outer;
}

#endif
