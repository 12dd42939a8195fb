/* What a run came to, as JSON. */
#include "common.h"
#include "output.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_device(cJSON *root, const example *run, tern_dev_t used)
{
    char name[TERN_DEV_NAME_BYTES];
    char reason[512] = "it is usable";
    tern_fallback_t why;
    tern_dev_info_t info;
    if (run->cpu_asked)
        snprintf(reason, sizeof reason, "the CPU was asked for");
    else if (used.kind == TERN_KIND_CPU && tern_dev_fallback(&why))
        snprintf(reason, sizeof reason, "%s: %s", why.code, why.text);
    else if (tern_dev_info(used, &info) && info.simulated)
        snprintf(reason, sizeof reason, "simulated: TERN_SIM_DEVICES asks for it");
    cJSON_AddStringToObject(root, "device", tern_dev_name(used, name));
    cJSON_AddStringToObject(root, "device_reason", reason);
}

static void add_epochs(cJSON *root, const example *run)
{
    cJSON *epochs = cJSON_AddArrayToObject(root, "epochs");
    for (int64_t i = 0; i < example_entries(run); i++) {
        cJSON *entry = cJSON_CreateObject();
        cJSON_AddNumberToObject(entry, "loss", run->entries[i].loss);
        cJSON_AddNumberToObject(entry, "train_seconds", run->entries[i].seconds);
        cJSON_AddNumberToObject(entry, "samples_per_second", run->entries[i].samples_per_second);
        cJSON_AddItemToArray(epochs, entry);
    }
}

/* cJSON's numbers are doubles, which do not hold every seed. */
static void add_whole(cJSON *root, const char *key, int64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)value);
    cJSON_AddRawToObject(root, key, digits);
}

static bool write_line(const example *run, const char *text)
{
    const size_t length = strlen(text);
    char *line = malloc(length + 2);
    if (line) {
        snprintf(line, length + 2, "%s\n", text);
    }
    const bool done = line && output_replace(run->json, line, length + 1);
    if (!done) {
        fprintf(stderr, "%s: cannot write '%s': %s\n", run->program, run->json, strerror(errno));
    }
    free(line);
    return done;
}

bool example_write_json(const example *run)
{
    cJSON *root = cJSON_CreateObject();
    tern_dev_t used = tern_device(tern_parameters(run->net).tensors[0]);
    add_device(root, run, used);
    add_epochs(root, run);
    if (!run->no_test) {
        cJSON_AddNumberToObject(root, run->kind == EXAMPLE_TEXT ? "test_loss" : "test_accuracy",
                                run->score);
    }
    cJSON_AddNumberToObject(root, "peak_allocated_bytes",
                            (double)tern_memory(used).peak_allocated_bytes);
    add_whole(root, "seed", run->seed);
    cJSON_AddStringToObject(root, "amp", run->amp);
    cJSON_AddNumberToObject(root, "skipped_steps", (double)example_skipped(run));
    char *text = cJSON_Print(root);
    cJSON_Delete(root);
    if (!text) {
        fprintf(stderr, "%s: no memory for the results\n", run->program);
        return false;
    }
    bool done = write_line(run, text);
    cJSON_free(text);
    return done;
}

/* A full disk or a closed stdout is no run that went well, though the training was. */
bool example_arrived(const example *run)
{
    const bool is_broken = ferror(stdout) != 0;
    const bool done = fflush(stdout) == 0 && !is_broken;
    if (!done) {
        fprintf(stderr, "%s: cannot write to stdout: %s\n", run->program,
                is_broken ? "an earlier line was lost" : strerror(errno));
    }
    return done;
}
