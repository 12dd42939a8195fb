/* TERN_SIM_*: what the environment or a test asks of simulated devices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend_cuda/sim/sim.h"
#include "core/visible/list.h"

/* Orders of magnitude of published figures: a laptop GPU on PCIe 3, a data-centre GPU on PCIe 5. */
static const sim_clock_model models[] = {
    { "laptop-pcie3", 12e9, 6e9, 300e9, 10e-6, 5e-6 },
    { "datacentre-pcie5", 50e9, 12e9, 3e12, 6e-6, 3e-6 },
};

sim_settings sim_config = { .devices = 1,
                            .memory = (int64_t)4 << 30,
                            .order = SIM_FORWARD,
                            .order_seed = 1,
                            .async = SIM_LAZY,
                            .async_seed = 1,
                            .races = true,
                            .peer = true,
                            .staging = true,
                            .capability = 90,
                            .clock = &models[0] };
static bool loaded, misread;

/* "512M", "2G", plain bytes; -1 for nonsense. */
static int64_t parse_bytes(const char *text)
{
    char *end;
    const long long n = strtoll(text, &end, 10);
    const int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    if (end == text || n <= 0 || n > (1LL << 20) << 20 || end[shift > 0] != '\0')
        return -1;
    return (int64_t)n << shift;
}

/* "random:7" gives 7, "random" 1. */
static bool parse_random(const char *text, uint64_t *out_seed)
{
    if (strncmp(text, "random", 6) != 0 || (text[6] != '\0' && text[6] != ':'))
        return false;
    char *end = NULL;
    *out_seed = text[6] == ':' ? strtoull(text + 7, &end, 10) : 1;
    return end == NULL || (end != text + 7 && *end == '\0');
}

static int set_order(const char *value)
{
    if (strcmp(value, "forward") == 0)
        sim_config.order = SIM_FORWARD;
    else if (strcmp(value, "reverse") == 0)
        sim_config.order = SIM_REVERSE;
    else if (parse_random(value, &sim_config.order_seed))
        sim_config.order = SIM_SHUFFLED;
    else
        return -1;
    return 0;
}

static int set_async(const char *value)
{
    if (strcmp(value, "lazy") == 0)
        sim_config.async = SIM_LAZY;
    else if (strcmp(value, "eager") == 0)
        sim_config.async = SIM_EAGER;
    else if (parse_random(value, &sim_config.async_seed))
        sim_config.async = SIM_RANDOM;
    else
        return -1;
    return 0;
}

static int set_clock(const char *value)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strcmp(value, models[i].name) == 0) {
            sim_config.clock = &models[i];
            return 0;
        }
    return -1;
}

/* "7.5" */
static int set_capability(const char *value)
{
    char *end;
    const long major = strtol(value, &end, 10);
    if (major < 5 || major > 12 || end[0] != '.' || end[1] < '0' || end[1] > '9' || end[2] != '\0')
        return -1;
    sim_config.capability = (int)major * 10 + (end[1] - '0');
    return 0;
}

static void show_all(int devices)
{
    sim_config.devices = devices;
    for (int i = 0; i < devices; i++)
        sim_config.number[i] = i;
}

static int set_number(const char *name, const char *value)
{
    if (strcmp(name, "DEVICES") == 0) {
        const int n = atoi(value);
        if (n < 0 || n > SIM_DEVICES)
            return -1;
        show_all(n);
        return 0;
    }
    const int64_t bytes = parse_bytes(value);
    if (bytes < 0)
        return -1;
    sim_config.memory = bytes;
    return 0;
}

static int set(const char *name, const char *value)
{
    if (strcmp(name, "DEVICES") == 0 || strcmp(name, "MEMORY") == 0)
        return set_number(name, value);
    if (strcmp(name, "ORDER") == 0)
        return set_order(value);
    if (strcmp(name, "ASYNC") == 0)
        return set_async(value);
    if (strcmp(name, "CLOCK") == 0)
        return set_clock(value);
    if (strcmp(name, "CAPABILITY") == 0)
        return set_capability(value);
    if (strcmp(name, "FAIL") == 0)
        return sim_fault_parse(value) ? 0 : -1;
    if (strcmp(name, "PROCESSES") == 0)
        return sim_nvml_set_processes(value) ? 0 : -1;
    if (strcmp(name, "ABSENT") == 0) {
        sim_library_hide(value);
        return 0;
    }
    bool *is_on = strcmp(name, "RACES") == 0     ? &sim_config.races
                  : strcmp(name, "PEER") == 0    ? &sim_config.peer
                  : strcmp(name, "STAGING") == 0 ? &sim_config.staging
                  : strcmp(name, "MIG") == 0     ? &sim_config.mig
                                                 : NULL;
    if (is_on == NULL || (strcmp(value, "on") != 0 && strcmp(value, "off") != 0))
        return -1;
    *is_on = strcmp(value, "on") == 0;
    return 0;
}

void sim_uuid(int number, char bytes[16])
{
    static const char prefix[] = "simulated";
    memset(bytes, 0, 16);
    memcpy(bytes, prefix, sizeof prefix - 1);
    bytes[15] = (char)number;
}

void sim_uuid_text(int number, char *text, size_t size)
{
    char b[16];
    sim_uuid(number, b);
    (void)snprintf(text, size,
                   "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                   sim_config.mig ? "MIG" : "GPU", b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7],
                   b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

/* CUDA_VISIBLE_DEVICES hides and renumbers simulated devices as the driver does real ones. */
static void apply_visible_list(void)
{
    char text[SIM_DEVICES][48];
    const char *uuids[SIM_DEVICES];
    const int all = sim_config.devices;
    for (int i = 0; i < all; i++) {
        sim_uuid_text(i, text[i], sizeof text[i]);
        uuids[i] = text[i];
    }
    core_visible_list list;
    core_visible_end end;
    int index[CORE_VISIBLE_MOST];
    core_visible_parse(getenv("CUDA_VISIBLE_DEVICES"), &list);
    if (list.form == CORE_VISIBLE_MIG && sim_config.mig) /* a driver knows what parts there are */
        list.form = CORE_VISIBLE_UUID;
    const int count = core_visible_resolve(&list, all, uuids, index, &end);
    sim_config.devices = count > 0 ? count : 0;
    for (int i = 0; i < sim_config.devices; i++)
        sim_config.number[i] = index[i];
}

void sim_settings_load(void)
{
    static const char *const names[] = { "DEVICES", "MEMORY",     "ORDER", "ASYNC",  "CLOCK",
                                         "FAIL",    "RACES",      "PEER",  "ABSENT", "PROCESSES",
                                         "STAGING", "CAPABILITY", "MIG" };
    if (loaded)
        return;
    loaded = true;
    show_all(sim_config.devices);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char variable[32] = "TERN_SIM_";
        const char *value = getenv(strcat(variable, names[i]));
        if (value != NULL && value[0] != '\0' && set(names[i], value) != 0) {
            sim_report(cudaErrorInvalidValue, "TERN_SIM_%s=%.80s is not understood", names[i],
                       value);
            misread = true;
        }
    }
    apply_visible_list();
}

bool sim_settings_misread(void)
{
    return misread;
}

int sim_set(const char *name, const char *value)
{
    sim_settings_load();
    return name != NULL && value != NULL ? set(name, value) : -1;
}

/* splitmix64 */
uint64_t sim_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
}
