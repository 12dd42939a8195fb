/* Texts: bytes, their vocabulary, windows of them. */
#include "data/text.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "data/bytes.h"
#include "data/fail.h"
#include "tern/data.h"

enum { BYTES = 256, SENTENCE_BYTES = 512 };

struct tern_text {
    _Atomic int owners; /* who made it, until tern_text_free, and every dataset */
    int64_t count;
    int symbols;
    int16_t symbol_of[BYTES]; /* -1: does not occur */
    char byte_of[BYTES];
    uint8_t *codes; /* numbers of the bytes of the text */
};

/* ---- life ------------------------------------------------------------------------------------- */

static void release_text(void *given)
{
    tern_text *text = given;
    if (atomic_fetch_sub(&text->owners, 1) == 1) {
        free(text->codes);
        free(text);
    }
}

void tern_text_free(tern_text *text)
{
    if (text) {
        tern_at_finish_cancel(text);
        release_text(text);
    }
}

static void number_bytes(tern_text *text)
{
    bool occurs[BYTES] = { false };
    for (int64_t i = 0; i < text->count; i++) {
        occurs[text->codes[i]] = true;
    }
    for (int byte = 0; byte < BYTES; byte++) {
        text->symbol_of[byte] = (int16_t)(occurs[byte] ? text->symbols : -1);
        if (occurs[byte]) {
            text->byte_of[text->symbols++] = (char)byte;
        }
    }
    for (int64_t i = 0; i < text->count; i++) {
        text->codes[i] = (uint8_t)text->symbol_of[text->codes[i]];
    }
}

/* Takes `bytes`, from malloc, over, also on failure. */
static tern_text *make_text(uint8_t *bytes, int64_t count, const char *what)
{
    tern_text *text = calloc(1, sizeof *text);
    if (text && bytes) {
        text->codes = bytes;
        text->count = count;
        atomic_init(&text->owners, 1);
        number_bytes(text);
        if (tern_at_finish(release_text, text)) {
            return text;
        }
    }
    DATA_FAIL(TERN_ERR_OOM, what, "no memory for a text of %lld bytes", (long long)count);
    free(bytes);
    free(text);
    return NULL;
}

/* ---- making ----------------------------------------------------------------------------------- */

static uint8_t *unpack(const data_file *file, size_t *out_count)
{
    data_stream stream;
    data_stream_open(&stream, file->bytes, file->count);
    size_t room = 0, count = 0;
    uint8_t *bytes = NULL;
    bool is_whole = false;
    for (;;) {
        if (count == room) {
            room = room > 0 ? 2 * room : file->count + 1;
            uint8_t *more = realloc(bytes, room);
            if (!more) {
                break;
            }
            bytes = more;
        }
        const size_t got = data_stream_read(&stream, bytes + count, room - count);
        count += got;
        if (got == 0 || stream.problem) {
            is_whole = !stream.problem;
            break;
        }
    }
    if (!is_whole) {
        DATA_FAIL(stream.problem ? TERN_ERR_FORMAT : TERN_ERR_OOM, "text_read", "'%s': %s",
                  file->path, stream.problem ? stream.problem : "no memory for its content");
        free(bytes);
        bytes = NULL;
    } else if (count == 0) {
        DATA_FAIL(TERN_ERR_FORMAT, "text_read", "'%s' is empty", file->path);
        free(bytes);
        bytes = NULL;
    }
    data_stream_close(&stream);
    *out_count = count;
    return bytes;
}

tern_text *tern_text_read_at(tern_site_t site, const char *path)
{
    static const char what[] = "text_read";
    if (tern_failed()) {
        return NULL;
    }
    if (!path) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "path is NULL");
        return NULL;
    }
    tern_site_t previous = tern_site_begin(site);
    data_file file;
    tern_text *text = NULL;
    if (data_file_read(&file, what, path)) {
        size_t count = 0;
        uint8_t *bytes = unpack(&file, &count);
        text = bytes ? make_text(bytes, (int64_t)count, what) : NULL;
        data_file_free(&file);
    }
    tern_site_end(previous);
    return text;
}

tern_text *tern_text_from_bytes_at(tern_site_t site, const char *bytes, int64_t count)
{
    static const char what[] = "text_from_bytes";
    if (tern_failed()) {
        return NULL;
    }
    if (!bytes || count < 1) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "%s",
                     bytes ? "count is not 1 or more" : "bytes is NULL");
        return NULL;
    }
    tern_site_t previous = tern_site_begin(site);
    uint8_t *copy = malloc((size_t)count);
    if (copy) {
        memcpy(copy, bytes, (size_t)count);
    }
    tern_text *text = make_text(copy, count, what);
    tern_site_end(previous);
    return text;
}

tern_text *tern_text_drawn_at(tern_site_t site, int64_t count, uint64_t seed)
{
    static const char what[] = "text_drawn";
    if (tern_failed()) {
        return NULL;
    }
    if (count < 1 || count > INT64_MAX - SENTENCE_BYTES) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "count is %lld, not 1 or more",
                     (long long)count);
        return NULL;
    }
    tern_site_t previous = tern_site_begin(site);
    char *bytes = malloc((size_t)count + SENTENCE_BYTES);
    int64_t used = 0;
    for (uint64_t i = 0; bytes && used < count; i++) {
        used += data_tale_sentence(seed, i, bytes + used, SENTENCE_BYTES);
    }
    tern_text *text = make_text((uint8_t *)bytes, bytes ? used : count, what);
    tern_site_end(previous);
    return text;
}

/* ---- looking ---------------------------------------------------------------------------------- */

int64_t tern_text_count(const tern_text *text)
{
    return text ? text->count : 0;
}

int64_t tern_text_symbols(const tern_text *text)
{
    return text ? text->symbols : 0;
}

char tern_text_byte(const tern_text *text, int64_t symbol)
{
    return text && symbol >= 0 && symbol < text->symbols ? text->byte_of[symbol] : '?';
}

int64_t tern_text_symbol(const tern_text *text, char byte)
{
    return text ? text->symbol_of[(unsigned char)byte] : -1;
}

/* ---- windows ---------------------------------------------------------------------------------- */

typedef struct windows {
    tern_text *text;
    int64_t first, length, stride;
} windows;

static bool fetch_window(void *user, int64_t index, void *x, void *y)
{
    const windows *w = user;
    const uint8_t *codes = w->text->codes + w->first + index * w->stride;
    int64_t *input = x;
    int64_t *target = y;
    for (int64_t i = 0; i < w->length; i++) {
        input[i] = codes[i];
        target[i] = codes[i + 1];
    }
    return true;
}

static void release_windows(void *user)
{
    windows *w = user;
    release_text(w->text);
    free(w);
}

static bool check_windows(const tern_windows_args *args, const char *what)
{
    if (tern_failed()) {
        return false;
    }
    if (!args->text) {
        DATA_FAIL(TERN_ERR_ARGUMENT, what, "text is missing");
    } else if (args->length < 1 || args->stride < 0) {
        DATA_FAIL(TERN_ERR_ARGUMENT, what, "length is %lld and stride %lld, not 1 or more",
                  (long long)args->length, (long long)args->stride);
    } else if (args->split != 0 && args->split != TERN_TRAIN && args->split != TERN_TEST) {
        DATA_FAIL(TERN_ERR_ARGUMENT, what, "split is neither TERN_TRAIN nor TERN_TEST, nor 0");
    }
    return !tern_failed();
}

static tern_dataset *make_windows(const tern_windows_args *args, const char *what)
{
    const int64_t all = args->text->count;
    const int64_t border = all - all / 10;
    const int64_t first = args->split == TERN_TEST ? border : 0;
    const int64_t end = args->split == TERN_TRAIN ? border : all;
    const int64_t stride = args->stride > 0 ? args->stride : 1;
    if (end - first <= args->length) {
        DATA_FAIL(TERN_ERR_SHAPE, what,
                  "a window of %lld symbols and the one after do not fit in %lld bytes\n"
                  "  try a longer text or a shorter window",
                  (long long)args->length, (long long)(end - first));
        return NULL;
    }
    windows *w = malloc(sizeof *w);
    if (!w) {
        DATA_FAIL(TERN_ERR_OOM, what, "no memory for a dataset");
        return NULL;
    }
    *w = (windows){ args->text, first, args->length, stride };
    tern_dataset *dataset = tern_dataset_from_callback(
        (end - first - args->length - 1) / stride + 1, fetch_window, TERN_SHAPE(args->length),
        TERN_SHAPE(args->length), TERN_I64, TERN_I64, .user = w, .release = release_windows);
    if (dataset) {
        atomic_fetch_add(&args->text->owners, 1);
    } else {
        free(w);
    }
    return dataset;
}

tern_dataset *tern_text_windows_at(tern_site_t site, const tern_windows_args *given)
{
    static const char what[] = "text_windows";
    tern_site_t previous = tern_site_begin(site);
    tern_windows_args args = { .size_ = 0 };
    tern_dataset *dataset = NULL;
    if (data_take_args(what, &args, given, sizeof args) && check_windows(&args, what)) {
        dataset = make_windows(&args, what);
    }
    tern_site_end(previous);
    return dataset;
}
