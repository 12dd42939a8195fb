/* How many processors this process may run on. */
#ifndef TERN_CORE_PROCESSORS_H
#define TERN_CORE_PROCESSORS_H

/* By its affinity; at least 1. The default of tern_num_threads is no more than this and the quota of
 * core/control_group.h. */
int core_processors(void);

#endif
