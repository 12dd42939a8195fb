/* What the environment says of the memory of devices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cuda/reason.h"
#include "core/device_memory.h"
#include "core/lock.h"
#include "core/log.h"

static core_alloc_settings environment;
static atomic_bool environment_read;
static char environment_fault[CORE_REASON_BYTES]; /* what is wrong with it, if anything */
static tern_status_t environment_code;
static bool environment_refused; /* it was tern's own variable */
static atomic_flag said_fault = ATOMIC_FLAG_INIT;

static void read_environment(void)
{
    static const char *const names[] = { "TERN_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
                                         "PYTORCH_CUDA_ALLOC_CONF" };
    core_alloc_settings_init(&environment);
    const char *no_cache = getenv("TERN_NO_CACHE");
    environment.no_cache =
        (no_cache != NULL && no_cache[0] != '\0' && strcmp(no_cache, "0") != 0) ||
        getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") != NULL;
    int i = 0;
    while (i < 3 && getenv(names[i]) == NULL)
        i++;
    if (i == 3)
        return;
    char why[CORE_ALLOC_WHY_BYTES];
    environment_code = core_alloc_settings_parse(&environment, getenv(names[i]), i == 0, why);
    environment_refused = environment_code != TERN_OK && i == 0;
    if (why[0] != '\0')
        (void)snprintf(environment_fault, sizeof environment_fault, "%s: %s", names[i], why);
    core_reason_escape(environment_fault);
}

const core_alloc_settings *core_alloc_environment(const char **out_error)
{
    core_once(CORE_LOCK_SETTINGS, &environment_read, read_environment);
    /* without the lock: a callback of the log may make a tensor */
    if (environment_fault[0] != '\0' && !atomic_flag_test_and_set(&said_fault))
        tern_log_write(environment_code == TERN_OK ? TERN_LOG_WARNING : TERN_LOG_ERROR, NULL, "%s",
                       environment_fault);
    if (out_error != NULL)
        *out_error = environment_refused ? environment_fault : NULL;
    return &environment;
}
