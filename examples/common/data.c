/* Where the examples find their data. */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    TRAIN_DIGITS = 60000,
    TEST_DIGITS = 10000,
    TRAIN_SEED = 20,
    TEST_SEED = 30,
    TALE_BYTES = 1000000
};
#define TEXT_NAME "tinyshakespeare.txt"

static bool is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static bool has_file(const char *folder, const char *name, const char *ending)
{
    char path[2 * EXAMPLE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);
    return is_file(path);
}

static bool has_mnist(const char *folder)
{
    const char *names[] = { "train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                            "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte" };
    for (int i = 0; i < 4; i++) {
        if (!has_file(folder, names[i], "") && !has_file(folder, names[i], ".gz")) {
            return false;
        }
    }
    return true;
}

/* Tries "<value of variable><below>/<name>"; without the variable there is nothing to try. */
static bool is_at(example *run, const char *root, const char *below, const char *name)
{
    if (!root || root[0] == '\0') {
        return false;
    }
    int length = snprintf(run->found, sizeof run->found, "%s%s/%s", root, below, name);
    return length > 0 && length < EXAMPLE_PATH_BYTES &&
           (run->kind == EXAMPLE_TEXT ? is_file(run->found) : has_mnist(run->found));
}

/* Leaves the path in run->data. */
static bool is_found(example *run, const char *name)
{
    const bool is_there = is_at(run, "data", "", name) ||
                          is_at(run, getenv("TERN_DATA"), "", name) ||
                          is_at(run, getenv("XDG_CACHE_HOME"), "/tern", name) ||
                          is_at(run, getenv("HOME"), "/.cache/tern", name);
    run->data = is_there ? run->found : NULL;
    return is_there;
}

static void find_data(example *run)
{
    if (is_found(run, "mnist")) {
        return;
    }
    run->data = "digits";
    fprintf(stderr,
            "%s: no MNIST in data/mnist, $TERN_DATA/mnist or ~/.cache/tern/mnist: using drawn "
            "digits\n  try --data DIR; ./run demo --fetch gets the files\n",
            run->program);
}

static void say_data(const example *run)
{
    if (run->quiet || tern_failed()) {
        return;
    }
    if (strcmp(run->data, "digits") == 0) {
        puts("data: the built-in drawn digits");
    } else {
        printf("data: MNIST in %s\n", run->data);
    }
}

tern_dataset *example_data(example *run, tern_split_t split)
{
    if (!run->data) {
        find_data(run);
    }
    if (split == TERN_TRAIN) {
        say_data(run);
    }
    if (strcmp(run->data, "digits") == 0) {
        return split == TERN_TRAIN ? tern_digits(TRAIN_DIGITS, TRAIN_SEED)
                                   : tern_digits(TEST_DIGITS, TEST_SEED);
    }
    return tern_mnist(run->data, split);
}

/* ---- text ------------------------------------------------------------------------------------- */

tern_text *example_text(example *run)
{
    if (!run->data && !is_found(run, TEXT_NAME)) {
        run->data = "tales";
        fprintf(stderr,
                "%s: no " TEXT_NAME " in data, $TERN_DATA or ~/.cache/tern: using made-up tales\n"
                "  try --data FILE with a text of your own\n",
                run->program);
    }
    const bool is_drawn = strcmp(run->data, "tales") == 0;
    if (!run->quiet && !tern_failed()) {
        printf("data: %s\n", is_drawn ? "the built-in made-up tales" : run->data);
    }
    return is_drawn ? tern_text_drawn(TALE_BYTES, TRAIN_SEED) : tern_text_read(run->data);
}
