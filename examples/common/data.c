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
    TRAIN_PICTURES = 20000,
    TEST_PICTURES = 2000,
    TALE_BYTES = 1000000
};
#define TEXT_NAME "tinyshakespeare.txt"

static bool is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

/* As tern_mnist finds them: each as such or packed, those to train on first. */
static const char *const mnist_files[] = {
    "train-images-idx3-ubyte",    "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte",
    "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte",     "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte",     "t10k-labels-idx1-ubyte.gz",  NULL
};
enum { MNIST_FILES = sizeof mnist_files / sizeof *mnist_files - 1 };

/* As tern_cifar10 finds them. */
#define CIFAR_BELOW "cifar-10-batches-bin/"
#define CIFAR_TRAIN "data_batch_1.bin"
#define CIFAR_TEST "test_batch.bin"
static const char *const cifar_files[] = { CIFAR_TRAIN,
                                           "data_batch_2.bin",
                                           "data_batch_3.bin",
                                           "data_batch_4.bin",
                                           "data_batch_5.bin",
                                           CIFAR_TEST,
                                           CIFAR_BELOW CIFAR_TRAIN,
                                           CIFAR_BELOW "data_batch_2.bin",
                                           CIFAR_BELOW "data_batch_3.bin",
                                           CIFAR_BELOW "data_batch_4.bin",
                                           CIFAR_BELOW "data_batch_5.bin",
                                           CIFAR_BELOW CIFAR_TEST,
                                           NULL };

const char *const *example_data_files(example_kind kind)
{
    static const char *const none[] = { NULL };
    return kind == EXAMPLE_TEXT ? none : kind == EXAMPLE_PICTURES ? cifar_files : mnist_files;
}

static bool has_file(const char *folder, const char *name)
{
    char path[2 * EXAMPLE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return is_file(path);
}

/* --show shows test images, whether they are counted or not. */
static bool needs_test(const example *run)
{
    return !run->no_test || run->show > 0;
}

static bool has_mnist(const char *folder, bool with_test)
{
    for (int i = 0; i < (with_test ? MNIST_FILES : MNIST_FILES / 2); i += 2) {
        if (!has_file(folder, mnist_files[i]) && !has_file(folder, mnist_files[i + 1])) {
            return false;
        }
    }
    return true;
}

static bool has_cifar(const char *folder, bool with_test)
{
    return with_test ? has_file(folder, CIFAR_TEST) || has_file(folder, CIFAR_BELOW CIFAR_TEST)
                     : has_file(folder, CIFAR_TRAIN) || has_file(folder, CIFAR_BELOW CIFAR_TRAIN);
}

static bool has_data(const example *run)
{
    switch (run->kind) {
    case EXAMPLE_TEXT:
        return is_file(run->found);
    case EXAMPLE_PICTURES:
        return has_cifar(run->found, needs_test(run));
    default:
        return has_mnist(run->found, needs_test(run));
    }
}

/* Tries "<value of variable><below>/<name>"; without the variable there is nothing to try. */
static bool is_at(example *run, const char *root, const char *below, const char *name)
{
    if (!root || root[0] == '\0') {
        return false;
    }
    int length = snprintf(run->found, sizeof run->found, "%s%s/%s", root, below, name);
    return length > 0 && length < EXAMPLE_PATH_BYTES && has_data(run);
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

/* A set of images: where it is kept, and what is drawn where it is not. */
typedef struct image_set {
    const char *name, *folder, *drawn, *advice;
} image_set;

static image_set set_of(const example *run)
{
    return run->kind == EXAMPLE_PICTURES
               ? (image_set){ "CIFAR-10", "cifar10", "pictures", " with its binary version" }
               : (image_set){ "MNIST", "mnist", "digits", "; ./run demo --fetch gets the files" };
}

static void find_data(example *run)
{
    const image_set set = set_of(run);
    if (is_found(run, set.folder)) {
        return;
    }
    run->data = set.drawn;
    if (tern_failed()) { /* what went wrong before is all that is to be said */
        return;
    }
    fprintf(stderr,
            "%s: no complete %s in data/%s, $TERN_DATA/%s or ~/.cache/tern/%s: using drawn %s\n"
            "  try --data DIR%s\n",
            run->program, set.name, set.folder, set.folder, set.folder, set.drawn, set.advice);
}

/* A stored run, or where data are usually kept, may have named what no option did. */
static void check_found(const example *run, bool is_drawn)
{
    if (!is_drawn && !tern_failed()) {
        example_check_targets(run);
    }
}

static void say_data(const example *run)
{
    const image_set set = set_of(run);
    if (run->quiet || tern_failed()) {
        return;
    }
    if (strcmp(run->data, set.drawn) == 0) {
        printf("data: the built-in drawn %s\n", set.drawn);
    } else {
        printf("data: %s in %s\n", set.name, run->data);
    }
}

/* The folder of a stored run is as it was named where that ran. */
static void say_if_moved(const example *run)
{
    if (run->data_stored && tern_failed()) {
        fprintf(stderr,
                "%s: the run in '%s' had its data in '%s': --data %s says where that is now\n",
                run->program, run->load, run->data, run->kind == EXAMPLE_TEXT ? "FILE" : "DIR");
    }
}

/* The networks are made for one size; the first layer that others do not fit would name no file. */
static void check_mnist_size(const example *run, const tern_dataset *images)
{
    const tern_shape_t shape = tern_dataset_shape(images);
    const long long height = shape.ndim == 3 ? shape.dims[1] : 0,
                    width = shape.ndim == 3 ? shape.dims[2] : 0;
    if (height != 28 || width != 28) {
        tern_fail(TERN_ERR_SHAPE, "data",
                  "the images in '%s' have %lld x %lld pixels, and the network takes 28 x 28\n"
                  "  try images of that size, or centre these in a border of zeros",
                  run->data, height, width);
    }
}

static tern_dataset *read_images(const example *run, tern_split_t split)
{
    if (tern_failed()) {
        return NULL;
    }
    tern_dataset *images = run->kind == EXAMPLE_PICTURES ? tern_cifar10(run->data, split)
                                                         : tern_mnist(run->data, split);
    say_if_moved(run);
    if (!images || (split == TERN_TEST && run->no_test)) {
        return images;
    }
    if (tern_dataset_count(images) == 0) {
        tern_fail(TERN_ERR_ARGUMENT, "data",
                  split == TERN_TEST ? "'%s' holds nothing to test on; --no-test does without"
                                     : "'%s' holds nothing to train on",
                  run->data);
    } else if (run->kind != EXAMPLE_PICTURES) {
        check_mnist_size(run, images);
    }
    return images;
}

tern_dataset *example_data(example *run, tern_split_t split)
{
    const bool trains = split == TERN_TRAIN, has_colour = run->kind == EXAMPLE_PICTURES;
    const uint64_t seed = trains ? TRAIN_SEED : TEST_SEED;
    if (!run->data) {
        find_data(run);
    }
    const bool is_drawn = strcmp(run->data, set_of(run).drawn) == 0;
    if (trains) {
        check_found(run, is_drawn);
        say_data(run);
    }
    if (!trains && !needs_test(run)) {
        return NULL;
    }
    if (!is_drawn) {
        return read_images(run, split);
    }
    return has_colour ? example_pictures(trains ? TRAIN_PICTURES : TEST_PICTURES, seed)
                      : tern_digits(trains ? TRAIN_DIGITS : TEST_DIGITS, seed);
}

/* ---- text ------------------------------------------------------------------------------------- */

/* The vocabulary is the text's; what a prompt has besides is read as something else. */
static void say_unknown(const example *run, const tern_text *text)
{
    const char *first = NULL;
    for (const char *c = run->prompt; c && *c && !first; c++) {
        first = tern_text_symbol(text, *c) < 0 ? c : NULL;
    }
    if (first && !tern_failed()) {
        fprintf(stderr,
                "%s: the text has none of some characters of the prompt, first in '%s': its first "
                "symbol stands for them\n",
                run->program, first);
    }
}

tern_text *example_text(example *run)
{
    if (!run->data && !is_found(run, TEXT_NAME)) {
        run->data = "tales";
        if (!tern_failed()) {
            fprintf(stderr,
                    "%s: no " TEXT_NAME
                    " in data, $TERN_DATA or ~/.cache/tern: using made-up tales\n"
                    "  try --data FILE with a text of your own\n",
                    run->program);
        }
    }
    const bool is_drawn = strcmp(run->data, "tales") == 0;
    check_found(run, is_drawn);
    if (!run->quiet && !tern_failed()) {
        printf("data: %s\n", is_drawn ? "the built-in made-up tales" : run->data);
    }
    const bool was_well = !tern_failed();
    tern_text *text =
        is_drawn ? tern_text_drawn(TALE_BYTES, TRAIN_SEED) : tern_text_read(run->data);
    if (was_well) {
        say_if_moved(run);
    }
    example_know_text(run, text);
    say_unknown(run, text);
    return text;
}

tern_dataset *example_held_out(const example *run, tern_text *text, int64_t length)
{
    const int64_t held_out = tern_text_count(text) / 10;
    if (run->no_test) {
        return NULL;
    }
    if (held_out <= length && !tern_failed()) {
        tern_fail(TERN_ERR_ARGUMENT, "data",
                  "'%s' holds too little to test on: %lld characters in its last tenth, of which a "
                  "window takes %lld; --no-test does without",
                  run->data, (long long)held_out, (long long)length + 1);
    }
    return tern_text_windows(text, length, .stride = length, .split = TERN_TEST);
}
