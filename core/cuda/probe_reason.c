/* From what a probe found to a reason and its text. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/cuda/probe.h"
#include "core/error.h"

enum { NOT_INITIALIZED = 3, NO_DEVICE = 100, MISMATCH = 803, NO_FORWARD = 804 };

static const struct {
    int code;
    const char *name, *next;
} names[] = {
#define CODE(number, words, next) { number, words, next },
#include "core/cuda/driver_codes.def"
#undef CODE
};

static const char *code_name(int code)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == code)
            return names[i].name;
    return NULL;
}

const char *core_probe_next(int code)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == code)
            return names[i].next;
    return "";
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

static void add(char text[CORE_REASON_BYTES], const char *more)
{
    core_text out = { text, CORE_REASON_BYTES, strlen(text) };
    if (more[0] != '\0')
        core_text_add(&out, "; %s", more);
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
    (void)snprintf(text, CORE_REASON_BYTES, "NVIDIA's driver library cannot be loaded: %s",
                   p->words);
    add(text, stray);
    add(text, system);
    add(text, cards);
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
    char cards[CORE_PROBE_TEXT] = "";
    if (is_vague(p->code) && core_probe_cards(cards) == CORE_CARDS_NONE) {
        (void)snprintf(text, CORE_REASON_BYTES, "%s", cards);
        return CORE_REASON_NO_GPU;
    }
    const core_reason nodes =
        is_vague(p->code) ? core_probe_nodes(p->library, text) : CORE_REASON_NONE;
    if (nodes == CORE_REASON_NO_DEVICE_NODE || nodes == CORE_REASON_NO_DEVICE)
        add(text, cards);
    if (nodes != CORE_REASON_NONE)
        return nodes;
    if (p->code == NOT_INITIALIZED && core_probe_holds_driver()) {
        (void)snprintf(text, CORE_REASON_BYTES,
                       "a process that this one was forked from had started CUDA");
        return CORE_REASON_FORKED_AFTER_START;
    }
    if (p->code == NO_DEVICE) {
        (void)snprintf(text, CORE_REASON_BYTES, "the driver finds no device (%s %s)",
                       core_probe_stage_name(p->stage),
                       p->stage == CORE_PROBE_DONE ? "counts 0" : "gave 100");
        add(text, cards);
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
