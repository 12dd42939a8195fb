/* Sorting along one dimension of a row-major tensor: values and where they were, all of them or a part of
 * the order (topk, median).
 *
 * Elements become keys that compare as unsigned numbers, with NaN beyond all and -0 as 0; an item is a
 * key and an element's number, so no two items are equal, equal elements keep their order, and every way
 * to sort gives the same result. Elements of up to 32 bits make items of 64, others items of 128. Short
 * rows are merged, long ones sorted by digits; where a small part of the order is wanted, it is parted
 * from the rest first. */
#include "backend_cpu/kernels.h"
#include "backend_cpu/rows.h"
#include "backend_cpu/sort_key.h"
#include "tern/op_attr.h"

enum {
    SORT_RADIX_FROM = 512, /* items; below, merging is faster (items of 64 bits) */
    ON_STACK = 1024,       /* bytes / 2 of items that need no scratch, by items of 128 bits */
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

static inline uint64_t key_of(const sort_job *s, const char *at)
{
    return cpu_sort_key(at, s->dtype, s->size, s->nan_wins);
}

/* All ones in as many bits as a key has. */
static inline uint64_t key_mask(const sort_job *s)
{
    return s->size == 8 ? ~UINT64_C(0) : (UINT64_C(1) << 8 * s->size) - 1;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void load(const sort_job *s, const char *x, char *items)
{
    const uint64_t flip = s->descending ? key_mask(s) : 0;
    const int64_t step = s->inner * s->size;
    if (s->wide) {
        wide_item *item = (wide_item *)(void *)items;
        for (int64_t i = 0; i < s->n; i++)
            item[i] = (wide_item){ key_of(s, x + i * step) ^ flip, (uint64_t)i };
    } else {
        uint64_t *item = (uint64_t *)(void *)items;
        for (int64_t i = 0; i < s->n; i++)
            item[i] = (key_of(s, x + i * step) ^ flip) << 32 | (uint64_t)i;
    }
}

static inline int64_t number_of(const sort_job *s, const char *items, int64_t i)
{
    return s->wide ? (int64_t)((const wide_item *)(const void *)items)[i].number
                   : (int64_t)(((const uint64_t *)(const void *)items)[i] & 0xFFFFFFFFu);
}

/* The place of the first NaN, or n; for median, where it takes all. */
static int64_t find_nan(const sort_job *s, const char *x)
{
    int64_t i = 0;
    while (i < s->n && key_of(s, x + i * s->inner * s->size) != 0)
        i++;
    return i;
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
    if (s->nan_wins && tern_dtype_is_float((tern_dtype_t)s->dtype)) {
        const int64_t nan = find_nan(s, x);
        if (nan < s->n) {
            store(s, x, to, nan);
            return;
        }
    }
    char *other = items + s->n * s->item_size;
    load(s, x, items);
    if (s->wide)
        wide_order((wide_item *)(void *)items, (wide_item *)(void *)other, s->n, s->first, s->count,
                   (int)s->size);
    else
        narrow_order((uint64_t *)(void *)items, (uint64_t *)(void *)other, s->n, s->first, s->count,
                     (int)s->size);
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
