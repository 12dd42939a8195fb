/* What the control groups of this process (cgroups 2 and 1) leave it, as containers, Kubernetes and systemd set it: of the
 * group and those above it the least. Read anew at each call, without memory of the C library, which may have
 * none when somebody asks. */
#ifndef TERN_CORE_CONTROL_GROUP_H
#define TERN_CORE_CONTROL_GROUP_H

#include <stdbool.h>
#include <stdint.h>

/* Processors' worth of time (docker --cpus, limits.cpu, CPUQuota). 0: no limit, or none that can be read. */
double core_group_quota(void);

/* Bytes of all processes of a group together (docker --memory, limits.memory, MemoryMax), and how many are not in use. A
 * process that goes beyond is killed. False: no limit. */
bool core_group_memory(int64_t *out_limit, int64_t *out_free);

/* The same by other files than the system's, for tests. */
typedef struct core_groups {
    const char *membership; /* /proc/self/cgroup */
    const char *mounts;     /* /sys/fs/cgroup */
} core_groups;
double core_group_quota_of(const core_groups *groups);
bool core_group_memory_of(const core_groups *groups, int64_t *out_limit, int64_t *out_free);

#endif
