/* What tern's own API says of devices: see facts.h. */
#include "tools/tern/facts.h"

#include <stdio.h>
#include <string.h>
#include <tern/tern.h>

static void add(cJSON *object, const char *key, const char *text)
{
    if (text != NULL && text[0] != '\0')
        cJSON_AddStringToObject(object, key, text);
}

/* 13000 is CUDA 13.0. */
static void add_version(cJSON *object, const char *key, int32_t version)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%d.%d", version / 1000, version % 1000 / 10);
    if (version > 0)
        add(object, key, text);
}

/* Lines to an array of strings. */
static void add_lines(cJSON *object, const char *key, const char *lines)
{
    if (lines == NULL || lines[0] == '\0')
        return;
    cJSON *array = cJSON_AddArrayToObject(object, key);
    while (*lines != '\0') {
        char line[1024];
        const size_t n = strcspn(lines, "\n");
        (void)snprintf(line, sizeof line, "%.*s", (int)n, lines);
        cJSON_AddItemToArray(array, cJSON_CreateString(line));
        lines += n + (lines[n] == '\n');
    }
}

cJSON *facts_cuda(void)
{
    cJSON *object = cJSON_CreateObject();
    tern_cuda_report_t report;
    tern_fallback_t why = { "", "", "" };
    tern_cuda_report(&report);
    cJSON_AddBoolToObject(object, "usable", !tern_dev_fallback(&why));
    add(object, "reason", why.code);
    add(object, "reason_text", why.text);
    add(object, "next_step", why.next_step);
    if (report.simulated)
        cJSON_AddBoolToObject(object, "simulated", true);
    if (report.visible != NULL)
        cJSON_AddStringToObject(object, "visible_devices", report.visible);
    add(object, "plugin", report.plugin);
    add_lines(object, "looked_for_plugin", report.tried);
    add(object, "driver_library", report.driver_library);
    add_version(object, "driver_version", report.driver_version);
    add(object, "kernel_driver", report.kernel_driver);
    return object;
}

static void add_known(cJSON *object, const char *key, int64_t number)
{
    if (number >= 0)
        cJSON_AddNumberToObject(object, key, (double)number);
}

/* Why a device does not say what memory it has: as a rule it cannot be opened. */
static void add_fault(cJSON *object, tern_dev_t dev)
{
    int64_t free_bytes, total_bytes;
    char text[1024];
    const tern_status_t code = tern_memory_info_at(NULL, dev, &free_bytes, &total_bytes);
    (void)snprintf(text, sizeof text, "%s", tern_error_text());
    text[strcspn(text, "\n")] = '\0';
    if (code != TERN_ERR_UNSUPPORTED) /* a backend that never says */
        add(object, "fault", text);
    tern_error_clear();
}

static cJSON *device(tern_dev_t dev)
{
    char text[TERN_DEV_NAME_BYTES];
    tern_dev_info_t info;
    if (!tern_dev_info(dev, &info))
        return NULL;
    cJSON *object = cJSON_CreateObject();
    add(object, "device", tern_dev_name(dev, text));
    add(object, "name", info.name);
    cJSON_AddBoolToObject(object, "simulated", info.simulated);
    (void)snprintf(text, sizeof text, "%d.%d", info.capability / 10, info.capability % 10);
    if (info.capability > 0)
        add(object, "capability", text);
    if (info.multiprocessors > 0)
        cJSON_AddNumberToObject(object, "multiprocessors", info.multiprocessors);
    add_known(object, "total_bytes", info.total_bytes);
    add_known(object, "free_bytes", info.free_bytes);
    if (info.free_bytes < 0)
        add_fault(object, dev);
    add_version(object, "driver_version", info.driver_version);
    add_version(object, "runtime_version", info.runtime_version);
    add(object, "libraries", info.libraries);
    add(object, "uuid", info.uuid);
    add(object, "pci", info.pci);
    add_known(object, "utilization_percent", info.utilization);
    add_known(object, "memory_utilization_percent", info.memory_utilization);
    add_known(object, "temperature_celsius", info.temperature);
    add_known(object, "clock_mhz", info.clock_mhz);
    return object;
}

static cJSON *cpu(void)
{
    cJSON *object = cJSON_CreateObject();
    tern_cpu_report_t report;
    tern_cpu_report(&report);
    add(object, "device", "cpu");
    add(object, "name", report.model);
    cJSON_AddBoolToObject(object, "simulated", false);
    cJSON_AddNumberToObject(object, "processors", report.processors);
    if (report.quota > 0)
        cJSON_AddNumberToObject(object, "processor_quota", report.quota);
    cJSON_AddNumberToObject(object, "threads", report.threads);
    add(object, "instruction_set", report.isa);
    add(object, "tuned_for", report.tuning);
    add(object, "blas", report.blas[0] != '\0' ? report.blas : "none: portable kernels");
    add(object, "blas_choice", report.blas_reason);
    add(object, "dnn", report.dnn[0] != '\0' ? report.dnn : "none: portable kernels");
    add(object, "library_bridge", report.libraries);
    add_lines(object, "looked_for_bridge", report.libraries_missing);
    return object;
}

cJSON *facts_devices(void)
{
    cJSON *array = cJSON_CreateArray();
    for (int i = 0; i < tern_dev_count(TERN_KIND_CUDA); i++)
        cJSON_AddItemToArray(array, device(TERN_CUDA(i)));
    for (int i = 0; i < tern_dev_count(TERN_KIND_EXT); i++)
        cJSON_AddItemToArray(array, device(TERN_EXT(i)));
    cJSON_AddItemToArray(array, cpu());
    return array;
}
