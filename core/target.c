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

#include "core/descriptor.h"
#include "core/errno_text.h"
#include "tern/error.h"

enum { TEMPORARY_BYTES = 48, NAMES_TRIED = 100 };

static void fail_errno(tern_site_t site, const char *what, const char *path, const char *action)
{
    const int code = errno;
    char reason[CORE_ERRNO_TEXT];
    tern_fail_at(site, TERN_ERR_IO, what, "%s: %s: %s", path, action,
                 core_errno_text(code, reason));
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

/* The folder that a file of this path lies in; the caller frees it. NULL: no memory. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == path   ? strdup("/")
           : slash != NULL ? strndup(path, (size_t)(slash - path))
                           : strdup(".");
}

/* A name beside the target that this process has not given yet. */
static void choose_name(core_target *target)
{
    static _Atomic unsigned counter;
    (void)snprintf(target->temporary, strlen(target->path) + TEMPORARY_BYTES, "%s.tmp-%ld-%u",
                   target->path, (long)getpid(), counter++);
}

#ifdef O_TMPFILE
/* Gives an open file a name beside the target. */
static bool link_to(core_target *target, int file)
{
    char open_file[64];
    (void)snprintf(open_file, sizeof open_file, "/proc/self/fd/%d", file);
    errno = EEXIST;
    for (int attempt = 0; attempt < NAMES_TRIED && errno == EEXIST; attempt++) {
        choose_name(target);
        if (linkat(AT_FDCWD, open_file, AT_FDCWD, target->temporary, AT_SYMLINK_FOLLOW) == 0)
            return true;
    }
    return false;
}

/* A new file without a name, which goes when the process does, however that ends. -1: this file system has none. */
static int open_nameless(const core_target *target)
{
    char *folder = folder_of(target->path);
    const int file = folder != NULL ? open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666) : -1;
    free(folder);
    return file;
}

/* Could it have a name later? Not without /proc, nor where a sandbox forbids links. Tried with another one, since a
 * file that has lost its name gets no other. */
static bool may_link(core_target *target)
{
    const int file = open_nameless(target);
    const bool may = file >= 0 && link_to(target, file);
    if (may)
        unlink(target->temporary);
    if (file >= 0)
        close(file);
    return may;
}

static bool give_name(core_target *target)
{
    target->named = link_to(target, fileno(target->stream));
    return target->named;
}
#else
static int open_nameless(const core_target *target)
{
    (void)target;
    return -1;
}

static bool may_link(core_target *target)
{
    (void)target;
    return false;
}

static bool give_name(core_target *target)
{
    return target->named;
}
#endif

/* Opens a new file of a name that nobody else has. Not mkstemp: that one makes files for the owner
 * alone, and the umask, which the mode of a new file comes from, cannot be asked for safely. */
static int open_named(core_target *target)
{
    int file = -1;
    errno = EEXIST;
    for (int attempt = 0; attempt < NAMES_TRIED && file < 0 && errno == EEXIST; attempt++) {
        choose_name(target);
        file = open(target->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    target->named = file >= 0;
    return file;
}

static void remove_temporary(const core_target *target)
{
    if (target->named)
        unlink(target->temporary);
}

/* The temporary file, with the mode of the file that it will replace. */
static bool open_temporary(core_target *target)
{
    struct stat old;
    const bool replaces = stat(target->path, &old) == 0;
    if (replaces && !S_ISREG(old.st_mode)) {
        tern_fail_at(target->site, TERN_ERR_IO, target->what, "%s: not a regular file",
                     target->path);
        return false;
    }
    const int nameless = may_link(target) ? open_nameless(target) : -1;
    const int file = core_descriptor_lift(nameless >= 0 ? nameless : open_named(target));
    if (file < 0) {
        fail_target(target, "cannot write a file beside it");
        remove_temporary(target);
        return false;
    }
    if (replaces && fchmod(file, old.st_mode & 0777) != 0)
        fail_target(target, "cannot set the mode of the file beside it");
    target->stream = target->failed ? NULL : fdopen(file, "wb");
    if (!target->stream) {
        fail_target(target, "cannot open the file beside it");
        close(file);
        remove_temporary(target);
    }
    return target->stream != NULL;
}

bool core_target_open(tern_site_t site, const char *what, core_target *target, const char *path)
{
    *target = (core_target){ .site = site, .what = what };
    if (!path || !*path) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the path is %s", path ? "empty" : "NULL");
        return false;
    }
    target->path = resolve(target, path);
    target->temporary = target->path ? malloc(strlen(target->path) + TEMPORARY_BYTES) : NULL;
    if (target->temporary) {
        if (open_temporary(target))
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
    char *folder = folder_of(path);
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
    if (!target->failed && !target->named && !give_name(target))
        fail_target(target, "cannot put the new file in its place");
    if (fclose(target->stream) != 0)
        fail_target(target, "cannot write");
    if (!target->failed && rename(target->temporary, target->path) != 0)
        fail_target(target, "cannot put the new file in its place");
    if (target->failed)
        remove_temporary(target);
    else
        sync_folder(target->path);
    const bool fine = !target->failed;
    forget(target);
    return fine;
}

void core_target_abandon(core_target *target)
{
    fclose(target->stream);
    remove_temporary(target);
    forget(target);
}
