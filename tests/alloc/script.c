#include "tests/alloc/script.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ORDER SCRIPT_KIND */
/* clang-format off */
static const char *const kind_names[SCRIPT_KINDS] = {
    "malloc", "free", "record_stream", "offer", "advance", "process_events", "empty_cache",
    "set_fraction", "configure", "capacity", "pool_new", "pool_release", "route_begin",
    "route_end", "reset_peaks", "reset_accumulated"
};
/* clang-format on */

enum { STREAMS = 5, DEEP_EVERY = 61 };

/* Where a script stands, beside the pair. */
typedef struct runner {
    pair *pair;
    bool released[PAIR_POOLS];
    int routes[PAIR_POOLS]; /* open ones */
    int captures[PAIR_POOLS];
} runner;

static bool is_capturing(const runner *r)
{
    for (int i = 0; i < PAIR_POOLS; i++) {
        if (r->captures[i] > 0)
            return true;
    }
    return false;
}

static void pool_op(runner *r, const script_op *op)
{
    pair *p = r->pair;
    if (op->kind == SCRIPT_POOL_NEW) {
        pair_pool_new(p, op->value != 0);
        return;
    }
    if (op->slot >= p->pool_count)
        return;
    if (op->kind == SCRIPT_POOL_RELEASE && !r->released[op->slot]) {
        r->released[op->slot] = true;
        pair_pool_release(p, op->slot);
    } else if (op->kind == SCRIPT_ROUTE_BEGIN && !r->released[op->slot] &&
               r->routes[op->slot] == 0) {
        r->routes[op->slot] = 1;
        r->captures[op->slot] = op->value != 0;
        pair_route_begin(p, op->slot, op->stream, op->value != 0);
    } else if (op->kind == SCRIPT_ROUTE_END && r->routes[op->slot] > 0) {
        r->routes[op->slot] = r->captures[op->slot] = 0;
        pair_route_end(p, op->slot);
    }
}

static model_settings settings_from(uint64_t seed);

static void apply(runner *r, const script_op *op)
{
    pair *p = r->pair;
    model_settings settings;
    switch (op->kind) {
    case SCRIPT_MALLOC:
        if (p->slots[op->slot].address == 0)
            pair_malloc(p, op->slot, op->value, op->stream);
        break;
    case SCRIPT_FREE:
        pair_free(p, op->slot);
        break;
    case SCRIPT_RECORD:
        pair_record_stream(p, op->slot, op->stream);
        break;
    case SCRIPT_OFFER:
        pair_offer(p, op->slot);
        break;
    case SCRIPT_ADVANCE:
        pair_advance(p, op->stream, op->value);
        break;
    case SCRIPT_PROCESS:
        pair_process_events(p);
        break;
    case SCRIPT_EMPTY:
        if (!is_capturing(r)) /* M085 */
            pair_empty_cache(p);
        break;
    case SCRIPT_FRACTION:
        pair_set_fraction(p, (double)op->value / 1000);
        break;
    case SCRIPT_CONFIGURE:
        settings = settings_from((uint64_t)op->value);
        pair_configure(p, &settings);
        break;
    case SCRIPT_CAPACITY:
        pair_set_capacity(p, op->value);
        break;
    case SCRIPT_RESET_PEAKS:
        pair_reset_peaks(p);
        break;
    case SCRIPT_RESET_ACCUMULATED:
        pair_reset_accumulated(p);
        break;
    default:
        pool_op(r, op);
    }
}

static int run_on(runner *r, const script *s, char *text, int64_t text_bytes)
{
    pair *p = r->pair;
    if (s->history)
        pair_record_history(p);
    pair_configure(p, &s->settings);
    if (s->fraction > 0)
        pair_set_fraction(p, s->fraction);
    for (int i = 0; i <= s->count; i++) {
        if (i < s->count)
            apply(r, &s->ops[i]);
        const bool deep = i % DEEP_EVERY == 0 || i == s->count;
        const char *why = deep ? pair_deep_difference(p) : pair_difference(p);
        if (why != NULL) {
            snprintf(text, (size_t)text_bytes, "%s", why);
            return i;
        }
    }
    return -1;
}

static int64_t seen[MODEL_PATHS];

int64_t script_seen(model_path path)
{
    return seen[path];
}

int script_run(const script *s, char *text, int64_t text_bytes)
{
    char end_text[PAIR_TEXT];
    runner r = { .pair = malloc(sizeof(pair)) };
    if (r.pair == NULL || !pair_init(r.pair, s->capacity, s->without)) {
        snprintf(text, (size_t)text_bytes, "no memory for a pair");
        free(r.pair);
        return 0;
    }
    int at = run_on(&r, s, text, text_bytes);
    for (int i = 0; i < MODEL_PATHS; i++)
        seen[i] += r.pair->model->paths[i];
    const char *end = pair_deinit(r.pair, end_text, sizeof end_text);
    free(r.pair);
    if (at < 0 && end != NULL) {
        snprintf(text, (size_t)text_bytes, "at the end: %s", end);
        at = s->count;
    }
    return at;
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Without the operations from `first` on; the shorter script when it still disagrees. */
static bool leave_out(script *s, script *attempt, int first, int count)
{
    char text[PAIR_TEXT];
    *attempt = *s;
    attempt->count -= count;
    memmove(&attempt->ops[first], &attempt->ops[first + count],
            (size_t)(attempt->count - first) * sizeof attempt->ops[0]);
    const int at = script_run(attempt, text, sizeof text);
    if (at < 0)
        return false;
    *s = *attempt;
    if (at < s->count)
        s->count = at + 1;
    return true;
}

void script_shrink(script *s, double seconds)
{
    const double end = seconds_now() + seconds;
    script *attempt = malloc(sizeof *attempt);
    bool shorter = attempt != NULL;
    while (shorter && seconds_now() < end) {
        shorter = false;
        for (int chunk = s->count / 2 > 0 ? s->count / 2 : 1; chunk > 0; chunk /= 2) {
            for (int first = s->count - chunk; first >= 0 && seconds_now() < end; first -= chunk) {
                if (first + chunk <= s->count && leave_out(s, attempt, first, chunk))
                    shorter = true;
            }
        }
    }
    free(attempt);
}

void script_print(const script *s)
{
    char text[PAIR_TEXT];
    pair_settings_text(&s->settings, text, sizeof text);
    printf("capacity %" PRId64 ", without %u, fraction %g, %s\n", s->capacity, s->without,
           s->fraction, text);
    for (int i = 0; i < s->count; i++) {
        const script_op *op = &s->ops[i];
        printf("%5d  %-18s slot %4d  stream %2d  %" PRId64 "\n", i, kind_names[op->kind], op->slot,
               op->stream, op->value);
        if (op->kind != SCRIPT_CONFIGURE)
            continue;
        const model_settings settings = settings_from((uint64_t)op->value);
        pair_settings_text(&settings, text, sizeof text);
        printf("       %s\n", text);
    }
}

/* ---- making them --------------------------------------------------------------------------------- */

typedef struct maker {
    uint64_t state;
    int live[PAIR_SLOTS]; /* slots with a block, as far as can be known here */
    bool is_live[PAIR_SLOTS];
    int live_count, wanted; /* blocks to hover around */
    int streams;
    int sizes; /* which mix */
    bool pools, others, records, offers;
} maker;

static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* In [0, n). */
static int64_t below(uint64_t *state, int64_t n)
{
    return (int64_t)(draw(state) % (uint64_t)n);
}

static const int64_t KIB = 1 << 10, MIB = 1 << 20;

/* Each power of two in [1 << low, 1 << high) is as likely. */
static int64_t log_uniform(uint64_t *state, int low, int high)
{
    const int64_t floor = INT64_C(1) << (low + (int)below(state, high - low));
    return floor + below(state, floor);
}

/* Sizes at which a rule changes, give or take a byte or a block. */
static int64_t edge(uint64_t *state)
{
    const int64_t at[] = { 512,      1024,      2 * KIB,      600 * KIB, MIB - 512,
                           MIB,      MIB + 512, 2 * MIB,      3 * MIB,   9 * MIB,
                           10 * MIB, 11 * MIB,  19 * MIB - 1, 19 * MIB,  20 * MIB,
                           21 * MIB, 40 * MIB,  50 * MIB,     64 * MIB };
    const int64_t off[] = { -512, -1, 0, 0, 1, 512 };
    const int64_t bytes = at[below(state, (int64_t)(sizeof at / sizeof at[0]))] +
                          off[below(state, (int64_t)(sizeof off / sizeof off[0]))];
    return bytes < 0 ? 0 : bytes;
}

/* Activations and weights of a small network: few sizes, again and again. */
static int64_t of_a_network(uint64_t *state)
{
    const int64_t at[] = { 40,      400,     4000,    36864,   200704,   401408,   802816,  1605632,
                           2359296, 3211264, 6422528, 9437184, 12845056, 25690112, 51380224 };
    return at[below(state, (int64_t)(sizeof at / sizeof at[0]))];
}

static int64_t size_of(maker *k)
{
    const int64_t pick = below(&k->state, 100);
    if (pick == 0)
        return below(&k->state, 4) == 0 ? INT64_C(1) << 60 : 0; /* M002, M003 */
    if (pick < 6)
        return log_uniform(&k->state, 25, 29);
    switch (k->sizes) {
    case 0:
        return of_a_network(&k->state);
    case 1:
        return log_uniform(&k->state, 0, 20);
    case 2:
        return edge(&k->state);
    case 3:
        return log_uniform(&k->state, 19, 26);
    case 4:
        return log_uniform(&k->state, 23, 28);
    default:
        return pick < 40 ? edge(&k->state) : log_uniform(&k->state, 3, 26);
    }
}

static void add_malloc(maker *k, script_op *op)
{
    op->kind = SCRIPT_MALLOC;
    while (k->is_live[op->slot])
        op->slot++;
    op->stream = (int)below(&k->state, k->streams);
    op->value = size_of(k);
    k->is_live[op->slot] = true;
    k->live[k->live_count++] = op->slot;
}

static void add_for_live(maker *k, script_op *op, script_kind kind)
{
    const int i = (int)below(&k->state, k->live_count);
    op->kind = kind;
    op->slot = k->live[i];
    op->stream = (int)below(&k->state, STREAMS);
    if (kind != SCRIPT_FREE)
        return;
    k->is_live[op->slot] = false;
    k->live[i] = k->live[--k->live_count];
}

static void add_pool_op(maker *k, script_op *op)
{
    const script_kind kinds[] = { SCRIPT_POOL_NEW,    SCRIPT_ROUTE_BEGIN, SCRIPT_ROUTE_BEGIN,
                                  SCRIPT_ROUTE_BEGIN, SCRIPT_ROUTE_END,   SCRIPT_ROUTE_END,
                                  SCRIPT_ROUTE_END,   SCRIPT_ROUTE_END,   SCRIPT_POOL_RELEASE };
    op->kind = kinds[below(&k->state, (int64_t)(sizeof kinds / sizeof kinds[0]))];
    op->slot = (int)below(&k->state, PAIR_POOLS);
    op->stream = (int)below(&k->state, k->streams + 1) - 1;
    op->value = below(&k->state, 3) == 0;
}

static void add_seldom(maker *k, const script *s, script_op *op)
{
    const script_kind kinds[] = { SCRIPT_EMPTY,     SCRIPT_FRACTION,    SCRIPT_CONFIGURE,
                                  SCRIPT_CAPACITY,  SCRIPT_RESET_PEAKS, SCRIPT_RESET_ACCUMULATED,
                                  SCRIPT_CONFIGURE, SCRIPT_EMPTY };
    op->kind = kinds[below(&k->state, (int64_t)(sizeof kinds / sizeof kinds[0]))];
    if (!k->others && op->kind != SCRIPT_EMPTY)
        op->kind = SCRIPT_PROCESS;
    op->value = below(&k->state, INT64_MAX);
    if (op->kind == SCRIPT_FRACTION)
        op->value = 200 + op->value % 801;
    if (op->kind == SCRIPT_CAPACITY)
        op->value = s->capacity / 2 + op->value % (s->capacity / 2 + 1);
}

static void add_op(maker *k, script *s)
{
    script_op *op = &s->ops[s->count++];
    const int64_t pick = below(&k->state, 1000);
    const bool few = k->live_count < k->wanted;
    *op = (script_op){ .kind = SCRIPT_PROCESS };
    if (pick < 6)
        add_seldom(k, s, op);
    else if (pick < 35 && k->pools)
        add_pool_op(k, op);
    else if (pick < 120 && k->records) {
        op->kind = SCRIPT_ADVANCE;
        op->stream = (int)below(&k->state, STREAMS);
        op->value = 1 + below(&k->state, 4);
    } else if (pick < 220 && k->records && k->live_count > 0)
        add_for_live(k, op, SCRIPT_RECORD);
    else if (pick < 230 && k->offers && k->live_count > 0)
        add_for_live(k, op, SCRIPT_OFFER);
    else if (k->live_count == 0 || below(&k->state, 100) < (few ? 65 : 35))
        add_malloc(k, op);
    else
        add_for_live(k, op, SCRIPT_FREE);
}

/* Settings of all kinds. */
static model_settings settings_from(uint64_t seed)
{
    const int divisions[] = { 0, 1, 2, 4, 8, 16 };
    uint64_t state = seed;
    model_settings s = model_defaults();
    s.expandable = below(&state, 3) == 0;
    if (below(&state, 6) == 0)
        s.large_segment = (20 + 2 * below(&state, 20)) * MIB;
    if (below(&state, 3) == 0)
        s.max_split = s.large_segment + below(&state, 100) * MIB;
    s.reject = below(&state, 8) == 0;
    if (below(&state, 3) == 0)
        s.max_non_split_rounding = s.large_segment + below(&state, 30) * MIB;
    if (below(&state, 3) == 0)
        s.gc_threshold = 0.1 + 0.01 * (double)below(&state, 80);
    const int64_t rounding = below(&state, 6);
    for (int i = 0; i < MODEL_INTERVALS && rounding < 2; i++)
        s.divisions[i] = divisions[below(&state, rounding == 0 && i > 0 ? 1 : 6)];
    for (int i = 1; i < MODEL_INTERVALS && rounding == 0; i++)
        s.divisions[i] = s.divisions[0];
    return s;
}

void script_make(script *s, uint64_t seed, int count)
{
    maker *k = calloc(1, sizeof *k);
    memset(s, 0, sizeof *s);
    if (k == NULL)
        return;
    k->state = seed * UINT64_C(0x2545f4914f6cdd1d) + 1;
    s->capacity = (128 + below(&k->state, 900)) * MIB;
    s->settings = settings_from(draw(&k->state));
    s->fraction = below(&k->state, 3) == 0 || s->settings.gc_threshold > 0
                      ? 0.3 + 0.1 * (double)below(&k->state, 8)
                      : 0;
    k->streams = 1 + (int)below(&k->state, STREAMS);
    k->sizes = (int)below(&k->state, 7);
    k->wanted = (int)log_uniform(&k->state, 3, k->sizes < 2 ? 8 : 5);
    k->pools = below(&k->state, 2) == 0;
    k->others = below(&k->state, 2) == 0;
    k->records = below(&k->state, 3) != 0;
    k->offers = below(&k->state, 5) == 0;
    s->history = below(&k->state, 8) == 0;
    if (below(&k->state, 8) == 0)
        s->without = (unsigned)below(&k->state, 4); /* events, virtual memory */
    while (s->count < count)
        add_op(k, s);
    free(k);
}
