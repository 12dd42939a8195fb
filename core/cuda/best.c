/* Choosing a device, and what is known of each. */
#include <stdio.h>
#include <string.h>

#include "core/backend.h"
#include "core/cuda/cuda.h"
#include "core/error.h"
#include "core/fallback.h"
#include "tern/system.h"

/* No kernel would run there. */
static bool lacks_code(int index)
{
    return index < CORE_PROBE_DEVICES && core_cuda()->lacks_code[index];
}

tern_dev_t tern_dev_auto_at(tern_site_t site)
{
    tern_dev_t dev;
    if (!core_dev_resolve(core_self(), site, "tern_dev_auto", TERN_CUDA(-1), &dev))
        return TERN_CPU;
    for (int16_t i = 0; dev.kind == TERN_KIND_CUDA && lacks_code(dev.index); i++)
        dev.index = i; /* one of them has */
    return dev;
}

/* Free bytes of the device, -1 where it cannot tell. */
static int64_t free_bytes(const tern_backend *b, int index, int64_t *out_total)
{
    int64_t free = -1, total = -1;
    *out_total = -1;
    if (!CORE_HAS(b->memory, tern_backend_memory, info) ||
        b->memory->info(b->context, index, &free, &total) != TERN_OK) {
        core_self()->message_code = TERN_OK; /* words that nobody asks for */
        return -1;
    }
    *out_total = total;
    return free;
}

/* Of each device: free bytes (-1: it cannot tell), and whether that was told without opening it. */
typedef struct rooms {
    int count;
    int64_t free[CORE_MAX_DEVICES];
    bool peeked[CORE_MAX_DEVICES];
} rooms;

static void look(rooms *r, const tern_backend *b, int index)
{
    int64_t total;
    r->peeked[index] = CORE_HAS(b->memory, tern_backend_memory, peek) &&
                       b->memory->peek(b->context, index, &r->free[index], &total) == TERN_OK;
    if (!r->peeked[index])
        r->free[index] = free_bytes(b, index, &total);
}

/* The device with the most free bytes of those with enough, the first of equals; -1 for none. */
static int roomiest_of(const rooms *r, int64_t bytes_needed)
{
    int best = -1;
    for (int i = 0; i < r->count; i++) {
        if (lacks_code(i) || (r->free[i] >= 0 && r->free[i] < bytes_needed))
            continue;
        if (best < 0 || r->free[i] > r->free[best])
            best = i;
    }
    return best;
}

/* Index of that device, opened, since what it takes to open it is no longer free then: the next best may have more.
 * *out_most is what the best has. */
static int roomiest(int64_t bytes_needed, int64_t *out_most)
{
    const tern_backend *b = core_backend_of(TERN_KIND_CUDA);
    rooms r = { .count = tern_dev_count(TERN_KIND_CUDA) };
    int64_t total;
    for (int i = 0; i < r.count; i++)
        if (!lacks_code(i))
            look(&r, b, i);
    int best = roomiest_of(&r, bytes_needed);
    while (best >= 0 && r.peeked[best]) {
        r.free[best] = free_bytes(b, best, &total);
        r.peeked[best] = false;
        if (r.free[best] < bytes_needed)
            best = roomiest_of(&r, bytes_needed);
    }
    *out_most = -1;
    for (int i = 0; i < r.count; i++)
        if (!lacks_code(i) && r.free[i] > *out_most)
            *out_most = r.free[i];
    return best;
}

tern_dev_t tern_dev_best_at(tern_site_t site, const tern_best_args *args)
{
    const int64_t bytes_needed = args != NULL ? args->bytes_needed : 0;
    static _Thread_local char text[128];
    tern_thread *self = core_self();
    tern_fallback_t none = { "", "", "" }, why = none;
    tern_fallback_t *out_why = args != NULL && args->why != NULL ? args->why : &none;
    *out_why = why;
    if (self->error_code != TERN_OK)
        return TERN_CPU;
    const tern_site_t outer = tern_site_begin(site);
    const bool is_cpu = tern_dev_fallback(&why);
    tern_site_end(outer);
    if (is_cpu) {
        *out_why = why;
        (void)core_fall_back(self, site, "tern_dev_best");
        return TERN_CPU;
    }
    int64_t most;
    const int index = roomiest(bytes_needed, &most);
    if (index >= 0)
        return TERN_CUDA(index);
    (void)snprintf(text, sizeof text, "no device has %lld bytes free, the most are %lld",
                   (long long)bytes_needed, (long long)most);
    why = (tern_fallback_t){ core_reason_code(CORE_REASON_NOT_ENOUGH_MEMORY), text,
                             core_reason_next(CORE_REASON_NOT_ENOUGH_MEMORY) };
    *out_why = why;
    (void)core_fall_back_for(self, site, "tern_dev_best", &why);
    return TERN_CPU;
}

/* ---- reports -------------------------------------------------------------------------------------- */

static void fill(const tern_backend *b, int index, tern_dev_info_t *out)
{
    tern_backend_device device = { .size = sizeof device,
                                   .utilization = -1,
                                   .memory_utilization = -1,
                                   .temperature = -1,
                                   .clock_mhz = -1 };
    out->free_bytes = free_bytes(b, index, &out->total_bytes);
    (void)snprintf(out->name, sizeof out->name, "%s", b->name);
    out->libraries = "";
    if (b->info == NULL)
        return;
    out->driver_version = b->info->driver_version;
    out->runtime_version = b->info->runtime_version;
    out->libraries = b->info->libraries != NULL ? b->info->libraries : "";
    if (b->info->device == NULL)
        return;
    if (b->info->device(b->context, index, &device) != TERN_OK) {
        core_self()->message_code = TERN_OK;
        return;
    }
    out->capability = device.capability;
    out->multiprocessors = device.multiprocessors;
    out->simulated = device.simulated;
    (void)snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof device.name - 1, device.name);
    (void)snprintf(out->uuid, sizeof out->uuid, "%.*s", (int)sizeof device.uuid - 1, device.uuid);
    (void)snprintf(out->pci, sizeof out->pci, "%.*s", (int)sizeof device.pci - 1, device.pci);
    out->warp_size = device.warp_size;
    out->threads_per_multiprocessor = device.threads_per_multiprocessor;
    out->shared_bytes = device.shared_bytes;
    out->l2_bytes = device.l2_bytes;
    out->utilization = device.utilization;
    out->memory_utilization = device.memory_utilization;
    out->temperature = device.temperature;
    out->clock_mhz = device.clock_mhz;
}

bool tern_dev_info(tern_dev_t dev, tern_dev_info_t *out_info)
{
    if (out_info == NULL)
        return false;
    memset(out_info, 0, sizeof *out_info);
    if (dev.kind <= TERN_KIND_NONE || !tern_dev_available(dev))
        return false;
    out_info->utilization = out_info->memory_utilization = -1;
    out_info->temperature = out_info->clock_mhz = -1;
    const tern_backend *b = core_backend_of(dev.kind);
    if (b != NULL) {
        fill(b, dev.index < 0 ? tern_dev_current(dev.kind).index : dev.index, out_info);
        return true;
    }
    (void)snprintf(out_info->name, sizeof out_info->name, "cpu");
    out_info->total_bytes = out_info->free_bytes = -1;
    out_info->libraries = "";
    return true;
}

static bool cpu_has_bf16(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512bf16") != 0;
#else
    return false;
#endif
}

bool tern_bf16_supported(tern_dev_t dev, bool including_emulation)
{
    tern_dev_info_t info;
    if (!tern_dev_info(dev, &info))
        return false;
    return including_emulation ||
           (dev.kind == TERN_KIND_CPU ? cpu_has_bf16() : info.capability >= 80);
}

void tern_cuda_report(tern_cuda_report_t *out_report)
{
    tern_fallback_t why = { "", "", "" };
    if (out_report == NULL)
        return;
    (void)tern_dev_fallback(&why);
    const bool off = strncmp(why.code, "disabled-", 9) == 0;
    static const core_cuda_state nothing;
    const core_cuda_state *s = off ? &nothing : core_cuda();
    *out_report = (tern_cuda_report_t){ .reason = why.code,
                                        .reason_text = why.text,
                                        .visible = s->visible,
                                        .plugin = s->plugin[0] != '\0' ? s->plugin : NULL,
                                        .tried = s->tried,
                                        .driver_library = s->probe.library,
                                        .kernel_driver = s->kernel_driver,
                                        .driver_version = s->probe.driver_version,
                                        .simulated = s->simulated };
}
