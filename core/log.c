/* TERN_LOG and TERN_LOG_FILE are read once, at the first question; the file is opened at its first
 * event. Nothing is written anywhere unless a file or a callback was asked for. The file is opened and
 * written without the lock, since both wait where it is a pipe that nobody reads. */
#include "core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/cuda/reason.h"
#include "core/descriptor.h"
#include "core/lock.h"

static atomic_bool environment_read;
static _Atomic int log_level = TERN_LOG_WARNING;
static atomic_bool has_listener;
static const char *file_path;
static const char *unknown_level; /* what TERN_LOG says, if that is no level; said once */
static _Atomic int file = -1;
static tern_log_callback callback;
static void *callback_user;

static const char *const level_names[] = { "", "off", "error", "warning", "info", "debug" };

static void read_environment(void)
{
    const char *level = getenv("TERN_LOG");
    unknown_level = level != NULL && level[0] != '\0' ? level : NULL;
    for (int i = TERN_LOG_OFF; level != NULL && i <= TERN_LOG_DEBUG; i++)
        if (strcmp(level, level_names[i]) == 0) {
            log_level = i;
            unknown_level = NULL;
        }
    file_path = getenv("TERN_LOG_FILE");
    if (file_path != NULL && file_path[0] != '\0')
        has_listener = true;
    else
        file_path = NULL;
}

static void know_environment(void)
{
    core_once(CORE_LOCK_LOG, &environment_read, read_environment);
}

bool core_log_wants(tern_log_level_t level)
{
    know_environment();
    return has_listener && (int)level <= log_level;
}

static struct iovec part_of(const char *text)
{
    return (struct iovec){ (void *)(uintptr_t)text, strlen(text) };
}

/* In one call, unless a signal or a full disk comes between: lines of several threads and processes do not
 * mix in a file, nor in a pipe where they have no more than PIPE_BUF bytes. */
static void write_parts(int fd, struct iovec *part, int count)
{
    while (count > 0) {
        const ssize_t written = writev(fd, part, count);
        if (written == 0 || (written < 0 && errno != EINTR))
            return;
        size_t left = written > 0 ? (size_t)written : 0;
        for (; count > 0 && left >= part->iov_len; part++, count--)
            left -= part->iov_len;
        if (count > 0)
            *part = (struct iovec){ (char *)part->iov_base + left, part->iov_len - left };
    }
}

static void write_line(int fd, tern_log_level_t level, tern_site_t site, const char *text)
{
    const size_t length = strlen(text);
    const bool ends = length > 0 && text[length - 1] == '\n';
    struct iovec parts[] = { part_of("tern "),
                             part_of(level_names[level]),
                             part_of(": "),
                             part_of(site != NULL ? site : ""),
                             part_of(site != NULL ? ": " : ""),
                             part_of(text),
                             part_of(ends ? "" : "\n") };
    write_parts(fd, parts, sizeof parts / sizeof *parts);
}

/* A file that is this process's own stderr or stdout ("/dev/stderr") is written at their place in it: opened anew it
 * would have a place of its own, and each would write over the other. */
static int open_path(const char *path)
{
    static const int outputs[] = { STDERR_FILENO, STDOUT_FILENO };
    struct stat named, own;
    const bool is_there = stat(path, &named) == 0;
    for (size_t i = 0; is_there && i < sizeof outputs / sizeof *outputs; i++)
        if (fstat(outputs[i], &own) == 0 && own.st_dev == named.st_dev &&
            own.st_ino == named.st_ino && (fcntl(outputs[i], F_GETFL) & O_ACCMODE) != O_RDONLY)
            return fcntl(outputs[i], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    return core_descriptor_lift(open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
}

/* TERN_LOG_FILE's, opened at the first call, of threads that come at once one's is taken; -1: there is
 * none, or it cannot be opened, and there is nowhere to say so but a callback's own file. */
static int opened_file(void)
{
    core_lock_take(CORE_LOCK_LOG);
    const char *path = file_path;
    core_lock_end(CORE_LOCK_LOG);
    if (file >= 0 || path == NULL)
        return file;
    const int fresh = open_path(path);
    core_lock_take(CORE_LOCK_LOG);
    const bool first = file < 0;
    if (first)
        file = fresh;
    if (file < 0) {
        file_path = NULL;
        has_listener = callback != NULL;
    }
    core_lock_end(CORE_LOCK_LOG);
    if (!first && fresh >= 0)
        (void)close(fresh);
    if (first && fresh >= 0 && unknown_level != NULL) {
        char text[CORE_REASON_BYTES];
        (void)snprintf(text, sizeof text,
                       "TERN_LOG=%.60s is none of off, error, warning, info, debug: warning holds",
                       unknown_level);
        core_reason_escape(text);
        write_line(fresh, TERN_LOG_WARNING, NULL, text);
    }
    return file;
}

void core_log_text(tern_log_level_t level, tern_site_t site, const char *text)
{
    core_lock_take(CORE_LOCK_LOG);
    const tern_log_callback call = callback;
    void *user = callback_user;
    core_lock_end(CORE_LOCK_LOG);
    const int fd = opened_file();
    if (fd >= 0)
        write_line(fd, level, site, text);
    if (call != NULL)
        call(level, site, text, user);
}

void tern_log_set_callback(tern_log_callback new_callback, void *user)
{
    know_environment();
    core_lock_take(CORE_LOCK_LOG);
    callback = new_callback;
    callback_user = user;
    has_listener = callback != NULL || file_path != NULL;
    core_lock_end(CORE_LOCK_LOG);
}

void tern_log_set_level(tern_log_level_t level)
{
    know_environment();
    if (level >= TERN_LOG_OFF && level <= TERN_LOG_DEBUG)
        log_level = (int)level;
}

void tern_log_write(tern_log_level_t level, tern_site_t site, const char *format, ...)
{
    if (level <= TERN_LOG_OFF || level > TERN_LOG_DEBUG || !core_log_wants(level))
        return;
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    core_log_text(level, site, text);
}

void core_log_warn(const char *format, ...)
{
    char text[CORE_REASON_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    core_reason_escape(text);
    tern_log_write(TERN_LOG_WARNING, NULL, "%s", text);
}
