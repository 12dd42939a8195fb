/* The example programs as processes, in the test's folder (files.h), where there are data for them. */
#ifndef TESTS_SUPPORT_EXAMPLES_H
#define TESTS_SUPPORT_EXAMPLES_H

#include <tern/io.h>

enum { EXAMPLE_TEXT_BYTES = 1 << 16 };

/* What the last program wrote to stdout and stderr. */
extern char example_out[EXAMPLE_TEXT_BYTES], example_err[EXAMPLE_TEXT_BYTES];

/* Runs "<prefix> <examples>/<program> <options>"; the exit status. Skips the test where the examples were
 * not built. */
int example_run(const char *prefix, const char *program, const char *options);
/* The same without a prefix; fails the test when the status is another than `wanted`. */
void example_expect(int wanted, const char *program, const char *options);
/* Fails the test when these words are not in the text. */
void example_says(const char *text, const char *words);
/* A file of the folder. */
void example_read(const char *name, char text[EXAMPLE_TEXT_BYTES]);
/* Makes one of so many lines; reads one of --save. */
void example_put(const char *name, const char *line, int count);
tern_state *example_load(const char *name);
/* A group's setup: 600 images and 100 to test, whose class is a bright row; rhyme.txt; files as
 * CIFAR-10's. */
int example_make_data(void **state);

#endif
