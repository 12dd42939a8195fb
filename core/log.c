/* TERN_LOG and TERN_LOG_FILE are read once, at the first question; the file is opened at its first
 * event. Nothing is written anywhere unless a file or a callback was asked for. */
#include "core/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lock.h"

static atomic_bool environment_read;
static _Atomic int log_level = TERN_LOG_WARNING;
static atomic_bool has_listener;
static const char *file_path;
static const char *unknown_level; /* what TERN_LOG says, if that is no level; said once */
static FILE *file;
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

static void write_line(tern_log_level_t level, tern_site_t site, const char *text)
{
    const size_t length = strlen(text);
    fprintf(file, "tern %s: %s%s%s%s", level_names[level], site != NULL ? site : "",
            site != NULL ? ": " : "", text, length > 0 && text[length - 1] == '\n' ? "" : "\n");
    fflush(file);
}

static void open_file(void)
{
    if (file != NULL || file_path == NULL)
        return;
    file = fopen(file_path, "a");
    if (file == NULL) { /* there is nowhere to say so but a callback's own file */
        file_path = NULL;
        has_listener = callback != NULL;
    } else if (unknown_level != NULL) {
        char text[160];
        (void)snprintf(text, sizeof text,
                       "TERN_LOG=%.60s is none of off, error, warning, info, debug: warning holds",
                       unknown_level);
        write_line(TERN_LOG_WARNING, NULL, text);
    }
}

void core_log_text(tern_log_level_t level, tern_site_t site, const char *text)
{
    core_lock_take(CORE_LOCK_LOG);
    const tern_log_callback call = callback;
    void *user = callback_user;
    open_file();
    if (file != NULL)
        write_line(level, site, text);
    core_lock_end(CORE_LOCK_LOG);
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
