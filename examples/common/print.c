/* What a stored run knows its data by, wherever they lie now: the place in the data is one in them, and the model's
 * rows stand for the symbols of a text. */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IMAGES_SUM "run.images_sum"

enum {
    PRINT_LENGTH = 64,
    PRINT_BATCH = 256,
    PRINT_STRIDE = 13 /* of the pixels that count: other columns in the next line */
};

static uint64_t add_symbols(uint64_t sum, tern_tensor *t)
{
    const int64_t *symbols = tern_data_as(int64_t, t);
    for (int64_t i = 0; i < tern_numel(t); i++) {
        sum = (sum ^ (uint64_t)symbols[i]) * 1099511628211u;
    }
    return sum;
}

/* Pixels are the same bits on every machine (data/gather.c). */
static uint64_t add_pixels(uint64_t sum, tern_tensor *t)
{
    const float *pixels = tern_data_as(float, t);
    for (int64_t i = 0; i < tern_numel(t); i += PRINT_STRIDE) {
        uint32_t bits;
        memcpy(&bits, &pixels[i], sizeof bits);
        sum = (sum ^ bits) * 1099511628211u;
    }
    return sum;
}

/* FNV-1a of all samples one after the other: symbols, or labels and some of the pixels. */
static int64_t sum_of(tern_dataset *all)
{
    TERN_SCOPE;
    uint64_t sum = 14695981039346656037u;
    tern_loader *batches =
        tern_loader_open(all, .batch = PRINT_BATCH, .device = TERN_CPU, .quiet = true);
    tern_batch b;
    while (tern_loader_next(batches, &b)) {
        const bool is_text = tern_dtype(b.x) == TERN_I64;
        sum = is_text ? add_symbols(sum, b.x) : add_symbols(add_pixels(sum, b.x), b.y);
    }
    tern_loader_close(batches);
    return (int64_t)(sum >> 1);
}

/* The last few characters of a text count in its length. */
static int64_t sum_of_text(tern_text *text)
{
    int64_t length = tern_text_count(text) - 1;
    length = length < PRINT_LENGTH ? length : PRINT_LENGTH;
    tern_dataset *all = tern_text_windows(text, length, .stride = length);
    const int64_t sum = sum_of(all);
    tern_dataset_free(all);
    return sum;
}

static bool has_same_symbols(const example_print *print, tern_tensor *stored)
{
    unsigned char symbol[sizeof print->symbol] = { 0 };
    const int64_t count = tern_numel(stored);
    return count == print->symbols && count <= (int64_t)sizeof symbol &&
           tern_read(stored, TERN_U8, symbol, count) == TERN_OK &&
           memcmp(symbol, print->symbol, (size_t)count) == 0;
}

/* Files of before have nothing to compare with. */
static void compare(const example *run)
{
    const example_print *print = &run->print;
    tern_tensor *symbols = tern_state_get(run->loaded, "run.symbols");
    int64_t count = 0, sum = 0;
    if (!symbols || tern_state_get_int(run->loaded, "run.text_bytes", &count) != TERN_OK ||
        tern_state_get_int(run->loaded, "run.text_sum", &sum) != TERN_OK) {
        return;
    }
    const bool has_symbols = has_same_symbols(print, symbols);
    if (tern_failed() || (has_symbols && count == print->count && sum == print->sum)) {
        return;
    }
    fprintf(
        stderr,
        "%s: '%s' is another text than that of the run in '%s': %lld characters of %lld kinds%s, "
        "and that had %lld of %lld\n",
        run->program, run->data, run->load, (long long)print->count, (long long)print->symbols,
        has_symbols ? "" : ", which the model does not know", (long long)count,
        (long long)tern_numel(symbols));
    exit(2);
}

void example_know_text(example *run, tern_text *text)
{
    example_print *print = &run->print;
    if (!text || tern_text_count(text) < 2 || (!run->save && !run->load)) {
        return;
    }
    print->count = tern_text_count(text);
    print->sum = sum_of_text(text);
    print->symbols = tern_text_symbols(text);
    for (int64_t i = 0; i < print->symbols; i++) {
        print->symbol[i] = (unsigned char)tern_text_byte(text, i);
    }
    if (run->loaded && !tern_failed()) {
        compare(run);
    }
}

void example_know_images(example *run, tern_dataset *train)
{
    int64_t stored = 0;
    if (!train || (!run->save && !run->load)) {
        return;
    }
    run->print.sum = sum_of(train);
    if (!run->loaded || !tern_state_get(run->loaded, IMAGES_SUM) ||
        tern_state_get_int(run->loaded, IMAGES_SUM, &stored) != TERN_OK ||
        stored == run->print.sum) {
        return;
    }
    fprintf(stderr, "%s: '%s' has other images or labels than the data of the run in '%s'\n",
            run->program, run->data, run->load);
    exit(2);
}

void example_store_print(const example *run, tern_state *state)
{
    const example_print *print = &run->print;
    if (run->kind != EXAMPLE_TEXT) {
        tern_state_set_int(state, IMAGES_SUM, print->sum);
        return;
    }
    tern_state_set_bytes(state, "run.symbols", print->symbol, print->symbols);
    tern_state_set_int(state, "run.text_bytes", print->count);
    tern_state_set_int(state, "run.text_sum", print->sum);
}
