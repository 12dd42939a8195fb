/* Sorting along one dimension of a row-major tensor: values and where they were, all of them or a part of
 * the order (topk, median).
 *
 * Elements become keys that compare as unsigned numbers, with NaN beyond all and -0 as 0; an item is a
 * key and an element's number, so no two items are equal, equal elements keep their order, and every way
 * to sort gives the same result. Elements of up to 32 bits make items of 64, others items of 128. Short
 * rows are merged, long ones sorted by digits; a few first elements are kept while the row is read, and a
 * single one is found digit by digit. */
#include "backend_cpu/kernels.h"
#include "backend_cpu/rows.h"
#include "backend_cpu/sort_key.h"
#include "tern/op_attr.h"

enum {
    SORT_RADIX_FROM = 48, /* items of 64 bits, twice as many of 128; below, merging is faster */
    ON_STACK = 1024,      /* bytes / 2 of items that need no scratch, by items of 128 bits */
    MOST_SLOTS = 64
};

typedef struct wide_item {
    uint64_t key, number;
} wide_item;

#define ITEM uint64_t
#define BEFORE(a, b) ((a) < (b))
#define DIGIT(item, d) ((item) >> (32 + 8 * (d)) & 255u)
#define NAME(x) narrow_##x
#include "backend_cpu/sort_type.h"
#undef ITEM
#undef BEFORE
#undef DIGIT
#undef NAME

#define ITEM wide_item
#define BEFORE(a, b) ((a).key < (b).key || ((a).key == (b).key && (a).number < (b).number))
#define DIGIT(item, d) ((item).key >> (8 * (d)) & 255u)
#define NAME(x) wide_##x
#include "backend_cpu/sort_type.h"

typedef struct sort_job {
    const char *x;
    char *values;
    int64_t *places;
    int dtype;
    bool wide, descending, nan_wins;
    int64_t size, n, inner, first, count;
    int64_t item_size;
    char *memory; /* a slot for each thread, or NULL: rows are short */
    int slots;
    uint64_t taken; /* bit per slot */
} sort_job;

/* ---- keys ------------------------------------------------------------------------------------ */

/* All ones in as many bits as a key has. */
static inline uint64_t key_mask(const sort_job *s)
{
    return s->size == 8 ? ~UINT64_C(0) : (UINT64_C(1) << 8 * s->size) - 1;
}

/* ---- rows ------------------------------------------------------------------------------------ */

enum { KEYS = 256 };

/* n <= KEYS keys of elements one after the other in a row, the first of which is at x. */
static void load_keys(const sort_job *s, const char *x, int64_t n, uint64_t *keys)
{
    const uint64_t flip = s->descending ? key_mask(s) : 0;
    const int64_t step = s->inner * s->size;
#define LOAD(bytes)                                                                    \
    case bytes:                                                                        \
        for (int64_t i = 0; i < n; i++)                                                \
            keys[i] = cpu_sort_key(x + i * step, s->dtype, bytes, s->nan_wins) ^ flip; \
        break
    switch (s->size) {
        LOAD(1);
        LOAD(2);
        LOAD(4);
        LOAD(8);
    }
#undef LOAD
}

/* All of a row as items. The place of the first NaN where that takes all, else n. */
static int64_t load(const sort_job *s, const char *x, char *items)
{
    const bool watch = s->nan_wins && tern_dtype_is_float((tern_dtype_t)s->dtype);
    uint64_t keys[KEYS], *narrow = (uint64_t *)(void *)items;
    wide_item *wide = (wide_item *)(void *)items;
    for (int64_t first = 0; first < s->n; first += KEYS) {
        const int64_t n = s->n - first < KEYS ? s->n - first : KEYS;
        load_keys(s, x + first * s->inner * s->size, n, keys);
        for (int64_t i = 0; watch && i < n; i++)
            if (keys[i] == 0)
                return first + i;
        for (int64_t i = 0; s->wide && i < n; i++)
            wide[first + i] = (wide_item){ keys[i], (uint64_t)(first + i) };
        for (int64_t i = 0; !s->wide && i < n; i++)
            narrow[first + i] = keys[i] << 32 | (uint64_t)(first + i);
    }
    return s->n;
}

static inline int64_t number_of(const sort_job *s, const char *items, int64_t i)
{
    return s->wide ? (int64_t)((const wide_item *)(const void *)items)[i].number
                   : (int64_t)(((const uint64_t *)(const void *)items)[i] & 0xFFFFFFFFu);
}

/* A few first elements of the order: what comes before all that were seen so far is kept. */
static void find_first(const sort_job *s, const char *x, char *items, char *other)
{
    const uint64_t end = ~UINT64_C(0);
    const int64_t most = 4 * s->count > 64 ? 4 * s->count : 64;
    uint64_t keys[KEYS], *narrow = (uint64_t *)(void *)items,
                         *narrow_other = (uint64_t *)(void *)other;
    wide_item *wide = (wide_item *)(void *)items, *wide_other = (wide_item *)(void *)other;
    uint64_t narrow_last = end;
    wide_item wide_last = { end, end };
    int64_t held = 0;
    for (int64_t first = 0; first < s->n; first += KEYS) {
        const int64_t n = s->n - first < KEYS ? s->n - first : KEYS;
        load_keys(s, x + first * s->inner * s->size, n, keys);
        for (int64_t i = 0; s->wide && i < n; i++)
            held = wide_admit(wide, wide_other, held, (wide_item){ keys[i], (uint64_t)(first + i) },
                              &wide_last, s->count, most);
        for (int64_t i = 0; !s->wide && i < n; i++)
            held = narrow_admit(narrow, narrow_other, held, keys[i] << 32 | (uint64_t)(first + i),
                                &narrow_last, s->count, most);
    }
    if (s->wide) {
        wide_part(wide, wide_other, held, s->count);
        wide_merge_sort(wide, wide_other, s->count);
    } else {
        narrow_part(narrow, narrow_other, held, s->count);
        narrow_merge_sort(narrow, narrow_other, s->count);
    }
}

/* The one element at place `first` of the order. */
static int64_t find_one(const sort_job *s, char *items, char *other)
{
    if (s->wide)
        return (int64_t)wide_select((wide_item *)(void *)items, (wide_item *)(void *)other, s->n,
                                    s->first, (int)s->size)
            .number;
    return (int64_t)(narrow_select((uint64_t *)(void *)items, (uint64_t *)(void *)other, s->n,
                                   s->first, (int)s->size) &
                     0xFFFFFFFFu);
}

static void store(const sort_job *s, const char *x, int64_t to, int64_t number)
{
    const char *from = x + number * s->inner * s->size;
    s->places[to] = number;
    switch (s->size) { /* of constant length, copies are one instruction */
    case 1:
        memcpy(s->values + to, from, 1);
        break;
    case 2:
        memcpy(s->values + to * 2, from, 2);
        break;
    case 4:
        memcpy(s->values + to * 4, from, 4);
        break;
    default:
        memcpy(s->values + to * 8, from, 8);
    }
}

static void run_row(const sort_job *s, int64_t row, char *items)
{
    const int64_t block = row / s->inner, column = row % s->inner;
    const char *x = s->x + (block * s->n * s->inner + column) * s->size;
    const int64_t to = block * s->count * s->inner + column;
    char *other = items + s->n * s->item_size;
    if (s->first == 0 && s->count < s->n / 8 && !s->nan_wins) {
        find_first(s, x, items, other);
    } else {
        const int64_t nan = load(s, x, items);
        if (nan < s->n || s->count == 1) {
            store(s, x, to, nan < s->n ? nan : find_one(s, items, other));
            return;
        }
        if (s->wide)
            wide_sort((wide_item *)(void *)items, (wide_item *)(void *)other, s->n, (int)s->size);
        else
            narrow_sort((uint64_t *)(void *)items, (uint64_t *)(void *)other, s->n, (int)s->size);
    }
    for (int64_t i = 0; i < s->count; i++)
        store(s, x, to + i * s->inner, number_of(s, items, s->first + i));
}

/* A slot that no other thread has: there are as many as threads. */
static int take_slot(sort_job *s)
{
    for (int slot = 0;; slot = (slot + 1) % s->slots) {
        const uint64_t bit = UINT64_C(1) << slot;
        if (!(__atomic_fetch_or(&s->taken, bit, __ATOMIC_ACQUIRE) & bit))
            return slot;
    }
}

static void run_rows(void *context, int64_t begin, int64_t end)
{
    sort_job *s = context;
    _Alignas(16) char stack[2 * ON_STACK * sizeof(wide_item)];
    const int slot = s->memory ? take_slot(s) : 0;
    char *items = s->memory ? s->memory + slot * 2 * s->n * s->item_size : stack;
    for (; begin < end; begin++)
        run_row(s, begin, items);
    if (s->memory)
        __atomic_fetch_and(&s->taken, ~(UINT64_C(1) << slot), __ATOMIC_RELEASE);
}

tern_status_t cpu_sort(const tern_call *call)
{
    const tern_view *x = call->in[0];
    const tern_attr_sort *attr = call->attr;
    if (call->out[0]->numel == 0)
        return TERN_OK;
    sort_job s = { .x = x->data,
                   .values = call->out[0]->data,
                   .places = call->out[1]->data,
                   .dtype = x->dtype,
                   .descending = attr->descending != 0,
                   .nan_wins = attr->median != 0,
                   .size = cpu_dtype_size(x->dtype),
                   .n = x->ndim > 0 ? x->shape[attr->dim] : 1,
                   .inner = 1,
                   .first = attr->first,
                   .count = attr->count };
    for (int d = attr->dim + 1; d < x->ndim; d++)
        s.inner *= x->shape[d];
    const int64_t rows = x->numel / s.n, flops = x->numel * 64;
    if (s.n >= INT64_C(1) << 32)
        return call->host->fail(TERN_ERR_UNSUPPORTED, "rows of 2^32 elements and more");
    s.wide = s.size == 8;
    s.item_size = s.wide ? (int64_t)sizeof(wide_item) : (int64_t)sizeof(uint64_t);
    int threads = cpu_threads(call, x->numel * 64, flops);
    threads = threads > rows ? (int)rows : threads;
    s.slots = threads < MOST_SLOTS ? threads : MOST_SLOTS;
    if (s.n > ON_STACK) {
        s.memory = call->host->scratch(call, s.slots * 2 * s.n * s.item_size);
        if (!s.memory)
            return TERN_ERR_OOM;
    }
    cpu_parallel(s.slots, rows, cpu_rows_grain(s.n * 8), run_rows, &s);
    return TERN_OK;
}
