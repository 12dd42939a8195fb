/* The command line of the examples. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

enum {
    IMAGES = 1 << EXAMPLE_IMAGES,
    TEXT = 1 << EXAMPLE_TEXT,
    PICTURES = 1 << EXAMPLE_PICTURES,
    ALL = IMAGES | TEXT | PICTURES
};

/* How the text of an option becomes a member of `example`. */
typedef enum option_type {
    OPTION_HELP,
    OPTION_FLAG,   /* bool: it is given */
    OPTION_TEXT,   /* as it is */
    OPTION_NUMBER, /* int64_t in least .. most */
    OPTION_RATE,   /* double above 0 */
    OPTION_DEVICE,
    OPTION_AMP,
    OPTION_TARGET, /* a file, pipe or device that the end of the run writes */
    OPTION_STORE   /* a file that it replaces */
} option_type;

/* What a kind of program takes: name, argument (NULL: none), meaning; then where it goes. */
typedef struct option_row {
    int kinds;
    const char *name, *argument, *help;
    option_type type;
    size_t member;
    int64_t least, most;
} option_row;
#define MEMBER(name) offsetof(example, name)

static const option_row options[] = {
    { IMAGES, "data", "DIR|digits", "folder with MNIST's files, or the built-in drawn digits",
      OPTION_TEXT, MEMBER(data), 0, 0 },
    { PICTURES, "data", "DIR|pictures",
      "folder with CIFAR-10's binary files, or the built-in drawn pictures", OPTION_TEXT,
      MEMBER(data), 0, 0 },
    { TEXT, "data", "FILE|tales", "a text, or the built-in made-up tales", OPTION_TEXT,
      MEMBER(data), 0, 0 },
    { ALL, "device", "NAME", "auto (default), cpu, cuda, cuda:N", OPTION_DEVICE, MEMBER(device), 0,
      0 },
    { ALL, "epochs", "N", "the plan; the learning rate falls as a cosine over it", OPTION_NUMBER,
      MEMBER(epochs), 1, EXAMPLE_EPOCHS_MAX },
    { ALL, "steps", "N", "end after N steps in total", OPTION_NUMBER, MEMBER(steps), 1,
      EXAMPLE_STEPS_MAX },
    { ALL, "batch", "N", "samples of a step", OPTION_NUMBER, MEMBER(batch), 1, EXAMPLE_BATCH_MAX },
    { ALL, "lr", "X", "learning rate at the start", OPTION_RATE, MEMBER(lr), 0, 0 },
    { ALL, "seed", "N", "of weights and order", OPTION_NUMBER, MEMBER(seed), 0, INT64_MAX },
    { ALL, "threads", "N", "of the CPU", OPTION_NUMBER, MEMBER(threads), 1, 4096 },
    { ALL, "amp", "off|bf16|fp16", "forward in half precision, where that is safe", OPTION_AMP,
      MEMBER(amp), 0, 0 },
    { ALL, "save", "FILE", "store the whole run", OPTION_STORE, MEMBER(save), 0, 0 },
    { ALL, "load", "FILE", "go on with a stored run", OPTION_TEXT, MEMBER(load), 0, 0 },
    { ALL, "json", "FILE", "write the results", OPTION_TARGET, MEMBER(json), 0, 0 },
    { ALL, "quiet", NULL, "no progress", OPTION_FLAG, MEMBER(quiet), 0, 0 },
    { IMAGES | PICTURES, "no-test", NULL, "leave out the accuracy on the test images", OPTION_FLAG,
      MEMBER(no_test), 0, 0 },
    { TEXT, "no-test", NULL, "leave out the loss on the last tenth of the text", OPTION_FLAG,
      MEMBER(no_test), 0, 0 },
    { IMAGES, "show", "N", "print N test digits with the model's answers", OPTION_NUMBER,
      MEMBER(show), 0, 1000 },
    { PICTURES, "augment", NULL, "move images by up to 4 pixels, mirror half of them", OPTION_FLAG,
      MEMBER(augment), 0, 0 },
    { TEXT, "sample", "N", "write N characters in the end", OPTION_NUMBER, MEMBER(sample), 0,
      1 << 20 },
    { TEXT, "prompt", "TEXT", "what they go on from", OPTION_TEXT, MEMBER(prompt), 0, 0 },
    { TEXT, "temperature", "X", "below 1: likelier choices, above: bolder ones; default 0.8",
      OPTION_RATE, MEMBER(temperature), 0, 0 },
    { TEXT, "top-k", "N", "choose among the N likeliest; default: all", OPTION_NUMBER,
      MEMBER(top_k), 0, 256 },
    { ALL, "help", NULL, "this list", OPTION_HELP, 0, 0, 0 },
};
enum { OPTIONS = sizeof options / sizeof *options };

static void print_usage(const example *run, FILE *stream)
{
    fprintf(stream, "usage: %s [options]\n", run->program);
    for (int i = 0; i < OPTIONS; i++) {
        if (options[i].kinds & 1 << run->kind) {
            char left[32];
            snprintf(left, sizeof left, "%s %s", options[i].name,
                     options[i].argument ? options[i].argument : "");
            fprintf(stream, "  --%-18s%s\n", left, options[i].help);
        }
    }
}

_Noreturn void example_refuse(const example *run, const char *option, const char *wanted,
                              const char *text)
{
    fprintf(stderr, "%s: --%s wants %s, not '%s'\n", run->program, option, wanted, text);
    exit(2);
}

static int64_t read_int(const example *run, const char *option, const char *text, int64_t least,
                        int64_t most)
{
    char wanted[96];
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < least || value > most) {
        snprintf(wanted, sizeof wanted, "a whole number from %lld to %lld", (long long)least,
                 (long long)most);
        example_refuse(run, option, wanted, text);
    }
    return value;
}

static double read_rate(const example *run, const char *option, const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value) || value <= 0) {
        example_refuse(run, option, "a number above 0", text);
    }
    return value;
}

bool example_is_amp(const char *text)
{
    return strcmp(text, "off") == 0 || strcmp(text, "bf16") == 0 || strcmp(text, "fp16") == 0;
}

static const char *read_amp(const example *run, const char *option, const char *text)
{
    if (!example_is_amp(text)) {
        example_refuse(run, option, "off, bf16 or fp16", text);
    }
    return text;
}

static tern_dev_t read_device(const example *run, const char *text)
{
    tern_dev_t device;
    if (strcmp(text, "auto") == 0) { /* looked for when no later option says another */
        return (tern_dev_t){ .kind = TERN_KIND_NONE };
    }
    if (tern_dev_parse(text, &device) != TERN_OK) {
        example_refuse(run, "device", "auto, cpu, cuda or cuda:N", text);
    }
    return device;
}

static void read_option(example *run, const option_row *o, const char *text)
{
    void *member = (char *)run + o->member;
    switch (o->type) {
    case OPTION_FLAG:
        *(bool *)member = true;
        break;
    case OPTION_TEXT:
        *(const char **)member = text;
        break;
    case OPTION_NUMBER:
        *(int64_t *)member = read_int(run, o->name, text, o->least, o->most);
        break;
    case OPTION_RATE:
        *(double *)member = read_rate(run, o->name, text);
        break;
    case OPTION_DEVICE:
        run->device = read_device(run, text);
        run->cpu_asked = run->device.kind == TERN_KIND_CPU;
        break;
    case OPTION_AMP:
        run->amp = read_amp(run, o->name, text);
        break;
    case OPTION_TARGET:
    case OPTION_STORE: /* found out before a long run, not at its end */
        example_check_target(run, o->name, text, o->type == OPTION_STORE);
        *(const char **)member = text;
        break;
    case OPTION_HELP:
        print_usage(run, stdout);
        exit(!example_arrived(run));
    }
}

/* The options of this kind of program, as getopt wants them. */
static void list_options(const example *run, struct option list[OPTIONS + 1])
{
    int count = 0;
    for (int i = 0; i < OPTIONS; i++) {
        if (options[i].kinds & 1 << run->kind) {
            list[count++] = (struct option){ options[i].name,
                                             options[i].argument ? required_argument : no_argument,
                                             NULL, i + 1 };
        }
    }
    list[count] = (struct option){ NULL, 0, NULL, 0 };
}

void example_parse(example *run, int argc, char **argv)
{
    char *slash = strrchr(argv[0], '/');
    if (slash) {
        argv[0] = slash + 1; /* getopt names it, too */
    }
    run->program = argv[0];
    run->seed = -1;
    run->temperature = 0.8;
    struct option list[OPTIONS + 1];
    list_options(run, list);
    int option; /* the row behind the option's own */
    while ((option = getopt_long(argc, argv, "", list, NULL)) != -1) {
        if (option == '?') {
            print_usage(run, stderr);
            exit(2);
        }
        read_option(run, &options[option - 1], optarg);
    }
    if (optind < argc) {
        fprintf(stderr, "%s: '%s' is no option\n", run->program, argv[optind]);
        exit(2);
    }
    example_check_targets(run);
    if (run->device.kind == TERN_KIND_NONE) {
        run->device = tern_dev_auto();
    }
}
