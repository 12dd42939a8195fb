/* Where elements belong in sorted rows. */
#include "backend_cpu/kernels.h"
#include "backend_cpu/rows.h"
#include "backend_cpu/sort_key.h"
#include "tern/op_attr.h"

typedef struct search_job {
    const char *sorted, *x;
    int64_t *out;
    int dtype;
    int64_t size, n, each; /* each: elements of x per row */
    bool right;
} search_job;

enum {
    AT_ONCE = 8,
    /* Rows of up to so many bytes, a few elements to each, are fetched while the row before is searched: a search jumps
     * about, and each jump would wait for memory. */
    FETCHED_ROW = 4096,
    FETCHED_LINE = 64
};

/* Places for `count` elements of x in one row. Which half a place is in cannot be foretold, so it is chosen
 * without a branch; several searches at once have their loads under way together. */
static inline void search_row(const search_job *s, const char *row, const char *x, int64_t *out,
                              int count, const int dtype, const int64_t size)
{
    uint64_t key[AT_ONCE];
    int64_t before[AT_ONCE] = { 0 };
    for (int i = 0; i < count; i++)
        key[i] = cpu_sort_key(x + i * size, dtype, size, false);
    for (int64_t left = s->n; left > 0; left /= 2) {
        const int64_t half = (left + 1) / 2;
        for (int i = 0; i < count; i++) {
            const char *at = row + (before[i] + half - 1) * size;
            const uint64_t other = cpu_sort_key(at, dtype, size, false);
            before[i] += half & -(int64_t)((other < key[i]) | (s->right & (other == key[i])));
        }
    }
    memcpy(out, before, (size_t)count * sizeof *out);
}

static inline void fetch_row(const char *row, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += FETCHED_LINE)
        __builtin_prefetch(row + i);
}

/* dtype and size are constants where the loop is to be fast. */
static inline __attribute__((always_inline)) void search_elements(const search_job *s,
                                                                  int64_t begin, int64_t end,
                                                                  const int dtype,
                                                                  const int64_t size)
{
    const int64_t row_bytes = s->n * size;
    while (begin < end) {
        const int64_t row = begin / s->each, rest = (row + 1) * s->each - begin;
        int64_t count = end - begin < rest ? end - begin : rest;
        if (count > AT_ONCE)
            count = AT_ONCE;
        if (rest <= AT_ONCE && begin + rest < end && row_bytes <= FETCHED_ROW)
            fetch_row(s->sorted + (row + 1) * row_bytes, row_bytes);
        search_row(s, s->sorted + row * row_bytes, s->x + begin * size, s->out + begin, (int)count,
                   dtype, size);
        begin += count;
    }
}

static void run_elements(void *context, int64_t begin, int64_t end)
{
    const search_job *s = context;
    switch (s->dtype) {
    case TERN_F32:
        search_elements(s, begin, end, TERN_F32, 4);
        break;
    case TERN_F64:
        search_elements(s, begin, end, TERN_F64, 8);
        break;
    case TERN_I64:
        search_elements(s, begin, end, TERN_I64, 8);
        break;
    default:
        search_elements(s, begin, end, s->dtype, s->size);
    }
}

tern_status_t cpu_searchsorted(const tern_call *call)
{
    const tern_view *sorted = call->in[0], *x = call->in[1];
    if (x->numel == 0)
        return TERN_OK;
    search_job s = { .sorted = sorted->data,
                     .x = x->data,
                     .out = call->out[0]->data,
                     .dtype = x->dtype,
                     .size = cpu_dtype_size(x->dtype),
                     .n = sorted->shape[sorted->ndim - 1],
                     .right = ((const tern_attr_search *)call->attr)->right != 0 };
    const int64_t rows = s.n > 0 && sorted->ndim > 1 ? sorted->numel / s.n : 1;
    s.each = x->numel / rows;
    cpu_rows_run(call, x->numel * 64, x->numel * 128, x->numel, 256, run_elements, &s);
    return TERN_OK;
}
