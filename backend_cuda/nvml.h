/* What NVML tells of devices, opened at the first question. Nothing fails without it: it is not
 * known. */
#ifndef TERN_BACKEND_CUDA_NVML_H
#define TERN_BACKEND_CUDA_NVML_H

#include "tern/plugin.h"

/* Utilisation, temperature and clock of the device with out_device's uuid; -1 for what is not
 * known. */
void cuda_nvml_describe(tern_backend_device *out_device);
/* Bytes of the whole device; false: not known. */
bool cuda_nvml_memory(const char *uuid, int64_t *out_free, int64_t *out_total);
/* Processes that use the device, at most `most`; how many, -1: not known. */
int cuda_nvml_processes(const char *uuid, tern_backend_process *out, int most);

#endif
