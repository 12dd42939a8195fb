/* Forks: the driver's state survives none. */
#include <stdatomic.h>
#include <stdio.h>

#include "core/cuda/cuda.h"
#include "core/lock.h"

static _Atomic bool starting, started, forked;

void core_cuda_starting(bool is_starting)
{
    atomic_store(&starting, is_starting);
}

void core_cuda_started(void)
{
    atomic_store(&started, true);
}

void core_cuda_in_child(void)
{
    if (atomic_load(&started) || atomic_load(&starting))
        atomic_store(&forked, true);
}

bool core_cuda_forked(void)
{
    return atomic_load_explicit(&forked, memory_order_relaxed);
}

bool core_cuda_left(int kind)
{
    return kind == TERN_KIND_CUDA && core_cuda_forked();
}

static char words[256];
static atomic_bool words_made;

static void make_words(void)
{
    (void)snprintf(words, sizeof words, CORE_CUDA_FORKED_TEXT " [%s]\n  try to %s",
                   core_reason_code(CORE_REASON_FORKED_AFTER_START),
                   core_reason_next(CORE_REASON_FORKED_AFTER_START));
}

const char *core_cuda_left_words(void)
{
    core_once(CORE_LOCK_SETTINGS, &words_made, make_words);
    return words;
}
