/* Opening libraries by name, once. */
#include "backend_cuda/library.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backend_cuda/cuda.h"
#include "tern/error.h"

typedef void (*any_function)(void);
enum { UNTRIED, OPEN, ABSENT };

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

static void add_reason(cuda_library *l, const char *file, const char *text)
{
    const size_t used = strlen(l->why);
    (void)snprintf(l->why + used, sizeof l->why - used, "%s%s: %s", used > 0 ? "; " : "", file,
                   text);
}

/* POSIX gives functions as pointers to data. */
static any_function find(const cuda_library *l, const char *symbol)
{
    void *address = dlsym(l->handle, symbol);
    any_function function = NULL;
    memcpy(&function, &address, sizeof function);
    return function;
}

static bool fill(cuda_library *l, const char *file)
{
    size_t n = 0;
    for (; l->symbols[n] != NULL; n++) {
        const any_function function = find(l, l->symbols[n]);
        if (function == NULL || (n + 1) * sizeof function > l->bytes) {
            char text[128];
            (void)snprintf(text, sizeof text, "it has no %s", l->symbols[n]);
            add_reason(l, file, text);
            return false;
        }
        memcpy((char *)l->functions + n * sizeof function, &function, sizeof function);
    }
    return true;
}

static void add_loaders_reason(cuda_library *l, const char *file)
{
    const char *said = dlerror();
    const char *text = said != NULL ? said : "it cannot be opened";
    const size_t length = strlen(file);
    /* the loader's text begins with the name */
    if (strncmp(text, file, length) == 0 && strncmp(text + length, ": ", 2) == 0)
        text += length + 2;
    add_reason(l, file, text);
}

/* By the loader's paths, or beside the library. It stays open. */
static bool open_part(cuda_library *l, const char *part)
{
    char folder[PATH_MAX], path[PATH_MAX];
    if (dlopen(part, RTLD_LAZY | RTLD_LOCAL) != NULL)
        return true;
    add_loaders_reason(l, part);
    return dlinfo(l->handle, RTLD_DI_ORIGIN, folder) == 0 &&
           snprintf(path, sizeof path, "%s/%s", folder, part) < (int)sizeof path &&
           dlopen(path, RTLD_LAZY | RTLD_LOCAL) != NULL;
}

static bool is_whole(cuda_library *l, const char *file)
{
    for (size_t i = 0; l->parts != NULL && l->parts[i] != NULL; i++)
        if (!open_part(l, l->parts[i]))
            return false;
    if (!fill(l, file))
        return false;
    const char *why = l->unfit != NULL ? l->unfit() : NULL;
    if (why != NULL)
        add_reason(l, file, why);
    return why == NULL;
}

static bool open_file(cuda_library *l, const char *file)
{
    l->handle = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
    if (l->handle == NULL) {
        add_loaders_reason(l, file);
        return false;
    }
    if (is_whole(l, file))
        return true;
    (void)dlclose(l->handle);
    l->handle = NULL;
    return false;
}

static int open_first(cuda_library *l)
{
    for (int i = 0; l->files[i] != NULL; i++)
        if (open_file(l, l->files[i])) {
            l->why[0] = '\0';
            return OPEN;
        }
    memset(l->functions, 0, l->bytes);
    return ABSENT;
}

bool cuda_library_open(cuda_library *l)
{
    int state = __atomic_load_n(&l->state, __ATOMIC_ACQUIRE);
    if (state == UNTRIED) {
        (void)pthread_mutex_lock(&opening);
        state = l->state;
        const bool first = state == UNTRIED;
        if (first) {
            state = open_first(l);
            __atomic_store_n(&l->state, state, __ATOMIC_RELEASE);
        }
        (void)pthread_mutex_unlock(&opening);
        /* without the lock: a callback of the log may multiply on a device */
        if (first && state == ABSENT && l->without != NULL)
            cuda_host->event(TERN_LOG_WARNING, "%s is not used, %s: %s", l->name, l->without,
                             l->why);
    }
    return state == OPEN;
}
