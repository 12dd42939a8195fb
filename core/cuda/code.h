/* Which devices a machine code is for. */
#ifndef TERN_CORE_CUDA_CODE_H
#define TERN_CORE_CUDA_CODE_H

#include <stdbool.h>

/* A Tegra (Jetson, Thor), by the capability that it shares with no card. */
static inline bool core_cuda_is_tegra(int capability)
{
    return capability == 53 || capability == 62 || capability == 72 || capability == 87 ||
           capability == 101 || capability == 110;
}

/* Does code for `code` (86) run on a device of `capability`? On those of its generation that are not older; not from
 * cards to Tegra nor back (CUDA C++ Programming Guide, "Binary Compatibility"). */
static inline bool core_cuda_code_runs(int code, int capability)
{
    const bool apart = core_cuda_is_tegra(code) || core_cuda_is_tegra(capability);
    return code == capability || (!apart && code / 10 == capability / 10 && code <= capability);
}

#endif
