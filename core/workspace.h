/* Work memory of libraries on a device: one piece per stream, kept between calls. */
#ifndef TERN_CORE_WORKSPACE_H
#define TERN_CORE_WORKSPACE_H

#include "tern/plugin.h"

/* At least `bytes` for work on the call's stream, from the device's allocator and counted there, the
 * same at each call. What was smaller is given back first. NULL: no memory, recorded. */
void *core_workspace(const tern_call *call, int64_t bytes);

#endif
