/* See output.h. */
#include "tools/tern/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
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

/* A new file beside `path`, with the mode of the one that it will replace. */
static FILE *open_beside(const char *path, const struct stat *old, char *beside, size_t bytes)
{
    if (snprintf(beside, bytes, "%s.tmp-%ld", path, (long)getpid()) >= (int)bytes) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    const int number = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (number < 0)
        return NULL;
    if (old != NULL)
        (void)fchmod(number, old->st_mode & 0777);
    return fdopen(number, "wb");
}

bool output_replace(const char *path, const void *bytes, size_t size)
{
    char real[PATH_MAX], beside[PATH_MAX + 32];
    struct stat old;
    const bool is_there = stat(path, &old) == 0;
    if (is_there && !S_ISREG(old.st_mode)) {
        FILE *stream = fopen(path, "wb");
        return stream != NULL && write_and_close(stream, bytes, size);
    }
    const char *target = is_there && realpath(path, real) != NULL ? real : path;
    FILE *stream = open_beside(target, is_there ? &old : NULL, beside, sizeof beside);
    if (stream == NULL)
        return false;
    if (write_and_close(stream, bytes, size) && rename(beside, target) == 0)
        return true;
    const int reason = errno;
    (void)unlink(beside);
    errno = reason;
    return false;
}

bool output_is_same(const char *path, const char *other)
{
    struct stat one, two;
    return stat(path, &one) == 0 && stat(other, &two) == 0 && one.st_dev == two.st_dev &&
           one.st_ino == two.st_ino;
}
