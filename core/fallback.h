/* What happens when CUDA is asked for and there is none. */
#ifndef TERN_CORE_FALLBACK_H
#define TERN_CORE_FALLBACK_H

#include "core/thread.h"

/* A CUDA device was asked for and none is usable: true under `prefer` and `cpu` (said once per
 * process under `prefer`), false with an error under `require`. */
bool core_fall_back(tern_thread *self, tern_site_t site, const char *what);
/* Policy cpu or an empty CUDA_VISIBLE_DEVICES: CUDA devices are not shown even if a backend is there. */
bool core_cuda_disabled(void);
/* Looks for the CUDA backend once: the folders of TERN_PLUGIN_PATH, libtern's own, the installed one; never
 * the working directory. NULL, or why a plugin that was found cannot be used. */
const char *core_plugin_find_cuda(void);

#endif
