/* What a run came to, as JSON. */
#include "common.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* Writes the text and closes the file; errno says why not. */
static bool write_and_close(FILE *file, const char *text)
{
    const bool done = fputs(text, file) >= 0 && fputc('\n', file) != EOF && fflush(file) == 0;
    const int reason = errno;
    const bool closed = fclose(file) == 0;
    errno = done ? errno : reason;
    return done && closed;
}

/* Opens a new file beside `path`, of a name that nobody else has, with the mode of the one that it will replace. */
static FILE *open_beside(const char *path, const struct stat *old, char *beside, size_t bytes)
{
    int number = -1;
    errno = EEXIST;
    for (int attempt = 0; attempt < 100 && number < 0 && errno == EEXIST; attempt++) {
        const int n = snprintf(beside, bytes, "%s.tmp-%ld-%d", path, (long)getpid(), attempt);
        if (n >= (int)bytes) {
            errno = ENAMETOOLONG;
            return NULL;
        }
        number = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    if (number < 0) {
        return NULL;
    }
    if (old) {
        (void)fchmod(number, old->st_mode & 0777);
    }
    FILE *file = fdopen(number, "w");
    if (!file) {
        const int reason = errno;
        close(number);
        unlink(beside);
        errno = reason;
    }
    return file;
}

bool example_is_stdout(const struct stat *info)
{
    struct stat out;
    return fstat(STDOUT_FILENO, &out) == 0 && out.st_dev == info->st_dev &&
           out.st_ino == info->st_ino;
}

/* Writes the text to a file beside `path`, and renames that. */
static bool replace_file(const char *path, const struct stat *old, const char *text)
{
    char beside[PATH_MAX + 32];
    FILE *file = open_beside(path, old, beside, sizeof beside);
    if (!file) {
        return false;
    }
    if (write_and_close(file, text) && rename(beside, path) == 0) {
        return true;
    }
    const int reason = errno;
    unlink(beside);
    errno = reason;
    return false;
}

/* A results file has the old results or all of the new ones, whatever happens in between. Through
 * links; what is no file (a pipe) is written to. */
static bool replace_text(const char *name, const char *text)
{
    char path[PATH_MAX];
    struct stat old;
    const bool is_there = stat(name, &old) == 0;
    if (is_there && example_is_stdout(&old)) { /* behind what the run has printed */
        return fputs(text, stdout) >= 0 && fputc('\n', stdout) != EOF && fflush(stdout) == 0;
    }
    if (is_there && !S_ISREG(old.st_mode)) {
        FILE *file = fopen(name, "w");
        return file && write_and_close(file, text);
    }
    struct stat link;
    if (lstat(name, &link) != 0 || !S_ISLNK(link.st_mode)) {
        return replace_file(name, is_there ? &old : NULL, text);
    }
    /* A link to nothing: whatever it says, the system follows it. */
    const int made = is_there ? -1 : open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (made >= 0) {
        close(made);
    }
    if (stat(name, &old) != 0 || !realpath(name, path)) {
        return false;
    }
    const bool done = replace_file(path, &old, text);
    const int reason = errno;
    if (!done && made >= 0) {
        unlink(path);
    }
    errno = reason;
    return done;
}

static bool write_text(const example *run, const char *text)
{
    const bool done = replace_text(run->json, text);
    if (!done) {
        fprintf(stderr, "%s: cannot write '%s': %s\n", run->program, run->json, strerror(errno));
    }
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
    cJSON_AddNumberToObject(root, "skipped_steps", (double)tern_scaler_skip_count(run->scaler));
    char *text = cJSON_Print(root);
    cJSON_Delete(root);
    if (!text) {
        fprintf(stderr, "%s: no memory for the results\n", run->program);
        return false;
    }
    bool done = write_text(run, text);
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
