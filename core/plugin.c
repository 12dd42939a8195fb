/* Opening backend plugins. A plugin stays open for the life of the process: kernels and device memory
 * may be in use until the very end. */
#include "core/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/backend.h"
#include "core/cuda/cuda.h"
#include "core/error.h"
#include "core/lock.h"
#include "core/rnn.h"

static void say(char why[CORE_PLUGIN_WHY], const char *text)
{
    (void)snprintf(why, CORE_PLUGIN_WHY, "%s", text);
}

bool core_plugin_open(const char *path, core_plugin *out_plugin, char why[CORE_PLUGIN_WHY])
{
    *out_plugin =
        (core_plugin){ .handle = core_plugin_file_open(path, RTLD_NOW | RTLD_LOCAL, why) };
    if (out_plugin->handle == NULL)
        return false;
    void *get = dlsym(out_plugin->handle, TERN_BACKEND_GET_NAME);
    memcpy(&out_plugin->get, &get, sizeof get);
    if (get == NULL) {
        say(why, "it exports no " TERN_BACKEND_GET_NAME);
        core_plugin_close(out_plugin);
        return false;
    }
    tern_backend_needs_fn needs;
    void *symbol = dlsym(out_plugin->handle, TERN_BACKEND_NEEDS_NAME);
    memcpy(&needs, &symbol, sizeof needs);
    const tern_backend_needs *said = needs != NULL ? needs() : NULL;
    if (said != NULL && said->size >= sizeof *said)
        out_plugin->needs = said;
    return true;
}

/* One at a time, the plugin's own start included, which may write its table anew. The kind of its
 * devices, 0: none. */
static int take_backend(tern_backend_get_fn get, const char **out_why)
{
    if (core_lock_mine(CORE_LOCK_PLUGIN)) { /* a callback of the log asks for it */
        *out_why = "this thread is starting another plugin";
        return 0;
    }
    *out_why = "it brings no backend for this version";
    core_lock_take(CORE_LOCK_PLUGIN);
    core_cuda_starting(true);
    const tern_backend *backend = get(&core_host, TERN_PLUGIN_VERSION, out_why);
    if (*out_why == NULL)
        *out_why = "it does not say why it brings no backend";
    if (backend != NULL && core_backend_register(backend, out_why) != TERN_OK)
        backend = NULL;
    const int kind = backend != NULL ? backend->kind : 0;
    if (kind == TERN_KIND_CUDA)
        core_cuda_started();
    core_cuda_starting(false);
    core_lock_end(CORE_LOCK_PLUGIN);
    return kind;
}

/* What it exports beside its backend. */
static void take_library(const core_plugin *plugin, int kind)
{
    tern_backend_rnn_fn get;
    void *symbol = dlsym(plugin->handle, TERN_BACKEND_RNN_NAME);
    memcpy(&get, &symbol, sizeof get);
    if (get != NULL)
        core_rnn_register(kind, get());
}

bool core_plugin_start(core_plugin *plugin, char why[CORE_PLUGIN_WHY])
{
    const char *words;
    const int kind = take_backend(plugin->get, &words);
    if (kind != 0) {
        take_library(plugin, kind);
        return true;
    }
    say(why, words);
    core_plugin_close(plugin);
    return false;
}

void core_plugin_close(core_plugin *plugin)
{
    (void)dlclose(plugin->handle);
    *plugin = (core_plugin){ 0 };
}

tern_status_t tern_plugin_load_at(tern_site_t site, const char *path)
{
    if (path == NULL || strchr(path, '/') == NULL)
        return core_error(
            core_self(), site, TERN_ERR_ARGUMENT, "tern_plugin_load",
            "a path with a directory is needed, the working directory is not searched");
    core_plugin plugin;
    char why[CORE_PLUGIN_WHY];
    if (core_plugin_open(path, &plugin, why) && core_plugin_start(&plugin, why))
        return TERN_OK;
    return core_error(core_self(), site, TERN_ERR_BACKEND, "tern_plugin_load", "%s: %s", path, why);
}

/* ---- the search --------------------------------------------------------------------------------- */

typedef struct search {
    const char *file;
    bool (*visit)(const char *path, void *user);
    void (*missing)(const char *folder, const char *why, void *user);
    void *user;
} search;

/* Why access gives `error` for the file; `text` holds the system's words. */
static const char *why_missing(const char *path, int error, char text[128])
{
    struct stat status;
    if (error == ENOENT && lstat(path, &status) == 0)
        return "has a link to nothing of that name";
    if (error == ENOTDIR)
        return "is no folder";
    if (error == ENOENT)
        return "has no such file";
    (void)snprintf(text, 128, "cannot be looked into: %s", strerror(error));
    return text;
}

static bool try_folder(const search *s, const char *folder, size_t length)
{
    char path[CORE_PLUGIN_PATH];
    if (length == 0)
        return false;
    const int n = snprintf(path, sizeof path, "%.*s/%s", (int)length, folder, s->file);
    if (n < 0 || n >= (int)sizeof path)
        return false;
    const bool is_absolute = folder[0] == '/';
    if (is_absolute && access(path, F_OK) == 0)
        return s->visit(path, s->user);
    char text[128];
    const char *why =
        is_absolute ? why_missing(path, errno, text) : "relative folders are not searched";
    path[length] = '\0';
    if (s->missing != NULL)
        s->missing(path, why, s->user);
    return false;
}

static bool try_beside_this_code(const search *s)
{
    static const char here = 0;
    Dl_info info;
    if (dladdr(&here, &info) == 0 || info.dli_fname == NULL)
        return false;
    char *real = realpath(info.dli_fname, NULL);
    const char *slash = real != NULL ? strrchr(real, '/') : NULL;
    const bool found = slash != NULL && try_folder(s, real, (size_t)(slash - real));
    free(real);
    return found;
}

bool core_plugin_search(const char *file, bool (*visit)(const char *path, void *user),
                        void (*missing)(const char *folder, const char *why, void *user),
                        void *user)
{
    const search s = { file, visit, missing, user };
    for (const char *at = getenv("TERN_PLUGIN_PATH"); at != NULL && *at != '\0';) {
        const size_t length = strcspn(at, ":");
        if (try_folder(&s, at, length))
            return true;
        at += length + (at[length] == ':');
    }
    return try_beside_this_code(&s) ||
           try_folder(&s, TERN_INSTALL_LIBDIR, strlen(TERN_INSTALL_LIBDIR));
}
