/* How many processors this process may use: the default of tern_num_threads. */
#ifndef TERN_CORE_PROCESSORS_H
#define TERN_CORE_PROCESSORS_H

/* Those that it may run on, by its affinity; at least 1. */
int core_processors(void);

/* Processors' worth of time that its control group may take, as containers (docker --cpus, limits.cpu of Kubernetes)
 * and systemd (CPUQuota) set it: of the group's quota and those of the groups above the least. 0: no limit, or
 * none that can be read. */
double core_processor_quota(void);
/* The same by other files than the system's: `membership` for /proc/self/cgroup, `mounts` for /sys/fs/cgroup. */
double core_processor_quota_of(const char *membership, const char *mounts);

#endif
