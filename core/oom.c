/* Out of memory: what is known, the text that says it, and what may be done instead. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/backend.h"
#include "core/control_group.h"
#include "core/cpu_memory.h"
#include "core/device_memory.h"
#include "core/error.h"
#include "core/lock.h"
#include "core/log.h"
#include "core/tally.h"
#include "core/thread_cache.h"

/* Of thread-local memory a library that is opened late gets some 1.5 KiB. */
enum { MAX_ATTEMPTS = 8, SIZE_TEXT = 48, WHY_BYTES = 512, WORTH_A_WORD = 1 << 20 };

/* Of the calling thread's last failed request. */
typedef struct last_failure {
    bool known;           /* info holds the last out of memory */
    bool pending;         /* core_oom_error has not told it yet */
    tern_status_t status; /* of the pending one */
    tern_oom_info_t info;
    bool by_fraction, no_addresses;
    int64_t wanted, less; /* as core_alloc_failure has them */
    int64_t resting;      /* of the CPU: in lists of other threads */
    char why[WHY_BYTES];  /* the device's words, or "" */
} last_failure;

static _Thread_local last_failure last;
static _Thread_local bool hushed;
static _Atomic int policy;
static _Atomic int64_t fallbacks;
static tern_oom_callback oom_callback; /* with its user: of CORE_LOCK_SETTINGS */
static void *oom_callback_user;

/* ---- who holds the memory ---------------------------------------------------------------------------- */

static int by_site(const void *left, const void *right)
{
    const char *x = ((const core_alloc_block_info *)left)->site;
    const char *y = ((const core_alloc_block_info *)right)->site;
    if (x == NULL || y == NULL)
        return (x != NULL) - (y != NULL);
    return x == y ? 0 : strcmp(x, y);
}

/* Keeps the largest few, in order. */
static void keep_site(tern_oom_info_t *info, tern_oom_site_t site)
{
    int64_t at = info->site_count;
    while (at > 0 && info->sites[at - 1].bytes < site.bytes)
        at--;
    if (at == TERN_OOM_SITES)
        return;
    if (info->site_count < TERN_OOM_SITES)
        info->site_count++;
    for (int64_t i = info->site_count - 1; i > at; i--)
        info->sites[i] = info->sites[i - 1];
    info->sites[at] = site;
}

/* Tells what rests, too: the lists of the caller and of ended threads were emptied before. */
static int64_t fill_sites(tern_oom_info_t *info, core_alloc *a)
{
    int64_t resting = 0;
    core_alloc_snapshot snapshot;
    if (core_alloc_snapshot_init(a, &snapshot) != TERN_OK)
        return 0;
    core_alloc_block_info *blocks = snapshot.blocks;
    if (snapshot.block_count > 0)
        qsort(blocks, (size_t)snapshot.block_count, sizeof *blocks, by_site);
    tern_oom_site_t group = { NULL, 0, 0 };
    for (int64_t i = 0; i < snapshot.block_count; i++) {
        if (i > 0 && by_site(&blocks[i - 1], &blocks[i]) != 0) {
            if (group.count > 0)
                keep_site(info, group);
            group = (tern_oom_site_t){ NULL, 0, 0 };
        }
        resting += blocks[i].state == CORE_ALLOC_STATE_RESTING ? blocks[i].size : 0;
        if (blocks[i].state != CORE_ALLOC_STATE_ALLOCATED)
            continue;
        group.site = blocks[i].site;
        group.bytes += blocks[i].requested;
        group.count++;
    }
    if (group.count > 0)
        keep_site(info, group);
    core_alloc_snapshot_deinit(&snapshot);
    return resting;
}

/* M037: as the driver's library tells it. */
static void fill_processes(tern_oom_info_t *info)
{
    const tern_backend *b = core_backend_of(info->device.kind);
    const size_t needed = offsetof(tern_backend_info, processes) + sizeof b->info->processes;
    if (b == NULL || b->info == NULL || b->info->size < needed || b->info->processes == NULL)
        return;
    tern_backend_process list[TERN_OOM_PROCESSES];
    const int count = b->info->processes(b->context, info->device.index, list, TERN_OOM_PROCESSES);
    info->process_count = count > 0 ? count : 0;
    for (int i = 0; i < count; i++)
        info->processes[i] = (tern_oom_process_t){ list[i].pid, list[i].bytes };
}

/* ---- numbers ------------------------------------------------------------------------------------------- */

static int64_t positive(int64_t n)
{
    return n > 0 ? n : 0;
}

/* A device that others have filled cannot even be opened, so nothing that this process holds counts. */
static void note_words(tern_thread *self)
{
    const bool said = self->message_code == TERN_ERR_OOM && last.info.total_bytes < 0;
    (void)snprintf(last.why, sizeof last.why, "%.*s", WHY_BYTES - 1, said ? self->message : "");
}

void core_oom_note(tern_site_t site, tern_dev_t dev, core_alloc *a,
                   const core_alloc_failure *failure)
{
    if (hushed)
        return;
    last.known = last.pending = true;
    last.status = TERN_ERR_OOM;
    last.by_fraction = failure->by_fraction;
    last.no_addresses = failure->no_addresses;
    tern_oom_info_t *info = &last.info;
    *info = (tern_oom_info_t){ .device = dev,
                               .site = site,
                               .requested_bytes = failure->requested,
                               .segment_bytes = failure->segment,
                               .free_bytes = failure->device_free,
                               .total_bytes = failure->device_total,
                               .allowed_bytes = failure->allowed,
                               .allocated_bytes = failure->allocated,
                               .reserved_bytes = failure->reserved,
                               .largest_free_bytes = failure->largest_free,
                               .returnable_bytes = failure->returnable,
                               .fragmented_bytes = failure->inactive_split,
                               .other_processes_bytes = -1,
                               .missing_bytes = failure->missing };
    last.wanted = failure->wanted;
    last.less = failure->less;
    if (info->total_bytes >= 0)
        info->other_processes_bytes =
            positive(info->total_bytes - info->free_bytes - info->reserved_bytes);
    if (dev.kind == TERN_KIND_CPU)
        info->allocated_bytes = core_tally_bytes(); /* blocks in threads' lists are no tensors */
    note_words(core_self());
    last.resting = fill_sites(info, a);
    if (last.resting >= WORTH_A_WORD)
        core_cache_call(); /* they alone may empty their lists; the next attempt finds it */
    fill_processes(info);
}

void core_oom_note_code(tern_status_t code, const char *why)
{
    if (hushed)
        return;
    last.pending = true;
    last.status = code;
    last.known = last.known && code != TERN_ERR_OOM; /* this one has no numbers */
    (void)snprintf(last.why, sizeof last.why, "%s",
                   why != NULL ? why : "the device could not give memory");
}

/* A failure above the allocators: the CPU's, or one that a fault test asked for. */
static void note_plain(tern_site_t site, tern_dev_t dev, int64_t bytes)
{
    const tern_memory_t memory = tern_memory(dev);
    last.known = true;
    last.status = TERN_ERR_OOM;
    last.by_fraction = last.no_addresses = false;
    last.wanted = bytes;
    last.less = 0;
    last.resting = 0;
    last.why[0] = '\0';
    last.info = (tern_oom_info_t){ .device = dev,
                                   .site = site,
                                   .requested_bytes = bytes,
                                   .segment_bytes = bytes,
                                   .free_bytes = -1,
                                   .total_bytes = -1,
                                   .allowed_bytes = -1,
                                   .allocated_bytes = memory.allocated_bytes,
                                   .reserved_bytes = memory.reserved_bytes,
                                   .largest_free_bytes = -1,
                                   .returnable_bytes = -1,
                                   .fragmented_bytes = -1,
                                   .other_processes_bytes = -1,
                                   .missing_bytes = -1 };
    core_alloc *a = core_device_allocator_of(dev);
    if (dev.kind != TERN_KIND_CPU)
        return;
    if (a != NULL)
        (void)fill_sites(&last.info, a);
    if (core_cpu_info(&last.info.free_bytes, &last.info.total_bytes) == TERN_OK)
        last.less = last.info.missing_bytes = positive(bytes - last.info.free_bytes);
}

bool tern_oom_info(tern_oom_info_t *out_info)
{
    if (last.known && out_info != NULL)
        *out_info = last.info;
    return last.known;
}

/* ---- words ----------------------------------------------------------------------------------------------- */

/* M036 */
static const char *size_text(int64_t bytes, char buffer[SIZE_TEXT])
{
    static const char *const units[] = { "KiB", "MiB", "GiB" };
    if (bytes <= 1024) {
        (void)snprintf(buffer, SIZE_TEXT, "%lld bytes", (long long)bytes);
        return buffer;
    }
    double value = (double)bytes / 1024;
    int unit = 0;
    while (unit < 2 && value > 1024) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(buffer, SIZE_TEXT, "%.2f %s", value, units[unit]);
    return buffer;
}

static void say_head(core_text *text, const tern_oom_info_t *info)
{
    char name[TERN_DEV_NAME_BYTES], size[SIZE_TEXT];
    core_text_add(text, "out of memory on %s: %s (%lld bytes) were asked for",
                  tern_dev_name(info->device, name), size_text(info->requested_bytes, size),
                  (long long)info->requested_bytes);
    if (last.wanted != info->segment_bytes)
        core_text_add(text, ", for which the device would give whole pages, %s of them",
                      size_text(last.wanted, size));
    else if (info->segment_bytes > info->requested_bytes)
        core_text_add(text, ", for which the device would give a segment of %s",
                      size_text(info->segment_bytes, size));
    core_text_add(text, "\n");
}

static void say_device(core_text *text, const tern_oom_info_t *info)
{
    char a[SIZE_TEXT], b[SIZE_TEXT], c[SIZE_TEXT];
    if (last.why[0] != '\0')
        core_text_add(text, "  device: %s\n", last.why);
    if (info->total_bytes < 0)
        return;
    core_text_add(text, "  device: %s free of %s", size_text(info->free_bytes, a),
                  size_text(info->total_bytes, b));
    if (info->other_processes_bytes > 0)
        core_text_add(text, ", %s used by others (processes, the driver's own)",
                      size_text(info->other_processes_bytes, c));
    if (info->allowed_bytes >= 0)
        core_text_add(text, ", %s allowed by the memory fraction",
                      size_text(info->allowed_bytes, c));
    core_text_add(text, "\n");
}

static void say_limit(core_text *text, const struct rlimit *limit, const char *flag)
{
    char size[SIZE_TEXT];
    if (limit->rlim_cur < INT64_MAX)
        core_text_add(text, "  limit: this process may have %s (ulimit %s), its code included\n",
                      size_text((int64_t)limit->rlim_cur, size), flag);
}

/* "22 GiB free" beside a request of 2 MiB that failed says nothing; the limit does. */
static void say_limits(core_text *text, const tern_oom_info_t *info)
{
    struct rlimit limit;
    if (info->device.kind != TERN_KIND_CPU)
        return;
    int64_t most, left;
    char size[SIZE_TEXT];
    if (core_group_memory(&most, &left))
        core_text_add(
            text,
            "  limit: the container or control group may have %s, all its processes together\n",
            size_text(most, size));
    if (getrlimit(RLIMIT_AS, &limit) == 0)
        say_limit(text, &limit, "-v");
    if (getrlimit(RLIMIT_DATA, &limit) == 0)
        say_limit(text, &limit, "-d");
}

static void say_processes(core_text *text, const tern_oom_info_t *info)
{
    char size[SIZE_TEXT];
    for (int64_t i = 0; i < info->process_count; i++) {
        const tern_oom_process_t *p = &info->processes[i];
        const char *bytes = p->bytes >= 0 ? size_text(p->bytes, size) : "an unknown amount";
        if (p->pid == (int64_t)getpid())
            core_text_add(text, "  this process has %s in use there, tern's included\n", bytes);
        else
            core_text_add(text, "  process %lld has %s in use there\n", (long long)p->pid, bytes);
    }
}

static void say_own(core_text *text, const tern_oom_info_t *info)
{
    char a[SIZE_TEXT], b[SIZE_TEXT];
    core_text_add(text, "  tern: %s in tensors, %s reserved", size_text(info->allocated_bytes, a),
                  size_text(info->reserved_bytes, b));
    if (info->largest_free_bytes >= 0) {
        core_text_add(text, "; of the rest the largest block that would do is %s, ",
                      size_text(info->largest_free_bytes, a));
        core_text_add(text, "tern_empty_cache would return %s\n",
                      size_text(info->returnable_bytes, a));
        if (info->fragmented_bytes > 0)
            core_text_add(text, "  fragmentation: %s are free but beside live tensors\n",
                          size_text(info->fragmented_bytes, a));
        return;
    }
    core_text_add(text, "\n");
}

static void say_resting(core_text *text)
{
    char size[SIZE_TEXT];
    if (last.resting >= WORTH_A_WORD)
        core_text_add(text,
                      "  threads: %s rest in lists of others, which give them back at their next "
                      "request\n",
                      size_text(last.resting, size));
}

static void say_sites(core_text *text, const tern_oom_info_t *info)
{
    char size[SIZE_TEXT];
    for (int64_t i = 0; i < info->site_count && i < 5; i++) {
        const tern_oom_site_t *s = &info->sites[i];
        core_text_add(text, "%s%s in %lld %s made at %s\n",
                      i == 0 ? "  most memory: " : "               ", size_text(s->bytes, size),
                      (long long)s->count, s->count == 1 ? "block" : "blocks",
                      s->site != NULL ? s->site : "a place that is not known");
    }
}

/* The fraction that would have let it pass; over 1 where none would. */
static double enough(const tern_oom_info_t *info)
{
    const int64_t bytes = info->reserved_bytes - info->returnable_bytes + info->segment_bytes;
    return (double)bytes / (double)info->total_bytes + 0.005; /* two digits are printed */
}

static void say_change(core_text *text, const tern_oom_info_t *info)
{
    char size[SIZE_TEXT];
    const int64_t missing = info->missing_bytes;
    if (last.why[0] != '\0') {
        core_text_add(text, "  to fit: end the processes that hold the device's memory");
        return;
    }
    if (last.no_addresses) {
        core_text_add(
            text, "  to fit: no addresses are left for another expandable segment; each stream has "
                  "two, of 9/8 of the device's memory each: fewer streams, or TERN_ALLOC_CONF "
                  "without expandable_segments");
        return;
    }
    if (missing > 0)
        core_text_add(text, "  to fit: free %s more", size_text(missing, size));
    else if (missing == 0 && info->device.kind != TERN_KIND_CPU)
        core_text_add(text, "  to fit: there is enough, but not in one piece");
    else
        core_text_add(text, "  to fit: ask for less");
    if (last.less > 0 && last.less < info->requested_bytes)
        core_text_add(text, ", or ask for %s less", size_text(last.less, size));
    if (last.by_fraction && info->total_bytes > 0 && enough(info) <= 1)
        core_text_add(text, "; or a memory fraction of %.2f", enough(info));
    core_text_add(text, ": a smaller batch, scopes that end earlier (TERN_SCOPE)");
    if (last.resting >= WORTH_A_WORD && last.resting >= missing)
        core_text_add(text, "; TERN_CPU_CACHE=MiB, the most that a thread's lists keep");
    if (info->fragmented_bytes >= info->segment_bytes)
        core_text_add(text, "; TERN_ALLOC_CONF=expandable_segments:True against fragmentation");
}

tern_status_t core_oom_error(tern_thread *self, tern_site_t site, tern_dev_t dev, int64_t bytes)
{
    if (hushed) {
        self->error_code = TERN_ERR_OOM;
        return TERN_ERR_OOM;
    }
    if (!last.pending)
        note_plain(site, dev, bytes);
    last.pending = false;
    if (self->error_code != TERN_OK)
        return (tern_status_t)self->error_code;
    if (last.status != TERN_ERR_OOM || !last.known)
        return core_error(self, site, last.status, NULL, "%s", last.why);
    core_text text = core_error_begin(self, site, TERN_ERR_OOM, NULL);
    say_head(&text, &last.info);
    say_device(&text, &last.info);
    say_limits(&text, &last.info);
    say_processes(&text, &last.info);
    say_own(&text, &last.info);
    say_resting(&text);
    say_sites(&text, &last.info);
    say_change(&text, &last.info);
    core_error_end(self, &text);
    return TERN_ERR_OOM;
}

void core_oom_hush(bool on)
{
    hushed = on;
}

tern_status_t core_oom_take(const char **out_why)
{
    last.pending = false;
    *out_why = last.why;
    return last.status;
}

/* ---- what may be done instead ------------------------------------------------------------------------------ */

void tern_set_oom_callback(tern_oom_callback callback, void *user)
{
    core_lock_take(CORE_LOCK_SETTINGS);
    oom_callback = callback;
    oom_callback_user = user;
    core_lock_end(CORE_LOCK_SETTINGS);
}

/* What the callback's own requests leave is not this failure's: neither numbers nor an error. */
static bool ask(tern_oom_callback call, void *user)
{
    const bool had_error = core_self()->error_code != TERN_OK;
    const last_failure failure = last;
    const bool again = call(&failure.info, user);
    last = failure;
    if (!had_error)
        tern_error_clear();
    return again;
}

bool core_oom_retry(int attempt)
{
    static _Thread_local bool inside; /* what the callback itself asks for fails at once */
    if (attempt >= MAX_ATTEMPTS || inside || hushed)
        return false;
    core_lock_take(CORE_LOCK_SETTINGS);
    const tern_oom_callback call = oom_callback;
    void *user = oom_callback_user;
    core_lock_end(CORE_LOCK_SETTINGS);
    if (call == NULL)
        return false;
    inside = true;
    const bool again = ask(call, user);
    inside = false;
    return again;
}

tern_oom_policy_t tern_get_oom_policy(void)
{
    int now = atomic_load_explicit(&policy, memory_order_relaxed);
    if (now == 0) {
        const char *text = getenv("TERN_OOM");
        now = text != NULL && strcmp(text, "cpu") == 0 ? TERN_OOM_CPU : TERN_OOM_ERROR;
        atomic_store_explicit(&policy, now, memory_order_relaxed);
    }
    return (tern_oom_policy_t)now;
}

void tern_set_oom_policy(tern_oom_policy_t chosen)
{
    if (chosen == TERN_OOM_ERROR || chosen == TERN_OOM_CPU)
        atomic_store_explicit(&policy, chosen, memory_order_relaxed);
}

int64_t tern_oom_fallback_count(void)
{
    return atomic_load_explicit(&fallbacks, memory_order_relaxed);
}

bool core_oom_to_cpu(tern_thread *self, tern_site_t site, const char *what, tern_dev_t dev)
{
    const bool inside = self->in_backward || self->site != NULL; /* of another call: a module's */
    if (dev.kind == TERN_KIND_CPU || inside || self->error_code != TERN_ERR_OOM ||
        tern_get_oom_policy() != TERN_OOM_CPU)
        return false;
    char name[TERN_DEV_NAME_BYTES];
    tern_error_clear();
    atomic_fetch_add_explicit(&fallbacks, 1, memory_order_relaxed);
    tern_log_write(TERN_LOG_WARNING, site,
                   "%s: %s has no memory left, using the CPU (TERN_OOM=cpu)", what,
                   tern_dev_name(dev, name));
    return true;
}
