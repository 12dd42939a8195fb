/* Device policy and the reasoned fallback to the CPU. The reason is decided once per process. */
#include "core/fallback.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend.h"
#include "core/error.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic int policy = TERN_PREFER;
static bool hidden; /* CUDA_VISIBLE_DEVICES names no device; read once */
static atomic_flag said = ATOMIC_FLAG_INIT;

static const tern_fallback_t hidden_by_empty_list = {
    "hidden-by-empty-list", "CUDA_VISIBLE_DEVICES is empty",
    "unset CUDA_VISIBLE_DEVICES, or set it to the devices to use, e.g. CUDA_VISIBLE_DEVICES=0"
};
static const tern_fallback_t disabled_by_policy = {
    "disabled-by-policy", "the device policy is cpu",
    "unset TERN_DEVICE_POLICY, or call tern_set_device_policy(TERN_PREFER)"
};
static const tern_fallback_t plugin_missing = {
    "plugin-missing", "no CUDA backend (libtern_cuda.so) is loaded",
    "use a build of tern with the CUDA backend, or load one with tern_plugin_load"
};

/* The plugin's own words; kept for the process, like the decision. */
static const tern_fallback_t plugin_unusable = {
    "plugin-unusable", NULL,
    "run it where a CUDA device is, or set TERN_SIM_DEVICES=1 to simulate one"
};

static void read_environment(void)
{
    const char *wish = getenv("TERN_DEVICE_POLICY");
    if (wish != NULL && strcmp(wish, "require") == 0)
        policy = TERN_REQUIRE;
    else if (wish != NULL && strcmp(wish, "cpu") == 0)
        policy = TERN_CPU_ONLY;
    else if (wish != NULL && strcmp(wish, "prefer") != 0 && wish[0] != '\0')
        tern_log_write(TERN_LOG_WARNING, NULL,
                       "TERN_DEVICE_POLICY=%s is none of prefer, require, cpu: prefer holds", wish);
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    hidden = visible != NULL && (visible[0] == '\0' || strcmp(visible, "-1") == 0);
}

static int current_policy(void)
{
    (void)pthread_once(&once, read_environment);
    return policy;
}

void tern_set_device_policy(tern_device_policy_t new_policy)
{
    (void)pthread_once(&once, read_environment);
    if (new_policy >= TERN_PREFER && new_policy <= TERN_CPU_ONLY)
        policy = (int)new_policy;
}

bool core_cuda_disabled(void)
{
    return current_policy() == TERN_CPU_ONLY || hidden;
}

bool tern_dev_fallback(tern_fallback_t *out_why)
{
    if (tern_dev_count(TERN_KIND_CUDA) > 0)
        return false;
    const tern_fallback_t *why = current_policy() == TERN_CPU_ONLY ? &disabled_by_policy
                                 : hidden                          ? &hidden_by_empty_list
                                                                   : &plugin_missing;
    tern_fallback_t unusable = plugin_unusable;
    if (why == &plugin_missing) {
        unusable.text = core_plugin_find_cuda();
        why = unusable.text != NULL ? &unusable : why;
    }
    if (out_why != NULL)
        *out_why = *why;
    return true;
}

bool core_fall_back(tern_thread *self, tern_site_t site, const char *what)
{
    tern_fallback_t why = plugin_missing;
    (void)tern_dev_fallback(&why);
    if (current_policy() == TERN_REQUIRE) {
        core_error(self, site, TERN_ERR_DEVICE, what,
                   "a CUDA device is required, and there is none: %s [%s]\n  try %s", why.text,
                   why.code, why.next_step);
        return false;
    }
    if (current_policy() == TERN_CPU_ONLY || atomic_flag_test_and_set(&said))
        return true;
    /* the one line that the library writes unasked */
    fprintf(stderr, "tern: CUDA was asked for, using the CPU: %s [%s]\n", why.text, why.code);
    tern_log_write(TERN_LOG_WARNING, site, "CUDA was asked for, using the CPU: %s [%s]", why.text,
                   why.code);
    return true;
}

tern_dev_t tern_dev_auto_at(tern_site_t site)
{
    tern_dev_t dev;
    return core_dev_resolve(core_self(), site, "tern_dev_auto", TERN_CUDA(-1), &dev) ? dev
                                                                                     : TERN_CPU;
}
