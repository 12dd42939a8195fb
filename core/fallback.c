/* Device policy, the switches, and the reasoned fallback to the CPU. */
#include "core/fallback.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend.h"
#include "core/cuda/cuda.h"
#include "core/error.h"
#include "core/lock.h"

static atomic_bool environment_read;
enum { UNKNOWN_POLICY = -1 }; /* TERN_DEVICE_POLICY says something else: nobody guesses what */
static char unknown_text[CORE_REASON_BYTES] = ""; /* about it */
static _Atomic int policy = TERN_PREFER;
static _Atomic bool cuda_enabled = true, cudnn_enabled = true;
static atomic_flag said = ATOMIC_FLAG_INIT, said_unknown = ATOMIC_FLAG_INIT;

/* ---- policy and switches ------------------------------------------------------------------------- */

static void read_environment(void)
{
    const char *wish = getenv("TERN_DEVICE_POLICY");
    if (wish != NULL && strcmp(wish, "require") == 0)
        policy = TERN_REQUIRE;
    else if (wish != NULL && strcmp(wish, "cpu") == 0)
        policy = TERN_CPU_ONLY;
    else if (wish != NULL && strcmp(wish, "prefer") != 0 && wish[0] != '\0')
        policy = UNKNOWN_POLICY;
    if (policy == UNKNOWN_POLICY)
        (void)snprintf(unknown_text, sizeof unknown_text,
                       "TERN_DEVICE_POLICY=%.80s is none of prefer, require, cpu", wish);
    core_reason_escape(unknown_text);
}

static void know_environment(void)
{
    core_once(CORE_LOCK_SETTINGS, &environment_read, read_environment);
}

/* Said without the lock: a callback of the log may ask for the policy. */
static int current_policy(void)
{
    know_environment();
    const int now = policy;
    if (now == UNKNOWN_POLICY && !atomic_flag_test_and_set(&said_unknown))
        tern_log_write(TERN_LOG_WARNING, NULL, "%s: requests for CUDA fail", unknown_text);
    return now;
}

/* Nothing is said of a variable in whose place the program says what holds. */
void tern_set_device_policy(tern_device_policy_t new_policy)
{
    know_environment();
    if (new_policy >= TERN_PREFER && new_policy <= TERN_CPU_ONLY)
        policy = (int)new_policy;
}

void tern_cuda_set_enabled(bool enabled)
{
    cuda_enabled = enabled;
}

bool tern_cuda_enabled(void)
{
    return cuda_enabled;
}

void tern_cudnn_set_enabled(bool enabled)
{
    cudnn_enabled = enabled;
}

bool tern_cudnn_enabled(void)
{
    return cudnn_enabled;
}

/* ---- why ----------------------------------------------------------------------------------------- */

core_reason core_cuda_reason(void)
{
    const int now = current_policy();
    if (now == TERN_CPU_ONLY)
        return CORE_REASON_DISABLED_BY_POLICY;
    if (now == UNKNOWN_POLICY)
        return CORE_REASON_DISABLED_BY_BAD_POLICY;
    if (!cuda_enabled)
        return CORE_REASON_DISABLED_BY_CALL;
    if (core_cuda_forked())
        return CORE_REASON_FORKED_AFTER_START;
    const core_reason found = core_cuda()->reason;
    const bool hidden =
        found == CORE_REASON_HIDDEN_BY_EMPTY_LIST || found == CORE_REASON_HIDDEN_BY_BAD_LIST;
    /* the program may have loaded a plugin after the search */
    return !hidden && core_backend_of(TERN_KIND_CUDA) != NULL ? CORE_REASON_NONE : found;
}

static const char *text_of(core_reason reason)
{
    switch (reason) {
    case CORE_REASON_DISABLED_BY_POLICY:
        return "the device policy is cpu";
    case CORE_REASON_DISABLED_BY_BAD_POLICY:
        return unknown_text;
    case CORE_REASON_DISABLED_BY_CALL:
        return "the program switched CUDA off (tern_cuda_set_enabled)";
    case CORE_REASON_FORKED_AFTER_START:
        return CORE_CUDA_FORKED_TEXT;
    default:
        return core_cuda()->text;
    }
}

/* What the search found may know a better step than its reason has. */
static const char *next_of(core_reason reason)
{
    switch (reason) {
    case CORE_REASON_DISABLED_BY_POLICY: /* which do not begin one */
    case CORE_REASON_DISABLED_BY_BAD_POLICY:
    case CORE_REASON_DISABLED_BY_CALL:
    case CORE_REASON_FORKED_AFTER_START:
        return core_reason_next(reason);
    default:
        return core_cuda()->next[0] != '\0' ? core_cuda()->next : core_reason_next(reason);
    }
}

bool tern_dev_fallback(tern_fallback_t *out_why)
{
    core_cuda_check_visible();
    const core_reason reason = core_cuda_reason();
    if (reason == CORE_REASON_NONE)
        return false;
    if (out_why != NULL)
        *out_why = (tern_fallback_t){ core_reason_code(reason), text_of(reason), next_of(reason) };
    return true;
}

/* ---- falling back --------------------------------------------------------------------------------- */

bool core_fall_back_for(tern_thread *self, tern_site_t site, const char *what,
                        const tern_fallback_t *why)
{
    const int now = current_policy();
    if (now == UNKNOWN_POLICY) { /* it may have been meant to be require */
        core_error(self, site, TERN_ERR_DEVICE, what, "%s [%s]\n  next: %s", why->text, why->code,
                   why->next_step);
        return false;
    }
    if (now == TERN_REQUIRE) {
        core_error(self, site, TERN_ERR_DEVICE, what,
                   "a CUDA device is required, and there is none: %s [%s]\n  next: %s", why->text,
                   why->code, why->next_step);
        return false;
    }
    if (now == TERN_CPU_ONLY || atomic_flag_test_and_set(&said))
        return true;
    /* the one line that the library writes unasked */
    fprintf(stderr, "tern: using the CPU instead of CUDA: %s [%s]  (tern explain %s)\n", why->text,
            why->code, why->code);
    tern_log_write(TERN_LOG_WARNING, site, "using the CPU instead of CUDA: %s [%s]", why->text,
                   why->code);
    return true;
}

bool core_fall_back(tern_thread *self, tern_site_t site, const char *what)
{
    tern_fallback_t why = { "", "", "" };
    (void)tern_dev_fallback(&why);
    if (core_cuda_reason() == CORE_REASON_FORKED_AFTER_START) {
        core_error(self, site, TERN_ERR_STATE, what, "%s", core_cuda_left_words());
        return false;
    }
    return core_fall_back_for(self, site, what, &why);
}
