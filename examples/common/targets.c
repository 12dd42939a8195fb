/* What the end of a run writes: that it can, and that it is nothing which the run reads. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common.h"
#include "output.h"

enum {
    BESIDE_BYTES = 24, /* ".tmp-", a process's number, an attempt's */
    LINKS_MAX = 40     /* as the kernel follows */
};

/* The folder of a file; its name begins where the result says. */
static const char *folder_of(const char *path, char folder[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    const int length = slash ? (int)(slash - path) + 1 : 0;
    snprintf(folder, PATH_MAX, "%.*s", length > 0 ? length : 1, length > 0 ? path : ".");
    return path + length;
}

/* The file that is written through links, which need not be there yet; false where they end nowhere. */
static bool follow_links(const char *path, char end[PATH_MAX])
{
    char link[PATH_MAX], folder[PATH_MAX];
    bool fits = snprintf(end, PATH_MAX, "%s", path) < PATH_MAX;
    for (int i = 0; i < LINKS_MAX && fits; i++) {
        const ssize_t length = readlink(end, link, sizeof link - 1);
        if (length < 0) {
            return errno != ELOOP;
        }
        link[length] = '\0';
        (void)folder_of(end, folder);
        const char *before = link[0] == '/' ? "" : folder;
        fits = snprintf(end, PATH_MAX, "%s%s%s", before, before[0] ? "/" : "", link) < PATH_MAX;
    }
    return false;
}

/* The one name of a file that need not be there yet. */
static bool real_path(const char *path, char real[PATH_MAX])
{
    char end[PATH_MAX], folder[PATH_MAX];
    if (realpath(path, real)) {
        return true;
    }
    if (!follow_links(path, end)) {
        return false;
    }
    const char *name = folder_of(end, folder);
    if (!realpath(folder, real)) {
        return false;
    }
    const size_t length = strlen(real), rest = PATH_MAX - length;
    return snprintf(real + length, rest, "/%s", name) < (int)rest;
}

/* However they are spelled. */
static bool is_one_file(const char *path, const char *other)
{
    char one[PATH_MAX], two[PATH_MAX];
    return real_path(path, one) && real_path(other, two) && strcmp(one, two) == 0;
}

/* Tried, as root may write everywhere by the modes alone (/proc, what is mounted read-only). */
static bool can_make(const char *folder)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/.tern-XXXXXX", folder) >= PATH_MAX) {
        return false;
    }
    const int file = mkstemp(path);
    if (file >= 0) {
        (void)unlink(path);
        (void)close(file);
    }
    return file >= 0;
}

/* In a folder like /tmp only its owner and a file's replace that. */
static bool is_kept(const char *folder, const char *path)
{
    struct stat in, file;
    const uid_t user = geteuid();
    return stat(folder, &in) == 0 && (in.st_mode & S_ISVTX) && stat(path, &file) == 0 &&
           user != 0 && user != in.st_uid && user != file.st_uid;
}

/* Whether a file can be made, replaced or, where it is a pipe or stdout's, written to. */
static bool can_write(const char *path, bool is_replaced)
{
    char end[PATH_MAX], folder[PATH_MAX];
    struct stat info;
    const bool is_there = stat(path, &info) == 0;
    if (path[0] == '\0') {
        return false;
    }
    if (!is_replaced && is_there && output_is_open(path)) {
        return true;
    }
    if (!is_replaced && is_there && !S_ISREG(info.st_mode)) {
        return access(path, W_OK) == 0;
    }
    if (!follow_links(path, end)) {
        return false;
    }
    (void)folder_of(end, folder);
    return can_make(folder) && !is_kept(folder, end);
}

/* Whether the folder can hold a file of that name and, until it is whole, of a longer one. */
static bool is_short(const char *path)
{
    char end[PATH_MAX], folder[PATH_MAX];
    if (!follow_links(path, end)) {
        return false;
    }
    const char *name = folder_of(end, folder);
    const long most = pathconf(folder, _PC_NAME_MAX);
    return strlen(end) + BESIDE_BYTES < PATH_MAX &&
           (most < 0 || (long)strlen(name) + BESIDE_BYTES <= most);
}

void example_check_target(const example *run, const char *option, const char *path,
                          bool is_replaced)
{
    struct stat info;
    const bool is_there = stat(path, &info) == 0;
    if (is_there && S_ISDIR(info.st_mode)) {
        example_refuse(run, option, "a file, not a folder", path);
    }
    if (is_replaced && is_there && !S_ISREG(info.st_mode)) {
        example_refuse(run, option, "a regular file, which it replaces", path);
    }
    if (is_replaced && output_is_open(path)) {
        example_refuse(run, option, "a file of its own, which it replaces", path);
    }
    if (!can_write(path, is_replaced)) {
        example_refuse(run, option, "a file in a folder that can be written", path);
    }
    if ((!is_there || S_ISREG(info.st_mode)) && !is_short(path)) {
        example_refuse(run, option, "a shorter name", path);
    }
}

/* Whether a program reads its data from there, or would the next time. */
static bool is_data(const example *run, const char *path)
{
    struct stat info;
    if (!run->data || stat(run->data, &info) != 0) {
        return false;
    }
    if (S_ISREG(info.st_mode)) {
        return is_one_file(path, run->data);
    }
    for (const char *const *name = example_data_files(run->kind); *name; name++) {
        char file[PATH_MAX];
        const int length = snprintf(file, sizeof file, "%s/%s", run->data, *name);
        if (length < PATH_MAX && is_one_file(path, file)) {
            return true;
        }
    }
    return false;
}

/* A stored run names its data, in a file whose texts are UTF-8. */
static bool can_be_stored(const char *name)
{
    tern_state *state = tern_state_create();
    const bool can = tern_state_set_text(state, "data", name) == TERN_OK;
    tern_error_clear();
    tern_state_free(state);
    return can;
}

void example_check_targets(const example *run)
{
    if (run->save && run->data && !can_be_stored(run->data)) {
        example_refuse(run, "data", "a name in UTF-8 for --save", run->data);
    }
    if (run->save && is_data(run, run->save)) {
        example_refuse(run, "save", "another file than the data", run->save);
    }
    if (run->json && is_data(run, run->json)) {
        example_refuse(run, "json", "another file than the data", run->json);
    }
    if (run->json && run->load && is_one_file(run->json, run->load)) {
        example_refuse(run, "json", "another file than --load", run->json);
    }
    if (run->json && run->save && is_one_file(run->json, run->save)) {
        example_refuse(run, "json", "another file than --save", run->json);
    }
}
