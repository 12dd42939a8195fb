/* nonzero_starts counts, nonzero writes places; index_offset. Row-major inputs. */
#include "backend_cpu/kernels.h"
#include "backend_cpu/rows.h"
#include "tern/op_attr.h"

typedef struct nonzero_job {
    const tern_view *x;
    const char *data;
    int64_t size;
    uint64_t mask; /* of an element's bits: the sign of a float says nothing about 0 */
    int64_t *counts;
    const int64_t *starts;
    int64_t *places;
} nonzero_job;

static nonzero_job job_of(const tern_view *x)
{
    const int64_t size = cpu_dtype_size(x->dtype);
    const uint64_t all = size == 8 ? ~UINT64_C(0) : (UINT64_C(1) << 8 * size) - 1;
    return (nonzero_job){ .x = x,
                          .data = x->data,
                          .size = size,
                          .mask = tern_dtype_is_float((tern_dtype_t)x->dtype) ? all >> 1 : all };
}

static int64_t chunk_end(const nonzero_job *job, int64_t chunk)
{
    const int64_t end = (chunk + 1) * TERN_NONZERO_CHUNK;
    return end < job->x->numel ? end : job->x->numel;
}

#define COUNT(T)                                                              \
    do {                                                                      \
        const T *p = (const T *)(const void *)job->data, mask = (T)job->mask; \
        for (int64_t i = begin; i < end; i++)                                 \
            count += (p[i] & mask) != 0;                                      \
    } while (0)

static int64_t count_chunk(const nonzero_job *job, int64_t begin, int64_t end)
{
    int64_t count = 0;
    if (job->size == 1)
        COUNT(uint8_t);
    else if (job->size == 2)
        COUNT(uint16_t);
    else if (job->size == 4)
        COUNT(uint32_t);
    else
        COUNT(uint64_t);
    return count;
}

static void count_chunks(void *context, int64_t begin, int64_t end)
{
    const nonzero_job *job = context;
    for (int64_t c = begin; c < end; c++)
        job->counts[c] = count_chunk(job, c * TERN_NONZERO_CHUNK, chunk_end(job, c));
}

tern_status_t cpu_nonzero_starts(const tern_call *call)
{
    nonzero_job job = job_of(call->in[0]);
    const int64_t chunks = call->out[0]->numel - 1;
    job.counts = call->out[0]->data;
    cpu_rows_run(call, job.x->numel * job.size, job.x->numel, chunks, 1, count_chunks, &job);
    int64_t before = 0;
    for (int64_t c = 0; c <= chunks; c++) {
        const int64_t count = c < chunks ? job.counts[c] : 0;
        job.counts[c] = before;
        before += count;
    }
    return TERN_OK;
}

/* ---- places ---------------------------------------------------------------------------------- */

enum { RUN = 512 };

/* Which of n elements from `begin` on are set; how many. Without a branch: a guess about the next would be
 * wrong often. `places` has room for n + 1. */
#define PLACES(T)                                                                     \
    do {                                                                              \
        const T *p = (const T *)(const void *)job->data + begin, mask = (T)job->mask; \
        for (int32_t i = 0; i < n; i++) {                                             \
            places[count] = i;                                                        \
            count += (p[i] & mask) != 0;                                              \
        }                                                                             \
    } while (0)

static int64_t find_set(const nonzero_job *job, int64_t begin, int32_t n, int32_t *places)
{
    int64_t count = 0;
    if (job->size == 1)
        PLACES(uint8_t);
    else if (job->size == 2)
        PLACES(uint16_t);
    else if (job->size == 4)
        PLACES(uint32_t);
    else
        PLACES(uint64_t);
    return count;
}

static void write_chunk(const nonzero_job *job, int64_t begin, int64_t end, int64_t *out)
{
    const tern_view *x = job->x;
    const int last = x->ndim - 1;
    int32_t places[RUN + 1];
    if (x->ndim == 0)
        return;
    for (int64_t i = begin; i < end;) {
        int64_t at[TERN_MAX_DIMS], rest = i;
        for (int d = last; d >= 0; d--) {
            at[d] = rest % x->shape[d];
            rest /= x->shape[d];
        }
        int64_t n = x->shape[last] - at[last]; /* of this row */
        n = n < end - i ? n : end - i;
        n = n < RUN ? n : RUN;
        const int64_t count = find_set(job, i, (int32_t)n, places);
        for (int64_t k = 0; k < count; k++) {
            for (int d = 0; d < last; d++)
                *out++ = at[d];
            *out++ = at[last] + places[k];
        }
        i += n;
    }
}

static void write_chunks(void *context, int64_t begin, int64_t end)
{
    const nonzero_job *job = context;
    for (int64_t c = begin; c < end; c++)
        if (job->starts[c] != job->starts[c + 1])
            write_chunk(job, c * TERN_NONZERO_CHUNK, chunk_end(job, c),
                        job->places + job->starts[c] * job->x->ndim);
}

tern_status_t cpu_nonzero(const tern_call *call)
{
    nonzero_job job = job_of(call->in[0]);
    job.starts = call->in[1]->data;
    job.places = call->out[0]->data;
    cpu_rows_run(call, job.x->numel * job.size + call->out[0]->numel * 8, job.x->numel,
                 call->in[1]->numel - 1, 1, write_chunks, &job);
    return TERN_OK;
}

/* ---- index_offset ---------------------------------------------------------------------------- */

tern_status_t cpu_index_offset(const tern_call *call)
{
    const tern_attr_dim *attr = call->attr;
    const int64_t *index = call->in[0]->data;
    const int64_t *sum = call->in[1] != NULL ? call->in[1]->data : NULL;
    int64_t *out = call->out[0]->data;
    for (int64_t i = 0; i < call->out[0]->numel; i++) {
        const int64_t k = index[i] < 0 ? index[i] + attr->size : index[i];
        if ((uint64_t)k >= (uint64_t)attr->size)
            return call->host->fail(
                TERN_ERR_INDEX,
                "index %lld at position %lld is outside dimension %d, which has %lld",
                (long long)index[i], (long long)i, attr->dim, (long long)attr->size);
        out[i] = (sum != NULL ? sum[i] * attr->size : 0) + k;
    }
    return TERN_OK;
}
