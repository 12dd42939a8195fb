/* tern devices and tern env: what there is. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <tern/tern.h>

#include "core/utf8.h"
#include "tools/tern/command.h"
#include "tools/tern/facts.h"
#include "tools/tern/text.h"

/* 1: --json, 0: nothing, -1: anything else, which has been reported. */
static int wants_json(const char *name, int argc, char **argv)
{
    if (argc < 2)
        return 0;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--json") != 0) {
            (void)command_usage(name, "'%s' is no option of this command", argv[i]);
            return -1;
        }
    return 1;
}

/* What is no UTF-8 in a variable or a path becomes U+FFFD. */
static int put_json(const char *name, cJSON *root)
{
    char *json = cJSON_Print(root);
    if (json == NULL)
        return command_fail(name, "not enough memory");
    for (size_t left = strlen(json), at = 0; left > 0;) {
        const size_t bytes = core_utf8_bytes(json + at, left);
        (void)fputs(bytes == 0 ? "\xef\xbf\xbd" : "", stdout);
        (void)fwrite(json + at, 1, bytes, stdout);
        at += bytes > 0 ? bytes : 1;
        left -= bytes > 0 ? bytes : 1;
    }
    (void)putchar('\n');
    cJSON_free(json);
    return COMMAND_OK;
}

/* ---- tern devices --------------------------------------------------------------------------------- */

static const char *string_of(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

static double number_of(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : -1;
}

static void put_cpu(const cJSON *d)
{
    printf("         %.0f processors, ", number_of(d, "processors"));
    if (number_of(d, "processor_quota") > 0)
        printf("time for %.3g of them (the quota of a container or control group), ",
               number_of(d, "processor_quota"));
    printf("%.0f threads in use, kernels for %s, tuned for %s\n"
           "         BLAS: %s\n         DNN: %s\n",
           number_of(d, "threads"), string_of(d, "instruction_set"), string_of(d, "tuned_for"),
           string_of(d, "blas"), string_of(d, "dnn"));
}

/* Each that the driver tells; it may refuse any of them. */
static void put_use(const cJSON *d)
{
    static const struct {
        const char *key, *before, *after;
    } parts[] = { { "utilization_percent", "", " % busy" },
                  { "memory_utilization_percent", "memory ", " %" },
                  { "temperature_celsius", "", " degrees" },
                  { "clock_mhz", "", " MHz" } };
    const char *between = "         ";
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const double number = number_of(d, parts[i].key);
        if (number < 0)
            continue;
        printf("%s%s%.0f%s", between, parts[i].before, number, parts[i].after);
        between = ", ";
    }
    printf("%s", between[0] == ',' ? "\n" : "");
}

static void put_device(const cJSON *d)
{
    char free[TEXT_SIZE_BYTES], total[TEXT_SIZE_BYTES];
    const bool simulated = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(d, "simulated"));
    printf("%-8s %s%s\n", string_of(d, "device"), string_of(d, "name") ? string_of(d, "name") : "",
           simulated ? " (simulated)" : "");
    if (string_of(d, "capability") != NULL)
        printf("         compute capability %s, %.0f multiprocessors\n", string_of(d, "capability"),
               number_of(d, "multiprocessors"));
    if (number_of(d, "total_bytes") >= 0)
        printf("         %s free of %s\n", text_size((int64_t)number_of(d, "free_bytes"), free),
               text_size((int64_t)number_of(d, "total_bytes"), total));
    if (string_of(d, "fault") != NULL)
        printf("         cannot be used: %s\n", string_of(d, "fault"));
    if (string_of(d, "driver_version") != NULL)
        printf("         driver for CUDA %s", string_of(d, "driver_version"));
    if (string_of(d, "runtime_version") != NULL)
        printf(", runtime %s", string_of(d, "runtime_version"));
    if (string_of(d, "driver_version") != NULL)
        puts("");
    if (string_of(d, "libraries") != NULL)
        printf("         %s\n", string_of(d, "libraries"));
    put_use(d);
    if (number_of(d, "processors") >= 0)
        put_cpu(d);
}

static void put_reason(void)
{
    tern_fallback_t why;
    if (tern_dev_fallback(&why))
        printf("\nCUDA is not used: %s [%s]\n  try: %s\n  more: tern explain %s\n", why.text,
               why.code, why.next_step, why.code);
}

/* What the library warns of while it looks: somebody who asks why it is so has not asked for a log. */
static void put_warning(tern_log_level_t level, tern_site_t site, const char *words, void *user)
{
    (void)site;
    if (level == TERN_LOG_WARNING) /* errors stand in what is printed */
        fprintf(stderr, "tern %s: %s\n", (const char *)user, words);
}

/* The library itself has nowhere to say that its log cannot be opened. */
static void check_log(const char *name)
{
    char folder[PATH_MAX];
    const char *path = getenv("TERN_LOG_FILE");
    if (path == NULL || path[0] == '\0')
        return;
    const int file = open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC);
    const char *slash = strrchr(path, '/');
    (void)snprintf(folder, sizeof folder, "%.*s", slash != NULL ? (int)(slash - path) + 1 : 1,
                   slash != NULL ? path : ".");
    const bool can_be = file >= 0 || errno == ENXIO || /* a pipe that nobody reads yet */
                        (errno == ENOENT && access(folder, W_OK | X_OK) == 0);
    if (!can_be)
        (void)command_fail(name, "TERN_LOG_FILE=%s cannot be opened, there is no log: %s", path,
                           strerror(errno));
    if (file >= 0)
        (void)close(file);
}

/* TERN_LOG says what a log is to have, and this is none. */
static void listen(char *name)
{
    const char *level = getenv("TERN_LOG");
    if (level != NULL && (strcmp(level, "off") == 0 || strcmp(level, "error") == 0))
        tern_log_set_level(TERN_LOG_WARNING);
    check_log(name);
    tern_log_set_callback(put_warning, name);
}

static int devices(int argc, char **argv)
{
    const int json = wants_json(argv[0], argc, argv);
    if (json < 0)
        return COMMAND_USAGE;
    listen(argv[0]);
    cJSON *list = facts_devices();
    int status = COMMAND_OK;
    if (json > 0) {
        cJSON *root = cJSON_CreateObject();
        cJSON_AddNumberToObject(root, "schema", 1);
        cJSON_AddItemToObject(root, "cuda", facts_cuda());
        cJSON_AddItemToObject(root, "devices", list);
        status = put_json(argv[0], root);
        cJSON_Delete(root);
        return status;
    }
    for (const cJSON *d = list->child; d != NULL; d = d->next)
        put_device(d);
    put_reason();
    cJSON_Delete(list);
    return status;
}

const command devices_command = {
    .name = "devices",
    .summary = "every device, and why CUDA is not used",
    .help = "usage: tern devices [--json]\n"
            "\n"
            "Lists CUDA devices with name, compute capability, memory, driver, runtime and "
            "libraries,\n"
            "with utilisation where the driver tells it, what is wrong with a device that cannot "
            "be used, and "
            "the CPU with its processors, threads, "
            "instruction set and libraries. Where CUDA is "
            "not used\n"
            "it says why and what to try. The exit status is 0 with and without a GPU.\n",
    .run = devices,
};

/* ---- tern env ------------------------------------------------------------------------------------- */

static int env(int argc, char **argv)
{
    const int json = wants_json(argv[0], argc, argv);
    if (json < 0)
        return COMMAND_USAGE;
    listen(argv[0]);
    cJSON *root = cJSON_CreateObject(),
          *environment = facts_environment(); /* before tern adds to it */
    cJSON_AddNumberToObject(root, "schema", 1);
    cJSON_AddItemToObject(root, "system", facts_system());
    cJSON_AddItemToObject(root, "cuda", facts_cuda());
    cJSON_AddItemToObject(root, "devices", facts_devices());
    cJSON_AddItemToObject(root, "environment", environment);
    int status = COMMAND_OK;
    if (json > 0)
        status = put_json(argv[0], root);
    else
        facts_print(root, 0);
    cJSON_Delete(root);
    return status;
}

const command env_command = {
    .name = "env",
    .summary = "the whole stack, for a bug report",
    .help = "usage: tern env [--json]\n"
            "\n"
            "Prints versions, system, CUDA's state with all that was looked at, devices, the CPU's "
            "libraries\n"
            "and the variables that change what tern does (TERN_, CUDA_, NVIDIA_, OMP_, ..., "
            "LD_LIBRARY_PATH;\n"
            "of one whose name speaks of a key or a password only that it is set):\n"
            "paste it into a report.\n",
    .run = env,
};
