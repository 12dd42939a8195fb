#include "arguments.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "tern/tern.h"

enum { MOST_OPTIONS = 16, MOST_NAMES = 256, THREADS = 1000, DEVICE, JSON, HELP };

static const char *program, *usage;
static char **names;
static int name_count;
static bool known[MOST_NAMES];

_Noreturn void bench_refuse(const char *what, const char *value)
{
    fprintf(stderr, "%s: %s '%s'\nusage: %s %s\n", program, what, value, program, usage);
    exit(2);
}

static int64_t number_of(const char *option, const char *text, int64_t most)
{
    char *end;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || number < 0 || number > most) {
        char what[64];
        (void)snprintf(what, sizeof what, "--%s wants a number, not", option);
        bench_refuse(what, text);
    }
    return number;
}

void bench_set_device(const char *name)
{
    tern_dev_t device;
    if (tern_dev_parse(name, &device) == TERN_OK)
        (void)tern_set_default_device(device);
    bench_check();
}

static void take(const bench_option *option, const char *value)
{
    if (option->number != NULL)
        *option->number = number_of(option->name, value, INT64_MAX);
    else if (option->text != NULL)
        *option->text = value;
    else
        *option->flag = true;
}

static void take_common(bench_asked *asked, int id, const char *value)
{
    if (id == HELP) {
        printf("usage: %s %s\n", program, usage);
        exit(0);
    }
    if (id == THREADS) {
        asked->threads = (int)number_of("threads", value, INT_MAX);
        tern_set_num_threads(asked->threads);
    } else if (id == DEVICE) {
        asked->device = value;
        bench_set_device(value);
    } else {
        asked->json = true;
    }
}

/* Of letters behind one dash getopt moves on to the next word after the last alone. */
static _Noreturn void refuse_option(char *word)
{
    const char letter[] = { '-', (char)optopt, '\0' };
    bench_refuse("there is no option", optopt >= ' ' && optopt < THREADS ? letter : word);
}

bench_asked bench_begin(int argc, char **argv, const char *how, const bench_option *options)
{
    struct option all[MOST_OPTIONS + 5] = { { "threads", required_argument, NULL, THREADS },
                                            { "device", required_argument, NULL, DEVICE },
                                            { "json", no_argument, NULL, JSON },
                                            { "help", no_argument, NULL, HELP } };
    const char *slash = strrchr(argv[0], '/');
    program = slash != NULL ? slash + 1 : argv[0];
    usage = how;
    for (int i = 0; options != NULL && options[i].name != NULL && i < MOST_OPTIONS; i++)
        all[4 + i] =
            (struct option){ options[i].name,
                             options[i].flag != NULL ? no_argument : required_argument, NULL, i };
    bench_asked asked = { 0, NULL, false };
    opterr = 0;
    for (int id; (id = getopt_long(argc, argv, ":", all, NULL)) != -1;) {
        if (id == ':')
            bench_refuse("no value after", argv[optind - 1]);
        if (id == '?')
            refuse_option(argv[optind - 1]);
        if (id >= THREADS)
            take_common(&asked, id, optarg);
        else
            take(&options[id], optarg);
    }
    names = argv + optind;
    name_count = argc - optind;
    if (name_count > MOST_NAMES)
        bench_refuse("too many names, from", names[MOST_NAMES]);
    return asked;
}

static bool is_named(const char *name, const char *work)
{
    const size_t length = strlen(name);
    const char *from = name[0] == '/' ? strchr(work, '/') : work;
    return from != NULL && strncmp(from, name, length) == 0 &&
           (from[length] == '\0' || from[length] == '/');
}

bool bench_wanted(const char *work)
{
    bool wanted = name_count == 0;
    for (int i = 0; i < name_count; i++)
        if (is_named(names[i], work))
            wanted = known[i] = true;
    return wanted;
}

const char *bench_name(int i)
{
    if (i >= name_count)
        return NULL;
    known[i] = true;
    return names[i];
}

int bench_end(void)
{
    const int status = tern_finish();
    for (int i = 0; i < name_count; i++)
        if (!known[i])
            bench_refuse("no work is called", names[i]);
    return status;
}

void bench_run_works(const char *const *works, bench_work run)
{
    for (; *works != NULL; works++)
        if (bench_wanted(*works))
            run(*works);
}

int bench_main(int argc, char **argv, const char *how, const char *const *works, bench_work run)
{
    (void)bench_begin(argc, argv, how, NULL);
    bench_run_works(works, run);
    return bench_end();
}
