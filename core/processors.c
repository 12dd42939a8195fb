/* See core/processors.h. Control groups: version 2 has cpu.max ("max 100000", or microseconds in a period), version 1
 * cpu.cfs_quota_us (-1: no limit) and cpu.cfs_period_us. More threads than that much time run one after the
 * other's share: each period ends with all of them stopped, and those who wait for one of them stop as well. */
#include "core/processors.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/backend.h"
#include "tern/device.h"

int core_thread_count = 1;

int core_processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

/* ---- control groups ----------------------------------------------------------------------------- */

/* The first line of a file of a group; false: there is none. */
static bool read_line(const char *folder, const char *file, char line[64])
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path)
        return false;
    FILE *stream = fopen(path, "re");
    const bool has_line = stream != NULL && fgets(line, 64, stream) != NULL;
    if (stream != NULL)
        (void)fclose(stream);
    return has_line;
}

/* Of one group; 0: no limit. */
static double quota_of_group(const char *folder)
{
    char line[64], rest[64];
    long long quota = 0, period = 0;
    if (read_line(folder, "cpu.max", line)) {
        if (sscanf(line, "%lld %lld", &quota, &period) != 2)
            return 0;
    } else if (!read_line(folder, "cpu.cfs_quota_us", line) ||
               !read_line(folder, "cpu.cfs_period_us", rest) || sscanf(line, "%lld", &quota) != 1 ||
               sscanf(rest, "%lld", &period) != 1) {
        return 0;
    }
    return quota > 0 && period > 0 ? (double)quota / (double)period : 0;
}

static double least(double a, double b)
{
    return a > 0 && (b <= 0 || a < b) ? a : b;
}

/* The least of the group and of those above it, up to the mount. In a container whose groups are not in a namespace
 * of their own, the path is the host's, and the mount the container's group. */
static double quota_below(const char *mount, const char *path)
{
    char folder[PATH_MAX];
    double quota = 0;
    if (snprintf(folder, sizeof folder, "%s%s", mount, path) >= (int)sizeof folder)
        return quota_of_group(mount);
    for (char *end = folder + strlen(folder); end >= folder + strlen(mount); end--)
        if (*end == '\0' || *end == '/') {
            *end = '\0';
            quota = least(quota_of_group(folder), quota);
        }
    return quota;
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

/* Of a line "number:controllers:path". Version 2 has number 0 and no controllers. */
static double quota_of_line(char *line, const char *mounts)
{
    char mount[PATH_MAX];
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (path == NULL)
        return 0;
    *path++ = '\0';
    controllers++;
    if (*controllers == '\0')
        return quota_below(mounts, path);
    const int n = snprintf(mount, sizeof mount, "%s/cpu", mounts);
    return has_controller(controllers, "cpu") && n < (int)sizeof mount ? quota_below(mount, path)
                                                                       : 0;
}

double core_processor_quota_of(const char *membership, const char *mounts)
{
    FILE *stream = fopen(membership, "re");
    char line[PATH_MAX + 64];
    double quota = 0;
    while (stream != NULL && fgets(line, sizeof line, stream) != NULL)
        quota = least(quota_of_line(line, mounts), quota);
    if (stream != NULL)
        (void)fclose(stream);
    return quota;
}

double core_processor_quota(void)
{
    return core_processor_quota_of("/proc/self/cgroup", "/sys/fs/cgroup");
}

/* ---- threads ------------------------------------------------------------------------------------ */

/* As many as find a processor each all the time. */
static int default_threads(void)
{
    const int processors = core_processors();
    const double quota = processors > 1 ? core_processor_quota() : 0;
    if (quota <= 0 || quota >= processors)
        return processors;
    return quota < 2 ? 1 : (int)quota;
}

/* OMP_NUM_THREADS is honoured, as every OpenMP program's users expect. */
__attribute__((constructor)) static void set_first_thread_count(void)
{
    const char *wish = getenv("OMP_NUM_THREADS");
    const int asked = wish != NULL ? atoi(wish) : 0;
    core_thread_count = asked > 0 ? asked : default_threads();
}

void tern_set_num_threads(int threads)
{
    core_thread_count = threads > 0 ? threads : default_threads();
}

int tern_num_threads(void)
{
    return core_thread_count;
}
