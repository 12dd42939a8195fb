/* Whether CUDA is usable and why not: found out once, at the first request. */
#ifndef TERN_CORE_CUDA_CUDA_H
#define TERN_CORE_CUDA_CUDA_H

#include "core/cuda/probe.h"

typedef struct core_cuda_state {
    core_reason reason; /* NONE: a backend is registered */
    char text[CORE_REASON_BYTES];
    /* The next step, where what was found knows a better one than its reason; or "". */
    char next[CORE_PROBE_TEXT];
    char *visible; /* CUDA_VISIBLE_DEVICES as it was read; NULL: not set */
    bool simulated;
    char plugin[1024]; /* path of the one that is loaded, or "" */
    char tried[2048];  /* lines */
    char kernel_driver[32];
    core_probe probe; /* outcome SKIPPED where the driver was not asked */
    /* The plugin has no code for the device, so that no kernel runs there. */
    bool lacks_code[CORE_PROBE_DEVICES];
} core_cuda_state;

/* Searches at the first call: visible devices, plugin, driver. Never fails; any thread. A callback of the
 * log gets what is known where its own thread is searching, or starting a plugin. */
const core_cuda_state *core_cuda(void);
/* Around the start of a plugin, which may bring CUDA: the driver cannot be forked in its middle either. */
void core_cuda_starting(bool is_starting);
/* A CUDA backend has been registered. */
void core_cuda_started(void);
#define CORE_CUDA_FORKED_TEXT \
    "this process was forked after CUDA had been started, which a child cannot use"
/* Called by a fork, in the child. */
void core_cuda_in_child(void);
/* This process was forked from one that had started CUDA, or was about to. */
bool core_cuda_forked(void);
/* Devices of that kind are the parent's alone: in such a process, CUDA's. */
bool core_cuda_left(int kind);
/* What is said of them: why, code, what to do. Lives for the process. */
const char *core_cuda_left_words(void);
/* Logs, once, that CUDA_VISIBLE_DEVICES is no longer what was read, if so. */
void core_cuda_check_visible(void);

#endif
