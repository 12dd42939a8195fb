#include "tests/alloc/model.h"

#include <stdio.h>
#include <string.h>

#include "tests/alloc/model_parts.h"

/* ORDER MODEL_FAMILY */
/* clang-format off */
static const char *const family_names[MODEL_FAMILIES] = {
    "allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes",
    "active_bytes", "inactive_split_bytes", "requested_bytes"
};
/* clang-format on */

/* ORDER MODEL_PATH */
/* clang-format off */
static const char *const path_names[MODEL_PATHS] = {
    "reused", "split", "kept_slack", "joined_two", "too_large_to_give", "too_large_to_round",
    "waited_for_event", "deferred", "garbage", "over_fraction", "rejected", "reclaimed", "willing_pool", "oversize_one",
    "oversize_several", "retry_helped", "used_up", "grew", "shrank", "passed_over_expandable",
    "private"
};
/* clang-format on */

const char *model_path_name(model_path path)
{
    return path_names[path];
}

const char *model_family_name(model_family family)
{
    return family_names[family];
}

model_settings model_defaults(void)
{
    return (model_settings){ .max_split = INT64_MAX,
                             .max_non_split_rounding = 20 * MODEL_MIB,
                             .large_segment = 20 * MODEL_MIB };
}

void model_init(model *m, raw_double *raw, int64_t total_bytes)
{
    memset(m, 0, sizeof *m);
    m->raw = raw;
    m->settings = model_defaults();
    m->total = total_bytes;
    m->allowed = -1;
    m->pool_count = 1;
    m->pools[0].uses = 1;
}

/* M010: which power of two from 1 MiB on the size lies in, the last one without end. */
static int interval_of(int64_t bytes)
{
    int i = 0;
    while (i < MODEL_INTERVALS - 1 && bytes >= (2 * MODEL_MIB) << i)
        i++;
    return i;
}

/* M001, M007, M009. */
int64_t model_round(const model_settings *s, int64_t bytes)
{
    const int64_t divisions = s->divisions[interval_of(bytes)];
    if (bytes < 512)
        return 512;
    if (divisions <= 1 || bytes <= 512 * divisions)
        return (bytes + 511) / 512 * 512;
    int64_t floor = 512;
    while (floor * 2 <= bytes)
        floor *= 2;
    const int64_t step = floor / divisions;
    return floor + (bytes - floor + step - 1) / step * step;
}

/* M005. */
int64_t model_segment_bytes(const model_settings *s, int64_t rounded_bytes)
{
    if (rounded_bytes <= MODEL_MIB)
        return 2 * MODEL_MIB;
    if (rounded_bytes < 10 * MODEL_MIB)
        return s->large_segment;
    return (rounded_bytes + 2 * MODEL_MIB - 1) / (2 * MODEL_MIB) * (2 * MODEL_MIB);
}

static int pool_for(const model *m, int stream)
{
    for (int i = m->route_count - 1; i >= 0; i--) {
        if (m->routes[i].stream < 0 || m->routes[i].stream == stream)
            return m->routes[i].pool;
    }
    return 0;
}

bool model_expands(const model *m)
{
    return m->settings.expandable && !m->without_vmm;
}

int64_t model_reserved(const model *m)
{
    return m->stats.of[MODEL_RESERVED_BYTES][MODEL_ALL].current;
}

static int64_t expandable_size(model *m, const model_block *b)
{
    const model_block *next = model_next(m, b);
    return b->size + (next != NULL && !next->mapped ? next->size : 0);
}

/* M080, M081. */
static model_block *pass_over_expandable(model *m, const model_request *r, model_block *b)
{
    if (model_expands(m)) {
        model_block *next = model_least(m, r, b, r->size);
        while (b->expandable && next != NULL && expandable_size(m, next) < expandable_size(m, b)) {
            b = next;
            next = model_least(m, r, b, r->size);
        }
        return b;
    }
    m->paths[MODEL_PASSED_OVER_EXPANDABLE]++;
    while (b != NULL && b->expandable)
        b = model_least(m, r, b, r->size);
    return b;
}

/* M011, M014, M023, M024. */
static model_block *best_fit(model *m, const model_request *r)
{
    const model_settings *s = &m->settings;
    if (s->gc_threshold > 0 && m->allowed >= 0)
        m->pools[r->pool].searches[r->small]++;
    model_block *b = model_least(m, r, NULL, r->size);
    if (b != NULL && b->expandable)
        b = pass_over_expandable(m, r, b);
    if (b == NULL)
        return NULL;
    if (r->size < s->max_split && b->size >= s->max_split) {
        m->paths[MODEL_TOO_LARGE_TO_GIVE]++;
        return NULL;
    }
    if (r->size >= s->max_split && b->size >= r->size + s->max_non_split_rounding) {
        m->paths[MODEL_TOO_LARGE_TO_ROUND]++;
        return NULL;
    }
    m->paths[MODEL_REUSED]++;
    return b;
}

/* Step 5 (M026) and its repetitions. */
static model_block *from_device(model *m, const model_request *r, bool is_retry)
{
    m->stats.retries += is_retry;
    if (m->allowed >= 0 && model_reserved(m) + r->segment > m->allowed) { /* M029 */
        m->paths[MODEL_OVER_FRACTION]++;
        return NULL;
    }
    if (model_expands(m))
        return model_expand(m, r);
    const uint64_t address = raw_alloc(m->raw, r->segment);
    if (address == 0)
        return NULL;
    const model_block whole = { .mapped = true,
                                .small = r->small,
                                .pool = r->pool,
                                .stream = r->stream,
                                .segment = ++m->last_segment,
                                .address = address,
                                .size = r->segment };
    m->stats.device_allocs++;
    model_trace_add(&m->trace, MODEL_TRACE_SEGMENT_ALLOC, address, r->segment);
    model_count(m, MODEL_SEGMENT, r->small, 1);
    model_count(m, MODEL_RESERVED_BYTES, r->small, r->segment);
    if (r->segment >= m->settings.max_split)
        model_add(&m->stats.oversize_segments, 1);
    return model_add_block(m, &whole);
}

/* M088: for requests of the device's own pool. Which of several goes first is not said: the newest. */
static model_block *from_willing_pool(model *m, model_request *r)
{
    if (r->pool != 0)
        return NULL;
    for (int p = m->pool_count - 1; p > 0; p--) {
        model_request other = *r;
        other.pool = p;
        model_block *b = m->pools[p].on_oom ? best_fit(m, &other) : NULL;
        if (b != NULL) {
            m->paths[MODEL_WILLING_POOL]++;
            return b;
        }
    }
    return NULL;
}

/* M026. */
static model_block *search_everywhere(model *m, model_request *r, bool *out_rejected)
{
    model_block *b = best_fit(m, r);
    if (b == NULL && m->reclaim != NULL && m->reclaim(m->reclaim_user)) {
        m->paths[MODEL_RECLAIMED]++;
        b = best_fit(m, r);
    }
    if (b != NULL)
        return b;
    if (m->settings.reject && m->allowed >= 0 && model_reserved(m) + r->segment > m->allowed) {
        m->paths[MODEL_REJECTED]++;
        *out_rejected = true;
        return NULL;
    }
    model_collect_garbage(m);
    b = from_device(m, r, false);
    if (b == NULL)
        b = from_willing_pool(m, r);
    if (b == NULL && model_release_oversize(m, r))
        b = from_device(m, r, false);
    if (b == NULL && !model_capturing(m)) {
        model_release_cached(m);
        b = from_device(m, r, true);
        m->paths[b != NULL ? MODEL_RETRY_HELPED : MODEL_USED_UP]++;
    }
    return b;
}

/* M015-M017. */
static bool should_split(const model *m, const model_block *b, int64_t size)
{
    const int64_t remainder = b->size - size;
    if (b->small || model_expands(m))
        return remainder >= 512;
    return size < m->settings.max_split && remainder > MODEL_MIB;
}

/* M019: the front is handed out. */
static void hand_out(model *m, model_block *b, int64_t size, int64_t requested)
{
    const bool was_split = model_is_split(m, b);
    m->paths[MODEL_PRIVATE] += b->pool != 0;
    m->paths[should_split(m, b, size) ? MODEL_SPLIT : MODEL_KEPT_SLACK]++;
    if (should_split(m, b, size)) {
        model_block rest = *b;
        rest.address += (uint64_t)size;
        rest.size -= size;
        b->size = size;
        model_mark_born(m, model_add_block(m, &rest));
        if (!b->expandable) {
            model_count(m, MODEL_INACTIVE_SPLIT, b->small, was_split ? 0 : 1);
            model_count(m, MODEL_INACTIVE_SPLIT_BYTES, b->small, was_split ? -size : rest.size);
        }
    } else if (was_split && !b->expandable) {
        model_count(m, MODEL_INACTIVE_SPLIT, b->small, -1);
        model_count(m, MODEL_INACTIVE_SPLIT_BYTES, b->small, -b->size);
    }
    b->allocated = true;
    model_trace_add(&m->trace, MODEL_TRACE_ALLOC, b->address, b->size);
    b->requested = requested;
    model_count(m, MODEL_ALLOCATION, b->small, 1);
    model_count(m, MODEL_ALLOCATED_BYTES, b->small, b->size);
    model_count(m, MODEL_ACTIVE, b->small, 1);
    model_count(m, MODEL_ACTIVE_BYTES, b->small, b->size);
    model_count(m, MODEL_REQUESTED_BYTES, b->small, requested);
    if (b->size >= m->settings.max_split)
        model_add(&m->stats.oversize_allocations, 1);
}

model_result model_malloc(model *m, int64_t bytes, int stream, uint64_t *out_address)
{
    *out_address = 0;
    if (bytes == 0)
        return MODEL_DONE;
    if (bytes >= INT64_C(1) << 60) /* M003 */
        return MODEL_OOM;
    model_poll(m);
    model_request r = { .stream = stream, .size = model_round(&m->settings, bytes) };
    r.small = r.size <= MODEL_MIB; /* M004 */
    r.pool = pool_for(m, stream);
    r.segment = model_segment_bytes(&m->settings, r.size);
    bool rejected = false;
    model_block *b = search_everywhere(m, &r, &rejected);
    if (b == NULL) {
        model_trace_add(&m->trace, MODEL_TRACE_OOM, 0, r.size);
        m->stats.ooms += !rejected;
        m->stats.rejections += rejected;
        return MODEL_OOM;
    }
    hand_out(m, b, r.size, bytes);
    *out_address = b->address;
    return MODEL_DONE;
}

/* M020-M022. */
model_result model_free(model *m, uint64_t address)
{
    if (address == 0)
        return MODEL_DONE;
    model_block *b = model_at(m, address);
    if (b == NULL || !b->allocated)
        return MODEL_UNKNOWN_POINTER;
    b->allocated = false;
    model_trace_add(&m->trace, MODEL_TRACE_FREE_REQUESTED, b->address, b->size);
    model_count(m, MODEL_ALLOCATION, b->small, -1);
    model_count(m, MODEL_ALLOCATED_BYTES, b->small, -b->size);
    if (b->size >= m->settings.max_split)
        model_add(&m->stats.oversize_allocations, -1);
    if (b->user_count == 0)
        model_become_free(m, b);
    else if (model_capturing(m)) {
        m->deferred[m->deferred_count++] = address;
        m->paths[MODEL_DEFERRED]++;
    } else
        model_record_users(m, b);
    return MODEL_DONE;
}

model_result model_record_stream(model *m, uint64_t address, int stream)
{
    model_block *b = model_at(m, address);
    if (b == NULL || !b->allocated)
        return MODEL_UNKNOWN_POINTER;
    for (int i = 0; i < b->user_count; i++) {
        if (b->users[i] == stream)
            return MODEL_DONE;
    }
    if (stream != b->stream)
        b->users[b->user_count++] = stream;
    return MODEL_DONE;
}

void model_process_events(model *m)
{
    model_poll(m);
}

void model_empty_cache(model *m)
{
    model_release_cached(m);
}

void model_set_fraction(model *m, double fraction)
{
    m->allowed = (int64_t)(fraction * (double)m->total);
}

static void each_stat(model *m, void (*change)(model_stat *))
{
    for (int f = 0; f < MODEL_FAMILIES; f++) {
        for (int c = 0; c < MODEL_COLUMNS; c++)
            change(&m->stats.of[f][c]);
    }
    change(&m->stats.oversize_allocations);
    change(&m->stats.oversize_segments);
}

static void reset_peak(model_stat *s)
{
    s->peak = s->current;
}

static void reset_accumulated(model_stat *s)
{
    s->allocated = s->freed = 0;
}

void model_reset_peaks(model *m)
{
    each_stat(m, reset_peak);
}

void model_reset_accumulated(model *m)
{
    each_stat(m, reset_accumulated);
    m->stats.retries = m->stats.ooms = m->stats.rejections = m->stats.syncs = 0;
    m->stats.device_allocs = m->stats.device_frees = 0;
}

int model_pool_new(model *m, bool on_oom)
{
    m->pools[m->pool_count] = (model_pool){ .uses = 1, .on_oom = on_oom };
    return m->pool_count++;
}

void model_pool_release(model *m, int pool)
{
    m->pools[pool].uses--;
}

void model_route_begin(model *m, int pool, int stream, bool capture)
{
    m->pools[pool].uses++;
    m->routes[m->route_count++] =
        (model_route){ .pool = pool, .stream = stream, .capture = capture };
}

void model_route_end(model *m, int pool)
{
    int i = m->route_count - 1;
    while (m->routes[i].pool != pool)
        i--;
    m->route_count--;
    for (; i < m->route_count; i++)
        m->routes[i] = m->routes[i + 1];
    m->pools[pool].uses--;
}

int64_t model_in_private_pools(const model *m)
{
    int64_t sum = 0;
    for (int i = 0; i < m->block_end; i++) {
        const model_block *b = &m->blocks[i];
        sum += b->used && b->allocated && b->pool != 0 ? b->size : 0;
    }
    return sum;
}

int64_t model_largest_free(const model *m, int64_t rounded_bytes, int stream)
{
    const model_request r = { .pool = pool_for(m, stream),
                              .small = rounded_bytes <= MODEL_MIB,
                              .stream = stream };
    int64_t largest = 0;
    for (const model_block *b = model_least((model *)m, &r, NULL, 0); b != NULL;
         b = model_least((model *)m, &r, b, 0))
        largest = b->size;
    return largest;
}

/* What the block adds to the current value of a family. */
static int64_t share(model *m, const model_block *b, model_family family)
{
    const bool active = !model_is_idle(b);
    const bool split = !active && b->mapped && !b->expandable && model_is_split(m, b);
    switch (family) {
    case MODEL_ALLOCATION:
        return b->allocated;
    case MODEL_SEGMENT:
        return !b->expandable && model_previous(m, b) == NULL;
    case MODEL_ACTIVE:
        return active;
    case MODEL_INACTIVE_SPLIT:
        return split;
    case MODEL_ALLOCATED_BYTES:
        return b->allocated ? b->size : 0;
    case MODEL_RESERVED_BYTES:
        return b->mapped ? b->size : 0;
    case MODEL_ACTIVE_BYTES:
        return active ? b->size : 0;
    case MODEL_INACTIVE_SPLIT_BYTES:
        return split ? b->size : 0;
    default:
        return b->requested;
    }
}

const char *model_check(const model *m)
{
    for (int f = 0; f < MODEL_FAMILIES; f++) {
        int64_t sums[MODEL_COLUMNS] = { 0 };
        for (int i = 0; i < m->block_end; i++) {
            const model_block *b = &m->blocks[i];
            const int64_t n = b->used ? share((model *)m, b, (model_family)f) : 0;
            sums[MODEL_ALL] += n;
            sums[b->small ? MODEL_SMALL : MODEL_LARGE] += n;
        }
        for (int c = 0; c < MODEL_COLUMNS; c++) {
            if (sums[c] != m->stats.of[f][c].current)
                return family_names[f];
        }
    }
    return NULL;
}
