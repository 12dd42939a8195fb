/* See text.h. */
#include "tools/tern/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(text *t, int64_t more)
{
    if (t->failed)
        return false;
    if (t->size + more <= t->capacity)
        return true;
    int64_t capacity = t->capacity == 0 ? 1 << 16 : t->capacity;
    while (capacity < t->size + more)
        capacity *= 2;
    char *bytes = realloc(t->bytes, (size_t)capacity);
    t->failed = bytes == NULL;
    if (t->failed)
        return false;
    t->bytes = bytes;
    t->capacity = capacity;
    return true;
}

void text_bytes(text *t, const char *bytes, int64_t count)
{
    if (!reserve(t, count))
        return;
    memcpy(t->bytes + t->size, bytes, (size_t)count);
    t->size += count;
}

void text_add(text *t, const char *format, ...)
{
    char words[1024];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    text_bytes(t, words, length < (int)sizeof words ? length : (int)sizeof words - 1);
}

void text_html(text *t, const char *words)
{
    for (; *words != '\0'; words++) {
        const char *replaced = NULL;
        switch (*words) {
        case '&':
            replaced = "&amp;";
            break;
        case '<':
            replaced = "&lt;";
            break;
        case '>':
            replaced = "&gt;";
            break;
        case '"':
            replaced = "&quot;";
            break;
        case '\'':
            replaced = "&#39;";
            break;
        default:
            break;
        }
        if (replaced != NULL)
            text_bytes(t, replaced, (int64_t)strlen(replaced));
        else
            text_bytes(t, words, 1);
    }
}

void text_json(text *t, const char *words)
{
    text_bytes(t, "\"", 1);
    for (; *words != '\0'; words++) {
        const unsigned char c = (unsigned char)*words;
        if (c < ' ' || c == '"' || c == '\\' || c == '<' || c == 0x7f)
            text_add(t, "\\u%04x", c);
        else
            text_bytes(t, words, 1);
    }
    text_bytes(t, "\"", 1);
}

void text_free(text *t)
{
    free(t->bytes);
    *t = (text){ 0 };
}

const char *text_size(int64_t bytes, char buffer[TEXT_SIZE_BYTES])
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1000 && unit < 5) { /* "0.98 MiB" rather than "1003 KiB" */
        value /= 1024;
        unit++;
    }
    const int digits = unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
    snprintf(buffer, TEXT_SIZE_BYTES, "%.*f %s", digits, value, units[unit]);
    return buffer;
}
