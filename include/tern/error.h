/* Errors, log and warnings.
 *
 * A thread keeps its first failure until tern_error_clear(): code, text, site. While one is pending
 * every op returns NULL without running, numbers read as NaN, loaders end, and nothing is half
 * updated. The library never aborts or exits, and prints nothing but what it is asked to (tern_print,
 * tern_finish's report, a loader's progress) and the one line of a device fallback. */
#ifndef TERN_ERROR_H
#define TERN_ERROR_H

#include "tern/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* True while the calling thread has a pending error. */
TERN_API bool tern_failed(void);
/* The code of the pending error; TERN_OK without one. */
TERN_API tern_status_t tern_error_code(void);
/* The whole text of the pending error, ending in a newline, "" without one; lives until the thread's
 * next error or clear. First line "site: op: what" ("site: op: in inner: what" where an op is made of others);
 * then a line per operand, by its parameter's name; what to try; and, of what fails in a backward, the line that began it. */
TERN_API const char *tern_error_text(void);
/* The site of the call that failed ("file:line"), in a backward the forward call's; NULL without an error. */
TERN_API tern_site_t tern_error_site(void);
/* The calling thread has no error any more; later calls run again. */
TERN_API void tern_error_clear(void);

/* Records an error for the calling thread unless one is pending, and returns `code` (or the code
 * that is pending). For layers, readers and ops written outside the library. `what` names the op. */
TERN_API tern_status_t tern_fail_at(tern_site_t site, tern_status_t code, const char *what,
                                    const char *format, ...) TERN_PRINTF(4, 5);
#define tern_fail(code, what, ...) tern_fail_at(TERN_HERE, code, what, __VA_ARGS__)

/* Library calls made between begin and end inherit the outermost site. `begin` returns what `end`
 * wants back. Layers written on the public API use the pair so that errors name their caller. */
TERN_API tern_site_t tern_site_begin(tern_site_t site);
TERN_API void tern_site_end(tern_site_t previous);
/* The same for the name: errors say "name: in what: ..." of what fails inside. The text must live until its
 * end; the outermost holds. */
TERN_API const char *tern_calling_begin(const char *name);
TERN_API void tern_calling_end(const char *previous);
/* The site that errors would name now, or `fallback` when no outer call is open. */
TERN_API tern_site_t tern_site_current(tern_site_t fallback);

/* Path of the module that runs, as errors print it: push adds ".name", pop takes it off. The name must
 * live until its pop. */
TERN_API void tern_path_push(const char *name);
TERN_API void tern_path_pop(void);

/* ---- log --------------------------------------------------------------------------------------
 * TERN_LOG=off|error|warning|info|debug sets the level (default warning), TERN_LOG_FILE the file.
 * Without a file nothing is written anywhere: events go to the callback alone. */
typedef enum tern_log_level {
    TERN_LOG_OFF = 1,
    TERN_LOG_ERROR,
    TERN_LOG_WARNING,
    TERN_LOG_INFO,
    TERN_LOG_DEBUG
} tern_log_level_t;

typedef void (*tern_log_callback)(tern_log_level_t level, tern_site_t site, const char *text,
                                  void *user);
/* Called for each event at or under the level, by the thread that has it. NULL removes it. An error that a callback
 * clears is pending again when it returns, as the call that failed goes on behind it. */
TERN_API void tern_log_set_callback(tern_log_callback callback, void *user);
/* Process-wide, in place of TERN_LOG. */
TERN_API void tern_log_set_level(tern_log_level_t level);
/* An event of the program's own, formatted only when somebody listens. */
TERN_API void tern_log_write(tern_log_level_t level, tern_site_t site, const char *format, ...)
    TERN_PRINTF(3, 4);

#ifdef __cplusplus
}
#endif
#endif
