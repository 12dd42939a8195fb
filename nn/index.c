/* A tree of modules as a flat list of named tensors, made once and kept while the tree stays as it
 * is: tern_parameters in a training loop allocates nothing. */
#include <stdlib.h>

#include "nn/internal.h"

enum { PARAMETERS = 0, BUFFERS = 1 };

/* Depends on every module of the tree and on its place; any change draws a new revision. */
static uint64_t tree_revision(const tern_module *m)
{
    uint64_t mixed = m->members_->revision;
    for (int64_t i = 0; i < m->members_->child_count; i++) {
        mixed ^= tree_revision(m->members_->children[i].module);
        mixed = (mixed << 7 | mixed >> 57) * 0x9e3779b97f4a7c15u;
    }
    return mixed;
}

typedef struct extent {
    int64_t entries;
    size_t text_bytes;
    size_t longest; /* prefix */
    bool dotted;    /* names with dots: two paths may be one text */
} extent;

/* Adds what the tree under m needs, where names begin with `prefix` bytes. */
static void measure(const tern_module *m, size_t prefix, extent *sum)
{
    const struct tern_module_members *own = m->members_;
    sum->longest = prefix > sum->longest ? prefix : sum->longest;
    for (int64_t i = 0; i < own->member_count; i++)
        if (own->members[i].tensor) {
            sum->dotted |= strchr(own->members[i].name, '.') != NULL;
            sum->entries++;
            sum->text_bytes += prefix + strlen(own->members[i].name) + 1;
        }
    for (int64_t i = 0; i < own->child_count; i++) {
        sum->dotted |= strchr(own->children[i].name, '.') != NULL;
        measure(own->children[i].module, prefix + strlen(own->children[i].name) + 1, sum);
    }
}

typedef struct builder {
    nn_index *index;
    char *text;   /* where the next name goes */
    char *prefix; /* of the module that is walked */
} builder;

static int64_t first_entry_of(const nn_index *index, const tern_tensor *t)
{
    for (int64_t i = 0; i < index->count; i++)
        if (index->entries[i].tensor == t)
            return i;
    return -1;
}

static void fill(builder *b, const tern_module *m, size_t prefix)
{
    const struct tern_module_members *own = m->members_;
    for (int64_t i = 0; i < own->member_count; i++) {
        const nn_member *member = &own->members[i];
        if (!member->tensor)
            continue;
        const size_t bytes = strlen(member->name) + 1;
        memcpy(b->text, b->prefix, prefix);
        memcpy(b->text + prefix, member->name, bytes);
        const int64_t alias_of = first_entry_of(b->index, member->tensor);
        b->index->entries[b->index->count++] =
            (nn_entry){ b->text, member->tensor, member->buffer, alias_of };
        b->text += prefix + bytes;
    }
    for (int64_t i = 0; i < own->child_count; i++) {
        const size_t bytes = strlen(own->children[i].name);
        memcpy(b->prefix + prefix, own->children[i].name, bytes);
        b->prefix[prefix + bytes] = '.';
        fill(b, own->children[i].module, prefix + bytes + 1);
    }
}

/* Of two tensors under one name a state would have one. */
static bool check_names(tern_site_t site, const char *what, const nn_index *index)
{
    for (int64_t i = 0; i < index->count; i++)
        for (int64_t j = 0; j < i; j++) {
            const nn_entry *a = &index->entries[i], *b = &index->entries[j];
            if (a->tensor == b->tensor || strcmp(a->name, b->name) != 0)
                continue;
            tern_fail_at(site, TERN_ERR_STATE, what,
                         "two tensors have the name '%s'\n  try names without dots", a->name);
            return false;
        }
    return true;
}

/* Tensors and names of one kind, without aliases, into the arrays from `place` on. */
static int64_t list_kind(nn_index *index, int kind, tern_tensor **tensors, const char **names,
                         int64_t place)
{
    const int64_t start = place;
    for (int64_t i = 0; i < index->count; i++) {
        const nn_entry *entry = &index->entries[i];
        if (entry->alias_of >= 0 || entry->buffer != (kind == BUFFERS))
            continue;
        tensors[place] = entry->tensor;
        names[place++] = entry->name;
    }
    index->lists[kind] = (tern_tensors_t){ tensors + start, names + start, place - start };
    return place;
}

void nn_index_clear(nn_index *index)
{
    for (size_t i = 0; i < sizeof index->memory / sizeof *index->memory; i++)
        free(index->memory[i]);
    *index = (nn_index){ 0 };
}

static bool build(tern_site_t site, const char *what, tern_module *m, nn_index *index)
{
    extent need = { .entries = 0 };
    measure(m, 0, &need);
    nn_index_clear(index);
    index->memory[0] = index->entries = nn_alloc(site, what, need.entries, sizeof(nn_entry));
    tern_tensor **tensors = index->memory[1] = nn_alloc(site, what, need.entries, sizeof *tensors);
    const char **names = index->memory[2] = nn_alloc(site, what, need.entries, sizeof *names);
    char *text = index->memory[3] = nn_alloc(site, what, 1, need.text_bytes + need.longest + 1);
    if (!index->entries || !tensors || !names || !text) {
        nn_index_clear(index);
        return false;
    }
    builder b = { index, text, text + need.text_bytes };
    fill(&b, m, 0);
    if (need.dotted && !check_names(site, what, index)) {
        nn_index_clear(index);
        return false;
    }
    const int64_t parameters = list_kind(index, PARAMETERS, tensors, names, 0);
    list_kind(index, BUFFERS, tensors, names, parameters);
    return true;
}

const nn_index *nn_module_index(tern_site_t site, const char *what, tern_module *m)
{
    if (!nn_module_check(site, what, m) || tern_failed())
        return NULL;
    nn_index *index = &m->members_->index;
    const uint64_t revision = tree_revision(m);
    if (!index->entries || index->revision != revision) {
        if (!build(site, what, m, index))
            return NULL;
        index->revision = revision;
    }
    return index;
}

static tern_tensors_t list(tern_site_t site, tern_module *m, int kind)
{
    const nn_index *index = nn_module_index(site, kind == BUFFERS ? "buffers" : "parameters", m);
    return index ? index->lists[kind] : (tern_tensors_t){ NULL, NULL, 0 };
}

tern_tensors_t tern_parameters_at(tern_site_t site, tern_module *m)
{
    return list(site, m, PARAMETERS);
}

tern_tensors_t tern_buffers_at(tern_site_t site, tern_module *m)
{
    return list(site, m, BUFFERS);
}

tern_tensor *tern_module_tensor(tern_module *m, const char *name)
{
    const nn_index *index = m && name ? nn_module_index(NULL, "module_tensor", m) : NULL;
    for (int64_t i = 0; index && i < index->count; i++)
        if (!strcmp(index->entries[i].name, name))
            return index->entries[i].tensor;
    return NULL;
}

/* Names of children may hold dots, so each child is tried whose name the path begins with. */
tern_module *tern_module_find(tern_module *m, const char *path)
{
    if (!m || !path || !*path)
        return path && !*path ? m : NULL;
    for (int64_t i = 0; i < m->members_->child_count; i++) {
        const nn_child *child = &m->members_->children[i];
        const size_t bytes = strlen(child->name);
        if (strncmp(path, child->name, bytes) != 0 || (path[bytes] && path[bytes] != '.'))
            continue;
        tern_module *found = tern_module_find(child->module, path + bytes + (path[bytes] == '.'));
        if (found)
            return found;
    }
    return NULL;
}

int64_t tern_module_child_count(const tern_module *m)
{
    return m ? m->members_->child_count : 0;
}

tern_module *tern_module_child(const tern_module *m, int64_t place)
{
    const bool there = m && place >= 0 && place < m->members_->child_count;
    return there ? m->members_->children[place].module : NULL;
}

const char *tern_module_child_name(const tern_module *m, int64_t place)
{
    const bool there = m && place >= 0 && place < m->members_->child_count;
    return there ? m->members_->children[place].name : NULL;
}

int64_t tern_module_count(tern_module *m)
{
    const nn_index *index = nn_module_index(NULL, "module_count", m);
    int64_t count = 0;
    for (int64_t i = 0; index && i < index->lists[PARAMETERS].count; i++)
        count += tern_numel(index->lists[PARAMETERS].tensors[i]);
    return count;
}
