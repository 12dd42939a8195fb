/* See core/control_group.h. */
#include "core/control_group.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const core_groups here = { "/proc/self/cgroup", "/sys/fs/cgroup" };

/* ---- files -------------------------------------------------------------------------------------- */

/* Up to `bytes` - 1 of them, and a 0. */
static bool read_file(const char *path, char *text, size_t bytes)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = -1;
    if (file >= 0) {
        length = read(file, text, bytes - 1);
        (void)close(file);
    }
    text[length > 0 ? length : 0] = '\0';
    return length > 0;
}

static bool read_below(const char *folder, const char *name, char *text, size_t bytes)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path &&
           read_file(path, text, bytes);
}

/* A file that is one number; false for "max", too. */
static bool read_number(const char *folder, const char *name, int64_t *out_number)
{
    char text[64], *end;
    if (!read_below(folder, name, text, sizeof text))
        return false;
    *out_number = strtoll(text, &end, 10);
    return end != text;
}

/* ---- groups ------------------------------------------------------------------------------------- */

typedef void look(const char *folder, void *user);

/* The group and those above it, up to the mount. In a container whose groups are not in a namespace of their own, the
 * path is the host's, and the mount the container's group. */
static void look_below(const char *mount, const char *path, look *at, void *user)
{
    char folder[PATH_MAX];
    if (snprintf(folder, sizeof folder, "%s%s", mount, path) >= (int)sizeof folder) {
        at(mount, user);
        return;
    }
    for (char *end = folder + strlen(folder); end >= folder + strlen(mount); end--)
        if (*end == '\0' || *end == '/') {
            *end = '\0';
            at(folder, user);
        }
}

static bool has_controller(const char *controllers, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = controllers; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    }
    return false;
}

/* A line "number:controllers:path". Version 2 has number 0 and no controllers. */
static void look_by_line(char *line, const char *mounts, const char *controller, look *at,
                         void *user)
{
    char mount[PATH_MAX];
    char *controllers = strchr(line, ':');
    char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (path == NULL)
        return;
    *path++ = '\0';
    controllers++;
    if (*controllers == '\0')
        look_below(mounts, path, at, user);
    else if (has_controller(controllers, controller) &&
             snprintf(mount, sizeof mount, "%s/%s", mounts, controller) < (int)sizeof mount)
        look_below(mount, path, at, user);
}

static void look_at_groups(const core_groups *groups, const char *controller, look *at, void *user)
{
    char text[2 * PATH_MAX], *rest = text;
    if (!read_file(groups->membership, text, sizeof text))
        return;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;)
        look_by_line(line, groups->mounts, controller, at, user);
}

/* ---- processors' time --------------------------------------------------------------------------- */

/* Version 2: cpu.max, "max 100000" or microseconds in a period. Version 1: two files; -1 is no limit. */
static void look_at_quota(const char *folder, void *user)
{
    double *least = user;
    char text[64], *end;
    int64_t quota, period;
    if (read_below(folder, "cpu.max", text, sizeof text)) {
        quota = strtoll(text, &end, 10);
        period = strtoll(end, NULL, 10);
    } else if (!read_number(folder, "cpu.cfs_quota_us", &quota) ||
               !read_number(folder, "cpu.cfs_period_us", &period)) {
        return;
    }
    if (quota <= 0 || period <= 0)
        return;
    const double processors = (double)quota / (double)period;
    if (*least <= 0 || processors < *least)
        *least = processors;
}

double core_group_quota_of(const core_groups *groups)
{
    double least = 0;
    look_at_groups(groups, "cpu", look_at_quota, &least);
    return least;
}

double core_group_quota(void)
{
    return core_group_quota_of(&here);
}

/* ---- memory ------------------------------------------------------------------------------------- */

typedef struct memory {
    int64_t limit, free;
} memory;

/* Files' pages that nobody has used lately are given up for memory. */
static int64_t idle_bytes(const char *folder, const char *key)
{
    char text[2 * PATH_MAX];
    const char *at =
        read_below(folder, "memory.stat", text, sizeof text) ? strstr(text, key) : NULL;
    return at != NULL ? strtoll(at + strlen(key), NULL, 10) : 0;
}

static void look_at_memory(const char *folder, void *user)
{
    memory *least = user;
    int64_t limit, used, idle;
    if (read_number(folder, "memory.max", &limit) && read_number(folder, "memory.current", &used))
        idle = idle_bytes(folder, "\ninactive_file ");
    else if (read_number(folder, "memory.limit_in_bytes", &limit) &&
             read_number(folder, "memory.usage_in_bytes", &used))
        idle = idle_bytes(folder, "\ntotal_inactive_file ");
    else
        return;
    if (limit <= 0 || limit >= INT64_MAX / 2) /* version 1's word for none is the last page */
        return;
    used -= idle < used ? idle : used;
    const int64_t free = used < limit ? limit - used : 0;
    least->limit = limit < least->limit ? limit : least->limit;
    least->free = free < least->free ? free : least->free;
}

bool core_group_memory_of(const core_groups *groups, int64_t *out_limit, int64_t *out_free)
{
    memory least = { INT64_MAX, INT64_MAX };
    look_at_groups(groups, "memory", look_at_memory, &least);
    *out_limit = least.limit;
    *out_free = least.free;
    return least.limit < INT64_MAX;
}

bool core_group_memory(int64_t *out_limit, int64_t *out_free)
{
    return core_group_memory_of(&here, out_limit, out_free);
}
