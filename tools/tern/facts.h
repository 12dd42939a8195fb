/* Facts about devices, the CPU and the stack as JSON, and JSON as text for people. */
#ifndef TOOLS_TERN_FACTS_H
#define TOOLS_TERN_FACTS_H

#include <cjson/cJSON.h>

/* Each returns a new object; members that are not known are left out. */
cJSON *facts_cuda(void);    /* usable or why not, plugin, driver */
cJSON *facts_devices(void); /* an array: CUDA devices, others, the CPU */
cJSON *facts_system(void);
cJSON *facts_environment(void); /* variables that change what tern does */

/* Prints an object as aligned "key  value" lines, nested objects under their name. */
void facts_print(const cJSON *object, int indent);

#endif
