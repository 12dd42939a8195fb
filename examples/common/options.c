/* The command line of the examples. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common.h"

enum {
    IMAGES = 1 << EXAMPLE_IMAGES,
    TEXT = 1 << EXAMPLE_TEXT,
    PICTURES = 1 << EXAMPLE_PICTURES,
    ALL = IMAGES | TEXT | PICTURES
};

typedef enum option_id {
    OPTION_DATA = 1,
    OPTION_DEVICE,
    OPTION_EPOCHS,
    OPTION_STEPS,
    OPTION_BATCH,
    OPTION_LR,
    OPTION_SEED,
    OPTION_THREADS,
    OPTION_AMP,
    OPTION_SAVE,
    OPTION_LOAD,
    OPTION_JSON,
    OPTION_QUIET,
    OPTION_NO_TEST,
    OPTION_SHOW,
    OPTION_AUGMENT,
    OPTION_SAMPLE,
    OPTION_PROMPT,
    OPTION_TEMPERATURE,
    OPTION_TOP_K,
    OPTION_HELP
} option_id;

/* What a kind of program takes: name, argument (NULL: none), meaning. */
static const struct {
    int kinds;
    option_id id;
    const char *name, *argument, *help;
} options[] = {
    { IMAGES, OPTION_DATA, "data", "DIR|digits",
      "folder with MNIST's files, or the built-in drawn digits" },
    { PICTURES, OPTION_DATA, "data", "DIR|pictures",
      "folder with CIFAR-10's binary files, or the built-in drawn pictures" },
    { TEXT, OPTION_DATA, "data", "FILE|tales", "a text, or the built-in made-up tales" },
    { ALL, OPTION_DEVICE, "device", "NAME", "auto (default), cpu, cuda, cuda:N" },
    { ALL, OPTION_EPOCHS, "epochs", "N", "the plan; the learning rate falls as a cosine over it" },
    { ALL, OPTION_STEPS, "steps", "N", "end after N steps in total" },
    { ALL, OPTION_BATCH, "batch", "N", "samples of a step" },
    { ALL, OPTION_LR, "lr", "X", "learning rate at the start" },
    { ALL, OPTION_SEED, "seed", "N", "of weights and order" },
    { ALL, OPTION_THREADS, "threads", "N", "of the CPU" },
    { ALL, OPTION_AMP, "amp", "off|bf16|fp16", "forward in half precision, where that is safe" },
    { ALL, OPTION_SAVE, "save", "FILE", "store the whole run" },
    { ALL, OPTION_LOAD, "load", "FILE", "go on with a stored run" },
    { ALL, OPTION_JSON, "json", "FILE", "write the results" },
    { ALL, OPTION_QUIET, "quiet", NULL, "no progress" },
    { IMAGES | PICTURES, OPTION_NO_TEST, "no-test", NULL,
      "leave out the accuracy on the test images" },
    { TEXT, OPTION_NO_TEST, "no-test", NULL, "leave out the loss on the last tenth of the text" },
    { IMAGES, OPTION_SHOW, "show", "N", "print N test digits with the model's answers" },
    { PICTURES, OPTION_AUGMENT, "augment", NULL,
      "move images by up to 4 pixels, mirror half of them" },
    { TEXT, OPTION_SAMPLE, "sample", "N", "write N characters in the end" },
    { TEXT, OPTION_PROMPT, "prompt", "TEXT", "what they go on from" },
    { TEXT, OPTION_TEMPERATURE, "temperature", "X", "below 1: bolder choices; default 0.8" },
    { TEXT, OPTION_TOP_K, "top-k", "N", "choose among the N likeliest; default: all" },
    { ALL, OPTION_HELP, "help", NULL, "this list" },
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

/* A wrong command line ends the program with 2, as its usage says. */
static _Noreturn void refuse(const example *run, const char *option, const char *wanted,
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
        refuse(run, option, wanted, text);
    }
    return value;
}

static double read_rate(const example *run, const char *option, const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value) || value <= 0) {
        refuse(run, option, "a number above 0", text);
    }
    return value;
}

static const char *read_amp(const example *run, const char *option, const char *text)
{
    if (strcmp(text, "off") != 0 && strcmp(text, "bf16") != 0 && strcmp(text, "fp16") != 0) {
        refuse(run, option, "off, bf16 or fp16", text);
    }
    return text;
}

static tern_dev_t read_device(const example *run, const char *text)
{
    tern_dev_t device;
    if (strcmp(text, "auto") == 0) {
        return tern_dev_auto();
    }
    if (tern_dev_parse(text, &device) != TERN_OK) {
        refuse(run, "device", "auto, cpu, cuda or cuda:N", text);
    }
    return device;
}

/* A file that the end of a long run will write: found out before the run. */
static const char *read_target(const example *run, const char *option, const char *text)
{
    char folder[EXAMPLE_PATH_BYTES];
    struct stat info;
    const char *slash = strrchr(text, '/');
    const int length = slash ? (int)(slash - text) + 1 : 0;
    snprintf(folder, sizeof folder, "%.*s", length, text);
    const bool is_folder = stat(text, &info) == 0 && S_ISDIR(info.st_mode);
    if (text[0] == '\0' || is_folder || access(length > 0 ? folder : ".", W_OK) != 0) {
        refuse(run, option, "a file in a folder that can be written", text);
    }
    return text;
}

static void read_option(example *run, option_id option, const char *name, const char *text)
{
    const int64_t most = INT64_C(1) << 40;
    switch (option) {
    case OPTION_DATA:
        run->data = text;
        break;
    case OPTION_DEVICE:
        run->device = read_device(run, text);
        run->cpu_asked = run->device.kind == TERN_KIND_CPU && strcmp(text, "auto") != 0;
        break;
    case OPTION_EPOCHS:
        run->epochs = read_int(run, name, text, 1, EXAMPLE_EPOCHS_MAX);
        break;
    case OPTION_STEPS:
        run->steps = read_int(run, name, text, 1, most);
        break;
    case OPTION_BATCH:
        run->batch = read_int(run, name, text, 1, 1 << 20);
        break;
    case OPTION_LR:
        run->lr = read_rate(run, name, text);
        break;
    case OPTION_SEED:
        run->seed = read_int(run, name, text, 0, INT64_MAX);
        break;
    case OPTION_THREADS:
        run->threads = (int)read_int(run, name, text, 1, 4096);
        break;
    case OPTION_AMP:
        run->amp = read_amp(run, name, text);
        break;
    case OPTION_SAVE:
        run->save = read_target(run, name, text);
        break;
    case OPTION_LOAD:
        run->load = text;
        break;
    case OPTION_JSON:
        run->json = read_target(run, name, text);
        break;
    case OPTION_QUIET:
        run->quiet = true;
        break;
    case OPTION_NO_TEST:
        run->no_test = true;
        break;
    case OPTION_SHOW:
        run->show = read_int(run, name, text, 0, 1000);
        break;
    case OPTION_AUGMENT:
        run->augment = true;
        break;
    case OPTION_SAMPLE:
        run->sample = read_int(run, name, text, 0, 1 << 20);
        break;
    case OPTION_PROMPT:
        run->prompt = text;
        break;
    case OPTION_TEMPERATURE:
        run->temperature = read_rate(run, name, text);
        break;
    case OPTION_TOP_K:
        run->top_k = read_int(run, name, text, 0, 256);
        break;
    default:
        print_usage(run, stdout);
        exit(0);
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
                                             NULL, (int)options[i].id };
        }
    }
    list[count] = (struct option){ NULL, 0, NULL, 0 };
}

void example_parse(example *run, int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/');
    run->program = slash ? slash + 1 : argv[0];
    run->seed = -1;
    run->temperature = 0.8;
    struct option list[OPTIONS + 1];
    list_options(run, list);
    int place = 0;
    int option;
    while ((option = getopt_long(argc, argv, "", list, &place)) != -1) {
        if (option == '?') {
            print_usage(run, stderr);
            exit(2);
        }
        read_option(run, (option_id)option, list[place].name, optarg);
    }
    if (optind < argc) {
        fprintf(stderr, "%s: '%s' is no option\n", run->program, argv[optind]);
        exit(2);
    }
    if (run->device.kind == TERN_KIND_NONE) {
        run->device = tern_dev_auto();
    }
}
