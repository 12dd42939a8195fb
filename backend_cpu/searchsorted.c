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

static void run_elements(void *context, int64_t begin, int64_t end)
{
    const search_job *s = context;
    for (; begin < end; begin++) {
        const uint64_t key = cpu_sort_key(s->x + begin * s->size, s->dtype, s->size, false);
        const char *row = s->sorted + begin / s->each * s->n * s->size;
        int64_t low = 0, high = s->n;
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            const uint64_t other = cpu_sort_key(row + middle * s->size, s->dtype, s->size, false);
            if (s->right ? other <= key : other < key)
                low = middle + 1;
            else
                high = middle;
        }
        s->out[begin] = low;
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
