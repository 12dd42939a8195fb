/* The search for CUDA. The order is from what is cheap and certain to what loads code: the list of
 * visible devices, a plugin's file, the driver in a child process, the plugin itself. */
#include "core/cuda/cuda.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend.h"
#include "core/cuda/code.h"
#include "core/lock.h"
#include "core/log.h"
#include "core/numeral.h"
#include "core/plugin.h"
#include "core/visible/list.h"

#ifndef TERN_HAVE_CUDA
#define TERN_HAVE_CUDA 0
#endif

enum { TURING = 75 }; /* the oldest that CUDA 13 compiles for */
enum { DEFAULT_PROBE_SECONDS = 60, MOST_PROBE_SECONDS = 3600, MOST_SIM_DEVICES = 16 };

static core_cuda_state state;
static atomic_bool done;
static atomic_flag said_changed = ATOMIC_FLAG_INIT;

static core_reason says(core_reason reason, const char *format, ...) TERN_PRINTF(2, 3);
static core_reason says(core_reason reason, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(state.text, sizeof state.text, format, arguments);
    va_end(arguments);
    core_reason_escape(state.text);
    state.next[0] = '\0';
    return reason;
}

/* ---- visible devices ----------------------------------------------------------------------------- */

static int shown(int length)
{
    return length < 80 ? length : 80;
}

static core_reason bad_list(const core_visible_list *list, core_visible_end end)
{
    switch (end) {
    case CORE_VISIBLE_END_REPEATED:
        return says(CORE_REASON_HIDDEN_BY_BAD_LIST,
                    "CUDA_VISIBLE_DEVICES=%.200s names a device twice, which hides all",
                    state.visible);
    case CORE_VISIBLE_END_GARBAGE:
    case CORE_VISIBLE_END_NEGATIVE:
        return says(CORE_REASON_HIDDEN_BY_BAD_LIST,
                    "CUDA_VISIBLE_DEVICES=%.200s ends before its first device: '%.*s' is none%s",
                    state.visible, shown(list->ended_by.length), list->ended_by.text,
                    list->ended_by.text[0] == '\'' || list->ended_by.text[0] == '"'
                        ? ", its quotes are a part of it"
                        : "");
    default:
        return says(CORE_REASON_HIDDEN_BY_BAD_LIST, "CUDA_VISIBLE_DEVICES=%.200s begins with a %s",
                    state.visible,
                    state.visible[0] == 'G' || state.visible[0] == 'M'
                        ? "UUID that is no device's, or the beginning of several"
                        : "device that is not there");
    }
}

/* Not set, empty and 0: none. -1: the value cannot be read. */
static int sim_devices(void)
{
    const char *wish = getenv("TERN_SIM_DEVICES");
    if (wish == NULL || wish[0] == '\0')
        return 0;
    char *end;
    const long n = strtol(wish, &end, 10);
    return end != wish && *end == '\0' && n >= 0 && n <= MOST_SIM_DEVICES ? (int)n : -1;
}

static core_reason check_list(void)
{
    const char *value = getenv("CUDA_VISIBLE_DEVICES");
    state.visible = value != NULL ? strdup(value) : NULL;
    core_visible_list list;
    core_visible_parse(state.visible, &list);
    if (list.form == CORE_VISIBLE_NONE)
        return says(CORE_REASON_HIDDEN_BY_EMPTY_LIST, "CUDA_VISIBLE_DEVICES is %s",
                    strchr(state.visible, '-') != NULL ? "-1" : "empty");
    if (state.visible != NULL && strcmp(state.visible, "NoDevFiles") == 0) /* Slurm's, of no GPU */
        return says(CORE_REASON_HIDDEN_BY_EMPTY_LIST, "CUDA_VISIBLE_DEVICES is NoDevFiles");
    if (core_visible_hides_all(&list))
        return bad_list(&list, list.end);
    int index[CORE_VISIBLE_MOST];
    core_visible_end end;
    if (state.simulated && list.form == CORE_VISIBLE_INDEX &&
        core_visible_resolve(&list, sim_devices(), NULL, index, &end) == 0)
        return bad_list(&list, end);
    return CORE_REASON_NONE;
}

/* ---- the plugin ---------------------------------------------------------------------------------- */

static const char *plugin_file(void)
{
    return state.simulated ? "libtern_sim.so" : "libtern_cuda.so";
}

static void add_tried(const char *path, const char *what)
{
    char line[CORE_REASON_BYTES];
    const size_t used = strlen(state.tried);
    (void)snprintf(line, sizeof line, "%s: %s", path, what);
    core_reason_escape(line);
    (void)snprintf(state.tried + used, sizeof state.tried - used, "%s\n", line);
}

static void no_such_file(const char *folder, const char *why, void *user)
{
    (void)user;
    add_tried(folder, why);
}

static bool is_there(const char *path, void *user)
{
    (void)path, (void)user;
    return true;
}

static bool has_code(const tern_backend_needs *needs, int capability)
{
    for (int i = 0; i < needs->code_count; i++)
        if (core_cuda_code_runs(needs->code[i], capability))
            return true;
    return false;
}

static bool ptx_is_for(const tern_backend_needs *needs, int capability)
{
    return needs->ptx != 0 && needs->ptx <= capability;
}

/* PTX is text for a compiler in the driver, which knows none newer than itself. */
static bool runs_ptx(const tern_backend_needs *needs, int capability)
{
    const int driver = state.probe.driver_version;
    return ptx_is_for(needs, capability) && (driver == 0 || driver >= needs->ptx_driver_version);
}

static bool runs_on(const tern_backend_needs *needs, int capability)
{
    if (capability == 0 || (needs->code_count == 0 && needs->ptx == 0))
        return true; /* not known: the plugin will tell */
    return has_code(needs, capability) || runs_ptx(needs, capability);
}

/* One that runs is enough to go on with all. */
static void note_devices_without_code(const tern_backend_needs *needs, const core_probe *p)
{
    for (int i = 0; i < p->device_count && i < CORE_PROBE_DEVICES; i++) {
        const int capability = p->capability[i], major = capability / 10, minor = capability % 10;
        state.lacks_code[i] = !runs_on(needs, capability);
        if (!runs_on(needs, capability) && ptx_is_for(needs, capability))
            tern_log_write(TERN_LOG_WARNING, NULL,
                           "cuda:%d cannot be used: the plugin has no machine code for its compute "
                           "capability %d.%d, and its PTX needs a driver for CUDA %d.%d",
                           i, major, minor, needs->ptx_driver_version / 1000,
                           needs->ptx_driver_version % 1000 / 10);
        else if (!runs_on(needs, capability))
            tern_log_write(
                TERN_LOG_WARNING, NULL,
                "cuda:%d cannot be used: the plugin has no code for its compute capability "
                "%d.%d; CUDA_VISIBLE_DEVICES can leave it out",
                i, major, minor);
        else if (capability > 0 && needs->code_count > 0 && !has_code(needs, capability))
            tern_log_write(TERN_LOG_INFO, NULL,
                           "cuda:%d: the plugin has no machine code for its compute capability "
                           "%d.%d; the driver makes some at the first use, which may take minutes, "
                           "and keeps it; a build with -DTERN_CUDA_ARCHS=%d has it",
                           i, major, minor, capability);
    }
}

/* What the plugin says it needs, against what the driver said it is. */
static core_reason check_needs(const tern_backend_needs *needs)
{
    const core_probe *p = &state.probe;
    if (needs == NULL || p->outcome != CORE_PROBE_ANSWERED)
        return CORE_REASON_NONE;
    const int has = p->driver_version, least = needs->driver_version;
    if (has > 0 && has / 1000 < least / 1000) /* within a major version any driver will do */
        return says(CORE_REASON_DRIVER_TOO_OLD,
                    "the driver is for CUDA %d.%d, this plugin needs one for CUDA %d.%d",
                    has / 1000, has % 1000 / 10, least / 1000, least % 1000 / 10);
    int usable = 0;
    for (int i = 0; i < p->device_count && i < CORE_PROBE_DEVICES; i++)
        usable += runs_on(needs, p->capability[i]);
    if (usable > 0) {
        note_devices_without_code(needs, p);
        return CORE_REASON_NONE;
    }
    if (ptx_is_for(needs, p->capability[0]))
        return says(
            CORE_REASON_DRIVER_TOO_OLD,
            "the driver is for CUDA %d.%d; this plugin has no machine code for compute "
            "capability %d.%d (a build with -DTERN_CUDA_ARCHS=%d has it), and its PTX needs "
            "a driver for CUDA %d.%d",
            has / 1000, has % 1000 / 10, p->capability[0] / 10, p->capability[0] % 10,
            p->capability[0], needs->ptx_driver_version / 1000,
            needs->ptx_driver_version % 1000 / 10);
    const core_reason reason = says(CORE_REASON_NO_CODE_FOR_ARCHITECTURE,
                                    "the plugin has no code for compute capability %d.%d",
                                    p->capability[0] / 10, p->capability[0] % 10);
    (void)snprintf(state.next, sizeof state.next,
                   "build tern for it: cmake --preset release -DTERN_CUDA_ARCHS=%d%s",
                   p->capability[0],
                   p->capability[0] < TURING ? ", with a CUDA toolkit before 13" : "");
    return reason;
}

/* "cudaErrorNoDevice (100): ..." is the driver's word, by which the plugin itself did not start; but for "invalid
 * value", which simulated devices say of their settings. NONE: it is the plugin's own fault. */
static core_reason did_not_start(const char *why)
{
    const char *number = strstr(why, " (");
    const int code = strncmp(why, "cudaError", 9) == 0 && number != NULL ? atoi(number + 2) : 0;
    if (code == 0 || (code == 1 && state.simulated))
        return CORE_REASON_NONE;
    /* "too old", which was asked before, unless no child could be made */
    const bool mixed = (code == 35 || code == 36) && state.probe.outcome == CORE_PROBE_ANSWERED;
    const char *library = state.probe.library[0] != '\0' ? state.probe.library : "libcuda.so.1";
    const core_reason reason =
        says(code == 100 ? CORE_REASON_NO_DEVICE : CORE_REASON_INIT_FAILED,
             "the CUDA runtime did not start: %s%s%s", why,
             mixed ? "; the driver's files may be of several versions: look at " : "",
             mixed ? library : "");
    (void)snprintf(state.next, sizeof state.next, "%s", core_probe_next(code));
    return reason;
}

static bool is_for_another_machine(core_reason reason)
{
    return reason == CORE_REASON_DRIVER_TOO_OLD || reason == CORE_REASON_NO_CODE_FOR_ARCHITECTURE;
}

/* A good plugin of an earlier folder that is not for this driver or GPU says more. */
static void note_broken(core_reason *reason, const char *path, const char *why)
{
    add_tried(path, why);
    if (!is_for_another_machine(*reason))
        *reason = says(CORE_REASON_PLUGIN_BROKEN, "%.300s: %s", path, why);
}

/* True ends the search: the plugin runs, or what is wrong is no plugin's fault. */
static bool load(const char *path, void *user)
{
    core_reason *reason = user;
    core_plugin plugin;
    char why[CORE_PLUGIN_WHY];
    if (!core_plugin_open(path, &plugin, why)) {
        note_broken(reason, path, why);
        return false;
    }
    const core_reason lacking = check_needs(plugin.needs);
    if (lacking != CORE_REASON_NONE) {
        core_plugin_close(&plugin);
        add_tried(path, state.text);
        *reason = lacking;
        return false;
    }
    if (!core_plugin_start(&plugin, why)) {
        const core_reason fault = did_not_start(why);
        if (fault == CORE_REASON_NONE) {
            note_broken(reason, path, why);
            return false;
        }
        add_tried(path, why);
        *reason = fault;
        return true;
    }
    if (*reason != CORE_REASON_PLUGIN_MISSING) /* one in an earlier folder */
        core_log_warn("%.400s; %.300s is taken in its stead", state.text, path);
    (void)snprintf(state.plugin, sizeof state.plugin, "%s", path);
    *reason = CORE_REASON_NONE;
    state.text[0] = '\0';
    return true;
}

static core_reason find_plugin(void)
{
    if (sim_devices() < 0) /* not a real device in place of those that somebody meant to simulate */
        return says(CORE_REASON_DISABLED_BY_BAD_COUNT,
                    "TERN_SIM_DEVICES=%.80s is no number of simulated devices from 1 to %d",
                    getenv("TERN_SIM_DEVICES"), MOST_SIM_DEVICES);
    if (core_plugin_search(plugin_file(), is_there, no_such_file, NULL))
        return CORE_REASON_NONE;
    char cards[CORE_PROBE_TEXT] = "";
    if (!state.simulated && core_probe_cards(cards) == CORE_CARDS_NONE)
        return says(CORE_REASON_NO_GPU, "%s", cards); /* which no plugin would help */
    const char *then = cards[0] != '\0' ? "; " : "";
    if (!state.simulated && !TERN_HAVE_CUDA)
        return says(CORE_REASON_BUILT_WITHOUT, "this build of tern has no CUDA backend%s%s", then,
                    cards);
    return says(CORE_REASON_PLUGIN_MISSING, "there is no %s where tern looks for plugins%s%s",
                plugin_file(), then, cards);
}

/* ---- the driver ---------------------------------------------------------------------------------- */

/* 0: the driver is not asked beforehand. */
static int64_t probe_ms(void)
{
    const char *wish = getenv("TERN_PROBE_SECONDS");
    char *end = NULL;
    const double seconds = wish != NULL ? core_parse_real(wish, &end) : DEFAULT_PROBE_SECONDS;
    if (wish == NULL ||
        (end != wish && *end == '\0' && seconds >= 0 && seconds <= MOST_PROBE_SECONDS))
        return (int64_t)(seconds * 1000);
    core_log_warn("TERN_PROBE_SECONDS: '%.200s' is no number of seconds from 0 to %d: %d hold",
                  wish, MOST_PROBE_SECONDS, DEFAULT_PROBE_SECONDS);
    return (int64_t)DEFAULT_PROBE_SECONDS * 1000;
}

/* "No device" with a list of visible ones may mean that the list is at fault: asked again without. */
static bool list_is_to_blame(int64_t timeout_ms)
{
    const core_probe *p = &state.probe;
    const bool none =
        p->outcome == CORE_PROBE_ANSWERED &&
        (p->code == 100 || p->code == 101 || (p->stage == CORE_PROBE_DONE && p->device_count == 0));
    if (!none || state.visible == NULL)
        return false;
    core_probe all;
    core_probe_driver(true, timeout_ms, &all);
    return all.stage == CORE_PROBE_DONE && all.device_count > 0;
}

static core_reason reason_of_probe(void)
{
    const core_reason reason = core_probe_reason(&state.probe, state.text);
    core_reason_escape(state.text);
    state.next[0] = '\0';
    return reason;
}

static core_reason ask_driver_for(int64_t timeout_ms)
{
    core_probe_driver(false, timeout_ms, &state.probe);
    if (state.probe.outcome == CORE_PROBE_IMPOSSIBLE) { /* a limit of processes or files */
        tern_log_write(TERN_LOG_WARNING, NULL,
                       "CUDA's driver cannot be asked in a child beforehand (%s): if it hangs or "
                       "crashes, so does this process",
                       strerror(state.probe.code));
        return CORE_REASON_NONE;
    }
    if (list_is_to_blame(timeout_ms))
        return bad_list(NULL, CORE_VISIBLE_END_UNKNOWN);
    return reason_of_probe();
}

static core_reason ask_driver(void)
{
    const int64_t timeout_ms = state.simulated ? 0 : probe_ms();
    return timeout_ms > 0 ? ask_driver_for(timeout_ms) : CORE_REASON_NONE;
}

static core_reason load_plugin(void)
{
    core_reason reason = CORE_REASON_PLUGIN_MISSING; /* should its file have gone since */
    (void)core_plugin_search(plugin_file(), load, NULL, &reason);
    return reason;
}

/* The runtime calls a driver that is not there too old. So a driver that was not to be asked beforehand is asked
 * once the plugin has failed, and compared with what that needs. */
static core_reason load_plugin_or_ask(void)
{
    const size_t tried = strlen(state.tried);
    const core_reason reason = load_plugin();
    const bool failed = reason == CORE_REASON_PLUGIN_BROKEN || reason == CORE_REASON_INIT_FAILED ||
                        reason == CORE_REASON_NO_DEVICE;
    if (!failed || state.simulated)
        return reason;
    core_probe here;
    if (state.probe.outcome == CORE_PROBE_IMPOSSIBLE && !core_probe_opens(&here)) {
        state.probe = here;
        return reason_of_probe();
    }
    if (state.probe.outcome != CORE_PROBE_SKIPPED)
        return reason;
    const core_reason drivers = ask_driver_for((int64_t)DEFAULT_PROBE_SECONDS * 1000);
    if (drivers != CORE_REASON_NONE)
        return drivers;
    state.tried[tried] = '\0';
    return load_plugin();
}

/* Simulated devices are counted by their plugin alone, which knows their UUIDs. */
static bool names_no_simulated(void)
{
    core_visible_list list;
    core_visible_parse(state.visible, &list);
    return state.simulated && (list.form == CORE_VISIBLE_UUID || list.form == CORE_VISIBLE_MIG);
}

/* ---- the search ---------------------------------------------------------------------------------- */

static core_reason search(void)
{
    state.probe.outcome = CORE_PROBE_SKIPPED;
    if (core_cuda_forked()) /* while another thread's search was starting the plugin */
        return CORE_REASON_FORKED_AFTER_START;
    state.simulated = sim_devices() > 0;
    core_probe_kernel_driver(state.kernel_driver);
    core_reason reason = check_list();
    if (reason != CORE_REASON_NONE || core_backend_of(TERN_KIND_CUDA) != NULL)
        return reason;
    reason = find_plugin();
    if (reason == CORE_REASON_NONE)
        reason = ask_driver();
    if (reason != CORE_REASON_NONE)
        return reason;
    reason = load_plugin_or_ask();
    return reason == CORE_REASON_NO_DEVICE && names_no_simulated()
               ? bad_list(NULL, CORE_VISIBLE_END_UNKNOWN)
               : reason;
}

/* "0;1" is device 0, as the driver reads it: of an element the digits count. */
static const core_visible_part *with_a_tail(const core_visible_list *list)
{
    for (int i = 0; list->form == CORE_VISIBLE_INDEX && i < list->count; i++)
        if ((int)strspn(list->part[i].text, "+0123456789") < list->part[i].length)
            return &list->part[i];
    return NULL;
}

/* A list that shows some devices and not all that it seems to is no reason to go without, but is seldom meant. */
static void say_if_cut(void)
{
    core_visible_list list;
    core_visible_parse(state.visible, &list);
    const tern_backend *backend = core_backend_of(TERN_KIND_CUDA);
    const int there = backend != NULL ? backend->device_count : 0;
    const core_visible_part *odd = with_a_tail(&list), *end = &list.ended_by;
    if (list.end == CORE_VISIBLE_END_GARBAGE)
        core_log_warn(
            "CUDA_VISIBLE_DEVICES=%.200s ends before '%.*s', which is no device: %d visible",
            state.visible, shown(end->length), end->text, there);
    else if (list.end == CORE_VISIBLE_END_NEGATIVE && strchr(end->text, ',') != NULL)
        core_log_warn("CUDA_VISIBLE_DEVICES=%.200s ends at '%.*s', what follows is not read: "
                      "%d visible",
                      state.visible, shown(end->length), end->text, there);
    else if (odd != NULL)
        core_log_warn("CUDA_VISIBLE_DEVICES=%.200s: of '%.*s' only the number in front counts; "
                      "commas stand between devices: %d visible",
                      state.visible, shown(odd->length), odd->text, there);
    else if ((list.form == CORE_VISIBLE_INDEX || list.form == CORE_VISIBLE_UUID) &&
             there < list.count) /* of parts of a GPU (MIG) the driver shows one */
        core_log_warn("CUDA_VISIBLE_DEVICES=%.200s names %d devices, and the list ends before the "
                      "first that is not there: %d visible",
                      state.visible, list.count, there);
}

/* With the lock. A fork in the middle left the child what had been found: it begins anew. */
static void find_out(void)
{
    state = (core_cuda_state){ 0 };
    state.reason = says(CORE_REASON_PLUGIN_MISSING, "CUDA is still being looked for");
    tern_log_write(TERN_LOG_INFO, core_self()->site,
                   "CUDA is looked for: nothing has asked for it before");
    state.reason = search();
    if (state.reason != CORE_REASON_NONE && state.next[0] == '\0' && !state.simulated)
        core_probe_step(state.reason, &state.probe, state.next);
    if (state.reason != CORE_REASON_NONE)
        return;
    state.text[0] = '\0';
    say_if_cut();
}

const core_cuda_state *core_cuda(void)
{
    static const core_cuda_state not_now = {
        .reason = CORE_REASON_PLUGIN_MISSING,
        .text = "CUDA is not looked for while a plugin is being started",
    };
    if (atomic_load_explicit(&done, memory_order_acquire))
        return &state;
    if (core_lock_mine(CORE_LOCK_CUDA)) /* a callback of the log asks again */
        return &state;
    if (core_lock_mine(CORE_LOCK_PLUGIN)) /* so it does, but another thread may be searching */
        return &not_now;
    core_once(CORE_LOCK_CUDA, &done, find_out);
    return &state;
}

void core_cuda_check_visible(void)
{
    if (!atomic_load_explicit(&done, memory_order_acquire))
        return;
    const char *now = getenv("CUDA_VISIBLE_DEVICES");
    const char *then = state.visible;
    if ((now == NULL) == (then == NULL) && (now == NULL || strcmp(now, then) == 0))
        return;
    if (!atomic_flag_test_and_set(&said_changed))
        core_log_warn(
            "CUDA_VISIBLE_DEVICES is %s%.200s now and was %s%.200s when tern read it: it is read "
            "once, so the change has no effect. Set it before the program starts",
            now != NULL ? "=" : "not set", now != NULL ? now : "", then != NULL ? "=" : "not set",
            then != NULL ? then : "");
}
