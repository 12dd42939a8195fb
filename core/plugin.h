/* Plugins: where they are looked for, how they are opened. */
#ifndef TERN_CORE_PLUGIN_H
#define TERN_CORE_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

#include "tern/plugin.h"

enum { CORE_PLUGIN_WHY = 512, CORE_PLUGIN_PATH = 1024, CORE_PLUGIN_MACHINE = 32 };

typedef struct core_plugin {
    void *handle;
    tern_backend_get_fn get;
    const tern_backend_needs *needs; /* or NULL */
} core_plugin;

/* dlopen of a path by its `mode`, or NULL with the loader's own words; a file that is cut, of another
 * machine, or a pipe, is not mapped. (plugin_file.c) */
void *core_plugin_file_open(const char *path, int mode, char why[CORE_PLUGIN_WHY]);
/* Whether a library was made for another machine than this process, and for which ("aarch64"): the loader says "No such
 * file" of it. */
bool core_plugin_file_is_foreign(const char *path, char machine[CORE_PLUGIN_MACHINE]);
/* Loads the file; false with the loader's own words. */
bool core_plugin_open(const char *path, core_plugin *out_plugin, char why[CORE_PLUGIN_WHY]);
/* Asks for its backend and registers it: from here on it stays open for the life of the process. On
 * failure it is closed. */
bool core_plugin_start(core_plugin *plugin, char why[CORE_PLUGIN_WHY]);
void core_plugin_close(core_plugin *plugin);

/* Calls `visit` with each existing path of `file` until it returns true: the folders in
 * TERN_PLUGIN_PATH, the folder of this code, the install folder. Relative folders are not searched.
 * Where the file cannot be seen, or the folder is relative, `missing` is called with why, if it is not NULL. */
bool core_plugin_search(const char *file, bool (*visit)(const char *path, void *user),
                        void (*missing)(const char *folder, const char *why, void *user),
                        void *user);

#endif
