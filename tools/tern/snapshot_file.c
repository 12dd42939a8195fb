/* A whole file, or standard input, into memory. */
#include "tools/tern/snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool too_large(char *error)
{
    snprintf(error, SNAPSHOT_ERROR_BYTES,
             "larger than %lld MiB: record fewer events (max_entries), or stacks of fewer frames",
             (long long)(SNAPSHOT_FILE_LIMIT >> 20));
    return false;
}

/* Said before a byte is read where the size is known; a pipe's is not. */
static bool has_fair_size(const char *path, char *error)
{
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode) ||
        status.st_size <= SNAPSHOT_FILE_LIMIT)
        return true;
    return too_large(error);
}

/* Appends what the stream has; *text is the caller's to free in any case. */
static bool read_all(FILE *stream, char **text, int64_t *bytes, char *error)
{
    int64_t capacity = 0;
    for (;;) {
        if (*bytes == capacity) {
            capacity = capacity == 0 ? 1 << 20 : 2 * capacity;
            char *more = realloc(*text, (size_t)capacity);
            if (more == NULL) {
                snprintf(error, SNAPSHOT_ERROR_BYTES, "not enough memory to read it");
                return false;
            }
            *text = more;
        }
        const size_t got = fread(*text + *bytes, 1, (size_t)(capacity - *bytes), stream);
        *bytes += (int64_t)got;
        if (*bytes > SNAPSHOT_FILE_LIMIT)
            return too_large(error);
        if (got == 0)
            break;
    }
    if (ferror(stream)) {
        snprintf(error, SNAPSHOT_ERROR_BYTES, "%s", strerror(errno));
        return false;
    }
    return true;
}

/* What people try first: PyTorch's own dump is a pickle, a compressed file is none of ours. */
static bool looks_like_json(const char *text, int64_t bytes, char *error)
{
    const unsigned char *head = (const unsigned char *)text;
    const char *problem = NULL;
    if (bytes == 0)
        problem = "the file is empty";
    else if (head[0] == 0x80)
        problem = "a pickle, not JSON: in Python, json.dump(pickle.load(open(FILE, 'rb')), out)";
    else if (bytes > 1 && head[0] == 0x1f && head[1] == 0x8b)
        problem = "compressed: unpack it with gzip -d first";
    if (problem != NULL)
        snprintf(error, SNAPSHOT_ERROR_BYTES, "%s", problem);
    return problem == NULL;
}

bool snapshot_read(const char *path, snapshot *out, char error[SNAPSHOT_ERROR_BYTES])
{
    *out = (snapshot){ 0 };
    const bool is_stdin = strcmp(path, "-") == 0;
    if (!is_stdin && !has_fair_size(path, error))
        return false;
    FILE *stream = is_stdin ? stdin : fopen(path, "rbe");
    if (stream == NULL) {
        snprintf(error, SNAPSHOT_ERROR_BYTES, "%s", strerror(errno));
        return false;
    }
    char *text = NULL;
    int64_t bytes = 0;
    const bool done = read_all(stream, &text, &bytes, error) &&
                      looks_like_json(text, bytes, error) &&
                      snapshot_parse(text, bytes, out, error);
    free(text);
    if (!is_stdin)
        fclose(stream);
    return done;
}
