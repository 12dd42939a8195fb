/* Reading at an offset; files that are replaced as a whole: core/target.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/errno_text.h"
#include "core/error.h"
#include "io/internal.h"

static const char what_read[] = "safetensors_open";

const char *io_called(const char *what)
{
    const char *calling = core_self()->calling;
    return calling != NULL ? calling : what;
}

/* ---- reading ---------------------------------------------------------------------------------- */

static bool fail_errno(tern_site_t site, const char *what, const char *path, const char *action)
{
    const int code = errno;
    char reason[CORE_ERRNO_TEXT];
    tern_fail_at(site, TERN_ERR_IO, io_called(what), "%s: %s: %s", path, action,
                 core_errno_text(code, reason));
    return false;
}

static bool open_regular(tern_site_t site, io_source *source, const char *path)
{
    struct stat info;
    /* not waiting for a writer if the path is a pipe, which is refused below */
    source->file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (source->file < 0 || fstat(source->file, &info) != 0)
        return fail_errno(site, what_read, path, "cannot open");
    if (!S_ISREG(info.st_mode)) {
        tern_fail_at(site, TERN_ERR_IO, io_called(what_read), "%s: not a regular file", path);
        return false;
    }
    source->bytes = info.st_size;
    return true;
}

bool io_source_open(tern_site_t site, io_source *source, const char *path)
{
    *source = (io_source){ .file = -1 };
    if (!path || !*path) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, io_called(what_read), "the path is %s",
                     path ? "empty" : "NULL");
        return false;
    }
    source->name = io_copy_text(site, what_read, path);
    if (source->name && open_regular(site, source, path))
        return true;
    io_source_close(source);
    return false;
}

bool io_source_read(tern_site_t site, const io_source *source, int64_t offset, void *out,
                    int64_t bytes)
{
    if (source->file < 0) {
        memcpy(out, source->data + offset, (size_t)bytes);
        return true;
    }
    char *at = out;
    while (bytes > 0) {
        const ssize_t got = pread(source->file, at, (size_t)bytes, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(site, what_read, source->name, "cannot read");
        if (got == 0) {
            tern_fail_at(site, TERN_ERR_IO, io_called(what_read),
                         "%s: %lld bytes are missing at its end", source->name, (long long)bytes);
            return false;
        }
        at += got;
        offset += got;
        bytes -= got;
    }
    return true;
}

void io_source_close(io_source *source)
{
    if (source->file >= 0)
        close(source->file);
    free(source->name);
    *source = (io_source){ .file = -1 };
}
