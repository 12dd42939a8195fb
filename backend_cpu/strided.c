/* Gathering, scattering, and copies of inputs that are in the way. */
#include "backend_cpu/strided.h"

#include <stdlib.h>

void cpu_cursor_init(cpu_cursor *cursor, const cpu_walk *walk, int64_t index)
{
    cursor->walk = walk;
    for (int k = 0; k < walk->operands; k++)
        cursor->data[k] = walk->data[k];
    for (int d = 0; d < walk->ndim; d++) {
        cursor->at[d] = index % walk->shape[d];
        index /= walk->shape[d];
        for (int k = 0; k < walk->operands; k++)
            cursor->data[k] += cursor->at[d] * walk->stride[k][d];
    }
}

void cpu_cursor_advance(cpu_cursor *cursor, int64_t n)
{
    const cpu_walk *walk = cursor->walk;
    for (int d = 0; n > 0 && d < walk->ndim; d++) {
        int64_t to = cursor->at[d] + n;
        n = 0;
        if (to >= walk->shape[d] && d + 1 < walk->ndim) {
            n = to / walk->shape[d];
            to -= n * walk->shape[d];
        }
        for (int k = 0; k < walk->operands; k++)
            cursor->data[k] += (to - cursor->at[d]) * walk->stride[k][d];
        cursor->at[d] = to;
    }
}

/* ---- one operand of a walk ------------------------------------------------------------------- */

/* The rest of the place of one operand, moved on alone. */
typedef struct place {
    int64_t at[TERN_MAX_DIMS];
    char *data;
} place;

static void place_init(place *p, const cpu_cursor *cursor, int operand)
{
    for (int d = 0; d < cursor->walk->ndim; d++)
        p->at[d] = cursor->at[d];
    p->data = cursor->data[operand];
}

/* To the start of the next row, from `n` elements before its end. */
static void next_row(place *p, const cpu_walk *walk, int operand, int64_t n)
{
    const int64_t *stride = walk->stride[operand];
    p->data += (n - walk->shape[0]) * stride[0];
    p->at[0] = 0;
    for (int d = 1; d < walk->ndim; d++) {
        p->data += stride[d];
        if (++p->at[d] < walk->shape[d])
            return;
        p->data -= walk->shape[d] * stride[d];
        p->at[d] = 0;
    }
}

#define MOVE(T, to, to_stride, from, from_stride)                     \
    for (int64_t i = 0; i < n; i++) {                                 \
        T element;                                                    \
        memcpy(&element, (from) + i * (from_stride), sizeof element); \
        memcpy((to) + i * (to_stride), &element, sizeof element);     \
    }

static void move_elements(char *to, int64_t to_stride, const char *from, int64_t from_stride,
                          int64_t size, int64_t n)
{
    if (to_stride == size && from_stride == size) {
        memcpy(to, from, (size_t)(n * size));
    } else if (size == 4) {
        MOVE(uint32_t, to, to_stride, from, from_stride)
    } else if (size == 8) {
        MOVE(uint64_t, to, to_stride, from, from_stride)
    } else if (size == 2) {
        MOVE(uint16_t, to, to_stride, from, from_stride)
    } else {
        MOVE(uint8_t, to, to_stride, from, from_stride)
    }
}

/* Do the next n elements lie without gaps, in one row or in whole rows behind each other? */
static bool lies_plain(const cpu_cursor *cursor, int operand, int64_t size, int64_t n)
{
    const cpu_walk *walk = cursor->walk;
    const int64_t *stride = walk->stride[operand];
    int64_t extent = walk->shape[0], at = cursor->at[0];
    if (stride[0] != size)
        return false;
    for (int d = 1; extent - at < n; d++) {
        if (d == walk->ndim || stride[d] != extent * size)
            return false;
        at += cursor->at[d] * extent;
        extent *= walk->shape[d];
    }
    return true;
}

char *cpu_pack(const cpu_cursor *cursor, int operand, int64_t size, int64_t n, char *buffer)
{
    if (lies_plain(cursor, operand, size, n))
        return cursor->data[operand];
    const cpu_walk *walk = cursor->walk;
    const int64_t stride = walk->stride[operand][0];
    place p;
    place_init(&p, cursor, operand);
    for (char *to = buffer; n > 0;) {
        const int64_t left = walk->shape[0] - p.at[0];
        const int64_t count = left < n ? left : n;
        move_elements(to, size, p.data, stride, size, count);
        to += count * size;
        n -= count;
        next_row(&p, walk, operand, left);
    }
    return buffer;
}

char *cpu_unpack_place(const cpu_cursor *cursor, int operand, int64_t size, int64_t n, char *buffer)
{
    return lies_plain(cursor, operand, size, n) ? cursor->data[operand] : buffer;
}

void cpu_unpack(const cpu_cursor *cursor, int operand, int64_t size, int64_t n, const char *buffer)
{
    const cpu_walk *walk = cursor->walk;
    const int64_t stride = walk->stride[operand][0];
    place p;
    place_init(&p, cursor, operand);
    while (n > 0) {
        const int64_t left = walk->shape[0] - p.at[0];
        const int64_t count = left < n ? left : n;
        move_elements(p.data, stride, buffer, size, size, count);
        buffer += count * size;
        n -= count;
        next_row(&p, walk, operand, left);
    }
}

/* ---- inconvenient inputs --------------------------------------------------------------------- */

bool cpu_same_strides(const tern_view *a, const tern_view *b)
{
    if (a->flags & b->flags & TERN_VIEW_CONTIGUOUS)
        return true;
    if (a->ndim != b->ndim)
        return false;
    for (int d = 0; d < a->ndim; d++) {
        if (a->shape[d] != b->shape[d] || (a->shape[d] != 1 && a->stride[d] != b->stride[d]))
            return false;
    }
    return true;
}

bool cpu_lies_crosswise(const tern_view *out, const tern_view *in)
{
    enum { IN_CACHE = 1 << 15, LINE = 64 };
    const int64_t size = cpu_dtype_size(in->dtype);
    if (in->numel != out->numel || in->numel * size <= IN_CACHE ||
        (in->flags & out->flags & TERN_VIEW_CONTIGUOUS) != 0)
        return false;
    const tern_view *const views[2] = { out, in };
    cpu_walk walk;
    cpu_walk_init(&walk, 2, views);
    if (llabs(walk.stride[1][0]) < LINE)
        return false;
    for (int d = 1; d < walk.ndim; d++) {
        if (walk.stride[1][d] == size)
            return true;
    }
    return false;
}

static void make_row_major(tern_view *v)
{
    int64_t stride = 1;
    for (int d = v->ndim - 1; d >= 0; d--) {
        v->stride[d] = stride;
        stride *= v->shape[d];
    }
    v->flags = TERN_VIEW_CONTIGUOUS | TERN_VIEW_DENSE;
}

tern_status_t cpu_scratch_copy(const tern_call *call, const tern_view *in, const tern_view *like,
                               tern_view *out_copy)
{
    *out_copy = in->numel == like->numel ? *like : *in;
    out_copy->dtype = in->dtype;
    out_copy->data = call->host->scratch(call, in->numel * cpu_dtype_size(in->dtype));
    if (!out_copy->data)
        return TERN_ERR_OOM;
    if ((out_copy->flags & (TERN_VIEW_DENSE | TERN_VIEW_CONTIGUOUS)) == 0)
        make_row_major(out_copy);
    cpu_copy_views(out_copy, in, call);
    return TERN_OK;
}

void cpu_copy_row_major(const tern_view *out, void *data, int dtype, const tern_call *call)
{
    tern_view in = *out;
    in.data = data;
    in.dtype = (uint8_t)dtype;
    make_row_major(&in);
    cpu_copy_views(out, &in, call);
}
