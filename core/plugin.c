/* Opening backend plugins. A plugin stays open for the life of the process: kernels and device memory
 * may be in use until the very end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/backend.h"
#include "core/error.h"
#include "core/fallback.h"

static tern_status_t refuse(tern_site_t site, const char *path, const char *why)
{
    return core_error(core_self(), site, TERN_ERR_BACKEND, "tern_plugin_load", "%s: %s", path, why);
}

/* One at a time, the plugin's own start included. */
static bool take_backend(tern_backend_get_fn get, const char **out_why)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    *out_why = "it brings no backend for this version";
    (void)pthread_mutex_lock(&lock);
    const tern_backend *backend = get(&core_host, TERN_PLUGIN_VERSION, out_why);
    const bool taken = backend != NULL && core_backend_register(backend, out_why) == TERN_OK;
    (void)pthread_mutex_unlock(&lock);
    return taken;
}

/* Opens a plugin and registers its backend. Else *out_why, which may be a text in the plugin: it stays
 * as long as *out_handle is open (NULL where nothing is). */
static bool open_plugin(const char *path, void **out_handle, const char **out_why)
{
    *out_handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (*out_handle == NULL) {
        const char *why = dlerror();
        *out_why = why != NULL ? why : "the loader refused it";
        return false;
    }
    tern_backend_get_fn get;
    void *symbol = dlsym(*out_handle, TERN_BACKEND_GET_NAME);
    memcpy(&get, &symbol, sizeof get);
    *out_why = "it exports no " TERN_BACKEND_GET_NAME;
    return symbol != NULL && take_backend(get, out_why);
}

tern_status_t tern_plugin_load_at(tern_site_t site, const char *path)
{
    if (path == NULL || strchr(path, '/') == NULL)
        return core_error(
            core_self(), site, TERN_ERR_ARGUMENT, "tern_plugin_load",
            "a path with a directory is needed, the working directory is not searched");
    const char *why = NULL;
    void *handle = NULL;
    if (open_plugin(path, &handle, &why))
        return TERN_OK;
    const tern_status_t code = refuse(site, path, why);
    if (handle != NULL)
        (void)dlclose(handle);
    return code;
}

/* ---- the CUDA backend, looked for when a CUDA device is first asked for --------------------------- */

static pthread_once_t cuda_once = PTHREAD_ONCE_INIT;
static char cuda_why[512];

/* Simulated devices replace real ones, and are there only when they are asked for. */
static const char *cuda_file(void)
{
    const char *simulated = getenv("TERN_SIM_DEVICES");
    return simulated != NULL && atoi(simulated) > 0 ? "libtern_sim.so" : "libtern_cuda.so";
}

/* True when the file is there: then it decides, whether it can be used or not. */
static bool try_folder(const char *folder, size_t length, const char *file)
{
    char path[1024];
    const char *why = NULL;
    void *handle = NULL;
    const int n = snprintf(path, sizeof path, "%.*s/%s", (int)length, folder, file);
    if (length == 0 || n < 0 || (size_t)n >= sizeof path || access(path, R_OK) != 0)
        return false;
    if (!open_plugin(path, &handle, &why))
        (void)snprintf(cuda_why, sizeof cuda_why, "%s: %s", file, why);
    return true;
}

static bool try_list(const char *list, const char *file)
{
    for (; list != NULL && *list != '\0'; list += *list == ':') {
        const size_t length = strcspn(list, ":");
        if (try_folder(list, length, file))
            return true;
        list += length;
    }
    return false;
}

static bool try_own_folder(const char *file)
{
    Dl_info self;
    if (dladdr((void *)(uintptr_t)core_plugin_find_cuda, &self) == 0 || self.dli_fname == NULL)
        return false;
    const char *slash = strrchr(self.dli_fname, '/');
    return slash != NULL && try_folder(self.dli_fname, (size_t)(slash - self.dli_fname), file);
}

static void find_cuda(void)
{
    const char *file = cuda_file();
    if (core_backend_of(TERN_KIND_CUDA) != NULL || try_list(getenv("TERN_PLUGIN_PATH"), file) ||
        try_own_folder(file) || try_list(TERN_INSTALL_LIBDIR, file))
        return;
    if (strcmp(file, "libtern_sim.so") == 0)
        (void)snprintf(cuda_why, sizeof cuda_why,
                       "TERN_SIM_DEVICES asks for simulated devices, and this build has none "
                       "(libtern_sim.so)");
}

const char *core_plugin_find_cuda(void)
{
    (void)pthread_once(&cuda_once, find_cuda);
    return cuda_why[0] != '\0' ? cuda_why : NULL;
}
