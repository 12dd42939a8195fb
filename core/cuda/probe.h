/* What there is of NVIDIA's driver, found without loading it into this process.
 *
 * cuInit can hang, crash or leave a process unable to fork, so it is called in a child that gets a
 * deadline. The child reports after each stage, so that a crash says where. A driver that the process has started
 * itself is asked there. Looking at files never loads anything. For tests TERN_PROBE_ROOT prefixes the paths below /dev, /proc and /sys, and of the files
 * of a container, that are looked at; it changes no library that is loaded. */
#ifndef TERN_CORE_CUDA_PROBE_H
#define TERN_CORE_CUDA_PROBE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cuda/reason.h"

enum { CORE_PROBE_DEVICES = 64, CORE_PROBE_TEXT = 256 };

typedef enum core_probe_stage {
    CORE_PROBE_START = 1,
    CORE_PROBE_OPEN,    /* dlopen */
    CORE_PROBE_VERSION, /* cuDriverGetVersion */
    CORE_PROBE_INIT,    /* cuInit */
    CORE_PROBE_COUNT,   /* cuDeviceGetCount and properties */
    CORE_PROBE_DONE
} core_probe_stage;

typedef enum core_probe_outcome {
    CORE_PROBE_ANSWERED = 1, /* stage says how far it came, code what the driver said there */
    CORE_PROBE_HUNG,
    CORE_PROBE_CRASHED,    /* code is the signal; 0: not known */
    CORE_PROBE_IMPOSSIBLE, /* no child could be made: code is errno */
    CORE_PROBE_SKIPPED
} core_probe_outcome;

/* Small enough for one atomic write to a pipe. */
typedef struct core_probe {
    int32_t outcome; /* core_probe_outcome */
    int32_t stage;   /* the stage that was entered last */
    int32_t code;
    int32_t driver_version; /* 13000; 0: not known */
    int32_t device_count;
    int32_t capability[CORE_PROBE_DEVICES]; /* 90; 0: not known */
    char library[CORE_PROBE_TEXT];          /* file of libcuda */
    char words[CORE_PROBE_TEXT];            /* the loader's, when it refused */
} core_probe;

/* Asks the driver in a child; takes at most `timeout_ms` and a little, and says in the log what is awaited once
 * a sixth of that is over: GPUs without persistence mode take 1 to 3 s each to start. With `unhide` the child forgets
 * CUDA_VISIBLE_DEVICES first. A driver that has been started in this process answers here instead, by what it read
 * then. */
void core_probe_driver(bool unhide, int64_t timeout_ms, core_probe *out_probe);

/* Opens the driver's library in this process, which asks the driver nothing; false: it is not there, and the probe
 * says so. For when no child can be made, and the runtime has tried to open it. */
bool core_probe_opens(core_probe *out_probe);

/* The reason for what a probe found, NONE when devices are usable; `text` says it. */
core_reason core_probe_reason(const core_probe *probe, char text[CORE_REASON_BYTES]);

/* What to do about a code of the driver's with which it does not start; "": nothing of its own. */
const char *core_probe_next(int code);

/* What to do about a reason, where what was found and the system know a better step than the reason has; or "".
 * (probe_step.c) */
void core_probe_step(core_reason reason, const core_probe *probe, char step[CORE_PROBE_TEXT]);

/* What the child is doing then: "cuInit". */
const char *core_probe_stage_name(int stage);

/* ---- files (probe_files.c) ---- */

/* Device nodes: NO_DEVICE_NODE, NO_PERMISSION or NO_DEVICE with a text, NONE when nothing is wrong with them.
 * `library`: libcuda's file, whose folder tells WSL. */
core_reason core_probe_nodes(const char *library, char text[CORE_REASON_BYTES]);
/* What the system says of a driver whose library is not there: "this is WSL, ..."; "" for nothing. */
void core_probe_system(char text[CORE_PROBE_TEXT]);
/* Where a libcuda.so.1 lies that was not taken, and what is wrong with it; "" for nowhere. `found`: the loader did
 * find one. */
void core_probe_stray_library(bool found, char text[CORE_PROBE_TEXT]);
/* Version of the loaded kernel driver ("580.95.05"), "" for none. */
void core_probe_kernel_driver(char version[32]);
/* A loaded kernel driver, or a node of NVIDIA's, of WSL's or of a Tegra: a GPU that the PCI bus need not show. */
bool core_probe_speaks_of_one(void);
/* Whether this process holds /dev/nvidia-uvm open: cuInit opens it, and a child that is forked inherits it. */
bool core_probe_holds_driver(void);
/* `path` below TERN_PROBE_ROOT. */
const char *core_probe_path(const char *path, char buffer[PATH_MAX]);

/* ---- the PCI bus (probe_cards.c) ---- */

typedef enum core_cards {
    CORE_CARDS_UNKNOWN, /* no such bus here, or it is hidden */
    CORE_CARDS_NONE,    /* and nothing else speaks of a GPU of NVIDIA's */
    CORE_CARDS_SOME
} core_cards;
/* `text`: "this machine has an NVIDIA GPU (10de:2684, driver nouveau)", "this machine has no NVIDIA GPU (...)"; ""
 * where it is not known. */
core_cards core_probe_cards(char text[CORE_PROBE_TEXT]);
/* The first one of NVIDIA's is held back for a virtual machine. */
bool core_probe_card_is_kept(void);

#endif
