/* What the CPU backend uses, for tern_cpu_report. */
#include <stdio.h>
#include <string.h>

#include "backend_cpu/bridge.h"
#include "backend_cpu/cpu.h"
#include "backend_cpu/tuning.h"
#include "core/control_group.h"
#include "core/processors.h"
#include "tern/system.h"

static void read_model(char model[TERN_DEV_LABEL_BYTES])
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || colon == NULL)
            continue;
        line[strcspn(line, "\n")] = '\0';
        (void)snprintf(model, TERN_DEV_LABEL_BYTES, "%.120s", colon + 1 + (colon[1] == ' '));
        break;
    }
    if (file != NULL)
        (void)fclose(file);
}

/* Length of the first two words of "OpenBLAS 0.3.21 NO_LAPACKE ...". */
static int name_and_version(const char *config)
{
    size_t n = strcspn(config, " ");
    n += config[n] == ' ' ? 1 + strcspn(config + n + 1, " ") : 0;
    return n < 60 ? (int)n : 60;
}

void tern_cpu_report(tern_cpu_report_t *out_report)
{
    cpu_blas_report bridge;
    if (out_report == NULL)
        return;
    cpu_blas_get_report(&bridge);
    memset(out_report, 0, sizeof *out_report);
    read_model(out_report->model);
    out_report->processors = core_processors();
    out_report->quota = core_group_quota();
    out_report->threads = tern_num_threads();
    out_report->isa = cpu_isa_name(cpu_isa());
    out_report->tuning = cpu_tuning_name(cpu_tuning());
    out_report->libraries = bridge.loaded ? bridge.path : NULL;
    out_report->libraries_missing = bridge.missing;
    if (bridge.core_reason != NULL)
        (void)snprintf(out_report->blas_reason, sizeof out_report->blas_reason, "%s",
                       bridge.core_reason);
    if (!bridge.loaded)
        return;
    const cpu_blas_info *info = &bridge.info;
    const char *config = info->openblas_config != NULL ? info->openblas_config : "OpenBLAS";
    if (info->openblas_corename != NULL)
        (void)snprintf(out_report->blas, sizeof out_report->blas, "%.*s, kernels %.40s",
                       name_and_version(config), config, info->openblas_corename);
    if (info->onednn_version != NULL)
        (void)snprintf(out_report->dnn, sizeof out_report->dnn, "oneDNN %.40s, %.60s",
                       info->onednn_version, info->onednn_isa != NULL ? info->onednn_isa : "");
}
