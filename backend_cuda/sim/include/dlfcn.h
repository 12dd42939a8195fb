/* The loader as the CUDA backend asks it: the simulated machine has libraries of its own (sim/library.c),
 * and none but these. */
#ifndef TERN_SIM_DLFCN_H
#define TERN_SIM_DLFCN_H

#pragma GCC system_header
#include_next <dlfcn.h>

#ifdef __cplusplus
extern "C" {
#endif

__attribute__((visibility("hidden"))) void *sim_dlopen(const char *file, int mode);
__attribute__((visibility("hidden"))) void *sim_dlsym(void *library, const char *name);
__attribute__((visibility("hidden"))) int sim_dlclose(void *library);
__attribute__((visibility("hidden"))) char *sim_dlerror(void);
__attribute__((visibility("hidden"))) int sim_dlinfo(void *library, int request, void *answer);

#define dlopen sim_dlopen
#define dlsym sim_dlsym
#define dlclose sim_dlclose
#define dlerror sim_dlerror
#define dlinfo sim_dlinfo

#ifdef __cplusplus
}
#endif
#endif
