/* Devices, the calling thread's state, errors and reports. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend_cuda/sim/sim.h"

enum { TEXT_BYTES = 1024 };

sim_device sim_devices[SIM_DEVICES];
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static _Thread_local int current;
static _Thread_local cudaError_t last_error;

static char report_text[TEXT_BYTES];
static cudaError_t report_code;
static int64_t calls;
static bool is_used, is_forked;

/* ---- reports --------------------------------------------------------------------------------- */

void sim_report(cudaError_t code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(report_text, sizeof report_text, format, arguments);
    va_end(arguments);
    report_code = code;
}

const char *sim_last_report(void)
{
    return report_text;
}

const char *cudaGetErrorName(cudaError_t error)
{
    switch (error) {
#define X(name, value, text) \
    case name:               \
        return #name;
        SIM_ERRORS(X)
#undef X
    }
    return "unrecognized error code";
}

static const char *plain_text(cudaError_t error)
{
    switch (error) {
#define X(name, value, text) \
    case name:               \
        return text;
        SIM_ERRORS(X)
#undef X
    }
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    static _Thread_local char explained[TEXT_BYTES + 128];
    if (error == cudaSuccess || error != report_code || report_text[0] == '\0')
        return plain_text(error);
    (void)snprintf(explained, sizeof explained, "%s: %s", plain_text(error), report_text);
    return explained;
}

/* ---- forks ----------------------------------------------------------------------------------- */

/* As the driver's, its state follows no fork. The lock may be another thread's, which is not there. */
static void in_child(void)
{
    const pthread_mutex_t fresh = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    memcpy(&lock, &fresh, sizeof lock);
    is_forked = is_forked || is_used;
    if (is_forked)
        sim_memory_leave();
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, in_child);
}

/* ---- entering and leaving -------------------------------------------------------------------- */

cudaError_t sim_begin(const char *call)
{
    (void)pthread_mutex_lock(&lock);
    if (calls++ == 0)
        sim_owner_listen();
    is_used = true;
    sim_settings_load();
    if (is_forked) {
        sim_report(cudaErrorInitializationError,
                   "this process was forked from one that had used simulated devices");
        return cudaErrorInitializationError;
    }
    return sim_fault(call);
}

cudaError_t sim_begin_device(const char *call)
{
    const cudaError_t injected = sim_begin(call);
    if (injected != cudaSuccess)
        return injected;
    if (sim_config.devices == 0)
        return cudaErrorNoDevice;
    sim_signals_install();
    return sim_devices[current].lost;
}

cudaError_t sim_end(cudaError_t code)
{
    if (code != cudaSuccess && code != cudaErrorNotReady)
        last_error = code;
    (void)pthread_mutex_unlock(&lock);
    return code;
}

int sim_current_device(void)
{
    return current;
}

/* As the runtime: what its own calls returned to this thread. A fault that a library's runtime was told of is not
 * among it. */
cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

/* Errors that stay are returned again. */
cudaError_t cudaGetLastError(void)
{
    const cudaError_t code = last_error;
    if (code != sim_devices[current].lost)
        last_error = cudaSuccess;
    return code;
}

/* ---- devices --------------------------------------------------------------------------------- */

/* As the runtime: after a failure *count is as it was. */
cudaError_t cudaGetDeviceCount(int *count)
{
    cudaError_t code = sim_begin("cudaGetDeviceCount");
    if (code == cudaSuccess && (count == NULL || sim_settings_misread()))
        code = cudaErrorInvalidValue;
    if (code == cudaSuccess && sim_config.devices == 0)
        code = cudaErrorNoDevice;
    if (code == cudaSuccess)
        *count = sim_config.devices;
    return sim_end(code);
}

cudaError_t cudaSetDevice(int device)
{
    cudaError_t code = sim_begin("cudaSetDevice");
    if (code == cudaSuccess && (device < 0 || device >= sim_config.devices))
        code = cudaErrorInvalidDevice;
    if (code == cudaSuccess)
        current = device;
    return sim_end(code);
}

cudaError_t cudaGetDevice(int *device)
{
    const cudaError_t code = sim_begin("cudaGetDevice");
    if (code == cudaSuccess)
        *device = current;
    return sim_end(code);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    cudaError_t code = sim_begin("cudaGetDeviceProperties");
    if (code == cudaSuccess && (device < 0 || device >= sim_config.devices))
        code = cudaErrorInvalidDevice;
    if (code == cudaSuccess) {
        *prop = (struct cudaDeviceProp){ .totalGlobalMem = (size_t)sim_config.memory,
                                         .sharedMemPerBlock = SIM_DYNAMIC_SHARED,
                                         .warpSize = 32,
                                         .maxThreadsPerBlock = SIM_THREADS,
                                         .maxThreadsDim = { SIM_THREADS, SIM_THREADS, 64 },
                                         .maxGridSize = { 2147483647, 65535, 65535 },
                                         .major = sim_config.capability / 10,
                                         .minor = sim_config.capability % 10,
                                         .multiProcessorCount = 4,
                                         .maxThreadsPerMultiProcessor = 2048,
                                         .pciBusID = sim_config.number[device] + 1,
                                         .l2CacheSize = 1 << 20,
                                         .pageableMemoryAccess = !sim_config.staging };
        (void)snprintf(prop->name, sizeof prop->name, "simulated device %d%s",
                       sim_config.number[device], sim_config.mig ? " MIG 1g.5gb" : "");
        sim_uuid(sim_config.number[device], prop->uuid.bytes);
    }
    return sim_end(code);
}

cudaError_t cudaDriverGetVersion(int *version)
{
    const cudaError_t code = sim_begin("cudaDriverGetVersion");
    if (code == cudaSuccess)
        *version = CUDART_VERSION;
    return sim_end(code);
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    const cudaError_t code = sim_begin("cudaRuntimeGetVersion");
    if (code == cudaSuccess)
        *version = CUDART_VERSION;
    return sim_end(code);
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    cudaError_t code = sim_begin("cudaDeviceCanAccessPeer");
    const int count = sim_config.devices;
    if (code == cudaSuccess && (device < 0 || device >= count || peer < 0 || peer >= count))
        code = cudaErrorInvalidDevice;
    if (code == cudaSuccess)
        *can = device != peer && sim_config.peer;
    return sim_end(code);
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
    cudaError_t code = sim_begin_device("cudaDeviceEnablePeerAccess");
    if (code == cudaSuccess && (peer < 0 || peer >= sim_config.devices || peer == current))
        code = cudaErrorInvalidDevice;
    if (code == cudaSuccess && flags != 0)
        code = cudaErrorInvalidValue;
    if (code == cudaSuccess && !sim_config.peer)
        code = cudaErrorPeerAccessUnsupported;
    if (code == cudaSuccess && sim_devices[current].peers[peer])
        code = cudaErrorPeerAccessAlreadyEnabled;
    if (code == cudaSuccess)
        sim_devices[current].peers[peer] = true;
    return sim_end(code);
}

cudaError_t cudaDeviceSynchronize(void)
{
    cudaError_t code = sim_begin_device("cudaDeviceSynchronize");
    if (code == cudaSuccess) {
        sim_device_wait(current);
        code = sim_devices[current].lost;
    }
    return sim_end(code);
}

cudaError_t cudaFuncGetName(const char **name, const void *func)
{
    const cudaError_t code = sim_begin("cudaFuncGetName");
    if (code == cudaSuccess)
        *name = sim_symbol(func);
    return sim_end(code);
}

/* ---- control --------------------------------------------------------------------------------- */

int64_t sim_call_count(void)
{
    return calls;
}

/* One kernel runs at a time. */
static int64_t compares;
static void *compared_at;
static void (*at_fences)(void *compared);

void sim_compared(void *at)
{
    compares++;
    compared_at = at;
}

void sim_system_fence(void)
{
    if (at_fences != NULL)
        at_fences(compared_at);
}

int64_t sim_compare_count(void)
{
    return compares;
}

void sim_watch_fences(void (*look)(void *compared))
{
    at_fences = look;
}

sim_counts sim_get_counts(void)
{
    return sim_counters;
}

void sim_reset(void)
{
    (void)pthread_mutex_lock(&lock);
    sim_streams_reset();
    sim_memory_reset();
    sim_order_reset();
    sim_clock_reset();
    sim_fault_reset();
    memset(sim_devices, 0, sizeof sim_devices);
    current = 0;
    last_error = cudaSuccess;
    report_code = cudaSuccess;
    report_text[0] = '\0';
    sim_counters = (sim_counts){ 0 };
    is_used = is_forked = false;
    (void)pthread_mutex_unlock(&lock);
}
