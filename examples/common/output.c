/* See output.h. */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool write_and_close(FILE *stream, const void *bytes, size_t size)
{
    const bool written = fwrite(bytes, 1, size, stream) == size && fflush(stream) == 0;
    const int reason = errno;
    const bool closed = fclose(stream) == 0;
    errno = written ? errno : reason;
    return written && closed;
}

/* A new file beside `path`, of a name that nobody else has (an end of a process that was killed may have been left,
 * and numbers of processes return), with the mode of the one that it will replace. */
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
    if (number < 0)
        return NULL;
    if (old != NULL)
        (void)fchmod(number, old->st_mode & 0777);
    FILE *stream = fdopen(number, "wb");
    if (stream == NULL) {
        const int reason = errno;
        (void)close(number);
        (void)unlink(beside);
        errno = reason;
    }
    return stream;
}

static bool is_same(const struct stat *one, const struct stat *two)
{
    return one->st_dev == two->st_dev && one->st_ino == two->st_ino;
}

/* The descriptor of this process that a path is a name of; -1 for others. */
static int descriptor_of(const char *path, const struct stat *info)
{
    struct stat out;
    int number, end = 0;
    if (fstat(STDOUT_FILENO, &out) == 0 && is_same(info, &out))
        return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0)
        return STDERR_FILENO;
    const bool is_one = sscanf(path, "/dev/fd/%d%n", &number, &end) == 1 ||
                        sscanf(path, "/proc/self/fd/%d%n", &number, &end) == 1;
    return is_one && path[end] == '\0' ? number : -1;
}

/* Behind what stands there: opened by its name, a file that stdout goes to would begin anew. */
static bool write_behind(int descriptor, const void *bytes, size_t size)
{
    (void)fflush(stdout);
    const int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    FILE *stream = copy >= 0 ? fdopen(copy, "wb") : NULL;
    if (stream != NULL)
        return write_and_close(stream, bytes, size);
    if (copy >= 0)
        (void)close(copy);
    return false;
}

static bool replace(const char *target, const struct stat *old, const void *bytes, size_t size)
{
    char beside[PATH_MAX + 32];
    FILE *stream = open_beside(target, old, beside, sizeof beside);
    if (stream == NULL)
        return false;
    if (write_and_close(stream, bytes, size) && rename(beside, target) == 0)
        return true;
    const int reason = errno;
    (void)unlink(beside);
    errno = reason;
    return false;
}

/* The file that a link to nothing names, made empty: whatever the links, the system follows them. */
static bool make_end_of_link(const char *path, struct stat *out_info)
{
    const int number = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    return number >= 0 && close(number) == 0 && stat(path, out_info) == 0;
}

bool output_replace(const char *path, const void *bytes, size_t size)
{
    char real[PATH_MAX];
    struct stat old;
    const bool was_there = stat(path, &old) == 0;
    const int descriptor = was_there ? descriptor_of(path, &old) : -1;
    if (descriptor >= 0)
        return write_behind(descriptor, bytes, size);
    if (was_there && !S_ISREG(old.st_mode)) {
        FILE *stream = fopen(path, "wb");
        return stream != NULL && write_and_close(stream, bytes, size);
    }
    struct stat link;
    const bool is_link = lstat(path, &link) == 0 && S_ISLNK(link.st_mode);
    if (is_link && !was_there && !make_end_of_link(path, &old))
        return false;
    const char *target = is_link ? realpath(path, real) : path;
    if (target == NULL)
        return false;
    const bool done = replace(target, was_there || is_link ? &old : NULL, bytes, size);
    const int reason = errno;
    if (!done && !was_there && is_link)
        (void)unlink(target);
    errno = reason;
    return done;
}

bool output_is_open(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && descriptor_of(path, &info) >= 0;
}

bool output_is_same(const char *path, const char *other)
{
    struct stat one, two;
    return stat(path, &one) == 0 && stat(other, &two) == 0 && is_same(&one, &two);
}
