/* From what a probe found to a reason and its text. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/cuda/probe.h"
#include "core/error.h"

enum { NOT_INITIALIZED = 3, NO_DEVICE = 100, MISMATCH = 803, NO_FORWARD = 804 };

/* Names of the driver's codes that are met while it starts. */
static const struct {
    int code;
    const char *name;
} names[] = {
    { 1, "invalid value" },
    { 2, "out of memory" },
    { NOT_INITIALIZED, "not initialized" },
    { 34,
      "this libcuda is a stub of the toolkit, for linking: take its folder off LD_LIBRARY_PATH" },
    { 36, "the call needs a newer driver" },
    { 46, "the device is unavailable" },
    { NO_DEVICE, "no device" },
    { 101, "invalid device" },
    { 102, "the device is not licensed" },
    { 201, "invalid context" },
    { 214, "an uncorrectable error of memory (ECC)" },
    { 302, "a symbol of the driver is missing" },
    { 303, "a library of the driver failed to start" },
    { 304, "the operating system refused" },
    { 719, "a launch failed" },
    { 800, "not permitted" },
    { 801, "not supported" },
    { 802, "the system is not ready" },
    { MISMATCH, "the kernel driver and libcuda differ in version" },
    { NO_FORWARD, "forward compatibility is not supported on this device" },
    { 805, "the MPS server is not there" },
    { 806, "the MPS server failed" },
    { 807, "the MPS server is not ready" },
    { 808, "the MPS server takes no more clients" },
    { 809, "the MPS server has no more connections" },
    { 810, "the MPS client was ended" },
    { 999, "unknown error" },
};

static const char *code_name(int code)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == code)
            return names[i].name;
    return NULL;
}

const char *core_probe_stage_name(int stage)
{
    switch (stage) {
    case CORE_PROBE_START:
    case CORE_PROBE_OPEN:
        return "opening libcuda.so.1";
    case CORE_PROBE_VERSION:
        return "cuDriverGetVersion";
    case CORE_PROBE_INIT:
        return "cuInit";
    default:
        return "cuDeviceGetCount";
    }
}

/* dlerror says "No such file" for a dangling link and for a file that may not be read, too. */
static core_reason no_library(const core_probe *p, char text[CORE_REASON_BYTES])
{
    char stray[CORE_PROBE_TEXT], system[CORE_PROBE_TEXT], cards[CORE_PROBE_TEXT];
    core_probe_stray_library(strstr(p->words, "No such file") == NULL, stray);
    core_probe_system(system);
    if (core_probe_cards(cards) == CORE_CARDS_NONE && stray[0] == '\0') {
        (void)snprintf(text, CORE_REASON_BYTES, "%s", cards);
        return CORE_REASON_NO_GPU;
    }
    core_text out = { text, CORE_REASON_BYTES, 0 };
    core_text_add(&out, "NVIDIA's driver library cannot be loaded: %s", p->words);
    const char *const said[] = { stray, system, cards };
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (said[i][0] != '\0')
            core_text_add(&out, "; %s", said[i]);
    return CORE_REASON_NO_DRIVER_LIBRARY;
}

/* Codes that say little: device nodes may explain them. Others name their cause themselves. */
static bool is_vague(int code)
{
    return code == NOT_INITIALIZED || code == NO_DEVICE || code == 101 || code == 304 ||
           code == 999;
}

static core_reason failed(const core_probe *p, char text[CORE_REASON_BYTES])
{
    char cards[CORE_PROBE_TEXT];
    if (is_vague(p->code) && core_probe_cards(cards) == CORE_CARDS_NONE) {
        (void)snprintf(text, CORE_REASON_BYTES, "%s", cards);
        return CORE_REASON_NO_GPU;
    }
    const core_reason nodes =
        is_vague(p->code) ? core_probe_nodes(p->library, text) : CORE_REASON_NONE;
    if (nodes != CORE_REASON_NONE)
        return nodes;
    if (p->code == NOT_INITIALIZED && core_probe_holds_driver()) {
        (void)snprintf(text, CORE_REASON_BYTES,
                       "a process that this one was forked from had started CUDA");
        return CORE_REASON_FORKED_AFTER_START;
    }
    if (p->code == NO_DEVICE) {
        (void)snprintf(text, CORE_REASON_BYTES, "the driver finds no device (%s gave 100)",
                       core_probe_stage_name(p->stage));
        return CORE_REASON_NO_DEVICE;
    }
    const char *name = code_name(p->code);
    char version[32] = "";
    if (p->code == MISMATCH) /* the file's name ends with libcuda's */
        core_probe_kernel_driver(version);
    const bool compat =
        (p->code == MISMATCH || p->code == NO_FORWARD) && strstr(p->library, "/compat/") != NULL;
    (void)snprintf(text, CORE_REASON_BYTES, "%s gave %d (%s) in %s%s%s%s",
                   core_probe_stage_name(p->stage), p->code,
                   name != NULL ? name : "a code without a name here", p->library,
                   version[0] != '\0' ? "; the kernel driver is " : "", version,
                   compat ? "; take the folder compat off LD_LIBRARY_PATH" : "");
    return CORE_REASON_INIT_FAILED;
}

static core_reason answered(const core_probe *p, char text[CORE_REASON_BYTES])
{
    if (p->stage == CORE_PROBE_OPEN)
        return no_library(p, text);
    if (p->stage != CORE_PROBE_DONE)
        return failed(p, text);
    if (p->device_count > 0)
        return CORE_REASON_NONE;
    core_probe none = *p;
    none.code = NO_DEVICE;
    none.stage = CORE_PROBE_COUNT;
    return failed(&none, text);
}

core_reason core_probe_reason(const core_probe *p, char text[CORE_REASON_BYTES])
{
    switch (p->outcome) {
    case CORE_PROBE_HUNG:
        (void)snprintf(text, CORE_REASON_BYTES,
                       "the driver did not come back from %s before the deadline",
                       core_probe_stage_name(p->stage));
        return CORE_REASON_DRIVER_HANGS;
    case CORE_PROBE_CRASHED:
        if (p->code == 0)
            (void)snprintf(text, CORE_REASON_BYTES,
                           "the driver crashed in %s (the signal is not known)",
                           core_probe_stage_name(p->stage));
        else
            (void)snprintf(text, CORE_REASON_BYTES, "the driver crashed in %s (signal %d: %s)",
                           core_probe_stage_name(p->stage), p->code, strsignal(p->code));
        return CORE_REASON_DRIVER_CRASHES;
    case CORE_PROBE_ANSWERED:
        return answered(p, text);
    default:
        return CORE_REASON_NONE;
    }
}
