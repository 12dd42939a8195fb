/* A text that grows. After the first failure to grow nothing is added, and `failed` stays set, so that
 * a long text is checked once. */
#ifndef TOOLS_TERN_TEXT_H
#define TOOLS_TERN_TEXT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct text { /* all zero: empty */
    char *bytes;      /* not ended by a 0 */
    int64_t size, capacity;
    bool failed;
} text;

void text_add(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_bytes(text *t, const char *bytes, int64_t count);
/* Escaped, for elements and attributes of HTML. */
void text_html(text *t, const char *words);
/* A JSON string with its quotes, safe inside a script element. */
void text_json(text *t, const char *words);
void text_free(text *t);

enum { TEXT_SIZE_BYTES = 24 };
/* "512 B", "1.50 MiB": three digits; returns `buffer`. */
const char *text_size(int64_t bytes, char buffer[TEXT_SIZE_BYTES]);

#endif
