/* A snapshot as JSON in the shape of torch.cuda.memory._snapshot() (M068-M073), written beside
 * its place, which it takes at the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend.h"
#include "core/cpu_memory.h"
#include "core/device_memory.h"
#include "core/error.h"
#include "core/numeral.h"
#include "core/target.h"
#include "core/thread_cache.h"
#include "core/utf8.h"

typedef struct writer {
    FILE *file;
    tern_dev_t only; /* {0, 0}: all */
    bool first;      /* of a list: no comma yet */
    tern_status_t code;
    int64_t next_trace; /* lists of traces written so far */
    int cpu;            /* the number that stands for the CPU: behind the devices' */
} writer;

static void comma(writer *w)
{
    if (!w->first)
        fputs(",\n", w->file);
    w->first = false;
}

static void put_text(writer *w, const char *text, size_t length)
{
    fputc('"', w->file);
    for (size_t i = 0, bytes; i<length; i += bytes> 0 ? bytes : 1) {
        const unsigned char c = (unsigned char)text[i];
        bytes = core_utf8_bytes(text + i, length - i);
        if (c == '"' || c == '\\')
            fprintf(w->file, "\\%c", c);
        else if (c < 0x20 || bytes == 0)
            fprintf(w->file, "\\u%04x", bytes == 0 ? 0xfffd : c);
        else
            fwrite(text + i, 1, bytes, w->file);
    }
    fputc('"', w->file);
}

/* "file:line" as a list of one frame. */
static void put_frames(writer *w, tern_site_t site)
{
    fputs("\"frames\": [", w->file);
    const char *colon = site != NULL ? strrchr(site, ':') : NULL;
    if (site != NULL) {
        const size_t length = colon != NULL ? (size_t)(colon - site) : strlen(site);
        fputs("{\"filename\": ", w->file);
        put_text(w, site, length);
        fprintf(w->file, ", \"line\": %d, \"name\": \"\"}", colon != NULL ? atoi(colon + 1) : 0);
    }
    fputs("]", w->file);
}

static unsigned long long address(const void *data)
{
    return (unsigned long long)(uintptr_t)data;
}

static void put_block(writer *w, const core_alloc_block_info *b)
{
    fprintf(w->file,
            "    {\"address\": %llu, \"size\": %lld, \"requested_size\": %lld, \"state\": \"%s\", ",
            address(b->data), (long long)b->size, (long long)b->requested,
            core_alloc_state_names[b->state]);
    static const char *const holders[CORE_ALLOC_STATES] = {
        [CORE_ALLOC_STATE_RESTING] = "thread_cache", [CORE_ALLOC_STATE_OBJECTS] = "objects"
    };
    if (holders[b->state] != NULL)
        fprintf(w->file, "\"held_by\": \"%s\", ", holders[b->state]);
    put_frames(w, b->site);
    fputs("}", w->file);
}

static void put_segment(writer *w, tern_dev_t dev, int device, const core_alloc_segment_info *s,
                        const core_alloc_block_info *blocks)
{
    char name[TERN_DEV_NAME_BYTES];
    comma(w);
    fprintf(w->file,
            "  {\"device\": %d, \"device_name\": \"%s\", \"address\": %llu, \"total_size\": %lld, "
            "\"allocated_size\": %lld, "
            "\"active_size\": %lld, \"requested_size\": %lld, \"stream\": %llu, "
            "\"segment_type\": \"%s\", \"segment_pool_id\": [0, %llu], \"is_expandable\": %s, "
            "\"page_size\": %lld, \"frames\": [], \"blocks\": [\n",
            device, tern_dev_name(dev, name), address(s->data), (long long)s->total,
            (long long)s->allocated, (long long)s->active, (long long)s->requested,
            address(s->stream), s->small ? "small" : "large", (unsigned long long)s->pool,
            s->page_bytes != 0 ? "true" : "false", (long long)s->page_bytes);
    for (int64_t i = 0; i < s->block_count; i++) {
        put_block(w, &blocks[s->first_block + i]);
        fputs(i + 1 < s->block_count ? ",\n" : "]}", w->file);
    }
    if (s->block_count == 0)
        fputs("]}", w->file);
}

static void put_trace(writer *w, const core_alloc_trace *t)
{
    comma(w);
    fprintf(w->file, "  {\"action\": \"%s\", ", core_alloc_action_names[t->action]);
    if (t->action == CORE_ALLOC_TRACE_OOM) /* bytes, not a place; -1: the device did not say */
        fprintf(w->file, "\"device_free\": %lld, ", (long long)(intptr_t)t->data);
    else
        fprintf(w->file, "\"addr\": %llu, ", address(t->data));
    fprintf(w->file, "\"size\": %lld, \"stream\": %llu, \"time_us\": %lld, ", (long long)t->size,
            address(t->stream), (long long)t->time_us);
    put_frames(w, t->site);
    fputs("}", w->file);
}

static bool wanted(const writer *w, tern_dev_t dev)
{
    return w->only.kind == TERN_KIND_NONE || tern_dev_equal(w->only, dev);
}

static int number_of(const writer *w, tern_dev_t dev)
{
    return dev.kind == TERN_KIND_CPU ? w->cpu : dev.index;
}

static void count_device(tern_dev_t dev, core_alloc *a, void *user)
{
    writer *w = user;
    (void)a;
    if (wanted(w, dev) && dev.kind != TERN_KIND_CPU && dev.index >= w->cpu)
        w->cpu = dev.index + 1;
}

/* What the device's allocator has now, for core_alloc_snapshot_deinit; false: not wanted, or no memory. */
static bool read_device(writer *w, tern_dev_t dev, core_alloc *a, core_alloc_snapshot *out_snapshot)
{
    if (!wanted(w, dev) || w->code != TERN_OK)
        return false;
    w->code = core_alloc_snapshot_init(a, out_snapshot);
    return w->code == TERN_OK;
}

static void put_segments(tern_dev_t dev, core_alloc *a, void *user)
{
    writer *w = user;
    core_alloc_snapshot snapshot;
    if (!read_device(w, dev, a, &snapshot))
        return;
    if (dev.kind == TERN_KIND_CPU)
        w->code = core_cpu_add_slabs(&snapshot);
    for (int64_t i = 0; i < snapshot.segment_count && w->code == TERN_OK; i++)
        put_segment(w, dev, number_of(w, dev), &snapshot.segments[i], snapshot.blocks);
    core_alloc_snapshot_deinit(&snapshot);
}

/* One list per device index; devices without history have an empty one. */
static void put_traces(tern_dev_t dev, core_alloc *a, void *user)
{
    writer *w = user;
    core_alloc_snapshot snapshot;
    if (!read_device(w, dev, a, &snapshot))
        return;
    for (; w->next_trace < number_of(w, dev); w->next_trace++)
        fputs(w->next_trace > 0 ? ", []" : "[]", w->file);
    fputs(w->next_trace++ > 0 ? ", [\n" : "[\n", w->file);
    w->first = true;
    for (int64_t i = 0; i < snapshot.trace_count; i++)
        put_trace(w, &snapshot.trace[i]);
    fputs("]", w->file);
    core_alloc_snapshot_deinit(&snapshot);
}

static void put_settings(writer *w)
{
    const core_alloc_settings *s = core_alloc_environment(NULL);
    core_alloc *a = core_device_allocator_of(w->only);
    const core_alloc_settings now = a != NULL ? core_alloc_settings_of(a) : *s;
    char threshold[CORE_REAL_BYTES];
    fprintf(w->file,
            "\"allocator_settings\": {\"max_split_size\": %lld, "
            "\"garbage_collection_threshold\": %s, \"expandable_segments\": %s, "
            "\"max_non_split_rounding_size\": %lld, \"no_cache\": %s}",
            now.max_split_bytes == INT64_MAX ? -1LL : (long long)now.max_split_bytes,
            core_real_text(now.gc_threshold, threshold), now.expandable_segments ? "true" : "false",
            (long long)now.max_non_split_rounding_bytes, now.no_cache ? "true" : "false");
}

static tern_status_t write_all(writer *w)
{
    core_device_each(count_device, w);
    fputs("{\"segments\": [\n", w->file);
    w->first = true;
    core_device_each(put_segments, w);
    fputs("],\n\"device_traces\": [", w->file);
    core_device_each(put_traces, w);
    fputs("],\n", w->file);
    put_settings(w);
    fputs("}\n", w->file);
    return w->code;
}

tern_status_t tern_memory_snapshot_at(tern_site_t site, tern_dev_t dev, const char *path)
{
    tern_thread *self = core_self();
    const char *what = "memory_snapshot";
    tern_dev_t only = dev;
    if (dev.kind != TERN_KIND_NONE && !core_dev_resolve_there(self, site, what, dev, &only))
        return (tern_status_t)self->error_code;
    core_target target; /* also with an error pending: one of memory is what it may explain */
    if (!core_target_open(site, what, &target, path))
        return (tern_status_t)self->error_code;
    writer w = { .file = target.stream, .only = only, .code = TERN_OK };
    if (write_all(&w) != TERN_OK) {
        core_target_abandon(&target);
        return core_error(self, site, w.code, what, "%s: no host memory", path);
    }
    return core_target_commit(&target) ? TERN_OK : (tern_status_t)self->error_code;
}

tern_status_t tern_memory_record_history_at(tern_site_t site, tern_dev_t dev, int64_t max_entries)
{
    tern_thread *self = core_self();
    const char *what = "memory_record_history", *why = NULL;
    tern_dev_t real;
    tern_status_t code = TERN_ERR_ARGUMENT;
    if (!core_one_device(self, site, what, dev) || !core_dev_resolve(self, site, what, dev, &real))
        return (tern_status_t)self->error_code;
    if (max_entries < 0)
        return core_error(self, site, code, what, "%lld entries", (long long)max_entries);
    core_alloc *a = core_device_allocator(real, &code, &why);
    if (a == NULL)
        return core_error(self, site, code, what, "%s", why);
    code = core_alloc_record_history(a, max_entries);
    if (real.kind == TERN_KIND_CPU)
        core_cache_set_history(max_entries > 0);
    return code;
}
