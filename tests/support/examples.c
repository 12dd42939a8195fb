/* See examples.h. */
#include "tests/support/examples.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tests/support/check.h"
#include "tests/support/files.h"

enum { TRAIN = 600, TEST = 100, SIDE = 28, IMAGE = SIDE * SIDE };

char example_out[EXAMPLE_TEXT_BYTES], example_err[EXAMPLE_TEXT_BYTES];

void example_read(const char *name, char text[EXAMPLE_TEXT_BYTES])
{
    char path[2 * FILE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", file_folder(), name);
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    text[fread(text, 1, EXAMPLE_TEXT_BYTES - 1, stream)] = '\0';
    fclose(stream);
}

void example_put(const char *name, const char *line, int count)
{
    file_bytes text = { NULL, 0 };
    for (int i = 0; i < count; i++)
        file_bytes_add(&text, line, strlen(line));
    (void)file_write(name, text);
}

tern_state *example_load(const char *name)
{
    char path[2 * FILE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", file_folder(), name);
    tern_state *state = tern_state_load(path);
    assert_non_null(state);
    return state;
}

/* Runs "<prefix> <examples>/<program> <options>" in the test's folder; returns the exit status. */
int example_run(const char *prefix, const char *program, const char *options)
{
    const char *examples = getenv("TERN_TEST_EXAMPLES");
    char command[8 * FILE_PATH_BYTES];
    if (!examples) {
        print_message("skipped: TERN_TEST_EXAMPLES does not say where the examples are\n");
        skip();
    }
    snprintf(command, sizeof command, "cd '%s' && %s '%s/%s' %s >out.txt 2>err.txt", file_folder(),
             prefix, examples, program, options);
    const int status = system(command);
    example_read("out.txt", example_out);
    example_read("err.txt", example_err);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void example_expect(int wanted, const char *program, const char *options)
{
    const int status = example_run("", program, options);
    if (status != wanted)
        fail_msg("%s %s ended with %d, not %d:\n%s%s", program, options, status, wanted,
                 example_out, example_err);
}

void example_says(const char *text, const char *words)
{
    if (!strstr(text, words))
        fail_msg("'%s' is not in:\n%s", words, text);
}

/* Images whose class is a bright row: small enough for a test, and a model learns them at once. */
static void write_images(const char *prefix, uint32_t count)
{
    char name[64];
    uint8_t *pixels = calloc(count, IMAGE), *labels = malloc(count);
    assert_true(pixels && labels);
    for (uint32_t i = 0; i < count; i++) {
        labels[i] = (uint8_t)(i * 7 % 10);
        memset(pixels + i * IMAGE + (2 * labels[i] + 4) * SIDE, 100 + (int)(i % 100), 2 * SIDE);
    }
    snprintf(name, sizeof name, "%s-images-idx3-ubyte", prefix);
    file_write(name, file_idx(0x08, 3, (const uint32_t[]){ count, SIDE, SIDE }, pixels,
                              (size_t)count * IMAGE));
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte", prefix);
    file_write(name, file_idx(0x08, 1, &count, labels, count));
    free(pixels);
    free(labels);
}

/* Twenty-one windows of the training part fill a batch, one of the last tenth the test. */
static void write_text(void)
{
    char line[64], text[EXAMPLE_TEXT_BYTES];
    int used = 0;
    for (int i = 0; i < 24; i++) {
        snprintf(line, sizeof line, "%d green bottles hang on wall %d.\n", 99 - i, i * i % 7);
        used += snprintf(text + used, sizeof text - (size_t)used, "%s", line);
    }
    char path[2 * FILE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/rhyme.txt", file_folder());
    FILE *stream = fopen(path, "wb");
    assert_non_null(stream);
    assert_int_equal(fwrite(text, 1, (size_t)used, stream), used);
    fclose(stream);
}

/* Files in colour, as CIFAR-10's: `count` records of a label and an image whose red is the label's. */
static void write_colours(const char *name, int count)
{
    enum { RECORD = 1 + 3 * 32 * 32 };
    file_bytes bytes = { NULL, 0 };
    uint8_t record[RECORD];
    for (int i = 0; i < count; i++) {
        record[0] = (uint8_t)(i % 10);
        memset(record + 1, 25 * (i % 10), 32 * 32);
        memset(record + 1 + 32 * 32, i, 2 * 32 * 32);
        file_bytes_add(&bytes, record, RECORD);
    }
    file_write(name, bytes);
}

int example_make_data(void **state)
{
    (void)state;
    write_images("train", TRAIN);
    write_images("t10k", TEST);
    write_text();
    for (int i = 1; i <= 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "data_batch_%d.bin", i);
        write_colours(name, 8);
    }
    write_colours("test_batch.bin", 10);
    return 0;
}
