/* See backend_cuda/nvml.h. */
#include "backend_cuda/nvml.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "backend_cuda/library.h"
#include "backend_cuda/nvml_abi.h"

typedef struct nvml_calls {
    __typeof__(&nvmlInit_v2) init;
    __typeof__(&nvmlDeviceGetHandleByUUID) by_uuid;
    __typeof__(&nvmlDeviceGetUtilizationRates) utilization;
    __typeof__(&nvmlDeviceGetMemoryInfo) memory;
    __typeof__(&nvmlDeviceGetTemperature) temperature;
    __typeof__(&nvmlDeviceGetClockInfo) clock;
    __typeof__(&nvmlDeviceGetComputeRunningProcesses_v3) processes;
} nvml_calls;

static nvml_calls calls;
static const char *const files[] = { "libnvidia-ml.so.1", NULL };
static const char *const symbols[] = { "nvmlInit_v2",
                                       "nvmlDeviceGetHandleByUUID",
                                       "nvmlDeviceGetUtilizationRates",
                                       "nvmlDeviceGetMemoryInfo",
                                       "nvmlDeviceGetTemperature",
                                       "nvmlDeviceGetClockInfo",
                                       "nvmlDeviceGetComputeRunningProcesses_v3",
                                       NULL };
static cuda_library library = { .name = "NVML",
                                .files = files,
                                .symbols = symbols,
                                .functions = &calls,
                                .bytes = sizeof calls,
                                .without = "utilisation and processes of GPUs are not known, and "
                                           "tern_dev_best starts a context on each" };
static bool started;

static void start(void)
{
    started = cuda_library_open(&library) && calls.init() == NVML_SUCCESS;
}

/* By uuid: NVML counts devices that are hidden from this process, too. */
static bool find(const char *uuid, nvmlDevice_t *out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)cuda_library_open(&library); /* not in there: a callback of the log may ask again */
    (void)pthread_once(&once, start);
    return started && calls.by_uuid(uuid, out) == NVML_SUCCESS;
}

void cuda_nvml_describe(tern_backend_device *out)
{
    nvmlDevice_t device = NULL;
    nvmlUtilization_t utilization;
    unsigned int value = 0;
    out->utilization = out->memory_utilization = out->temperature = out->clock_mhz = -1;
    if (!find(out->uuid, &device))
        return;
    if (calls.utilization(device, &utilization) == NVML_SUCCESS) {
        out->utilization = (int32_t)utilization.gpu;
        out->memory_utilization = (int32_t)utilization.memory;
    }
    if (calls.temperature(device, NVML_TEMPERATURE_GPU, &value) == NVML_SUCCESS)
        out->temperature = (int32_t)value;
    if (calls.clock(device, NVML_CLOCK_SM, &value) == NVML_SUCCESS)
        out->clock_mhz = (int32_t)value;
}

bool cuda_nvml_memory(const char *uuid, int64_t *out_free, int64_t *out_total)
{
    nvmlDevice_t device = NULL;
    nvmlMemory_t memory;
    if (!find(uuid, &device) || calls.memory(device, &memory) != NVML_SUCCESS)
        return false;
    *out_free = (int64_t)memory.free;
    *out_total = (int64_t)memory.total;
    return true;
}

/* Of a device that a server shares out (MPS) there may be many; more may come while they are counted. */
static nvmlProcessInfo_t *all_processes(nvmlDevice_t device, unsigned int *out_count)
{
    enum { ROOM = 64, TRIES = 4 };
    unsigned int room = ROOM;
    for (int i = 0; i < TRIES; i++) {
        nvmlProcessInfo_t *infos = malloc(room * sizeof *infos);
        *out_count = room;
        const nvmlReturn_t code = infos != NULL ? calls.processes(device, out_count, infos)
                                                : NVML_ERROR_INSUFFICIENT_SIZE;
        if (code == NVML_SUCCESS)
            return infos;
        free(infos);
        if (infos == NULL || code != NVML_ERROR_INSUFFICIENT_SIZE)
            return NULL;
        room = *out_count + ROOM;
    }
    return NULL;
}

int cuda_nvml_processes(const char *uuid, tern_backend_process *out, int most)
{
    nvmlDevice_t device = NULL;
    unsigned int count = 0;
    nvmlProcessInfo_t *infos = find(uuid, &device) ? all_processes(device, &count) : NULL;
    if (infos == NULL)
        return -1;
    int kept = 0;
    for (unsigned int i = 0; i < count && kept < most; i++) {
        const unsigned long long bytes = infos[i].usedGpuMemory;
        out[kept++] =
            (tern_backend_process){ .pid = (int64_t)infos[i].pid,
                                    .bytes =
                                        bytes == NVML_VALUE_NOT_AVAILABLE ? -1 : (int64_t)bytes };
    }
    free(infos);
    return kept;
}
