/* See core/live.h. */
#include "core/live.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/tape.h"
#include "core/tensor.h"

/* ---- a set of pointers -------------------------------------------------------------------------*/

typedef struct pointer_set {
    const void **slots;
    size_t count, capacity; /* a power of two, or 0 */
} pointer_set;

static const void **slot_of(const pointer_set *set, const void *pointer)
{
    size_t at = (size_t)((uintptr_t)pointer * UINT64_C(0x9e3779b97f4a7c15) >> 20);
    while (set->slots[at & (set->capacity - 1)] != NULL &&
           set->slots[at & (set->capacity - 1)] != pointer)
        at++;
    return &set->slots[at & (set->capacity - 1)];
}

static bool set_grow(pointer_set *set)
{
    const pointer_set old = *set;
    const size_t capacity = old.capacity == 0 ? 1024 : 2 * old.capacity;
    const void **slots = calloc(capacity, sizeof *slots);
    if (slots == NULL)
        return false;
    set->slots = slots;
    set->capacity = capacity;
    for (size_t i = 0; i < old.capacity; i++)
        if (old.slots[i] != NULL)
            *slot_of(set, old.slots[i]) = old.slots[i];
    free(old.slots);
    return true;
}

/* 1: new; 0: was there; -1: no memory. */
static int set_add(pointer_set *set, const void *pointer)
{
    if (2 * (set->count + 1) > set->capacity && !set_grow(set))
        return -1;
    const void **slot = slot_of(set, pointer);
    if (*slot == pointer)
        return 0;
    *slot = pointer;
    set->count++;
    return 1;
}

/* ---- sites ------------------------------------------------------------------------------------ */

typedef struct walk {
    core_live_list *list;
    int64_t *index; /* of list->items by hash of site and device, -1: free */
    size_t index_size;
    pointer_set storages, nodes;
    const struct core_node **stack; /* nodes whose inputs are still to be visited */
    size_t stack_count, stack_capacity;
    tern_dev_t device; /* of the tensor whose graph is walked */
    bool views;        /* the second pass: tensors that share another's memory */
    bool own;          /* the pool that is visited is the calling thread's */
    bool failed;
} walk;

static bool same_site(tern_site_t a, tern_site_t b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

bool core_live_same(const tern_live_t *a, const tern_live_t *b)
{
    return tern_dev_equal(a->device, b->device) && same_site(a->site, b->site);
}

static size_t hash_of(const tern_live_t *key)
{
    size_t hash = (size_t)key->device.kind * 31 + (size_t)key->device.index;
    for (const char *c = key->site; c != NULL && *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    return hash;
}

static int64_t *index_of(const walk *w, const tern_live_t *key)
{
    size_t at = hash_of(key);
    for (;; at++) {
        int64_t *slot = &w->index[at & (w->index_size - 1)];
        if (*slot < 0 || core_live_same(&w->list->items[*slot], key))
            return slot;
    }
}

static bool grow_sites(walk *w)
{
    core_live_list *list = w->list;
    const int64_t capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
    tern_live_t *items = realloc(list->items, (size_t)capacity * sizeof *items);
    if (items == NULL)
        return false;
    list->items = items;
    list->capacity = capacity;
    free(w->index);
    w->index_size = 2 * (size_t)capacity;
    w->index = malloc(w->index_size * sizeof *w->index);
    if (w->index == NULL)
        return false;
    memset(w->index, 0xff, w->index_size * sizeof *w->index);
    for (int64_t i = 0; i < list->count; i++)
        *index_of(w, &items[i]) = i;
    return true;
}

/* The entry of a site; NULL without memory. */
static tern_live_t *entry_of(walk *w, tern_site_t site, tern_dev_t device)
{
    if (w->list->count == w->list->capacity && !grow_sites(w)) {
        w->failed = true;
        return NULL;
    }
    const tern_live_t key = { .site = site, .device = device };
    int64_t *slot = index_of(w, &key);
    if (*slot < 0) {
        *slot = w->list->count++;
        w->list->items[*slot] = key;
    }
    return &w->list->items[*slot];
}

/* ---- graphs ----------------------------------------------------------------------------------- */

static void push_node(const struct core_node *node, void *user)
{
    walk *w = user;
    const int added = w->failed ? 0 : set_add(&w->nodes, node);
    if (added <= 0) {
        w->failed = w->failed || added < 0;
        return;
    }
    if (w->stack_count == w->stack_capacity) {
        const size_t capacity = w->stack_capacity == 0 ? 256 : 2 * w->stack_capacity;
        const struct core_node **stack = realloc(w->stack, capacity * sizeof *stack);
        if (stack == NULL) {
            w->failed = true;
            return;
        }
        w->stack = stack;
        w->stack_capacity = capacity;
    }
    w->stack[w->stack_count++] = node;
}

static void count_graph(walk *w, const struct core_node *node, tern_dev_t device)
{
    w->device = device;
    push_node(node, w);
    while (w->stack_count > 0 && !w->failed) {
        const struct core_node *next = w->stack[--w->stack_count];
        tern_live_t *entry = entry_of(w, core_node_inputs(next, push_node, w), w->device);
        if (entry != NULL)
            entry->nodes++;
    }
}

/* ---- tensors ---------------------------------------------------------------------------------- */

typedef struct header {
    const core_storage *storage;
    const struct core_node *node;
    const tern_tensor *base;
    tern_site_t site;
    tern_dev_t device;
    int64_t bytes; /* of the elements */
    bool requires_grad;
} header;

/* The thread whose tensor it is may write meanwhile: each field is read once, and may be an older one.
 * Births are not slowed down by atomic stores for this, so the thread sanitizer must not look. */
static __attribute__((noinline, no_sanitize("thread"))) void look(const volatile tern_tensor *t,
                                                                  header *out)
{
    out->storage = t->storage;
    out->node = t->node;
    out->base = t->base;
    out->site = t->site;
    out->device.kind = t->view.dev.kind;
    out->device.index = t->view.dev.index;
    const tern_view view = { .numel = t->view.numel, .dtype = t->view.dtype };
    out->bytes = core_view_bytes(&view);
    out->requires_grad = t->requires_grad;
}

/* Memory goes to the tensor that is no view; views of the second pass count what nobody else has.
 * Storages and nodes of other threads' tensors may go, and become something else, while they are
 * looked at: of those nothing but the header is read, which stays a header. */
static void count_tensor(void *object, void *user)
{
    tern_tensor *t = object;
    walk *w = user;
    header h;
    if (w->failed || atomic_load_explicit(&t->refs, memory_order_acquire) == 0)
        return;
    look(t, &h);
    if (h.storage == NULL || (h.base != NULL) != w->views)
        return;
    tern_live_t *entry = entry_of(w, h.site, h.device);
    const int added = entry == NULL ? -1 : set_add(&w->storages, h.storage);
    if (added < 0) {
        w->failed = true;
        return;
    }
    entry->tensors++;
    entry->parameters += h.requires_grad && h.node == NULL && h.base == NULL;
    if (added > 0)
        entry->bytes += w->own ? h.storage->bytes : h.bytes;
    if (h.node != NULL && w->own)
        count_graph(w, h.node, h.device);
}

static void count_thread(tern_thread *thread, void *user)
{
    walk *w = user;
    w->own = thread == core_self();
    core_pool_each_tensor(&thread->pool, count_tensor, w);
}

static int by_bytes(const void *left, const void *right)
{
    const tern_live_t *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    if (a->tensors != b->tensors)
        return a->tensors < b->tensors ? 1 : -1;
    if (a->nodes != b->nodes)
        return a->nodes < b->nodes ? 1 : -1;
    return strcmp(a->site == NULL ? "" : a->site, b->site == NULL ? "" : b->site);
}

static bool finish_walk(walk *w)
{
    core_live_list *list = w->list;
    free(w->index);
    free(w->storages.slots);
    free(w->nodes.slots);
    free(w->stack);
    if (w->failed)
        core_live_free(list);
    else if (list->count > 0)
        qsort(list->items, (size_t)list->count, sizeof *list->items, by_bytes);
    return !w->failed;
}

bool core_live_count(core_live_list *out)
{
    walk w = { .list = out };
    *out = (core_live_list){ 0 };
    core_thread_each(count_thread, &w);
    w.views = true;
    core_thread_each(count_thread, &w);
    return finish_walk(&w);
}

void core_live_free(core_live_list *list)
{
    free(list->items);
    *list = (core_live_list){ 0 };
}

/* ---- text ------------------------------------------------------------------------------------- */

/* "2" or "0.5": averages are rarely whole. */
static void add_number(core_text *text, double value, const char *one, const char *many)
{
    const bool is_whole = value == (double)(int64_t)value;
    core_text_add(text, "%.*f %s", is_whole ? 0 : 1, value, value == 1 ? one : many);
}

void core_live_add(core_text *text, double tensors, double nodes, double bytes)
{
    const char *between = "";
    if (tensors != 0) {
        add_number(text, tensors, "tensor", "tensors");
        between = ", ";
    }
    if (nodes != 0) {
        core_text_add(text, "%s", between);
        add_number(text, nodes, "graph node", "graph nodes");
        between = ", ";
    }
    if (bytes != 0 || between[0] == '\0') {
        core_text_add(text, "%s", between);
        core_text_add_bytes(text, bytes);
    }
}

void core_live_describe(const core_live_list *list, core_text *text)
{
    tern_live_t sum = { 0 };
    for (int64_t i = 0; i < list->count; i++) {
        sum.tensors += list->items[i].tensors;
        sum.nodes += list->items[i].nodes;
        sum.bytes += list->items[i].bytes;
    }
    core_text_add(text, "live: ");
    core_live_add(text, (double)sum.tensors, (double)sum.nodes, (double)sum.bytes);
    core_text_add(text, "\n");
    for (int64_t i = 0; i < list->count && text->length + 1 < text->bytes; i++) {
        const tern_live_t *item = &list->items[i];
        char name[TERN_DEV_NAME_BYTES];
        core_text_add(text, "    %-24s ", item->site == NULL ? "(no site)" : item->site);
        if (item->device.kind > TERN_KIND_CPU)
            core_text_add(text, "on %s: ", tern_dev_name(item->device, name));
        core_live_add(text, (double)item->tensors, (double)item->nodes, (double)item->bytes);
        if (item->parameters > 0)
            core_text_add(text, " (%lld of them parameters)", (long long)item->parameters);
        core_text_add(text, "\n");
    }
}

/* ---- what the user calls ---------------------------------------------------------------------- */

static void no_memory(tern_site_t site, const char *what)
{
    (void)core_error(core_self(), site, TERN_ERR_OOM, what, "no host memory for the count");
}

int64_t tern_live_sites_at(tern_site_t site, tern_live_t *out, int64_t capacity)
{
    core_live_list list;
    if (!core_live_count(&list)) {
        no_memory(site, "live_sites");
        return -1;
    }
    const int64_t count = list.count, given = count < capacity ? count : capacity;
    if (out != NULL && given > 0)
        memcpy(out, list.items, (size_t)given * sizeof *out);
    core_live_free(&list);
    return count;
}

const char *tern_live_text_at(tern_site_t site, char *buffer, size_t bytes)
{
    core_text text = { buffer, bytes, 0 };
    core_live_list list;
    if (buffer == NULL || bytes == 0)
        return "";
    buffer[0] = '\0';
    if (core_live_count(&list))
        core_live_describe(&list, &text);
    else
        no_memory(site, "live_text");
    core_live_free(&list);
    return buffer;
}
