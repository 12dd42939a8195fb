/* See core/target.h. */
#include "core/target.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tern/error.h"

static void fail_errno(tern_site_t site, const char *what, const char *path, const char *action)
{
    const int code = errno;
    char reason[128];
    tern_fail_at(site, TERN_ERR_IO, what, "%s: %s: %s", path, action,
                 strerror_r(code, reason, sizeof reason));
}

static void forget(core_target *target)
{
    free(target->path);
    free(target->temporary);
    *target = (core_target){ 0 };
}

/* Keeps the first reason and lets later writes do nothing. */
static void fail_target(core_target *target, const char *action)
{
    if (!target->failed)
        fail_errno(target->site, target->what, target->path, action);
    target->failed = true;
}

/* Puts what a link that leads to nothing would make in the place of its path; false, with errno, when
 * the links have no end. */
static bool follow_links(char path[PATH_MAX])
{
    enum { LINKS_MAX = 40 }; /* as the system's */
    char named[PATH_MAX];
    for (int links = 0; links < LINKS_MAX; links++) {
        const ssize_t n = readlink(path, named, sizeof named);
        if (n < 0)
            return errno == EINVAL || errno == ENOENT; /* no link, or nothing */
        const char *slash = strrchr(path, '/');
        const size_t folder = named[0] != '/' && slash ? (size_t)(slash - path) + 1 : 0;
        if (folder + (size_t)n >= PATH_MAX) {
            errno = ENAMETOOLONG;
            return false;
        }
        memcpy(path + folder, named, (size_t)n);
        path[folder + (size_t)n] = '\0';
    }
    errno = ELOOP;
    return false;
}

/* A link is written through: the file it leads to is replaced, or made, and not the link. */
static char *resolve(const core_target *target, const char *path)
{
    char end[PATH_MAX];
    char *real = realpath(path, NULL);
    if (real)
        return real;
    const bool is_short = snprintf(end, sizeof end, "%s", path) < (int)sizeof end;
    if (errno == ENOENT && is_short && follow_links(end))
        return strdup(end);
    if (errno != ENOMEM)
        fail_errno(target->site, target->what, path, "cannot find the file to write");
    return NULL;
}

/* Opens a new file of a name that nobody else has. Not mkstemp: that one makes files for the owner
 * alone, and the umask, which the mode of a new file comes from, cannot be asked for safely. */
static int open_new(char *path, char *end, size_t end_bytes)
{
    static _Atomic unsigned counter;
    int file = -1;
    for (int attempt = 0; attempt < 100; attempt++) {
        (void)snprintf(end, end_bytes, ".tmp-%ld-%u", (long)getpid(), counter++);
        file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file >= 0 || errno != EEXIST)
            break;
    }
    return file;
}

/* The temporary file, with the mode of the file that it will replace. */
static bool open_temporary(core_target *target, char *end, size_t end_bytes)
{
    struct stat old;
    const bool replaces = stat(target->path, &old) == 0;
    if (replaces && !S_ISREG(old.st_mode)) {
        tern_fail_at(target->site, TERN_ERR_IO, target->what, "%s: not a regular file",
                     target->path);
        return false;
    }
    const int file = open_new(target->temporary, end, end_bytes);
    if (file < 0) {
        fail_target(target, "cannot write a file beside it");
        return false;
    }
    if (replaces && fchmod(file, old.st_mode & 0777) != 0)
        fail_target(target, "cannot set the mode of the file beside it");
    target->stream = target->failed ? NULL : fdopen(file, "wb");
    if (!target->stream) {
        fail_target(target, "cannot open the file beside it");
        close(file);
        unlink(target->temporary);
    }
    return target->stream != NULL;
}

bool core_target_open(tern_site_t site, const char *what, core_target *target, const char *path)
{
    enum { END_BYTES = 48 };
    *target = (core_target){ .site = site, .what = what };
    if (!path || !*path) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the path is %s", path ? "empty" : "NULL");
        return false;
    }
    target->path = resolve(target, path);
    const size_t bytes = target->path ? strlen(target->path) : 0;
    target->temporary = target->path ? malloc(bytes + END_BYTES) : NULL;
    if (target->temporary) {
        memcpy(target->temporary, target->path, bytes);
        if (open_temporary(target, target->temporary + bytes, END_BYTES))
            return true;
    } else {
        tern_fail_at(site, TERN_ERR_OOM, what, "no memory for the path");
    }
    forget(target);
    return false;
}

void core_target_write(core_target *target, const void *data, size_t bytes)
{
    if (!target->failed && bytes > 0 && fwrite(data, 1, bytes, target->stream) != bytes)
        fail_target(target, "cannot write");
}

/* Makes the rename last: the folder's entry has to reach the disk, too. Some file systems cannot. */
static void sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash == path ? strdup("/")
                   : slash       ? strndup(path, (size_t)(slash - path))
                                 : strdup(".");
    const int file = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (file >= 0) {
        fsync(file);
        close(file);
    }
    free(folder);
}

bool core_target_commit(core_target *target)
{
    if (!target->failed && (fflush(target->stream) != 0 || ferror(target->stream) ||
                            fsync(fileno(target->stream)) != 0))
        fail_target(target, "cannot write");
    if (fclose(target->stream) != 0)
        fail_target(target, "cannot write");
    if (!target->failed && rename(target->temporary, target->path) != 0)
        fail_target(target, "cannot put the new file in its place");
    if (target->failed)
        unlink(target->temporary);
    else
        sync_folder(target->path);
    const bool fine = !target->failed;
    forget(target);
    return fine;
}

void core_target_abandon(core_target *target)
{
    fclose(target->stream);
    unlink(target->temporary);
    forget(target);
}
