#define _GNU_SOURCE
#include "tests/support/simulator.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static int find_plugin(struct dl_phdr_info *info, size_t size, void *out_path)
{
    (void)size;
    if (strstr(info->dlpi_name, "/libtern_sim.so") == NULL)
        return 0;
    *(const char **)out_path = info->dlpi_name;
    return 1;
}

static void *plugin(void)
{
    const char *path = NULL;
    (void)dl_iterate_phdr(find_plugin, &path);
    return path != NULL ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
}

bool simulator_is_loaded(void)
{
    return plugin() != NULL;
}

/* A test without its simulator is a mistake in the test. */
static void *find(const char *name)
{
    void *handle = plugin();
    void *function = handle != NULL ? dlsym(handle, name) : NULL;
    if (function == NULL)
        abort();
    return function;
}

void simulator_set(const char *name, const char *value)
{
    int (*set)(const char *, const char *);
    *(void **)&set = find("sim_set");
    if (set(name, value) != 0)
        abort();
}

int64_t simulator_calls(void)
{
    int64_t (*count)(void);
    *(void **)&count = find("sim_call_count");
    return count();
}

int64_t simulator_compares(void)
{
    int64_t (*count)(void);
    *(void **)&count = find("sim_compare_count");
    return count();
}

void simulator_watch_fences(void (*look)(void *compared))
{
    void (*watch)(void (*)(void *));
    *(void **)&watch = find("sim_watch_fences");
    watch(look);
}

const char *simulator_report(void)
{
    const char *(*report)(void);
    *(void **)&report = find("sim_last_report");
    return report();
}
