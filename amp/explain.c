/* What autocast did: counts by op and dtype, and their table as text. */
#include <stdlib.h>

#include "amp/autocast.h"
#include "core/error.h"
#include "tern/system.h"

enum { FIRST_LINES = 64 };

static amp_line *line_of(const struct core_autocast *amp, const amp_line *key)
{
    const uint64_t mask = (uint64_t)amp->line_capacity - 1;
    const uint64_t mixed = ((uint64_t)(uintptr_t)key->op >> 3) ^ ((uint64_t)key->dtype << 40) ^
                           ((uint64_t)key->kind << 48);
    for (uint64_t at = mixed * 0x9E3779B97F4A7C15u >> 24;; at++) {
        amp_line *line = &amp->lines[at & mask];
        if (line->op == NULL ||
            (line->op == key->op && line->dtype == key->dtype && line->kind == key->kind))
            return line;
    }
}

static bool grow(struct core_autocast *amp)
{
    const int64_t capacity = amp->line_capacity == 0 ? FIRST_LINES : 2 * amp->line_capacity;
    struct core_autocast larger = *amp;
    larger.lines = core_fault() ? NULL : calloc((size_t)capacity, sizeof *larger.lines);
    larger.line_capacity = capacity;
    if (larger.lines == NULL)
        return false;
    for (int64_t i = 0; i < amp->line_capacity; i++)
        if (amp->lines[i].op != NULL)
            *line_of(&larger, &amp->lines[i]) = amp->lines[i];
    free(amp->lines);
    *amp = larger;
    return true;
}

static void add(tern_amp_counts *sum, tern_amp_counts what)
{
    sum->calls += what.calls;
    sum->casts += what.casts;
    sum->cast_bytes += what.cast_bytes;
    sum->cached += what.cached;
}

static uint8_t dtype_of(const core_call *call)
{
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i] != NULL && tern_dtype_is_float((tern_dtype_t)call->in[i]->view.dtype))
            return call->in[i]->view.dtype;
    return call->n_in > 0 && call->in[0] != NULL ? call->in[0]->view.dtype : TERN_DTYPE_NONE;
}

/* Without memory for another line only the totals go on. */
void amp_count(core_call *call, int rule, tern_amp_counts what)
{
    struct core_autocast *amp = amp_state(call->self);
    if (amp == NULL)
        return;
    add(&amp->total, what);
    if (2 * amp->line_count >= amp->line_capacity && !grow(amp))
        return;
    const amp_line key = { .op = call->op,
                           .dtype = dtype_of(call),
                           .rule = (uint8_t)rule,
                           .kind = (uint8_t)call->dev.kind };
    amp_line *line = line_of(amp, &key);
    if (line->op == NULL) {
        *line = key;
        line->order = amp->line_count++;
    }
    add(&line->counts, what);
}

tern_amp_counts tern_amp_counted(void)
{
    const struct core_autocast *amp = core_self()->amp;
    return amp != NULL ? amp->total : (tern_amp_counts){ 0 };
}

/* Products are counted from now on. */
static void count_from_here(struct core_autocast *amp)
{
    tern_cpu_half_t half;
    tern_cpu_half(&half);
    amp->native = half.native;
    amp->library = half.library;
    amp->widened = half.widened;
}

void tern_amp_reset(void)
{
    struct core_autocast *amp = core_self()->amp;
    if (amp == NULL)
        return;
    for (int64_t i = 0; i < amp->line_capacity; i++)
        amp->lines[i].op = NULL;
    amp->line_count = 0;
    amp->total = (tern_amp_counts){ 0 };
    count_from_here(amp);
}

/* ---- text ---------------------------------------------------------------------------------------- */

static const char *const rule_names[] = { "as it comes",  "low",     "f32",
                                          "f32 by dtype", "promote", "banned" };
static const char *const kind_names[TERN_KINDS] = { "?", "cpu", "cuda", "ext" };

/* A text that knows how long it is in whole. */
typedef struct long_text {
    core_text text;
    int64_t whole;
} long_text;

static void put(long_text *t, const char *format, ...) TERN_PRINTF(2, 3);
static void put(long_text *t, const char *format, ...)
{
    char row[512];
    core_text one = { row, sizeof row, 0 };
    va_list arguments;
    va_start(arguments, format);
    core_text_addv(&one, format, arguments);
    va_end(arguments);
    t->whole += (int64_t)one.length;
    if (t->text.bytes > 0)
        core_text_add(&t->text, "%s", row);
}

static void put_counts(long_text *t, const tern_amp_counts *c)
{
    put(t, "%9lld %8lld %12lld %8lld\n", (long long)c->calls, (long long)c->casts,
        (long long)c->cast_bytes, (long long)c->cached);
}

static const amp_line *by_order(const struct core_autocast *amp, int64_t order)
{
    for (int64_t i = 0; i < amp->line_capacity; i++)
        if (amp->lines[i].op != NULL && amp->lines[i].order == order)
            return &amp->lines[i];
    return NULL;
}

static bool has_low_on_cpu(const struct core_autocast *amp)
{
    for (int64_t i = 0; amp != NULL && i < amp->line_capacity; i++) {
        const amp_line *line = &amp->lines[i];
        if (line->op != NULL && line->kind == TERN_KIND_CPU &&
            (line->dtype == TERN_F16 || line->dtype == TERN_BF16))
            return true;
    }
    return false;
}

/* Which way products took, backward's among them. */
static void put_cpu(long_text *t, const struct core_autocast *amp)
{
    tern_cpu_half_t half;
    tern_cpu_half(&half);
    put(t,
        "cpu: products and convolutions: %lld by bf16 instructions, %lld by oneDNN's, %lld in f32 "
        "converted in blocks (%s)\n",
        (long long)(half.native - amp->native), (long long)(half.library - amp->library),
        (long long)(half.widened - amp->widened), half.reason);
    put(t, "cpu: everything else of f16 and bf16 is what lies in memory, computed in f32\n");
}

int64_t tern_amp_explain(char *out_text, size_t bytes)
{
    const struct core_autocast *amp = core_self()->amp;
    bytes = out_text != NULL ? bytes : 0;
    long_text t = { { out_text, bytes, 0 }, 0 };
    if (bytes > 0)
        out_text[0] = '\0';
    put(&t, "%-18s %-5s %-5s %-13s %9s %8s %12s %8s\n", "op", "on", "dtype", "rule", "calls",
        "casts", "bytes", "cached");
    for (int64_t order = 0; amp != NULL && order < amp->line_count; order++) {
        const amp_line *line = by_order(amp, order);
        if (line == NULL)
            continue;
        put(&t, "%-18s %-5s %-5s %-13s ", line->op->name, kind_names[line->kind],
            tern_dtype_name((tern_dtype_t)line->dtype), rule_names[line->rule]);
        put_counts(&t, &line->counts);
    }
    const tern_amp_counts total = tern_amp_counted();
    put(&t, "%-44s ", "all");
    put_counts(&t, &total);
    if (has_low_on_cpu(amp))
        put_cpu(&t, amp);
    return t.whole;
}
