/* Log events: a level test first, so that nothing formats when nobody listens. */
#ifndef TERN_CORE_LOG_H
#define TERN_CORE_LOG_H

#include <stdbool.h>

#include "tern/error.h"

/* Is there a file or a callback that takes this level? */
bool core_log_wants(tern_log_level_t level);
/* A warning in which stand texts of others (a variable of the environment, a path), shown as core_utf8_show does. */
void core_log_warn(const char *format, ...) TERN_PRINTF(1, 2);
void core_log_text(tern_log_level_t level, tern_site_t site, const char *text);

#endif
