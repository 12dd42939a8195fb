/* Opening backend plugins. A plugin stays open for the life of the process: kernels and device memory
 * may be in use until the very end. */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "core/backend.h"
#include "core/error.h"

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

tern_status_t tern_plugin_load_at(tern_site_t site, const char *path)
{
    if (path == NULL || strchr(path, '/') == NULL)
        return core_error(
            core_self(), site, TERN_ERR_ARGUMENT, "tern_plugin_load",
            "a path with a directory is needed, the working directory is not searched");
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *why = dlerror();
        return refuse(site, path, why != NULL ? why : "the loader refused it");
    }
    tern_backend_get_fn get;
    void *symbol = dlsym(handle, TERN_BACKEND_GET_NAME);
    memcpy(&get, &symbol, sizeof get);
    const char *why = "it exports no " TERN_BACKEND_GET_NAME;
    if (symbol != NULL && take_backend(get, &why))
        return TERN_OK;
    const tern_status_t code = refuse(site, path, why);
    (void)dlclose(handle);
    return code;
}
