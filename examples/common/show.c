/* Digits as text: two by four pixels a character where braille can be shown, else one by two. */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 28, PIXELS = SIDE * SIDE, LINE_COLUMNS = 80 };

/* How images are cut into characters. */
typedef struct grid {
    int wide, high; /* pixels of a character */
    bool is_braille;
} grid;

static bool locale_has_utf8(void)
{
    const char *names[] = { "LC_ALL", "LC_CTYPE", "LANG" };
    for (int i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value && value[0] != '\0') {
            return strstr(value, "UTF-8") || strstr(value, "utf8");
        }
    }
    return false;
}

/* Unicode orders the dots of braille by columns of three, then the two of the last row. */
static void print_braille(const float *image, int x, int y)
{
    static const int bits[4][2] = { { 0, 3 }, { 1, 4 }, { 2, 5 }, { 6, 7 } };
    int dots = 0;
    for (int dy = 0; dy < 4; dy++) {
        for (int dx = 0; dx < 2; dx++) {
            dots |= (image[(y + dy) * SIDE + x + dx] > 0.4F) << bits[dy][dx];
        }
    }
    printf("\xe2%c%c", 0xa0 + (dots >> 6), 0x80 + (dots & 63));
}

static void print_shade(const float *image, int x, int y)
{
    static const char shades[] = " .:-=+*#%@";
    float ink = (image[y * SIDE + x] + image[(y + 1) * SIDE + x]) / 2;
    putchar(shades[(int)(ink * 9.0F + 0.5F)]);
}

/* Values of an image as 0 .. 1, whatever normalisation they have. */
static void stretch(float *image)
{
    float low = image[0];
    float high = image[0];
    for (int i = 0; i < PIXELS; i++) {
        low = image[i] < low ? image[i] : low;
        high = image[i] > high ? image[i] : high;
    }
    for (int i = 0; i < PIXELS; i++) {
        image[i] = high > low ? (image[i] - low) / (high - low) : 0;
    }
}

static void print_row(const grid *g, const float *images, const int64_t *labels,
                      const int64_t *answers, int64_t count)
{
    int cells = SIDE / g->wide;
    for (int y = 0; y < SIDE; y += g->high) {
        for (int64_t i = 0; i < count; i++) {
            for (int x = 0; x < SIDE; x += g->wide) {
                (g->is_braille ? print_braille : print_shade)(images + i * PIXELS, x, y);
            }
            putchar(' ');
        }
        putchar('\n');
    }
    for (int64_t i = 0; i < count; i++) {
        char text[32];
        bool is_right = answers[i] == labels[i];
        int length =
            is_right ? snprintf(text, sizeof text, "%d", (int)answers[i])
                     : snprintf(text, sizeof text, "%d, not %d", (int)answers[i], (int)labels[i]);
        int left = (cells - length) / 2 > 0 ? (cells - length) / 2 : 0;
        printf("%*s%-*s ", left, "", cells - left, text);
    }
    putchar('\n');
}

static void print_images(float *images, const int64_t *labels, const int64_t *answers,
                         int64_t count)
{
    grid g = { .is_braille = locale_has_utf8() };
    g.wide = g.is_braille ? 2 : 1;
    g.high = g.is_braille ? 4 : 2;
    int64_t per_row = LINE_COLUMNS / (SIDE / g.wide + 1);
    for (int64_t i = 0; i < count; i++) {
        stretch(images + i * PIXELS);
    }
    for (int64_t i = 0; i < count; i += per_row) {
        int64_t row = count - i < per_row ? count - i : per_row;
        print_row(&g, images + i * PIXELS, labels + i, answers + i, row);
    }
}

void example_show(tern_module *net, tern_dataset *test, tern_dev_t device, int64_t count)
{
    TERN_SCOPE;
    TERN_NO_GRAD;
    tern_batch b;
    if (count == 0) {
        return;
    }
    tern_loader *batches = tern_loader_open(test, .batch = count, .device = device);
    tern_eval(net);
    if (tern_loader_next(batches, &b) && tern_numel(b.x) == b.size * PIXELS) {
        float *images = malloc((size_t)b.size * PIXELS * sizeof *images);
        int64_t *numbers = malloc((size_t)b.size * 2 * sizeof *numbers);
        int64_t bytes = b.size * (int64_t)sizeof *numbers;
        tern_tensor *answers = tern_argmax(tern_forward(net, b.x), 1);
        if (images && numbers &&
            tern_read(b.x, TERN_F32, images, b.size * PIXELS * (int64_t)sizeof *images) ==
                TERN_OK &&
            tern_read(b.y, TERN_I64, numbers, bytes) == TERN_OK &&
            tern_read(answers, TERN_I64, numbers + b.size, bytes) == TERN_OK) {
            print_images(images, numbers, numbers + b.size, b.size);
        }
        free(images);
        free(numbers);
    }
    tern_loader_close(batches);
}
