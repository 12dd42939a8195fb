/* Whose an address of a device is: for messages about pointers that went wrong. */
#ifndef TERN_CORE_OWNER_H
#define TERN_CORE_OWNER_H

#include "tern/plugin.h"

/* tern_host.owner_of. May be called in a signal handler: takes no lock for long and no memory. While
 * other threads make tensors the answer may be an older one, or none. */
bool core_owner_of(tern_dev_t dev, const void *address, tern_owner *out_owner);

#endif
