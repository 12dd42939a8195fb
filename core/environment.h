/* Variables of the environment whose values are words of a list. */
#ifndef TERN_CORE_ENVIRONMENT_H
#define TERN_CORE_ENVIRONMENT_H

/* Logs a warning for each whose value is none of its words: who reads it takes that for "not set" and has,
 * as the CPU's kernels, no log to say so. At the first memory of the CPU or of a device, whichever is first; later calls do
 * nothing. Without a lock. */
void core_environment_complain(void);

#endif
