/* Modules into states and back. A restore checks and converts everything before it writes the first
 * tensor, so one that fails leaves the module as it was. */
#include <stdio.h>
#include <stdlib.h>

#include "nn/internal.h"
#include "nn/optimizer.h"

char *nn_join(tern_site_t site, const char *prefix, const char *middle, const char *name)
{
    const char *parts[] = { prefix, middle, name };
    size_t bytes = 1;
    for (int i = 0; i < 3; i++)
        bytes += parts[i] ? strlen(parts[i]) + 1 : 0;
    char *joined = nn_alloc(site, "state", 1, bytes);
    size_t length = 0;
    for (int i = 0; joined && i < 3; i++) {
        if (!parts[i] || !*parts[i])
            continue;
        const int wrote =
            snprintf(joined + length, bytes - length, "%s%s", length ? "." : "", parts[i]);
        length += wrote > 0 ? (size_t)wrote : 0;
    }
    return joined;
}

bool nn_is_stored(const tern_state *state, const char *name)
{
    return tern_state_get(state, name) || tern_state_unread_dtype(state, name);
}

bool nn_check_read(tern_site_t site, const char *what, const tern_state *state, const char *name)
{
    const char *dtype = tern_state_unread_dtype(state, name);
    if (dtype)
        tern_fail_at(site, TERN_ERR_DTYPE, what,
                     "%s: '%.80s' is of %.20s, which tern does not have", tern_state_source(state),
                     name, dtype);
    return !dtype;
}

tern_status_t tern_module_store_at(tern_site_t site, tern_module *m, tern_state *state,
                                   const char *prefix)
{
    const nn_index *index = nn_module_index(site, "module_store", m);
    if (index && !state)
        tern_fail_at(site, TERN_ERR_ARGUMENT, "module_store", "the state is NULL");
    if (!index)
        return tern_error_code();
    const char *outer = tern_calling_begin("module_store");
    for (int64_t i = 0; i < index->count && !tern_failed(); i++) {
        if (index->entries[i].alias_of >= 0)
            continue;
        char *name = nn_join(site, prefix, NULL, index->entries[i].name);
        if (name)
            tern_state_set_at(site, state, name, index->entries[i].tensor);
        free(name);
    }
    tern_calling_end(outer);
    return tern_error_code();
}

tern_status_t tern_module_save_at(tern_site_t site, tern_module *m, const char *path)
{
    if (!nn_module_check(site, "module_save", m))
        return tern_error_code();
    const char *outer = tern_calling_begin("module_save");
    tern_state *state = tern_state_create_at(site);
    if (state && tern_module_store_at(site, m, state, NULL) == TERN_OK)
        tern_state_save_at(site, state, path);
    tern_calling_end(outer);
    tern_state_free(state);
    return tern_error_code();
}

/* ---- restore: what is where ------------------------------------------------------------------- */

typedef struct restore {
    tern_site_t site;
    const char *what; /* the function that was called */
    const nn_index *index;
    const tern_state *state;
    const char *prefix;
    tern_tensor **sources; /* per entry, under its own name; NULL: missing or unread */
    bool *found;        /* per entry that is no alias: there is a source under one of its names */
    bool *unread;       /* the same: what tern does not read is under one of them */
    const char **names; /* missing, then unexpected ones */
    int64_t missing, unexpected;
} restore;

/* The name without the prefix; NULL when it has another one. */
static const char *strip(const char *prefix, const char *name)
{
    const size_t bytes = prefix ? strlen(prefix) : 0;
    if (bytes == 0)
        return name;
    return !strncmp(name, prefix, bytes) && name[bytes] == '.' ? name + bytes + 1 : NULL;
}

static int64_t target_of(const restore *r, int64_t i)
{
    const int64_t alias_of = r->index->entries[i].alias_of;
    return alias_of >= 0 ? alias_of : i;
}

static void find_source(restore *r, int64_t i)
{
    const int64_t target = target_of(r, i);
    char *full = nn_join(r->site, r->prefix, NULL, r->index->entries[i].name);
    r->sources[i] = full ? tern_state_get(r->state, full) : NULL;
    r->found[target] |= r->sources[i] != NULL;
    r->unread[target] |= tern_state_unread_dtype(r->state, full) != NULL;
    free(full);
}

/* Running statistics without their count, as old files and converted ones have them, fit: the module keeps its own count
 * (torch/nn/modules/batchnorm.py, a state without a version). */
static bool may_lack(const nn_entry *entry)
{
    const char *dot = strrchr(entry->name, '.');
    return entry->buffer && strcmp(dot ? dot + 1 : entry->name, "num_batches_tracked") == 0;
}

/* A shared tensor may come under any of its names; of several the last is written last, as in PyTorch. One
 * that cannot be read is not missing. */
static void find_sources(restore *r)
{
    for (int64_t i = 0; i < r->index->count; i++)
        find_source(r, i);
    for (int64_t i = 0; i < r->index->count; i++) {
        const nn_entry *entry = &r->index->entries[i];
        if (entry->alias_of < 0 && !r->found[i] && !r->unread[i] && !may_lack(entry))
            r->names[r->missing++] = entry->name;
    }
}

static bool is_known(const nn_index *index, const char *name)
{
    for (int64_t i = 0; i < index->count; i++)
        if (!strcmp(index->entries[i].name, name))
            return true;
    return false;
}

static void note_unexpected(restore *r, const char *const *names, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const char *name = strip(r->prefix, names[i]);
        if (name && !is_known(r->index, name))
            r->names[r->missing + r->unexpected++] = name;
    }
}

static void find_unexpected(restore *r)
{
    const tern_tensors_t all = tern_state_tensors(r->state);
    const tern_names_t unread = tern_state_unread(r->state);
    note_unexpected(r, all.names, all.count);
    note_unexpected(r, unread.names, unread.count);
}

/* ---- restore: what is wrong ------------------------------------------------------------------- */

enum { NAMES_BYTES = 512 };

/* "a, b and 3 more" */
static void list_names(const char **names, int64_t count, char *text, size_t bytes)
{
    size_t length = 0;
    text[0] = '\0';
    for (int64_t i = 0; i < count; i++) {
        const size_t need = strlen(names[i]) + 24;
        if (length + need >= bytes) {
            snprintf(text + length, bytes - length, " and %lld more", (long long)(count - i));
            return;
        }
        length += (size_t)snprintf(text + length, bytes - length, "%s%s", i ? ", " : "", names[i]);
    }
}

/* A module that was saved as a part of another (of DistributedDataParallel: "module"): the length of the prefix
 * under which the first missing name is there, or 0. */
static int prefix_length(const restore *r, const char **out_name)
{
    const size_t bytes = r->missing > 0 ? strlen(r->names[0]) : 0;
    for (int64_t i = 0; bytes > 0 && i < r->unexpected; i++) {
        const char *name = r->names[r->missing + i];
        const size_t length = strlen(name);
        if (length > bytes + 1 && name[length - bytes - 1] == '.' &&
            strcmp(name + length - bytes, r->names[0]) == 0) {
            *out_name = name;
            return (int)(length - bytes - 1);
        }
    }
    return 0;
}

static void check_names(const restore *r)
{
    if (r->missing + r->unexpected == 0)
        return;
    char advice[256] = ".partial = true to take what fits";
    const char *name = NULL;
    const int length = prefix_length(r, &name);
    if (length > 0 && length < 100)
        (void)snprintf(
            advice, sizeof advice,
            "tern_module_restore(module, state, \"%s%s%.*s\"), with tern_state_load for a "
            "file: the names have that prefix",
            r->prefix && *r->prefix ? r->prefix : "", r->prefix && *r->prefix ? "." : "", length,
            name);
    char missing[NAMES_BYTES];
    char unexpected[NAMES_BYTES];
    list_names(r->names, r->missing, missing, sizeof missing);
    list_names(r->names + r->missing, r->unexpected, unexpected, sizeof unexpected);
    tern_fail_at(r->site, TERN_ERR_STATE, r->what, "%s does not fit the module%s%s%s%s\n  try %s",
                 tern_state_source(r->state), r->missing ? "\n    missing     " : "", missing,
                 r->unexpected ? "\n    unexpected  " : "", unexpected, advice);
}

static int kind_of(tern_dtype_t dtype)
{
    return tern_dtype_is_float(dtype) ? 2 : tern_dtype_is_int(dtype) ? 1 : 0;
}

/* What is wanted has to be read, also where not all has to be there. */
static void check_read(const restore *r)
{
    for (int64_t i = 0; i < r->index->count && !tern_failed(); i++) {
        const int64_t target = target_of(r, i);
        if (r->found[target] || !r->unread[target])
            continue;
        char *full = nn_join(r->site, r->prefix, NULL, r->index->entries[i].name);
        nn_check_read(r->site, r->what, r->state, full);
        free(full);
    }
}

static void check_tensors(const restore *r)
{
    for (int64_t i = 0; i < r->index->count && !tern_failed(); i++) {
        const nn_entry *entry = &r->index->entries[i];
        tern_tensor *source = r->sources[i];
        if (!source)
            continue;
        const bool shapes = nn_same_shape(source, entry->tensor);
        if (shapes && kind_of(tern_dtype(source)) == kind_of(tern_dtype(entry->tensor)))
            continue;
        char there[512], here[512];
        tern_fail_at(r->site, shapes ? TERN_ERR_DTYPE : TERN_ERR_SHAPE, r->what,
                     "%s: '%s' does not fit\n    there   %s\n    module  %s",
                     tern_state_source(r->state), entry->name,
                     nn_summary(source, there, sizeof there),
                     nn_summary(entry->tensor, here, sizeof here));
    }
}

/* ---- restore: doing it ------------------------------------------------------------------------ */

/* Each source where and as its target is; nothing is written yet. */
static void convert(restore *r)
{
    for (int64_t i = 0; i < r->index->count && !tern_failed(); i++) {
        const tern_tensor *target = r->index->entries[i].tensor;
        const tern_to_args args = { .size_ = sizeof args,
                                    .device = tern_device(target),
                                    .dtype = tern_dtype(target) };
        if (r->sources[i])
            r->sources[i] = tern_to_at(r->site, r->sources[i], &args);
    }
}

static void write_all(const restore *r)
{
    for (int64_t i = 0; i < r->index->count && !tern_failed(); i++) {
        const tern_copy_args copy = { .size_ = sizeof copy,
                                      .dst = r->index->entries[i].tensor,
                                      .src = r->sources[i] };
        if (copy.src && copy.src != copy.dst)
            tern_copy_at(r->site, &copy);
    }
}

/* Copies the names into one block that the module owns, and points the caller's lists there. */
static void report(const restore *r, tern_module *m, const tern_restore_args *args)
{
    const int64_t count = r->missing + r->unexpected;
    size_t bytes = (size_t)count * sizeof(char *);
    for (int64_t i = 0; i < count; i++)
        bytes += strlen(r->names[i]) + 1;
    char **block = nn_alloc(r->site, r->what, 1, bytes ? bytes : 1);
    if (!block)
        return;
    char *text = (char *)(block + count);
    for (int64_t i = 0; i < count; i++) {
        const size_t length = strlen(r->names[i]) + 1;
        block[i] = memcpy(text, r->names[i], length);
        text += length;
    }
    free(m->members_->report);
    m->members_->report = block;
    if (args->out_missing)
        *args->out_missing = (tern_names_t){ (const char *const *)block, r->missing };
    if (args->out_unexpected)
        *args->out_unexpected =
            (tern_names_t){ (const char *const *)block + r->missing, r->unexpected };
}

static void run(restore *r, tern_module *m, const tern_restore_args *args)
{
    find_sources(r);
    find_unexpected(r);
    if (args->out_missing || args->out_unexpected)
        report(r, m, args);
    if (!args->partial)
        check_names(r);
    check_read(r);
    check_tensors(r);
    if (!tern_failed() && !args->check_only)
        convert(r);
    if (!tern_failed() && !args->check_only)
        write_all(r);
}

static tern_status_t restore_as(tern_site_t site, const char *what, tern_module *m,
                                const tern_state *state, const tern_restore_args *args)
{
    const nn_index *index = nn_module_index(site, what, m);
    if (!index)
        return tern_error_code();
    restore r = {
        .site = site, .what = what, .index = index, .state = state, .prefix = args->from
    };
    const int64_t names =
        index->count + tern_state_tensors(state).count + tern_state_unread(state).count;
    r.sources = nn_alloc(site, what, index->count, sizeof *r.sources);
    r.found = nn_alloc(site, what, index->count, 2 * sizeof *r.found);
    r.unread = r.found ? r.found + index->count : NULL;
    r.names = nn_alloc(site, what, names, sizeof *r.names);
    if (r.sources && r.found && r.names) {
        nn_frame frame = nn_enter(site);
        const bool recording = tern_set_grad_enabled(false);
        run(&r, m, args);
        tern_set_grad_enabled(recording);
        nn_leave(&frame);
    }
    free(r.sources);
    free(r.found);
    free(r.names);
    return tern_error_code();
}

/* Whoever asks for names finds none where a restore ends early. */
static bool take_args(tern_site_t site, const char *what, tern_restore_args *args,
                      const tern_restore_args *given)
{
    if (!nn_take_args(site, what, args, given, sizeof *args))
        return false;
    if (args->out_missing)
        *args->out_missing = (tern_names_t){ NULL, 0 };
    if (args->out_unexpected)
        *args->out_unexpected = (tern_names_t){ NULL, 0 };
    return true;
}

tern_status_t tern_module_restore_at(tern_site_t site, tern_module *m, const tern_state *state,
                                     const tern_restore_args *given)
{
    tern_restore_args args = { 0 };
    if (!take_args(site, "module_restore", &args, given))
        return tern_error_code();
    if (!state)
        tern_fail_at(site, TERN_ERR_ARGUMENT, "module_restore", "the state is NULL");
    return restore_as(site, "module_restore", m, state, &args);
}

tern_status_t tern_module_load_at(tern_site_t site, tern_module *m, const tern_restore_args *given)
{
    tern_restore_args args = { 0 };
    if (!take_args(site, "module_load", &args, given) || !nn_module_check(site, "module_load", m))
        return tern_error_code();
    const char *outer = tern_calling_begin("module_load");
    tern_state *state = tern_state_load_at(site, args.from);
    args.from = NULL;
    if (state)
        restore_as(site, "module_load", m, state, &args);
    tern_calling_end(outer);
    tern_state_free(state);
    return tern_error_code();
}
