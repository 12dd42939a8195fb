/* flip, roll, pad: each dimension's map is at most three pieces in which the input runs forwards,
 * backwards or not at all; a piece of every dimension makes a block that is one strided copy. */
#include "backend_cpu/kernels.h"
#include "backend_cpu/strided.h"
#include "tern/op_attr.h"

/* Elements begin .. begin + count - 1 of the output are the input's from, from + step, ... */
typedef struct piece {
    int64_t begin, count, from;
    int step; /* -1, 0, 1 */
    bool value;
} piece;

enum { PIECES = 3 };

typedef struct remap_job {
    const tern_call *call;
    int64_t out_size; /* bytes of an element, on both sides */
    piece pieces[TERN_MAX_DIMS][PIECES];
    int counts[TERN_MAX_DIMS];
    char element[8]; /* what stands outside */
} remap_job;

/* Where a place outside of 0 .. n - 1 is found, and which way the input runs there. */
static piece outside_piece(int rule, int64_t place, int64_t n)
{
    const bool before = place < 0;
    switch (rule) {
    case TERN_OUTSIDE_REFLECT:
        return (piece){ .from = before ? -place : 2 * (n - 1) - place, .step = -1 };
    case TERN_OUTSIDE_NEAREST:
        return (piece){ .from = before ? 0 : n - 1, .step = 0 };
    case TERN_OUTSIDE_WRAP:
        return (piece){ .from = before ? place + n : place - n, .step = 1 };
    default:
        return (piece){ .value = true };
    }
}

static void add_piece(remap_job *job, int d, piece p, int64_t begin, int64_t count)
{
    p.begin = begin;
    p.count = count;
    if (count > 0)
        job->pieces[d][job->counts[d]++] = p;
}

static void find_pieces(remap_job *job, const tern_attr_remap *attr, int d, int64_t n)
{
    const int64_t size = attr->size[d], start = attr->start[d];
    if (attr->flipped >> d & 1u) {
        add_piece(job, d, (piece){ .from = n - 1, .step = -1 }, 0, size);
        return;
    }
    const int64_t left = start >= 0 ? 0 : -start < size ? -start : size;
    const int64_t last = n - start < size ? n - start : size; /* end of what is inside */
    const int64_t right = last > left ? last : left;
    add_piece(job, d, outside_piece(attr->outside[d], start, n), 0, left);
    add_piece(job, d, (piece){ .from = start + left, .step = 1 }, left, right - left);
    add_piece(job, d, outside_piece(attr->outside[d], start + right, n), right, size - right);
}

static void count_block(tern_view *v)
{
    v->flags = 0;
    v->numel = 1;
    for (int d = 0; d < v->ndim; d++)
        v->numel *= v->shape[d];
}

/* All of the pieces of dimensions d and up, inside of the block chosen so far. */
static void run_blocks(const remap_job *job, int d, const tern_view *out, const tern_view *in)
{
    if (d == out->ndim) {
        tern_view to = *out, from = *in;
        count_block(&to);
        count_block(&from);
        cpu_copy_views(&to, &from, job->call);
        return;
    }
    for (int i = 0; i < job->counts[d]; i++) {
        const piece *p = &job->pieces[d][i];
        tern_view to = *out, from = *in;
        to.data = (char *)out->data + p->begin * out->stride[d] * job->out_size;
        to.shape[d] = p->count;
        if (p->value) { /* whatever the dimensions behind say */
            count_block(&to);
            const tern_view value = { .data = (void *)(uintptr_t)job->element,
                                      .numel = 1,
                                      .dtype = out->dtype,
                                      .flags = TERN_VIEW_CONTIGUOUS | TERN_VIEW_DENSE };
            if (to.numel > 0)
                cpu_copy_views(&to, &value, job->call);
            continue;
        }
        from.data = (char *)in->data + p->from * in->stride[d] * job->out_size;
        from.shape[d] = p->count;
        from.stride[d] = p->step * in->stride[d];
        run_blocks(job, d + 1, &to, &from);
    }
}

static tern_status_t remap(const tern_call *call)
{
    const tern_view *out = call->out[0], *in = call->in[0];
    const tern_attr_remap *attr = call->attr;
    remap_job job = { .call = call, .out_size = cpu_dtype_size(out->dtype) };
    if (out->numel == 0)
        return TERN_OK;
    const bool whole = attr->value.kind != TERN_NUMBER_FLOAT;
    cpu_converter(out->dtype, whole ? TERN_I64 : TERN_F64)(
        job.element, whole ? (const void *)&attr->value.i : (const void *)&attr->value.f, 1);
    for (int d = 0; d < out->ndim; d++)
        find_pieces(&job, attr, d, in->shape[d]);
    run_blocks(&job, 0, out, in);
    return TERN_OK;
}

tern_status_t cpu_flip(const tern_call *call)
{
    return remap(call);
}

tern_status_t cpu_roll(const tern_call *call)
{
    return remap(call);
}

tern_status_t cpu_pad(const tern_call *call)
{
    return remap(call);
}
