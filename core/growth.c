/* What grows with every call of a step: counts at each mark, compared with the mark before. */
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/live.h"

/* A number of one site over the marks. */
typedef struct course {
    int64_t first, last;
    int32_t rises, falls;
} course;

typedef struct tracked {
    tern_live_t now;
    course tensors, bytes, parameters, nodes;
    int64_t seen; /* the last mark that had it */
} tracked;

struct tern_growth {
    int64_t marks;
    tracked *sites;
    int64_t count, capacity;
};

tern_growth *tern_growth_begin_at(tern_site_t site)
{
    tern_growth *growth = calloc(1, sizeof *growth);
    if (growth == NULL)
        (void)core_error(core_self(), site, TERN_ERR_OOM, "growth_begin", "no host memory");
    return growth;
}

void tern_growth_end(tern_growth *growth)
{
    if (growth == NULL)
        return;
    free(growth->sites);
    free(growth);
}

/* ---- marks ------------------------------------------------------------------------------------ */

static void step(course *c, int64_t value)
{
    c->rises += value > c->last;
    c->falls += value < c->last;
    c->last = value;
}

static void step_site(tracked *t, const tern_live_t *now)
{
    step(&t->tensors, now->tensors);
    step(&t->bytes, now->bytes);
    step(&t->parameters, now->parameters);
    step(&t->nodes, now->nodes);
    t->now = *now;
}

static tracked *find(const tern_growth *growth, const tern_live_t *item)
{
    for (int64_t i = 0; i < growth->count; i++)
        if (core_live_same(&growth->sites[i].now, item))
            return &growth->sites[i];
    return NULL;
}

static tracked *add(tern_growth *growth, const tern_live_t *item)
{
    if (growth->count == growth->capacity) {
        const int64_t capacity = growth->capacity == 0 ? 64 : 2 * growth->capacity;
        tracked *sites = realloc(growth->sites, (size_t)capacity * sizeof *sites);
        if (sites == NULL)
            return NULL;
        growth->sites = sites;
        growth->capacity = capacity;
    }
    tracked *t = &growth->sites[growth->count++];
    *t = (tracked){ .now = { .site = item->site, .device = item->device } };
    return t;
}

static course start(int64_t value)
{
    return (course){ .first = value, .last = value };
}

static void start_site(tracked *t, const tern_live_t *now)
{
    t->now = *now;
    t->tensors = start(now->tensors);
    t->bytes = start(now->bytes);
    t->parameters = start(now->parameters);
    t->nodes = start(now->nodes);
}

static bool mark_list(tern_growth *growth, const core_live_list *list)
{
    growth->marks++;
    for (int64_t i = 0; i < list->count; i++) {
        const tern_live_t *item = &list->items[i];
        tracked *t = find(growth, item);
        if (t == NULL && (t = add(growth, item)) == NULL)
            return false;
        if (growth->marks == 1)
            start_site(t, item);
        else
            step_site(t, item);
        t->seen = growth->marks;
    }
    for (int64_t i = 0; i < growth->count; i++) {
        tracked *t = &growth->sites[i];
        if (t->seen != growth->marks)
            step_site(t, &(tern_live_t){ .site = t->now.site, .device = t->now.device });
    }
    return true;
}

tern_status_t tern_growth_mark_at(tern_site_t site, tern_growth *growth)
{
    core_live_list list;
    if (growth == NULL)
        return TERN_OK;
    const bool done = core_live_count(&list) && mark_list(growth, &list);
    core_live_free(&list);
    return done ? TERN_OK
                : core_error(core_self(), site, TERN_ERR_OOM, "growth_mark",
                             "no host memory for the count");
}

/* ---- what grows ------------------------------------------------------------------------------- */

static bool grows(const course *c, int64_t marks)
{
    return c->falls == 0 && 2 * (int64_t)c->rises >= marks - 1;
}

static double per_step(const course *c, int64_t marks)
{
    return grows(c, marks) ? (double)(c->last - c->first) / (double)(marks - 1) : 0;
}

/* Does the site grow? Then *out says how. */
static bool growth_of(const tracked *t, int64_t marks, tern_growth_t *out)
{
    *out = (tern_growth_t){ .now = t->now,
                            .tensors = per_step(&t->tensors, marks),
                            .bytes = per_step(&t->bytes, marks),
                            .parameters = per_step(&t->parameters, marks),
                            .nodes = per_step(&t->nodes, marks) };
    return out->tensors > 0 || out->bytes > 0 || out->nodes > 0;
}

static bool is_more(const tern_growth_t *a, const tern_growth_t *b)
{
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes;
    return a->tensors != b->tensors ? a->tensors > b->tensors : a->nodes > b->nodes;
}

/* Insertion into the sorted head of `out`; returns how many it has then. */
static int64_t insert(tern_growth_t *out, int64_t filled, int64_t capacity,
                      const tern_growth_t *item)
{
    int64_t at = filled;
    while (at > 0 && is_more(item, &out[at - 1]))
        at--;
    if (at >= capacity)
        return filled;
    const int64_t kept = filled < capacity ? filled : capacity - 1;
    memmove(&out[at + 1], &out[at], (size_t)(kept - at) * sizeof *out);
    out[at] = *item;
    return kept + 1;
}

int64_t tern_growth_report(const tern_growth *growth, tern_growth_t *out, int64_t capacity)
{
    int64_t found = 0, filled = 0;
    if (growth == NULL || growth->marks < 3)
        return 0;
    for (int64_t i = 0; i < growth->count; i++) {
        tern_growth_t item;
        if (!growth_of(&growth->sites[i], growth->marks, &item))
            continue;
        found++;
        filled = insert(out, filled, capacity, &item);
    }
    return found;
}

/* ---- text ------------------------------------------------------------------------------------- */

enum { SHOWN = 12 };

static void add_advice(core_text *text, const tern_growth_t *sum)
{
    if (sum->parameters > 0)
        core_text_add(text, "  parameters are made in every step: make the module once, before the "
                            "loop, or end it with tern_module_free\n");
    else if (sum->nodes > 0)
        core_text_add(text, "  a tensor that is kept holds the graph that made it: keep "
                            "tern_item(t) or tern_detach(t), or compute it under TERN_NO_GRAD; "
                            "without TERN_SCOPE in the loop each step is kept\n");
    else
        core_text_add(text, "  tensors are kept: look for a tern_retain without its tern_release, "
                            "for a tern_state that gets more names, and for a loop without "
                            "TERN_SCOPE\n");
}

static void describe(const tern_growth *growth, core_text *text)
{
    tern_growth_t sites[SHOWN], sum = { 0 };
    const int64_t found = tern_growth_report(growth, sites, SHOWN);
    for (int64_t i = 0; i < growth->count; i++) {
        tern_growth_t item;
        if (!growth_of(&growth->sites[i], growth->marks, &item))
            continue;
        sum.tensors += item.tensors;
        sum.bytes += item.bytes;
        sum.parameters += item.parameters;
        sum.nodes += item.nodes;
    }
    core_text_add(text, "every step leaves more behind: ");
    core_live_add(text, sum.tensors, sum.nodes, sum.bytes);
    core_text_add(text, "\n");
    for (int64_t i = 0; i < found && i < SHOWN; i++) {
        const tern_site_t site = sites[i].now.site;
        core_text_add(text, "    %-24s ", site == NULL ? "(no site)" : site);
        core_live_add(text, sites[i].tensors, sites[i].nodes, sites[i].bytes);
        core_text_add(text, "\n");
    }
    if (found > SHOWN)
        core_text_add(text, "    and %lld sites more\n", (long long)(found - SHOWN));
    add_advice(text, &sum);
}

const char *tern_growth_text(const tern_growth *growth, char *buffer, size_t bytes)
{
    core_text text = { buffer, bytes, 0 };
    if (buffer == NULL || bytes == 0)
        return "";
    buffer[0] = '\0';
    if (growth == NULL || growth->marks < 3)
        core_text_add(&text, "growth: three marks at least are needed\n");
    else if (tern_growth_report(growth, NULL, 0) == 0)
        core_text_add(&text, "nothing grows in %lld steps\n", (long long)growth->marks);
    else
        describe(growth, &text);
    return buffer;
}
