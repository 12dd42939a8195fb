/* The calls of NVML that the backend makes: this process with what it holds of a device, those that
 * TERN_SIM_PROCESSES names, and constants for what a simulated device has none of. */
#include "backend_cuda/nvml_abi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend_cuda/sim/sim.h"

enum { MOST_OTHERS = 128, TEMPERATURE = 20, CLOCK = 1000 };

struct nvmlDevice_st {
    int index;
};
static struct nvmlDevice_st devices[SIM_DEVICES];

static struct other {
    unsigned int pid;
    unsigned long long bytes;
} others[MOST_OTHERS];
static int other_count;

/* "4242:1048576,4243:1" */
bool sim_nvml_set_processes(const char *text)
{
    other_count = 0;
    while (*text != '\0') {
        struct other o;
        int length = 0;
        if (other_count == MOST_OTHERS || sscanf(text, "%u:%llu%n", &o.pid, &o.bytes, &length) != 2)
            return false;
        others[other_count++] = o;
        text += length + (text[length] == ',');
    }
    return true;
}

static nvmlReturn_t begin(const char *call)
{
    return (nvmlReturn_t)sim_begin(call);
}

static nvmlReturn_t end(nvmlReturn_t code)
{
    (void)sim_end(cudaSuccess);
    return code;
}

nvmlReturn_t nvmlInit_v2(void)
{
    return end(begin("nvmlInit_v2"));
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    nvmlReturn_t code = begin("nvmlDeviceGetHandleByUUID");
    if (code == NVML_SUCCESS)
        code = NVML_ERROR_NOT_FOUND;
    for (int i = 0; i < sim_config.devices && code == NVML_ERROR_NOT_FOUND; i++) {
        char text[48];
        sim_uuid_text(sim_config.number[i], text, sizeof text);
        if (strcmp(text, uuid) == 0) {
            devices[i].index = i;
            *device = &devices[i];
            code = NVML_SUCCESS;
        }
    }
    return end(code);
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    const nvmlReturn_t code = begin("nvmlDeviceGetUtilizationRates");
    (void)device;
    if (code == NVML_SUCCESS)
        *utilization = (nvmlUtilization_t){ 0, 0 };
    return end(code);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    const nvmlReturn_t code = begin("nvmlDeviceGetMemoryInfo");
    if (code == NVML_SUCCESS) {
        memory->total = (unsigned long long)sim_config.memory;
        memory->used = (unsigned long long)sim_memory_used(device->index);
        memory->free = memory->total - memory->used;
    }
    return end(code);
}

static nvmlReturn_t constant(const char *call, unsigned int *out, unsigned int value)
{
    const nvmlReturn_t code = begin(call);
    if (code == NVML_SUCCESS)
        *out = value;
    return end(code);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned int *degrees)
{
    (void)device;
    return sensor == NVML_TEMPERATURE_GPU
               ? constant("nvmlDeviceGetTemperature", degrees, TEMPERATURE)
               : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int type, unsigned int *mhz)
{
    (void)device;
    return type == NVML_CLOCK_SM ? constant("nvmlDeviceGetClockInfo", mhz, CLOCK)
                                 : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                     nvmlProcessInfo_t *infos)
{
    nvmlReturn_t code = begin("nvmlDeviceGetComputeRunningProcesses_v3");
    const unsigned int wanted = 1u + (unsigned)other_count;
    if (code == NVML_SUCCESS && *count < wanted)
        code = NVML_ERROR_INSUFFICIENT_SIZE;
    if (code == NVML_SUCCESS) {
        memset(infos, 0, wanted * sizeof *infos);
        infos[0].pid = (unsigned)getpid();
        infos[0].usedGpuMemory = (unsigned long long)sim_memory_used(device->index);
        for (int i = 0; i < other_count; i++) {
            infos[i + 1].pid = others[i].pid;
            infos[i + 1].usedGpuMemory = others[i].bytes;
        }
    }
    *count = wanted;
    return end(code);
}

#define FUNCTION(name)              \
    {                               \
#name, (void (*)(void))name \
    }
const sim_function sim_nvml_functions[] = { FUNCTION(nvmlInit_v2),
                                            FUNCTION(nvmlDeviceGetHandleByUUID),
                                            FUNCTION(nvmlDeviceGetUtilizationRates),
                                            FUNCTION(nvmlDeviceGetMemoryInfo),
                                            FUNCTION(nvmlDeviceGetTemperature),
                                            FUNCTION(nvmlDeviceGetClockInfo),
                                            FUNCTION(nvmlDeviceGetComputeRunningProcesses_v3),
                                            { NULL, NULL } };
